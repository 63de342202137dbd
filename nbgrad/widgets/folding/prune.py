"""A part of a graph that is too large even when folded."""

from collections import Counter, defaultdict

from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Node


def keep_nearest(graph: Outline, limit: int, asked: frozenset[str] = frozenset()) -> Outline:
    """Keep the nodes nearest to those of the scopes ``asked``, or to the roots and to the op that raised.

    If two are equally near, the later one is kept.

    Distances are counted in edges: from a root, only towards its sources; from a scope, in both directions.
    """
    description = graph.description
    nodes, edges = description["nodes"], description["edges"]
    position = {node["id"]: index for index, node in enumerate(nodes)}
    near: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        near[edge["target"]].append(edge["source"])
        if asked:
            near[edge["source"]].append(edge["target"])
    front = _inside(graph, asked) or [node["id"] for node in nodes if _ends(node)] or [nodes[-1]["id"]]
    kept: set[str] = set()
    while front and len(kept) < limit:
        front = sorted(front, key=position.__getitem__, reverse=True)[: limit - len(kept)]
        kept.update(front)
        front = list({other for one in front for other in near[one]} - kept)
    for node in reversed(nodes):  # a record may hold more than what led to its root
        if len(kept) >= limit:
            break
        kept.add(node["id"])
    lost = Counter("op" if node["kind"] in ("op", "folded") else "tensor" for node in nodes if node["id"] not in kept)
    parts = [counted(lost[noun], noun) for noun in ("op", "tensor") if lost[noun]]
    where = translate("what was unfolded") if asked else translate("the end of the record")
    note = translate(
        "The graph is too large to draw in full: only the {limit} nodes nearest to {where} are "
        "drawn; {names} further away are not.",
        limit=limit,
        where=where,
        names=translate(" and ").join(parts),
    )
    drawn = [edge for edge in edges if edge["source"] in kept and edge["target"] in kept]
    there = {edge["id"] for edge in drawn}
    left: Description = {
        **description,
        "notes": [*description["notes"], note],
        "nodes": [node for node in nodes if node["id"] in kept],
        "edges": drawn,
        "problems": [{**one, "node": one["node"] if one["node"] in kept else None} for one in description["problems"]],
    }
    return graph.changed(
        left, [stop.along(there) for stop in graph.stops() if stop.step["node"] in kept or "rewrite" in stop.step]
    )


def _ends(node: Node) -> bool:
    return node["root"] or node["kind"] == "failed"


def _inside(graph: Outline, asked: frozenset[str]) -> list[str]:
    """The nodes in the scopes ``asked``, and those that stand for one of them."""
    inside = {inner for scope in asked if scope in graph.tree for inner in graph.tree.inside(scope)}
    nodes = graph.description["nodes"]
    return [node["id"] for node in nodes if node["scope"] in inside or not asked.isdisjoint(node["holds"])]
