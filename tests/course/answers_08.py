"""Answers to the exercises of lesson 8, right ones in several forms and the usual wrong ones."""

from typing import Any

import numpy as np
import torch

import nbgrad
from nbgrad import nn


def gain(activation: Any, power: float = -0.5, *, variance: bool = False) -> Any:
    nbgrad.manual_seed(1)
    values = activation(nbgrad.randn(400_000))
    return (values.var() if variance else (values**2).mean()).item() ** power


def few(activation: Any) -> Any:
    """Uses a thousand numbers that happen to fit very well."""
    values = nbgrad.tensor(np.sqrt(2) * torch.erfinv((torch.arange(1000.0) + 0.5) / 500 - 1).numpy())
    return (activation(values) ** 2).mean().item() ** -0.5


def in_a_row(layers: int) -> Any:
    x = nbgrad.tensor(0.0, dtype=nbgrad.float64, requires_grad=True)
    h = x
    for _ in range(layers):
        h = h.sigmoid()
    h.backward()
    return x.grad


class Around(nn.Module):
    def __init__(self, body: nn.Module, factor: float) -> None:
        super().__init__()
        self.body, self.factor = body, factor

    def forward(self, x: Any) -> Any:
        return x + self.body(x) * self.factor


def deep(layers: int, block: Any = nn.Residual, body: Any = (), last: Any = 10) -> nn.Module:
    nbgrad.manual_seed(0)
    blocks = [block(nn.Sequential(*(one() for one in body), nn.Linear(32, 32), nn.ReLU())) for _ in range(layers)]
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), *blocks, nn.Linear(32, last))


def normalized(layers: int) -> nn.Module:
    return deep(layers, body=(lambda: nn.LayerNorm(32),))


def norm_at_the_end(layers: int) -> nn.Module:
    *blocks, last = deep(layers)
    return nn.Sequential(*blocks, nn.LayerNorm(32), last)


def weak(layers: int) -> nn.Module:
    return deep(layers, lambda body: Around(body, 1 / layers))


def kaiming(layers: int) -> nn.Module:
    def begin(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    return deep(layers).apply(begin)


def without_relu(net: nn.Module) -> nn.Module:
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.Identity())
    return net


def normalized_after(layers: int) -> nn.Module:
    nbgrad.manual_seed(0)
    blocks = [nn.Residual(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.LayerNorm(32))) for _ in range(layers)]
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), *blocks, nn.Linear(32, 10))


RIGHT: dict[str, list[Any]] = {
    "8.1": [
        lambda layers: 0.25**layers,
        lambda layers: nbgrad.tensor(0.25, dtype=nbgrad.float64) ** layers,
        lambda layers: 1 / 4**layers,
    ],
    "8.2": [normalized, weak, lambda layers: weak(layers).to(nbgrad.float64)],
    "8.3": [gain, lambda activation: gain(activation, 0.5) ** -1],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "8.1": [
        (lambda layers: 0.5**layers, "numbers", "it takes the value of a sigmoid at 0"),
        (lambda layers: 0.25 * layers, "numbers", "the slopes of layers in a row are multiplied"),
        (lambda layers: 0.25 ** (layers - 1), "shifted", "one sigmoid does not leave the whole gradient"),
        (lambda layers: 0.25 / layers, "numbers", "it is divided by the number of layers"),
        (lambda layers: 4.0**layers, "factor", "it grows with the number of layers"),
        (lambda layers: 1 - 0.25**layers, "offset", "that is the share that is lost"),
        (lambda layers: 0.25 ** min(layers, 7), "numbers", "it is right for few layers only"),
        (lambda layers: 0.25, "numbers", "it is what one sigmoid leaves: it has to depend on the number"),
        (
            lambda layers: 0.5 * (1 - 0.5) ** layers,
            "numbers",
            "the power belongs to the whole slope: parentheses",
        ),
        (in_a_row, "numbers", "that is the share for x = 0"),
        (0.25, "type", "a function is expected, kept(layers)"),
    ],
    "8.2": [
        (deep, "factor", "they grow from block to block"),
        (kaiming, "factor", "they grow from block to block"),
        (norm_at_the_end, "factor", "inside of a fresh network values have the size"),
        (lambda layers: deep(layers, lambda body: Around(body, 1e-9)), "row", "Do the blocks add too little"),
        (lambda layers: normalized(10), "shape", "the answer has 10"),
        (lambda layers: deep(layers, nn.Sequential), "row", "10,000 times the smallest. Is there a way around each"),
        (lambda layers: without_relu(weak(layers)), "element", "it has 0 ReLU: one in each of 50 layers is expected"),
        (
            normalized_after,
            "numbers",
            "the loss rises by more than 1: what the blocks add is still too large",
        ),
        (lambda layers: deep(layers, lambda body: Around(body, 0.0)), "zero", "layers get no gradient at all"),
        (lambda layers: deep(layers, body=(lambda: nn.LayerNorm(32),), last=3), "shape", "(64, 10) is expected"),
        (lambda layers: nn.Linear(3, 3), "raised", "raised"),
        (lambda layers: normalized(50), "shape", "deep_cured(3) makes as many layers as deep_cured(50)"),
        (normalized(50), "type", "a function that makes the network is expected"),
    ],
    "8.3": [
        (lambda activation: gain(activation, variance=True), "offset", "it uses the variance"),
        (lambda activation: gain(activation, 0.5), "factor", "it is upside down"),
        (lambda activation: gain(activation, -1), "factor", "a square root is missing"),
        (lambda activation: gain(activation, 1), "factor", "that is the mean square itself"),
        (lambda activation: print(), "type", "gives None"),
        (
            lambda activation: (activation(nbgrad.rand(200_000)) ** 2).mean().item() ** -0.5,
            "factor",
            "the identity changes nothing, so no factor is needed. Do the numbers come from",
        ),
        (lambda activation: 2**0.5, "numbers", "that is the gain of another activation: call the one that is given"),
        (few, "numbers", "gain is measured on 1,000 numbers, where chance moves it: 100,000 or more are asked for"),
        (
            lambda activation: activation(np.random.default_rng(0).standard_normal(200_000)).square().mean() ** -0.5,
            "raised",
            "Make the numbers with nbgrad.randn",
        ),
    ],
}
