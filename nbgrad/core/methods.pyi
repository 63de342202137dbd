"""The methods of ``Tensor``, written by tools/write_methods.py from the op table: change that instead."""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from nbgrad.core.tensor import Tensor

Array = Tensor | torch.Tensor | np.ndarray[Any, Any]
Operand = Array | np.generic | complex

class ValuesAndIndices(NamedTuple):
    """The largest elements along a dimension, and where they were."""

    values: Tensor
    indices: Tensor

class Conversions:
    """The methods called as Python's own types, ``x.float()``: apart, so that these keep their names elsewhere."""

    def bfloat16(self) -> Tensor:
        """The values as torch.bfloat16; the tensor itself if that is its element type."""

    def bool(self) -> Tensor:
        """The values as torch.bool; the tensor itself if that is its element type."""

    def double(self) -> Tensor:
        """The values as torch.float64; the tensor itself if that is its element type."""

    def float(self) -> Tensor:
        """The values as torch.float32; the tensor itself if that is its element type."""

    def half(self) -> Tensor:
        """The values as torch.float16; the tensor itself if that is its element type."""

    def int(self) -> Tensor:
        """The values as torch.int32; the tensor itself if that is its element type."""

    def long(self) -> Tensor:
        """The values as torch.int64; the tensor itself if that is its element type."""

class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""

    def relu(self) -> Tensor:
        """The rectified linear unit: x where it is positive, 0 elsewhere."""

    def relu_(self) -> Tensor:
        """In place: the rectified linear unit: x where it is positive, 0 elsewhere."""

    def tanh(self) -> Tensor:
        """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1)."""

    def tanh_(self) -> Tensor:
        """In place: hyperbolic tangent, elementwise: squeezes any number into (-1, 1)."""

    def sigmoid(self) -> Tensor:
        """The logistic function, elementwise: squeezes any number into (0, 1)."""

    def sigmoid_(self) -> Tensor:
        """In place: the logistic function, elementwise: squeezes any number into (0, 1)."""

    def softmax(self, dim: int) -> Tensor:
        """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1."""

    def log_softmax(self, dim: int) -> Tensor:
        """Logarithm of softmax along ``dim``, computed without overflow."""

    def __getitem__(self, index: Any) -> Tensor:
        """``x[index]``: tensors, arrays and lists in the index become raw torch tensors, everything else stays."""

    def gather(self, dim: int, index: Tensor | torch.Tensor) -> Tensor:
        """Along ``dim``, the elements at the numbers in ``index``, in torch's order of arguments."""

    def fill_(self, value: Operand) -> Tensor:
        """In place: a tensor like the input, every element of which is the value."""

    def zero_(self) -> Tensor:
        """Every element becomes 0, in place; the tensor itself is returned."""

    def copy_(self, src: Array) -> Tensor:
        """In place: the values of another tensor in the shape, element type and place of x."""

    def __setitem__(self, index: Any, value: Operand) -> None:
        """``x[index] = value`` in place; the index is copied, as a later change would move the gradient elsewhere."""

    @overload
    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes."""

    @overload
    def to(self, dtype: torch.dtype) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes."""

    @overload
    def to(self, other: Tensor | torch.Tensor) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes."""

    @overload
    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes."""

    def cpu(self) -> Tensor:
        """The tensor in main memory; the tensor itself if it is there."""

    def cuda(self, device: torch.device | str | int | None = None) -> Tensor:
        """The tensor on a GPU, the current one unless told otherwise; the tensor itself if it is there."""

    def type_as(self, other: Tensor | torch.Tensor) -> Tensor:
        """The values with the element type of ``other``, and on its device."""

    def add(self, b: Operand) -> Tensor:
        """Sum of two tensors, elementwise, broadcasting."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def add_(self, b: Operand) -> Tensor:
        """In place: sum of two tensors, elementwise, broadcasting."""

    def __iadd__(self, other: Operand) -> Tensor: ...
    def sub(self, b: Operand) -> Tensor:
        """Difference of two tensors, elementwise, broadcasting."""

    def __sub__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def sub_(self, b: Operand) -> Tensor:
        """In place: difference of two tensors, elementwise, broadcasting."""

    def __isub__(self, other: Operand) -> Tensor: ...
    def mul(self, b: Operand) -> Tensor:
        """Product of two tensors, elementwise, broadcasting."""

    def __mul__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def mul_(self, b: Operand) -> Tensor:
        """In place: product of two tensors, elementwise, broadcasting."""

    def __imul__(self, other: Operand) -> Tensor: ...
    def div(self, b: Operand) -> Tensor:
        """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""

    def __truediv__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def div_(self, b: Operand) -> Tensor:
        """In place: true quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""

    def __itruediv__(self, other: Operand) -> Tensor: ...
    def neg(self) -> Tensor:
        """The tensor with its sign changed."""

    def __neg__(self) -> Tensor: ...
    def neg_(self) -> Tensor:
        """In place: the tensor with its sign changed."""

    def pow(self, b: Operand) -> Tensor:
        """The power a to the b, elementwise, broadcasting."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def pow_(self, b: Operand) -> Tensor:
        """In place: the power a to the b, elementwise, broadcasting."""

    def __ipow__(self, other: Operand) -> Tensor: ...
    def exp(self) -> Tensor:
        """The exponential function, elementwise."""

    def exp_(self) -> Tensor:
        """In place: the exponential function, elementwise."""

    def log(self) -> Tensor:
        """Natural logarithm, elementwise; NaN for negative x, -inf at 0."""

    def log_(self) -> Tensor:
        """In place: natural logarithm, elementwise; NaN for negative x, -inf at 0."""

    def sqrt(self) -> Tensor:
        """Square root, elementwise; NaN for negative x."""

    def sqrt_(self) -> Tensor:
        """In place: square root, elementwise; NaN for negative x."""

    def where(self, condition: Tensor | torch.Tensor, other: Operand) -> Tensor:
        """Elements of this tensor where the condition holds, of ``other`` elsewhere, in the order of torch's method."""

    def eq(self, b: Operand) -> Tensor:
        """Whether a == b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def ne(self, b: Operand) -> Tensor:
        """Whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def lt(self, b: Operand) -> Tensor:
        """Whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __lt__(self, other: Operand) -> Tensor: ...
    def le(self, b: Operand) -> Tensor:
        """Whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __le__(self, other: Operand) -> Tensor: ...
    def gt(self, b: Operand) -> Tensor:
        """Whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __gt__(self, other: Operand) -> Tensor: ...
    def ge(self, b: Operand) -> Tensor:
        """Whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient."""

    def __ge__(self, other: Operand) -> Tensor: ...
    def matmul(self, b: Array) -> Tensor:
        """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column."""

    def __matmul__(self, other: Array) -> Tensor: ...
    def __rmatmul__(self, other: Array) -> Tensor: ...
    def sum(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Sum over all elements, or over ``dim`` (a number or a tuple of numbers)."""

    def mean(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none."""

    def amax(self, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
        """The largest element, or the largest along ``dim`` (a number or a tuple of numbers)."""

    def maximum(self, b: Array) -> Tensor:
        """The larger of a and b, elementwise, broadcasting."""

    @overload
    def max(self) -> Tensor:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

    @overload
    def max(self, dim: Tensor | torch.Tensor) -> Tensor:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the largest element, or of the largest along ``dim``; it has no gradient."""

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The same elements, in the same order, in another shape; one size may be -1 and is worked out."""

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions swapped, without copying."""

    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """The dimensions in another order, without copying."""

    def expand(self, *sizes: int | Sequence[int]) -> Tensor:
        """Dimensions of size 1, and new leading ones, stretched without copying; -1 keeps a size."""

    def sum_to_size(self, *size: int | Sequence[int]) -> Tensor:
        """Sum over leading dimensions, and over those that are 1 in ``size``: the undoing of a broadcast."""

    def unsqueeze(self, dim: int) -> Tensor:
        """A new dimension of size 1 at ``dim``, without copying."""

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """The dimensions of size 1 removed, all of them or ``dim`` alone, without copying."""

    def clone(self) -> Tensor:
        """A copy in memory of its own; gradients pass through it."""
