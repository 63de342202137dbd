"""Stochastic gradient descent."""

from typing import Any

import torch
from torch.optim.sgd import sgd

from nbgrad.core.tensor.tensor import Tensor
from nbgrad.optim.optimizer import Tensors
from nbgrad.optim.torch_optimizer import TorchOptimizer

_SETTINGS = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize", "foreach")


class SGD(TorchOptimizer):
    r"""Steps against the gradient, :math:`\theta \leftarrow \theta - \eta v`, optionally with momentum.

    With momentum :math:`v \leftarrow \mu v + (1 - \tau) g`, which keeps going where gradients agree and damps where
    they alternate (Polyak 1964); Nesterov's form looks one step ahead (Sutskever et al. 2013).

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        momentum: how much of the last step is kept.
        dampening: the fraction of each gradient that is not added to the momentum.
        weight_decay: how strongly parameters are pulled to zero.
        nesterov: whether to use Nesterov's momentum.
        maximize: step along the gradient instead of against it.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is negative, or Nesterov's momentum is asked for without momentum or with dampening.
    """

    torchs = torch.optim.SGD

    def update(self, params: list[Tensor], grads: Tensors, group: dict[str, Any]) -> None:
        """Change the data of ``params`` in place by their gradients ``grads``, with the settings of ``group``."""
        if group["fused"]:  # the fused kernel needs torch's optimizer, for GradScaler
            super().update(params, grads, group)
            return
        data, momentum = [param._data for param in params], group["momentum"]
        if _is_plain(group):
            torch._foreach_add_(data, grads, alpha=-group["lr"])  # torch does only this too, after many checks
            return
        buffers = [self.state[param].get("momentum_buffer") if momentum else None for param in params]
        settings = {name: group[name] for name in _SETTINGS}
        if not group["nesterov"]:  # torch's foreach kernels would leave its step in the gradients, which are the user's
            settings |= self._kernels(data, group)
        sgd(data, list(grads), buffers, **settings)
        if momentum:
            for param, buffer in zip(params, buffers, strict=True):
                self.state[param]["momentum_buffer"] = buffer


def _is_plain(group: dict[str, Any]) -> bool:
    """Whether a step is the gradient times the learning rate and nothing else."""
    more = group["momentum"] or group["weight_decay"] or group["maximize"] or group["foreach"] is False
    return not more and not isinstance(group["lr"], torch.Tensor)
