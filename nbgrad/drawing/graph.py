"""``DrawnGraph``: the parts of another engine's graph as a graph of nbgrad, which is drawn, queried and saved."""

from collections.abc import Mapping
from typing import Any, Self

import torch

from nbgrad.core.engine.node import next_seq
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.known_findings import KnownFindings
from nbgrad.core.graph.last_backward import Frame
from nbgrad.core.graph.record import Input, Record, TakenStatistics, described
from nbgrad.core.graph.stats import Stats, summarise_all
from nbgrad.drawing.against import EngineVerdict
from nbgrad.drawing.ops import EngineOp, operands, settings_of
from nbgrad.drawing.part import NUMBERS, Part
from nbgrad.drawing.shares import PartUses, Use, UseShare
from nbgrad.drawing.values import tensor_of
from nbgrad.widgets.findings.located import located


class DrawnGraph(AutogradGraph, KnownFindings):
    """The graph of another engine. It is closed, and holds neither the objects of the engine nor their numbers.

    It has the properties and methods of an ``AutogradGraph``. It cannot be run again with other numbers, because the
    ops are those of the engine.

    Args:
        name: the title of the picture.

    Attributes:
        ids: by the ``id`` of an object of the engine, that of its record.
    """

    ids: Mapping[int, int]
    unnumbered = "the values of a traced program"

    @classmethod
    def of(
        cls,
        parts: list[Part],
        roots: list[object],
        names: Mapping[int, str],
        name: str | None = None,
        verdict: EngineVerdict | None = None,
    ) -> Self:
        """The graph of the parts.

        Args:
            parts: of the engine, parents first.
            roots: the objects at which a backward begins.
            names: the user's names of objects, by their ``id``. The engine's own names are better.
            name: the title of the picture; default: graph 1, graph 2, ...
            verdict: what nbgrad says about the numbers; None if it was not asked.

        Raises:
            UnreadableError: a value or a gradient is none that can be drawn.
        """
        graph = cls(name, history=0)
        graph.listener.closed = True
        graph._fill(parts, {id(one) for one in roots}, names, verdict)
        graph.listener.release()
        return graph

    def _fill(
        self, parts: list[Part], roots: set[int], names: Mapping[int, str], verdict: EngineVerdict | None
    ) -> None:
        taken = _TakenValue(parts, self._notes.graph)
        self._records = [taken.record(place, roots, names) for place in range(len(parts))]
        self.ids = taken.ids
        if taken.ran:
            self.listener.backwards = 1
            self._notes.frame = taken.frame(self._records)
            self.listener.uses.reached = [record.id for record in self._records if record.gradient is not None]
        self._notes.settled = {record.id: record.statistics for record in self._records}
        if verdict is not None:
            self._judge(verdict)
        self._survey()

    def _judge(self, verdict: EngineVerdict) -> None:
        """Bring along the first number that differs, as a finding."""
        self.compared, self.uncompared = verdict.compared, " ".join(verdict.unchecked)
        if verdict.first is not None:
            record = self._records[verdict.first.position]
            self.known = (located(record, "wrong number", verdict.head),)

    def __str__(self) -> str:
        """The table of the graph that ``save("graph.txt")`` writes."""
        from nbgrad.widgets.describe import outline
        from nbgrad.widgets.render.text import text

        return text(outline(self).description)

    def __repr__(self) -> str:
        ops = sum(record.kind == "op" for record in self.records)
        return f"<DrawnGraph {self.name!r}: {ops} ops>"


class _TakenValue:
    """The numbers of parts, and the records that are made of them.

    Attributes:
        ids: by the ``id`` of an object, that of its record.
        ran: whether a backward ran: an object has a gradient that is not 0.
    """

    def __init__(self, parts: list[Part], graph: object) -> None:
        self._parts, self._graph = parts, graph
        self._values = [tensor_of(part.value, part.source, "value") for part in parts]
        gradients = [
            None if part.gradient is None else tensor_of(part.gradient, part.source, "gradient") for part in parts
        ]
        self.ran = any(one is not None and not one.is_meta and bool((one != 0).any()) for one in gradients)
        self._gradients = [one if self.ran else None for one in gradients]
        self.ids = {id(part.source): next_seq() for part in parts}
        self._uses = PartUses(parts, self._values, self._gradients)
        self._shares: dict[Use, UseShare] = self._uses.shares() if self.ran else {}
        self._stats = _summaries(self._values, self._gradients, self._shares)

    def record(self, place: int, roots: set[int], names: Mapping[int, str]) -> Record:
        part, value = self._parts[place], self._values[place]
        inputs = self._inputs(place)
        told = TakenStatistics(self._stats.get(("value", place)), self._stats.get(("gradient", place)), inputs, None)
        return Record(
            id=self.ids[id(part.source)],
            kind=self._kind(place),
            name=part.name or names.get(id(part.source)),
            op=None if part.op is None else EngineOp(part),
            shape=tuple(value.shape),
            dtype=value.dtype,
            device=value.device,
            settings={key: described(one) for key, one in settings_of(part).items()},
            parents=tuple([one.source for one in inputs]),
            scope=None,
            place=None,
            root=self.ran and id(part.source) in roots,
            alive=True,
            leaf=None,
            graph=self._graph,
            statistics=told,
        )

    def _kind(self, place: int) -> str:
        part = self._parts[place]
        if part.op is not None:
            return "op"
        learns = part.settings.get("requires_grad", True) and (not self.ran or part.gradient is not None)
        return "leaf" if learns else "constant"

    def _inputs(self, place: int) -> tuple[Input, ...]:
        part = self._parts[place]
        if part.op is None:
            return ()
        names = EngineOp(part).inputs
        return tuple([self._input(Use(place, at), names[at], one) for at, one in enumerate(operands(part))])

    def _input(self, use: Use, name: str, parent: Any) -> Input:
        if isinstance(parent, NUMBERS):
            return Input(name, None, described(parent))
        return Input(
            name,
            self.ids[id(parent)],
            gradient=self._stats.get(("share", use)),
            reduction=self._uses.sums.get(use) if self.ran else None,
            unreduced=self._stats.get(("unreduced", use)),
        )

    def frame(self, records: list[Record]) -> Frame:
        """The backward, as data."""
        inputs = {(record.id, at): taken for record in records for at, taken in enumerate(record.inputs)}
        return Frame(
            1,
            tuple([record.id for record in records if record.root]),
            {record.id: record.gradient for record in records if record.gradient is not None},
            {key: one.gradient for key, one in inputs.items() if one.gradient is not None},
            {key: one.reduction for key, one in inputs.items() if one.reduction is not None},
            {key: one.unreduced for key, one in inputs.items() if one.unreduced is not None},
        )


def _summaries(
    values: list[torch.Tensor], gradients: list[torch.Tensor | None], shares: dict[Use, UseShare]
) -> dict[Any, Stats]:
    """The statistics of all numbers, by what they are and whose. They are computed together, which is faster."""
    found: dict[Any, torch.Tensor] = {("value", place): one for place, one in enumerate(values) if not one.is_meta}
    found |= {("gradient", place): one for place, one in enumerate(gradients) if one is not None and not one.is_meta}
    found |= {("share", use): one.given for use, one in shares.items()}
    found |= {("unreduced", use): one.unreduced for use, one in shares.items() if one.unreduced is not None}
    keys = list(found)
    made = summarise_all({at: found[key] for at, key in enumerate(keys)})
    return {key: made[at] for at, key in enumerate(keys)}
