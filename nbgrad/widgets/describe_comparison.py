"""From two graphs to one description: each in a box of its own, and at every pair how much it differs.

The boxes of the first difference have a mark of their own. Modules in which nothing differs are folded.
"""

from collections import Counter
from math import isfinite
from typing import Any, NamedTuple

from nbgrad.core.graph.comparison import Comparison, Pair
from nbgrad.core.graph.discrepancy import Discrepancy
from nbgrad.core.graph.discrepancy_text import headline
from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import message, translate
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.details import NodeRest
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.description.ids import FRAMES, SIDES, side_and_id, side_id
from nbgrad.widgets.description.outline import Outline, Rests
from nbgrad.widgets.description.overlays import OWN, Levels, scaled
from nbgrad.widgets.description.repeats import Run
from nbgrad.widgets.description.schema import (
    Badge,
    Description,
    Detail,
    Edge,
    Node,
    Overlay,
    Problem,
    Scope,
    plain_description,
    plain_scope,
)
from nbgrad.widgets.description.tensor_summary import broken
from nbgrad.widgets.description.told import told

_FIRST, _FIRST_BACKWARD = message("≠ first difference"), message("≠ first difference of the backward")
"""The marks of the boxes at which both runs part."""

_DIFFERENT = {
    "value": message("relative difference of values (log)"),
    "gradient": message("relative difference of gradients (log)"),
}


@uncollected
def outline_comparison(comparison: Comparison) -> Outline:
    """The outline of both graphs side by side.

    The ids of each graph begin with its own letter, and ``twins`` say which boxes and modules belong together. Only
    overlays with one scale for both sides are there. There is no history.
    """
    graphs: tuple[Any, Any] = comparison.left, comparison.right
    sides = [_Side.of(at, outline(graph), comparison) for at, graph in enumerate(graphs)]
    left, right = [one.outline.description for one in sides]
    shown, levels = _overlays(comparison, sides)
    for side in sides:
        for node in side.nodes:
            node["levels"] = levels.get(node["id"], {})
    described: Description = {
        **plain_description(
            2,
            translate("{names} against {names2}", names=comparison.names[0], names2=comparison.names[1]),
            comparison.summary,
        ),
        "notes": [
            f"{name}: {note}"
            for name, one in zip(comparison.names, (left, right), strict=True)
            for note in one["notes"]
        ],
        "nodes": [node for side in sides for node in side.nodes],
        "edges": [edge for side in sides for edge in side.edges],
        "scopes": [scope for side in sides for scope in side.scopes],
        "ops": left["ops"] | right["ops"],
        "formulas": left["formulas"] | right["formulas"],
        "overlays": shown,
        "colour": shown[0]["key"] if shown else "",
        "twins": _twins(sides, comparison),
        "problems": [
            *_first_problems(sides, comparison),
            *[problem for side in sides for problem in side.problems],
        ],
    }
    return Outline(
        described,
        _BothRests({side.letter: side.outline.rests for side in sides}, _told(sides, comparison)),
        runs=[run for side in sides for run in side.runs],
        settled=_settled(described, comparison, sides),
    )


def _first(comparison: Comparison) -> list[tuple[Discrepancy, str]]:
    """The first differences of the forward and of the backward, each with what its mark says."""
    found = ((comparison.first, _FIRST), (comparison.first_gradient, _FIRST_BACKWARD))
    return [(one, translate(mark)) for one, mark in found if one is not None]


def _first_problems(sides: list["_Side"], comparison: Comparison) -> list[Problem]:
    """The first differences as the reader is told them, before all findings."""
    found: list[Problem] = []
    for one, mark in _first(comparison):
        node = next(
            (side.ids[record.id] for side, record in zip(sides, (one.left, one.right), strict=True) if record), None
        )
        found.append(Problem(kind="warning", text=f"{mark[2:]}: {headline(one, comparison.names)}", node=node))
    return found


def _settled(described: Description, comparison: Comparison, sides: list["_Side"]) -> frozenset[str]:
    """The outermost modules in which nothing differs; none if nothing differs at all.

    After a difference of the forward all gradients differ, so then only values are looked at.
    """
    if comparison.equal:
        return frozenset()
    forward = comparison.first is not None
    shown = set[str]()
    for pair in comparison.pairs:
        if (pair.value is not None and not pair.value.agrees) if forward else pair.differs:
            shown.update((sides[0].ids[pair.left.id], sides[1].ids[pair.right.id]))
    for one, _ in _first(comparison):
        for side, record, parts in zip(sides, (one.left, one.right), one.parts, strict=True):
            shown.update(side.ids[known.id] for known in (record, *parts) if known is not None)
    parents = {scope["id"]: scope["parent"] for scope in described["scopes"]}
    open_scopes, inside = set[str | None](FRAMES), Counter[str]()
    for node in described["nodes"]:
        scope: str | None = node["scope"]
        while scope is not None:
            inside[scope] += node["kind"] == "op"
            if node["id"] in shown:
                open_scopes.add(scope)
            scope = parents[scope]
    return frozenset(
        id for id, parent in parents.items() if id not in open_scopes and parent in open_scopes and inside[id] > 1
    )


class _Side(NamedTuple):
    """One of the graphs, with ids of its own.

    Attributes:
        letter: what its ids begin with.
        outline: of the graph alone, without that letter.
        ids: the node of each record, with that letter.
    """

    letter: str
    outline: Outline
    ids: dict[int, str]
    nodes: list[Node]
    edges: list[Edge]
    scopes: list[Scope]
    problems: list[Problem]
    runs: list[Run]

    @classmethod
    def of(cls, at: int, outline: Outline, comparison: Comparison) -> "_Side":
        letter, name = SIDES[at], comparison.names[at]
        known = outline.description
        ids = {
            rest.record.id: side_id(letter, one["id"])
            for one in known["nodes"]
            if isinstance(rest := outline.rests.get(one["id"]), NodeRest)
        }
        words = _words(at, comparison, ids)
        marks = {
            ids[record.id]: mark
            for one, mark in _first(comparison)
            if (record := (one.left, one.right)[at]) is not None
        }
        whole = FRAMES[at]

        def own(id: str | None) -> Any:
            return None if id is None else side_id(letter, id)

        def node(one: Node) -> Node:
            said = words.get(own(one["id"]), "")
            alone, mark = said == _only(name), marks.get(own(one["id"]), "")
            badges: list[Badge] = [
                *one["badges"],
                *([Badge(kind="warning", text=mark[2:])] if mark else []),
                *([Badge(kind="warning", text=translate("{said}: it has no counterpart", said=said))] if alone else []),
            ]
            label = [*one["label"], *([mark] if mark else []), *(broken(said) if said else [])]
            return {
                **one, "id": own(one["id"]), "scope": own(one["scope"]) or whole, "badges": badges, "label": label,
                "norms": [], "past": "", "line": 0,
            }  # fmt: skip

        ops = sum(one["kind"] == "op" for one in known["nodes"])
        outer = plain_scope(whole, name, None, counted(ops, "op"))
        scopes: list[Scope] = [
            {**one, "id": own(one["id"]), "parent": own(one["parent"]) or whole} for one in known["scopes"]
        ]
        return cls(
            letter,
            outline,
            ids,
            list(map(node, known["nodes"])),
            [
                {**one, "id": own(one["id"]), "source": own(one["source"]), "target": own(one["target"])}
                for one in known["edges"]
            ],
            [outer, *scopes],
            [Problem(kind=one.kind, text=f"{name}: {one.text}", node=own(one.node)) for one in told(known)],
            [
                Run(
                    [[own(call) for call in calls] for calls in run.cycles],
                    [[own(one) for one in some] for some in run.beside],
                    run.parts,
                )
                for run in outline.runs
            ],
        )


def _only(name: str) -> str:
    return translate("≠ only in {name}", name=name)


def _words(side: int, comparison: Comparison, ids: dict[int, str]) -> dict[str, str]:
    """A few words on how each node of a side differs from its counterpart, by node. ``ids`` has that of a record."""
    words = {ids[one.id]: _only(comparison.names[side]) for one in comparison.lacking[side]}
    for pair in comparison.pairs:
        if pair.differs:
            words[ids[(pair.left, pair.right)[side].id]] = f"≠ {pair.words}"
    return words


def _overlays(comparison: Comparison, sides: list[_Side]) -> tuple[list[Overlay], dict[str, dict[str, float]]]:
    """How far values and gradients differ, and the gradient norms of both sides on one scale; the levels by node."""
    levels = Levels(dict)
    places = {id: at for at, id in enumerate(id for side in sides for id in side.ids.values())}
    found: list[Overlay | None] = []
    # After a difference of the forward all gradients differ, so the values tell more.
    for what in ("gradient", "value") if comparison.first is None else ("value", "gradient"):
        parts: dict[int, float] = {}
        for pair in comparison.pairs:
            if (apart := getattr(pair, what)) is not None:
                for side, record in zip(sides, (pair.left, pair.right), strict=True):
                    parts[places[side.ids[record.id]]] = apart.relative
        found.append(scaled(f"{OWN}-{what}", translate(_DIFFERENT[what]), parts, _percent, levels))
    norms = {
        places[side.ids[record.id]]: record.gradient.norm
        for side, records in zip(sides, comparison.records, strict=True)
        for record in records
        if record.gradient is not None
    }
    found.append(scaled("gradient", translate("gradient norm (log)"), norms, number, levels))
    named = {at: id for id, at in places.items()}
    return [one for one in found if one is not None], {named[at]: own for at, own in levels.items()}


def _percent(part: float) -> str:
    return f"{number(100 * part)}%" if isfinite(part) else "NaN or Inf"


def _twins(sides: list[_Side], comparison: Comparison) -> dict[str, str]:
    """The counterpart of each box and of each module, both ways."""
    left, right = sides
    pairs = [(left.ids[pair.left.id], right.ids[pair.right.id]) for pair in comparison.pairs]
    homes = [{node["id"]: node["scope"] for node in side.nodes} for side in sides]
    parents = [{scope["id"]: scope["parent"] for scope in side.scopes} for side in sides]
    modules: dict[str, str] = {}
    for mine, theirs in pairs:
        a, b = homes[0][mine], homes[1][theirs]
        while a is not None and b is not None and a not in modules and b not in modules.values():
            modules[a] = b
            a, b = parents[0][a], parents[1][b]
    both = dict(pairs) | modules
    return both | {b: a for a, b in both.items()}


def _told(sides: list[_Side], comparison: Comparison) -> dict[str, Detail]:
    """By node the row of its details that says how it differs."""
    rows: dict[str, Detail] = {}
    for pair in comparison.pairs:
        for at, record in enumerate((pair.left, pair.right)):
            other = comparison.names[1 - at]
            rows[sides[at].ids[record.id]] = Detail(
                term=translate("against {other}", other=other), text=_sentence(pair)
            )
    return rows


def _sentence(pair: Pair) -> str:
    parts = [pair.words or translate("nothing differs, up to rounding")]
    for what, one in (("value", pair.value), ("gradient", pair.gradient)):
        if one is not None and not one.agrees:
            parts.append(f"{translate(what)}: {one}")
        elif one is not None and one.basis != "all numbers":
            parts.append(translate("{what}: {basis} compared", what=translate(what), basis=translate(one.basis)))
    return "; ".join(parts)


class _BothRests(NamedTuple):
    """The unwritten texts of both sides, by ids with the letter of the side."""

    rests: dict[str, Rests]
    rows: dict[str, Detail]

    def __contains__(self, id: object) -> bool:
        side, own = side_and_id(str(id))
        return side in self.rests and own in self.rests[side]

    def get(self, id: str) -> "_SideRest | None":
        """As ``Rests`` says."""
        side, own = side_and_id(id)
        rest = self.rests[side].get(own) if side in self.rests else None
        return None if rest is None else _SideRest(rest, side, self.rows.get(id))


class _SideRest(NamedTuple):
    """The unwritten texts of a node or a reduction of one side."""

    rest: Any
    letter: str
    row: Detail | None

    def told(self) -> dict[str, Any]:
        """Its texts."""
        said: dict[str, Any] = self.rest.told()
        return said if self.row is None else {**said, "details": [self.row, *said["details"]]}

    def step(self) -> dict[str, Any]:
        """The text of the step of the node."""
        said: dict[str, Any] = self.rest.step()
        return {**said, "given": {side_id(self.letter, edge): given for edge, given in said["given"].items()}}
