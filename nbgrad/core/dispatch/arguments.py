"""The binding of a call's arguments to the inputs and settings of a row."""

import warnings
from collections.abc import Callable, Iterable
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, isfunction, signature
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import OpInfo, TensorBase

TORCHS = {
    "A": ("input",),
    "B": ("input", "b"),
    "L": ("input2",),
    "a": ("input",),
    "b": ("other", "exponent"),
    "indices_or_sections": ("indices", "sections", "tensor_indices_or_sections"),
    "other": ("input3",),
    "split_size_or_sections": ("split_size",),
    "tau": ("input2",),
    "tensor": ("input",),
    "x": ("input",),
}
"""torch's names for those inputs that have other names in a row, such as the letters of its formula."""

NUMPYS = {"dim": ("axis",), "input": ("x", "a", "x1"), "keepdim": ("keepdims",), "other": ("x2",)}
"""numpy's names of torch's arguments: torch's own parser accepts them in all functions that it parses for."""


class Parameters(NamedTuple):
    """The parameters of a function. Without a default they have ``Parameter.empty``.

    Attributes:
        positional: those that may be given by position, with their defaults.
        listed: the name of ``*args``, if there is one.
        named: those that are given by name only, with their defaults.
    """

    positional: dict[str, Any]
    listed: str | None
    named: dict[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Parameters":
        """Those of ``function``, without annotations.

        ``signature`` makes objects of all that it reads. For the forwards and rules of the table that took 28 ms at
        each import.
        """
        if not isfunction(function) or vars(function):  # its signature is perhaps another function's
            shown = signature(function).parameters.values()
            return cls(
                {one.name: one.default for one in shown if one.kind <= Parameter.POSITIONAL_OR_KEYWORD},
                next((one.name for one in shown if one.kind is Parameter.VAR_POSITIONAL), None),
                {one.name: one.default for one in shown if one.kind is Parameter.KEYWORD_ONLY},
            )
        code, defaults = function.__code__, function.__defaults__ or ()
        count, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        values = [Parameter.empty] * (count - len(defaults)) + [*defaults]
        given = function.__kwdefaults__ or {}
        return cls(
            dict(zip(code.co_varnames[:count], values, strict=True)),
            code.co_varnames[end] if code.co_flags & CO_VARARGS else None,
            {name: given.get(name, Parameter.empty) for name in code.co_varnames[count:end]},
        )


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters, as ``signature`` gives them."""
    if isfunction(function) and not vars(function) and not function.__code__.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        code = function.__code__
        return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return list(signature(function).parameters)


def other_names(parameters: Iterable[str]) -> dict[str, str]:
    """Other names of parameters, each with the row's own name: torch's, and those of numpy that torch accepts."""
    own = tuple(parameters)
    found: dict[str, str] = {}
    for name in own:
        for torchs in (name, *TORCHS.get(name, ())):
            for other in (torchs, *NUMPYS.get(torchs, ())):
                if other not in own:
                    found.setdefault(other, name)
    return found


def renamed(settings: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return ``settings`` under the row's own names. A second name for one setting stays: it is refused later."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        own = names.get(name, name)
        found[name if own in settings or own in found else own] = value
    return found


def bind(op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], OpInfo]:
    """Bind arguments to names as Python does. Settings may stand by position too, as in torch: ``x.sum(0)``.

    Returns:
        The inputs, the settings, and the row to run: for a list of tensors, the row of its length.
    """
    if settings:
        settings = renamed(settings, op.other_names())
    if op.arity < 0:
        op, args = _of_its_length(op, args, settings)
    if len(args) > op.arity:
        args, settings = _by_position(op, args, settings)
        if bound(op, 0, settings):  # true for most calls of a view
            return args, settings, op
    tensors = _inputs(op, args, settings)
    if settings.pop("out", None) is not None:
        raise NotImplementedError(NO_OUT.format(called=op.name))
    for name, value in settings.items():
        if name not in op.defaults:
            raise TypeError(f"{op.name}() got an unexpected argument {name!r}: {_usage(op)}")
        if unbound(value):
            settings[name] = _plain(op, name, value)
    if missing := [name for name, value in op.defaults.items() if value is Parameter.empty and name not in settings]:
        raise TypeError(f"{op.name}() needs {', '.join(map(repr, missing))}: {_usage(op)}")
    return tuple(tensors), settings, op


def bound(op: OpInfo, missing: int, settings: dict[str, Any]) -> bool:
    """Whether all required inputs are given by position, and the settings need no conversion.

    Args:
        op: the row.
        missing: the number of inputs that were not given by position.
        settings: the arguments given by name.
    """
    if missing < 0 or missing > op.optional:
        return False
    for name, value in settings.items():
        if name not in op.defaults or unbound(value):
            return False
    return not op.required or op.required.issubset(settings)  # quicker than the comparison of sets


def _by_position(op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split ``args`` into inputs and settings; return the inputs, and all settings."""
    arity, defaults = op.arity, op.defaults
    if is_outdated(op, args):
        args = _in_order(op, args)
    extra = args[arity:]
    if op.variadic and not (len(extra) == 1 and isinstance(extra[0], list | tuple)):
        extra = (extra,)
    if len(extra) > len(defaults):
        raise TypeError(f"{op.name}() got {len(args)} arguments: {_usage(op)}")
    found = {}
    for position, name in enumerate(defaults):
        if position == len(extra):
            break
        if name in settings:
            raise TypeError(f"{op.name}() got multiple values for argument {name!r}: {_usage(op)}")
        found[name] = extra[position]
    found.update(settings)
    return args[:arity], found


_SCALED = (["alpha"], ["value"])
"""The only setting of an op whose factor older torch took after the first tensor: the others are multiplied by it."""


def is_outdated(op: OpInfo, args: tuple[Any, ...]) -> bool:
    """Whether a factor comes before the last tensor, as in ``x.add_(-rate, g)``: older torch took it there."""
    scales = len(args) == op.arity + 1 > 2 and [*op.defaults] in _SCALED
    return scales and isinstance(args[1], int | float | complex)


def _in_order(op: OpInfo, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``args`` of an outdated call with the factor at the end, where torch has it now. Warn."""
    first, number, *others = args
    place, last = user_place(), f"{next(iter(op.defaults))}={number!r}"
    text = f"{op.name}() takes its factor as the last argument: write {op.name}(..., {last})"
    warnings.warn_explicit(text, UserWarning, place.file, place.line)
    return (first, *others, number)


def unbound(value: Any) -> bool:
    """Whether a setting needs conversion: a list, a tensor, a number of numpy's, or a tuple with one of these."""
    if isinstance(value, TensorBase) or isinstance(value, _NUMPYS):  # noqa: SIM101  # two quick looks in compiled code
        return True
    if type(value) is tuple:
        for one in value:  # any() takes a generator, which compiled functions do not have
            if isinstance(one, TensorBase) or isinstance(one, _NUMPYS):  # noqa: SIM101
                return True
    return isinstance(value, list)


_NUMPYS = np.generic  # looked up for every setting


def unchanging(value: Any) -> bool:
    """Whether ``value`` can never change and holds no tensor: None, a number, a text, a dtype, or a tuple of these.

    The devices, layouts and memory formats of torch are like its dtypes.
    """
    kind = type(value)
    if kind is tuple:
        parts: tuple[Any, ...] = value
        for one in parts:  # noqa: SIM110  # compiled, a generator costs more than the loop
            if not unchanging(one):
                return False
        return True
    return value is None or kind is int or kind is bool or kind is float or kind in _UNCHANGING


def all_unchanging(settings: dict[str, Any]) -> bool:
    """Whether none of the ``settings`` can change, and none holds a tensor."""
    for value in settings.values():  # noqa: SIM110  # compiled, a generator costs more than the loop
        if not unchanging(value):
            return False
    return True


_UNCHANGING = frozenset({complex, str, torch.device, torch.dtype, torch.layout, torch.memory_format})


def _plain(op: OpInfo, name: str, value: Any) -> Any:
    """Convert a setting: a list to a tuple, a number of numpy's to Python's, and a tensor to its value.

    A rule reads the setting later, when the tensor may have been changed.
    """
    if isinstance(value, list | tuple):
        return tuple([_plain(op, name, one) for one in value])
    if isinstance(value, _NUMPYS):
        return value.item()
    if not isinstance(value, TensorBase):
        return value
    data: Any = value._data
    if data.ndim:
        raise TypeError(f"{op.name}(): {name} is a tensor of shape {tuple(data.shape)}, not a number: {_usage(op)}")
    if value._needs_grad:
        raise TypeError(f"{op.name}(): {name} needs a gradient, which would be lost in a setting: pass t.item()")
    return data.item()


def _inputs(op: OpInfo, given: tuple[Any, ...], settings: dict[str, Any]) -> list[Any]:
    """The inputs by position. Those that ``settings`` has by name are taken out of it."""
    tensors = list(given)
    for position, name in enumerate(op.inputs[len(given) :], len(given)):
        if name not in settings and position < op.arity - op.optional:
            raise TypeError(f"{op.name}() needs {name!r}: its inputs are {', '.join(op.inputs)}")
        tensors.append(settings.pop(name, None))
    return tensors


NO_OUT = (
    "{called} takes no out= on an nbgrad tensor: its result is a new tensor with a history of its own. Use that "
    "tensor, or copy it into another one with t.copy_()"
)


def _of_its_length(op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[OpInfo, tuple[Any, ...]]:
    """The row for the length of the list in ``args``, and the arguments with the tensors of the list one by one."""
    single = len(op.inputs)
    before, rest = args[:single], args[single:]
    if op.listed in settings:
        members = tuple(settings.pop(op.listed))
    elif rest and isinstance(rest[0], list | tuple):
        members, rest = tuple(rest[0]), rest[1:]
    else:  # cartesian_prod(a, b) as torch has it
        members, rest = rest, ()
    return op.of(len(members)), (*before, *members, *rest)


def _usage(op: OpInfo) -> str:
    settings = f", *, {', '.join(op.defaults)}" if op.defaults else ""
    return f"its signature is {op.name}({', '.join(op.inputs)}{settings})"
