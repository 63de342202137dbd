"""Broadcast sinking: compute on the numbers that there are, and repeat them as late as possible."""

from collections import Counter
from typing import Any

import torch

from nbgrad.core.symbolic.ir import Listing, Step, Value
from nbgrad.core.symbolic.passes.algebra import identity
from nbgrad.core.symbolic.passes.constants import number_of
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import (
    ELEMENTWISE,
    ROUNDED,
    Sum,
    broadcast,
    canonical,
    form_of,
    is_elementwise,
    sum_of,
)
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, Replacement, described, note, storages

_EXPANDS = frozenset(("expand", "expand_as", "broadcast_to"))

CACHED = 1 << 16
"""Up to how many bytes a sum of an addition costs less than two sums: the addition stays in the cache."""


def sink_broadcasts(listing: L) -> Passed[L]:
    """Run elementwise steps on values before they are expanded, and expand the result. No digit changes.

    Only for functions whose result is the rounded exact one, such as sums and products: the last digit of ``exp``
    depends on where in memory a number is.
    """
    return _Sinking(listing, reassociate=False).passed()


def sink_broadcasts_inexact(listing: L) -> Passed[L]:
    """``sink_broadcasts`` for every elementwise function, and for sums: ``sum(expand x) = n x``."""
    return _Sinking(listing, reassociate=True).passed()


class _Sinking:
    """One pass over a listing.

    Where a value repeats a smaller one, the smaller one is computed beside it. The steps that can read the smaller one
    do so. What nothing reads in the end is left out.
    """

    def __init__(self, listing: Listing, *, reassociate: bool) -> None:
        self._listing = listing
        self._reassociate = reassociate
        self._names = ELEMENTWISE if reassociate else ROUNDED
        self._written = Memory(listing).written
        self._leaving = storages(listing.leaving())
        self._editor = Editor(listing)
        self._small: dict[int, Value] = {}
        self._numbers: dict[int, Value] = {}
        self._steps: list[tuple[Step, Note | None, bool]] = []
        self._whole = self._needed_whole()

    def passed(self) -> Passed[Any]:
        """What the pass gives."""
        for step in self._listing.steps:
            self._visit(step)
        live = {id(value) for value in self._listing.leaving()}
        kept, notes = list[Step](), list[Note]()
        for step, made, optional in reversed(self._steps):
            if optional and not any(id(value) in live for value in step.results()):
                continue
            live.update(id(value) for value in (*step.inputs(), *step.writes))
            kept.append(step)
            if made is not None:
                notes.append(made)
        if not notes:
            return Passed(self._listing, [])
        found = self._listing.with_steps(kept[::-1])
        used = {id(value) for step in kept for value in step.inputs()}
        found.captured = [*found.captured, *(one for one in self._numbers.values() if id(one) in used)]
        return Passed(found, notes[::-1])

    def _fits(self, step: Step) -> bool:
        """Whether a step makes one value whose numbers stay."""
        result = step.result
        return isinstance(result, Value) and not step.writes and not step.random and result.storage not in self._written

    def _needed_whole(self) -> set[int]:
        """The values that a step must read as they are: to compute them twice, small and whole, costs more."""
        shapes: dict[int, tuple[int, ...]] = {}
        repeats: set[int] = set()
        for step in self._listing.steps:
            if not self._fits(step):
                continue
            result = step.result
            if step.name in _EXPANDS and isinstance(step.args[0], Value):
                shapes[id(result)] = self._shape(step.args[0], shapes)
            elif is_elementwise(step, self._names):
                found = [self._shape(one, shapes) for one in step.inputs()]
                if result.shape in found:
                    continue
                shape = broadcast(found)
                if _count(shape) < result.numel:
                    shapes[id(result)] = shape
                    repeats.add(id(result))
        whole = {id(value) for value in self._listing.leaving()}
        for step in reversed(self._listing.steps):
            if self._fits(step):
                expands = step.name in _EXPANDS and isinstance(step.args[0], Value)
                elementwise = not expands and is_elementwise(step, self._names)
                if (expands or elementwise) and id(step.result) not in whole:
                    continue
                if elementwise and id(step.result) not in repeats:
                    continue
                if self._reassociate and (of := sum_of(step)) is not None and id(of.of) in shapes:
                    continue
            whole.update(id(value) for value in step.inputs())
        return whole

    def _shape(self, value: Value, shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        known = shapes.get(id(value))
        return self._smallest(value).shape if known is None else known

    def _visit(self, step: Step) -> None:
        result, fit = step.result, self._fits(step)
        if fit and step.name in _EXPANDS and isinstance(step.args[0], Value):
            self._small[id(result)] = self._smallest(step.args[0])
            self._keep(step, optional=True)
        elif fit and is_elementwise(step, self._names):
            self._elementwise(step)
        elif fit and self._reassociate and (of := sum_of(step)) is not None:
            self._sum(step, of)
        else:
            self._keep(step)

    def _keep(self, step: Step, made: Note | None = None, *, optional: bool = False) -> None:
        self._steps.append((step, made, optional))

    def _smallest(self, value: Value) -> Value:
        """The smallest value that ``value`` repeats."""
        small = self._small.get(id(value))
        if small is not None:
            return small
        if value.storage in self._written:
            return value
        if value.constant and value.shape and (number := number_of(value)) is not None:
            known = self._numbers.get(id(value))
            if known is None:
                data = torch.full((), number, dtype=value.dtype, device=value.device)
                known = self._numbers[id(value)] = self._editor.constant(data, value.name)
            return known
        return value

    def _elementwise(self, step: Step) -> None:
        """A step that computes each number from those at the same place."""
        result = step.result
        smalls = tuple(self._smallest(one) if isinstance(one, Value) else one for one in step.args)
        shape = broadcast(one.shape for one in smalls if isinstance(one, Value))
        if _count(shape) < result.numel and id(result) not in self._whole:
            same = identity(step, self._reassociate)
            if same is not None and _count(self._smallest(same).shape) <= _count(shape):
                self._small[id(result)] = self._smallest(same)
                self._keep(step, optional=True)
                return
            made = self._editor.call(step.function, smalls, step)
            if made is not None and made.result.dtype is result.dtype:
                self._small[id(result)] = made.result
                self._keep(made, note("elementwise before expand", step, described(made), 0), optional=True)
            self._keep(step, optional=True)
            return
        if any(one is not other for one, other in zip(smalls, step.args, strict=True)):
            made = self._editor.call(step.function, smalls, step, result=result)
            if made is not None:
                gain = not all(one is other or other.constant for one, other in zip(smalls, step.args, strict=True))
                self._keep(made, note("read before expand", step, described(made), 0) if gain else None)
                return
        self._keep(step)

    def _sum(self, step: Step, of: Sum) -> None:
        """A sum of repeated numbers is a product."""
        small = self._smallest(of.of)
        rank, lead = len(of.of.shape), len(of.of.shape) - len(small.shape)
        real = [dim - lead for dim in of.dims if dim >= lead and small.shape[dim - lead] == of.of.shape[dim]]
        repeated = 1
        for dim in of.dims:
            if dim - lead not in real:
                repeated *= of.of.shape[dim]
        if small is of.of or small.numel == of.of.numel or not of.of.numel:
            self._keep(step)
            return
        made: list[Step | None] = []
        value = small
        if real:
            left = [dim for dim in range(lead, rank) if dim not in of.dims]
            args = (value,) if not left and not of.keepdim else (value, tuple(real), True)
            made.append(self._editor.call(torch.sum, args, step))
            value = _result(made, value)
        if repeated > 1:
            made.append(self._editor.call(torch.mul, (value, repeated), step))
            value = _result(made, value)
        if not of.keepdim and value.shape:
            size = tuple(value.shape[dim - lead] for dim in range(lead, rank) if dim not in of.dims)
            if size != value.shape:
                made.append(self._editor.call(torch.reshape, (value, size), step, view_of=value))
                value = _result(made, value)
        result = step.result
        wide = value
        if value.shape != result.shape:
            made.append(self._editor.call(torch.Tensor.expand, (value, result.shape), step, view_of=value))
            wide = _result(made, value)
        made.append(
            self._editor.call(torch.clone, (wide,), step, {"memory_format": torch.contiguous_format}, result=result)
        )
        if any(one is None for one in made):
            self._keep(step)
            return
        self._small[id(result)] = value
        steps = [one for one in made if one is not None]
        told = note("sum of expand", step, "; ".join(map(described, steps)), 0)
        for place, one in enumerate(steps):
            self._keep(one, told if place == 0 else None, optional=True)


def _result(made: list[Step | None], other: Value) -> Value:
    last = made[-1]
    return other if last is None else last.result


def _count(shape: Any) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def merge_sums(listing: L) -> Passed[L]:
    """``sum(x) + sum(y) = sum(x + y)``, and the same for differences, where each sum is read once.

    For sums of up to 64 KiB, which are in the cache: a sum reads its numbers once, and an addition moves three times as
    many. The last digits change.
    """
    written = Memory(listing).written
    uses = _uses(listing)
    editor = Editor(listing)
    sums: dict[int, tuple[Step, Sum]] = {}
    dropped: set[int] = set()
    steps, notes = list[Step](), list[Note]()
    for step in listing.steps:
        of = sum_of(step)
        if of is not None and step.result.storage not in written and of.of.storage not in written:
            sums[id(step.result)] = (step, of)
        made = _merged(step, sums, uses, editor) if canonical(step) in ("add", "sub") else None
        if made is None:
            steps.append(step)
            continue
        dropped.update(id(one) for one in step.inputs())
        inner, outer = made
        steps += made
        sums[id(step.result)] = (outer, Sum(inner.result, sums[id(step.args[0])][1].dims, outer.args[2]))
        uses[id(inner.result)] = 1
        notes.append(note("sum of sums", step, f"{described(inner)}; {described(outer)}", 0))
    if not notes:
        return Passed(listing, [])
    steps = [step for step in steps if not (isinstance(step.result, Value) and id(step.result) in dropped)]
    return Passed(listing.with_steps(steps), notes)


def _uses(listing: Listing) -> Counter[int]:
    uses = Counter(id(value) for step in listing.steps for value in step.inputs())
    uses.update(id(value) for value in listing.leaving())
    return uses


def _merged(
    step: Step, sums: dict[int, tuple[Step, Sum]], uses: Counter[int], editor: Editor
) -> tuple[Step, Step] | None:
    """The addition, and the sum of it."""
    if not is_elementwise(step, ROUNDED) or any(id(one) not in sums or uses[id(one)] != 1 for one in step.args):
        return None
    one, other = (sums[id(value)][1] for value in step.args)
    if one.dims != other.dims or one.keepdim is not other.keepdim or form_of(one.of) != form_of(other.of):
        return None
    if one.of.nbytes > CACHED or not one.dims:
        return None
    inner = editor.call(step.function, (one.of, other.of), step)
    if inner is None:
        return None
    outer = editor.call(torch.sum, (inner.result, one.dims, one.keepdim), step, result=step.result)
    return None if outer is None else (inner, outer)


def factor_out(listing: L) -> Passed[L]:
    """``sum(-x) = -sum(x)``, and ``sum(a x) = a sum(x)`` where ``a`` is the same in each sum. The last digits change.

    Only where the product is read by the sum alone.
    """
    written = Memory(listing).written
    uses = _uses(listing)
    editor = Editor(listing)
    made: dict[int, Step] = {}
    dropped: set[int] = set()
    steps, notes = list[Step](), list[Note]()
    for step in listing.steps:
        of = sum_of(step)
        inner = None if of is None else made.get(id(of.of))
        pair = None
        if of is not None and inner is not None and uses[id(of.of)] == 1 and step.result.numel < of.of.numel:
            still = all(value.storage not in written for value in (*inner.inputs(), of.of, step.result))
            pair = _factored(step, of, inner, editor) if still and is_elementwise(inner, ROUNDED) else None
        if pair is None or of is None:
            steps.append(step)
        else:
            dropped.add(id(of.of))
            steps += pair
            uses[id(pair[0].result)] = 1
            notes.append(note("factor out of a sum", step, "; ".join(map(described, pair)), 0))
        for one in pair or (step,):
            for value in one.results():
                made[id(value)] = one
    if not notes:
        return Passed(listing, [])
    steps = [step for step in steps if not (isinstance(step.result, Value) and id(step.result) in dropped)]
    return Passed(listing.with_steps(steps), notes)


def _factored(step: Step, of: Sum, inner: Step, editor: Editor) -> tuple[Step, Step] | None:
    """The sum of the other factor, and the product with it."""
    name, args = canonical(inner), inner.args
    if name == "neg":
        choices = [(args[0], None)]
    elif name == "mul":
        choices = [(args[0], args[1]), (args[1], args[0])]
    elif name == "div":
        choices = [(args[0], args[1])]
    else:
        return None
    for value, factor in choices:
        if not isinstance(value, Value) or value.shape != of.of.shape or not _same_in_each(factor, of):
            continue
        summed = editor.call(torch.sum, (value, of.dims, of.keepdim), step)
        if summed is None:
            continue
        given = (summed.result,) if factor is None else (summed.result, factor)
        function = {"neg": torch.neg, "mul": torch.mul, "div": torch.div}[name]
        outer = editor.call(function, given, step, result=step.result)
        if outer is not None:
            return summed, outer
    return None


def _same_in_each(factor: Any, of: Sum) -> bool:
    """Whether a factor has one number in each sum, and broadcasts against the sums as against the products."""
    if not isinstance(factor, Value) or not factor.shape:
        return True
    lead = len(of.of.shape) - len(factor.shape)
    if of.keepdim:
        return all(dim < lead or factor.shape[dim - lead] == 1 for dim in of.dims)
    return all(dim < lead for dim in of.dims)
