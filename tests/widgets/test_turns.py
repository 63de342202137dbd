"""Networks that take turns. A network that learns from another loss is no finding; one that stopped learning is."""

from collections.abc import Callable, Iterator

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn.functional import mse_loss
from tests.widgets.graphs import texts


def mlp(inputs: int = 2, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def wasserstein(critics: int, set_to_none: bool, rounds: int = 3) -> Iterator[None]:
    """A critic that takes so many steps for each of the generator's (Arjovsky et al. 2017)."""
    maker, judge = mlp(outputs=2), mlp()
    making, judging = (optim.RMSprop(net.parameters(), lr=1e-3) for net in (maker, judge))
    for _ in range(rounds):
        for _ in range(critics):
            judging.zero_grad(set_to_none)
            fake = maker(nbgrad.randn(16, 2)).detach()
            (judge(fake).mean() - judge(nbgrad.randn(16, 2) + 2).mean()).backward()
            yield
            judging.step()
            yield
        making.zero_grad(set_to_none)
        (-judge(maker(nbgrad.randn(16, 2))).mean()).backward()
        yield
        making.step()
        yield


@pytest.mark.sampled(12)
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("critics", [1, 2, 5, 8, 9, 17, 18, 25])
def test_a_generator_whose_turn_comes_seldom_is_not_accused(critics: int, set_to_none: bool) -> None:
    with nbgrad.AutogradGraph() as graph:
        for number, _ in enumerate(wasserstein(critics, set_to_none)):
            assert texts(graph) == [], number
    assert texts(graph) == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("turns", [1, 3, 12])
def test_two_losses_that_share_an_optimizer_may_take_turns(turns: int, set_to_none: bool) -> None:
    """An actor and a critic: each is cut off while the other learns."""
    body, actor, critic = mlp(outputs=4), nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = optim.Adam([one for net in (body, actor, critic) for one in net.parameters()], lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        for step in range(5 * turns):
            optimizer.zero_grad(set_to_none)
            hidden = body(nbgrad.randn(8, 2))
            value, chosen = critic(hidden), actor(hidden)
            if step // turns % 2:
                (chosen.log_softmax(-1)[:, 0] * value.detach()[:, 0]).mean().backward()
            else:
                (value.square().mean() + chosen.detach().mean()).backward()
            optimizer.step()
            assert step < turns or texts(graph) == [], f"after backward {step + 1}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tasks", [3, 12])
def test_heads_of_many_tasks_share_an_optimizer(tasks: int) -> None:
    body, heads = mlp(outputs=4), nn.ModuleList([nn.Linear(4, 1) for _ in range(tasks)])
    optimizer = optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for step in range(3 * tasks):
            optimizer.zero_grad()
            heads[step * step % tasks](body(nbgrad.randn(8, 2))).square().mean().backward()
            optimizer.step()
            assert texts(graph) == [], f"after backward {step + 1}"


def test_a_turn_that_comes_once_in_three_steps_may_have_come_once() -> None:
    first, second = mlp(outputs=3), mlp(3, 1)
    optimizer = optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        for step in range(9):
            optimizer.zero_grad()
            hidden = first(nbgrad.randn(8, 2))
            second(hidden.detach() if step % 3 else hidden).square().mean().backward()
            optimizer.step()
            assert texts(graph) == []


def test_an_input_whose_gradient_was_asked_for_is_none_that_learns() -> None:
    """The penalty on the gradient of a critic (Gulrajani et al. 2017), and then a step of the generator."""
    maker, judge = mlp(outputs=2), mlp()
    making, judging = (optim.Adam(net.parameters(), lr=1e-3) for net in (maker, judge))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            judging.zero_grad()
            between = nbgrad.tensor(torch.randn(8, 2), requires_grad=True)
            (slope,) = nbgrad.grad(judge(between).sum(), [between], create_graph=True)
            (slope.square().sum(1).sqrt() - 1).square().mean().backward()
            judging.step()
            making.zero_grad()
            (-judge(maker(nbgrad.randn(8, 2))).mean()).backward()
            making.step()
            assert texts(graph) == []
    assert between.requires_grad


def test_what_was_trained_first_may_be_left_alone() -> None:
    """An encoder is trained with a decoder. Then a classifier with its own optimizer learns from its output."""
    encoder, decoder, head = mlp(outputs=3), nn.Linear(3, 2), nn.Linear(3, 1)
    first = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    second, x = optim.Adam(head.parameters(), lr=1e-3), nbgrad.randn(16, 2)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(4):
            first.zero_grad()
            mse_loss(decoder(encoder(x)), x).backward()
            first.step()
        for _ in range(20):
            second.zero_grad()
            head(encoder(x).detach()).square().mean().backward()
            second.step()
            assert texts(graph) == []


def by_detach(body: nn.Module) -> nbgrad.Tensor:
    return body(nbgrad.ones(3, 2)).detach()


def by_rounding(body: nn.Module) -> nbgrad.Tensor:
    return (body(nbgrad.ones(3, 2)) > 0).float()


def by_no_grad(body: nn.Module) -> nbgrad.Tensor:
    with nbgrad.no_grad():
        return body(nbgrad.ones(3, 2))


WHERE = {
    by_detach: "return body(nbgrad.ones(3, 2)).detach()",
    by_rounding: "return (body(nbgrad.ones(3, 2)) > 0).float()",
    by_no_grad: "return body(nbgrad.ones(3, 2))",
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("cut", [by_detach, by_rounding, by_no_grad])
@pytest.mark.parametrize("several", [False, True])
def test_what_is_cut_off_after_some_steps_is_said_to_get_none(
    cut: Callable[[nn.Module], nbgrad.Tensor], set_to_none: bool, several: bool
) -> None:
    """A finding comes once a layer gets no gradient for longer than it learned. Zero gradients are no learning."""
    body, head = nn.Linear(2, 4), nn.Linear(4, 1)
    groups = [body, head] if several else [nn.Sequential(body, head)]
    optimizers = [optim.SGD(one.parameters(), lr=0.1) for one in groups]
    told = []
    with nbgrad.AutogradGraph() as graph:
        for step in range(20):
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none)
            hidden = body(nbgrad.ones(3, 2)) if step < 5 else cut(body)
            head(hidden).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()
            told.append(texts(graph))
    assert told[:10] == [[]] * 10
    for (text,) in told[10:]:
        assert text.startswith("The last backward gave no gradient to Linear.weight (4, 2), Linear.bias (4,): ")
        assert f"`{WHERE[cut]}`" in text


def test_an_optimizer_may_hold_what_has_no_shape_yet() -> None:
    later, net = nn.LazyLinear(3), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = optim.SGD([*later.parameters(), *net.parameters()], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        optimizer.zero_grad()
        net[1](net[0](nbgrad.ones(3, 2)).detach()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        optimizer.step()
    (text,) = texts(graph)
    assert text.startswith("No gradient reached net.0.weight (2, 2), net.0.bias (2,): the result of linear is cut")
