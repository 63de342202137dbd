"""Activations that let no gradient through, as findings of a picture."""

from collections.abc import Callable

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe


def found(run: Callable[[], nbgrad.Tensor], *, watch: bool = True) -> list[str]:
    """The findings of a graph that has ``run`` and the backward of its sum. Open or closed it has the same ones."""
    with nbgrad.AutogradGraph(watch=watch) as graph:
        run().sum().backward()
        before = [problem["text"] for problem in describe(graph)["problems"]]
    assert [problem["text"] for problem in describe(graph)["problems"]] == before
    return before


def off(layer: nn.Module, units: int | None = None) -> nn.Module:
    """``layer`` with a bias that makes ``units`` of its outputs far less than 0 for every input."""
    layer.bias.data[:units] = -100
    return layer


ALL = "let no gradient through: a gradient arrived at its result"

FAR = nn.Parameter([99.0] * 3)

DEAD: dict[str, Callable[[], nbgrad.Tensor]] = {
    "relu": lambda: nn.Sequential(off(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 1))(nbgrad.randn(5, 4)),
    "relu6": lambda: nn.Sequential(off(nn.Linear(4, 8)), nn.ReLU6(), nn.Linear(8, 1))(nbgrad.randn(5, 4)),
    "hardtanh": lambda: nn.Sequential(off(nn.Linear(4, 8)), nn.Hardtanh(), nn.Linear(8, 1))(nbgrad.randn(5, 4)),
    "threshold": lambda: nn.Sequential(off(nn.Linear(4, 8)), nn.Threshold(0.1, 0.0))(nbgrad.randn(5, 4)),
    "too large to keep": lambda: nn.Sequential(off(nn.Linear(4, 64)), nn.ReLU())(nbgrad.randn(64, 4)),
    "a convolution": lambda: nn.Sequential(off(nn.Conv2d(1, 4, 3)), nn.ReLU())(nbgrad.randn(2, 1, 8, 8)),
    "written by hand": lambda: functional.relu(nbgrad.randn(9, 4) @ nn.Parameter(torch.randn(4, 3)) - FAR),
    "behind a sum": lambda: off(nn.Linear(8, 8))((nbgrad.randn(5, 8, requires_grad=True) - 99).relu()),
}


@pytest.mark.parametrize("name", DEAD)
def test_an_activation_that_is_off_everywhere_is_a_finding(name: str) -> None:
    (text,) = found(DEAD[name])
    assert ALL in text
    assert text.startswith(name if name.isidentifier() else "relu")
    assert found(DEAD[name], watch=False) == []


def test_a_loop_over_time_is_reported_once() -> None:
    cell, read = off(nn.Linear(4, 8)), nn.Linear(8, 1)
    (text,) = found(lambda: sum([read(functional.relu(cell(nbgrad.randn(5, 4)))) for _ in range(6)]))
    assert text.endswith("The same holds for 5 more of its calls there.")


@pytest.mark.parametrize(
    ("units", "layer", "shape"),
    [
        (16, lambda: nn.Linear(4, 16), (32, 4)),
        (16, lambda: nn.Linear(4, 16), (2, 16, 4)),
        (8, lambda: nn.Conv2d(1, 8, 3), (2, 1, 8, 8)),
    ],
)
def test_most_units_that_are_off_for_all_samples_are_a_finding(
    units: int, layer: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    some = off(layer(), units - 1)
    some.bias.data[-1] = 100
    (text,) = found(lambda: functional.relu(some(nbgrad.randn(*shape))))
    assert text.startswith(f"{units - 1} of the {units} units of relu let no gradient through")
    few = off(layer(), units // 2)
    few.bias.data[units // 2 :] = 100
    assert found(lambda: functional.relu(few(nbgrad.randn(*shape)))) == []


def between(activation: nn.Module, size: float, width: int = 16) -> nbgrad.Tensor:
    nbgrad.manual_seed(0)
    x = nbgrad.randn(16, 8) * size
    made: nbgrad.Tensor = nn.Sequential(nn.Linear(8, width), activation, nn.Linear(width, 1))(x)
    return made


@pytest.mark.parametrize(("activation", "name"), [(nn.Sigmoid(), "sigmoid"), (nn.Tanh(), "tanh")])
@pytest.mark.parametrize("width", [16, 200])
def test_one_that_is_nearly_flat_for_most_of_its_inputs_is_a_finding(
    activation: nn.Module, name: str, width: int
) -> None:
    (text,) = found(lambda: between(activation, 255.0, width))
    assert text.startswith(f"{name} is saturated: most of its inputs, of shape (16, {width}), lie so far from 0")
    assert found(lambda: between(activation, 3.0, width)) == []
    assert found(lambda: activation(nn.Linear(8, 16)(nbgrad.randn(16, 8) * 255))) == [], "what is learned may be sure"


def hinge() -> nbgrad.Tensor:
    score, side = nn.Linear(2, 1)(nbgrad.zeros(16, 2)), nbgrad.zeros(16, 1)
    return functional.relu(side * score - 1)


def one_is_on(layer: nn.Module) -> nn.Module:
    off(layer).bias.data[0] = 100
    return layer


SOUND: dict[str, Callable[[], nbgrad.Tensor]] = {
    "a loss that is 0": hinge,
    "no gradient came": lambda: functional.relu(off(nn.Linear(4, 8))(nbgrad.randn(5, 4))) * 0,
    "a few numbers": lambda: functional.relu(off(nn.Linear(4, 3))(nbgrad.randn(2, 4))),
    "one sample": lambda: functional.relu(one_is_on(nn.Linear(4, 16))(nbgrad.ones(1, 4))),
    "a slope": lambda: functional.leaky_relu(off(nn.Linear(4, 8))(nbgrad.randn(5, 4))),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_off_for_a_good_reason_is_none(name: str) -> None:
    assert found(SOUND[name]) == []
