"""The lines of a program as a reader sees them: whole rows of the op table, and the calls of torch outside of rows."""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.ir import Listing, Phase, ProgramStep, RowCall, Value
from nbgrad.core.tensor.views import Path

Level = Literal["ops", "torch"]


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A row of the op table that is whole, or one step.

    Attributes:
        steps: what it does; one step if it is no row.
        row: the row; None for a call of torch.
        hidden: whether anything outside of the row reads results that the row keeps for its own rules.
        scope: the labels of the modules around it, outermost first. A line of the backward has those of the op whose
            gradient it computes.
    """

    steps: tuple[ProgramStep, ...]
    row: RowCall | None
    hidden: bool
    scope: tuple[str, ...]

    @property
    def first(self) -> ProgramStep:
        """The first of its steps, which has the user's line."""
        return self.steps[0]

    @property
    def phase(self) -> Phase:
        """Which part of a training step it belongs to. The first gradient of a backward belongs to the backward."""
        step = self.first
        begins = step.phase == "forward" and any(value.gradient_of is not None for value in step.results())
        return "backward" if begins else step.phase

    @property
    def random(self) -> bool:
        """Whether it draws random numbers."""
        return any(step.random for step in self.steps)

    def results(self) -> list[Value]:
        """The values that it makes, which others may use."""
        if self.row is None:
            return self.first.results()
        given = {id(one) for one in leaves((self.row.args, self.row.settings))}
        return [one for one in handed(self.row, self.hidden) if isinstance(one, Value) and id(one) not in given]


def lines_of(listing: Listing, level: Level, called: bool = True) -> list[ProgramLine]:
    """The lines of a listing in order.

    Args:
        listing: the listing to write.
        level: at "torch" each step is a line.
        called: whether a row counts only if one call of it can replace its steps. If this is False, a row also
            counts if all of its steps are there, one after another.
    """
    scopes = _LineScopes()
    found = []
    groups = _grouped(listing, called) if level == "ops" else (((step,), None, False) for step in listing.steps)
    for steps, row, hidden in groups:
        found.append(ProgramLine(steps, row, hidden, scopes.of(steps)))
    return found


def handed(row: RowCall, hidden: bool) -> tuple[Any, ...]:
    """The results that a call of the row gives; if ``hidden``, those that a call of its forward gives."""
    return row.results if hidden or row.op.many else row.results[: row.op.shown]


def _grouped(listing: Listing, called: bool) -> Iterator[tuple[tuple[ProgramStep, ...], RowCall | None, bool]]:
    """The steps in groups: those of a row that can be called in their place, or single ones.

    If a pass has left out steps of a row because nothing needs them, the row can be called as well.
    """
    counts = Counter(id(step.row) for step in listing.steps if step.row is not None)
    reads, writers = _readers(listing), _writers(listing)
    known = {id(value) for value in (*listing.inputs, *listing.captured)}
    place = 0
    while place < len(listing.steps):
        step = listing.steps[place]
        row = step.row
        if row is not None:
            steps = tuple(listing.steps[place : place + counts[id(row)]])
            how = None if _is_continued(row, steps, writers) else _callable(row, steps, known, reads)
            if not called and len(steps) == row.steps and all(one.row is row for one in steps):
                how = bool(how)
            if how is not None:
                yield steps, row, how
                known |= {id(one) for step in steps for one in step.results()}
                place += len(steps)
                continue
        yield (step,), None, False
        known |= {id(one) for one in step.results()}
        place += 1


_OUTSIDE = -1
"""Stands for a row that reads each value that leaves the program."""


def _readers(listing: Listing) -> dict[int, set[int]]:
    """For each value the ids of the rows that read it; a step without a row has its own id there."""
    reads: dict[int, set[int]] = {id(value): {_OUTSIDE} for value in listing.leaving()}
    for step in listing.steps:
        reader = id(step if step.row is None else step.row)
        given = () if step.row is None else leaves((step.row.args, step.row.settings))  # perhaps no step reads them
        for value in (*step.inputs(), *step.writes, *given):
            reads.setdefault(id(value), set()).add(reader)
    return reads


def _writers(listing: Listing) -> dict[int, set[int]]:
    """For each memory the ids of the rows that change it; a step without a row has its own id there."""
    writers: dict[int, set[int]] = {}
    for step in listing.steps:
        for value in step.writes:
            writers.setdefault(value.storage, set()).add(id(step if step.row is None else step.row))
    return writers


def _is_continued(row: RowCall, steps: tuple[ProgramStep, ...], writers: dict[int, set[int]]) -> bool:
    """Whether a pass may have replaced a step of the row by one outside of it, which changes the row's memory."""
    made = {value.storage for step in steps for value in step.results()}
    return len(steps) < row.steps and any(writers.get(storage, set()) - {id(row)} for storage in made)


def _callable(  # noqa: PLR0911  # a reason each
    row: RowCall, steps: tuple[ProgramStep, ...], known: Container[int], reads: dict[int, set[int]]
) -> bool | None:
    """As ``ProgramLine.hidden`` for a row; None if a call of the row cannot replace the steps."""
    if any(step.row is not row for step in steps):
        return None
    if (listed := OPS.get(row.op.name)) is None or listed.forward is not row.op.forward:
        return None
    taken = list(leaves((row.args, row.settings)))
    # A path of views cannot be written as an argument, and neither can an argument of which a file has only the text.
    if any(isinstance(one, Path) or (isinstance(one, Value) and id(one) not in known) for one in taken):
        return None
    made = {id(value) for step in steps for value in step.results()}
    given = {id(one) for one in taken} | made
    if any(id(one) not in given and one.kind == "result" for step in steps for one in step.inputs()):
        return None  # another step has replaced one of the row's steps
    foreign = {value.storage for step in steps for value in step.inputs() if id(value) not in made}
    named = zip(row.op.inputs, row.args, strict=False)
    foreign -= {one.storage for name, one in named if name in row.op.mutates and isinstance(one, Value)}
    if any(value.storage in foreign for step in steps for value in step.writes):
        return None  # it changes memory of others, which a call of the row would not
    used = {key for key in made if reads.get(key, set()) - {id(row)}}
    shown = {id(one) for one in handed(row, False)}
    every = {id(one) for one in row.results}
    if used <= shown:
        return False
    return True if used <= every else None


class _LineScopes:
    """The modules that lines belong to."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[str, ...]] = {}
        self._backward: set[int] = set()

    def of(self, steps: tuple[ProgramStep, ...]) -> tuple[str, ...]:
        """The scope of a line, which its results then have too."""
        step = steps[0]
        scope = step.scope
        if step.phase == "backward":
            scope = next(self._found(steps), ())
        for one in steps:
            for value in one.results():
                self._of[id(value)] = scope
                if step.phase == "backward":
                    self._backward.add(id(value))
        return scope

    def _found(self, steps: tuple[ProgramStep, ...]) -> Iterator[tuple[str, ...]]:
        """Scopes that a step of the backward may have, the best first: the scope of the op whose gradient it takes."""
        inputs = [value for step in steps for value in step.inputs()]
        for value in inputs:
            if value.gradient_of is not None and id(value.gradient_of) in self._of:
                yield self._of[id(value.gradient_of)]
        for value in reversed(inputs):
            if id(value) in self._backward:
                yield self._of[id(value)]
