"""The parts of a drawn graph that graphviz places, and how large they are: found once for both directions."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self, get_args

from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Box, Description, Edge, Form
from nbgrad.widgets.description.short_names import named
from nbgrad.widgets.description.text_metrics import NABLA, WIDER, gradient_width, text_width
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.layout.card import BEHIND, INSET, MARK_HEIGHT, PAD_X, Measured, measured

Direction = Literal["TB", "LR"]
NAME: Form = "name"
SHORT: Form = "short"

MARK_SIZE, SCOPE_SIZE, LABEL_SIZE = 11.0, 11.0, 11.0
LABEL_HEIGHT = 13.0
ASIDE = 14.0
"""The distance between edges that run side by side: each edge has two lines."""


@dataclass(frozen=True, slots=True)
class PictureParts:
    """The parts of a drawable description that graphviz places: boxes without rows, and frames around several boxes.

    Attributes:
        drawn: all of the description.
        placed: the same without rows, and without frames around a single op.
        tree: that of all of the description.
        rows: the boxes that stand beside each other.
        bundles: the edges without a mark, those that run beside each other together.
        sizes: of all texts.
        known: the sizes of boxes in other forms, each of which is measured once.
        narrow: whether names are cut: then the marks between them are only signs.
    """

    drawn: Description
    placed: Description
    tree: Tree
    rows: "RankRows"
    bundles: list[list[Edge]]
    sizes: "Sizes"
    known: "dict[tuple[str, Form], Measured]" = field(default_factory=dict)
    narrow: bool = False

    @classmethod
    def of(cls, outline: Outline) -> Self:
        """Those of the outline of a drawable description."""
        drawn, placed = outline.description, _skeleton(outline.description)
        return cls(drawn, placed, outline.tree, RankRows.of(placed), _bundles(placed), Sizes.of(drawn))

    def named(self, letters: int) -> Self:
        """The same with names cut to ``letters`` letters in boxes that are only names."""
        return replace(self, drawn={**self.drawn, "nodes": named(self.drawn["nodes"], letters)}, known={}, narrow=True)

    def formed(self, forms: Mapping[str, Form]) -> Self:
        """The same with boxes in these forms; a box that is not named is a card."""
        sizes = self.sizes.formed(self.drawn, forms, self.known, narrow=self.narrow) if forms else self.sizes
        return replace(self, sizes=sizes)


def _skeleton(description: Description) -> Description:
    """The parts that graphviz places: boxes without their rows, and frames around more than one of them."""
    alone = {scope["id"] for scope in description["scopes"] if scope["op"] is not None}
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


_ENDS: tuple[Literal["source", "target"], ...] = ("source", "target")

_BESIDE = 6
"""At most this many boxes of a gradient stand in the row of one op; the others stand below or above it."""


class RankRows(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Sizes:
    """The measured texts of a drawable description, measured once for its boxes and its drawing.

    Attributes:
        nodes: by id, the width and height of a node's box, in pixels, its rows included.
        below: how far below the top of its op's box a row begins.
        marks: by the id of an edge with a reduction, the size of its mark.
        labels: by the id of an edge that has one, the width of its label.
        texts, forms, shrunk: those of a ``Layout``.
    """

    nodes: dict[str, tuple[float, float]]
    below: dict[str, float]
    marks: dict[str, tuple[float, float]]
    labels: dict[str, float]
    texts: dict[str, float]
    forms: Mapping[str, Form]
    shrunk: dict[str, float]

    @property
    def tightest(self) -> Form:
        """The form with the least detail that there is."""
        return max([self.forms[id] for id in self.nodes.keys() & self.forms], key=get_args(Form).index, default="card")

    @classmethod
    def of(cls, description: Description) -> Self:
        """Measure all of ``description``."""
        texts = {
            scope["id"]: text_width(scope["label"], SCOPE_SIZE, bold=True)
            for scope in description["scopes"]
            if scope["op"] is None
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
        return cls(nodes, below, marks, labels, texts, {}, {})

    def formed(
        self,
        description: Description,
        forms: Mapping[str, Form],
        known: dict[tuple[str, Form], Measured],
        *,
        narrow: bool = False,
    ) -> Self:
        """Those of cards, with the boxes of ``forms`` in these forms. What is in such a box is drawn smaller.

        If it is ``narrow``, the marks between two names are only signs.
        """
        nodes, below, marks = dict(self.nodes), dict(self.below), dict(self.marks)
        texts, shrunk = dict(self.texts), dict[str, float]()
        folded = {node["id"] for node in description["nodes"] if node["kind"] == "folded"}
        for node in description["nodes"]:
            if (form := forms.get(node["id"])) is None:
                continue
            behind = BEHIND * (node["id"] in folded)
            if (found := known.get((node["id"], form))) is None:
                found = known[node["id"], form] = measured(node, form)
            (width, height, after), (wide, high) = found, self.nodes[node["id"]]
            if width >= wide - behind and height >= high - behind:
                continue
            nodes[node["id"]] = width + behind, height + behind
            if node["rule"] is not None:
                texts[node["id"]] = after
            shrunk[node["id"]] = round(min(1.0, width / (wide - behind), height / (high - behind)), 3)
        for edge in [one for one in description["edges"] if one["source"] in below and one["target"] in shrunk]:
            row, by = edge["source"], shrunk[edge["target"]]
            behind = BEHIND * (edge["target"] in folded)
            nodes[row] = nodes[edge["target"]][0] - behind - 2 * INSET * by, nodes[row][1] * by
            below[row], shrunk[row] = below[row] * by, by
            if edge["id"] in marks:
                marks[edge["id"]] = marks[edge["id"]][0] * by, marks[edge["id"]][1] * by
        formed = {id: form for id, form in forms.items() if id in shrunk}
        outside = [edge for edge in description["edges"] if edge["source"] not in below]
        labels = _between(outside, formed, marks, self.labels, narrow=narrow)
        return replace(
            self, nodes=nodes, below=below, marks=marks, labels=labels, texts=texts, forms=formed, shrunk=shrunk
        )


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


def _between(
    edges: list[Edge],
    formed: dict[str, Form],
    marks: dict[str, tuple[float, float]],
    labels: dict[str, float],
    *,
    narrow: bool,
) -> dict[str, float]:
    """Give the marks between boxes that are no cards a form and a size. Return the labels that stay.

    Between two names a label would say more than the boxes themselves.
    """
    left = dict(labels)
    for edge in edges:
        id, ends = edge["id"], {formed.get(edge[end]) for end in _ENDS}
        bare = ends == {NAME} and (narrow or id not in marks)
        if bare:
            left.pop(id, None)
        if id in marks and None not in ends:
            form = formed[id] = NAME if bare else SHORT
            width, height = mark_size(edge, form)
            marks[id] = (width, height) if bare else (max(width, round(labels.get(id, 0.0)) + 10), marks[id][1])
    return left


def mark_size(edge: Edge, form: Form = "card") -> tuple[float, float]:
    """Return the width and height of the mark of a reduction, in pixels."""
    assert edge["reduction"] is not None
    expansion = edge["reduction"]["expansion"] if form == SHORT else ""
    widest = max(text_width(one, MARK_SIZE) for one in (mark_text(edge, form), expansion))
    return round(widest * WIDER + PAD_X), MARK_HEIGHT


def mark_text(edge: Edge, form: Form = "card") -> str:
    """The text of the mark of a reduction; a short one does not repeat the shape before the sum, or is only a sign."""
    assert edge["reduction"] is not None
    text = edge["reduction"]["text"]
    said = {"card": text, "short": text.partition(" -> ")[2]}.get(form, "")
    return f"{'⚠ ' if edge['reduction']['warning'] else ''}Σ {said}".rstrip()


def overlap(one: Box, other: Box, room: float = 0.0) -> bool:
    """Whether two boxes have a point in common, or are less than ``room`` apart."""
    return (
        one["x"] < other["x"] + other["width"] + room
        and other["x"] < one["x"] + one["width"] + room
        and one["y"] < other["y"] + other["height"] + room
        and other["y"] < one["y"] + one["height"] + room
    )
