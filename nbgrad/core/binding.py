"""How the arguments of a call become the inputs and the settings of a row."""

from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbgrad.core.row import Op


TORCHS = {
    "A": ("input",),
    "a": ("input",),
    "b": ("other", "exponent"),
    "tensor": ("input",),
    "x": ("input",),
}
"""What torch calls an input that a row calls as formulas do."""


def bind(op: "Op", args: tuple[Any, ...], settings: dict[str, Any]) -> "tuple[tuple[Any, ...], dict[str, Any], Op]":
    """Put names to arguments as Python would, with settings also by position as torch allows: ``x.sum(0)``.

    Returns:
        The inputs, the settings, and the row to run: for a list of tensors that of its length.
    """
    if op.arity < 0:
        op, args = _of_its_length(op, args, settings)
    arity = op.arity
    extra = args[arity:]
    tensors = _inputs(op, args[:arity], settings)
    if settings.pop("out", None) is not None:
        raise NotImplementedError(NO_OUT.format(called=op.name))
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
    return tuple(tensors), settings, op


def _inputs(op: "Op", given: tuple[Any, ...], settings: dict[str, Any]) -> list[Any]:
    """The inputs by position: those given so, and those that stand in ``settings`` by name, which they leave."""
    tensors = list(given)
    for position, name in enumerate(op.inputs[len(given) :], len(given)):
        names = (name, *(theirs for theirs in TORCHS.get(name, ()) if theirs not in op.defaults))
        found = next((one for one in names if one in settings), name)
        if found not in settings and position < op.arity - op.optional:
            raise TypeError(f"{op.name}() needs {name!r}: its inputs are {', '.join(op.inputs)}")
        tensors.append(settings.pop(found, None))
    return tensors


NO_OUT = (
    "{called} takes no out= on an nbgrad tensor: its result is a new tensor, which remembers how it was made. Use "
    "that, or write it into another with t.copy_()"
)


def _of_its_length(op: "Op", args: tuple[Any, ...], settings: dict[str, Any]) -> "tuple[Op, tuple[Any, ...]]":
    """The row for the list of tensors among ``args``, and the arguments with its tensors one by one."""
    single = len(op.inputs)
    before, rest = args[:single], args[single:]
    if op.listed in settings:
        members = tuple(settings.pop(op.listed))
    elif rest and isinstance(rest[0], list | tuple):
        members, rest = tuple(rest[0]), rest[1:]
    else:  # cartesian_prod(a, b) as torch has it
        members, rest = rest, ()
    return op.of(len(members)), (*before, *members, *rest)


def _rename(op: "Op", settings: dict[str, Any]) -> None:
    """Give settings that numpy calls otherwise torch's name, as torch does."""
    for alias, name in (("axis", "dim"), ("keepdims", "keepdim")):
        if alias in settings and name in op.defaults and name not in settings and alias not in op.defaults:
            settings[name] = settings.pop(alias)


def _usage(op: "Op") -> str:
    settings = f", *, {', '.join(op.defaults)}" if op.defaults else ""
    return f"its signature is {op.name}({', '.join(op.inputs)}{settings})"
