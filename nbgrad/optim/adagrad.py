"""Adagrad: steps scaled by all gradients so far."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adagrad(TorchOptimizer):
    r"""Divides by the root of the sum of all squared gradients so far (Duchi et al. 2011).

    :math:`s \leftarrow s + g^2`, :math:`\theta \leftarrow \theta - \eta_t\, g / (\sqrt{s} + \epsilon)`: a parameter
    that rarely gets a gradient takes long steps when it does, as the embedding of a rare word should.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        lr_decay: how fast the learning rate falls, :math:`\eta_t = \eta / (1 + (t - 1) \cdot decay)`.
        weight_decay: how strongly parameters are pulled to zero.
        initial_accumulator_value: the initial value of the sums.
        eps: added to the denominator, against division by zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is negative.
    """

    torchs = torch.optim.Adagrad

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            fused=fused,
        )
