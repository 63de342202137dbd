"""Normalization over a batch, with running statistics, or within each example: batch, instance, group, layer, RMS norm.

Most blocks bring values to mean 0 and variance 1, and then scale and shift them by learned numbers.
"""

import warnings
from typing import Any, ClassVar

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.function_block import Block, of_shape, wrong_rank
from nbgrad.nn.module.lazy import Lazy
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Device, DType, Parameter, filled, uninitialized

_STANDARDIZED = r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta"
_LOCAL_RESPONSE = r"x_c \left(k + \frac{\alpha}{n} \sum_{j \in w(c)} x_j^2\right)^{-\beta}"


class _Affine(Module):
    """A block with a ``weight`` that starts at 1 and a ``bias`` that starts at 0, or without one of them."""

    weight: Parameter | None
    bias: Parameter | None

    def _make(self, shape: tuple[int, ...], device: Device, dtype: DType, *, weight: bool, bias: bool) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, uninitialized(*shape, device=device, dtype=dtype) if wanted else None)

    def reset_parameters(self) -> None:
        """Start again: no scaling, no shift."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


# Channels over a batch, or within each example: running statistics.


class _Norm(_Affine):
    """A block that normalizes channels, and may keep running statistics of them."""

    __formula__ = _STANDARDIZED

    _dims: ClassVar[tuple[int, ...]]
    _version = 2

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init_subclass__(cls, dims: tuple[int, ...] = (), **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if dims:
            cls._dims = dims

    def _set(
        self,
        *,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Device,
        dtype: DType,
        bias: bool,
    ) -> None:
        """Take the arguments of a constructor."""
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make((num_features,), device, dtype, weight=affine, bias=affine and bias)
        kept = track_running_stats
        for name, value, kind in (
            ("running_mean", 0, dtype),
            ("running_var", 1, dtype),
            ("num_batches_tracked", 0, torch.long),
        ):
            shape = () if kind is torch.long else (num_features,)
            self.register_buffer(name, filled(value, *shape, device=device, dtype=kind) if kept else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the running statistics; where ``track_running_stats`` was switched off, keep them."""
        if not self.track_running_stats:
            return
        for statistic, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if statistic is not None:
                statistic.data.fill_(value)

    def reset_parameters(self) -> None:
        """Start again: no scaling, no shift, no statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _may_be_missing(self, version: int | None) -> tuple[str, ...]:
        return ("num_batches_tracked",) if version is None or version < 2 else ()

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim not in self._dims:
            expected = " or ".join(f"{rank}D" for rank in self._dims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _misfit(self, input: Tensor) -> str | None:
        wrong = wrong_rank(input, self._dims)
        channels = None if wrong else input.shape[self._channel_dim(input)]
        if wrong or channels == self.num_features:
            return wrong
        return f"expected {self.num_features} channels, got {channels}, {of_shape(input)}"

    def _channel_dim(self, _input: Tensor) -> int:
        return 1

    extra_repr = showing(torch.nn.BatchNorm1d)


class BatchNorm(_Norm):
    """Base of the blocks that normalize channels over a batch."""

    @adopting(torch.nn.BatchNorm1d)
    def __init__(self, *, bias: bool = True, **given: Any) -> None:
        self._set(bias=bias, **given)

    def forward(self, input: Tensor) -> Any:
        self._check_rank(input)
        if (self.affine or self.track_running_stats) and input.shape[1] != self.num_features:
            raise RuntimeError(f"expected {self.num_features} channels, got {input.shape[1]}, {of_shape(input)}")
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.data.add_(1)
            if self.momentum is None:
                share = 1.0 / float(self.num_batches_tracked)
        uses_kept = not self.training or self.track_running_stats
        return self._normalized(input, *(self.running_mean, self.running_var) if uses_kept else (None, None), share)

    def _normalized(self, input: Tensor, mean: Tensor | None, var: Tensor | None, share: float) -> Any:
        """The input, normalized by the statistics of the batch or by the running ones.

        Those of the batch change the running ones by a ``share``.
        """
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        return ops.batch_norm(input, mean, var, self.weight, self.bias, of_batch, share, self.eps)


class BatchNorm1d(BatchNorm, dims=(2, 3)):
    """Normalizes each channel over the batch, which lets deep networks train faster (Ioffe and Szegedy 2015).

    In training the mean and the variance are those of the batch, in evaluation the running ones that training kept.

    Shapes: input and output (N, C) or (N, C, L); weight, bias and statistics (C,).

    Args:
        num_features: the number of channels C.
        eps: the number added to the variance, against division by zero.
        momentum: how much of the running statistics a batch replaces; None for the mean of all batches.
        affine: whether it learns a weight and a bias.
        track_running_stats: whether it keeps statistics; without them, evaluation uses those of the batch too.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: when called, if the input has the wrong rank, or only one value per channel in training.
        RuntimeError: when called, if the input has another number of channels.
    """


class BatchNorm2d(BatchNorm, dims=(4,)):
    """Normalizes each channel of images over the batch. The arguments are those of ``BatchNorm1d``.

    Shapes: input and output (N, C, H, W); weight, bias and statistics (C,).
    """


class BatchNorm3d(BatchNorm, dims=(5,)):
    """Normalizes each channel of volumes over the batch. The arguments are those of ``BatchNorm1d``.

    Shapes: input and output (N, C, D, H, W); weight, bias and statistics (C,).
    """


class _InstanceNorm(_Norm):
    @adopting(torch.nn.InstanceNorm1d)
    def __init__(self, *, bias: bool = True, **given: Any) -> None:
        self._set(bias=bias, **given)

    def _channel_dim(self, input: Tensor) -> int:
        return input.ndim - self._dims[0]

    def forward(self, input: Tensor) -> Any:
        self._check_rank(input)
        dim = self._channel_dim(input)
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                    f"but got: {input.shape[dim]}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. num_features is not used because affine=False",
                stacklevel=3,
            )
        alone = dim == 0
        out = ops.instance_norm(
            ops.unsqueeze(input, 0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return ops.squeeze(out, 0) if alone else out


class InstanceNorm1d(_InstanceNorm, dims=(2, 3)):
    """Normalizes each channel of each signal by itself (Ulyanov et al. 2016).

    Shapes: input and output (N, C, L) or (C, L); weight, bias and statistics (C,).

    Args:
        num_features: the number of channels C.
        eps: the number added to the variance, against division by zero.
        momentum: how much of the running statistics a batch replaces.
        affine: whether it learns a weight and a bias.
        track_running_stats: whether it keeps statistics, and uses them in evaluation.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: when called, if the input has another rank, or, with ``affine``, another number of channels.
    """


class InstanceNorm2d(_InstanceNorm, dims=(3, 4)):
    """Normalizes each channel of each image by itself. The arguments are those of ``InstanceNorm1d``.

    Shapes: input and output (N, C, H, W) or (C, H, W); weight, bias and statistics (C,).
    """


class InstanceNorm3d(_InstanceNorm, dims=(4, 5)):
    """Normalizes each channel of each volume by itself. The arguments are those of ``InstanceNorm1d``.

    Shapes: input and output (N, C, D, H, W) or (C, D, H, W); weight, bias and statistics (C,).
    """


# The same, with the number of channels of the first input.


class _LazyNorm(Lazy, _Norm):
    def _learn(self, input: Tensor) -> dict[str, tuple[int, ...]]:
        self.num_features = input.shape[self._channel_dim(input)]
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d, becomes=BatchNorm1d):
    """A ``BatchNorm1d`` that takes ``num_features`` from its first input; its other arguments are the same."""


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d, becomes=BatchNorm2d):
    """A ``BatchNorm2d`` that takes ``num_features`` from its first input; its other arguments are the same."""


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d, becomes=BatchNorm3d):
    """A ``BatchNorm3d`` that takes ``num_features`` from its first input; its other arguments are the same."""


class _LazyInstanceNorm(_LazyNorm):
    @adopting(torch.nn.LazyInstanceNorm1d)
    def __init__(self, *, bias: bool = True, **given: Any) -> None:
        super().__init__(bias=bias, **given)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d, becomes=InstanceNorm1d):
    """An ``InstanceNorm1d``, with weights and statistics by default, that takes ``num_features`` from an input."""


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d, becomes=InstanceNorm2d):
    """An ``InstanceNorm2d``, with weights and statistics by default, that takes ``num_features`` from an input."""


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d, becomes=InstanceNorm3d):
    """An ``InstanceNorm3d``, with weights and statistics by default, that takes ``num_features`` from an input."""


# Groups of channels, and the last dimensions.


class GroupNorm(_Affine):
    """Normalizes groups of channels of each example, whatever the size of the batch (Wu and He 2018).

    Shapes: input and output (N, C, ...); weight and bias (C,).

    Args:
        num_groups: how many groups the channels are divided into.
        num_channels: the number of channels C.
        eps: the number added to the variance, against division by zero.
        affine: whether it learns a weight and a bias.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
        RuntimeError: when called, if the input has another number of channels.
    """

    __formula__ = _STANDARDIZED

    @adopting(torch.nn.GroupNorm)
    def __init__(
        self, num_groups: int, num_channels: int, eps: float, affine: bool, *, bias: bool = True, **place: Any
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), weight=affine, bias=affine and bias, **place)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Any:
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def _misfit(self, input: Tensor) -> str | None:
        if input.ndim < 2:
            return f"expected at least 2 dimensions, got {input.ndim}, {of_shape(input)}"
        if input.shape[1] == self.num_channels:
            return None
        return f"expected {self.num_channels} channels, got {input.shape[1]}, {of_shape(input)}"

    extra_repr = showing(torch.nn.GroupNorm)


class _ShapeNorm(_Affine):
    """A block that normalizes the last dimensions, which have ``normalized_shape``."""

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
        eps: the number added to the variance, against division by zero.
        elementwise_affine: whether it learns a weight and a bias.
        bias: whether it learns a bias, if ``elementwise_affine``.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the last dimensions of the input have other sizes.
    """

    __formula__ = _STANDARDIZED

    @adopting(torch.nn.LayerNorm)
    def __init__(
        self, normalized_shape: Any, eps: float, elementwise_affine: bool, bias: bool, device: Device, dtype: DType
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

    extra_repr = showing(torch.nn.LayerNorm)


class RMSNorm(_ShapeNorm):
    """Divides each example by its root mean square over the last dimensions (Zhang and Sennrich 2019).

    Shapes: input and output (..., *normalized_shape); weight normalized_shape.

    Args:
        normalized_shape: the sizes of the last dimensions; one number for the last.
        eps: the number added to the mean square; default: ``torch.finfo(dtype).eps``.
        elementwise_affine: whether it learns a weight.
        device: where it lives; default: the device of the active graph, else torch's default device.
        dtype: its element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the last dimensions of the input have other sizes.
    """

    __formula__ = r"\frac{x}{\sqrt{\frac{1}{n} \sum_i x_i^2 + \epsilon}} \odot \gamma"

    @adopting(torch.nn.RMSNorm)
    def __init__(
        self, normalized_shape: Any, eps: float | None, elementwise_affine: bool, device: Device, dtype: DType
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = uninitialized(*self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones: no scaling."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Any:
        return ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    extra_repr = showing(torch.nn.RMSNorm)


# Neighbouring channels.


class LocalResponseNorm(Block, function=ops.local_response_norm, torchs=torch.nn.LocalResponseNorm):
    """Divides each number by a power of the mean square of its neighbours in other channels (Krizhevsky et al. 2012).

    Shapes: input and output (N, C, L, ...).

    Args:
        size: how many channels are neighbours.
        alpha: the factor of their mean square.
        beta: the power.
        k: the number added before the power is taken.
    """

    __formula__ = _LOCAL_RESPONSE


class CrossMapLRN2d(Block, dims=(4,), torchs=torch.nn.CrossMapLRN2d):
    """``LocalResponseNorm`` of images, with the numbers of torch's older code.

    That code moves a window over the channels, and never removes the square of the first channel from the sum. So if
    there are more than ``size // 2 + 1`` channels, the output differs from ``LocalResponseNorm``. nbgrad computes
    this output of torch, and the gradient of this output.

    Shapes: input and output (N, C, H, W).

    Args:
        size: how many channels are neighbours.
        alpha: the factor of their mean square.
        beta: the power.
        k: the number added before the power is taken.
    """

    __formula__ = _LOCAL_RESPONSE

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
