"""Answers to the exercises of lesson 7, right ones in several forms and the usual wrong ones."""

from typing import Any

import torch

from nbgrad import nn

EPS = 1e-5


def by_hand(x: Any, labels: Any, W1: Any, b1: Any, W2: Any, b2: Any, /, **changes: Any) -> dict[str, Any]:  # noqa: N803
    h = (x @ W1 + b1).tanh()
    scores = h @ W2 + b2
    dscores = (scores.softmax(1) - nn.functional.one_hot(labels, scores.shape[1])) / len(labels)
    dh = dscores @ W2.T
    dpre = dh * (1 - h * h)
    found = {
        "scores": dscores,
        "W2": h.T @ dscores,
        "b2": dscores.sum(0),
        "h": dh,
        "pre": dpre,
        "W1": x.T @ dpre,
        "b1": dpre.sum(0),
        "x": dpre @ W1.T,
    }
    return found | {name: change(found) for name, change in changes.items()}


def altered(**changes: Any) -> Any:
    return lambda *arguments: by_hand(*arguments, **changes)


def normal(x: Any) -> tuple[Any, Any]:
    deviation = (x.var(0, unbiased=False) + EPS) ** 0.5
    return (x - x.mean(0)) / deviation, deviation


def backward(g: Any, x: Any, gamma: Any) -> Any:
    n, deviation = normal(x)
    d = g * gamma
    return (d - d.mean(0) - n * (d * n).mean(0)) / deviation


def without_deviation(g: Any, x: Any, gamma: Any) -> Any:
    d = g * gamma
    return (d - d.mean(0)) / normal(x)[1]


def without_mean(g: Any, x: Any, gamma: Any) -> Any:
    n, deviation = normal(x)
    d = g * gamma
    return (d - n * (d * n).mean(0)) / deviation


def sums(g: Any, x: Any, gamma: Any) -> Any:
    n, deviation = normal(x)
    d = g * gamma
    return (d - d.sum(0) - n * (d * n).sum(0)) / deviation


def evaluation(g: Any, x: Any, gamma: Any, mean: Any, var: Any) -> Any:
    return g * gamma / (var + EPS) ** 0.5


RIGHT: dict[str, list[Any]] = {
    "7.1": [by_hand, lambda *arguments: {name: one.numpy() for name, one in by_hand(*arguments).items()}],
    "7.2": [
        backward,
        lambda g, x, gamma: backward(*(torch.from_numpy(one.numpy()) for one in (g, x, gamma))),
    ],
    "7.3": [evaluation, lambda g, x, gamma, mean, var: (g * gamma / (var + EPS).sqrt()).numpy()],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "7.1": [
        (altered(scores=lambda d: d["scores"] * 6), "factor", "the gradient of scores: the loss is a mean"),
        (altered(W2=lambda d: d["W2"].T), "transposed", "the gradient of W2: it is transposed"),
        (altered(b2=lambda d: d["scores"]), "shape", "the gradient of b2: a bias was stretched"),
        (
            altered(b1=lambda d: d["pre"].mean(0)),
            "factor",
            "the gradient of b1: it is a mean over the rows",
        ),
        (altered(pre=lambda d: d["h"]), "numbers", "the slope of tanh is missing"),
        (altered(x=lambda d: -d["x"]), "sign", "the gradient of x: the sign of every element"),
        (altered(W1=lambda d: ...), "type", "the gradient of W1 is missing"),
        (lambda *arguments: dict.fromkeys(by_hand(*arguments), ...), "unanswered", "where the ... are"),
        (lambda *arguments: list(by_hand(*arguments).values()), "type", "has to give a dict"),
        (lambda x, *others: x @ x, "raised", "raised RuntimeError"),
    ],
    "7.2": [
        (lambda g, x, gamma: g * gamma / normal(x)[1], "numbers", "if mean and deviation were constants"),
        (without_deviation, "numbers", "the path through the deviation is missing"),
        (without_mean, "numbers", "the path through the mean is missing"),
        (sums, "factor", "the two terms are means over the rows"),
        (lambda g, x, gamma: backward(g, x, 1.0), "factor", "gamma is missing"),
        (lambda g, x, gamma: backward(g, x, gamma) * normal(x)[1], "factor", "the division by the deviation"),
        (lambda g, x, gamma: -backward(g, x, gamma), "sign", "the sign of every element is wrong"),
        (lambda g, x, gamma: backward(g, x, gamma)[0], "row", "this is only row 0"),
    ],
    "7.3": [
        (lambda g, x, gamma, mean, var: g * gamma / var.sqrt(), "numbers", "1e-5 is missing under the root"),
        (lambda g, x, gamma, mean, var: g * gamma / (var.sqrt() + EPS), "numbers", "1e-5 belongs under the root"),
        (lambda g, x, gamma, mean, var: backward(g, x, gamma), "numbers", "that is the backward of a training"),
        (lambda g, x, gamma, mean, var: g * gamma / (var + EPS), "factor", "it divides by the variance"),
        (lambda g, x, gamma, mean, var: gamma * (x - mean) / (var + EPS).sqrt(), "numbers", "that is y itself"),
        (lambda g, x, gamma, mean, var: g * (x - mean) / (var + EPS).sqrt(), "numbers", "the shares of gamma"),
        (lambda g, x, gamma, mean, var: g * gamma, "factor", "the division by the deviation is missing"),
        (
            lambda g, x, gamma, mean, var: (g - mean) * gamma / (var + EPS) ** 0.5,
            "offset",
            "does not change the gradient",
        ),
        (lambda g, x, gamma, mean, var: g.mul_(gamma) / (var + EPS).sqrt(), "changed", "changes the numbers of its"),
        (lambda g, x, gamma, mean, var: -evaluation(g, x, gamma, mean, var), "sign", "the sign of every element"),
    ],
}
