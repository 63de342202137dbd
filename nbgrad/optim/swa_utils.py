"""Averages of a model over its training: often better than the model after the last step, at no cost in training.

The formulas and the schedule are torch's own; ``AveragedModel`` is a ``Module`` of nbgrad.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch.optim.swa_utils import (
    SWALR,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
)

from nbgrad.core.engine.state import no_grad, restoring, tell_changed
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]
MultiAverage = Callable[[list[torch.Tensor], list[torch.Tensor], Any], None]

_ALIKE: Average = get_swa_avg_fn()  # type: ignore[no-untyped-call]  # torch gives it no types
_ALL_ALIKE: MultiAverage = get_swa_multi_avg_fn()  # type: ignore[no-untyped-call]


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of the model's at all calls of ``update_parameters``.

    Without further arguments all calls count the same: this is stochastic weight averaging (Izmailov et al. 2018). With
    ``multi_avg_fn=get_ema_multi_avg_fn(0.999)`` it is the exponential moving average, from which image generators are
    sampled.

    Args:
        model: the model to average.
        device: where the average lives; default: where the model does.
        avg_fn: ``avg_fn(average, value, n_averaged)`` gives the new average, of raw torch tensors.
        multi_avg_fn: the same for lists of them, in place.
        use_buffers: whether buffers are averaged too, and not copied from the model.

    Attributes:
        module: the averaged model.
        n_averaged: how many models it is the average of.

    Raises:
        AssertionError: both ``avg_fn`` and ``multi_avg_fn`` are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: torch.device | str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of ``model``, as they are now, into the average."""
        averages, values = _pairs(self.module.parameters(), model.parameters())
        buffers, theirs = _pairs(self.module.buffers(), model.buffers())
        if self.use_buffers:
            averages, values, buffers, theirs = [*averages, *buffers], [*values, *theirs], [], []
        count = self.n_averaged.data
        copied = [*zip(buffers, theirs, strict=True)]
        if count.item() == 0:
            copied += zip(averages, values, strict=True)
        else:
            self._average(averages, values, count)
        for target, source in copied:
            target.copy_(source)
        count.add_(1)
        tell_changed([*averages, *buffers], f"{type(self).__name__}.update_parameters()")

    def _average(self, averages: list[torch.Tensor], values: list[torch.Tensor], count: torch.Tensor) -> None:
        batches: dict[Any, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for average, value in zip(averages, values, strict=True):
            batches.setdefault((average.device, average.dtype), []).append((average, value))
        for (device, dtype), pairs in batches.items():
            single, here = self.avg_fn, count.to(device)
            if self.multi_avg_fn is None and not (dtype.is_floating_point or dtype.is_complex):
                single = single or _ALIKE
            if single is not None:
                for average, value in pairs:
                    average.copy_(single(average, value, here))
            else:
                # With an integer tensor as count, torch's own formula computes in float32. So it gets a Python number.
                multi, taken = (self.multi_avg_fn, here) if self.multi_avg_fn else (_ALL_ALIKE, count.item())
                multi([average for average, _ in pairs], [value for _, value in pairs], taken)


@restoring
def update_bn(loader: Iterable[Any], model: Module, device: torch.device | str | None = None) -> None:
    """Measure the statistics of every batch normalization anew, because ``AveragedModel`` does not average them.

    Args:
        loader: batches, each a tensor or a list whose first element is what the model gets.
        model: the averaged model.
        device: where batches are moved to; default: they stay where they are.
    """
    norms = [module for module in model.modules() if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    if not norms:
        return
    momenta, training = [norm.momentum for norm in norms], model.training
    try:
        model.train()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the average of all batches alike
        for batch in loader:
            given = batch[0] if isinstance(batch, list | tuple) else batch
            with no_grad():
                model(tensor(given, device=device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(training)


def _pairs(ours: Any, theirs: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The data of two models; those of the second are moved to the devices of the first."""
    own: Sequence[Tensor] = list(ours)
    return [one.data for one in own], [other.data.to(one.device) for one, other in zip(own, theirs, strict=True)]
