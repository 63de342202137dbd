"""The positions of all boxes and edges: Outline -> Picture.

Graphviz gets boxes of fixed size and ids of our own making, never a name that a user chose, and returns positions. A
reduction's mark is a small node between the two ends of its edge, so that graphviz makes room for it. A graph that
takes too long is drawn coarser; nothing here waits longer than the sum of the time limits.
"""

import json
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Literal, NamedTuple, Self

from nbgrad.core.stages import stage
from nbgrad.widgets.description.nesting import Nesting
from nbgrad.widgets.description.schema import Box, Description, Edge, Layout, Opens, Picture
from nbgrad.widgets.description.text_metrics import NABLA, WIDER, gradient_width, text_width
from nbgrad.widgets.folding.apply import ASKED, NODES, detailed, shaped
from nbgrad.widgets.folding.cards import single
from nbgrad.widgets.folding.choose import Folding, first_folding, necessary
from nbgrad.widgets.folding.outline import Outline
from nbgrad.widgets.layout.card import BEHIND, INSET, MARK_HEIGHT, PAD_X, measured
from nbgrad.widgets.layout.columns import fits, in_columns, scale
from nbgrad.widgets.layout.curves import beside
from nbgrad.widgets.layout.graphviz_wasm import (
    SECONDS,
    EngineError,
    EngineMissing,
    LayoutTimeout,
    language,
    run_graphviz,
)
from nbgrad.widgets.layout.sides import left_first

WHOLE = 1200
"""How many nodes may be drawn in a file that has no kernel to ask: its front end folds by itself."""

MARK_SIZE, SCOPE_SIZE, LABEL_SIZE = 11.0, 11.0, 11.0
LABEL_HEIGHT = 13.0
_EDGE = 8.0

_COURIER = 0.6  # the one font whose width every graphviz agrees on: it makes room for a label that is drawn elsewhere
_ASIDE = 14.0  # the distance between edges that run side by side: each edge has two lines
_ABOVE = 6.0  # how much higher a label stands over an edge that runs sideways: an edge has two lines
_NAMED = 3
"""At most this many modules are named in a note."""

_LABELLED = 400
"""With more edges than this there is no room made for their labels: graphviz would need a second more for it."""

_PATIENCE = 4
"""The factor of the time limit of the layout if a reader asks for more than NODES nodes."""

_TURNED = 120
"""With more nodes than this there is no second layout, although its letters might be larger."""

_LARGER = 1.1
"""The other direction is chosen only if it is seen larger by this factor: readers are used to top to bottom."""

Direction = Literal["TB", "LR"]

Wanted = Literal["auto", "TB", "LR"]
"""A direction; or "auto" for the direction in which the whole picture is seen larger."""


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
        seconds: how long the first try may take. Coarser ones get the same; each of them needs far less.
        direction: from top to bottom, from left to right, or as it fits.
        folding: which module calls are folded; None to fold as many as a first look needs. Coarser tries fold more; the
            modules asked for are folded last.

    Returns:
        The description as drawn, with notes about the folded and omitted parts, and the coordinates.

    Raises:
        EngineMissing: there is no graphviz; the message says what to install.
        EngineError: graphviz fails even on a small part of this graph.
    """
    picture, sizes = _lay_out(Outline.of(graph), limit, seconds, "LR" if direction == "LR" else "TB", folding)
    drawn, layout = picture["description"], picture["layout"]
    if direction == "auto" and not fits(layout) and len(drawn["nodes"]) <= _TURNED:
        return {**_in_both(picture, sizes, seconds, direction), "turned": None}
    return picture


def _lay_out(
    graph: Outline, limit: int, seconds: float, direction: Direction, folding: Folding | None
) -> "tuple[Picture, Sizes]":
    """The picture, and the measurements for it."""
    tries = [limit, *(size for size in (NODES, 120, 40, 12) if size < min(limit, len(graph.description["nodes"])))]
    for size, smaller in zip_longest(tries, tries[1:], fillvalue=0):
        outline = shaped(graph, size, folding, ASKED if size == limit else size)
        shape = outline.description
        try:
            with ThreadPoolExecutor(1) as pool:  # graphviz releases the interpreter, so Python code can run meanwhile
                sizes = Sizes.of(shape)
                patience = _PATIENCE if len(shape["nodes"]) > NODES else 1
                answer = pool.submit(_answer, _question(shape, direction, sizes), seconds * patience)
                drawn = detailed(outline)
            layout = _read(shape, direction, answer.result(), sizes)
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
        return found, sizes
    raise AssertionError("unreachable: the last try returns or raises")


def _failed(shape: Description, error: EngineError, description: Description, folded: Collection[str]) -> str:
    """A note of a try that failed, and of the modules that are folded for the next one."""
    why = "took too long" if isinstance(error, LayoutTimeout) else "failed"
    names = [
        scope["label"] for scope in description["scopes"] if scope["id"] in folded and scope["parent"] not in folded
    ]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    instead = f"; folded for it: {', '.join(names[:_NAMED])}{more}" if names else ""
    return f"A layout of {len(shape['nodes'])} nodes {why}{instead}."


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
    picture, sizes = _lay_out(graph, WHOLE, seconds, first, necessary(graph, WHOLE).with_loops(graph, folding))
    drawn = picture["description"]
    inside = Nesting(drawn["scopes"]).sums(Counter([node["scope"] for node in drawn["nodes"]]))
    # A run of calls can be folded even if each call has only one node. The page folds each call alone.
    closed = sorted(scope for scope in folding.closed if inside[scope] > 1)
    picture = _in_both(picture, sizes, seconds, first if closed else direction)
    return {**picture, "folded": closed, "first": _first(graph, seconds, direction, folding, drawn)}


def _first(graph: Outline, seconds: float, direction: Wanted, folding: Folding, drawn: Description) -> Picture | None:
    """The picture that a reader sees first, in both directions; None if it has all that is ``drawn``."""
    if not folding.closed:
        return None
    picture, sizes = _lay_out(graph, WHOLE, seconds, "LR" if direction == "LR" else "TB", folding)
    if len(picture["description"]["nodes"]) >= len(drawn["nodes"]):
        return None
    return _in_both(picture, sizes, seconds, direction)


def _in_both(picture: Picture, sizes: "Sizes", seconds: float, wanted: Wanted) -> Picture:
    """The picture with a layout in each direction; it shows the wanted one."""
    layout, here = picture["layout"], picture["direction"]
    other: Direction = "TB" if here == "LR" else "LR"
    turned: Layout | None = None
    with suppress(LayoutTimeout):
        turned = _placed(picture["description"], other, seconds, sizes)
    if wanted == "auto" and turned is not None and _larger(turned, layout):
        return {**picture, "layout": turned, "direction": other, "turned": layout}
    return {**picture, "turned": turned}


def _larger(turned: Layout, layout: Layout) -> bool:
    """Whether ``layout`` does not fit, and ``turned`` is seen larger by more than the factor ``_LARGER``."""
    return not fits(layout) and scale(turned) > scale(layout) * _LARGER


def _placed(shape: Description, direction: Direction, seconds: float, sizes: "Sizes") -> Layout:
    """Find a place for everything that will be drawn.

    Raises:
        EngineError: graphviz fails; LayoutTimeout if it was stopped after ``seconds``.
    """
    return _read(shape, direction, _answer(_question(shape, direction, sizes), seconds), sizes)


def _question(shape: Description, direction: Direction, sizes: "Sizes") -> str:
    """The input for graphviz; empty if nothing will be drawn."""
    return dot_source(shape, direction, sizes) if shape["nodes"] else ""


def _answer(question: str, seconds: float) -> str:
    return run_graphviz(question, seconds=seconds) if question else ""


# --- the DOT text --------------------------------------------------------------------------------------------------


def dot_source(description: Description, direction: Direction, sizes: "Sizes") -> str:
    """Write a drawable description in the DOT language: sizes and structure, no text of the reader's."""
    description = skeleton(description)
    nesting = Nesting(description["scopes"])
    graphviz = language()
    homes: defaultdict[str | None, Any] = defaultdict(graphviz.Digraph)
    rows = _RankRows.of(description)
    space = {"nodesep": "0.25", "ranksep": "0.34" if direction == "TB" else "0.45"}
    top = homes[None] = graphviz.Digraph(
        graph_attr={"rankdir": direction, **space, "fontname": "Courier", "fontsize": "12"},
        node_attr={"shape": "box", "fixedsize": "true", "label": ""},
        edge_attr={"arrowhead": "none", "fontname": "Courier", "fontsize": f"{LABEL_SIZE:g}"},
    )
    for scope in description["scopes"]:
        # Letters of a known width, as many as the label will need; the label itself is drawn by the renderers.
        letters = int(sizes.texts[scope["id"]] / (12 * _COURIER)) + 2
        attributes = {"label": "x" * letters, "labeljust": "l", "labelloc": "t", "margin": "9"}
        homes[scope["id"]] = graphviz.Digraph(name=f"cluster_{scope['id']}", graph_attr=attributes)
    scope_of: dict[str, str | None] = {}
    for node in description["nodes"]:
        scope_of[node["id"]] = node["scope"]
        _add_box(homes[node["scope"]], node["id"], *sizes.nodes[node["id"]])
    if rows.together:
        top.attr(newrank="true")  # else nodes of different clusters could not stand beside each other
    for ids in rows.together:
        with top.subgraph(graph_attr={"rank": "same"}) as row:
            for id in ids:
                row.node(id)
    labelled = len(description["edges"]) <= _LABELLED
    bundles = {bundle[0]["id"]: bundle for bundle in _bundles(description)}
    for edge in description["edges"]:
        if (bundle := bundles.get(edge["id"])) is not None:
            told = [one for one in bundle if one["id"] in sizes.labels]
            level = rows.level(edge)  # a label there would stand in a row of its own
            room = {"label": _letters(told, direction, sizes)} if labelled and told and not level else {}
            ends = [edge["source"], edge["target"]]
            top.edge(*(reversed(ends) if rows.upwards(edge) else ends), id=edge["id"], **room)
        if edge["reduction"] is None:
            continue
        mark = f"mark-{edge['id']}"
        common = nesting.common(scope_of[edge["source"]], scope_of[edge["target"]])
        _add_box(homes[common], mark, *sizes.marks[edge["id"]])
        # Both halves meet in the middle of the mark, so that the edge has no step there.
        enters, leaves = ("", "") if rows.together else (":n", ":s") if direction == "TB" else (":w", ":e")
        top.edge(edge["source"], mark + enters, id=f"{edge['id']}/0")
        top.edge(mark + leaves, edge["target"], id=f"{edge['id']}/1")
    for before, after in _stacking(description, scope_of, nesting):
        top.edge(before, after, style="invis")
    return nested(top, homes, nesting)


def nested(top: Any, homes: Mapping[str | None, Any], nesting: Nesting) -> str:
    """The text of ``top`` with the scopes in it: ``subgraph`` would copy each line once for each scope around it."""
    inner: defaultdict[str | None, list[str]] = defaultdict(list)
    for scope, parent in nesting.parents.items():
        inner[parent].append(scope)
    *lines, end = top
    waiting: list[tuple[str, str]] = [("", end), *((scope, "") for scope in inner[None])]
    while waiting:
        scope, end = waiting.pop()
        if end:
            lines.append(end)
            continue
        *begin, end = homes[scope].__iter__(subgraph=True)
        lines += begin
        waiting += [("", end), *((one, "") for one in inner[scope])]  # the last one first
    return "".join(lines)


def skeleton(description: Description) -> Description:
    """The parts that graphviz places: boxes without their rows, and frames around more than one of them."""
    alone = single(description)
    parents = {scope["id"]: scope["parent"] for scope in description["scopes"]}
    rows = {node["id"] for node in description["nodes"] if node["row"] is not None}
    return {
        **description,
        "nodes": [
            {**node, "scope": parents[node["scope"]] if node["scope"] in alone else node["scope"]}
            for node in description["nodes"]
            if node["id"] not in rows
        ],
        "edges": [edge for edge in description["edges"] if edge["source"] not in rows],
        "scopes": [scope for scope in description["scopes"] if scope["id"] not in alone],
    }


_OVER = 30.0
"""How far a line over two boxes of a row rises above them: the height of its control points."""

_BESIDE = 6
"""At most this many boxes of a gradient stand in the row of one op; the others stand below or above it."""


class _RankRows(NamedTuple):
    """The boxes that stand beside each other, if a description says so.

    Attributes:
        together: the nodes of each row.
        positions: the rank of each node; a node that stands beside another one has the rank of that.
    """

    together: list[list[str]]
    positions: dict[str, int]

    @classmethod
    def of(cls, description: Description) -> Self:
        """Those of ``description``."""
        positions = {node["id"]: at for at, node in enumerate(description["nodes"])}
        beside = {one: by for one, by in description.get("beside", {}).items() if {one, by} <= positions.keys()}
        beside = {one: by for one, by in beside.items() if one != by}
        rows: defaultdict[str, list[str]] = defaultdict(list)
        for one, by in beside.items():
            rows[by].append(one)
        together = [[by, *ones[:_BESIDE]] for by, ones in rows.items()]
        return cls(together, positions | {one: positions[by] for one, by in beside.items()} if together else {})

    def level(self, edge: Edge) -> bool:
        """Whether a line leads to something in the same row."""
        return bool(self.together) and self.positions[edge["source"]] == self.positions[edge["target"]]

    def upwards(self, edge: Edge) -> bool:
        """Whether a line leads to a row above: gradients reach the ops in reverse order."""
        return bool(self.together) and self.positions[edge["source"]] > self.positions[edge["target"]]


def label_lines(edge: Edge) -> list[str]:
    """The texts on an edge: the shape of the value, and below it that of the gradient, if it differs."""
    back = edge["back"]
    differs = back is not None and (edge["mismatch"] is not None or not edge["label"].startswith(back))
    return [edge["label"], *([f"{NABLA}{back}"] if differs else [])]


def _telling(description: Description) -> list[Edge]:
    """The edges whose label says something that the box of their source does not say."""
    said = {node["id"]: {"()", *node["label"][1:]} for node in description["nodes"]}
    return [edge for edge in description["edges"] if edge["mismatch"] or edge["label"] not in said[edge["source"]]]


def _bundles(description: Description) -> list[list[Edge]]:
    """The edges without a mark, in bundles. Edges with the same ends are one bundle if they lead to another module.

    Graphviz would lead each of them, with its label, past the module's own tensors, and so move the module's box aside.
    The steps of an LSTM, which hand on two tensors, would become a staircase.
    """
    scope_of = {node["id"]: node["scope"] for node in description["nodes"]}
    found: defaultdict[object, list[Edge]] = defaultdict(list)
    for edge in description["edges"]:
        if edge["reduction"] is None:
            source, target = edge["source"], edge["target"]
            found[(source, target) if scope_of[source] != scope_of[target] else edge["id"]].append(edge)
    return list(found.values())


def _letters(edges: list[Edge], direction: Direction, sizes: "Sizes") -> str:
    """Letters that take as much room as the labels of edges that run beside each other."""
    widths, lines = [sizes.labels[edge["id"]] + 10 for edge in edges], [len(label_lines(edge)) for edge in edges]
    more = len(edges) > 1  # the two outer lines need more room at the sides
    width, high = (sum(widths) + more * _ASIDE, max(lines)) if direction == "TB" else (max(widths), sum(lines) + more)
    return "\\n".join(["x" * (int(width / (LABEL_SIZE * _COURIER)) + 1)] * high)


def _stacking(description: Description, scope_of: dict[str, str | None], nesting: Nesting) -> list[tuple[str, str]]:
    """Say which boxes must stand below which, so that modules that follow each other stand below each other.

    Graphviz puts a weight one row above its op, that is beside the end of the module before, and the two modules'
    boxes then can't share a column: a deep net would become a staircase. So the first tensor used inside a module goes
    below what the module had taken from outside before that use. Both come before the use in the record, hence no
    cycle.
    """
    position = {node["id"]: index for index, node in enumerate(description["nodes"])}
    made = {edge["target"] for edge in description["edges"]}
    used: defaultdict[str | None, list[str]] = defaultdict(list)  # by scope: the inputs used there
    first_use: dict[str, int] = {}
    for edge in description["edges"]:
        source, target = edge["source"], edge["target"]
        first_use[source] = min(first_use.get(source, position[target]), position[target])
        used[scope_of[target]].append(source)
    taken = {scope: _ScopeInputs() for scope in nesting.parents}
    outermost: defaultdict[str, list[_Input]] = defaultdict(list)  # by scope: what no scope around it takes
    path: list[str] = []
    for scope in reversed(nesting.inner_first()):
        while path and path[-1] != nesting.parents[scope]:
            path.pop()
        path.append(scope)
        for source in used[scope]:
            outside = _around(scope_of[source], path, nesting)
            if outside < len(path):
                input = _Input(source in made, position[source], source)
                taken[scope].add(input)
                outermost[path[outside]].append(input)
    marked = {edge["source"] for edge in description["edges"] if edge["reduction"] is not None}
    # The tensor with a mark on its edge stands highest among the tensors of an op.
    weights = [
        node["id"]
        for node in sorted(description["nodes"], key=lambda one: (first_use.get(one["id"], 0), one["id"] not in marked))
        if node["id"] not in made and node["id"] in first_use
    ]
    for weight in weights:
        if (inputs := taken.get(scope_of[weight] or "")) is not None:
            inputs.ask(weight, first_use[weight])
    last = _answered(taken, outermost, nesting)
    # One pair for each module says enough. More pairs would pull lines across each other, and one pair for each
    # enclosing scope would make graphviz a hundred times slower.
    pairs: dict[tuple[str, str | None], str] = {}
    for weight in weights:
        if weight in last:
            pairs.setdefault((last[weight], scope_of[weight]), weight)
    return [(before, after) for (before, _), after in pairs.items()]


def _around(home: str | None, path: list[str], nesting: Nesting) -> int:
    """How many of the scopes in ``path``, outermost first, are around ``home``."""
    return bisect_left(path, True, key=lambda scope: not nesting.around(scope, home))


def _answered(
    taken: dict[str, "_ScopeInputs"], outermost: Mapping[str, list["_Input"]], nesting: Nesting
) -> dict[str, str]:
    """The answers for tensors that asked scopes; ``outermost``: by scope, its inputs that no scope around it takes."""
    last: dict[str, str] = {}
    for scope in nesting.inner_first():
        inputs, parent = taken.pop(scope), nesting.parents[scope]
        last.update(inputs.answers())
        inputs.remove(outermost.get(scope, []))
        if parent is not None:
            taken[parent] = taken[parent].joined(inputs)
    return last


class _Input(NamedTuple):
    """An input that a scope takes from outside: whether an op made it, its position in the record, and its node."""

    made: bool
    position: int
    source: str


class _ScopeInputs:
    """The inputs of a scope from outside, and the tensors in it that ask for its last input before their first use.

    A scope hands both on to the one around it. So the work grows with the edges, however deep the scopes are nested.
    """

    def __init__(self) -> None:
        self._found: tuple[list[_Input], list[_Input]] = ([], [])  # what no op made, and results of ops
        self._asked: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return sum(map(len, self._found)) + len(self._asked)

    def add(self, input: _Input) -> None:
        """The scope takes ``input``."""
        insort(self._found[input.made], input)

    def ask(self, tensor: str, first_use: int) -> None:
        """``tensor``, which is first used at position ``first_use``, asks for the last input before that."""
        insort(self._asked, (first_use, tensor))

    def answers(self) -> Iterator[tuple[str, str]]:
        """Each tensor that asked and has an answer: the last result before its use, or the last of what no op made."""
        first = min([found[0].position for found in self._found if found], default=None)
        while first is not None and self._asked and first < self._asked[-1][0]:
            use, tensor = self._asked.pop()
            for made, found in reversed([*enumerate(self._found)]):
                if at := bisect_left(found, _Input(bool(made), use, "")):
                    yield tensor, found[at - 1].source
                    break

    def remove(self, inputs: list[_Input]) -> None:
        """Remove ``inputs``: for the scope around, they do not come from outside."""
        for input in inputs:
            found = self._found[input.made]
            del found[bisect_left(found, input)]

    def joined(self, other: "_ScopeInputs") -> "_ScopeInputs":
        """The two combined: the smaller one is added to the larger one, so that inputs are moved only a few times."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        for input in chain(*small._found):
            large.add(input)
        for first_use, tensor in small._asked:
            large.ask(tensor, first_use)
        return large


def _add_box(graph: Any, name: str, width: float, height: float) -> None:
    graph.node(name, width=f"{width / 72:.4f}", height=f"{height / 72:.4f}")  # one pixel is one point


@dataclass(frozen=True, slots=True)
class Sizes:
    """The measured texts of a drawable description, measured once for its boxes and its drawing.

    Attributes:
        nodes: by id, the width and height of a node's box, in pixels, its rows included.
        below: how far below the top of its op's box a row begins.
        marks: by the id of an edge with a reduction, the size of its mark.
        labels: by the id of an edge that has one, the width of its label.
        texts: those of a ``Layout``.
    """

    nodes: dict[str, tuple[float, float]]
    below: dict[str, float]
    marks: dict[str, tuple[float, float]]
    labels: dict[str, float]
    texts: dict[str, float]

    @classmethod
    def of(cls, description: Description) -> Self:
        """Measure all of ``description``."""
        alone = single(description)
        texts = {
            scope["id"]: text_width(scope["label"], SCOPE_SIZE, bold=True)
            for scope in description["scopes"]
            if scope["id"] not in alone
        }
        marks = {edge["id"]: mark_size(edge) for edge in description["edges"] if edge["reduction"] is not None}
        first = {edge["source"]: edge["id"] for edge in description["edges"]}  # a row has only one edge
        nodes: dict[str, tuple[float, float]] = {}
        rows: defaultdict[str, list[str]] = defaultdict(list)
        for node in description["nodes"]:
            width, height, after = measured(node)
            if node["rule"] is not None:
                texts[node["id"]] = after
            if node["row"] is not None:
                rows[node["row"]].append(node["id"])
                if (mark := marks.get(first[node["id"]])) is not None:
                    width, height = max(width, mark[0] + 2 * INSET), height + mark[1] + 2
            nodes[node["id"]] = width, height
        below = _stacked(nodes, rows)
        for node in description["nodes"]:
            if node["kind"] == "folded":
                width, height = nodes[node["id"]]
                nodes[node["id"]] = width + BEHIND, height + BEHIND
        labels: dict[str, float] = {}
        for edge in [one for one in _telling(description) if one["source"] not in below]:
            value, *back = label_lines(edge)
            labels[edge["id"]] = text_width(value, LABEL_SIZE)
            if back:
                whole, texts[edge["id"]] = gradient_width(back[0], LABEL_SIZE)
                labels[edge["id"]] = max(labels[edge["id"]], whole)
            if edge["id"] in marks:
                width, height = marks[edge["id"]]
                marks[edge["id"]] = max(width, round(labels[edge["id"]]) + 10), height + LABEL_HEIGHT + 2
        return cls(nodes, below, marks, labels, texts)


def _stacked(nodes: dict[str, tuple[float, float]], rows: Mapping[str, list[str]]) -> dict[str, float]:
    """Give each op a size that includes its rows, and each row the width of its op. Return where each row begins."""
    below: dict[str, float] = {}
    for op, inside in rows.items():
        width, height = nodes[op]
        width = max([width, *(nodes[row][0] + 2 * INSET for row in inside)])
        for row in inside:
            below[row] = height
            height += nodes[row][1] + 3
            nodes[row] = width - 2 * INSET, nodes[row][1]
        nodes[op] = width, height + 2
    return below


def mark_size(edge: Edge) -> tuple[float, float]:
    """Return the width and height of the mark of a reduction, in pixels."""
    return round(text_width(mark_text(edge), MARK_SIZE) * WIDER + PAD_X), MARK_HEIGHT


def mark_text(edge: Edge) -> str:
    """The text of the mark of a reduction."""
    assert edge["reduction"] is not None
    return f"{'⚠ ' if edge['reduction']['warning'] else ''}Σ {edge['reduction']['text']}"


# --- graphviz's answer ---------------------------------------------------------------------------------------------


def _read(description: Description, direction: Direction, answer: str, sizes: Sizes) -> Layout:
    drawn, description = description, skeleton(description)
    if not answer:
        size, none = 2 * _EDGE, dict[str, Any]
        return Layout(
            width=size, height=size, nodes=none(), edges=none(), labels=none(), marks=none(), scopes=none(),
            texts=none(),
        )  # fmt: skip
    answered: dict[str, Any] = json.loads(answer)
    left, bottom, right, top = map(float, answered["bb"].split(","))

    def point(text: str) -> list[float]:
        x, y = text.split(",")
        return [round(float(x) - left + _EDGE, 1), round(top - float(y) + _EDGE, 1)]

    objects = {thing["name"]: thing for thing in answered.get("objects", [])}
    runs = _runs(description, answered, objects, point, sizes)
    places = {edge["id"]: point(edge["lp"]) for edge in answered.get("edges", []) if "id" in edge and "lp" in edge}

    def node_box(name: str, size: tuple[float, float]) -> Box:
        return _box(point(objects[name]["pos"]), *size)

    edges, labels = _edges(description, direction, runs, places, sizes)
    marks: dict[str, Box] = {}
    for edge in description["edges"]:
        id = edge["id"]
        if edge["reduction"] is None:
            continue
        edges[id] = [runs[f"{id}/0"], runs[f"{id}/1"]]
        whole = node_box(f"mark-{id}", sizes.marks[id])
        above = LABEL_HEIGHT + 2 if id in sizes.labels else 0.0
        if above:
            labels[id] = {**whole, "height": LABEL_HEIGHT}
        marks[id] = {**whole, "y": round(whole["y"] + above, 1), "height": MARK_HEIGHT}
    scopes: dict[str, Box] = {}
    for scope in description["scopes"]:
        x0, y0, x1, y1 = objects[f"cluster_{scope['id']}"]["bb"].split(",")
        (x, y), (x_end, y_end) = point(f"{x0},{y1}"), point(f"{x1},{y0}")
        scopes[scope["id"]] = {"x": x, "y": y, "width": round(x_end - x, 1), "height": round(y_end - y, 1)}
    placed: Layout = {
        "width": round(right - left + 2 * _EDGE, 1),
        "height": round(top - bottom + 2 * _EDGE, 1),
        "nodes": {node["id"]: node_box(node["id"], sizes.nodes[node["id"]]) for node in description["nodes"]},
        "edges": edges,
        "labels": labels,
        "marks": marks,
        "scopes": scopes,
        "texts": sizes.texts,
    }
    # Rows that were cut would not stand beside each other.
    tall = direction == "TB" and not _RankRows.of(description).together
    found = _with_rows(drawn, in_columns(description, placed) if tall else placed, sizes)
    return left_first(found) if drawn["twins"] else found


def _runs(
    description: Description,
    answered: dict[str, Any],
    objects: dict[str, Any],
    point: Callable[[str], list[float]],
    sizes: Sizes,
) -> dict[str, list[list[float]]]:
    """The line of each edge that graphviz was asked for, from its source to its target."""
    runs = {
        edge["id"]: [point(pair) for pair in edge["pos"].split(";")[0].split()]
        for edge in answered.get("edges", [])
        if "id" in edge and "pos" in edge  # an invisible edge has no id
    }
    rows = _RankRows.of(description)
    for edge in [bundle[0] for bundle in _bundles(description)] if rows.together else ():
        if edge["id"] not in runs:  # graphviz finds no line for some edges within a row
            source, target = edge["source"], edge["target"]
            ends = point(objects[source]["pos"]), point(objects[target]["pos"])
            runs[edge["id"]] = _line(*ends, sizes.nodes[source], sizes.nodes[target])
        elif rows.upwards(edge):
            runs[edge["id"]].reverse()
    return runs


def _line(
    start: list[float], end: list[float], size: tuple[float, float], other: tuple[float, float]
) -> list[list[float]]:
    """A curve from the upper side of one box to that of another: over what stands between them."""
    begin, stop = [start[0], start[1] - size[1] / 2], [end[0], end[1] - other[1] / 2]
    over = min(begin[1], stop[1]) - _OVER
    return [begin, [begin[0], over], [stop[0], over], stop]


def _edges(
    description: Description,
    direction: Direction,
    runs: Mapping[str, list[list[float]]],
    places: Mapping[str, list[float]],
    sizes: Sizes,
) -> tuple[dict[str, list[list[list[float]]]], dict[str, Box]]:
    """The lines of the edges without a mark, those of a bundle beside each other; and their labels."""
    edges: dict[str, list[list[list[float]]]] = {}
    labels: dict[str, Box] = {}
    rows = _RankRows.of(description)
    for bundle in _bundles(description):
        first = bundle[0]["id"]
        for at, edge in enumerate(bundle):
            aside = 0.0 if rows.level(edge) else _ASIDE * (at - (len(bundle) - 1) / 2)
            edges[edge["id"]] = [[[round(x, 1), round(y, 1)] for x, y in beside(runs[first], aside)]]
        if first in places:
            told = [edge for edge in bundle if edge["id"] in sizes.labels]
            labels |= _labels(told, places[first], direction, sizes)
    return edges, labels


def _with_rows(description: Description, placed: Layout, sizes: Sizes) -> Layout:
    """The layout with the rows in the boxes of their ops, and the marks in the rows."""
    boxes, edges, marks = placed["nodes"], placed["edges"], placed["marks"]
    for edge in description["edges"]:
        if (id := edge["source"]) not in sizes.below:
            continue
        box = boxes[edge["target"]]
        width, height = sizes.nodes[id]
        x, y = round(box["x"] + INSET, 1), round(box["y"] + sizes.below[id], 1)
        boxes[id] = {"x": x, "y": y, "width": width, "height": height}
        edges[edge["id"]] = []
        if edge["id"] in sizes.marks:
            wide, high = sizes.marks[edge["id"]]
            x, y = round(x + width - wide - INSET, 1), round(y + height - high - 2, 1)
            marks[edge["id"]] = {"x": x, "y": y, "width": wide, "height": high}
    return {
        **placed,
        "nodes": {node["id"]: boxes[node["id"]] for node in description["nodes"]},
        "edges": {edge["id"]: edges[edge["id"]] for edge in description["edges"]},
    }


def _labels(bundle: list[Edge], middle: list[float], direction: Direction, sizes: Sizes) -> dict[str, Box]:
    """The places of the labels of a bundle, in the order of its edges."""
    x, y = middle
    widths = [sizes.labels[edge["id"]] + 4 for edge in bundle]
    heights = [LABEL_HEIGHT * len(label_lines(edge)) for edge in bundle]
    more = len(bundle) > 1
    x += (more * _ASIDE - sum(widths) - 6 * (len(bundle) - 1)) / 2
    y += (sum(heights) - more * LABEL_HEIGHT) / 2
    labels: dict[str, Box] = {}
    for edge, width, height in zip(bundle, widths, heights, strict=True):
        at = [x + width / 2, middle[1]] if direction == "TB" else [middle[0], y - height / 2 - _ABOVE]
        labels[edge["id"]] = _box(at, round(width), height)
        x, y = x + width + 6, y - height
    return labels


def _box(at: list[float], width: float, height: float) -> Box:
    x, y = at
    return {"x": round(x - width / 2, 1), "y": round(y - height / 2, 1), "width": width, "height": height}
