"""The contents of folded nodes that a picture still names: labels, broadcasts, and how their gradients went."""

from itertools import islice

from nbgrad.core.translation import translate
from nbgrad.widgets.description.schema import Edge, Hidden, HiddenNode, HiddenReduction
from nbgrad.widgets.description.tree import Tree

_NAMED = 32
"""At most this many of the scopes around an op are named: a path through thousands says nothing to a reader."""


def hidden_by(tree: Tree, where: dict[str, str], drawn: set[str], unseen: frozenset[str]) -> Hidden:
    """The parts of a description that disappear when the nodes in ``where`` are drawn as other nodes.

    Args:
        tree: before anything was folded.
        where: the folded node of each node that is inside one.
        drawn: the ids of the edges that stay.
        unseen: the scopes that have no frame; no path names them.
    """
    return Hidden(reductions=_reductions(tree, where, drawn), nodes=_nodes(tree, where, unseen))


def _reductions(tree: Tree, where: dict[str, str], drawn: set[str]) -> list[HiddenReduction]:
    names = {id: node["label"][0] for id, node in tree.nodes.items()}
    found: dict[tuple[str, str, str], HiddenReduction] = {}
    for edge in tree.description["edges"]:
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


def _nodes(tree: Tree, where: dict[str, str], unseen: frozenset[str]) -> list[HiddenNode]:
    around = {id: [tree.scopes[one]["label"] if one else "…" for one in _told(tree, id, unseen)] for id in tree.scopes}
    found: dict[tuple[str, ...], HiddenNode] = {}
    for node in tree.description["nodes"]:
        if (home := where.get(node["id"])) is not None:
            one = HiddenNode(
                node=home,
                label=" › ".join([*around.get(node["scope"] or "", []), *node["label"][:1]]),
                words=" ".join(
                    [
                        *node["label"][1:2],
                        node["kind"],
                        *([translate("line {node}", node=node["line"])] if node["line"] else []),
                    ]
                ),
                norms=node["norms"] if node["kind"] in ("parameter", "leaf") else [],
                many=0,
            )
            found.setdefault((home, one["label"], one["words"], *one["norms"]), one)["many"] += 1
    return list(found.values())


def _told(tree: Tree, scope: str, unseen: frozenset[str]) -> list[str]:
    """The scopes that the path of ``scope`` names, outermost first. Of very many only the innermost, after one ""."""
    seen = (one for one in tree.outwards(scope) if one not in unseen)
    inner = list(islice(seen, _NAMED))[::-1]
    return inner if next(seen, None) is None else ["", *inner]
