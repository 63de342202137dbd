"""What is asked of a tensor's data alone: its shape, its type, its numbers."""

from typing import Any

import numpy as np
import torch


def dtype_name(dtype: torch.dtype) -> str:
    """What messages and pictures call an element type: float32, not torch.float32."""
    return str(dtype).removeprefix("torch.")


class Contents:
    """Base of ``Tensor``: every question that the raw torch tensor answers, whatever its history."""

    __slots__ = ()

    _data: torch.Tensor
    _needs_grad: bool

    @property
    def shape(self) -> torch.Size:
        """The size of each dimension."""
        return self._data.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of the elements."""
        return self._data.dtype

    @property
    def device(self) -> torch.device:
        """Where the data lives."""
        return self._data.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self._data.shape if dim is None else self._data.shape[dim]

    def numel(self) -> int:
        """The number of elements."""
        return self._data.numel()

    def is_floating_point(self) -> bool:
        """Whether the elements are floating point numbers, which alone have gradients."""
        return self._data.is_floating_point()

    def item(self) -> Any:
        """The value of a tensor with one element as a Python number."""
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._data.tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a numpy array that shares the memory of a CPU tensor.

        Raises:
            RuntimeError: the tensor needs a gradient, which numpy would lose: use ``t.detach().numpy()``.
        """
        if self._needs_grad:
            raise RuntimeError("numpy() on a tensor that needs a gradient would lose it: use t.detach().numpy()")
        result: np.ndarray[Any, Any] = self._data.numpy()
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._data)

    def __bool__(self) -> bool:
        return bool(self._data)

    def __float__(self) -> float:
        return float(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __index__(self) -> int:
        return self._data.__index__()

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if self._data.ndim == 0 and spec else format(str(self), spec)
