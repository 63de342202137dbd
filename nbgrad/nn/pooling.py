"""Pooling: a smaller signal, image or volume, each of whose numbers stands for a window of the input.

Shapes: input (N, C, ...) or (C, ...), with one, two or three dimensions more; output the same with smaller ones.
"""

from typing import Any, ClassVar

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.function_block import Block, Size, repeated, settings

SizeOrNone = int | tuple[int | None, ...] | None
Ratio = float | tuple[float, ...]


class _Window(Block):
    """Pools whose step, if it is not given, is the size of their window."""

    kernel_size: Size
    stride: Size | None

    def __post_init__(self, *_: Any) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride


@settings("kernel_size={kernel_size}, stride={stride}, padding={padding}, dilation={dilation}, ceil_mode={ceil_mode}")
class _MaxPool(_Window):
    __formula__ = r"\max_{i \in w} x_i"

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    dilation: Size = 1
    return_indices: bool = False
    ceil_mode: bool = False


class MaxPool1d(_MaxPool, function=ops.max_pool1d, dims=(2, 3)):
    """The largest number of each window of a signal.

    Args:
        kernel_size: the size of the window.
        stride: by how much it moves; default: its size.
        padding: how many elements of minus infinity are added at both ends.
        dilation: the distance between the places that a window sees.
        return_indices: also return the positions of these numbers, for ``MaxUnpool1d``.
        ceil_mode: whether a window may reach beyond the end.
    """


class MaxPool2d(_MaxPool, function=ops.max_pool2d, dims=(3, 4)):
    """The largest number of each window of an image. The arguments are those of ``MaxPool1d``, numbers or pairs."""


class MaxPool3d(_MaxPool, function=ops.max_pool3d, dims=(4, 5)):
    """The largest number of each window of a volume. The arguments are those of ``MaxPool1d``, numbers or triples."""


@settings("kernel_size={kernel_size}, stride={stride}, padding={padding}")
class _MaxUnpool(Block):
    __formula__ = r"y_{i_k} = x_k \text{, else } 0"

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0

    def __post_init__(self, *_: Any) -> None:
        rank = self._dims[0] - 1
        self.stride = repeated(self.kernel_size if self.stride is None else self.stride, rank)
        self.kernel_size = repeated(self.kernel_size, rank)
        self.padding = repeated(self.padding, rank)

    def forward(  # type: ignore[override]
        self, input: Tensor, indices: Tensor, output_size: Any = None
    ) -> Any:
        size = None if output_size is None else list(output_size)
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, size)


class MaxUnpool1d(_MaxUnpool, function=ops.max_unpool1d, dims=(2, 3)):
    """Puts the numbers of a ``MaxPool1d`` back to where they were, with zeros between (Zeiler and Fergus 2013).

    It is called with the numbers, their indices, and ``output_size=`` where several are possible.

    Args:
        kernel_size: the size of the window.
        stride: by how much it moved; default: its size.
        padding: how much had been added at both ends.
    """


class MaxUnpool2d(_MaxUnpool, function=ops.max_unpool2d, dims=(3, 4)):
    """Puts the numbers of a ``MaxPool2d`` back to where they were. The arguments are those of ``MaxUnpool1d``."""


class MaxUnpool3d(_MaxUnpool, function=ops.max_unpool3d, dims=(4, 5)):
    """Puts the numbers of a ``MaxPool3d`` back to where they were. The arguments are those of ``MaxUnpool1d``."""


@settings("kernel_size={kernel_size}, stride={stride}, padding={padding}")
class AvgPool1d(_Window, function=ops.avg_pool1d, dims=(2, 3)):
    """The mean of each window of a signal.

    Args:
        kernel_size: the size of the window.
        stride: by how much it moves; default: its size.
        padding: how many zeros are added at both ends.
        ceil_mode: whether a window may reach beyond the end.
        count_include_pad: whether those zeros count.
    """

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def __post_init__(self, *_: Any) -> None:
        super().__post_init__()
        self.kernel_size = repeated(self.kernel_size, 1)
        self.stride = repeated(self.stride, 1)
        self.padding = repeated(self.padding, 1)


@settings("kernel_size={kernel_size}, stride={stride}, padding={padding}")
class _AvgPool(_Window):
    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None


class AvgPool2d(_AvgPool, function=ops.avg_pool2d, dims=(3, 4)):
    """The mean of each window of an image. The arguments are those of ``AvgPool1d``, numbers or pairs.

    Args:
        divisor_override: the divisor of the sum of a window; default: the size of the window.
    """


class AvgPool3d(_AvgPool, function=ops.avg_pool3d, dims=(4, 5)):
    """The mean of each window of a volume. The arguments are those of ``AvgPool2d``, numbers or triples."""


@settings("norm_type={norm_type}, kernel_size={kernel_size}, stride={stride}, ceil_mode={ceil_mode}")
class _LPPool(Block):
    __formula__ = r"\left(\sum_{i \in w} x_i^p\right)^{1 / p}"

    norm_type: float
    kernel_size: Size
    stride: Size | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPool, function=ops.lp_pool1d, dims=(2, 3)):
    """The p-norm of each window of a signal: between the sum and the maximum.

    Args:
        norm_type: p.
        kernel_size: the size of the window.
        stride: by how much it moves; default: its size.
        ceil_mode: whether a window may reach beyond the end.
    """


class LPPool2d(_LPPool, function=ops.lp_pool2d, dims=(3, 4)):
    """The p-norm of each window of an image. The arguments are those of ``LPPool1d``, numbers or pairs."""


class LPPool3d(_LPPool, function=ops.lp_pool3d, dims=(4, 5)):
    """The p-norm of each window of a volume. The arguments are those of ``LPPool1d``, numbers or triples."""


@settings("output_size={output_size}")
class _AdaptiveAvgPool(Block):
    output_size: SizeOrNone


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function=ops.adaptive_avg_pool1d, dims=(2, 3)):
    """The mean of each of ``output_size`` windows, whatever the size of the input.

    Args:
        output_size: how many windows there are.
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function=ops.adaptive_avg_pool2d, dims=(3, 4)):
    """The mean of each of ``output_size`` windows; None in the pair keeps that size of the input (Lin et al. 2013)."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function=ops.adaptive_avg_pool3d, dims=(4, 5)):
    """The mean of each of ``output_size`` windows; None in the triple keeps that size of the input."""


@settings("output_size={output_size}")
class _AdaptiveMaxPool(Block):
    __formula__ = r"\max_{i \in w} x_i"

    output_size: SizeOrNone
    return_indices: bool = False


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function=ops.adaptive_max_pool1d, dims=(2, 3)):
    """The largest number of each of ``output_size`` windows, whatever the size of the input.

    Args:
        output_size: how many windows there are.
        return_indices: also return the positions of these numbers.
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function=ops.adaptive_max_pool2d, dims=(3, 4)):
    """The largest number of each of ``output_size`` windows; None in the pair keeps that size of the input."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function=ops.adaptive_max_pool3d, dims=(4, 5)):
    """The largest number of each of ``output_size`` windows; None in the triple keeps that size of the input."""


@settings()
class _FractionalMaxPool(Block):
    __formula__ = r"\max_{i \in w} x_i"

    kernel_size: Size
    output_size: Size | None = None
    output_ratio: Ratio | None = None
    return_indices: bool = False
    _random_samples: torch.Tensor | None = None

    _kept: ClassVar[tuple[str, ...]] = ("_random_samples",)

    def __post_init__(self, *_: Any) -> None:
        rank, name = self._dims[0] - 1, type(self).__name__
        sizes = repeated(self.kernel_size, rank)
        if any(size <= 0 for size in sizes):
            raise ValueError(f"kernel_size must be greater than 0, but got {self.kernel_size}")
        if rank == 3:
            self.kernel_size = sizes
        if self.output_size is None and self.output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if self.output_size is not None and self.output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_size is not None:
            self.output_size = repeated(self.output_size, rank)
        if self.output_ratio is not None:
            ratio = self.output_ratio
            self.output_ratio = repeated(ratio, rank)
            if not all(0 < one < 1 for one in self.output_ratio):
                raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")


class FractionalMaxPool2d(_FractionalMaxPool, function=ops.fractional_max_pool2d, dims=(3, 4)):
    """The largest number of each of the windows, which are placed at random, for any output size (Graham 2014).

    Args:
        kernel_size: the size of the windows.
        output_size: the size of the output; pass it or ``output_ratio``.
        output_ratio: the size of the output divided by that of the input, between 0 and 1.
        return_indices: also return the positions of these numbers.
        _random_samples: where the windows lie, of shape (N, C, 2), instead of at random.
    """


class FractionalMaxPool3d(_FractionalMaxPool, function=ops.fractional_max_pool3d, dims=(4, 5)):
    """The largest number of each randomly placed window. The arguments are those of ``FractionalMaxPool2d``."""
