"""Two graphs side by side: the left one comes first, also where one stands above the other."""

from typing import Any

from nbgrad.widgets.description.ids import FRAMES
from nbgrad.widgets.description.schema import Box, Layout
from nbgrad.widgets.layout.parts import PictureParts


def left_first(parts: PictureParts, layout: Layout) -> Layout:
    """The layout with the first graph above the second; as it is where they stand beside each other.

    From left to right graphviz stacks unconnected parts from the bottom.
    """
    first, second = (layout["scopes"].get(frame) for frame in FRAMES)
    if first is None or second is None or second["y"] + second["height"] > first["y"]:
        return layout
    up = second["y"] - first["y"]
    down = first["y"] + first["height"] - second["y"] - second["height"]
    by = dict(zip(FRAMES, (round(up, 1), round(down, 1)), strict=True))
    shift = {scope: by[parts.tree.path(scope)[0]] for scope in parts.tree.scopes}
    shift |= {node["id"]: shift[node["scope"] or ""] for node in parts.drawn["nodes"]}
    shift |= {edge["id"]: shift[edge["source"]] for edge in parts.drawn["edges"]}

    def boxes(all_of_them: dict[str, Box]) -> dict[str, Box]:
        return {id: {**box, "y": round(box["y"] + shift[id], 1)} for id, box in all_of_them.items()}

    def bent(id: str, runs: list[list[list[float]]]) -> list[list[list[float]]]:
        return [[[x, round(y + shift[id], 1)] for x, y in run] for run in runs]

    found: Any = {key: boxes(layout[key]) for key in ("nodes", "labels", "marks", "scopes")}
    return {**layout, **found, "edges": {id: bent(id, runs) for id, runs in layout["edges"].items()}}
