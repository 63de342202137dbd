"""docs/course.md: its tables are those of the lessons, and its questions have solutions that nbgrad computes."""

import re
from pathlib import Path

import pytest

from tools import syllabus

pytestmark = pytest.mark.once

TEXT = syllabus.PAGE.read_text("utf-8")
BANK = TEXT.partition("\n## Written questions\n")[2]
SECTION = re.compile(
    r"### Lesson (?P<lesson>\d+)\n\n(?P<questions>(?:\d+\. [^\n]+\n)+)\n"
    r"\*\*Solutions\.\*\*\n\n(?P<solutions>(?:\d+\. [^\n]+\n)+)\n"
    r"```python\n(?P<code>.*?)```\n```text\n(?P<printed>.*?)```\n",
    re.DOTALL,
)


def test_the_tables_are_those_of_the_lessons() -> None:
    assert syllabus.filled(TEXT) == TEXT, "python -m tools.syllabus --write"
    for name, table in syllabus.tables().items():
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in TEXT


def test_each_lesson_says_its_goals_and_minutes() -> None:
    for one in syllabus.lessons():
        assert len(one.goals) >= 3, one.title
        assert 30 <= one.minutes <= 120, one.title


def test_the_plans_have_the_lessons_in_order() -> None:
    for plan, weeks, last in ((syllabus.SEVEN, 7, 13), (syllabus.FOURTEEN, 14, 15)):
        assert len(plan) == weeks
        assert [lesson for week in plan for lesson in week] == list(range(1, last + 1))


def test_a_lesson_that_does_not_say_its_minutes_is_named(tmp_path: Path) -> None:
    source = tmp_path / "20_new.md"
    source.write_text(
        "# 20. New\n\nabout 10 minutes, and 5 more\n\n**You will be able to**\n\n- add,\n- run.\n\n- no goal.\n"
    )
    assert syllabus.lesson(source) == syllabus.Lesson(20, "20_new", "New", 10, 5, ["add", "run"])
    source.write_text("# 20. New\n\n```python\n```\nabout 10 minutes")
    with pytest.raises(ValueError, match=r"20_new\.md has no title, or does not say 'about N minutes'"):
        syllabus.lesson(source)


def test_each_lesson_has_questions_and_solutions_with_computed_numbers() -> None:
    """tests/test_docs.py runs the code, and compares what it prints."""
    found = list(SECTION.finditer(BANK))
    assert [int(one["lesson"]) for one in found] == list(range(1, BANK.count("### Lesson") + 1))
    assert len(found) >= 15
    for one in found:
        questions, solutions = one["questions"].splitlines(), one["solutions"].splitlines()
        assert len(questions) == len(solutions) >= 3
        printed = {line.partition(". ")[0]: line.partition(". ")[2].split() for line in one["printed"].splitlines()}
        for place, solution in enumerate(solutions, 1):
            assert set(re.findall(r"\*\*([^*]+)\*\*", solution)) == set(printed.get(str(place), ())), solution
