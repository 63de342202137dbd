"""RMSprop: steps scaled by a running average of squared gradients."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class RMSprop(TorchOptimizer):
    r"""Divides by the root of a running average of squared gradients (Hinton 2012; Graves 2013 where centered).

    :math:`v \leftarrow \alpha v + (1 - \alpha) g^2` and
    :math:`\theta \leftarrow \theta - \eta\, g / (\sqrt{v} + \epsilon)`. It forgets old gradients, which
    Adagrad does not, so that steps don't shrink for good.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        alpha: how much of the average is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        momentum: how much of the last step is kept.
        centered: divide by the variance, the average of squares less the square of the average.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is negative.
    """

    torchs = torch.optim.RMSprop

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
