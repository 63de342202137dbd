"""Modules that get no gradient yet, because a factor is a 0 that learns, such as a gain that begins at 0."""

from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import NamedTuple

from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings.divergence import alike
from nbgrad.widgets.findings.module_gradients import Judgement, starved
from nbgrad.widgets.findings.vanishing import SLIGHT, underflowed

_MOST = 3
"""At most this many places are reported; a network of many blocks has as many places as blocks."""


_OPENED = 2
"""A gain that has grown by this factor opens its branch: it began small on purpose."""


class Waiting(NamedTuple):
    """Where a gradient ends until a step has moved a factor of 0.

    Attributes:
        judged: what the gradients of each module are.
        ends: the ids of the ops where it ends, each with the name of the input that gets nothing, or little, so far.
        scopes: the modules that are sound in spite of this, and the text about each.
        notes: the sentences about the last backward.
    """

    judged: dict[Scope, Judgement]
    ends: set[tuple[int, str]]
    scopes: dict[Scope, str]
    notes: list[str]


def waiting(
    graph: AutogradGraph, records: list[Record], judged: dict[Scope, Judgement], frames: list[HistoryFrame]
) -> Waiting:
    """Which of the modules without a gradient, or with next to none, get one once a factor of 0 has moved.

    A product passes on 0 where the other factor is 0. If that factor is learned, or computed from something learned,
    and gets a gradient, the next step moves it away from 0. Factors that no step moves do not count: a mask, a
    parameter that is frozen or in no optimizer, and two factors of 0, of which neither gets a gradient.

    Args:
        graph: the graph that knows which parameters an optimizer holds.
        records: what the last backward ran through.
        judged: what the gradients of each module are.
        frames: the backwards that are remembered, if there were several.
    """
    if not starved(judged):
        return Waiting(judged, set(), {}, [])
    below = {record.id for one in judged.values() for record in one.learned}  # also the last module: it may be unusual
    for record in records:
        if any(taken.source in below for taken in record.inputs):
            below.add(record.id)
    behind: dict[int, str] = {}  # by record: the factor that its whole gradient comes through
    ends: list[_End] = []
    for end in _ends(records, below, behind, *_moving(graph, records, frames)):
        ends.append(end)
        behind[end.taken.source or 0] = end.what
    where = {(end.record.id, end.taken.name) for end in ends}
    return Waiting(judged, where, _scopes(judged, behind, ends), _notes(ends))


class _End(NamedTuple):
    """An op at which a gradient ends so far, the input that gets none, and the factor that has to move."""

    record: Record
    taken: Input
    factor: Record

    @property
    def what(self) -> str:
        return f"{self.factor.full_name or f'the result of {self.factor.kind_or_op}'} {self.factor.shape}"


def _ends(
    records: list[Record], below: set[int], behind: dict[int, str], moving: set[int], rising: set[int]
) -> Iterator[_End]:
    """The ends on the way to the records ``below``, from the loss on; ``behind`` collects the records before them."""
    made = {record.id: record for record in records}
    for record in reversed(records):
        for taken in record.inputs:
            source, went = made.get(taken.source or 0), taken.gradient
            if source is None or source.id not in below or source.gradient is None:
                continue
            if went is None:  # of a leaf, that at this input is not always kept beside that of the leaf
                if source.op is None and record.id in behind:
                    behind[source.id] = behind[record.id]
                continue
            if source.gradient.norm > 2 * went.norm:
                continue  # other ops bring the source most of its gradient
            factor = _factor(record, taken, made, moving if went.norm == 0 else rising)
            if factor is not None:
                yield _End(record, taken, made[factor])
            elif record.id in behind:
                behind[source.id] = behind[record.id]


def _scopes(judged: dict[Scope, Judgement], behind: dict[int, str], ends: list[_End]) -> dict[Scope, str]:
    """The modules behind an end, and the modules with an end, and the text about each."""
    found: dict[Scope, str] = {}
    homes = {end.record.scope for end in ends}
    for scope, one in judged.items():
        what = next((behind[record.id] for record in one.learned if record.id in behind), None)
        if one.kind == "none" and what:
            found[scope] = translate(
                ": exactly zero so far, because it is multiplied with {what}, which was 0 and learns", what=what
            )
        elif one.kind == "vanishing" and (what or scope in homes):
            found[scope] = one.said
    return found


def _notes(ends: list[_End]) -> list[str]:
    """The notes about exact zeros, one for all calls on a line, in the order in which the gradient came."""
    told: dict[tuple[object, ...], list[_End]] = {}
    for end in ends:
        if end.taken.gradient is not None and end.taken.gradient.norm == 0:
            told.setdefault((end.record.op, end.record.file, end.record.line, end.factor.name), []).append(end)
    notes = [
        _told(*calls)
        + (
            translate(" The same holds for {count:,} more of its calls there.", count=len(calls) - 1)
            if calls[1:]
            else ""
        )
        for calls in told.values()
    ]
    more = (
        [translate("The same holds for {places}.", places=counted(len(notes) - _MOST, "more place"))]
        if len(notes) > _MOST
        else []
    )
    return notes[:_MOST] + more


def _told(end: _End, *_: _End) -> str:
    record, of, what = end.record, end.factor, end.what
    scope = translate(", in {names}", names=" > ".join(record.scope.path())) if record.scope is not None else ""
    if of.since is not None and of.since.what is not None:
        return translate(
            "No gradient went past {run}{scope}, because {what} was 0 then. {what2} has moved it "
            "since: the layers before it learn from the next backward on.",
            run=record.run,
            scope=scope,
            what=what,
            what2=of.since.what,
        )
    return translate(
        "No gradient goes past {run}{scope}, because {what} is {zeros}. This factor gets a gradient "
        "itself, so a step of its optimizer moves it, and the layers before it learn from then on: "
        "this is a fault only if it stays 0.",
        run=record.run,
        scope=scope,
        what=what,
        zeros=_zeros(of),
    )


def _zeros(of: Record) -> str:
    return "all 0" if of.value is not None and of.value.norm == 0 and prod(of.shape) > 1 else "0"


def _factor(record: Record, taken: Input, made: dict[int, Record], moving: set[int]) -> int | None:
    """The id of a ``moving`` factor by which a gradient is multiplied on its way to ``taken``, if little arrives."""
    came, went = record.gradient, taken.gradient
    if record.op is None or not traits_of(record.op).multiplies or came is None or went is None:
        return None
    if not 0 < came.norm < inf or went.norm >= SLIGHT * came.norm or underflowed(record, taken, made):
        return None
    others = [one for one in record.inputs if one.name != "bias" and one.source != taken.source]
    known = (one.source for one in others if one.source in moving and one.gradient is not None and one.gradient.norm)
    found = next(known, None)
    if found is None and went.norm == 0:
        learned = any(made[one.source].kind in ("parameter", "leaf") for one in others if one.source in made)
        zeros = [*(one.source for one in others), *([taken.source] if learned else [])]
        found = next((id for one in zeros if (id := _zero_below(one, made, moving)) is not None), None)
    return found


def _zero_below(id: int | None, made: dict[int, Record], moving: set[int]) -> int | None:
    """The id of a ``moving`` parameter, 0 until a step moves it, that makes this result 0.

    So begins a gain of 0 behind a normalization whose weight begins at 0: neither of both factors stays 0.
    """
    waiting, seen = [id], {id}
    while waiting:
        record = made.get(waiting.pop() or 0)
        if record is None or record.value is None:
            continue
        moved = record.since is not None and record.since.what is not None
        if record.op is None and record.id in moving and (record.value.norm == 0 or moved):
            return record.id
        if record.op is not None and record.value.norm == 0:
            sources = [one.source for one in record.inputs if one.source not in seen]
            seen.update(sources)
            waiting += sources
    return None


def _moving(graph: AutogradGraph, records: list[Record], frames: list[HistoryFrame]) -> tuple[set[int], set[int]]:
    """The ids of the records that the next step moves; and the ids of those among them that began at 0.

    A step moves a parameter or leaf whose gradient is not 0, and all results through which that gradient came.
    """
    others = any(record.since is not None and record.since.what is not None for record in records)
    idle = {id for id, _ in graph.unheld()} if others else set[int]()
    step, last = graph.update, graph.frame
    stepped = step is not None and last is not None and step.number == last.number and any(step.ratios.values())
    past = [frame for frame in frames[:-1] if alike(frame, frames[-1])]
    moving, rising = set[int](), set[int]()
    for at, record in enumerate(records):
        if record.kind in ("parameter", "leaf"):
            if record.gradient is None or not 0 < record.gradient.norm < inf or record.id in idle:
                continue
            if record.value is not None and record.value.norm == 0:
                changed = record.since is not None and record.since.what is not None
                if (changed and stepped) or _stayed(past, at):
                    continue
            moving.add(record.id)
            if _risen(past, frames, at, gain=sum(size > 1 for size in record.shape) <= 1):
                rising.add(record.id)
        else:
            sources = {one.source for one in record.inputs if one.gradient is not None and one.gradient.norm}
            for known in (moving, rising):
                if not sources.isdisjoint(known):
                    known.add(record.id)
    return moving, rising


def _stayed(past: Sequence[HistoryFrame], at: int) -> bool:
    """Whether a factor that is 0 now had a gradient in an earlier frame whose step moved only other parameters."""
    return any(frame.records[at].gradient and any(one.update for one in frame.records) for frame in past)


def _risen(past: Sequence[HistoryFrame], frames: Sequence[HistoryFrame], at: int, *, gain: bool) -> bool:
    """Whether a parameter began at 0, or as a small ``gain``, and is larger now than ever before."""
    known = [weight for frame in past if (weight := frame.records[at].weight) is not None]
    now = frames[-1].records[at].weight if known else None
    return now is not None and now > max(known) and (known[0] == 0 or (gain and now >= _OPENED * known[0]))
