"""Answers to the exercises of lesson 2, right ones in several forms and the usual wrong ones."""

import math
from typing import Any

import numpy as np
import torch

import nbgrad

E2 = math.exp(2)


def mul_rule(g: Any, a: Any, b: Any) -> Any:
    return g * b, g * a


def tanh_rule(g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def changes_g(g: Any, a: Any, b: Any) -> Any:
    g *= b
    return g, g * a


def of_backward(g: Any, a: Any, b: Any) -> Any:
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    (a * b).backward(g)
    return a.grad, b.grad


def shares(*values: Any) -> dict[str, Any]:
    return dict(zip(("exp", "mul_a", "mul_b", "t"), values, strict=True))


RIGHT: dict[str, list[Any]] = {
    "2.1": [
        shares(7.389, 2.0, 2.0, 11.389),
        {"exp": E2, "mul_a": 2.0, "mul_b": 2, "t": nbgrad.tensor(E2 + 4)},
        shares(*np.array([E2, 2, 2, E2 + 4])),
        shares(*torch.tensor([E2, 2, 2, E2 + 4])),
    ],
    "2.2": [
        [mul_rule, tanh_rule],
        {"mul": mul_rule, "tanh": tanh_rule},
        (lambda g, a, b: [g * b, g * a], lambda g, y: g - g * y**2),
        (lambda g, a, b: nbgrad.stack([g * b, g * a]), lambda g, y: (g * (1 - y * y)).numpy()),
    ],
    "2.3": [
        lambda t: t * t + t.detach().exp(),
        lambda t: t * t + t.exp().detach(),
        lambda t: t**2 + math.exp(t.item()),
    ],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "2.1": [
        (shares(E2, 4, 4, E2 + 8), "factor", "mul_a: a factor 2 is too many"),
        (shares(2, 2, 2, 6), "factor", "the contribution of exp"),
        (shares(E2, 2, 2, E2 + 2), "numbers", "are right, but t is not their sum"),
        (shares(2, E2, 2, E2 + 4), "order", "another order"),
        (shares(-E2, -2, -2, -E2 - 4), "sign", "the sign"),
        ([E2, 2, 2, E2 + 4], "type", "a dict with the names exp, mul_a, mul_b, t is expected"),
    ],
    "2.2": [
        (
            [lambda g, a, b: (g * a, g * b), tanh_rule],
            "order",
            "rule of mul: the two gradients have changed places",
        ),
        ([lambda g, a, b: (g * b, g * b), tanh_rule], "numbers", "the rule of mul: the gradient of b: none of 4"),
        ([lambda g, a, b: (g * a * b, g * a * b), tanh_rule], "numbers", "the rule of mul: both have both factors"),
        ([lambda g, a, b: ((g * b).sum(), (g * a).sum()), tanh_rule], "shape", "the gradient of a: a sum over a"),
        ([changes_g, tanh_rule], "changed", "the rule of mul changes the numbers of its arguments"),
        ([of_backward, tanh_rule], "type", "the rule of mul calls backward or grad"),
        ([lambda g, a, b: (b, a), tanh_rule], "factor", "the rule of mul: the incoming gradient is missing"),
        ([lambda g, a, b: g * b, tanh_rule], "shape", "two gradients are expected"),
        ([mul_rule, lambda g, y: 1 - y * y], "factor", "the rule of tanh: the incoming gradient is missing"),
        ([mul_rule, lambda g, y: 1 - y * y * g], "order", "the rule of tanh: brackets are missing"),
        ([mul_rule, lambda g, y: g * (1 - y.tanh() ** 2)], "numbers", "it takes the tanh of y once more"),
        ([mul_rule, lambda g, y: g * (1 - y)], "numbers", "y has to be squared"),
        ([mul_rule, lambda g, y: g * y * (1 - y)], "numbers", "that is the rule of a sigmoid"),
        ([mul_rule, lambda g, y: -g * (1 - y * y)], "sign", "the sign of every element is wrong"),
        ({"mul": mul_rule}, "type", "the answer lacks tanh"),
        ([mul_rule], "shape", "the answer has 1"),
        (mul_rule, "type", "two functions are expected"),
    ],
    "2.3": [
        (lambda t: t * t + t.exp(), "offset", "all paths are still there"),
        (lambda t: t.detach() * t + t.exp(), "order", "one of the two paths through mul is cut"),
        (lambda t: (t * t).detach() + t.exp(), "order", "the wrong path is cut"),
        (lambda t: t.detach() * t + t.detach().exp(), "factor", "one of the two paths through mul is cut, too"),
        (lambda t: (t * t + t.exp()).detach(), "zero", "every path is cut"),
        (lambda t: t * t, "factor", "the value of the loss has to stay what it was"),
        (math.exp, "type", "cut(t) has to give a tensor"),
    ],
}
