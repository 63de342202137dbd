"""Broadcast sinking: compute on the numbers that there are, and repeat them as late as possible."""

from collections import Counter
from typing import Any, NamedTuple

import torch

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value, name_of
from nbgrad.core.symbolic.passes.algebra import identity
from nbgrad.core.symbolic.passes.constants import number_of
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import (
    ELEMENTWISE,
    ROUNDED,
    SUMS,
    Sum,
    broadcast,
    canonical,
    form_of,
    is_elementwise,
    one_name,
    sum_of,
)
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, note, storages

_EXPANDS = frozenset(("expand", "expand_as", "broadcast_to"))

CACHED = 1 << 16
"""Up to this many bytes, an addition and one sum cost less than two sums: the added numbers stay in the cache."""


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
        self._leaving = storages(listing.kept())
        self._editor = Editor(listing)
        self._small: dict[int, Value] = {}
        self._numbers: dict[int, Value] = {}
        self._steps: list[tuple[ProgramStep, Note | None, bool]] = []
        self._expanded: set[int] = set()
        self._whole = self._needed_whole()

    def passed(self) -> Passed[Any]:
        """The result of the pass."""
        for step in self._listing.steps:
            self._visit(step)
        live = {id(value) for value in self._listing.kept()}
        kept, notes = list[ProgramStep](), list[Note]()
        for step, made, optional in reversed(self._steps):
            if optional and not any(id(value) in live for value in step.results()):
                continue
            live.update(id(value) for value in (*step.inputs(), *step.writes))
            kept.append(step)
            if made is not None:
                notes.append(made)
        return Passed.of(self._listing, kept[::-1], notes[::-1], constants=self._numbers.values())

    def _fits(self, step: ProgramStep) -> bool:
        """Whether a step makes one value whose numbers stay."""
        result = step.result
        return isinstance(result, Value) and not step.writes and not step.random and result.storage not in self._written

    def _needed_whole(self) -> set[int]:
        """The values that a step must read whole. They have no small form: to compute both forms would cost more."""
        shapes, repeats = self._small_shapes()
        whole = self._read_whole(shapes)
        # If the last value of a chain is needed whole, it is expanded at the end of the chain, not at the beginning.
        for key, step in repeats.items():
            if key in whole and any(id(one) in repeats and id(one) not in whole for one in step.inputs()):
                self._expanded.add(key)
        for key in reversed(repeats):
            if key in whole and key not in self._expanded:
                whole.update(id(value) for value in repeats[key].inputs())
        return whole

    def _small_shapes(self) -> tuple[dict[int, tuple[int, ...]], dict[int, ProgramStep]]:
        """The shape of the smaller value that each value repeats, and the elementwise steps that make such values."""
        shapes: dict[int, tuple[int, ...]] = {}
        repeats: dict[int, ProgramStep] = {}
        for step in self._listing.steps:
            if not self._fits(step):
                continue
            result, shape = step.result, None
            if step.name in _EXPANDS and isinstance(step.args[0], Value):
                shape = self._shape(step.args[0], shapes)
            elif is_elementwise(step, self._names):
                if any(id(one) in shapes or one.constant for one in step.inputs()):
                    shape = broadcast(self._shape(one, shapes) for one in step.inputs())
            elif self._reassociate and (of := sum_of(step)) is not None and id(of.of) in shapes:
                shape = _summed(shapes[id(of.of)], of)
            if shape is not None and _count(shape) < result.numel:
                shapes[id(result)] = shape
                if is_elementwise(step, self._names):
                    repeats[id(result)] = step
        return shapes, repeats

    def _read_whole(self, shapes: dict[int, tuple[int, ...]]) -> set[int]:
        """The values that are returned, or read by a step that cannot read a smaller value for them."""
        whole = {id(value) for value in self._listing.kept()}
        for step in reversed(self._listing.steps):
            if self._fits(step):
                if step.name in _EXPANDS and isinstance(step.args[0], Value):
                    if id(step.result) not in whole:
                        continue
                elif is_elementwise(step, self._names) or (
                    self._reassociate and (of := sum_of(step)) is not None and id(of.of) in shapes
                ):
                    continue
            whole.update(id(value) for value in step.inputs())
        return whole

    def _shape(self, value: Value, shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        known = shapes.get(id(value))
        return self._smallest(value).shape if known is None else known

    def _visit(self, step: ProgramStep) -> None:
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

    def _keep(self, step: ProgramStep, made: Note | None = None, *, optional: bool = False) -> None:
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

    def _elementwise(self, step: ProgramStep) -> None:
        """A step that computes each number from those at the same place."""
        result = step.result
        if not any(id(one) in self._small or one.constant for one in step.inputs()):
            self._keep(step)
            return
        smalls = tuple(self._smallest(one) if isinstance(one, Value) else one for one in step.args)
        shape = broadcast(one.shape for one in smalls if isinstance(one, Value))
        if _count(shape) < result.numel and (id(result) not in self._whole or id(result) in self._expanded):
            self._small_elementwise(step, smalls, shape)
            return
        if any(one is not other for one, other in zip(smalls, step.args, strict=True)):
            made = self._editor.call(step.function, smalls, step, result=result)
            if made is not None:
                gain = not all(one is other or other.constant for one, other in zip(smalls, step.args, strict=True))
                self._keep(made, note("read before expand", step, [made], 0) if gain else None)
                return
        self._keep(step)

    def _small_elementwise(self, step: ProgramStep, smalls: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        """A step whose result repeats a smaller value."""
        result = step.result
        whole: list[ProgramStep] = [step]
        same = identity(step, self._reassociate)
        if same is not None and _count(self._smallest(same).shape) <= _count(shape):
            self._small[id(result)] = self._smallest(same)
        else:
            made = self._editor.call(step.function, smalls, step)
            if made is not None and made.result.dtype is result.dtype:
                self._small[id(result)] = made.result
                self._keep(made, note("elementwise before expand", step, [made], 0), optional=True)
        if id(result) in self._expanded and id(result) in self._small:
            whole = self._written_out(step, self._small[id(result)]) or whole
        for one in whole:
            self._keep(one, optional=True)

    def _written_out(self, step: ProgramStep, small: Value) -> list[ProgramStep] | None:
        """The steps that expand a smaller value, and write it to the result of a step; None for unusual strides."""
        expand = self._editor.call(torch.Tensor.expand, (small, step.result.shape), step, view_of=small)
        if expand is None:
            return None
        settings = {"memory_format": torch.contiguous_format}
        clone = self._editor.call(torch.clone, (expand.result,), step, settings, result=step.result)
        return None if clone is None else [expand, clone]

    def _sum(self, step: ProgramStep, of: Sum) -> None:
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
        made: list[ProgramStep | None] = []
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
        written = self._written_out(step, value)
        if written is None or any(one is None for one in made):
            self._keep(step)
            return
        self._small[id(step.result)] = value
        steps = [*(one for one in made if one is not None), *written]
        told = note("sum of expand", step, steps, 0)
        for place, one in enumerate(steps):
            self._keep(one, told if place == 0 else None, optional=True)


def _result(made: list[ProgramStep | None], other: Value) -> Value:
    last = made[-1]
    return other if last is None else last.result


def _summed(small: tuple[int, ...], of: Sum) -> tuple[int, ...]:
    """The shape of a sum of a value of shape ``small`` that was expanded."""
    lead = len(of.of.shape) - len(small)
    kept = (1 if lead + place in of.dims else size for place, size in enumerate(small))
    if of.keepdim:
        return tuple(kept)
    return tuple(size for place, size in enumerate(small) if lead + place not in of.dims)


def _count(shape: Any) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def merge_sums(listing: L) -> Passed[L]:
    """``sum(x) + sum(y) = sum(x + y)``, and the same for differences, where each sum is read once.

    Also in a chain: ``(c + sum(x)) + sum(y) = c + sum(x + y)``. For sums of up to 64 KiB, which are in the cache: a sum
    reads its numbers once, and an addition moves three times as many. The last digits change.
    """
    return _Merging(listing).passed()


class _Term(NamedTuple):
    """The sum at the end of a chain of additions.

    Attributes:
        rest: what it is added to; None if it stands alone.
        function: the addition or subtraction.
        of, value: the sum, and its result.
    """

    rest: Value | None
    function: Any
    of: Sum
    value: Value


class _Merging:
    """One pass of ``merge_sums``."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._written = Memory(listing).written
        self._uses = _uses(listing)
        self._editor = Editor(listing)
        self._ends: dict[int, _Term] = {}
        self._dropped: set[int] = set()

    def passed(self) -> Passed[Any]:
        """The result of the pass."""
        steps, notes = list[ProgramStep](), list[Note]()
        for step in self._listing.steps:
            of = sum_of(step)
            if of is not None:
                if not {step.result.storage, of.of.storage} & self._written and of.dims and of.of.nbytes <= CACHED:
                    self._ends[id(step.result)] = _Term(None, None, of, step.result)
                steps.append(step)
                continue
            plain = canonical(step) in SUMS and len(step.inputs()) == len(step.args) == _OPERANDS
            made = self._merged(step) if plain and is_elementwise(step, ROUNDED) else None
            if made is None:
                steps.append(step)
                continue
            steps += made
            notes.append(note("sum of sums", step, made, 0))
        kept = [one for one in steps if not (isinstance(one.result, Value) and id(one.result) in self._dropped)]
        return Passed.of(self._listing, kept, notes)

    def _merged(self, step: ProgramStep) -> list[ProgramStep] | None:
        """The steps that stand for an addition of sums."""
        first, second = step.args
        before, after = self._end(first), self._end(second)
        if after is None or after.rest is not None:
            return None
        if before is None or not _alike(before.of, after.of):
            self._ends[id(step.result)] = _Term(first, step.function, after.of, second)
            return None
        one, other = before.of, after.of
        function: Any = step.function
        if before.rest is not None and _sign(before.function) != "add":  # c - sum(x) + sum(y) = c - sum(x - y)
            function = SUMS[_sign(step.function)]
        inner = self._editor.call(function, (one.of, other.of), step)
        if inner is None:
            return None
        made = inner.result
        alone = step.result if before.rest is None else None
        outer = self._editor.call(torch.sum, (made, one.dims, one.keepdim), step, result=alone)
        if outer is None:
            return None
        steps = [inner, outer]
        if before.rest is not None:
            chained = self._editor.call(before.function, (before.rest, outer.result), step, result=step.result)
            if chained is None:
                return None
            steps.append(chained)
            self._dropped.add(id(before.value))
        self._dropped.update((id(first), id(second)))
        self._ends[id(step.result)] = _Term(before.rest, before.function, Sum(made, *one[1:]), outer.result)
        return steps

    def _end(self, value: Value) -> _Term | None:
        """The sum at the end of a chain that this addition alone reads."""
        found = self._ends.get(id(value))
        return found if found is not None and self._uses[id(value)] == 1 else None


_OPERANDS = 2


def _alike(one: Sum, other: Sum) -> bool:
    return (one.dims, one.keepdim, form_of(one.of)) == (other.dims, other.keepdim, form_of(other.of))


def _sign(function: Any) -> str:
    return one_name(name_of(function))


def _uses(listing: Listing) -> Counter[int]:
    uses = Counter(id(value) for step in listing.steps for value in step.inputs())
    uses.update(id(value) for value in listing.kept())
    return uses


def factor_out(listing: L) -> Passed[L]:
    """``sum(-x) = -sum(x)``, and ``sum(a x) = a sum(x)`` where ``a`` is the same in each sum. The last digits change.

    Only where the product is read by the sum alone.
    """
    written = Memory(listing).written
    uses = _uses(listing)
    editor = Editor(listing)
    made: dict[int, ProgramStep] = {}
    dropped: set[int] = set()
    steps, notes = list[ProgramStep](), list[Note]()
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
            notes.append(note("factor out of a sum", step, pair, 0))
        for one in pair or (step,):
            for value in one.results():
                made[id(value)] = one
    steps = [step for step in steps if not (isinstance(step.result, Value) and id(step.result) in dropped)]
    return Passed.of(listing, steps, notes)


def _factored(step: ProgramStep, of: Sum, inner: ProgramStep, editor: Editor) -> tuple[ProgramStep, ProgramStep] | None:
    """The sum of the other factor, and the product with it."""
    name, args = canonical(inner), inner.args
    if name == "neg":
        choices: list[tuple[Any, Any]] = [(args[0], None)]
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
        outer = editor.call(inner.function, given, step, result=step.result)
        if outer is not None:
            return summed, outer
    return None


def _same_in_each(factor: Any, of: Sum) -> bool:
    """Whether a factor is the same number within each sum, and so can be multiplied with the sums instead."""
    if not isinstance(factor, Value) or not factor.shape:
        return True
    lead = len(of.of.shape) - len(factor.shape)
    if of.keepdim:
        return all(dim < lead or factor.shape[dim - lead] == 1 for dim in of.dims)
    return all(dim < lead for dim in of.dims)
