"""The exercises of lesson 12: attention, and a small transformer."""

from math import exp, isfinite, lgamma, pi, sqrt
from typing import Any

import numpy as np
import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, fresh, is_near, needs_function, number_of, slip
from nbgrad.lab.running import attempt
from nbgrad.nn.functional import cross_entropy, scaled_dot_product_attention
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter


def _random(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


# 12.1: attention.


def _attentions() -> list[Case]:
    generator = torch.Generator().manual_seed(12)
    cases = []
    for length, width in ((3, 4), (5, 16)):
        parts = [tensor(_random(generator, length, width) * 2) for _ in range(3)]
        right = scaled_dot_product_attention(parts[0], parts[1], parts[2])
        cases.append(
            Case(
                tuple(parts),
                numbers_of(right),
                translate("attention(q, k, v) of shape ({length}, {width})", length=length, width=width),
            )
        )
    return cases


def _about_attention(got: Any, case: Case) -> Deviation | None:
    q, k, v = (one.data for one in case.arguments)
    scores, width = q @ k.T, q.shape[1]
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    slips = (
        (scores.softmax(1) @ v, "factor", "the scores are not divided by the root of the width"),
        ((scores / 2**0.5).softmax(1) @ v, "factor", "2 is the width of the vectors in the example: take that of q"),
        ((scores / width).softmax(1) @ v, "factor", "the scores are divided by the width: its root is enough"),
        ((scores / len(q) ** 0.5).softmax(1) @ v, "factor", "the scores are divided by the root of the length: it "
            "is the "
         "width of q and k that makes them large"),
        ((scores / width**0.5).softmax(0) @ v, "transposed", "softmax goes over the wrong dimension: the weights "
            "of each "
         "row have the sum 1"),
        ((scores / width**0.5).T.softmax(1) @ v, "transposed", "q and k have changed places"),
        ((q @ v.T / width**0.5).softmax(1) @ k, "order", "k and v have changed places"),
        ((scores / width**0.5).softmax(1) @ k, "numbers", "the weights meet k again: the values v come last"),
        (scores / width**0.5 @ v, "numbers", "softmax is missing"),
        ((scores * width**0.5).softmax(1) @ v, "factor", "the scores are multiplied by the root of the width"),
        (scores.softmax(1) / width**0.5 @ v, "factor", "the weights are divided by the root of the width, and not the "
         "scores"),
        ((scores / width**0.5).masked_fill(future, -torch.inf).softmax(1) @ v, "row", "it masks: here each row of q is "
         "compared with all rows of k"),
        ((scores / width**0.5).softmax(1), "shape", "these are the weights: the values v come last"),
    )  # fmt: skip
    return slip(got, slips)


_ATTENTION = FunctionJudge(_attentions, "attention(q, k, v)", _about_attention)


def _attended(answer: Any) -> Deviation | None:
    """The values; and of a result that nbgrad computed the gradients, too: a network learns through it."""
    if (found := _ATTENTION(answer)) is not None:
        return found
    for case in _attentions():
        if not isinstance(attempt(case.said, answer, *case.arguments), Tensor):
            return None
        own, right = ([tensor(one.data, requires_grad=True) for one in case.arguments] for _ in range(2))
        got = attempt(case.said, answer, *own)
        wanted = grad(scaled_dot_product_attention(right[0], right[1], right[2]).square().sum(), right)
        given = [None] * 3 if not got.requires_grad else grad(got.square().sum(), own, allow_unused=True)
        wrong = [
            name
            for name, one, want in zip("qkv", given, wanted, strict=True)
            if one is None or difference(one, want, atol=1e-9) is not None
        ]
        if wrong:
            text = (
                "{said}: the numbers are right, but no right gradient reaches {names}: detach, item() or a new tensor "
                "cuts a path, and a network cannot learn through it"
            )
            names = ", ".join(wrong)
            return Deviation("zero", translate(text, said=translate(case.said), names=names))
    return None


# 12.2: why the root.

_CLOSE = 0.03
"""How far a measured size may be off, in units of the right one."""


def _sizes() -> list[Case]:
    return [Case((width,), sqrt(width), f"size_of_score({width})") for width in (4, 64, 6)]


def _mean_size(width: int) -> float:
    """The mean of the absolute values of scores: the mean length of a vector times that of one normal number."""
    return 2 / sqrt(pi) * exp(lgamma((width + 1) / 2) - lgamma(width / 2))


def _about_size(got: Any, case: Case) -> Deviation | None:
    (width,) = case.arguments
    size = number_of(got)
    if size is None:
        return None
    for wrong, kind, text in (
        (width, "factor", "that is the mean of the squares: its root is the size"),
        (1.0, "offset", "that is the size of one number: a score is a sum of as many products as the width"),
        (2 * sqrt(width), "factor", "it is twice as large as the right one"),
        (
            _mean_size(width),
            "factor",
            "that is the mean of the scores without their signs: take the root of the mean of the squares",
        ),
        (sqrt(width) / width, "order", "that is the size of the mean of the products: a score is their sum"),
    ):
        if abs(size / wrong - 1) < 3 * _CLOSE and abs(size / case.right - 1) > _CLOSE:
            return Deviation(kind, text)
    if abs(size / case.right - 1) < 0.2:
        text = (
            "it is off by more than {tolerance:.0%}. If it was measured, chance moves it: measure more pairs, each of "
            "numbers of its own"
        )
        return Deviation("rounding", text, tolerance=_CLOSE)
    if abs(size) < 0.1 * case.right:  # a single score is larger in nine cases of ten
        return Deviation("zero", "positive and negative scores cancel in their mean: take the mean of the squares")
    return None


# 12.3: the mask.


def _masks() -> list[Case]:
    generator = torch.Generator().manual_seed(122)
    cases = []
    for length in (3, 5):
        scores = _random(generator, length, length)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        right = scores.masked_fill(future, float("-inf")).softmax(1)
        cases.append(
            Case((tensor(scores),), right, translate("causal(scores) of shape ({length}, {length})", length=length))
        )
    return cases


_NOTHING = 1e-12
"""A weight up to this size is none: it is lost beside 1 where a number has six or seven digits."""

_AHEAD = "the columns after i still get some weight: only minus infinity becomes 0"


def _about_mask(got: Any, case: Case) -> Deviation | None:
    (scores,) = (one.data for one in case.arguments)
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    inf = float("-inf")
    for wrong, kind, text in (
        (scores.softmax(1).masked_fill(future, 0), "factor", "it masks after softmax: the rows no longer have the "
            "sum 1"),
        (scores.masked_fill(future, 0).softmax(1), "numbers", "a score of 0 is not forbidden: exp(0) is 1. Softmax "
            "turns minus infinity into 0"),
        (scores.masked_fill(future.T, inf).softmax(1), "transposed", "it forbids the past: row i may look at the "
            "columns "
         "up to i"),
        (scores.softmax(1), "offset", "nothing is masked"),
        (scores.masked_fill(future, inf).softmax(0), "transposed", "softmax goes over the wrong dimension"),
        (scores.masked_fill(future, inf), "numbers", "softmax is missing"),
    ):  # fmt: skip
        if is_near(got, wrong):
            return Deviation(kind, text)
    rows = numbers_of(got)
    return _about_rows(rows, future) if rows.shape == scores.shape else None


def _about_rows(rows: torch.Tensor, future: torch.Tensor) -> Deviation | None:
    """The fault that weights show without their scores."""
    bad = rows.isnan().any(1)
    if bad[0] and not bad[1:].any():
        text = "the first row is NaN: it may look at itself. Forbid only what lies right of the diagonal"
        return Deviation("not finite", text)
    if bad[:-1].all() and not bad[-1]:
        return Deviation(
            "not finite", "each row with a forbidden column is NaN: the score there has to be minus infinity"
        )
    if bad.all():
        text = "every row is NaN, as of 0 times infinity: choose the scores with masked_fill"
        return Deviation("not finite", text)
    if bad.any():
        return None
    whole = is_near(rows.sum(1), torch.ones(len(rows)))
    if whole and (rows[future] > 0).all():
        return Deviation("numbers", _AHEAD)
    if whole and (rows[future.triu(2)] == 0).all() and (rows.diagonal(1) > 0).all():
        return Deviation("shifted", "each row still looks one column ahead: triu(2) begins one too far to the right")
    if not whole and (rows[future] == 0).all():
        return Deviation("factor", "the columns after i get no weight, but the rest of a row has not the sum 1")
    return None


_MASKS = FunctionJudge(_masks, "causal(scores)", _about_mask)


def _masked(answer: Any) -> Deviation | None:
    """The weights, and whether each forbidden one is 0: a small one still looks ahead."""
    if (found := _MASKS(answer)) is not None:
        return found
    for case in _masks():
        rows = numbers_of(attempt(case.said, answer, *map(fresh, case.arguments)))
        if (rows[rows.new_ones(rows.shape).triu(1).bool()].abs() > _NOTHING).any():
            return Deviation("numbers", "{said}: {found}", said=translate(case.said), found=translate(_AHEAD))
    return None


# 12.4: pairs of inputs and targets.

_LENGTH = 4


def _pairs() -> list[Case]:
    cases = []
    for count in (9, 5):
        codes = (torch.arange(count) * 7 + 3) % 11
        places = range(count - _LENGTH)
        inputs = torch.stack([codes[at : at + _LENGTH] for at in places])
        targets = torch.stack([codes[at + 1 : at + 1 + _LENGTH] for at in places])
        cases.append(
            Case(
                (tensor(codes), _LENGTH),
                torch.stack([inputs, targets]),
                translate("pairs of {count} codes", count=count),
            )
        )
    return cases


def _paired(answer: Any) -> Deviation | None:
    form = "pairs(codes, length)"
    needs_function(answer, form)
    for case in _pairs():
        given = attempt(case.said, answer, *case.arguments)
        if not isinstance(given, tuple | list) or len(given) != 2:
            return Deviation("type", "{form} has to give two tensors: (inputs, targets)", form=form)
        for name, got, right in zip(("inputs", "targets"), given, case.right, strict=True):
            if isinstance(got, list | tuple) and any(isinstance(one, Tensor | torch.Tensor) for one in got):
                text = "{said}: the {name}: it is a list of tensors: nbgrad.stack makes one tensor of them"
                return Deviation("type", text, said=translate(case.said), name=name)
            if (found := difference(got, right)) is not None:
                told = None if found.kind == "type" else _about_pairs(name, numbers_of(got), case.right)
                told = told or found
                return Deviation(
                    told.kind, "{said}: the {name}: {told}", said=translate(case.said), name=name, told=told
                )
            if _is_of_floats(got):
                text = (
                    "{said}: the {name}: the codes are right, but they are floating-point numbers: a network looks its "
                    "vectors up by whole numbers. Keep the type of codes"
                )
                return Deviation("dtype", translate(text, said=translate(case.said), name=name))
    return None


def _is_of_floats(got: Any) -> bool:
    """Whether an answer holds floating-point numbers, be they whole."""
    if isinstance(got, list | tuple):
        return any(map(_is_of_floats, got))
    return isinstance(got, float | np.floating) or "float" in str(getattr(got, "dtype", ""))


def _about_pairs(name: str, got: torch.Tensor, right: torch.Tensor) -> Deviation | None:
    if got.ndim == 2 and len(got) == right.shape[1] + 1:
        return Deviation(
            "shape", "there is one row too many: the last window has no next code ({count} rows)", count=len(got)
        )
    if name == "inputs" and is_near(got, right[1]):
        return Deviation("order", "they are the targets: first the inputs, then the targets")
    if name == "targets" and is_near(got, right[0]):
        return Deviation("shifted", "they are the inputs: the network would only copy. A target is the next code")
    if name == "targets" and got.ndim == 1 and is_near(got, right[1][:, -1]):
        return Deviation("shape", "only the code after the window is there: every place of the window has a target")
    return None


# 12.5: by heart.

_LEARNED = 0.1
"""The loss below which a network knows its data by heart."""


class _Next(Module):
    """A small network that gives scores for the next of five codes."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(125)
        self.letter = Parameter(tensor(_random(generator, 5, 8)))
        self.scores = Parameter(tensor(_random(generator, 8, 5) / 3))

    def forward(self, codes: Any) -> Any:
        """Scores of shape (windows, length, 5) for codes of shape (windows, length)."""
        return self.letter[codes] @ self.scores


def _by_heart(answer: Any) -> Deviation | None:
    form = "learn(model, inputs, targets)"
    needs_function(answer, form)
    inputs = torch.stack([torch.arange(4) + at for at in range(2)])  # no window and no place has all five codes
    targets = (inputs + 1) % 5
    model = _Next()
    before, first = _loss_of(model, inputs, targets), [numbers_of(one).clone() for one in model.parameters()]
    with AutogradGraph("your training") as graph:
        attempt(form, answer, model, tensor(inputs), tensor(targets))
    after = _loss_of(model, inputs, targets)
    if all(torch.equal(old, numbers_of(new)) for old, new in zip(first, model.parameters(), strict=True)):
        return Deviation(
            "zero",
            "the parameters of the model are those of the beginning: each step needs backward() and step(), and the "
            "optimizer those parameters",
        )
    if not isfinite(after):
        return Deviation("not finite", "the loss is no longer finite: the rate is too large")
    if after > before:
        return Deviation(
            "sign",
            "the loss went up, from {before:.2f} to {after:.2f}: do the steps go against "
            "the gradient, and does each place get its own target?",
            before=before,
            after=after,
        )
    if after > _LEARNED:
        return Deviation(
            "factor",
            "the loss fell from {before:.2f} to {after:.2f} only: this data can be learned by "
            "heart, to less than {limit:g}. Take more steps, or look whether the gradients of old "
            "steps are cleared",
            before=before,
            after=after,
            limit=_LEARNED,
        )
    faults = {one.kind for one in graph.findings()}
    if any(one.op is not None and one.op.name == "log_softmax" for one in graph.records):
        faults.discard("loss input")  # computed twice, it is the same
    return next((Deviation("numbers", text) for kind, text in _LUCKY if kind in faults), None)


_LUCKY = (
    ("accumulated gradients", "the loss is low, but only by luck: the gradients of old steps are never cleared. Each "
     "step needs zero_grad, as in lesson 5"),
    ("loss input", "the loss is low, but only by luck: cross_entropy gets probabilities, and it wants scores. It "
     "computes the softmax itself, as in lesson 6"),
)  # fmt: skip
"""Faults of a loop with which this small network learns all the same: the kind of the finding, and the sentence."""


def _loss_of(model: _Next, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    scores = model(tensor(inputs))
    return float(numbers_of(cross_entropy(scores.reshape(-1, 5), tensor(targets).reshape(-1))))


EXERCISES = (
    Exercise(
        "12.1",
        "Attention",
        "Write attention(q, k, v), for three tensors of shape (length, width): each row of q is compared with all "
        "rows of k, the scores become weights with the sum 1 in each row, and the result is the weighted sum of the "
        "rows of v. Divide the scores by the root of the width.",
        _attended,
        (
            "All products of rows at once: q @ k.T has a row for each query and a column for each key.",
            "softmax over the last dimension, then @ v.",
            "The width is q.shape[1], and its root q.shape[1] ** 0.5.",
        ),
    ),
    Exercise(
        "12.2",
        "Why the root of the width",
        "Queries and keys have normally distributed numbers (nbgrad.randn); their score is the sum of the products. "
        "Write size_of_score(width): the typical size of a score, which is the root of the mean of the squares of many "
        f"scores. Measure it with 20,000 pairs or more, or work it out. An answer may be off by {_CLOSE:.0%}.",
        FunctionJudge(_sizes, "size_of_score(width)", _about_size, rtol=_CLOSE),
        (
            "How large is one product of two normal numbers? Compute the mean of its square.",
            "For independent numbers with the mean 0, the mean square of a sum is the sum of the mean squares. What is "
            "the mean square of the score?",
            "To measure it: q = nbgrad.randn(20_000, width), the same for k, and scores = (q * k).sum(1).",
        ),
    ),
    Exercise(
        "12.3",
        "The mask",
        "Write causal(scores): the weights for scores of shape (length, length), so that row i gives no weight to the "
        "columns after i, and each row has the sum 1.",
        _masked,
        (
            "Mask before softmax, so that the rest has the sum 1.",
            "For which score is exp(score) 0?",
            "nbgrad.ones(n, n).triu(1).bool() is True right of the diagonal; scores.masked_fill(mask, value) fills it.",
        ),
    ),
    Exercise(
        "12.4",
        "Inputs and targets",
        "Write pairs(codes, length): from a tensor of codes, the characters of a text, make the two tensors (inputs, "
        "targets) of shape (windows, length). The rows of inputs are all windows that have a next code; the target of "
        "each place is the code that follows it.",
        _paired,
        (
            "With 5 codes and a length of 4 there is one window: the codes 0 to 3. What are its four targets?",
            "The targets are the same windows, one place further.",
            "Stack codes[at : at + length] and codes[at + 1 : at + 1 + length] for each at in "
            "range(len(codes) - length).",
        ),
    ),
    Exercise(
        "12.5",
        "By heart",
        "Write learn(model, inputs, targets): train the model until it knows the data by heart. model(inputs) gives "
        "scores of shape (windows, length, letters), and targets has the shape (windows, length). cross_entropy wants "
        "a row of scores for each place: reshape both. About 120 steps of Adam with lr=0.01 are enough for a small "
        "text; your function may take other steps.",
        _by_heart,
        (
            "It is the five-line loop of lesson 5: loss, zero_grad, backward, step, and again.",
            "scores.reshape(-1, scores.shape[-1]) has a row for each place, and targets.reshape(-1) a number.",
            "The network of the check has five letters and few parameters: 120 steps of Adam with lr=0.01 are enough "
            "for it, too.",
        ),
    ),
)
