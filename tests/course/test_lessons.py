"""The lessons: they are written from their sources, and each has the parts that the course promises."""

import math
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output

import nbgrad
from nbgrad import lab
from nbgrad.lab import clinic
from nbgrad.lab.code_marks import marked
from nbgrad.lab.exercise import of_lesson
from tests.course import numbers
from tools import course

pytestmark = pytest.mark.once

SOURCES = course.lessons()
LESSONS = [one for one in SOURCES if of_lesson(int(one.name[:2]))]
"""The lessons with exercises. The tour has none."""


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    return notebook


@pytest.mark.parametrize("source", SOURCES, ids=names(SOURCES))
@pytest.mark.parametrize("solved", [False, True])
def test_what_is_written_is_what_the_source_says(source: Path, *, solved: bool) -> None:
    folder = course.SOLUTIONS if solved else course.STUDENT
    written = nbformat.read(folder / f"{source.stem}.ipynb", as_version=4)
    nbformat.validate(written)
    if not solved:
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in written.cells)
    assert without_outputs(written) == course.build(source.read_text("utf-8"), solved=solved), "make course"


def test_there_are_no_other_notebooks() -> None:
    for folder in (course.STUDENT, course.SOLUTIONS):
        assert names(sorted(folder.glob("*.ipynb"))) == names(SOURCES)


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_a_lesson_has_its_parts(source: Path) -> None:
    text = source.read_text("utf-8")
    lesson = int(source.name[:2])
    assert "**You will be able to**" in text.partition("```")[0]
    assert re.search(r"^## Summary$", text, re.MULTILINE)
    numbers = list(of_lesson(lesson))
    assert len(numbers) >= 3
    for form in (r"^\{exercise ([\d.]+)\}$", r"^```python exercise ([\d.]+)$", r"^```python check ([\d.]+)$"):
        assert re.findall(form, text, re.MULTILINE) == numbers, form
    assert re.findall(r'^lab\.check\("([\d.]+)"', text, re.MULTILINE) == numbers


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_a_prediction_comes_before_its_result_and_the_answer_after(source: Path) -> None:
    text = source.read_text("utf-8")
    asked = [(int(one[1]), one.start()) for one in re.finditer(r"\*\*Predict (\d)\.\*\*", text)]
    folded = r"<details><summary>Answer to prediction (\d)</summary>"
    answered = [(int(one[1]), one.start()) for one in re.finditer(folded, text)]
    assert len(asked) >= 3
    assert [number for number, _ in asked] == [number for number, _ in answered] == list(range(1, len(asked) + 1))
    for (_, question), (_, answer) in zip(asked, answered, strict=True):
        assert re.search(r"^```python", text[question:answer], re.MULTILINE), "a cell shows the result in between"


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_no_solution_is_in_the_copy_of_a_student(source: Path) -> None:
    text = source.read_text("utf-8")
    student = "\n".join(cell.source for cell in course.build(text, solved=False).cells)
    assert "SOLUTION" not in student
    assert "HIDDEN" not in student
    assert "lab.require" not in student
    solved = course.build(text, solved=True)
    graded = [cell.metadata.nbgrader.grade_id for cell in solved.cells if "nbgrader" in cell.metadata]
    assert graded == [f"{kind}-{one.replace('.', '-')}" for one in of_lesson(int(source.name[:2])) for kind in KINDS]
    shown = "\n".join(cell.source for cell in solved.cells)
    own = of_lesson(int(source.name[:2]))
    assert all(f"### Exercise {number}: {one.title}" in shown for number, one in own.items())


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_an_exercise_that_was_not_answered_runs_and_its_check_says_so(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mygrad").mkdir()
    cells = course.build(source.read_text("utf-8"), solved=False).cells
    graded = [cell for cell in cells if "nbgrader" in cell.metadata]
    for exercise, check in zip(graded[::2], graded[1::2], strict=True):
        space = {"nbgrad": nbgrad, "nn": nbgrad.nn, "lab": lab, "clinic": clinic, "math": math}
        if written := WRITES.match(exercise.source):
            Path(written["file"]).write_text(exercise.source[written.end() :], "utf-8")
        else:
            exec(exercise.source, space)
        found = eval(check.source, space)
        assert repr(found).startswith(f"{found.number} … not answered yet: ")


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_an_exercise_asks_for_the_functions_that_its_cell_defines(source: Path) -> None:
    cells = course.build(source.read_text("utf-8"), solved=False).cells
    codes = {one.metadata.nbgrader.grade_id: one.source for one in cells if "nbgrader" in one.metadata}
    for number in of_lesson(int(source.name[:2])):
        code, task = codes[f"exercise-{number.replace('.', '-')}"], lab.task(number)
        if WRITES.match(code):  # most of the file is given: tests/course/test_engine.py
            continue
        functions = re.findall(r"^def (\w+\([\w, ]*\)):", code, re.MULTILINE)
        for signature in functions:
            assert signature in task, number
        asked = re.findall(r"Write (\w+\([\w, ]*\))", task)
        assert set(asked) <= set(functions), number
        said = lab.check(number, 1.5).reason  # 1.5 is no function: the message names the expected one
        for signature in re.findall(r"a function [\w ]*is expected, (\w+\([\w, ]*\))", said):
            assert signature in functions, number
        for name in re.findall(r"^class (\w+)", code, re.MULTILINE):
            assert name in task, number


MARKS = {
    "L = (a * b + c) * f with a = 2, b = -3.": "`L = (a * b + c) * f` with `a = 2`, `b = -3`.",
    "Give the gradients of a, b and f (not of a sum).": "Give the gradients of `a`, `b` and `f` (not of a sum).",
    "Write cut(t): it gives t * t. labels is a list, 3.": "Write `cut(t)`: it gives `t * t`. `labels` is a list, 3.",
    "Its .grad has lr=0.1, and bias of shape (3, 1).": "Its `.grad` has `lr=0.1`, and `bias` of shape `(3, 1)`.",
    "def f(x): return (x + 1).mean() is short.": "`def f(x): return (x + 1).mean()` is short.",
    "Use codes[at + 1 : at + n], then net.parameters().": "Use `codes[at + 1 : at + n]`, then `net.parameters()`.",
}


@pytest.mark.parametrize(("text", "marks"), MARKS.items(), ids=range(len(MARKS)))
def test_the_code_of_a_task_is_marked(text: str, marks: str) -> None:
    assert marked(text) == marks
    assert marked(text).replace("`", "") == text


@pytest.mark.parametrize("source", LESSONS, ids=names(LESSONS))
def test_no_code_of_a_task_is_left_unmarked(source: Path) -> None:
    for number, exercise in of_lesson(int(source.name[:2])).items():
        prose = re.sub(r"`[^`]+`", "", marked(exercise.text))
        assert not re.search(r"\w\(|\w\.\w*[a-z]|[_*=@{}]", prose), (number, prose)
        assert marked(exercise.text).replace("`", "") == exercise.text


KINDS = ("exercise", "check")
WRITES = re.compile(r"%%writefile (?P<file>\S+)\n")
"""The first line of a cell that is a file of the student's engine."""

SOURCE = """# A lesson

**You will be able to** [add](../01_slope.ipynb).

+++

{exercise 1.2}

```python exercise 1.2
def slope(function, x):
    ...
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION
```

```python check 1.2
lab.check("1.2", slope)
```

```python proof
assert 1
```

```python raises
1 / 0
```
"""


def test_a_source_becomes_two_notebooks() -> None:
    student, solved = (course.build(SOURCE, solved=solved) for solved in (False, True))
    assert [cell.source for cell in student.cells if cell.cell_type == "code"] == [
        "def slope(function, x):\n    ...\n    # your answer",
        'lab.check("1.2", slope)',
        "1 / 0",
    ]
    texts = [cell.source for cell in student.cells if cell.cell_type == "markdown"]
    assert texts[0] == "# A lesson\n\n**You will be able to** [add](01_slope.ipynb)."
    assert texts[1].startswith("### Exercise 1.2: A slope by nudging\n\nWrite `slope(function, x)`: how fast")
    assert texts[-1] == course.LICENCE
    assert student.metadata["license"] == {"id": "MIT", "holder": "the nbgrad developers"}
    assert texts[1].count("<details><summary>Hint") == 3
    code = [cell for cell in solved.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == [
        "def slope(function, x):\n    ...\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION",
        '### BEGIN HIDDEN TESTS\nlab.require("1.2", slope)\n### END HIDDEN TESTS\nlab.check("1.2", slope)',
        "assert 1",
        "1 / 0",
    ]
    assert [cell.metadata for cell in code][2:] == [{"tags": ["proof"]}, {"tags": ["raises-exception"]}]
    exercise, check = (cell.metadata.nbgrader for cell in code[:2])
    assert (exercise.solution, exercise.grade, exercise.locked) == (True, False, False)
    assert (check.solution, check.grade, check.locked, check.points) == (False, True, True, 1)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python wrong\n```\n", "'wrong': there are exercise, check, proof, raises, varies"),
        ("```python exercise\n```\n", "there are exercise"),
        ("```python exercise 1.1\nx = ...\n```\n", "1.1 has no ### BEGIN SOLUTION"),
        ("```python check 1.1\nx = 1\n```\n", "the check of 1.1 has to call lab.check once"),
    ],
)
def test_a_source_that_is_wrong_says_so(block: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        course.build(block, solved=True)


def test_names_choose_lessons(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    written: list[tuple[str, str, str]] = []
    monkeypatch.setattr(course, "write", lambda source, how, into: written.append((source.stem, how, into.language)))
    monkeypatch.setenv("NBGRAD_LANGUAGE", "")  # restored after the test
    course.main(["01", "04", "--no-run"])
    course.main(["05", "--text"])
    course.main(["06"])
    chosen = [("01_slope", "none"), ("04_broadcasting", "none"), ("05_loop", "text"), ("06_losses", "run")]
    assert written == [(*one, "en") for one in chosen]
    course.main(["06", "--language", "de"])
    assert written[4:] == [("06_losses", "run", "de")]
    assert "01_slope: 0 s" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"no lesson begins with 99: 00_tour, 01_slope"):
        course.main(["99"])


def test_a_change_of_text_keeps_the_outputs_and_one_of_code_does_not() -> None:
    saved = course.build(SOURCE, solved=True)
    code = [cell for cell in saved.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.update(outputs=[new_output("stream", text=f"{number}")], execution_count=number)
    changed = course.build(SOURCE.replace("# A lesson", "# A short lesson"), solved=True)
    course.keep_outputs(changed, saved)
    assert changed.cells[0].source.startswith("# A short lesson")
    assert [cell for cell in changed.cells if cell.cell_type == "code"] == code
    with pytest.raises(ValueError, match="the code of the lesson has changed"):
        course.keep_outputs(course.build(SOURCE.replace("assert 1", "assert 2"), solved=True), saved)


def test_the_lessons_in_numbers_are_those_of_the_page() -> None:
    assert numbers.written() == numbers.table(), "python -m tests.course.numbers --write"
