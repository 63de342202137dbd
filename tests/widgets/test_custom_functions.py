"""A backward of the user's ``Function`` that is not the derivative of its forward is found; one on purpose is not."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad

Pair = tuple[Callable[..., Any], Callable[..., Any]]
"""A forward of tensors, and a backward of the gradient of its result and these tensors."""

BETA = 1.7


def sigmoid_slope(x: Any) -> Any:
    return x.sigmoid() * (1 - x.sigmoid())


def softmax_slope(g: Any, x: Any) -> Any:
    p = x.softmax(-1)
    return p * (g - (g * p).sum(-1, keepdim=True))


def normed(x: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + (x / math.sqrt(2)).erf())


def gelu_slope(x: Any) -> Any:
    return 0.5 * (1 + (x / math.sqrt(2)).erf()) + x * (-x * x / 2).exp() / math.sqrt(2 * math.pi)


def quick_slope(x: Any) -> Any:
    """The slope of the usual approximation with tanh."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + inner.tanh()) + 0.5 * x * (1 - inner.tanh() ** 2) * slope


WRONG: dict[str, Pair] = {
    "the gradient is left out": (lambda x: x.exp(), lambda g, x: x.exp() + 0 * g),
    "the inner derivative": (lambda x: (BETA * x).sigmoid(), lambda g, x: g * sigmoid_slope(BETA * x)),
    "a factor in one term": (
        lambda x: x * (BETA * x).sigmoid(),
        lambda g, x: g * ((BETA * x).sigmoid() + x * sigmoid_slope(BETA * x)),
    ),
    "the sign": (lambda x: x.cos(), lambda g, x: g * x.sin()),
    "a factor of 2": (lambda x: x * x, lambda g, x: g * x),
    "the power": (lambda x: x**3, lambda g, x: g * 3 * x),
    "the derivative of the result": (lambda x: x.tanh(), lambda g, x: g * (1 - x**2)),
    "the other half": (lambda x: x.clamp(min=0) * 2, lambda g, x: g * 2 * (x < 0)),
    "the diagonal of softmax": (lambda x: x.softmax(-1), lambda g, x: g * x.softmax(-1) * (1 - x.softmax(-1))),
    "softmax over the rows": (lambda x: x.softmax(-1), lambda g, x: softmax_slope(g.T, x.T).T),
    "the mean of a norm": (
        normed,
        lambda g, x: g / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    ),
    "one over the count": (lambda x: x.mean(-1), lambda g, x: g[:, None] + 0 * x),
    "a transposition": (lambda x: x.T @ x, lambda g, x: x @ g),
    "swapped inputs": (lambda x, y: x * y, lambda g, x, y: (g * x, g * y)),
    "one of two inputs": (lambda x, y: x / y, lambda g, x, y: (g / y, g * x / y**2)),
}

SOUND: dict[str, Pair] = {
    "exp": (lambda x: x.exp(), lambda g, x: g * x.exp()),
    "gelu": (gelu, lambda g, x: g * gelu_slope(x)),
    "gelu by an approximation": (gelu, lambda g, x: g * quick_slope(x)),
    "softmax": (lambda x: x.softmax(-1), softmax_slope),
    "matrix product": (lambda x: x.T @ x, lambda g, x: x @ (g + g.T)),
    "product": (lambda x, y: x * y, lambda g, x, y: (g * y, g * x)),
    "limited gradient": (lambda x: x.sin(), lambda g, x: g.clamp(-1, 1) * x.cos()),
    "reversed gradient": (lambda x: x * 1.0, lambda g, x: -BETA * g),
    "straight through": (lambda x: x.round(), lambda g, x: g),
    "a surrogate of a step": (lambda x: (x > 0) * 1.0, lambda g, x: g / (1 + 10 * x.abs()) ** 2),
    "relu": (lambda x: x.clamp(min=0), lambda g, x: g * (x > 0)),
    "relu with a leak on purpose": (lambda x: x.clamp(min=0), lambda g, x: g * ((x > 0) + 0.01 * (x <= 0))),
    "exp that is limited": (lambda x: x.exp(), lambda g, x: g * x.clamp(-15, 15).exp()),
}


def found(of: Any, pair: Pair) -> list[str]:
    """The kinds of the findings about a class of ``of``: torch or nbgrad."""
    forward_of, backward_of = pair
    base = of.Function if of is nbgrad else torch.autograd.Function
    count = forward_of.__code__.co_argcount

    class Own(base):  # type: ignore[misc, valid-type]  # of either library
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any = None) -> Any:
            inputs = (x,) if y is None else (x, y)
            ctx.save_for_backward(*inputs)
            return forward_of(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward_of(g, *ctx.saved_tensors)

    of.manual_seed(1)
    inputs = [of.randn(6, 6, requires_grad=True) for _ in range(count)]
    weights = of.randn(6, 6)
    with nbgrad.record(view="none") as graph:
        result = Own.apply(*inputs)
        (result * (weights if result.ndim == 2 else weights[0])).sum().backward()
    assert graph.fault is None
    return [one.kind for one in graph.findings() if one.kind == "custom function"]


DIALECTS = pytest.mark.parametrize("of", [torch, nbgrad], ids=lambda one: one.__name__)


@DIALECTS
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_backward_is_found(of: Any, name: str) -> None:
    assert found(of, WRONG[name]) == ["custom function"]


@DIALECTS
@pytest.mark.parametrize("name", SOUND)
def test_a_backward_that_is_right_or_differs_on_purpose_is_not(of: Any, name: str) -> None:
    assert found(of, SOUND[name]) == []
