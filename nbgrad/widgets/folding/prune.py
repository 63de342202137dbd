"""A part of a graph that is too large even when folded; and a copy of a tensor beside each of its many readers."""

from collections import Counter, defaultdict

from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.ids import copy_id
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Edge, Look, Node, Problem, Scope

CELLS = 24_000
"""How many numbers the heat maps of one picture show: it has to travel, and to be kept."""

HUB = 5
"""A tensor with more readers than this is drawn once per use."""


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
    where = "what was unfolded" if asked else "the end of the record"
    note = (
        f"The graph is too large to draw in full: only the {limit} nodes nearest to {where} are drawn; "
        f"{' and '.join(parts)} further away are not."
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


def split_hubs(description: Description) -> Description:
    """Draw a tensor with many readers once per use, and say so. The first copy carries the details for all of them."""
    scope_of = {node["id"]: node["scope"] for node in description["nodes"]}
    if not (uses := hubs(description)):
        return description
    copies: defaultdict[str, list[Node]] = defaultdict(list)
    by_id = {node["id"]: node for node in description["nodes"]}
    edges: list[Edge] = []
    for edge in description["edges"]:
        source = edge["source"]
        if source in uses:
            number = len(copies[source]) + 1
            whole = by_id[source]
            node: Node = {
                **whole,
                "id": copy_id(source, number),
                "scope": scope_of[edge["target"]],
                "label": [*whole["label"], f"use {number} of {uses[source]:,}"],
                "rule": whole["rule"] and f"{whole['rule']} in all",
            }
            if number > 1:
                node = {**_without_numbers(node), "details": [], "value": None, "gradient": None, "badges": []}
            copies[source].append(node)
            edge = {**edge, "source": node["id"]}
        edges.append(edge)
    nodes = [copy for node in description["nodes"] for copy in copies.get(node["id"], [node])]
    first = {source: made[0]["id"] for source, made in copies.items()}
    problems: list[Problem] = [
        {**one, "node": first.get(one["node"] or "", one["node"])} for one in description["problems"]
    ]
    of = {copy["id"]: source for source, made in copies.items() for copy in made}
    return {**description, "nodes": nodes, "edges": edges, "problems": problems, "copies": of}


def _without_numbers(node: Node) -> Node:
    """A further copy of a node, without the lists of numbers that the first copy shows."""
    first, end = node["numbers"] or (0, 0)
    label = [*node["label"][:first], *node["label"][end:]]
    return {
        **node,
        "label": label,
        "numbers": [],
        "rule": None if node["rule"] is not None and "[" in node["rule"] else node["rule"],
    }


def hubs(description: Description) -> dict[str, int]:
    """How often each tensor is used that is drawn once per use."""
    uses = Counter([edge["source"] for edge in description["edges"]])
    folded = {node["id"] for node in description["nodes"] if node["kind"] == "folded"}
    repeated = {edge["source"] for edge in description["edges"] if edge["target"] in folded}
    return {
        node["id"]: uses[node["id"]]
        for node in description["nodes"]
        if _splits(node, uses[node["id"]], node["id"] in repeated)
    }


def _splits(node: Node, uses: int, repeated: bool) -> bool:
    """Whether a tensor is drawn once per use: it has many uses, or it is a parameter that folded modules take."""
    if node["kind"] in ("op", "folded", "failed") or node["root"]:
        return False
    return uses > HUB or (repeated and node["kind"] == "parameter" and uses > 1)


def lighter(description: Description, cells: int = CELLS) -> Description:
    """Keep the heat maps of the smallest tensors, as many as ``cells`` numbers allow; of the others the histograms."""
    nodes, edges = description["nodes"], description["edges"]
    looks = [one for node in nodes for one in (node["value"], node["gradient"])]
    looks += [edge["reduction"]["incoming"] for edge in edges if edge["reduction"]]
    dropped: set[int] = set()
    for look in sorted((look for look in looks if look is not None), key=lambda look: len(look["levels"])):
        cells -= len(look["levels"])
        if cells < 0:
            dropped.add(id(look))
    if not dropped:
        return description

    def trimmed(look: Look | None) -> Look | None:
        return {**look, "levels": "", "columns": 0} if look is not None and id(look) in dropped else look

    return {
        **description,
        "nodes": [{**node, "value": trimmed(node["value"]), "gradient": trimmed(node["gradient"])} for node in nodes],
        "edges": [
            edge
            if edge["reduction"] is None
            else {**edge, "reduction": {**edge["reduction"], "incoming": trimmed(edge["reduction"]["incoming"])}}
            for edge in edges
        ],
    }


def without_empty_scopes(description: Description) -> Description:
    """Leave out the scopes that nothing drawn is in."""
    parents = {scope["id"]: scope["parent"] for scope in description["scopes"]}
    used: set[str | None] = {None}
    for node in description["nodes"]:
        scope = node["scope"]
        while scope not in used:
            used.add(scope)
            scope = parents.get(scope or "")
    kept: list[Scope] = [scope for scope in description["scopes"] if scope["id"] in used]
    return {**description, "scopes": kept}
