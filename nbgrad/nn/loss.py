"""Losses as blocks: one number that says how wrong a prediction is."""

from typing import Any

import torch

from nbgrad.core.ops import cross_entropy, mse_loss
from nbgrad.core.tensor import Tensor
from nbgrad.nn.module import Module


class CrossEntropyLoss(Module):
    """How badly scores predict classes: minus the log of the probability that softmax gives the right one.

    Shapes: input (C,), (N, C) or (N, C, d1, ...) scores; target class numbers of that shape without C, or probabilities
    of that shape. Output (), or as the class numbers with ``reduction="none"``.

    Args:
        weight: how much each class counts, of shape (C,); a buffer, saved with the module.
        ignore_index: a class number that counts nothing.
        reduction: "mean", weighted by the classes' weights; "sum"; or "none".
        label_smoothing: how much of the target's probability is spread over all classes (Szegedy et al. 2016).

    Raises:
        IndexError: when called, on a class number out of range.
        ValueError: when called, on another ``reduction``.
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | torch.Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor | torch.Tensor) -> Any:
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Module):
    """Mean squared error between a prediction and its target.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor | torch.Tensor) -> Any:
        return mse_loss(input, target, reduction=self.reduction)
