"""``read``: the graph of somebody else's engine as plain parts, in one order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

_NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Part:
    """One object of an engine: a leaf, or the result of an op.

    Attributes:
        source: the object itself.
        op: the name that its engine gives to the op, such as "+" or "matmul"; None for a leaf.
        parents: the objects that it was computed from, in the order of the arguments. A plain number among them stands
            for itself, and has no part of its own.
        value: a number, an array of numpy, a tensor of torch, a list of numbers, or a ``Form`` where only the shape is
            known; None where nothing is.
        gradient: the same kinds; None where there is none.
        name: the name that its engine gives to it, such as the label of a leaf.
        settings: the arguments of the op that are no parents, such as an exponent or an axis.
    """

    source: object
    op: str | None
    parents: tuple[object, ...]
    value: Any
    gradient: Any | None = None
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: _NO_SETTINGS)


@dataclass(frozen=True)
class Form:
    """The shape and the element type of a value whose numbers are not known, as in a traced program.

    Attributes:
        shape: the sizes of its dimensions.
        dtype: the name of its element type, such as "float32".
    """

    shape: tuple[int, ...]
    dtype: str


class UnreadableError(TypeError):
    """An object from which no graph can be read. The message says why, and how to make it readable."""


class GraphCycleError(ValueError):
    """An object was computed from itself. The message names it."""


Reader = Callable[[Any], Part | None]
"""A function that reads an object, or answers None if it is of an engine that it does not know."""

LIMIT = 1_000_000
"""A graph with more objects is not read: an engine that makes new parents whenever it is asked has no end."""

NUMBERS = (bool, int, float, complex, np.generic)
"""Types of numbers: as parents they stand for themselves."""

_registered: dict[type, Reader] = {}


def reader(cls: type) -> Callable[[Reader], Reader]:
    """Register a function that reads the objects of a class and of its subclasses, as a decorator.

    ::

        @nbgrad.drawing.reader(Node)
        def read_node(node):
            return nbgrad.drawing.Part(node, node.kind, tuple(node.inputs), node.output, node.adjoint)

    Args:
        cls: the class. The last reader of a class replaces an earlier one; that of a subclass comes first.

    Raises:
        TypeError: ``cls`` is no class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"reader: expected a class, got {cls!r}: write @reader(Node) above the function")

    def register(function: Reader) -> Reader:
        _registered[cls] = function
        return function

    return register


def read(root: object) -> list[Part]:
    """The objects of which ``root`` was computed, each once, parents before their children, ``root`` last.

    Args:
        root: an object of an engine, or a list or tuple of them.

    Raises:
        UnreadableError: an object that no reader knows; or one that raises an error when it is read.
        GraphCycleError: an object that was computed from itself.
    """
    from nbgrad.drawing.engines import roots_of

    parts: dict[int, Part] = {}
    for one in roots_of(root):
        _read_from(one, parts)
    return list(parts.values())


def _read_from(root: object, parts: dict[int, Part]) -> None:
    """Add the parts of ``root`` to those that are known, by the ``id`` of their objects, parents first."""
    if id(root) in parts:
        return
    open_ids: dict[int, str] = {}
    stack: list[tuple[Part, Iterator[object]]] = []

    def enter(thing: object) -> None:
        part = part_of(thing)
        open_ids[id(thing)] = type(thing).__name__
        stack.append((part, iter(part.parents)))
        if len(parts) + len(stack) > LIMIT:
            raise UnreadableError(
                f"{shown(root)} has more than {LIMIT:,} ancestors. If this engine makes new objects whenever it is "
                "asked for parents, have it give the same ones"
            )

    enter(root)
    while stack:
        part, rest = stack[-1]
        for parent in rest:
            if isinstance(parent, NUMBERS) or id(parent) in parts:
                continue
            if id(parent) in open_ids:
                raise GraphCycleError(_cycle(parent, [one.source for one, _ in stack]))
            enter(parent)
            break
        else:
            stack.pop()
            del open_ids[id(part.source)]
            parts[id(part.source)] = part


def _cycle(thing: object, path: list[object]) -> str:
    start = next(at for at, one in enumerate(path) if one is thing)
    ring = [shown(one) for one in path[start:]]
    way = " <- ".join([*ring[:4], *(["..."] if len(ring) > 4 else []), ring[0]])
    return f"{shown(thing)} was computed from itself: {way}. A graph of ops has no cycle: check the parents of these"


def part_of(thing: object) -> Part:
    """The part of one object, by the reader of its class, or else by the first ready reader that knows it.

    Raises:
        UnreadableError: no reader knows it, or reading it raises an error.
    """
    from nbgrad.drawing.engines import READERS

    for cls in type(thing).__mro__:
        if cls in _registered:
            return _checked(_called(_registered[cls], thing), thing)
    for ready in READERS:
        part = _called(ready, thing)
        if part is not None:
            return _checked(part, thing)
    raise UnreadableError(_unknown(thing))


def is_known(thing: object) -> bool:
    """Whether a reader knows this object. It may be asked of any object: no property of an unknown class runs."""
    from nbgrad.drawing.engines import knows

    return any(cls in _registered for cls in type(thing).__mro__) or knows(thing)


def _called(function: Reader, thing: object) -> Part | None:
    try:
        return function(thing)
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(
            f"{shown(thing)} cannot be read: {type(error).__name__} was raised: {error}. Its parents, op, value and "
            "gradient must be readable after the forward"
        ) from error


def _checked(part: Part | None, thing: object) -> Part:
    if not isinstance(part, Part):
        raise UnreadableError(f"the reader of {type(thing).__name__} has to return a Part, but returned {part!r}")
    if part.source is not thing:
        raise UnreadableError(
            f"the reader of {type(thing).__name__} has to return a Part whose source is {shown(thing)}"
        )
    return part


def shown(thing: object) -> str:
    """A short name of an object for messages. Its ``repr`` may run any code, so it may fail."""
    kind = type(thing).__name__
    try:
        text = " ".join(repr(thing).split())
    except Exception:  # the object is broken, and this is the message that says so
        return f"a {kind}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown(thing: object) -> str:
    return (
        f"{shown(thing)} is a {type(thing).__module__}.{type(thing).__qualname__}, from which nbgrad reads no graph. "
        "Give its class the attributes or methods parents (a tuple of the objects that it was computed from, empty for "
        "a leaf), op (the name of the op), value (a number or an array) and gradient (the same, or None); or register "
        "a function that reads it: @nbgrad.drawing.reader(TheClass)"
    )
