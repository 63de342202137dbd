"""Answers to the exercises of lesson 6, right ones in several forms and the usual wrong ones."""

import math
from typing import Any

import torch

import nbgrad
from nbgrad import nn


def hot(scores: Any, labels: Any) -> Any:
    return nn.functional.one_hot(labels, scores.shape[1])


def gradient(scores: Any, labels: Any) -> Any:
    return (scores.softmax(1) - hot(scores, labels)) / len(labels)


def with_torch(scores: Any, labels: Any) -> Any:
    p = torch.softmax(torch.from_numpy(scores.numpy()), 1)
    p[range(len(labels)), labels.tolist()] -= 1
    return p / len(labels)


def loss(scores: Any, labels: Any, *, stable: bool = True) -> Any:
    lowered = scores - scores.amax(1, keepdim=True) if stable else scores
    logs = lowered - lowered.exp().sum(1, keepdim=True).log()
    return -logs.gather(1, labels.unsqueeze(1)).mean()


def by_probability(scores: Any, labels: Any) -> Any:
    p = (scores - scores.amax(1, keepdim=True)).exp()
    p = p / p.sum(1, keepdim=True)
    return -p.gather(1, labels.unsqueeze(1)).log().mean()


FLOOR = math.log(math.e + 9) - 1

RIGHT: dict[str, list[Any]] = {
    "6.1": [gradient, with_torch, lambda scores, labels: gradient(scores, labels).numpy()],
    "6.2": [
        loss,
        lambda scores, labels: loss(scores, labels).item(),
        lambda scores, labels: (scores.logsumexp(1) - scores.gather(1, labels.unsqueeze(1))[:, 0]).mean(),
    ],
    "6.3": [FLOOR, round(FLOOR, 2), nbgrad.tensor(FLOOR), torch.tensor(FLOOR), str(FLOOR)],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "6.1": [
        (lambda scores, labels: scores.softmax(1) - hot(scores, labels), "factor", "a share of 1 / rows"),
        (lambda scores, labels: -gradient(scores, labels), "sign", "it is y - p"),
        (lambda scores, labels: scores.softmax(1), "offset", "that is softmax alone"),
        (lambda scores, labels: (scores - hot(scores, labels)) / len(labels), "numbers", "softmax is missing"),
        (lambda scores, labels: gradient(scores, labels).T, "transposed", "it is transposed"),
        (lambda scores, labels: gradient(scores, labels).sum(1), "shape", "is too many"),
        (lambda scores, labels: scores - labels.unsqueeze(0).T.missing, "raised", "raised AttributeError"),
    ],
    "6.2": [
        (lambda scores, labels: loss(scores, labels, stable=False), "not finite", "size 1000: it is NaN or Inf"),
        (by_probability, "not finite", "it is NaN or Inf"),
        (lambda scores, labels: -loss(scores, labels), "sign", "the sign is wrong"),
        (lambda scores, labels: loss(scores, labels) * len(labels), "factor", "it is the sum over the rows"),
        (lambda scores, labels: -scores.gather(1, labels.unsqueeze(1)).mean(), "offset", "minus the score"),
        (
            lambda scores, labels: -scores.softmax(1).gather(1, labels.unsqueeze(1)).mean(),
            "numbers",
            "it is the mean probability",
        ),
    ],
    "6.3": [
        (0.0, "zero", "that is the smallest loss of scores without a limit"),
        (math.log(10), "numbers", "that is the loss of a guess"),
        (-FLOOR, "sign", "a loss is minus the logarithm"),
        (math.exp(-FLOOR), "numbers", "that is the probability after the second softmax"),
        (1.0, "numbers", "that is the largest probability"),
        ([FLOOR, FLOOR], "shape", "it has shape (2,)"),
    ],
}
