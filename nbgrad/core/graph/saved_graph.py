"""``SavedGraph``: a graph that was read from a file."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

from nbgrad.core.graph.changes import Since
from nbgrad.core.graph.checkup import Checkup
from nbgrad.core.graph.compilation import Compilation
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.memory import MemoryUse
from nbgrad.core.graph.queries import Queries
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.renderer import Drawable
from nbgrad.core.graph.saved_facts import SavedFacts
from nbgrad.core.graph.slowest import By, Slowest, Times, slowest


class SavedGraph(Queries, Drawable):
    """A graph that ``nbgrad.load`` has read from a file: it can be drawn, queried and compared, and never changes.

    Its properties and methods are those of the ``AutogradGraph`` that was saved. It has no tensors, so it cannot be run
    again with other numbers, does not find all numbers of a large tensor, and takes neither overlays nor answers.

    Args:
        facts: what the file says.
        picture: makes the outline of its picture from the graph, when it is first drawn.
        file: the path of the file.
    """

    def __init__(self, facts: SavedFacts, picture: "Callable[[SavedGraph], Any]", file: str) -> None:
        self.facts = facts
        self.name = facts.name
        self.file = file
        self._picture = picture
        self.left_out = facts.left_out
        self.backwards = facts.backwards
        self.recorded = facts.recorded
        self.watch = facts.watch
        self.fault = facts.fault
        self.frame = facts.frame
        self.ending = facts.ending
        self.history = facts.history
        self.update = facts.update

    @cached_property
    def outline(self) -> Any:
        """The outline of its picture, as it was when the graph was saved."""
        return self._picture(self)

    closed = True

    @property
    def records(self) -> list[Record]:
        """As ``AutogradGraph.records``: those of the picture, with all their statistics."""
        return list(self.facts.recorded_ones)

    def snapshot(self) -> list[Record]:
        """As ``records``."""
        return self.records

    @property
    def answers(self) -> dict[str, None]:
        """No answers: a graph that asks for gradients is not saved."""
        return {}

    @property
    def losses(self) -> list[BackwardLoss]:
        """As ``AutogradGraph.losses``."""
        return list(self.facts.losses)

    @property
    def since(self) -> dict[int, Since]:
        """As ``AutogradGraph.since``."""
        return {record.id: told for record in self.facts.records if (told := record.since) is not None}

    @property
    def memory(self) -> MemoryUse:
        """As ``AutogradGraph.memory``.

        Raises:
            RuntimeError: it was not known when the graph was saved.
        """
        found = self.known_memory()
        if found is None:
            raise RuntimeError(f"{self.file}: {self.name!r} did not know what its ops kept for the last backward")
        return found

    def known_memory(self) -> MemoryUse | None:
        """The same; None if it is not known."""
        kept, times = self.facts.kept, self.facts.times
        seconds = {id: one.forward for id, one in times.items() if one.forward is not None}
        return None if kept is None else MemoryUse(self.facts.records, kept, self.facts.optimizer, seconds)

    @property
    def compilation(self) -> Compilation:
        """As ``AutogradGraph.compilation``.

        Raises:
            RuntimeError: the graph did not watch torch's compiler.
        """
        if self.facts.compilation is None:
            raise RuntimeError(
                f"{self.file}: {self.name!r} did not watch torch's compiler: record it with inside_compiled=True"
            )
        return self.facts.compilation

    def inside(self, id: int) -> list[Record]:
        """As ``AutogradGraph.inside``.

        Raises:
            KeyError, RuntimeError: as there.
        """
        return self.compilation.inside(id, self.drawn)

    @property
    def drawn(self) -> list[Record]:
        """As ``AutogradGraph.drawn``."""
        return list(self.facts.records)

    @property
    def times(self) -> dict[int, Times]:
        """As ``TimedGraph.times``; empty if the graph had no clock."""
        return dict(self.facts.times)

    def slowest(self, by: By = "call") -> Slowest:
        """As ``TimedGraph.slowest``.

        Raises:
            ValueError: ``by`` is something else.
            RuntimeError: the graph had no clock.
        """
        if not self.facts.times:
            raise RuntimeError(f"{self.file}: {self.name!r} has no times: record it with time=True, or --time")
        return slowest(self.facts.records, self.facts.times, by)

    def findings(self) -> list[Finding]:
        """As ``AutogradGraph.findings``: those of the time when the graph was saved."""
        return list(self.facts.findings)

    def checkup(self) -> Checkup:
        """As ``AutogradGraph.checkup``: that of the time when the graph was saved."""
        return Checkup(self.facts.checks, self.facts.notes)

    def _take_out(self, ids: set[int], edges: set[tuple[int, int]]) -> NoReturn:  # noqa: ARG002
        raise TypeError(f"{self.file}: a graph in a file does not change; take records out before it is saved")

    def __getattr__(self, name: str) -> NoReturn:
        """Say that a file lacks what other graphs have."""
        lacks = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_") and hasattr(AutogradGraph, name):
            lacks += f": {self.file} has numbers and texts, but neither tensors nor modules, which {name} needs"
        raise AttributeError(lacks, name=name, obj=self)

    def __repr__(self) -> str:
        ops = sum(record.kind == "op" for record in self.records)
        return f"<SavedGraph {self.name!r}: {ops + self.left_out} ops, {self.backwards} backwards, of {self.file}>"


AnyGraph = AutogradGraph | SavedGraph
"""A graph with records: one of this process, or one that was read from a file."""
