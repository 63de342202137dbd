"""Answers to the exercises as students write them, from the files in ``answers/``, each with its verdict.

python -m tests.course.handed_in 3 11   judge the answers of lessons 3 and 11, and print those that are judged otherwise

A file has a line with the number of each exercise, and below it the answers. A right answer begins with ``+``, a wrong
one with ``-``. An answer is Python code: its value is that of its last line, or the function or class that this line
belongs to. Code that begins with ``=`` runs before each answer of its exercise. After ``# says`` comes a part of the
reason that a wrong answer gets.

Where the answer is a file of the student's engine, the code has the functions that the student wrote: the methods of a
class below ``class Value:``, the rule inside of conv2d below ``class conv2d:``. The rest is the reference part.
"""

import ast
import math
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import nbgrad
from nbgrad import lab, nn, optim
from nbgrad.lab.engine import PARTS, reference
from nbgrad.lab.exercise import of_lesson
from tests.course.answers_engine import module_of
from tools.course import functions

PART_OF = {list(of_lesson(lesson))[-1]: part for lesson, part in PARTS.items()}
"""The part of the engine that is the answer to an exercise: the last one of its lesson."""
FOLDER = Path(__file__).parent / "answers"
_GIVEN = {"math": math, "random": random, "np": np, "torch": torch, "nbgrad": nbgrad, "nn": nn, "optim": optim}


class Written(NamedTuple):
    """An answer that is not run yet.

    Attributes:
        number: of the exercise.
        right: the verdict that it should get.
        code: of the answer.
        says: a part of the reason; empty where any will do.
        place: the file and the line where it stands.
    """

    number: str
    right: bool
    code: str
    says: str
    place: str

    def value(self) -> Any:
        """Run the code: the answer."""
        if self.number in PART_OF:
            return module_of(PART_OF[self.number], completed(PART_OF[self.number], self.code))
        tree = ast.parse(self.code, self.place)
        names = dict(_GIVEN)
        last = tree.body.pop()
        if isinstance(last, ast.Expr):
            exec(compile(tree, self.place, "exec"), names)
            return eval(compile(ast.Expression(last.value), self.place, "eval"), names)
        assert isinstance(last, ast.FunctionDef | ast.ClassDef), f"{self.place} has no value"
        tree.body.append(last)
        exec(compile(tree, self.place, "exec"), names)
        return names[last.name]


def completed(part: str, code: str) -> str:
    """The reference part of the engine with the functions of ``code`` in their places.

    Other functions and imports stand before the first class or function; other methods, beside a method of the answer.
    """
    lines, known = reference(part).split("\n"), dict(functions(ast.parse(reference(part))))
    ends, changes, before = code.split("\n"), list[tuple[int, int, list[str]]](), list[str]()
    for node in ast.parse(code).body:
        own = "\n".join(ends[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.ClassDef) and any(name.startswith(f"{node.name}.") for name in known):
            texts = {
                one.name: ends[one.lineno - 1 : one.end_lineno] for one in node.body if isinstance(one, ast.FunctionDef)
            }
            places = {name: known[f"{node.name}.{name}"] for name in texts if f"{node.name}.{name}" in known}
            more = [line for name, text in texts.items() if name not in places for line in text]
            for name, there in places.items():
                changes.append((there.lineno - 1, there.end_lineno or 0, texts[name] + more))
                more = []
        elif isinstance(node, ast.FunctionDef) and node.name in known:
            changes.append((known[node.name].lineno - 1, known[node.name].end_lineno or 0, own.split("\n")))
        else:
            before += own.split("\n")
    first = next(
        one.lineno - 1 for one in ast.parse(reference(part)).body if isinstance(one, ast.ClassDef | ast.FunctionDef)
    )
    for start, end, text in sorted([*changes, (first, first, before)], key=lambda one: -one[0]):
        lines[start:end] = text
    return "\n".join(lines)


def written(lesson: int) -> Iterator[Written]:
    """The answers to the exercises of a lesson."""
    path = FOLDER / f"{lesson:02}.txt"
    number, before = "", dict[str, str]()
    for found in re.finditer(r"^(\S.*)\n((?:(?:  .*)?\n)*)", path.read_text("utf-8"), re.MULTILINE):
        mark, first, more = found[1][:2], found[1][2:], re.sub(r"^  ", "", found[2], flags=re.MULTILINE)
        code = f"{first}\n{more}"
        if mark == "= ":
            before[number] = code
        elif mark in ("+ ", "- "):
            line = path.read_text("utf-8").count("\n", 0, found.start()) + 1
            says = re.search(r"# says (.*)", code)
            own = before.get(number, "") + code
            yield Written(number, mark == "+ ", own, says[1] if says else "", f"{path.stem}.txt:{line}")
        else:
            number = found[1]


def main(lessons: list[str]) -> None:
    """Print the answers that are judged otherwise than they should be."""
    for lesson in lessons:
        count = wrong = 0
        for one in written(int(lesson)):
            count += 1
            try:
                outcome = lab.check(one.number, one.value())
                said = f"{'right' if outcome.right else outcome.kind + ': ' + outcome.reason}"
                fine = outcome.right is one.right and one.says in outcome.reason
            except BaseException as error:  # whatever a check raises is to be seen
                said, fine = f"raised {type(error).__name__}: {str(error)[:200]}", False
            if not fine:
                wrong += 1
            if not fine or "-v" in sys.argv:
                print(f"{'  ' if fine else '! '}{one.place} {one.number} {'+' if one.right else '-'} {said}")
        print(f"lesson {lesson}: {count - wrong} of {count}")


if __name__ == "__main__":
    main([one for one in sys.argv[1:] if one != "-v"])
