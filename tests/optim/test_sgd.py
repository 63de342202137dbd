"""SGD walks where torch's walks, step for step."""

from itertools import product

import pytest
import torch

import nbgrad
from nbgrad import nn, optim

VALUES = {
    "lr": (0.1, 1),
    "momentum": (0, 0.9),
    "dampening": (0, 0.5),
    "weight_decay": (0, 0.01),
    "nesterov": (False, True),
    "maximize": (False, True),
}
COMBINATIONS = [dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values())]
SETTINGS = [s for s in COMBINATIONS if not s["nesterov"] or (s["momentum"] and not s["dampening"])]


class Walk:
    """Three parameters under our SGD or torch's; gradients come from the step and the values, the same for both."""

    def __init__(self, kind, sgd, settings):
        generator = torch.Generator().manual_seed(2)
        shapes = ((3, 2), (), (0, 4))
        self.params = [kind(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in shapes]
        self.sgd = sgd(self.params, **settings)

    def step(self, number):
        self.sgd.zero_grad()
        for position, param in enumerate(self.params):
            # The second has no gradient at first and now and then: its momentum starts later and pauses.
            if position != 1 or number % 4 > 1:
                param.grad = param.data.sin() * 0.3 + number % 3
        self.sgd.step()
        return [param.data.clone() for param in self.params]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(f"{name}={value}" for name, value in s.items()))
def test_fifty_steps_are_torchs(settings):
    ours, theirs = Walk(nn.Parameter, optim.SGD, settings), Walk(torch.nn.Parameter, torch.optim.SGD, settings)
    for number in range(50):
        for mine, yours in zip(ours.step(number), theirs.step(number), strict=True):
            torch.testing.assert_close(mine, yours, rtol=1e-13, atol=1e-13)


def test_a_network_learns_as_torchs_does():
    ours = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(torch.float64)
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    theirs.load_state_dict(ours.state_dict())
    x, target = torch.randn(30, 4, dtype=torch.float64), torch.arange(30) % 3
    settings = {"lr": 0.2, "momentum": 0.9, "weight_decay": 1e-3, "nesterov": True}
    losses = [], []
    for model, loss_of, sgd, data, seen in (
        (ours, nn.CrossEntropyLoss(), optim.SGD(ours.parameters(), **settings), nbgrad.tensor(x), losses[0]),
        (theirs, torch.nn.CrossEntropyLoss(), torch.optim.SGD(theirs.parameters(), **settings), x, losses[1]),
    ):
        for _ in range(50):
            sgd.zero_grad()
            loss = loss_of(model(data), target)
            loss.backward()
            sgd.step()
            seen.append(loss.item())
    assert losses[0][-1] < losses[0][0] / 2
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=1e-9, atol=1e-12)


def test_gradients_are_left_as_they_are():
    param = nn.Parameter([1.0, 2.0])
    sgd = optim.SGD([param], lr=0.1, momentum=0.9, weight_decay=0.1)
    param.grad = torch.ones(2)
    for _ in range(3):
        sgd.step()
    assert param.grad.data.eq(1).all()


def test_parameters_change_in_place():
    param = nn.Parameter([1.0, 2.0])
    data = param.data
    param.grad = torch.ones(2)
    optim.SGD([param], lr=0.5).step()
    assert param.data is data
    assert data.tolist() == [0.5, 1.5]


def test_defaults_are_torchs():
    ours = optim.SGD([nn.Parameter(1.0)]).param_groups[0]
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.tensor(1.0))]).param_groups[0]
    assert {name: theirs[name] for name in ours if name != "params"} == {k: v for k, v in ours.items() if k != "params"}


@pytest.mark.parametrize("starts_with_torch", [True, False])
def test_state_moves_between_torch_and_us_in_midwalk(starts_with_torch):
    settings = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
    whole, first = Walk(nn.Parameter, optim.SGD, settings), Walk(nn.Parameter, optim.SGD, settings)
    second = Walk(torch.nn.Parameter, torch.optim.SGD, {"lr": 5, "momentum": 0.1})
    if starts_with_torch:
        first, second = Walk(torch.nn.Parameter, torch.optim.SGD, settings), Walk(nn.Parameter, optim.SGD, {"lr": 5})
    for number in range(10):
        expected = [whole.step(number), first.step(number)][0]
    for source, target in zip(first.params, second.params, strict=True):
        target.data.copy_(source.data)
    second.sgd.load_state_dict(first.sgd.state_dict())
    for number in range(10, 20):
        expected, got = whole.step(number), second.step(number)
        torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "dampening": 0.1}])
def test_nesterov_needs_plain_momentum(settings):
    with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
        optim.SGD([nn.Parameter(1.0)], nesterov=True, **settings)
