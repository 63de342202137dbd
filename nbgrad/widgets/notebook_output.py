"""The output under a notebook cell: first a picture without a script, then the live one in its place."""

import base64
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, TypedDict, Unpack

from IPython.core.displaypub import CapturingDisplayPublisher, DisplayPublisher
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import translate
from nbgrad.widgets import saved_script
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Opens, Picture
from nbgrad.widgets.description.stage import Pages
from nbgrad.widgets.folding.apply import NODES, asked
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.optional_packages import needs, reason
from nbgrad.widgets.pipeline import Wanted, lay_out, unfoldable
from nbgrad.widgets.render.svg import holding, png, svg
from nbgrad.widgets.render.text import ROWS, text
from nbgrad.widgets.render.wire_format import packed
from nbgrad.widgets.tensor_lookup import Holdings

if TYPE_CHECKING:
    from nbgrad.widgets.view import GraphView


def static_bundle(graph: Description | Outline, picture: Picture | None = None) -> dict[str, str | bytes]:
    """Return what a reader sees where no widget can run: a saved notebook, an untrusted one, an export.

    There is no text/html in it: notebook exports would prefer it to the picture, and then remove what it holds.

    Args:
        graph: all of it.
        picture: its layout if there is one already.

    Returns:
        By mime type: image/svg+xml, image/png (bytes; absent where ``resvg_py`` is missing or broken, which a warning
        says once) and text/plain.

    Raises:
        EngineError: the graph can't be laid out; the message says what to do.
    """
    outline = Outline.of(graph)
    return _with_png(_without_png(outline, picture or lay_out(outline)))


def _without_png(outline: Outline, picture: Picture, rows: int = ROWS) -> dict[str, str]:
    return {"image/svg+xml": svg(picture), "text/plain": text(outline, rows=rows)}


_LISTED = 16
"""How many nodes the table of a notebook lists: the drawing beside it shows all."""

_HELD_BYTES = 45_000
"""The most that a drawing holds for a reader without a kernel: 60 KB in the notebook."""


def _saved(
    outline: Outline, picture: Picture, folding: Folding | None, still: dict[str, str], direction: Wanted = "auto"
) -> dict[str, str]:
    """The first output as it is saved. Its drawing holds what a script needs to unfold, search and rank.

    Where that is too much, it lacks the picture for a projector, or it holds the drawn boxes alone; and if these know
    too many others, it is only a drawing.
    """
    encoded = _encoded(_with_png(still))
    if saved_script.wanted():
        alone: Picture = {**picture, "turned": None}
        all = unfoldable(outline, picture, folding, direction)
        few: Picture = {**all, "large": None}
        for held in (all, few, alone):
            data = packed(held, 9, maps=False)
            if len(data) <= _HELD_BYTES:
                encoded["image/svg+xml"] = holding(still["image/svg+xml"], data)
                break
    return encoded


def _with_png(still: dict[str, str]) -> dict[str, str | bytes]:
    try:
        return {**still, "image/png": png(still["image/svg+xml"])}
    except Exception as error:
        _tell_once(
            translate(
                "{reason}. The SVG shows the same; a notebook that is not trusted shows only the text.",
                reason=reason(error),
            )
        )
    return {**still}


@cache
def _tell_once(text: str) -> None:
    """Warn only once, in the first cell, because the text holds for all cells. No line of the user's is the cause."""
    warnings.warn_explicit(text, UserWarning, "nbgrad", 0)


class Still:
    """The output before a live view whose picture changes, for whoever opens the notebook later.

    Args:
        text: what it says until there is a picture.
    """

    def __init__(self, text: str) -> None:
        self._shown: dict[str, str] = {"text/plain": text}
        self._handle: DisplayHandle | None = None

    def display(self) -> None:
        """Show it in this output too: all its outputs show the same."""
        known = True if self._handle is None else self._handle.display_id
        self._handle = display(self._shown, raw=True, display_id=known) or self._handle

    def show(self, outline: Outline, picture: Picture, *, last: bool) -> None:
        """Show this picture in place of the earlier one. Only the last one is as it is saved, which takes longest."""
        still = _without_png(outline, picture, _LISTED)
        self._shown = _saved(outline, picture, None, still) if last else still
        if self._handle is not None and _can_send_again():
            self._handle.update(self._shown, raw=True)


def show_text(graph: Description | Outline) -> None:
    """Display the table of a graph alone."""
    display({"text/plain": text(graph)}, raw=True)


class Seen(TypedDict, total=False):
    """How a reader first sees a picture.

    Attributes:
        opens: what the live view shows first; by default the graph.
        projector: whether it has the letters of a projector.
    """

    opens: Opens
    projector: bool


@uncollected
def show(
    graph: Description | Outline,
    *,
    depth: int | None = None,
    nodes: int | None = None,
    direction: Wanted = "auto",
    holdings: Holdings | None = None,
    **seen: Unpack[Seen],
) -> None:
    """Display a graph in a notebook.

    These are two outputs on purpose. The first needs no script and is what a reopened notebook shows; the second is the
    widget, which hides the first while it lives. In one output, a reopened notebook would show an error instead. If a
    package is missing or broken, its part is left out, and one line says what to install: without graphviz the table is
    shown, without anywidget the first output alone. Some pictures have a third output: a script (``saved_script.py``).

    Args:
        graph: all of it.
        depth: modules nested deeper than this are folded; None to fold as many as a first look needs.
        nodes: how many may be drawn, so that only the rest is folded; None for as many as a first look needs.
        direction: from top to bottom, from left to right, or as it fits.
        holdings: where the numbers of its large tensors are, for a reader who asks for them.
        seen: what the reader sees first, and how large.
    """
    outline = Outline.of(graph)
    folding, limit = asked(outline, depth, nodes)
    try:
        projector = seen.get("projector", False)
        on = Pages.stage.projected() if projector else Pages.stage
        laid_out = lay_out(outline, limit=limit, direction=direction, folding=folding, on=on)
        picture: Picture = {**laid_out, "opens": seen.get("opens", "graph"), "projected": projector}
        again = _can_send_again()
        still = _without_png(outline, picture, _LISTED if again else ROWS)
    except Exception as error:  # whatever is raised, the table is shown
        display({"text/plain": f"{text(outline)}\n\n{reason(error)}"}, raw=True)
        return
    handle = display(still if again else _encoded(_with_png(still)), raw=True, display_id=True)
    widget = _live(outline, picture, folding, holdings, limit, direction)
    # The view, for which a reader waits, is sent first; what takes longest is for later readers.
    if again and handle is not None:
        sys.stdout.flush()  # in a kernel this sends all messages: their thread gets no turn while the PNG is made
        handle.update(_saved(outline, picture, folding, still, direction), raw=True)
        saved_script.displayed()
    if widget is not None:
        widget.put_away()


def _live(
    outline: Outline,
    picture: Picture,
    folding: Folding | None,
    holdings: Holdings | None,
    limit: int = NODES,
    direction: Wanted = "auto",
) -> "GraphView | None":
    """Display the view that takes the place of the still picture; where it fails the still picture stays."""
    try:
        from nbgrad.widgets.cell_outputs import displayed
        from nbgrad.widgets.view import GraphView

        with needs("anywidget", "a live view", "anywidget ipywidgets"):
            widget = GraphView(outline, picture, folding, holdings, limit, direction)
            widget._held = False
            live = widget._repr_mimebundle_()
    except Exception as error:
        _tell_once(translate("{reason}. The picture stays as it is.", reason=reason(error)))
        return None
    if live is not None:
        display(live[0], metadata=live[1], raw=True)
    displayed(widget)
    return widget


def _can_send_again() -> bool:
    """Whether an output can be replaced by a fuller one.

    A terminal and ``%%capture`` would show both outputs, and ipyparallel does not pass on a second output of an engine.
    """
    shell = get_ipython()
    if shell is None or type(getattr(shell, "kernel", None)).__module__.partition(".")[0] == "ipyparallel":
        return False
    return type(shell.display_pub) not in (DisplayPublisher, CapturingDisplayPublisher)


def _encoded(bundle: dict[str, str | bytes]) -> dict[str, str]:
    return {mime: base64.b64encode(it).decode() if isinstance(it, bytes) else it for mime, it in bundle.items()}
