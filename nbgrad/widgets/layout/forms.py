"""The forms of the boxes of a picture: cards near what matters, short boxes and names farther away."""

from collections import defaultdict

from nbgrad.widgets.description.schema import Description, Form
from nbgrad.widgets.layout.parts import NAME, SHORT

NEAR = (4, 1)
"""How many edges away from what matters boxes have still more of their lines, in the order in which they are tried.

Last, only the boxes that the reader has asked for have more."""

LINE: Form = "line"


def levels(description: Description, matters: frozenset[str] = frozenset()) -> list[dict[str, Form]]:
    """The forms of all boxes, with less and less detail; first cards alone, at last names alone.

    The result of the network, and an op that raised, say their shape or their number in all of them.

    Args:
        description: what is drawn.
        matters: the nodes that the reader has asked for.

    Returns:
        For each level the forms of the boxes that are no cards.
    """
    distances = _distances(description, matters)
    boxes = [node["id"] for node in description["nodes"] if node["row"] is None]
    told = {node["id"] for node in description["nodes"] if node["root"] or node["kind"] == "failed"}
    farthest = max([distances.get(box, 0) for box in boxes], default=0)
    found: list[dict[str, Form]] = [{}]
    closer = (*NEAR, 0) if matters else NEAR
    for more, less in ((None, SHORT), (SHORT, LINE), (SHORT, NAME)):
        for near in (*[near for near in closer if near < farthest], -1):
            forms = {box: more if distances.get(box, farthest) <= near else less for box in boxes}
            forms |= {box: SHORT for box in told if forms.get(box) is not None}
            found.append({box: form for box, form in forms.items() if form is not None})
    return found


def _distances(description: Description, matters: frozenset[str]) -> dict[str, int]:
    """How many edges each box is away from what the reader asked for, else from the findings and the loss."""
    nodes = description["nodes"]
    home = {node["id"]: node["row"] or node["id"] for node in nodes}
    found = {home[one] for one in matters if one in home}
    if not found:
        found = {home[node["id"]] for node in nodes if node["root"] or node["kind"] == "failed" or node["badges"]}
    near: defaultdict[str, set[str]] = defaultdict(set)
    for edge in description["edges"]:
        source, target = home[edge["source"]], home[edge["target"]]
        near[source].add(target)
        near[target].add(source)
    front = found or {home[node["id"]] for node in nodes[-1:]}
    distances = dict.fromkeys(front, 0)
    while front:
        front = {other for one in front for other in near[one] if other not in distances}
        distances |= dict.fromkeys(front, max(distances.values()) + 1)
    return distances
