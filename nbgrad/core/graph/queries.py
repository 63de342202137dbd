"""Questions about the structure of a graph, answered by rustworkx, and removal of nodes and edges."""

from abc import abstractmethod

import rustworkx
import torch
from rustworkx.visit import BFSVisitor

from nbgrad.core.engine.torch_origins import TENSORS, known_id
from nbgrad.core.graph.record import Record
from nbgrad.core.no_gc import uncollected
from nbgrad.core.tensor.tensor import Tensor

Subject = Tensor | torch.Tensor | Record | int
"""The subject of a question: a tensor, its record, or the id of the record."""


class _Way(BFSVisitor):
    """For each node, the one from which a breadth-first search first came to it.

    rustworkx's own functions for shortest paths compute all paths at once.
    """

    def __init__(self) -> None:
        self.before: dict[int, int] = {}

    def tree_edge(self, edge: tuple[int, int, int]) -> None:
        """The search goes on along ``edge``."""
        self.before[edge[1]] = edge[0]


class Queries:
    """Questions about a graph of records, and cuts in it: each names a tensor, a record or an id.

    They all raise ``KeyError`` if the graph has no record of what they are asked about.
    """

    name: str

    @property
    @abstractmethod
    def records(self) -> list[Record]:
        """Every record in an order that has sources before results."""

    @abstractmethod
    def _take_out(self, ids: set[int], edges: set[tuple[int, int]]) -> None:
        """Take records out, by id, and edges, by the id of the op and the position of the input."""

    @property
    @uncollected
    def rx(self) -> "rustworkx.PyDiGraph[Record, int]":
        """The graph poured into rustworkx: a ``Record`` per node, the position of the input on each edge.

        Edges lead from a source to the results computed from it; ``x * x`` makes two parallel ones. The index of a node
        is the place of its record in ``records``. Each call pours a new graph, so it may be changed at will.
        """
        records = self.records
        poured: rustworkx.PyDiGraph[Record, int] = rustworkx.PyDiGraph(multigraph=True)
        poured.add_nodes_from(records)
        poured.extend_from_weighted_edge_list(_edges(records))  # type: ignore[misc]  # its stub asks for nodes that may be None
        return poured

    def record(self, subject: Subject) -> Record:
        """The record of a tensor, or that with an id."""
        records = self.records
        return records[self._index(subject, records)]

    def delete_node(self, subject: Subject) -> None:
        """Take a record, and its edges, out of the graph: it is neither drawn nor found again.

        Only the recorded graph changes, never a tensor, and no backward takes notice. All other records keep their ids;
        the inputs that came from this record have no source any more.

        Raises:
            KeyError: the graph has no record of ``subject``.
        """
        self._take_out({self.record(subject).id}, set())

    def delete_edge(self, source: Subject, result: Subject, input: int | None = None) -> None:
        """Take the edges from ``source`` to ``result`` out of the graph, as ``delete_node`` takes a node.

        Args:
            source: where they come from.
            result: the op that took it as an input.
            input: the position of the one input to cut; default: every one, both of ``x * x``.

        Raises:
            KeyError: the graph has no such edge.
        """
        above, below = self.record(source), self.record(result)
        cut = {
            (below.id, position)
            for position, taken in enumerate(below.parents)
            if taken == above.id and input in (None, position)
        }
        if not cut:
            where = "" if input is None else f" at input {input}"
            raise KeyError(f"{self.name!r} has no edge from {above} to {below}{where}")
        self._take_out(set(), cut)

    def check_cycle(self) -> bool:
        """Whether the graph has a cycle, which no program can record."""
        records = self.records
        places = {record.id: place for place, record in enumerate(records)}
        if all(places.get(source, -1) < place for place, record in enumerate(records) for source in record.sources):
            return False  # sources first: this is checked faster than rustworkx gets the graph
        return not rustworkx.is_directed_acyclic_graph(self.rx)

    def reverse_toposort(self) -> list[Record]:
        """Every record, results before what they were computed from: the order in which a backward visits the ops."""
        return self.records[::-1]

    def reverse_toposort_from(self, subject: Subject) -> list[Record]:
        """Like ``reverse_toposort``, but only ``subject`` and what it was computed from."""
        return [self.record(subject), *reversed(self.ancestors(subject))]

    def ancestors(self, subject: Subject) -> list[Record]:
        """Everything that ``subject`` was computed from, itself left out, sources first."""
        poured = self.rx
        return [poured[index] for index in sorted(rustworkx.ancestors(poured, self._index(subject, poured.nodes())))]

    def descendants(self, subject: Subject) -> list[Record]:
        """Everything that was computed from ``subject``, itself left out, sources first."""
        poured = self.rx
        return [poured[index] for index in sorted(rustworkx.descendants(poured, self._index(subject, poured.nodes())))]

    def path(self, a: Subject, b: Subject) -> list[Record] | None:
        """A shortest way from ``a`` to ``b``, both included; None if ``b`` was not computed from ``a``."""
        poured = self.rx
        start, end = self._index(a, poured.nodes()), self._index(b, poured.nodes())
        if start == end:
            return [poured[start]]
        way = _Way()
        rustworkx.bfs_search(poured, [start], way)
        if end not in way.before:
            return None
        steps = [end]
        while steps[-1] != start:
            steps.append(way.before[steps[-1]])
        return [poured[index] for index in reversed(steps)]

    def _index(self, subject: Subject, records: list[Record]) -> int:
        """The place of ``subject`` among ``records``."""
        if isinstance(subject, TENSORS):
            wanted = known_id(subject)
        else:
            wanted = subject.id if isinstance(subject, Record) else int(subject)
        for index, record in enumerate(records):
            if record.id == wanted:
                return index
        what = f"this tensor of shape {tuple(subject.shape)}" if isinstance(subject, TENSORS) else repr(subject)
        raise KeyError(f"{self.name!r} has no record of {what}")


def _edges(records: list[Record]) -> list[tuple[int, int, int]]:
    """For each input that came from a record: the place of that record, the place of its op, and its position there."""
    places = {record.id: place for place, record in enumerate(records)}
    edges = []
    for target, record in enumerate(records):
        for position, source in enumerate(record.parents):
            place = None if source is None else places.get(source)
            if place is not None:
                edges.append((place, target, position))
    return edges
