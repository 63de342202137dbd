"""The documents of the project as pages of the site: their links, formulas and pictures."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import fragment
from tools.pictured import PICTURED

ROOT = Path(__file__).resolve().parents[2]

NAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions/README.md": "decisions/README.md",
}
"""Where a page is in the site, for those whose place does not follow from their folder."""

AS_THEY_STAND = ("history", "steps", "updates")
"""The pictures that show a state after some clicks. Their pages show the picture, and below it the live one."""

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_IMAGE = re.compile(r"^!\[(?P<text>[^\]]*)\]\([./\w]*images/(?P<name>\w+)\.png\)$", re.MULTILINE)
_SHOWN = re.compile(r"^<!-- picture: (?P<name>\w+) -->$", re.MULTILINE)
_SOLUTIONS = re.compile(r"^\*\*Solutions\.\*\*\n.*?(?=^##|\Z)", re.MULTILINE | re.DOTALL)
"""The solutions of the written questions, up to the next heading."""


class Site:
    """The sources of the site, which are written below one folder.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: set[str] = set()

    def write(self, name: str, text: str) -> None:
        """Write one of them, by its place in the site."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def add(self, name: str, more: str = "", *, solved: bool = True) -> None:
        """Add a document of the project, by its path, with more text at its end, and with its solutions or without."""
        text = (ROOT / name).read_text("utf-8") + more
        text = text if solved else _SOLUTIONS.sub("", text)
        self.write(place(name), self.converted(text, name, place(name)))

    def converted(self, text: str, name: str, to: str) -> str:
        """The text of a document as that of a page.

        Args:
            text: what it says.
            name: the path of the document in the project.
            to: the place of the page in the site.
        """
        text = with_pictures(text, name)
        return "".join(
            part if is_code else self._relinked(part, name, to) for is_code, part in _parts(with_lexers(text))
        )

    def _relinked(self, text: str, name: str, to: str) -> str:
        def link(found: re.Match[str]) -> str:
            target, anchor = found["target"], found["anchor"] or ""
            if not target or re.match(r"[a-z]+:", target):
                return found[0]
            meant = os.path.normpath(PurePosixPath(name).parent / target)
            if name.startswith("notebooks/solutions/") and not (ROOT / meant).exists():  # relative to the student copy
                meant = os.path.normpath(PurePosixPath(name).parents[1] / target)
            if (ROOT / meant).is_dir():
                raise ValueError(f"{name}: a link to the folder {target}: name a page in it")
            found_at = place(meant)
            if found_at.startswith("source/"):
                self.sources.add(meant)
            return f"{found['before']}{os.path.relpath(found_at, PurePosixPath(to).parent)}{anchor}{found['after']}"

        return _LINK.sub(link, re.sub(r"\$`([^`]+)`\$", r"{math}`\1`", text))

    def add_sources(self) -> None:
        """Write a page for each source file that another page links to."""
        kinds = {".py": "python", ".md": "markdown", ".txt": "text"}
        for name in sorted(self.sources):
            kind = kinds.get(Path(name).suffix, "text")
            text = (ROOT / name).read_text("utf-8")
            self.write(place(name), f"---\norphan: true\n---\n\n# {name}\n\n`````{kind}\n{text}\n`````\n")


def place(name: str) -> str:
    """The place of a project file in the site.

    Documents, lessons and pictures have pages of their own. Of any other file the site shows the source.
    """
    if name in NAMED:
        return NAMED[name]
    path = PurePosixPath(name)
    if path.suffix == ".ipynb":
        return f"lessons/{path.name}"
    if path.parts[0] == "docs":
        return str(PurePosixPath(*path.parts[1:]))
    return f"source/{path}.md"


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Cut a text at its code blocks. Each part comes with a flag: whether it is a code block."""
    end = 0
    for found in _FENCE.finditer(text):
        yield False, text[end : found.start()]
        yield True, found[0]
        end = found.end()
    yield False, text[end:]


def with_lexers(text: str) -> str:
    """A text whose Python blocks with magics are marked as IPython: a lexer for Python alone fails on magics."""

    def named(found: re.Match[str]) -> str:
        magic = re.search(r"^[%!]|^\w+\?$", found["body"], re.MULTILINE)
        if found["info"].strip() in ("python", "ipython") and magic:
            return f"{found['fence']}ipython3\n{found['body']}{found['fence']}"
        return found[0].replace("```ipython\n", "```ipython3\n", 1)

    return _FENCE.sub(named, text)


def with_pictures(text: str, name: str) -> str:
    """A text in which pictures of graphs are alive.

    The line ``<!-- picture: graph -->`` in a page shows the graph in the variable ``graph``. For this the Python blocks
    of the page run in order. A picture of docs/images is made again.
    """
    shown = {found.start(): found["name"] for found in _SHOWN.finditer(text)}
    made = _run(text, name, shown) if shown else {}

    def alive(found: re.Match[str]) -> str:
        return _raw(made[found.start()])

    def image(found: re.Match[str]) -> str:
        live = _raw(_drawn(PICTURED[found["name"]]))
        if found["name"] in AS_THEY_STAND:
            return f"{found[0]}\n\nThe same picture, alive:\n\n{live}"
        return f"{live}\n\n*{found['text']}*"

    return _IMAGE.sub(image, _SHOWN.sub(alive, text))


def _run(text: str, name: str, shown: dict[int, str]) -> dict[int, str]:
    """The HTML fragments of the graphs that a page shows, by their positions in the text."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    made: dict[int, str] = {}
    blocks = [(found.start(), found) for found in _FENCE.finditer(text) if found["info"].strip() == "python"]
    steps: list[tuple[int, re.Match[str] | str]] = [*blocks, *shown.items()]
    for start, step in sorted(steps, key=lambda one: one[0]):
        if isinstance(step, str):
            graph = namespace.get(step)
            if not isinstance(graph, AutogradGraph):
                raise ValueError(f"{name}: <!-- picture: {step} --> names no graph that the blocks above it made")
            made[start] = fragment(lay_out(describe(graph)))
        else:
            before = "\n" * text[: step.start("body")].count("\n")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(before + step["body"], name, "exec"), namespace)
    return made


def _drawn(make: Callable[[], Description]) -> str:
    return fragment(lay_out(make()))


def _raw(html: str) -> str:
    return f'`````{{raw}} html\n<div class="nbgrad-live">\n{html}\n</div>\n`````'
