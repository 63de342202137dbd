"""Losses that want a margin: between a right class and the wrong ones, or between what is near and what is far."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from nbgrad.core import ops
from nbgrad.core.tensor import Tensor
from nbgrad.nn.block import settings
from nbgrad.nn.distance import PairwiseDistance
from nbgrad.nn.loss import Given, Loss, Old, WeightedLoss

# Of classes.


@settings()
class MultiLabelMarginLoss(Loss, function=ops.multilabel_margin_loss):
    """By how much right classes fail to be 1 above wrong ones, where several are right.

    Shapes: input (N, C) or (C,); target alike, the right class numbers and then -1; output (), or (N,) with
    ``reduction="none"``.
    """

    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"


@settings()
class MultiMarginLoss(WeightedLoss, function=ops.multi_margin_loss):
    """By how much the right class fails to be ``margin`` above the others (Crammer and Singer 2001).

    Shapes: input (N, C) or (C,); target (N,) or () class numbers; output (), or as target with ``reduction="none"``.

    Args:
        p: 1, or 2 for squares.
        margin: how far above it is to be.
        weight: how much each class counts, of shape (C,).

    Raises:
        ValueError: another ``p``, or ``weight`` has not one dimension.
    """

    p: int = 1
    margin: float = 1.0
    weight: Given | None = None
    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        if self.p not in {1, 2}:
            raise ValueError("only p == 1 and p == 2 supported")
        if self.weight is not None and self.weight.ndim != 1:
            raise ValueError(f"weight must have one dimension, not {self.weight.ndim}")


@settings()
class SoftMarginLoss(Loss, function=ops.soft_margin_loss):
    """log(1 + exp(-target input)) of scores and targets that are 1 or -1.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """

    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"


# Of distances.


@settings()
class HingeEmbeddingLoss(Loss, function=ops.hinge_embedding_loss):
    """A distance where the target is 1; by how much it is below ``margin`` where the target is -1.

    Shapes: input, distances, and target alike; output (), or as input with ``reduction="none"``.
    """

    __formula__ = r"x \text{ where } t = 1 \text{, else } \max(0, m - x)"

    margin: float = 1.0
    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"


@settings()
class CosineEmbeddingLoss(Loss, function=ops.cosine_embedding_loss):
    """1 minus the cosine of two vectors where the target is 1; by how much it is above ``margin`` where it is -1.

    Shapes: two inputs (N, D) or (D,), target (N,) or (); output (), or (N,) with ``reduction="none"``.
    """

    __formula__ = r"1 - \cos(a, b) \text{ where } t = 1 \text{, else } \max(0, \cos(a, b) - m)"

    margin: float = 0.0
    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Given) -> Any:  # type: ignore[override]
        return self._compute(input1, input2, target)


@settings()
class MarginRankingLoss(Loss, function=ops.margin_ranking_loss):
    """By how much the first of two scores fails to be ``margin`` above the second, or below where the target is -1.

    Shapes: two inputs and target alike; output (), or as input with ``reduction="none"``.
    """

    __formula__ = r"\max(0, -t (a - b) + m)"

    margin: float = 0.0
    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Given) -> Any:  # type: ignore[override]
        return self._compute(input1, input2, target)


class _Triplet(Loss):
    __formula__ = r"\max(0, d(a, p) - d(a, n) + m)"

    margin: float

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        if self.margin <= 0:
            raise ValueError(f"margin must be greater than 0, got {self.margin}")

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:  # type: ignore[override]
        return self._compute(anchor, positive, negative)


@settings()
class TripletMarginLoss(_Triplet, function=ops.triplet_margin_loss):
    """By how much an example fails to be ``margin`` nearer to one of its kind than to one of another (Schroff 2015).

    Shapes: three inputs (N, D) or (D,); output (), or (N,) with ``reduction="none"``.

    Args:
        margin: how much nearer.
        p: which norm the distance is.
        eps: what is added to differences, so that they have a gradient at 0.
        swap: whether the distance between the two others counts, if it is smaller (Balntas et al. 2016).

    Raises:
        ValueError: ``margin`` is not positive.
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: Old = None
    reduce: Old = None
    reduction: str = "mean"


@settings()
class TripletMarginWithDistanceLoss(_Triplet, function=ops.triplet_margin_with_distance_loss):
    """``TripletMarginLoss`` with a distance of one's own.

    Shapes: three inputs (N, ...); output (), or as the distances with ``reduction="none"``.

    Args:
        distance_function: gives the distances of two inputs; default: ``PairwiseDistance()``.
        margin: how much nearer.
        swap: whether the distance between the two others counts, if it is smaller.

    Raises:
        ValueError: ``margin`` is not positive.
    """

    _runs_functions = True  # the distance

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()
