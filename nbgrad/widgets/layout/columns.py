"""A tall layout in columns: the rows below a cut stand beside those above it, as text does in a newspaper.

A cut runs between two rows of boxes. The edges that it cuts are led from the foot of one column to the head of the
next. A frame around boxes of several columns is drawn around these columns; so a cut is made only where no box outside
of a frame stands beside a box inside it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from nbgrad.widgets.description.outline import LOOK
from nbgrad.widgets.description.schema import Box, Layout
from nbgrad.widgets.description.stage import LETTERS, READ, STAGE, Stage
from nbgrad.widgets.layout.curves import Run
from nbgrad.widgets.layout.parts import PictureParts, overlap

_MOST = 12  # columns
_PLACES = 64  # the most places for cuts that are compared
_CUTS = 4  # the tensors of which edges may be cut at one place
_MORE = 8  # the same where the picture cannot be read otherwise
_LARGER = 1.05  # by this factor more columns have to be seen larger
_WIDER = 1.3  # on a tight stage, columns may be wider by this factor where all letters are smaller anyhow
_FILLED = 0.7  # of the area of a layout: columns are not as wide as its widest row
_GAP = 30.0  # between two columns
_LANE = 11.0  # the distance of two edges that lead to the next column
_TURN = 10.0  # the radius of the corners of such an edge
_BEND = 0.45  # how far control points are from a corner, as a part of the radius: nearly a circle
_TIP = 4.0  # the length of the straight part of an edge at a box
_FREE = 14.0  # the distance from a box to the first such edge: room for an arrow head and a corner
_LABEL = 22.0  # the room of a frame above its boxes
_MARGIN = 9.0  # and on its other sides
_EDGE = 8.0
_ENDS = 6  # for this many frames, a new column right after the frame is tried
_AGAIN = 25.0  # one more cut edge or frame has to make the tallest column lower by at least this much


def in_columns(parts: PictureParts, layout: Layout, stage: Stage = STAGE, *, last: bool = True) -> Layout:
    """A layout in the fewest columns with which it is seen whole, or in as many as there is width for.

    Args:
        parts: those of the drawn graph.
        layout: its boxes without their rows, its edges and frames.
        stage: where it is seen.
        last: whether it is to be seen as large as can be if all of it is too much.

    Returns:
        The same where it fits already, or where it cannot be cut.
    """
    too_much = _FILLED * layout["width"] * layout["height"] > stage.width * stage.height * (LETTERS / READ) ** 2
    if stage.fits(layout) or not layout["nodes"] or (too_much and not last):
        return layout
    best = layout
    for most in (_CUTS, _MORE) if last and len(layout["nodes"]) <= LOOK else (_CUTS,):
        best = _cut(_Cutter(parts, layout, most), best, stage, last=last)
        if stage.fits(best):
            break
    return best


def _cut(cutter: "_Cutter", best: Layout, stage: Stage, *, last: bool) -> Layout:
    """The layout in columns that is seen largest, or the ``best`` one so far."""
    layout = cutter.layout
    fewest = int(layout["height"] * READ / LETTERS / stage.height)  # fewer columns would be too high, or just fit
    widths = sorted(box["width"] for box in layout["nodes"].values())
    wide = widths[len(widths) // 2] + _GAP + _LANE
    widest = stage.width * LETTERS / READ
    most = int(widest / wide)  # more columns would probably be too wide
    if last and stage.tight:
        widest *= _WIDER
    for many in range(max(2, min(fewest, most - 1, _MOST)), max(min(most + 1, _MOST), 2) + 1):
        for columns in cutter.cut(many):
            least = stage.scale(best) * _LARGER
            if columns.width > widest or stage.scale(columns.rough()) <= least:
                continue
            found = columns.layout()
            if stage.scale(found) > least and cutter.sound(found, columns.split):
                best = found
                if stage.fits(best):
                    break
        if stage.fits(best):
            break
    return best


class _Cut(NamedTuple):
    """A place between two rows.

    Attributes:
        at: how far from the top.
        edges: the ids of the edges that it cuts.
        frames: the ids of the scopes, outer before inner.
    """

    at: float
    edges: tuple[str, ...]
    frames: tuple[str, ...]


class _Cutter:
    def __init__(self, parts: PictureParts, layout: Layout, most: int) -> None:
        self.layout, self.tree, self._most = layout, parts.tree, most
        self.scope_of = {node["id"]: node["scope"] for node in parts.placed["nodes"]}
        self.ends = {edge["id"]: (edge["source"], edge["target"]) for edge in parts.placed["edges"]}
        self.taken = [*layout["nodes"].values(), *layout["marks"].values(), *layout["labels"].values()]
        self.cuts = _thinned(list(self._cuts()))

    def _cuts(self) -> Iterator[_Cut]:
        """Every place where a cut may be."""
        frames = self.layout["scopes"]
        spans = sorted((box["y"], box["y"] + box["height"]) for box in self.taken)
        bounds = sorted(at for box in frames.values() for at in (box["y"], box["y"] + box["height"]))
        tails = {id: (run[0][0][1], run[-1][-1][1]) for id, run in self.layout["edges"].items() if run}
        mixed = {id for id in frames if self._strangers(id)}
        end = 0.0
        for top, bottom in spans:
            if top > end + 4 and end:
                inside = [at for at in bounds if end < at < top]
                places = [(a + b) / 2 for a, b in pairwise([end, *inside, top]) if b - a > 3]
                found = [self._cut(at, tails, frames) for at in places]
                good = [
                    one
                    for one in found
                    if len({self.ends[edge][0] for edge in one.edges}) <= self._most
                    and not mixed.intersection(one.frames)
                ]
                if good:
                    yield min(good, key=lambda one: len(one.frames))
            end = max(end, bottom)

    def _cut(self, at: float, tails: Mapping[str, tuple[float, float]], frames: Mapping[str, Box]) -> _Cut:
        edges = [id for id, ends in tails.items() if min(ends) < at < max(ends)]
        around = [id for id, box in frames.items() if box["y"] < at < box["y"] + box["height"]]
        return _Cut(at, tuple(edges), tuple(sorted(around, key=self.tree.depths.__getitem__)))

    def _strangers(self, frame: str) -> bool:
        """Whether something stands beside a frame, outside of it."""
        box = self.layout["scopes"][frame]
        top, bottom = box["y"], box["y"] + box["height"]
        return any(
            not self.tree.around(frame, self.scope_of[id])
            for id, other in self.layout["nodes"].items()
            if other["y"] < bottom and other["y"] + other["height"] > top
        )

    def cut(self, many: int) -> "Iterator[_Columns]":
        """So many columns, in some ways; none where there are too few places for cuts.

        Boxes after a frame that was cut stand below all of it, or in a new column that begins at the end of the frame.
        """
        ends = [at for at, (cut, after) in enumerate(pairwise(self.cuts), 1) if len(after.frames) < len(cut.frames)]
        for forced in (None, *ends[-_ENDS:]):
            chosen = self._chosen(many, forced)
            if chosen is not None:
                yield _Columns(self, chosen)

    def sound(self, found: Layout, frames: set[str]) -> bool:
        """Whether each frame that was cut is around what it holds, and around nothing else."""
        for frame in frames:
            outer = found["scopes"][frame]
            for id, box in found["nodes"].items():
                if self.tree.around(frame, self.scope_of[id]) != overlap(box, outer):
                    return False
        return True

    def _chosen(self, many: int, forced: int | None = None) -> list[_Cut] | None:
        """The cuts that make the tallest column as low as can be, with few edges and frames cut.

        The cut with the number ``forced`` is one of them.
        """
        if len(self.cuts) < many - 1:
            return None
        last = self.layout["height"]
        ends = [cut.at for cut in self.cuts] + [last]
        price = [_AGAIN * (len(cut.edges) - 1 + max(0, len(cut.frames) - 1)) for cut in self.cuts] + [0.0]

        def follows(before: int, at: int) -> bool:
            return before < at and (forced is None or not before < forced < at)

        # best[at]: the best choice whose last column ends at ends[at]: its tallest column, its price, and its cuts
        best = {at: (end, price[at], [at]) for at, end in enumerate(ends) if forced is None or at <= forced}
        for _ in range(many - 1):
            best = {
                at: min(
                    (
                        (max(tall, end - ends[before]), paid + price[at], [*cuts, at])
                        for before, (tall, paid, cuts) in best.items()
                        if follows(before, at)
                    ),
                    key=lambda one: one[0] + one[1],
                )
                for at, end in enumerate(ends)
                if any(follows(before, at) for before in best)
            }
        found = best.get(len(ends) - 1)
        return None if found is None else [self.cuts[at] for at in found[2][:-1]]


def _thinned(cuts: list[_Cut]) -> list[_Cut]:
    """At most ``_PLACES`` of them: of neighbours the one that cuts fewest edges and frames."""
    size = -(-len(cuts) // _PLACES) or 1
    groups = (cuts[at : at + size] for at in range(0, len(cuts), size))
    return [min(group, key=lambda one: len(one.edges) + len(one.frames)) for group in groups]


class _Columns:
    """The columns that some cuts make, and where everything is then."""

    def __init__(self, cutter: _Cutter, cuts: list[_Cut]) -> None:
        self.cutter, self.cuts, self.old = cutter, cuts, cutter.layout
        self.tops = [0.0, *(cut.at for cut in cuts)]
        self.ends = [*(cut.at for cut in cuts), self.old["height"] + 1]
        self.many = len(self.tops)
        self.shift = [(0.0, 0.0)] * self.many
        self.frames: dict[str, Box] = {}
        self.down: dict[str, float] = {}  # by how much a frame has become longer
        self.split = {frame for cut in cuts for frame in cut.frames}
        self.extents = [self._extent(at, self.split) for at in range(self.many)]
        deepest = max((len(cut.frames) for cut in cuts), default=0)
        lanes = sum(_GAP + _LANE * len(cut.edges) for cut in cuts)
        self.width = 2 * (_EDGE + _MARGIN * deepest) + lanes + sum(right - left for left, right, _, _ in self.extents)

    def column(self, y: float) -> int:
        """The number of the column that contains a point that was ``y`` below the top."""
        # A control point of a curve may be outside of the picture.
        return next((at for at, end in enumerate(self.ends) if y < end), self.many - 1)

    def rough(self) -> Layout:
        """The old layout with the width of these columns, and the height that they have at least."""
        tallest = max(bottom - top for _, _, top, bottom in self.extents)
        return {**self.old, "width": self.width, "height": tallest + 2 * _EDGE}

    def layout(self) -> Layout:
        """Everything in its place."""
        old, split, extents = self.old, self.split, self.extents
        of_cut = [list(cut.edges) for cut in self.cuts]
        lanes = [_FREE + _LANE * (len(edges) - 1) for edges in of_cut]
        self.shift = []
        heads: dict[str, float] = {}  # the top of each frame that is cut
        x = _EDGE
        deepest = max((len(cut.frames) for cut in self.cuts), default=0)
        x += _MARGIN * deepest
        begins: list[float] = []
        for at, (left, right, top, _) in enumerate(extents):
            if at:
                frames = self.cuts[at - 1].frames
                begin = (heads[frames[-1]] + _LABEL if frames else _EDGE) + lanes[at - 1]
                x += _GAP + _LANE * len(of_cut[at - 1])
            else:
                begin = min(top, _EDGE) if top < _EDGE else top
            begins.append(begin)
            self.shift.append((x - left, begin - top))
            for frame in split:
                box = old["scopes"][frame]
                if frame not in heads and self.column(box["y"]) == at:
                    heads[frame] = box["y"] + begin - top
            x += right - left
        self._frames(split, heads, extents, lanes)
        for at, lower in enumerate(self._lower()):
            self.shift[at] = (self.shift[at][0], self.shift[at][1] + lower)
            begins[at] += lower
        self._frames(split, heads, extents, lanes)
        moved = self._moved(split)
        edges = self._edges(of_cut, extents, begins)
        feet = [
            *(box["y"] + box["height"] for group in (moved["nodes"], moved["scopes"]) for box in group.values()),
            *(y for runs in edges.values() for run in runs for _, y in run),
        ]
        return {**moved, "edges": edges, "width": round(self.width, 1), "height": round(max(feet) + _EDGE, 1)}

    def _extent(self, at: int, split: set[str]) -> tuple[float, float, float, float]:
        """The left, right, upper and lower end of a column."""
        old = self.old
        inside = [box for box in self.cutter.taken if self.column(box["y"]) == at]
        inside += [box for id, box in old["scopes"].items() if id not in split and self.column(box["y"]) == at]
        # The head of a frame that is cut later belongs to its first column.
        heads = [old["scopes"][id]["y"] for id in split if self.column(old["scopes"][id]["y"]) == at]
        points = [
            point for runs in old["edges"].values() for run in runs for point in run if self.column(point[1]) == at
        ]
        xs = [*(box["x"] for box in inside), *(box["x"] + box["width"] for box in inside), *(x for x, _ in points)]
        ys = [*(box["y"] for box in inside), *heads]
        return min(xs), max(xs), min(ys), max(box["y"] + box["height"] for box in inside)

    def _frames(
        self, split: set[str], heads: dict[str, float], extents: list[tuple[float, float, float, float]],
        lanes: list[float],
    ) -> None:  # fmt: skip
        """Draw each frame that is cut around all its columns, the inner ones first, and push down the boxes below."""
        tree, old = self.cutter.tree, self.old
        self.frames, self.down = {}, {}
        for frame in sorted(split, key=tree.depths.__getitem__, reverse=True):
            box = old["scopes"][frame]
            first, last = self.column(box["y"]), self.column(box["y"] + box["height"])
            lefts, rights, feet = list[float](), list[float](), list[float]()
            for at in range(first, last + 1):
                left, right, _, bottom = extents[at]
                dx, dy = self.shift[at]
                lefts.append(left + dx)
                rights.append(right + dx)
                if at < last:
                    feet.append(bottom + dy + lanes[at] - _MARGIN / 2)
                else:
                    feet.append(self._place(0.0, box["y"] + box["height"], last)[1] - _MARGIN)
            inner = [self.frames[one] for one in self.frames if tree.around(frame, one)]
            lefts += [one["x"] for one in inner]
            rights += [one["x"] + one["width"] for one in inner]
            feet += [one["y"] + one["height"] for one in inner]
            x, y, foot = min(lefts) - _MARGIN, heads[frame], max(feet) + _MARGIN
            self.frames[frame] = {
                "x": round(x, 1), "y": round(y, 1), "width": round(max(rights) + _MARGIN - x, 1),
                "height": round(foot - y, 1),
            }  # fmt: skip
            self.down[frame] = foot - (box["y"] + box["height"] + self.shift[last][1])

    def _lower(self) -> Iterator[float]:
        """By how much each column has to begin lower, so that a frame that was cut ends right below its last box.

        Else a short last column would leave an empty part of the frame below it, with a long edge through that part.
        """
        ends = {id: self.column(self.old["scopes"][id]["y"] + self.old["scopes"][id]["height"]) for id in self.down}
        for at in range(self.many):
            yield max((down for id, down in self.down.items() if ends[id] == at), default=0.0)

    def _place(self, x: float, y: float, at: int) -> list[float]:
        """The new place of a point of a column; below a frame that has become longer, it is lower by as much."""
        dx, dy = self.shift[at]
        more = 0.0
        for frame, down in self.down.items():
            box = self.old["scopes"][frame]
            end = box["y"] + box["height"]
            if y >= end - 0.1 and self.column(end) == at:
                more = max(more, down)
        return [round(x + dx, 1), round(y + dy + more, 1)]

    def _box(self, box: Box) -> Box:
        x, y = self._place(box["x"], box["y"], self.column(box["y"]))
        return {**box, "x": x, "y": y}

    def _moved(self, split: set[str]) -> Layout:
        old = self.old
        frames = {id: self.frames[id] if id in split else self._box(box) for id, box in old["scopes"].items()}
        return {
            **old,
            "nodes": {id: self._box(box) for id, box in old["nodes"].items()},
            "marks": {id: self._box(box) for id, box in old["marks"].items()},
            "labels": {id: self._box(box) for id, box in old["labels"].items()},
            "scopes": frames,
        }

    def _edges(
        self, of_cut: list[list[str]], extents: list[tuple[float, float, float, float]], begins: list[float]
    ) -> dict[str, list[Run]]:
        lane: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for at, edges in enumerate(of_cut):
            for place, edge in enumerate(edges):
                lane[at][edge] = place
        found: dict[str, list[Run]] = {}
        for id, runs in self.old["edges"].items():
            found[id] = [self._led(run, id, lane, of_cut, extents, begins) for run in runs]
        return found

    def _ends(self, at: int) -> list[float]:
        """The lower ends of the cut frames that end in a column: edges to the next column run below them."""
        boxes = [(self.old["scopes"][id], box) for id, box in self.frames.items()]
        return [new["y"] + new["height"] for old, new in boxes if self.column(old["y"] + old["height"]) == at]

    def _led(
        self, run: Run, id: str, lane: dict[int, dict[str, int]], of_cut: list[list[str]],
        extents: list[tuple[float, float, float, float]], begins: list[float],
    ) -> Run:  # fmt: skip
        """An edge in its column, or from the foot of one to the head of another."""
        first, last = self.column(run[0][1]), self.column(run[-1][1])
        if first == last:
            return [self._place(x, y, first) for x, y in run]
        if first > last:  # it runs upwards
            return self._led(run[::-1], id, lane, of_cut, extents, begins)[::-1]
        upper, rest = _parted(run, extents[first][3] + 1)
        _, lower = _parted(rest, extents[last][2] - 1)
        upper, lower = _upright(upper[::-1])[::-1], _upright(lower)
        start = [self._place(x, y, first) for x, y in upper]
        end = [self._place(x, y, last) for x, y in lower]
        place, others = lane[first].get(id, 0), len(of_cut[first])
        behind = lane[last - 1].get(id, 0)
        foot = max([extents[first][3] + self.shift[first][1], *self._ends(first)]) + _FREE + _LANE * place
        head = begins[last] - _FREE - _LANE * (len(of_cut[last - 1]) - 1 - behind)
        aside = extents[last][0] + self.shift[last][0] - _GAP / 2 - _LANE * (len(of_cut[last - 1]) - 1 - behind)
        (x0, _), (x1, _) = start[-1], end[0]
        way = [start[-1], [x0, foot], [aside, foot], [aside, head], [x1, head], end[0]]
        if last > first + 1:  # over the heads of the columns between
            near = extents[first + 1][0] + self.shift[first + 1][0] - _GAP / 2 - _LANE * (others - 1 - place)
            over = min(
                begins[at] - _FREE - _LANE * (len(of_cut[at - 1]) - 1 - lane[at - 1].get(id, 0))
                for at in range(first + 1, last)
            )
            way[2:4] = [[near, foot], [near, over], [aside, over], [aside, head]]
        return [*start, *_rounded(way)[1:], *end[1:]]


def _upright(run: Run) -> Run:
    """The run with a start straight up or down, to continue the line that leads to it."""
    start, first, second, end = run[:4]
    level = abs(first[1] - start[1]) < abs(end[1] - start[1]) / 3
    return [start, [start[0], start[1] + (end[1] - start[1]) / 3 if level else first[1]], second, end, *run[4:]]


def _parted(run: Run, y: float) -> tuple[Run, Run]:
    """The parts of a run above and below a line."""
    for at in range(0, len(run) - 3, 3):
        piece = run[at : at + 4]
        if piece[0][1] < y <= piece[3][1] or (at + 4 >= len(run)):
            low, high = 0.0, 1.0
            for _ in range(12):
                middle = (low + high) / 2
                if _split(piece, middle)[0][3][1] < y:
                    low = middle
                else:
                    high = middle
            above, below = _split(piece, (low + high) / 2)
            return [*run[:at], *above], [*below, *run[at + 4 :]]
    return run, run[-1:] * 4


def _split(piece: Run, t: float) -> tuple[Run, Run]:
    """A cubic in two."""

    def between(a: list[float], b: list[float]) -> list[float]:
        return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t]

    a, b, c, d = piece
    ab, bc, cd = between(a, b), between(b, c), between(c, d)
    abc, bcd = between(ab, bc), between(bc, cd)
    middle = between(abc, bcd)
    return [a, ab, abc, middle], [middle, bcd, cd, d]


def _rounded(way: Run) -> Run:
    """A way of straight lines with round corners, as cubics."""
    run = [way[0]]
    for before, (x, y), after in zip(way, way[1:], way[2:], strict=False):
        legs = [((before[0] - x), (before[1] - y)), ((after[0] - x), (after[1] - y))]
        lengths = [max(abs(dx), abs(dy)) for dx, dy in legs]
        ends = before is way[0], after is way[-1]  # a leg with one corner
        rooms = [length - _TIP if end else length / 2 for length, end in zip(lengths, ends, strict=True)]
        radius = min(_TURN, *rooms)
        if radius < 0.1:
            continue
        (ax, ay), (bx, by) = (
            [round(x + dx * radius / length, 1), round(y + dy * radius / length, 1)]
            for (dx, dy), length in zip(legs, lengths, strict=True)
        )
        bend = [[round(x + _BEND * (px - x), 1), round(y + _BEND * (py - y), 1)] for px, py in ((ax, ay), (bx, by))]
        run += [*_straight(run[-1], [ax, ay]), *bend, [bx, by]]
    return [*run, *_straight(run[-1], way[-1])]


def _straight(start: list[float], end: list[float]) -> Run:
    thirds = [[round(a + (b - a) * part / 3, 1) for a, b in zip(start, end, strict=True)] for part in (1, 2)]
    return [*thirds, end]
