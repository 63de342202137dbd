"""``Outline``: a description whose details are written when they are drawn.

Writing the details, heat maps, sums and steps of everything takes ten times as long as all that folding needs.
"""

import pickle
import zlib
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol, Self

from nbgrad.core.graph.stats import Stats
from nbgrad.core.no_gc import uncollected
from nbgrad.widgets.description.copies import hubs
from nbgrad.widgets.description.ids import copy_id
from nbgrad.widgets.description.repeats import Run, alike, runs
from nbgrad.widgets.description.rows import rows_in
from nbgrad.widgets.description.schema import Description, Edge, Node, Reduction
from nbgrad.widgets.description.tensor_summary import seen, smaller
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.description.walk import Stop, handed_on, ran

LOOK = 60
"""The most boxes that are all drawn at first; a tensor that is drawn once per use counts once per use."""

LOOPED = 40
"""The most boxes among which no loop is looked for: more have no room beside a side panel."""

_TOGETHER = 64
"""This many unwritten texts are compressed together: the nodes of a module are neighbours, so few groups are read."""

_fields = attrgetter(*Stats.__slots__)


class Rests(Protocol):
    """The unwritten texts of an outline, by the id of the node or of the edge with a reduction."""

    def get(self, id: str) -> Any:
        """The unwritten texts of ``id``: ``told()`` writes them, and ``step()`` those of a step; or None."""

    def __contains__(self, id: object) -> bool:
        """Whether something is still to be written of ``id``."""


class Outline:
    """The parts of a graph that folding, placing and the table read; the other texts are written when they are needed.

    It holds numbers of one moment, and neither a tensor nor the graph.

    Args:
        description: without steps, and without the details, looks and sums that are in ``rests``.
        rests: the texts that are not written yet, by the ids of nodes and of edges with a reduction.
        walk: the stops of the drawn graph; None if every op whose rules ran is a stop.
        runs: the runs of equal module calls; looked for on request where they are not known.
        settled: the scopes that are folded at first because nothing in them is worth a look.

    Attributes:
        chosen: a place for the choices of foldings, so that each is made once.
    """

    def __init__(
        self,
        description: Description,
        rests: Rests,
        walk: list[Stop] | None = None,
        runs: list[Run] | None = None,
        settled: frozenset[str] = frozenset(),
    ) -> None:
        self.description = description
        self.rests = rests
        self.walk = walk
        self._runs = runs
        self.settled = settled
        self.chosen: dict[object, Any] = {}

    @classmethod
    def of(cls, graph: "Description | Outline") -> "Outline":
        """The outline of ``graph``: an outline is returned as it is, and a description has all its texts already."""
        if isinstance(graph, Outline):
            return graph
        return cls(graph, dict[str, Any](), list(map(Stop.of_written, graph["steps"])))

    @cached_property
    def tree(self) -> Tree:
        """The tree of the scopes and nodes, which is built once."""
        return Tree(self.description)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of equal module calls, which are looked for once."""
        return runs(self.tree) if self._runs is None else self._runs

    @cached_property
    def alike(self) -> Callable[[str], list[str]]:
        """For a module call: those like it, itself included."""
        return alike(self.tree)

    @cached_property
    def hubs(self) -> dict[str, int]:
        """How often each tensor is used that is drawn once per use."""
        return hubs(self.description)

    @cached_property
    def rows(self) -> dict[str, str]:
        """The tensors that are rows in the box of an op, each with this op; looked for once."""
        return rows_in(self.tree)

    def filled(self) -> Self:
        """The same outline, with the answers to all that folding asks: it only chooses."""
        _ = self.runs, self.alike, self.hubs, self.rows
        return self

    def stops(self, nodes: list[Node] | None = None, edges: list[Edge] | None = None) -> list[Stop]:
        """The stops of the walk; if not known yet, they are made from ``nodes`` and the gradients along ``edges``."""
        if self.walk is not None:
            return self.walk
        nodes = self.description["nodes"] if nodes is None else nodes
        into = handed_on(self.description["edges"] if edges is None else edges)
        return [Stop.of(node, into.get(node["id"], [])) for node in reversed(nodes) if ran(node)]

    def stopped(self) -> list[str]:
        """The nodes of the stops, in their order."""
        if self.walk is not None:
            return [stop.step["node"] for stop in self.walk]
        return [node["id"] for node in reversed(self.description["nodes"]) if ran(node)]

    def changed(self, description: Description, walk: list[Stop] | None = None) -> "Outline":
        """The outline with another ``description`` that has some of its nodes and edges, and with ``walk`` if given.

        A node may have copies. The first one has its unwritten texts.
        """
        return Outline(description, self.rests, self.walk if walk is None else walk)

    def noted(self, note: str) -> "Outline":
        """The same with one more note."""
        noted: Description = {**self.description, "notes": [*self.description["notes"], note]}
        return Outline(noted, self.rests, self.walk, self._runs, self.settled)

    def detail(self, ids: Collection[str] | None = None) -> Description:
        """The description with all texts of its nodes, edges and steps. Texts that are written already stay.

        Args:
            ids: write the details of these nodes alone.
        """
        nodes = [self._node(node) if ids is None or node["id"] in ids else node for node in self.description["nodes"]]
        if ids is not None:
            return {**self.description, "nodes": nodes}
        said: dict[str, dict[str, Any]] = {}

        def step(id: str) -> dict[str, Any] | None:
            if id not in said and id in self.rests:
                said[id] = self.rests.get(id).step()
            return said.get(id)

        return {
            **self.description,
            "nodes": nodes,
            "edges": list(map(self._edge, self.description["edges"])),
            "steps": [stop.written(step) for stop in self.stops()],
        }

    def _node(self, node: Node) -> Node:
        id = node["id"]
        of = self.description["copies"].get(id, id)
        first = of == id or id == copy_id(of, 1)
        return self._told(node, of) if first and of in self.rests else node

    def _edge(self, edge: Edge) -> Edge:
        reduction: Reduction | None = edge["reduction"]
        if reduction is None or edge["id"] not in self.rests:
            return edge
        return {**edge, "reduction": self._told(reduction, edge["id"])}

    def _told(self, thing: Any, id: str) -> Any:
        return thing | {key: seen(said) for key, said in self.rests.get(id).told().items()}

    @uncollected
    def put_away(self) -> bytes:
        """The outline in a few bytes, which hold no tensor and nothing of its graph.

        The unwritten texts are stored beside it, so that a reader of the outline reads only those of the drawn parts.
        """
        walks = {node["id"] for node in self.description["nodes"] if ran(node)}
        ids = [thing["id"] for thing in (*self.description["nodes"], *self.description["edges"])]
        ids = [id for id in ids if id in self.rests]
        laid = []
        for id in ids:
            rest = self.rests.get(id)
            laid.append({key: _packed(said) for key, said in rest.told().items()})
            if id in walks:
                laid[-1]["step"] = rest.step()
        shelves = [laid[at : at + _TOGETHER] for at in range(0, len(laid), _TOGETHER)]
        bare = (self.description, self.walk, self.runs, self.settled, ids)
        return _pickled([zlib.compress(_pickled(part), 6) for part in (bare, *shelves)])

    @classmethod
    @uncollected
    def taken_out(cls, data: bytes) -> Self:
        """The outline in bytes that ``put_away`` made."""
        bare, *shelves = pickle.loads(data)
        description, walk, runs, settled, ids = pickle.loads(zlib.decompress(bare))
        return cls(description, _Shelves(ids, shelves), walk, runs, settled)


class _Shelves:
    """The unwritten texts of an outline that was put away; those compressed together are inflated together."""

    def __init__(self, ids: list[str], deflated: list[bytes]) -> None:
        self._places = {id: place for place, id in enumerate(ids)}
        self._deflated = deflated
        self._open: dict[int, list[dict[str, Any]]] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def get(self, id: str) -> "_StoredRest | None":
        """As ``Rests`` says."""
        if id not in self._places:
            return None
        shelf, place = divmod(self._places[id], _TOGETHER)
        if shelf not in self._open:
            self._open[shelf] = pickle.loads(zlib.decompress(self._deflated[shelf]))
        return _StoredRest(self._open[shelf][place])


class _StoredRest:
    """The unwritten texts of one node or reduction of an outline that was put away."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    def told(self) -> dict[str, Any]:
        """The texts of the node or the reduction."""
        return {key: _unpacked(said) for key, said in self._said.items() if key != "step"}

    def step(self) -> dict[str, Any]:
        """The text of the step of the node."""
        step: dict[str, Any] = self._said["step"]
        return step


def _pickled(thing: object) -> bytes:
    return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)


def _packed(said: Any) -> Any:
    """Statistics as the tuple of their fields, or only of the fields that are shown.

    The lowest and the highest number are left out if they follow from the numbers and are not 0: 0 and -0 are equal.
    """
    said = smaller(said)
    if not isinstance(said, Stats):
        return said
    known = said.raw is not None and not (said.nan or said.inf or said.magnitudes) and said.low and said.high
    return _fields(replace(said, low=None, high=None) if known else said)


def _unpacked(said: Any) -> Any:
    if not isinstance(said, tuple):
        return said
    stats = Stats(*said)
    if stats.mean is None or stats.low is not None:
        return stats
    array = stats.array
    assert array is not None
    return replace(stats, low=float(array.min()), high=float(array.max()))
