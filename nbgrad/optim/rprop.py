"""Rprop: steps that depend on signs alone."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Rprop(TorchOptimizer):
    r"""Moves each number against the sign of its gradient, by a step size of its own (Riedmiller and Braun 1993).

    A step size is multiplied by the second of ``etas`` while the sign of the gradient stays, and by the first when the
    sign changes, because the step went past a minimum. Use it with gradients of all data: the signs of gradients of
    batches are too noisy.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the length of the first step.
        etas: the factors by which a step size shrinks and grows.
        step_sizes: the smallest and the largest step size.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Rprop

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
