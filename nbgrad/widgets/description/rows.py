"""Rows: the tensors that only one op takes are drawn in the box of the op."""

from collections import Counter

from nbgrad.widgets.description.schema import Description, Node
from nbgrad.widgets.description.tree import Tree

_ROWS = 10
"""An op with more tensors than this, that it does not learn, has them beside it: its box would be too tall. Parameters
are always rows: a network of many layers in one op, such as an LSTM, would have a box for each of them beside it.
"""

_BESIDE = ("leaf", "input", "constant")
"""These kinds are rows only if the op also takes a result of another op: else it would stand without inputs."""


def rows_in(tree: Tree) -> dict[str, str]:
    """For each tensor that is a row in the box of an op, the id of this op."""
    description, nodes = tree.description, tree.nodes
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
            and tree.around(source["scope"], target["scope"])
            and edge["mismatch"] is None
        ):
            found[source["id"]] = target["id"]
    many = Counter([op for row, op in found.items() if nodes[row]["kind"] != "parameter"])
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
