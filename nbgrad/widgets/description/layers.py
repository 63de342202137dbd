"""Layers: a linear map or a norm, and the activation that alone takes its result, belong together."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Literal

from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.grouping import Group, grouped
from nbgrad.widgets.description.repeats import Run
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.tree import Tree

LayerPart = Literal["map", "activation"]
"""A part of a layer: a linear map or a norm, whose weights it learns; or an activation."""


def layer_parts(records: list[Record], ids: Mapping[int, str]) -> dict[str, LayerPart]:
    """The nodes of the ops that may be parts of a layer, by the id of their node."""
    shapes = {record.id: record.shape for record in records}
    found: dict[str, LayerPart] = {}
    for record in records:
        traits = traits_of(record.op)
        if traits.multiplies and traits.units is not None:
            found[ids[record.id]] = "map"
        elif record.op is not None and len(record.parents) == 1 and not traits.moves and not record.several:
            (source,) = record.parents
            if source is not None and shapes.get(source) == record.shape:
                found[ids[record.id]] = "activation"
    return found


def layered(
    description: Description, runs: list[Run], parts: Mapping[str, LayerPart], sizes: Mapping[str, int], *, told: bool
) -> Description:
    """The description with a scope for each layer: maps, such as a convolution and its norm, and then an activation.

    What repeats is left alone: its box says that it does.

    Args:
        description: of a whole graph.
        runs: its runs of equal calls.
        parts: the ops that may be parts of a layer.
        sizes: how many numbers each parameter has.
        told: whether the boxes of scopes say how many bytes they keep.
    """
    if "activation" not in parts.values():
        return description
    return grouped(description, _Finder(Tree(description), runs, parts, sizes).groups(), told=told)


class _Finder:
    """Finds the layers of a graph."""

    def __init__(self, tree: Tree, runs: list[Run], parts: Mapping[str, LayerPart], sizes: Mapping[str, int]) -> None:
        self._tree, self._parts, self._sizes = tree, parts, sizes
        self._repeated = {one for run in runs for calls, ids in run.repeated for one in (*calls, *ids)}
        edges = tree.description["edges"]
        self._readers = Counter([edge["source"] for edge in edges])
        self._taken: defaultdict[str, list[str]] = defaultdict(list)
        for edge in edges:
            self._taken[edge["target"]].append(edge["source"])

    def groups(self) -> list[Group]:
        """The layers, in the order of their activations."""
        found: list[Group] = []
        for node in self._tree.description["nodes"]:
            if self._parts.get(node["id"]) != "activation":
                continue
            ops = [node["id"]]
            while (before := self._map(ops[0])) is not None and self._beside(self._unit(before), self._unit(ops[0])):
                ops.insert(0, before)
            if len(ops) > 1:
                found.append(self._group(ops))
        return found

    def _map(self, node: str) -> str | None:
        """The map whose result the op of ``node`` takes, if nothing else takes it, or a parameter of the map."""
        maps = [one for one in self._taken[node] if self._parts.get(one) == "map"]
        if len(maps) != 1 or self._tree.nodes[maps[0]]["root"]:
            return None
        own = [maps[0], *(one for one in self._taken[maps[0]] if one in self._sizes)]
        return maps[0] if all(self._readers[one] == 1 for one in own) else None

    def _unit(self, node: str) -> str:
        """The outermost call in which this op is alone; or the op, if there is none."""
        unit = node
        for scope in self._tree.outwards(self._tree.nodes[node]["scope"]):
            if self._tree.ops[scope] > 1 or self._tree.scopes[scope]["kind"] != "module":
                break
            unit = scope
        return unit

    def _beside(self, one: str, other: str) -> bool:
        """Whether two units are beside each other, and repeat nowhere."""
        return self._around(one) == self._around(other) and self._repeated.isdisjoint((one, other))

    def _around(self, unit: str) -> str | None:
        return self._tree.parents[unit] if unit in self._tree else self._tree.nodes[unit]["scope"]

    def _group(self, ops: list[str]) -> Group:
        tree, units = self._tree, [self._unit(op) for op in ops]
        scopes = [unit for unit in units if unit in tree]
        kinds = [tree.scopes[unit]["like"] if unit in tree else tree.nodes[unit]["op"] or "" for unit in units]
        own = dict.fromkeys([one for op in ops for one in self._taken[op] if one in self._sizes])
        ends = [tree.scopes[unit]["name"] for unit in (*scopes[:1], *scopes[-1:])]
        names = " … ".join(filter(None, dict.fromkeys(ends)))
        weights = f"{counted(len(own), 'parameter')} ({sum(map(self._sizes.__getitem__, own)):,})" if own else ""
        folds = ": ".join(filter(None, [names, weights])) or counted(len(units), "op")
        nodes = [unit for unit in units if unit not in tree]
        return Group("layer", ", ".join(kinds), folds, self._around(units[0]), scopes, nodes)
