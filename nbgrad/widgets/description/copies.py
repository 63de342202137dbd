"""Copies: a tensor with many readers is drawn once beside each of them.

One box with a hundred arrows tells a reader nothing, and graphviz needs minutes for it.
"""

from collections import Counter, defaultdict

from nbgrad.core.translation import translate
from nbgrad.widgets.description.ids import copy_id
from nbgrad.widgets.description.schema import Description, Edge, Node, Problem

HUB = 5
"""A tensor with more readers than this is drawn once per use."""


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
                "label": [*whole["label"], translate("use {number} of {uses:,}", number=number, uses=uses[source])],
                "rule": whole["rule"] and translate("{whole} in all", whole=whole["rule"]),
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
