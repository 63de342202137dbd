"""The contents of the box of an op: the tensors that only it takes, and the name of the module that has no other op."""

from collections import Counter, defaultdict

from nbgrad.widgets.description.nesting import Nesting
from nbgrad.widgets.description.schema import Description, Node, Scope
from nbgrad.widgets.description.text_metrics import clip_middle

_ROWS = 10
"""An op with more tensors than this has them beside it: its box would be taller than the boxes around it."""

_TITLE = 36
"""If the first line of a box has more letters than this, it is broken into two lines."""

_ABOUT = 44

_BESIDE = ("leaf", "input", "constant")
"""These kinds are rows only if the op also takes a result of another op: else it would stand without inputs."""


def carded(description: Description) -> Description:
    """Turn each tensor that only one op takes into a row of the box of that op, and let a single op name its module.

    So a parameter stands in its op, with its gradient and its reduction, and there is no frame around a single op. The
    shape () of a written number is left out.
    """
    rows = rows_in(description, Nesting(description["scopes"]))
    nodes: list[Node] = [{**node, "row": rows.get(node["id"])} for node in description["nodes"]]
    ops = _single({**description, "nodes": nodes})
    scopes: list[Scope] = [{**scope, "op": ops.get(scope["id"])} for scope in description["scopes"]]
    alone = {scope["op"]: scope["label"] for scope in scopes}
    return {**description, "nodes": [_titled(node, alone.get(node["id"])) for node in nodes], "scopes": scopes}


def _single(description: Description) -> dict[str, str]:
    """The module calls in which only one op has a box, and this op."""
    inside: defaultdict[str, list[Node]] = defaultdict(list)
    for node in description["nodes"]:
        if node["scope"] is not None and node["row"] is None:
            inside[node["scope"]].append(node)
    around = {scope["parent"] for scope in description["scopes"]}
    return {
        scope: nodes[0]["id"]
        for scope, nodes in inside.items()
        if scope not in around and len(nodes) == 1 and nodes[0]["kind"] == "op"
    }


def _titled(node: Node, module: str | None) -> Node:
    """The node with its settings and its module after the name, or below it if the line would be too long."""
    head, *lines = node["label"]
    if node["numbers"] and lines[0] == "()":
        del lines[0]
        node = {**node, "numbers": _moved(node["numbers"], -1)}
    whole = " · ".join(filter(None, [node["about"], module]))
    about = clip_middle(whole, _ABOUT)
    if node["full"] and module:
        node = {**node, "full": f"{node['full']} · {module}"}
    elif len(whole) > _ABOUT:
        node = {**node, "full": f"{head} {whole}"}
    if about and len(head) + len(about) > _TITLE:
        return {**node, "label": [head, about, *lines], "numbers": _moved(node["numbers"], 1), "about": ""}
    return {**node, "label": [head, *lines], "about": f"· {about}" if module and not node["about"] else about}


def _moved(numbers: list[int], by: int) -> list[int]:
    return [line + by for line in numbers]


def rows_in(description: Description, nesting: Nesting) -> dict[str, str]:
    """For each tensor that is a row in the box of an op, the id of this op. ``nesting`` is that of the scopes."""
    nodes = {node["id"]: node for node in description["nodes"]}
    uses = Counter([edge["source"] for edge in description["edges"]])
    made = {edge["target"] for edge in description["edges"]}
    fed = _fed(description, nodes)
    found: dict[str, str] = {}
    for edge in description["edges"]:
        source, target = nodes[edge["source"]], nodes[edge["target"]]
        if (
            (source["kind"] == "parameter" or (source["kind"] in _BESIDE and target["id"] in fed))
            and not source["root"]
            and source["id"] not in made
            and uses[source["id"]] == 1
            and target["kind"] in ("op", "folded")
            and nesting.around(source["scope"], target["scope"])
            and edge["mismatch"] is None
        ):
            found[source["id"]] = target["id"]
    many = Counter(found.values())
    return {row: op for row, op in found.items() if many[op] <= _ROWS}


def _fed(description: Description, nodes: dict[str, Node]) -> set[str]:
    """The ops that take a result of another op, if that result does not depend on parameters alone."""
    fed, streams = set[str](), {id for id, node in nodes.items() if node["kind"] in (*_BESIDE, "outside")}
    for edge in description["edges"]:  # those into an op come before those from it
        if edge["source"] in streams:
            streams.add(edge["target"])
            if nodes[edge["source"]]["kind"] not in _BESIDE:
                fed.add(edge["target"])
    return fed
