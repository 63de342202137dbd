"""``nbgrad view``: a saved graph, opened in the browser."""

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from nbgrad.export import unsaved
from nbgrad.options import check_folder
from nbgrad.run.parser import CommandParser

if TYPE_CHECKING:
    from nbgrad.core.graph.saved_graph import SavedGraph

PAGES = (".html", ".svg", ".png", ".pdf", ".gif")
"""The suffixes of the files that a browser shows as they are."""


def view(arguments: list[str]) -> int:
    """Open a saved graph in the browser, and print the path of its page.

    Returns:
        0 if there is a page; 2 if the file cannot be shown.
    """
    parser = CommandParser("nbgrad view", description="Open a saved graph in the browser.")
    parser.add_argument("file", help=f"a graph that was saved: .nbgrad, or {', '.join(PAGES)}")
    parser.add_argument("--output", metavar="PAGE", help="write the page to this .html file; default: a temporary file")
    parser.add_argument("--no-open", action="store_true", help="write the page only, and print its path")
    given = parser.parse_args(arguments)
    try:
        page = _page(Path(given.file), given.output)
    except (OSError, ValueError) as error:
        told = unsaved(error) if isinstance(error, OSError) and error.strerror else str(error)
        print(f"nbgrad view: {told}", file=sys.stderr)  # noqa: T201
        return 2
    print(page)  # noqa: T201  # the output of the command
    if not given.no_open and has_browser():
        webbrowser.open(page.absolute().as_uri())
    return 0


def _page(file: Path, output: str | None) -> Path:
    """The page that shows ``file``: itself, or one that is written now.

    Raises:
        OSError: there is no such file, or the page cannot be written.
        ValueError: a file of this kind has no graph that can be shown.
    """
    if file.suffix.lower() in PAGES and file.exists():
        if output is not None:
            raise ValueError(f"{str(file)!r} is a page or a picture already: --output is for a .nbgrad file")
        return file
    if output is not None:
        check_folder(output, shell=True)
    graph = saved_graph(file)
    page = Path(output) if output is not None else Path(tempfile.mkdtemp(prefix="nbgrad-")) / f"{file.stem}.html"
    if page.suffix.lower() != ".html":
        raise ValueError(f"{str(page)!r}: the page is a file that ends in .html")
    graph.save(page)
    return page


def saved_graph(path: str | Path) -> "SavedGraph":
    """The graph in a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no file of one graph.
    """
    from nbgrad.run.files import SavedRun, load

    if not Path(path).expanduser().exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    graph = load(path)
    if isinstance(graph, SavedRun):
        raise ValueError(f"{str(path)!r} is a folder of {len(graph)} graphs: name the file of one of them")
    return graph


def has_browser() -> bool:
    """Whether there is a browser with a window: a text browser would take the terminal."""
    if sys.platform.startswith(("linux", "freebsd")) and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
