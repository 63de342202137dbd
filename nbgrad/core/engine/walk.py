"""Walks through what was recorded: each thing once, whatever leads from one to the next."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from nbgrad.core.engine.node import Node, Origin, Output

T = TypeVar("T")


def reached(starts: Iterable[T], onward: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The ``starts`` and all that is reached from them, each once; ``onward`` gives the next ones of each.

    The next ones of a thing are asked for when the loop that takes it comes back for another one.
    """
    waiting, seen = list(starts), set[T]()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield one
            waiting += onward(one)


def node_of(origin: Origin | None) -> Node | None:
    """The op that made the tensor of ``origin``; None for a leaf or a constant."""
    return origin.node if isinstance(origin, Output) else origin if isinstance(origin, Node) else None


def nodes_before(made: Any) -> list[Any]:
    """The nodes of torch's that lead to ``made``, which is one of torch's, too."""
    return [one for one, _ in made.next_functions if one is not None]
