"""Write the lessons from their sources: the student's copies, and the solutions with their outputs.

    python -m tools.course               all lessons
    python -m tools.course 01_slope 04   these, by the beginning of their names
    python -m tools.course --no-run      the student's copies only
    python -m tools.course --text        keep the saved outputs, after a change of text alone

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
"""

import argparse
import ast
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from nbgrad.core.files import replace_file
from nbgrad.lab.code_marks import marked
from nbgrad.lab.engine import reference
from nbgrad.lab.exercise import find
from tools.cells import run

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "notebooks" / "source"
STUDENT = ROOT / "notebooks"
SOLUTIONS = ROOT / "notebooks" / "solutions"

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    "license": {"id": "MIT", "holder": "the nbgrad developers"},
}
LICENCE = (
    "*This lesson is part of nbgrad, © the nbgrad developers, under the MIT licence. You may use, change and hand on "
    "its text and its code, also in a course of your own, if this line stays.*"
)
_TAGS = {"raises": "raises-exception", "proof": "proof", "varies": "nbval-ignore-output"}
WORDS = ("exercise", "check", "proof", "raises", "varies")

_FENCE = re.compile(r"^```python(?P<words>[^\n`]*)\n(?P<code>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
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
    for found in _FENCE.finditer(text):
        cells += _texts(text[end : found.start()])
        cell = _code(found["code"].rstrip("\n"), found["words"].split(), solved=solved)
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


def exercise_text(number: str) -> str:
    """The title of an exercise, its task and its hints, with their code marked. Each hint is folded in the last one."""
    exercise = find(number)
    hints = ""
    for step, hint in reversed(list(enumerate(exercise.hints, 1))):
        inner = f"\n\n{hints}" if hints else ""
        hints = f"<details><summary>Hint {step}</summary>\n\n{marked(hint, _escaped)}{inner}\n\n</details>"
    return f"### Exercise {number}: {exercise.title}\n\n{marked(exercise.text, _escaped)}\n\n{hints}"


def _escaped(text: str) -> str:
    """A sentence of ``nbgrad.lab`` as Markdown. Its stars, underscores and brackets are escaped."""
    return re.sub(r"([*_\[\]<>#`$])", r"\\\1", text)


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
        code = (_exercise if kind == "exercise" else _check)(code, numbers[0], solved=solved)
    return new_code_cell(code, metadata=metadata)  # type: ignore[no-any-return]


def _exercise(code: str, number: str, *, solved: bool) -> str:
    code = _PART.sub(lambda found: part_with_marks(found["part"], found["names"].split(", ")), code).rstrip("\n")
    if not _SOLUTION.search(code):
        raise ValueError(f"exercise {number} has no ### BEGIN SOLUTION and ### END SOLUTION")
    return code if solved else _SOLUTION.sub(r"\g<indent># your answer\n", code + "\n").rstrip("\n")


def part_with_marks(part: str, names: list[str]) -> str:
    """A reference part of the student's engine, with marks around the bodies of some functions.

    Args:
        part: its name, as "tensor".
        names: of the functions, as "unbroadcast", "Tensor.__mul__" or "conv2d.rule", which is inside of conv2d.

    Raises:
        ValueError: there is no such part, or it has no such function.
    """
    text = reference(part)
    lines, known = text.rstrip("\n").split("\n"), dict(_functions(ast.parse(text), ""))
    for name in sorted(names, key=lambda name: -known[name].lineno if name in known else 0):
        if name not in known:
            raise ValueError(f"the part {part} has no function {name}: it has {', '.join(known)}")
        body = known[name].body
        first, last = body[ast.get_docstring(known[name]) is not None], body[-1]
        indent = " " * first.col_offset
        lines[last.end_lineno : last.end_lineno] = [f"{indent}### END SOLUTION"]
        lines[first.lineno - 1 : first.lineno - 1] = [f"{indent}...", f"{indent}### BEGIN SOLUTION"]
    return "\n".join(lines)


def _functions(tree: ast.AST, above: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{above}{node.name}", node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _functions(node, f"{above}{node.name}.")


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


def write(source: Path, how: str = "run") -> None:
    """Write the student's copy of a lesson, and the solutions.

    Args:
        source: of the lesson.
        how: where the outputs of the solutions come from: "run" runs every cell, "text" keeps the saved outputs, "none"
            writes no solutions.

    Raises:
        ValueError: ``how`` is "text", but the code has changed since the outputs were saved.
    """
    text = source.read_text("utf-8")
    solved, target = build(text, solved=True), SOLUTIONS / f"{source.stem}.ipynb"
    if how == "text":
        keep_outputs(solved, nbformat.read(target, as_version=4))
    _save(build(text, solved=False), STUDENT / f"{source.stem}.ipynb")
    if how == "run":
        run(solved, SOLUTIONS, timeout=120, keeps_widgets=False)
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
    target.parent.mkdir(exist_ok=True)
    written = nbformat.writes(notebook) + "\n"
    replace_file(target, lambda file: file.write_text(written, "utf-8"))


def main(arguments: list[str]) -> None:
    """Write the lessons that the arguments name, or all."""
    parser = argparse.ArgumentParser(description="Write the lessons from their sources.")
    parser.add_argument("names", nargs="*", help="how the names of the lessons begin; default: all")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--no-run", dest="how", action="store_const", const="none", help="write the student's copies only")
    how.add_argument("--text", dest="how", action="store_const", const="text", help="keep the saved outputs")
    parser.set_defaults(how="run")
    chosen = parser.parse_args(arguments)
    found = [one for one in lessons() if not chosen.names or one.name.startswith(tuple(chosen.names))]
    if not found:
        known = ", ".join(one.stem for one in lessons())
        raise SystemExit(f"no lesson begins with {' or '.join(chosen.names)}: {known}")
    for source in found:
        start = time.perf_counter()
        write(source, chosen.how)
        print(f"{source.stem}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
