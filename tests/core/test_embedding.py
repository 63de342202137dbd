"""Embedding: the behaviour that the tests of its rows do not cover."""

from itertools import product
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops
from tests.core import calls

functional = torch.nn.functional
NUMBERS = torch.tensor([[1, 0, 1], [3, 1, 2]])


def weight() -> torch.Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


SETTINGS = [{"max_norm": 0.5}, {"padding_idx": -1}, {"padding_idx": 1}]


@pytest.mark.parametrize(
    ("name", "settings"),
    [*product(["embedding", "embedding_bag"], SETTINGS), ("embedding", {"scale_grad_by_freq": True})],
    ids=str,
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


@pytest.mark.parametrize("scaled", [False, True])
def test_the_frequency_divides_the_second_order_once_as_in_torch(scaled: bool) -> None:
    def call(w: Any) -> Any:
        return functional.embedding(NUMBERS, w, scale_grad_by_freq=scaled) ** 3

    for constant in (False, True):
        assert not calls.difference(call, weight().requires_grad_(), constant_seeds=constant)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("numbers", [[[1, 0], [1, 1]], [[3, 3], [0, 3]], [[2, 2], [2, 2]], [[0, 1], [2, 3]]])
def test_rows_of_bags_are_divided_by_how_often_each_was_looked_up(numbers: list[list[int]], mode: str) -> None:
    given, seed = torch.tensor(numbers), torch.rand(2, 3, dtype=torch.float64)
    grads = []
    for scaled in (False, True):
        w = nbgrad.tensor(weight(), requires_grad=True)
        ops.embedding_bag(given, w, mode=mode, scale_grad_by_freq=scaled).backward(seed)
        assert w.grad is not None
        grads.append(w.grad.data)
    counts = torch.tensor([max(1, sum(row.count(number) for row in numbers)) for number in range(4)])
    torch.testing.assert_close(grads[1], grads[0] / counts.unsqueeze(-1))


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
    step = 1e-6  # of the difference quotient of the bags along the direction
    moved = functional.embedding_bag(NUMBERS, weight() + step * direction, mode=mode)
    torch.testing.assert_close(second.data, (moved - picked) / step, rtol=1e-5, atol=1e-5)
