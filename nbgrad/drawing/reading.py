"""``read``: the graph of somebody else's engine as plain parts, in one order."""

from collections.abc import Callable, Iterator
from typing import Any

from nbgrad.core.engine.torch_origins import TENSORS
from nbgrad.drawing.engines import ARRAYS, engine_of
from nbgrad.drawing.part import (
    NUMBERS,
    AbstractValue,
    GraphCycleError,
    Part,
    UnreadableError,
    shown,
)
from nbgrad.drawing.programs import ForeignProgram, program_of

__all__ = [
    "AbstractValue",
    "GraphCycleError",
    "Part",
    "UnreadableError",
    "is_known",
    "part_of",
    "read",
    "read_roots",
    "reader",
]

Reader = Callable[[Any], Part]
"""A function that reads an object."""

LIMIT = 1_000_000
"""A graph with more objects is not read: an engine that makes new parents whenever it is asked has no end."""

_registered: dict[type, Reader] = {}


def reader(cls: type) -> Callable[[Reader], Reader]:
    """Register a function that reads the objects of a class and of its subclasses, as a decorator.

    Example:
        >>> @nbgrad.drawing.reader(Node)
        ... def read_node(node):
        ...     return nbgrad.drawing.Part(node, node.kind, tuple(node.inputs), node.output, node.adjoint)

    Args:
        cls: the class. The last reader of a class replaces an earlier one; that of a subclass is asked first.

    Raises:
        TypeError: ``cls`` is no class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"reader: expected a class, got {cls!r}: write @nbgrad.drawing.reader(Node) above the function")

    def register(function: Reader) -> Reader:
        _registered[cls] = function
        return function

    return register


def read(root: object) -> list[Part]:
    """The objects of which ``root`` was computed, each once, parents before their children, ``root`` last.

    Args:
        root: an object of an engine; a list or tuple of them; or a whole program: a ``jaxpr``, a graph of ``torch.fx``,
            or one that HIPS autograd has traced.

    Raises:
        UnreadableError: an object that no reader knows; or one that raises an error when it is read.
        GraphCycleError: an object that was computed from itself.
    """
    return read_roots(root)[0]


def read_roots(root: object) -> tuple[list[Part], list[object]]:
    """As ``read``, together with the objects at which a backward begins.

    Raises:
        UnreadableError, GraphCycleError: as ``read`` says.
    """
    if isinstance(root, list | tuple) and not root:
        raise UnreadableError("draw: expected an object of an engine or a list of them, got an empty list")
    parts: dict[int, Part] = {}
    results: list[object] = []
    for one in root if isinstance(root, list | tuple) else [root]:
        program = _program(one)
        if program is None:
            _read_from(one, parts)
            results.append(one)
        else:
            _add_program(program.parts, parts)
            results += program.results
    return list(parts.values()), results


def _program(root: object) -> ForeignProgram | None:
    if _own_reader(root) is not None:
        return None
    found: ForeignProgram | None = _called(program_of, root)
    return found


def _add_program(found: list[Part], parts: dict[int, Part]) -> None:
    """Add the parts of a program, and the arrays among their parents."""
    for part in found:
        for parent in part.parents:
            if isinstance(parent, ARRAYS) and id(parent) not in parts:
                parts[id(parent)] = _constant(parent)
        parts[id(part.source)] = part


def _read_from(root: object, parts: dict[int, Part]) -> None:
    """Add the parts of ``root`` to those that are known, by the ``id`` of their objects, parents first."""
    if id(root) in parts:
        return
    entered: set[int] = set()
    stack: list[tuple[Part, Iterator[object]]] = []

    def enter(thing: object) -> None:
        part = part_of(thing, of=root)
        entered.add(id(thing))
        stack.append((part, iter(part.parents)))
        if len(parts) + len(stack) > LIMIT:
            raise UnreadableError(
                f"{shown(root)} has more than {LIMIT:,} ancestors. If its engine makes new objects whenever it is "
                "asked for parents, have it give the same ones"
            )

    enter(root)
    while stack:
        part, rest = stack[-1]
        for parent in rest:
            if isinstance(parent, NUMBERS) or id(parent) in parts:
                continue
            if id(parent) in entered:
                raise GraphCycleError(_cycle(parent, [one.source for one, _ in stack]))
            if isinstance(parent, ARRAYS) and not isinstance(parent, TENSORS[:1]):
                parts[id(parent)] = _constant(parent)
                continue
            enter(parent)
            break
        else:
            stack.pop()
            entered.discard(id(part.source))
            parts[id(part.source)] = part


def _constant(array: object) -> Part:
    return Part(array, None, (), array, settings={"requires_grad": False})


def _cycle(thing: object, path: list[object]) -> str:
    start = next(at for at, one in enumerate(path) if one is thing)
    ring = [shown(one) for one in path[start:]]
    way = " <- ".join([*ring[:4], *(["..."] if len(ring) > 4 else []), ring[0]])
    return f"{shown(thing)} was computed from itself: {way}. A graph of ops has no cycle: check the parents of these"


def part_of(thing: object, of: object = None) -> Part:
    """The part of one object, by the reader of its class, or else by the first ready reader that knows it.

    Args:
        thing: the object.
        of: the object whose graph is read, for the message.

    Raises:
        UnreadableError: no reader knows it, or reading it raises an error.
    """
    own = _own_reader(thing)
    if own is None and isinstance(thing, TENSORS):
        raise UnreadableError(
            f"{shown(thing)} is a tensor that nbgrad records itself: put %%autograd on the first line of the cell, or "
            "compute it inside nbgrad.record()"
        )
    if own is None and (engine := engine_of(thing)) is not None:
        own = engine.read
    if own is None:
        raise UnreadableError(_unknown(thing, of))
    part = _called(own, thing)
    if not isinstance(part, Part) or part.source is not thing:
        raise UnreadableError(
            f"the reader of {type(thing).__name__} has to return a Part whose source is the object that it got, but "
            f"returned {shown(part)} for {shown(thing)}"
        )
    return part


def _own_reader(thing: object) -> Reader | None:
    """The reader that was registered for its class."""
    return next((_registered[cls] for cls in type(thing).__mro__ if cls in _registered), None)


def is_known(thing: object) -> bool:
    """Whether a reader knows this object. It may be asked of any object: no code of its class runs."""
    return _own_reader(thing) is not None or engine_of(thing) is not None


def _called(function: Callable[[Any], Any], thing: object) -> Any:
    """The answer of a reader; an error of the object's own becomes one that names the object."""
    try:
        return function(thing)
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(
            f"{shown(thing)} cannot be read: {type(error).__name__}: {error}. Its parents, op, value and gradient "
            "have to be readable after the forward"
        ) from error


def _unknown(thing: object, of: object) -> str:
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}".removeprefix("builtins.")
    where = "" if of is None or of is thing else f", a parent in the graph of {shown(of)},"
    return (
        f"no graph can be read from {shown(thing)}{where} of class {kind}. Give its class the attributes or methods "
        "parents (a tuple of the objects that it was computed from, empty for a leaf), op (the name of the op), value "
        "(a number or an array) and gradient (the same, or None); or register a function that reads it, with "
        "@nbgrad.drawing.reader(cls)"
    )
