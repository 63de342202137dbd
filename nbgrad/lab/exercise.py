"""``Exercise``: a task, its hints and the judge of answers; and the list of all exercises."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from random import Random
from typing import Any

from nbgrad.core.suggestions import nearest
from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate

STUDENT = "NBGRAD_STUDENT"
"""The environment variable that names the student. Who grades sets it, and it counts more than ``student``."""

Judge = Callable[[Any], Deviation | None]
"""A function that judges an answer: it returns how it is wrong, or None if it is right."""


_turn = {"student": ""}
"""Whose answers are checked."""


def student(name: str) -> str:
    """Give the exercises whose answers are numbers other numbers for each student: all others are the same for all.

    Args:
        name: of the student, such as the one that the grader knows. Spaces around it and capitals do not count. "" is
            for the numbers that the lessons show.

    Returns:
        Which exercises have numbers of their own; ``lab.task`` says them.
    """
    _turn["student"] = name
    own = [one.number for one in every().values() if one.numbers is not None]
    if not _name():
        return translate("all exercises have the numbers of the lessons")
    return translate(
        "{names} have numbers of your own: nbgrad.lab.task({own!r}) says them", names=", ".join(own), own=own[0]
    )


def _name() -> str:
    return (os.environ.get(STUDENT) or _turn["student"]).strip().casefold()


@dataclass(frozen=True)
class OwnNumbers:
    """The numbers of an exercise, drawn for each student by the name.

    Attributes:
        number: of the exercise.
        choices: what each of them may be, by name. The first ones are those of the lesson, whose solution is public:
            a student with a name never has all of them.
    """

    number: str
    choices: Mapping[str, Sequence[Any]]

    def __call__(self) -> dict[str, Any]:
        """Those of the student whose turn it is."""
        name, usual = _name(), {one: some[0] for one, some in self.choices.items()}
        draw = Random(f"{name} {self.number}")  # a text gives the same numbers in every version of Python
        if not name or all(one == some[0] for some in self.choices.values() for one in some):
            return usual
        while (own := {one: draw.choice(some) for one, some in self.choices.items()}) == usual:
            pass
        return own


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    Attributes:
        number: the number of the lesson, a point, and the number of the exercise in the lesson, as "4.2".
        title: a few words.
        task: what to do, and in which form the answer is expected. Names in braces stand for ``numbers``.
        judge: takes an answer, and gives how it is wrong; None where it is right.
        hints: one sentence each, from a nudge to nearly the answer, but never the answer.
        numbers: those in the task that each student has of their own; None if all have the same.

    Raises:
        ValueError: the number is not two whole numbers with a point between.
    """

    number: str
    title: str
    task: str
    judge: Judge
    hints: tuple[str, ...] = ()
    numbers: OwnNumbers | None = None

    def __post_init__(self) -> None:
        lesson, _, place = self.number.partition(".")
        if not (lesson.isdecimal() and place.isdecimal()):
            raise ValueError(
                f"{self.number!r}: the number of an exercise is the number of its lesson, a point, and a number in "
                "this lesson, as '4.2'"
            )

    @property
    def original(self) -> str:
        """The task with its numbers, in English."""
        return self.task if self.numbers is None else self.task.format(**self.numbers())

    @property
    def text(self) -> str:
        """The task with its numbers, in the language that is set."""
        return translate(self.task, **({} if self.numbers is None else self.numbers()))


_added: dict[str, Exercise] = {}


def add(exercise: Exercise) -> None:
    """Add an exercise of your own to those that ``check`` and ``hint`` know; one of the same number is replaced."""
    _added[exercise.number] = exercise


def of_lesson(lesson: int) -> dict[str, Exercise]:
    """The exercises of a lesson, by number; empty where it has none."""
    name = f"nbgrad.lab.lesson_{lesson:02}"
    found = {} if find_spec(name) is None else {one.number: one for one in import_module(name).EXERCISES}
    engine = import_module("nbgrad.lab.engine_exercises").EXERCISES if found else ()
    found |= {one.number: one for one in engine if one.number.partition(".")[0] == str(lesson)}
    found |= {number: one for number, one in _added.items() if number.partition(".")[0] == str(lesson)}
    return dict(sorted(found.items(), key=lambda one: _order(one[0])))


def every() -> dict[str, Exercise]:
    """All exercises, by number, in the order of the lessons."""
    lessons = sorted({*range(1, 17), *(_order(number)[0] for number in _added)})
    return {number: one for lesson in lessons for number, one in of_lesson(lesson).items()}


def find(number: str | float) -> Exercise:
    """The exercise of this number.

    Raises:
        KeyError: there is none; the message names those of the lesson.
    """
    wanted = str(number).strip()
    lesson = wanted.partition(".")[0]
    known = of_lesson(int(lesson)) if lesson.isdecimal() else {}
    if wanted in known:
        return known[wanted]
    there = known or every()
    raise KeyError(f"there is no exercise {wanted}, only {', '.join(there)}{nearest(wanted, there)}")


def _order(number: str) -> tuple[int, int]:
    lesson, _, place = number.partition(".")
    return int(lesson), int(place)
