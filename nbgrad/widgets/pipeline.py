"""The way from an outline to its picture: fold, draw up the boxes, place them, write their details.

A graph whose lines would be a tangle is drawn coarser. That is decided by counts, so every machine draws the same
picture. The time limit is only for a graphviz that is stuck.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import zip_longest
from typing import Literal

from nbgrad.core.no_gc import uncollected
from nbgrad.core.stages import stage
from nbgrad.widgets.description.drawn import boxed, detailed
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Layout, Opens, Picture
from nbgrad.widgets.folding.apply import ASKED, NODES, chosen
from nbgrad.widgets.folding.choose import Folding, first_folding, necessary
from nbgrad.widgets.layout.columns import fits, scale
from nbgrad.widgets.layout.dot import dot_source
from nbgrad.widgets.layout.graphviz_wasm import SECONDS, EngineError, EngineMissing, LayoutTimeout, run_graphviz
from nbgrad.widgets.layout.parts import Direction, PictureParts
from nbgrad.widgets.layout.positions import positions
from nbgrad.widgets.layout.tangle import MOST, passed

WHOLE = 1200
"""How many nodes may be drawn in a file that has no kernel to ask: its front end folds by itself."""
_NAMED = 3
"""At most this many modules are named in a note."""
_TURNED = 120
"""With more nodes than this there is no second layout, although its letters might be larger."""
_LARGER = 1.1
"""The other direction is chosen only if it is seen larger by this factor: readers are used to top to bottom."""
Wanted = Literal["auto", "TB", "LR"]
"""A direction; or "auto" for the direction in which the whole picture is seen larger."""


@stage("fold")
def shaped(graph: Outline, limit: int, folding: Folding | None = None, asked: int = ASKED) -> Outline:
    """Return the outline of what will be drawn. It has all that the layout needs.

    For a module that the reader unfolded ``asked`` nodes may be drawn.
    """
    return boxed(chosen(graph.filled(), limit, folding, asked))


def drawable(graph: Description | Outline, limit: int, folding: Folding | None = None) -> Description:
    """Return the description of ``graph`` as it will be drawn.

    Args:
        graph: all of it; it is not changed.
        limit: how many nodes may be drawn, not counting the copies of shared tensors. For a module that the reader
            unfolded it may be ASKED.
        folding: which scopes are folded; None to fold as many as a first look needs.

    Returns:
        A description whose strings are clean and of bounded length, with its folded nodes, its copies and a note for
        whatever is left out.
    """
    return detailed(shaped(Outline.of(graph), limit, folding))


@stage("place")
def lay_out(
    graph: Description | Outline,
    *,
    limit: int = NODES,
    seconds: float = SECONDS,
    direction: Wanted = "auto",
    folding: Folding | None = None,
) -> Picture:
    """Find a place for everything.

    Args:
        graph: all of it, of any size.
        limit: how many nodes may be drawn (copies of shared tensors and the marks of reductions not counted).
        seconds: graphviz is stopped after this time, and a coarser picture is tried. It needs a small part of it.
        direction: from top to bottom, from left to right, or as it fits.
        folding: which module calls are folded; None to fold as many as a first look needs. Coarser tries fold more; the
            modules asked for are folded last.

    Returns:
        The description as drawn, with notes about the folded and omitted parts, and the coordinates.

    Raises:
        EngineMissing: there is no graphviz; the message says what to install.
        EngineError: graphviz fails even on a small part of this graph.
    """
    picture, parts = _lay_out(Outline.of(graph), limit, seconds, "LR" if direction == "LR" else "TB", folding)
    drawn, layout = picture["description"], picture["layout"]
    if direction == "auto" and not fits(layout) and len(drawn["nodes"]) <= _TURNED:
        return {**_in_both(picture, parts, seconds, direction), "turned": None}
    return picture


@uncollected
def _lay_out(
    graph: Outline, limit: int, seconds: float, direction: Direction, folding: Folding | None
) -> tuple[Picture, PictureParts]:
    """The picture, and its parts."""
    tries = [limit, *(size for size in (NODES, 120, 40, 12) if size < min(limit, len(graph.description["nodes"])))]
    for size, smaller in zip_longest(tries, tries[1:], fillvalue=0):
        outline = shaped(graph, size, folding, ASKED if size == limit else size)
        shape = outline.description
        parts = PictureParts.of(outline)
        try:
            if smaller and passed(parts.placed) > MOST:
                raise _Tangle
            with ThreadPoolExecutor(1) as pool:  # graphviz releases the interpreter, so Python code can run meanwhile
                answer = pool.submit(_answer, _question(parts, direction), seconds)
                drawn = detailed(outline)
            layout = positions(parts, direction, answer.result())
        except EngineMissing:
            raise
        except EngineError as error:
            if not smaller:
                raise
            coarser = None if folding is None else folding.coarser(graph, smaller)
            folded = coarser.closed - folding.closed if coarser and folding else ()
            graph = graph.noted(_failed(shape, error, graph.description, folded))
            folding = coarser
            continue
        opens: Opens = "graph"
        found = Picture(
            description=drawn, layout=layout, direction=direction, turned=None, folded=[], opens=opens, first=None
        )
        return found, parts
    raise AssertionError("unreachable: the last try returns or raises")


class _Tangle(EngineError):
    """The lines would pass so many rows that graphviz is not asked."""


def _failed(shape: Description, error: EngineError, description: Description, folded: Collection[str]) -> str:
    """A note of a try that failed, and of the modules that are folded for the next one."""
    why = "would be a tangle" if isinstance(error, _Tangle) else "failed"
    why = "took too long" if isinstance(error, LayoutTimeout) else why
    names = [
        scope["label"] for scope in description["scopes"] if scope["id"] in folded and scope["parent"] not in folded
    ]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    instead = f"; folded for it: {', '.join(names[:_NAMED])}{more}" if names else ""
    return f"A layout of {len(shape['nodes']):,} nodes {why}{instead}."


@stage("place")
def whole(
    graph: Description | Outline,
    *,
    seconds: float = SECONDS,
    direction: Wanted = "auto",
    folding: Folding | None = None,
) -> Picture:
    """Find a place for everything, where no kernel can be asked later: nothing is left out that can be folded.

    Args:
        graph: all of it.
        seconds: how long each layout may take.
        direction: the one that is shown first; if it is "auto", the one in which all is seen larger, or from top to
            bottom if something is folded at first.
        folding: what the front end folds at first; None to fold what ``lay_out`` would.

    Returns:
        A picture of up to WHOLE nodes in both directions. The front end itself can fold and unfold its modules. If
        something is folded at first, that first picture has a layout of its own, which is as compact as that of
        ``lay_out``.

    Raises:
        EngineError: as ``lay_out``.
    """
    graph = Outline.of(graph)
    folding = folding or first_folding(graph, NODES)
    first: Direction = "LR" if direction == "LR" else "TB"
    picture, parts = _lay_out(graph, WHOLE, seconds, first, necessary(graph, WHOLE).with_loops(graph, folding))
    drawn = picture["description"]
    # A run of calls can be folded even if each call has only one node. The page folds each call alone.
    closed = sorted(scope for scope in folding.closed if parts.tree.sizes[scope] > 1)
    picture = _in_both(picture, parts, seconds, first if closed else direction)
    return {**picture, "folded": closed, "first": _first(graph, seconds, direction, folding, drawn)}


def _first(graph: Outline, seconds: float, direction: Wanted, folding: Folding, drawn: Description) -> Picture | None:
    """The picture that a reader sees first, in both directions; None if it has all that is ``drawn``."""
    if not folding.closed:
        return None
    picture, parts = _lay_out(graph, WHOLE, seconds, "LR" if direction == "LR" else "TB", folding)
    if len(picture["description"]["nodes"]) >= len(drawn["nodes"]):
        return None
    return _in_both(picture, parts, seconds, direction)


def _in_both(picture: Picture, parts: PictureParts, seconds: float, wanted: Wanted) -> Picture:
    """The picture with a layout in each direction; it shows the wanted one."""
    layout, here = picture["layout"], picture["direction"]
    other: Direction = "TB" if here == "LR" else "LR"
    turned: Layout | None = None
    with suppress(LayoutTimeout):
        turned = _placed(parts, other, seconds)
    if wanted == "auto" and turned is not None and _larger(turned, layout):
        return {**picture, "layout": turned, "direction": other, "turned": layout}
    return {**picture, "turned": turned}


def _larger(turned: Layout, layout: Layout) -> bool:
    """Whether ``layout`` does not fit, and ``turned`` is seen larger by more than the factor ``_LARGER``."""
    return not fits(layout) and scale(turned) > scale(layout) * _LARGER


def _placed(parts: PictureParts, direction: Direction, seconds: float) -> Layout:
    """Find a place for everything that will be drawn.

    Raises:
        EngineError: graphviz fails; LayoutTimeout if it was stopped after ``seconds``.
    """
    return positions(parts, direction, _answer(_question(parts, direction), seconds))


def _question(parts: PictureParts, direction: Direction) -> str:
    """The input for graphviz; empty if nothing will be drawn."""
    return dot_source(parts, direction) if parts.placed["nodes"] else ""


def _answer(question: str, seconds: float) -> str:
    return run_graphviz(question, seconds=seconds) if question else ""
