"""Numbers of their own for each student: the same in every run, and judged as the lesson's."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nbgrad import lab
from nbgrad.lab import clinic, exercise, lesson_01, lesson_09
from nbgrad.lab.lesson_13 import KINDS
from nbgrad.lab.planted import function_with_the_fault, planted

OF_YOUR_OWN = (
    "1.1, 1.3, 2.1, 4.1, 5.1, 6.3, 9.2, 9.3, 10.3, 13.1, 16.3 have numbers of your own: nbgrad.lab.task('1.1') says "
    "them"
)
NAMES = [f"student {number}" for number in range(30)]


DIAGNOSES = dict(
    zip(
        "abcdefghijkl",
        (
            *("accumulated gradients", "no optimizer", "saturated", "loss input", "unreached", "vanishing"),
            *("divergence", "nan", "broadcast", "unregistered", "eval mode", "no step"),
        ),
        strict=True,
    )
)
"""Of the patients, with the letters of the lesson."""


@pytest.fixture(autouse=True)
def without_a_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(exercise.STUDENT, raising=False)
    yield
    lab.student("")


def right(number: str) -> Any:
    """The right answer with the numbers of the student whose turn it is, worked out without the engine."""
    found = exercise.find(number).numbers
    assert found is not None
    return RIGHT[number](**found())


def slopes(start: dict[str, float]) -> dict[str, float]:
    a, b, c, f = (start[name] for name in "abcf")
    return {"a": b * f, "b": a * f, "c": f, "f": a * b + c}


def diagnoses(**letters: tuple[str, ...]) -> dict[str, str]:
    turned = {old: new for look, own in letters.items() for old, new in zip(look, own, strict=True)}
    return {turned[letter]: word for letter, word in DIAGNOSES.items()}


def stretched(shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    padded = (1,) * (len(shape) - len(own)) + own
    return tuple(dim for dim, (size, mine) in enumerate(zip(shape, padded, strict=True)) if size != mine)


def momentum(lr: float) -> Callable[..., tuple[Any, Any]]:
    return lambda w, g, v: (w - lr * (0.9 * v + g), 0.9 * v + g)


def adam(lr: float) -> Callable[..., tuple[Any, Any, Any]]:
    def step(w: Any, g: Any, m: Any, v: Any, t: int) -> tuple[Any, Any, Any]:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8), m, v

    return step


PLANTED = ("tanh", "backward", "unbroadcast", "matmul", "softmax")
"""The functions with a fault, in the order of the lesson."""

RIGHT: dict[str, Callable[..., Any]] = {
    "1.1": slopes,
    "1.3": lambda start: {name: start[name] + 0.01 * slope for name, slope in slopes(start).items()},
    "2.1": lambda t: {"exp": math.exp(t), "mul_a": t, "mul_b": t, "t": math.exp(t) + 2 * t},
    "4.1": lambda **given: {name: stretched(*shapes) for name, shapes in given.items()},
    "5.1": lambda start, slope, rate: [start - rate * slope * many for many in (1, 3, 6, 10)],
    "6.3": lambda classes: math.log(math.e + classes - 1) - 1,
    "9.2": momentum,
    "9.3": adam,
    "10.3": lambda kernels, size: {
        "conv": 10 * kernels,
        "linear": (size**2 + 1) * size**2 * kernels,
        "uses": size**2,
    },
    "13.1": diagnoses,
    "16.3": lambda order: {number: PLANTED[at] for number, at in enumerate(order, 1)},
}
OWN = [number for number in lab.exercises() if exercise.find(number).numbers is not None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", OWN)
def test_each_student_is_judged_by_the_own_numbers(number: str) -> None:
    usual, answers = right(number), {}
    assert lab.check(number, usual)
    for name in NAMES:
        lab.student(name)
        answers[name] = right(number)
        assert lab.check(number, answers[name]), name
        assert bool(lab.check(number, usual)) is (answers[name] == usual), name
    assert len({str(one) for one in answers.values()}) >= 5, "few can copy"


@pytest.mark.parametrize("number", OWN)
def test_no_student_has_the_numbers_of_the_lesson(number: str) -> None:
    """Its solution is public."""
    numbers = exercise.find(number).numbers
    assert numbers is not None
    usual = numbers()
    for name in NAMES:
        lab.student(name)
        assert numbers() != usual, name


def test_a_name_gives_the_same_numbers_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = lab.task("5.1")
    assert "begins at 10; its loss is 3 * w, and SGD has lr=0.1" in usual
    assert lab.student("Ada") == OF_YOUR_OWN
    hers = lab.task("5.1")
    assert "begins at 12; its loss is 5 * w, and SGD has lr=0.05" in hers
    lab.student("  ADA ")
    assert lab.task("5.1") == hers
    monkeypatch.setenv(exercise.STUDENT, "Grace")
    assert lab.task("5.1") != hers, "the grader's name counts, and not that in the notebook"
    monkeypatch.delenv(exercise.STUDENT)
    assert lab.student("") == "all exercises have the numbers of the lessons"
    assert lab.task("5.1") == usual


def test_a_planted_engine_is_that_of_the_student() -> None:
    def gradient(number: int) -> float:
        engine = planted(number)
        x = engine.Tensor(np.array([0.5]))
        engine.tanh(x).backward()
        return float(x.grad[0])

    right = 1 - math.tanh(0.5) ** 2
    assert [number for number in range(1, 6) if abs(gradient(number) - right) > 0.1] == [1]
    numbers = set()
    for name in NAMES:
        lab.student(name)
        [wrong] = [number for number in range(1, 6) if abs(gradient(number) - right) > 0.1]
        assert function_with_the_fault(wrong) == "tanh"
        numbers.add(wrong)
    assert len(numbers) >= 4


def test_a_lecturer_draws_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "_added", {})
    side = lab.OwnNumbers("20.1", {"side": (3, 4, 5)})
    judge = lab.NumbersJudge(lambda: side()["side"] ** 2)
    lab.add(lab.Exercise("20.1", "A square", "Give the area of a square of side {side}.", judge, numbers=side))
    assert lab.task("20.1") == "20.1 A square: Give the area of a square of side 3."
    assert lab.check("20.1", 9)
    for name in NAMES:
        lab.student(name)
        assert lab.check("20.1", side()["side"] ** 2)
    assert lab.OwnNumbers("20.2", {"side": (3, 3)})() == {"side": 3}


@pytest.mark.parametrize(("number", "wrongs"), [("9.2", lesson_09.WRONG_MOMENTUM), ("9.3", lesson_09.WRONG_ADAM)])
def test_a_mistake_is_named_whatever_the_rate(number: str, wrongs: Any) -> None:
    """The usual wrong updates have the rate of the lesson."""
    usual = right(number)
    assert "lr=0.1" in lab.task(number)
    lab.student("Ada")
    rate = exercise.find(number).numbers()["lr"]  # type: ignore[misc]
    assert f"lr={rate:g}" in lab.task(number)
    assert lab.check(number, usual).reason == f"its learning rate is 0.1, and {rate:g} is asked for"
    for update, kind, text in wrongs:

        def of_the_student(w: Any, *given: Any, update: Any = update) -> Any:
            new, *kept = update(w, *given)
            return (w + (new - w) * rate / 0.1, *kept)

        for answer in (update, of_the_student):
            outcome = lab.check(number, answer)
            assert (outcome.kind, outcome.reason) == (kind, text)


def test_the_text_of_lesson_1_is_true_of_all_numbers() -> None:
    for start in lesson_01.START.choices["start"]:
        a, b, c, f = (start[name] for name in "abcf")
        assert ((a * b + c) * f, a * b + c, f) == (-8, 4, -2)
        assert a > 0 > b, "the signs of prediction 2"


def test_the_text_of_lesson_13_is_true_of_all_letters() -> None:
    lab.student("Ada")
    losses = {name: clinic.admit(name).losses for name in clinic.names()}
    assert [name for name, one in losses.items() if one[-1] != one[-1]] == ["g", "h"]
    assert "".join(name for name, one in losses.items() if one[-1] < one[0] - 0.03) == "abdeijk"
    assert len(set(losses["l"])) == 1
    moved = [name for name in clinic.names() if clinic.admit(name).training != name]
    assert len(moved) >= 4
    for name in moved:
        assert clinic.admit(name).source.startswith(f"def _{name}(")
        assert clinic.admit(name).graph.name == f"patient {name}"
    assert clinic.admit("e").findings & KINDS == {"unreached"}
