"""Forms: the families of torch functions that passes know, and the shape, strides and type of what they return."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from nbgrad.core.dispatch.table import OPS, Op, row_of
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.ir import ProgramStep, Value
from nbgrad.core.symbolic.nest.ir import COMPARISONS
from nbgrad.core.symbolic.numbers import Number

ROUNDED = frozenset(
    (
        *("add", "sub", "mul", "div", "neg", "abs", "sqrt", "square", "reciprocal", "maximum", "minimum", "where"),
        *("relu", "threshold_backward", "sign", "floor", "ceil", "trunc", "eq", "ne", "lt", "le", "gt", "ge"),
    )
)
"""Elementwise functions whose result is the rounded exact one: the same digits in whatever loop a kernel takes."""

_POINTWISE = ("elementwise.", "neural.activations", "neural.rectifiers")


def row_for(name: str) -> Op | None:
    """The row for a function, also for an operator's method with exchanged operands if their order does not matter."""
    row = row_of(name)
    if row is None and name.startswith("__r"):
        row = row_of(f"__{name[3:]}")
        return row if traits_of(row).commutes else None
    return row


def is_pointwise(name: str) -> bool:
    """Whether a function computes each number from those at the same place, and has no weights and no dimension."""
    row = row_of(name)
    if row is None or not row.module.startswith(_POINTWISE):
        return False
    return not (row.view or row.sums or "dim" in row.defaults)


ELEMENTWISE = ROUNDED | {name for name in OPS if is_pointwise(name)}
"""Elementwise functions. The last digit of some of them depends on where in memory a number is."""

SUMS: dict[str, Callable[..., Any]] = {"add": torch.sub, "sub": torch.add}
"""The sum and the difference, each with the function that gives the same with the second operand's sign changed."""

SCALARS = (bool, int, float)


def canonical(step: ProgramStep) -> str:
    """The name of the function of a step, one for all its spellings."""
    return one_name(step.name)


def one_name(name: str) -> str:
    """The one name for all spellings of a function."""
    row = row_for(name)
    return name if row is None else row.name


def is_elementwise(step: ProgramStep, names: frozenset[str]) -> bool:
    """Whether a step computes each number of one result from numbers at the same place, without a change of type.

    Args:
        step: any step.
        names: the functions to accept: ``ROUNDED`` or ``ELEMENTWISE``.
    """
    family = step._family
    if family is None:
        family = step._family = _family(step)
    return family == _IN_ROUNDED or (family == _IN_ELEMENTWISE and names is ELEMENTWISE)


_IN_ROUNDED, _IN_ELEMENTWISE, _OTHER = 2, 1, 0


def _family(step: ProgramStep) -> int:  # noqa: PLR0911  # a return for each reason
    """Which family of elementwise functions a step belongs to."""
    result = step.result
    name = canonical(step)
    if name not in ELEMENTWISE or not isinstance(result, Value) or step.writes or step.random or step.kwargs:
        return _OTHER
    same = step.args[1:] if name == "where" else step.args
    if not all(isinstance(one, Value | Number) or type(one) in SCALARS for one in step.args):
        return _OTHER
    values = [one for one in same if isinstance(one, Value)]
    if not values or result.stride is None or result.dtype.is_complex:
        return _OTHER
    dtype = values[0].dtype
    if any(one.dtype is not dtype for one in values):
        return _OTHER
    if any(one.stride is None or one.device != result.device for one in step.inputs()):
        return _OTHER
    if result.dtype is not dtype and name not in COMPARISONS:
        return _OTHER
    return _IN_ROUNDED if name in ROUNDED else _IN_ELEMENTWISE


class Form(NamedTuple):
    """The form of a tensor, without its numbers."""

    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: torch.dtype


def form_of(value: Value) -> Form:
    """The form of a value."""
    return Form(value.shape, value.stride, value.dtype)


class Forms:
    """Finds the form of the result of a call without running it, and remembers it."""

    def __init__(self) -> None:
        self._known: dict[Any, Form | None] = {}

    def of(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form | None:
        """The form of the one tensor that a call returns; None where torch refuses it or returns another thing."""
        try:
            key = (id(function), _key(args), _key(tuple(kwargs.items())))
            known = self._known.get(key, False)
        except TypeError:
            return self._computed(function, args, kwargs)
        if known is False:
            known = self._known[key] = self._computed(function, args, kwargs)
        return known  # type: ignore[return-value]

    def _computed(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form | None:
        if any(isinstance(one, Value) and one.stride is None for one in leaves((args, kwargs))):
            return None
        try:
            made = function(*mapped(_stand_in, args), **mapped(_stand_in, kwargs))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None
        if not isinstance(made, torch.Tensor) or made.layout is not torch.strided:
            return None
        return Form(tuple(made.shape), tuple(made.stride()), made.dtype)


def _key(given: Any) -> Any:
    if isinstance(given, Value):
        return form_of(given)
    if isinstance(given, Number):
        return Number
    if isinstance(given, list | tuple) and not isinstance(given, torch.Size):
        return (type(given), *map(_key, given))
    return (type(given), given)


def _stand_in(given: Any) -> Any:
    if isinstance(given, Value):
        return torch.empty_strided(given.shape, given.stride, dtype=given.dtype, device="meta")  # type: ignore[arg-type]
    return float(given) if isinstance(given, Number) else given


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that values of these shapes have together, which is known to exist."""
    found: tuple[int, ...] = ()
    for shape in shapes:
        if shape == found or not shape:
            continue
        long, short = (shape, found) if len(shape) >= len(found) else (found, shape)
        lead = len(long) - len(short)
        tail = tuple(b if a == 1 else a for a, b in zip(long[lead:], short, strict=True))
        found = (*long[:lead], *tail)
    return found


class Sum(NamedTuple):
    """A sum over dimensions.

    Attributes:
        of: the summed value.
        dims: the dimensions, from 0, in order.
        keepdim: whether they stay, with size 1.
    """

    of: Value
    dims: tuple[int, ...]
    keepdim: bool


def sum_of(step: ProgramStep) -> Sum | None:  # noqa: PLR0911  # a return for each form
    """A step as a sum that keeps the type; None if it is another thing."""
    name, result = step.name, step.result
    if name not in ("sum", "sum_to_size") or not isinstance(result, Value) or step.writes or not step.args:
        return None
    of = step.args[0]
    if not isinstance(of, Value) or of.dtype is not result.dtype or not of.dtype.is_floating_point:
        return None
    if name == "sum_to_size":
        if step.kwargs:
            return None
        size = list(leaves(step.args[1:])) if not isinstance(step.args[1], torch.Size) else list(step.args[1])
        return _to_size(of, size) if all(type(one) is int for one in size) else None
    if (
        not set(step.kwargs) <= {"dim", "keepdim", "dtype"}
        or step.kwargs.get("dtype") is not None
        or len(step.args) > 3
    ):
        return None
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
    keepdim = step.args[2] if len(step.args) > 2 else step.kwargs.get("keepdim", False)
    rank = len(of.shape)
    chosen: Sequence[Any] = range(rank) if dim is None else (dim,) if type(dim) is int else dim
    if dim is not None and not chosen:
        chosen = range(rank)
    if not all(type(one) is int for one in chosen) or type(keepdim) is not bool or not rank:
        return None
    return Sum(of, tuple(sorted({one % rank for one in chosen})), keepdim)


def _to_size(of: Value, size: list[int]) -> Sum | None:
    """The sum to a smaller shape of as many dimensions, or one that lacks the first dimensions."""
    lead = len(of.shape) - len(size)
    inner = [lead + place for place, wanted in enumerate(size) if of.shape[lead + place] != wanted]
    if not inner and lead:
        return Sum(of, tuple(range(lead)), False)
    return Sum(of, tuple(inner), True) if inner and not lead else None
