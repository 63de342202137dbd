"""From a program to the plain description that every rendering draws."""

from collections.abc import Iterator
from typing import NamedTuple

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.symbolic.ir import Listing, ProgramStep, RowCall, Value
from nbgrad.widgets.describe import op_text
from nbgrad.widgets.description.format import byte_text, counted, shape_text
from nbgrad.widgets.description.history import NONE
from nbgrad.widgets.description.schema import Description, Detail, Edge, Kind, Node, OpText, Scope

_PARTS = {"forward": "forward", "backward": "gradient", "update": "optimizer"}
"""The outermost boxes, by the phase of a step."""


class Drawn(NamedTuple):
    """What is drawn as one box: a row that is whole, or a step.

    Attributes:
        steps: what it stands for.
        row: the row; None for a step outside of any, or of a row that a pass has changed.
    """

    steps: list[ProgramStep]
    row: RowCall | None

    @property
    def name(self) -> str:
        """The name of the op or of the function of torch."""
        return self.row.op.name if self.row is not None else self.steps[0].name

    def inputs(self) -> Iterator[Value]:
        """The values that it reads and does not make."""
        made = {id(value) for step in self.steps for value in step.results()}
        seen: set[int] = set()
        for step in self.steps:
            for value in step.inputs():
                if id(value) not in made and id(value) not in seen:
                    seen.add(id(value))
                    yield value

    def results(self) -> list[Value]:
        """The values that it makes."""
        return [value for step in self.steps for value in step.results()]


def drawn(listing: Listing) -> list[Drawn]:
    """The boxes of a program: a row that is whole is one."""
    whole = {id(row) for row in listing.rows()}
    boxes: list[Drawn] = []
    for step in listing.steps:
        row = step.row if step.row is not None and id(step.row) in whole else None
        if row is not None and boxes and boxes[-1].row is row:
            boxes[-1].steps.append(step)
        else:
            boxes.append(Drawn([step], row))
    return boxes


_LEGEND = "A dashed line is a value. The gradient is computed by boxes of its own."


def describe_program(*parts: tuple[str, Listing]) -> Description:
    """The description of a program: forward, gradient and optimizer as three boxes, with the modules in them.

    Args:
        parts: the program with the empty string; or several, each with the label of a box around it, as "before" and
            "after" a pass.
    """
    drawing = _Drawing()
    for label, listing in parts:
        drawing.add(label, listing)
    (_, first), *others = parts
    counts = [counted(len(listing.steps), "step") for _, listing in parts]
    return Description(
        version=1,
        name=f"program {first.name}",
        summary=", ".join(f"{label}: {count}" for (label, _), count in zip(parts, counts, strict=True))
        if others
        else _summary(first),
        notes=[_LEGEND],
        stopped=False,
        nodes=drawing.nodes,
        edges=drawing.edges,
        scopes=drawing.scopes.made,
        ops=drawing.ops,
        formulas={},
        steps=[],
        overlays=[],
        colour="",
        twins={},
        verdicts=[],
        problems=[],
        history=NONE,
        hidden={"reductions": [], "nodes": []},
    )


def _summary(listing: Listing) -> str:
    parts = {name: sum(step.phase == phase for step in listing.steps) for phase, name in _PARTS.items()}
    told = ", ".join(f"{many} in the {name}" for name, many in parts.items() if many)
    return f"{counted(len(listing.steps), 'step')}: {told}" if told else "no steps"


class _Drawing:
    """The nodes, edges and boxes of one or more programs."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.ops: dict[str, OpText] = {}
        self.scopes = _ProgramScopes()

    def add(self, label: str, listing: Listing) -> None:
        """Add a program, in a box with the label, if it has one."""
        around = (label,) if label else ()
        home: dict[int, str] = {}
        leaving = {id(value) for value in listing.leaving()}
        boxes = drawn(listing)
        read = {id(value) for box in boxes for value in box.inputs()} | leaving
        for value in (*listing.inputs, *listing.captured):
            if id(value) in read:
                scope = self.scopes.of(around) if around else None
                home[id(value)] = self._node(_kind(value), [value.name, _type(value)], scope, None, _told(value))
        for box in boxes:
            made = box.results() or [value for step in box.steps for value in step.writes]
            shown = [value for value in made if id(value) in leaving] or made
            lines = [box.name, *[f"{value.name} {_type(value)}" for value in shown[:1]]]
            if box.row is not None:
                self.ops.setdefault(box.name, op_text(box.row.op))
            scope = self.scopes.of((*around, _part(box), *(() if box.row is None else box.row.scope)))
            lines += ["returned"] if any(id(value) in leaving for value in made) else []
            key = box.name if box.row is not None else None
            id_ = self._node("op", lines, scope, key, _details(box))
            for value in box.inputs():
                self.edges.append(_edge(f"e{len(self.edges)}", home[id(value)], id_, value))
            for value in (*box.results(), *(one for step in box.steps for one in step.writes)):
                home[id(value)] = id_

    def _node(
        self,
        kind: Kind,
        label: list[str],
        scope: str | None,
        op: str | None,
        details: list[Detail],
    ) -> str:
        id_ = f"n{len(self.nodes)}"
        node = Node(
            id=id_,
            kind=kind,
            root=False,
            label=label,
            full="",
            about="",
            row=None,
            rule=None,
            scope=scope,
            op=op,
            details=details,
            value=None,
            gradient=None,
            badges=[],
            levels={},
            holds=[],
            norms=[],
            past="",
            bars=None,
        )
        self.nodes.append(node)
        return id_


def _part(box: Drawn) -> str:
    """The outermost box: a gradient that was there before the walk, as the first one, belongs to the gradient."""
    seeded = box.steps[0].phase == "forward" and any(value.gradient_of is not None for value in box.results())
    return _PARTS["backward" if seeded else box.steps[0].phase]


class _ProgramScopes:
    """The boxes: the parts of the program, and the modules that were called in them."""

    def __init__(self) -> None:
        self.made: list[Scope] = []
        self._known: dict[tuple[str, ...], str] = {}

    def of(self, path: tuple[str, ...]) -> str:
        """The id of the innermost box, of the labels from the outermost on."""
        parent: str | None = None
        for depth in range(1, len(path) + 1):
            known = self._known.get(path[:depth])
            if known is None:
                known = self._known[path[:depth]] = f"s{len(self.made)}"
                self.made.append(Scope(id=known, label=path[depth - 1], full="", parent=parent, folds=""))
            parent = known
        assert parent is not None
        return parent


def _edge(id: str, source: str, target: str, value: Value) -> Edge:
    return Edge(
        id=id,
        source=source,
        target=target,
        input=value.name,
        label=_type(value),
        back=None,
        gradient=None,
        mismatch=None,
        reduction=None,
    )


def _kind(value: Value) -> Kind:
    if value.kind == "input":
        return "input"
    return "parameter" if value.owner is not None and value.owner.requires_grad else "constant"


def _type(value: Value) -> str:
    return f"{shape_text(value.shape)} {dtype_name(value.dtype)}"


def _told(value: Value) -> list[Detail]:
    return [Detail(term="name", text=value.name), Detail(term="memory", text=byte_text(value.nbytes))]


def _details(box: Drawn) -> list[Detail]:
    step = box.steps[0]
    told = [("computes", "\n".join(map(str, box.steps)))]
    if step.place is not None:
        told.append(("line", str(step.place)))
    told.append(("memory", byte_text(sum(value.nbytes for value in box.results()))))
    if written := [value.name for one in box.steps for value in one.writes]:
        told.append(("changes", ", ".join(written)))
    if any(one.random for one in box.steps):
        told.append(("random", "draws random numbers"))
    return [Detail(term=term, text=text) for term, text in told]
