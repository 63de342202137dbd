"""The curves of a drawing, which are cubic Beziers: the curve beside one, its arrow head, its path in SVG.

``src/geometry.ts`` has the same functions: a test in a browser compares what both draw of one picture.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import hypot

from nbgrad.widgets.description.schema import Box

Run = list[list[float]]

Ends = tuple[bool | None, bool | None]
"""For each end of a curve: True at the top or bottom of a box, False at its left or right, None without a box."""

APART = 3.0
"""The distance of each of the two lines of an edge from the middle between them, in pixels."""

TIP_LENGTH, TIP_SIDE = 7.0, 3.2
"""The length of an arrow head, and its width at each side of the line."""

_FLAT = 0.2
"""If the slope between a curve and a side is below this, its end is moved across the curve, not along the side."""


def beside(run: Run, by: float, ends: Ends = (None, None)) -> Run:
    """The same curve, ``by`` pixels to the left of its direction; its ends stay on the sides where they are."""
    moved: Run = []
    last = len(run) - 1
    for at, (x, y) in enumerate(run):
        # Points at the same place tell no direction.
        (ax, ay), (bx, by_) = _other(run[at::-1]), _other(run[at:])
        dx, dy = bx - ax, by_ - ay
        length = hypot(dx, dy) or 1.0
        level = ends[0] if at == 0 else ends[1] if at == last else None
        if level is True and abs(dy) > _FLAT * length:
            moved.append([x + by * length / dy, y])
        elif level is False and abs(dx) > _FLAT * length:
            moved.append([x, y - by * length / dx])
        else:
            moved.append([x + by * dy / length, y - by * dx / length])
    return moved


def _other(points: Run) -> list[float]:
    """The next of the points that is not where the first one is; the first one if there is none."""
    return next((point for point in points if point != points[0]), points[0])


def sides(run: Run, boxes: tuple[Box | None, Box | None]) -> Ends:
    """Whether each end of a curve is on a level side of its box, or on an upright one; None without a box."""
    first, last = (
        None if box is None else _level(point, box) for point, box in zip((run[0], run[-1]), boxes, strict=True)
    )
    return first, last


def _level(point: list[float], box: Box) -> bool:
    x, y = point
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return min(abs(y - box["y"]), abs(y - bottom)) <= min(abs(x - box["x"]), abs(x - right))


def tip(run: Run) -> tuple[list[float], list[float]]:
    """The end of a run and a point one pixel before it, in its direction."""
    x, y = run[-1]
    for before_x, before_y in reversed(run[:-1]):
        length = hypot(x - before_x, y - before_y)
        if length > 0.5:
            return run[-1], [x - (x - before_x) / length, y - (y - before_y) / length]
    return run[-1], [x, y - 1]


def tip_points(end: list[float], base: list[float]) -> Run:
    """The corners of an arrow head."""
    (x, y), (dx, dy) = end, (end[0] - base[0], end[1] - base[1])
    back_x, back_y = x - TIP_LENGTH * dx, y - TIP_LENGTH * dy
    aside_x, aside_y = TIP_SIDE * dy, TIP_SIDE * dx
    return [[x, y], [back_x - aside_x, back_y + aside_y], [back_x + aside_x, back_y - aside_y]]


def path(run: Run) -> str:
    """A run as the path of an SVG, in few letters: each curve is written relative to its start."""
    points = [[round(10 * x), round(10 * y)] for x, y in run]  # tenths: so no error adds up
    (x, y), rest = points[0], points[1:]
    found = list[int]()
    for at in range(0, len(rest), 3):
        found += [one - start for point in rest[at : at + 3] for one, start in zip(point, (x, y), strict=True)]
        x, y = rest[at : at + 3][-1]
    return f"M{joined(points[0])}c{joined(found)}"


def closed(corners: Run) -> str:
    """A shape with these corners as a path of an SVG."""
    points = [[round(10 * x), round(10 * y)] for x, y in corners]
    steps = [b - a for before, after in pairwise(points) for a, b in zip(before, after, strict=True)]
    return f"M{joined(points[0])}l{joined(steps)}z"


def joined(tenths: Iterable[int]) -> str:
    """Numbers, given in tenths, as the text of a path: a sign separates them, too."""
    return " ".join([short(one / 10) for one in tenths]).replace(" -", "-")


def short(number: float) -> str:
    """A number with one decimal at most."""
    text = f"{number:.1f}".removesuffix(".0")
    return text if text != "-0" else "0"
