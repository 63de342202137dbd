"""The exercises of lesson 6: loss functions."""

import math
from math import e, log
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, is_near, number_of
from nbgrad.lab.running import attempt, by_hand
from nbgrad.nn.functional import cross_entropy

_CLASSES = OwnNumbers("6.3", {"classes": (10, 4, 5, 8, 20, 26, 50, 100)})


def _batch(count: int, size: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    scores = torch.randn((count, 4), generator=generator, dtype=torch.float64) * size
    labels = torch.randint(4, (count,), generator=generator)
    labels[0] = 2  # a label of 0 would hide that an answer subtracts it
    return scores, labels


def _rows(count: int) -> str:
    return "1 row" if count == 1 else translate("{count} rows", count=count)


# 6.1: the gradient of cross entropy.


def _slopes() -> list[Case]:
    cases = []
    for count, size in ((1, 1.0), (5, 2.0)):
        scores, labels = _batch(count, size)
        leaf = tensor(scores.clone(), requires_grad=True)
        (right,) = grad(cross_entropy(leaf, tensor(labels)), [leaf])
        cases.append(
            Case(
                (tensor(scores), tensor(labels)),
                right,
                translate("gradient(scores, labels) for {rows}", rows=_rows(count)),
            )
        )
    return cases


def _about_slope(got: Any, case: Case) -> Deviation | None:
    scores, labels = (one.data for one in case.arguments)
    p, count = scores.softmax(1), len(labels)
    y = torch.nn.functional.one_hot(labels, scores.shape[1])
    for wrong, kind, text in (
        ((y - p) / count, "sign", "it is y - p: the scores of the right class should rise, so their gradient is "
            "negative"),
        (y - p, "sign", "it is y - p, and not divided by the number of rows: the scores of the right class should "
            "rise, "
         "so their gradient is negative"),
        (p - y / count, "order", "brackets are missing: both p and y are divided by the number of rows"),
        (p, "offset", "that is softmax alone: at the right class a 1 is subtracted"),
        (p / count, "offset", "that is softmax alone: at the right class a 1 is subtracted"),
        ((scores - y) / count, "numbers", "it takes the scores for probabilities: softmax is missing"),
        ((p - labels[:, None]) / count, "numbers", "the label is subtracted: it says at which class to subtract 1"),
        ((p - 1) / count, "numbers", "a 1 is subtracted at every class: subtract it only at the right one"),
        ((scores.softmax(0) - y) / count, "numbers", "softmax runs over the rows: it has to run over the classes, "
         "dimension 1"),
        ((scores.log_softmax(1) - y) / count, "numbers", "it has the logarithm of softmax: softmax itself is needed"),
        ((scores.sigmoid() - y) / count, "numbers", "that is sigmoid of each score alone: softmax looks at all scores "
         "of a row"),
        ((scores.exp() - y) / count, "numbers", "that is exp alone: softmax divides it by its sum over the row"),
        ((scores.exp() / scores.exp().sum() - y) / count, "numbers", "the sum is over all rows: each row has its own"),
        (-y / p / count, "numbers", "that is the gradient of the probabilities: go on through softmax, to the scores"),
        ((p - y) / scores.shape[1], "factor", "it is divided by the number of classes: the mean is over the rows"),
    ):  # fmt: skip
        if is_near(got, wrong):
            return Deviation(kind, text)
    if count > 1 and is_near(got, p - y):
        return Deviation("factor", "the loss is a mean over the rows: each row has a share of 1 / rows")
    return None


# 6.2: without overflow.


def _losses() -> list[Case]:
    cases = []
    for count, size in ((1, 1.0), (5, 2.0), (5, 1000.0), (5, -2000.0)):
        scores, labels = _batch(count, size)
        right = cross_entropy(tensor(scores), tensor(labels))
        said = translate(
            "stable_loss(scores, labels) for {rows} of scores of size {count:g}", rows=_rows(count), count=abs(size)
        )
        cases.append(Case((tensor(scores), tensor(labels)), right, said))
    return cases


def _about_loss(got: Any, case: Case) -> Deviation | None:
    scores, labels = (one.data for one in case.arguments)
    each = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    value = number_of(got)
    if value is None:
        return None
    if math.isnan(value):
        return Deviation("not finite", "exp overflowed: subtract the largest score of each row before exp")
    if math.isinf(value):
        text = (
            "exp overflowed, or log got a 0. Is the largest score of each row subtracted before exp, and not one for "
            "all rows? And is log(p) computed without p, which rounds to 0?"
        )
        return Deviation("not finite", text)
    if scores.abs().max() > 100 and value < each.mean() and (text := _cut_off(value, each)):
        return Deviation("numbers", text)
    chosen, largest = scores.gather(1, labels[:, None])[:, 0], scores.amax(1)
    for wrong, kind, text in (
        (-each.mean(), "sign", "the sign is wrong: a loss is minus the logarithm of a probability"),
        (each.sum() if len(labels) > 1 else None, "factor", "it is the sum over the rows: the loss is their mean"),
        ((each - largest).mean(), "offset", "the largest score was subtracted inside exp alone: subtract it from the "
         "score of the right class too"),
        (-scores.log_softmax(1).mean(), "numbers", "it is a mean over all classes: only the right class of each row "
         "counts"),
        (-scores.log_softmax(1)[:, labels].mean() if len(labels) > 1 else None, "numbers", "each row meets the labels "
         "of all rows: range(len(labels)) in the first place pairs them"),
        ((each + chosen - largest).mean(), "offset", "the score of the right class is missing: it is subtracted from "
         "the logarithm of the sum"),
        (-chosen.mean(), "offset", "it is minus the score of the right class: the logarithm of the sum is missing"),
        (-scores.softmax(1).gather(1, labels[:, None]).mean(), "numbers", "it is the mean probability: its "
            "logarithm is "
         "missing"),
    ):  # fmt: skip
        if wrong is not None and is_near(value, wrong):
            return Deviation(kind, text)
    return None


def _cut_off(value: float, each: torch.Tensor) -> str:
    """The explanation of a loss that is finite because something in it was limited."""
    if value > 0.5 * float(each.mean()):
        return ""
    return "it is far too small, as if something was limited: add nothing to a probability, and cut off no scores"


def _stable(answer: Any) -> Deviation | None:
    found = FunctionJudge(_losses, "stable_loss(scores, labels)", _about_loss)(answer)
    if found is not None:
        return found
    scores, labels = _batch(5, 2.0)
    with AutogradGraph() as graph:
        form = "stable_loss(scores, labels)"
        kept = [attempt(form, answer, tensor(scores, requires_grad=True), tensor(labels))]
    names = {record.op.name for record in graph.records if record.op is not None}
    kept.clear()  # the graph lives as long as its result
    if ready := names & _READY:
        return Deviation("element", "{function} does the work: write it with exp, log and sums", function=min(ready))
    return None


_READY = {"cross_entropy", "nll_loss", "log_softmax"}
"""Ops that are the answer to 6.2, or nearly."""


# 6.3: softmax twice.


def _floor() -> float:
    """The smallest cross entropy where the scores are probabilities already: a 1 at the right class."""
    best = torch.eye(_CLASSES()["classes"], dtype=torch.float64)[:1]
    return float(numbers_of(cross_entropy(tensor(best), tensor(torch.tensor([0])))))


def _floors(answer: Any) -> Deviation | None:
    value, right = number_of(answer), _floor()
    if value is None:
        return difference(answer, right)
    classes = _CLASSES()["classes"]
    others = translate("of the second softmax: there are {count} others", count=classes - 1)
    for wrong, kind, text in (
        (0.0, "zero", "scores without a limit can reach this loss: here the scores are probabilities, at most 1"),
        (
            log(classes),
            "numbers",
            "that is the loss of a guess, where all scores are equal: here the network is sure and right",
        ),
        (1.0, "numbers", "that is the largest probability, and not yet a loss: put it through the second softmax"),
        (-right, "sign", "a loss is minus the logarithm of a probability"),
        (
            right / log(10),
            "factor",
            "that is the logarithm to the base 10: log in math and in nbgrad is the natural one, to the base e",
        ),
        (log((e + 1) / e), "numbers", translate("one of the other classes is in the sum {others}", others=others)),
        (
            log((e + classes) / e),
            "numbers",
            translate("{classes} other classes are in the sum {others}", classes=classes, others=others),
        ),
        (e**-right, "numbers", "that is the probability after the second softmax: take minus its logarithm"),
    ):
        if abs(value - wrong) < 2e-3:
            return Deviation(kind, text)
    return difference(value, right, rtol=5e-3)


EXERCISES = (
    Exercise(
        "6.1",
        "Derive p - y",
        "Write gradient(scores, labels): the gradient of the scores, without a backward. The loss is the cross "
        "entropy, as a mean over the rows. scores has shape (rows, classes). labels has shape (rows,) and has the "
        "right class of each row.",
        FunctionJudge(_slopes, "gradient(scores, labels)", _about_slope, call=by_hand, keeps=True),
        (
            (
                "For one row the loss is log(sum(exp(scores))) - scores[label]. Nudge one score: how does each of the "
                "two terms change? The slope of log(s) is 1 / s, and that of exp(s) is exp(s)."
            ),
            "The first term gives exp(score) / sum(exp(scores)): that is softmax, p. The second gives 1 at the label.",
            "So p - y, with y = 1 at the label and 0 elsewhere. And each row has only a share in the mean.",
        ),
    ),
    Exercise(
        "6.2",
        "A loss that does not overflow",
        "Write stable_loss(scores, labels): the cross entropy, as a mean over the rows. Compute it with exp, log "
        "and sums only. It has to be right for scores such as 1000 and -2000 too.",
        _stable,
        (
            "exp(1000) is infinite. By which number may all scores of a row be lowered, without a change of softmax?",
            "Subtract the largest score of each row: then the largest exp is 1. Keep the dimension: amax(1, "
            "keepdim=True).",
            "log(p) = score - log(sum(exp(scores))): compute it without p, since log(0) is infinite too.",
        ),
    ),
    Exercise(
        "6.3",
        "Softmax twice",
        "A network ends with a softmax, and is trained with cross_entropy, which has one inside. Suppose it is "
        "perfect: its softmax gives 1 for the right one of {classes} classes and 0 for the others. Give the loss.",
        _floors,
        (
            "The second softmax gets a 1 as the score of the right class, and a 0 for each other class.",
            "exp(1), divided by the sum of exp(1) and of exp(0) for each other class, is the probability of the right "
            "class after it.",
            "The loss is minus the logarithm of that.",
        ),
        _CLASSES,
    ),
)
