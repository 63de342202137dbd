"""A picture that is as wide and as high as its stage allows: its boxes are moved apart."""

from collections.abc import Mapping

from nbgrad.widgets.description.schema import Box, Layout
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.layout.curves import Run
from nbgrad.widgets.layout.parts import PictureParts

_MOST = 1.6
"""Boxes are moved apart by this factor at most: lines that are too long are hard to follow."""

_WORTH = 1.02


def spread(parts: PictureParts, layout: Layout, on: Stage) -> Layout:
    """The layout with its boxes moved apart until it is as wide and as high as the stage at the same scale.

    Boxes, marks and labels keep their sizes.
    """
    scale = on.scale(layout)
    across = min(_MOST, on.width / scale / layout["width"])
    down = min(_MOST, on.height / scale / layout["height"])
    return _Stretched(parts, layout, across, down).layout() if max(across, down) > _WORTH else layout


class _Stretched:
    """A layout with all places multiplied; what is inside of a box moves with the box."""

    def __init__(self, parts: PictureParts, layout: Layout, across: float, down: float) -> None:
        self._parts, self._old, self._by = parts, layout, (across, down)

    def layout(self) -> Layout:
        """Everything in its place."""
        old, drawn, (across, down) = self._old, self._parts.drawn, self._by
        ops = {node["id"]: node["row"] for node in drawn["nodes"] if node["row"] is not None}
        frames: dict[str, Box] = {
            id: {
                "x": round(box["x"] * across, 1), "y": round(box["y"] * down, 1),
                "width": round(box["width"] * across, 1), "height": round(box["height"] * down, 1),
            }
            for id, box in old["scopes"].items()
        }  # fmt: skip
        edges: dict[str, list[Run]] = {}
        for edge in drawn["edges"]:
            id, mark = edge["id"], old["marks"].get(edge["id"])
            runs = old["edges"][id]
            stops = [old["nodes"][edge["source"]], *[mark] * (len(runs) - 1), old["nodes"][edge["target"]]]
            edges[id] = [self._led(run, stops[at], stops[at + 1]) for at, run in enumerate(runs)]
        return {
            **old,
            "width": round(old["width"] * across, 1),
            "height": round(old["height"] * down, 1),
            "nodes": self._moved(old["nodes"], ops),
            "marks": self._moved(old["marks"], {one["id"]: ops.get(one["source"]) for one in drawn["edges"]}),
            "labels": self._moved(old["labels"], {}),
            "scopes": frames,
            "edges": edges,
        }

    def _shift(self, box: Box) -> tuple[float, float]:
        """How far the middle of a box moves."""
        across, down = self._by
        return (box["x"] + box["width"] / 2) * (across - 1), (box["y"] + box["height"] / 2) * (down - 1)

    def _moved(self, boxes: Mapping[str, Box], homes: Mapping[str, str | None]) -> dict[str, Box]:
        """The boxes; one with a home, which is a node, moves as that does."""
        found: dict[str, Box] = {}
        for id, box in boxes.items():
            x, y = self._shift(box if (home := homes.get(id)) is None else self._old["nodes"][home])
            found[id] = {**box, "x": round(box["x"] + x, 1), "y": round(box["y"] + y, 1)}
        return found

    def _led(self, run: Run, start: Box | None, end: Box | None) -> Run:
        """A line, with its ends where they were at the boxes that they touch."""
        found = [[x * self._by[0], y * self._by[1]] for x, y in run]
        for at, near, box in ((0, 1, start), (-1, -2, end)):
            if box is not None:
                off = [old + by - new for old, by, new in zip(run[at], self._shift(box), found[at], strict=True)]
                for place in (at, near):
                    found[place] = [value + by for value, by in zip(found[place], off, strict=True)]
        return [[round(x, 1), round(y, 1)] for x, y in found]
