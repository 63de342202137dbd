"""Modules in a plain list or dict, as findings of a picture."""

from collections.abc import Callable
from typing import Any

import pytest

import nbgrad
from nbgrad import nn, optim
from nbgrad.widgets.describe import describe


class Stack(nn.Module):
    """A sequence of layers in a container: ``keep`` makes it from their list."""

    def __init__(self, keep: Callable[[list[nn.Module]], Any], *, depth: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        layers = [nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(depth)]
        self.layers = keep(layers)
        self.order = [lambda layers=layers, at=at: layers[at] for at in range(depth)]

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.first(x)
        for layer in self.order:
            x = layer()(x)
        return x


class Weights(nn.Module):
    def __init__(self, keep: Callable[[list[nn.Parameter]], Any]) -> None:
        super().__init__()
        weights = [nn.Parameter([1.0, 2.0]), nn.Parameter([3.0, 4.0])]
        self.weights, self.read = keep(weights), lambda: weights

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        for weight in self.read():
            x = x * weight
        return x


def found(net: nn.Module) -> list[str]:
    with nbgrad.AutogradGraph() as graph:
        nn.Sequential(net)(nbgrad.ones(3, 2)).sum().backward()
        before = [problem["text"] for problem in describe(graph)["problems"]]
    described = describe(graph)
    assert [problem["text"] for problem in described["problems"]] == before
    assert all(problem["node"] is not None for problem in described["problems"])
    return before


def named(modules: list[Any]) -> dict[str, Any]:
    return {f"layer {at}": module for at, module in enumerate(modules)}


PLAIN: dict[str, tuple[nn.Module, str, str, str]] = {
    "list": (Stack(list), "Stack.layers is a plain list", "Sequential in layers[0] and of 2 more:", "nn.ModuleList"),
    "tuple": (Stack(tuple), "Stack.layers is a plain tuple", "in layers[0] and of 2 more:", "nn.ModuleList"),
    "dict": (Stack(named), "Stack.layers is a plain dict", "in layers['layer 0'] and of 2 more:", "nn.ModuleDict"),
    "lists": (
        Stack(lambda some: [some[:1], some[1:]]),
        "a plain list",
        "in layers[0][0] and of 2 more:",
        "nn.ModuleList",
    ),
    "one": (Stack(list, depth=1), "a plain list", "the Sequential in layers[0]: an optimizer", "nn.ModuleList"),
    "parameters": (Weights(list), "Weights.weights is a plain list", "the parameter in weights[0]", "nn.ParameterList"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_modules_in_a_plain_container_are_a_finding(name: str) -> None:
    net, *words = PLAIN[name]
    (text,) = found(net)
    assert [word for word in words if word not in text] == []


def test_what_is_registered_frozen_or_in_an_optimizer_is_none() -> None:
    for keep in (nn.ModuleList, lambda layers: nn.ModuleDict({str(at): one for at, one in enumerate(layers)})):
        assert found(Stack(keep)) == []
    assert found(Weights(nn.ParameterList)) == []
    both = Stack(list)
    both.known = nn.ModuleList(both.layers)
    assert found(both) == []
    frozen, held = Stack(list), Stack(list)
    for layer in frozen.layers:
        layer.requires_grad_(False)
    assert found(frozen) == []
    kept = optim.SGD([parameter for layer in held.layers for parameter in layer.parameters()], lr=0.1)
    assert found(held) == []
    del kept
    assert len(found(held)) == 1


def test_it_is_said_once_also_after_a_step() -> None:
    net = Stack(list)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.ones(3, 2)).sum().backward()
        optimizer.step()
    (problem,) = describe(graph)["problems"]
    assert problem["text"].startswith("Stack.layers is a plain list")
    assert len(graph.unheld()) == 6


def test_what_was_not_called_is_none() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net.others = [nn.Linear(2, 2)]
    assert found(net) == []
