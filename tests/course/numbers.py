"""The lessons in numbers, as docs/teaching.md has them.

python -m tests.course.numbers           print the table
python -m tests.course.numbers --write   try every wrong answer, and write the table into docs/teaching.md
"""

import re
import sys
from pathlib import Path

from nbgrad import lab
from nbgrad.lab.exercise import of_lesson
from tests.course.handed_in import Written, written as handed_in
from tests.course.test_lab import WRONG
from tools import course

PAGE = Path(__file__).parents[2] / "docs" / "teaching.md"
HEAD = "| lesson | predictions | wrong answers, refused | kinds of mistakes |"
_TABLE = re.compile(rf"^{re.escape(HEAD)}\n(?:\|.*\n)+", re.MULTILINE)


def table() -> str:
    """The table, made from the sources of the lessons and the tests of the checks."""
    rows = [HEAD, "|---|---|---|---|"]
    for source in course.lessons():
        lesson, text = int(source.name[:2]), source.read_text("utf-8")
        numbers = list(of_lesson(lesson))
        if not numbers:
            continue
        checks = re.findall(r"^```python check ([\d.]+)$", text, re.MULTILINE)
        assert checks == numbers
        wrong = [one for number in numbers for one in WRONG[number]]
        kinds = {kind for _, kind, _ in wrong}
        predictions = len(re.findall(r"\*\*Predict \d\.\*\*", text))
        many = len(wrong) + len(_wrong(lesson))
        rows.append(f"| {lesson} | {predictions} | {many} | {len(kinds)} |")
    return "\n".join(rows) + "\n"


def accepted() -> list[str]:
    """The numbers of the exercises whose check accepts a wrong answer."""
    answers = [(number, answer) for number, wrong in WRONG.items() for answer, _, _ in wrong]
    answers += [(one.number, one.value()) for lesson in range(1, 16) for one in _wrong(lesson)]
    return [number for number, answer in answers if lab.check(number, answer)]


def _wrong(lesson: int) -> list[Written]:
    return [one for one in handed_in(lesson) if not one.right]


def written() -> str:
    """The table as the page has it."""
    found = _TABLE.search(PAGE.read_text("utf-8"))
    assert found is not None, f"{PAGE.name} has no table that begins with {HEAD}"
    return found[0]


def main(arguments: list[str]) -> None:
    """Print the table, or write it."""
    if arguments != ["--write"]:
        print(table(), end="")
        return
    if wrong := accepted():
        raise SystemExit(f"checks take wrong answers for right ones: {', '.join(wrong)}")
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
