"""Whether two results are equal as far as their element types allow, and where they are not."""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose, isnan
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import dtype_name

_TOLERANCES = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.float32: 1e-3, torch.complex64: 1e-3}
"""The allowed difference, as a fraction of the largest element. Kernels sum in other orders. Other types: 0.05."""


def first_difference(mine: Any, yours: Any, place: str = "the output") -> str | None:
    """The sentence about the first place where ``mine``, of nbgrad, differs from ``yours``, of torch; None if none.

    Both hold torch tensors.
    """
    if isinstance(yours, torch.Tensor) or isinstance(mine, torch.Tensor):
        return _between_tensors(mine, yours, place)
    for name, one, other in _parts(mine, yours):
        if name is None:
            return f"{place} is {_told(one)}, and torch's is {_told(other)}"
        found = first_difference(one, other, place + name)
        if found is not None:
            return found
    return None


def _parts(mine: Any, yours: Any) -> Iterator[tuple[str | None, Any, Any]]:
    """The parts of two structures, with their places. The place is None if the structures themselves differ."""
    if isinstance(yours, _PLAIN) or type(mine).__name__ != type(yours).__name__:
        if isinstance(yours, tuple) and isinstance(mine, tuple):  # ours may be a named tuple, torch's plain
            yield from _places(mine, yours)
        elif not _same(mine, yours):
            yield None, mine, yours
    elif isinstance(yours, Mapping):
        if list(mine) != list(yours):
            yield None, list(mine), list(yours)
        else:
            yield from ((f"[{key!r}]", mine[key], yours[key]) for key in yours)
    elif isinstance(yours, Sequence):
        yield from _places(mine, yours)
    elif hasattr(yours, "__dict__") and not isinstance(yours, torch.nn.Module | type) and not callable(yours):
        for key in vars(yours).keys() & vars(mine).keys():
            yield f".{key}", vars(mine)[key], vars(yours)[key]


_PLAIN = (float, int, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)


def _same(mine: Any, yours: Any) -> bool:
    """Whether two values that are no tensors are the same; numbers up to their last digits."""
    if isinstance(yours, float | int) and isinstance(mine, float | int):
        return mine == yours or isclose(mine, yours, rel_tol=1e-3) or (isnan(mine) and isnan(yours))
    return type(mine) is type(yours) and bool(mine == yours)


def _places(mine: Any, yours: Any) -> Iterator[tuple[str | None, Any, Any]]:
    if len(mine) != len(yours):
        yield None, mine, yours
    for at, (one, other) in enumerate(zip(mine, yours, strict=False)):
        yield f"[{at}]", one, other


def _between_tensors(mine: Any, yours: Any, place: str) -> str | None:
    if not (isinstance(mine, torch.Tensor) and isinstance(yours, torch.Tensor)):
        return f"{place} is {_told(mine)}, and torch's is {_told(yours)}"
    if (mine.shape, mine.dtype, mine.device) != (yours.shape, yours.dtype, yours.device):
        return f"{place} is {_told(mine)}, and torch's is {_told(yours)}"
    if mine.layout is not torch.strided or not mine.numel() or mine.is_meta:
        return None
    if not (mine.is_floating_point() or mine.is_complex()):
        count = int((mine != yours).sum())
        return f"{count} of {mine.numel()} elements of {place} differ from torch's" if count else None
    part, distance = _distance(mine, yours)
    if part <= _tolerance(mine.dtype):
        return None
    return f"{place} of shape {tuple(mine.shape)} differs by up to {distance:.3g}, {part:.2g} of its largest element"


@torch.no_grad()
def _distance(mine: torch.Tensor, yours: torch.Tensor) -> tuple[float, float]:
    """The largest difference: as a fraction of the largest element, and as it is. Two NaN do not differ."""
    if torch.equal(mine, yours):
        return 0.0, 0.0
    wide = torch.complex128 if mine.is_complex() else torch.float64
    if mine.device.type == "mps":
        wide = mine.dtype
    one, other = mine.to(wide), yours.to(wide)
    same = (one == other) | (one.isnan() & other.isnan())
    apart = torch.where(same, torch.zeros_like(one), one - other).abs()
    if not bool(apart.isfinite().all()):
        return float("inf"), float("inf")
    finite = other.abs()[other.isfinite()]
    largest = float(finite.max()) if finite.numel() else 0.0
    distance = float(apart.max())
    return distance / max(largest, 1e-30) if distance else 0.0, distance


def _tolerance(dtype: torch.dtype) -> float:
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    return _TOLERANCES.get(dtype, 0.05)


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {dtype_name(value.dtype)} on {value.device}"
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of length {len(value)}"
    return repr(value) if isinstance(value, int | float | str | bool | type(None)) else f"a {type(value).__name__}"
