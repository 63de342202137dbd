"""``Distance``: how far the numbers of two tensors are apart, in units that have a meaning, and how far they may be."""

from functools import cached_property
from math import isfinite, isinf, isnan, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.torch_reads import SAMPLE
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import message, translate

BASES = (message("all numbers"), message("a sample"), message("norms"))
"""The words for what a distance was computed from, which is ``Distance.basis``."""

_LIMITS = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}
"""How far results of a type may be apart, as a part of their norm, although both are right: rounding adds up over ops,
and kernels add in another order. These are about 5,000 roundings of float64, 80 of float32, and 5 of the short types,
whose sums are kept in float32."""

_NOISE = 16
"""The result of a sum of numbers that cancel is rounding. It may be off by so many roundings of its inputs."""


def limit_of(dtype: torch.dtype) -> float:
    """How far results of this element type may be apart, as a part of their norm; 0 for whole numbers."""
    if dtype in _LIMITS:
        return _LIMITS[dtype]
    return 5 * torch.finfo(dtype).eps if dtype.is_floating_point else 0.0


def noise_of(dtype: torch.dtype) -> float:
    """The rounding of a sum that cancels, as a part of the norm of what is added."""
    return _NOISE * torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


_TINY = 1000
"""Numbers below so many times the smallest one that has all digits are rounded more than others."""

_COUNTED = 1e5
"""More ulps than this say no more than the percentage."""


class Distance(NamedTuple):
    """How far two tensors of one shape are apart.

    Attributes:
        relative: the norm of the difference over the larger norm: 0 for equal numbers, 2 for opposite ones, infinite
            where only one side has a NaN or an Inf.
        cosine: of the angle between both; None if only norms were compared, or if one of them is zero.
        ulps: the largest difference of two elements, in spacings of the coarser type at the largest number.
        unit: the name of this type.
        limit: up to this relative distance they agree.
        basis: "all numbers", "a sample", or "norms" where nothing else is known of a large tensor.
    """

    relative: float
    cosine: float | None
    ulps: float | None
    unit: str
    limit: float
    basis: str

    @property
    def agrees(self) -> bool:
        """Whether rounding explains the distance."""
        return self.relative <= self.limit

    @property
    def words(self) -> str:
        """The relative distance in a few words."""
        if not isfinite(self.relative):
            return translate("NaN or Inf on one side")
        return f"{100 * self.relative:.3g}%"

    def __str__(self) -> str:
        parts = [self.words]
        if self.cosine is not None and isfinite(self.relative):
            parts.append(translate("cosine {cosine:.4g}", cosine=self.cosine))
        if self.ulps is not None and self.ulps < _COUNTED:
            parts.append(translate("{ulps:,.0f} ulps of {unit}", ulps=self.ulps, unit=self.unit))
        if self.basis != "all numbers":
            parts.append(translate("by {basis}", basis=translate(self.basis)))
        return ", ".join(parts)


class KnownNumbers:
    """The known numbers of a tensor.

    Attributes:
        shape, dtype: of the tensor.
        array: its numbers, or a sample of them at positions that only depend on the shape: flat, and as wide as numpy
            can. None if neither is known.
        whole: whether ``array`` has all numbers.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, stats: Stats | None, sample: Any = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self._stats = stats
        known = None if stats is None else stats.array
        self.whole = False
        if sample is not None and sample.size != min(SAMPLE, prod(shape)):
            sample = None  # a file may hold anything
        found = sample if known is None else known
        self.array: Any = None
        if found is not None and found.dtype.kind in "fiubc":
            self.array = found.astype(np.complex128 if found.dtype.kind == "c" else np.float64).ravel()
            self.whole = known is not None or found.size == prod(shape)

    @cached_property
    def head(self) -> Any:
        """The sample, or the first numbers of a small tensor, of which no more may be known on the other side."""
        return None if self.array is None else self.array[:SAMPLE]

    @cached_property
    def norm(self) -> float | None:
        """The Euclidean norm of the tensor; None if it is not known."""
        return None if self._stats is None else self._stats.norm

    @cached_property
    def length(self) -> float:
        """The norm of ``head``; 0 where it is not known."""
        return 0.0 if self.head is None else _length(self.head)

    @cached_property
    def key(self) -> tuple[tuple[int, ...], bytes] | None:
        """The same for equal numbers in one shape; None where they are not known."""
        return None if self.head is None else (self.shape, (self.head + 0.0).tobytes())

    @cached_property
    def telling(self) -> bool:
        """Whether tensors with these numbers are probably the same one: zeros and ones are everywhere."""
        if self.head is None or not self.head.size:
            return False
        first = self.head[0]
        if self.head.size == 1:
            return bool(first not in (0.0, 1.0, -1.0))
        return bool((self.head != first).any())

    @property
    def ends(self) -> tuple[float, float, float]:
        """The lowest and the highest number, and the mean, where all of them were read; else zeros."""
        found = (None, None, None) if self._stats is None else (self._stats.low, self._stats.high, self._stats.mean)
        return tuple([0.0 if one is None else one for one in found])  # type: ignore[return-value]  # three of them


def value_of(record: Record) -> KnownNumbers:
    """The known numbers of a record, as the backward saw them: a step may have changed a parameter since."""
    changed = record.since is not None and record.since.what is not None
    return KnownNumbers(record.shape, record.dtype, None if changed else record.value, record.sample)


def gradient_of(stats: Stats, dtype: torch.dtype) -> KnownNumbers:
    """The known numbers of a gradient."""
    return KnownNumbers(stats.shape, dtype, stats)


def distance(left: KnownNumbers, right: KnownNumbers, limit: float, noise: float = 0.0) -> Distance | None:
    """How far two tensors are apart; None if nothing is known of one of them, or if they have other shapes.

    Args:
        left: one of them.
        right: the other one.
        limit: up to this relative distance they agree.
        noise: and up to this norm of the difference.
    """
    if left.shape != right.shape:
        return None
    unit = max(left.dtype, right.dtype, key=limit_of)
    a, b = left.array, right.array
    if a is None or b is None:
        return _by_norms(left, right, limit, unit)
    if a.size != b.size:
        a, b = left.head, right.head
    if left.whole and right.whole:
        return _by_elements(a, b, (limit, noise), unit, "all numbers")
    known, told = _by_norms(left, right, limit, unit), _by_elements(a, b, (limit, noise), unit, "a sample")
    return told if known is None or known.agrees or not told.agrees else known


def _by_elements(a: Any, b: Any, room: tuple[float, float], unit: torch.dtype, basis: str) -> Distance:
    """The distance of two arrays, where ``room`` is how far they may be apart: a part of the norm, and a norm."""
    limit, noise = room
    if a.tobytes() == b.tobytes():
        return Distance(0.0, 1.0, 0.0, dtype_name(unit), limit, basis)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return Distance(0.0, 1.0, 0.0, dtype_name(unit), limit, basis)
    a, b = (np.where(same & ~np.isfinite(one), 0, one) for one in (a, b))  # a mask of both
    with np.errstate(all="ignore"):
        apart = np.where(same, 0, a - b)
        norms = _length(a), _length(b)
        off, length = _length(apart), max(norms)
        relative = off / length if isfinite(off) and isfinite(length) else float("inf")
        cosine = float(np.vdot(a, b).real / (norms[0] * norms[1])) if all(norms) and isfinite(relative) else None
        ulps = _ulps(float(abs(apart).max()), float(max(abs(a).max(), abs(b).max())), unit)
    noise += _TINY * _least(unit) * sqrt(a.size)
    return Distance(relative, cosine, ulps, dtype_name(unit), max(limit, noise / length if length else 0.0), basis)


def _length(array: Any) -> float:
    """The Euclidean norm."""
    return sqrt(float(np.vdot(array, array).real))


def _least(dtype: torch.dtype) -> float:
    """The smallest number of a type that has all its digits."""
    return torch.finfo(dtype).smallest_normal if dtype.is_floating_point or dtype.is_complex else 0.0


def near(left: KnownNumbers, right: KnownNumbers, limit: float) -> float | None:
    """The relative distance of what is known on both sides of tensors of one shape, if it is within ``limit``."""
    a, b, length = left.head, right.head, max(left.length, right.length)
    if not isfinite(length):
        odd = ~(np.isfinite(a) & np.isfinite(b))
        if not ((a == b) | (np.isnan(a) & np.isnan(b)))[odd].all():
            return None
        a, b = np.where(odd, 0, a), np.where(odd, 0, b)
        length = max(_length(a), _length(b))
    apart = a - b
    off = float(np.vdot(apart, apart).real)
    return sqrt(off) / length if length and off <= (limit * length) ** 2 else None


def _by_norms(left: KnownNumbers, right: KnownNumbers, limit: float, unit: torch.dtype) -> Distance | None:
    """The distance as far as norms, extremes and means tell it."""
    if left.norm is None or right.norm is None:
        return None
    if isnan(left.norm) and isnan(right.norm):
        return Distance(0.0, None, None, dtype_name(unit), limit, "norms")
    pairs = [(left.norm, right.norm), *zip(left.ends[:2], right.ends[:2], strict=True)]
    most = max(left.norm, right.norm)
    if not isfinite(most):
        equal = left.norm == right.norm
        return Distance(0.0 if equal else float("inf"), None, None, dtype_name(unit), limit, "norms")
    ends = max(*map(abs, left.ends), *map(abs, right.ends))
    parts = [abs(a - b) / scale for (a, b), scale in zip(pairs, (most, ends, ends), strict=True) if scale]
    least = _TINY * _least(unit) / most if most else 0.0
    return Distance(max(parts, default=0.0), None, None, dtype_name(unit), max(limit, least), "norms")


def _ulps(apart: float, most: float, dtype: torch.dtype) -> float | None:
    """A difference in spacings of the numbers of ``dtype`` at ``most``; None for whole numbers."""
    if not (dtype.is_floating_point or dtype.is_complex) or isinf(most) or not most:
        return None
    info = torch.finfo(dtype)
    return apart / max(float(2.0 ** np.floor(np.log2(most))) * info.eps, info.smallest_normal * info.eps)
