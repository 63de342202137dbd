"""Adam: steps scaled by running averages of gradients and of their squares."""

from typing import ClassVar

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adam(TorchOptimizer):
    r"""Divides an average of the gradients by the root of an average of their squares (Kingma and Ba 2015).

    :math:`m \leftarrow \beta_1 m + (1 - \beta_1) g`, :math:`v \leftarrow \beta_2 v + (1 - \beta_2) g^2`, and
    :math:`\theta \leftarrow \theta - \eta\, \hat{m} / (\sqrt{\hat{v}} + \epsilon)`, where the hats correct that both
    averages begin at zero. A step is about as long as the learning rate, whatever the scale of the gradients.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        amsgrad: divide by the largest average of squares so far instead of by the latest (Reddi et al. 2018).
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.

    Raises:
        ValueError: a setting is out of its range.
        NotImplementedError: ``decoupled_weight_decay`` is asked for, and torch is older than 2.7.
    """

    torchs = torch.optim.Adam
    _takes: ClassVar = {"decoupled_weight_decay": "torch 2.7 or newer; AdamW does the same with any version"}

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
