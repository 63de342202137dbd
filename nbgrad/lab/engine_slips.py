"""The usual wrong ops and rules of a student's engine, with torch's tensors: each with its kind and its sentence."""

from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from torch.nn import functional

WRONG_POWER: tuple[tuple[Callable[..., torch.Tensor], str, str], ...] = (
    (lambda g, x: g * x**4, "factor", "the factor power is missing"),
    (lambda g, x: g * 5 * x**5, "numbers", "the exponent of the slope is power - 1"),
    (lambda g, x: g * 2 * x, "numbers", "that is the slope of x ** 2 alone: it has to depend on power"),
)


def normal(dim: int, x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, unbiased=False, keepdim=True) + eps).sqrt()


def wrong_normal(dim: int) -> tuple[tuple[Callable[[torch.Tensor], torch.Tensor], str, str], ...]:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim, keepdim=True)

    return (
        (lambda x: centred(x) / (x.var(dim, keepdim=True) + 1e-5).sqrt(), "factor", "the variance divides by n - 1: "
         "take the mean of the squares"),
        (lambda x: centred(x) / x.std(dim, keepdim=True), "factor", "the variance divides by n - 1: take the mean of "
         "the squares"),
        (partial(normal, 0 if dim else -1), "order", "it goes along another dimension than dim"),
        (lambda x: centred(x) / (x.var(dim, unbiased=False, keepdim=True) + 1e-5), "numbers", "it divides by the "
         "variance: the deviation is its square root"),
        (lambda x: x / ((x * x).mean(dim, keepdim=True) + 1e-5).sqrt(), "offset", "the mean is not subtracted"),
        (centred, "factor", "the division by the deviation is missing"),
    )  # fmt: skip


def wrong_normal_rules(dim: int) -> tuple[tuple[Callable[..., torch.Tensor], str, str], ...]:
    def deviation(x: torch.Tensor) -> torch.Tensor:
        return (x.var(dim, unbiased=False, keepdim=True) + 1e-5).sqrt()

    def mean(one: torch.Tensor) -> torch.Tensor:
        return one.mean(dim, keepdim=True)

    def along(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = normal(dim, x)
        return y * mean(g * y)

    return (
        (lambda g, x: g / deviation(x), "numbers", "that would be right if mean and deviation were constants: both "
         "depend on x, which gives two more terms"),
        (lambda g, x: (g - mean(g)) / deviation(x), "numbers", "the path through the deviation is missing: the term "
         "with the mean of g times the normalized x"),
        (lambda g, x: (g - along(g, x)) / deviation(x), "numbers", "the path through the mean is missing: the mean of "
         "g is subtracted"),
        (lambda g, x: (g - mean(g) + along(g, x)) / deviation(x), "sign", "both terms are subtracted: one has a plus"),
        (lambda g, x: g - mean(g) - along(g, x), "factor", "the division by the deviation is missing"),
        (lambda g, x: g - mean(g) - along(g, x) / deviation(x), "order", "brackets are missing: all three terms are "
         "divided by the deviation"),
    )  # fmt: skip


def wrong_conv_rules(padding: int) -> tuple[tuple[Callable[..., torch.Tensor], str, str], ...]:
    def turned(g: torch.Tensor, _: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.conv_transpose2d(g, weight.flip(2, 3), padding=padding)

    def last(g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = torch.zeros_like(functional.pad(x, 4 * [padding]))
        for i, j in product(*map(range, weight.shape[2:])):
            part = torch.einsum("borc,oi->birc", g, weight[:, :, i, j])
            wide[:, :, i : i + g.shape[2], j : j + g.shape[3]] = part
        return wide[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]

    return (
        (turned, "order", "the kernel is turned round: the number at (i, j) of a patch meets the weight at (i, j) in "
         "the backward, too"),
        (last, "element", "a number that several patches share gets the sum of their gradients: += and not ="),
    )  # fmt: skip


WRONG_RESIDUAL: tuple[tuple[Callable[[torch.Tensor], torch.Tensor], str, str], ...] = (
    (lambda x: x * x, "offset", "that is the body alone: x is not added to it"),
    (lambda x: x + x, "numbers", "that is x + x: the body is not called"),
    (lambda x: x * x * x, "numbers", "x and the body are multiplied: add them"),
    (lambda x: 4 * x * x, "order", "the body gets x + x: add x to what the body gives"),
)
