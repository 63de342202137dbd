"""The layout in which all of a picture is seen on its stage, with as much in each box as there is room for."""

from contextlib import suppress
from typing import Self

from nbgrad.widgets.description.schema import Form, Layout
from nbgrad.widgets.description.stage import LETTERS, READ, Stage
from nbgrad.widgets.layout.dot import dot_source
from nbgrad.widgets.layout.graphviz_wasm import LayoutTimeout, run_graphviz
from nbgrad.widgets.layout.jumps import with_jumps
from nbgrad.widgets.layout.parts import NAME, Direction, PictureParts
from nbgrad.widgets.layout.positions import positions
from nbgrad.widgets.layout.spread import spread

_TURNED = 120
"""With more nodes than this there is no second layout, although its letters might be larger, and no line is cut."""
BETTER = 1.1
"""The other direction is chosen only if it covers more by this factor: readers are used to top to bottom."""
_COVERED = 0.55
"""A picture of more than ``_FEW`` boxes should cover at least this part of the stage."""
_FEW = 12
SOME = 400
"""With more boxes than this there is no second layout of a picture for which there is no room."""
_LEAST = 1500.0
"""The least area that a box takes with the space around it, in pixels: more boxes than have room are not tried."""


class Search:
    """The most detailed forms in which a picture fits its stage.

    Args:
        parts: those of the picture.
        layout: its first one, in which all boxes are cards.
        direction: that of this layout.
        on: the stage.
        seconds: how long a layout may take.
        forms: the forms of the boxes, with less and less detail; first cards alone.

    Attributes:
        parts: those of the picture.
        level: the number of the level of detail that was found.
        told: that of the last level on which all boxes say more than their names.
    """

    def __init__(
        self, parts: PictureParts, layout: Layout, direction: Direction, on: Stage, seconds: float,
        forms: list[dict[str, Form]],
    ) -> None:  # fmt: skip
        self.parts, self._direction, self._on, self._seconds = parts, direction, on, seconds
        self._many = len(parts.placed["nodes"])
        crowded = self._many * _LEAST > on.width * on.height * (LETTERS / READ) ** 2
        # Where there is no room for all, names alone are seen larger than cards.
        self._levels = forms if not crowded else [forms[0], *forms[1:][-1:]] if self._many <= SOME else forms[:1]
        self._known: dict[tuple[int, Direction], Layout | None] = {(0, direction): layout}
        self.told = max(1, 2 * (len(self._levels) // 3))
        self.level = 0

    def named(self, letters: int) -> Self:
        """The search among the forms with names alone, cut to ``letters`` letters."""
        named = [self._levels[0], *(one for one in self._levels if NAME in one.values())]
        cards = self._known[0, self._direction]
        assert cards is not None, "the first layout was there"
        parts = self.parts.named(letters)
        return type(self)(parts, cards, self._direction, self._on, self._seconds, named)

    def best(self, *, turns: bool) -> tuple[Layout, Direction]:
        """The layout, and its direction; another one than the first only if the picture may be turned."""
        found, direction = self._best(turns=turns)
        return self._finished(found, direction), direction

    def _finished(self, layout: Layout, direction: Direction) -> Layout:
        """A layout that uses the stage, without the lines that are too long to be followed."""
        if self._many > _FEW and self._on.fits(layout):
            layout = spread(self.parts, layout, self._on)
        return with_jumps(self.parts, layout, self._on, direction) if _FEW < self._many <= _TURNED else layout

    def _best(self, *, turns: bool) -> tuple[Layout, Direction]:
        here = self._direction
        self.level = self._finest(here)
        found = self._at(self.level, here)
        assert found is not None, "only a layout that was there is the finest one"
        if turns and self._many <= _TURNED and not self._well(found):
            other: Direction = "TB" if here == "LR" else "LR"
            level = self._finest(other, self.level)
            turned = self._at(level, other)
            if turned is not None and self._larger(turned, found, level < self.level):
                self.level = level
                return turned, other
        return found, here

    def turned(self, direction: Direction) -> Layout | None:
        """The finest layout in the other direction; None if graphviz takes too long for it."""
        other: Direction = "TB" if direction == "LR" else "LR"
        found = self._at(self._finest(other), other)
        return None if found is None else self._finished(found, other)

    def _well(self, layout: Layout) -> bool:
        """Whether a layout is as good as it can be."""
        return self.level == 0 and self._on.fits(layout) and (self._many <= _FEW or self._on.covered(layout) > _COVERED)

    def _larger(self, turned: Layout, layout: Layout, detailed: bool) -> bool:
        """Whether the other direction shows more: all of it with more detail, or larger."""
        fits = self._on.fits(turned)
        if fits != self._on.fits(layout):
            return fits
        if not fits:
            return self._on.scale(turned) > self._on.scale(layout) * BETTER
        return detailed or (self._many > _FEW and self._on.covered(turned) > self._on.covered(layout) * BETTER)

    def _finest(self, direction: Direction, most: int | None = None) -> int:
        """The first level on which all is seen, found by halving; if there is none, the one on which most is seen.

        With ``most`` it is at most this level.
        """
        if self._fits(0, direction):
            return 0
        if most is not None and not self._fits(most, direction):
            return most
        low, high = (
            0,
            len(self._levels) if most is None else most,
        )  # it fits on no level up to the one, on all from the other on
        while high - low > 1:
            last = len(self._levels) - 1
            middle = (self.told if low == 0 else last) if high > last else (low + high) // 2
            low, high = (low, middle) if self._fits(middle, direction) else (middle, high)
        if high < len(self._levels):
            return high
        there = [(layout, level) for (level, way), layout in self._known.items() if way == direction and layout]
        return max(there, key=lambda one: (self._on.scale(one[0]), -one[1]), default=(None, 0))[1]

    def _fits(self, level: int, direction: Direction) -> bool:
        layout = self._at(level, direction)
        return layout is not None and self._on.fits(layout)

    def _at(self, level: int, direction: Direction) -> Layout | None:
        """The layout on a level; None if graphviz takes too long for it."""
        if (level, direction) not in self._known:
            self._known[level, direction] = None
            with suppress(LayoutTimeout):
                parts = self.parts.formed(self._levels[level])
                self._known[level, direction] = placed(
                    parts, direction, self._seconds, self._on, last=level == len(self._levels) - 1
                )
        return self._known[level, direction]


def placed(parts: PictureParts, direction: Direction, seconds: float, on: Stage, *, last: bool) -> Layout:
    """Find a place for everything that will be drawn.

    Raises:
        EngineError: graphviz fails; LayoutTimeout if it was stopped after ``seconds``.
    """
    return positions(parts, direction, answered(question(parts, direction), seconds), on, last=last)


def question(parts: PictureParts, direction: Direction) -> str:
    """The input for graphviz; empty if nothing will be drawn."""
    return dot_source(parts, direction) if parts.placed["nodes"] else ""


def answered(asked: str, seconds: float) -> str:
    """The answer of graphviz; empty for an empty question."""
    return run_graphviz(asked, seconds=seconds) if asked else ""
