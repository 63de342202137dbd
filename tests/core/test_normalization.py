"""Normalization: running statistics, and the behaviour that the tests of its rows do not cover."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops

functional = torch.nn.functional


def double(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.parametrize("momentum", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("wrap", [nbgrad.tensor, torch.Tensor.clone], ids=["nbgrad", "torch"])
@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics_move_as_in_torch(name: str, wrap: Any, momentum: float) -> None:
    x = double(3, 2, 4)
    theirs = [torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)]
    ours = [wrap(one.clone()) for one in theirs]
    kept = x.clone()
    for _ in range(2):
        expected = getattr(functional, name)(x, *theirs, None, None, True, momentum)
        got = getattr(ops, name)(nbgrad.tensor(x, requires_grad=True), *ours, None, None, True, momentum)
        torch.testing.assert_close(got.data, expected)
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.data, yours)
    assert torch.equal(x, kept), "the input was overwritten"


def test_two_forwards_before_a_backward_are_allowed_as_in_torch() -> None:
    x = nbgrad.tensor(double(3, 2), requires_grad=True)
    mean, variance = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    first = ops.batch_norm(x, mean, variance, training=True)
    ops.batch_norm(x, mean, variance, training=True)
    first.sum().backward()
    assert x.grad is not None


def test_evaluation_leaves_the_running_statistics_alone() -> None:
    mean, variance = double(2), double(2).abs()
    before = (mean.clone(), variance.clone())
    ops.batch_norm(nbgrad.tensor(double(3, 2)), mean, variance)
    assert torch.equal(mean, before[0])
    assert torch.equal(variance, before[1])


@pytest.mark.parametrize("name", ["layer_norm", "group_norm"])
def test_a_bias_without_a_weight_gets_its_gradient(name: str) -> None:
    x, bias = nbgrad.tensor(double(2, 4, 3)), nbgrad.tensor(double(4 if name == "group_norm" else 3))
    bias.requires_grad = True
    how = 2 if name == "group_norm" else (3,)
    seed = double(2, 4, 3)
    getattr(ops, name)(x, how, None, bias).backward(seed)
    assert bias.grad is not None
    torch.testing.assert_close(bias.grad.data, seed.sum((0, 2) if name == "group_norm" else (0, 1)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.batch_norm(x[:1], None, None, training=True), "more than one value per channel"),
        (lambda x: ops.batch_norm(x, x[0, :3], x[0]), "running_mean should contain 4 elements, one for each.*, not 3"),
        (lambda x: ops.batch_norm(x, x[0], x[0], x[0, :2]), "weight should contain 4 elements.*, not 2"),
        (lambda x: ops.batch_norm(x, None, None), "running_mean and running_var must be given where training=False"),
        (lambda x: ops.batch_norm(x, None, None, training=True, eps=0.0), "an eps that is positive"),
        (lambda x: ops.batch_norm(x, x[0], x[0], eps=-0.1), "in evaluation at least 0, not -0.1"),
        (ops.instance_norm, "more than one value"),
        (lambda x: ops.local_response_norm(x, 2), "local_response_norm needs"),
        (lambda x: ops.normalize(x, out=x), "out="),
        (lambda x: ops.group_norm(x, 3), "num_groups = 3"),
        (lambda x: ops.rms_norm(x, (3,)), r"ends in \(3,\)"),
    ],
)
def test_what_cannot_be_normalized_says_why(call: Any, words: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=words):
        call(nbgrad.tensor(double(2, 4)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_of_small_types_is_computed_as_in_torch(dtype: torch.dtype) -> None:
    x, w = double(4, 8).to(dtype), double(8).to(dtype)
    torch.testing.assert_close(ops.rms_norm(nbgrad.tensor(x), (8,), w).data, functional.rms_norm(x, (8,), w))


def test_a_batch_without_channels_has_nothing_to_refuse() -> None:
    assert ops.batch_norm(nbgrad.tensor(double(2, 0)), None, None, training=True).shape == (2, 0)
