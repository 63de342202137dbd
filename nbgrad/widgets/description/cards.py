"""The contents of the box of an op: the tensors that only it takes, and the name of the module that has no other op."""

from collections import defaultdict

from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Node, Scope
from nbgrad.widgets.description.short_names import named
from nbgrad.widgets.description.text_metrics import clip_middle

_TITLE = 36
"""If the first line of a box has more letters than this, it is broken into two lines."""

_ABOUT = 44


def carded(graph: Outline) -> Outline:
    """Turn each tensor that only one op takes into a row of the box of that op, and let a single op name its module.

    So a parameter stands in its op, with its gradient and its reduction, and there is no frame around a single op. The
    shape () of a written number is left out.
    """
    description, rows = graph.description, graph.rows
    nodes: list[Node] = [{**node, "row": rows.get(node["id"])} for node in description["nodes"]]
    ops = _single(nodes, {scope["parent"] for scope in description["scopes"]})
    scopes: list[Scope] = [{**scope, "op": ops.get(scope["id"])} for scope in description["scopes"]]
    alone = {scope["op"]: scope["label"] for scope in scopes}
    nodes = named([_titled(node, alone.get(node["id"])) for node in nodes])
    return graph.changed({**description, "nodes": nodes, "scopes": scopes})


def _single(nodes: list[Node], around: set[str | None]) -> dict[str, str]:
    """The module calls in which only one op has a box, and this op. Those in ``around`` are around other calls."""
    inside: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node["scope"] is not None and node["row"] is None:
            inside[node["scope"]].append(node)
    return {
        scope: boxes[0]["id"]
        for scope, boxes in inside.items()
        if scope not in around and len(boxes) == 1 and boxes[0]["kind"] == "op"
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
