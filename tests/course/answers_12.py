"""Answers to the exercises of lesson 12, right ones in several forms and the usual wrong ones."""

from typing import Any

import torch

import nbgrad
from nbgrad import nn

INF = float("inf")


def attention(q: Any, k: Any, v: Any, *, size: float | None = None, dim: int = 1) -> Any:
    return (q @ k.T / (size or q.shape[1] ** 0.5)).softmax(dim) @ v


def causal(scores: Any, *, fill: float = -INF, diagonal: int = 1) -> Any:
    return scores.masked_fill(future(scores, diagonal), fill).softmax(1)


def future(scores: Any, diagonal: int = 1) -> Any:
    return nbgrad.ones(*scores.shape).triu(diagonal).bool()


def pairs(codes: Any, length: int, *, shift: int = 1, more: int = 0) -> Any:
    places = range(len(codes) - length + more)
    inputs = [codes[at : at + length] for at in places]
    return nbgrad.stack(inputs), nbgrad.stack([codes[at + shift : at + shift + length] for at in places])


RIGHT: dict[str, list[Any]] = {
    "12.1": [
        attention,
        nn.functional.scaled_dot_product_attention,
        lambda q, k, v: attention(*(torch.from_numpy(one.numpy()) for one in (q, k, v))),
    ],
    "12.2": [causal, lambda scores: causal(scores, fill=-1e30), lambda scores: causal(scores).numpy()],
    "12.3": [pairs, lambda codes, length: [one.tolist() for one in pairs(codes, length)]],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "12.1": [
        (lambda q, k, v: attention(q, k, v, size=1), "factor", "the scores are not divided"),
        (lambda q, k, v: attention(q, k, v, size=q.shape[1]), "factor", "its root is enough"),
        (lambda q, k, v: attention(q, k, v, size=len(q) ** 0.5), "factor", "by the root of the length"),
        (lambda q, k, v: attention(q, k, v, dim=0), "transposed", "softmax goes over the wrong dimension"),
        (lambda q, k, v: attention(k, q, v), "transposed", "q and k have changed places"),
        (lambda q, k, v: q @ k.T / q.shape[1] ** 0.5 @ v, "numbers", "softmax is missing"),
        (lambda q, k, v: (q @ k.T / q.shape[1] ** 0.5).softmax(1), "shape", "these are the weights"),
        (lambda q, k, v: q @ k, "raised", "raised RuntimeError"),
    ],
    "12.2": [
        (lambda scores: scores.softmax(1) * ~future(scores), "factor", "it masks after softmax"),
        (lambda scores: causal(scores, fill=0.0), "numbers", "a score of 0 is not forbidden"),
        (lambda scores: scores.masked_fill(future(scores).T, -INF).softmax(1), "transposed", "it forbids the past"),
        (lambda scores: causal(scores, diagonal=0), "not finite", "the first row is NaN"),
        (lambda scores: scores.softmax(1), "offset", "nothing is masked"),
        (lambda scores: scores.masked_fill(future(scores), -INF), "numbers", "softmax is missing"),
    ],
    "12.3": [
        (lambda codes, length: pairs(codes, length, shift=0), "shifted", "they are the inputs"),
        (
            lambda codes, length: (pairs(codes, length)[0], pairs(codes, length)[1][:, -1]),
            "shape",
            "after the window alone",
        ),
        (lambda codes, length: pairs(codes, length, shift=0, more=1), "shape", "there is one row too many"),
        (lambda codes, length: pairs(codes, length)[0], "type", "has to give two tensors"),
        (lambda codes, length: pairs(codes, length)[::-1], "numbers", "the inputs"),
        (lambda codes: codes, "raised", "raised TypeError"),
    ],
}
