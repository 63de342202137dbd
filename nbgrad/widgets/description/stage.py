"""The stage: the part of a page in which a picture is seen whole, and how large it is seen there."""

from typing import NamedTuple

from nbgrad.widgets.description.schema import Layout

LETTERS = 11.0
"""How high the smallest letters of a picture are."""

READ = 9.0
"""How high letters have to be on the screen to be read."""

PROJECTOR = 3.0
"""How many times as high letters have to be on a projector: 27 pixels, a little more than 20 points."""

LARGEST = 1.25
"""A small picture is not seen larger than by this factor."""


_TIGHT = 120_000  # pixels: a projector has 102,400, and a phone 195,000


class Stage(NamedTuple):
    """The width and the height of a stage, in pixels: those in JupyterLab on a laptop, with a screen of 1366 x 768."""

    width: float = 1171.0
    height: float = 447.0

    def scale(self, layout: Layout) -> float:
        """The scale at which a layout is seen whole."""
        return min(LARGEST, self.width / layout["width"], self.height / layout["height"])

    def fits(self, layout: Layout) -> bool:
        """Whether a layout is seen whole with letters that can be read."""
        return self.scale(layout) >= READ / LETTERS

    def covered(self, layout: Layout) -> float:
        """How much of the stage a layout covers where it is seen whole: a part of 1."""
        return self.scale(layout) ** 2 * layout["width"] * layout["height"] / (self.width * self.height)

    @property
    def tight(self) -> bool:
        """Whether it has room for a few boxes only, as that of a projector."""
        return self.width * self.height < _TIGHT

    def projected(self) -> "Stage":
        """The stage without a projector on which as much has room as on this one with a projector."""
        return Stage(self.width / PROJECTOR, self.height / PROJECTOR)

    def bounded(self) -> "Stage":
        """The same, neither smaller nor larger than any real one."""
        return Stage(min(max(self.width, 200.0), 4000.0), min(max(self.height, 150.0), 3000.0))


STAGE = Stage()
"""That of a file, and of a view before any page has told its own."""

SCREEN = Stage(1280.0, 720.0)
"""That of a projector: the whole screen."""


class Pages:
    """The pages that show the pictures of this process.

    Attributes:
        stage: the one of the page that told its own last: the next picture will probably be seen there.
    """

    stage = STAGE
