"""``Legacy``: the facts that a closed graph leaves of ops whose results live, for a backward in a later graph.

A notebook computes the loss in one cell and calls ``backward()`` in the next. Each cell has its own graph, and the
graph of the second cell takes over the facts of the first.
"""

from collections.abc import Container, Iterable
from typing import Any
from weakref import ref

import torch

from nbgrad.core.engine import walk
from nbgrad.core.engine.node import Leaf, Node, record_id
from nbgrad.core.graph.facts import NOTHING, Outer, Ran, facts_of
from nbgrad.core.graph.record import described
from nbgrad.core.graph.stats import Stats

_CPU = torch.device("cpu")

node_of = walk.node_of


class Legacy:
    """The facts of the ops of one closed graph whose results lived when it closed, and of the inputs of these ops.

    Only the nodes of these ops hold it, so it is gone as soon as no result of the graph lives. It holds no tensor.

    Attributes:
        title: what a picture calls the graph: its cell, or its name.
        ops, outer: the facts, by id.
        names: the user's names, by id.
        things: as ``Notes.things``.
        values: the statistics of the values, by id.
    """

    __slots__ = ("__weakref__", "names", "ops", "outer", "things", "title", "values")

    def __init__(
        self,
        title: str,
        ops: "dict[int, Ran]",
        outer: "dict[int, Outer]",
        names: dict[int, str],
        things: "dict[int, ref[Any]]",
        values: dict[int, Stats],
    ) -> None:
        self.title = title
        self.ops = ops
        self.outer = outer
        self.names = names
        self.things = things
        self.values = values

    def leave(self) -> None:
        """Let the nodes of the ops hold it; those of an older graph still hold the one of that graph."""
        for ran in self.ops.values():
            node: Any = ran.thing()
            if node is not None and getattr(node, "past", None) is None:
                node.past = self


def led_to(nodes: Iterable[Node], known: Container[int]) -> list[Node]:
    """The ``nodes`` and all that led to them, the oldest first, but for those with ``known`` ids."""

    def unknown(nodes: Iterable[Node | None]) -> list[Node]:
        return [node for node in nodes if node is not None and node.seq not in known]

    found = walk.reached(unknown(nodes), lambda node: unknown(map(node_of, node.edges)))
    return sorted(found, key=lambda node: node.seq)


def remade(node: Node, device: torch.device | None) -> Ran:
    """The facts of an op that no graph recorded, as far as its node has them: no module, and no constants.

    Args:
        node: of the op.
        device: of an input of it, if that is known.
    """
    if getattr(node, "place", None) is None:
        node.place = None  # type: ignore[assignment]  # its line is not known
    settings = {name: described(value) for name, value in node.settings.items()}
    sources = tuple([NOTHING if edge is None else record_id(edge) for edge in node.edges])
    return facts_of(node, node.device or device or _CPU, settings, sources, None)


def leaf_facts(leaf: Leaf) -> Outer:
    """The facts of a leaf that an op used which no graph recorded."""
    return Outer(leaf.kind, tuple(leaf.shape), leaf.dtype, leaf.device or _CPU, thing=leaf.ref, name=leaf.name)
