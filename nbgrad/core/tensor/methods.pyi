"""The methods of ``Tensor``, written by tools/write_methods.py from the op table: change that instead."""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from nbgrad.core.tensor.tensor import Tensor

Array = Tensor | torch.Tensor | np.ndarray[Any, Any]
Number = complex
Operand = Array | np.generic | complex

class LAndInfo(NamedTuple):
    L: Tensor
    info: Tensor

class LUAndPivots(NamedTuple):
    LU: Tensor
    pivots: Tensor

class LUAndPivotsAndInfo(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class PAndLAndU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class QAndR(NamedTuple):
    Q: Tensor
    R: Tensor

class UAndSAndVh(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class EigenvaluesAndEigenvectors(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class HAndC(NamedTuple):
    h: Tensor
    c: Tensor

class InputAndWeight(NamedTuple):
    input: Tensor
    weight: Tensor

class InverseAndInfo(NamedTuple):
    inverse: Tensor
    info: Tensor

class MantissaAndExponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class MinAndMax(NamedTuple):
    min: Tensor
    max: Tensor

class OutAndH(NamedTuple):
    out: Tensor
    h: Tensor

class OutAndHAndC(NamedTuple):
    out: Tensor
    h: Tensor
    c: Tensor

class QueryAndKeyAndValue(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor

class ResultAndInfo(NamedTuple):
    result: Tensor
    info: Tensor

class SignAndLogabsdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class SolutionAndResidualsAndRankAndSingularValues(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class StdAndMean(NamedTuple):
    std: Tensor
    mean: Tensor

class ValuesAndIndices(NamedTuple):
    values: Tensor
    indices: Tensor

class VarAndMean(NamedTuple):
    var: Tensor
    mean: Tensor

class Conversions:
    """The methods called as Python's own types, ``x.float()``: apart, so that these keep their names elsewhere."""
    def bfloat16(self) -> Tensor:
        """The values as torch.bfloat16; the tensor itself if that is its element type."""
    def bool(self) -> Tensor:
        """The values as torch.bool; the tensor itself if that is its element type."""
    def byte(self) -> Tensor:
        """The values as torch.uint8; the tensor itself if that is its element type."""
    def cdouble(self) -> Tensor:
        """The values as torch.complex128; the tensor itself if that is its element type."""
    def cfloat(self) -> Tensor:
        """The values as torch.complex64; the tensor itself if that is its element type."""
    def chalf(self) -> Tensor:
        """The values as torch.complex32; the tensor itself if that is its element type."""
    def char(self) -> Tensor:
        """The values as torch.int8; the tensor itself if that is its element type."""
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
    def short(self) -> Tensor:
        """The values as torch.int16; the tensor itself if that is its element type."""

class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""
    @property
    def H(self) -> Tensor:
        """A matrix transposed, and complex numbers conjugated."""
    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order: a matrix transposed."""
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __div__(self, other: Operand) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """``x[index]`` for every index that Python, numpy and torch accept."""
    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Tensor: ...
    def __iand__(self, other: Operand) -> Tensor: ...
    def __ifloordiv__(self, other: Operand) -> Tensor: ...
    def __ilshift__(self, other: Operand) -> Tensor: ...
    def __imod__(self, other: Operand) -> Tensor: ...
    def __imul__(self, other: Operand) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Operand) -> Tensor: ...
    def __ipow__(self, other: Operand) -> Tensor: ...
    def __irshift__(self, other: Operand) -> Tensor: ...
    def __isub__(self, other: Operand) -> Tensor: ...
    def __itruediv__(self, other: Operand) -> Tensor: ...
    def __ixor__(self, other: Operand) -> Tensor: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Array) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __rdiv__(self, other: Operand) -> Tensor: ...
    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Array) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Any, value: Operand) -> None:
        """``x[index] = value`` in place, for every index that Python, numpy and torch accept."""
    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def abs(self) -> Tensor:
        """Absolute value, elementwise."""
    def abs_(self) -> Tensor:
        """In place: absolute value, elementwise."""
    def absolute(self) -> Tensor:
        """Absolute value, elementwise."""
    def absolute_(self) -> Tensor:
        """In place: absolute value, elementwise."""
    def acos(self) -> Tensor:
        """The angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def acos_(self) -> Tensor:
        """In place: the angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite."""
    def acosh_(self) -> Tensor:
        """In place: inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite."""
    def add(self, b: Operand, alpha: Number = 1) -> Tensor:
        """Sum of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def add_(self, b: Operand, alpha: Number = 1) -> Tensor:
        """In place: sum of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def addbmm(self, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """The sum of the products of two batches of matrices, added to the input, each with a factor."""
    def addbmm_(self, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In place: the sum of the products of two batches of matrices, added to the input, each with a factor."""
    def addcdiv(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
        """A quotient times ``value``, added to the input, elementwise, in one kernel, broadcasting."""
    def addcdiv_(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
        """In place: a quotient times ``value``, added to the input, elementwise, in one kernel, broadcasting."""
    def addcmul(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
        """A product times ``value``, added to the input, elementwise, in one kernel, broadcasting."""
    def addcmul_(self, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
        """In place: a product times ``value``, added to the input, elementwise, in one kernel, broadcasting."""
    def addmm(self, mat1: Array, mat2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """The product of two matrices, added to the input, each with a factor."""
    def addmm_(self, mat1: Array, mat2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In place: the product of two matrices, added to the input, each with a factor."""
    def addmv(self, mat: Array, vec: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """The product of a matrix and a vector, added to the input, each with a factor."""
    def addmv_(self, mat: Array, vec: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In place: the product of a matrix and a vector, added to the input, each with a factor."""
    def addr(self, vec1: Array, vec2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """The outer product of two vectors, added to the input, each with a factor."""
    def addr_(self, vec1: Array, vec2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In place: the outer product of two vectors, added to the input, each with a factor."""
    def adjoint(self) -> Tensor:
        """The last two dimensions swapped, and complex numbers conjugated."""
    def all(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Whether all elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient."""
    def allclose(self, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether every number of two tensors is close to its partner, as a Python bool; see isclose."""
    def amax(self, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
        """The largest element, or the largest along ``dim`` (a number or a tuple of numbers)."""
    def amin(self, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
        """The smallest element, or the smallest along ``dim`` (a number or a tuple of numbers)."""
    def aminmax(self, dim: int | None = None, keepdim: bool = False) -> MinAndMax:
        """The smallest and the largest element, of all or along ``dim``, as ``(min, max)``, in one pass."""
    def angle(self) -> Tensor:
        """The angle of a complex number, between -pi and pi; of a real one 0 or pi, with no gradient."""
    def any(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Whether any element is not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient."""
    def arccos(self) -> Tensor:
        """The angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def arccos_(self) -> Tensor:
        """In place: the angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def arccosh(self) -> Tensor:
        """Inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite."""
    def arccosh_(self) -> Tensor:
        """In place: inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite."""
    def arcsin(self) -> Tensor:
        """The angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def arcsin_(self) -> Tensor:
        """In place: the angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def arcsinh(self) -> Tensor:
        """Inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it."""
    def arcsinh_(self) -> Tensor:
        """In place: inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it."""
    def arctan(self) -> Tensor:
        """The angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2)."""
    def arctan2(self, other: Operand) -> Tensor:
        """The angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants."""
    def arctan2_(self, other: Operand) -> Tensor:
        """In place: the angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants."""
    def arctan_(self) -> Tensor:
        """In place: the angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2)."""
    def arctanh(self) -> Tensor:
        """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond."""
    def arctanh_(self) -> Tensor:
        """In place: inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond."""
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the largest element, or of the largest along ``dim``; it has no gradient."""
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The index of the smallest element, or of the smallest along ``dim``; it has no gradient."""
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        """The indices that put the elements along ``dim`` in order; they have no gradient."""
    def argwhere(self) -> Tensor:
        """The indices of the elements that are not 0, one row each."""
    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
        """The memory of a tensor seen with any sizes and strides."""
    def as_strided_(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
        """In place: the memory of the tensor seen with other sizes and strides."""
    def as_strided_scatter(
        self, src: Array, size: int, stride: int | Sequence[int], storage_offset: int | None = None
    ) -> Tensor:
        """A copy of a tensor with ``src`` in the places that ``as_strided`` would see."""
    def asin(self) -> Tensor:
        """The angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def asin_(self) -> Tensor:
        """In place: the angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it."""
    def asinh_(self) -> Tensor:
        """In place: inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it."""
    def atan(self) -> Tensor:
        """The angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2)."""
    def atan2(self, other: Operand) -> Tensor:
        """The angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants."""
    def atan2_(self, other: Operand) -> Tensor:
        """In place: the angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants."""
    def atan_(self) -> Tensor:
        """In place: the angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2)."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond."""
    def atanh_(self) -> Tensor:
        """In place: inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond."""
    def baddbmm(self, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """The products of two batches of matrices, pair by pair, added to the input, each with a factor."""
    def baddbmm_(self, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In place: the products of two batches of matrices, pair by pair, added to the input, each with a factor."""
    def bernoulli(self, p: float | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Draws 1 with the probability in input, or with ``p`` for all elements; otherwise 0."""
    def bernoulli_(self, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: ones with the probability ``p`` (a number, or a tensor with a probability for each element), else zeros; they have no gradient."""
    def bincount(self, weights: Array | None = None, minlength: int = 0) -> Tensor:
        """How often each number from 0 on occurs, or the sum of its weights; it has no gradient."""
    def bitwise_and(self, other: Operand) -> Tensor:
        """The bits that are 1 in both whole numbers, elementwise, broadcasting; it has no gradient."""
    def bitwise_and_(self, other: Operand) -> Tensor:
        """In place: the bits that are 1 in both whole numbers, elementwise, broadcasting; it has no gradient."""
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """The bits of whole numbers, moved to the left, elementwise, broadcasting; it has no gradient."""
    def bitwise_left_shift_(self, other: Operand) -> Tensor:
        """In place: the bits of whole numbers, moved to the left, elementwise, broadcasting; it has no gradient."""
    def bitwise_not(self) -> Tensor:
        """Every bit of whole numbers turned round, elementwise; it has no gradient."""
    def bitwise_not_(self) -> Tensor:
        """In place: every bit of whole numbers turned round, elementwise; it has no gradient."""
    def bitwise_or(self, other: Operand) -> Tensor:
        """The bits that are 1 in at least one of two whole numbers, elementwise, broadcasting; it has no gradient."""
    def bitwise_or_(self, other: Operand) -> Tensor:
        """In place: the bits that are 1 in at least one of two whole numbers, elementwise, broadcasting; it has no gradient."""
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """The bits of whole numbers, moved to the right, elementwise, broadcasting; it has no gradient."""
    def bitwise_right_shift_(self, other: Operand) -> Tensor:
        """In place: the bits of whole numbers, moved to the right, elementwise, broadcasting; it has no gradient."""
    def bitwise_xor(self, other: Operand) -> Tensor:
        """The bits that are 1 in exactly one of two whole numbers, elementwise, broadcasting; it has no gradient."""
    def bitwise_xor_(self, other: Operand) -> Tensor:
        """In place: the bits that are 1 in exactly one of two whole numbers, elementwise, broadcasting; it has no gradient."""
    def bmm(self, mat2: Array) -> Tensor:
        """Products of two batches of matrices, pair by pair."""
    def broadcast_to(self, *sizes: int | Sequence[int], size: Sequence[int] = ()) -> Tensor:
        """Dimensions of size 1, and new leading ones, stretched to ``size``, a tuple or separate numbers."""
    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: numbers of Cauchy's distribution; they have no gradient."""
    def ceil(self) -> Tensor:
        """The next whole number above, elementwise."""
    def ceil_(self) -> Tensor:
        """In place: the next whole number above, elementwise."""
    def celu_(self, alpha: Number = 1.0) -> Tensor:
        """In place: an elu whose slope is 1 on both sides of 0 whatever ``alpha`` is."""
    def cholesky(self, upper: bool = False) -> Tensor:
        """The triangular factor of positive definite matrices."""
    def cholesky_inverse(self, upper: bool = False) -> Tensor:
        """The inverse of the matrix that has this Cholesky factor."""
    def cholesky_solve(self, L: Operand, upper: bool = False) -> Tensor:
        """The solution of a system whose matrix has this Cholesky factor."""
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most ``chunks`` parts of a tensor along ``dim``, of one size but for the last."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None."""
    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """In place: each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None."""
    def clamp_max(self, max: Operand) -> Tensor:
        """Each element moved down to ``max``, a number or a tensor that broadcasts."""
    def clamp_max_(self, max: Operand) -> Tensor:
        """In place: each element moved down to ``max``, a number or a tensor that broadcasts."""
    def clamp_min(self, min: Operand) -> Tensor:
        """Each element moved up to ``min``, a number or a tensor that broadcasts."""
    def clamp_min_(self, min: Operand) -> Tensor:
        """In place: each element moved up to ``min``, a number or a tensor that broadcasts."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None."""
    def clip_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """In place: each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None."""
    def clone(self, memory_format: torch.memory_format = ...) -> Tensor:
        """A copy in memory of its own; gradients pass through it."""
    def conj(self) -> Tensor:
        """The complex conjugate: the imaginary part with the other sign. A real tensor is as it was."""
    def conj_physical(self) -> Tensor:
        """The complex conjugate, computed: ``conj`` only marks the tensor to be read so."""
    def conj_physical_(self) -> Tensor:
        """In place: the complex conjugate, computed: ``conj`` only marks the tensor to be read so."""
    def constant_(self, val: float) -> Tensor:
        r"""Fill the input Tensor with the value :math:`\text{val}`."""
    def contiguous(self, memory_format: torch.memory_format = ...) -> Tensor:
        """The tensor laid out in memory in the order of its elements: itself if it is, a copy otherwise."""
    def copy_(self, src: Array) -> Tensor:
        """In place: the values of another tensor in the shape, element type and place of x."""
    def copysign(self, other: Operand) -> Tensor:
        """The size of the input with the sign of the other, elementwise, broadcasting; the sign of -0.0 counts."""
    def copysign_(self, other: Operand) -> Tensor:
        """In place: the size of the input with the sign of the other, elementwise, broadcasting; the sign of -0.0 counts."""
    def corrcoef(self) -> Tensor:
        """The correlations of variables, whose observations are the columns."""
    def cos(self) -> Tensor:
        """Cosine of angles in radians, elementwise."""
    def cos_(self) -> Tensor:
        """In place: cosine of angles in radians, elementwise."""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine, elementwise."""
    def cosh_(self) -> Tensor:
        """In place: hyperbolic cosine, elementwise."""
    def count_nonzero(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """How many elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient."""
    def cov(
        self, *, correction: float | None = 1, fweights: Array | None = None, aweights: Array | None = None
    ) -> Tensor:
        """The covariances of variables, whose observations are the columns."""
    def cpu(self) -> Tensor:
        """The tensor in main memory; the tensor itself if it is there."""
    def cross(self, other: Array, dim: int | None = None) -> Tensor:
        """The vector product along ``dim``, or along the first dimension of size 3."""
    def cuda(self, device: torch.device | str | int | None = None) -> Tensor:
        """The tensor on a GPU, the current one unless told otherwise; the tensor itself if it is there."""
    def cummax(self, dim: int) -> ValuesAndIndices:
        """The largest element so far along ``dim``, and its index, as ``(values, indices)``."""
    def cummin(self, dim: int) -> ValuesAndIndices:
        """The smallest element so far along ``dim``, and its index, as ``(values, indices)``."""
    def cumprod(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """The running product along ``dim``."""
    def cumprod_(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """In place: the running product along ``dim``."""
    def cumsum(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """The running sum along ``dim``."""
    def cumsum_(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """In place: the running sum along ``dim``."""
    def deg2rad(self) -> Tensor:
        """Degrees as radians, elementwise."""
    def deg2rad_(self) -> Tensor:
        """In place: degrees as radians, elementwise."""
    def det(self) -> Tensor:
        """The determinant of square matrices: the factor by which they change volumes."""
    def diag(self, diagonal: int = 0) -> Tensor:
        """A matrix with the vector as its diagonal; of a matrix its diagonal."""
    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """The last dimension as the diagonal of matrices of zeros."""
    def diagflat(self, offset: int = 0) -> Tensor:
        """A matrix with all elements of the tensor, in their order, as its diagonal."""
    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal of the matrices that two dimensions make, in the same memory; ``offset`` counts upwards from it."""
    def diagonal_scatter(self, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Input with a diagonal of its dimensions ``dim1`` and ``dim2`` replaced."""
    def diff(self, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> Tensor:
        """Differences of neighbours along ``dim``, taken n times; first, ``prepend`` and ``append`` are joined to input."""
    def digamma(self) -> Tensor:
        """The derivative of the logarithm of the gamma function, elementwise."""
    def digamma_(self) -> Tensor:
        """In place: the derivative of the logarithm of the gamma function, elementwise."""
    def dirac_(self, groups: int = 1) -> Tensor:
        """Fill the {3, 4, 5}-dimensional input `Tensor` with the Dirac delta function."""
    def dist(self, other: Array, p: float = 2) -> Tensor:
        """The norm of order p of the difference, all elements as one vector."""
    def div(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def div_(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """In place: true quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def divide(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def divide_(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """In place: true quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def dot(self, tensor: Array) -> Tensor:
        """Product of two vectors: the sum of the products of their elements."""
    def dsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Equal parts of a tensor along dimension 2, or cut at indices."""
    def elu_(self, alpha: Number = 1.0) -> Tensor:
        """In place: the exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``."""
    def eq(self, b: Operand) -> Tensor:
        """Whether a == b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def eq_(self, b: Operand) -> Tensor:
        """In place: whether a == b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def equal(self, other: Array) -> bool:
        """Whether two tensors have the same shape and the same numbers, as a Python bool; NaN equals nothing."""
    def erf(self) -> Tensor:
        """The error function, elementwise: twice the area under a bell curve from 0."""
    def erf_(self) -> Tensor:
        """In place: the error function, elementwise: twice the area under a bell curve from 0."""
    def erfc(self) -> Tensor:
        """One minus the error function, elementwise, exact also where that is nearly 0."""
    def erfc_(self) -> Tensor:
        """In place: one minus the error function, elementwise, exact also where that is nearly 0."""
    def erfinv(self) -> Tensor:
        """The number whose error function each element is; infinite at -1 and 1, NaN beyond."""
    def erfinv_(self) -> Tensor:
        """In place: the number whose error function each element is; infinite at -1 and 1, NaN beyond."""
    def exp(self) -> Tensor:
        """The exponential function, elementwise."""
    def exp2(self) -> Tensor:
        """Two to the power of each element."""
    def exp2_(self) -> Tensor:
        """In place: two to the power of each element."""
    def exp_(self) -> Tensor:
        """In place: the exponential function, elementwise."""
    def expand(self, *size: int | Sequence[int]) -> Tensor:
        """Dimensions of size 1, and new leading ones, stretched without copying; -1 keeps a size."""
    def expand_as(self, other: Array) -> Tensor:
        """Dimensions of size 1, and new leading ones, stretched to the shape of another tensor."""
    def expm1(self) -> Tensor:
        """The exponential minus 1, elementwise, exact also near 0."""
    def expm1_(self) -> Tensor:
        """In place: the exponential minus 1, elementwise, exact also near 0."""
    def exponential_(self, lambd: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: numbers of the exponential distribution with the rate ``lambd``; they have no gradient."""
    def eye_(self) -> Tensor:
        """Fill the 2-dimensional input `Tensor` with the identity matrix."""
    def fill_(self, value: Operand) -> Tensor:
        """In place: a tensor like the input, every element of which is the value."""
    def fill_diagonal_(self, fill_value: float, wrap: bool = False) -> Tensor:
        """Every element of the diagonal becomes ``fill_value``, a number, in place; the tensor itself is returned."""
    def fix(self) -> Tensor:
        """The whole part, elementwise: rounded towards 0."""
    def fix_(self) -> Tensor:
        """In place: the whole part, elementwise: rounded towards 0."""
    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The dimensions from ``start_dim`` to ``end_dim`` as one; a single number becomes a vector of one."""
    def flip(self, *dims: int | Sequence[int]) -> Tensor:
        """The elements along these dimensions in reverse order."""
    def fliplr(self) -> Tensor:
        """Columns in reverse order."""
    def flipud(self) -> Tensor:
        """Rows in reverse order."""
    def float_power(self, exponent: Operand) -> Tensor:
        """The power, elementwise, broadcasting, computed in float64 or complex128 whatever the inputs are."""
    def float_power_(self, exponent: Operand) -> Tensor:
        """The power, elementwise, in place; only of a float64 or complex128 tensor, which can hold the result."""
    def floor(self) -> Tensor:
        """The next whole number below, elementwise."""
    def floor_(self) -> Tensor:
        """In place: the next whole number below, elementwise."""
    def floor_divide(self, other: Operand) -> Tensor:
        """Quotient rounded down, elementwise, broadcasting; integers stay integers. It has no gradient."""
    def floor_divide_(self, other: Operand) -> Tensor:
        """In place: quotient rounded down, elementwise, broadcasting; integers stay integers. It has no gradient."""
    def fmax(self, other: Operand) -> Tensor:
        """The larger of two, elementwise, broadcasting; where one is NaN, the other one."""
    def fmin(self, other: Operand) -> Tensor:
        """The smaller of two, elementwise, broadcasting; where one is NaN, the other one."""
    def fmod(self, other: Operand) -> Tensor:
        """The remainder of a division rounded towards 0, with the sign of the dividend, as C's ``fmod``; broadcasting."""
    def fmod_(self, other: Operand) -> Tensor:
        """In place: the remainder of a division rounded towards 0, with the sign of the dividend, as C's ``fmod``; broadcasting."""
    def frac(self) -> Tensor:
        """The fractional part of each element, with the sign of the element."""
    def frac_(self) -> Tensor:
        """In place: the fractional part of each element, with the sign of the element."""
    def frexp(self) -> MantissaAndExponent:
        """Each number as a mantissa, whose size is between 1/2 and 1, and the exponent of a power of 2."""
    def gather(self, dim: int, index: Array, *, sparse_grad: bool = False) -> Tensor:
        """Along ``dim``, the elements at the numbers in ``index``, in torch's order of arguments."""
    def gcd(self, other: Operand) -> Tensor:
        """The greatest common divisor of whole numbers, elementwise, broadcasting; it has no gradient."""
    def gcd_(self, other: Operand) -> Tensor:
        """In place: the greatest common divisor of whole numbers, elementwise, broadcasting; it has no gradient."""
    def ge(self, b: Operand) -> Tensor:
        """Whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def ge_(self, b: Operand) -> Tensor:
        """In place: whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def gelu_(self, approximate: str = "none") -> Tensor:
        """In place: the input times the probability that a standard normal number is below the input, elementwise."""
    def geometric_(self, p: float, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: numbers of tries until an event of probability ``p`` happens; they have no gradient."""
    def ger(self, vec2: Array) -> Tensor:
        """The products of each element of one vector with each of the other, as a matrix."""
    def greater(self, b: Operand) -> Tensor:
        """Whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def greater_(self, b: Operand) -> Tensor:
        """In place: whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def greater_equal(self, b: Operand) -> Tensor:
        """Whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def greater_equal_(self, b: Operand) -> Tensor:
        """In place: whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def gt(self, b: Operand) -> Tensor:
        """Whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def gt_(self, b: Operand) -> Tensor:
        """In place: whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        """The input where it is more than ``lambd`` away from 0, 0 elsewhere."""
    def hardsigmoid_(self) -> Tensor:
        """In place: the logistic function made of straight pieces: 0 below -3, 1 above 3."""
    def hardswish_(self) -> Tensor:
        """In place: the input times its hardsigmoid: silu without an exponential."""
    def hardtanh_(self, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
        """In place: cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces."""
    def heaviside(self, values: Operand) -> Tensor:
        """The step function, elementwise: 0 below 0, 1 above, and the given value at 0; it has no gradient."""
    def heaviside_(self, values: Operand) -> Tensor:
        """In place: the step function, elementwise: 0 below 0, 1 above, and the given value at 0; it has no gradient."""
    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of ``bins`` equal parts of the range from ``min`` to ``max``; it has no gradient."""
    def hsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Equal parts of a tensor along dimension 1, or cut at indices."""
    def hypot(self, other: Operand) -> Tensor:
        """The hypotenuse of two legs, elementwise, broadcasting, computed without overflow."""
    def hypot_(self, other: Operand) -> Tensor:
        """In place: the hypotenuse of two legs, elementwise, broadcasting, computed without overflow."""
    def i0(self) -> Tensor:
        """The modified Bessel function of order 0, elementwise."""
    def i0_(self) -> Tensor:
        """In place: the modified Bessel function of order 0, elementwise."""
    def igamma(self, other: Operand) -> Tensor:
        """The regularized lower incomplete gamma function of shape ``input`` at ``other``, elementwise."""
    def igamma_(self, other: Operand) -> Tensor:
        """In place: the regularized lower incomplete gamma function of shape ``input`` at ``other``, elementwise."""
    def igammac(self, other: Operand) -> Tensor:
        """The regularized upper incomplete gamma function of shape ``input`` at ``other``, elementwise."""
    def igammac_(self, other: Operand) -> Tensor:
        """In place: the regularized upper incomplete gamma function of shape ``input`` at ``other``, elementwise."""
    @property
    def imag(self) -> Tensor:
        """The imaginary part, in the memory of the complex tensor."""
    def index_add(self, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> Tensor:
        """Input with ``alpha`` times the slices of ``source`` added along ``dim`` at the numbers in ``index``."""
    def index_add_(self, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> Tensor:
        """In place: ``alpha`` times the slices of ``source`` added along ``dim`` at the numbers in ``index``."""
    def index_copy(self, dim: int, index: Array, source: Array) -> Tensor:
        """Input with the slices along ``dim`` at the numbers in ``index`` replaced by those of ``source``."""
    def index_copy_(self, dim: int, index: Array, source: Array) -> Tensor:
        """In place: the slices along ``dim`` at the numbers in ``index`` replaced by those of ``source``."""
    def index_fill(self, dim: int, index: Array, value: Operand) -> Tensor:
        """Input with the slices along ``dim`` at the numbers in ``index`` filled with ``value``."""
    def index_fill_(self, dim: int, index: Array, value: Operand) -> Tensor:
        """In place: the slices along ``dim`` at the numbers in ``index`` filled with ``value``."""
    def index_put(self, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Tensor:
        """Input with the elements at ``indices`` replaced by ``values``, in torch's order of arguments."""
    def index_put_(self, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Tensor:
        """In place: the elements at ``indices`` replaced by ``values``, or ``values`` added with ``accumulate``."""
    def index_reduce(self, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True) -> Tensor:
        """The input, with the slices of ``source`` reduced into it along ``dim`` at the numbers in ``index``."""
    def index_reduce_(self, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True) -> Tensor:
        """In place: the slices of ``source`` reduced into this tensor along ``dim`` at the numbers in ``index``."""
    def index_select(self, dim: int, index: Array) -> Tensor:
        """The slices along ``dim`` at the numbers in ``index``, in torch's order of arguments."""
    def inner(self, other: Array) -> Tensor:
        """Sums of products over the last dimension of both."""
    def inverse(self) -> Tensor:
        """The inverse of square matrices."""
    def isclose(self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Whether two numbers differ by at most ``atol + rtol * |other|``, elementwise, broadcasting; no gradient."""
    def isfinite(self) -> Tensor:
        """Whether each number is neither infinite nor NaN: a bool tensor, which has no gradient."""
    def isinf(self) -> Tensor:
        """Whether each number is infinite: a bool tensor, which has no gradient."""
    def isnan(self) -> Tensor:
        """Whether each number is NaN: a bool tensor, which has no gradient."""
    def isneginf(self) -> Tensor:
        """Whether each number is negative infinity: a bool tensor, which has no gradient."""
    def isposinf(self) -> Tensor:
        """Whether each number is positive infinity: a bool tensor, which has no gradient."""
    def isreal(self) -> Tensor:
        """Whether each number is without imaginary part: a bool tensor, which has no gradient."""
    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Array | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool | None = False,
    ) -> Tensor:
        """The signal whose frames have the given Fourier transforms; where frames overlap, the best fit to all of them."""
    def kaiming_normal_(
        self,
        a: float = 0,
        mode: str = "fan_in",
        nonlinearity: str = "leaky_relu",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Fill the input `Tensor` with values using a Kaiming normal distribution."""
    def kaiming_uniform_(
        self,
        a: float = 0,
        mode: str = "fan_in",
        nonlinearity: str = "leaky_relu",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Fill the input `Tensor` with values using a Kaiming uniform distribution."""
    def kron(self, other: Array) -> Tensor:
        """The Kronecker product: each element of the input times the whole of the other tensor, in its place."""
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
        """The k-th smallest element along ``dim``, counted from 1, and where it is, as ``(values, indices)``."""
    def lcm(self, other: Operand) -> Tensor:
        """The least common multiple of whole numbers, elementwise, broadcasting; it has no gradient."""
    def lcm_(self, other: Operand) -> Tensor:
        """In place: the least common multiple of whole numbers, elementwise, broadcasting; it has no gradient."""
    def ldexp(self, other: Operand) -> Tensor:
        """The input times 2 to the power of the other, elementwise, broadcasting; it is recorded as the product it is."""
    def ldexp_(self, other: Operand) -> Tensor:
        """The input times 2 to the power of the other, elementwise, in place."""
    def le(self, b: Operand) -> Tensor:
        """Whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def le_(self, b: Operand) -> Tensor:
        """In place: whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def leaky_relu_(self, negative_slope: float = 0.01) -> Tensor:
        """In place: the input where it is positive, ``negative_slope`` times it elsewhere."""
    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """Linear interpolation, elementwise, broadcasting: the input at weight 0, the end at weight 1."""
    def lerp_(self, end: Operand, weight: Operand) -> Tensor:
        """In place: linear interpolation, elementwise, broadcasting: the input at weight 0, the end at weight 1."""
    def less(self, b: Operand) -> Tensor:
        """Whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def less_(self, b: Operand) -> Tensor:
        """In place: whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def less_equal(self, b: Operand) -> Tensor:
        """Whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def less_equal_(self, b: Operand) -> Tensor:
        """In place: whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def lgamma(self) -> Tensor:
        """The logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers."""
    def lgamma_(self) -> Tensor:
        """In place: the logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers."""
    def log(self) -> Tensor:
        """Natural logarithm, elementwise; NaN for negative x, -inf at 0."""
    def log10(self) -> Tensor:
        """Logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0."""
    def log10_(self) -> Tensor:
        """In place: logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0."""
    def log1p(self) -> Tensor:
        """Logarithm of 1 plus each element, exact also near 0."""
    def log1p_(self) -> Tensor:
        """In place: logarithm of 1 plus each element, exact also near 0."""
    def log2(self) -> Tensor:
        """Logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0."""
    def log2_(self) -> Tensor:
        """In place: logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0."""
    def log_(self) -> Tensor:
        """In place: natural logarithm, elementwise; NaN for negative x, -inf at 0."""
    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: numbers whose logarithms have that mean and standard deviation; they have no gradient."""
    def log_softmax(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """Logarithm of softmax along ``dim``, computed without overflow."""
    def logaddexp(self, other: Operand) -> Tensor:
        """Logarithm of the sum of two exponentials, elementwise, broadcasting, computed without overflow."""
    def logaddexp2(self, other: Operand) -> Tensor:
        """Base-2 logarithm of the sum of two powers of 2, elementwise, broadcasting, computed without overflow."""
    def logcumsumexp(self, dim: int) -> Tensor:
        """Logarithm of the running sum of exponentials along ``dim``, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant of square matrices; NaN where it is negative."""
    def logical_and(self, other: Operand) -> Tensor:
        """Whether both are true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logical_and_(self, other: Operand) -> Tensor:
        """In place: whether both are true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logical_not(self) -> Tensor:
        """Whether each element is 0: a bool tensor, which has no gradient."""
    def logical_not_(self) -> Tensor:
        """In place: whether each element is 0: a bool tensor, which has no gradient."""
    def logical_or(self, other: Operand) -> Tensor:
        """Whether at least one is true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logical_or_(self, other: Operand) -> Tensor:
        """In place: whether at least one is true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logical_xor(self, other: Operand) -> Tensor:
        """Whether exactly one is true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logical_xor_(self, other: Operand) -> Tensor:
        """In place: whether exactly one is true, elementwise, broadcasting; all but 0 counts as true. No gradient."""
    def logit(self, eps: float | None = None) -> Tensor:
        """The logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1]."""
    def logit_(self, eps: float | None = None) -> Tensor:
        """In place: the logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1]."""
    def logsumexp(self, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
        """Logarithm of the sum of exponentials over ``dim`` (a number or a tuple of numbers), without overflow."""
    def lt(self, b: Operand) -> Tensor:
        """Whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def lt_(self, b: Operand) -> Tensor:
        """In place: whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def lu(self, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
        """The two triangular factors of matrices in one matrix, and which rows were swapped."""
    def lu_solve(self, LU_data: Array, LU_pivots: Array) -> Tensor:
        """The solution of a system whose matrix has these triangular factors."""
    @property
    def mH(self) -> Tensor:
        """The last two dimensions swapped, and complex numbers conjugated."""
    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped: a batch of matrices transposed."""
    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """The input with the value, a number or a tensor of one, wherever the mask holds, broadcasting."""
    def masked_fill_(self, mask: Operand, value: Operand) -> Tensor:
        """In place: the input with the value, a number or a tensor of one, wherever the mask holds, broadcasting."""
    def masked_scatter(self, mask: Array, source: Array) -> Tensor:
        """Input with the elements where the mask holds replaced by those of source, in order."""
    def masked_scatter_(self, mask: Array, source: Array) -> Tensor:
        """In place: input with the elements where the mask holds replaced by those of source, in order."""
    def masked_select(self, mask: Array) -> Tensor:
        """The elements where the mask holds, in one line; input and mask broadcast."""
    def matmul(self, b: Array) -> Tensor:
        """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column."""
    def matrix_exp(self) -> Tensor:
        """The exponential of square matrices."""
    def matrix_power(self, n: int) -> Tensor:
        """Square matrices multiplied with themselves n times; for a negative n their inverses."""
    @overload
    def max(self) -> Tensor:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def max(self, dim: Tensor | torch.Tensor) -> Tensor:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def max(self, *, other: Tensor | torch.Tensor) -> Tensor:
        """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    def maximum(self, b: Array) -> Tensor:
        """The larger of a and b, elementwise, broadcasting; NaN where either is NaN."""
    def mean(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none."""
    @overload
    def median(self) -> Tensor:
        """The median of all elements, or along ``dim`` with indices; of two in the middle the lower one."""
    @overload
    def median(self, dim: int, keepdim: bool = False) -> ValuesAndIndices:
        """The median of all elements, or along ``dim`` with indices; of two in the middle the lower one."""
    @overload
    def min(self) -> Tensor:
        """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesAndIndices:
        """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def min(self, dim: Tensor | torch.Tensor) -> Tensor:
        """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    @overload
    def min(self, *, other: Tensor | torch.Tensor) -> Tensor:
        """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    def minimum(self, other: Operand) -> Tensor:
        """The smaller of two, elementwise, broadcasting; NaN where either is NaN."""
    def mish_(self) -> Tensor:
        """In place: the input times tanh of its softplus, elementwise: a smooth relative of relu with a dip below 0."""
    def mm(self, mat2: Array) -> Tensor:
        """Product of two matrices."""
    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
        """The commonest elements along ``dim``, the smallest of several, and where they are, as ``(values, indices)``."""
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Some dimensions moved to other positions; the others keep their order."""
    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Some dimensions moved to other positions; the others keep their order."""
    def msort(self) -> Tensor:
        """The elements in order along the first dimension."""
    def mul(self, b: Operand) -> Tensor:
        """Product of two tensors, elementwise, broadcasting."""
    def mul_(self, b: Operand) -> Tensor:
        """In place: product of two tensors, elementwise, broadcasting."""
    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Indices drawn with probabilities proportional to the numbers in each row of the input; they have no gradient."""
    def multiply(self, b: Operand) -> Tensor:
        """Product of two tensors, elementwise, broadcasting."""
    def multiply_(self, b: Operand) -> Tensor:
        """In place: product of two tensors, elementwise, broadcasting."""
    def mv(self, vec: Array) -> Tensor:
        """Product of a matrix and a vector."""
    def mvlgamma(self, p: int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension ``p``, elementwise."""
    def mvlgamma_(self, p: int) -> Tensor:
        """In place: the logarithm of the multivariate gamma function of dimension ``p``, elementwise."""
    def nan_to_num(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN becomes 0 or the number ``nan``, infinities the largest and smallest number of the dtype or those given."""
    def nan_to_num_(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """In place: naN becomes 0 or the number ``nan``, infinities the largest and smallest number of the dtype or those given."""
    def nanmean(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Mean over all elements, or over ``dim``, that are not NaN; NaN where there are none."""
    @overload
    def nanmedian(self) -> Tensor:
        """The median of all elements that are not NaN, or along ``dim`` with indices."""
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> ValuesAndIndices:
        """The median of all elements that are not NaN, or along ``dim`` with indices."""
    def nanquantile(
        self, q: float | Array, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The quantiles of the elements that are not NaN, with the settings of ``quantile``; NaN if there are none."""
    def nansum(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Sum over all elements, or over ``dim``, that are not NaN."""
    def narrow(self, dim: int, start: int | None, length: int) -> Tensor:
        """The ``length`` slices along ``dim`` from ``start`` on, in the same memory."""
    def narrow_copy(self, *, dim: int, start: int | None, length: int) -> Tensor:
        """The result of ``narrow``, in memory of its own."""
    def ne(self, b: Operand) -> Tensor:
        """Whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def ne_(self, b: Operand) -> Tensor:
        """In place: whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def neg(self) -> Tensor:
        """The tensor with its sign changed."""
    def neg_(self) -> Tensor:
        """In place: the tensor with its sign changed."""
    def negative(self) -> Tensor:
        """The tensor with its sign changed."""
    def negative_(self) -> Tensor:
        """In place: the tensor with its sign changed."""
    def new(self, *args: Any, device: torch.device | str | None = None) -> Tensor:
        """A tensor of a shape with whatever is in its memory, or of the numbers in a list, with the element type and on the device of this one unless told otherwise."""
    def new_empty(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of a shape with whatever is in its memory, with the element type and on the device of this one unless told otherwise."""
    def new_full(
        self,
        size: Sequence[int],
        fill_value: Number,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of a shape filled with one value, with the element type and on the device of this one unless told otherwise."""
    def new_ones(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of ones of a shape, with the element type and on the device of this one unless told otherwise."""
    def new_tensor(
        self,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of the numbers given, copied, with the element type and on the device of this one unless told otherwise."""
    def new_zeros(
        self,
        *size: int | Sequence[int],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of zeros of a shape, with the element type and on the device of this one unless told otherwise."""
    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0, one row each, or one tensor for each dimension with ``as_tuple``."""
    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        out: None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """The norm of order p of all elements as one vector, or along ``dim``; "fro" is the order 2."""
    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
        """In place: normal numbers; they have no gradient."""
    def not_equal(self, b: Operand) -> Tensor:
        """Whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def not_equal_(self, b: Operand) -> Tensor:
        """In place: whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient."""
    def ones_(self) -> Tensor:
        """Fill the input Tensor with the scalar value `1`."""
    def orgqr(self, tau: Array) -> Tensor:
        """The first columns of a product of Householder reflections."""
    def ormqr(self, tau: Array, other: Array, left: bool = True, transpose: bool = False) -> Tensor:
        """A matrix times a product of Householder reflections, or its adjoint, without making the product."""
    def orthogonal_(self, gain: float = 1, generator: torch.Generator | None = None) -> Tensor:
        """Fill the input `Tensor` with a (semi) orthogonal matrix."""
    def outer(self, vec2: Array) -> Tensor:
        """The products of each element of one vector with each of the other, as a matrix."""
    def permute(self, *dims: int | Sequence[int]) -> Tensor:
        """The dimensions in another order, without copying."""
    def pinverse(self, rcond: float | Array | None = 1e-15) -> Tensor:
        """The pseudoinverse of matrices: the inverse on what they do not send to 0."""
    def polygamma(self, n: int) -> Tensor:
        """The derivative of order ``n`` of digamma, elementwise."""
    def polygamma_(self, n: int) -> Tensor:
        """In place: the derivative of order ``n`` of digamma, elementwise."""
    def positive(self) -> Tensor:
        """The tensor itself, as ``+x``."""
    def pow(self, b: Operand) -> Tensor:
        """The power a to the b, elementwise, broadcasting."""
    def pow_(self, b: Operand) -> Tensor:
        """In place: the power a to the b, elementwise, broadcasting."""
    def prelu(self, weight: Array) -> Tensor:
        """The input where it is positive, ``weight`` times it elsewhere, where the weight is learned."""
    def prod(self, dim: int | None = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
        """Product of all elements, or along ``dim``."""
    def put(self, index: Array, source: Array, accumulate: bool = False) -> Tensor:
        """Input with the elements of source at the positions in index, which count through the flattened input."""
    def put_(self, index: Array, source: Array, accumulate: bool = False) -> Tensor:
        """In place: input with the elements of source at the positions in index, which count through the flattened input."""
    def qr(self, some: bool = True) -> tuple[Tensor, Tensor]:
        """The QR decomposition of the input: Q has orthonormal columns, and R is triangular."""
    def quantile(
        self, q: float | Array, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The values below which the parts q of the elements lie, over all or along ``dim``; NaN where an element is NaN."""
    def rad2deg(self) -> Tensor:
        """Radians as degrees, elementwise."""
    def rad2deg_(self) -> Tensor:
        """In place: radians as degrees, elementwise."""
    def random_(self, *limits: float, generator: torch.Generator | None = None) -> Tensor:
        """In place: integers from the first of two ``limits`` (0 by default) up to the second, which is excluded; they have no gradient."""
    def ravel(self) -> Tensor:
        """All elements as one vector: in the same memory, but a copy where they do not lie in it one after the other."""
    @property
    def real(self) -> Tensor:
        """The real part, in the memory of the complex tensor. A real tensor is as it was."""
    def reciprocal(self) -> Tensor:
        """One over each element; infinite at 0."""
    def reciprocal_(self) -> Tensor:
        """In place: one over each element; infinite at 0."""
    def relu(self) -> Tensor:
        """The rectified linear unit: x where it is positive, 0 elsewhere."""
    def relu6_(self) -> Tensor:
        """In place: a relu that stops at 6."""
    def relu_(self) -> Tensor:
        """In place: the rectified linear unit: x where it is positive, 0 elsewhere."""
    def remainder(self, other: Operand) -> Tensor:
        """The remainder of a division rounded down, with the sign of the divisor, as Python's ``%``; broadcasting."""
    def remainder_(self, other: Operand) -> Tensor:
        """In place: the remainder of a division rounded down, with the sign of the divisor, as Python's ``%``; broadcasting."""
    def renorm(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """Each slice along ``dim`` whose norm of order p is above ``maxnorm`` scaled down to it; the others as they are."""
    def renorm_(self, p: float, dim: int, maxnorm: float) -> Tensor:
        """In place: each slice along ``dim`` whose norm of order p is above ``maxnorm`` scaled down to it; the others as they are."""
    def repeat(self, *repeats: int | Sequence[int]) -> Tensor:
        """Copies of a tensor put side by side, so many along each dimension; there may be new leading dimensions."""
    def repeat_interleave(
        self,
        repeats: int | Sequence[int] | Array | None = None,
        dim: int | None = None,
        *,
        output_size: int | Sequence[int | None] | None = None,
    ) -> Tensor:
        """Each slice along ``dim``, repeated ``repeats`` times in a row; without ``dim`` each element, as a vector."""
    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The same elements, in the same order, in another shape; one size may be -1 and is worked out."""
    def reshape_as(self, other: Array) -> Tensor:
        """The elements in the shape of another tensor."""
    def resolve_conj(self) -> Tensor:
        """The same numbers; a conjugation that was only marked is carried out in memory."""
    def resolve_neg(self) -> Tensor:
        """The same numbers; a change of sign that was only marked is carried out in memory."""
    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
        """The elements moved along these dimensions, or along all of them as one vector; what leaves comes in again."""
    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """A quarter turn from the first of two dimensions towards the second, ``k`` times."""
    def round(self, decimals: int = 0) -> Tensor:
        """The nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one."""
    def round_(self, decimals: int = 0) -> Tensor:
        """In place: the nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one."""
    def rsqrt(self) -> Tensor:
        """One over the square root, elementwise; NaN for negative numbers, infinite at 0."""
    def rsqrt_(self) -> Tensor:
        """In place: one over the square root, elementwise; NaN for negative numbers, infinite at 0."""
    def scatter(
        self,
        dim: int,
        index: Array,
        src: Operand | None = None,
        *,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Tensor:
        """Input with the elements at ``index`` along ``dim`` replaced by ``src``, a tensor or a number."""
    def scatter_(
        self,
        dim: int,
        index: Array,
        src: Operand | None = None,
        *,
        value: Number | None = None,
        reduce: str | None = None,
    ) -> Tensor:
        """In place: the elements at ``index`` along ``dim`` replaced by ``src``, or combined with it by ``reduce``."""
    def scatter_add(self, dim: int, index: Array, src: Array) -> Tensor:
        """Input with ``src`` added along ``dim`` at the numbers in ``index``, in torch's order of arguments."""
    def scatter_add_(self, dim: int, index: Array, src: Array) -> Tensor:
        """In place: ``src`` added along ``dim`` at the numbers in ``index``."""
    def scatter_reduce(self, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Tensor:
        """The input, with the elements of ``src`` reduced into it along ``dim`` at the numbers in ``index``."""
    def scatter_reduce_(self, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Tensor:
        """In place: the elements of ``src`` reduced into this tensor along ``dim`` at the numbers in ``index``."""
    def select(self, dim: int, index: int) -> Tensor:
        """The slice at ``index`` along ``dim``, without that dimension, in the same memory."""
    def select_scatter(self, src: Array, dim: int, index: int) -> Tensor:
        """Input with the slice at one index along ``dim`` replaced."""
    def selu_(self) -> Tensor:
        """In place: the scaled elu whose two constants keep mean 0 and variance 1 from layer to layer."""
    def sgn(self) -> Tensor:
        """The sign of each element; for a complex number, the number of size 1 in the same direction."""
    def sgn_(self) -> Tensor:
        """In place: the sign of each element; for a complex number, the number of size 1 in the same direction."""
    def sigmoid(self) -> Tensor:
        """The logistic function, elementwise: squeezes any number into (0, 1)."""
    def sigmoid_(self) -> Tensor:
        """In place: the logistic function, elementwise: squeezes any number into (0, 1)."""
    def sign(self) -> Tensor:
        """-1, 0 or 1 as each element is negative, zero or positive."""
    def sign_(self) -> Tensor:
        """In place: -1, 0 or 1 as each element is negative, zero or positive."""
    def signbit(self) -> Tensor:
        """Whether each number is negative, -0.0 included: a bool tensor, which has no gradient."""
    def silu_(self) -> Tensor:
        """In place: the input times its logistic function, elementwise: nearly 0 left, nearly x right, with a dip below 0 between."""
    def sin(self) -> Tensor:
        """Sine of angles in radians, elementwise."""
    def sin_(self) -> Tensor:
        """In place: sine of angles in radians, elementwise."""
    def sinc(self) -> Tensor:
        """Normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number."""
    def sinc_(self) -> Tensor:
        """In place: normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine, elementwise."""
    def sinh_(self) -> Tensor:
        """In place: hyperbolic sine, elementwise."""
    def slice_scatter(
        self, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Tensor:
        """Input with the slice from ``start`` to ``end`` along ``dim`` replaced."""
    def slogdet(self) -> SignAndLogabsdet:
        """The sign of the determinant of square matrices, and the logarithm of its size, which does not overflow."""
    def softmax(self, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1."""
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesAndIndices:
        """The elements along ``dim`` in order, and where each was, as ``(values, indices)``."""
    def sparse_(self, sparsity: float, std: float = 0.01, generator: torch.Generator | None = None) -> Tensor:
        """Fill the 2D input `Tensor` as a sparse matrix."""
    def split(self, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """The parts of a tensor along ``dim``: of one size, the last one maybe smaller, or of several sizes."""
    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """The parts of a tensor along ``dim`` of these sizes."""
    def sqrt(self) -> Tensor:
        """Square root, elementwise; NaN for negative x."""
    def sqrt_(self) -> Tensor:
        """In place: square root, elementwise; NaN for negative x."""
    def square(self) -> Tensor:
        """The square, elementwise. It is recorded as ``pow`` with the exponent 2."""
    def square_(self) -> Tensor:
        """The square, elementwise, in place."""
    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """The dimensions of size 1 removed, all of them or ``dim`` alone, without copying."""
    def squeeze_(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """In place: the dimensions of size 1 removed, all of them or ``dim`` alone, without copying."""
    def std(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        correction: float | None = None,
    ) -> Tensor:
        """Standard deviation of all elements, or over ``dim``: the root of the variance, with its settings."""
    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Array | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Tensor:
        """The Fourier transform of the frames of a signal: a spectrogram is its size."""
    def sub(self, b: Operand, alpha: Number = 1) -> Tensor:
        """Difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def sub_(self, b: Operand, alpha: Number = 1) -> Tensor:
        """In place: difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def subtract(self, b: Operand, alpha: Number = 1) -> Tensor:
        """Difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def subtract_(self, b: Operand, alpha: Number = 1) -> Tensor:
        """In place: difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first."""
    def sum(
        self, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Sum over all elements, or over ``dim`` (a number or a tuple of numbers)."""
    def sum_to_size(self, *size: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Sum over leading dimensions, and over those that are 1 in ``size``: the undoing of a broadcast."""
    def svd(self, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """The singular values and vectors of matrices, as torch's older svd: all vectors are columns."""
    def swapaxes(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions swapped, without copying."""
    def swapaxes_(self, dim0: int, dim1: int) -> Tensor:
        """In place: two dimensions swapped, without copying."""
    def swapdims(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions swapped, without copying."""
    def swapdims_(self, dim0: int, dim1: int) -> Tensor:
        """In place: two dimensions swapped, without copying."""
    def t(self) -> Tensor:
        """A matrix transposed; a vector or a single number as it is."""
    def t_(self) -> Tensor:
        """In place: a matrix transposed, without moving its elements."""
    def take(self, index: Array) -> Tensor:
        """The elements of the flattened input at the positions in index."""
    def take_along_dim(self, indices: Array, dim: int | None = None) -> Tensor:
        """Along ``dim``, the elements at the numbers in ``indices``, which broadcasts with input in all other dimensions."""
    def tan(self) -> Tensor:
        """Tangent of angles in radians, elementwise."""
    def tan_(self) -> Tensor:
        """In place: tangent of angles in radians, elementwise."""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1)."""
    def tanh_(self) -> Tensor:
        """In place: hyperbolic tangent, elementwise: squeezes any number into (-1, 1)."""
    def tensor_split(self, indices_or_sections: int | Sequence[int] | Array, dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of a tensor along ``dim``: as many as asked for, of sizes that differ by at most one; or cut at indices."""
    def threshold_(self, threshold: float, value: float) -> Tensor:
        """In place: the input where it exceeds ``threshold``, ``value`` elsewhere."""
    @overload
    def tile(self, *repeats: int | Sequence[int]) -> Tensor:
        """Copies of a tensor put side by side; dimensions that no number is given for are not repeated."""
    @overload
    def tile(self, *, dims: Sequence[int]) -> Tensor:
        """Copies of a tensor put side by side; dimensions that no number is given for are not repeated."""
    @overload
    def to(
        self,
        device: torch.device | str | int | None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        *,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes, unless ``copy``."""
    @overload
    def to(
        self,
        dtype: torch.dtype,
        non_blocking: bool = False,
        copy: bool = False,
        *,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes, unless ``copy``."""
    @overload
    def to(
        self,
        other: Tensor | torch.Tensor,
        non_blocking: bool = False,
        copy: bool = False,
        *,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes, unless ``copy``."""
    @overload
    def to(
        self,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> Tensor:
        """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes, unless ``copy``."""
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
        """The k largest elements along ``dim``, or the smallest, and where they are, as ``(values, indices)``."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix."""
    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions swapped, without copying."""
    def transpose_(self, dim0: int, dim1: int) -> Tensor:
        """In place: two dimensions swapped, without copying."""
    def triangular_solve(
        self, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The solution of a triangular system, and a copy of its matrix, as torch's older function returns them."""
    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle of matrices: 0 above the diagonal, which ``diagonal`` moves up."""
    def tril_(self, diagonal: int = 0) -> Tensor:
        """In place: the lower triangle of matrices: 0 above the diagonal, which ``diagonal`` moves up."""
    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle of matrices: 0 below the diagonal, which ``diagonal`` moves up."""
    def triu_(self, diagonal: int = 0) -> Tensor:
        """In place: the upper triangle of matrices: 0 below the diagonal, which ``diagonal`` moves up."""
    def true_divide(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def true_divide_(self, b: Operand, rounding_mode: str | None = None) -> Tensor:
        """In place: true quotient of two tensors, elementwise, broadcasting; integers give floating point numbers."""
    def trunc(self) -> Tensor:
        """The whole part, elementwise: rounded towards 0."""
    def trunc_(self) -> Tensor:
        """In place: the whole part, elementwise: rounded towards 0."""
    def trunc_normal_(
        self,
        mean: float = 0.0,
        std: float = 1.0,
        a: float = -2.0,
        b: float = 2.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Fill the input Tensor with values drawn from a truncated normal distribution."""
    def type_as(self, other: Tensor | torch.Tensor) -> Tensor:
        """The values with the element type of ``other``, and on its device."""
    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The slices of a tensor along ``dim``, without that dimension: what ``stack`` undoes."""
    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One dimension as several, of these sizes, one of which may be -1."""
    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """All windows of ``size`` elements along a dimension, ``step`` apart, in the same memory."""
    def uniform_(self, *limits: float, generator: torch.Generator | None = None) -> Tensor:
        """In place: numbers that are uniform between the two ``limits`` (0 and 1); they have no gradient."""
    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements, or the slices along ``dim``, each once; a backward that comes to them is an error."""
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements, or the slices along ``dim``, with equal neighbours merged; with the settings of ``unique``."""
    def unsafe_chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """The parts that ``chunk`` makes, each in memory of its own."""
    def unsafe_split(self, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """The parts that ``split`` makes, each in memory of its own."""
    def unsqueeze(self, dim: int) -> Tensor:
        """A new dimension of size 1 at ``dim``, without copying."""
    def unsqueeze_(self, dim: int) -> Tensor:
        """In place: a new dimension of size 1 at ``dim``, without copying."""
    def var(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        correction: float | None = None,
    ) -> Tensor:
        """Variance of all elements, or over ``dim`` (a number or a tuple of numbers)."""
    def vdot(self, other: Array) -> Tensor:
        """Product of two vectors, the first of them conjugated, so that the product of a vector with itself is real."""
    @overload
    def view(self, *size: int | Sequence[int]) -> Tensor:
        """The same memory in another shape, or with its bits read as another element type."""
    @overload
    def view(self, dtype: torch.dtype) -> Tensor:
        """The same memory in another shape, or with its bits read as another element type."""
    @overload
    def view(self, *, size: Sequence[int]) -> Tensor:
        """The same memory in another shape, or with its bits read as another element type."""
    def view_as(self, other: Array) -> Tensor:
        """The same memory in the shape of another tensor."""
    def vsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Equal parts of a tensor along dimension 0, or cut at indices."""
    def where(self, condition: Tensor | torch.Tensor, other: Operand) -> Tensor:
        """Elements of this tensor where the condition holds, of ``other`` elsewhere, in the order of torch's method."""
    def xavier_normal_(self, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Fill the input `Tensor` with values using a Xavier normal distribution."""
    def xavier_uniform_(self, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """Fill the input `Tensor` with values using a Xavier uniform distribution."""
    def xlogy(self, other: Operand) -> Tensor:
        """The input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0."""
    def xlogy_(self, other: Operand) -> Tensor:
        """In place: the input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0."""
    def zero_(self) -> Tensor:
        """Every element becomes 0, in place; the tensor itself is returned."""
    def zeros_(self) -> Tensor:
        """Fill the input Tensor with the scalar value `0`."""
