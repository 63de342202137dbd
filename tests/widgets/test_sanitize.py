"""Gradients that are clipped while a GradScaler's factor is in them, as findings of a picture."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import nbgrad
from nbgrad import nn, optim
from tests.widgets.graphs import texts


def trained(
    clip: Callable[[nn.Module, Any], Any], *, before: bool, scale: float = 2.0**16, set_to_none: bool = True
) -> list[str]:
    """The findings of a loop that clips before the gradients are unscaled if ``before`` is true, else after."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), nbgrad.amp.GradScaler("cpu", init_scale=scale)
    x = nbgrad.randn(16, 2)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad(set_to_none)
            scaler.scale((net(x) - 1).square().mean()).backward()
            if before:
                clip(net, scaler)
            scaler.unscale_(optimizer)
            if not before:
                clip(net, scaler)
            scaler.step(optimizer)
            scaler.update()
            told = texts(graph)
    assert texts(graph) == told
    return told


def by_norm(net: nn.Module, scaler: Any) -> None:
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)


def by_value(net: nn.Module, scaler: Any) -> None:
    nn.utils.clip_grad_value_(net.parameters(), 0.5)


@pytest.mark.parametrize("clip", [by_norm, by_value])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_are_clipped_before_they_are_unscaled_are_a_finding(
    clip: Callable[[nn.Module, Any], None], set_to_none: bool
) -> None:
    (text,) = trained(clip, before=True, set_to_none=set_to_none)
    assert re.match(r"the clipping at tests/widgets/test_sanitize.py:\d+, `nn.utils.clip_grad_", text)
    assert text.endswith(
        "clips gradients that still contain the factor of the GradScaler: call scaler.unscale_(optimizer) first"
    )


@pytest.mark.parametrize("clip", [by_norm, by_value])
def test_gradients_that_are_clipped_when_they_are_unscaled_are_none(clip: Callable[[nn.Module, Any], None]) -> None:
    assert trained(clip, before=False) == []
    assert trained(clip, before=False, set_to_none=False) == []
    assert trained(clip, before=True, scale=1.0) == []


def by_a_scaled_norm(net: nn.Module, scaler: Any) -> None:
    nn.utils.clip_grad_norm_(net.parameters(), 0.1 * scaler.get_scale())


def by_a_scaled_value(net: nn.Module, scaler: Any) -> None:
    nn.utils.clip_grad_value_(net.parameters(), 0.1 * scaler.get_scale())


@pytest.mark.parametrize("clip", [by_a_scaled_norm, by_a_scaled_value])
def test_a_bound_may_be_scaled_as_the_gradients_are(clip: Callable[[nn.Module, Any], None]) -> None:
    assert trained(clip, before=True) == []


def test_it_is_no_longer_reported_once_it_is_mended() -> None:
    """As in a view of several cells: the user corrects the mistake while the graph is open."""
    net = nn.Linear(2, 1)
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), nbgrad.amp.GradScaler("cpu")
    told = []
    with nbgrad.AutogradGraph() as graph:
        for step in range(4):
            optimizer.zero_grad()
            scaler.scale(net(nbgrad.ones(3, 2)).square().mean()).backward()
            if step:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            told.append(len(texts(graph)))
    assert told == [1, 0, 0, 0]


def by_no_bound(net: nn.Module, scaler: Any) -> None:
    nn.utils.clip_grad_norm_(net.parameters(), float("inf"))  # this clips nothing; it only measures the norm


@pytest.mark.parametrize("clip", [by_a_scaled_norm, by_a_scaled_value, by_no_bound])
@pytest.mark.parametrize("bias", [False, True])
def test_small_gradients_were_not_bounded(clip: Callable[[nn.Module, Any], None], bias: bool) -> None:
    """The gradients of a trained network are so small that even scaled ones are below any sensible bound."""
    net, x = nn.Linear(2, 1, bias=bias), nbgrad.eye(2)
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), nbgrad.amp.GradScaler("cpu")
    target = net(x).detach() + 1e-5
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((net(x) - target).square().mean()).backward()
            clip(net, scaler)
            scaler.step(optimizer)
            scaler.update()
    assert texts(graph) == []
