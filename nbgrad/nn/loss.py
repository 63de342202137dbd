"""Losses as blocks: one number that says how wrong a prediction is.

Every loss has a ``reduction``: "mean", "sum", or "none" for the loss of each example; ``size_average`` and ``reduce``
are torch's old names for that. Targets may be torch tensors or ``Tensor`` objects.
"""

from typing import Any, ClassVar

import torch
from torch.nn._reduction import legacy_get_string

from nbgrad.core import ops
from nbgrad.core.ops import torch_signatures
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.distance import PairwiseDistance
from nbgrad.nn.function_block import Block

Given = Tensor | torch.Tensor


class Loss(Block):
    """A block that compares a prediction with a target."""

    def _adjust(self, given: dict[str, Any]) -> None:
        size_average, reduce = given.get("size_average"), given.get("reduce")
        if size_average is not None or reduce is not None:
            given["reduction"] = legacy_get_string(size_average, reduce)

    def forward(self, input: Tensor, target: Given) -> Any:  # type: ignore[override]
        return self._compute(input, target)


class WeightedLoss(Loss):
    """A loss with a ``weight``, which is a buffer, saved with the module."""

    _kept: ClassVar[tuple[str, ...]] = ("weight",)


# Numbers and distributions.


class L1Loss(Loss, function=torch_signatures.l1_loss, torchs=torch.nn.L1Loss):
    """Mean absolute error: an outlier counts by its distance, not by its square.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


class MSELoss(Loss, function=torch_signatures.mse_loss, torchs=torch.nn.MSELoss):
    """Mean squared error between a prediction and its target.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


class SmoothL1Loss(Loss, function=torch_signatures.smooth_l1_loss, torchs=torch.nn.SmoothL1Loss):
    """The squared error where it is small, the absolute one beyond ``beta`` (Girshick 2015).

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


class HuberLoss(Loss, function=torch_signatures.huber_loss, torchs=torch.nn.HuberLoss):
    """``SmoothL1Loss`` with ``beta=delta``, multiplied by ``delta`` (Huber 1964).

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


class PoissonNLLLoss(Loss, function=ops.poisson_nll_loss, torchs=torch.nn.PoissonNLLLoss):
    """Minus the log of the probability that a Poisson distribution gives a count.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.

    Args:
        log_input: whether the prediction is the logarithm of the mean.
        full: whether the constant term is added, by Stirling's formula.
        eps: the number added to the prediction before its logarithm is taken, without ``log_input``.
    """

    __formula__ = r"\frac{1}{n} \sum_i e^{x_i} - t_i x_i"


class GaussianNLLLoss(Loss, function=ops.gaussian_nll_loss, torchs=torch.nn.GaussianNLLLoss):
    """Minus the log of the density of the target in a normal distribution whose mean and variance are predicted.

    Shapes: input, target and var alike, or var with one number for each example; output (), or as input with
    ``reduction="none"``. It is called with ``(input, target, var)``.

    Args:
        full: whether the constant term is added.
        eps: the smallest variance; a smaller one counts as this number.
    """

    __formula__ = r"\frac{1}{2 n} \sum_i \ln v_i + \frac{(x_i - t_i)^2}{v_i}"

    def forward(self, input: Tensor, target: Given, var: Any) -> Any:  # type: ignore[override]
        return self._compute(input, target, var)


class KLDivLoss(Loss, function=ops.kl_div, torchs=torch.nn.KLDivLoss):
    """How far a distribution is from the target's (Kullback and Leibler 1951).

    Shapes: input (logarithms of probabilities) and target alike; output (), or as input with ``reduction="none"``.

    Args:
        log_target: whether the target holds logarithms too.
        reduction: also "batchmean", the sum divided by the number of examples, as the mathematics has it.
    """

    __formula__ = r"\frac{1}{n} \sum_i t_i (\ln t_i - x_i)"


# Classes and texts.


class CrossEntropyLoss(WeightedLoss, function=ops.cross_entropy, torchs=torch.nn.CrossEntropyLoss):
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


class NLLLoss(WeightedLoss, function=ops.nll_loss, torchs=torch.nn.NLLLoss):
    """Minus the log-probability of the right class: the second half of ``CrossEntropyLoss``, after ``LogSoftmax``.

    Shapes: input (C,), (N, C) or (N, C, d1, ...) log-probabilities; target class numbers of that shape without C.
    Output (), or as the target with ``reduction="none"``.

    Args:
        weight: how much each class counts, of shape (C,).
        ignore_index: a class number that counts nothing.
    """


class BCELoss(WeightedLoss, function=ops.binary_cross_entropy, torchs=torch.nn.BCELoss):
    """Binary cross entropy: minus the log of the probability of the right class. Logarithms are at least -100.

    Shapes: input (probabilities) and target alike; output (), or as input with ``reduction="none"``.

    Args:
        weight: how much each example counts.
    """


class BCEWithLogitsLoss(WeightedLoss, function=ops.binary_cross_entropy_with_logits, torchs=torch.nn.BCEWithLogitsLoss):
    """``BCELoss`` after a sigmoid, computed without overflow.

    Shapes: input (scores) and target alike; output (), or as input with ``reduction="none"``.

    Args:
        weight: how much each example counts.
        pos_weight: how much more a yes counts than a no, for each class.
    """

    _kept: ClassVar[tuple[str, ...]] = ("weight", "pos_weight")


class CTCLoss(Loss, function=ops.ctc_loss, torchs=torch.nn.CTCLoss):
    """Minus the log-probability of a text, over all alignments of its letters with the input (Graves et al. 2006).

    Shapes: log_probs (T, N, C) or (T, C); targets (N, S), or all in a row; lengths (N,); output (), or (N,) with
    ``reduction="none"``. It is called with ``(log_probs, targets, input_lengths, target_lengths)``.

    Args:
        blank: the class number that stands for no letter.
        zero_infinity: whether the loss of a text that is too long is 0 instead of infinite.
    """

    __formula__ = r"-\ln \sum_{\pi \to t} \prod_s e^{x_{s \pi_s}}"

    def forward(  # type: ignore[override]
        self, log_probs: Tensor, targets: Given, input_lengths: Any, target_lengths: Any
    ) -> Any:
        return self._compute(log_probs, targets, input_lengths, target_lengths)


# Margins between the scores of classes.


class MultiLabelMarginLoss(Loss, function=ops.multilabel_margin_loss, torchs=torch.nn.MultiLabelMarginLoss):
    """The sum of max(0, 1 - (right - wrong)) over all pairs of a right and a wrong class, divided by C.

    Shapes: input (N, C) or (C,); target of the same shape: the right class numbers, then -1; output (), or (N,) with
    ``reduction="none"``.
    """


class MultiMarginLoss(WeightedLoss, function=ops.multi_margin_loss, torchs=torch.nn.MultiMarginLoss):
    """The sum of max(0, margin - (right - wrong)) over all wrong classes, divided by C (Crammer and Singer 2001).

    Shapes: input (N, C) or (C,); target (N,) or () class numbers; output (), or as target with ``reduction="none"``.

    Args:
        p: 1, or 2 for squares.
        margin: how far the score of the right class should be above the others.
        weight: how much each class counts, of shape (C,).

    Raises:
        ValueError: ``p`` is neither 1 nor 2, or ``weight`` does not have one dimension.
    """

    def _adjust(self, given: dict[str, Any]) -> None:
        super()._adjust(given)
        if given["p"] not in {1, 2}:
            raise ValueError("only p == 1 and p == 2 supported")
        if given["weight"] is not None and given["weight"].ndim != 1:
            raise ValueError(f"weight must have one dimension, not {given['weight'].ndim}")


class SoftMarginLoss(Loss, function=ops.soft_margin_loss, torchs=torch.nn.SoftMarginLoss):
    """log(1 + exp(-target input)) of scores and targets that are 1 or -1.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


class MultiLabelSoftMarginLoss(
    WeightedLoss, function=ops.multilabel_soft_margin_loss, torchs=torch.nn.MultiLabelSoftMarginLoss
):
    """The mean of ``BCEWithLogitsLoss`` over classes of which several may be right.

    Shapes: input and target (N, C) or (C,); output (), or (N,) with ``reduction="none"``.

    Args:
        weight: how much each class counts, of shape (C,).
    """

    __formula__ = r"-\frac{1}{n} \sum_i t_i \ln \sigma(x_i) + (1 - t_i) \ln \sigma(-x_i)"


# Distances, similarities and ranks.


class HingeEmbeddingLoss(Loss, function=ops.hinge_embedding_loss, torchs=torch.nn.HingeEmbeddingLoss):
    """The input (a distance) where the target is 1; max(0, margin - input) where the target is -1.

    Shapes: input (distances) and target alike; output (), or as input with ``reduction="none"``.
    """

    __formula__ = r"x \text{ where } t = 1 \text{, else } \max(0, m - x)"


class CosineEmbeddingLoss(Loss, function=ops.cosine_embedding_loss, torchs=torch.nn.CosineEmbeddingLoss):
    """1 minus the cosine of two vectors if the target is 1; max(0, cosine - margin) if the target is -1.

    Shapes: two inputs (N, D) or (D,), target (N,) or (); output (), or (N,) with ``reduction="none"``.
    """

    __formula__ = r"1 - \cos(a, b) \text{ where } t = 1 \text{, else } \max(0, \cos(a, b) - m)"

    def forward(self, input1: Tensor, input2: Tensor, target: Given) -> Any:  # type: ignore[override]
        return self._compute(input1, input2, target)


class MarginRankingLoss(Loss, function=ops.margin_ranking_loss, torchs=torch.nn.MarginRankingLoss):
    """max(0, margin - target * (first - second)): the first score should be higher where target is 1, lower where -1.

    Shapes: two inputs and target alike; output (), or as input with ``reduction="none"``.
    """

    __formula__ = r"\max(0, -t (a - b) + m)"

    def forward(self, input1: Tensor, input2: Tensor, target: Given) -> Any:  # type: ignore[override]
        return self._compute(input1, input2, target)


class _Triplet(Loss):
    __formula__ = r"\max(0, d(a, p) - d(a, n) + m)"

    def _adjust(self, given: dict[str, Any]) -> None:
        super()._adjust(given)
        if given["margin"] <= 0:
            raise ValueError(f"margin must be greater than 0, got {given['margin']}")

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:  # type: ignore[override]
        return self._compute(anchor, positive, negative)


class TripletMarginLoss(_Triplet, function=ops.triplet_margin_loss, torchs=torch.nn.TripletMarginLoss):
    """max(0, margin + distance to the positive example - distance to the negative one) (Schroff 2015).

    Shapes: three inputs (N, D) or (D,); output (), or (N,) with ``reduction="none"``.

    Args:
        margin: how much nearer the positive example should be.
        p: the norm that measures a distance.
        eps: the number added to each difference, so that the norm has a gradient at 0.
        swap: whether the distance from the positive to the negative example counts, if it is smaller (Balntas et al.
            2016).

    Raises:
        ValueError: ``margin`` is not positive.
    """


class TripletMarginWithDistanceLoss(
    _Triplet, function=ops.triplet_margin_with_distance_loss, torchs=torch.nn.TripletMarginWithDistanceLoss
):
    """``TripletMarginLoss`` with a distance function of your own.

    Shapes: three inputs (N, ...); output (), or as the distances with ``reduction="none"``.

    Args:
        distance_function: gives the distances of two inputs; default: ``PairwiseDistance()``.
        margin: how much nearer the positive example should be.
        swap: whether the distance from the positive to the negative example counts, if it is smaller.

    Raises:
        ValueError: ``margin`` is not positive.
    """

    _runs_functions = True  # the distance

    def _adjust(self, given: dict[str, Any]) -> None:
        super()._adjust(given)
        if given["distance_function"] is None:
            given["distance_function"] = PairwiseDistance()
