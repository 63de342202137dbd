"""How an answer differs from the right one: the shape, the sign, a factor, one row, one element, and by how much.

Checks of exercises, ``nbgrad.testing`` and the answers to a graph explain mistakes with it. None of its sentences holds
the right numbers.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import log10, prod
from types import GeneratorType
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.suggestions import kind_of
from nbgrad.core.translation import translate

RTOL, ATOL = 1e-3, 1e-4
"""How far an answer that was worked out by hand may be off: three digits are enough."""

_FEW = 8
"""Among so few numbers the right one is no chance."""

_DEEPEST = 30
"""How deep the lists of an answer may be nested."""


class _Deviation(NamedTuple):
    kind: str
    text: str


class Deviation(_Deviation):
    """The way in which an answer is wrong.

    Args:
        kind: "type", "dtype", "shape", "not finite", "zero", "sign", "factor", "transposed", "shifted", "order",
            "offset", "row", "element", "rounding" or "numbers".
        text: the same in a sentence, without the right numbers. It is translated.
        values: what the braces in the text stand for, as for ``translate``.
    """

    __slots__ = ()

    def __new__(cls, kind: str, text: str, /, **values: Any) -> Self:
        return super().__new__(cls, kind, translate(text, **values))

    def __str__(self) -> str:
        return self.text


class NoNumbers(TypeError):
    """An answer that holds no numbers."""


def numbers_of(answer: Any, depth: int = 0) -> torch.Tensor:
    """The numbers of an answer, on the CPU and without history.

    Args:
        answer: a tensor of nbgrad's or torch's, an array, a number, or a nested list or tuple of these. A text is none,
            even if it reads as one: no later line could compute with it.
        depth: in how many lists it lies.

    Raises:
        NoNumbers: it is something else, or its rows have different lengths.
    """
    answer = _plain(answer)
    if isinstance(answer, torch.Tensor):
        if answer.is_meta or answer.is_nested:
            raise NoNumbers(
                translate(
                    "a tensor {which} holds no numbers",
                    which=translate("of the device meta") if answer.is_meta else translate("that is nested"),
                )
            )
        answer = answer.dequantize() if answer.is_quantized else answer
        dense: torch.Tensor = answer.detach().to_dense()
        return dense.resolve_conj().resolve_neg().cpu()
    if isinstance(answer, str):
        text = "it is the text {answer!r}, where numbers are expected: write them without quotes"
        raise NoNumbers(translate(text, answer=answer[:200]))
    if isinstance(answer, bool | int | float | complex | np.generic | np.ndarray):
        found = np.asarray(answer)
        if found.dtype.kind not in "biufc":
            raise NoNumbers(translate("an array of {dtype} holds no numbers", dtype=found.dtype))
        return torch.from_numpy(np.array(found, dtype=_float_of(found)))
    if isinstance(answer, list | tuple):
        if depth > _DEEPEST:
            raise NoNumbers(translate("its lists are nested more than {deepest} deep", deepest=_DEEPEST))
        return _stacked([numbers_of(one, depth + 1) for one in answer])
    what = "None" if answer is None else translate("a {kind}", kind=kind_of(answer))
    hint = ": a function, or a cell, that ends without a value gives None" if answer is None else ""
    if isinstance(answer, GeneratorType):
        alone = answer.gi_code.co_name == "<genexpr>"
        hint = ": write it in square brackets, as a list" if alone else ": write return in the place of yield"
    raise NoNumbers(
        translate("it is {what}, where numbers are expected{hint}", what=translate(what), hint=translate(hint))
    )


def _plain(answer: Any) -> Any:
    """The same as torch and numpy know it: torch's tensor of one of nbgrad's, a float for an exact number."""
    if isinstance(answer, TensorBase):
        return raw_of(answer)
    return float(answer) if isinstance(answer, Fraction | Decimal) else answer


def _stacked(parts: list[torch.Tensor]) -> torch.Tensor:
    if not parts:
        return torch.zeros(0, dtype=torch.float64)
    if len({part.shape for part in parts}) > 1:
        sizes = ", ".join(str(tuple(part.shape)) for part in parts[:4])
        raise NoNumbers(
            translate(
                "its parts have different shapes: {sizes}{more}", sizes=sizes, more=", ..." if len(parts) > 4 else ""
            )
        )
    kind = reduce(torch.promote_types, [part.dtype for part in parts])
    return torch.stack([part.to(kind) for part in parts])


def _float_of(found: "np.ndarray[Any, Any]") -> "np.dtype[Any]":
    return np.dtype(np.int64) if found.dtype.kind == "u" else found.dtype


def difference(
    answer: Any, right: Any, *, rtol: float = RTOL, atol: float = ATOL, equal_nan: bool = False
) -> Deviation | None:
    """How ``answer`` differs from ``right``; None where it does not.

    Types of numbers may differ: 2, 2.0 and ``tensor(2.)`` are one answer.

    Args:
        answer: numbers in any form that ``numbers_of`` takes.
        right: the right numbers, in any form too.
        rtol: the allowed relative difference of each number.
        atol: the allowed absolute difference, in addition.
        equal_nan: whether NaN is right where NaN is.
    """
    want = numbers_of(right)
    try:
        got = numbers_of(answer)
    except NoNumbers as error:
        text = "it is the text {answer!r}, where True or False is expected, without quotes"
        is_text = isinstance(answer, str) and want.dtype is torch.bool
        return Deviation("type", translate(text, answer=answer[:200]) if is_text else str(error))
    if (wrong := _of_types(got, want)) is not None:
        return wrong
    near = _Tolerance(rtol, atol, equal_nan)
    whole = got.dtype in _WHOLE and want.dtype not in _WHOLE
    got, want = got.to(_wide(got)), want.to(_wide(want))
    if got.shape != want.shape:
        return _of_lists(answer, got, want, near) or _of_shapes(got, want, near)
    if near(got, want):
        return None
    if whole and got.any() and near(got, want.real.trunc()):
        text = (
            "it is a whole number: what comes after the point is lost, as by rounding or //"
            if got.numel() == 1
            else "these are whole numbers: what comes after the point is lost, as by rounding, // or .long()"
        )
        return Deviation("dtype", text)
    return _of_numbers(got, want, near)


_WHOLE = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool}


def _wide(one: torch.Tensor) -> torch.dtype:
    return torch.complex128 if one.dtype.is_complex else torch.float64


def _of_types(got: torch.Tensor, want: torch.Tensor) -> Deviation | None:
    for one, other in ((got, want), (want, got)):
        if one.dtype is torch.bool and other.dtype is not torch.bool:
            expected = "numbers are" if one is got else "True or False is"
            return Deviation(
                "dtype",
                "it is of type {dtype_name}, where {expected} expected",
                dtype_name=dtype_name(got.dtype),
                expected=translate(expected),
            )
    if got.dtype.is_complex and not want.dtype.is_complex:
        return Deviation("dtype", "it is complex, where real numbers are expected")
    return None


class _Tolerance:
    """Whether two tensors of one shape agree in every number."""

    def __init__(self, rtol: float, atol: float, equal_nan: bool) -> None:
        self._limits = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}

    def each(self, got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
        """The same for each number."""
        kind = torch.promote_types(got.dtype, want.dtype)
        return torch.isclose(got.to(kind), want.to(kind), **self._limits)  # type: ignore[arg-type]

    def __call__(self, got: torch.Tensor, want: torch.Tensor) -> bool:
        return got.shape == want.shape and bool(self.each(got, want).all())


# Shapes.


def _of_lists(answer: Any, got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation | None:
    """Whether a list or tuple stands in the place of a number."""
    if want.ndim or not isinstance(answer, list | tuple):
        return None
    if text := _among(got, want, near):
        return Deviation("shape", text)
    text = (
        "the number is right, but it stands in a {kind}: give it alone"
        if got.numel() == 1 and near(got.reshape(()), want)
        else "it is a {kind} of {count}, where one number is expected"
    )
    return Deviation("shape", text, kind=kind_of(answer), count=len(answer))


def _of_shapes(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation:
    shape, wanted = tuple(got.shape), tuple(want.shape)
    said = translate("it has shape {shape}, and {wanted} is expected", shape=shape, wanted=wanted)
    if got.ndim == want.ndim == 2 and near(got.mT, want):
        return Deviation("transposed", "it is transposed: {said}", said=said)
    if prod(shape) == prod(wanted) and near(got.reshape(wanted), want):
        return Deviation("shape", "the numbers are right, but {said}", said=said)
    for found in (_one_row, _among, _summed, _missing):
        if text := found(got, want, near):
            return Deviation("row" if found is _one_row else "shape", "{reason}: {said}", reason=text, said=said)
    if want.numel() and not got.numel():
        return Deviation("shape", "nothing is left, as of a slice that ends at -0: {said}", said=said)
    if got.numel() == 1 and want.numel() > 1:
        return Deviation("shape", "it is one number, and one for each element is expected: {said}", said=said)
    return Deviation("shape", said)


def _one_row(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> str:
    flat = got.squeeze(0) if got.ndim == want.ndim and got.shape[:1] == (1,) else got
    if want.ndim == 0 or flat.shape != want.shape[1:] or not len(want):
        return ""
    found = [at for at, row in enumerate(want) if near(flat, row)]
    if not found:
        return ""
    if len(found) == len(want):
        return translate("every row is equal to this one, but the rows have to differ")
    return translate(
        "this is only {what} {place}", what=translate("row") if want.ndim > 1 else translate("element"), place=found[0]
    )


def _among(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> str:
    if want.ndim or got.numel() < 2 or not any(near(one, want) for one in got.flatten()[:_FEW]):
        return ""
    return translate("the right number is among these, but one number is expected")


def _summed(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> str:
    """Whether a sum or a mean over dimensions is missing, or one too many."""
    sums: tuple[tuple[str, Callable[..., torch.Tensor]], ...] = (("sum", torch.sum), ("mean", torch.mean))
    for one, other, text in ((got, want, "is missing"), (want, got, "is too many")):
        for dims in _dims(one.ndim):
            for name, function in sums:
                for keep in (True, False):
                    if near(function(one, dims, keepdim=keep), other):
                        return translate(
                            "a {name} over {dims} {how}",
                            name=translate(name),
                            dims=translate("a dimension") if len(dims) == 1 else translate("dimensions"),
                            how=translate(text),
                        )
    return ""


def _dims(ndim: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, min(ndim, 4) + 1):
        yield from combinations(range(ndim), count)


def _missing(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> str:
    """Whether one dimension is one too short or too long, and the rest is right."""
    if got.ndim != want.ndim:
        return ""
    unlike = [dim for dim in range(got.ndim) if got.shape[dim] != want.shape[dim]]
    if len(unlike) != 1 or abs(got.shape[unlike[0]] - want.shape[unlike[0]]) != 1:
        return ""
    dim, short, long = unlike[0], got, want
    many = got.shape[dim] > want.shape[dim]
    if many:
        short, long = want, got
    words = "too many" if many else "missing"
    for which, start in (("last", 0), ("first", 1)):
        if near(short, long.narrow(dim, start, short.shape[dim])):
            return translate(
                "the {which} element is {words}, all others are right", which=translate(which), words=translate(words)
            )
    return ""


# Numbers.


def _of_numbers(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation:
    finite = torch.isfinite(got) | ~torch.isfinite(want)
    if not finite.all():
        bad = got[~finite].flatten()[0]
        what = "NaN" if bool(torch.isnan(bad)) else "Inf"
        return Deviation(
            "not finite",
            "{count} {what}, where a finite number is expected",
            count=_count(~finite),
            what=translate(what),
        )
    for found in (_zero, _rounded, _sign_or_factor, _transposed, _moved, _in_part):
        if (told := found(got, want, near)) is not None:
            return told
    return Deviation("numbers", _how_many(got, want, near))


def _count(wrong: torch.Tensor) -> str:
    many = int(wrong.sum())
    if wrong.numel() == 1:
        return translate("it is")
    return translate(
        "{many} of {total} elements {verb}",
        many=many,
        total=wrong.numel(),
        verb=translate("is") if many == 1 else translate("are"),
    )


def _zero(got: torch.Tensor, _: torch.Tensor, __: _Tolerance) -> Deviation | None:
    if got.any() or got.numel() == 0:
        return None
    alone = got.numel() == 1
    return Deviation("zero", "it is 0, which is not right" if alone else "every element is 0")


def _sign_or_factor(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation | None:
    single = got.numel() == 1
    if near(-got, want):
        return Deviation("sign", "the sign is wrong" if single else "the sign of every element is wrong")
    if not want.any():
        return None
    ratio = ((got * want.conj()).sum() / (want * want.conj()).sum()).real
    size = float(ratio)
    if not size or not near(got / size, want):
        return None
    flipped = "the sign is wrong, and " if size < 0 else ""
    words = "" if abs(abs(size) - 1) < 1e-3 else _multiple(abs(size), tuple(want.shape), single=single)
    return Deviation("factor", f"{translate(flipped)}{words}")


def _multiple(size: float, shape: tuple[int, ...], *, single: bool) -> str:
    """The probable cause of a wrong factor that all numbers share."""
    for factor, what in ((2.0, "too many"), (0.5, "missing")):
        if abs(size / factor - 1) < 1e-3:
            return translate(
                "a factor 2 is {what}: often that of a square, or of a value used twice", what=translate(what)
            )
    if single:  # the factor would be the answer
        return _range(size)
    for count in sorted({*shape, prod(shape)} - {0, 1, 2}):
        if abs(size / count - 1) < 1e-3:
            return translate("every element is n = {count} times too large, as if a mean were a sum", count=count)
        if abs(size * count - 1) < 1e-3:
            return translate("every element is n = {count} times too small, as if a sum were a mean", count=count)
    return translate("every element is {size:.4g} times what it has to be: a constant factor is wrong", size=size)


_LARGEST = 6
"""The digits of the largest factor that is said: what is off by more is rounding, or another number."""


def _range(size: float) -> str:
    """About how far a number is off that is ``size`` times the right one."""
    which, times = ("large", size) if size > 1 else ("small", 1 / size)
    for limit, about in ((1.1, "less than a tenth"), (2.0, "a factor below 2"), (10.0, "a factor between 2 and 10")):
        if times < limit:
            return translate("its size is too {which}, by {about}", which=translate(which), about=translate(about))
    return translate(
        "its size is too {which}, by a factor of {factor:,} or more",
        which=translate(which),
        factor=10 ** min(int(log10(times)), _LARGEST),
    )


def _transposed(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation | None:
    for one, other in combinations(range(got.ndim), 2):
        if got.shape[one] == got.shape[other] > 1 and near(got.transpose(one, other), want):
            return Deviation("transposed", "it is transposed: rows and columns have changed places")
    return None


def _moved(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation | None:
    if got.numel() < 2 or got.is_complex() or want.is_complex():
        return None
    if got.numel() > 2:
        for dim in range(got.ndim):
            if got.shape[dim] > 2 and any(near(got.roll(by, dim), want) for by in (-1, 1)):
                text = translate("every element is right, but one place off: an index begins one too early or too late")
                return Deviation("shifted", text)
    if near(got.flatten().sort().values, want.flatten().sort().values):
        return Deviation("order", "these are the right numbers in another order")
    gap = got - want
    if near(gap, gap.flatten()[0].expand_as(gap)):
        which = "large" if float(gap.flatten()[0]) > 0 else "small"
        text = translate(
            "every element is too {which} by the same amount: a term is missing, or one is too many",
            which=translate(which),
        )
        return Deviation("offset", text)
    return None


def _in_part(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> Deviation | None:
    """The wrong numbers where most are right: one row, one column, one element; or signs alone."""
    wrong = ~near.each(got, want)
    if got.numel() < 2:
        return None
    if near(got.abs(), want.abs()):
        return Deviation(
            "sign", "the sign of {count} of {total} elements is wrong", count=int(wrong.sum()), total=wrong.numel()
        )
    if got.ndim > 1:
        for what, dim in (("row", 0), ("column", 1)):
            lines = wrong.movedim(dim, 0).flatten(1).any(1)
            if int(lines.sum()) == 1 and len(lines) > 1 and int(wrong.sum()) > 1:
                return Deviation(
                    "row",
                    "{what} {count} is wrong, all others are right",
                    what=translate(what),
                    count=int(lines.nonzero()[0]),
                )
            if int((~lines).sum()) == 1 and len(lines) > 2:
                return Deviation(
                    "row", "{what} {count} alone is right", what=translate(what), count=int((~lines).nonzero()[0])
                )
    if int(wrong.sum()) == 1:
        at = ", ".join(map(str, wrong.nonzero()[0].tolist()))
        return Deviation("element", "the element at [{at}] is wrong, all others are right", at=at)
    return None


def _rounded(got: torch.Tensor, want: torch.Tensor, _: _Tolerance) -> Deviation | None:
    loose = torch.isclose(got, want.to(got.dtype), rtol=2e-2, atol=0.0)
    if not loose.all():
        return None
    return Deviation("rounding", "it is nearly right: write more digits, or look for a small slip")


def _how_many(got: torch.Tensor, want: torch.Tensor, near: _Tolerance) -> str:
    if got.numel() == 1:
        return translate("it is wrong by more than its sign or a factor 2")
    right = near.each(got, want)
    count = int(right.sum())
    return translate(
        "{count} of {total} elements {verb} right{first}",
        count=count or translate("none"),
        total=got.numel(),
        verb=translate("is") if count == 1 else translate("are"),
        first=_first(got, want, right),
    )


def _first(got: torch.Tensor, want: torch.Tensor, right: torch.Tensor) -> str:
    """How the first wrong number is wrong, where that can be said of a number alone."""
    known = ~right & got.ne(0) & want.ne(0)
    if got.is_complex() or want.is_complex() or not known.any():
        return ""
    at = tuple(known.nonzero()[0].tolist())
    size = float(got[at] / want[at])
    words = [translate("the sign is wrong")] if size < 0 else []
    if abs(abs(size) - 1) > 1e-3:
        words.append(_range(abs(size)))
    return (
        translate(". At [{place}] {faults}", place=", ".join(map(str, at)), faults=translate(", and ").join(words))
        if words
        else ""
    )
