"""The plain description of a recorded graph: what text, SVG and the widget all draw.

A description is data that JSON can carry: strings, numbers, booleans, lists, dicts and None. There is no tensor in
it and no markup. Every number that a reader sees arrives as text that Python has formatted, so the three renderings
never disagree; every name may be hostile and is text, never markup, in each of them.
"""

from typing import Literal, TypedDict

Kind = Literal["op", "parameter", "leaf", "constant", "outside", "folded"]
"""What a node is.

op: an operation that the engine recorded; parameter: an ``nn.Parameter``; leaf: another tensor made by the user that
needs a gradient; constant: a tensor that needs none; outside: the result of an operation that ran before this graph
was opened; folded: several ops drawn as one because the graph was too large (made by the layout, never by describe).
"""


class Detail(TypedDict):
    """One row of a node's details, in reading order."""

    term: str
    text: str  # may have several lines; to be shown preformatted when it has


class Formula(TypedDict):
    """A formula of the op: of its forward (``of`` is empty) or of the gradient of one input (``of`` is its name)."""

    of: str
    latex: str
    mathml: str  # one <math> element, from the op's own row


class Node(TypedDict):
    """An op (with the tensor it made) or a tensor that no recorded op made."""

    id: str  # "n0", "n1", ... in record order, which is a topological order: sources first
    kind: Kind
    root: bool  # a backward started here
    label: list[str]  # the lines drawn in the box, short, already shortened with an ellipsis
    scope: str | None  # id of the innermost module scope
    details: list[Detail]
    formulas: list[Formula]


class Reduction(TypedDict):
    """A broadcast that the engine undid: the gradient was summed down to the shape of the input."""

    text: str  # "(32, 10) -> (10,): sum dim 0"
    dims: list[int]
    terms: int  # how many numbers were added for each one kept


class Edge(TypedDict):
    """A tensor that an op took; ``source`` made or is it."""

    id: str  # "e0", "e1", ...
    source: str
    target: str
    input: str  # the name of the op's input, as its row has it
    label: str  # shape and dtype of the value: "(32, 10) float32"
    gradient: str | None  # shape and norm of the gradient that came back along it, None if none did
    reduction: Reduction | None


class Scope(TypedDict):
    """A module call: a box around the nodes it recorded."""

    id: str  # "s0", "s1", ... outer before inner
    label: str  # "MLP", "layers.0 (Linear)"
    parent: str | None


class Description(TypedDict):
    """The whole graph."""

    version: int
    name: str
    summary: str  # one sentence: "4 ops, 3 tensors, 1 broadcast reduction; backward from loss"
    notes: list[str]  # sentences that the reader must see: what is left out, and why
    nodes: list[Node]
    edges: list[Edge]
    scopes: list[Scope]


class Box(TypedDict):
    """A rectangle, in pixels, from the top left corner of the drawing."""

    x: float
    y: float
    width: float
    height: float


class Layout(TypedDict):
    """Where everything stands, in pixels, from the top left corner. Keys are ids of the description."""

    width: float
    height: float
    nodes: dict[str, Box]
    edges: dict[
        str, list[list[list[float]]]
    ]  # cubic Bezier runs of 3k+1 points each; two runs when a mark cuts the edge
    marks: dict[str, Box]  # by edge id: the box with the reduction's text
    scopes: dict[str, Box]


class Picture(TypedDict):
    """What the front end gets: the description as drawn (perhaps folded) and its layout."""

    description: Description
    layout: Layout
