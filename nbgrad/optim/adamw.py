"""AdamW: Adam whose weight decay is not divided by the size of the gradients."""

from typing import Any

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class AdamW(TorchOptimizer):
    r"""Adam whose weight decay pulls at the parameters themselves (Loshchilov and Hutter 2019).

    It computes :math:`\theta \leftarrow \theta - \eta \lambda \theta` before Adam's step. ``Adam`` adds the decay to
    the gradient. There it is divided by :math:`\sqrt{\hat{v}}` too, so that it is weakest where gradients are large.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        amsgrad: divide by the largest average of squares so far instead of by the latest (Reddi et al. 2018).
        maximize: step along the gradient instead of against it.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.AdamW

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where another optimizer stopped. If that was an Adam, weight decay still works as in AdamW."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
