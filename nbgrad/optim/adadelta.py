"""Adadelta: steps scaled by the steps before."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adadelta(TorchOptimizer):
    r"""Scales steps by the ratio of the sizes of past steps and past gradients (Zeiler 2012).

    :math:`v \leftarrow \rho v + (1 - \rho) g^2`, :math:`\Delta = \sqrt{u + \epsilon} / \sqrt{v + \epsilon} \cdot g`,
    :math:`u \leftarrow \rho u + (1 - \rho) \Delta^2` and :math:`\theta \leftarrow \theta - \eta \Delta`: steps have the
    unit of the parameters, so that you need not search for a learning rate.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        rho: how much of both averages is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adadelta

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            rho=rho,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            capturable=capturable,
            maximize=maximize,
            differentiable=differentiable,
        )
