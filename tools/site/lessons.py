"""The lessons as pages: with their outputs, and their graphs alive."""

from pathlib import Path

import nbformat

from tools import course, demo, pages
from tools.site.pages import ROOT, Site


def lessons(*, solved: bool = True) -> list[Path]:
    """All lessons, the tour first: with their solutions, or the student's copies."""
    return sorted((course.SOLUTIONS if solved else course.STUDENT).glob("*.ipynb"))


def add(site: Site, lesson: Path, *, runs: bool, kept: Path) -> None:
    """Add a lesson to the site.

    Args:
        site: where to.
        lesson: the notebook. That with the solutions has saved outputs, too.
        runs: whether its cells run, which makes its graphs live. Else the pages show the saved pictures.
        kept: the folder of lessons that ran before; one that has not changed since then is taken from there.
    """
    notebook = pages.ran(lesson, kept) if runs else nbformat.read(lesson, as_version=4)
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
