"""The facts about a torch tensor that are read for every recorded op: its shape, its element type, and few numbers.

Compiled code asks torch's own C functions (``torch_reads.h``). ``plain_read``, ``plain_numbers``, ``plain_number``
and ``plain_sample`` are the same in Python. They read the memory itself too: a mode of torch's that is on would see an
op, and in ``FakeTensorMode`` the op's result has no numbers.
"""

from ctypes import string_at
from struct import unpack
from sys import byteorder
from typing import Any

import torch

from nbgrad.core.compilation import compiled

_COMPILED = compiled()

FEW = 1024
"""The numbers of a tensor with at most this many elements are read."""

SAMPLE = 64
"""Of a larger tensor so many numbers are read."""

_GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio, modulo 1, lie evenly: so the numbers of a sample lie in no column of a matrix."""

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def read_tensor(tensor: torch.Tensor, numbers: bool) -> tuple[Any, Any, Any]:
    """The shape and the element type of ``tensor``, and the answer of ``numbers_of`` if ``numbers``; otherwise None.

    Raises:
        RuntimeError: it is a nested tensor whose rows have several lengths.
    """
    read: Any = tensor
    if not _COMPILED:
        return plain_read(tensor, numbers)
    return read.facts_and_numbers if numbers else read.facts  # type: ignore[no-any-return]


def numbers_of(tensor: torch.Tensor) -> bytes | None:
    """A copy of the numbers of a small tensor of floats on the CPU; None for any other tensor.

    It is also None if the numbers do not lie one after another in memory of the tensor's own.
    """
    read: Any = tensor
    return read.numbers if _COMPILED else plain_numbers(tensor)


def number_of(tensor: torch.Tensor) -> float | None:
    """The number in the memory of a tensor of floats on the CPU that has one; no mode of torch's notices.

    None for any other tensor.
    """
    read: Any = tensor
    return read.number if _COMPILED else plain_number(tensor)


def sample_of(tensor: torch.Tensor) -> bytes | None:
    """A copy of ``SAMPLE`` numbers of a larger tensor of floats on the CPU; None for any other tensor.

    Their positions only depend on how many numbers the tensor has: samples of tensors of one shape can be compared.
    """
    read: Any = tensor
    return read.sample if _COMPILED else plain_sample(tensor)


def plain_read(tensor: torch.Tensor, numbers: bool) -> tuple[Any, Any, bytes | None]:
    """The same as ``read_tensor``."""
    return tensor.shape, tensor.dtype, plain_numbers(tensor) if numbers else None


def plain_numbers(tensor: torch.Tensor) -> bytes | None:
    """The same as ``numbers_of``."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided or tensor.is_nested:
        return None
    if not (tensor.is_cpu and tensor.dtype in _FLOATS and tensor.is_contiguous() and 0 < tensor.numel() <= FEW):
        return None
    if tensor._base is not None or not _has_memory(tensor):
        return None
    return string_at(tensor.data_ptr(), tensor.numel() * tensor.itemsize)


def plain_number(tensor: torch.Tensor) -> float | None:
    """The same as ``number_of``."""
    read = plain_numbers(tensor)
    if read is None or len(read) != tensor.itemsize:
        return None
    if tensor.dtype is torch.bfloat16:  # the upper half of a float32
        read = b"\0\0" + read if byteorder == "little" else read + b"\0\0"
    (number,) = unpack({2: "e", 4: "f", 8: "d"}[len(read)], read)
    return float(number)


def plain_sample(tensor: torch.Tensor) -> bytes | None:
    """The same as ``sample_of``."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided or tensor.is_nested:
        return None
    if not tensor.is_cpu or tensor.dtype not in _FLOATS or (tensor._base is not None and tensor.is_neg()):
        return None
    count = tensor.numel()
    if count <= FEW or not _has_memory(tensor):
        return None
    start, strides, shape, size = tensor.data_ptr(), tensor.stride(), tensor.shape, tensor.itemsize
    read = []
    for part in range(SAMPLE):
        first, end = part * count // SAMPLE, (part + 1) * count // SAMPLE
        place, at = first + int((part * _GOLDEN) % 1.0 * (end - first)), start
        for length, stride in zip(reversed(shape), reversed(strides), strict=True):
            place, index = divmod(place, length)
            at += index * stride * size
        read.append(string_at(at, size))
    return b"".join(read)


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether its elements are there: FSDP frees the memory of a parameter, and ``torch.func`` wraps tensors."""
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:
        return False
