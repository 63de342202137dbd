"""Optimizers that clear gradients in every round and never take a step, as findings of a picture."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn.functional import mse_loss
from nbgrad.widgets.describe import describe
from tests.widgets.graphs import texts


def mlp(inputs: int = 2, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def looped(steps: int, run: Callable[[optim.Optimizer, nn.Module], Any], kind: type[Any] = optim.Adam) -> list[str]:
    """The findings of a loop after its end: until then the step could still come. Each round ends in ``run``."""
    net = mlp()
    optimizer = kind(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            net(nbgrad.randn(8, 2)).square().mean().backward()
            run(optimizer, net)
            assert texts(graph) == []
    return texts(graph)


FORGOTTEN = (
    "Adam holds 0.weight (8, 2), 0.bias (8,) and 2 others, the last of them 2.bias (1,), which got a gradient, but "
    "5 calls of its zero_grad() came without any of its step(): call step() after backward() if they are to learn"
)


def test_a_step_that_is_forgotten_is_a_finding_at_the_first_parameter() -> None:
    net = mlp()
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            optimizer.zero_grad()
            net(nbgrad.randn(8, 2)).square().mean().backward()
    described = describe(graph)
    (problem,) = described["problems"]
    assert problem["text"] == FORGOTTEN
    (node,) = [node for node in described["nodes"] if node["id"] == problem["node"]]
    assert node["label"][:2] == ["weight", "(8, 2)"]


@pytest.mark.rotated(3)
def test_a_live_view_of_a_long_loop_does_not_wait_for_its_end() -> None:
    net, opponent = mlp(), mlp()
    optimizer, other = optim.Adam(net.parameters()), optim.SGD(opponent.parameters())
    with nbgrad.AutogradGraph() as graph:
        for rounds in range(1, 34):
            optimizer.zero_grad()
            other.zero_grad()
            (net(nbgrad.randn(8, 2)) * opponent(nbgrad.randn(8, 2))).mean().backward()
            if rounds % 25 == 0:
                other.step()
            told = [text for text in texts(graph) if " of its step()" in text]
            assert told == ([FORGOTTEN.replace("5 calls", f"{rounds} calls")] if rounds >= 30 else []), rounds


@pytest.mark.parametrize("instead", ["twice", "other"])
def test_an_optimizer_that_is_stepped_instead_of_another_is_none(instead: str) -> None:
    encoder, decoder = mlp(outputs=3), mlp(3, 2)
    first, second = optim.SGD(encoder.parameters(), lr=0.1), optim.Adam(decoder.parameters())
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            for optimizer in (first, second):
                optimizer.zero_grad()
            x = nbgrad.randn(8, 2)
            mse_loss(decoder(encoder(x)), x).backward()
            for optimizer in (first, first if instead == "twice" else second):
                optimizer.step()
    found = texts(graph)
    assert [text.partition(" which")[0] for text in found] == (
        ["Adam holds decoder.0.weight (8, 3), decoder.0.bias (8,) and 2 others, the last of them decoder.2.bias (2,),"]
        if instead == "twice"
        else []
    )


def by_hand(optimizer: optim.Optimizer, net: nn.Module) -> None:
    with nbgrad.no_grad():
        for parameter in net.parameters():
            parameter -= 0.1 * parameter.grad


class Own(optim.Optimizer):
    """An optimizer with the user's own step, which nbgrad does not see."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad.data, alpha=-group["lr"])


@pytest.mark.rotated(3)
def test_what_learns_in_another_way_is_no_finding() -> None:
    assert len(looped(3, lambda optimizer, net: None)) == 1
    assert looped(2, lambda optimizer, net: None) == [], "to show that the gradient is the same again"
    assert looped(5, lambda optimizer, net: optimizer.step()) == []
    assert looped(5, by_hand) == []
    assert looped(5, lambda optimizer, net: optimizer.step(), kind=Own) == []


def test_gradients_may_be_gathered_by_who_clears_them_at_the_module() -> None:
    """Programs do this for the Fisher information after a training. The optimizer of the training still exists."""
    net = mlp()
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            net.zero_grad()
            net(nbgrad.randn(1, 2)).square().mean().backward()
    assert optimizer.param_groups
    assert texts(graph) == []


def test_a_scaler_may_leave_out_all_first_steps() -> None:
    net = mlp()
    optimizer, scaler = optim.Adam(net.parameters()), nbgrad.amp.GradScaler("cpu", init_scale=float("inf"))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            optimizer.zero_grad()
            scaler.scale(net(nbgrad.randn(8, 2)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert not [text for text in texts(graph) if "zero_grad" in text]


def test_a_cell_that_was_stopped_is_not_judged() -> None:
    net = mlp()
    optimizer = optim.Adam(net.parameters())
    graph = nbgrad.AutogradGraph()
    with suppress(KeyboardInterrupt), graph:
        for _ in range(5):
            optimizer.zero_grad()
            net(nbgrad.randn(8, 2)).square().mean().backward()
        raise KeyboardInterrupt
    assert texts(graph) == []


def test_what_one_network_gives_another_while_that_takes_its_steps_is_no_finding() -> None:
    """The critic's loss goes through the generator. The generator's gradients are cleared, and wait for their turn."""
    maker, judge = mlp(outputs=2), mlp()
    making, judging = optim.RMSprop(maker.parameters(), lr=1e-3), optim.RMSprop(judge.parameters(), lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        for step in range(13):
            judging.zero_grad()
            making.zero_grad()
            judge(maker(nbgrad.randn(8, 2))).mean().backward()
            (making if step % 6 == 5 else judging).step()
            assert texts(graph) == []
    assert texts(graph) == []


def test_lbfgs_clears_in_its_closure() -> None:
    net, x = mlp(), nbgrad.randn(8, 2)
    optimizer = optim.LBFGS(net.parameters(), max_iter=5)

    def closure() -> nbgrad.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    with nbgrad.AutogradGraph() as graph:
        optimizer.step(closure)
    assert texts(graph) == []


def by_raw_data(optimizer: optim.Optimizer, net: nn.Module) -> None:
    for param in net.parameters():
        param.data.add_(param.grad.data, alpha=-0.1)


def by_torchs_optimizer(optimizer: optim.Optimizer, net: nn.Module) -> None:
    raw = [param.data for param in net.parameters()]
    for held, param in zip(raw, net.parameters(), strict=True):
        held.grad = param.grad.data
    torch.optim.SGD(raw, lr=0.1).step()


@pytest.mark.parametrize("change", [by_raw_data, by_torchs_optimizer])
@pytest.mark.parametrize("steps", [3, 4, 5])
def test_parameters_that_are_changed_unseen_learn(
    change: Callable[[optim.Optimizer, nn.Module], None], steps: int
) -> None:
    assert looped(steps, change) == []
