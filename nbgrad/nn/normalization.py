"""Normalization of each example by itself: by groups of channels, by its last dimensions, by neighbours."""

from collections.abc import Sequence
from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.core.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.batchnorm import Affine, Device
from nbgrad.nn.block import Block, of_shape, settings
from nbgrad.nn.parameter import uninitialized


class GroupNorm(Affine):
    """Normalizes groups of channels of each example, whatever the size of the batch (Wu and He 2018).

    Shapes: input and output (N, C, ...); weight and bias (C,).

    Args:
        num_groups: how many groups the channels are divided into.
        num_channels: the number of channels C.
        eps: what is added to the variance.
        affine: whether it learns a weight and a bias.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
        RuntimeError: when called, if the input has another number of channels.
    """

    __formula__ = r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta"

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), device, dtype, weight=affine, bias=affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Any:
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def _misfit(self, input: Tensor) -> str | None:
        if input.ndim < 2:
            return f"expected at least 2 dimensions, got {input.ndim}, {of_shape(input)}"
        if input.shape[1] == self.num_channels:
            return None
        return f"expected {self.num_channels} channels, got {input.shape[1]}, {of_shape(input)}"

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _ShapeNorm(Affine):
    """What normalizes the last dimensions, which have ``normalized_shape``."""

    normalized_shape: tuple[int, ...]

    def _misfit(self, input: Tensor) -> str | None:
        shape = self.normalized_shape
        if tuple(input.shape[-len(shape) :]) == shape:
            return None
        expected = f"dimension {shape[0]}" if len(shape) == 1 else f"dimensions {shape}"
        got = tuple(input.shape[-len(shape) :])
        return f"expected last {expected}, got {got[0] if len(got) == 1 else got}, {of_shape(input)}"


class LayerNorm(_ShapeNorm):
    """Normalizes each example over its last dimensions, as transformers do (Ba et al. 2016).

    Shapes: input and output (..., *normalized_shape); weight and bias normalized_shape.

    Args:
        normalized_shape: the sizes of the last dimensions; one number for the last.
        eps: what is added to the variance.
        elementwise_affine: whether it learns a weight and a bias.
        bias: whether it learns a bias, if ``elementwise_affine``.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the input's last dimensions are others.
    """

    __formula__ = r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta"

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._make(self.normalized_shape, device, dtype, weight=affine, bias=affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Any:
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_ShapeNorm):
    """Divides each example by its root mean square over the last dimensions (Zhang and Sennrich 2019).

    Shapes: input and output (..., *normalized_shape); weight normalized_shape.

    Args:
        normalized_shape: the sizes of the last dimensions; one number for the last.
        eps: what is added to the mean square; default: the smallest step of the element type.
        elementwise_affine: whether it learns a weight.
        device: where it lives; default: the device of the active graph, else torch's default device.
        dtype: its element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the input's last dimensions are others.
    """

    __formula__ = r"\frac{x}{\sqrt{\frac{1}{n} \sum_i x_i^2 + \epsilon}} \odot \gamma"

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = uninitialized(*self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start again: no scaling."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Any:
        return ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@settings("{size}, alpha={alpha}, beta={beta}, k={k}")
class LocalResponseNorm(Block, function=ops.local_response_norm):
    """Divides each number by a power of the mean square of its neighbours in other channels (Krizhevsky et al. 2012).

    Shapes: input and output (N, C, L, ...).

    Args:
        size: how many channels are neighbours.
        alpha: the factor of their mean square.
        beta: the power.
        k: what is added to it.
    """

    __formula__ = r"x_c \left(k + \frac{\alpha}{n} \sum_{j \in w(c)} x_j^2\right)^{-\beta}"

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@settings("{size}, alpha={alpha}, beta={beta}, k={k}")
class CrossMapLRN2d(Block, dims=(4,)):
    """``LocalResponseNorm`` of images, as torch's older code has it.

    There the square of the first channel, once it is among the neighbours, is never taken out again: with more
    channels than half of ``size`` the output differs from ``LocalResponseNorm``, and is torch's. The gradient is that
    of this output.

    Shapes: input and output (N, C, H, W).

    Args:
        size: how many channels are neighbours.
        alpha: the factor of their mean square.
        beta: the power.
        k: what is added to it.
    """

    __formula__ = r"x_c \left(k + \frac{\alpha}{n} \sum_{j \in w(c)} x_j^2\right)^{-\beta}"

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1

    def forward(self, input: Tensor) -> Any:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        neighbours = _neighbours(input.shape[1], self.size).to(input.device, input.dtype)
        squares = ops.einsum("dc,nchw->ndhw", neighbours, input * input)
        return input * (squares * (self.alpha / self.size) + self.k) ** -self.beta


def _neighbours(channels: int, size: int) -> torch.Tensor:
    """For each channel, which others are added up for it: 1 or 0."""
    reach = (size - 1) // 2 + 1  # what torch's int((size - 1) / 2 + 1) is
    first = torch.arange(channels)[:, None]
    other = torch.arange(channels)[None, :]
    inside = (other < first + reach) & (other > first - reach)
    return inside | ((other == 0) & (first >= reach))
