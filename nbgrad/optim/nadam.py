"""NAdam: Adam with Nesterov's momentum."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class NAdam(TorchOptimizer):
    r"""Adam that looks one step ahead, as Nesterov's momentum does (Dozat 2016).

    A step uses the fraction :math:`\mu_t = \beta_1 (1 - 0.96^{t \psi} / 2)` of the average, which grows to
    :math:`\beta_1`. The step estimates the average after the next gradient: it takes the present gradient in place of
    the next.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        momentum_decay: how fast :math:`\mu_t` grows, :math:`\psi`.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.NAdam

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
        )
