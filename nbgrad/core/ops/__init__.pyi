"""The functions of the op table. Written by tools/write_functions.py from the op table: change that instead."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import torch

from nbgrad.core.tensor.methods import (
    Array,
    EigenvaluesAndEigenvectors,
    InverseAndInfo,
    LAndInfo,
    LUAndPivots,
    LUAndPivotsAndInfo,
    MantissaAndExponent,
    MinAndMax,
    Number,
    Operand,
    PAndLAndU,
    QAndR,
    ResultAndInfo,
    SignAndLogabsdet,
    SolutionAndResidualsAndRankAndSingularValues,
    StdAndMean,
    UAndSAndVh,
    ValuesAndIndices,
    VarAndMean,
)
from nbgrad.core.tensor.tensor import Tensor

def abs(input: Array) -> Tensor:
    """Absolute value, elementwise.

    L1 losses and L1 regularization (the lasso, Tibshirani 1996) add it up: their pull does not weaken near 0, so
    weights become exactly 0. At 0 the gradient is 0, as torch has it.

    Shapes: output as input.
    """

def abs_(input: Array) -> Tensor:
    """In place: absolute value, elementwise.

    L1 losses and L1 regularization (the lasso, Tibshirani 1996) add it up: their pull does not weaken near 0, so
    weights become exactly 0. At 0 the gradient is 0, as torch has it.

    Shapes: output as input.
    """

def absolute(input: Array) -> Tensor:
    """Absolute value, elementwise.

    L1 losses and L1 regularization (the lasso, Tibshirani 1996) add it up: their pull does not weaken near 0, so
    weights become exactly 0. At 0 the gradient is 0, as torch has it.

    Shapes: output as input.
    """

def acos(input: Array) -> Tensor:
    """The angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the angle between unit vectors, to which ArcFace (Deng et al. 2018, https://arxiv.org/abs/1801.07698)
    adds its margin.

    Shapes: output as input.
    """

def acos_(input: Array) -> Tensor:
    """In place: the angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the angle between unit vectors, to which ArcFace (Deng et al. 2018, https://arxiv.org/abs/1801.07698)
    adds its margin.

    Shapes: output as input.
    """

def acosh(input: Array) -> Tensor:
    """Inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite.

    It gives the distance of two points in hyperbolic space.

    Shapes: output as input.
    """

def acosh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite.

    It gives the distance of two points in hyperbolic space.

    Shapes: output as input.
    """

def adaptive_avg_pool1d(input: Array, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of ``output_size`` windows of a sequence.

    With one window it is global average pooling, which makes a vector of a map of any size before the last layer (Lin
    et al. 2013, https://arxiv.org/abs/1312.4400). Where ``output_size`` is None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), output alike with planes of ``output_size``.
    """

def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of ``output_size`` windows of an image.

    With one window it is global average pooling, which makes a vector of a map of any size before the last layer (Lin
    et al. 2013, https://arxiv.org/abs/1312.4400). Where ``output_size`` is None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), output alike with planes of ``output_size``.
    """

def adaptive_avg_pool3d(input: Array, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of ``output_size`` windows of a volume.

    With one window it is global average pooling, which makes a vector of a map of any size before the last layer (Lin
    et al. 2013, https://arxiv.org/abs/1312.4400). Where ``output_size`` is None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), output alike with planes of ``output_size``.
    """

def adaptive_max_pool1d(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows, with ``return_indices`` also where: see adaptive_max_pool1d_with_indices."""

def adaptive_max_pool1d_with_indices(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows of a sequence, and where, as ``(out, indices)``.

    Inputs of any size become outputs of one size, as a following linear layer needs them. Where ``output_size`` is
    None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with planes of ``output_size``.
    """

def adaptive_max_pool2d(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows, with ``return_indices`` also where: see adaptive_max_pool2d_with_indices."""

def adaptive_max_pool2d_with_indices(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows of an image, and where, as ``(out, indices)``.

    Inputs of any size become outputs of one size, as a following linear layer needs them. Where ``output_size`` is
    None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with planes of ``output_size``.
    """

def adaptive_max_pool3d(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows, with ``return_indices`` also where: see adaptive_max_pool3d_with_indices."""

def adaptive_max_pool3d_with_indices(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows of a volume, and where, as ``(out, indices)``.

    Inputs of any size become outputs of one size, as a following linear layer needs them. Where ``output_size`` is
    None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with planes of ``output_size``.
    """

def add(a: Array, b: Operand, alpha: Number = 1) -> Tensor:
    """Sum of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first.

    It passes its gradient on unchanged to both sides, which is why skip connections (He et al. 2015,
    https://arxiv.org/abs/1512.03385) let gradients reach early layers. Adding a bias is this op: the bias is stretched
    over the batch, so its gradient is summed over the batch.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def addbmm(input: Array, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The sum of the products of two batches of matrices, added to the input, each with a factor.

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """

def addcdiv(input: Array, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
    """A quotient times ``value``, added to the input, elementwise, in one kernel, broadcasting.

    It computes the step of Adam (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980): mean over root of mean square.

    Shapes: input, tensor1 and tensor2 broadcast to the output. Raises RuntimeError where they do not.
    """

def addcmul(input: Array, tensor1: Operand, tensor2: Operand, value: float = 1) -> Tensor:
    """A product times ``value``, added to the input, elementwise, in one kernel, broadcasting.

    Optimizers add up squared gradients with it.

    Shapes: input, tensor1 and tensor2 broadcast to the output. Raises RuntimeError where they do not.
    """

def addmm(input: Array, mat1: Array, mat2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The product of two matrices, added to the input, each with a factor.

    It computes a linear layer with a bias in one kernel.

    Shapes: (n, k) and (k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """

def addmv(input: Array, mat: Array, vec: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The product of a matrix and a vector, added to the input, each with a factor.

    Shapes: (n, k) and (k,), input broadcasts to (n,). Raises RuntimeError where they do not fit.
    """

def addmv_(input: Array, mat: Array, vec: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In place: the product of a matrix and a vector, added to the input, each with a factor.

    Shapes: (n, k) and (k,), input broadcasts to (n,). Raises RuntimeError where they do not fit.
    """

def addr(input: Array, vec1: Array, vec2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The outer product of two vectors, added to the input, each with a factor.

    Quasi-Newton methods make such updates of rank one.

    Shapes: (n,) and (m,), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """

def adjoint(input: Array) -> Tensor:
    """The last two dimensions swapped, and complex numbers conjugated."""

def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where each place of a moved image comes from, with torch's arguments: see the row affine_grid."""

def alias_copy(input: Array) -> Tensor:
    """A copy."""

def all(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def allclose(input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether every number of two tensors is close to its partner, as a Python bool; see isclose.

    Each may also be an array, a number or a list, and their types may differ: they are compared in the wider one.
    nbgrad.testing.assert_close says by how much they differ.

    Raises:
        RuntimeError: the shapes do not broadcast.
        TypeError: one of them holds no numbers.
    """

def alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False, train: bool | None = None
) -> Tensor:
    """Dropout for selu: a dropped number gets the value that selu has far below 0, and mean and variance are kept.

    It belongs to self-normalizing networks (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input. Raises ValueError for a ``p`` that is no probability.
    """

def amax(x: Array, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """The largest element, or the largest along ``dim`` (a number or a tuple of numbers).

    Ties share the gradient evenly, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``. Raises IndexError where a
    reduced dimension is empty.
    """

def amin(input: Array, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """The smallest element, or the smallest along ``dim`` (a number or a tuple of numbers).

    Ties share the gradient evenly, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``. Raises IndexError where a
    reduced dimension is empty.
    """

def aminmax(input: Array, dim: int | None = None, keepdim: bool = False) -> MinAndMax:
    """The smallest and the largest element, of all or along ``dim``, as ``(min, max)``, in one pass.

    Quantization takes its scale from them. Ties share the gradient evenly.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError or RuntimeError where
    there is no element.
    """

def angle(input: Array) -> Tensor:
    """The angle of a complex number, between -pi and pi; of a real one 0 or pi, with no gradient.

    Shapes: output as input, of the real element type.
    """

def any(input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether any element is not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    ``x.isnan().any()`` finds a loss that has blown up.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

@overload
def arange(
    end: Number,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from ``start`` (0) up to ``end``, without it, ``step`` (1) apart; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

@overload
def arange(
    start: Number,
    end: Number,
    step: Number = 1,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from ``start`` (0) up to ``end``, without it, ``step`` (1) apart; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def arccos(input: Array) -> Tensor:
    """The angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the angle between unit vectors, to which ArcFace (Deng et al. 2018, https://arxiv.org/abs/1801.07698)
    adds its margin.

    Shapes: output as input.
    """

def arccos_(input: Array) -> Tensor:
    """In place: the angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the angle between unit vectors, to which ArcFace (Deng et al. 2018, https://arxiv.org/abs/1801.07698)
    adds its margin.

    Shapes: output as input.
    """

def arccosh(input: Array) -> Tensor:
    """Inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite.

    It gives the distance of two points in hyperbolic space.

    Shapes: output as input.
    """

def arccosh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite.

    It gives the distance of two points in hyperbolic space.

    Shapes: output as input.
    """

def arcsin(input: Array) -> Tensor:
    """The angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the latitude of a direction.

    Shapes: output as input.
    """

def arcsin_(input: Array) -> Tensor:
    """In place: the angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the latitude of a direction.

    Shapes: output as input.
    """

def arcsinh(input: Array) -> Tensor:
    """Inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it.

    It tames data with long tails on both sides.

    Shapes: output as input.
    """

def arcsinh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it.

    It tames data with long tails on both sides.

    Shapes: output as input.
    """

def arctan(input: Array) -> Tensor:
    """The angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2).

    It bounds a score as tanh does, with flatter tails.

    Shapes: output as input.
    """

def arctan2(input: Array, other: Operand) -> Tensor:
    """The angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants.

    Heading angles and phases come from it. At the origin its gradient is 0, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def arctan_(input: Array) -> Tensor:
    """In place: the angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2).

    It bounds a score as tanh does, with flatter tails.

    Shapes: output as input.
    """

def arctanh(input: Array) -> Tensor:
    """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    Policies that squash their actions with tanh (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290) invert it so.

    Shapes: output as input.
    """

def arctanh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    Policies that squash their actions with tanh (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290) invert it so.

    Shapes: output as input.
    """

def argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the largest element, or of the largest along ``dim``; it has no gradient.

    The class that a classifier predicts is the argmax of its scores.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """

def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element, or of the smallest along ``dim``; it has no gradient.

    The code that vector quantization chooses is the argmin of the distances (van den Oord et al. 2017,
    https://arxiv.org/abs/1711.00937).

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """

def argsort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the elements along ``dim`` in order; they have no gradient.

    Ranking metrics need them.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def argwhere(input: Array) -> Tensor:
    """The indices of the elements that are not 0, one row each."""

def as_strided(input: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """The memory of a tensor seen with any sizes and strides.

    Raises:
        NotImplementedError: several elements of the tensor itself are one place in memory, and it needs a gradient.
    """

def as_strided_copy(input: Array, size: int, stride: int | Sequence[int], storage_offset: int | None = None) -> Tensor:
    """The result of ``as_strided``, in memory of its own."""

def as_strided_scatter(
    input: Array, src: Array, size: int, stride: int | Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of a tensor with ``src`` in the places that ``as_strided`` would see.

    Raises:
        NotImplementedError: several elements of the tensor itself are one place in memory, and it needs a gradient.
    """

def as_tensor(data: Any, dtype: torch.dtype | None = None, device: torch.device | str | int | None = None) -> Tensor:
    """Data as a tensor without a copy where that can be: a tensor is itself, an array of numpy shares its memory.

    Data of another element type or device is converted to the requested one; gradients flow through this conversion.

    Raises:
        RuntimeError: a CUDA device where there is none.
    """

def asin(input: Array) -> Tensor:
    """The angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the latitude of a direction.

    Shapes: output as input.
    """

def asin_(input: Array) -> Tensor:
    """In place: the angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the latitude of a direction.

    Shapes: output as input.
    """

def asinh(input: Array) -> Tensor:
    """Inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it.

    It tames data with long tails on both sides.

    Shapes: output as input.
    """

def asinh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it.

    It tames data with long tails on both sides.

    Shapes: output as input.
    """

def atan(input: Array) -> Tensor:
    """The angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2).

    It bounds a score as tanh does, with flatter tails.

    Shapes: output as input.
    """

def atan2(input: Array, other: Operand) -> Tensor:
    """The angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants.

    Heading angles and phases come from it. At the origin its gradient is 0, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def atan_(input: Array) -> Tensor:
    """In place: the angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2).

    It bounds a score as tanh does, with flatter tails.

    Shapes: output as input.
    """

def atanh(input: Array) -> Tensor:
    """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    Policies that squash their actions with tanh (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290) invert it so.

    Shapes: output as input.
    """

def atanh_(input: Array) -> Tensor:
    """In place: inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    Policies that squash their actions with tanh (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290) invert it so.

    Shapes: output as input.
    """

def atleast_1d(*tensors: Array | Sequence[Array]) -> Any:
    """Single numbers as vectors of one; other tensors as they are."""

def atleast_2d(*tensors: Array | Sequence[Array]) -> Any:
    """Single numbers and vectors as matrices of one row; other tensors as they are."""

def atleast_3d(*tensors: Array | Sequence[Array]) -> Any:
    """Tensors of fewer than three dimensions with new ones of size 1 around them; other tensors as they are."""

def avg_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of a sequence.

    It shrinks a map: a feature that moves by less than a window still counts. Each place of a window gets the same
    gradient. Windows are ``stride`` apart, by default their own size. Zeros of the padding count, unless
    ``count_include_pad`` is False.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def avg_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of an image.

    It shrinks a map: a feature that moves by less than a window still counts. Each place of a window gets the same
    gradient. Windows are ``stride`` apart, by default their own size. Zeros of the padding count, unless
    ``count_include_pad`` is False. ``divisor_override`` divides in place of the number of places.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def avg_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of a volume.

    It shrinks a map: a feature that moves by less than a window still counts. Each place of a window gets the same
    gradient. Windows are ``stride`` apart, by default their own size. Zeros of the padding count, unless
    ``count_include_pad`` is False. ``divisor_override`` divides in place of the number of places.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def baddbmm(input: Array, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The products of two batches of matrices, pair by pair, added to the input, each with a factor.

    It computes attention scores with a bias for the distance (Press et al. 2022, https://arxiv.org/abs/2108.12409).

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (b, n, m). Raises RuntimeError where they do not fit.
    """

def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Bartlett's window: it rises and falls in straight lines; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float | None = 1e-05,
    cudnn_enabled: bool | None = None,
) -> Tensor:
    """Brings each channel to mean 0 and variance 1, with torch's checks: see the row batch_norm.

    Raises ValueError where training sees one value of each channel, which has no variance, or for an eps that is not
    positive (in evaluation: negative). ``cudnn_enabled`` does not choose the kernel of torch that runs.
    """

def bernoulli(input: Array, p: float | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Draws 1 with the probability in input, or with ``p`` for all elements; otherwise 0.

    It draws masks. No gradient flows through them. A network that learns through a draw needs an estimate of the
    gradient, such as the score function (Williams 1992) or gumbel_softmax.

    Shapes: output as input. Raises RuntimeError for a number that is no probability.
    """

def bilinear(input1: Array, input2: Array, weight: Array, bias: Operand | None = None) -> Tensor:
    """The bilinear layer: every output is a weighted sum of all products of an element of each input, plus a bias.

    Shapes: (..., n), (..., m), weight (out, n, m), bias (out,) give (..., out). Raises RuntimeError where they do not
    fit.
    """

def binary_cross_entropy(input: Array, target: Array, weight: Array | None = None, reduction: str = "mean") -> Tensor:
    """How badly probabilities predict a yes or no: minus the log of the probability of the true answer.

    Scores before their sigmoid are better given to binary_cross_entropy_with_logits, which loses no precision. The
    logarithms count as at least -100.

    Shapes: input and target alike, between 0 and 1; weight broadcasts to them. Output (), or as input with
    ``reduction="none"``. Raises ValueError where input and target differ in shape.
    """

def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None, reduction: str = "mean"
) -> Tensor:
    """How badly scores predict a yes or no: binary cross entropy of their sigmoid, without overflow.

    The loss where each label is a question of its own: several labels at once, or real against generated. Its gradient
    is the probability minus the truth. ``pos_weight`` says how much more a yes counts, where there are few.

    Shapes: input and target alike; weight and pos_weight broadcast to them. Output (), or as input with
    ``reduction="none"``. Raises ValueError where input and target differ in shape.
    """

def bincount(input: Array, weights: Array | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs, or the sum of its weights; it has no gradient."""

def bitwise_and(input: Array, other: Operand) -> Tensor:
    """The bits that are 1 in both whole numbers, elementwise, broadcasting; it has no gradient.

    For bool tensors it is the logical and: masks are joined by &.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def bitwise_left_shift(input: Array, other: Operand) -> Tensor:
    """The bits of whole numbers, moved to the left, elementwise, broadcasting; it has no gradient.

    Small numbers are packed into one with it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def bitwise_not(input: Array) -> Tensor:
    """Every bit of whole numbers turned round, elementwise; it has no gradient.

    For bool tensors it is the logical not: ``~mask``.

    Shapes: output as input. Raises RuntimeError for floating point numbers.
    """

def bitwise_or(input: Array, other: Operand) -> Tensor:
    """The bits that are 1 in at least one of two whole numbers, elementwise, broadcasting; it has no gradient.

    For bool tensors it is the logical or: masks are joined by |.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def bitwise_right_shift(input: Array, other: Operand) -> Tensor:
    """The bits of whole numbers, moved to the right, elementwise, broadcasting; it has no gradient.

    Packed weights are unpacked with it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def bitwise_xor(input: Array, other: Operand) -> Tensor:
    """The bits that are 1 in exactly one of two whole numbers, elementwise, broadcasting; it has no gradient.

    Hashes of positions are mixed with it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window: the sum of three cosines; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def block_diag(*tensors: Array) -> Tensor:
    """A matrix with these matrices along its diagonal and 0 elsewhere."""

def bmm(input: Array, mat2: Array) -> Tensor:
    """Products of two batches of matrices, pair by pair.

    Shapes: (b, n, k) and (b, k, m) give (b, n, m). Raises RuntimeError for anything but batches that fit.
    """

def broadcast_tensors(*tensors: Array | Sequence[Array]) -> tuple[Tensor, ...]:
    """Tensors stretched to the shape that they have in common by broadcasting."""

def broadcast_to(input: Array, size: Sequence[int]) -> Tensor:
    """Dimensions of size 1, and new leading ones, stretched to ``size``."""

def bucketize(input: Array, boundaries: Array, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval between sorted boundaries in which each number lies; it has no gradient.

    Continuous features become categories so, and distances become the buckets of a relative position bias.

    Shapes: boundaries of one dimension, output as input. Raises RuntimeError for other boundaries.
    """

def cartesian_prod(*tensors: Array) -> Tensor:
    """Every choice of one element of each vector: a choice is a row."""

def cat(tensors: Sequence[Array], dim: int = 0) -> Tensor:
    """Tensors put one after the other along ``dim``.

    A skip connection of a U-Net joins the channels of two layers (Ronneberger et al. 2015,
    https://arxiv.org/abs/1505.04597), and generation appends each new key and value to its cache.

    Shapes: alike but for ``dim``, whose sizes add up; a tensor of shape (0,) joins anything. Raises RuntimeError where
    they are not.
    """

def cdist(x1: Array, x2: Operand, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The p-norm of the difference of every vector of x1 from every vector of x2.

    Nearest neighbours and kernels start with it. ``compute_mode`` says when Euclidean distances are computed from
    matrix products: always, never, or for more than 25 vectors. This is fast, but less exact where vectors are close.

    Shapes: x1 (..., P, D) and x2 (..., R, D), output (..., P, R). Raises ValueError for another ``compute_mode`` than
    torch's.
    """

def ceil(input: Array) -> Tensor:
    """The next whole number above, elementwise.

    It counts the batches that a data set fills.

    Shapes: output as input.
    """

def ceil_(input: Array) -> Tensor:
    """In place: the next whole number above, elementwise.

    It counts the batches that a data set fills.

    Shapes: output as input.
    """

def celu(input: Array, alpha: Number = 1.0) -> Tensor:
    """An elu whose slope is 1 on both sides of 0 whatever ``alpha`` is.

    So the gradient has no jump at 0 (Barron 2017, https://arxiv.org/abs/1704.07483).

    Shapes: output as input. Raises RuntimeError where alpha is 0.
    """

def celu_(input: Array, alpha: Number = 1.0) -> Tensor:
    """In place: an elu whose slope is 1 on both sides of 0 whatever ``alpha`` is.

    So the gradient has no jump at 0 (Barron 2017, https://arxiv.org/abs/1704.07483).

    Shapes: output as input. Raises RuntimeError where alpha is 0.
    """

def chain_matmul(*matrices: Array) -> Tensor:
    """The product of several matrices in the order that takes the fewest multiplications."""

def channel_shuffle(input: Array, groups: int) -> Tensor:
    """The channels of the ``groups`` interleaved: the first channel of each group, then the second of each, and so on.

    Between two grouped convolutions it lets groups see each other (Zhang et al. 2017, https://arxiv.org/abs/1707.01083).

    Shapes: output as input (N, C, ...). Raises RuntimeError where ``groups`` does not divide C.
    """

def cholesky(input: Array, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices."""

def cholesky_inverse(input: Array, upper: bool = False) -> Tensor:
    """The inverse of the matrix that has this Cholesky factor.

    Shapes: (..., n, n) gives the same. Raises RuntimeError where the matrices are not square.
    """

def cholesky_solve(B: Array, L: Operand, upper: bool = False) -> Tensor:
    """The solution of a system whose matrix has this Cholesky factor.

    Shapes: B (..., n, k), L (..., n, n), the batches broadcasting. Raises RuntimeError where they do not fit.
    """

def chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of a tensor along ``dim``, of one size but for the last."""

def clamp(input: Array, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between the
    bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max. Exactly at
    a bound it goes to the input, as in torch. From torch 2.14 on the input gets half of it if the bound is a tensor,
    and nothing if the bound is a number.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """

def clamp_(input: Array, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """In place: each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between the
    bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max. Exactly at
    a bound it goes to the input, as in torch. From torch 2.14 on the input gets half of it if the bound is a tensor,
    and nothing if the bound is a number.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """

def clamp_max(input: Array, max: Operand) -> Tensor:
    """Each element moved down to ``max``, a number or a tensor that broadcasts.

    Importance weights are cut off with it. At the bound the gradient goes to the input, as in torch. From torch 2.14 on
    the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and max broadcast to the output. Raises RuntimeError where they do not.
    """

def clamp_max_(input: Array, max: Operand) -> Tensor:
    """In place: each element moved down to ``max``, a number or a tensor that broadcasts.

    Importance weights are cut off with it. At the bound the gradient goes to the input, as in torch. From torch 2.14 on
    the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and max broadcast to the output. Raises RuntimeError where they do not.
    """

def clamp_min(input: Array, min: Operand) -> Tensor:
    """Each element moved up to ``min``, a number or a tensor that broadcasts.

    It keeps a norm away from 0 before a division by it. At the bound the gradient goes to the input, as in torch. From
    torch 2.14 on the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and min broadcast to the output. Raises RuntimeError where they do not.
    """

def clamp_min_(input: Array, min: Operand) -> Tensor:
    """In place: each element moved up to ``min``, a number or a tensor that broadcasts.

    It keeps a norm away from 0 before a division by it. At the bound the gradient goes to the input, as in torch. From
    torch 2.14 on the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and min broadcast to the output. Raises RuntimeError where they do not.
    """

def clip(input: Array, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between the
    bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max. Exactly at
    a bound it goes to the input, as in torch. From torch 2.14 on the input gets half of it if the bound is a tensor,
    and nothing if the bound is a number.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """

def clip_(input: Array, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """In place: each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between the
    bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max. Exactly at
    a bound it goes to the input, as in torch. From torch 2.14 on the input gets half of it if the bound is a tensor,
    and nothing if the bound is a number.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """

def clone(x: Array, memory_format: torch.memory_format = ...) -> Tensor:
    """A copy in memory of its own; gradients pass through it.

    Shapes: output as x.
    """

def column_stack(tensors: Sequence[Array]) -> Tensor:
    """Vectors as the columns of a matrix; tensors of more dimensions side by side."""

def combinations(input: Array, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of ``r`` elements of a vector, in its order: a choice is a row."""

def complex(real: Array, imag: Operand) -> Tensor:
    """The complex number with these two parts.

    Shapes: both broadcast to the output. Raises RuntimeError where the parts have different or no real element types.
    """

def concat(tensors: Sequence[Array], dim: int = 0) -> Tensor:
    """Tensors put one after the other along ``dim``.

    A skip connection of a U-Net joins the channels of two layers (Ronneberger et al. 2015,
    https://arxiv.org/abs/1505.04597), and generation appends each new key and value to its cache.

    Shapes: alike but for ``dim``, whose sizes add up; a tensor of shape (0,) joins anything. Raises RuntimeError where
    they are not.
    """

def concatenate(tensors: Sequence[Array], dim: int = 0) -> Tensor:
    """Tensors put one after the other along ``dim``.

    A skip connection of a U-Net joins the channels of two layers (Ronneberger et al. 2015,
    https://arxiv.org/abs/1505.04597), and generation appends each new key and value to its cache.

    Shapes: alike but for ``dim``, whose sizes add up; a tensor of shape (0,) joins anything. Raises RuntimeError where
    they are not.
    """

def conj(input: Array) -> Tensor:
    """The complex conjugate: the imaginary part with the other sign. A real tensor is as it was.

    Shapes: output as input.
    """

def conj_physical(input: Array) -> Tensor:
    """The complex conjugate, computed: ``conj`` only marks the tensor to be read so.

    Shapes: output as input.
    """

def conj_physical_(input: Array) -> Tensor:
    """In place: the complex conjugate, computed: ``conj`` only marks the tensor to be read so.

    Shapes: output as input.
    """

def constant_pad_nd(input: Array, pad: Sequence[int], value: Number = 0) -> Tensor:
    """A border of one value around the last dimensions; a negative width cuts off.

    Sequences of a batch are brought to one length with it, and convolutions keep the size of an image.

    Shapes: ``pad`` has the widths before and after, the last dimension first. Raises RuntimeError where more would be
    cut off than there is.
    """

def contiguous(input: Array, memory_format: torch.memory_format = ...) -> Tensor:
    """The tensor laid out in memory in the order of its elements: itself if it is, a copy otherwise."""

def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """A kernel slides over 1 dimension of the input and weighs what it sees.

    Every position is seen by the same weights, so a feature is found wherever it stands, in sound as in text.

    Shapes: input (N, C_in, L) or without N, weight (C_out, C_in / groups, l), bias (C_out,); output
    (N, C_out, L) with other sizes. Raises RuntimeError where they do not fit.
    """

def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """A kernel slides over 2 dimensions of the input and weighs what it sees.

    Every place of an image is seen by the same weights, so a feature is found anywhere (LeCun et al. 1989).

    Shapes: input (N, C_in, H, W) or without N, weight (C_out, C_in / groups, h, w), bias (C_out,); output
    (N, C_out, H, W) with other sizes. Raises RuntimeError where they do not fit.
    """

def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """A kernel slides over 3 dimensions of the input and weighs what it sees.

    Videos and volumes, as of computed tomography, are seen by the same weights at every place.

    Shapes: input (N, C_in, D, H, W) or without N, weight (C_out, C_in / groups, d, h, w), bias (C_out,); output
    (N, C_out, D, H, W) with other sizes. Raises RuntimeError where they do not fit.
    """

def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution: it maps the gradient of conv1d's output to that of its input.

    Generators and decoders make large maps of small ones: each number lays down a copy of the kernel.

    Shapes: input (N, C_in, L) or without N, weight (C_in, C_out / groups, l), bias (C_out,); output
    (N, C_out, L) with other sizes. Raises RuntimeError where they do not fit.
    """

def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution: it maps the gradient of conv2d's output to that of its input.

    Generators and decoders make large maps of small ones: each number lays down a copy of the kernel.

    Shapes: input (N, C_in, H, W) or without N, weight (C_in, C_out / groups, h, w), bias (C_out,); output
    (N, C_out, H, W) with other sizes. Raises RuntimeError where they do not fit.
    """

def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution: it maps the gradient of conv3d's output to that of its input.

    Generators and decoders make large maps of small ones: each number lays down a copy of the kernel.

    Shapes: input (N, C_in, D, H, W) or without N, weight (C_in, C_out / groups, d, h, w), bias (C_out,); output
    (N, C_out, D, H, W) with other sizes. Raises RuntimeError where they do not fit.
    """

def copysign(input: Array, other: Operand) -> Tensor:
    """The size of the input with the sign of the other, elementwise, broadcasting; the sign of -0.0 counts.

    It gives a computed size its direction back. At 0 the gradient of the input is 0, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def corrcoef(input: Array) -> Tensor:
    """The correlations of variables, whose observations are the columns."""

def cos(input: Array) -> Tensor:
    """Cosine of angles in radians, elementwise.

    Cosine schedules of the learning rate use it, and rotary positions (Su et al. 2021,
    https://arxiv.org/abs/2104.09864).

    Shapes: output as input.
    """

def cos_(input: Array) -> Tensor:
    """In place: cosine of angles in radians, elementwise.

    Cosine schedules of the learning rate use it, and rotary positions (Su et al. 2021,
    https://arxiv.org/abs/2104.09864).

    Shapes: output as input.
    """

def cosh(input: Array) -> Tensor:
    """Hyperbolic cosine, elementwise.

    The log-cosh loss is smooth at 0 and grows like an absolute value.

    Shapes: output as input.
    """

def cosh_(input: Array) -> Tensor:
    """In place: hyperbolic cosine, elementwise.

    The log-cosh loss is smooth at 0 and grows like an absolute value.

    Shapes: output as input.
    """

def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 minus the cosine of two vectors where the target is 1, max(0, cosine - margin) where the target is -1.

    Embeddings of sentences and faces are compared by angle.

    Shapes: inputs (D,) with target (), or (N, D) with (N,); output (), or as target with ``reduction="none"``. Raises
    RuntimeError for others.
    """

def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float | None = 1e-08) -> Tensor:
    """The cosine of the angle between two vectors along ``dim``: 1 for one direction, 0 for a right angle.

    Contrastive learning compares embeddings with it, as SimCLR (Chen et al. 2020, https://arxiv.org/abs/2002.05709).
    Lengths count as at least ``eps``.

    Shapes: x1 and x2 broadcast; output without the dimension ``dim``.
    """

def count_nonzero(input: Array, dim: int | Sequence[int] | None = None) -> Tensor:
    """How many elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    It measures sparsity: how many units of a layer are dead, how many weights a pruning has left.

    Shapes: output without the reduced dimensions.
    """

def cov(
    input: Array, *, correction: float | None = 1, fweights: Array | None = None, aweights: Array | None = None
) -> Tensor:
    """The covariances of variables, whose observations are the columns.

    Args:
        input: variables x observations, or the observations of one.
        correction: the number subtracted from the number of observations.
        fweights: how often each observation occurs.
        aweights: how much each one counts.
    """

def cross(input: Array, other: Array, dim: int | None = None) -> Tensor:
    """The vector product along ``dim``, or along the first dimension of size 3."""

def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """How badly scores predict classes: minus the log of the probability that softmax gives the right one.

    The loss of classification and of language models. Its gradient is as simple as can be: the probabilities minus the
    truth. ``label_smoothing`` spreads a part of the target over all classes (Szegedy et al. 2015,
    https://arxiv.org/abs/1512.00567).

    Shapes: input (C,), (N, C) or (N, C, d1, ...) scores; target class numbers of that shape without C, or probabilities
    of that shape; weight (C,). Output (), or as the class numbers with ``reduction="none"``. Raises IndexError for a
    class number out of range. Warns where there is one class, whose loss is always 0.
    """

def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-likelihood of label sequences, over all ways to spread them in time (Graves et al. 2006).

    Speech and handwriting are transcribed with it. Between labels the network may say ``blank``. The mean is over the
    losses divided by their target lengths. ``zero_infinity`` makes 0 of the infinite loss, and of its gradient, where a
    target does not fit into its input. It can be differentiated once, as torch's.

    Shapes: log_probs (T, C) or (T, N, C); targets (N, S) or all in one row; lengths () or (N,), tensors or tuples.
    Output (), or (N,) with ``reduction="none"``. Raises RuntimeError where the lengths do not fit.
    """

def cummax(input: Array, dim: int) -> ValuesAndIndices:
    """The largest element so far along ``dim``, and its index, as ``(values, indices)``.

    Ties choose the latest one, as torch has it; the gradient goes to the elements chosen.

    Shapes: both outputs as input. Raises IndexError where input has no dimension ``dim``.
    """

def cummin(input: Array, dim: int) -> ValuesAndIndices:
    """The smallest element so far along ``dim``, and its index, as ``(values, indices)``.

    Ties choose the latest one, as torch has it; the gradient goes to the elements chosen.

    Shapes: both outputs as input. Raises IndexError where input has no dimension ``dim``.
    """

def cumprod(input: Array, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The running product along ``dim``.

    In volume rendering it gives the light that is left after each sample of a ray (Mildenhall et al. 2020,
    https://arxiv.org/abs/2003.08934); in diffusion, the signal that is left after each step.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def cumsum(input: Array, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The running sum along ``dim``.

    It turns step lengths into positions, and probabilities into a distribution function. Its gradient is a running
    sum from the end.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def cumulative_trapezoid(y: Array, x: Array | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area under y along ``dim`` up to each place but the first, by the trapezoidal rule.

    Raises RuntimeError where both x and ``dx`` are given.
    """

def deg2rad(input: Array) -> Tensor:
    """Degrees as radians, elementwise.

    Rotations that augment images are given in degrees and computed in radians.

    Shapes: output as input.
    """

def deg2rad_(input: Array) -> Tensor:
    """In place: degrees as radians, elementwise.

    Rotations that augment images are given in degrees and computed in radians.

    Shapes: output as input.
    """

def det(A: Array) -> Tensor:
    """The determinant of square matrices: the factor by which they change volumes.

    Its gradient is the matrix of cofactors: where the matrix is invertible, the determinant times the
    transposed inverse.

    Shapes: (..., n, n) gives (...). Raises RuntimeError where the matrices are not square.
    """

def diag(input: Array, diagonal: int = 0) -> Tensor:
    """A matrix with the vector as its diagonal; of a matrix its diagonal.

    Raises:
        RuntimeError: the tensor is neither.
    """

def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as the diagonal of matrices of zeros.

    A covariance matrix without correlations has this form.

    Shapes: (..., n) gives (..., n, n), the two at ``dim1`` and ``dim2``, larger by the size of ``offset``.
    """

def diagflat(input: Array, offset: int = 0) -> Tensor:
    """A matrix with all elements of the tensor, in their order, as its diagonal."""

def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of the matrices that two dimensions make, in the same memory; ``offset`` counts upwards from it.

    Shapes: output without ``dim1`` and ``dim2``, the diagonal as the last dimension. Raises IndexError where input
    lacks them.
    """

def diagonal_copy(input: Array, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The result of ``diagonal``, in memory of its own."""

def diagonal_scatter(input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Input with a diagonal of its dimensions ``dim1`` and ``dim2`` replaced.

    Shapes: src as that diagonal, output as input. Raises RuntimeError where it is not.
    """

def diff(input: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> Tensor:
    """Differences of neighbours along ``dim``, taken n times; first, ``prepend`` and ``append`` are joined to input.

    Smoothness penalties are sums of squared differences.

    Raises RuntimeError where input is a single number, or n negative.
    """

def digamma(input: Array) -> Tensor:
    """The derivative of the logarithm of the gamma function, elementwise.

    The expected logarithm of a Gamma or Dirichlet variable is made of it.

    Shapes: output as input.
    """

def dist(input: Array, other: Array, p: float = 2) -> Tensor:
    """The norm of order p of the difference, all elements as one vector.

    Shapes: input and other broadcast, output is a single number. Raises RuntimeError where they do not.
    """

def div(a: Array, b: Operand, rounding_mode: str | None = None) -> Tensor:
    """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers.

    Normalization divides by a standard deviation, a mean by a count. The gradient of b grows as b goes to 0. With
    ``rounding_mode`` "floor" or "trunc" the quotient is rounded, and the gradients are 0.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not, or for another mode.
    """

def divide(a: Array, b: Operand, rounding_mode: str | None = None) -> Tensor:
    """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers.

    Normalization divides by a standard deviation, a mean by a count. The gradient of b grows as b goes to 0. With
    ``rounding_mode`` "floor" or "trunc" the quotient is rounded, and the gradients are 0.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not, or for another mode.
    """

def dot(input: Array, tensor: Array) -> Tensor:
    """Product of two vectors: the sum of the products of their elements.

    Shapes: both (n,), output a single number. Raises RuntimeError for anything else.
    """

def dropout(
    input: Array, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool | None = None
) -> Tensor:
    """Switches each number off with probability ``p`` and makes the others larger by 1 / (1 - p): see the row dropout.

    The same seed drops the same numbers as in torch. Outside training it returns its input.

    Shapes: output as input. Raises ValueError for a ``p`` that is no probability.
    """

def dropout1d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Switches whole channels of sequences off: see feature_dropout.

    Shapes: input (N, C, L) or (C, L), output as input.
    """

def dropout2d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Switches whole channels of images off: see feature_dropout.

    Shapes: input (N, C, H, W), output as input. Any other of two dimensions or more is (N, C, ...) too, with torch's
    warning. Raises RuntimeError for fewer.
    """

def dropout3d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Switches whole channels of volumes off: see feature_dropout.

    Shapes: input (N, C, D, H, W) or (C, D, H, W), output as input. Any other is (C, ...) too, with torch's warning.
    """

def dropout_(input: Array, noise: Array) -> Tensor:
    """In place: the input times noise drawn before, which is 0 where a number is dropped and makes up for it elsewhere.

    Without knowing which units will be there, a layer learns to rely on none (Srivastava et al. 2014). A dropped number
    gets no gradient.

    Shapes: noise broadcasts to input, output as input.
    """

def dsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts of a tensor along dimension 2, or cut at indices."""

def dstack(tensors: Sequence[Array]) -> Tensor:
    """Tensors put behind each other, along the third dimension."""

def einsum(equation: str | Sequence[str], *operands: Array) -> Tensor:
    """Products of tensors, summed over the indices that the result does not have.

    Args:
        equation: the indices of each operand and of the result, ``"ij,jk->ik"``; or the first operand, after which
            come its indices as a list of numbers, the next operand and its indices, and so on, and last those of the
            result.
        operands: the tensors, or one list of them.
    """

def elu(input: Array, alpha: Number = 1.0) -> Tensor:
    """The exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``.

    Negative outputs bring the mean of a layer near 0, which speeds up learning (Clevert et al. 2015,
    https://arxiv.org/abs/1511.07289).

    Shapes: output as input.
    """

def elu_(input: Array, alpha: Number = 1.0) -> Tensor:
    """In place: the exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``.

    Negative outputs bring the mean of a layer near 0, which speeds up learning (Clevert et al. 2015,
    https://arxiv.org/abs/1511.07289).

    Shapes: output as input.
    """

def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of a weight at the numbers given, with torch's arguments: see the row embedding.

    With ``max_norm`` the rows that are looked up are first shortened to that norm, in place and without a gradient.
    Raises NotImplementedError for ``sparse=True``: gradients of nbgrad are dense.
    """

def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of rows for each bag, with torch's arguments: see the row embedding_bag.

    A matrix of numbers is one bag in each row, without ``offsets``. Raises NotImplementedError for ``sparse=True`` and
    for ``per_sample_weights`` in another mode than "sum", ValueError if ``offsets`` are missing for a vector of
    numbers, or given for a matrix.
    """

def empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Tensor:
    """A tensor of a shape with whatever is in its memory; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def empty_like(
    input: Array,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """A tensor with whatever is in its memory, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape laid out in that order of dimensions, unfilled; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape with the strides given and whatever is in its memory; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def eq(a: Array, b: Operand) -> Tensor:
    """Whether a == b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def equal(input: Array, other: Array) -> bool:
    """Whether two tensors have the same shape and the same numbers, as a Python bool; NaN equals nothing."""

def erf(input: Array) -> Tensor:
    """The error function, elementwise: twice the area under a bell curve from 0.

    The GELU activation (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415) weighs its input by it.

    Shapes: output as input.
    """

def erf_(input: Array) -> Tensor:
    """In place: the error function, elementwise: twice the area under a bell curve from 0.

    The GELU activation (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415) weighs its input by it.

    Shapes: output as input.
    """

def erfc(input: Array) -> Tensor:
    """One minus the error function, elementwise, exact also where that is nearly 0.

    It gives the tails of a normal distribution.

    Shapes: output as input.
    """

def erfc_(input: Array) -> Tensor:
    """In place: one minus the error function, elementwise, exact also where that is nearly 0.

    It gives the tails of a normal distribution.

    Shapes: output as input.
    """

def erfinv(input: Array) -> Tensor:
    """The number whose error function each element is; infinite at -1 and 1, NaN beyond.

    It turns uniform random numbers into normal ones, through which gradients flow.

    Shapes: output as input.
    """

def exp(x: Array) -> Tensor:
    """The exponential function, elementwise.

    Softmax turns scores into positive numbers with it. It is its own derivative, so large values have large gradients.

    Shapes: output as x.
    """

def exp2(input: Array) -> Tensor:
    """Two to the power of each element.

    Hardware computes it faster than the exponential of base e, so fast attention kernels use it.

    Shapes: output as input.
    """

def exp2_(input: Array) -> Tensor:
    """In place: two to the power of each element.

    Hardware computes it faster than the exponential of base e, so fast attention kernels use it.

    Shapes: output as input.
    """

def exp_(x: Array) -> Tensor:
    """In place: the exponential function, elementwise.

    Softmax turns scores into positive numbers with it. It is its own derivative, so large values have large gradients.

    Shapes: output as x.
    """

def expand(x: Array, size: Sequence[int]) -> Tensor:
    """Dimensions of size 1, and new leading ones, stretched without copying; -1 keeps a size.

    Broadcasting does this silently; its gradient sums over the stretched dimensions.

    Shapes: output as ``size``. Raises RuntimeError where a dimension that is not 1 would change.
    """

def expand_as(input: Array, other: Array) -> Tensor:
    """Dimensions of size 1, and new leading ones, stretched to the shape of another tensor."""

def expand_copy(x: Array, *, size: int) -> Tensor:
    """The result of ``expand``, in memory of its own."""

def expm1(input: Array) -> Tensor:
    """The exponential minus 1, elementwise, exact also near 0.

    The ELU activation (Clevert et al. 2015, https://arxiv.org/abs/1511.07289) uses it for negative numbers.

    Shapes: output as input.
    """

def expm1_(input: Array) -> Tensor:
    """In place: the exponential minus 1, elementwise, exact also near 0.

    The ELU activation (Clevert et al. 2015, https://arxiv.org/abs/1511.07289) uses it for negative numbers.

    Shapes: output as input.
    """

def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on its diagonal and zeros elsewhere; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def feature_alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False, train: bool | None = None
) -> Tensor:
    """alpha_dropout of whole channels.

    Shapes: input (N, C, ...), output as input. Raises ValueError for a ``p`` that is no probability.
    """

def feature_dropout(input: Array, p: float = 0.5, train: bool | None = True) -> Tensor:
    """Switches whole channels off: neighbours in a channel are alike, so dropping single numbers has little effect.

    Shapes: input (N, C, ...), output as input. Raises ValueError for a ``p`` that is no probability.
    """

def fft_fft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """How much of each frequency a signal has, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_fft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """How much of each frequency a signal has, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies that the results of fft stand for; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def fft_fftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """How much of each frequency a signal has, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_fftshift(input: Array, dim: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 moved from the beginning to the middle, along all dimensions or ``dim``.

    Shapes: output as input.
    """

def fft_hfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """The frequencies, which are real, of a signal given by half of it, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_hfft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The frequencies, which are real, of a signal given by half of it, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_hfftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The frequencies, which are real, of a signal given by half of it, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_ifft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """The signal that has these frequencies, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_ifft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The signal that has these frequencies, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_ifftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The signal that has these frequencies, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output complex, with the sizes asked for. Raises NotImplementedError for ``out``.
    """

def fft_ifftshift(input: Array, dim: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 moved from the middle back to the beginning: fftshift undone.

    Shapes: output as input.
    """

def fft_ihfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """Half of the signal that has these real frequencies, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fft_ihfft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """Half of the signal that has these real frequencies, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fft_ihfftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """Half of the signal that has these real frequencies, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fft_irfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """The real signal that has this half of frequencies, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_irfft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The real signal that has this half of frequencies, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_irfftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """The real signal that has this half of frequencies, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: output real, with 2 (m - 1) along the last dimension if no size is given. Raises NotImplementedError for ``out``.
    """

def fft_rfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None, out: None = None) -> Tensor:
    """How much of each frequency a real signal has, those above the middle left out, along one dimension.

    The signal is first cut or filled up with zeros to ``n`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fft_rfft2(
    input: Array,
    s: Sequence[int] | None = None,
    dim: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """How much of each frequency a real signal has, those above the middle left out, along two dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fft_rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies that the results of rfft stand for; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def fft_rfftn(
    input: Array,
    s: Sequence[int] | None = None,
    dim: int | Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Tensor:
    """How much of each frequency a real signal has, those above the middle left out, along some dimensions.

    The signal is first cut or filled up with zeros to ``s`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: input real, output complex with n // 2 + 1 along the last dimension. Raises NotImplementedError for ``out``.
    """

def fill(input: Array, value: Operand) -> Tensor:
    """A tensor like the input, every element of which is the value.

    ``x.fill_(0)`` clears a buffer. The old values get the gradient 0.

    Shapes: value is a number or a tensor without dimensions, output as input. Raises RuntimeError for another value.
    """

def fill_(input: Array, value: Operand) -> Tensor:
    """In place: a tensor like the input, every element of which is the value.

    ``x.fill_(0)`` clears a buffer. The old values get the gradient 0.

    Shapes: value is a number or a tensor without dimensions, output as input. Raises RuntimeError for another value.
    """

def fix(input: Array) -> Tensor:
    """The whole part, elementwise: rounded towards 0.

    A conversion to an integer does the same.

    Shapes: output as input.
    """

def fix_(input: Array) -> Tensor:
    """In place: the whole part, elementwise: rounded towards 0.

    A conversion to an integer does the same.

    Shapes: output as input.
    """

def flatten(input: Array, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` as one; a single number becomes a vector of one.

    It stands between the convolutions and the linear layers of a classifier.
    """

def flip(input: Array, dims: Sequence[int]) -> Tensor:
    """The elements along these dimensions in reverse order.

    Mirrored images are the commonest augmentation, and a bidirectional network reads its sequence in reverse.

    Shapes: output as input. Raises IndexError where input lacks a dimension.
    """

def fliplr(input: Array) -> Tensor:
    """Columns in reverse order."""

def flipud(input: Array) -> Tensor:
    """Rows in reverse order."""

def float_power(input: Array, exponent: Operand) -> Tensor:
    """The power, elementwise, broadcasting, computed in float64 or complex128 whatever the inputs are.

    It is for sums of many powers, where float32 would lose digits.
    """

def floor(input: Array) -> Tensor:
    """The next whole number below, elementwise.

    It makes the index of a bin from a number.

    Shapes: output as input.
    """

def floor_(input: Array) -> Tensor:
    """In place: the next whole number below, elementwise.

    It makes the index of a bin from a number.

    Shapes: output as input.
    """

def floor_divide(input: Array, other: Operand) -> Tensor:
    """Quotient rounded down, elementwise, broadcasting; integers stay integers. It has no gradient.

    It turns a flat index into a row number. Use ``div(rounding_mode="floor")`` for a result with the gradient 0.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for an integer by 0.
    """

def fmax(input: Array, other: Operand) -> Tensor:
    """The larger of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a maximum over data with gaps. At a tie the gradient goes to the input, and from torch 2.14
    on half of it to each, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def fmin(input: Array, other: Operand) -> Tensor:
    """The smaller of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a minimum over data with gaps. At a tie the gradient goes to the input, and from torch 2.14
    on half of it to each, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def fmod(input: Array, other: Operand) -> Tensor:
    """The remainder of a division rounded towards 0, with the sign of the dividend, as C's ``fmod``; broadcasting.

    It is the remainder that C libraries and many file formats mean.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def fold(
    input: Array,
    output_size: int | Sequence[int | None] | None,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Columns added up in the windows of an image, with torch's arguments: see the row col_to_img."""

def frac(input: Array) -> Tensor:
    """The fractional part of each element, with the sign of the element.

    Positions within a period come from it; between its steps its slope is 1.

    Shapes: output as input.
    """

def frac_(input: Array) -> Tensor:
    """In place: the fractional part of each element, with the sign of the element.

    Positions within a period come from it; between its steps its slope is 1.

    Shapes: output as input.
    """

def fractional_max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int | None] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Array | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each window at random places, with ``return_indices`` also where: see fractional_max_pool2d_with_indices."""

def fractional_max_pool2d_with_indices(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int | None] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = True,
    _random_samples: Array | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows of an image at random places, and where it is.

    Windows overlap irregularly, so a map shrinks by any factor (Graham 2014, https://arxiv.org/abs/1412.6071).

    Shapes: input (N, C, ...) or (C, ...), random_samples (N, C, 2) from 0 to 1, both outputs as input with planes
    of ``output_size``.
    """

def fractional_max_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int | None] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Array | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each window at random places, with ``return_indices`` also where: see fractional_max_pool3d_with_indices."""

def fractional_max_pool3d_with_indices(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int | None] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = True,
    _random_samples: Array | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest of each of ``output_size`` windows of a volume at random places, and where it is.

    Windows overlap irregularly, so a map shrinks by any factor (Graham 2014, https://arxiv.org/abs/1412.6071).

    Shapes: input (N, C, ...) or (C, ...), random_samples (N, C, 3) from 0 to 1, both outputs as input with planes
    of ``output_size``.
    """

def frexp(x: Array) -> MantissaAndExponent:
    """Each number as a mantissa, whose size is between 1/2 and 1, and the exponent of a power of 2.

    It helps to round numbers to fewer bits. The gradient of the mantissa treats the exponent as a constant.

    Shapes: both outputs as x, the exponent int32.
    """

def full(
    size: Sequence[int],
    fill_value: Number | Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape filled with one value; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def full_like(
    input: Array,
    fill_value: Number | Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """A tensor filled with one value, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Tensor:
    """Along ``dim``, the elements at the numbers in ``index``, in torch's order of arguments."""

def gaussian_nll_loss(
    input: Array, target: Array, var: Array, full: bool = False, eps: float | None = 1e-06, reduction: str = "mean"
) -> Tensor:
    """Minus the log-likelihood of targets under normal distributions with the predicted means and variances.

    A network that predicts its own uncertainty learns with it (Nix and Weigend 1994). Variances count as at least
    ``eps``, with the gradient as if they were not changed; ``full`` adds the constant.

    Shapes: input and target broadcast; var a number, as input, as input without its last dimension, or with size 1 in
    one dimension. Output (), or the broadcast shape with ``reduction="none"``. Raises ValueError for another shape of
    var and for a negative variance.
    """

def gcd(input: Array, other: Operand) -> Tensor:
    """The greatest common divisor of whole numbers, elementwise, broadcasting; it has no gradient.

    Two strides have a common position only if it divides the distance of their starts.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def gcd_(input: Array, other: Operand) -> Tensor:
    """In place: the greatest common divisor of whole numbers, elementwise, broadcasting; it has no gradient.

    Two strides have a common position only if it divides the distance of their starts.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def ge(a: Array, b: Operand) -> Tensor:
    """Whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def gelu(input: Array, approximate: str = "none") -> Tensor:
    """The input times the probability that a standard normal number is below the input, elementwise.

    The activation of BERT, GPT and the vision transformer (Hendrycks and Gimpel 2016,
    https://arxiv.org/abs/1606.08415). ``approximate="tanh"`` is the cheaper formula of GPT-2,
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Shapes: output as input. Raises RuntimeError for another ``approximate`` than "none" and "tanh".
    """

def ger(input: Array, vec2: Array) -> Tensor:
    """The products of each element of one vector with each of the other, as a matrix."""

def glu(input: Array, dim: int = -1) -> Tensor:
    """Splits the input along ``dim`` into halves a and b, and lets the logistic function of b gate a.

    Gated linear units (Dauphin et al. 2016, https://arxiv.org/abs/1612.08083) let gradients pass through a without
    being squeezed.

    Shapes: output as input with half the size at ``dim``. Raises RuntimeError where that size is odd or input is a
    single number.
    """

def gradient(
    input: Array,
    *,
    spacing: float | Sequence[float | Array] | None = None,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> list[Tensor]:
    """The slope along each of ``dim``, by differences of the neighbours on both sides, or on one side at the ends.

    Physics-informed losses compare the slopes of a field with the prediction of a model.

    Args:
        input: a function on a grid.
        spacing: the distance of its places: one number for all dimensions, one for each, or the coordinates of each;
            default: 1.
        dim: a dimension, several, or None for all.
        edge_order: 1 or 2: the order of the differences at the ends.

    Returns the list of slopes, each of the shape of input. Raises RuntimeError where a dimension has fewer than
    ``edge_order`` + 1 places, or ``spacing`` does not have one entry for each dimension.
    """

def greater(a: Array, b: Operand) -> Tensor:
    """Whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def greater_equal(a: Array, b: Operand) -> Tensor:
    """Whether a >= b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def grid_sample(
    input: Array, grid: Array, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """An image read at the places of a grid, with torch's arguments: see the row grid_sampler.

    Raises ValueError for an unknown mode.
    """

def grid_sampler(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool | None
) -> Tensor:
    """An image read at the places of a grid, each number a weighted sum of those around its place.

    Spatial transformers turn and stretch images so, and learn how from the gradient of the grid (Jaderberg et al. 2015,
    https://arxiv.org/abs/1506.02025); optical flow is fitted so too.

    Shapes: input (N, C, H, W), grid (N, h, w, 2) with x before y, from -1 to 1, output (N, C, h, w); or the same with
    one dimension more. The modes are torch's numbers. For interpolation: bilinear 0, nearest 1, bicubic 2. For places
    outside: zeros 0, the place at the border 1, reflected at the border 2. Raises RuntimeError for other shapes.
    """

def grid_sampler_2d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool | None
) -> Tensor:
    """An image read at the places of a grid, each number a weighted sum of those around its place.

    Spatial transformers turn and stretch images so, and learn how from the gradient of the grid (Jaderberg et al. 2015,
    https://arxiv.org/abs/1506.02025); optical flow is fitted so too.

    Shapes: input (N, C, H, W), grid (N, h, w, 2) with x before y, from -1 to 1, output (N, C, h, w); or the same with
    one dimension more. The modes are torch's numbers. For interpolation: bilinear 0, nearest 1, bicubic 2. For places
    outside: zeros 0, the place at the border 1, reflected at the border 2. Raises RuntimeError for other shapes.
    """

def grid_sampler_3d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool | None
) -> Tensor:
    """An image read at the places of a grid, each number a weighted sum of those around its place.

    Spatial transformers turn and stretch images so, and learn how from the gradient of the grid (Jaderberg et al. 2015,
    https://arxiv.org/abs/1506.02025); optical flow is fitted so too.

    Shapes: input (N, C, H, W), grid (N, h, w, 2) with x before y, from -1 to 1, output (N, C, h, w); or the same with
    one dimension more. The modes are torch's numbers. For interpolation: bilinear 0, nearest 1, bicubic 2. For places
    outside: zeros 0, the place at the border 1, reflected at the border 2. Raises RuntimeError for other shapes.
    """

def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float | None = 1e-05
) -> Tensor:
    """Brings groups of channels to mean 0 and variance 1, with torch's order of arguments: see the row group_norm."""

def grouped_mm(
    mat_a: Array,
    mat_b: Array,
    offs: Array | None = None,
    bias: Array | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """One matrix product for each group.

    Shapes, with G groups that end at ``offs`` (G,) along the dimension in parentheses:

    - (M) x K and G x K x N: M x N, each expert on its rows;
    - G x M x K and K x (N): M x N;
    - M x (K) and (K) x N: G x M x N, as in the gradient of the weights in the first case;
    - G x M x K and G x K x N, without ``offs``: G x M x N.

    The part of the result behind the last group is zero.

    Raises:
        NotImplementedError: with ``bias``, which torch does not have either, or another ``out_dtype``.
        RuntimeError: ``offs`` is missing or not wanted.
    """

def gru(
    input: Array,
    hx: Array,
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool | None = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """A recurrent network over a sequence, layer on layer, in one direction or both: see gru_layer.

    Args:
        input: (T, N, I), (N, T, I) with ``batch_first``, or (T, I).
        hx: the first states, (layers * directions, N, H); of lstm a pair of them.
        params: the weights of each layer and direction: w_ih, w_hh, with ``has_biases`` b_ih, b_hh, and of lstm the
            weight of a projection.

    Returns the last layer's output at every step and the last states. Between layers numbers are dropped with
    probability ``dropout``. Packed sequences take another form, as in torch: ``gru(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)``.
    """

def gru_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
) -> Tensor:
    """One step of a recurrent network: see gru_step.

    Shapes: input (N, I) or (I,), states (N, H) or (H,), weights as for a layer; output as the states.
    """

def gt(a: Array, b: Operand) -> Tensor:
    """Whether a > b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def gumbel_softmax(
    logits: Array, tau: float = 1.0, hard: bool = False, eps: float | None = 1e-10, dim: int = -1
) -> Tensor:
    """Draws one of the classes along ``dim`` with the probabilities of softmax, so that a gradient gets through.

    Gumbel noise is added to the scores, and their softmax at temperature ``tau`` stands for the choice (Jang et al.
    2016, https://arxiv.org/abs/1611.01144). With ``hard`` the output is exactly one-hot, with the gradient of the soft
    one: the straight-through estimator.

    Shapes: output as logits. ``eps`` has no effect, as in torch, which warns where it is given.
    """

def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming's window: a raised cosine; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hann's window: it rises and falls as a cosine; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def hardshrink(input: Array, lambd: float = 0.5) -> Tensor:
    """The input where it is more than ``lambd`` away from 0, 0 elsewhere.

    Hard thresholding keeps the large coefficients of a sparse code as they are.

    Shapes: output as input.
    """

def hardsigmoid(input: Array) -> Tensor:
    """The logistic function made of straight pieces: 0 below -3, 1 above 3.

    MobileNetV3 uses it in its gates (Howard et al. 2019, https://arxiv.org/abs/1905.02244): it needs no exponential.

    Shapes: output as input.
    """

def hardswish(input: Array) -> Tensor:
    """The input times its hardsigmoid: silu without an exponential.

    The activation of MobileNetV3 (Howard et al. 2019, https://arxiv.org/abs/1905.02244).

    Shapes: output as input.
    """

def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces.

    On and beyond the bounds its gradient is 0, as torch has it.

    Shapes: output as input. Raises ValueError where min_val exceeds max_val.
    """

def hardtanh_(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In place: cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces.

    On and beyond the bounds its gradient is 0, as torch has it.

    Shapes: output as input. Raises ValueError where min_val exceeds max_val.
    """

def heaviside(input: Array, values: Operand) -> Tensor:
    """The step function, elementwise: 0 below 0, 1 above, and the given value at 0; it has no gradient.

    A perceptron (Rosenblatt 1958) is a step of a weighted sum, which is why it cannot be trained by gradients.

    Shapes: input and values broadcast to the output. Raises RuntimeError where they do not, or for different dtypes.
    """

def hinge_embedding_loss(input: Array, target: Array, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The input itself where the target is 1, max(0, margin - input) where the target is -1.

    With a distance as input it brings pairs that belong together near and keeps others apart.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """

def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of the range from ``min`` to ``max``; it has no gradient.

    If both are 0, the range is that of the elements. Elements outside the range are not counted.

    Shapes: output has ``bins`` elements.
    """

def hsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts of a tensor along dimension 1, or cut at indices."""

def hstack(tensors: Sequence[Array]) -> Tensor:
    """Tensors put side by side: along the second dimension, vectors along their only one."""

def huber_loss(input: Array, target: Operand, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared error for errors up to ``delta``; beyond that, linear with the slope ``delta``.

    The robust loss of statistics (Huber 1964); DQN learns with it (Mnih et al. 2015). It is smooth_l1_loss times delta.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """

def hypot(input: Array, other: Operand) -> Tensor:
    """The hypotenuse of two legs, elementwise, broadcasting, computed without overflow.

    It gives distances in the plane. At the origin its gradient is NaN, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def i0(input: Array) -> Tensor:
    """The modified Bessel function of order 0, elementwise.

    The von Mises distribution of angles is scaled by it, and Kaiser windows of audio models are made of it.

    Shapes: output as input.
    """

def i0_(input: Array) -> Tensor:
    """In place: the modified Bessel function of order 0, elementwise.

    The von Mises distribution of angles is scaled by it, and Kaiser windows of audio models are made of it.

    Shapes: output as input.
    """

def igamma(input: Array, other: Operand) -> Tensor:
    """The regularized lower incomplete gamma function of shape ``input`` at ``other``, elementwise.

    It is the probability of a Gamma variable below the other. The shape has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the shape needs a gradient.
    """

def igammac(input: Array, other: Operand) -> Tensor:
    """The regularized upper incomplete gamma function of shape ``input`` at ``other``, elementwise.

    It is the probability of a Gamma variable above the other. The shape has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the shape needs a gradient.
    """

def imag(input: Array) -> Tensor:
    """The imaginary part, in the memory of the complex tensor.

    Shapes: output as input, of the real element type. Raises RuntimeError on a real tensor.
    """

def index_add(input: Array, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> Tensor:
    """Input with ``alpha`` times the slices of ``source`` added along ``dim`` at the numbers in ``index``."""

def index_copy(input: Array, dim: int, index: Array, source: Array) -> Tensor:
    """Input with the slices along ``dim`` at the numbers in ``index`` replaced by those of ``source``."""

def index_fill(input: Array, dim: int, index: Array, value: Operand) -> Tensor:
    """Input with the slices along ``dim`` at the numbers in ``index`` filled with ``value``."""

def index_put(input: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Tensor:
    """Input with the elements at ``indices`` replaced by ``values``, in torch's order of arguments."""

def index_put_(input: Array, values: Operand, indices: Sequence[Array | None], accumulate: bool = False) -> Tensor:
    """In place: input with the elements at ``indices`` replaced by values; ``indices`` has a tensor for each dimension.

    It is ``x[indices] = values`` without the change in place. With ``accumulate`` the values are added instead, and
    they add up at repeated places.

    Shapes: values broadcasts to what the indices pick, output as input. Raises IndexError where an index is out of
    range.
    """

def index_reduce(
    input: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The input, with the slices of ``source`` reduced into it along ``dim`` at the numbers in ``index``."""

def index_select(input: Array, dim: int, index: Array) -> Tensor:
    """The slices along ``dim`` at the numbers in ``index``, in torch's order of arguments."""

def inner(input: Array, other: Array) -> Tensor:
    """Sums of products over the last dimension of both."""

def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float | None = 1e-05,
    cudnn_enabled: bool | None = None,
) -> Tensor:
    """Brings each channel of each sample to mean 0 and variance 1: batch_norm with every sample a batch of its own.

    It takes the contrast out of an image, as the transfer of styles wants it (Ulyanov et al. 2016,
    https://arxiv.org/abs/1607.08022). Running statistics move towards the mean of those of the samples, in place.

    Shapes: input (N, C, ...), everything else (C,); output as input. Raises ValueError where a channel of a sample has
    one value, which has no variance, and RuntimeError where running statistics are to be used and are missing.
    """

def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Maps of another size, given as ``size`` or as a factor, with torch's arguments: see the row interpolate.

    Raises ValueError unless one of ``size`` and ``scale_factor`` is given, and for ``align_corners`` or ``antialias``
    in a mode without that setting. Raises NotImplementedError for an unknown mode, and for a mode of another number of
    dimensions than the input has.
    """

def inverse(A: Array) -> Tensor:
    """The inverse of square matrices.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix.
    """

def isclose(input: Array, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether two numbers differ by at most ``atol + rtol * |other|``, elementwise, broadcasting; no gradient.

    Two ways to compute the same thing agree up to rounding. NaN is close to NaN only with ``equal_nan``.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for different dtypes.
    """

def isfinite(input: Array) -> Tensor:
    """Whether each number is neither infinite nor NaN: a bool tensor, which has no gradient.

    A loss scaler skips steps by it.

    Shapes: output as input.
    """

def isin(elements: Array, test_elements: Array, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among others; it has no gradient.

    Masks of special tokens are made so.

    Shapes: output as elements.
    """

def isinf(input: Array) -> Tensor:
    """Whether each number is infinite: a bool tensor, which has no gradient.

    Gradients that overflowed float16 are found so.

    Shapes: output as input.
    """

def isnan(input: Array) -> Tensor:
    """Whether each number is NaN: a bool tensor, which has no gradient.

    A loss that became NaN is found so.

    Shapes: output as input.
    """

def isneginf(input: Array) -> Tensor:
    """Whether each number is negative infinity: a bool tensor, which has no gradient.

    It finds what a mask has set to -inf.

    Shapes: output as input.
    """

def isposinf(input: Array) -> Tensor:
    """Whether each number is positive infinity: a bool tensor, which has no gradient.

    It finds what overflowed upwards.

    Shapes: output as input.
    """

def isreal(input: Array) -> Tensor:
    """Whether each number is without imaginary part: a bool tensor, which has no gradient.

    Real numbers always are.

    Shapes: output as input.
    """

def istft(
    input: Array,
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
    """The signal whose frames have the given Fourier transforms; where frames overlap, the best fit to all of them.

    Griffin and Lim 1984 showed that this is the signal with the nearest spectrogram. Arguments are those of ``stft``;
    ``length`` is the length of the signal, and ``return_complex`` says that it is complex.

    Shapes: (..., frequencies, frames) gives (T,) or (N, T). Raises RuntimeError where sizes do not fit, or windows
    leave a place with nothing.
    """

def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window: the narrower, the larger ``beta``; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def kl_div(input: Array, target: Array, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence: how far predicted log probabilities are from the probabilities of the target.

    Distillation (Hinton et al. 2015, https://arxiv.org/abs/1503.02531) and variational inference minimize it.
    ``input`` holds logarithms; so does ``target`` with ``log_target``.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``. ``reduction="batchmean"``
    divides by the size of the batch, as the definition has it; "mean" divides by the number of elements and warns.
    """

def kron(input: Array, other: Array) -> Tensor:
    """The Kronecker product: each element of the input times the whole of the other tensor, in its place."""

def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The k-th smallest element along ``dim``, counted from 1, and where it is, as ``(values, indices)``.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises RuntimeError where there are fewer.
    """

def l1_loss(input: Array, target: Operand, reduction: str = "mean") -> Tensor:
    """Mean absolute error between a prediction and its target.

    Every error pulls with the same force however large it is, so outliers do not dominate; the best prediction is a
    median. Where the error is 0 so is the gradient.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """

def layer_norm(
    input: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float | None = 1e-05,
) -> Tensor:
    """Brings the last dimensions to mean 0 and variance 1, with torch's order of arguments: see the row layer_norm."""

def lcm(input: Array, other: Operand) -> Tensor:
    """The least common multiple of whole numbers, elementwise, broadcasting; it has no gradient.

    Two rhythms of different lengths meet again after it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def lcm_(input: Array, other: Operand) -> Tensor:
    """In place: the least common multiple of whole numbers, elementwise, broadcasting; it has no gradient.

    Two rhythms of different lengths meet again after it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """

def ldexp(input: Array, other: Operand) -> Tensor:
    """The input times 2 to the power of the other, elementwise, broadcasting; it is recorded as the product it is."""

def le(a: Array, b: Operand) -> Tensor:
    """Whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def leaky_relu(input: Array, negative_slope: float = 0.01) -> Tensor:
    """The input where it is positive, ``negative_slope`` times it elsewhere.

    A relu that never shuts entirely, so no unit dies (Maas et al. 2013); usual in the discriminators of GANs.

    Shapes: output as input.
    """

def leaky_relu_(input: Array, negative_slope: float = 0.01) -> Tensor:
    """In place: the input where it is positive, ``negative_slope`` times it elsewhere.

    A relu that never shuts entirely, so no unit dies (Maas et al. 2013); usual in the discriminators of GANs.

    Shapes: output as input.
    """

def lerp(input: Array, end: Operand, weight: Operand) -> Tensor:
    """Linear interpolation, elementwise, broadcasting: the input at weight 0, the end at weight 1.

    Moving averages of weights and mixup (Zhang et al. 2017, https://arxiv.org/abs/1710.09412) are blends like this.

    Shapes: input, end and weight (or a number) broadcast to the output. Raises RuntimeError where they do not.
    """

def less(a: Array, b: Operand) -> Tensor:
    """Whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def less_equal(a: Array, b: Operand) -> Tensor:
    """Whether a <= b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def lgamma(input: Array) -> Tensor:
    """The logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers.

    The likelihoods of counts and of Beta, Gamma and Dirichlet distributions contain it.

    Shapes: output as input.
    """

def linalg_cholesky(A: Array, upper: bool = False) -> Tensor:
    """The triangular factor of symmetric or Hermitian positive definite matrices.

    Gaussian processes sample with it, and take their determinants from its diagonal.

    Shapes: (..., n, n) gives the same. Raises LinAlgError where a matrix is not positive definite.
    """

def linalg_cholesky_ex(A: Array, upper: bool = False, check_errors: bool = False) -> LAndInfo:
    """The triangular factor of positive definite matrices, and a number that is 0 where the factor exists.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for another matrix, but only with ``check_errors``.
    """

def linalg_cond(A: Array, p: float | str | None = None) -> Tensor:
    """The condition number of matrices: how much a system that they make can enlarge an error."""

def linalg_cross(input: Array, other: Operand, dim: int | None = -1) -> Tensor:
    """The vector product of vectors of three elements along ``dim``: at right angles to both.

    Normals of surfaces are made with it.

    Shapes: input and other broadcast, ``dim`` of size 3. Raises RuntimeError where it is not.
    """

def linalg_det(A: Array) -> Tensor:
    """The determinant of square matrices: the factor by which they change volumes.

    Its gradient is the matrix of cofactors: where the matrix is invertible, the determinant times the
    transposed inverse.

    Shapes: (..., n, n) gives (...). Raises RuntimeError where the matrices are not square.
    """

def linalg_diagonal(A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""

def linalg_eig(A: Array, any_phase: bool = False) -> EigenvaluesAndEigenvectors:
    """The eigenvalues of square matrices, complex numbers, and their eigenvectors of length 1 as columns.

    The stability of a recurrent network is in the eigenvalues of its step. A loss must not depend on the phases of the
    eigenvectors, which are arbitrary: if it does, its backward raises. With ``any_phase`` the phases count as constant.

    Shapes: (..., n, n) gives (..., n) and (..., n, n). Raises LinAlgError where it does not converge.
    """

def linalg_eigh(A: Array, UPLO: str = "L") -> EigenvaluesAndEigenvectors:
    """The eigenvalues of symmetric or Hermitian matrices, from the smallest on, and their eigenvectors as columns.

    Principal components are eigenvectors of a covariance.

    Shapes: (..., n, n) gives (..., n) and (..., n, n). Raises LinAlgError where it does not converge.
    """

def linalg_eigvals(A: Array) -> Tensor:
    """The eigenvalues of square matrices, complex numbers."""

def linalg_eigvalsh(A: Array, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, from the smallest on."""

def linalg_householder_product(A: Array, tau: Array) -> Tensor:
    """The first columns of a product of Householder reflections, whose vectors are below the diagonal of A.

    Orthogonal weights can be made of such (Mhammedi et al. 2017, https://arxiv.org/abs/1612.00188).

    Shapes: A (..., n, m) with n >= m, tau (..., k) with k <= m give (..., n, m). Raises RuntimeError where they do not
    fit.
    """

def linalg_inv(A: Array) -> Tensor:
    """The inverse of square matrices.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix.
    """

def linalg_inv_ex(A: Array, check_errors: bool = False) -> InverseAndInfo:
    """The inverse of square matrices, and a number that is 0 where the inverse exists.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix, but only with ``check_errors``.
    """

def linalg_lstsq(
    A: Array, B: Operand, rcond: float | Array | None = None, driver: str | None = None
) -> SolutionAndResidualsAndRankAndSingularValues:
    """The X for which A X comes closest to B, and how far off it is: linear regression.

    Shapes: A (..., n, m), B (..., n, k) or (..., n) give (..., m, k). Raises RuntimeError where they do not fit.
    """

def linalg_lu(A: Array, pivot: bool = True) -> PAndLAndU:
    """The permutation and the two triangular factors of matrices.

    Shapes: (..., n, m) gives (..., n, n), (..., n, k) and (..., k, m) for k = min(n, m). Raises RuntimeError for fewer
    than two dimensions.
    """

def linalg_lu_factor(A: Array, pivot: bool = True) -> LUAndPivots:
    """The two triangular factors of matrices in one matrix, and which rows were swapped.

    Shapes: (..., n, m) gives the same and (..., k) for k = min(n, m). Raises LinAlgError for a singular matrix.
    """

def linalg_lu_factor_ex(A: Array, pivot: bool = True, check_errors: bool = False) -> LUAndPivotsAndInfo:
    """The two triangular factors in one matrix, which rows were swapped, and a number: 0 where the factors exist.

    Shapes: (..., n, m) gives the same and (..., k) for k = min(n, m). Raises LinAlgError for a singular matrix, but
    only with ``check_errors``.
    """

def linalg_lu_solve(LU: Array, pivots: Array, B: Operand, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of a system whose matrix, or its adjoint, has these triangular factors.

    Shapes: LU (..., n, n), pivots (..., n), B (..., n, k), the batches broadcasting. Raises RuntimeError where they do
    not fit.
    """

def linalg_matmul(a: Array, b: Array) -> Tensor:
    """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column.

    Nearly all the arithmetic of a network is in its matrix products. Each factor's gradient is the output's gradient
    times the other factor, transposed.

    Shapes: (..., n, k) and (..., k, m) give (..., n, m); for a vector (k,) the output has no n or no m. Raises
    RuntimeError where the inner sizes differ.
    """

def linalg_matrix_exp(A: Array) -> Tensor:
    """The exponential of square matrices.

    For a skew-symmetric matrix it is a rotation, which makes orthogonal weights (Lezcano-Casado and Martinez-Rubio
    2019, https://arxiv.org/abs/1901.08428). Its derivative is a block of the exponential of a larger matrix (Mathias
    1996).

    Shapes: (..., n, n) gives the same. Raises RuntimeError where the matrices are not square.
    """

def linalg_matrix_norm(
    A: Array,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A norm of matrices.

    Args:
        A: matrices.
        ord: "fro" for the root of the sum of squares, "nuc" for the sum of the singular values, 2 and -2 for the
            largest and the smallest of them, 1 and -1 for the largest and the smallest sum of the absolute values of a
            column, inf and -inf for those of a row.
        dim: the two dimensions of the matrices.
        keepdim: whether they stay, as 1.
        dtype: the element type to compute with.
    """

def linalg_matrix_power(A: Array, n: int) -> Tensor:
    """Square matrices multiplied with themselves n times; for a negative n their inverses."""

def linalg_matrix_rank(
    A: Array,
    tol: float | Array | None = None,
    hermitian: bool = False,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
) -> Tensor:
    """How many singular values of matrices are not 0; the limits are those of ``linalg_pinv``.

    Shapes: (..., n, m) gives (...), whole numbers. Raises RuntimeError for fewer than two dimensions.
    """

def linalg_multi_dot(tensors: Sequence[Array]) -> Tensor:
    """The product of several matrices in the order that takes the fewest multiplications.

    The first and the last one may be vectors.

    Raises:
        RuntimeError: there are fewer than two, or they do not fit.
    """

def linalg_norm(
    A: Array,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A norm of vectors or matrices.

    It is of matrices if ``ord`` is given and ``dim`` names two dimensions, or A has two and ``dim`` is left out.
    """

def linalg_pinv(
    A: Array,
    rcond: float | Array | None = None,
    hermitian: bool = False,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
) -> Tensor:
    """The pseudoinverse of matrices: it inverts them except on the vectors that they map to 0.

    Its gradient is defined while the rank stays the same. Singular values count as 0 up to ``atol``, or up to ``rtol``
    (also called ``rcond``) times the largest one. ``hermitian`` says that the matrices are Hermitian.

    Shapes: (..., n, m) gives (..., m, n). Raises RuntimeError for fewer than two dimensions.
    """

def linalg_qr(A: Array, mode: str = "reduced") -> QAndR:
    """The QR decomposition A = Q R: Q has orthonormal columns, and R is triangular.

    Least squares are solved with it, and random orthogonal weights are the Q of random numbers (Saxe et al. 2014,
    https://arxiv.org/abs/1312.6120).

    Shapes: (..., n, m) gives (..., n, k) and (..., k, m) for k = min(n, m) in the mode "reduced"; Q is square in the
    mode "complete" and empty in the mode "r". Raises RuntimeError for another mode.
    """

def linalg_slogdet(A: Array) -> SignAndLogabsdet:
    """The sign of the determinant of square matrices, and the logarithm of its size, which does not overflow.

    A normalizing flow adds up these logarithms (Kingma and Dhariwal 2018, https://arxiv.org/abs/1807.03039).

    Shapes: (..., n, n) gives (...) twice. Raises RuntimeError where the matrices are not square.
    """

def linalg_solve(A: Array, B: Operand, left: bool = True) -> Tensor:
    """The solution X of A X = B, or of X A = B without ``left``.

    Newton's method solves such a system in each step, and a Gaussian process solves one for its prediction.

    Shapes: A (..., n, n), B (..., n, k) or (..., n), the batches broadcasting. Raises LinAlgError for a singular A.
    """

def linalg_solve_ex(A: Array, B: Operand, left: bool = True, check_errors: bool = False) -> ResultAndInfo:
    """The solution X of A X = B, or of X A = B, and a number that is 0 where a solution exists.

    Shapes: A (..., n, n), B (..., n, k) or (..., n). Raises LinAlgError for a singular matrix, but only with
    ``check_errors``.
    """

def linalg_solve_triangular(
    A: Array, B: Operand, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The solution X of A X = B, or of X A = B without ``left``, for a triangular A, whose other half is not read.

    Whitening with the Cholesky factor of a covariance solves such a system.

    Shapes: A (..., n, n), B (..., n, k), the batches broadcasting. Raises RuntimeError where they do not fit.
    """

def linalg_svd(A: Array, full_matrices: bool = True, driver: str | None = None) -> UAndSAndVh:
    """The singular values of matrices, from the largest on, and their singular vectors.

    The largest ones make the best approximation of low rank. Adapters of large models build on that approximation.

    Shapes: (..., n, m) gives (..., n, k), (..., k) and (..., k, m) for k = min(n, m) without ``full_matrices``. Raises
    LinAlgError where it does not converge.
    """

def linalg_svdvals(A: Array, driver: str | None = None) -> Tensor:
    """The singular values of matrices, from the largest on."""

def linalg_tensorinv(A: Array, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a map from its last dimensions to its first ``ind`` ones."""

def linalg_tensorsolve(A: Array, B: Array, dims: Sequence[int] | None = None) -> Tensor:
    """The X whose product with A, summed over all dimensions of X, is B."""

def linalg_vander(x: Array, *, N: int | None = None) -> Tensor:
    """The powers of the elements from 0 to N - 1 as the rows of matrices."""

def linalg_vecdot(x: Array, y: Array, dim: int = -1) -> Tensor:
    """Products of vectors along ``dim``, those of x conjugated, the other dimensions broadcasting."""

def linalg_vector_norm(
    x: Array,
    ord: float | str | None = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The norm of order ``ord`` of all elements as one vector, or along ``dim`` (a number or a tuple of numbers).

    Weight decay and the clipping of gradients measure it; cosine similarity divides by it. ``ord`` is any number,
    inf and -inf for the largest and the smallest size, 0 for how many elements are not 0. Its gradient where the norm
    is 0 is taken to be 0, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def linear(input: Array, weight: Array, bias: Operand | None = None) -> Tensor:
    """The fully connected layer: every output is a weighted sum of all inputs, plus a bias.

    The bias is stretched over the batch, so its gradient is summed over the batch.

    Shapes: input (..., in), weight (out, in), bias (out,) give (..., out). Raises RuntimeError where ``in`` differs.
    """

def linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    *,
    linear_bias: Array | None = None,
    weight: Array | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Cross entropy of the scores that a linear layer gives: the last layer of a language model and its loss.

    torch's ``options`` say how to take the batch in pieces, which saves memory; here it is taken whole, with a warning.

    Shapes: input (N, I) or (I,), linear_weight (C, I) or (C, d1, ..., I), linear_bias as linear_weight without I,
    target and output as in cross_entropy. Raises RuntimeError where they do not fit, or ``ignore_index`` is given
    beside probabilities.
    """

def linspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` numbers from ``start`` to ``end``, with both, equally far apart; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def local_response_norm(input: Array, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides each number by a power of the mean square of the ``size`` channels around it.

    Channels compete, as neurons inhibit their neighbours; batch_norm took its place (Krizhevsky et al. 2012).

    Shapes: input (N, C, ...), output as input. Raises ValueError for an input of fewer than three dimensions.
    """

def log(x: Array) -> Tensor:
    """Natural logarithm, elementwise; NaN for negative x, -inf at 0.

    Losses take the logarithm of a probability: a confident mistake costs much, and its gradient is large.

    Shapes: output as x.
    """

def log10(input: Array) -> Tensor:
    """Logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0.

    Decibels and the signal-to-noise ratio of images are made with it.

    Shapes: output as input.
    """

def log10_(input: Array) -> Tensor:
    """In place: logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0.

    Decibels and the signal-to-noise ratio of images are made with it.

    Shapes: output as input.
    """

def log1p(input: Array) -> Tensor:
    """Logarithm of 1 plus each element, exact also near 0.

    It transforms counts with a long tail before they enter a network: 0 stays 0.

    Shapes: output as input.
    """

def log1p_(input: Array) -> Tensor:
    """In place: logarithm of 1 plus each element, exact also near 0.

    It transforms counts with a long tail before they enter a network: 0 stays 0.

    Shapes: output as input.
    """

def log2(input: Array) -> Tensor:
    """Logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0.

    An entropy comes out in bits with it.

    Shapes: output as input.
    """

def log2_(input: Array) -> Tensor:
    """In place: logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0.

    An entropy comes out in bits with it.

    Shapes: output as input.
    """

def log_(x: Array) -> Tensor:
    """In place: natural logarithm, elementwise; NaN for negative x, -inf at 0.

    Losses take the logarithm of a probability: a confident mistake costs much, and its gradient is large.

    Shapes: output as x.
    """

def log_softmax(input: Array, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Logarithm of softmax along ``dim``, computed without overflow.

    Cross entropy is built on it.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def logaddexp(input: Array, other: Operand) -> Tensor:
    """Logarithm of the sum of two exponentials, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept as logarithms, as in the forward algorithm of a hidden Markov model.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def logaddexp2(input: Array, other: Operand) -> Tensor:
    """Base-2 logarithm of the sum of two powers of 2, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept in bits.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def logcumsumexp(input: Array, dim: int) -> Tensor:
    """Logarithm of the running sum of exponentials along ``dim``, without overflow.

    It sums probabilities that are given as logarithms, as in alignments of speech and text.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def logdet(input: Array) -> Tensor:
    """The logarithm of the determinant of square matrices; NaN where it is negative."""

def logical_and(input: Array, other: Operand) -> Tensor:
    """Whether both are true, elementwise, broadcasting; all but 0 counts as true. No gradient.

    It makes one mask of a causal mask and a padding mask.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def logical_not(input: Array) -> Tensor:
    """Whether each element is 0: a bool tensor, which has no gradient.

    It turns a mask of what counts into a mask of what does not.

    Shapes: output as input.
    """

def logical_or(input: Array, other: Operand) -> Tensor:
    """Whether at least one is true, elementwise, broadcasting; all but 0 counts as true. No gradient.

    It joins the two conditions that end a sequence: an end token, and a maximum length.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def logical_xor(input: Array, other: Operand) -> Tensor:
    """Whether exactly one is true, elementwise, broadcasting; all but 0 counts as true. No gradient.

    It finds where two masks differ.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def logit(input: Array, eps: float | None = None) -> Tensor:
    """The logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1].

    Scores are made of probabilities with it. With ``eps`` the input is moved into [eps, 1 - eps] first, and beyond
    these bounds the gradient is 0.

    Shapes: output as input.
    """

def logit_(input: Array, eps: float | None = None) -> Tensor:
    """In place: the logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1].

    Scores are made of probabilities with it. With ``eps`` the input is moved into [eps, 1 - eps] first, and beyond
    these bounds the gradient is 0.

    Shapes: output as input.
    """

def logsigmoid(input: Array) -> Tensor:
    """Logarithm of the logistic function, elementwise, computed without overflow.

    The log-likelihood of a yes or no with score x: losses that compare pairs, as of word2vec or of preferences, are
    sums of it. Where the answer is confidently wrong its gradient is 1, so learning does not stall.

    Shapes: output as input.
    """

def logspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Powers of ``base`` whose exponents are equally far apart; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def logsumexp(input: Array, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials over ``dim`` (a number or a tuple of numbers), without overflow.

    It is a smooth maximum, and the logarithm of the divisor of softmax; its gradient is softmax. It normalizes mixtures
    of Gaussians and energy-based models.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """

def lp_pool1d(
    input: Array,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of order ``norm_type`` of each window: between the mean and the maximum.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def lp_pool2d(
    input: Array,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of order ``norm_type`` of each window: between the mean and the maximum.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def lp_pool3d(
    input: Array,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of order ``norm_type`` of each window: between the mean and the maximum.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """

def lstm(
    input: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool | None = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """A recurrent network over a sequence, layer on layer, in one direction or both: see lstm_layer.

    Args:
        input: (T, N, I), (N, T, I) with ``batch_first``, or (T, I).
        hx: the first states, (layers * directions, N, H); of lstm a pair of them.
        params: the weights of each layer and direction: w_ih, w_hh, with ``has_biases`` b_ih, b_hh, and of lstm the
            weight of a projection.

    Returns the last layer's output at every step and the last states. Between layers numbers are dropped with
    probability ``dropout``. Packed sequences take another form, as in torch: ``lstm(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)``.
    """

def lstm_cell(
    input: Array, hx: Sequence[Array], w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
) -> tuple[Tensor, Tensor]:
    """One step of a recurrent network: see lstm_step.

    Shapes: input (N, I) or (I,), states (N, H) or (H,), weights as for a layer; output as the states.
    """

def lt(a: Array, b: Operand) -> Tensor:
    """Whether a < b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def lu(A: Array, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """The two triangular factors of matrices in one matrix, and which rows were swapped."""

def lu_solve(input: Array, LU_data: Array, LU_pivots: Array) -> Tensor:
    """The solution of a system whose matrix has these triangular factors."""

def lu_unpack(
    LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """The permutation and the triangular factors from what ``lu_factor`` gives."""

def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): input1 should be larger where target is 1, smaller where -1.

    Shapes: inputs and target of one rank, broadcast; output (), or that shape with ``reduction="none"``. Raises
    RuntimeError where the ranks differ.
    """

def masked_fill(input: Array, mask: Operand, value: Operand) -> Tensor:
    """The input with the value, a number or a tensor of one, wherever the mask holds, broadcasting.

    Attention fills the scores of hidden positions with -inf before its softmax (Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762). Replaced elements get the gradient 0.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where they do not, or for a value with
    dimensions.
    """

def masked_scatter(input: Array, mask: Array, source: Array) -> Tensor:
    """Input with the elements where the mask holds replaced by those of source, in order.

    It puts the features of an image into the places that are reserved for them in a text.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where source has fewer elements than the mask
    has True places.
    """

def masked_select(input: Array, mask: Array) -> Tensor:
    """The elements where the mask holds, in one line; input and mask broadcast.

    A loss over the words that were masked out takes these alone.
    """

def matmul(a: Array, b: Array) -> Tensor:
    """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column.

    Nearly all the arithmetic of a network is in its matrix products. Each factor's gradient is the output's gradient
    times the other factor, transposed.

    Shapes: (..., n, k) and (..., k, m) give (..., n, m); for a vector (k,) the output has no n or no m. Raises
    RuntimeError where the inner sizes differ.
    """

def matrix_exp(A: Array) -> Tensor:
    """The exponential of square matrices.

    For a skew-symmetric matrix it is a rotation, which makes orthogonal weights (Lezcano-Casado and Martinez-Rubio
    2019, https://arxiv.org/abs/1901.08428). Its derivative is a block of the exponential of a larger matrix (Mathias
    1996).

    Shapes: (..., n, n) gives the same. Raises RuntimeError where the matrices are not square.
    """

def matrix_power(A: Array, n: int) -> Tensor:
    """Square matrices multiplied with themselves n times; for a negative n their inverses."""

@overload
def max(input: Array) -> Tensor:
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def max(input: Array, dim: int, keepdim: bool = False) -> ValuesAndIndices:
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def max(input: Array, dim: Tensor | torch.Tensor) -> Tensor:
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def max(input: Array, *, other: Tensor | torch.Tensor) -> Tensor:
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

def max_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest number of each window; with ``return_indices`` also where it is: see max_pool1d_with_indices."""

def max_pool1d_with_indices(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest number of each window of a sequence, and where it is, as ``(out, indices)``.

    Whether a feature is there at all counts more than where exactly; the gradient goes to the winner alone, the first
    one of several. Windows are ``stride`` apart, by default their own size; padding counts as smaller than any number.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with smaller planes; indices count the places of one.
    """

def max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest number of each window; with ``return_indices`` also where it is: see max_pool2d_with_indices."""

def max_pool2d_with_indices(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest number of each window of an image, and where it is, as ``(out, indices)``.

    Whether a feature is there at all counts more than where exactly; the gradient goes to the winner alone, the first
    one of several. Windows are ``stride`` apart, by default their own size; padding counts as smaller than any number.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with smaller planes; indices count the places of one.
    """

def max_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest number of each window; with ``return_indices`` also where it is: see max_pool3d_with_indices."""

def max_pool3d_with_indices(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest number of each window of a volume, and where it is, as ``(out, indices)``.

    Whether a feature is there at all counts more than where exactly; the gradient goes to the winner alone, the first
    one of several. Windows are ``stride`` apart, by default their own size; padding counts as smaller than any number.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with smaller planes; indices count the places of one.
    """

def max_unpool1d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: int | Sequence[int | None] | None = None,
) -> Tensor:
    """Zeros with the input put where the indices of a max pooling say: see the row max_unpool."""

def max_unpool2d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: int | Sequence[int | None] | None = None,
) -> Tensor:
    """Zeros with the input put where the indices of a max pooling say: see the row max_unpool."""

def max_unpool3d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: int | Sequence[int | None] | None = None,
) -> Tensor:
    """Zeros with the input put where the indices of a max pooling say: see the row max_unpool."""

def maximum(a: Array, b: Array) -> Tensor:
    """The larger of a and b, elementwise, broadcasting; NaN where either is NaN.

    At a tie each side gets half of the gradient, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def mean(
    x: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none.

    A loss over a batch is a mean, so its gradient does not grow with the batch.

    Shapes: output without the averaged dimensions, or with them as 1 with ``keepdim``.
    """

@overload
def median(input: Array) -> Tensor:
    """The median of all elements, or along ``dim`` with indices; of two in the middle the lower one."""

@overload
def median(input: Array, dim: int, keepdim: bool = False) -> ValuesAndIndices:
    """The median of all elements, or along ``dim`` with indices; of two in the middle the lower one."""

def meshgrid(*tensors: Array | Sequence[Array], indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of the points of a grid: each vector lies along its own dimension, stretched along the others.

    With ``indexing="xy"`` the first two dimensions are swapped, as a picture has rows before columns.
    """

@overload
def min(input: Array) -> Tensor:
    """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def min(input: Array, dim: int, keepdim: bool = False) -> ValuesAndIndices:
    """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def min(input: Array, dim: Tensor | torch.Tensor) -> Tensor:
    """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

@overload
def min(input: Array, *, other: Tensor | torch.Tensor) -> Tensor:
    """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""

def minimum(input: Array, other: Operand) -> Tensor:
    """The smaller of two, elementwise, broadcasting; NaN where either is NaN.

    The clipped objective of PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) is a minimum. At a tie each
    side gets half of the gradient, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def mish(input: Array) -> Tensor:
    """The input times tanh of its softplus, elementwise: a smooth relative of relu with a dip below 0.

    The activation of YOLOv4 (Misra 2019, https://arxiv.org/abs/1908.08681).

    Shapes: output as input.
    """

def mm(input: Array, mat2: Array) -> Tensor:
    """Product of two matrices.

    Shapes: (n, k) and (k, m) give (n, m). Raises RuntimeError for anything but matrices that fit.
    """

def mode(input: Array, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The commonest elements along ``dim``, the smallest of several, and where they are, as ``(values, indices)``.

    It counts the votes of several classifiers.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError where ``dim`` is empty.
    """

def moveaxis(input: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Some dimensions moved to other positions; the others keep their order."""

def movedim(input: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Some dimensions moved to other positions; the others keep their order."""

def mse_loss(input: Array, target: Operand, reduction: str = "mean") -> Tensor:
    """Mean squared error between a prediction and its target.

    The loss of regression: its gradient is twice the error, so large errors pull hardest.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """

def msort(input: Array) -> Tensor:
    """The elements in order along the first dimension."""

def mul(a: Array, b: Operand) -> Tensor:
    """Product of two tensors, elementwise, broadcasting.

    Each side's gradient is scaled by the other side: a gate that is nearly 0 lets nearly no gradient through. Masks,
    gates of an LSTM and attention weights are products.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def multi_head_attention_forward(
    query: Array,
    key: Array,
    value: Array,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Array | None,
    in_proj_bias: Array | None,
    bias_k: Array | None,
    bias_v: Array | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Array,
    out_proj_bias: Array | None,
    training: bool = True,
    key_padding_mask: Array | None = None,
    need_weights: bool = True,
    attn_mask: Array | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Array | None = None,
    k_proj_weight: Array | None = None,
    v_proj_weight: Array | None = None,
    static_k: Array | None = None,
    static_v: Array | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The output of ``nn.MultiheadAttention`` as a function of its weights: ``(output, weights or None)``.

    Shapes: query (L, N, E), key (S, N, E) and value (S, N, E), or all three without N; weights (N, L, S). Raises
    AssertionError where weights are missing or a shape does not fit, RuntimeError for a mask that does not.
    """

def multi_margin_loss(
    input: Array, target: Array, weight: Array | None = None, p: float = 1, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """How far the score of the right class is below the score of each other class plus ``margin``.

    The loss of support vector machines with several classes (Crammer and Singer 2001).

    Shapes: input (C,) or (N, C), target class numbers () or (N,), weight (C,); output (), or as target with
    ``reduction="none"``. Raises ValueError for another p than 1 and 2.
    """

def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Tensor:
    """The sum of max(0, 1 - (right - wrong)) over all pairs of a right and a wrong class, divided by C.

    Shapes: input (C,) or (N, C), target alike: the numbers of the right classes, ended by -1. Output (), or (N,) with
    ``reduction="none"``.
    """

def multilabel_soft_margin_loss(
    input: Array, target: Array, weight: Array | None = None, reduction: str = "mean"
) -> Tensor:
    """Binary cross entropy of scores, averaged over classes: for inputs that may have several labels at once.

    Shapes: input and target (C,) or (N, C), target of zeros and ones; weight broadcasts to them. Output (), or (N,)
    with ``reduction="none"``.
    """

def multinomial(
    input: Array, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> Tensor:
    """Indices drawn with probabilities proportional to the numbers in each row of the input; they have no gradient.

    Shapes: output as input, with the last dimension of size ``num_samples``. Raises RuntimeError if ``num_samples`` is
    more than can be drawn without ``replacement``.
    """

def multiply(a: Array, b: Operand) -> Tensor:
    """Product of two tensors, elementwise, broadcasting.

    Each side's gradient is scaled by the other side: a gate that is nearly 0 lets nearly no gradient through. Masks,
    gates of an LSTM and attention weights are products.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def mv(input: Array, vec: Array) -> Tensor:
    """Product of a matrix and a vector.

    Shapes: (n, k) and (k,) give (n,). Raises RuntimeError for anything else.
    """

def mvlgamma(input: Array, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``, elementwise.

    The likelihood of a Wishart distribution of covariance matrices contains it.

    Shapes: output as input. Raises RuntimeError for p below 1.
    """

def nan_to_num(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN becomes 0 or the number ``nan``, infinities the largest and smallest number of the dtype or those given.

    It keeps one bad sample from spoiling a batch. Replaced elements get the gradient 0.

    Shapes: output as input.
    """

def nan_to_num_(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """In place: naN becomes 0 or the number ``nan``, infinities the largest and smallest number of the dtype or those given.

    It keeps one bad sample from spoiling a batch. Replaced elements get the gradient 0.

    Shapes: output as input.
    """

def nanmean(
    input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Mean over all elements, or over ``dim``, that are not NaN; NaN where there are none."""

@overload
def nanmedian(input: Array) -> Tensor:
    """The median of all elements that are not NaN, or along ``dim`` with indices."""

@overload
def nanmedian(input: Array, dim: int, keepdim: bool = False) -> ValuesAndIndices:
    """The median of all elements that are not NaN, or along ``dim`` with indices."""

def nanquantile(
    input: Array, q: float | Array, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantiles of the elements that are not NaN, with the settings of ``quantile``; NaN if there are none."""

def nansum(
    input: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """Sum over all elements, or over ``dim``, that are not NaN.

    Losses over data with gaps use it; a gap gets the gradient 0.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """

def narrow(input: Array, dim: int, start: int | None, length: int) -> Tensor:
    """The ``length`` slices along ``dim`` from ``start`` on, in the same memory.

    Shapes: output as input but for ``dim``. Raises RuntimeError or IndexError where the slices leave the tensor.
    """

def narrow_copy(input: Array, *, dim: int, start: int | None, length: int) -> Tensor:
    """The result of ``narrow``, in memory of its own."""

def ne(a: Array, b: Operand) -> Tensor:
    """Whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def neg(x: Array) -> Tensor:
    """The tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """

def neg_(x: Array) -> Tensor:
    """In place: the tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """

def negative(x: Array) -> Tensor:
    """The tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """

def negative_(x: Array) -> Tensor:
    """In place: the tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """

def nll_loss(
    input: Array, target: Array, weight: Array | None = None, ignore_index: int | None = -100, reduction: str = "mean"
) -> Tensor:
    """Minus the log probability of the right class, where ``input`` holds log probabilities.

    After log_softmax it is cross entropy. The mean is weighted by the weights of the targets' classes; targets of
    ``ignore_index`` count nothing.

    Shapes: input (C,), (N, C) or (N, C, d1, ...); target class numbers of that shape without C; weight (C,). Output (),
    or as the target with ``reduction="none"``. Raises IndexError for a class number out of range.
    """

def nonzero(input: Array, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0, one row each, or one tensor for each dimension with ``as_tuple``."""

def norm(
    input: Array,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The norm of order p of all elements as one vector, or along ``dim``; "fro" is the order 2.

    "nuc" is the sum of the singular values of matrices.

    Raises NotImplementedError for ``out``, and RuntimeError for another word than these two.
    """

def norm_except_dim(v: Array, pow: int = 2, dim: int = 0) -> Tensor:
    """The length of each slice of ``v`` along ``dim``, in a shape that broadcasts with ``v``; -1: of the whole."""

@overload
def normal(mean: Array, std: Operand = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
    """Normal random numbers: with the means and standard deviations of tensors, or two numbers and a ``size``.

    With a size it is a leaf of that shape, with torch's settings by name; it lives on the device of the active graph
    unless ``device`` says otherwise.

    Shapes: mean and std broadcast to the output, or it is ``size``. Raises RuntimeError for a negative standard
    deviation.
    """

@overload
def normal(mean: Number, std: Array, *, generator: torch.Generator | None = None) -> Tensor:
    """Normal random numbers: with the means and standard deviations of tensors, or two numbers and a ``size``.

    With a size it is a leaf of that shape, with torch's settings by name; it lives on the device of the active graph
    unless ``device`` says otherwise.

    Shapes: mean and std broadcast to the output, or it is ``size``. Raises RuntimeError for a negative standard
    deviation.
    """

@overload
def normal(
    mean: Number,
    std: Number,
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers: with the means and standard deviations of tensors, or two numbers and a ``size``.

    With a size it is a leaf of that shape, with torch's settings by name; it lives on the device of the active graph
    unless ``device`` says otherwise.

    Shapes: mean and std broadcast to the output, or it is ``size``. Raises RuntimeError for a negative standard
    deviation.
    """

def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float | None = 1e-12, out: None = None) -> Tensor:
    """Vectors along ``dim`` brought to norm 1: divided by their norm of order ``p``, or ``eps`` if that is less.

    Cosine similarities are products of such vectors, as contrastive learning compares them.

    Shapes: output as input. Raises NotImplementedError for ``out``.
    """

def not_equal(a: Array, b: Operand) -> Tensor:
    """Whether a != b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def one_hot(input: Array, num_classes: int = -1) -> Tensor:
    """Class numbers as vectors that are 1 at the number and 0 elsewhere; it has no gradient.

    ``num_classes`` is by default one more than the largest number.

    Shapes: input (...) of whole numbers, output (..., num_classes).
    """

def ones(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ones of a shape; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def ones_like(
    input: Array,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """A tensor of ones, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

def orgqr(input: Array, tau: Array) -> Tensor:
    """The first columns of a product of Householder reflections."""

def ormqr(input: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False) -> Tensor:
    """A matrix times a product of Householder reflections, or its adjoint, without making the product.

    Shapes: input (..., n, k), tau (..., k), other (..., n, m) with ``left``, (..., m, n) without. Raises RuntimeError
    where they do not fit.
    """

def outer(input: Array, vec2: Array) -> Tensor:
    """The products of each element of one vector with each of the other, as a matrix."""

def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """A border around the last dimensions.

    Args:
        input: the tensor.
        pad: the widths before and after, the last dimension first; a negative one cuts off.
        mode: "constant" for one value; "reflect" for the elements next to the edge in reverse order, "replicate" for
            the edge, "circular" for the elements of the opposite side, around the last one, two or three dimensions.
        value: the value of "constant"; default: 0.

    Raises:
        ValueError: a value with another mode than "constant".
        NotImplementedError: the mode is unknown, or does not take this rank.
    """

def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float | None = 1e-06, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference of two vectors, for each pair in a batch.

    ``eps`` is added to the difference, so that the gradient of equal vectors is finite.

    Shapes: x1 and x2 broadcast; output without the last dimension, or with it as 1 with ``keepdim``.
    """

def pca_lowrank(
    A: Array, q: float | Array | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The q principal components of observations, which are rows: their svd_lowrank.

    With ``center`` the mean of the observations is subtracted first.

    Shapes: A (..., m, n); U (..., m, q), S (..., q) and V (..., n, q). Raises ValueError for more components than rows
    or columns.
    """

def pdist(input: Array, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of every pair of vectors in a set.

    Losses that spread embeddings apart (Wang and Isola 2020, https://arxiv.org/abs/2005.10242) need all of them.

    Shapes: input (N, D), output (N (N - 1) / 2,). Raises RuntimeError for a negative p.
    """

def permute(x: Array, dims: Sequence[int]) -> Tensor:
    """The dimensions in another order, without copying.

    Images change between channels first and channels last with it.

    Shapes: output dimension i is dimension ``dims[i]`` of x. Raises RuntimeError unless ``dims`` names each one once.
    """

def permute_copy(x: Array, *, dims: int) -> Tensor:
    """The result of ``permute``, in memory of its own."""

def pinverse(input: Array, rcond: float | Array | None = 1e-15) -> Tensor:
    """The pseudoinverse of matrices: the inverse on what they do not send to 0."""

def pixel_shuffle(input: Array, upscale_factor: int) -> Tensor:
    """Every ``upscale_factor`` squared channels become a square of places of one channel.

    Networks that make an image larger compute at its small size and end with it (Shi et al. 2016,
    https://arxiv.org/abs/1609.05158).

    Shapes: input (..., C r r, H, W), output (..., C, H r, W r). Raises RuntimeError where r r does not divide the
    channels.
    """

def pixel_unshuffle(input: Array, downscale_factor: int) -> Tensor:
    """Squares of ``downscale_factor`` places become channels: the inverse of pixel_shuffle.

    Shapes: input (..., C, H r, W r), output (..., C r r, H, W). Raises RuntimeError where r does not divide the places.
    """

def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    eps: float | None = 1e-08,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-likelihood of counts under Poisson distributions with the predicted rates.

    The loss of counting: photons, clicks, spikes. ``input`` holds logarithms of rates with ``log_input``. ``full`` adds
    Stirling's approximation of what does not depend on the input; ``eps`` keeps the logarithm of a rate finite.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """

def polar(abs: Array, angle: Operand) -> Tensor:
    """The complex number of this size and this angle.

    Shapes: both broadcast to the output. Raises RuntimeError where the two have different or no real element types.
    """

def polygamma(n: int, input: Array) -> Tensor:
    """The derivative of order ``n`` of digamma, elementwise, in torch's order of arguments."""

def positive(input: Array) -> Tensor:
    """The tensor itself, as ``+x``.

    Raises:
        RuntimeError: a bool tensor, as torch has it.
    """

def pow(a: Array, b: Operand) -> Tensor:
    """The power a to the b, elementwise, broadcasting.

    Squares are the commonest: errors, norms, variances. Where b is 0 the gradient of a is 0, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def prelu(input: Array, weight: Array) -> Tensor:
    """The input where it is positive, ``weight`` times it elsewhere, where the weight is learned.

    One slope for all, or one per channel (He et al. 2015, https://arxiv.org/abs/1502.01852).

    Shapes: input any; weight (), (1,) or (C,) with C the size of the second dimension of input; output as input.
    Raises RuntimeError where the weight is neither.
    """

def prod(input: Array, dim: int | None = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """Product of all elements, or along ``dim``.

    Likelihoods of independent events are products, and so is the determinant of a triangular Jacobian.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """

def put(input: Array, index: Array, source: Array, accumulate: bool = False) -> Tensor:
    """Input with the elements of source at the positions in index, which count through the flattened input.

    With ``accumulate`` the elements of source are added to those of input instead, repeated places included.

    Shapes: source has as many elements as index, output as input. Raises IndexError where an index is out of range.
    """

def qr(input: Array, some: bool = True) -> tuple[Tensor, Tensor]:
    """The QR decomposition of the input: Q has orthonormal columns, and R is triangular."""

def quantile(
    input: Array, q: float | Array, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The values below which the parts q of the elements lie, over all or along ``dim``; NaN where an element is NaN.

    Quantile regression and robust scaling use them. Between two elements ``interpolation`` chooses the value: "linear",
    "lower", "higher", "midpoint" or "nearest". q is a number or a tensor of numbers from 0 to 1; several make a first
    dimension of the output.
    """

def rad2deg(input: Array) -> Tensor:
    """Radians as degrees, elementwise.

    Errors of predicted angles are reported in degrees.

    Shapes: output as input.
    """

def rad2deg_(input: Array) -> Tensor:
    """In place: radians as degrees, elementwise.

    Errors of predicted angles are reported in degrees.

    Shapes: output as input.
    """

def rand(
    *size: int | Sequence[int],
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers, uniform from 0 up to 1, without it; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def rand_like(
    input: Array,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """Random numbers, uniform from 0 up to 1, without it, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

@overload
def randint(
    high: int,
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers from ``low`` (0) up to ``high``, without it; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

@overload
def randint(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers from ``low`` (0) up to ``high``, without it; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

@overload
def randint_like(
    input: Array,
    high: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """Random integers from ``low`` (0) up to ``high``, without it, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

@overload
def randint_like(
    input: Array,
    low: int,
    high: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """Random integers from ``low`` (0) up to ``high``, without it, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

def randn(
    *size: int | Sequence[int],
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers, of mean 0 and variance 1; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def randn_like(
    input: Array,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """Normal random numbers, of mean 0 and variance 1, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""

def randperm(
    n: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The integers from 0 up to ``n``, without it, in random order; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def ravel(input: Array) -> Tensor:
    """All elements as one vector: in the same memory, but a copy where they do not lie in it one after the other."""

def real(input: Array) -> Tensor:
    """The real part, in the memory of the complex tensor. A real tensor is as it was.

    Shapes: output as input, of the real element type.
    """

def reciprocal(input: Array) -> Tensor:
    """One over each element; infinite at 0.

    Multiplying by it once is cheaper than dividing many times.

    Shapes: output as input.
    """

def reciprocal_(input: Array) -> Tensor:
    """In place: one over each element; infinite at 0.

    Multiplying by it once is cheaper than dividing many times.

    Shapes: output as input.
    """

def relu(input: Array) -> Tensor:
    """The rectified linear unit: x where it is positive, 0 elsewhere.

    The usual activation of deep networks (Nair and Hinton 2010): where it is open the gradient passes undamped, so it
    does not vanish with depth; where it is shut the unit learns nothing. At 0 its gradient is 0, as torch has it.

    Shapes: output as input.
    """

def relu6(input: Array) -> Tensor:
    """A relu that stops at 6.

    MobileNet uses it, since small numbers keep their precision in few bits (Howard et al. 2017,
    https://arxiv.org/abs/1704.04861).

    Shapes: output as input.
    """

def relu_(input: Array) -> Tensor:
    """In place: the rectified linear unit: x where it is positive, 0 elsewhere.

    The usual activation of deep networks (Nair and Hinton 2010): where it is open the gradient passes undamped, so it
    does not vanish with depth; where it is shut the unit learns nothing. At 0 its gradient is 0, as torch has it.

    Shapes: output as input.
    """

def remainder(input: Array, other: Operand) -> Tensor:
    """The remainder of a division rounded down, with the sign of the divisor, as Python's ``%``; broadcasting.

    It wraps angles and positions around; its jumps have no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def renorm(input: Array, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along ``dim`` whose norm of order p is above ``maxnorm`` scaled down to it; the others as they are.

    ``Embedding(max_norm=...)`` keeps its rows short so; Hinton et al. 2012 (https://arxiv.org/abs/1207.0580) bound
    the weights of each unit.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """

def repeat(input: Array, repeats: Sequence[int]) -> Tensor:
    """Copies of a tensor put side by side, so many along each dimension; there may be new leading dimensions.

    Each element gets the sum of the gradients of its copies. ``expand`` does the same for a size of 1 without copying.

    Shapes: each size times its number. Raises RuntimeError for fewer numbers than dimensions.
    """

def repeat_interleave(
    input: Array,
    repeats: int | Sequence[int] | Array | None = None,
    dim: int | None = None,
    *,
    output_size: int | Sequence[int | None] | None = None,
) -> Tensor:
    """Each slice along ``dim``, repeated ``repeats`` times in a row; without ``dim`` each element, as a vector.

    Grouped-query attention gives each key to several queries so.

    Args:
        input: the tensor. If it is the only argument, it holds numbers of repetitions, and the result is the repeated
            indices.
        repeats: a number, or one for each slice.
        dim: the dimension.
        output_size: the size of the result, if it is known: then the numbers in ``repeats`` need not be read.
    """

def reshape(x: Array, shape: Sequence[int]) -> Tensor:
    """The same elements, in the same order, in another shape; one size may be -1 and is worked out.

    A batch of images becomes a batch of rows with it, before a linear layer.

    Shapes: output as ``shape``. Raises RuntimeError where the number of elements differs.
    """

def reshape_as(input: Array, other: Array) -> Tensor:
    """The elements in the shape of another tensor."""

def resolve_conj(input: Array) -> Tensor:
    """The same numbers; a conjugation that was only marked is carried out in memory.

    Shapes: output as input.
    """

def resolve_neg(input: Array) -> Tensor:
    """The same numbers; a change of sign that was only marked is carried out in memory.

    The imaginary part of a conjugate is so marked.

    Shapes: output as input.
    """

def rms_norm(
    input: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Tensor:
    """Brings the last dimensions to root mean square 1, with torch's order of arguments: see the row rms_norm."""

def rnn_relu(
    input: Array,
    hx: Array,
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool | None = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """A recurrent network over a sequence, layer on layer, in one direction or both: see rnn_relu_layer.

    Args:
        input: (T, N, I), (N, T, I) with ``batch_first``, or (T, I).
        hx: the first states, (layers * directions, N, H); of lstm a pair of them.
        params: the weights of each layer and direction: w_ih, w_hh, with ``has_biases`` b_ih, b_hh, and of lstm the
            weight of a projection.

    Returns the last layer's output at every step and the last states. Between layers numbers are dropped with
    probability ``dropout``. Packed sequences take another form, as in torch: ``rnn_relu(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)``.
    """

def rnn_relu_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
) -> Tensor:
    """One step of a recurrent network: see rnn_relu_step.

    Shapes: input (N, I) or (I,), states (N, H) or (H,), weights as for a layer; output as the states.
    """

def rnn_tanh(
    input: Array,
    hx: Array,
    params: Sequence[Array],
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool | None = False,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """A recurrent network over a sequence, layer on layer, in one direction or both: see rnn_tanh_layer.

    Args:
        input: (T, N, I), (N, T, I) with ``batch_first``, or (T, I).
        hx: the first states, (layers * directions, N, H); of lstm a pair of them.
        params: the weights of each layer and direction: w_ih, w_hh, with ``has_biases`` b_ih, b_hh, and of lstm the
            weight of a projection.

    Returns the last layer's output at every step and the last states. Between layers numbers are dropped with
    probability ``dropout``. Packed sequences take another form, as in torch: ``rnn_tanh(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)``.
    """

def rnn_tanh_cell(
    input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None
) -> Tensor:
    """One step of a recurrent network: see rnn_tanh_step.

    Shapes: input (N, I) or (I,), states (N, H) or (H,), weights as for a layer; output as the states.
    """

def roll(input: Array, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    """The elements moved along these dimensions, or along all of them as one vector; what leaves comes in again.

    Swin shifts its windows by half their size with it (Liu et al. 2021, https://arxiv.org/abs/2103.14030).

    Shapes: output as input. Raises RuntimeError where there are more shifts than dimensions, or fewer.
    """

def rot90(input: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A quarter turn from the first of two dimensions towards the second, ``k`` times.

    Raises:
        RuntimeError: the tensor lacks the dimensions, or they are the same one.
    """

def round(input: Array, decimals: int = 0) -> Tensor:
    """The nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one.

    Quantization rounds weights to the numbers that few bits can hold.

    Shapes: output as input.
    """

def round_(input: Array, decimals: int = 0) -> Tensor:
    """In place: the nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one.

    Quantization rounds weights to the numbers that few bits can hold.

    Shapes: output as input.
    """

def row_stack(tensors: Sequence[Array]) -> Tensor:
    """Tensors put below each other: vectors become rows."""

def rrelu(input: Array, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False) -> Tensor:
    """A leaky relu whose slope is drawn for each element between ``lower`` and ``upper``; in evaluation, their mean.

    The noise regularizes (Xu et al. 2015, https://arxiv.org/abs/1505.00853).

    Shapes: output as input. Raises RuntimeError where lower exceeds upper.
    """

def rrelu_(input: Array, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False) -> Tensor:
    """In place: rrelu, which is a product with the slopes drawn, and a leaky relu where none are drawn."""

def rsqrt(input: Array) -> Tensor:
    """One over the square root, elementwise; NaN for negative numbers, infinite at 0.

    Normalization layers multiply by it instead of dividing by a standard deviation.

    Shapes: output as input.
    """

def rsqrt_(input: Array) -> Tensor:
    """In place: one over the square root, elementwise; NaN for negative numbers, infinite at 0.

    Normalization layers multiply by it instead of dividing by a standard deviation.

    Shapes: output as input.
    """

def rsub(input: Array, other: Operand, *, alpha: Number = 1) -> Tensor:
    """The difference the other way round, ``other - alpha * input``; it is recorded as sub."""

def scalar_tensor(
    s: Number,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of rank 0 of one number; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Each query takes a mean of the values, weighted by the softmax of its products with their keys.

    Transformers are built of it (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762). A mask is True where a key may
    be seen, or is added to the scores; ``is_causal`` lets no query see a later key. With ``enable_gqa`` several heads
    of the query share a head of key and value. If torch would choose a fused kernel, the row flash_attention runs.
    Else the products run one by one. They always do so with ``enable_gqa``, for a mask that needs a gradient, and on a
    GPU with dropout or if the size of a head is no multiple of 8.

    Shapes: query (..., L, E), key (..., S, E), value (..., S, Ev), attn_mask broadcasts to (..., L, S); output
    (..., L, Ev). Raises RuntimeError for a mask together with ``is_causal``, and where key and value differ in S.
    """

def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Operand | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Input with the elements at ``index`` along ``dim`` replaced by ``src``, a tensor or a number.

    With ``reduce``, "add" or "multiply", they are added or multiplied instead.
    """

def scatter_add(input: Array, dim: int, index: Array, src: Array) -> Tensor:
    """Input with ``src`` added along ``dim`` at the numbers in ``index``, in torch's order of arguments."""

def scatter_reduce(
    input: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The input, with the elements of ``src`` reduced into it along ``dim`` at the numbers in ``index``."""

def searchsorted(
    sorted_sequence: Array,
    input: Array,
    sorter: Array | None = None,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
) -> Tensor:
    """The index along the last dimension where each number can be inserted to keep the sequence sorted; no gradient.

    It draws from a distribution by its cumulative sum. With ``right`` or ``side="right"`` the index is after equal
    numbers, else before them. ``sorter`` holds the indices that sort an unsorted sequence.

    Shapes: output as input, whose leading dimensions are those of the sequence, unless that has one dimension. Raises
    RuntimeError where they differ.
    """

def select(input: Array, dim: int, index: int) -> Tensor:
    """The slice at ``index`` along ``dim``, without that dimension, in the same memory.

    Shapes: output as input without ``dim``. Raises IndexError where the index leaves the tensor.
    """

def select_scatter(input: Array, src: Array, dim: int, index: int) -> Tensor:
    """Input with the slice at one index along ``dim`` replaced.

    Shapes: src as input without ``dim``, output as input. Raises RuntimeError where it is not.
    """

def selu(input: Array) -> Tensor:
    """The scaled elu whose two constants keep mean 0 and variance 1 from layer to layer.

    Self-normalizing networks need no other normalization (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input.
    """

def selu_(input: Array) -> Tensor:
    """In place: the scaled elu whose two constants keep mean 0 and variance 1 from layer to layer.

    Self-normalizing networks need no other normalization (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input.
    """

def sgn(input: Array) -> Tensor:
    """The sign of each element; for a complex number, the number of size 1 in the same direction.

    It is the slope of the absolute value: -1, 0 or 1 for a real number.

    Shapes: output as input.
    """

def sigmoid(input: Array) -> Tensor:
    """The logistic function, elementwise: squeezes any number into (0, 1).

    It makes a probability of a score and a gate of an LSTM. Its gradient is at most 1/4, so a deep stack of sigmoids
    shrinks gradients layer by layer.

    Shapes: output as input.
    """

def sigmoid_(input: Array) -> Tensor:
    """In place: the logistic function, elementwise: squeezes any number into (0, 1).

    It makes a probability of a score and a gate of an LSTM. Its gradient is at most 1/4, so a deep stack of sigmoids
    shrinks gradients layer by layer.

    Shapes: output as input.
    """

def sign(input: Array) -> Tensor:
    """-1, 0 or 1 as each element is negative, zero or positive.

    Binary networks (Courbariaux et al. 2016, https://arxiv.org/abs/1602.02830) keep only the signs of their weights.

    Shapes: output as input.
    """

def signbit(input: Array) -> Tensor:
    """Whether each number is negative, -0.0 included: a bool tensor, which has no gradient.

    It tells -0.0 from 0.0.

    Shapes: output as input.
    """

def silu(input: Array) -> Tensor:
    """The input times its logistic function, elementwise: nearly 0 left, nearly x right, with a dip below 0 between.

    Also called swish; the activation of EfficientNet and, as gate of SwiGLU, of current language models (Ramachandran
    et al. 2017, https://arxiv.org/abs/1710.05941).

    Shapes: output as input.
    """

def sin(input: Array) -> Tensor:
    """Sine of angles in radians, elementwise.

    The positions of a transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) are coded in sines and
    cosines, and networks of sines (Sitzmann et al. 2020, https://arxiv.org/abs/2006.09661) hold images and shapes.

    Shapes: output as input.
    """

def sin_(input: Array) -> Tensor:
    """In place: sine of angles in radians, elementwise.

    The positions of a transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) are coded in sines and
    cosines, and networks of sines (Sitzmann et al. 2020, https://arxiv.org/abs/2006.09661) hold images and shapes.

    Shapes: output as input.
    """

def sinc(input: Array) -> Tensor:
    """Normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number.

    Ideal low-pass filters have this shape: SincNet (Ravanelli and Bengio 2018, https://arxiv.org/abs/1808.00158)
    learns their cut-offs.

    Shapes: output as input.
    """

def sinc_(input: Array) -> Tensor:
    """In place: normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number.

    Ideal low-pass filters have this shape: SincNet (Ravanelli and Bengio 2018, https://arxiv.org/abs/1808.00158)
    learns their cut-offs.

    Shapes: output as input.
    """

def sinh(input: Array) -> Tensor:
    """Hyperbolic sine, elementwise.

    Embeddings in hyperbolic space (Nickel and Kiela 2017, https://arxiv.org/abs/1705.08039) measure with it.

    Shapes: output as input.
    """

def sinh_(input: Array) -> Tensor:
    """In place: hyperbolic sine, elementwise.

    Embeddings in hyperbolic space (Nickel and Kiela 2017, https://arxiv.org/abs/1705.08039) measure with it.

    Shapes: output as input.
    """

def slice_scatter(
    input: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Input with the slice from ``start`` to ``end`` along ``dim`` replaced.

    Shapes: src as that slice, output as input. Raises RuntimeError where it is not.
    """

def slogdet(A: Array) -> SignAndLogabsdet:
    """The sign of the determinant of square matrices, and the logarithm of its size, which does not overflow.

    A normalizing flow adds up these logarithms (Kingma and Dhariwal 2018, https://arxiv.org/abs/1807.03039).

    Shapes: (..., n, n) gives (...) twice. Raises RuntimeError where the matrices are not square.
    """

def smooth_l1_loss(input: Array, target: Operand, reduction: str = "mean", beta: Number = 1.0) -> Tensor:
    """Squared error for errors below ``beta``, absolute error beyond it.

    Detectors fit their boxes with it (Girshick 2015, https://arxiv.org/abs/1504.08083): an outlier pulls no harder than
    1, and near 0 the gradient vanishes smoothly.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """

def soft_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Tensor:
    """The logistic loss of scores against signs: binary cross entropy where the answers are -1 and 1.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """

def softmax(input: Array, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1.

    Attention weighs its values with it, classifiers make class probabilities with it. With ``dtype`` it computes in
    that element type, so that scores of half precision lose nothing on the way.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def softmin(input: Array, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Turns costs along ``dim`` into probabilities: softmax of minus the input, so that the smallest weighs most.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def softplus(input: Array, beta: Number = 1.0, threshold: float = 20.0) -> Tensor:
    """A smooth relu, elementwise: ``beta`` says how sharp its bend is.

    Variances and rates are made positive with it (Dugas et al. 2001). Where beta x exceeds ``threshold`` it is x
    itself, which avoids overflow.

    Shapes: output as input.
    """

def softshrink(input: Array, lambd: float = 0.5) -> Tensor:
    """The input moved towards 0 by ``lambd``, 0 where it is nearer.

    One step of the search for a sparse code (ISTA) ends with it; it is the proximal map of the absolute value.

    Shapes: output as input. Raises RuntimeError where lambd is negative.
    """

def softsign(input: Array) -> Tensor:
    """Squeezes any number into (-1, 1), elementwise; complex ones in small steps: see the row softsign."""

def sort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesAndIndices:
    """The elements along ``dim`` in order, and where each was, as ``(values, indices)``.

    With ``stable`` equal elements keep their order. The sliced Wasserstein distance sorts projections. Each gradient
    goes back to where its element was.

    Shapes: both outputs as input. Raises IndexError where input has no dimension ``dim``.
    """

def special_digamma(input: Array) -> Tensor:
    """The derivative of the logarithm of the gamma function, elementwise.

    The expected logarithm of a Gamma or Dirichlet variable is made of it.

    Shapes: output as input.
    """

def special_entr(input: Array) -> Tensor:
    """The entropy that each probability adds, elementwise: 0 at 0, -inf below.

    A bonus for high entropy keeps a policy exploring.

    Shapes: output as input.
    """

def special_erf(input: Array) -> Tensor:
    """The error function, elementwise: twice the area under a bell curve from 0.

    The GELU activation (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415) weighs its input by it.

    Shapes: output as input.
    """

def special_erfc(input: Array) -> Tensor:
    """One minus the error function, elementwise, exact also where that is nearly 0.

    It gives the tails of a normal distribution.

    Shapes: output as input.
    """

def special_erfcx(input: Array) -> Tensor:
    """The complementary error function times the exponential of the square, elementwise, without underflow.

    Logarithms of the tails of a normal distribution are computed from it.

    Shapes: output as input.
    """

def special_erfinv(input: Array) -> Tensor:
    """The number whose error function each element is; infinite at -1 and 1, NaN beyond.

    It turns uniform random numbers into normal ones, through which gradients flow.

    Shapes: output as input.
    """

def special_exp2(input: Array) -> Tensor:
    """Two to the power of each element.

    Hardware computes it faster than the exponential of base e, so fast attention kernels use it.

    Shapes: output as input.
    """

def special_expit(input: Array) -> Tensor:
    """The logistic function, elementwise: squeezes any number into (0, 1).

    It makes a probability of a score and a gate of an LSTM. Its gradient is at most 1/4, so a deep stack of sigmoids
    shrinks gradients layer by layer.

    Shapes: output as input.
    """

def special_expm1(input: Array) -> Tensor:
    """The exponential minus 1, elementwise, exact also near 0.

    The ELU activation (Clevert et al. 2015, https://arxiv.org/abs/1511.07289) uses it for negative numbers.

    Shapes: output as input.
    """

def special_gammainc(input: Array, other: Operand) -> Tensor:
    """The regularized lower incomplete gamma function of shape ``input`` at ``other``, elementwise.

    It is the probability of a Gamma variable below the other. The shape has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the shape needs a gradient.
    """

def special_gammaincc(input: Array, other: Operand) -> Tensor:
    """The regularized upper incomplete gamma function of shape ``input`` at ``other``, elementwise.

    It is the probability of a Gamma variable above the other. The shape has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the shape needs a gradient.
    """

def special_gammaln(input: Array) -> Tensor:
    """The logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers.

    The likelihoods of counts and of Beta, Gamma and Dirichlet distributions contain it.

    Shapes: output as input.
    """

def special_i0(input: Array) -> Tensor:
    """The modified Bessel function of order 0, elementwise.

    The von Mises distribution of angles is scaled by it, and Kaiser windows of audio models are made of it.

    Shapes: output as input.
    """

def special_i0e(input: Array) -> Tensor:
    """The modified Bessel function of order 0 times ``exp(-|x|)``, elementwise, without overflow.

    The likelihood of angles that hardly vary needs it.

    Shapes: output as input.
    """

def special_i1(input: Array) -> Tensor:
    """The modified Bessel function of order 1, elementwise.

    It is the derivative of that of order 0.

    Shapes: output as input.
    """

def special_i1e(input: Array) -> Tensor:
    """The modified Bessel function of order 1 times ``exp(-|x|)``, elementwise, without overflow.

    Its ratio to that of order 0 is the mean length of von Mises variables.

    Shapes: output as input.
    """

def special_log1p(input: Array) -> Tensor:
    """Logarithm of 1 plus each element, exact also near 0.

    It transforms counts with a long tail before they enter a network: 0 stays 0.

    Shapes: output as input.
    """

def special_log_ndtr(input: Array) -> Tensor:
    """The logarithm of the area under the standard normal curve up to each element, without underflow.

    Likelihoods of censored data and of probit models add it up.

    Shapes: output as input.
    """

def special_logit(input: Array, eps: float | None = None) -> Tensor:
    """The logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1].

    Scores are made of probabilities with it. With ``eps`` the input is moved into [eps, 1 - eps] first, and beyond
    these bounds the gradient is 0.

    Shapes: output as input.
    """

def special_multigammaln(input: Array, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``, elementwise.

    The likelihood of a Wishart distribution of covariance matrices contains it.

    Shapes: output as input. Raises RuntimeError for p below 1.
    """

def special_ndtr(input: Array) -> Tensor:
    """The area under the standard normal curve up to each element; it is recorded as the ops that compute it."""

def special_ndtri(input: Array) -> Tensor:
    """The number up to which the area under the standard normal curve equals each element; NaN outside [0, 1].

    It gives the quantiles of a normal distribution.

    Shapes: output as input.
    """

def special_polygamma(n: int, input: Array) -> Tensor:
    """The derivative of order ``n`` of digamma, elementwise, in torch's order of arguments."""

def special_psi(input: Array) -> Tensor:
    """The derivative of the logarithm of the gamma function, elementwise.

    The expected logarithm of a Gamma or Dirichlet variable is made of it.

    Shapes: output as input.
    """

def special_round(input: Array, decimals: int = 0) -> Tensor:
    """The nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one.

    Quantization rounds weights to the numbers that few bits can hold.

    Shapes: output as input.
    """

def special_sinc(input: Array) -> Tensor:
    """Normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number.

    Ideal low-pass filters have this shape: SincNet (Ravanelli and Bengio 2018, https://arxiv.org/abs/1808.00158)
    learns their cut-offs.

    Shapes: output as input.
    """

def special_xlog1py(input: Array, other: Operand) -> Tensor:
    """The input times the logarithm of 1 plus the other, elementwise, broadcasting; 0 wherever the input is 0.

    If the other is minus the probability of a success, it is the log-likelihood of failures.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def special_xlogy(input: Array, other: Operand) -> Tensor:
    """The input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0.

    Entropies and cross entropies are sums of it: an outcome of probability 0 adds nothing, not NaN.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def special_zeta(input: Array, other: Operand) -> Tensor:
    """The Hurwitz zeta function of order ``input`` at ``other``, elementwise, broadcasting.

    It normalizes power-law distributions, such as that of word frequencies. The order has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the order needs a gradient.
    """

def split(tensor: Array, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along ``dim``: of one size, the last one maybe smaller, or of several sizes.

    One product makes queries, keys and values of attention, and a split takes them apart.

    Shapes: outputs as the tensor but for ``dim``. Raises RuntimeError where sizes do not add up to that of ``dim``.
    """

def split_with_sizes(input: Array, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along ``dim`` of these sizes.

    Shapes: outputs as input but for ``dim``. Raises RuntimeError where sizes do not add up to that of ``dim``.
    """

def split_with_sizes_copy(input: Array, *, split_sizes: Sequence[int], dim: int = 0) -> Tensor:
    """The result of ``split_with_sizes``, in memory of its own."""

def spmm(input: Array, mat2: Array) -> Tensor:
    """Product of two matrices.

    Shapes: (n, k) and (k, m) give (n, m). Raises RuntimeError for anything but matrices that fit.
    """

def sqrt(x: Array) -> Tensor:
    """Square root, elementwise; NaN for negative x.

    Standard deviations and norms end with it. Its gradient is infinite at 0.

    Shapes: output as x.
    """

def sqrt_(x: Array) -> Tensor:
    """In place: square root, elementwise; NaN for negative x.

    Standard deviations and norms end with it. Its gradient is infinite at 0.

    Shapes: output as x.
    """

def square(input: Array) -> Tensor:
    """The square, elementwise. It is recorded as ``pow`` with the exponent 2.

    Squared errors and variances are made of it.
    """

def squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Tensor:
    """The dimensions of size 1 removed, all of them or ``dim`` alone, without copying.

    Shapes: output without these dimensions; a ``dim`` of another size stays.
    """

def squeeze_copy(x: Array, *, dim: int | None = None) -> Tensor:
    """The result of ``squeeze``, in memory of its own."""

def stack(tensors: Sequence[Array], dim: int = 0) -> Tensor:
    """Tensors of one shape put side by side along a new dimension ``dim``.

    It makes a batch of examples, and a sequence of the states of a recurrent network.

    Shapes: all alike; output has one dimension more, of size n for n tensors. Raises RuntimeError where they are not
    alike.
    """

def std(
    input: Array,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation of all elements, or over ``dim``: the root of the variance, with its settings.

    Where it is 0 its gradient is taken to be 0, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def std_mean(
    input: Array,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> StdAndMean:
    """Standard deviation and mean of all elements, or over ``dim``, as ``(std, mean)``, in one pass.

    Shapes: both outputs without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def stft(
    input: Array,
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
    """The Fourier transform of the frames of a signal: a spectrogram is its size.

    Networks for speech take spectrograms as input, and the loss of a vocoder compares them.

    Args:
        input: signals (T,) or (N, T).
        n_fft: how long a frame is.
        hop_length: the distance between the starts of two frames; default: a quarter of ``n_fft``.
        win_length: how long the window is; default: ``n_fft``.
        window: the numbers that each frame is multiplied by; default: ones.
        center: whether the position of a frame is its middle, not its start. Then the signal is padded at both ends, by
            ``pad_mode``.
        pad_mode: as ``pad`` takes it.
        normalized: whether the transform is divided by the root of ``n_fft``.
        onesided: whether only the first half of the frequencies is returned, which determines the other half; default:
            True for real signals.
        return_complex: whether the result is complex; if not, real and imaginary part are the last dimension.
        align_to_window: without ``center``, whether the windows start at multiples of ``hop_length``, instead of the
            frames.

    Returns (..., frequencies, frames). Raises RuntimeError where sizes do not fit, or ``return_complex`` is missing for
    a real signal.
    """

def sub(a: Array, b: Operand, alpha: Number = 1) -> Tensor:
    """Difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first.

    The error of a prediction is one: prediction minus target.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def subtract(a: Array, b: Operand, alpha: Number = 1) -> Tensor:
    """Difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first.

    The error of a prediction is one: prediction minus target.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """

def sum(
    x: Array, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """Sum over all elements, or over ``dim`` (a number or a tuple of numbers).

    Every element gets the same gradient, that of the sum: sum is broadcasting read backwards.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """

def sum_to_size(x: Array, size: Sequence[Sequence[int]]) -> Tensor:
    """Sum over leading dimensions, and over those that are 1 in ``size``: the undoing of a broadcast.

    Shapes: output as ``size``, which broadcasts to the shape of x. Raises RuntimeError where it does not.
    """

def svd(input: Array, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular values and vectors of matrices, as torch's older svd: all vectors are columns."""

def svd_lowrank(
    A: Array, q: float | Array = 6, niter: int = 2, M: Array | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The q largest singular values of matrices and their singular vectors, approximated without the others.

    Large weights are compressed so, and recommendations found (Halko et al. 2011, https://arxiv.org/abs/0909.4061). It
    draws random numbers; each of ``niter`` rounds comes closer.

    M is subtracted from A.

    Shapes: A and M (..., m, n); U (..., m, q), S (..., q) and V (..., n, q).
    """

def swapaxes(x: Array, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """

def swapdims(x: Array, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """

def swish(input: Array, beta: float | Array = 1.0) -> Tensor:
    """The input times the logistic function of ``beta`` times the input, elementwise; beta may be learned.

    With beta 1 it is silu, with growing beta it becomes relu (Ramachandran et al. 2017,
    https://arxiv.org/abs/1710.05941).

    Shapes: input and beta, a number or a tensor, broadcast to the output.
    """

def t(input: Array) -> Tensor:
    """A matrix transposed; a vector or a single number as it is.

    Raises:
        RuntimeError: the tensor has more than two dimensions.
    """

def t_copy(input: Array) -> Tensor:
    """The result of ``t``, in memory of its own."""

def take(input: Array, index: Array) -> Tensor:
    """The elements of the flattened input at the positions in index.

    Shapes: output as index. Raises IndexError where an index is out of range.
    """

def take_along_dim(input: Array, indices: Array, dim: int | None = None) -> Tensor:
    """Along ``dim``, the elements at the numbers in ``indices``, which broadcasts with input in all other dimensions.

    Without ``dim`` both are taken as one line of elements. It picks the elements at the indices that ``argsort`` and
    ``argmax`` return.
    """

def tan(input: Array) -> Tensor:
    """Tangent of angles in radians, elementwise.

    A camera's field of view becomes its focal length with it.

    Shapes: output as input.
    """

def tan_(input: Array) -> Tensor:
    """In place: tangent of angles in radians, elementwise.

    A camera's field of view becomes its focal length with it.

    Shapes: output as input.
    """

def tanh(input: Array) -> Tensor:
    """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1).

    The activation of recurrent networks. Far from 0 it is flat, so its gradient vanishes there.

    Shapes: output as input.
    """

def tanh_(input: Array) -> Tensor:
    """In place: hyperbolic tangent, elementwise: squeezes any number into (-1, 1).

    The activation of recurrent networks. Far from 0 it is flat, so its gradient vanishes there.

    Shapes: output as input.
    """

def tanhshrink(input: Array) -> Tensor:
    """The input x minus tanh(x), elementwise: nearly 0 near 0, nearly x shifted by 1 far from it.

    It pulls small numbers to 0, as sparse codes want it.

    Shapes: output as input.
    """

def tensor_split(input: Array, indices_or_sections: int | Sequence[int] | Array, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a tensor along ``dim``: as many as asked for, of sizes that differ by at most one; or cut at indices.

    Raises:
        RuntimeError: input has no dimensions, or the number of parts is not positive.
    """

def tensordot(a: Array, b: Array, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over some dimensions of each tensor: the last ``dims`` of a, or pairs given by two lists.

    Raises:
        RuntimeError: the sizes of a pair differ and neither is 1.
    """

def threshold(input: Array, threshold: float, value: float) -> Tensor:
    """The input where it exceeds ``threshold``, ``value`` elsewhere.

    With 0 for both numbers it is relu.

    Shapes: output as input.
    """

def threshold_(input: Array, threshold: float, value: float) -> Tensor:
    """In place: the input where it exceeds ``threshold``, ``value`` elsewhere.

    With 0 for both numbers it is relu.

    Shapes: output as input.
    """

@overload
def tile(input: Array, *repeats: int | Sequence[int]) -> Tensor:
    """Copies of a tensor put side by side; dimensions that no number is given for are not repeated."""

@overload
def tile(input: Array, *, dims: Sequence[int]) -> Tensor:
    """Copies of a tensor put side by side; dimensions that no number is given for are not repeated."""

@overload
def to(
    input: Array,
    device: torch.device | str | int | None,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """The tensor on another device or with another element type; the gradient goes back to the device of x.

    A part of a model may so run in another precision or on another device, in one graph.

    ``non_blocking`` lets a copy to another device run while Python goes on, where the memory allows it.

    Shapes: output as x.
    """

@overload
def to(
    input: Array,
    dtype: torch.dtype,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """The tensor on another device or with another element type; the gradient goes back to the device of x.

    A part of a model may so run in another precision or on another device, in one graph.

    ``non_blocking`` lets a copy to another device run while Python goes on, where the memory allows it.

    Shapes: output as x.
    """

@overload
def to(
    input: Array,
    other: Tensor | torch.Tensor,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """The tensor on another device or with another element type; the gradient goes back to the device of x.

    A part of a model may so run in another precision or on another device, in one graph.

    ``non_blocking`` lets a copy to another device run while Python goes on, where the memory allows it.

    Shapes: output as x.
    """

@overload
def to(
    input: Array,
    *,
    device: torch.device | str | int | None = None,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """The tensor on another device or with another element type; the gradient goes back to the device of x.

    A part of a model may so run in another precision or on another device, in one graph.

    ``non_blocking`` lets a copy to another device run while Python goes on, where the memory allows it.

    Shapes: output as x.
    """

def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """The k largest elements along ``dim``, or the smallest, and where they are, as ``(values, indices)``.

    A mixture of experts sends each token to its top k (Shazeer et al. 2017, https://arxiv.org/abs/1701.06538); the
    others get the gradient 0.

    Shapes: both outputs as input with k along ``dim``. Raises RuntimeError where there are fewer than k.
    """

def trace(input: Array) -> Tensor:
    """The sum of the diagonal of a matrix.

    Shapes: (n, m) gives a single number. Raises RuntimeError for another number of dimensions.
    """

def transpose(x: Array, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """

def transpose_(x: Array, dim0: int, dim1: int) -> Tensor:
    """In place: two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """

def transpose_copy(x: Array, *, dim0: int, dim1: int) -> Tensor:
    """The result of ``transpose``, in memory of its own."""

def trapezoid(y: Array, x: Array | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area under y along ``dim`` by the trapezoidal rule, at the places x or ``dx`` apart.

    Losses over time or space in physics are integrals.

    Raises RuntimeError where both x and ``dx`` are given.
    """

def trapz(y: Array, x: Array | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area under y along ``dim`` by the trapezoidal rule, at the places x or ``dx`` apart.

    Losses over time or space in physics are integrals.

    Raises RuntimeError where both x and ``dx`` are given.
    """

def triangular_solve(
    input: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The solution of a triangular system, and a copy of its matrix, as torch's older function returns them."""

def tril(input: Array, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices: 0 above the diagonal, which ``diagonal`` moves up.

    The mask that keeps attention from looking ahead has this form.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """

def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The rows and columns of the elements on and below a diagonal; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float | None = 1e-06,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance of anchor and positive example - distance of anchor and negative example).

    Face recognition learns its embedding so (Schroff et al. 2015, https://arxiv.org/abs/1503.03832). With ``swap`` the
    negative's distance from the positive counts where it is smaller.

    Shapes: all (D,) or (N, D), broadcast; output (), or (N,) with ``reduction="none"``. Raises ValueError for a margin
    that is not positive.
    """

def triplet_margin_with_distance_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Triplet loss with any distance: ``distance_function`` takes two batches; default: pairwise_distance.

    Shapes: all (N, ...) of one rank; output (), or what the distance gives with ``reduction="none"``. Raises ValueError
    for a margin that is not positive, RuntimeError where the ranks differ.
    """

def triu(input: Array, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices: 0 below the diagonal, which ``diagonal`` moves up.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """

def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The rows and columns of the elements on and above a diagonal; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def true_divide(a: Array, b: Operand, rounding_mode: str | None = None) -> Tensor:
    """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers.

    Normalization divides by a standard deviation, a mean by a count. The gradient of b grows as b goes to 0. With
    ``rounding_mode`` "floor" or "trunc" the quotient is rounded, and the gradients are 0.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not, or for another mode.
    """

def trunc(input: Array) -> Tensor:
    """The whole part, elementwise: rounded towards 0.

    A conversion to an integer does the same.

    Shapes: output as input.
    """

def trunc_(input: Array) -> Tensor:
    """In place: the whole part, elementwise: rounded towards 0.

    A conversion to an integer does the same.

    Shapes: output as input.
    """

def unbind(input: Array, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of a tensor along ``dim``, without that dimension: what ``stack`` undoes.

    A recurrent network takes the steps of a sequence apart with it.

    Shapes: outputs as input without ``dim``. Raises IndexError where input has no dimension ``dim``.
    """

def unbind_copy(input: Array, *, dim: int = 0) -> Tensor:
    """The result of ``unbind``, in memory of its own."""

def unflatten(input: Array, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several, of these sizes, one of which may be -1."""

def unfold(
    input: Array,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """The windows of an image as columns, with torch's arguments: see the row img_to_col."""

def unfold_copy(input: Array, *, dimension: int, size: int, step: int) -> Tensor:
    """The result of ``unfold``, in memory of its own."""

def unique(
    input: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or the slices along ``dim``, each once; a backward that comes to them is an error.

    With ``return_inverse`` also which of them each element is, with ``return_counts`` how often each occurs.
    """

def unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or the slices along ``dim``, with equal neighbours merged; with the settings of ``unique``."""

def unsafe_chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts that ``chunk`` makes, each in memory of its own."""

def unsafe_split(input: Array, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The parts that ``split`` makes, each in memory of its own."""

def unsqueeze(x: Array, dim: int) -> Tensor:
    """A new dimension of size 1 at ``dim``, without copying.

    Shapes: output has one dimension more than x. Raises IndexError where ``dim`` is out of range.
    """

def unsqueeze_copy(x: Array, *, dim: int) -> Tensor:
    """The result of ``unsqueeze``, in memory of its own."""

def upsample(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Interpolate under its older name."""

def vander(x: Array, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of the elements of a vector from N - 1 down to 0 as the columns of a matrix; up from 0 on request.

    Fitting a polynomial is solving a linear system with it.
    """

def var(
    input: Array,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Tensor:
    """Variance of all elements, or over ``dim`` (a number or a tuple of numbers).

    The sum of squares is divided by their number minus ``correction``. The default is 1 (Bessel's correction), as
    with ``unbiased=True``; ``unbiased=False`` is 0. Normalization layers use 0.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def var_mean(
    input: Array,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> VarAndMean:
    """Variance and mean of all elements, or over ``dim``, as ``(var, mean)``, in one pass.

    Shapes: both outputs without the reduced dimensions, or with them as 1 with ``keepdim``.
    """

def vdot(input: Array, other: Array) -> Tensor:
    """Product of two vectors, the first of them conjugated, so that the product of a vector with itself is real.

    Shapes: both (n,), output a single number. Raises RuntimeError for anything else.
    """

def view(x: Array, size: Sequence[int]) -> Tensor:
    """The same elements in another shape, in the same memory; one size may be -1 and is worked out.

    Attention splits its channels into heads with it.

    Shapes: output as ``size``. Raises RuntimeError where the number of elements differs, or x lies in memory in
    another order: ``reshape`` copies it then.
    """

def view_as(input: Array, other: Array) -> Tensor:
    """The same memory in the shape of another tensor."""

def view_as_complex(input: Array) -> Tensor:
    """Pairs of real numbers, read as complex ones in the same memory.

    Shapes: (..., 2) gives (...). Raises RuntimeError where the last dimension is not 2.
    """

def view_as_real(input: Array) -> Tensor:
    """Complex numbers, read as pairs of real ones in the same memory.

    Shapes: (...) gives (..., 2). Raises RuntimeError on a real tensor.
    """

def view_copy(x: Array, *, size: int) -> Tensor:
    """The result of ``view``, in memory of its own."""

def vsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts of a tensor along dimension 0, or cut at indices."""

def vstack(tensors: Sequence[Array]) -> Tensor:
    """Tensors put below each other: vectors become rows."""

def where(condition: Array, input: Operand | None = None, other: Operand | None = None) -> Any:
    """Elements of input where the condition holds, of other elsewhere; with no input, the indices where it holds.

    The indices are a tuple with a tensor for each dimension, as ``nonzero`` with ``as_tuple`` gives them; they have no
    gradient. The condition, input and other broadcast to each other; the gradient goes to the side that was chosen.

    Raises:
        TypeError: one of input and other is missing.
    """

def xlogy(input: Array, other: Operand) -> Tensor:
    """The input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0.

    Entropies and cross entropies are sums of it: an outcome of probability 0 adds nothing, not NaN.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def xlogy_(input: Array, other: Operand) -> Tensor:
    """In place: the input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0.

    Entropies and cross entropies are sums of it: an outcome of probability 0 adds nothing, not NaN.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """

def zeros(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of zeros of a shape; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """

def zeros_like(
    input: Array,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """A tensor of zeros, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."""
