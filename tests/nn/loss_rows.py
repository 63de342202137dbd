"""The losses as a table: how each is made, and its inputs; every one is run with each reduction."""

from typing import Any

import torch

from tests.nn.block_rows import Row, both, numbers, positive, row, signs

WEIGHT = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
PROBABILITIES = positive(6, 4) / positive(6, 4).sum(1, keepdim=True)


def _row(name: str, *inputs: Any, **settings: Any) -> dict[str, Row]:
    """The loss with each reduction."""
    shown = ", ".join(f"{key}={'...' if isinstance(value, torch.Tensor) else value}" for key, value in settings.items())
    return {
        f"{name}({shown}), {reduction}": row(
            lambda n, reduction=reduction: getattr(n, name)(reduction=reduction, **settings), *inputs
        )
        for reduction in ("mean", "sum", "none")
    }


NUMBERS = [both((5, 3), (5, 3)), both((), ()), both((0, 3), (0, 3))]
CLASSES = [both((6, 4), numbers(4, 6)), both((4,), numbers(4)), both((3, 4, 2), numbers(4, 3, 2))]
TRIPLE = [both((5, 3), (5, 3), (5, 3)), both((3,), (3,), (3,))]

LOSSES = {
    **_row("L1Loss", *NUMBERS),
    **_row("MSELoss", *NUMBERS),
    **_row("SmoothL1Loss", *NUMBERS),
    **_row("SmoothL1Loss", *NUMBERS, beta=0.3),
    **_row("HuberLoss", *NUMBERS),
    **_row("HuberLoss", *NUMBERS, delta=0.3),
    **_row("PoissonNLLLoss", both((5, 3), positive(5, 3) * 3)),
    **_row("PoissonNLLLoss", both(lambda: positive(5, 3), positive(5, 3) * 3), log_input=False, full=True, eps=1e-3),
    **_row(
        "GaussianNLLLoss", both((5, 3), (5, 3), lambda: positive(5, 3)), both((5, 3), (5, 3), lambda: positive(5, 1))
    ),
    **_row("GaussianNLLLoss", both((5, 3), (5, 3), lambda: positive(5, 3)), full=True, eps=0.3),
    **_row("KLDivLoss", both((6, 4), PROBABILITIES.clone)),
    **_row("KLDivLoss", both((6, 4), (6, 4)), log_target=True),
    "KLDivLoss, batchmean": row(lambda n: n.KLDivLoss(reduction="batchmean"), both((6, 4), PROBABILITIES.clone)),
    **_row("CrossEntropyLoss", *CLASSES, both((6, 4), PROBABILITIES.clone)),
    **_row("CrossEntropyLoss", *CLASSES, both((6, 4), PROBABILITIES.clone), weight=WEIGHT, label_smoothing=0.1),
    **_row("CrossEntropyLoss", *CLASSES, ignore_index=1),
    **_row("CrossEntropyLoss", *CLASSES, weight=WEIGHT, ignore_index=1, label_smoothing=0.2),
    **_row("NLLLoss", *CLASSES),
    **_row("NLLLoss", *CLASSES, weight=WEIGHT, ignore_index=1),
    **_row("BCELoss", both(PROBABILITIES.clone, numbers(2, 6, 4).double())),
    **_row("BCELoss", both(PROBABILITIES.clone, PROBABILITIES.flip(0)), weight=WEIGHT),
    **_row("BCEWithLogitsLoss", both((6, 4), numbers(2, 6, 4).double())),
    **_row("BCEWithLogitsLoss", both((6, 4), PROBABILITIES.clone), weight=WEIGHT, pos_weight=WEIGHT.flip(0)),
    **_row("MultiLabelSoftMarginLoss", both((6, 4), numbers(2, 6, 4).double()), both((4,), numbers(2, 4).double())),
    **_row("MultiLabelSoftMarginLoss", both((6, 4), numbers(2, 6, 4).double()), weight=WEIGHT),
    **_row("MultiLabelMarginLoss", both((2, 4), torch.tensor([[3, 0, -1, 1], [2, -1, 0, 0]]))),
    **_row("MultiMarginLoss", *CLASSES[:2]),
    **_row("MultiMarginLoss", *CLASSES[:2], p=2, margin=0.5, weight=WEIGHT),
    **_row("SoftMarginLoss", both((5, 3), signs(5, 3))),
    **_row("HingeEmbeddingLoss", both((5, 3), signs(5, 3)), margin=0.7),
    **_row("CosineEmbeddingLoss", both((5, 3), (5, 3), signs(5)), both((3,), (3,), signs()), margin=0.2),
    **_row("MarginRankingLoss", both((5, 3), (5, 3), signs(5, 3)), margin=0.4),
    **_row("TripletMarginLoss", *TRIPLE),
    **_row("TripletMarginLoss", *TRIPLE, margin=2.0, p=1.0, swap=True),
    **_row("TripletMarginWithDistanceLoss", *TRIPLE),
    **_row(
        "TripletMarginWithDistanceLoss", *TRIPLE, margin=3.0, swap=True, distance_function=lambda a, b: (a * b).sum(-1)
    ),
    **_row(
        "CTCLoss",
        both(
            lambda: torch.log(positive(7, 2, 4) / 4), numbers(3, 2, 3) + 1, torch.tensor([7, 6]), torch.tensor([3, 2])
        ),
    ),
    **_row(
        "CTCLoss",
        both(lambda: torch.log(positive(7, 2, 4) / 4), numbers(3, 2, 3), torch.tensor([7, 6]), torch.tensor([3, 2])),
        blank=3,
        zero_infinity=True,
    ),
    "MSELoss, old names": row(lambda n: n.MSELoss(None, None), *NUMBERS),
    "AdaptiveLogSoftmaxWithLoss": row(
        lambda n: n.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6], div_value=2.0),
        both((5, 8), torch.tensor([0, 4, 11, 2, 5])),
        both((8,), torch.tensor(7)),
        both((2, 8), torch.tensor([0, 1])),
    ),
    "AdaptiveLogSoftmaxWithLoss, bias": row(
        lambda n: n.AdaptiveLogSoftmaxWithLoss(8, 12, (5,), head_bias=True), both((5, 8), numbers(12, 5))
    ),
    **_row("LinearCrossEntropyLoss", both((5, 3), numbers(4, 5)), in_features=3, num_classes=4),
    **_row(
        "LinearCrossEntropyLoss",
        both((5, 3), numbers(4, 5, 2)),
        in_features=3,
        num_classes=4,
        out_features=(2,),
        bias=True,
        weight=WEIGHT,
        label_smoothing=0.1,
    ),
}
