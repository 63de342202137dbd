"""Normalization of channels, over a batch or of each example, with running statistics of them.

Values are brought to mean 0 and variance 1, then scaled and shifted by learned numbers.
"""

import warnings
from typing import Any, ClassVar

import torch

from nbgrad.core import ops
from nbgrad.core.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.block import of_shape, wrong_rank
from nbgrad.nn.lazy import Lazy
from nbgrad.nn.module import Module
from nbgrad.nn.parameter import Parameter, filled, uninitialized

Device = torch.device | str | None


class Affine(Module):
    """What has a ``weight`` that starts at 1, and a ``bias`` that starts at 0, or does without."""

    weight: Parameter | None
    bias: Parameter | None

    def _make(
        self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None, *, weight: bool, bias: bool
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, uninitialized(*shape, device=device, dtype=dtype) if wanted else None)

    def reset_parameters(self) -> None:
        """Start again: no scaling, no shift."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _Norm(Affine):
    """What normalizes channels, and may keep running statistics of them."""

    __formula__ = r"\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta"

    _dims: ClassVar[tuple[int, ...]]
    _version = 2

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init_subclass__(cls, dims: tuple[int, ...] = (), **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if dims:
            cls._dims = dims

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
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

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
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
        mean, var = (self.running_mean, self.running_var) if uses_kept else (None, None)
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        return ops.batch_norm(input, mean, var, self.weight, self.bias, of_batch, share, self.eps)


class BatchNorm1d(_BatchNorm, dims=(2, 3)):
    """Normalizes each channel over the batch, which lets deep networks train faster (Ioffe and Szegedy 2015).

    In training the mean and the variance are those of the batch, in evaluation the running ones that training kept.

    Shapes: input and output (N, C) or (N, C, L); weight, bias and statistics (C,).

    Args:
        num_features: the number of channels C.
        eps: what is added to the variance.
        momentum: how much of the running statistics a batch replaces; None for the mean of all batches.
        affine: whether it learns a weight and a bias.
        track_running_stats: whether it keeps statistics; without them, evaluation uses those of the batch too.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: when called, if the input has another rank, or one value per channel in training.
        RuntimeError: when called, if the input has another number of channels.
    """


class BatchNorm2d(_BatchNorm, dims=(4,)):
    """Normalizes each channel of images over the batch. The arguments are those of ``BatchNorm1d``.

    Shapes: input and output (N, C, H, W); weight, bias and statistics (C,).
    """


class BatchNorm3d(_BatchNorm, dims=(5,)):
    """Normalizes each channel of volumes over the batch. The arguments are those of ``BatchNorm1d``.

    Shapes: input and output (N, C, D, H, W); weight, bias and statistics (C,).
    """


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

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
        eps: what is added to the variance.
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


class _LazyNorm(Lazy, _Norm):
    def _learn(self, input: Tensor) -> dict[str, tuple[int, ...]]:
        self.num_features = input.shape[self._channel_dim(input)]
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d, becomes=BatchNorm1d):
    """A ``BatchNorm1d`` that takes ``num_features`` from the first input that it is called on; else its arguments."""


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d, becomes=BatchNorm2d):
    """A ``BatchNorm2d`` that takes ``num_features`` from the first input that it is called on; else its arguments."""


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d, becomes=BatchNorm3d):
    """A ``BatchNorm3d`` that takes ``num_features`` from the first input that it is called on; else its arguments."""


class _LazyInstanceNorm(_LazyNorm):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d, becomes=InstanceNorm1d):
    """An ``InstanceNorm1d``, with weights and statistics by default, that takes ``num_features`` from an input."""


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d, becomes=InstanceNorm2d):
    """An ``InstanceNorm2d``, with weights and statistics by default, that takes ``num_features`` from an input."""


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d, becomes=InstanceNorm3d):
    """An ``InstanceNorm3d``, with weights and statistics by default, that takes ``num_features`` from an input."""
