"""The ready readers: the engines whose objects are known by the names of their attributes. None is imported."""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.drawing.part import NUMBERS, Part, UnreadableError, shown

ARRAYS = (np.ndarray, torch.Tensor)
"""The types of arrays. An array among parents is a constant."""


class Engine(NamedTuple):
    """How the objects of an engine are known and read.

    Attributes:
        knows: whether an object is one of its, from names alone: no code of the object runs.
        read: makes the part of such an object.
    """

    knows: Callable[[object], bool]
    read: Callable[[Any], Part]


def engine_of(thing: object) -> Engine | None:
    """The ready reader that knows an object; None if none does."""
    if issubclass(type(thing), _NO_OBJECTS):  # isinstance would ask the object for its class
        return None
    return next((one for one in ENGINES if one.knows(thing)), None)


_NO_OBJECTS = (type, *NUMBERS, *ARRAYS, str, bytes, list, tuple, dict, set, type(None))
"""The types of values that are no objects of an engine."""


def has(thing: object, name: str) -> bool:
    """Whether an object has an attribute, as far as that is known without running code of its class."""
    try:
        if name in object.__getattribute__(thing, "__dict__"):
            return True
    except AttributeError:  # its class has slots
        pass
    for cls in type(thing).__mro__:  # noqa: SIM110  # a generator takes twice as long
        if name in cls.__dict__:
            return True
    return False


def _first(thing: object, names: Iterable[str]) -> str | None:
    """The first of these names that the object has as an attribute."""
    return next((name for name in names if has(thing, name)), None)


def _read(thing: object, name: str | None) -> Any:
    """An attribute, or the result of a method without arguments; None where there is none."""
    if name is None:
        return None
    found = getattr(thing, name)
    return found() if isinstance(found, MethodType) and found.__self__ is thing else found


# --- numbers ---------------------------------------------------------------------------------------------------------

_INSIDE = ("cached_data", "_tensor", "_value", "value", "data")
"""Attributes with which an engine's object holds its numbers, in the order in which they are tried."""


def numbers_in(thing: Any) -> Any:
    """The numbers that an object holds: a gradient is often an object of the engine again."""
    for _ in range(_NESTED):
        if thing is None or isinstance(thing, (*NUMBERS, *ARRAYS, list, tuple)):
            return thing
        if has(thing, "_storage") and has(thing, "_shape"):
            return _strided(thing)
        inside = _first(thing, _INSIDE)
        if inside is not None and engine_of(thing) is not None:
            thing = _read(thing, inside)
        elif (way := _first(thing, ("to_numpy", "numpy"))) is not None:
            thing = getattr(thing, way)()
        elif has(thing, "__array__"):
            return np.asarray(thing)
        elif inside is not None:
            thing = _read(thing, inside)
        else:
            return thing
    return thing


_NESTED = 5
"""How many objects stand around numbers at most."""


def _strided(data: Any) -> np.ndarray[Any, Any]:
    """The numbers of minitorch's ``TensorData``: one row of memory, a shape and strides, which count elements."""
    memory, shape = np.asarray(data._storage).reshape(-1), tuple(map(int, data._shape))
    strides = tuple(int(step) for step in data._strides)
    places = np.zeros(shape, int)
    for dim, (size, step) in enumerate(zip(shape, strides, strict=True)):
        places += (np.arange(size) * step).reshape([-1 if at == dim else 1 for at in range(len(shape))])
    return memory[places]


# --- the names of ops ------------------------------------------------------------------------------------------------

_SYMBOLS = {
    "add": "+", "radd": "+", "iadd": "+", "sub": "-", "rsub": "-", "mul": "*", "rmul": "*", "truediv": "/",
    "rtruediv": "/", "pow": "**", "rpow": "**", "matmul": "@", "rmatmul": "@", "neg": "neg", "abs": "abs",
    "getitem": "getitem",
}  # fmt: skip
"""The methods of operators, without their underscores, and the operators."""


def op_name(op: Any) -> str | None:
    """The name of an op: a text, a class or a function has one, and an object that of its class; None if it is none."""
    if op is None or (isinstance(op, str) and not op.strip()):
        return None
    if isinstance(op, str):
        return op.strip()
    if isinstance(op, Enum):
        return op.name
    name = getattr(op, "__name__", None)
    return name if isinstance(name, str) else type(op).__name__


def _made_in(rule: Any) -> str | None:
    """The method in which a gradient rule was written: ``Value.__mul__.<locals>.<lambda>`` is that of ``*``."""
    outer, inside, _ = str(getattr(rule, "__qualname__", "")).rpartition(".<locals>.")
    name = outer.rpartition(".")[2]
    if not inside or name in ("__init__", "<locals>"):
        return None
    plain = re.fullmatch(r"__(\w+)__", name)
    return _SYMBOLS.get(plain[1], plain[1]) if plain else name


def _exponent(name: str | None) -> Mapping[str, Any]:
    """The setting in a name such as "**2" of micrograd."""
    found = re.fullmatch(r"(?:\*\*|\^|pow)\s*\(?(-?\d+(?:\.\d+)?(?:e-?\d+)?)\)?", name or "")
    if found is None:
        return {}
    number = float(found[1])
    return {"exponent": int(number) if number.is_integer() and "." not in found[1] else number}


# --- objects with the usual names: the protocol, micrograd, lesson 3, most engines of students -----------------------

_PARENTS = ("parents", "_parents", "_prev", "prev", "_children", "children")
_VALUES = ("value", "data")
_GRADIENTS = ("gradient", "grad", "derivative")
_OPS = ("op", "_op")
_NAMES = ("name", "label")
_RULES = ("rule", "_backward", "backward_fn", "_backward_fn", "grad_fn", "_grad_fn", "vjp")
_SETTINGS = ("settings", "attrs", "kwargs")


def _has_usual_names(thing: object) -> bool:
    known = all(_first(thing, names) is not None for names in (_PARENTS, _VALUES))
    return known and _first(thing, (*_GRADIENTS, *_OPS)) is not None


def _usual(thing: Any) -> Part:
    found = _read(thing, _first(thing, _PARENTS))
    rule = getattr(thing, _first(thing, _RULES) or "", None)
    parents = _in_order(found, rule, thing) if isinstance(found, set | frozenset) else flat(found)
    name = op_name(_read(thing, _first(thing, _OPS)))
    settings = _read(thing, _first(thing, _SETTINGS))
    told = dict(settings) if isinstance(settings, Mapping) else {}
    if parents:
        name = name or _made_in(rule) or _UNNAMED
        told = {**_exponent(name), **told}
    elif getattr(thing, "requires_grad", None) is False:
        told["requires_grad"] = False
    return Part(
        source=thing,
        op=name if parents else None,
        parents=parents,
        value=numbers_in(_read(thing, _first(thing, _VALUES))),
        gradient=numbers_in(_read(thing, _first(thing, _GRADIENTS))),
        name=text_or_none(_read(thing, _first(thing, _NAMES))),
        settings=MappingProxyType(told),
    )


_UNNAMED = "op"
"""The name of an op whose engine gives it none."""


def text_or_none(name: Any) -> str | None:
    """A name, if it is a text that is not empty."""
    return name if isinstance(name, str) and name.strip() else None


def flat(parents: Any) -> tuple[object, ...]:
    """The parents as a tuple: lists among them are taken apart, and a None stands for an input that was left out.

    Raises:
        UnreadableError: they are no list of objects.
    """
    if parents is None:
        return ()
    if isinstance(parents, Mapping):
        parents = parents.values()
    if isinstance(parents, str) or not isinstance(parents, Iterable):
        raise UnreadableError(f"parents: expected a tuple of objects, got {shown(parents)}")
    found: list[object] = []
    for one in parents:
        if isinstance(one, list | tuple):
            found += flat(one)
        elif one is not None:
            found.append(one)
    return tuple(found)


def _in_order(parents: "set[Any] | frozenset[Any]", rule: Any, thing: object) -> tuple[object, ...]:
    """The parents in a set, which has lost their order, and that ``x * x`` has two: the closure of the rule has both.

    The method of an op has ``self`` first. If the closure lacks a parent, the order is that of the set, which is none.
    """
    code, cells = getattr(rule, "__code__", None), getattr(rule, "__closure__", None) or ()
    names = getattr(code, "co_freevars", ())
    held: list[tuple[bool, object]] = []
    for name, cell in zip(names, cells, strict=True):
        try:
            inside = cell.cell_contents
        except ValueError:  # it is empty
            continue
        many = inside if isinstance(inside, list | tuple) else (inside,)
        held += [(name != "self", one) for one in many if one is not thing and any(one is known for known in parents)]
    ordered = tuple(one for _, one in sorted(held, key=lambda pair: pair[0]))
    return ordered if {id(one) for one in ordered} == {id(one) for one in parents} else tuple(parents)


# --- minitorch -------------------------------------------------------------------------------------------------------


def _is_minitorch(thing: object) -> bool:
    return has(thing, "history") and (has(thing, "derivative") or has(thing, "_derivative") or has(thing, "_tensor"))


_ARGUMENTS = {
    "Sum": "dim", "Mean": "dim", "Max": "dim", "All": "dim", "Permute": "order", "View": "shape", "Softmax": "dim",
}  # fmt: skip
"""The functions of minitorch whose second argument is no operand, and what it is."""


def _minitorch(thing: Any) -> Part:
    history = thing.history
    function = getattr(history, "last_fn", None)
    name = op_name(function)
    inputs = flat(getattr(history, "inputs", ())) if name is not None else ()
    settings: dict[str, Any] = {}
    if name in _ARGUMENTS and len(inputs) > 1:
        settings[_ARGUMENTS[name]] = numbers_in(inputs[1]) if len(inputs) == 2 else inputs[1:]
        inputs = inputs[:1]
    if not inputs and history is None:
        settings["requires_grad"] = False  # a leaf that learns has an empty history
    held = thing._tensor if has(thing, "_tensor") else thing.data
    gradient = _first(thing, ("grad", "derivative", "_derivative"))
    return Part(
        source=thing,
        op=name if inputs else None,
        parents=inputs,
        value=numbers_in(held),
        gradient=numbers_in(getattr(thing, gradient) if gradient is not None else None),
        name=_own_name(thing),
        settings=MappingProxyType(settings),
    )


def _own_name(thing: Any) -> str | None:
    """Its name, unless it is only the number that minitorch gives to each object."""
    name = text_or_none(getattr(thing, "name", None))
    given = {str(getattr(thing, number, None)) for number in ("unique_id", "_id", "_unique_id")}
    return None if name is None or name in given or re.fullmatch(r"(?:Variable|Scalar|Tensor)?\d+", name) else name


# --- needle ----------------------------------------------------------------------------------------------------------


def _is_needle(thing: object) -> bool:
    return all(has(thing, name) for name in ("op", "inputs", "cached_data"))


def _needle(thing: Any) -> Part:
    if thing.cached_data is None:
        raise UnreadableError(
            f"{type(thing).__name__} made by {op_name(thing.op)} is not computed yet: call realize_cached_data() on "
            "the result first"
        )
    op, told = thing.op, dict[str, Any]()
    inputs: tuple[Any, ...] = () if op is None else flat(thing.inputs)
    if len(inputs) == 1 and (place := _member_place(thing, inputs[0])) is not None:
        op, told["index"] = inputs[0].op, place  # one of the results of an op that has several
        inputs = flat(inputs[0].inputs)
    parents = _unbundled(inputs)
    told |= vars(op) if parents and hasattr(op, "__dict__") else {}
    if not parents and getattr(thing, "requires_grad", None) is False:
        told["requires_grad"] = False
    return Part(
        source=thing,
        op=op_name(op) if parents else None,
        parents=parents,
        value=numbers_in(thing.cached_data),
        gradient=numbers_in(getattr(thing, "grad", None)),
        name=text_or_none(getattr(thing, "name", None)),
        settings=MappingProxyType(told),
    )


def _members(thing: Any) -> tuple[Any, ...]:
    """The arrays that needle's tuple of tensors holds; empty if the object holds a single array."""
    held = getattr(thing, "cached_data", None)
    return held if isinstance(held, tuple) and not all(isinstance(one, NUMBERS) for one in held) else ()


def _member_place(thing: Any, bundle: Any) -> int | None:
    """The place of a tensor in a tuple of tensors; None if it was not taken from it."""
    return next((at for at, one in enumerate(_members(bundle)) if one is thing.cached_data), None)


def _unbundled(inputs: Iterable[Any]) -> tuple[Any, ...]:
    """The inputs with the tensors in the place of a tuple that only holds them together, as for the op that stacks."""
    found: list[Any] = []
    for one in inputs:
        members, inside = _members(one), getattr(one, "inputs", ())
        holds = bool(members) and len(members) == len(inside)
        if holds and all(a is getattr(b, "cached_data", None) for a, b in zip(members, inside, strict=True)):
            found += inside
        else:
            found.append(one)
    return tuple(found)


# --- tensors with the function that made them, as in the first tinygrad ----------------------------------------------


def _has_context(thing: object) -> bool:
    return has(thing, "_ctx") and _first(thing, ("data", "lazydata")) is not None


def _with_context(thing: Any) -> Part:
    try:
        context = thing._ctx
    except AttributeError:
        raise UnreadableError(
            f"{shown(thing)} has lost its graph: its engine deletes it in the backward. Draw it before the backward"
        ) from None
    parents = flat(getattr(context, "parents", ())) if context is not None else ()
    told = _settings_in(context) if parents else {}
    if not parents and getattr(thing, "requires_grad", None) is False:
        told["requires_grad"] = False
    value = thing.numpy() if has(thing, "lazydata") and has(thing, "numpy") else _read(thing, "data")
    return Part(
        source=thing,
        op=op_name(context) if parents else None,
        parents=parents,
        value=numbers_in(value),
        gradient=numbers_in(getattr(thing, "grad", None)),
        name=text_or_none(getattr(thing, "name", None)),
        settings=MappingProxyType(told),
    )


_NO_SETTINGS = ("parents", "saved_tensors", "device", "needs_input_grad", "requires_grad")
"""Other attributes of the object of a function, which are no arguments."""


def _settings_in(context: Any) -> dict[str, Any]:
    """The arguments that the object of a function keeps: an axis, a shape, an order."""
    held = getattr(context, "__dict__", {})
    return {name: one for name, one in held.items() if name not in _NO_SETTINGS and is_plain(one)}


def is_plain(setting: object) -> bool:
    """Whether a setting is worth a line: numbers, texts, and tuples of them."""
    if isinstance(setting, list | tuple):
        return all(map(is_plain, setting))
    return isinstance(setting, str | bool | int | float)


ENGINES: tuple[Engine, ...] = (
    Engine(_is_minitorch, _minitorch),
    Engine(_is_needle, _needle),
    Engine(_has_context, _with_context),
    Engine(_has_usual_names, _usual),
)
"""The engines, those with the rarest names first."""
