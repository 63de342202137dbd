"""Pooling: a smaller signal, image or volume, each of whose numbers stands for a window of the input.

Shapes: input (N, C, ...) or (C, ...), with one, two or three dimensions more; output the same with smaller ones.
"""

from typing import Any, ClassVar

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.function_block import Block, repeated


class _Window(Block):
    """Pools whose step, if it is not given, is the size of their window."""

    def _adjust(self, given: dict[str, Any]) -> None:
        given["stride"] = given["kernel_size"] if given["stride"] is None else given["stride"]


class _MaxPool(_Window, torchs=torch.nn.MaxPool1d):
    __formula__ = r"\max_{i \in w} x_i"


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


class _MaxUnpool(Block, torchs=torch.nn.MaxUnpool1d):
    __formula__ = r"y_{i_k} = x_k \text{, else } 0"

    def _adjust(self, given: dict[str, Any]) -> None:
        rank = self._dims[0] - 1
        given["stride"] = repeated(given["kernel_size"] if given["stride"] is None else given["stride"], rank)
        given["kernel_size"] = repeated(given["kernel_size"], rank)
        given["padding"] = repeated(given["padding"], rank)

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


class AvgPool1d(_Window, function=ops.avg_pool1d, dims=(2, 3), torchs=torch.nn.AvgPool1d):
    """The mean of each window of a signal.

    Args:
        kernel_size: the size of the window.
        stride: by how much it moves; default: its size.
        padding: how many zeros are added at both ends.
        ceil_mode: whether a window may reach beyond the end.
        count_include_pad: whether those zeros count.
    """

    def _adjust(self, given: dict[str, Any]) -> None:
        super()._adjust(given)
        given["kernel_size"] = repeated(given["kernel_size"], 1)
        given["stride"] = repeated(given["stride"], 1)
        given["padding"] = repeated(given["padding"], 1)


class AvgPool2d(_Window, function=ops.avg_pool2d, dims=(3, 4), torchs=torch.nn.AvgPool2d):
    """The mean of each window of an image. The arguments are those of ``AvgPool1d``, numbers or pairs.

    Args:
        divisor_override: the divisor of the sum of a window; default: the size of the window.
    """


class AvgPool3d(_Window, function=ops.avg_pool3d, dims=(4, 5), torchs=torch.nn.AvgPool3d):
    """The mean of each window of a volume. The arguments are those of ``AvgPool2d``, numbers or triples."""


class _LPPool(Block, torchs=torch.nn.LPPool1d):
    __formula__ = r"\left(\sum_{i \in w} x_i^p\right)^{1 / p}"


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


class AdaptiveAvgPool1d(Block, function=ops.adaptive_avg_pool1d, dims=(2, 3), torchs=torch.nn.AdaptiveAvgPool1d):
    """The mean of each of ``output_size`` windows, whatever the size of the input.

    Args:
        output_size: how many windows there are.
    """


class AdaptiveAvgPool2d(Block, function=ops.adaptive_avg_pool2d, dims=(3, 4), torchs=torch.nn.AdaptiveAvgPool2d):
    """The mean of each of ``output_size`` windows; None in the pair keeps that size of the input (Lin et al. 2013)."""


class AdaptiveAvgPool3d(Block, function=ops.adaptive_avg_pool3d, dims=(4, 5), torchs=torch.nn.AdaptiveAvgPool3d):
    """The mean of each of ``output_size`` windows; None in the triple keeps that size of the input."""


class _AdaptiveMaxPool(Block, torchs=torch.nn.AdaptiveMaxPool1d):
    __formula__ = r"\max_{i \in w} x_i"


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


class _FractionalMaxPool(Block, torchs=torch.nn.FractionalMaxPool2d):
    __formula__ = r"\max_{i \in w} x_i"

    _kept: ClassVar[tuple[str, ...]] = ("_random_samples",)

    def _adjust(self, given: dict[str, Any]) -> None:
        rank, name = self._dims[0] - 1, type(self).__name__
        sizes = repeated(given["kernel_size"], rank)
        if any(size <= 0 for size in sizes):
            raise ValueError(f"kernel_size must be greater than 0, but got {given['kernel_size']}")
        if rank == 3:
            given["kernel_size"] = sizes
        if given["output_size"] is None and given["output_ratio"] is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if given["output_size"] is not None and given["output_ratio"] is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if given["output_size"] is not None:
            given["output_size"] = repeated(given["output_size"], rank)
        if given["output_ratio"] is not None:
            ratio = given["output_ratio"]
            given["output_ratio"] = repeated(ratio, rank)
            if not all(0 < one < 1 for one in given["output_ratio"]):
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
