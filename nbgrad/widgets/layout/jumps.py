"""Lines that are too long to be followed: only their two ends are drawn, each with a sign of the same letter.

A sign stands beside its box, where it covers nothing. Where there is no room for it, a line stays a line.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise, product
from math import hypot
from string import ascii_lowercase
from typing import NamedTuple

from nbgrad.widgets.description.schema import Box, Edge, Jump, Layout
from nbgrad.widgets.description.short_names import without_class
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.description.text_metrics import WIDER, clip_middle, text_width
from nbgrad.widgets.layout.curves import Run
from nbgrad.widgets.layout.parts import Direction, PictureParts, overlap

_LONG = 0.6
"""A line is too long if it is longer than this part of the shorter side of its stage."""

SIGN_SIZE, SIGN_HEIGHT = 11.0, 15.0

_PAD = 5.0  # inside a sign, at its left and its right
_STUB = 16.0  # the length of the line between a box and its sign: room for two arrow heads
_ROOM = 2.0  # around a sign
_LETTERS = 16  # of a name in a sign, at most
_NAMES = 2  # in a sign, at most
_GAP = 4.0  # between its letters and its names
_TITLE = 20.0  # the height of the title of a frame

_CELL = 48.0  # points of lines are looked up in squares of this size

_CROSSED = 2.0  # the price of a point of a line below a sign
_BORDER = 2.0  # of the border of a frame
_NAMELESS = 2.0  # of a sign without a name


def with_jumps(parts: PictureParts, layout: Layout, on: Stage, direction: Direction) -> Layout:
    """The layout in which signs take the place of its longest lines."""
    scale = on.scale(layout)
    most = _LONG * min(on.width, on.height) / scale
    runs = layout["edges"]
    long = [
        edge
        for edge in parts.placed["edges"]
        if edge["reduction"] is None and edge["mismatch"] is None and sum(map(_length, runs[edge["id"]])) > most
    ]
    return _Signs(parts, layout, direction, long).layout() if long else layout


def _length(run: Run) -> float:
    return sum(hypot(x - a, y - b) for (a, b), (x, y) in pairwise(run))


class _LineEnd(NamedTuple):
    """One end of long lines: at their source or at their target."""

    node: str
    leaves: bool


class _Spot(NamedTuple):
    """A place of a sign.

    Attributes:
        side: of its box: 0 right, 1 left, 2 below, 3 above.
        at: the point of the box at which its line ends.
    """

    side: int
    at: tuple[float, float]

    @property
    def way(self) -> tuple[int, int]:
        """The direction from the box to the sign."""
        return ((1, 0), (-1, 0), (0, 1), (0, -1))[self.side]

    def box(self, width: float) -> Box:
        """That of a sign so wide."""
        (x, y), (right, down) = self.at, self.way
        x += right * (_STUB + width / 2) - width / 2
        y += down * (_STUB + SIGN_HEIGHT / 2) - SIGN_HEIGHT / 2
        return {"x": round(x, 1), "y": round(y, 1), "width": round(width, 1), "height": SIGN_HEIGHT}

    def taken(self, width: float) -> Box:
        """That of the sign with its line."""
        box, (right, down) = self.box(width), self.way
        return {
            "x": box["x"] - (_STUB - 2) * (right > 0),
            "y": box["y"] - (_STUB - 2) * (down > 0),
            "width": box["width"] + (_STUB - 2) * abs(right),
            "height": box["height"] + (_STUB - 2) * abs(down),
        }

    def stub(self) -> Run:
        """The line from the box to the sign."""
        (x, y), (right, down) = self.at, self.way
        return [[round(x + right * by, 1), round(y + down * by, 1)] for by in (0, _STUB / 3, 2 * _STUB / 3, _STUB)]


class _Signs:
    """The places of the signs of some lines."""

    def __init__(self, parts: PictureParts, layout: Layout, direction: Direction, long: list[Edge]) -> None:
        self._layout, self._direction, self._long = layout, direction, long
        self._known: dict[tuple[str, bool], float] = {}
        self._names = {node["id"]: node["label"][0] for node in parts.placed["nodes"]}
        ids = {edge["id"] for edge in long}
        titles: list[Box] = [
            {"x": box["x"], "y": box["y"], "width": layout["texts"][id] + 26, "height": _TITLE}
            for id, box in layout["scopes"].items()
        ]
        self._taken: list[Box] = [
            *(layout["nodes"][node["id"]] for node in parts.placed["nodes"]),
            *layout["marks"].values(),
            *(box for id, box in layout["labels"].items() if id not in ids),
            *titles,
        ]
        self._points: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        for run in [run for id, runs in layout["edges"].items() if id not in ids for run in runs]:
            for x, y in _sampled(run):
                self._points[int(x // _CELL), int(y // _CELL)].append((x, y))

    def layout(self) -> Layout:
        """The layout with the signs that there is room for."""
        spots = dict(self._placed())
        drawn = [edge for edge in self._long if _ends(edge) <= spots.keys()]
        letters = dict(zip(dict.fromkeys(edge["source"] for edge in drawn), _letters(), strict=False))
        at: defaultdict[_LineEnd, list[Edge]] = defaultdict(list)
        for edge in drawn:
            for end in _ends(edge):
                at[end].append(edge)
        edges, labels = dict(self._layout["edges"]), dict(self._layout["labels"])
        for edge in drawn:
            labels.pop(edge["id"], None)
            leaves, comes = (spots[_LineEnd(edge[end], end == "source")][0].stub() for end in ("source", "target"))
            edges[edge["id"]] = [leaves, comes[::-1]]
        jumps = [self._jump(end, at[end], letters, *spots[end]) for end in sorted(at, key=self._reading)]
        return {**self._layout, "edges": edges, "labels": labels, "jumps": jumps}

    def _reading(self, end: _LineEnd) -> tuple[float, float, bool]:
        box = self._layout["nodes"][end.node]
        return box["y"], box["x"], end.leaves

    def _placed(self) -> Iterator[tuple[_LineEnd, tuple[_Spot, bool]]]:
        """The place of the sign of each end, and whether it has room for a name."""
        at: dict[_LineEnd, list[Edge]] = {}
        for edge in self._long:
            for end in _ends(edge):
                at.setdefault(end, []).append(edge)
        for end, edges in at.items():
            found = min(self._free(end, edges), default=None)
            if found is not None:
                _, spot, named = found
                self._taken.append(spot.taken(self._width(end, edges, ["a"], named=named)))
                yield end, (spot, named)

    def _free(self, end: _LineEnd, edges: list[Edge]) -> Iterator[tuple[float, _Spot, bool]]:
        """The places where a sign covers no box and no text, with their prices."""
        for rank, spot in enumerate(self._spots(end)):
            for named in (True, False):
                box = spot.taken(self._width(end, edges, ["a"] * len({edge["source"] for edge in edges}), named=named))
                if self._inside(box) and not any(overlap(box, other, _ROOM) for other in self._taken):
                    price = rank + _CROSSED * self._crossed(box)
                    price += _BORDER * sum(_cuts(box, frame) for frame in self._layout["scopes"].values())
                    yield price + _NAMELESS * (not named), spot, named

    def _crossed(self, box: Box) -> int:
        """How many points of lines are in a box."""
        columns = range(int(box["x"] // _CELL), int((box["x"] + box["width"]) // _CELL) + 1)
        rows = range(int(box["y"] // _CELL), int((box["y"] + box["height"]) // _CELL) + 1)
        near = chain.from_iterable(self._points.get(cell, ()) for cell in product(columns, rows))
        return sum(_holds(box, point) for point in near)

    def _spots(self, end: _LineEnd) -> Iterator[_Spot]:
        """The places around a box, the best one first: not where other lines begin or end."""
        box = self._layout["nodes"][end.node]
        x, y, width, height = box["x"], box["y"], box["width"], box["height"]
        beside = (0.5,) if self._direction == "TB" else (0.2, 0.8)
        above = (0.2, 0.8) if self._direction == "TB" else (0.5,)
        sides = (0, 1, 2, 3) if end.leaves else (1, 0, 3, 2)
        for side in sides if self._direction == "TB" else (*sides[2:], *sides[:2]):
            for part in beside if side < 2 else above:
                place = (
                    (x + width * (side == 0), y + height * part)
                    if side < 2
                    else (x + width * part, y + height * (side == 2))
                )
                yield _Spot(side, place)

    def _inside(self, box: Box) -> bool:
        return (
            box["x"] >= _ROOM
            and box["y"] >= _ROOM
            and box["x"] + box["width"] <= self._layout["width"] - _ROOM
            and box["y"] + box["height"] <= self._layout["height"] - _ROOM
        )

    def _name(self, end: _LineEnd, edges: list[Edge]) -> str:
        """The names at the other end: at most two, and how many more there are."""
        far = dict.fromkeys(edge["target" if end.leaves else "source"] for edge in edges)
        names = [clip_middle(without_class(self._names[node]), _LETTERS) for node in far]
        if end.leaves:  # the names at a target are in the order of its letters
            names = list(dict.fromkeys(names))
        more = f" +{len(names) - _NAMES}" if len(names) > _NAMES else ""
        return f"{'→ ' if end.leaves else ''}{', '.join(names[:_NAMES])}{more}"

    def _width(self, end: _LineEnd, edges: list[Edge], letters: Iterable[str], *, named: bool) -> float:
        text = self._wide(" ".join(letters), bold=True)
        if named:
            text += _GAP + self._wide(self._name(end, edges), bold=False)
        return round(text * WIDER + 2 * _PAD)

    def _wide(self, text: str, *, bold: bool) -> float:
        """The width of a text, which is measured once."""
        if (text, bold) not in self._known:
            self._known[text, bold] = text_width(text, SIGN_SIZE, bold=bold)
        return self._known[text, bold]

    def _jump(self, end: _LineEnd, edges: list[Edge], letters: Mapping[str, str], spot: _Spot, named: bool) -> Jump:
        own = [letters[source] for source in dict.fromkeys(edge["source"] for edge in edges)]
        return {
            "letters": " ".join(own),
            "text": self._name(end, edges) if named else "",
            "node": end.node,
            "edges": [edge["id"] for edge in edges],
            "box": spot.box(self._width(end, edges, own, named=named)),
        }


def _ends(edge: Edge) -> set[_LineEnd]:
    return {_LineEnd(edge["source"], leaves=True), _LineEnd(edge["target"], leaves=False)}


def _letters() -> Iterator[str]:
    """a, b, ... z, aa, ab, ..."""
    for before in ("", *ascii_lowercase):
        for letter in ascii_lowercase:
            yield before + letter


def _sampled(run: Run) -> Iterator[tuple[float, float]]:
    """Points of a curve, a few pixels apart."""
    for at in range(0, len(run) - 3, 3):
        a, b, c, d = run[at : at + 4]
        many = int(_length(run[at : at + 4]) / 6) + 1
        for step in range(many):
            t = step / many
            p, q, r, s = (1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3
            yield p * a[0] + q * b[0] + r * c[0] + s * d[0], p * a[1] + q * b[1] + r * c[1] + s * d[1]


def _holds(box: Box, point: tuple[float, float]) -> bool:
    return box["x"] < point[0] < box["x"] + box["width"] and box["y"] < point[1] < box["y"] + box["height"]


def _cuts(box: Box, frame: Box) -> bool:
    """Whether the border of a frame goes through a box."""
    right, low = box["x"] + box["width"], box["y"] + box["height"]
    inside = (
        frame["x"] < box["x"]
        and frame["y"] < box["y"]
        and right < frame["x"] + frame["width"]
        and low < frame["y"] + frame["height"]
    )
    return overlap(box, frame, _ROOM) and not inside
