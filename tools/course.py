"""Write the lessons from their sources: the student's copies, and the solutions with their outputs.

    python -m tools.course               all lessons
    python -m tools.course 01_slope 04   these, by the beginning of their names
    python -m tools.course --no-run      the student's copies only
    python -m tools.course --text        keep the saved outputs, after a change of text alone
    python -m tools.course --language de all lessons in German, into build/course/de

A source, ``notebooks/source/NN_name.md``, is Markdown. A block of code that begins with ```` ```python ```` is a cell,
and the text between two of them is a cell too; words behind ``python`` say more of it:

- ``exercise 1.2``: a cell that the student completes. What stands between ``### BEGIN SOLUTION`` and
  ``### END SOLUTION`` is in the solutions only; the rest has a ``...`` and runs as it is;
- ``check 1.2``: the cell below it, with a call of ``lab.check``;
- ``proof``: a cell of the solutions only, which asserts what the text says of the outputs;
- ``varies``: a cell whose output differs from run to run, such as times;
- ``raises``: a cell that is meant to fail.

A line ``{part tensor: unbroadcast, Tensor.__mul__}`` in the cell of an exercise becomes the reference part
``nbgrad/lab/mygrad/tensor.py``, in which the bodies of these functions are the solution.

A line ``{exercise 1.2}`` becomes the title, the task and the folded hints that ``nbgrad.lab`` has of the exercise. A
line ``+++`` ends a cell of text. A link to another lesson is ``../02_backward.ipynb``. The last cell of a notebook, and
its metadata, say the licence.

The solutions are sources for nbgrader as they are: the cells of exercises have its metadata and its marks. The
cells of checks have a hidden test that fails for a wrong answer.

A lesson in another language has the same code (``nbgrad/lab/localization.py``). Its text comes from
``notebooks/locale``. Such lessons are not kept in git: they follow from their sources.
"""

import argparse
import ast
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from nbgrad.core.files import replace_file
from nbgrad.core.translation import LANGUAGE, SOURCE as ENGLISH
from nbgrad.lab.engine import reference
from nbgrad.lab.lesson_text import FENCE, Said
from nbgrad.lab.localization import LICENCE, UNANSWERED, exercise_text, in_language, said_in
from tools.cells import run

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "notebooks" / "source"
STUDENT = ROOT / "notebooks"
SOLUTIONS = ROOT / "notebooks" / "solutions"
OTHERS = ROOT / "build" / "course"
"""The folder of the lessons in other languages."""

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    "license": {"id": "MIT", "holder": "the nbgrad developers"},
}
_TAGS = {"raises": "raises-exception", "proof": "proof", "varies": "nbval-ignore-output"}
WORDS = ("exercise", "check", "proof", "raises", "varies")

_SOLUTION = re.compile(r"(?ms)^(?P<indent>[ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION(?:\n|\Z)")
_PART = re.compile(r"^\{part (?P<part>\w+): (?P<names>[\w., ]+)\}$", re.MULTILINE)
_EXERCISE = re.compile(r"^\{exercise (?P<number>[\d.]+)\}$", re.MULTILINE)


def lessons() -> list[Path]:
    """The sources of all lessons, the first one first."""
    return sorted(SOURCE.glob("*.md"))


def build(text: str, *, solved: bool) -> NotebookNode:
    """The notebook of a lesson, without outputs.

    Args:
        text: its source.
        solved: whether it is the one with the solutions.

    Raises:
        ValueError: a block of code has words that this module does not know, or an exercise lacks its solution.
        KeyError: ``nbgrad.lab`` has no exercise of a number that the source names.
    """
    cells: list[NotebookNode] = []
    end = 0
    for found in FENCE.finditer(text):
        cells += _texts(text[end : found.start()])
        code = found["code"].rstrip("\n")
        cell = _code(code, found["words"].split(), solved=solved)
        if cell is not None:
            cells.append(cell)
        end = found.end()
    cells += [*_texts(text[end:]), new_markdown_cell(LICENCE)]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place:02}"
    return new_notebook(cells=cells, metadata=METADATA)  # type: ignore[no-any-return]


def _texts(text: str) -> list[NotebookNode]:
    """The cells of a text between two blocks of code."""
    written = _EXERCISE.sub(lambda found: exercise_text(found["number"]), text)
    written = written.replace("](../", "](")  # a source lies one folder below the student's copies
    parts = re.split(r"^\+\+\+$", written, flags=re.MULTILINE)
    return [new_markdown_cell(part.strip()) for part in parts if part.strip()]


def _code(code: str, words: list[str], *, solved: bool) -> NotebookNode | None:
    kind, *numbers = words or [""]
    graded = kind in ("exercise", "check")
    if (kind and kind not in WORDS) or len(numbers) != graded:
        raise ValueError(f"a block of code has the words {' '.join(words)!r}: there are {', '.join(WORDS)}")
    if kind == "proof" and not solved:
        return None
    metadata: dict[str, object] = {"tags": [_TAGS[kind]]} if kind in _TAGS else {}
    if graded:
        metadata = {"nbgrader": _grading(kind, numbers[0])}
        code = (
            _check(code, numbers[0], solved=solved) if kind == "check" else _exercise(code, numbers[0], solved=solved)
        )
    return new_code_cell(code, metadata=metadata)  # type: ignore[no-any-return]


def _exercise(code: str, number: str, *, solved: bool) -> str:
    code = _PART.sub(lambda found: part_with_marks(found["part"], found["names"].split(", ")), code).rstrip("\n")
    if not _SOLUTION.search(code):
        raise ValueError(f"exercise {number} has no ### BEGIN SOLUTION and ### END SOLUTION")
    if solved:
        return code
    return _SOLUTION.sub(lambda found: f"{found['indent']}# {UNANSWERED}\n", code + "\n").rstrip("\n")


def part_with_marks(part: str, names: list[str]) -> str:
    """A reference part of the student's engine, with marks around the bodies of some functions.

    Args:
        part: its name, as "tensor".
        names: of the functions, as "unbroadcast", "Tensor.__mul__" or "conv2d.rule", which is inside of conv2d.

    Raises:
        ValueError: there is no such part, or it has no such function.
    """
    text = reference(part)
    lines, known = text.rstrip("\n").split("\n"), dict(functions(ast.parse(text)))
    for name in sorted(names, key=lambda name: -known[name].lineno if name in known else 0):
        if name not in known:
            raise ValueError(f"the part {part} has no function {name}: it has {', '.join(known)}")
        body = known[name].body
        first, last = body[ast.get_docstring(known[name]) is not None], body[-1]
        indent = " " * first.col_offset
        lines[last.end_lineno : last.end_lineno] = [f"{indent}### END SOLUTION"]
        lines[first.lineno - 1 : first.lineno - 1] = [f"{indent}...", f"{indent}### BEGIN SOLUTION"]
    return "\n".join(lines)


def functions(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a source with their names: as "Tensor.__mul__", or "conv2d.rule" for one inside of another."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{above}{node.name}", node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from functions(node, f"{above}{node.name}.")


def _check(code: str, number: str, *, solved: bool) -> str:
    calls = [line for line in code.split("\n") if line.startswith("lab.check(")]
    if len(calls) != 1:
        raise ValueError(f"the check of {number} has to call lab.check once, on a line of its own")
    hidden = calls[0].replace("lab.check(", "lab.require(", 1)
    return f"### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS\n{code}" if solved else code


def _grading(kind: str, number: str) -> dict[str, object]:
    """The facts about a cell that nbgrader reads."""
    own = {"grade": kind == "check", "locked": kind == "check", "solution": kind == "exercise", "task": False}
    points = {"points": 1} if kind == "check" else {}
    return {"schema_version": 3, "grade_id": f"{kind}-{number.replace('.', '-')}", **own, **points}


class Edition(NamedTuple):
    """The lessons in one language.

    Attributes:
        language: such as "de".
        student: the folder of the student's copies.
        solutions: the folder of the solutions.
        said: translates a message of a lesson.
    """

    language: str = ENGLISH
    student: Path = STUDENT
    solutions: Path = SOLUTIONS
    said: Said = str

    def notebook(self, text: str, *, solved: bool) -> NotebookNode:
        """The notebook of a lesson in this language, without outputs; its source is the English one."""
        built = build(text, solved=solved)
        return built if self.language == ENGLISH else in_language(built, self.language)

    def pattern(self, message: str) -> str:
        """A regular expression for a message in which ``{number}`` is a digit."""
        return re.escape(self.said(message)).replace(re.escape("{number}"), r"\d")


def edition(language: str | None) -> Edition:
    """The lessons in the language of this name, which the programs that this one starts speak, too.

    Raises:
        ValueError: the lessons are not translated into this language.
    """
    if language in (None, ENGLISH):
        return Edition()
    said = said_in(language)
    os.environ[LANGUAGE] = language
    return Edition(language, OTHERS / language, OTHERS / language / "solutions", said)


def ready(language: str | None) -> Edition:
    """The lessons in a language, written where they are not in the repository. The solutions have no outputs then."""
    found = edition(language)
    for source in lessons() if found.language != ENGLISH else ():
        write(source, "draft", found)
    return found


def write(source: Path, how: str = "run", into: Edition = Edition()) -> None:  # noqa: B008 (it cannot be changed)
    """Write the student's copy of a lesson, and the solutions.

    Args:
        source: of the lesson.
        how: where the outputs of the solutions come from: "run" runs every cell, "text" keeps the saved outputs,
            "draft" keeps those of the same code and writes none elsewhere, "none" writes no solutions.
        into: the language, and where to.

    Raises:
        ValueError: ``how`` is "text", but the code has changed since the outputs were saved.
    """
    text = source.read_text("utf-8")
    solved, target = into.notebook(text, solved=True), into.solutions / f"{source.stem}.ipynb"
    if how == "text" or (how == "draft" and target.exists()):
        try:
            keep_outputs(solved, nbformat.read(target, as_version=4))
        except ValueError:
            if how == "text":
                raise
    _save(into.notebook(text, solved=False), into.student / f"{source.stem}.ipynb")
    if how == "run":
        into.solutions.mkdir(exist_ok=True)
        run(solved, into.solutions, timeout=120, keeps_widgets=False)
        solved.metadata = nbformat.from_dict(METADATA)
    if how != "none":
        _save(solved, target)


def keep_outputs(notebook: NotebookNode, saved: NotebookNode) -> None:
    """Give the cells of a notebook the outputs that were saved with the same cells.

    Raises:
        ValueError: the code of a cell differs from the code that was saved.
    """
    new, old = ([cell for cell in one.cells if cell.cell_type == "code"] for one in (notebook, saved))
    if [cell.source for cell in new] != [cell.source for cell in old]:
        raise ValueError("the code of the lesson has changed: its cells have to run again, without --text")
    for cell, other in zip(new, old, strict=True):
        cell.update(outputs=other.outputs, execution_count=other.execution_count)


def _save(notebook: NotebookNode, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = nbformat.writes(notebook) + "\n"
    replace_file(target, lambda file: file.write_text(written, "utf-8"))


def main(arguments: list[str]) -> None:
    """Write the lessons that the arguments name, or all."""
    parser = argparse.ArgumentParser(description="Write the lessons from their sources.")
    parser.add_argument("names", nargs="*", help="how the names of the lessons begin; default: all")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--no-run", dest="how", action="store_const", const="none", help="write the student's copies only")
    how.add_argument("--text", dest="how", action="store_const", const="text", help="keep the saved outputs")
    parser.add_argument("--language", help="write them in another language, into build/course; such as de")
    parser.set_defaults(how="run")
    chosen = parser.parse_args(arguments)
    into = edition(chosen.language)
    found = [one for one in lessons() if not chosen.names or one.name.startswith(tuple(chosen.names))]
    if not found:
        known = ", ".join(one.stem for one in lessons())
        raise SystemExit(f"no lesson begins with {' or '.join(chosen.names)}: {known}")
    for source in found:
        start = time.perf_counter()
        write(source, chosen.how, into)
        print(f"{source.stem}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
