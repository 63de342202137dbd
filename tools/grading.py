"""Write a course folder for nbgrader, and masters for otter-grader, from the sources of the lessons.

    python -m tools.grading FOLDER                all lessons
    python -m tools.grading FOLDER 01_slope 04    these, by the beginning of their names

The folder gets what ``nbgrader generate_assignment NAME`` reads, ``source/NAME/NAME.ipynb`` and a configuration, and
``otter/NAME.ipynb`` for ``otter assign``. How to go on from there: docs/teaching.md.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_raw_cell

from tools import course

CONFIGURATION = '''\
"""The course of nbgrad, for nbgrader."""

c = get_config()
c.CourseDirectory.course_id = "nbgrad"
# An exercise runs before it is answered, too: its check then says that it is not answered yet.
c.ClearSolutions.code_stub = {"python": "# your answer"}
# Some cells train a network.
c.Execute.timeout = 120
'''

_HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS\n(?P<test>.*?)^### END HIDDEN TESTS\n", re.MULTILINE | re.DOTALL)


def for_nbgrader(text: str) -> NotebookNode:
    """The source notebook of a lesson for nbgrader: the solutions without outputs and without the ``proof`` cells."""
    notebook = course.build(text, solved=True)
    notebook.cells = [cell for cell in notebook.cells if "proof" not in cell.metadata.get("tags", [])]
    return notebook


def for_otter(text: str, name: str) -> NotebookNode:
    """The master notebook of a lesson for ``otter assign``: questions, solutions and hidden tests between raw cells."""
    notebook = for_nbgrader(text)
    cells = [_raw("ASSIGNMENT CONFIG", f"name: {name}", "init_cell: true", "run_tests: true", "export_cell: false")]
    for cell in notebook.cells:
        kind, _, number = cell.metadata.pop("nbgrader", {}).get("grade_id", "").partition("-")
        if kind == "exercise":
            cell.source = _otter_solution(cell.source)
            cells += [_raw("BEGIN QUESTION", f"name: q{number.replace('-', '_')}", "points: 1")]
            cells += [_raw("BEGIN SOLUTION"), cell, _raw("END SOLUTION"), _raw("BEGIN TESTS")]
        elif kind == "check":
            hidden = _HIDDEN.search(cell.source)
            assert hidden is not None
            test = f'""" # BEGIN TEST CONFIG\nhidden: true\n""" # END TEST CONFIG\n{hidden["test"]}'
            cells += [new_code_cell(test), _raw("END TESTS"), _raw("END QUESTION")]
            cell.source = _HIDDEN.sub("", cell.source)
            cells.append(cell)
        else:
            cells.append(cell)
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place:03}"
    notebook.cells = cells
    return notebook


def _raw(mark: str, *settings: str) -> NotebookNode:
    return new_raw_cell("\n".join([f"# {mark}", *settings]))  # type: ignore[no-any-return]


def _otter_solution(code: str) -> str:
    """The marks that otter knows: it takes the lines between them out, and leaves the ``...`` above them."""
    return code.replace("### BEGIN SOLUTION", "# BEGIN SOLUTION NO PROMPT").replace(
        "### END SOLUTION", "# END SOLUTION"
    )


def write(folder: Path, source: Path) -> None:
    """Write both notebooks of a lesson.

    Args:
        folder: of the course.
        source: of the lesson, in notebooks/source.
    """
    text, name = source.read_text("utf-8"), source.stem
    for notebook, target in (
        (for_nbgrader(text), folder / "source" / name / f"{name}.ipynb"),
        (for_otter(text, name), folder / "otter" / f"{name}.ipynb"),
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(nbformat.writes(notebook) + "\n", "utf-8")


def main(arguments: list[str]) -> None:
    """Write the course folder."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.grading", description="Write a folder for nbgrader and otter."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="how the names of the lessons begin; default: all")
    given = parser.parse_args(arguments)
    found = [one for one in course.lessons()[1:] if not given.names or one.name.startswith(tuple(given.names))]
    if not found:
        known = ", ".join(one.stem for one in course.lessons()[1:])
        raise SystemExit(f"no lesson begins with {' or '.join(given.names)}: {known}")
    for source in found:
        write(given.folder, source)
    configuration = given.folder / "nbgrader_config.py"
    if not configuration.exists():
        configuration.write_text(CONFIGURATION, "utf-8")
    print(f"{len(found)} lessons are in {given.folder.resolve()}")


if __name__ == "__main__":
    main(sys.argv[1:])
