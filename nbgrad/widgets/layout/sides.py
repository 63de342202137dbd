"""Two graphs side by side: the left one comes first, also where one stands above the other."""

from typing import Any

from nbgrad.widgets.description.schema import Box, Layout

SIDES = ("a", "b")
"""The beginning of the ids of each graph."""

FRAMES = tuple(f"{side}side" for side in SIDES)
"""The ids of the boxes around them."""


def left_first(layout: Layout) -> Layout:
    """The layout with the first graph above the second; as it is where they stand beside each other.

    From left to right graphviz stacks unconnected parts from the bottom.
    """
    first, second = (layout["scopes"].get(frame) for frame in FRAMES)
    if first is None or second is None or second["y"] + second["height"] > first["y"]:
        return layout
    up = second["y"] - first["y"]
    down = first["y"] + first["height"] - second["y"] - second["height"]
    by = {"a": round(up, 1), "b": round(down, 1)}

    def moved(id: str, box: Box) -> Box:
        return {**box, "y": round(box["y"] + by[id.removeprefix("f-")[0]], 1)}

    def boxes(all_of_them: dict[str, Box]) -> dict[str, Box]:
        return {id: moved(id, box) for id, box in all_of_them.items()}

    def bent(id: str, runs: list[list[list[float]]]) -> list[list[list[float]]]:
        return [[[x, round(y + by[id[0]], 1)] for x, y in run] for run in runs]

    found: Any = {key: boxes(layout[key]) for key in ("nodes", "labels", "marks", "scopes")}
    return {**layout, **found, "edges": {id: bent(id, runs) for id, runs in layout["edges"].items()}}
