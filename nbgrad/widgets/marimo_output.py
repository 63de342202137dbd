"""The output below a cell of marimo: the page that a graph is saved as, in a frame. It is alive without a kernel."""

import sys
from html import escape
from typing import Any

from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Opens
from nbgrad.widgets.description.stage import STAGE
from nbgrad.widgets.folding.apply import asked
from nbgrad.widgets.pipeline import Wanted, whole
from nbgrad.widgets.render.html_page import page


def runs() -> bool:
    """Whether a cell of a marimo notebook runs this."""
    marimo: Any = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def append(shown: Any) -> None:
    """Show something below the running cell, after its output so far."""
    import marimo

    marimo.output.append(shown)


class Framed:
    """A graph as marimo shows it.

    Args:
        graph: all of it.
        depth: modules nested deeper than this are folded; None to fold as many as a first look needs.
        nodes: how many may be drawn, so that only the rest is folded; None for as many as a first look needs.
        direction: from top to bottom, from left to right, or as it fits.
        opens: what the view shows first.
        projector: whether it has the letters of a projector.
    """

    def __init__(
        self,
        graph: Description | Outline,
        *,
        depth: int | None = None,
        nodes: int | None = None,
        direction: Wanted = "auto",
        opens: Opens = "graph",
        projector: bool = False,
    ) -> None:
        outline = Outline.of(graph)
        on = STAGE.projected() if projector else STAGE
        alive = whole(outline, direction=direction, folding=asked(outline, depth, nodes)[0], on=on)
        self._page = page({**alive, "opens": opens, "projected": projector}, alive["description"]["name"])

    def _mime_(self) -> tuple[str, str]:
        """The HTML for marimo. A script runs only in a frame, which it may not leave; a form takes an answer."""
        rights = 'sandbox="allow-scripts allow-forms" allow="fullscreen"'
        style = "width:100%;height:32em;border:0;resize:vertical"
        return "text/html", f'<iframe {rights} style="{style}" srcdoc="{escape(self._page)}"></iframe>'


class Text:
    """A table of a graph as marimo shows it.

    Args:
        text: its lines.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def _mime_(self) -> tuple[str, str]:
        """The HTML for marimo: letters of one width."""
        return "text/html", f"<pre>{escape(self._text)}</pre>"
