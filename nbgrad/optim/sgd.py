"""Stochastic gradient descent."""

from typing import Any

import torch

from nbgrad.core.tensor import Tensor
from nbgrad.optim.optimizer import Optimizer, Params, Tensors


class SGD(Optimizer):
    r"""Steps against the gradient, :math:`\theta \leftarrow \theta - \eta v`, with momentum if asked for.

    With momentum :math:`v \leftarrow \mu v + (1 - \tau) g`, which keeps going where gradients agree and damps where
    they alternate (Polyak 1964); Nesterov's form looks one step ahead (Sutskever et al. 2013).

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        momentum: how much of the last step is kept.
        dampening: how much of the gradient momentum leaves out.
        weight_decay: how strongly parameters are pulled to zero.
        nesterov: whether to use Nesterov's momentum.
        maximize: step along the gradient instead of against it.

    Raises:
        ValueError: a setting is negative, or Nesterov's momentum is asked for without momentum or with dampening.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        for name, value in {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}.items():
            if value < 0:
                raise ValueError(f"SGD: {name} must not be negative, got {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum requires a momentum and zero dampening")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "nesterov": nesterov, "maximize": maximize})

    def update(self, params: list[Tensor], grads: Tensors, group: dict[str, Any]) -> None:
        """Change the data of ``params`` in place by their gradients ``grads``, with the settings of ``group``."""
        data = [param.data for param in params]
        steps: Tensors = grads
        if group["maximize"]:
            steps = torch._foreach_neg(steps)
        if group["weight_decay"]:
            steps = torch._foreach_add(steps, data, alpha=group["weight_decay"])
        if group["momentum"]:
            buffers = self._buffers(params, steps, group["momentum"], 1 - group["dampening"])
            steps = torch._foreach_add(steps, buffers, alpha=group["momentum"]) if group["nesterov"] else buffers
        torch._foreach_add_(data, steps, alpha=-group["lr"])

    def _buffers(self, params: list[Tensor], steps: Tensors, momentum: float, share: float) -> Tensors:
        """The momentum of each parameter with this step taken in; the first step starts it undampened, as in torch."""
        held, taken = [], []
        for param, step in zip(params, steps, strict=True):
            buffer = self.state[param].get("momentum_buffer")
            if buffer is None:
                self.state[param]["momentum_buffer"] = step.clone()
            else:
                held.append(buffer)
                taken.append(step)
        if held:
            torch._foreach_mul_(held, momentum)
            torch._foreach_add_(held, taken, alpha=share)
        return [self.state[param]["momentum_buffer"] for param in params]
