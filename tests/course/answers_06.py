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


def by_backward(scores: Any, labels: Any) -> Any:
    leaf = scores.detach().requires_grad_()
    nn.functional.cross_entropy(leaf, labels).backward()
    return leaf.grad


def loss(scores: Any, labels: Any, *, stable: bool = True) -> Any:
    lowered = scores - scores.amax(1, keepdim=True) if stable else scores
    logs = lowered - lowered.exp().sum(1, keepdim=True).log()
    return -logs.gather(1, labels.unsqueeze(1)).mean()


def picked(values: Any, labels: Any) -> Any:
    return values[range(len(labels)), labels]


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
    "6.3": [FLOOR, round(FLOOR, 2), nbgrad.tensor(FLOOR), torch.tensor(FLOOR)],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "6.1": [
        (lambda scores, labels: scores.softmax(1) - hot(scores, labels), "factor", "a share of 1 / rows"),
        (by_backward, "type", "gradient(scores, labels) for 1 row calls backward or grad: work the gradients out"),
        (lambda scores, labels: -gradient(scores, labels), "sign", "it is y - p"),
        (lambda scores, labels: scores.softmax(1), "offset", "that is softmax alone"),
        (lambda scores, labels: (scores - hot(scores, labels)) / len(labels), "numbers", "softmax is missing"),
        (lambda scores, labels: scores.softmax(1) - labels.unsqueeze(1), "numbers", "the label is subtracted"),
        (lambda scores, labels: scores.softmax(1) - 1, "numbers", "a 1 is subtracted at every class"),
        (lambda scores, labels: scores.softmax(0) - hot(scores, labels), "numbers", "softmax runs over the rows"),
        (lambda scores, labels: scores.log_softmax(1) - hot(scores, labels), "numbers", "the logarithm of softmax"),
        (lambda scores, labels: scores.sigmoid() - hot(scores, labels), "numbers", "sigmoid of each score alone"),
        (lambda scores, labels: scores.exp() - hot(scores, labels), "numbers", "that is exp alone"),
        (
            lambda scores, labels: (scores.exp() / scores.exp().sum() - hot(scores, labels)) / len(labels),
            "numbers",
            "each row has its own",
        ),
        (lambda scores, labels: -hot(scores, labels) / scores.softmax(1), "numbers", "go on through softmax"),
        (
            lambda scores, labels: (scores.softmax(1) - hot(scores, labels)) / scores.shape[1],
            "factor",
            "the number of classes: the mean is over the rows",
        ),
        (lambda scores, labels: gradient(scores, labels).T, "transposed", "it is transposed"),
        (lambda scores, labels: gradient(scores, labels).sum(1), "shape", "is too many"),
        (lambda scores, labels: scores - labels.unsqueeze(0).T.missing, "raised", "raised AttributeError"),
    ],
    "6.2": [
        (
            lambda scores, labels: loss(scores, labels, stable=False),
            "not finite",
            "1000 gives inf: exp overflowed, or log got a 0",
        ),
        (by_probability, "not finite", "log(p) computed without p"),
        (lambda scores, labels: -loss(scores, labels), "sign", "the sign is wrong"),
        (lambda scores, labels: loss(scores, labels) * len(labels), "factor", "it is the sum over the rows"),
        (nn.functional.cross_entropy, "element", "cross_entropy does the work"),
        (lambda scores, labels: -picked(scores.log_softmax(1), labels).mean(), "element", "log_softmax does the work"),
        (
            lambda scores, labels: -(picked(scores.softmax(1), labels) + 1e-9).log().mean(),
            "numbers",
            "as if something was limited",
        ),
        (
            lambda scores, labels: (
                (scores - scores.amax(1, keepdim=True)).exp().sum(1).log() - picked(scores, labels)
            ).mean(),
            "offset",
            "subtract it from the score of the right class too",
        ),
        (lambda scores, labels: -scores.gather(1, labels.unsqueeze(1)).mean(), "offset", "minus the score"),
        (
            lambda scores, labels: -scores.softmax(1).gather(1, labels.unsqueeze(1)).mean(),
            "numbers",
            "it is the mean probability",
        ),
    ],
    "6.3": [
        (0.0, "zero", "scores without a limit can reach this loss"),
        (math.log(10), "numbers", "that is the loss of a guess"),
        (-FLOOR, "sign", "a loss is minus the logarithm"),
        (math.exp(-FLOOR), "numbers", "that is the probability after the second softmax"),
        (FLOOR / math.log(10), "factor", "the logarithm to the base 10"),
        (math.log(math.e + 1) - 1, "numbers", "one of the other classes"),
        (math.log(math.e + 10) - 1, "numbers", "10 other classes are in the sum"),
        (1.0, "numbers", "that is the largest probability"),
        ([FLOOR, FLOOR], "shape", "the right number is among these, but one number is expected"),
    ],
}
