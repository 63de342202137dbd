"""The exercises of lesson 4: broadcasting, and the sums that undo it."""

import ast
import re
from math import prod
from typing import Any

import torch

from nbgrad.core.engine.broadcast import reduction
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.comparison import Deviation, NoNumbers, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, in_order, is_near
from nbgrad.lab.running import attempt

MARKS = OwnNumbers(
    "4.1",
    {
        "bias": (((3, 4), (4,)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4)), ((5, 2, 3), (2, 3))),
        "scale": (((3, 4), (3, 1)), ((3, 4), (1, 4)), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (2, 3, 1))),
        "shift": (((2, 3, 4), (3, 1)), ((2, 3, 4), (1, 3, 1)), ((2, 3, 4), (1, 4)), ((5, 2, 3), (5, 1, 1))),
        "gain": (((3, 4), ()), ((2, 3, 4), ()), ((5,), ()), ((3, 4), (1, 1))),
    },
)
"""By name of the smaller input: the shape of x, then the shape of this input.

The expressions are x + bias, x * scale, x + shift and x * gain.
"""


def _sums(shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions over which the engine sums a gradient of shape ``shape`` for an input of shape ``own``."""
    found = reduction(shape, own)
    return () if found is None else tuple(found.dims)


def _marks(answer: Any) -> Deviation | None:
    marks = MARKS()
    names = list(marks)
    expected = translate("four marks are expected: a list in the order {names}, or a dict", names=", ".join(names))
    given = in_order(answer, names, expected)
    if isinstance(given, Deviation):
        return given
    if len(given) != len(names):
        return Deviation(
            "shape",
            "{total} marks are expected: {names}; the answer has {count}",
            count=len(given),
            total=len(names),
            names=", ".join(names),
        )
    if all(_mark(_one_less(one), *marks[name]) is None for name, one in zip(names, given, strict=True)):
        return Deviation("shifted", "every mark is right, if dimensions are counted from 1: they are counted from 0")
    for name, one in zip(names, given, strict=True):
        if (found := _mark(one, *marks[name])) is not None:
            return Deviation(found.kind, "the mark of {name}: {found}", name=name, found=found)
    return None


def _mark(answer: Any, shape: tuple[int, ...], own: tuple[int, ...]) -> Deviation | None:
    dims = _dims(answer)
    if dims is None:
        shown = repr(answer[:40]) if isinstance(answer, str) else f"{answer:g}" if isinstance(answer, float) else "it"
        return Deviation("type", "{shown} names no dimensions: write (0,), or 'sum dim 0'", shown=shown)
    if outside := [dim for dim in dims if not -len(shape) <= dim < len(shape)]:
        sizes = tuple(dims) == own  # a shape in the place of dimensions
        counted = ": dimensions are counted from 0" if outside == [len(shape)] else ""
        counted = ": that is the shape of this input, and dimensions are asked for" if sizes else counted
        return Deviation(
            "shape",
            "x has {count} dimensions, and none with the number {outside}{counted}",
            count=len(shape),
            outside=outside[0],
            counted=translate(counted),
        )
    said, right = {dim % len(shape) for dim in dims}, set(_sums(shape, own))
    if said == right:
        return None
    if not said:
        return Deviation("zero", "its gradient arrives with the shape of x: sum it to the shape of this input")
    if said == set(range(len(shape))) - right:
        return Deviation("order", "these are the dimensions that stay: the others are summed")
    if said < right:
        return Deviation("element", "a dimension is missing: this input was stretched along more than these")
    if said > right:
        return Deviation("element", "one of these dimensions is too many: along it this input has its own values")
    return Deviation("numbers", "this input was stretched along other dimensions: write the two shapes right-aligned")


def _one_less(answer: Any) -> tuple[int, ...] | None:
    dims = _dims(answer)
    return None if dims is None else tuple(dim - 1 for dim in dims)


_UNREADABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""The errors of ``ast.literal_eval`` for a text that is no literal, or is nested too deep to be read."""


def _dims(answer: Any) -> tuple[int, ...] | None:
    """The dimensions that a mark names: a number, several, or the text in the picture."""
    if isinstance(answer, str):
        text = answer.lower().replace("sum", "").replace("dims", "").replace("dim", "").replace("over", "").strip(" :")
        text = re.sub(r"\band\b", ",", text)
        try:
            answer = ast.literal_eval(text) if text else ()
        except _UNREADABLE:
            return None
    if answer is None:
        return ()
    if isinstance(answer, set | frozenset | range):
        answer = list(answer)
    try:
        found = numbers_of(answer)
    except NoNumbers:
        return None
    if (found.is_floating_point() and found.numel()) or found.dtype is torch.bool or found.is_complex():
        return None
    return tuple(int(one) for one in found.flatten())


# 4.2: unbroadcast.

_SHAPES = (
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 4), (3, 1)),
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (1, 1, 4)),
    ((2, 3, 4), (4,)),
    ((3, 4), ()),
    ((5, 1), (1,)),
)


def _unbroadcasts() -> list[Case]:
    generator = torch.Generator().manual_seed(4)
    cases = []
    for shape, own in _SHAPES:
        gradient = tensor(torch.randn(shape, generator=generator, dtype=torch.float64))
        leaf = tensor(torch.zeros(own, dtype=torch.float64), requires_grad=True)
        (leaf + tensor(torch.zeros(shape, dtype=torch.float64))).backward(gradient)
        cases.append(
            Case(
                (gradient, own),
                leaf.grad,
                translate("unbroadcast of a gradient of shape {shape} to {own}", shape=shape, own=own),
            )
        )
    return cases


def _about_sums(got: Any, case: Case) -> Deviation | None:
    gradient, own = case.arguments
    if gradient.numel() > 1 and own and is_near(got, gradient.data.sum()):
        return Deviation(
            "shape",
            "all numbers are added up: sum over the stretched dimensions only. sum with an empty tuple of dimensions "
            "adds all up, too",
        )
    if is_near(got, gradient.data.sum(tuple(range(len(own), gradient.ndim)))) and len(own) < gradient.ndim:
        return Deviation("shape", "it sums over the last dimensions: the new ones of a stretched tensor are in front")
    if len(own) == gradient.ndim - 1 and is_near(got, gradient.data[0]):
        return Deviation("row", "only the first of the gradients is taken: those of all uses add up")
    terms = gradient.numel() // max(1, prod(own))
    mean = terms > 1 and is_near(numbers_of(got) * terms, case.right)
    return Deviation("factor", "it is a mean of what arrived: the gradients of all uses add up") if mean else None


UNBROADCAST = FunctionJudge(_unbroadcasts, "unbroadcast(gradient, shape)", _about_sums, keeps=True)
"""Judges the function; that of the student's engine, too."""

# 4.3: the (N, 1) bug.


def _losses() -> list[Case]:
    generator = torch.Generator().manual_seed(43)
    cases = []
    for count in (5, 1, 8):
        values = torch.randn((count, 1), generator=generator, dtype=torch.float64)
        prediction = tensor(values, requires_grad=True)
        target = tensor(torch.randn(count, generator=generator, dtype=torch.float64))
        right = ((values.flatten() - target.data) ** 2).mean()
        cases.append(
            Case(
                (prediction, target),
                right,
                translate("repaired for predictions ({count}, 1) and targets ({count},)", count=count),
            )
        )
    return cases


def _about_loss(got: Any, case: Case) -> Deviation | None:
    prediction, target = (one.data for one in case.arguments)
    table = (prediction - target) ** 2
    if table.numel() > 1 and difference(got, table.mean()) is None:
        count = len(target)
        return Deviation(
            "shape",
            "it is the mean of {count} * {count} numbers: each prediction still meets every target, since "
            "({count}, 1) and ({count},) broadcast to ({count}, {count})",
            count=count,
        )
    if table.numel() > 1 and difference(got, table.sum()) is None:
        return Deviation("shape", "it is a sum over pairs of each prediction with every target")
    own = prediction.flatten() - target
    if len(target) > 1 and difference(got, (own**2).sum()) is None:
        return Deviation("factor", "it is the sum over all predictions: the loss is their mean")
    if len(target) > 1 and difference(got, own.mean()) is None:
        return Deviation("numbers", "it is the mean of the differences: they have to be squared")
    if len(target) > 1 and difference(got, own.abs().mean()) is None:
        return Deviation("numbers", "it is the mean of the absolute differences: the loss has their squares")
    if len(target) > 1 and difference(got, own.mean() ** 2) is None:
        return Deviation("order", "the mean is squared: square each difference first, and then take the mean")
    if difference(got, case.right**0.5) is None:
        return Deviation("numbers", "it is the root of the loss: the loss is the mean of the squares itself")
    for factor, words in ((2, "half of"), (0.5, "twice")):
        if is_near(got, case.right / factor):
            return Deviation(
                "factor",
                "it is {words} what it should be: the mean of the squares, without a factor",
                words=translate(words),
            )
    return None


def _repaired(answer: Any) -> Deviation | None:
    found = FunctionJudge(_losses, "repaired(prediction, target)", _about_loss)(answer)
    return _history(answer) if found is None else found


def _history(answer: Any) -> Deviation | None:
    """Whether a loss with the right number can be trained with: the gradient of the prediction is right too."""
    for case in _losses():
        prediction, target = case.arguments
        loss = attempt(case.said, answer, prediction, target)
        slope = None
        if isinstance(loss, Tensor) and loss.requires_grad:
            (slope,) = grad(loss, [prediction], allow_unused=True)
        if slope is None:
            text = "the number is right, but no gradient reaches prediction"
            return Deviation(
                "zero",
                "{said}: {reason}: item, float and detach drop its history",
                said=translate(case.said),
                reason=translate(text),
            )
        (right,) = grad(((prediction.squeeze(-1) - target) ** 2).mean(), [prediction])
        if (found := difference(slope, right)) is not None:
            return Deviation(
                found.kind,
                "{said}: the number is right, but the gradient of prediction is not",
                said=translate(case.said),
            )
    return None


EXERCISES = (
    Exercise(
        "4.1",
        "Predict four marks",
        "Over which dimensions does the backward sum the gradient of the smaller input? bias of shape {bias[1]} in "
        "x + bias, with x of shape {bias[0]}; scale of shape {scale[1]} in x * scale, with x of shape {scale[0]}; "
        "shift of shape {shift[1]} in x + shift, with x of shape {shift[0]}; gain of shape {gain[1]} in x * gain, with "
        "x of shape {gain[0]}. Give a dict, or a list in this order. Each mark is a tuple of dimensions, counted from "
        "0, or the text 'sum dim 0'.",
        _marks,
        (
            "Write the two shapes below each other, right-aligned. Where is the smaller one stretched?",
            "A value that was used in several places gets the sum of the gradients from all of them.",
            "A dimension that the smaller shape lacks is stretched, and one of size 1 beside a larger size is too.",
        ),
        MARKS,
    ),
    Exercise(
        "4.2",
        "Write unbroadcast",
        "An op has stretched a tensor to a larger shape, and a gradient of this larger shape has arrived. Write "
        "unbroadcast(gradient, shape): it returns the gradient of the tensor itself. shape is the shape of the "
        "tensor, and of its gradient.",
        UNBROADCAST,
        (
            (
                "How many more dimensions does the gradient have than the shape? They are in front: what happens to "
                "them?"
            ),
            "After that both have the same number of dimensions. Which of them were stretched?",
            "Sum over the extra dimensions first; then, where the shape has 1 and the gradient more, sum and keep the "
            "dimension.",
        ),
    ),
    Exercise(
        "4.3",
        "Find the (N, 1) bug",
        "def loss(prediction, target): return ((prediction - target) ** 2).mean() learns badly: predictions have shape "
        "(N, 1), targets (N,). Write repaired(prediction, target), which is right for them.",
        _repaired,
        (
            "Print the shape of prediction - target.",
            "Each prediction has to meet its own target, and no other: both need one shape.",
            "squeeze(-1) takes the last dimension away, unsqueeze(-1) adds one: which of the two inputs needs which?",
        ),
    ),
)
