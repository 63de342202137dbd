"""The way from an outline to its picture: fold, draw up the boxes, place them, write their details.

A graph whose lines would be a tangle is drawn coarser. That is decided by counts, so every machine draws the same
picture. The time limit is only for a graphviz that is stuck.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Literal, NamedTuple

from nbgrad.core.no_gc import uncollected
from nbgrad.core.stages import stage
from nbgrad.core.translation import translate
from nbgrad.widgets.description.drawn import boxed, detailed
from nbgrad.widgets.description.outline import LOOK, Outline
from nbgrad.widgets.description.schema import Description, Form, Opens, Picture
from nbgrad.widgets.description.short_names import NARROW
from nbgrad.widgets.description.stage import SCREEN, STAGE, Stage
from nbgrad.widgets.folding.apply import ASKED, NODES, chosen
from nbgrad.widgets.folding.choose import Folding, foldings, necessary
from nbgrad.widgets.layout.fitting import BETTER, SOME, Search, answered, question
from nbgrad.widgets.layout.forms import levels
from nbgrad.widgets.layout.graphviz_wasm import SECONDS, EngineError, EngineMissing, LayoutTimeout
from nbgrad.widgets.layout.parts import Direction, PictureParts
from nbgrad.widgets.layout.positions import positions
from nbgrad.widgets.layout.tangle import MOST, passed

WHOLE = 1200
"""How many nodes may be drawn in a file that has no kernel to ask: its front end folds by itself."""
UNFOLDABLE = 200
"""How many nodes may be drawn in a saved notebook, where the kernel lays them out before its next cell."""
_NAMED = 3
"""At most this many modules are named in a note."""
Wanted = Literal["auto", "TB", "LR"]
"""A direction; or "auto" for the direction in which the whole picture is seen larger."""


@stage("fold")
def shaped(
    graph: Outline, limit: int, folding: Folding | None = None, asked: int = ASKED, on: Stage = STAGE
) -> Outline:
    """Return the outline of what will be drawn. It has all that the layout needs.

    For a module that the reader unfolded ``asked`` nodes may be drawn.
    """
    return boxed(chosen(graph.filled(), limit, folding, asked, on))


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
    direction: Wanted = "auto",
    folding: Folding | None = None,
    on: Stage = STAGE,
    near: frozenset[str] = frozenset(),
) -> Picture:
    """Find a place for everything.

    Args:
        graph: all of it, of any size.
        limit: how many nodes may be drawn (copies of shared tensors and the marks of reductions not counted).
        direction: from top to bottom, from left to right, or as it fits.
        folding: which module calls are folded; None to fold as many as a first look needs. Coarser tries fold more; the
            modules asked for are folded last.
        on: where the picture is seen.
        near: the nodes that the reader has chosen: where there is no room for all, these keep most of their lines.

    Returns:
        The description as drawn, with notes about the folded and omitted parts, and the coordinates.

    Raises:
        EngineMissing: there is no graphviz; the message says what to install.
        EngineError: graphviz fails even on a small part of this graph.
    """
    return _fitted(Outline.of(graph), limit, direction, folding, on, near).picture


def first_look(graph: Outline, *, limit: int = NODES, direction: Wanted = "auto", on: Stage = STAGE) -> Folding:
    """The folding that ``lay_out`` chooses if nothing else is asked for; it is found once for each graph and stage."""
    key = "first look", limit, direction, on
    if key not in graph.chosen:
        _fitted(graph, limit, direction, None, on)
    found: Folding = graph.chosen[key]
    return found


class _Fitted(NamedTuple):
    """A picture, the search that found its layout, and which modules are folded in it."""

    picture: Picture
    search: Search
    folding: Folding


def _fitted(
    graph: Outline,
    limit: int,
    direction: Wanted,
    folding: Folding | None,
    on: Stage,
    near: frozenset[str] = frozenset(),
) -> _Fitted:
    """The finest picture that is seen whole with letters that can be read; the first one if there is none."""
    best: _Fitted | None = None
    for one in foldings(graph, limit, on) if folding is None else [folding]:
        known = None if folding is None and best is None else one
        picture, parts = _lay_out(graph, limit, SECONDS, "LR" if direction == "LR" else "TB", known, on)
        search = Search(parts, picture["layout"], picture["direction"], on, SECONDS, _forms(parts, one.asked, near))
        layout, way = search.best(turns=direction == "auto")
        found = _Fitted({**picture, "layout": layout, "direction": way}, search, one)
        fits = on.fits(layout) and (search.level <= search.told or len(parts.placed["nodes"]) <= LOOK)
        if fits or best is None or on.scale(layout) > on.scale(best.picture["layout"]) * BETTER:
            best = found
        if fits:
            break
    assert best is not None, "there is always a folding to try"
    best = _Fitted(*_narrowed(best.picture, best.search, direction, on), best.folding)
    if folding is None and not near:
        graph.chosen["first look", limit, direction, on] = best.folding
    return best


def _narrowed(picture: Picture, search: Search, direction: Wanted, on: Stage) -> tuple[Picture, Search]:
    """The same with shorter names, if it is seen larger then: rows of long names are wide. And its search."""
    best, found, drawn = picture, search, picture["description"]
    for letters in NARROW if len(search.parts.placed["nodes"]) <= LOOK else ():
        if on.fits(best["layout"]):
            break
        narrow = search.named(letters)
        layout, way = narrow.best(turns=direction == "auto")
        if on.fits(layout) or on.scale(layout) > on.scale(best["layout"]) * BETTER:
            cuts = {node["id"]: node["cuts"] for node in narrow.parts.drawn["nodes"]}
            said: Description = {**drawn, "nodes": [{**node, "cuts": cuts[node["id"]]} for node in drawn["nodes"]]}
            best, found = {**picture, "description": said, "layout": layout, "direction": way}, narrow
    return best, found


def _forms(
    parts: PictureParts, asked: frozenset[str] = frozenset(), near: frozenset[str] = frozenset()
) -> list[dict[str, Form]]:
    """The forms of the boxes, with less and less detail.

    Most detail is near the nodes that the reader has chosen, or in the scopes that the reader has unfolded.
    """
    inside = {inner for scope in asked if scope in parts.tree for inner in parts.tree.inside(scope)}
    matters = near or frozenset(node["id"] for node in parts.drawn["nodes"] if node["scope"] in inside)
    return levels(parts.drawn, matters)


@uncollected
def _lay_out(
    graph: Outline, limit: int, seconds: float, direction: Direction, folding: Folding | None, on: Stage
) -> tuple[Picture, PictureParts]:
    """The picture, in which all boxes are cards; and its parts."""
    tries = [limit, *(size for size in (NODES, 120, 40, 12) if size < min(limit, len(graph.description["nodes"])))]
    for size, smaller in zip_longest(tries, tries[1:], fillvalue=0):
        outline = shaped(graph, size, folding, ASKED if size == limit else size, on)
        shape = outline.description
        parts = PictureParts.of(outline)
        try:
            if smaller and passed(parts.placed) > MOST:
                raise _Tangle
            with ThreadPoolExecutor(1) as pool:  # graphviz releases the interpreter, so Python code can run meanwhile
                answer = pool.submit(answered, question(parts, direction), seconds)
                drawn = detailed(outline)
            layout = positions(parts, direction, answer.result(), on, last=len(parts.placed["nodes"]) > SOME)
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
            description=drawn,
            layout=layout,
            direction=direction,
            turned=None,
            folded=[],
            opens=opens,
            stage=list(on),
            first=None,
            large=None,
            projected=False,
        )
        return found, parts
    raise AssertionError("unreachable: the last try returns or raises")


class _Tangle(EngineError):
    """The lines would pass so many rows that graphviz is not asked."""


def _failed(shape: Description, error: EngineError, description: Description, folded: Collection[str]) -> str:
    """A note of a try that failed, and of the modules that are folded for the next one."""
    why = translate("would be a tangle") if isinstance(error, _Tangle) else "failed"
    why = translate("took too long") if isinstance(error, LayoutTimeout) else why
    names = [
        scope["label"] for scope in description["scopes"] if scope["id"] in folded and scope["parent"] not in folded
    ]
    more = translate(" and {count:,} more", count=len(names) - _NAMED) if len(names) > _NAMED else ""
    instead = translate("; folded for it: {names}{more}", names=", ".join(names[:_NAMED]), more=more) if names else ""
    return translate("A layout of {count:,} nodes {why}{instead}.", count=len(shape["nodes"]), why=why, instead=instead)


@stage("place")
def whole(
    graph: Description | Outline,
    *,
    seconds: float = SECONDS,
    direction: Wanted = "auto",
    folding: Folding | None = None,
    on: Stage = STAGE,
) -> Picture:
    """Find a place for everything, where no kernel can be asked later: nothing is left out that can be folded.

    Args:
        graph: all of it.
        seconds: how long each layout may take.
        direction: the one that is shown first; if it is "auto", the one in which all is seen larger, or from top to
            bottom if something is folded at first.
        folding: what the front end folds at first; None to fold what ``lay_out`` would.
        on: where the picture is seen.

    Returns:
        A picture of up to WHOLE nodes in both directions. The front end itself can fold and unfold its modules. If
        something is folded at first, that first picture has a layout of its own, which is as compact as that of
        ``lay_out``.

    Raises:
        EngineError: as ``lay_out``.
    """
    graph = Outline.of(graph)
    folding = folding or first_look(graph, direction=direction, on=on)
    first: Direction = "LR" if direction == "LR" else "TB"
    picture, parts = _lay_out(graph, WHOLE, seconds, first, necessary(graph, WHOLE).with_loops(graph, folding), on)
    drawn = picture["description"]
    # A run of calls can be folded even if each call has only one node. The page folds each call alone.
    closed = sorted(scope for scope in folding.closed if parts.tree.sizes[scope] > 1)
    looked = _first(graph, seconds, direction, folding, drawn, on)
    picture = _in_both(picture, parts, seconds, first if closed else direction, on, formed=looked is None)
    return _with_large(graph, {**picture, "folded": closed, "first": looked}, folding, direction)


@stage("place")
def unfoldable(graph: Outline, picture: Picture, folding: Folding | None, direction: Wanted = "auto") -> Picture:
    """Lay out again, for a saved notebook, what ``picture`` folds: it unfolds without a kernel.

    Args:
        graph: all of it.
        picture: what is drawn of it.
        folding: what is folded there; None for what a first look folds.
        direction: the one that was asked for when ``picture`` was laid out.

    Returns:
        Up to UNFOLDABLE nodes with their layout, and ``picture`` as what is seen first; ``picture`` alone if no more
        can be laid out.
    """
    alone = _with_large(graph, {**picture, "turned": None}, folding, direction)
    on = Stage(*picture["stage"])
    folding = folding or first_look(graph, direction=direction, on=on)
    if not folding.closed:
        return alone
    shown = len(picture["description"]["nodes"])
    every = necessary(graph, UNFOLDABLE).with_loops(graph, folding)
    try:
        found, parts = _lay_out(graph, UNFOLDABLE, SECONDS, picture["direction"], every, on)
    except EngineError:
        return alone
    if len(found["description"]["nodes"]) <= shown:
        return alone
    closed = sorted(scope for scope in folding.closed if parts.tree.sizes[scope] > 1)
    kept: Picture = {**alone, "large": None}
    large, projected = alone["large"], picture["projected"]
    return {**found, "folded": closed, "opens": picture["opens"], "first": kept, "large": large, "projected": projected}


def _with_large(graph: Outline, picture: Picture, folding: Folding | None, direction: Wanted) -> Picture:
    """The picture with one for a projector, unless its own letters are large enough there."""
    on = SCREEN.projected()
    if on.fits((picture["first"] or picture)["layout"]):
        return picture
    found = _for_projector(graph, NODES, direction, folding, on)
    sizes = found.search.parts.tree.sizes
    closed = sorted(scope for scope in found.folding.closed if sizes[scope] > 1)
    return {**picture, "large": {**found.picture, "folded": closed}}


def for_projector(
    graph: Outline,
    *,
    limit: int = NODES,
    direction: Wanted = "auto",
    folding: Folding | None = None,
    on: Stage,
    near: frozenset[str] = frozenset(),
) -> tuple[Picture, Folding]:
    """The picture on a projector, and which modules are folded in it.

    These are the ones that the reader has chosen if it then has letters that can be read, else those of a first look.

    Args:
        graph: all of it.
        limit: how many nodes may be drawn.
        direction: from top to bottom, from left to right, or as it fits.
        folding: which modules are folded in the page; None if the reader has chosen none.
        on: where it is seen: a ``projected`` stage.
        near: the nodes that the reader has chosen.
    """
    found = _for_projector(graph, limit, direction, folding, on, near)
    return found.picture, found.folding


def _for_projector(
    graph: Outline,
    limit: int,
    direction: Wanted,
    folding: Folding | None,
    on: Stage,
    near: frozenset[str] = frozenset(),
) -> _Fitted:
    if folding is not None:
        found = _fitted(graph, limit, direction, folding, on, near)
        if on.fits(found.picture["layout"]):
            return found
    return _fitted(graph, limit, direction, None, on, near)


def _first(
    graph: Outline, seconds: float, direction: Wanted, folding: Folding, drawn: Description, on: Stage
) -> Picture | None:
    """The picture that a reader sees first, in both directions; None if it has all that is ``drawn``."""
    if not folding.closed:
        return None
    picture, parts = _lay_out(graph, WHOLE, seconds, "LR" if direction == "LR" else "TB", folding, on)
    if len(picture["description"]["nodes"]) >= len(drawn["nodes"]):
        return None
    return _in_both(picture, parts, seconds, direction, on, formed=True)


def _in_both(
    picture: Picture, parts: PictureParts, seconds: float, wanted: Wanted, on: Stage, *, formed: bool
) -> Picture:
    """The picture with a layout in each direction; it shows the wanted one. If it is not ``formed``, all are cards."""
    forms: list[dict[str, Form]] = _forms(parts) if formed else [{}]
    search = Search(parts, picture["layout"], picture["direction"], on, seconds, forms)
    layout, direction = search.best(turns=wanted == "auto")
    turned = search.turned(direction)
    found: Picture = {**picture, "layout": layout, "direction": direction, "turned": turned}
    return _narrowed(found, search, wanted, on)[0] if formed else found
