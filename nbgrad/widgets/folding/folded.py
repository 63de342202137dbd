"""The contents of folded nodes that a picture still names: labels, broadcasts, and how their gradients went."""

from itertools import islice

from nbgrad.widgets.description.nesting import Nesting
from nbgrad.widgets.description.schema import Description, Edge, Hidden, HiddenNode, HiddenReduction

_NAMED = 32
"""At most this many of the scopes around an op are named: a path through thousands says nothing to a reader."""


def hidden_by(description: Description, nesting: Nesting, where: dict[str, str], drawn: set[str]) -> Hidden:
    """The parts of a description that disappear when the nodes in ``where`` are drawn as other nodes.

    Args:
        description: before anything was folded.
        nesting: of its scopes.
        where: the folded node of each node that is inside one.
        drawn: the ids of the edges that stay.
    """
    return Hidden(reductions=_reductions(description, where, drawn), nodes=_nodes(description, nesting, where))


def _reductions(description: Description, where: dict[str, str], drawn: set[str]) -> list[HiddenReduction]:
    names = {node["id"]: node["label"][0] for node in description["nodes"]}
    found: dict[tuple[str, str, str], HiddenReduction] = {}
    for edge in description["edges"]:
        if (reduction := edge["reduction"]) is None or edge["id"] in drawn:
            continue
        one = HiddenReduction(
            node=_home(edge, where),
            ends=f"{names[edge['source']]} → {names[edge['target']]}",
            text=reduction["text"],
            warning=reduction["warning"],
            many=0,
        )
        found.setdefault((one["node"], one["ends"], one["text"]), one)["many"] += 1
    return list(found.values())


def _home(edge: Edge, where: dict[str, str]) -> str:
    """The folded node that an edge is inside of, or ends at."""
    return where.get(edge["target"]) or where[edge["source"]]


def _nodes(description: Description, nesting: Nesting, where: dict[str, str]) -> list[HiddenNode]:
    labels = {scope["id"]: scope["label"] for scope in description["scopes"]}
    around = {id: [labels[one] if one else "…" for one in _told(nesting, id)] for id in labels}
    found: dict[tuple[str, ...], HiddenNode] = {}
    for node in description["nodes"]:
        if (home := where.get(node["id"])) is not None:
            one = HiddenNode(
                node=home,
                label=" › ".join([*around.get(node["scope"] or "", []), *node["label"][:1]]),
                words=" ".join([*node["label"][1:2], node["kind"]]),
                norms=node["norms"] if node["kind"] in ("parameter", "leaf") else [],
                many=0,
            )
            found.setdefault((home, one["label"], one["words"], *one["norms"]), one)["many"] += 1
    return list(found.values())


def _told(nesting: Nesting, scope: str) -> list[str]:
    """The scopes that the path of ``scope`` names, outermost first. Of very many only the innermost, after one ""."""
    inner = list(islice(nesting.outwards(scope), _NAMED))[::-1]
    return inner if nesting.depths[scope] <= _NAMED else ["", *inner]
