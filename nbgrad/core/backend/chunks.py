"""Large tensors, read piece by piece: looking at the numbers of a tensor makes no copy that is as large as it.

Most of torch's kernels that convert or compare numbers make tensors as large as their input. ``isfinite`` of float32
allocates seven times the size of its result, and a norm of bfloat16 makes a copy in float32.
"""

from collections.abc import Iterable, Iterator

import torch

PIECE = 1 << 18
"""The most numbers that are processed at a time: they fit into the processor's cache."""

_ON_GPU = 1 << 22
"""The same for other devices, where the start of a kernel takes as long as its work on a million numbers."""


def piece_of(data: torch.Tensor) -> int:
    """Return how many numbers of ``data`` are processed at a time."""
    return PIECE if data.is_cpu else _ON_GPU


def pieces(data: torch.Tensor) -> Iterator[torch.Tensor]:
    """Cut ``data`` into views of at most ``PIECE`` elements, in the order of its indices.

    Each element is in one view. A sparse tensor is one piece, an empty tensor has none.
    """
    most = piece_of(data)
    if data.numel() <= most or data.layout is not torch.strided:
        if data.numel():
            yield data
        return
    if data.is_contiguous():
        yield from torch.split(data.view(-1), most)
        return
    at, apart = data.ndim - 1, 1  # the dimension that is cut, and the number of elements at one index of it
    while apart * data.shape[at] <= most:
        apart *= data.shape[at]
        at -= 1
    for index in _indices(data.shape[:at]):
        yield from torch.split(data[index], max(1, most // apart))


def _indices(shape: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Each index of a tensor of ``shape``; the index of the last dimension changes fastest."""
    sizes = tuple(shape)
    index = [0] * len(sizes)
    while True:
        yield tuple(index)
        at = len(sizes) - 1
        while at >= 0 and index[at] == sizes[at] - 1:
            index[at] = 0
            at -= 1
        if at < 0:
            return
        index[at] += 1
