"""docs/course.md: its tables are those of the lessons, and its questions have solutions that nbgrad computes."""

import re
from pathlib import Path

import pytest

from tools import syllabus
from tools.other_courses import OTHERS, ROWS

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


@pytest.mark.parametrize("one", syllabus.lessons(), ids=lambda one: one.file)
def test_the_minutes_are_those_of_the_formula(one: syllabus.Lesson) -> None:
    minutes = syllabus.estimated(syllabus.course.SOURCE / f"{one.file}.md")
    if one.number in (7, 13, syllabus.CAPSTONES):
        assert minutes < one.minutes, "docs/course.md says that it takes longer"
    else:
        assert abs(minutes - one.minutes) <= 0.2 * one.minutes, f"about {minutes:.0f}"


def test_the_plans_have_the_lessons_in_order() -> None:
    for plan, weeks, left_out in ((syllabus.SEVEN, 7, {14, 15}), (syllabus.FOURTEEN, 14, set())):
        assert len(plan) == weeks
        assert [lesson for week in plan for lesson in week] == sorted(set(range(1, 17)) - left_out)


def test_each_capstone_begins_after_the_parts_of_the_engine_that_it_uses() -> None:
    assert list(syllabus.AFTER) == list(syllabus.of_lesson(syllabus.CAPSTONES))
    rows = [line.split(" | ") for line in syllabus.tables()["capstones"].splitlines()[2:]]
    assert [row[1] for row in rows] == ["1.5", "1.5", "1.5", "1.5", "6"]
    assert rows[1][2:] == ["lesson 12", "after week 11", "after week 6 |"]


def test_the_capstones_have_questions_of_their_own() -> None:
    (section,) = (one for one in SECTION.finditer(BANK) if int(one["lesson"]) == syllabus.CAPSTONES)
    assert len(section["questions"].splitlines()) >= 6


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
    assert [int(one["lesson"]) for one in found] == list(range(1, syllabus.CAPSTONES + 1))
    for one in found:
        questions, solutions = one["questions"].splitlines(), one["solutions"].splitlines()
        assert len(questions) == len(solutions) >= 3
        printed = {line.partition(". ")[0]: line.partition(". ")[2].split() for line in one["printed"].splitlines()}
        for place, solution in enumerate(solutions, 1):
            assert set(re.findall(r"\*\*([^*]+)\*\*", solution)) == set(printed.get(str(place), ())), solution


def test_each_other_course_has_all_facts_and_says_where_they_were_read() -> None:
    assert "](../tools/other_courses.py)" in TEXT
    for one in OTHERS:
        assert tuple(one.facts) == ROWS, one.name
        assert re.fullmatch(r"[0-9a-f]{7}(, [0-9a-f]{7})*", one.version), one.name
        assert f"[{one.name}]({one.read[0]})" in TEXT
        assert len(one.read) >= len(one.version.split(", ")), one.name
