"""The curves of a drawing, which are cubic Beziers: the curve beside one, its arrow head, its path in SVG.

``src/geometry.ts`` has the same functions: a test in a browser compares what both draw of one picture.
"""

from math import hypot

Run = list[list[float]]

APART = 3.0
"""So far each of the two wires of an edge is from the middle between them, in pixels."""

TIP_LENGTH, TIP_SIDE = 7.0, 3.2
"""An arrow head is so long, and so wide to each side of its wire."""


def beside(run: Run, by: float) -> Run:
    """The same curve, ``by`` pixels to the left of its direction."""
    moved: Run = []
    for at, (x, y) in enumerate(run):
        (ax, ay), (bx, by_) = run[max(0, at - 1)], run[min(len(run) - 1, at + 1)]
        length = hypot(bx - ax, by_ - ay) or 1.0
        moved.append([x + by * (by_ - ay) / length, y - by * (bx - ax) / length])
    return moved


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
    """A run as the path of an SVG."""
    start, *rest = [f"{short(x)} {short(y)}" for x, y in run]
    return f"M{start}C{' '.join(rest)}"


def short(number: float) -> str:
    """A number with one decimal at most."""
    return f"{number:.1f}".removesuffix(".0")
