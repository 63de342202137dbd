"""``Ranks``: the gradients of the processes of a group before they are averaged in one backward, rank by rank."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot, inf, isfinite, sqrt
from statistics import median

from nbgrad.core.graph.rank_part import RankPart, whole

SHOWN = 8
"""With up to this many ranks, a table has the number of each; with more, only the least and the largest."""

_NAMED = 3
"""So many parameters are named in a sentence."""

_FAR = 10.0
"""A rank whose gradient is so many times that of the others has other data, or another loss."""


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
            they cancel out or are not finite.
        values: the norms of the parameter itself in each rank.
        unequal: the ranks whose parameter has other values than that of rank 0.
    """

    name: str
    bucket: int
    norms: tuple[float, ...]
    average: float
    spread: float
    values: tuple[float, ...] = ()
    unequal: tuple[int, ...] = ()


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
        backwards: how many of each rank have begun to average.
    """

    rank: int
    size: int
    parameters: tuple[RankedParameter, ...]
    buckets: tuple[RankedBucket, ...]
    backwards: tuple[int, ...] = ()

    @property
    def norms(self) -> tuple[float, ...]:
        """The norm of the gradients of all parameters together, for each rank."""
        return tuple(hypot(*[one.norms[rank] for one in self.parameters]) for rank in range(self.size))

    @property
    def widest(self) -> RankedParameter:
        """The parameter whose gradients differ most."""
        return max(self.parameters, key=lambda one: one.spread)

    def faults(self) -> list[str]:
        """A sentence for each thing in which the ranks differ although they should not."""
        return [*_not_finite(self), *_unused(self), *_unequal(self), *_far(self), *_uneven(self)]

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
        return "\n".join([*rows, *self.faults()])


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


def compare(
    parts: Sequence[RankPart], own: RankPart, parameters: list[RankedParameter], buckets: list[RankedBucket]
) -> None:
    """Add the parameters and buckets of one module.

    Args:
        parts: those of all ranks.
        own: that of this process.
        parameters: those that were found so far.
        buckets: the same of buckets.
    """
    if own.shares is not None:
        own = whole(own, parts)
        parts = [part._replace(values=own.values) for part in parts]
    first = 0
    for place, (size, count) in enumerate(own.buckets):
        number, names = len(buckets), own.names[first : first + count]
        for at in range(first, first + count):
            norms = tuple(float(part.norms[at]) for part in parts)
            average = float(own.averages[at])
            spread = _spread(norms, average, own.precision)
            values = tuple(float(part.values[at]) for part in parts)
            unequal = tuple(rank for rank, part in enumerate(parts) if part.sums[at] != parts[0].sums[at])
            parameters.append(RankedParameter(own.names[at], number, norms, average, spread, values, unequal))
        waits = None
        journeys = [part.journeys[place] for part in parts if part.journeys is not None]
        if len(journeys) == len(parts):
            waits = tuple(one - min(journeys) for one in journeys)
        buckets.append(RankedBucket(number, size, tuple(names), waits))
        first += count


def _spread(norms: tuple[float, ...], average: float, precision: float) -> float:
    """The ``RankedParameter.spread``. The mean squared distance is the mean square less the square of the mean."""
    square = sum(norm * norm for norm in norms) / len(norms)
    if not isfinite(square):
        return inf
    distance = square - average * average
    if distance <= 4 * precision * square:  # rounding
        return 0.0
    return sqrt(distance) / average if average else inf


# Differences that should not be.


def _not_finite(ranks: Ranks) -> Iterator[str]:
    for those, found in _where(ranks, lambda norm, all_: not isfinite(norm) and any(map(isfinite, all_))):
        yield (
            f"the gradients of {_ranks(those)} are not finite, those of {_names(found)}, and in another rank they are: "
            f"the average is finite in no rank"
        )


def _unused(ranks: Ranks) -> Iterator[str]:
    for those, found in _where(ranks, lambda norm, all_: norm == 0 < max(all_)):
        yield (
            f"zeros come from {_ranks(those)} for {_names(found)}, and not from all ranks: does the loss depend on "
            f"that everywhere?"
        )


def _where(
    ranks: Ranks, differs: Callable[[float, tuple[float, ...]], bool]
) -> Iterator[tuple[list[int], list[RankedParameter]]]:
    """The ranks whose norm of some parameters ``differs`` from those of all; ranks with the same parameters at once."""
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(ranks.size):
        those = [at for at, one in enumerate(ranks.parameters) if differs(one.norms[rank], one.norms)]
        if those:
            found.setdefault(tuple(those), []).append(rank)
    for places, numbers in found.items():
        yield numbers, [ranks.parameters[at] for at in places]


def _unequal(ranks: Ranks) -> Iterator[str]:
    found = [one for one in ranks.parameters if one.unequal]
    if found:
        others = sorted({rank for one in found for rank in one.unequal})
        most = max(found, key=lambda one: max(one.values) - min(one.values))
        yield (
            f"the parameters of {_ranks(others)} have other values than those of rank 0, in {_names(found)}: the norms "
            f"of {most.name} are {numbers_text(most.values)}. The average of the gradients does not make them equal "
            f"again. DistributedDataParallel made them equal, so look for what changes them in one rank: another "
            f"learning rate, a checkpoint, random numbers"
        )


def _far(ranks: Ranks) -> Iterator[str]:
    norms = ranks.norms
    for rank, norm in enumerate(norms):
        others = tuple(one for other, one in enumerate(norms) if other != rank)
        if isfinite(norm) and others and 0 < median(others) * _FAR < norm:
            yield (
                f"the gradient of rank {rank} has the norm {norm:.4g}, and those of the others {numbers_text(others)}: "
                f"compare the scale of its data and of its loss"
            )


def _uneven(ranks: Ranks) -> Iterator[str]:
    if len(set(ranks.backwards)) > 1:
        told = ", ".join(f"{many} in rank {rank}" for rank, many in enumerate(ranks.backwards[:SHOWN]))
        more = ", ..." if ranks.size > SHOWN else ""
        yield (
            f"the ranks have averaged in different numbers of backwards, {told}{more}: give them the same number of "
            f"batches, or run the loop inside join()"
        )


def _ranks(numbers: Sequence[int]) -> str:
    more = ", ..." if len(numbers) > SHOWN else ""
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(str(one) for one in numbers[:SHOWN])}{more}"


def _names(found: Sequence[RankedParameter]) -> str:
    """The names of some parameters, the first ones of many."""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{', '.join(one.name for one in found[:_NAMED])}{more}"
