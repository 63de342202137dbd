"""Rematerialisation: compute a value again where it is read late, in place of keeping it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Generic

from nbgrad.core.structure import mapped
from nbgrad.core.symbolic.ir import ProgramStep, Value
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import is_quick
from nbgrad.core.symbolic.passes.functional import undo_in_place, work_in_place
from nbgrad.core.symbolic.passes.peak import Life, lives, profile
from nbgrad.core.symbolic.passes.rewrite import L, Passed, Replacement, note, storages

LONGEST = 8
"""How many steps may be run again for one value."""


def check_budget(budget: float) -> None:
    """Check what a reader gives as budget: bytes, or up to 1.0 a part of the present peak.

    Raises:
        ValueError: it is not positive.
    """
    if budget <= 0:
        raise ValueError(f"budget={budget}: expected bytes, or a part of the peak up to 1.0")


def rematerialize(listing: L, budget: int) -> Passed[L]:
    """Compute cheap values again where they are read late, until the results take at most ``budget`` bytes together.

    Cheap are elementwise functions, softmax and norms, up to eight of them for one value, from values that are there
    anyway. Random steps never run twice, and nothing is computed again from memory that was written in between. No
    digit changes. Where no cheap value is left the peak stays above the budget.
    """
    undone = undo_in_place(listing)  # memory that is written cannot be computed again
    listing, notes = undone.listing, undone.notes
    tried: set[int] = set()
    while True:
        levels = profile(listing)
        if not levels or max(levels) <= budget:
            break
        state = _State(listing, levels)
        changed = state.without_one(tried)
        if changed is None:
            break
        listing = changed.listing.check()
        notes = notes + changed.notes
    if undone.notes:
        again = work_in_place(listing)
        listing, notes = again.listing.check(), notes + again.notes
    return Passed(listing, notes)


class _State(Generic[L]):
    """A listing, and where each value is made, read and written."""

    def __init__(self, listing: L, levels: list[int]) -> None:
        self._listing = listing
        self._levels = levels
        self._peak = levels.index(max(levels))
        self._made: dict[int, int] = {}
        self._uses: dict[int, list[int]] = {}
        self._writes: dict[int, list[int]] = {}
        self._lives: dict[int, Life] = lives(listing)
        self._owners: Counter[int] = Counter()
        for position, step in enumerate(listing.steps):
            for value in step.results():
                self._made[id(value)] = position
                self._owners[value.storage] += 1
            for value in step.inputs():
                self._uses.setdefault(id(value), []).append(position)
            for storage in storages(step.writes):
                self._writes.setdefault(storage, []).append(position)

    def without_one(self, tried: set[int]) -> Passed[L] | None:
        """The listing in which the largest value that can be computed again is not kept over the peak."""
        kept = {id(value) for value in self._listing.kept()}
        found: list[Value] = []
        for value in self._alive():
            worth = value.nbytes * 1000 >= self._levels[self._peak]
            if worth and id(value) not in tried and id(value) not in kept and self._owners[value.storage] == 1:
                found.append(value)
        for value in sorted(found, key=lambda one: one.nbytes, reverse=True):
            tried.add(id(value))
            uses = self._uses.get(id(value), [])
            place = bisect_right(uses, self._peak)
            if place == len(uses) or (place and uses[place - 1] == self._peak):
                continue
            plan = self._plan(value, uses[place])
            if plan is None:
                continue
            changed = self._again(value, plan, uses[place], tried)
            levels = profile(changed.listing)
            if max(levels) <= self._levels[self._peak]:
                return changed
        return None

    def _alive(self) -> Iterable[Value]:
        """The values that are made before the peak and read after it."""
        for step in self._listing.steps[: self._peak]:
            for value in step.results():
                life = self._lives.get(value.storage)
                if life is not None and life.last > self._peak:
                    yield value

    def _plan(self, value: Value, position: int) -> list[ProgramStep] | None:
        """The steps that compute a value again before ``position``; None if that is not possible, or too much."""
        steps: list[ProgramStep] = []
        done: set[int] = set()
        waiting: list[tuple[Value, bool]] = [(value, False)]
        while waiting:
            one, ready = waiting.pop()
            if id(one) in done:
                continue
            if one is not value and self._there(one, position):
                done.add(id(one))
                continue
            place = self._made.get(id(one))
            if place is None or len(steps) + len(waiting) > 2 * LONGEST:
                return None
            step = self._listing.steps[place]
            if ready:
                steps.append(step)
                done.update(id(made) for made in step.results())
                continue
            if not self._cheap(step, place, position):
                return None
            waiting.append((one, True))
            waiting += [(given, False) for given in step.inputs()]
        return steps if len(steps) <= LONGEST else None

    def _there(self, value: Value, position: int) -> bool:
        """Whether a value is alive at a step, with the numbers that it had when it was made."""
        place = self._made.get(id(value), -1)
        if self._changed(value, place, position):
            return False
        life = self._lives.get(value.storage)
        return life is None or life.last >= position

    def _changed(self, value: Value, first: int, last: int) -> bool:
        return any(first < place < last for place in self._writes.get(value.storage, ()))

    def _cheap(self, step: ProgramStep, place: int, position: int) -> bool:
        if step.random or step.writes or any(one.storage in self._writes for one in step.results()):
            return False
        if any(self._changed(one, place, position) for one in step.inputs()):
            return False
        return is_quick(step) or storages(step.results()) <= storages(step.inputs())

    def _again(self, value: Value, plan: list[ProgramStep], position: int, tried: set[int]) -> Passed[L]:
        """The listing that computes a value again before a step."""
        listing, editor = self._listing, Editor(self._listing)
        stands, storage_of = Replacement(), dict[int, int]()
        late = listing.steps[position]
        again: list[ProgramStep] = []
        for step in plan:
            shared = storages(step.inputs())
            for one in step.results():
                form = (one.shape, one.stride, one.dtype)
                made = editor.value(form, one)  # type: ignore[arg-type]
                if one.storage in storage_of or one.storage in shared:
                    made.storage = storage_of.get(one.storage, one.storage)
                else:
                    storage_of[one.storage] = made.storage
                stands.add(one, made)
                tried.add(id(made))
            copy = step.replaced(stands)
            if copy is step:  # none of its arguments is computed again
                copy = ProgramStep(step.function, step.args, step.kwargs, step.result)
            result = mapped(stands, step.result)
            about = late.phase, None, step.place
            again.append(
                ProgramStep(copy.function, copy.args, copy.kwargs, result, (), False, *about, order=late.order)
            )
        only = Replacement()
        only.add(value, stands(value))
        rest = [_without_row(step, step.replaced(only)) for step in listing.steps[position:]]
        steps = [*listing.steps[:position], *again, *rest]
        made_by = listing.steps[self._made[id(value)]]
        told = note("rematerialize", made_by, again, -len(again))
        return Passed(listing.with_steps(steps), [told])


def _without_row(before: ProgramStep, step: ProgramStep) -> ProgramStep:
    """A step that has changed no longer belongs to its row: others read the value that was computed first."""
    return step if step is before else replace(step, row=None)
