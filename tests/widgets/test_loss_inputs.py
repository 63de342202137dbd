"""Losses that are given what they do not take, as findings of a picture."""

from collections.abc import Callable

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe

LABELS = torch.tensor([0, 1, 2, 0])
PARTS = torch.rand(4, 3)


def found(loss: Callable[[nbgrad.Tensor], nbgrad.Tensor], size: int = 3) -> list[str]:
    """The findings of a layer with ``loss`` on its scores, of shape (4, size)."""
    nbgrad.manual_seed(0)
    net = nn.Linear(5, size)
    with nbgrad.AutogradGraph() as graph:
        loss(net(nbgrad.randn(4, 5))).backward()
    return [problem["text"] for problem in describe(graph)["problems"]]


TWICE = "takes scores and makes probabilities of them itself, but it is given the probabilities of"
LOGS = "nll_loss takes log-probabilities, "


@pytest.mark.parametrize(
    ("loss", "begin", "end"),
    [
        (
            lambda x: functional.cross_entropy(x.softmax(1), LABELS),
            f"cross_entropy {TWICE} softmax at tests/",
            "softmax",
        ),
        (lambda x: functional.cross_entropy(nn.Softmax(1)(x), PARTS), f"cross_entropy {TWICE} softmax at", "softmax"),
        (
            lambda x: functional.cross_entropy(x.softmax(1).view(2, 2, 3).transpose(1, 2), LABELS.view(2, 2)),
            f"cross_entropy {TWICE} softmax at",
            "softmax",
        ),
        (
            lambda x: functional.binary_cross_entropy_with_logits(x.sigmoid(), PARTS),
            f"binary_cross_entropy_with_logits {TWICE} sigmoid at",
            "Leave out sigmoid",
        ),
        (
            lambda x: functional.nll_loss(x.softmax(1), LABELS),
            f"{LOGS}but it is given the probabilities of softmax",
            "",
        ),
        (lambda x: functional.nll_loss(x, LABELS), f"{LOGS}which are never above 0, but it is given numbers up to", ""),
        (lambda x: functional.nll_loss(x.log_softmax(0), LABELS), "the classes of nll_loss are dimension 1", "dim=1"),
    ],
)
def test_what_a_loss_does_not_take_is_a_finding(
    loss: Callable[[nbgrad.Tensor], nbgrad.Tensor], begin: str, end: str
) -> None:
    (text,) = found(loss)
    assert text.startswith(begin)
    assert text.endswith(end)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: functional.cross_entropy(x, x.detach().softmax(1)),
        lambda x: functional.nll_loss(x.log_softmax(1), LABELS),
        lambda x: functional.nll_loss(x.T.log_softmax(0).T, LABELS),
        lambda x: functional.nll_loss(x.log_softmax(-1)[0], LABELS[0]),
        lambda x: functional.nll_loss(x.softmax(1).log(), LABELS),
        lambda x: functional.binary_cross_entropy(x.sigmoid(), PARTS),
        lambda x: functional.mse_loss(x.softmax(1), PARTS),
        lambda x: functional.kl_div(x.log_softmax(1), PARTS, reduction="batchmean"),
    ],
)
def test_what_a_loss_takes_is_none(loss: Callable[[nbgrad.Tensor], nbgrad.Tensor]) -> None:
    assert found(loss) == []
