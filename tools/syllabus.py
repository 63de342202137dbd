"""Write the tables of docs/course.md from the sources of the lessons.

    python -m tools.syllabus           print the tables
    python -m tools.syllabus --write   write them into the page

The titles and the minutes of a lesson are those that its source says. Only the plan of the weeks is here.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from nbgrad.lab.engine import PARTS
from nbgrad.lab.exercise import of_lesson
from tools import course
from tools.other_courses import OTHERS, ROWS

PAGE = course.ROOT / "docs" / "course.md"
CAPSTONES = 16
"""The lesson that has a capstone for each exercise."""
SEVEN = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, CAPSTONES))
"""The lessons of each of seven weeks."""
FOURTEEN = ((1, 2), *((lesson,) for lesson in range(3, 14)), (14, 15), (CAPSTONES,))
"""The lessons of each of fourteen weeks."""
AFTER = {"16.1": 9, "16.2": 12, "16.3": 13, "16.4": 9}
"""The lesson after which a student can begin a capstone."""

_SOLUTIONS = re.compile(r"^\*\*Solutions\.\*\*\n\n((?:\d+\. .*\n)+)", re.MULTILINE)
_OPTIONAL = re.compile(r"^## Optional.*?(?=^## )", re.MULTILINE | re.DOTALL)
_HINTS = re.compile(r"<details><summary>Hint.*?(?:\s*</details>)+", re.DOTALL)
_WRITTEN = re.compile(r"### BEGIN SOLUTION\n(.*?)[ \t]*### END SOLUTION", re.DOTALL)
_MADE = re.compile(r"<!-- (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)


class Lesson(NamedTuple):
    """A lesson, as its source describes it.

    Attributes:
        number: from 1; the tour is 0.
        file: the name of its notebook, without its ending.
        title: its heading, without the number.
        minutes: how long it takes.
        optional: how long its optional parts take besides.
        goals: what a student will be able to do.
    """

    number: int
    file: str
    title: str
    minutes: int
    optional: int
    goals: list[str]


def lesson(source: Path) -> Lesson:
    """Read the source of a lesson.

    Raises:
        ValueError: it does not say how long it takes.
    """
    head = source.read_text("utf-8").partition("```")[0]
    title, minutes = re.match(r"# (?:\d+\. )?(.+)", head), re.search(r"about (\d+) minutes", head)
    if title is None or minutes is None:
        raise ValueError(f"{source.name} has no title, or does not say 'about N minutes' before its first cell")
    more = sum(int(one) for one in re.findall(r"(\d+)(?: minutes)? more\b", head))
    listed = head.partition("**You will be able to**\n\n")[2].partition("\n\n")[0]
    goals = re.findall(r"^- (.+?)[,.]$", listed, re.MULTILINE)
    return Lesson(int(source.name[:2]), source.stem, title[1], int(minutes[1]), more, goals)


def estimated(source: Path) -> float:
    """The minutes of a lesson by a formula, without the sections that are optional.

    They are 1.35 times, for thought and mistakes, the sum of a minute for 150 words, a minute for 15 lines of code, a
    minute for each prediction, 3 for each exercise and 0.7 for each line of its solution.
    """
    text = _OPTIONAL.sub("", source.read_text("utf-8"))
    given, solved = (course.build(text, solved=one).cells for one in (False, True))
    words = sum(len(_HINTS.sub("", one.source).split()) for one in given if one.cell_type == "markdown")
    read = sum(_lines(one.source) for one in given if one.cell_type == "code")
    exercises = [one.source for one in solved if one.metadata.get("nbgrader", {}).get("solution")]
    written = sum(_lines(part) for one in exercises for part in _WRITTEN.findall(one))
    minutes = words / 150 + read / 15 + text.count("**Predict ") + 3 * len(exercises) + 0.7 * written
    return 1.35 * minutes


def _lines(code: str) -> int:
    return sum(1 for line in code.splitlines() if line.strip())


def lessons() -> list[Lesson]:
    """All lessons that have exercises."""
    return [lesson(source) for source in course.lessons() if of_lesson(int(source.name[:2]))]


def tables() -> dict[str, str]:
    """The tables of the page, by their names."""
    known = {one.number: one for one in lessons()}
    rows = ["| lesson | minutes | exercises | week of 14 | week of 7 |", "|---|---|---|---|---|"]
    for one in known.values():
        more = f" + {one.optional} optional" if one.optional else ""
        link = f"[{one.number}. {one.title}](../notebooks/{one.file}.ipynb)"
        weeks = " | ".join(_week(plan, one.number) for plan in (FOURTEEN, SEVEN))
        rows.append(f"| {link} | {one.minutes}{more} | {len(of_lesson(one.number))} | {weeks} |")
    capstones = _capstones(known[CAPSTONES].minutes)
    return {"lessons": "\n".join(rows), "capstones": capstones, "others": _beside(list(known.values()))}


def _capstones(minutes: int) -> str:
    rows = ["| capstone | hours | can begin after | of 14 weeks | of 7 weeks |", "|---|---|---|---|---|"]
    capstones = of_lesson(CAPSTONES)
    for number, after in AFTER.items():
        begins = " | ".join(f"after week {_week(plan, after)}" for plan in (FOURTEEN, SEVEN))
        rows.append(f"| {capstones[number].title} | {minutes / 60:g} | lesson {after} | {begins} |")
    rows.append(f"| all | {len(AFTER) * minutes / 60:g} | | | |")
    return "\n".join(rows)


def _week(plan: tuple[tuple[int, ...], ...], lesson: int) -> str:
    """The number of the week that has a lesson, or a dash: the plan leaves it out."""
    return next((str(week) for week, numbers in enumerate(plan, 1) if lesson in numbers), "–")


def _beside(known: list[Lesson]) -> str:
    """This course beside others, one in each column. Its own facts are counted."""
    names = ["this course", *(f"[{one.name}]({one.read[0]})" for one in OTHERS)]
    facts = [_own_facts(known), *(one.facts for one in OTHERS)]
    rows = [f"| | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
    rows += [f"| {row} | {' | '.join(one[row] for one in facts)} |" for row in ROWS]
    return "\n".join(rows)


def _own_facts(known: list[Lesson]) -> dict[str, str]:
    exercises = sum(len(of_lesson(one.number)) for one in known)
    written = sum(len(one.splitlines()) for one in _SOLUTIONS.findall(PAGE.read_text("utf-8")))
    parts = list(PARTS)
    return {
        "engine": f"by the students: numbers, tensors, on numpy; {len(PARTS)} files, lessons {parts[0]} to {parts[-1]}",
        "trains": "digits; moons; a text by heart, with an own GPT",
        "exercises": f"{exercises} with a check in {len(known)} lessons; {written} written questions",
        "grading": "nbgrader, otter-grader; numbers for each student",
        "picture of the graph": "of each cell, live; of the student's engine, too",
    }


def filled(page: str) -> str:
    """The text of the page with its tables as the sources are now."""
    made = tables()
    return _MADE.sub(lambda found: f"<!-- {found['name']} -->\n{made[found['name']]}\n<!-- end -->", page)


def main(arguments: list[str]) -> None:
    """Print the tables, or write them."""
    if arguments == ["--write"]:
        PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    else:
        print("\n\n".join(tables().values()))


if __name__ == "__main__":
    main(sys.argv[1:])
