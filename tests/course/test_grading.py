"""Lessons are sources for nbgrader and for otter-grader: hand-ins get the points that their answers deserve.

The graders are no part of nbgrad's environment: ``make more`` installs them beside it and runs these tests there.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbconvert
import nbformat
import pytest
from nbformat import NotebookNode

from tools import course, grading

pytestmark = pytest.mark.once

SOLVED = "the solution"

# The answers of the hand-ins, exercise by exercise; an exercise without one stays as the student got it.
HAND_INS: dict[str, dict[str, dict[str, str]]] = {
    "01_slope": {
        "right": {"1.1": SOLVED, "1.2": SOLVED, "1.3": SOLVED},
        "half": {"1.1": SOLVED, "1.2": "def slope(function, x):\n    return function(x + 1) - function(x)"},
        "wrong": {
            "1.1": "gradients = {'a': -6.0, 'b': 4.0, 'c': 2.0, 'f': -4.0}",
            "1.2": "def slope(function, x):\n    raise RuntimeError('no idea')",
            "1.3": "moved = {'a': 2.0, 'b': -3.0, 'c': 10.0, 'f': -2.0}",
        },
    },
    "02_backward": {
        "right": {"2.1": SOLVED, "2.2": SOLVED, "2.3": SOLVED},
        "half": {"2.1": SOLVED, "2.3": "def cut(t):\n    return (t * t + t.exp()).detach()"},
        "wrong": {
            "2.1": "contributions = {'exp': 1.0, 'mul_a': 2.0, 'mul_b': 2.0, 't': 5.0}",
            "2.2": "def mul_rule(g, a, b):\n    return g * a, g * b\n\n\ndef tanh_rule(g, y):\n    return g * y",
            "2.3": "def cut(t):\n    return t * t",
        },
    },
}
POINTS = {"right": 3, "half": 1, "wrong": 0}

NBGRADER = """
import json, sys
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

config = PyFileConfigLoader("nbgrader_config.py").load_config()
config.CourseDirectory.root = "."
api = NbGraderAPI(config=config)

def done(result):
    assert result["success"], result.get("error") or result["log"]

name, students = sys.argv[1], sys.argv[2:]
for student in students:
    done(api.autograde(name, student))
    done(api.generate_feedback(name, student))
print(json.dumps({student: api.get_submission(name, student)["score"] for student in students}))
"""

RELEASE = NBGRADER.split("name, students", maxsplit=1)[0] + "done(api.generate_assignment(sys.argv[1]))"


def run(command: list[str], folder: Path) -> str:
    """The last output of a command. The kernels that the command starts find nbgrad."""
    # nbgrader runs the program alembic. It is in the folder of its environment's Python.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # The graders' environment may use the packages of another environment, which has nbconvert's templates.
    templates = str(Path(nbconvert.__file__).parents[4] / "share" / "jupyter")
    environment = {
        **os.environ,
        "PYTHONPATH": str(course.ROOT),
        "PYTHONWARNINGS": "ignore",
        "PATH": programs,
        "JUPYTER_PATH": templates,
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def handed_in(notebook: NotebookNode, name: str, answers: dict[str, str]) -> NotebookNode:
    """A student's notebook with these answers."""
    text = (course.SOURCE / f"{name}.md").read_text("utf-8")
    solved = {number_of(cell): cell.source for cell in course.build(text, solved=True).cells if number_of(cell)}
    stubs = {number_of(cell): cell.source for cell in course.build(text, solved=False).cells if number_of(cell)}
    filled = set()
    for cell in notebook.cells:
        number = next((one for one, stub in stubs.items() if same(cell.source, stub)), "")
        if number in answers:
            answer = answers[number]
            cell.source = solved[number] if answer == SOLVED else answer
            filled.add(number)
    assert filled == answers.keys()
    return notebook


def number_of(cell: NotebookNode) -> str:
    """The number of the exercise whose answer is in this cell; empty for other cells."""
    kind, _, number = cell.metadata.get("nbgrader", {}).get("grade_id", "").partition("-")
    return number.replace("-", ".") if kind == "exercise" else ""


def same(code: str, stub: str) -> bool:
    """Whether two cells are the same, except for the text that the graders put in the place of a solution."""
    return trimmed(code) == trimmed(stub)


def trimmed(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip() and line.strip() != "# your answer"]


def turns(*together: str) -> list[Any]:
    """The lessons for a grader. In each turn the two graders take different lessons, so that both are graded."""
    marks = [pytest.mark.rotated(2, together=one) for one in together]
    return [pytest.param(name, marks=mark) for name, mark in zip(HAND_INS, marks, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("course")
    grading.main([str(made), *HAND_INS])
    return made


@pytest.mark.timeout(600)
@pytest.mark.more("nbgrader")
@pytest.mark.parametrize("name", turns("straight", "crossed"))
def test_nbgrader_gives_the_points_that_hand_ins_deserve(name: str, folder: Path) -> None:
    run(["-c", RELEASE, name], folder)
    released = folder / "release" / name / f"{name}.ipynb"
    student_copy = nbformat.read(released, as_version=4)
    text = "".join(cell.source for cell in student_copy.cells)
    assert "lab.require" not in text
    assert "SOLUTION" not in text
    for student, answers in HAND_INS[name].items():
        target = folder / "submitted" / student / name / released.name
        target.parent.mkdir(parents=True)
        nbformat.write(handed_in(nbformat.read(released, as_version=4), name, answers), target)
    points = json.loads(run(["-c", NBGRADER, name, *POINTS], folder).splitlines()[-1])
    assert points == POINTS
    wrong, half = ((folder / "feedback" / one / name / f"{name}.html").read_text("utf-8") for one in ("wrong", "half"))
    assert wrong.count("WrongAnswer") >= 3
    # If an exercise was not answered, the message says so.
    assert re.search(r"WrongAnswer(?:<[^>]*>)*: [\d.]+: [^\n]*in the place of the \.\.\.", half)


@pytest.mark.timeout(600)
@pytest.mark.more("otter")
@pytest.mark.parametrize("name", turns("crossed", "straight"))
def test_otter_gives_the_points_that_hand_ins_deserve(name: str, folder: Path) -> None:
    made = folder / "otter" / name
    run(["-m", "otter", "assign", "--no-run-tests", f"otter/{name}.ipynb", str(made)], folder)
    (autograder,) = made.glob("autograder/*.zip")
    released = made / "student" / f"{name}.ipynb"
    text = "".join(cell.source for cell in nbformat.read(released, as_version=4).cells)
    assert "lab.require" not in text
    assert "SOLUTION" not in text
    points = {}
    for student, answers in HAND_INS[name].items():
        target = folder / "handed in" / student / released.name
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(handed_in(nbformat.read(released, as_version=4), name, answers), target)
        run(["-m", "otter", "run", "-a", str(autograder), "-o", str(target.parent), str(target)], folder)
        results: dict[str, Any] = json.loads((target.parent / "results.json").read_text("utf-8"))
        points[student] = sum(test.get("score", 0) for test in results["tests"] if "max_score" in test)
    assert points == POINTS


@pytest.mark.parametrize("source", course.lessons()[1:], ids=lambda path: path.stem)
def test_every_lesson_has_the_parts_that_the_graders_read(source: Path) -> None:
    text = source.read_text("utf-8")
    exercises = re.findall(r"^```python exercise ([\d.]+)$", text, re.MULTILINE)
    nbgrader = grading.for_nbgrader(text)
    nbformat.validate(nbgrader)
    kinds = [cell.metadata.nbgrader.grade_id for cell in nbgrader.cells if "nbgrader" in cell.metadata]
    assert kinds == [f"{kind}-{one.replace('.', '-')}" for one in exercises for kind in ("exercise", "check")]
    assert not any(cell.get("outputs") for cell in nbgrader.cells)
    otter = grading.for_otter(text, source.stem)
    nbformat.validate(otter)
    raw = [cell.source.splitlines()[0] for cell in otter.cells if cell.cell_type == "raw"]
    one = ["# BEGIN QUESTION", "# BEGIN SOLUTION", "# END SOLUTION", "# BEGIN TESTS", "# END TESTS", "# END QUESTION"]
    assert raw == ["# ASSIGNMENT CONFIG", *one * len(exercises)]
    tests = [cell.source for cell in otter.cells if "lab.require" in cell.source]
    assert len(tests) == len(exercises)
    assert all("hidden: true" in test for test in tests)
