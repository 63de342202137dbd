"""The answer of graphviz: the positions of all boxes and edges, with the rows and marks that it does not know."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from nbgrad.widgets.description.ids import cluster_name, half_names, mark_name
from nbgrad.widgets.description.schema import Box, Description, Edge, Layout
from nbgrad.widgets.description.stage import STAGE, Stage
from nbgrad.widgets.layout.card import INSET, MARK_HEIGHT
from nbgrad.widgets.layout.columns import in_columns
from nbgrad.widgets.layout.curves import beside
from nbgrad.widgets.layout.parts import ASIDE, LABEL_HEIGHT, Direction, PictureParts, Sizes, label_lines
from nbgrad.widgets.layout.sides import left_first

_EDGE = 8.0
_ABOVE = 6.0  # how much higher a label stands over an edge that runs sideways: an edge has two lines
_OVER = 30.0
"""How far a line over two boxes of a row rises above them: the height of its control points."""


def positions(
    parts: PictureParts, direction: Direction, answer: str, stage: Stage = STAGE, *, last: bool = True
) -> Layout:
    """The layout in an answer of graphviz, which is empty if nothing is drawn; in columns if the stage is too low.

    If it is not the ``last`` one to be tried, it is not cut if all of it is too much in any case.
    """
    description, sizes = parts.placed, parts.sizes
    if not answer:
        size, none = 2 * _EDGE, dict[str, Any]
        return Layout(
            width=size, height=size, nodes=none(), edges=none(), labels=none(), marks=none(), scopes=none(), jumps=[],
            forms=none(), shrunk=none(), texts=none(),
        )  # fmt: skip
    answered: dict[str, Any] = json.loads(answer)
    left, bottom, right, top = map(float, answered["bb"].split(","))

    def point(text: str) -> list[float]:
        x, y = text.split(",")
        return [round(float(x) - left + _EDGE, 1), round(top - float(y) + _EDGE, 1)]

    objects = {thing["name"]: thing for thing in answered.get("objects", [])}
    runs = _runs(parts, answered, objects, point)
    places = {edge["id"]: point(edge["lp"]) for edge in answered.get("edges", []) if "id" in edge and "lp" in edge}

    def node_box(name: str, size: tuple[float, float]) -> Box:
        return _box(point(objects[name]["pos"]), *size)

    edges, labels = _edges(parts, direction, runs, places)
    marks: dict[str, Box] = {}
    for edge in description["edges"]:
        id = edge["id"]
        if edge["reduction"] is None:
            continue
        edges[id] = [runs[half] for half in half_names(id)]
        whole = node_box(mark_name(id), sizes.marks[id])
        above = LABEL_HEIGHT + 2 if id in sizes.labels else 0.0
        if above:
            labels[id] = {**whole, "height": LABEL_HEIGHT}
        marks[id] = {**whole, "y": round(whole["y"] + above, 1), "height": MARK_HEIGHT}
    scopes: dict[str, Box] = {}
    for scope in description["scopes"]:
        x0, y0, x1, y1 = objects[cluster_name(scope["id"])]["bb"].split(",")
        (x, y), (x_end, y_end) = point(f"{x0},{y1}"), point(f"{x1},{y0}")
        scopes[scope["id"]] = {"x": x, "y": y, "width": round(x_end - x, 1), "height": round(y_end - y, 1)}
    placed: Layout = {
        "width": round(right - left + 2 * _EDGE, 1),
        "height": round(top - bottom + 2 * _EDGE, 1),
        "nodes": {node["id"]: node_box(node["id"], sizes.nodes[node["id"]]) for node in description["nodes"]},
        "edges": edges,
        "labels": labels,
        "marks": marks,
        "scopes": scopes,
        "jumps": [],
        "forms": dict(sizes.forms),
        "shrunk": sizes.shrunk,
        "texts": sizes.texts,
    }
    # Rows that were cut would not stand beside each other.
    tall = direction == "TB" and not parts.rows.together
    found = _with_rows(parts.drawn, in_columns(parts, placed, stage, last=last) if tall else placed, sizes)
    return left_first(parts, found) if description["twins"] else found


def _runs(
    parts: PictureParts, answered: dict[str, Any], objects: dict[str, Any], point: Callable[[str], list[float]]
) -> dict[str, list[list[float]]]:
    """The line of each edge that graphviz was asked for, from its source to its target."""
    runs = {
        edge["id"]: [point(pair) for pair in edge["pos"].split(";")[0].split()]
        for edge in answered.get("edges", [])
        if "id" in edge and "pos" in edge  # an invisible edge has no id
    }
    rows, sizes = parts.rows, parts.sizes
    for edge in [bundle[0] for bundle in parts.bundles] if rows.together else ():
        if edge["id"] not in runs:  # graphviz finds no line for some edges within a row
            source, target = edge["source"], edge["target"]
            ends = point(objects[source]["pos"]), point(objects[target]["pos"])
            runs[edge["id"]] = _line(*ends, sizes.nodes[source], sizes.nodes[target])
        elif rows.upwards(edge):
            runs[edge["id"]].reverse()
    return runs


def _line(
    start: list[float], end: list[float], size: tuple[float, float], other: tuple[float, float]
) -> list[list[float]]:
    """A curve from the upper side of one box to that of another: over what stands between them."""
    begin, stop = [start[0], start[1] - size[1] / 2], [end[0], end[1] - other[1] / 2]
    over = min(begin[1], stop[1]) - _OVER
    return [begin, [begin[0], over], [stop[0], over], stop]


def _edges(
    parts: PictureParts, direction: Direction, runs: Mapping[str, list[list[float]]], places: Mapping[str, list[float]]
) -> tuple[dict[str, list[list[list[float]]]], dict[str, Box]]:
    """The lines of the edges without a mark, those of a bundle beside each other; and their labels."""
    edges: dict[str, list[list[list[float]]]] = {}
    labels: dict[str, Box] = {}
    rows, sizes = parts.rows, parts.sizes
    for bundle in parts.bundles:
        first = bundle[0]["id"]
        for at, edge in enumerate(bundle):
            aside = 0.0 if rows.level(edge) else ASIDE * (at - (len(bundle) - 1) / 2)
            edges[edge["id"]] = [[[round(x, 1), round(y, 1)] for x, y in beside(runs[first], aside)]]
        if first in places:
            told = [edge for edge in bundle if edge["id"] in sizes.labels]
            labels |= _labels(told, places[first], direction, sizes)
    return edges, labels


def _with_rows(description: Description, placed: Layout, sizes: Sizes) -> Layout:
    """The layout with the rows in the boxes of their ops, and the marks in the rows."""
    boxes, edges, marks = placed["nodes"], placed["edges"], placed["marks"]
    for edge in description["edges"]:
        if (id := edge["source"]) not in sizes.below:
            continue
        box, by = boxes[edge["target"]], sizes.shrunk.get(id, 1.0)
        width, height = round(sizes.nodes[id][0], 1), round(sizes.nodes[id][1], 1)
        x, y = round(box["x"] + INSET * by, 1), round(box["y"] + sizes.below[id], 1)
        boxes[id] = {"x": x, "y": y, "width": width, "height": height}
        edges[edge["id"]] = []
        if edge["id"] in sizes.marks:
            wide, high = sizes.marks[edge["id"]]
            x, y = round(x + width - wide - INSET * by, 1), round(y + height - high - 2 * by, 1)
            marks[edge["id"]] = {"x": x, "y": y, "width": round(wide, 1), "height": round(high, 1)}
    return {
        **placed,
        "nodes": {node["id"]: boxes[node["id"]] for node in description["nodes"]},
        "edges": {edge["id"]: edges[edge["id"]] for edge in description["edges"]},
    }


def _labels(bundle: list[Edge], middle: list[float], direction: Direction, sizes: Sizes) -> dict[str, Box]:
    """The places of the labels of a bundle, in the order of its edges."""
    x, y = middle
    widths = [sizes.labels[edge["id"]] + 4 for edge in bundle]
    heights = [LABEL_HEIGHT * len(label_lines(edge)) for edge in bundle]
    more = len(bundle) > 1
    x += (more * ASIDE - sum(widths) - 6 * (len(bundle) - 1)) / 2
    y += (sum(heights) - more * LABEL_HEIGHT) / 2
    labels: dict[str, Box] = {}
    for edge, width, height in zip(bundle, widths, heights, strict=True):
        at = [x + width / 2, middle[1]] if direction == "TB" else [middle[0], y - height / 2 - _ABOVE]
        labels[edge["id"]] = _box(at, round(width), height)
        x, y = x + width + 6, y - height
    return labels


def _box(at: list[float], width: float, height: float) -> Box:
    x, y = at
    return {"x": round(x - width / 2, 1), "y": round(y - height / 2, 1), "width": width, "height": height}
