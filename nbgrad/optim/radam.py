"""RAdam: Adam that waits with scaling until it knows the scale."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class RAdam(TorchOptimizer):
    r"""Adam whose first steps are not scaled, as too few gradients were seen (Liu et al. 2020).

    Steps are multiplied by a factor below 1. It grows with the number of gradients in the average of squares. With
    fewer than five, a step is plain momentum. So RAdam, unlike Adam, needs no warm-up of the learning rate.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.RAdam

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
        )
