"""Muon: momentum whose matrices are made orthogonal."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Muon(TorchOptimizer):
    r"""Steps along the orthogonal matrix nearest to the momentum (Jordan et al. 2024); for matrices alone.

    A few Newton-Schulz iterations turn the singular values of the momentum to about 1, so that directions that few
    gradients point to are learned as fast as the rest. Biases and embeddings are left to another optimizer, such as
    AdamW.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        weight_decay: how strongly parameters are pulled to zero.
        momentum: how much of the average of gradients is kept.
        nesterov: whether to use Nesterov's momentum.
        ns_coefficients: the polynomial that each iteration applies.
        eps: added to the denominator, against division by zero.
        ns_steps: how many iterations there are, a whole number.
        adjust_lr_fn: how the step depends on the shape: "original" (also for None) or "match_rms_adamw", which fits
            learning rates found for AdamW.

    Raises:
        ValueError: a setting is out of its range, or a parameter does not have two dimensions.
        TypeError: a setting is no number, or ``ns_steps`` is no integer.
    """

    torchs = torch.optim.Muon
    _whole = frozenset({"ns_steps"})

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )
