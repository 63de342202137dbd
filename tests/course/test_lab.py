"""The exercises of lessons: each takes the right answer in every form, and says how the usual wrong ones are wrong."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import lab
from nbgrad.lab import exercise

NAMES = ("a", "b", "c", "f")
START = (2.0, -3.0, 10.0, -2.0)


def gradients() -> list[float]:
    """The gradients of L = (a * b + c) * f, computed without the engine."""
    a, b, c, f = START
    return [b * f, a * f, f, a * b + c]


def stepped(rate: float) -> list[float]:
    return [value + rate * slope for value, slope in zip(START, gradients(), strict=True)]


def by_name(*values: Any) -> dict[str, Any]:
    return dict(zip(NAMES, values, strict=True))


def of_graph(sign: float = 1.0, *, backward: bool = True) -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph() as graph:
        a, b, c, f = (nbgrad.tensor(value, requires_grad=True) for value in START)
        loss = (a * b + c) * f * sign
        if backward:
            loss.backward()
    return graph


def central(function: Callable[[Any], Any], x: float) -> Any:
    return (function(x + 1e-4) - function(x - 1e-4)) / 2e-4


def one_sided(function: Callable[[Any], Any], x: float) -> Any:
    return (function(x + 1e-5) - function(x)) / 1e-5


def by_backward(function: Callable[[Any], Any], x: float) -> Any:
    at = nbgrad.tensor(x, dtype=nbgrad.float64, requires_grad=True)
    function(at).backward()
    return at.grad


def unbroadcast(gradient: Any, shape: tuple[int, ...], how: str = "sum") -> Any:
    while gradient.ndim > len(shape):
        gradient = getattr(gradient, how)(0)
    for dim, size in enumerate(shape):
        if size == 1 and gradient.shape[dim] > 1:
            gradient = getattr(gradient, how)(dim, keepdim=True)
    return gradient


def forgets_ones(gradient: Any, shape: tuple[int, ...]) -> Any:
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    return gradient


def loses_dimensions(gradient: Any, shape: tuple[int, ...]) -> Any:
    gradient = forgets_ones(gradient, shape)
    for dim, size in enumerate(shape):
        if size == 1 and gradient.shape[dim] > 1:
            gradient = gradient.sum(dim)
    return gradient


RIGHT: dict[str, list[Any]] = {
    "1.1": [
        by_name(*gradients()),
        {name: nbgrad.tensor(one) for name, one in by_name(*gradients()).items()},
        {name: np.float32(one) for name, one in by_name(*gradients()).items()},
        {name: torch.tensor([int(one)])[0] for name, one in by_name(*gradients()).items()},
        of_graph(),
    ],
    "1.2": [central, one_sided],
    "1.3": [
        by_name(*stepped(0.01)),
        by_name(*stepped(0.1)),
        by_name(*torch.tensor(stepped(0.02))),
        by_name(*nbgrad.tensor(stepped(0.02))),
        by_name(*np.array(stepped(1e-3))),
    ],
    "4.1": [
        [(0,), (1,), (0, 2), (0, 1)],
        [0, 1, [0, 2], [0, 1]],
        [{0}, {1}, {0, 2}, {1, 0}],
        [-2, -1, (-3, -1), (-1, -2)],
        ["sum dim 0", "sum dim 1", "sum dims 0, 2", "dims 0 and 1"],
        {"bias": 0, "scale": 1, "shift": (0, 2), "gain": (0, 1)},
        [np.array([0]), torch.tensor([1]), nbgrad.tensor([0, 2]), (0, 1)],
    ],
    "4.2": [
        unbroadcast,
        lambda gradient, shape: gradient.sum_to_size(shape),
        lambda gradient, shape: (
            unbroadcast(gradient.detach().numpy(), shape)
            if not shape
            else torch.from_numpy(gradient.numpy()).sum_to_size(shape)
        ),
    ],
    "4.3": [
        lambda prediction, target: ((prediction.squeeze(-1) - target) ** 2).mean(),
        lambda prediction, target: ((prediction - target.unsqueeze(1)) ** 2).mean(),
        lambda prediction, target: nbgrad.nn.functional.mse_loss(prediction[:, 0], target),
    ],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "1.1": [
        (by_name(*(-one for one in gradients())), "sign", "the sign of every element is wrong"),
        (by_name(6.0, 4.0, -2.0, 4.0), "sign", "the gradient of b: the sign is wrong"),
        (
            by_name(-3.0, 2.0, -2.0, 4.0),
            "factor",
            "the gradient of a: the factor f is missing: e has a gradient already",
        ),
        (
            by_name(6.0, 2.0, -2.0, 4.0),
            "factor",
            "the gradient of b: the factor f is missing: e has a gradient already",
        ),
        (by_name(-3.0, 2.0, 1.0, 4.0), "factor", "the gradient of c: the factor f is missing"),
        (by_name(6.0, -4.0, -2.0, -8.0), "numbers", "the gradient of f: that is L itself: f gets the other factor"),
        (by_name(-4.0, 6.0, -2.0, 4.0), "order", "these are the right numbers in another order"),
        (by_name(3.0, -2.0, -2.0, 4.0), "factor", "the gradient of a: the factor f is missing"),
        (by_name(6.0, -4.0, -2.0, 40.0), "factor", "the gradient of f: its size is too large, by a factor"),
        (gradients(), "type", "a dict with the names a, b, c, f is expected: the cells below read it by these names"),
        (nbgrad.tensor(gradients()), "type", "a dict with the names a, b, c, f is expected"),
        (by_name(0, 0, 0, 0), "zero", "every element is 0"),
        (by_name(*START), "numbers", "these are the values of a, b, c and f"),
        ({"a": 6.0, "b": -4.0, "c": -2.0}, "type", "the answer lacks f: the names are a, b, c, f"),
        (6.0, "type", "a dict with the names a, b, c, f is expected"),
        (by_name(6.0, -4.0, None, 4.0), "type", "the gradient of c: it is None"),
        (of_graph(-1.0), "sign", "the sign of every element is wrong"),
        (of_graph(backward=False), "type", "the graph has no gradient of a, b, c, f: it needs a backward from L"),
        (..., "unanswered", "write your answer in the place of the ..."),
    ],
    "1.2": [
        (by_backward, "type", "calls backward or grad: work the gradients out by hand"),
        (lambda f, x: (f(x) - f(x + 1e-4)) / 1e-4, "sign", "the sign is wrong"),
        (lambda f, x: (f(x + 1e-4) - f(x - 1e-4)) / 1e-4, "factor", "divided by half of the distance between the two"),
        (lambda f, x: (f(x + 1e-4) - f(x)) / 2e-4, "factor", "divided by twice the distance between the two points"),
        (lambda f, x: (f(x + 1e-4) - f(x - 1e-4)) / 2 * 1e-4, "factor", "are there brackets around 2 * h"),
        (lambda f, x: f(x + 1e-4) - f(x) / 1e-4, "factor", "are there brackets around the change"),
        (lambda f, x: f(x + 1e-4) - f(x), "factor", "is the change of the value divided by the nudge, and are there"),
        (lambda f, x: (f(x + 1e-4) - f(x)) ** 2 / 1e-4, "factor", "far too small: is the change of the value divided"),
        (lambda f, x: f(x), "numbers", "that is the value of the function there"),
        (lambda f, x: f(x + 1e-2), "numbers", "the value of the function beside the point"),
        (lambda f, x: (f(x + 0.1) - f(x)) / 0.1, "rounding", "the nudge is too large"),
        (lambda f, x: f(x + 1) - f(x), "rounding", "the nudge is 1, and the curve bends in between"),
        (lambda f, x: round(float(central(f, x)), 2), "rounding", "the function rounds it"),
        (lambda f, x: print(), "type", "gives None: the function has to end with return"),
        (lambda f, x: [central(f, x)], "shape", "the number is right, but it stands in a list"),
        (lambda f: 0.0, "raised", "raised TypeError"),
        (lambda f, x: (f(x + 1e-20) - f(x)) / 1e-20, "zero", "Rounding leaves nothing of a nudge like 1e-20"),
        (lambda f, x: 2 * x, "numbers", "the slope of x * x alone"),
        (6.0, "type", "a function is expected, slope(function, x)"),
    ],
    "1.3": [
        (by_name(*stepped(-0.01)), "sign", "these steps go against the gradients"),
        (by_name(*START), "zero", "the values are still those of the beginning"),
        (by_name(2.06, -3.0, 10.0, -2.0), "element", "L rises, but b, c, f did not move"),
        (by_name(2.01, -2.99, 10.01, -1.99), "sign", "b, c went the wrong way"),
        (by_name(2.01, -3.01, 9.99, -1.99), "factor", "do not move in proportion to their gradients"),
        (by_name(*stepped(0.5)), "factor", "the step is too long"),
        (by_name(2 + 6e-8, -3 + 4e-8, 10 - 2e-8, -2 + 4e-8), "sign", "b went the wrong way"),
        (by_name(2.06, -3.04, 10.0001, -1.96), "sign", "c went the wrong way"),
        (by_name(*gradients()), "offset", "these are the gradients: the new value is the old one plus the rate times"),
        (by_name(0.06, -0.04, -0.02, 0.04), "offset", "these are the steps: add each to its old value"),
        (stepped(0.01), "type", "a dict with the names a, b, c, f is expected"),
        (torch.tensor(stepped(0.01)), "type", "a dict with the names a, b, c, f is expected"),
        ({"a": 2.0, "b": -3.0}, "type", "the answer lacks c, f"),
    ],
    "4.1": [
        ([1, 1, (0, 2), (0, 1)], "order", "the mark of bias: these are the dimensions that stay"),
        ([1, 2, (1, 3), (1, 2)], "shifted", "they are counted from 0"),
        ([0, 1, 0, (0, 1)], "element", "the mark of shift: a dimension is missing"),
        ([0, (0, 1), (0, 2), (0, 1)], "element", "the mark of scale: one of these dimensions is too many"),
        ([0, 1, (0, 2), ()], "zero", "the mark of gain: its gradient arrives with the shape of x"),
        ([0, 1, (0, 1), (0, 1)], "numbers", "the mark of shift: this input was stretched along other dimensions"),
        ([5, 1, (0, 2), (0, 1)], "shape", "x has 2 dimensions, and none with the number 5"),
        ([(4,), 1, (0, 2), (0, 1)], "shape", "none with the number 4: that is the shape of this input, and dimensions"),
        ([0, 1, (0, 2)], "shape", "4 marks are expected"),
        (["rows", 1, (0, 2), (0, 1)], "type", "'rows' names no dimensions"),
        ([0.5, 1, (0, 2), (0, 1)], "type", "names no dimensions"),
        ({"bias": 0}, "type", "the answer lacks scale, shift, gain"),
        (4, "type", "four marks are expected"),
    ],
    "4.2": [
        (lambda gradient, shape: gradient, "shape", "to (4,): a sum over a dimension is missing"),
        (forgets_ones, "shape", "to (3, 1): a sum over a dimension is missing"),
        (loses_dimensions, "shape", "to (3, 1): the numbers are right, but it has shape (3,)"),
        (lambda gradient, shape: unbroadcast(gradient, shape, "mean"), "factor", "it is a mean of what arrived"),
        (lambda gradient, shape: -unbroadcast(gradient, shape), "sign", "the sign of every element is wrong"),
        (lambda gradient, shape: unbroadcast(gradient, shape).T, "transposed", "it is transposed"),
        (lambda gradient, shape: gradient.sum(), "shape", "all numbers are added up"),
        (
            lambda gradient, shape: gradient.sum(tuple(range(gradient.ndim - len(shape)))),
            "shape",
            "all numbers are added up: sum over the stretched dimensions only. sum with an empty tuple of dimensions "
            "adds all up, too",
        ),
        (lambda gradient, shape: gradient.reshape(shape), "raised", "raised RuntimeError"),
        (lambda gradient, shape: print, "type", "it is a builtin_function_or_method, where numbers are expected"),
    ],
    "4.3": [
        (
            lambda prediction, target: ((prediction - target) ** 2).mean(),
            "shape",
            "it is the mean of 5 * 5 numbers: each prediction still meets every target",
        ),
        (
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).sum(),
            "factor",
            "the loss is their mean",
        ),
        (lambda prediction, target: (prediction[:, 0] - target).mean(), "numbers", "they have to be squared"),
        (lambda prediction, target: abs(prediction[:, 0] - target).mean(), "numbers", "of the absolute differences"),
        (lambda prediction, target: ((prediction[:, 0] - target) ** 2).mean() * 0.5, "factor", "it is half of what"),
        (lambda prediction, target: ((prediction[:, 0] - target) ** 2).mean() * 2, "factor", "it is twice what"),
        (
            lambda prediction, target: ((prediction[:, 0] - target) ** 2).mean().item(),
            "zero",
            "the number is right, but no gradient reaches prediction: item, float and detach",
        ),
        (
            lambda prediction, target: ((prediction.detach()[:, 0] - target) ** 2).mean(),
            "zero",
            "the number is right, but no gradient reaches prediction",
        ),
        (
            lambda prediction, target: ((prediction[:, 0] - target).detach() * (prediction[:, 0] - target)).mean(),
            "factor",
            "the number is right, but the gradient of prediction is not",
        ),
        (lambda prediction, target: (prediction[:, 0] - target) ** 2, "shape", "a mean over a dimension is missing"),
        (lambda prediction, target: ((prediction - target) ** 2).sum(), "shape", "each prediction with every target"),
        (of_graph(), "type", "a function is expected, repaired(prediction, target)"),
    ],
}


for path in sorted(Path(__file__).parent.glob("answers_*.py")):
    of_lesson = import_module(f"tests.course.{path.stem}")
    RIGHT |= of_lesson.RIGHT
    WRONG |= of_lesson.WRONG
RIGHT, WRONG = (dict(sorted(one.items(), key=lambda one: [*map(int, one[0].split("."))])) for one in (RIGHT, WRONG))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("number", "answer"), [(number, answer) for number, answers in RIGHT.items() for answer in answers]
)
def test_the_right_answer_is_right_in_every_form(number: str, answer: Any) -> None:
    outcome = lab.check(number, answer)
    assert outcome
    assert repr(outcome) == f"{number} ✓ right"
    lab.require(number, answer)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("number", "answer", "kind", "reason"),
    [(number, *one) for number, wrong in WRONG.items() for one in wrong],
)
def test_a_wrong_answer_is_told_how_it_is_wrong(number: str, answer: Any, kind: str, reason: str) -> None:
    outcome = lab.check(number, answer)
    assert not outcome
    assert reason in outcome.reason
    assert outcome.kind == kind
    with pytest.raises(lab.WrongAnswer, match=re.escape(reason)):
        lab.require(number, answer)


def test_every_exercise_is_tried_with_three_wrong_answers_of_different_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "_added", {})
    assert list(lab.exercises()) == list(RIGHT) == list(WRONG)
    for wrong in WRONG.values():
        assert len({kind for _, kind, _ in wrong}) >= 3


def test_no_hint_and_no_reason_holds_the_numbers_of_the_answer() -> None:
    for text in exercise.find("1.1").hints:
        assert not re.search(r"\d", text)
    for answer, _, _ in WRONG["1.1"]:
        reason = lab.check("1.1", answer).reason
        assert not {"6", "-4", "6.0", "-4.0"} & set(re.split(r"[\s,:]+", reason))


def test_the_numbers_of_the_answers_are_not_in_the_source() -> None:
    source = "".join(path.read_text() for path in Path(lab.__file__).parent.glob("*.py"))
    for one in ([6, -4, -2, 4], [6.0, -4.0, -2.0, 4.0]):
        assert str(one)[1:-1] not in source


def test_an_exercise_that_was_not_answered_says_so() -> None:
    def empty(x: Any) -> Any: ...

    def documented(x: Any) -> Any:
        """Say what it does."""

    class Half:
        def __init__(self, data: Any) -> None:
            self.data = data

        def backward(self) -> None: ...

    place = "write your answer in the place of the ..."
    for number, answer, reason in (
        ("1.1", ..., place),
        ("1.1", dict.fromkeys(NAMES, ...), place),
        ("1.1", {"a": 6.0, "b": ..., "c": ..., "f": ...}, "write your answer for b, c, f in the place of the ..."),
        ("1.1", [1.0, ..., 2.0, 3.0], place),
        ("1.2", empty, "the function empty is empty: write it in the place of the ..."),
        ("1.2", documented, "the function documented is empty"),
        ("1.2", Half, "Half.backward is empty"),
        ("1.2", [empty, central], "the function empty is empty"),
    ):
        outcome = lab.check(number, answer)
        assert outcome.kind == "unanswered"
        assert reason in outcome.reason
        assert repr(outcome) == f"{number} … not answered yet: {outcome.reason}"
        assert not re.search(r"\.{4}|\?\.", repr(outcome))
        with pytest.raises(lab.WrongAnswer, match="write"):
            lab.require(number, answer)
    assert lab.check("1.2", lambda function, x: 0.0).kind == "zero"
    assert lab.check("1.2", print).kind != "unanswered"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("number", "answer"), [(number, one[0]) for number, wrong in WRONG.items() for one in wrong])
def test_a_message_ends_with_one_mark(number: str, answer: Any) -> None:
    said, _, _ = repr(lab.check(number, answer)).partition(" A hint: ")
    assert said[-1] in ".?"
    assert not re.search(r"\.{4}|[?!]\.|[^.]\.\.$", said)


PLAIN = [
    "1.2", "4.2", "4.3", "6.1", "6.2", "7.2", "7.3", "8.1", "8.3", "9.1", "10.1", "12.1", "12.2", "12.3",
    "14.1", "14.2",
]  # fmt: skip
"""Exercises whose function gives one tensor or number."""


@pytest.mark.parametrize("number", PLAIN)
def test_right_numbers_in_a_wrong_shape_are_said_to_be_right(number: str) -> None:
    """The shape is checked before the usual wrong answers: their messages would say that the numbers are wrong."""
    right = RIGHT[number][0]
    outcome = lab.check(number, lambda *arguments: [right(*arguments)])
    assert outcome.kind == "shape"
    assert re.search(
        r"the numbers are right, but it has shape \(1|the number is right, but it stands in a list", outcome.reason
    )


def test_hints_come_step_by_step() -> None:
    wrong = lab.check("4.2", unbroadcast(nbgrad.ones(2), (2,)))
    assert repr(wrong).endswith('A hint: nbgrad.lab.hint("4.2")')
    texts = [lab.hint("4.2") for _ in range(4)]
    assert [text[:18] for text in texts[:3]] == [f"Hint {step} of 3 to 4.2"[:18] for step in (1, 2, 3)]
    assert texts[3] == "4.2 has no further hint. Ask for an earlier one: hint('4.2', 1)"
    assert lab.hint("4.2", 1) == texts[0]
    assert "A hint" not in repr(wrong), "there is none left"
    assert lab.hint("1.1").startswith("Hint 1 of 3 to 1.1")
    with pytest.raises(ValueError, match=r"step=4: 4.2 has the hints 1 to 3"):
        lab.hint("4.2", 4)


def test_tasks_and_unknown_numbers() -> None:
    assert lab.task("4.3").startswith("4.3 Find the (N, 1) bug: def loss(prediction, target)")
    assert lab.task(1.1) == lab.task("1.1")
    with pytest.raises(KeyError, match=r"there is no exercise 4.7, only 4.1, 4.2, 4.3, 4.4"):
        lab.check("4.7", 1)
    with pytest.raises(KeyError, match=r"there is no exercise one, only 1.1, "):
        lab.hint("one")


def test_a_lecturer_adds_an_exercise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "_added", {})
    mine = lab.Exercise("20.1", "Seven", "Give seven.", lab.NumbersJudge(lambda: 7.0))
    lab.add(mine)
    assert list(lab.exercises())[-1] == "20.1"
    assert lab.check("20.1", 7)
    assert not lab.check("20.1", "7").right
    assert lab.check("20.1", -7).reason == "the sign is wrong"
    assert lab.hint("20.1") == "20.1 has no hints"
    lab.add(replace(mine, title="Sieben"))
    assert lab.exercises()["20.1"] == "Sieben"
    with pytest.raises(ValueError, match="the number of an exercise is the number of its lesson, a point, and"):
        replace(mine, number="twenty")


def test_an_answer_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbroadcast(gradient: Any, shape: tuple[int, ...]) -> Any:
        while len(gradient.shape) > len(shape):
            gradient.sum(0)
        return gradient

    monkeypatch.setattr("nbgrad.lab.running.PATIENCE", 0.2)
    outcome = lab.check("4.2", unbroadcast)
    assert not outcome
    assert "does not end: it was stopped after 0.2 seconds or more" in outcome.reason
    assert "leaves the old one as it is" in outcome.reason
    assert sys.gettrace() is None
