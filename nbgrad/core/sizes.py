"""How large a tensor is, by its shape: a graph asks of every op and gradient, and torch takes longer to say."""

from typing import TYPE_CHECKING

from nbgrad.core.stats import SMALL

if TYPE_CHECKING:
    import torch

_FEW = SMALL  # compiled to a number of C's


def count_of(shape: tuple[int, ...]) -> int:
    """How many elements a tensor of ``shape`` has: by position, for compiled an iterator takes twice as long."""
    count = 1
    for at in range(len(shape)):
        count *= shape[at]
    return count


def few(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of ``shape`` is small, so that its elements are shown."""
    return count_of(shape) <= _FEW


def nbytes_of(shape: tuple[int, ...], dtype: "torch.dtype") -> int:
    """The bytes of a tensor of ``shape`` and ``dtype``."""
    known = _SIZES.get(dtype)
    if known is None:
        known = _SIZES[dtype] = dtype.itemsize
    return known * count_of(shape)


_SIZES: "dict[torch.dtype, int]" = {}
"""The bytes of an element."""


def held_by(data: "torch.Tensor", size: int) -> int:
    """How much memory ``data``, of so many bytes, keeps: a window into larger memory keeps all of it."""
    return size if data._base is None else int(data.untyped_storage().nbytes())
