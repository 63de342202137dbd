"""Write every lesson as one HTML page that needs nothing else: no kernel, no network, no second file.

    python -m tools.pages build/pages               the student's copies of all lessons
    python -m tools.pages build/pages 01 04         these, by the beginning of their names
    python -m tools.pages --solutions build/solved  the lessons with their solutions
    python -m tools.pages --language de build/seiten  in German

The cells run, and their pictures are alive in the pages: they unfold, step, and judge the gradients that a reader is
asked for. Hints stay folded, and in the student's copies so does each output that answers a question: the reader opens
it. A lesson that has not changed since the last time does not run again.
"""

import argparse
import hashlib
import re
import sys
from html import escape
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from nbgrad.core.files import replace_file
from nbgrad.core.translation import SOURCE as ENGLISH
from nbgrad.lab.localization import EXERCISE
from tools import course, demo
from tools.cells import run

ROOT = course.ROOT
KEPT = ROOT / "build" / "lessons"
"""The folder of lessons that ran before."""

_DRAWN = ("nbgrad/widgets", "nbgrad/core/graph")
"""The sources that a picture of a graph depends on, besides the lesson."""

_LINK = re.compile(r"(\]\((?:[\w./-]*/)?[\w-]+)\.ipynb(?=[)#])")

PREDICT, ANSWER = "Predict {number}", "Answer to prediction {number}"
PICTURE, PRINTED = "Show the picture", "Show what it prints"
TITLE = "The lessons"
HELP = "Their pictures are alive: click a box, or press S to step through the backward. No lesson needs a network."
MESSAGES = (PREDICT, ANSWER, PICTURE, PRINTED, TITLE, HELP)
"""The texts of pages, and those by which they find the questions of a lesson."""

_INDEX = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>nbgrad: {title}</title>
<style>body {{ font: 1.1em/1.6 system-ui, sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em; }}</style>
</head>
<body>
<h1>{title}</h1>
<p>{help}</p>
<ul style="list-style: none; padding: 0">
{lines}
</ul>
</body>
</html>
"""


def ran(lesson: Path, kept: Path = KEPT) -> NotebookNode:
    """A lesson with its outputs and live graphs: from the folder ``kept``, or from a new run.

    Args:
        lesson: the notebook.
        kept: the folder of lessons that ran before.
    """
    name = f"{'solved' if _is_solved(lesson) else 'open'}-{lesson.stem}"
    file = kept / f"{name}-{_state(lesson)}.ipynb"
    if file.exists():
        return nbformat.read(file, as_version=4)  # type: ignore[no-any-return]
    notebook = nbformat.read(lesson, as_version=4)
    print(f"running {lesson.relative_to(ROOT) if lesson.is_relative_to(ROOT) else lesson}", flush=True)
    run(notebook, lesson.parent, timeout=300, keeps_widgets=True)
    demo.make_views_live(notebook)
    notebook.metadata = nbformat.from_dict(course.METADATA)
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob(f"{name}-*.ipynb"):
        old.unlink()
    replace_file(file, lambda target: target.write_text(nbformat.writes(notebook), "utf-8"))
    return notebook  # type: ignore[no-any-return]


def _is_solved(lesson: Path) -> bool:
    return lesson.parent.name == course.SOLUTIONS.name


def close_answers(notebook: NotebookNode, edition: course.Edition = course.Edition()) -> None:  # noqa: B008
    """Fold the outputs that answer a question, until the reader opens them.

    They are those between a prediction and its answer, and those between an exercise and the next text.
    """
    task = re.escape(edition.said(EXERCISE).partition("{")[0])
    asked, answered = edition.pattern(PREDICT), edition.pattern(ANSWER)
    questions = re.compile(rf"(?P<predict>\*\*{asked})|(?P<exercise>^### {task})|({answered})", re.MULTILINE)
    question = None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            last = next(reversed(list(questions.finditer(cell.source))), None)
            question = last.lastgroup if last else (question if question == "predict" else None)
        elif question and cell.get("outputs"):
            drawn = any('class="nbgrad-picture"' in str(output.get("data")) for output in cell.outputs)
            cell.metadata["closed"] = edition.said(PICTURE if drawn else PRINTED)


def _state(lesson: Path) -> str:
    """A number that changes with the code of a lesson, and with what draws graphs."""
    seen = hashlib.sha256()
    for cell in nbformat.read(lesson, as_version=4).cells:
        seen.update(f"{cell.cell_type}\n{cell.source}\0".encode())
    for folder in _DRAWN:
        for file in sorted((ROOT / folder).rglob("*.py")):
            seen.update(file.read_bytes())
    return seen.hexdigest()[:16]


def write(lesson: Path, target: Path, kept: Path = KEPT, edition: course.Edition = course.Edition()) -> int:  # noqa: B008
    """Write the page of a lesson, and return how many bytes it has.

    Args:
        lesson: the notebook.
        target: the page.
        kept: the folder of lessons that ran before.
        edition: the language of the lesson.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed that is not meant to.
        ValueError: the page would load something from a network.
    """
    notebook = ran(lesson, kept)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(r"\1.html", cell.source)
    if not _is_solved(lesson):
        close_answers(notebook, edition)
    demo.write(notebook, target)
    return target.stat().st_size


def write_all(
    folder: Path,
    names: tuple[str, ...] = ("",),
    edition: course.Edition = course.Edition(),  # noqa: B008
    *,
    solutions: bool = False,
    kept: Path = KEPT,
) -> list[Path]:
    """Write the pages of lessons into a folder, and one that leads to them.

    Args:
        folder: where to; it is made if it is not there.
        names: how their names begin.
        edition: the language of the lessons, which are there.
        solutions: whether it is the lessons with their solutions.
        kept: the folder of lessons that ran before.

    Returns:
        The pages.
    """
    notebooks = edition.solutions if solutions else edition.student
    kept = kept if edition.language == ENGLISH else kept / edition.language
    chosen = [one for one in sorted(notebooks.glob("*.ipynb")) if one.name.startswith(names)]
    pages = []
    for at, lesson in enumerate(chosen, 1):
        target = folder / f"{lesson.stem}.html"
        size = write(lesson, target, kept, edition)
        print(f"page {at} of {len(chosen)}: {target.name}, {size / 1e6:.1f} MB", flush=True)
        pages.append(target)
    if pages:
        index = _index(folder, notebooks, edition)
        replace_file(folder / "index.html", lambda file: file.write_text(index, "utf-8"))
    return pages


def _index(folder: Path, notebooks: Path, edition: course.Edition) -> str:
    """The page that leads to those that are in the folder."""
    lines = []
    for lesson in sorted(notebooks.glob("*.ipynb")):
        if (folder / f"{lesson.stem}.html").exists():
            title = nbformat.read(lesson, as_version=4).cells[0].source.partition("\n")[0].removeprefix("# ")
            lines.append(f'<li><a href="{lesson.stem}.html">{escape(title)}</a></li>')
    title, more = edition.said(TITLE), edition.said(HELP)
    return _INDEX.format(lines="\n".join(lines), language=edition.language, title=title, help=more)


def main(arguments: list[str]) -> None:
    """Write the pages, and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description="Write the lessons as HTML pages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[""], help="how the names of the lessons begin; default: all")
    parser.add_argument("--solutions", action="store_true", help="the lessons with their solutions")
    parser.add_argument("--language", help="of the lessons, such as de")
    given = parser.parse_args(arguments)
    folder, edition = given.folder.resolve(), course.ready(given.language)
    if not write_all(folder, tuple(given.names), edition, solutions=given.solutions):
        known = ", ".join(one.stem for one in course.lessons())
        raise SystemExit(f"no lesson begins with {' or '.join(given.names)}: {known}")
    print(f"Open in any browser: {folder / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
