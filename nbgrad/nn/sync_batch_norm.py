"""SyncBatchNorm: batch normalization over the batches of all processes of a group."""

from typing import Any

import torch

from nbgrad.core.dispatch.function import Function
from nbgrad.core.engine.state import current, is_grad_enabled
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.adopted import adopting
from nbgrad.nn.function_block import of_shape
from nbgrad.nn.module.module import Module
from nbgrad.nn.normalization import BatchNorm


class SyncBatchNorm(BatchNorm, dims=tuple(range(2, 65))):  # up to 64 dimensions, torch's limit
    """Normalizes each channel over the batches of all processes, as if they were one batch.

    In training the mean and the variance are those of all batches together, which may differ in size, and gradients go
    through both into all processes. In evaluation, and in a group of one process, it is ``BatchNorm1d``. It works on
    CPUs too. Every process of the group has to call it, also one whose batch is empty.

    Shapes: input and output (N, C, *); weight, bias and statistics (C,).

    Args:
        num_features: the number of channels C.
        eps: the number added to the variance, against division by zero.
        momentum: how much of the running statistics a batch replaces; None for the mean of all batches.
        affine: whether it learns a weight and a bias.
        track_running_stats: whether it keeps statistics; without them, evaluation uses those of the batch too.
        process_group: the processes; default: all of ``torch.distributed.init_process_group``.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        bias: whether it learns a bias, if ``affine``.

    Raises:
        ValueError: when called, if the input has fewer than two dimensions or no channels, or all processes together
            have one value per channel in training.
        RuntimeError: when called, if the input has another number of channels, or another process has ended.
    """

    @adopting(torch.nn.SyncBatchNorm)
    def __init__(self, process_group: Any, *, bias: bool = True, **given: Any) -> None:
        self._set(bias=bias, **given)
        self.process_group = process_group

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError(f"SyncBatchNorm needs at least one channel, got an input {of_shape(input)}")

    def _misfit(self, input: Tensor) -> str | None:
        return None if input.ndim < 2 else super()._misfit(input)

    def _normalized(self, input: Tensor, mean: Tensor | None, var: Tensor | None, share: float) -> Any:
        group = self._group()
        if group is None:
            return super()._normalized(input, mean, var, share)
        if current().tracer is not None:
            raise NotImplementedError("a program cannot hold the messages of SyncBatchNorm: trace it with eval()")
        return SynchronizedNorm.apply(
            input,
            self.weight,
            self.bias,
            _Exchange(self.eps, group, share, *(None if one is None else one.data for one in (mean, var))),
        )

    def _group(self) -> Any:
        """The group over which it normalizes; None where there are no others."""
        import torch.distributed as dist

        if not self.training or not dist.is_available() or not dist.is_initialized():
            return None
        group = self.process_group or dist.group.WORLD
        return group if dist.get_world_size(group) > 1 else None

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Put a ``SyncBatchNorm`` in place of each batch normalization in ``module``, with its parameters and buffers.

        Call it before the module is wrapped in ``DistributedDataParallel``.

        Args:
            module: the module, which is changed in place.
            process_group: the processes of the new blocks; default: all.

        Returns:
            ``module``; or the new block where ``module`` is a batch normalization itself.
        """
        made = module
        if isinstance(module, BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name, role in module._roles.items():
                if role != "module":
                    made._register(name, getattr(module, name), role)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _Exchange:
    """The arguments of a ``SynchronizedNorm`` besides the tensors that get gradients."""

    def __init__(
        self, eps: float, group: Any, share: float, running_mean: torch.Tensor | None, running_var: torch.Tensor | None
    ) -> None:
        self.eps = eps
        self.group = group
        self.share = share
        self.running = running_mean, running_var

    def sum(self, data: torch.Tensor) -> torch.Tensor:
        """The sum of ``data`` over the processes, in its memory."""
        from nbgrad.nn.parallel.peers import peers_of

        peers = peers_of(self.group, data.device)
        peers.wait(peers.all_reduce(data), "summing the statistics of a SyncBatchNorm")
        return data

    def keep(self, mean: torch.Tensor, var: torch.Tensor, count: float) -> None:
        """Move the running statistics towards those of this batch; the variance without its bias."""
        for kept, found in zip(self.running, (mean, var * (count / (count - 1))), strict=True):
            if kept is not None:
                kept.lerp_(found.to(kept.dtype), self.share)


class SynchronizedNorm(Function):
    """Normalizes each channel over the batches of all processes."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, settings: _Exchange) -> Any:
        x = input.data
        mean, var, count = _statistics(x, settings)
        if count < 2:
            raise ValueError(
                f"SyncBatchNorm needs more than one value per channel to train, and all processes together have "
                f"{count:.0f}: train with a larger batch, or call eval()"
            )
        settings.keep(mean, var, count)
        ctx.settings, ctx.statistics = settings, (mean, var, count)
        ctx.save_for_backward(input, weight, bias)
        if not x.numel():
            return Tensor(torch.empty_like(x))
        w, b = (None if one is None else one.data for one in (weight, bias))
        return Tensor(torch.batch_norm(x, w, b, mean, var, False, 0.0, settings.eps, False))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        input, weight, bias = ctx.saved_tensors
        settings: _Exchange = ctx.settings
        if is_grad_enabled():  # a gradient that is itself differentiated
            wanted = [one for one, needed in zip((input, weight, bias), ctx.needs_input_grad, strict=False) if needed]
            found = iter(grad(composed(input, weight, bias, settings), wanted, g, create_graph=True))
            return *(next(found) if needed else None for needed in ctx.needs_input_grad[:3]), None
        mean, var, count = ctx.statistics
        x, given = input.data, g.data
        w = None if weight is None else weight.data
        channels = x.shape[1]
        if x.numel():
            passed, for_weight, for_bias = torch.ops.aten.native_batch_norm_backward(
                given, x, w, mean, var, None, None, False, settings.eps, [True, True, True]
            )
        else:
            passed, for_weight, for_bias = torch.zeros_like(x), mean.new_zeros(channels), mean.new_zeros(channels)
        if ctx.needs_input_grad[0]:
            both = torch.cat([for_bias, for_weight]).to(mean.dtype)
            sums = settings.sum(both).div_(count)
            scale = torch.rsqrt(var + settings.eps)
            weighted = scale if w is None else scale * w.to(scale.dtype)
            slope = sums[channels:] * scale * weighted
            shape = (1, channels) + (1,) * (x.ndim - 2)
            level = (sums[:channels] * weighted - slope * mean).view(shape)
            passed = (passed - (x * slope.view(shape) + level)).to(x.dtype)
        kinds = [None if one is None else one.dtype for one in (weight, bias)]
        others = [
            Tensor(found.to(kind)) if kind is not None and needed else None
            for found, kind, needed in zip((for_weight, for_bias), kinds, ctx.needs_input_grad[1:3], strict=True)
        ]
        return Tensor(passed) if ctx.needs_input_grad[0] else None, *others, None


def _statistics(x: torch.Tensor, settings: _Exchange) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Mean and variance of each channel over all processes, and how many values a channel has there."""
    from nbgrad.nn.parallel.peers import peers_of

    kind = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    peers, channels = peers_of(settings.group, x.device), x.shape[1]
    every = torch.zeros(peers.size, 2 * channels + 1, dtype=kind, device=x.device)
    if x.numel():
        dims = [dim for dim in range(x.ndim) if dim != 1]
        var, mean = torch.var_mean(x.to(kind), dims, correction=0)
        every[peers.rank] = torch.cat([mean, var, mean.new_tensor([x.numel() // channels])])
    settings.sum(every)  # each process has written one row, so the sum has all of them
    means, variances, counts = every[:, :channels], every[:, channels:-1], every[:, -1:]
    count = counts.sum()
    mean = (means * counts).sum(0) / count
    var = ((variances + (means - mean).square()) * counts).sum(0) / count
    return mean, var, float(count)


class SummedOverProcesses(Function):
    """The sum over all processes; its gradient is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, settings: _Exchange) -> Any:
        ctx.settings = settings
        return Tensor(settings.sum(input.data.clone(memory_format=torch.contiguous_format)))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return SummedOverProcesses.apply(g, ctx.settings), None


def composed(input: Tensor, weight: Tensor | None, bias: Tensor | None, settings: _Exchange) -> Any:
    """The output of ``SynchronizedNorm``, computed by ops that can be differentiated any number of times."""
    dims = [dim for dim in range(input.ndim) if dim != 1]
    shape = (1, input.shape[1]) + (1,) * (input.ndim - 2)
    held = torch.tensor(float(input.numel() // input.shape[1]), dtype=input.dtype, device=input.device)
    count = settings.sum(held)
    mean = SummedOverProcesses.apply(input.sum(dims), settings) / count
    centred = input - mean.reshape(shape)
    var = SummedOverProcesses.apply(centred.square().sum(dims), settings) / count
    out = centred * (var + settings.eps).rsqrt().reshape(shape)
    if weight is not None:
        out = out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)
