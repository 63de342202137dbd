"""Errors of torch's about shapes name the layer, the shapes, and a remedy that mends the program."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import nbgrad

Program = Callable[[], Any]


def t(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def flat(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


class Outer(nn.Module):
    """A module of the user's own around one of torch's."""

    def __init__(self, inner: nn.Module, before: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> None:
        super().__init__()
        self.inner, self.before = inner, before

    def forward(self, input: torch.Tensor) -> Any:  # noqa: A002  # the name that torch's modules give it
        return self.inner(self.before(input))


CASES: dict[str, tuple[Program, str, Program]] = {
    "features": (lambda: nn.Linear(1152, 10)(t(4, 1352)), "Linear(1352, 10)", lambda: nn.Linear(1352, 10)(t(4, 1352))),
    "an image": (
        lambda: nn.Linear(784, 10)(t(4, 1, 28, 28)),
        "x.flatten(1)",
        lambda: nn.Linear(784, 10)(t(4, 1, 28, 28).flatten(1)),
    ),
    "an image in a module": (
        lambda: Outer(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(2704, 10)))(t(2, 1, 28, 28)),
        "x.flatten(1)",
        lambda: Outer(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(2704, 10)))(t(2, 1, 28, 28)),
    ),
    "exchanged sizes": (lambda: nn.Linear(10, 64)(t(4, 64)), "Linear(64, 10)", lambda: nn.Linear(64, 10)(t(4, 64))),
    "features before": (
        lambda: nn.Linear(16, 4)(t(2, 16, 9)),
        "x.transpose(-1, -2)",
        lambda: nn.Linear(16, 4)(t(2, 16, 9).transpose(-1, -2)),
    ),
    "the function linear": (
        lambda: functional.linear(t(4, 5), t(3, 6)),
        "(3, 5)",
        lambda: functional.linear(t(4, 5), t(3, 5)),
    ),
    "a product": (lambda: t(4, 5) @ t(3, 5), "a @ b.T", lambda: t(4, 5) @ t(3, 5).T),
    "another product": (lambda: t(4, 5) @ t(4, 3), "a.T @ b", lambda: t(4, 5).T @ t(4, 3)),
    "channels last": (
        lambda: nn.Conv2d(3, 8, 3)(t(4, 28, 28, 3)),
        "x.permute(0, 3, 1, 2)",
        lambda: nn.Conv2d(3, 8, 3)(t(4, 28, 28, 3).permute(0, 3, 1, 2)),
    ),
    "features last": (
        lambda: nn.Conv1d(3, 8, 3)(t(4, 28, 3)),
        "x.permute(0, 2, 1)",
        lambda: nn.Conv1d(3, 8, 3)(t(4, 28, 3).permute(0, 2, 1)),
    ),
    "images without channels": (
        lambda: nn.Conv2d(1, 8, 3)(t(4, 28, 28)),
        "x.unsqueeze(1)",
        lambda: nn.Conv2d(1, 8, 3)(t(4, 28, 28).unsqueeze(1)),
    ),
    "channels": (lambda: nn.Conv2d(3, 8, 3)(t(2, 4, 9, 9)), "in_channels=4", lambda: nn.Conv2d(4, 8, 3)(t(2, 4, 9, 9))),
    "a transposed convolution": (
        lambda: nn.ConvTranspose2d(8, 4, 2)(t(1, 4, 8, 8)),
        "in_channels=4",
        lambda: nn.ConvTranspose2d(4, 4, 2)(t(1, 4, 8, 8)),
    ),
    "a number for each row": (lambda: t(4, 5) + t(4), "b.unsqueeze(-1)", lambda: t(4, 5) + t(4).unsqueeze(-1)),
    "a shortcut": (
        lambda: t(1, 3, 8, 8) + nn.Conv2d(3, 3, 3)(t(1, 3, 8, 8)),
        "padding='same'",
        lambda: t(1, 3, 8, 8) + nn.Conv2d(3, 3, 3, padding="same")(t(1, 3, 8, 8)),
    ),
    "channels of a shortcut": (
        lambda: t(1, 3, 8, 8) + t(1, 6, 8, 8),
        "Conv2d(3, 6, 1)",
        lambda: nn.Conv2d(3, 6, 1)(t(1, 3, 8, 8)) + t(1, 6, 8, 8),
    ),
    "a transposed matrix": (lambda: t(4, 5) * t(5, 4), "b.T", lambda: t(4, 5) * t(5, 4).T),
    "features of a shortcut": (
        lambda: t(4, 16) + nn.Linear(16, 32)(t(4, 16)),
        "Linear(16, 32)",
        lambda: nn.Linear(16, 32)(t(4, 16)) + nn.Linear(16, 32)(t(4, 16)),
    ),
    "products of rows": (
        lambda: t(2, 3, 4, 8) @ t(2, 3, 5, 8),
        "a @ b.transpose(-1, -2)",
        lambda: t(2, 3, 4, 8) @ t(2, 3, 5, 8).transpose(-1, -2),
    ),
    "classes in a column": (
        lambda: functional.cross_entropy(t(8, 3), flat(8, 1)),
        "target.squeeze(-1)",
        lambda: functional.cross_entropy(t(8, 3), flat(8, 1).squeeze(-1)),
    ),
    "one-hot classes": (
        lambda: nn.CrossEntropyLoss()(t(8, 3), functional.one_hot(flat(8), 3)),
        "target.float()",
        lambda: nn.CrossEntropyLoss()(t(8, 3), functional.one_hot(flat(8), 3).float()),
    ),
    "one-hot targets with a class too many": (
        lambda: nn.CrossEntropyLoss()(t(8, 3), functional.one_hot(flat(8), 4).float()),
        "target.argmax(-1)",
        lambda: nn.CrossEntropyLoss()(t(8, 3), functional.one_hot(flat(8), 4).float().argmax(-1)),
    ),
    "channels of groups": (
        lambda: nn.GroupNorm(4, 16)(t(2, 8, 4, 4)),
        "num_channels=8",
        lambda: nn.GroupNorm(4, num_channels=8)(t(2, 8, 4, 4)),
    ),
    "rows of a sequence": (
        lambda: functional.cross_entropy(t(10, 7), flat(2, 5)),
        "target.flatten()",
        lambda: functional.cross_entropy(t(10, 7), flat(2, 5).flatten()),
    ),
    "scores of a sequence": (
        lambda: functional.cross_entropy(t(2, 5, 7), flat(2, 5)),
        "cross_entropy(scores.flatten(0, 1), target.flatten())",
        lambda: functional.cross_entropy(t(2, 5, 7).flatten(0, 1), flat(2, 5).flatten()),
    ),
    "a view of two batches": (
        lambda: functional.cross_entropy(nn.Linear(8, 3)(t(4, 2, 8).view(-1, 8)), flat(4)),
        "flatten(1)",
        lambda: functional.cross_entropy(nn.Linear(16, 3)(t(4, 2, 8).flatten(1)), flat(4)),
    ),
    "classes from 1": (
        lambda: functional.cross_entropy(t(8, 3), flat(8) + 3),
        "target - 1",
        lambda: functional.cross_entropy(t(8, 3), flat(8) + 3 - 1),
    ),
    "a class that does not count": (
        lambda: functional.cross_entropy(t(8, 3), flat(8) - 1),
        "ignore_index=-1",
        lambda: functional.cross_entropy(t(8, 3), flat(8) - 1, ignore_index=-1),
    ),
    "scores in a column": (
        lambda: functional.binary_cross_entropy_with_logits(t(8, 1), torch.zeros(8)),
        "scores.squeeze(-1)",
        lambda: functional.binary_cross_entropy_with_logits(t(8, 1).squeeze(-1), torch.zeros(8)),
    ),
    "classes for scores of each": (
        lambda: nn.BCEWithLogitsLoss()(t(8, 3), torch.zeros(8)),
        "one_hot(target, 3).float()",
        lambda: nn.BCEWithLogitsLoss()(t(8, 3), functional.one_hot(flat(8), 3).float()),
    ),
    "a vocabulary": (
        lambda: nn.Embedding(10, 4)(torch.tensor([3, 10])),
        "Embedding(11, 4)",
        lambda: nn.Embedding(11, 4)(torch.tensor([3, 10])),
    ),
    "floats as indices": (
        lambda: nn.Embedding(10, 4)(torch.zeros(3)),
        "x.long()",
        lambda: nn.Embedding(10, 4)(torch.zeros(3).long()),
    ),
    "whole numbers": (lambda: nn.Linear(3, 2)(flat(4, 3)), "x.float()", lambda: nn.Linear(3, 2)(flat(4, 3).float())),
    "an open batch": (lambda: t(6, 4).view(8, 4), "(-1, 4)", lambda: t(6, 4).view(-1, 4)),
    "another view": (lambda: t(4, 2, 3).view(-1, 7), "x.flatten(1)", lambda: t(4, 2, 3).flatten(1)),
    "features of a recurrent layer": (
        lambda: nn.LSTM(8, 16)(t(4, 5, 7)),
        "input_size=7",
        lambda: nn.LSTM(7, 16)(t(4, 5, 7)),
    ),
    "features before time": (
        lambda: nn.GRU(8, 16, batch_first=True)(t(4, 8, 5)),
        "x.transpose(1, 2)",
        lambda: nn.GRU(8, 16, batch_first=True)(t(4, 8, 5).transpose(1, 2)),
    ),
    "a batch that is not first": (
        lambda: nn.LSTM(8, 16)(t(4, 5, 8), (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))),
        "batch_first=True",
        lambda: nn.LSTM(8, 16, batch_first=True)(t(4, 5, 8), (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))),
    ),
    "channels of a norm": (lambda: nn.BatchNorm1d(8)(t(4, 7)), "BatchNorm1d(7)", lambda: nn.BatchNorm1d(7)(t(4, 7))),
    "a norm of a sequence": (
        lambda: nn.BatchNorm1d(8)(t(4, 5, 8)),
        "x.transpose(1, -1)",
        lambda: nn.BatchNorm1d(8)(t(4, 5, 8).transpose(1, -1)),
    ),
    "dimensions of a norm": (lambda: nn.BatchNorm2d(8)(t(4, 8)), "BatchNorm1d", lambda: nn.BatchNorm1d(8)(t(4, 8))),
    "one row": (lambda: nn.BatchNorm1d(8)(t(1, 8)), "drop_last=True", lambda: nn.BatchNorm1d(8).eval()(t(1, 8))),
    "a layer norm": (lambda: nn.LayerNorm(8)(t(4, 7)), "LayerNorm(7)", lambda: nn.LayerNorm(7)(t(4, 7))),
    "attention": (
        lambda: nn.MultiheadAttention(16, 4)(t(5, 2, 8), t(5, 2, 8), t(5, 2, 8)),
        "embed_dim=8",
        lambda: nn.MultiheadAttention(8, 4)(t(5, 2, 8), t(5, 2, 8), t(5, 2, 8)),
    ),
    "cat": (lambda: torch.cat([t(4, 5), t(4, 6)]), "dim", lambda: torch.cat([t(4, 5), t(4, 6)], dim=1)),
    "stack": (
        lambda: torch.stack([t(3), t(4)]),
        "torch.nn.utils.rnn.pad_sequence",
        lambda: torch.nn.utils.rnn.pad_sequence([t(3), t(4)]),
    ),
    "a small image": (
        lambda: nn.Conv2d(1, 4, 5)(t(1, 1, 3, 3)),
        "padding",
        lambda: nn.Conv2d(1, 4, 5, padding=1)(t(1, 1, 3, 3)),
    ),
    "gather": (
        lambda: t(4, 3).gather(1, flat(4)),
        "index.unsqueeze(1)",
        lambda: t(4, 3).gather(1, flat(4).unsqueeze(1)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_says_what_mends_it(case: str) -> None:
    program, remedy, mended = CASES[case]
    with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError)) as caught, nbgrad.record() as graph:
        program()
    (note,) = caught.value.__notes__
    assert note.startswith("nbgrad: ")
    assert remedy in note
    (found,) = [one for one in graph.findings() if one.kind == "failed"]
    assert found.remedy == remedy
    assert remedy in found.text
    mended()


@pytest.mark.parametrize("case", CASES)
def test_without_a_graph_an_error_is_torchs_alone(case: str) -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError)) as caught:
        CASES[case][0]()
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    "program",
    [
        lambda: nn.TripletMarginLoss()(t(4, 8), t(4, 8), t(4, 6)),
        lambda: nn.CosineEmbeddingLoss()(t(4, 8), t(4, 8), torch.ones(5)),
        lambda: functional.scaled_dot_product_attention(*[t(2, 4, 6, 8)] * 3, attn_mask=torch.ones(5, 5) > 0),
    ],
)
def test_sizes_of_a_result_in_between_are_taken_for_no_operands(program: Program) -> None:
    with pytest.raises(RuntimeError, match="must match the size of tensor b") as caught, nbgrad.record():
        program()
    assert not hasattr(caught.value, "__notes__")


def test_shapes_that_no_remedy_is_known_for_are_told() -> None:
    with pytest.raises(RuntimeError) as caught, nbgrad.record():
        t(4, 3) * t(4, 2)
    assert "a has shape (4, 3), and b (4, 2)" in caught.value.__notes__[0]


@pytest.mark.parametrize("text", ["Target 3 is out of bounds.", "index out of range in self", "Target size (none)"])
def test_an_error_that_the_user_raises_keeps_its_words(text: str) -> None:
    def program() -> None:
        t(2).sum().backward()
        raise ValueError(text)

    with pytest.raises(ValueError, match=r"\w") as caught, nbgrad.record():
        program()
    assert not hasattr(caught.value, "__notes__")


def test_a_shape_that_cannot_be_read_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.shape_advice._variables", lambda error: 1 / 0)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), nbgrad.record():
        nn.Linear(3, 2)(t(4, 5))
