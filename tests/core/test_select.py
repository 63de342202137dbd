"""Gradients at a bound, beyond it and for NaN: torch has its own way to share them out, and nbgrad's are the same."""

from collections.abc import Callable
from itertools import product
from math import inf, nan
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import nbgrad
from nbgrad.core.backend.below_autograd import below_autograd
from nbgrad.core.ops.elementwise import select
from tests.core.closeness import close

EDGES = (-inf, -1.0, 0.0, 1.0, inf, nan)


def all_orders(count: int) -> list[torch.Tensor]:
    """``count`` tensors. Their elements together cover every combination of edge values."""
    return list(torch.tensor(list(product(EDGES, repeat=count)), dtype=torch.float64).unbind(1))


def same_shares(call: Callable[..., Any], *data: torch.Tensor) -> None:
    """Compare the gradients of ``call`` in both libraries, and their derivatives by the incoming gradient."""
    seed = torch.linspace(1, 2, data[0].numel(), dtype=torch.float64)
    theirs = [one.clone().requires_grad_() for one in (*data, seed)]
    ours = [nbgrad.tensor(one, requires_grad=True) for one in (*data, seed)]
    expected = torch.autograd.grad(call(*theirs[:-1]), theirs[:-1], theirs[-1], create_graph=True)
    got = nbgrad.grad(call(*ours[:-1]), ours[:-1], ours[-1], create_graph=True)
    for mine, yours in zip(got, expected, strict=True):
        close(mine.data, yours.detach(), "gradient")
        (of_mine,), (of_yours,) = nbgrad.grad(mine.sum(), ours[-1]), torch.autograd.grad(yours.sum(), theirs[-1])
        close(of_mine.data, of_yours, "second-order gradient")


@pytest.mark.parametrize("name", ["fmax", "fmin", "maximum", "minimum"])
def test_each_of_two_gets_torchs_share(name: str) -> None:
    same_shares(getattr(torch, name), *all_orders(2))


LOW: dict[str, Callable[..., Any]] = {
    "clamp(min=)": lambda x, low: torch.clamp(x, min=low),
    "clamp_min": torch.clamp_min,
    "clamp_min_": lambda x, low: (x * 1).clamp_min_(low),
}
HIGH: dict[str, Callable[..., Any]] = {
    "clamp(max=)": lambda x, high: torch.clamp(x, max=high),
    "clamp_max": torch.clamp_max,
    "clamp_max_": lambda x, high: (x * 1).clamp_max_(high),
}
BOTH: dict[str, Callable[..., Any]] = {
    "clamp": torch.clamp,
    "clamp_": lambda x, low, high: (x * 1).clamp_(low, high),
    "clip": lambda x, low, high: x.clip(low, high),
}


@pytest.mark.parametrize("name", [*LOW, *HIGH, *BOTH])
def test_bounds_that_are_tensors_get_torchs_share(name: str) -> None:
    call = (LOW | HIGH | BOTH)[name]
    x, *bounds = all_orders(3 if name in BOTH else 2)
    same_shares(call, x, *bounds)
    same_shares(lambda x: call(x, *bounds), x)


@pytest.mark.parametrize("name", [*LOW, *HIGH, *BOTH])
def test_bounds_that_are_numbers_leave_torchs_share(name: str) -> None:
    call = (LOW | HIGH | BOTH)[name]
    for bounds in product(EDGES, repeat=2 if name in BOTH else 1):
        same_shares(lambda x, bounds=bounds: call(x, *bounds), *all_orders(1))


def test_torch_is_asked_as_if_nothing_were_switched() -> None:
    expected = select._halved()
    select._halved.cache_clear()
    with torch.inference_mode(), torch.device("meta"), FakeTensorMode():
        assert below_autograd(select._halved) == expected
    assert select._halved.cache_info().currsize == 1, "it is asked once"
