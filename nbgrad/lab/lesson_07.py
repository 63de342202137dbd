"""The exercises of lesson 7: the backward of a network and of BatchNorm, by hand."""

from collections.abc import Mapping
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.comparison import Deviation, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, GradientsJudge, is_near, slip
from nbgrad.lab.running import by_hand
from nbgrad.nn.functional import cross_entropy

NAMES = ("scores", "W2", "b2", "h", "pre", "W1", "b1", "x")


def _random(generator: torch.Generator, *shape: int) -> Tensor:
    return tensor(torch.randn(shape, generator=generator, dtype=torch.float64), requires_grad=True)


# 7.1: eight gradients.


def _mlp() -> tuple[tuple[Tensor, ...], dict[str, torch.Tensor]]:
    """The arguments of the student's function, and the right gradients by name."""
    generator = torch.Generator().manual_seed(7)
    x, w1, b1 = _random(generator, 6, 5), _random(generator, 5, 4), _random(generator, 4)
    w2, b2 = _random(generator, 4, 3), _random(generator, 3)
    labels = tensor(torch.randint(3, (6,), generator=generator))
    pre = x @ w1 + b1
    h = pre.tanh()
    scores = h @ w2 + b2
    found = grad(cross_entropy(scores, labels), [scores, w2, b2, h, pre, w1, b1, x])
    right = {name: numbers_of(one) for name, one in zip(NAMES, found, strict=True)}
    constants = tuple(tensor(one.data.clone()) for one in (x, labels, w1, b1, w2, b2))
    return constants, right


def _about_part(
    name: str, given: Mapping[str, Any], right: Mapping[str, torch.Tensor], arguments: tuple[Tensor, ...]
) -> Deviation | None:
    if name == "scores" and is_near(given[name], right[name] * len(arguments[1])):
        return Deviation("factor", "the loss is a mean over the rows: divide by their number")
    if name == "pre" and is_near(given[name], right["h"]):
        return Deviation("numbers", "it is the gradient of h: the slope of tanh is missing")
    h = _before_tanh(arguments).tanh()
    if name == "pre" and is_near(given[name], 1 - h**2):
        return Deviation("factor", "it is the slope of tanh alone: multiply it by the gradient of h")
    if name == "W1" and is_near(given[name], arguments[0].data.T @ right["h"]):
        return Deviation("numbers", "it has the gradient of h: go on through tanh first, to the gradient of pre")
    if name == "pre" and is_near(given[name], right["h"] * (1 - _before_tanh(arguments) ** 2)):
        return Deviation("numbers", "the slope of tanh is 1 minus the square of its result: that is h, and not pre")
    if name == "pre" and is_near(given[name], right["h"] * (1 - h)):
        return Deviation("numbers", "h has to be squared: the slope of tanh is 1 - h * h")
    if name == "W2" and is_near(given[name], _before_tanh(arguments).T @ right["scores"]):
        return Deviation("numbers", "it has pre: W2 multiplies h")
    if name in ("b1", "b2") and is_near(given[name], right[{"b1": "pre", "b2": "scores"}[name]]):
        return Deviation("shape", "a bias was stretched over the rows: its gradient is the sum over them")
    if name in ("b1", "b2") and is_near(given[name], right[name] / len(arguments[1])):
        return Deviation("factor", "it is a mean over the rows: a bias was used in each of them, so the shares add up")
    return None


def _before_tanh(arguments: tuple[Tensor, ...]) -> torch.Tensor:
    x, _, weight, bias, *_ = (one.data for one in arguments)
    return x @ weight + bias


# 7.2 and 7.3: BatchNorm.

_EPS = 1e-5


def _norms() -> list[Case]:
    cases = []
    for rows, columns in ((4, 1), (8, 3)):
        generator = torch.Generator().manual_seed(72)
        x, g, gamma = _random(generator, rows, columns), _random(generator, rows, columns), _random(generator, columns)
        x.data[:, 2:] *= 5e-3  # a column with so small a variance that eps counts
        y = _normalized(x) * gamma
        (right,) = grad(y, [x], g.detach())
        arguments = tuple(tensor(one.data.clone()) for one in (g, x, gamma))
        cases.append(
            Case(
                arguments,
                right,
                translate("bn_backward(g, x, gamma) for shape ({rows}, {columns})", rows=rows, columns=columns),
            )
        )
    return cases


def _normalized(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + _EPS).sqrt()


def _about_norm(got: Any, case: Case) -> Deviation | None:
    g, x, gamma = (one.data for one in case.arguments)
    d = g * gamma
    deviation = (x.var(0, unbiased=False) + _EPS).sqrt()
    normal = (x - x.mean(0)) / deviation
    unbiased = (x.var(0, unbiased=True) + _EPS).sqrt()
    slips = (
        (_eps_elsewhere(d, x, 0.0), "numbers", "1e-5 is missing under the root: a variance may be as small as that"),
        (_eps_elsewhere(d, x, _EPS), "numbers", "1e-5 belongs under the root: it is added to the variance"),
        (d / deviation, "numbers", "that would be right if mean and deviation were constants: both depend on x, which "
         "gives two more terms"),
        ((d - d.mean(0)) / deviation, "numbers", "the path through the deviation is missing: the term with the "
            "mean of g "
         "times the normalized x"),
        ((d - normal * (d * normal).mean(0)) / deviation, "numbers", "the path through the mean is missing: the "
            "mean of "
         "g is subtracted"),
        ((d - d.sum(0) - normal * (d * normal).sum(0)) / deviation, "factor", "the two terms are means over the rows, "
         "and not sums"),
        ((d - d.mean(0) - normal * (d * normal).sum(0)) / deviation, "factor", "the mean of g times the normalized "
         "x is a sum here"),
        ((d - d.mean(0) + normal * (d * normal).mean(0)) / deviation, "sign", "both terms are subtracted: one has a "
         "plus"),
        ((d - d.mean(0) - deviation**2 * normal * (d * normal).mean(0)) / deviation, "factor", "x - mean stands in the "
         "place of the normalized x, which is also divided by the deviation"),
        (d - d.mean(0) - normal * (d * normal).mean(0) / deviation, "order", "brackets are missing: all three terms "
         "are divided by the deviation"),
        (gamma * normal, "numbers", "that is y itself: the incoming gradient g is missing"),
        ((d - d.mean() - normal * (d * normal).mean()) / deviation, "numbers", "the means run over the whole table: "
         "each column has its own"),
        (d / deviation - d.mean(0) - normal * (d * normal).mean(0), "order", "brackets are missing: all three terms "
         "are divided by the deviation"),
        (_in_one_line(d, x, deviation**2), "numbers", "it divides by the variance: the deviation is its square root"),
        (case.right.data / gamma, "factor", "gamma is missing"),
        (case.right.data * deviation, "factor", "the division by the deviation is missing"),
        (_in_one_line(d, x, unbiased), "factor", "it takes the variance with n - 1: BatchNorm divides by n"),
        (case.right.data * deviation / unbiased, "factor", "it divides by the deviation with n - 1: BatchNorm "
            "normalizes "
         "with n"),
    )  # fmt: skip
    return slip(got, slips)


def _eps_elsewhere(d: torch.Tensor, x: torch.Tensor, eps: float) -> torch.Tensor:
    """The gradient of x with ``eps`` added to the deviation instead of the variance."""
    return _in_one_line(d, x, x.var(0, unbiased=False).sqrt() + eps)


def _in_one_line(
    d: torch.Tensor, x: torch.Tensor, deviation: torch.Tensor, mean: torch.Tensor | None = None
) -> torch.Tensor:
    """The gradient of x by the right formula, with this deviation, and this mean in the place of that of x."""
    normal = (x - (x.mean(0) if mean is None else mean)) / deviation
    return (d - d.mean(0) - normal * (d * normal).mean(0)) / deviation


def _evaluations() -> list[Case]:
    generator = torch.Generator().manual_seed(73)
    g, x, gamma = _random(generator, 5, 3), _random(generator, 5, 3), _random(generator, 3)
    mean, var = _random(generator, 3), tensor([2.5, 0.3, 1e-5], dtype=torch.float64)  # the last one shows eps
    y = (x - mean.detach()) / (var + _EPS).sqrt() * gamma
    (right,) = grad(y, [x], g.detach())
    arguments = tuple(tensor(one.data.clone()) for one in (g, x, gamma, mean, var))
    return [Case(arguments, right, "bn_evaluation(g, x, gamma, mean, var)")]


def _about_evaluation(got: Any, case: Case) -> Deviation | None:
    g, x, gamma, mean, var = (one.data for one in case.arguments)
    slips = (
        (_training(g, x, gamma), "numbers", "that is the backward of a training: in eval mode mean and var are "
            "constants"),
        (_in_one_line(g * gamma, x, (var + _EPS).sqrt(), mean), "numbers", "that is the backward of a training: in "
         "eval mode mean and var are constants"),
        (g * gamma * (x - mean) / (var + _EPS).sqrt(), "factor", "it is multiplied by x - mean: the slope of a "
         "difference is 1"),
        (g * gamma * (var + _EPS).sqrt(), "factor", "it is multiplied by the deviation: divide by it"),
        (gamma / (var + _EPS).sqrt(), "factor", "the incoming gradient is missing: these are the local slopes alone"),
        (g * gamma / var.sqrt(), "numbers", "1e-5 is missing under the root: a variance may be as small as that"),
        (g * gamma / (var.sqrt() + _EPS), "numbers", "1e-5 belongs under the root: it is added to the variance"),
        (g * gamma / var, "factor", "it divides by the variance: the deviation is the root of var + 1e-5"),
        (g * (x - mean) / (var + _EPS).sqrt(), "numbers", "that has the shares of gamma: the gradient of x is asked "
         "for"),
        (gamma * (x - mean) / (var + _EPS).sqrt(), "numbers", "that is y itself: the incoming gradient g is missing"),
        (g * gamma / (var + _EPS), "factor", "it divides by the variance: the deviation is its square root"),
        (g / (var + _EPS).sqrt(), "factor", "gamma is missing"),
        (g * gamma, "factor", "the division by the deviation is missing"),
        (g * gamma / (x.var(0, unbiased=False) + _EPS).sqrt(), "numbers", "it has the variance of x: in eval "
         "mode var is given"),
        (g * gamma / (x.var(0) + _EPS).sqrt(), "numbers", "it has the variance of x: in eval mode var is given"),
        ((g - mean) * gamma / (var + _EPS).sqrt(), "offset", "a constant that is subtracted from x does not change the "
         "gradient"),
    )  # fmt: skip
    return slip(got, slips)


def _training(g: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    leaf = tensor(x.clone(), requires_grad=True)
    (found,) = grad(_normalized(leaf) * tensor(gamma), [leaf], tensor(g))
    return numbers_of(found)


EXERCISES = (
    Exercise(
        "7.1",
        "Eight gradients by hand",
        "The network is pre = x @ W1 + b1, h = tanh(pre), scores = h @ W2 + b2, and the loss is the cross entropy of "
        "scores and labels, the mean over the rows. Write by_hand(x, labels, W1, b1, W2, b2), which gives a dict "
        "with the "
        f"gradients of {', '.join(NAMES)}, without a backward.",
        GradientsJudge(_mlp, "by_hand(x, labels, W1, b1, W2, b2)", _about_part),
        (
            "Begin with scores: that is exercise 6.1. Then go back line by line, with one rule for each.",
            "For y = a @ B the gradient of a is g @ B.T and that of B is a.T @ g. Look at the shapes: only one "
            "way fits.",
            "A bias is summed over the rows. tanh multiplies by 1 - h * h.",
        ),
    ),
    Exercise(
        "7.2",
        "BatchNorm in one line",
        "Write bn_backward(g, x, gamma): the gradient of x for y = gamma * (x - mean) / deviation, with the mean of "
        "each column of x, and deviation = sqrt(var + 1e-5) with the variance that divides by n. g is the gradient "
        "of y. Work it out by hand, without a backward.",
        FunctionJudge(_norms, "bn_backward(g, x, gamma)", _about_norm, call=by_hand, keeps=True),
        (
            "x is used three times: by the difference, by the mean and by the deviation. Three gradients add up.",
            "With d = g * gamma and the normalized n = (x - mean) / deviation, the first share is d / deviation.",
            "The other two subtract something from d: the mean of d, and n times the mean of d * n. All means are "
            "over the rows.",
        ),
    ),
    Exercise(
        "7.3",
        "BatchNorm that is not trained",
        "In eval mode BatchNorm uses a stored mean and variance. Write bn_evaluation(g, x, gamma, mean, var): the "
        "gradient of x for y = gamma * (x - mean) / sqrt(var + 1e-5), without a backward. g is the gradient of y.",
        FunctionJudge(
            _evaluations, "bn_evaluation(g, x, gamma, mean, var)", _about_evaluation, call=by_hand, keeps=True
        ),
        (
            "Which of the three uses of x are left, if mean and var are constants?",
            "Only the difference. What does each row of y depend on now?",
            "Multiply g by two constants: by gamma, and by 1 / deviation.",
        ),
    ),
)
