"""``Ranks``: the gradients of the processes of a group before they are averaged in one backward, rank by rank.

Each process measures its own part while the backward runs. When its graph closes, it leaves the part in the store at
which the processes have met. It reads the other parts on request. So a process that does not ask waits for no message.
"""

import json
import os
from dataclasses import dataclass
from math import inf, sqrt
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

import torch.distributed as dist

from nbgrad.core.engine.observer import Observer

PATIENCE = 10.0
"""The seconds that a process waits for the measurements of the others."""

SHOWN = 8
"""With up to this many ranks, a table has the number of each; with more, only the least and the largest."""


@dataclass(frozen=True)
class RankedParameter:
    """One parameter.

    Attributes:
        name: its name in the module.
        bucket: the number of the bucket that its gradient travels in.
        norms: of the gradient of each rank, before it is averaged; 0 of a rank that has not used the parameter.
        average: the norm of the average, which is the same in all ranks.
        spread: how far the gradients of the ranks are from their average: the root of the mean squared distance, over
            the norm of the average. 0 where they are equal, 1 where they differ as much as they agree, infinite where
            they cancel out.
    """

    name: str
    bucket: int
    norms: tuple[float, ...]
    average: float
    spread: float


@dataclass(frozen=True)
class RankedBucket:
    """One bucket.

    Attributes:
        number: its place in the order in which buckets travel.
        bytes: the bytes that each rank sends.
        parameters: the names of the parameters whose gradients are in it.
        waits: for each rank, the seconds between its part being ready and that of the last rank, which has 0. None on a
            GPU, where the host does not know.
    """

    number: int
    bytes: int
    parameters: tuple[str, ...]
    waits: tuple[float, ...] | None

    @property
    def last(self) -> int | None:
        """The rank that the others waited for; None on a GPU, and where there is one rank."""
        return None if self.waits is None or len(self.waits) < 2 else self.waits.index(min(self.waits))


@dataclass(frozen=True)
class Ranks:
    """One backward, rank by rank.

    Attributes:
        rank: the number of this process.
        size: how many processes there are.
        parameters: in the order in which their gradients travel.
        buckets: in the order in which they travel.
    """

    rank: int
    size: int
    parameters: tuple[RankedParameter, ...]
    buckets: tuple[RankedBucket, ...]

    def parameter(self, name: str) -> RankedParameter:
        """The parameter of this name.

        Raises:
            KeyError: there is none.
        """
        for one in self.parameters:
            if one.name == name:
                return one
        raise KeyError(f"no parameter is called {name!r}: there are {', '.join(one.name for one in self.parameters)}")

    def __str__(self) -> str:
        rows = [f"rank {self.rank} of {self.size}"]
        for bucket in self.buckets:
            rows.append(f"bucket {bucket.number}: {bucket.bytes:,} bytes{_waited(bucket)}")
            own = [one for one in self.parameters if one.bucket == bucket.number]
            rows += [f"  {one.name}: norms {numbers_text(one.norms)}, spread {one.spread:.3g}" for one in own]
        return "\n".join(rows)


def _waited(bucket: RankedBucket) -> str:
    if bucket.last is None or bucket.waits is None:
        return ""
    return f", rank {bucket.last} was last, others waited up to {max(bucket.waits) * 1e3:.3g} ms"


def numbers_text(numbers: tuple[float, ...]) -> str:
    """The number of each rank; of many ranks, the least and the largest."""
    if len(numbers) <= SHOWN:
        return ", ".join(f"{one:.4g}" for one in numbers)
    low, high = min(numbers), max(numbers)
    return f"{low:.4g} (rank {numbers.index(low)}) to {high:.4g} (rank {numbers.index(high)})"


class RankPart(NamedTuple):
    """The measurements of one process in the backward of one module.

    Attributes:
        names: the parameters, in the order in which their gradients travel.
        buckets: for each, the bytes and how many of the parameters are in it.
        norms: for each parameter.
        averages: the same of the averages.
        journeys: for each bucket, the seconds from its sending to its arrival; None where they are unknown.
        precision: the smallest relative difference of two numbers of the element type.
    """

    names: list[str]
    buckets: list[tuple[int, int]]
    norms: list[float]
    averages: list[float]
    journeys: list[float] | None
    precision: float


class Store(Protocol):
    """The store in which the processes of a group leave texts for one another."""

    rank: int
    size: int

    def leave(self, key: str, text: str) -> None:
        """Write ``text`` under ``key``, where it stays until texts under a few newer keys have been written."""

    def read(self, key: str) -> str | None:
        """The text under ``key``; None if there is none yet."""


class _Measured(NamedTuple):
    store: Store
    number: int
    part: RankPart
    ids: list[int]


class RankRecorder(Observer):
    """Keeps the measurements of this process in the last backward that averaged gradients, for one graph.

    The reducer of a module finds it among the observers of the backward.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self.forget()

    def forget(self) -> None:
        """Forget the measurements."""
        self._measured: list[_Measured] = []
        self._fresh = True
        self._known: Ranks | RuntimeError | None = None

    def follows_gradients(self) -> bool:
        """No gradient has to be kept for it."""
        return False

    def on_backward_begin(self, roots: Any) -> None:  # noqa: ARG002
        """From here on, new measurements replace the old ones."""
        self._fresh = True

    def add(self, store: Store, number: int, part: RankPart, ids: list[int]) -> None:
        """Keep the measurements.

        Args:
            store: of the processes.
            number: how many backwards of the module had averaged before, which is the same in all processes.
            part: the measurements of this process.
            ids: the ids of the parameters' records in the graph of this process.
        """
        if self._fresh:
            self._measured = []
        self._fresh, self._known = False, None
        self._measured.append(_Measured(store, number, part, ids))

    def publish(self) -> None:
        """Send the measurements of this process to the others."""
        for store, number, part, _ in self._measured:
            store.leave(f"ranks/{number}/{store.rank}", json.dumps(part._asdict()))

    @property
    def leads(self) -> bool:
        """Whether this process shows the comparison: it is rank 0, or has nothing to compare."""
        return not self._measured or self._measured[0].store.rank == 0

    def ranks(self) -> Ranks:
        """The measurements of all processes; the first call waits for them.

        Raises:
            RuntimeError: no backward has averaged, or a process has sent nothing.
        """
        if self._known is None:
            try:
                self._known = self._gathered()
            except RuntimeError as error:
                self._known = error
        if isinstance(self._known, RuntimeError):
            raise self._known
        return self._known

    @property
    def places(self) -> list[tuple[int, RankedParameter]]:
        """The id of the record of each parameter, with the parameter."""
        ids = [id for one in self._measured for id in one.ids]
        return list(zip(ids, self.ranks().parameters, strict=True))

    def _gathered(self) -> Ranks:
        if not self._measured:
            raise RuntimeError(
                f"{self._graph!r} has no ranks to compare: no backward in it averaged gradients over processes. Wrap "
                "the module in nbgrad.nn.parallel.DistributedDataParallel, and run forward and backward in the graph, "
                "outside of no_sync()"
            )
        self.publish()
        parameters, buckets = list[RankedParameter](), list[RankedBucket]()
        until = monotonic() + PATIENCE
        for store, number, own, _ in self._measured:
            parts = [self._read(store, number, rank, until) for rank in range(store.size)]
            for rank, part in enumerate(parts):
                if part.names != own.names:
                    raise RuntimeError(
                        f"{self._graph!r} cannot compare the ranks: rank {rank} has other parameters in its last "
                        "backward. Let the last backward in the graph be the same in every process"
                    )
            _compare(parts, own, parameters, buckets)
        store = self._measured[0].store
        return Ranks(store.rank, store.size, tuple(parameters), tuple(buckets))

    def _read(self, store: Store, number: int, rank: int, until: float) -> RankPart:
        key, why = f"ranks/{number}/{rank}", ""
        while True:
            try:
                text = store.read(key)
            except RuntimeError as error:  # the process that keeps the store has ended
                text, why, until = None, f" ({error})", 0.0
            if text is not None:
                return RankPart(**json.loads(text))
            if monotonic() > until:
                raise RuntimeError(
                    f"{self._graph!r} cannot compare the ranks: rank {rank} has sent no figures of this backward. Open "
                    f"nbgrad.record(ranks=True), or %%autograd --ranks, in every process{why}"
                )
            sleep(0.01)


def _compare(
    parts: list[RankPart], own: RankPart, parameters: list[RankedParameter], buckets: list[RankedBucket]
) -> None:
    """Add the parameters and buckets of one module from ``parts``."""
    first = 0
    for place, (size, count) in enumerate(own.buckets):
        number, names = len(buckets), own.names[first : first + count]
        for at in range(first, first + count):
            norms = tuple(float(part.norms[at]) for part in parts)
            average = float(own.averages[at])
            spread = _spread(norms, average, own.precision)
            parameters.append(RankedParameter(own.names[at], number, norms, average, spread))
        waits = None
        journeys = [part.journeys[place] for part in parts if part.journeys is not None]
        if len(journeys) == len(parts):
            waits = tuple(one - min(journeys) for one in journeys)
        buckets.append(RankedBucket(number, size, tuple(names), waits))
        first += count


def _spread(norms: tuple[float, ...], average: float, precision: float) -> float:
    """The ``RankedParameter.spread``. The mean squared distance is the mean square less the square of the mean."""
    square = sum(norm * norm for norm in norms) / len(norms)
    distance = square - average * average
    if distance <= 4 * precision * square:  # rounding
        return 0.0
    return sqrt(distance) / average if average else inf


def check_group(wanted: bool) -> None:
    """Raise a RuntimeError if ranks should be compared, and there is no process group and none can be expected."""
    launched = {"RANK", "WORLD_SIZE"} <= os.environ.keys()  # as torchrun does: the program makes the group later
    if wanted and not (dist.is_available() and (dist.is_initialized() or launched)):
        raise RuntimeError(
            "ranks=True compares the processes of a group, and there is none: call "
            "torch.distributed.init_process_group('gloo') first, in a program that torchrun has started"
        )
