"""Steps that leave every parameter as it was, as findings of a picture."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from tests.widgets.graphs import texts


def mlp(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def trained(
    optimizer: Any, net: nn.Module, steps: int = 5, after: Callable[[int], Any] = lambda _: None, size: float = 1.0
) -> list[str]:
    dtype = next(net.parameters()).dtype
    with nbgrad.AutogradGraph() as graph:
        for step in range(steps):
            optimizer.zero_grad()
            (size * net(nbgrad.ones(8, 2, dtype=dtype)).square().mean()).backward()
            optimizer.step()
            after(step)
    return texts(graph)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_a_learning_rate_of_0_is_a_finding(kind: Any) -> None:
    net = mlp()
    assert trained(kind(net.parameters(), lr=0.0), net, steps=40) == [
        f"{kind.__name__} has a learning rate of 0: its steps left every parameter as it was"
    ]


def test_a_learning_rate_that_is_lost_in_rounding_is_a_finding() -> None:
    net = mlp()
    (text,) = trained(optim.SGD(net.parameters(), lr=1e-12), net)
    assert text == (
        "SGD has a learning rate of 1e-12, which is lost in the rounding of float32: its steps left every parameter as "
        "it was. Try a larger one"
    )
    net = mlp(torch.bfloat16)
    for parameter in net.parameters():
        parameter.data.copy_(torch.randn(parameter.shape).sign() / 2)
    (text,) = trained(optim.SGD(net.parameters(), lr=1e-5), net)
    assert "of 1e-05, which is lost in the rounding of bfloat16: " in text


def test_few_steps_show_nothing() -> None:
    net = mlp()
    assert trained(optim.SGD(net.parameters(), lr=0.0), net, steps=2) == []


def test_a_group_with_a_rate_of_0_is_frozen_by_that() -> None:
    net = mlp()
    groups = [{"params": net[0].parameters(), "lr": 0.0}, {"params": net[2].parameters()}]
    assert trained(optim.SGD(groups, lr=0.1), net) == []


@pytest.mark.parametrize("epochs", [False, True])
def test_a_rate_that_is_warmed_up_from_0_is_meant(epochs: bool) -> None:
    net = mlp()
    optimizer = optim.AdamW(net.parameters(), lr=0.01)
    schedule = LambdaLR(optimizer, lambda at: min(1.0, at / 10))
    assert trained(optimizer, net, after=lambda _: None if epochs else schedule.step()) == []


def test_a_rate_that_ends_at_0_is_meant() -> None:
    net = mlp()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    schedule = CosineAnnealingLR(optimizer, 5)
    assert trained(optimizer, net, steps=5, after=lambda _: schedule.step()) == []
    assert optimizer.param_groups[0]["lr"] == 0.0


def test_what_has_been_learned_stays_as_it_is() -> None:
    """Gradients that are almost 0 move nothing at any rate. With large gradients a small rate may be intended."""
    net = mlp()
    assert trained(optim.SGD(net.parameters(), lr=0.1), net, size=1e-12) == []
    assert trained(optim.SGD(net.parameters(), lr=1e-8), net, size=1e-12) == []
    assert trained(optim.SGD(net.parameters(), lr=1e-8), net, size=1e4) == []


def test_the_rate_of_an_optimizer_that_is_gone_is_known() -> None:
    net = mlp()
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            optimizer = optim.SGD(net.parameters(), lr=0.0)
            optimizer.zero_grad()
            net(nbgrad.ones(8, 2)).square().mean().backward()
            optimizer.step()
            del optimizer
    assert [text for text in texts(graph) if "learning rate of 0" in text]


def test_an_optimizer_of_the_users_may_have_no_number_for_a_rate() -> None:
    class Waiting(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": None})

        def update(self, params: Any, grads: Any, group: dict[str, Any]) -> None:
            """Change nothing."""

    net = mlp()
    assert trained(Waiting(net.parameters()), net) == []
