"""``assert_close``: compare numbers in any form, and say by how much and probably why they differ."""

from typing import Any

import torch

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.tensor.comparison import NoNumbers, difference, numbers_of

_LIMITS = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}
"""The relative and the absolute limit for each type of numbers, as ``torch.testing.assert_close`` has them."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = False,
    msg: str | None = None,
) -> None:
    """Raise if the numbers of ``actual`` are not close to those of ``expected``: |a - e| <= atol + rtol * |e|.

    Both are tensors of nbgrad's or torch's, arrays, numbers, or nested lists of these. A dict is compared by its keys.

    Args:
        actual: the computed numbers.
        expected: the expected numbers, of the same shape.
        rtol: the allowed relative difference. Default: torch's limit for the less exact of the two types.
        atol: the allowed absolute difference. Give both ``rtol`` and ``atol``, or neither.
        equal_nan: whether NaN is close to NaN.
        check_dtype: whether both must have the same element type. torch's function checks that by default.
        msg: the message of the error, instead of the explanation.

    Raises:
        AssertionError: they differ; the message says how many elements, by how much, where, and the probable cause.
        TypeError: one of them holds no numbers.
        ValueError: only one of ``rtol`` and ``atol`` is given.
    """
    check_tolerances(rtol, atol)
    if isinstance(actual, dict) and isinstance(expected, dict):
        if actual.keys() != expected.keys():
            lacking, more = (
                sorted(map(str, expected.keys() - actual.keys())),
                sorted(map(str, actual.keys() - expected.keys())),
            )
            raise AssertionError(msg or f"assert_close: the keys differ: {lacking} are missing, {more} are too many")
        for key, value in actual.items():
            try:
                assert_close(value, expected[key], rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype)
            except AssertionError as error:
                raise AssertionError(msg or f"{error}\n  at key            {key!r}") from None
        return
    got, want = _given("actual", actual), _given("expected", expected)
    if check_dtype and got.dtype != want.dtype:
        raise AssertionError(
            msg or f"assert_close: actual is of type {dtype_name(got.dtype)}, expected of {dtype_name(want.dtype)}"
        )
    relative, absolute = tolerances(got, want, rtol, atol)
    wrong = difference(got, want, rtol=relative, atol=absolute, equal_nan=equal_nan)
    if wrong is not None:
        raise AssertionError(msg or _text(got, want, relative, absolute, str(wrong), equal_nan=equal_nan))


def check_tolerances(rtol: float | None, atol: float | None) -> None:
    """Raise a ValueError if only one of the two is given."""
    if (rtol is None) != (atol is None):
        raise ValueError("give both rtol and atol, or neither")


def tolerances(got: torch.Tensor, want: torch.Tensor, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """The relative and the absolute limit: those that are given, or torch's for the less exact of the two types."""
    usual = [_LIMITS.get(one.dtype, (0.0, 0.0)) for one in (got, want)]
    relative = max(one for one, _ in usual) if rtol is None else rtol
    absolute = max(one for _, one in usual) if atol is None else atol
    return relative, absolute


def _given(name: str, value: Any) -> torch.Tensor:
    try:
        return numbers_of(value)
    except NoNumbers as error:
        raise TypeError(f"assert_close: {name}: {error}") from None


def _text(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float, cause: str, *, equal_nan: bool) -> str:
    if got.shape != want.shape:
        return f"assert_close: {cause}"
    wide = torch.complex128 if got.is_complex() or want.is_complex() else torch.float64
    a, e = got.to(wide), want.to(wide)
    wrong = ~torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    gap = torch.where(wrong, (a - e).abs(), -1.0)
    gap = torch.where(torch.isnan(gap), float("inf"), gap)
    where = torch.unravel_index(gap.argmax(), gap.shape) if gap.ndim else ()
    at = tuple(int(one) for one in where)
    parts = [
        f"assert_close: {int(wrong.sum())} of {wrong.numel()} elements differ",
        f"  worst at          {list(at)}" if at else "",
        f"  actual            {got[at].item():.8g}",
        f"  expected          {want[at].item():.8g}",
        f"  difference        {float((a - e).abs()[at]):.3g} ({_relative(a[at], e[at])})",
        f"  allowed           {atol:.3g} + {rtol:.3g} * |expected|",
        f"  probable cause    {cause}",
    ]
    return "\n".join(filter(None, parts))


def _relative(a: torch.Tensor, e: torch.Tensor) -> str:
    size = float(e.abs())
    return f"{float((a - e).abs()) / size:.3g} of the expected" if size else "the expected is 0"
