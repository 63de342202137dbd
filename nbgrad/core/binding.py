"""How the arguments of a call become the inputs and the settings of a row."""

from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbgrad.core.op import Op


def bind(op: "Op", args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put names to arguments as Python would, with settings also by position as torch allows: ``x.sum(0)``."""
    arity = op.arity
    tensors, extra = list(args[:arity]), args[arity:]
    for position, name in enumerate(op.inputs[len(tensors) :], len(tensors)):
        if name not in settings and position < arity - op.optional:
            raise TypeError(f"{op.name}() needs {name!r}: its inputs are {', '.join(op.inputs)}")
        tensors.append(settings.pop(name, None))
    if extra and op.variadic:
        packed = extra[0] if len(extra) == 1 and isinstance(extra[0], list | tuple) else extra
        extra = (packed,)
    if len(extra) > len(op.defaults):
        raise TypeError(f"{op.name}() got {len(args)} arguments: {_usage(op)}")
    settings = {**dict(zip(op.defaults, extra, strict=False)), **settings}
    _rename(op, settings)
    for name, value in settings.items():
        if name not in op.defaults:
            raise TypeError(f"{op.name}() got an unexpected argument {name!r}: {_usage(op)}")
        if isinstance(value, list):
            settings[name] = tuple(value)
    if missing := [name for name, value in op.defaults.items() if value is Parameter.empty and name not in settings]:
        raise TypeError(f"{op.name}() needs {', '.join(map(repr, missing))}: {_usage(op)}")
    return tuple(tensors), settings


def _rename(op: "Op", settings: dict[str, Any]) -> None:
    """Give settings that numpy calls otherwise torch's name, as torch does."""
    for alias, name in (("axis", "dim"), ("keepdims", "keepdim")):
        if alias in settings and name in op.defaults and name not in settings and alias not in op.defaults:
            settings[name] = settings.pop(alias)


def _usage(op: "Op") -> str:
    settings = f", *, {', '.join(op.defaults)}" if op.defaults else ""
    return f"its signature is {op.name}({', '.join(op.inputs)}{settings})"
