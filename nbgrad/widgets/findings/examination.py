"""``Examination``: the facts about a graph that the rules for findings share."""

import re
from collections import defaultdict
from functools import cached_property
from math import isfinite, sqrt
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.engine.walk import reached
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame, HistoryRecord
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.graph.stats import Stats, countable, summarise, with_memory
from nbgrad.core.graph.training import OptimizerLog, TrainingRecorder
from nbgrad.core.graph.unreached import Unreached
from nbgrad.widgets.description.broadcast_sums import Suspicion
from nbgrad.widgets.findings.divergence import alike
from nbgrad.widgets.findings.module_gradients import Judgement, starved
from nbgrad.widgets.findings.saturated import leading_to_learned
from nbgrad.widgets.findings.unregistered import plain
from nbgrad.widgets.findings.zero_factors import Waiting

_SAMPLE = 65_536
"""So many numbers of a large constant are looked at."""

_LOSS = re.compile(r"loss|cost|\bnll\b|\bmse\b", re.IGNORECASE)
"""The names of what is made small."""

_OF_LOGARITHMS = ("kl_div", "ctc_loss", "CTCLoss")
"""The losses that are no rows and take log-probabilities; one has another name in nbgrad."""

_SQUARES = ("pow", "square", "abs", "mul")
"""The ops of a loss that is written by hand on the difference of prediction and target."""


_VIEWS = frozenset(("t", "T", "mT", "adjoint", "contiguous", "flatten", "unflatten", "movedim", "swapaxes", "ravel"))
"""Functions of torch's that only move numbers, and are no rows of their own."""


class Compared(NamedTuple):
    """A place where a loss compares a prediction with a target.

    Attributes:
        loss: the record of the loss, or of the difference, if the loss is written by hand.
        prediction, target: the records of what it compares.
        takes: the meaning of the numbers of the prediction, as in ``Traits``.
    """

    loss: Record
    prediction: Record
    target: Record
    takes: str


class Examination:
    """A graph that is examined, with facts that several rules ask for. Each is computed on request.

    Args:
        graph: open or closed.
        records: its records, with their statistics.
        frames: the backwards that it remembers, if there were several and the records are of the last one.
        waits: the judgement of each module's gradients, and the ops where a gradient ends only until a step moves a
            factor of 0.
        stretched: the broadcasts that were probably not meant, by the id of the op and the position of its input.
    """

    def __init__(
        self,
        graph: AutogradGraph,
        records: list[Record],
        frames: list[HistoryFrame],
        waits: Waiting,
        stretched: dict[tuple[int, int], Suspicion],
    ) -> None:
        self.graph = graph
        self.records = records
        self.frames = frames
        self.waits = waits
        self.stretched = stretched
        self.evidence = Evidence(graph)

    @property
    def judged(self) -> dict[Scope, Judgement]:
        """The judgement of the gradients of each module."""
        return self.waits.judged

    @property
    def waiting(self) -> dict[Scope, str]:
        """The modules whose gradients are 0 only until a step moves a factor of 0."""
        return self.waits.scopes

    @cached_property
    def starved(self) -> set[int]:
        """The ids of the parameters that get no gradient, or almost none."""
        return starved(self.judged)

    @cached_property
    def first_bad(self) -> FirstBad | None:
        """Where the first bad number began, if the graph has found that out while it recorded."""
        return self.evidence.first_bad()

    @cached_property
    def ahead(self) -> set[int]:
        """The ids of ``leading_to_learned``."""
        return leading_to_learned(self.records)

    @cached_property
    def unregistered(self) -> list[tuple[Finding, set[int]]]:
        """The findings about plain lists and dicts of modules, each with the ids of its parameters."""
        return list(plain(self.records))

    @cached_property
    def made(self) -> dict[int, Record]:
        """The records by id."""
        return {record.id: record for record in self.records}

    @cached_property
    def uses(self) -> dict[int, list[Record]]:
        """The records that use each record, by its id."""
        found: defaultdict[int, list[Record]] = defaultdict(list)
        for record in self.records:
            for source in dict.fromkeys(record.sources):
                found[source].append(record)
        return found

    @cached_property
    def learned(self) -> set[int]:
        """The ids of the tensors that are learned, and of everything that is computed from them."""
        found: set[int] = set()
        for record in self.records:
            if record.kind in ("parameter", "leaf", "outside") or not found.isdisjoint(record.sources):
                found.add(record.id)
        return found

    @cached_property
    def unreached(self) -> list[Unreached]:
        """The leaves that got no gradient in the last backward."""
        return self.graph.unreached()

    @property
    def training(self) -> TrainingRecorder:
        """The calls around the backwards."""
        return self.evidence.training()

    @cached_property
    def optimizers(self) -> list[OptimizerLog]:
        """The logs of the optimizers that were called while the graph was open."""
        return list(self.training.logs.values())

    def held_by(self, log: OptimizerLog) -> Record | None:
        """The first parameter of an optimizer that has a record."""
        return next((self.made[id] for id in sorted(log.ids) if id in self.made), None)

    @property
    def alone(self) -> bool:
        """Whether at most one optimizer takes part: with several, the loss of one is often meant to grow."""
        return len(self.optimizers) <= 1

    def tensor(self, record: Record) -> torch.Tensor | None:
        """The tensor of a leaf or a constant, if it still exists and its numbers lie in memory one after another."""
        tensor = self.evidence.tensor(record.id) if record.op is None else None
        return with_memory(tensor) if tensor is not None and countable(tensor) else None

    def words(self, record: Record) -> "tuple[Record, np.ndarray[Any, Any]] | None":
        """The sequences of words that an embedding takes, with their numbers; None for any other record."""
        source = self.source(record) if record.op is not None and record.op.name == "embedding" else None
        numbers = None if source is None else self.numbers(source)
        return None if source is None or numbers is None or numbers.ndim != 2 else (source, numbers)

    def stats(self, record: Record) -> Stats | None:
        """The statistics of a record's values; of a large constant, those of a sample of its numbers."""
        if record.value is not None and record.value.low is not None:
            return record.value
        tensor = self.tensor(record)
        if tensor is None or not tensor.numel():
            return record.value
        flat = tensor.detach().reshape(-1)
        return summarise(flat[:: -(-flat.numel() // _SAMPLE)])

    def numbers(self, record: Record) -> "np.ndarray[Any, Any] | None":
        """The numbers of a leaf or a constant of moderate size; None where they were not kept."""
        tensor = self.tensor(record)
        if tensor is None or tensor.numel() > _SAMPLE:
            return None if record.value is None else record.value.array
        data = tensor.detach().cpu()
        return data.float().numpy() if data.dtype == torch.bfloat16 else data.numpy()

    def has_equal_rows(self, record: Record) -> bool:
        """Whether all rows of a leaf or a constant are equal, but not all of its numbers."""
        tensor = self.tensor(record)
        if tensor is None or tensor.dim() < 2 or not tensor.numel():
            array = None if record.value is None else record.value.array
            return (
                array is not None and array.ndim > 1 and bool((array == array[:1]).all()) and array.min() < array.max()
            )
        rows = tensor.detach()
        equal = bool((rows[-1] == rows[0]).all()) and bool((rows == rows[:1]).all())
        return equal and bool((rows[0] != rows[0].flatten()[0]).any())

    @cached_property
    def first(self) -> dict[int, HistoryRecord]:
        """The records of the first backward, by the ids of the records; empty if it went through other ops."""
        if not self.frames or not alike(self.frames[0], self.frames[-1]):
            return {}
        return {record.id: one for record, one in zip(self.records, self.frames[0].records, strict=True)}

    def begun(self, record: Record) -> tuple[float | None, float | None]:
        """The norms of a parameter and of its gradient in the first backward, as far as they are known."""
        if (one := self.first.get(record.id)) is not None:
            return one.weight, one.gradient
        value = None if self.frames or record.value is None else record.value.norm
        return value, None if self.frames or record.gradient is None else record.gradient.norm

    def source(self, record: Record, position: int = 0) -> Record | None:
        """The record that the input at ``position`` came from."""
        return self.made.get(record.inputs[position].source or 0) if position < len(record.inputs) else None

    def origin(self, record: Record | None) -> Record | None:
        """``record`` itself, or where its numbers came from, if it only moves them to other places."""
        while record is not None and moves(record):
            record = self.source(record)
        return record

    def giver(self, record: Record, position: int = 0) -> Record | None:
        """The record of the op that made the numbers of an input."""
        return self.origin(self.source(record, position))

    def leads(self, first: Record, last: Record) -> bool:
        """Whether ``last`` was computed from ``first``."""
        return first.id in reached([last.id], lambda at: [one for one in self.made[at].sources if one >= first.id])

    @cached_property
    def rows(self) -> set[int]:
        """The numbers of rows of the data: of constants that an op with learned tensors uses."""
        used = {source for record in self.records if record.id in self.learned for source in record.sources}
        return {one.shape[0] for one in self.records if one.id in used and one.kind == "constant" and one.shape}

    @cached_property
    def roots(self) -> list[Record]:
        """The records from which the last backward started."""
        return [record for record in self.records if record.root]

    @cached_property
    def comparisons(self) -> list[Compared]:
        """The places where losses compare predictions with targets."""
        found = []
        for record in self.records:
            takes = takes_of(record)
            if takes is not None and len(record.inputs) > 1:
                pair = self.source(record), self.source(record, 1)
            elif record.op is not None and record.op.name == "sub" and self._is_error(record):
                takes, pair = "values", self._difference(record)
            else:
                continue
            if pair[0] is not None and pair[1] is not None:
                found.append(Compared(record, pair[0], pair[1], takes))
        return found

    def _difference(self, record: Record) -> tuple[Record | None, Record | None]:
        """The prediction and the target of a difference, in this order."""
        first, second = self.source(record), self.source(record, 1)
        return (second, first) if first is not None and first.id not in self.learned else (first, second)

    def _is_error(self, record: Record) -> bool:
        """Whether a difference is that of a prediction and a constant, and becomes a number of the loss."""
        pair = self.source(record), self.source(record, 1)
        if None in pair or sum(one is not None and one.id in self.learned for one in pair) != 1:
            return False
        for user in self.uses.get(record.id, ()):
            if user.op is not None and user.op.name in _SQUARES and set(user.sources) == {record.id}:
                return self._becomes_loss(user)
        return False

    def _becomes_loss(self, record: Record) -> bool:
        """Whether all that is computed from it is a loss: sums, means, and products with constants."""
        waiting, seen = [record], set[int]()
        while waiting:
            one = waiting.pop()
            if one.id in seen:
                continue
            seen.add(one.id)
            if traits_of(one.op).multiplies and any(
                source in self.learned and source not in seen for source in one.sources
            ):
                return False
            waiting += self.uses.get(one.id, ())
        return True

    def is_loss(self, record: Record) -> bool:
        """Whether a record is an error that is never below 0: a loss, or the mean or sum of squares or magnitudes."""
        name = "" if record.op is None else record.op.name
        source = self.source(record)
        if name in ("mean", "sum") and source is not None:
            return self.is_loss(source)
        if takes_of(record) is not None:
            return True
        return name in _SQUARES and source is not None and any(one.loss.id == source.id for one in self.comparisons)

    @cached_property
    def all_losses(self) -> list[BackwardLoss]:
        """The losses of all backwards, also of those that were not recorded. A long loop has a million."""
        return self.graph.losses

    @cached_property
    def losses(self) -> list[float]:
        """The finite losses, in order: those of the frames, or of all backwards if one line calls them."""
        known = self.all_losses if len(self.frames) < self.graph.backwards and self.frames else []
        if known and len({one.place.instruction for one in known}) == 1:
            return [one.value for one in known if one.value is not None and isfinite(one.value)]
        return [frame.loss for frame in self.frames if frame.loss is not None and isfinite(frame.loss)]

    @cached_property
    def steps(self) -> list[tuple[int, float]]:
        """For each backward whose step was measured: the norm of the whole update over that of all parameters."""
        found, weights = [], dict[int, float]()
        for frame in self.frames:
            moved = total = 0.0
            for at, one in enumerate(frame.records):
                if one.kind not in ("parameter", "leaf"):
                    continue
                if one.weight is not None:
                    weights[at] = one.weight
                if one.update is not None and at in weights:
                    moved += (one.update * weights[at]) ** 2
                    total += weights[at] ** 2
            if total > 0 and isfinite(moved) and isfinite(total):
                found.append((frame.number, sqrt(moved / total)))
        return found

    @cached_property
    def typical_step(self) -> float | None:
        """The median of ``steps``; None if there are none."""
        return median([size for _, size in self.steps]) if self.steps else None


def is_called_loss(record: Record) -> bool:
    """Whether the user calls it a loss, which is made small."""
    return _LOSS.search(record.name or "") is not None


def outermost(record: Record) -> Any:
    """The outermost module in whose call a record was made, if it still exists."""
    modules = [one for one in outwards(record.scope) if isinstance(one, ModuleScope)]
    return modules[-1].module() if modules else None


def moves(record: Record) -> bool:
    """Whether an op only moves the numbers of its first input to other places."""
    return record.op is not None and (traits_of(record.op).moves or record.op.name in _VIEWS)


def takes_of(record: Record) -> str | None:
    """The meaning of the numbers that a loss takes; None for any other record."""
    if record.op is None:
        return None
    return traits_of(record.op).takes or ("log-probabilities" if record.op.name in _OF_LOGARITHMS else None)


def typical(stats: Stats | None) -> float | None:
    """The root of the mean square of the numbers; None where it is not known."""
    if stats is None or not isfinite(stats.norm):
        return None
    count = 1
    for size in stats.shape:
        count *= size
    return stats.norm / sqrt(count) if count else None


def largest(stats: Stats | None) -> float | None:
    """The largest magnitude; None where it is not known."""
    return None if stats is None or stats.low is None or stats.high is None else max(abs(stats.low), abs(stats.high))


def literal(taken: Input) -> float | None:
    """The number that stands for an input; None if it is a tensor, or left out."""
    value = taken.literal
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
