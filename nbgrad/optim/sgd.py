"""Stochastic gradient descent."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torchs import TorchOptimizer


class SGD(TorchOptimizer):
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
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is negative, or Nesterov's momentum is asked for without momentum or with dampening.
    """

    torchs = torch.optim.SGD

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | torch.Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
