"""Adamax: Adam with the largest gradient in place of the average of squares."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adamax(TorchOptimizer):
    r"""Divides an average of the gradients by a decaying maximum of their sizes (Kingma and Ba 2015, section 7).

    :math:`u \leftarrow \max(\beta_2 u, |g| + \epsilon)` and
    :math:`\theta \leftarrow \theta - \eta / (1 - \beta_1^t) \cdot m / u`: calm where a single gradient is large.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the average of gradients and of their maximum is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adamax

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
