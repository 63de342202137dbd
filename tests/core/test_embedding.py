"""Embedding: what is no function of the rows."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops

functional = torch.nn.functional
NUMBERS = torch.tensor([[1, 0, 1], [3, 1, 2]])


def weight() -> torch.Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", ["embedding", "embedding_bag"])
@pytest.mark.parametrize(
    "settings", [{"max_norm": 0.5}, {"scale_grad_by_freq": True}, {"padding_idx": -1}, {"padding_idx": 1}], ids=str
)
def test_settings_mean_what_they_mean_in_torch(name: str, settings: dict[str, Any]) -> None:
    theirs, ours = weight().requires_grad_(), nbgrad.tensor(weight(), requires_grad=True)
    expected = getattr(functional, name)(NUMBERS, theirs, **settings)
    got = getattr(ops, name)(NUMBERS, ours, **settings)
    torch.testing.assert_close(got.data, expected.detach())
    torch.testing.assert_close(ours.data, theirs.detach())
    seed = torch.rand(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected.backward(seed)
    got.backward(seed)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad)


def test_the_second_order_divides_by_the_frequency_too() -> None:
    w = nbgrad.tensor(weight(), requires_grad=True)
    g = nbgrad.tensor(torch.ones(2, 3, 3, dtype=torch.float64), requires_grad=True)
    (first,) = nbgrad.grad(ops.embedding(NUMBERS, w, scale_grad_by_freq=True), [w], [g], create_graph=True)
    (second,) = nbgrad.grad(first.sum(), [g])
    counts = NUMBERS.flatten().bincount()[NUMBERS].double()
    torch.testing.assert_close(second.data, (1 / counts).unsqueeze(-1).expand(2, 3, 3))


@pytest.mark.parametrize("name", ["embedding", "embedding_bag"])
def test_sparse_gradients_are_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match="sparse=True"):
        getattr(ops, name)(NUMBERS, nbgrad.tensor(weight()), sparse=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_second_order_of_bags_is_their_first_order(mode: str) -> None:
    w = nbgrad.tensor(weight(), requires_grad=True)
    g = nbgrad.tensor(torch.ones(2, 3, dtype=torch.float64), requires_grad=True)
    (first,) = nbgrad.grad(ops.embedding_bag(NUMBERS, w, mode=mode), [w], [g], create_graph=True)
    direction = weight().flip(0)
    (second,) = nbgrad.grad((first * direction).sum(), [g])
    picked = functional.embedding_bag(NUMBERS, weight(), mode=mode)
    step = 1e-6  # what the bags change by along the direction
    moved = functional.embedding_bag(NUMBERS, weight() + step * direction, mode=mode)
    torch.testing.assert_close(second.data, (moved - picked) / step, rtol=1e-5, atol=1e-5)
