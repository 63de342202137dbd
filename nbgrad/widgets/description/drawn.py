"""The boxes of what folding has chosen to draw, and then their details."""

from nbgrad.core.stages import stage
from nbgrad.widgets.description.cards import carded
from nbgrad.widgets.description.copies import split_hubs
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.sanitize import clipped, with_clipped_details
from nbgrad.widgets.description.schema import Description, Look, Scope

CELLS = 24_000
"""How many numbers the heat maps of one picture show: it has to travel, and to be kept."""


def boxed(chosen: Outline) -> Outline:
    """The outline of what will be drawn, with clean texts, copies and rows. It has all that the layout needs."""
    return carded(chosen.changed(without_empty_scopes(split_hubs(clipped(chosen.description)))))


@stage("describe")
def detailed(shape: Outline) -> Description:
    """Write the details of what will be drawn."""
    return lighter(with_clipped_details(shape.detail()))


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
