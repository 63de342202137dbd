"""Algebra: leave out steps whose result an earlier value has, and find shorter ways to the same result."""

from collections import Counter
from collections.abc import Callable
from math import copysign, prod
from typing import Any

import torch

from nbgrad.core.dispatch.table import row_of
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.passes.constants import number_of
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import ELEMENTWISE, ROUNDED, SUMS, canonical, form_of, is_elementwise, row_for
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, Replacement, note, storages

_BINARY = 2

_CASTS = frozenset(("to", "float", "double", "half", "bfloat16", "type", "type_as"))
_WIDER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}
"""The types that hold every number of another one."""

_CONJUGATE = ("adjoint", "H", "mH")
"""Functions without a row whose view has other numbers, if they are complex."""


def simplify(listing: L) -> Passed[L]:
    """Leave out steps that change nothing, and undo what a later step undoes. No digit changes.

    - ``x * 1``, ``x / 1``, ``x - 0``, ``x + -0.0``, ``x ** 1`` where shape and type stay; not ``x + 0.0``, which makes
      0 of -0;
    - ``-(-x)``; ``x + (-y)``, ``x - (-y)`` and ``(-x) + y``;
    - a view that has the shape and strides of an earlier view of the same memory: a transposed transpose, for example;
    - a reshape of a reshape and an expanded expand, in one step;
    - a conversion to a wider type and back.
    """
    return _Algebra(listing, reassociate=False).passed()


def simplify_inexact(listing: L) -> Passed[L]:
    """The algebra that may change the last digits, or the sign of a zero.

    - ``x + 0``;
    - ``exp(log(x))`` where ``x`` is not negative, whatever its numbers are;
    - ``(x * 2) * 3``, ``x + x`` and ``x * 2 + x`` as one product with a number.
    """
    return _Algebra(listing, reassociate=True).passed()


class _Algebra:
    """One pass over a listing."""

    def __init__(self, listing: Listing, *, reassociate: bool) -> None:
        self._listing = listing
        self._reassociate = reassociate
        self._written = Memory(listing).written
        leaving = listing.kept()
        self._leaving = storages(leaving)
        self._out = {id(value) for value in leaving}
        self._editor = Editor(listing)
        self._made: dict[int, ProgramStep] = {}
        self._views: dict[Any, Value] = {}
        self._roots: dict[int, Value] = {}
        self._stands = Replacement()
        self._notes: list[Note] = []
        self._uses = Counter(id(value) for step in listing.steps for value in step.inputs())
        self._names = ELEMENTWISE if reassociate else ROUNDED

    def passed(self) -> Passed[Any]:
        """The result of the pass."""
        steps: list[ProgramStep] = []
        for value in (*self._listing.inputs, *self._listing.captured):
            self._see(value)
        for given in self._listing.steps:
            step = self._stands.step(given)
            other = self._value_of(step)
            if other is not None:
                self._stands.add(step.result, other)
                self._notes.append(note("algebra", given, [other]))
                continue
            shorter = self._shorter(step)
            if shorter is not None:
                self._notes.append(note("algebra", given, [shorter], 0))
                step = shorter
            steps.append(step)
            for value in step.results():
                self._made[id(value)] = step
                self._see(value)
            if (of := _seen_whole(step)) is not None:
                self._roots[id(step.result)] = self._root(of)
        return Passed.of(self._listing, steps, self._notes, self._stands)

    # ---------------------------------------------------------------------------------------- values there are

    def _see(self, value: Value) -> None:
        """Remember a value that views may come back to."""
        self._views.setdefault((value.storage, form_of(value)), value)

    def _value_of(self, step: ProgramStep) -> Value | None:
        """The earlier value that is equal to the result of a step; None if there is none."""
        result = step.result
        if not isinstance(result, Value) or step.writes or step.random:
            return None
        if (of := _seen_whole(step)) is not None:
            return self._view_of(of, result)
        if not self._free(result):
            return None
        other = None
        if is_elementwise(step, self._names):
            other = identity(step, self._reassociate) or self._undone(step)
        elif step.name in _CASTS:
            other = self._cast(step)
        if other is None or form_of(other) != form_of(result) or not self._still(other):
            return None
        return other

    def _free(self, value: Value) -> bool:
        """Whether other memory can stand for that of a value: nothing writes it, and it stays in the program."""
        return value.storage not in self._written and value.storage not in self._leaving

    def _still(self, value: Value) -> bool:
        """Whether a value has the same numbers all the time."""
        return value.storage not in self._written

    def _view_of(self, of: Value, result: Value) -> Value | None:
        """An earlier value with the same memory, which begins at the same place and has the same form."""
        root = self._root(of)
        known = self._views.get((result.storage, form_of(result)))
        if known is None or self._root(known) is not root:
            return None
        return None if id(result) in self._out else known

    def _root(self, value: Value) -> Value:
        """The value at whose beginning a chain of views begins."""
        return self._roots.get(id(value), value)

    def _undone(self, step: ProgramStep) -> Value | None:
        """``-(-x)``, and ``exp(log(x))`` for an x that is not negative."""
        name = canonical(step)
        inner = self._made.get(id(step.args[0]))
        if inner is None or inner.kwargs or not self._still(step.args[0]):
            return None
        before = inner.args[0] if inner.args else None
        if not isinstance(before, Value):
            return None
        if name == "neg" and canonical(inner) == "neg":
            return before
        if name == "exp" and canonical(inner) == "log":
            source = self._made.get(id(before))
            return before if source is not None and _is_not_negative(source) else None
        return None

    def _cast(self, step: ProgramStep) -> Value | None:
        """A conversion back from a wider type is the value before it was widened."""
        of = step.args[0] if step.args else None
        if not isinstance(of, Value) or len(step.inputs()) != 1:
            return None
        inner = self._made.get(id(of))
        if inner is None or inner.name not in _CASTS or len(inner.inputs()) != 1:
            return None
        before = inner.inputs()[0]
        if not self._still(of):
            return None
        wider = of.dtype in _WIDER.get(before.dtype, ())
        return before if wider and before.dtype is step.result.dtype and before.device == of.device else None

    # ---------------------------------------------------------------------------------------- shorter steps

    def _shorter(self, step: ProgramStep) -> ProgramStep | None:
        """Another step for the same result."""
        result = step.result
        if not isinstance(result, Value) or step.writes or step.random:
            return None
        if (of := _seen_whole(step)) is not None:
            return self._one_view(step, of, result)
        if not is_elementwise(step, self._names) or len(step.args) != _BINARY:
            return None
        name = canonical(step)
        if name in SUMS:
            return self._with_sign(step, name) or (self._multiple(step, name) if self._reassociate else None)
        if self._reassociate and name == "mul":
            return self._one_factor(step)
        return None

    def _one_view(self, step: ProgramStep, of: Value, result: Value) -> ProgramStep | None:
        """A view of a view, in one step."""
        inner = self._made.get(id(of))
        before = None if inner is None else _seen_whole(inner)
        if before is None or self._uses[id(of)] > 1:
            return None
        function: Callable[..., Any] = torch.Tensor.view if before.numel == result.numel else torch.Tensor.expand
        return self._editor.call(function, (before, result.shape), step, result=result)

    def _negated(self, value: Any) -> Value | None:
        """``x`` where a value is ``-x``."""
        inner = self._made.get(id(value)) if isinstance(value, Value) else None
        if inner is None or canonical(inner) != "neg" or not is_elementwise(inner, ROUNDED):
            return None
        before = inner.args[0]
        return before if isinstance(before, Value) and self._still(before) and self._still(value) else None

    def _with_sign(self, step: ProgramStep, name: str) -> ProgramStep | None:
        first, second = step.args
        if isinstance(first, Value) and (plain := self._negated(second)) is not None:
            return self._editor.call(SUMS[name], (first, plain), step, result=step.result)
        if name == "add" and isinstance(second, Value) and (plain := self._negated(first)) is not None:
            return self._editor.call(torch.sub, (second, plain), step, result=step.result)
        return None

    def _one_factor(self, step: ProgramStep) -> ProgramStep | None:
        """``(x * 2) * 3`` as ``x * 6``."""
        of, factor = _with_number(step)
        inner = self._made.get(id(of)) if of is not None else None
        if inner is None or canonical(inner) != "mul" or not is_elementwise(inner, ROUNDED) or self._uses[id(of)] > 1:
            return None
        before, first = _with_number(inner)
        if (
            of is None
            or before is None
            or not self._still(before)
            or not self._still(of)
            or not before.dtype.is_floating_point
        ):
            return None
        return self._editor.call(torch.mul, (before, first * factor), step, result=step.result)

    def _multiple(self, step: ProgramStep, name: str) -> ProgramStep | None:
        """``x + x`` as ``x * 2``, and ``x * 2 + x`` as ``x * 3``."""
        result, (of, first), (other, second) = step.result, *map(self._factor, step.args)
        if of is None or of is not other or step.kwargs or not isinstance(result, Value):
            return None
        if of.shape != result.shape or of.dtype != result.dtype or not of.dtype.is_floating_point:
            return None
        factor = first + second if name == "add" else first - second
        return self._editor.call(torch.mul, (of, factor), step, result=result) if self._still(of) else None

    def _factor(self, value: Any) -> tuple[Value | None, float]:
        """``x`` and 2 where a value is ``x * 2``, the value and 1 otherwise; None where it is no tensor."""
        if not isinstance(value, Value) or not self._still(value):
            return None, 0.0
        inner = self._made.get(id(value))
        if inner is not None and canonical(inner) == "mul" and is_elementwise(inner, ROUNDED):
            before, factor = _with_number(inner)
            if before is not None and self._still(before):
                return before, factor
        return value, 1.0


def _with_number(step: ProgramStep) -> tuple[Value | None, float]:
    """A product with a number as its two parts; None where neither of them is a number."""
    if len(step.args) == _BINARY:
        for value, other in (step.args, step.args[::-1]):
            number = number_of(other)
            if isinstance(value, Value) and number is not None and number_of(value) is None:
                return value, number
    return None, 0.0


def identity(step: ProgramStep, inexact: bool = False) -> Value | None:
    """The operand that an elementwise step returns unchanged, apart from its shape.

    Args:
        step: the step.
        inexact: whether 0 may stand for -0.
    """
    if len(step.args) != _BINARY:
        return None
    traits = traits_of(row_for(step.name))
    neutral = traits.neutral
    for value, other in (step.args, step.args[::-1]) if traits.commutes else (step.args,):
        number = number_of(other)
        if neutral is not None and isinstance(value, Value) and number == neutral and value.dtype is step.result.dtype:
            one_zero = inexact or not value.dtype.is_floating_point
            if one_zero or copysign(1, number) == copysign(1, neutral):
                return value
    return None


def _is_not_negative(step: ProgramStep) -> bool:
    return traits_of(row_for(step.name)).interval[0] >= 0 or step.name == "square"


def _seen_whole(step: ProgramStep) -> Value | None:
    """The value of which a step gives a view that shows all its numbers, and so begins where it begins."""
    of, result = step.args[0] if step.args else None, step.result
    if not isinstance(of, Value) or not isinstance(result, Value) or of is result or step.writes:
        return None
    row, name = row_of(step.name), step.name
    moves = row.traits.moves if row is not None else name not in _CONJUGATE and not name.startswith("_")
    shared = of.storage == result.storage and of.dtype is result.dtype and moves
    return of if shared and _places(of) == _places(result) is not None else None


def _places(value: Value) -> int | None:
    """How many places in memory a value has; None if it has no strides."""
    if value.stride is None:
        return None
    return prod(size for size, stride in zip(value.shape, value.stride, strict=True) if stride)
