"""The lessons as pages: the solutions with their outputs, and their graphs alive."""

import hashlib
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from nbgrad.core.files import replace_file
from tools import course, demo
from tools.site.pages import ROOT, Site

_DRAWN = ("nbgrad/widgets", "nbgrad/core/graph")
"""What a picture of a graph depends on, besides the lesson."""


def lessons() -> list[Path]:
    """The solutions of all lessons, the tour first."""
    return sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))


def add(site: Site, lesson: Path, *, runs: bool, kept: Path) -> None:
    """Add a lesson to the site.

    Args:
        site: where to.
        lesson: the notebook with its solutions and saved outputs.
        runs: whether its cells run, which makes its graphs live. Else the pages show the saved pictures.
        kept: the folder of lessons that ran before; one that has not changed since then is taken from there.
    """
    notebook = _ran(lesson, kept) if runs else nbformat.read(lesson, as_version=4)
    name = lesson.relative_to(ROOT).as_posix()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = site.converted(cell.source, name, f"lessons/{lesson.name}")
        elif "%" in cell.source:
            cell.metadata["mystnb"] = {"code_lexer": "ipython3"}
        cell["outputs"] = [one for one in cell.get("outputs", []) if demo.WIDGET_VIEW not in one.get("data", {})]
        if cell.cell_type == "markdown":
            del cell["outputs"]
    site.write(f"lessons/{lesson.name}", nbformat.writes(notebook))


def _ran(lesson: Path, kept: Path) -> NotebookNode:
    """The lesson with live graphs: as it was kept, or after a run."""
    file = kept / f"{lesson.stem}-{_state(lesson)}.ipynb"
    if file.exists():
        return nbformat.read(file, as_version=4)  # type: ignore[no-any-return]
    notebook = nbformat.read(lesson, as_version=4)
    print(f"running {lesson.stem}", flush=True)
    demo.run(notebook, lesson.parent)
    demo.make_views_live(notebook)
    notebook.metadata = nbformat.from_dict(course.METADATA)
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob(f"{lesson.stem}-*.ipynb"):
        old.unlink()
    replace_file(file, lambda target: target.write_text(nbformat.writes(notebook), "utf-8"))
    return notebook  # type: ignore[no-any-return]


def _state(lesson: Path) -> str:
    """A number that changes with the code of a lesson, and with what draws graphs."""
    seen = hashlib.sha256()
    for cell in nbformat.read(lesson, as_version=4).cells:
        seen.update(f"{cell.cell_type}\n{cell.source}\0".encode())
    for folder in _DRAWN:
        for file in sorted((ROOT / folder).rglob("*.py")):
            seen.update(file.read_bytes())
    return seen.hexdigest()[:16]
