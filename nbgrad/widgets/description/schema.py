"""The plain description of a recorded graph: text, SVG and the widget all draw it.

A description is data that JSON can carry: strings, numbers, booleans, lists, dicts and None. There is no tensor in it
and no markup. Every number that a reader sees arrives as text that Python has formatted, so the three renderings never
disagree; every name may be hostile and is text, never markup, in each of them.

Folding, placing and the table do not read the details, the heat maps, the sums and the steps. An ``Outline`` is a
description without these, and writes them for the drawn parts.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from nbgrad.core.translation import SOURCE, language

PYTHON_ONLY = "not sent to the front end"
"""Marks the fields that only the renderings in Python read."""

Kind = Literal["op", "parameter", "leaf", "input", "constant", "outside", "folded", "failed"]
"""The kind of a node.

op: an operation that the engine recorded; parameter: an ``nn.Parameter``; leaf: another tensor made by the user that
needs a gradient; input: a tensor with a name that needs none, such as data; constant: any other that needs none;
outside: the result of an operation that ran before this graph was opened; folded: module calls drawn as one node (made
by the layout, never by describe); failed: the operation that raised.
"""


ScopeKind = Literal["module", "iteration", "part", "section", "layer", "derivative"]
"""The kind of a scope.

module: the call of a module; iteration: one of a loop that calls no module; part: a block that the user named, a part
of a program, or one of two graphs; section: a part of a long record; layer: a linear map or a norm, and its activation;
derivative: the ops of a backward whose gradients can be differentiated.
"""

GROUPS: tuple[ScopeKind, ...] = ("section", "layer", "derivative")
"""The kinds of scopes that only folding needs: no frame is drawn around one, unless a reader unfolds it."""


def kind_of(kind: str, name: str | None) -> Kind:
    """The name in the description for ``kind`` of a graph, for a node with or without a name."""
    return "input" if kind == "constant" and name else kind  # type: ignore[return-value]  # the graph's are among ours


class Detail(TypedDict):
    """One row of a node's details, in reading order."""

    term: str
    text: str  # may have several lines; to be shown preformatted when it has
    role: NotRequired[Literal["code", "results", "gradient", "unknown", "parts", "source"]]
    # code: it names the tensor in the user's code; results: the op has several results; gradient: it tells how large a
    # gradient is; unknown: it tells why a gradient is not known; parts: what is in a folded node; source: the line
    # that called the op


class Formula(TypedDict):
    """A formula of the op: of its forward (``of`` is empty) or of the gradient of one input (``of`` is its name)."""

    of: str
    latex: str
    mathml: str  # one <math> element, from the op's own row


class OpText(TypedDict):
    """The facts of the op table about an op, once for all nodes that ran it."""

    what: str
    why: str  # why it appears in networks; may be empty
    formulas: list[Formula]
    symbols: list[Formula]  # the symbol of each input (``of``), and of the gradient of the result (``of`` is empty)


class Look(TypedDict):
    """The numbers of a tensor, as they are shown."""

    facts: str  # statistics, one or two lines
    columns: int  # how many columns the heat map has; 0 where there is no heat map
    levels: (
        str  # one character per number, row by row: "A" most negative, "M" zero, "Y" most positive, "n" NaN, "i" Inf
    )
    cells: list[str]  # the numbers as text where there are few
    bars: list[int]  # a histogram, in percent of its tallest bar
    low: str  # where the histogram begins, and where it ends
    high: str
    sample: str  # how many of how many numbers the histogram is of; empty if it is of all


class Numbers(TypedDict):
    """All numbers of one tensor, which the kernel looks up when it is asked for them."""

    node: str
    of: Literal["value", "gradient"]
    said: str  # what a cell of the map shows; or why there is no map
    look: Look | None
    rows: list[str]  # the first ones, as text


class Supposed(TypedDict):
    """The answer to: what if these numbers of leaves and inputs were others. All numbers are texts."""

    node: str  # the node that was asked about
    said: str  # why there was no run; empty if there was one
    notes: list[str]  # how a run differs from the recorded one
    shape: list[int] | None  # of the node, if its numbers can be changed; None for an op, or if they cannot
    whole: bool  # whether its numbers are integers
    place: int  # the position, in row order, of the number that the slider changes
    number: str  # that number, in this run
    was: str  # that number in a run without a change
    grid: list[str]  # all of its numbers in this run, where they are few
    texts: dict[str, list[str]]  # by node: the lines of its value and gradient; for an empty text the old line stays
    edges: dict[str, str]  # by edge of the node: the gradient that came back along it
    value: Look | None  # of the node, in this run
    gradient: Look | None
    result: str  # what became of the loss: it is read aloud
    nudge: str  # the finite difference beside the gradient, if it was asked for


BadgeKind = Literal["nan", "unreached", "inplace", "failed", "warning"]
"""The sign of each kind of finding; any other kind has the sign of a warning."""


Spoiled = Literal["value", "gradient", "inside"]
"""The numbers of a node that have a NaN: its value or its gradient, which may also have an Inf; or those in its box."""


class Badge(TypedDict):
    """Something that the reader must see at a node."""

    kind: BadgeKind
    text: str


class Bars(TypedDict):
    """A small chart of gradient norms, on the logarithmic scale that the colours have too."""

    heights: str  # a letter for each bar, from "A", the smallest of all, to "Z"; "-" for no bar
    text: str  # what the bars are: it is read aloud


class Node(TypedDict):
    """An op (with the tensor it made) or a tensor that no recorded op made."""

    id: str  # "n0", "n1", ... in record order, which is a topological order: sources first
    kind: Kind
    root: bool  # a backward started here
    label: list[str]  # the lines drawn in the box, short, already shortened with an ellipsis
    numbers: list[int]  # the lines of the label that are its value: the first one, and the one after them; or empty
    full: str  # the first line and what follows in it, unshortened; empty if nothing was shortened
    cuts: list[str]  # the first line of a short box, and of a box that is only a name; empty if it is short anyway
    about: str  # in the first line, after the name: settings, such as "× 2.5"; the module if this is its only op
    row: str | None  # id of the op in whose box this tensor is a row; None before drawing and for other nodes
    rule: str | None  # the last line, of the backward: "∇ -0.25", "∇ norm 3"; None if no gradient came
    scope: str | None  # id of the innermost module scope
    op: str | None  # key of the description's ops
    variable: str  # of an op: the user's name of its result; empty if it has none, and for other nodes
    details: list[Detail]
    value: Look | None
    gradient: Look | None
    badges: list[Badge]
    spoiled: list[Spoiled]
    levels: dict[str, float]  # by key of an overlay: a level from 0 to 1, or the position of its class
    holds: list[str]  # ids of the module calls that a folded node stands for
    calls: ScopeKind | None  # what these are; None if it is not folded
    norms: list[str]  # the norm of its gradient in each frame; empty where there are too many to be written out
    past: str  # these norms as levels, a letter for each frame, from "A", the smallest of all, to "Z"; "-" for none
    bars: Bars | None  # a small chart of the nodes inside, if this is a folded node
    bytes: int  # the bytes that it keeps for the backward; a storage that several nodes keep counts for each of them
    line: int  # of an op: the line of the cell, or of the file, that most ops were called from; 0 for the others


def plain_node(name: str, kind: Kind, label: list[str], details: list[Detail]) -> Node:
    """A node with the id ``name``, and with nothing but its label and its details."""
    return Node(
        id=name, kind=kind, root=False, label=label, numbers=[], full="", cuts=[], about="", row=None, rule=None,
        scope=None, op=None, variable="", details=details, value=None, gradient=None, badges=[], spoiled=[], levels={},
        holds=[], calls=None, norms=[], past="", bars=None, bytes=0, line=0,
    )  # fmt: skip


class Reduction(TypedDict):
    """A broadcast that the engine undid: the gradient was summed down to the shape of the input."""

    text: str  # "(32, 10) -> (10,): sum dim 0"
    expansion: str  # what it undid in the forward: "(10,) → (32, 10)"
    dims: list[int]
    terms: int  # how many numbers were added for each one kept
    words: str  # what happened, in two sentences
    sums: list[str]  # the first sums written out: "grad[0] = 1 + 1 = 2"
    incoming: Look | None
    reduced: Look | None
    warning: str | None  # why it was probably not meant


class Edge(TypedDict):
    """A tensor that an op took. ``source`` is the node that made it, or its own node."""

    id: str  # "e0", "e1", ...
    source: str
    target: str
    input: str  # the name of the op's input, as its row has it
    label: str  # shape and dtype of the value: "(32, 10) float32"
    back: str | None  # shape of the gradient that came back along it: "(32, 10)", None if none did
    gradient: str | None  # the same with its norm; empty if the gradient is computed in boxes of its own
    mismatch: str | None  # the fault, if the gradient does not fit the value
    spoiled: int  # 1 if the gradient has a NaN or an Inf, else 0: it takes fewer bytes than a truth value
    reduction: Reduction | None


def plain_edge(id: str, source: str, target: str, input: str, label: str) -> Edge:
    """An edge along which no gradient came."""
    return Edge(
        id=id, source=source, target=target, input=input, label=label, back=None, gradient=None, mismatch=None,
        spoiled=0, reduction=None,
    )  # fmt: skip


class Scope(TypedDict):
    """A module call, or an iteration of a loop: a box around the nodes it recorded."""

    id: str  # "s0", "s1", ... outer before inner
    kind: ScopeKind
    name: Annotated[str, PYTHON_ONLY]  # of a module its path, of an iteration its number, else the label
    like: Annotated[
        str, PYTHON_ONLY
    ]  # what equal ones share: the class of a module, the lines of a loop, else the label
    label: str  # "MLP", "layers.0 (Linear)"
    full: str  # the label, unshortened; empty if it was not shortened
    parent: str | None
    folds: str  # the line under the label when it is folded: "4 ops, 2 parameters (330)"
    op: str | None  # the only op drawn in it, whose box names it in place of a frame; None if there are more
    bytes: int  # the bytes that the ops in it keep for the backward together: a storage of several counts once
    variant: Annotated[int, PYTHON_ONLY]  # of an iteration, which branch it took: equal ones have equal numbers, from 0


def plain_scope(id: str, name: str, parent: str | None, folds: str) -> Scope:
    """A part of a picture that is no call of a module, with the label ``name``."""
    return Scope(
        id=id, kind="part", name=name, like=name, label=name, full="", parent=parent, folds=folds, op=None,
        bytes=0, variant=0,
    )  # fmt: skip


class Given(TypedDict):
    """The gradient that one rule of a step passed on."""

    edge: str
    text: str  # "to b: (10,), norm 0.25"
    came: str  # the end of this text: "(10,), norm 0.25"
    reduction: str | None
    sum: str | None  # where paths meet: how many have arrived, and the sum when it is complete


class Rewrite(TypedDict):
    """The change of a step of a program by a pass."""

    after: str  # the node that replaces the step
    details: list[Detail]  # the steps before and after, the line and what it saves


class Step(TypedDict):
    """One stop of the backward: the rules of one op ran. In the picture of a program: one rewrite."""

    node: str
    rules: list[int]  # the first and the last that ran in it, counted from 1, and how many ran in all
    title: str  # "the rule of mul, line 3"
    incoming: str
    given: list[Given]
    rewrite: NotRequired[Rewrite]


class Overlay(TypedDict):
    """Something that nodes can be coloured and sized by."""

    key: str
    label: str
    low: str  # the ends of the scale as text; empty for classes
    high: str
    classes: list[str]  # what the positions mean; empty for a scale
    colours: NotRequired[list[str]]  # the colour of each class, "#2a9d8f"; empty for one of the page's own


class Verdict(TypedDict):
    """The gradients of one module, in words."""

    kind: Literal["vanishing", "exploding", "none", "sound"]
    scope: str | None
    name: Annotated[str, PYTHON_ONLY]  # the label of the module, without those around it
    text: str


class Frame(TypedDict):
    """One of the backwards that ran."""

    number: int  # which backward it was, from 1
    title: str  # "backward 120, loss 0.34"
    loss: NotRequired[str]  # the name of the number that it started from, if it is not the same in all frames
    value: str  # the text in the box that the backward started from: "value 0.34"; empty if it is not known
    structure: int  # frames of one structure ran through the same ops on the same shapes


class Curve(TypedDict):
    """The numbers of one parameter over the frames."""

    node: str
    label: str
    heights: list[int | None]  # in percent, on a scale that all curves of a chart share; mostly it is logarithmic
    text: str  # what it did: "0.12 to 0.003, 40 times smaller"


class Chart(TypedDict):
    """The curve of the loss, or the curves of parameters, over the frames."""

    title: str  # "gradient norm"
    text: str  # what it is, and from where to where the scale goes
    low: str  # the ends of the scale
    high: str
    guide: int | None  # the height of a straight line that the text explains
    numbers: list[int]  # of the backwards of the heights; empty if each frame has one
    curves: list[Curve]


class Difference(TypedDict):
    """The differences between the frames of two structures."""

    before: int
    after: int
    lines: list[str]


class History(TypedDict):
    """Every backward that is remembered, oldest first; without frames if there was only one."""

    frames: list[Frame]
    loss: Chart | None  # of what the backwards started from, if it is one number
    charts: list[Chart]  # of the gradient norms, and of what the steps changed if that was measured
    differences: list[Difference]


class MemoryTimeline(TypedDict):
    """The bytes that live while each op runs. If there are many ops, a column stands for several: for the largest."""

    text: str  # "723 KiB kept for the backward; at most 1.5 MiB live at once, at the backward of linear"
    line: Annotated[str, PYTHON_ONLY]  # the totals as bars of text
    parts: list[str]  # "parameters", "activations", ...
    ops: list[str]  # by column, the name of the op: those of the forward, and then those of the backward
    sizes: list[list[int]]  # by part, the bytes of each column
    forward: int  # how many columns are of the forward
    peak: int  # the column with the most bytes


class KeptBytes(TypedDict):
    """The storages that nodes keep for the backward."""

    sizes: list[int]  # their bytes
    nodes: dict[str, list[int]]  # by node, the places of its storages in this list
    hidden: list[str]  # the nodes that may keep more, which torch does not show


class HiddenReduction(TypedDict):
    """Reductions of one text, between two boxes of the same names, that are inside a folded node."""

    node: str  # the folded node
    ends: str  # "bias → add"
    text: str
    warning: str | None
    many: int


class HiddenNode(TypedDict):
    """Nodes inside a folded node for which all these fields are the same."""

    node: str  # the folded node
    label: str  # its name, after the modules that it is in
    words: str  # other words by which the search finds it: shape, dtype and kind
    norms: list[str]  # as those of a node, if it is learned
    many: int


class Hidden(TypedDict):
    """The contents of folded nodes that lists still name."""

    reductions: list[HiddenReduction]
    nodes: list[HiddenNode]


class Ranked(TypedDict):
    """An op or a tensor that learns, drawn or inside a folded node."""

    node: str
    name: str  # with the path of its module: "layers.0.linear1.weight"
    kind: Kind
    scope: str | None  # id of the innermost scope


class RankingColumn(TypedDict):
    """One number of each."""

    key: str  # "gradient", "update", "size", "time", "forward", "backward" or "saved"
    title: str
    cells: list[str]  # of each row, as text; empty if it has no such number
    order: list[int]  # the rows that have one, the largest first


class Ranking(TypedDict):
    """The numbers by which the table can be sorted."""

    columns: list[RankingColumn]
    rows: list[Ranked]
    parents: dict[str, str]  # of each scope that a row is in, the one around it
    note: str  # which rows are left out; empty if none is


class Problem(TypedDict):
    """Something that the reader must know of, and where it is drawn, if it is."""

    kind: BadgeKind
    text: str
    node: str | None


class Question(TypedDict):
    """A gradient that the reader is asked for. It tells whether an answer is right, and holds none."""

    node: str
    name: str
    shape: list[int]
    rtol: float  # how far an answer may be off, as a part of the right one
    atol: float  # how far it may be off in addition, as a number
    offsets: list[float]  # for each number, row by row: where the cells begin, as in ``questions.py``
    seals: list[int]  # for each number, row by row: the checksum of the right cell


class Term(TypedDict):
    """A part of a sum."""

    node: str
    name: str  # its variable, with its factor: "0.1 × b"
    minus: bool  # whether it is subtracted


class LossText(TypedDict):
    """A number from which the last backward started."""

    node: str
    name: str  # its variable, or its op
    text: str  # the number


class Description(TypedDict):
    """The whole graph."""

    version: int
    name: str
    summary: str  # one sentence: "4 ops, 3 tensors, 1 broadcast reduction; backward from loss"
    totals: str  # in few letters: "1.2 M parameters, 31 ms, 2.4 MiB kept for the backward"; may be empty
    losses: list[LossText]
    notes: list[str]  # sentences that the reader must see: the parts left out, and why
    stopped: bool  # by an error, which the first note tells
    nodes: list[Node]
    edges: list[Edge]
    scopes: list[Scope]
    ops: dict[str, OpText]
    formulas: dict[str, str]  # MathML of the modules' formulas, by the LaTeX that stands in the details
    steps: list[Step]
    overlays: list[Overlay]
    colour: str  # the key of the overlay that is shown first; empty for none
    copies: dict[str, str]  # by id of a copy of a tensor, which is drawn once per use: the tensor
    twins: dict[str, str]  # of two graphs side by side, the counterpart of each node and scope, both ways
    verdicts: list[Verdict]
    problems: list[Problem]
    outcome: str  # of all checks: "✓ no findings in 11 checks"; empty where there are findings
    checked: list[str]  # what was looked at and is sound, a line for each check; then what could not be judged
    history: History
    hidden: Hidden
    memory: MemoryTimeline | None  # where it is worth a word
    living: list[str]  # the node of each column of this
    ranking: Ranking
    questions: NotRequired[list[Question]]  # what the reader may still answer
    language: NotRequired[str]  # of its texts, as "de"; left out for English
    texts: NotRequired[dict[str, str]]  # those of the page in this language, by their English; only as it is sent
    unknown: Annotated[NotRequired[list[str]], PYTHON_ONLY]  # the nodes whose gradient the reader does not see yet
    kept: Annotated[NotRequired[KeptBytes], PYTHON_ONLY]
    sums: Annotated[NotRequired[dict[str, list[Term]]], PYTHON_ONLY]  # by node: the parts of a loss that is a sum
    beside: Annotated[NotRequired[dict[str, str]], PYTHON_ONLY]  # by node: the node beside which it stands


def plain_description(version: int, name: str, summary: str) -> Description:
    """A description of nothing, in the language of the texts that are made now."""
    history = History(frames=[], loss=None, charts=[], differences=[])
    made = Description(
        version=version, name=name, summary=summary, totals="", losses=[], notes=[], stopped=False, nodes=[], edges=[],
        scopes=[], ops={}, formulas={}, steps=[], overlays=[], colour="", copies={}, twins={}, verdicts=[], problems=[],
        outcome="", checked=[], history=history, hidden=Hidden(reductions=[], nodes=[]), memory=None, living=[],
        ranking=Ranking(columns=[], rows=[], parents={}, note=""),
    )  # fmt: skip
    if (spoken := language()) != SOURCE:
        made["language"] = spoken
    return made


class Box(TypedDict):
    """A rectangle, in pixels, from the top left corner of the drawing."""

    x: float
    y: float
    width: float
    height: float


class Jump(TypedDict):
    """The sign at one end of lines that are too long to be followed: they go on at the same letters."""

    letters: str  # one for each tensor: "a" or "a c"
    text: str  # what stands at the other end: "cat" or "→ linear, add"; empty where there is no room
    node: str  # the box beside which it stands
    edges: list[str]
    box: Box


Form = Literal["card", "short", "line", "name"]
"""The content of a box: all its lines and rows; its name, shape and gradient in two lines, or in one; or its name."""


class Layout(TypedDict):
    """Where everything stands, in pixels, from the top left corner. Keys are ids of the description."""

    width: float
    height: float
    nodes: dict[str, Box]
    edges: dict[
        str, list[list[list[float]]]
    ]  # cubic Bezier runs of 3k+1 points each; two runs at a mark or for a jump, none when the source is a row
    labels: dict[str, Box]  # by edge id: the place of the label; an edge has one if no box says the same
    marks: dict[str, Box]  # by edge id: the box with the text of the reduction; inside the row of its source, if any
    scopes: dict[str, Box]  # without the scopes of a single op: the box of the op names the module
    jumps: list[Jump]  # of the edges that have two runs and no mark: a short line at each end
    forms: dict[str, Form]  # of the boxes that are no cards, and of the marks between two such boxes
    # By node: how much smaller than at its place in a card all of it is drawn, where a box has room for less than its
    # card. A row has the factor of its op.
    shrunk: dict[str, float]
    # The widths of texts by id: the label of a scope; the line of a gradient after its sign, for a node or an edge.
    texts: Annotated[dict[str, float], PYTHON_ONLY]


Opens = Literal["graph", "steps", "flow"]
"""The first content of a view: the graph, the first step of the backward, or the forward alone."""


class Picture(TypedDict):
    """The data for the front end: the description as drawn (perhaps folded) and its layout."""

    description: Description
    layout: Layout
    direction: Literal["TB", "LR"]
    turned: Layout | None  # the same in the other direction, where no kernel can be asked for it
    folded: list[str]  # scopes that the front end itself folds at first
    opens: Opens
    stage: list[float]  # the width and the height for which it was laid out
    first: "Picture | None"  # the picture shown until something is folded or unfolded; None: this one
    large: "Picture | None"  # the picture with the letters of a projector, where no kernel can be asked for it
    projected: bool  # whether it is seen with these letters in its page, too
