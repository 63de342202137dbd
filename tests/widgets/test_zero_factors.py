"""Modules before a layer or gain that begins at 0 wait for its first step. If it never moves, they are a finding."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description

Made = Callable[[], tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]]
"""The module with the parameters, and the function that is applied to the data."""


def zero(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def parts(**modules: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict({**modules, "read": nn.Linear(8, 3)})


def control() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    """A zero convolution before the copy, and one behind it."""
    net = parts(base=nn.Conv1d(1, 4, 1).requires_grad_(False), copy=nn.Conv1d(1, 4, 1))
    net["begin"], net["end"] = zero(nn.Conv1d(1, 1, 1)), zero(nn.Conv1d(4, 4, 1))

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = x[:, None]
        made = net["base"](x) + net["end"](net["copy"](x + net["begin"](x)).relu())
        return net["read"](made.sum(1))

    return net, run


class Gain(nn.Module):
    """A residual block with a gain: one number, or one for each feature."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.block, self.gain = nn.Linear(8, 8), nn.Parameter(torch.zeros(size))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return x + self.gain * self.block(x).tanh()


def gains(size: int) -> Made:
    def made() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
        net = nn.Sequential(nn.Linear(8, 8), Gain(size), Gain(size), nn.Linear(8, 3))
        return net, net

    return made


def gain_behind_a_norm() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    """Its gain and the weight of the normalization before it are 0: the first step moves the weight alone."""
    net = parts(norm=nn.BatchNorm1d(8), gain=Gain(1))
    nn.init.zeros_(net["norm"].weight)
    return net, lambda x: net["read"](x + net["gain"](net["norm"](x)))


def projection() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net = parts(first=nn.Linear(8, 8), second=zero(nn.Linear(8, 8)))
    return net, lambda x: net["read"](x + net["second"](net["first"](x).relu()))


def normalized() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    """A residual block that ends in a batch norm with gains of 0."""
    net = parts(first=nn.Linear(8, 8), norm=nn.BatchNorm1d(8))
    nn.init.zeros_(net["norm"].weight)
    return net, lambda x: net["read"](x + net["norm"](net["first"](x)))


def modulated() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    """adaLN-zero: shift, scale and gate are made by a layer of zeros, and so is the result."""
    net = parts(into=nn.Linear(8, 8), about=nn.Linear(8, 8), ada=zero(nn.Linear(8, 24)), block=nn.Linear(8, 8))
    net["norm"], net["read"] = nn.LayerNorm(8, elementwise_affine=False), zero(nn.Linear(8, 3))

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        shift, scale, gate = net["ada"](net["about"](x).sigmoid()).chunk(3, -1)
        x = net["into"](x)
        return net["read"](x + gate * net["block"](net["norm"](x) * (1 + scale) + shift))

    return net, run


def policy() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), zero(nn.Linear(16, 3)))
    return net, net


HEALTHY: dict[str, Made] = {
    "zero convolutions": control,
    "a gain of 0": gains(1),
    "gains of 0": gains(8),
    "a gain of 0 behind a norm of 0": gain_behind_a_norm,
    "the last layer of a block": projection,
    "the last norm of a block": normalized,
    "adaLN-zero": modulated,
    "the last layer": policy,
}


def trained(
    made: Made, steps: float, make: Callable[[nn.Module], optim.Optimizer] | None = None, lr: float = 1e-2
) -> Description:
    """The picture after so many steps. Half a step is a backward without its step."""
    nbgrad.manual_seed(0)
    net, run = made()
    learned = [one for one in net.parameters() if one.requires_grad]
    optimizer = optim.Adam(learned, lr=lr) if make is None else make(net)
    x, target = nbgrad.randn(16, 8), nbgrad.randn(16, 3)
    with nbgrad.AutogradGraph() as graph:
        for step in range(int(steps + 0.5)):
            optimizer.zero_grad()
            functional.mse_loss(run(x), target).backward()
            if step + 1 <= steps:
                optimizer.step()
    return describe(graph)


def findings(described: Description) -> list[str]:
    wrong = [one["text"] for one in described["verdicts"] if one["kind"] != "sound"]
    return [one["text"] for one in described["problems"]] + wrong


@pytest.mark.parametrize("case", HEALTHY)
@pytest.mark.parametrize("steps", [0.5, 1, 1.5, 2, 10])
def test_what_waits_for_a_factor_that_begins_at_0_is_not_accused(case: str, steps: float) -> None:
    described = trained(HEALTHY[case], steps)
    assert findings(described) == []
    if steps <= 1:
        note = described["notes"][0]
        assert note.startswith("No gradient goes past " if steps < 1 else "No gradient went past ")
        assert (
            "all 0. This factor gets a gradient itself" in note
            or "is 0. This factor" in note
            or "was 0 then. Adam.step() has moved it" in note
        )
        assert any("exactly zero so far" in one["text"] for one in described["verdicts"])
    elif steps > 2:
        assert described["notes"] == []


@pytest.mark.parametrize("case", HEALTHY)
def test_what_grows_slowly_from_0_is_not_accused(case: str) -> None:
    assert findings(trained(HEALTHY[case], 10, lr=1e-5)) == []


def test_the_note_names_the_line_the_module_and_the_factor() -> None:
    (note,) = trained(policy, 0.5)["notes"]
    assert note.startswith("No gradient goes past linear at tests/widgets/test_zero_factors.py:")
    assert "in Sequential > 4 (Linear), because 4.weight (3, 16) is all 0. This factor gets a gradient itself" in note


def test_gradients_that_are_accumulated_before_the_first_step_are_not_accused() -> None:
    net, run = projection()
    x = nbgrad.randn(16, 8)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(4):
            run(x).square().mean().backward()
    assert optimizer is not None
    assert findings(describe(graph)) == []


def frozen() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net, run = policy()
    net[4].weight.requires_grad_(False)  # type: ignore[index]
    return net, run


def masked() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net, mask = parts(first=nn.Linear(8, 8)), nbgrad.zeros(8)
    return net, lambda x: net["read"](x + mask * net["first"](x))


def two_layers() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net = nn.Sequential(nn.Linear(8, 8), zero(nn.Linear(8, 8)), nn.ReLU(), zero(nn.Linear(8, 3)))
    return net, net


def two_gains() -> tuple[nn.Module, Callable[[nbgrad.Tensor], nbgrad.Tensor]]:
    net = parts(first=nn.Linear(8, 8), one=Gain(1), other=Gain(1))
    return net, lambda x: net["read"](x + net["one"].gain * net["other"].gain * net["first"](x))


SICK: dict[str, tuple[str, Made]] = {
    "frozen": ("because 4.weight (3, 16) is all 0 and gets no gradient", frozen),
    "a mask of zeros": ("(8,) is all 0", masked),
    "two layers": ("because 3.weight (3, 8) is all 0 and gets a gradient of 0 itself", two_layers),
    "two gains": ("because the result of mul (1,) is all 0", two_gains),
}


@pytest.mark.parametrize("case", SICK)
@pytest.mark.parametrize("steps", [0.5, 1, 1.5, 10])
def test_what_no_step_moves_away_from_0_is_accused(case: str, steps: float) -> None:
    why, made = SICK[case]
    described = trained(made, steps)
    assert described["notes"] == []
    assert any(why in one["text"] for one in described["problems"])
    assert any("nothing here learns from this loss" in text for text in findings(described))


def forgotten(net: nn.Module) -> optim.Optimizer:
    return optim.Adam([one for name, one in net.named_parameters() if name != "second.weight"], lr=1e-2)


def still(net: nn.Module) -> optim.Optimizer:
    second = dict(net.named_parameters())["second.weight"]
    others = [one for one in net.parameters() if one is not second]
    return optim.Adam([{"params": others}, {"params": [second], "lr": 0.0}], lr=1e-2)


@pytest.mark.parametrize("make", [forgotten, still])
@pytest.mark.parametrize("steps", [1, 1.5, 2, 10])
def test_a_factor_of_0_that_a_step_has_left_where_it_was_is_accused(
    make: Callable[[nn.Module], optim.Optimizer], steps: float
) -> None:
    described = trained(projection, steps, make)
    assert described["notes"] == []
    assert any("weight (8, 8) is all 0 and no step moves it" in one["text"] for one in described["problems"])


@pytest.mark.parametrize("library", [nbgrad, torch])
def test_clipping_hides_no_weight_that_begins_at_0(library: Any) -> None:
    """Clipping changes each ``.grad``, so the gradients at the inputs of the layers are not known any more."""
    net = library.nn.Sequential(library.nn.Linear(1, 24), library.nn.Tanh(), library.nn.Linear(24, 1))
    for parameter in net[2].parameters():
        parameter.data.fill_(0.0)
    optimizer = library.optim.Adam(net.parameters(), lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        net(library.randn(64, 1)).add(1).square().mean().backward()
        library.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    assert graph.findings() == []
