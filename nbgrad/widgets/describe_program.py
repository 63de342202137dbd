"""From a program to the plain description that every rendering draws."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.memory import byte_text
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.symbolic.ir import Listing, ProgramStep, RowCall, Value
from nbgrad.core.symbolic.passes.rewrite import Note
from nbgrad.core.translation import message, translate
from nbgrad.widgets.describe import op_text
from nbgrad.widgets.description.format import counted, shape_text
from nbgrad.widgets.description.ids import edge_id, node_id, scope_id
from nbgrad.widgets.description.schema import (
    Description,
    Detail,
    Edge,
    Kind,
    Node,
    OpText,
    Rewrite,
    Scope,
    Step,
    plain_description,
    plain_edge,
    plain_node,
    plain_scope,
)

_PARTS = {"forward": "forward", "backward": "gradient", "update": "optimizer"}
"""The outermost boxes, by the phase of a step."""


class Drawn(NamedTuple):
    """A part that is drawn as one box: all steps of one run of a row of the op table, or a single step.

    Attributes:
        steps: what it stands for.
        row: the run of the row; None for a step outside of any, or of a row whose steps a pass has changed.
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

    def writes(self) -> list[Value]:
        """The values that it changes."""
        return [value for step in self.steps for value in step.writes]

    @property
    def scope(self) -> tuple[str, ...]:
        """The labels of the modules around it, outermost first; none outside of the forward."""
        return self.steps[0].scope if self.row is None else self.row.scope


def drawn(listing: Listing) -> list[Drawn]:
    """The boxes of a program: all steps of a row are one box if no pass has changed them."""
    whole = {id(row) for row in listing.rows()}
    boxes: list[Drawn] = []
    for step in listing.steps:
        row = step.row if step.row is not None and id(step.row) in whole else None
        if row is not None and boxes and boxes[-1].row is row:
            boxes[-1].steps.append(step)
        else:
            boxes.append(Drawn([step], row))
    return boxes


_LEGEND = message("A dashed edge is a value whose gradient the program does not compute.")


def describe_program(*parts: tuple[str, Listing]) -> Description:
    """The description of a program: forward, gradient and optimizer as three boxes, with the modules in them.

    A box of the gradient stands beside the op of the forward whose gradient it computes. The steps of the description
    are the rewrites that passes made.

    Args:
        parts: the program with the empty string; or several, each with the label of a box around it, as "before" and
            "after" a pass.
    """
    drawing = _Drawing()
    notes = _new_notes(parts)
    stands = _stand_ins(notes)
    for label, listing in parts:
        drawing.add(label, listing, {} if listing is parts[0][1] and len(parts) > 1 else stands)
    (_, first), *others = parts
    counts = [counted(len(listing.steps), "step") for _, listing in parts]
    summary = ", ".join(f"{label}: {count}" for (label, _), count in zip(parts, counts, strict=True))
    return {
        **plain_description(1, translate("program {name}", name=first.name), summary if others else _summary(first)),
        "notes": [translate(_LEGEND)] if any(edge["gradient"] is None for edge in drawing.edges) else [],
        "nodes": drawing.nodes,
        "edges": drawing.edges,
        "scopes": drawing.scopes.made,
        "ops": drawing.ops,
        "steps": drawing.rewrites(notes),
        "beside": drawing.beside,
    }


StandIns = dict[str, tuple[str, int]]
"""By the name of a value: the name of its replacement, and how often the replacement was changed in place so far."""


def _stand_ins(notes: Sequence[Note]) -> StandIns:
    """The replacement of each value by the rewrites."""
    found: StandIns = {}
    changes: Counter[str] = Counter()
    for note in notes:
        for old, new in zip(note.made, note.stands, strict=False):
            changes[new] += note.rule == "in place"
            if old != new and note.rule != "value in place of a change":
                found[old] = (new, changes[new])
    return found


def _new_notes(parts: Sequence[tuple[str, Listing]]) -> list[Note]:
    """The changes that passes made to the last program; with several programs, those that came after the first one."""
    before, after = (list(getattr(parts[at][1], "notes", [])) for at in (0, -1))
    return after if len(parts) == 1 else after[len(before) :]


def _summary(listing: Listing) -> str:
    parts = {name: sum(step.phase == phase for step in listing.steps) for phase, name in _PARTS.items()}
    told = ", ".join(translate("{many} in the {name}", many=many, name=name) for name, many in parts.items() if many)
    return f"{counted(len(listing.steps), 'step')}: {told}" if told else translate("no steps")


class _Drawing:
    """The nodes, edges and boxes of one or more programs.

    Attributes:
        beside: for each node of the gradient, the node of the forward beside which it stands.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.ops: dict[str, OpText] = {}
        self.scopes = _ProgramScopes()
        self.beside: dict[str, str] = {}
        self._boxes: list[dict[str, str]] = []

    def add(self, label: str, listing: Listing, stands: StandIns) -> None:
        """Add a program, in a box with the label, if it has one.

        Args:
            label: of the box.
            listing: the program.
            stands: what stands for values that the program no longer has.
        """
        around = (label,) if label else ()
        home: dict[int, str] = {}
        leaving = {id(value) for value in listing.leaving()}
        boxes = drawn(listing)
        rows = _Alignment(boxes, stands)
        read = {id(value) for box in boxes for value in box.inputs()} | leaving
        for value in (*listing.inputs, *listing.captured):
            if id(value) in read:
                scope = self.scopes.of(around) if around else None
                home[id(value)] = self._node(_kind(value), [value.name, _type(value)], scope, None, _told(value))
        ids: list[str] = []
        for place, box in enumerate(boxes):
            made = box.results() or box.writes()
            shown = [value for value in made if id(value) in leaving] or made
            lines = [box.name, *[f"{value.name} {_type(value)}" for value in shown[:1]]]
            if box.row is not None:
                self.ops.setdefault(box.name, op_text(box.row.op))
            row = rows.of[place]
            inside = boxes[place if row is None else row].scope if _part(box) != _PARTS["update"] else ()
            scope = self.scopes.of((*around, _part(box), *inside))
            lines += ["returned"] if any(id(value) in leaving for value in made) else []
            key = box.name if box.row is not None else None
            id_ = self._node("op", lines, scope, key, _details(box))
            ids.append(id_)
            if row is not None:
                self.beside[id_] = ids[row]
            for value in box.inputs():
                edge = plain_edge(edge_id(len(self.edges)), home[id(value)], id_, value.name, _type(value))
                self.edges.append({**edge, "gradient": None if rows.stops(box, value) else ""})
            for value in (*box.results(), *box.writes()):
                home[id(value)] = id_
        given = {value.name: home[id(value)] for value in (*listing.inputs, *listing.captured) if id(value) in read}
        made_in = zip(boxes, ids, strict=True)
        self._boxes.append(given | {one.name: id_ for box, id_ in made_in for one in (*box.results(), *box.writes())})

    def rewrites(self, notes: list[Note]) -> list[Step]:
        """A step for each rewrite, which leads to the boxes before and after it, as far as they are drawn."""
        before, after = self._boxes[0], self._boxes[-1]
        comes_from: dict[str, str] = {}
        stands: dict[str, str] = {}
        for note in notes:
            for old, new in zip(note.made, note.stands, strict=False):
                if old != new:
                    comes_from.setdefault(new, old)
                    stands[old] = new
        steps = []
        for note in notes:
            first = _first_in(before, note.made, comes_from) if len(self._boxes) > 1 else None
            last = _first_in(after, note.stands, stands)
            steps.append(_rewrite(note, first or last or "", last or ""))
        return steps

    def _node(
        self,
        kind: Kind,
        label: list[str],
        scope: str | None,
        op: str | None,
        details: list[Detail],
    ) -> str:
        id_ = node_id(len(self.nodes))
        self.nodes.append({**plain_node(id_, kind, label, details), "scope": scope, "op": op})
        return id_


class _Alignment:
    """Beside which op of the forward each box of the gradient stands, and which values have a gradient.

    Attributes:
        of: for each box the place of the box of the forward; None outside of the gradient, or if there is none.
    """

    def __init__(self, boxes: list[Drawn], stands: StandIns) -> None:
        self.of: list[int | None] = []
        self._gradients: set[str] = set()
        self._any = False
        self._stands = stands
        self._made: dict[str, list[int]] = {}
        self._own: dict[int, int] = {}
        self._changed: dict[int, int | None] = {}
        for place, box in enumerate(boxes):
            part = _part(box)
            row = self._row(box) if part == _PARTS["backward"] else None
            self.of.append(row)
            made = (*box.results(), *box.writes())
            for value in made:
                if part == _PARTS["forward"]:
                    self._made.setdefault(value.name, []).append(place)
                elif row is not None:
                    self._own[id(value)] = row
            if row is not None and not box.name.startswith("add"):
                self._changed |= {id(value): self._before(boxes[row], row) for value in box.writes()}

        self._by_readers(boxes)

    def _by_readers(self, boxes: list[Drawn]) -> None:
        """Put a box that reads no gradient, such as a view of an input, beside the same op as the box that reads it."""
        read: dict[int, int] = {}
        for place in range(len(boxes) - 1, -1, -1):
            box, row = boxes[place], self.of[place]
            if row is None and _part(box) == _PARTS["backward"]:
                made = (*box.results(), *box.writes())
                row = self.of[place] = next((read[id(value)] for value in made if id(value) in read), None)
            if row is not None:
                read |= {id(value): row for value in box.inputs()}

    def _row(self, box: Drawn) -> int | None:
        """The place of the op whose result has the gradient that a box reads."""
        self._any = True
        self._gradients.update(self._of(value)[0] for value in (*box.inputs(), *box.results()))
        inputs = list(box.inputs())
        found = [
            self._changed[id(value)] if id(value) in self._changed else self._made_at(*self._of(value))
            for value in inputs
        ]
        found += [self._own.get(id(value)) for value in reversed(inputs)]
        if box.steps[0].phase == "forward":  # the gradient that the walk begins with
            found += [self._made_at(*self._of(value)) for value in box.results()]
        found += [self._made_at(value.name, -1) for value in reversed(inputs)]
        return next((place for place in found if place is not None), None)

    def _of(self, value: Value) -> tuple[str, int]:
        """The name of the value whose gradient ``value`` is, or of its replacement; and how often that was changed."""
        name, changes, seen = "" if value.gradient_of is None else value.gradient_of.name, 0, set[str]()
        while name in self._stands and name not in seen and not changes:
            seen.add(name)
            name, changes = self._stands[name]
        return name, changes

    def _made_at(self, name: str, changes: int) -> int | None:
        """The place of the op that made a value, or that made its change with the number ``changes``."""
        places = self._made.get(name)
        return None if places is None else places[min(changes, len(places) - 1)]

    def _before(self, box: Drawn, place: int) -> int | None:
        """The last place before ``place`` that made or changed an input of ``box``; None if there is none."""
        places = [at for value in box.inputs() for at in self._made.get(value.name, ()) if at < place]
        return places[-1] if places else None

    def stops(self, box: Drawn, value: Value) -> bool:
        """Whether a box of the forward reads a value to which no gradient comes, in a program that has gradients."""
        return self._any and _part(box) == _PARTS["forward"] and value.name not in self._gradients


def _first_in(boxes: dict[str, str], names: Iterable[str], others: dict[str, str]) -> str | None:
    """The box of the first of the values that has one, under its own name or under its name in ``others``."""
    for name in names:
        seen: set[str] = set()
        while name not in boxes and name in others and name not in seen:
            seen.add(name)
            name = others[name]
        if name in boxes:
            return boxes[name]
    return None


def _rewrite(note: Note, before: str, after: str) -> Step:
    told = {
        translate("before"): note.before,
        translate("after"): note.after or translate("nothing"),
        translate("line"): note.place,
        translate("saves"): translate(
            "{steps}, {byte_text} of results", steps=counted(note.nodes, "step"), byte_text=byte_text(note.nbytes)
        ),
    }
    return Step(
        node=before,
        rules=[],
        title=note.rule,
        incoming="",
        given=[],
        rewrite=Rewrite(after=after, details=[Detail(term=term, text=text) for term, text in told.items() if text]),
    )


def _part(box: Drawn) -> str:
    """The outermost box. A gradient made before the backward, as the first one is, is in the box of the gradient."""
    seeded = box.steps[0].phase == "forward" and any(value.gradient_of is not None for value in box.results())
    return _PARTS["backward" if seeded else box.steps[0].phase]


class _ProgramScopes:
    """The boxes: the parts of the program, and the modules that were called in them."""

    def __init__(self) -> None:
        self.made: list[Scope] = []
        self._known: dict[tuple[str, ...], str] = {}

    def of(self, path: tuple[str, ...]) -> str:
        """The id of the innermost box of ``path``, which holds the labels of the boxes, outermost first."""
        parent: str | None = None
        for depth in range(1, len(path) + 1):
            known = self._known.get(path[:depth])
            if known is None:
                known = self._known[path[:depth]] = scope_id(len(self.made))
                label = path[depth - 1]
                self.made.append(plain_scope(known, label, parent, ""))
            parent = known
        assert parent is not None
        return parent


def _kind(value: Value) -> Kind:
    if value.kind == "input":
        return "input"
    return "parameter" if value.owner is not None and value.owner.requires_grad else "constant"


def _type(value: Value) -> str:
    return f"{shape_text(value.shape)} {dtype_name(value.dtype)}"


def _told(value: Value) -> list[Detail]:
    return [
        Detail(term=translate("name"), text=value.name),
        Detail(term=translate("memory"), text=byte_text(value.nbytes)),
    ]


def _details(box: Drawn) -> list[Detail]:
    step = box.steps[0]
    told = [(translate("computes"), "\n".join(map(str, box.steps)))]
    if step.place is not None:
        told.append((translate("line"), place_text(step.place)))
    told.append((translate("memory"), byte_text(sum(value.nbytes for value in box.results()))))
    if written := [value.name for one in box.steps for value in one.writes]:
        told.append((translate("changes"), ", ".join(written)))
    if any(one.random for one in box.steps):
        told.append((translate("random"), translate("draws random numbers")))
    return [Detail(term=term, text=text) for term, text in told]
