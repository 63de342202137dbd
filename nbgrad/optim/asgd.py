"""ASGD: gradient descent that averages where it has been."""

from typing import Any

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class ASGD(TorchOptimizer):
    r"""Gradient descent that also averages the parameters of all its steps (Polyak and Juditsky 1992).

    The learning rate falls as :math:`\eta / (1 + \lambda \eta t)^\alpha`. From step ``t0`` on, ``state[p]["ax"]`` is
    the average, which is nearer to the minimum than the last step when gradients are noisy.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        lambd: how fast the learning rate falls; parameters decay by it too.
        alpha: the power in which the learning rate falls.
        t0: the step from which on the average is taken.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.

    Raises:
        ValueError: the learning rate or the weight decay is negative.
    """

    torchs = torch.optim.ASGD

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            lambd=lambd,
            alpha=alpha,
            t0=t0,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )

    def _kernels(self, data: list[torch.Tensor], group: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Torch's choice: its foreach kernels round the learning rate to float32, so they are not taken unasked."""
        return {}
