"""Numbers of their own for each student: the same in every run, and judged as the lesson's."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from nbgrad import lab
from nbgrad.lab import exercise

NAMES = [f"student {number}" for number in range(30)]


@pytest.fixture(autouse=True)
def without_a_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(exercise.STUDENT, raising=False)
    yield
    lab.student("")


def right(number: str) -> Any:
    """The right answer with the numbers of the student whose turn it is, worked out without the engine."""
    found = exercise.find(number).numbers
    assert found is not None
    given = found()
    if number == "4.1":
        return {name: stretched(*shapes) for name, shapes in given.items()}
    if number == "5.1":
        step = given["rate"] * given["slope"]
        return [given["start"] - step * many for many in (1, 3, 6, 10)]
    if number == "6.3":
        return math.log(math.e + given["classes"] - 1) - 1
    pixels = given["size"] ** 2
    return {"conv": 10 * given["kernels"], "linear": (pixels + 1) * pixels * given["kernels"], "uses": pixels}


def stretched(shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    padded = (1,) * (len(shape) - len(own)) + own
    return tuple(dim for dim, (size, mine) in enumerate(zip(shape, padded, strict=True)) if size != mine)


OWN = [number for number in lab.exercises() if exercise.find(number).numbers is not None]


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


def test_a_name_gives_the_same_numbers_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = lab.task("5.1")
    assert "begins at 10; its loss is 3 * w, and SGD has lr=0.1" in usual
    assert lab.student("Ada") == "4.1, 5.1, 6.3, 10.3 have numbers of your own: nbgrad.lab.task('4.1') says them"
    hers = lab.task("5.1")
    assert "begins at 12; its loss is 5 * w, and SGD has lr=0.05" in hers
    lab.student("  ADA ")
    assert lab.task("5.1") == hers
    monkeypatch.setenv(exercise.STUDENT, "Grace")
    assert lab.task("5.1") != hers, "the grader's name counts, and not that in the notebook"
    monkeypatch.delenv(exercise.STUDENT)
    assert lab.student("") == "all exercises have the numbers of the lessons"
    assert lab.task("5.1") == usual


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
