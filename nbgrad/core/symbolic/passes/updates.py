"""Updates: the changes of parameters at the end of a training step."""

from collections import Counter
from dataclasses import replace

import torch

from nbgrad.core.dispatch.table import row_of
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed, note, storages

_ADDITIONS = frozenset(("_foreach_add_", "add_"))
_MATRIX = 2

LARGE = 1 << 18
"""The bytes of a gradient from which on its update gets a step of its own, which can run early."""


def fold_updates(listing: L) -> Passed[L]:
    """Add a gradient that is a matrix product to its parameter as it is computed: ``w.addmm_(a, b, alpha=-lr)``.

    The gradient is not written to memory. Only where nothing else reads it and it does not leave the program: a step
    whose ``zero_grad()`` comes last. The last digits change. An error in a run leaves no gradient.
    """
    memory = _Accesses(listing)
    made = {id(value): (position, step) for position, step in enumerate(listing.steps) for value in step.results()}
    folded: set[int] = set()
    steps, notes = list[ProgramStep](), list[Note]()
    for position, step in enumerate(listing.steps):
        pairs = _pairs(step)
        if pairs is None:
            steps.append(step)
            continue
        kept: list[tuple[Value, Value]] = []
        for target, gradient in pairs:
            found = made.get(id(gradient))
            if found is None or not _foldable(target, gradient, found, memory, position):
                kept.append((target, gradient))
                continue
            product = found[1]
            folded.add(id(product))
            add = ProgramStep(
                torch.Tensor.addmm_,
                (target, *product.args),
                dict(step.kwargs),
                target,
                (target,),
                False,
                step.phase,
                None,
                step.place,
                order=step.order,
            )
            steps.append(add)
            notes.append(note("folded update", product, [add], 0))
        if len(kept) == len(pairs):
            steps.append(step)
        elif kept:
            steps.append(_group(step, kept))
    if not notes:
        return Passed(listing, [])
    rest = [step for step in steps if id(step) not in folded]
    return Passed(replace(listing, events=[]).with_steps(rest), notes)


def run_updates_early(listing: L) -> Passed[L]:
    """Run an update as soon as its gradient is there and no later step reads the parameter. It frees the gradient.

    A gradient of 256 KiB or more gets a step of its own for it. No digit changes. But an error in a run may leave some
    parameters updated and others not, so ``compile`` does without this pass.
    """
    listing_ = _split(listing)
    buckets: list[list[ProgramStep]] = [[] for _ in range(len(listing_.steps) + 1)]
    made: dict[int, int] = {}
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    notes = list[Note]()
    for position, step in enumerate(listing_.steps):
        place = position
        if step.phase == "update" and step.writes and not step.random and not step.results():
            place = max(
                *(made.get(id(value), 0) for value in step.inputs()),
                *(written.get(value.storage, 0) for value in step.inputs()),
                *(max(read.get(value.storage, 0), written.get(value.storage, 0)) for value in step.writes),
                0,
            )
        buckets[place].append(step)
        for value in step.results():
            made[id(value)] = place
        for value in step.inputs():
            read[value.storage] = max(read.get(value.storage, 0), place)
        for value in (*step.writes, *step.results()):
            written[value.storage] = max(written.get(value.storage, 0), place)
    steps = [step for bucket in buckets for step in bucket]
    before = {id(step): position for position, step in enumerate(listing_.steps)}
    for position, step in enumerate(steps):
        if before[id(step)] > position and step.phase == "update":
            notes.append(note("early update", step, [step], 0))
    moved = any(step is not other for step, other in zip(steps, listing_.steps, strict=True))
    if not moved:
        return Passed(listing, [])
    return Passed(replace(listing_, events=[]).with_steps(steps), notes)


class _Accesses:
    """Where memory is written, and how often values are read."""

    def __init__(self, listing: Listing) -> None:
        self.uses = Counter(id(value) for step in listing.steps for value in step.inputs())
        self.uses.update(id(value) for value in listing.leaving())
        self.views = Counter(value.storage for step in listing.steps for value in step.results())
        self._writes: dict[int, list[int]] = {}
        for position, step in enumerate(listing.steps):
            for storage in storages(step.writes):
                self._writes.setdefault(storage, []).append(position)

    def written_between(self, value: Value, first: int, last: int) -> bool:
        """Whether a step after ``first`` and before ``last`` writes the memory of a value."""
        return any(first < position < last for position in self._writes.get(value.storage, ()))


def _pairs(step: ProgramStep) -> list[tuple[Value, Value]] | None:
    """The targets of an addition in place, each with its addend; None for another step."""
    if step.name not in _ADDITIONS or len(step.args) != 2 or not set(step.kwargs) <= {"alpha"}:
        return None
    targets, added = step.args
    if step.name == "add_":
        fits = step.phase == "update" and isinstance(targets, Value) and isinstance(added, Value)
        return [(targets, added)] if fits else None
    if not isinstance(targets, list | tuple) or not isinstance(added, list | tuple):
        return None
    return list(zip(targets, added, strict=True))


def _foldable(target: Value, gradient: Value, found: tuple[int, ProgramStep], memory: _Accesses, position: int) -> bool:
    place, product = found
    row = row_of(product.name)
    if row is None or row.module != "linalg.matmul" or product.kwargs or not row.arity == len(product.args) == 2:
        return False
    if memory.uses[id(gradient)] != 1 or memory.views[gradient.storage] != 1 or len(gradient.shape) != _MATRIX:
        return False
    parts = product.inputs()
    if len(parts) != _MATRIX or any(len(one.shape) != _MATRIX or one.dtype is not target.dtype for one in parts):
        return False
    if any(one.storage == target.storage or memory.written_between(one, place, position) for one in parts):
        return False
    return target.shape == gradient.shape and target.dtype is gradient.dtype and target.device == gradient.device


def _group(step: ProgramStep, pairs: list[tuple[Value, Value]]) -> ProgramStep:
    """A step like ``step``, which updates only the parameters in ``pairs``."""
    targets, added = [one for one, _ in pairs], [one for _, one in pairs]
    result = list(targets) if step.result is not None else None
    writes = tuple(one for one in step.writes if any(one is target for target in targets))
    return ProgramStep(
        *(step.function, (targets, added), step.kwargs, result, writes, False, step.phase, None, step.place),
        order=step.order,
    )


def _split(listing: L) -> L:
    """The listing with a step of its own for the update by each large gradient."""
    steps: list[ProgramStep] = []
    for step in listing.steps:
        pairs = _pairs(step)
        if pairs is None or step.phase != "update":
            steps.append(step)
            continue
        large = [pair for pair in pairs if pair[1].nbytes >= LARGE and pair[0].device.type == "cpu"]
        if not large or len(pairs) == 1:
            steps.append(step)
            continue
        rest = [pair for pair in pairs if not any(pair is one for one in large)]
        steps += [_group(step, [pair]) for pair in large]
        if rest:
            steps.append(_group(step, rest))
    return listing if len(steps) == len(listing.steps) else listing.with_steps(steps)
