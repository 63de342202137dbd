"""An outline whose gradients the reader is asked for: they are not written, drawn or stepped through."""

from collections.abc import Collection
from typing import Any, NamedTuple

from nbgrad.core.graph.plugins import OVERLAY_KINDS
from nbgrad.widgets.description.outline import Outline, Rests
from nbgrad.widgets.description.overlay_kinds import KIND
from nbgrad.widgets.description.ranking import TELLING
from nbgrad.widgets.description.schema import Description, Detail, Edge, History, Node, Question

UNKNOWN = "?"
"""The sign for a gradient that is asked for."""

_TELLING = ("gradient", "ratio", "update")
"""The overlays that say how large a gradient is; one that was added may do so, too."""


def concealed(outline: Outline, nodes: Collection[str], asked: list[Question], note: str) -> Outline:
    """The same outline without the gradients of ``nodes``, and without what tells how large any gradient is.

    Args:
        outline: of the whole graph; nothing is folded yet.
        nodes: the ids of the nodes whose gradient is hidden.
        asked: what may be answered in the picture.
        note: the sentence about the questions.
    """
    known = outline.description
    edges = {edge["id"] for edge in known["edges"] if edge["source"] in nodes}
    described: Description = {
        **known,
        "notes": [*known["notes"], note] if known["stopped"] else [note, *known["notes"]],
        "nodes": [_node(node, hidden=node["id"] in nodes) for node in known["nodes"]],
        "edges": [_edge(edge) if edge["id"] in edges else edge for edge in known["edges"]],
        "overlays": [one for one in known["overlays"] if not _tells(one["key"])],
        "verdicts": [],
        "outcome": "",
        "checked": [],
        "ranking": {
            **known["ranking"],
            "columns": [one for one in known["ranking"]["columns"] if one["key"] not in TELLING],
        },
        "history": History(frames=[], loss=None, charts=[], differences=[]),
        "questions": asked,
        "unknown": [node["id"] for node in known["nodes"] if node["id"] in nodes],
    }
    return Outline(
        described, _ConcealedRests(outline.rests, frozenset(nodes), frozenset(edges)), outline.walk, outline.runs
    )


def _tells(overlay: str) -> bool:
    """Whether an overlay may say how large a gradient is."""
    return overlay in _TELLING or overlay.startswith(KIND)


def _node(node: Node, *, hidden: bool) -> Node:
    levels = {key: level for key, level in node["levels"].items() if not _tells(key)}
    rule = f"∇ {UNKNOWN}" if hidden else node["rule"]
    spoiled = [one for one in node["spoiled"] if one == "value" or not hidden]
    return {**node, "rule": rule, "levels": levels, "norms": [], "past": "", "bars": None, "spoiled": spoiled}


def _edge(edge: Edge) -> Edge:
    """The edge with a question mark for its gradient, and without its reduction, which would give answers away."""
    return {
        **edge,
        "gradient": None if edge["gradient"] is None else UNKNOWN,
        "mismatch": None,
        "spoiled": 0,
        "reduction": None,
    }


class _ConcealedRests(NamedTuple):
    """The unwritten texts of shown nodes, and those parts of hidden ones that do not reveal a gradient."""

    rests: Rests
    nodes: frozenset[str]
    edges: frozenset[str]

    def __contains__(self, id: object) -> bool:
        return id in self.rests

    def get(self, id: str) -> "_ConcealedRest | None":
        """As ``Rests`` says."""
        rest = self.rests.get(id)
        return None if rest is None else _ConcealedRest(rest, id in self.nodes, self.edges)


class _ConcealedRest(NamedTuple):
    """The unwritten texts of a node or a reduction, without the gradients that are hidden."""

    rest: Any
    hidden: bool
    edges: frozenset[str]

    def told(self) -> dict[str, Any]:
        """The texts of the node or the reduction."""
        said: dict[str, Any] = self.rest.told()
        if not self.hidden:
            return said
        rows: list[Detail] = [
            one for one in said["details"] if one.get("role") != "gradient" and one["term"] not in OVERLAY_KINDS
        ]
        return {**said, "details": rows, "gradient": None}

    def step(self) -> dict[str, Any]:
        """The text of the step of the node."""
        said: dict[str, Any] = self.rest.step()
        given = {id: self._unsaid(one) if id in self.edges else one for id, one in said["given"].items()}
        return {**said, "incoming": UNKNOWN if self.hidden else said["incoming"], "given": given}

    def _unsaid(self, given: dict[str, Any]) -> dict[str, Any]:
        whose = str(given["text"]).removesuffix(given["came"])
        return {**given, "text": whose + UNKNOWN, "came": UNKNOWN, "reduction": None, "sum": None}
