"""Measure what a reader sees first: pictures of many networks, in a browser, at three sizes of the view.

python -m benchmarks.first_look
python -m benchmarks.first_look --only vae --size 790x480 --shots build/shots
python -m benchmarks.first_look --half tuned --states

With ``--states`` each picture is also seen at Fit, at five other zooms, with each panel open, with other numbers and,
recorded again with ``--ask``, with an answer: texts that collide are counted in all these states.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import sync_playwright

import nbgrad
from benchmarks.live_page import Kernel, Notebook, Opened, Size, Window
from benchmarks.look_states import asked, states
from tests.lab.harness import CHROMIUM_FLAGS
from tests.widgets import cells, tuned_cells
from tools.check_tools import chromium

SIZES = (Size(1171, 631, (1366, 768)), Size(790, 480, (1024, 600)), Size(390, 700, (390, 844)))
"""JupyterLab on a laptop, beside a side panel, and a phone."""

REAL = (
    *(("einops", "mixer"), ("einops", "attention"), ("torch", "complex_numbers"), ("torch", "per_sample")),
    *(("transformers", "gpt2"), ("transformers", "bert"), ("transformers", "llama"), ("transformers", "t5")),
    *(("transformers", "mixtral"), ("transformers", "resnet"), ("x_transformers", "decoder")),
    *(("torch_geometric", "gat"), ("torch_geometric", "schnet"), ("torchdiffeq", "rk4")),
    *(("timm", "vit"), ("timm", "efficientnet"), ("diffusers", "unet"), ("monai", "unet")),
)
"""Programs of other people's packages, of ``tests.models``. Those whose package is not installed are skipped."""


class Network(NamedTuple):
    """A network: the text of its recorded cell, and of the cell before."""

    name: str
    text: cells.Source
    package: str = ""


def networks() -> list[Network]:
    """All of them."""
    own = [Network(name, cells.source(name)) for name in cells.CELLS]
    begin = "import random, numpy, torch; random.seed(0); numpy.random.seed(0); _ = torch.manual_seed(0)"
    end = "loss = loss_of(net)\nloss.backward()\n"
    real = [
        Network(
            f"{package}: {program}".replace("_", " "),
            cells.Source(
                f"{begin}\nfrom tests.models.programs.{package} import {program}\nnet, loss_of = {program}()", end
            ),
            package.replace("_", "-"),
        )
        for package, program in REAL
    ]
    return own + real


def added() -> list[Network]:
    """More that are tuned on: they came later, and leave the two halves of the others as they are."""
    return [Network(one.__name__.replace("_", " "), cells.written(one)) for one in tuned_cells.TUNED]


def half(which: str) -> list[Network]:
    """Half of the networks: those that are ``tuned`` on, or the ``kept`` ones. Anything else is both.

    Whoever changes the picture looks at the first half alone: the other half then says whether a change holds for
    other networks, too. The two alternate, so both have networks of each kind.
    """
    own = networks()[{"tuned": slice(0, None, 2), "kept": slice(1, None, 2)}.get(which, slice(None))]
    return own if which == "kept" else own + added()


# The figures.


@dataclass
class Look:
    """The first look at one network in a view of one size.

    Attributes:
        network: its name.
        size: of the view.
        boxes: how many there are; rows are parts of their box.
        whole: how many of them are wholly visible.
        wordless: how many of those have no text in them.
        letters: the smallest letters in the picture: pixels of an em on the screen; 0 if there are none.
        white: the share of the stage that no box, frame, or hull of an edge covers.
        outside: the share of the stage that lies outside of the smallest rectangle around all of them.
        ink: the pixels of all lines of values together.
        longest: those of the longest one.
        frame: the pixels of the view's height that are not the stage.
        view: the pixels of the view's height.
        stage: width and height of the stage.
        kernel: seconds from the end of the cell until the view is sent.
        first: seconds in the browser until the first box is drawn.
        drawn: seconds in the browser until nothing changes any more, with all that the view asks of the kernel.
        collisions: the texts that collide, by the state of the picture.
        zooms: the smallest letters and how many boxes are without a word, at Fit and at five other zooms.
        cut: some boxes that are not whole.
        smallest: the text with the smallest letters.
        errors: of scripts.
    """

    network: str
    size: str
    boxes: int
    whole: int
    wordless: int
    letters: float
    white: float
    outside: float
    ink: float
    longest: float
    frame: float
    view: float
    stage: tuple[float, float]
    kernel: float
    first: float
    drawn: float
    collisions: dict[str, list[str]] = field(default_factory=dict)
    zooms: dict[str, tuple[float, int]] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    smallest: str = ""
    errors: list[str] = field(default_factory=list)

    @property
    def legible(self) -> bool:
        """Whether every box has letters, and all are of at least 9 pixels, to a tenth of a pixel."""
        return round(self.letters, 1) >= 9 and not self.wordless

    @property
    def colliding(self) -> int:
        """The number of collisions in all states."""
        return sum(map(len, self.collisions.values()))

    @property
    def seconds(self) -> float:
        """From the end of the cell until the picture is complete."""
        return self.kernel + self.drawn


KEPT = (
    "boxes",
    "whole",
    "wordless",
    "letters",
    "white",
    "outside",
    "ink",
    "longest",
    "frame",
    "view",
    "stage",
    "cut",
    "smallest",
)


class Examiner:
    """Opens the networks in windows of one size.

    Args:
        notebook: in which their cells run.
        window: for the pages.
        every: whether to bring each picture into every state.
        shots: a folder for a screenshot of each state.
    """

    def __init__(self, notebook: Notebook, window: Window, *, every: bool, shots: Path | None) -> None:
        self._notebook, self._window = notebook, window
        self._every, self._shots = every, shots

    def run(self, network: Network, options: str = "") -> tuple[Kernel, float]:
        """Run the cells of a network; return its view and the seconds that it took."""
        return self._notebook.run(network.text.before, network.text.recorded, options)

    def look(self, network: Network) -> Look:
        """The look at this network."""
        kernel, seconds = self.run(network)
        with self._window.opened(kernel) as page:
            first, drawn = page.times()
            kept: dict[str, Any] = {key: value for key, value in page.look().items() if key in KEPT}
            kept |= {"kernel": seconds, "first": first / 1000, "drawn": drawn / 1000}
            look = Look(network.name, str(self._window.size), errors=page.errors, **kept)
            self._note(look, page, states(page) if self._every else iter(["opening"]))
        kernel.close()
        if self._every:
            kernel, _ = self.run(network, "--ask")
            with self._window.opened(kernel) as page:
                self._note(look, page, asked(page, kernel, self._notebook.shell.user_ns))
            kernel.close()
        return look

    def _note(self, look: Look, page: Opened, names: Iterator[str]) -> None:
        """Write into ``look`` what is seen in these states."""
        for state in names:
            page.settle()
            look.collisions[state] = page.collisions()
            if state == "fit" or state.startswith("zoom"):
                figures = page.look()
                look.zooms[state] = figures["letters"], figures["wordless"]
            if self._shots is not None:
                name = f"{look.network}-{look.size}-{state}".replace(" ", "_").replace(":", "")
                page.tab.screenshot(path=self._shots / f"{name}.png")


def looks(
    chosen: list[Network], sizes: list[Size], *, every: bool = False, shots: Path | None = None
) -> Iterator[Look]:
    """The first looks at these networks, each at every size."""
    shell: Any = InteractiveShell.instance()
    nbgrad.load_ipython_extension(shell)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        notebook, known = Notebook(shell), set[str]()
        for size in sizes:  # the outer loop: a session has one window
            examiner = Examiner(notebook, Window(browser, size), every=every, shots=shots)
            for network in chosen:
                if network.name not in known:
                    examiner.run(network)  # the first run imports modules and fills caches
                    known.add(network.name)
                yield examiner.look(network)
        browser.close()


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


# The table.


def summary(found: list[Look]) -> str:
    """How many pictures are as they should be."""
    many = [one for one in found if one.boxes > 12]
    known = [one for one in found if one.zooms]
    said = [
        f"{sum(one.whole == one.boxes for one in found)} of {len(found)} pictures whole",
        f"{sum(one.legible for one in found)} with letters of 9 pixels or more in every box",
        f"{sum(one.outside < 0.45 for one in many)} of {len(many)} with more than 12 boxes leave less than 45 % of the "
        f"stage outside, {sum(one.white < 0.45 for one in many)} are less than 45 % white",
        f"{sum(one.ink for one in found) / max(1, len(found)):,.0f} pixels of lines in the mean picture",
        f"{sum(one.longest > 0.6 * min(one.stage) for one in found)} with a line longer than 60 % of the stage",
        f"{sum(one.frame <= 90 for one in found)} with a frame of at most 90 pixels",
        f"{sum(not one.collisions['opening'] for one in found)} without a collision at first",
        *([f"{sum(not one.colliding for one in known)} of {len(known)} without one in any state"] if known else []),
        f"{sum(bool(one.errors) for one in found)} with errors of scripts",
    ]
    return f"{', '.join(said)}."


def _boxes(some: list[Look]) -> str:
    one = min(some, key=lambda look: look.whole / max(1, look.boxes))
    return f"{one.whole} of {one.boxes}" + ("" if one.whole == one.boxes else f" ({one.size})")


def _times(some: list[Look]) -> str:
    slow = max(some, key=lambda look: look.seconds)
    return f"{slow.kernel:.2f} + {slow.drawn:.2f}"


def _collisions(some: list[Look]) -> str:
    one = max(some, key=lambda look: look.colliding)
    return ", ".join(f"{state} {len(texts)}" for state, texts in one.collisions.items() if texts)


def _fitted(some: list[Look]) -> str:
    known = [look.zooms["fit"] for look in some if look.zooms]
    return f"{min(letters for letters, _ in known):.1f}, {max(bare for _, bare in known)}" if known else ""


COLUMNS: dict[str, Callable[[list[Look]], str]] = {
    "boxes whole": _boxes,
    "without a word": lambda some: str(max(look.wordless for look in some)),
    "smallest letters": lambda some: f"{min(look.letters for look in some):.1f}",
    "white": lambda some: f"{100 * max(look.white for look in some):.0f} %",
    "outside": lambda some: f"{100 * max(look.outside for look in some):.0f} %",
    "lines": lambda some: ", ".join(f"{look.ink:,.0f}" for look in some),
    "longest line": lambda some: ", ".join(f"{look.longest:,.0f}" for look in some),
    "frame": lambda some: f"{max(look.frame for look in some):.0f}",
    "stage": lambda some: ", ".join(f"{look.stage[0]:.0f}x{look.stage[1]:.0f}" for look in some),
    "seconds, kernel + browser": _times,
    "letters and boxes without a word at Fit": _fitted,
    "collisions": _collisions,
}
"""The titles of the columns, and what each says of the looks at one network: the worst of its sizes."""


def markdown(found: list[Look]) -> str:
    """A line for each network, and the summary."""
    lines = [f"| network | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in dict.fromkeys(look.network for look in found):
        some = [look for look in found if look.network == name]
        lines.append(f"| {name} | {' | '.join(column(some) for column in COLUMNS.values())} |")
    return "\n".join([*lines, "", summary(found)])


def write(found: list[Look], folder: Path) -> None:
    """Write the table and all figures: after each look, because a run takes minutes and may be ended early."""
    (folder / "first_look.md").write_text(f"{markdown(found)}\n", encoding="utf-8")
    facts = json.dumps([asdict(look) for look in found], indent=1)
    (folder / "first_look.json").write_text(f"{facts}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table and write it, with all figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_look", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="networks whose names contain this")
    parser.add_argument("--size", action="append", default=[], choices=[str(size) for size in SIZES])
    parser.add_argument("--half", choices=["tuned", "kept", "both"], default="both", help=half.__doc__)
    parser.add_argument("--states", action="store_true", help="bring each picture into every state")
    parser.add_argument("--shots", type=Path, help="a folder for screenshots")
    parser.add_argument("--output", type=Path, default=Path("build"), help="a folder for first_look.md and .json")
    options = parser.parse_args(arguments)
    wanted = [one for one in half(options.half) if not options.only or any(name in one.name for name in options.only)]
    chosen = [one for one in wanted if not one.package or _installed(one.package)]
    for one in wanted:
        if one not in chosen:
            print(f"{one.name}: skipped, {one.package} is not installed", file=sys.stderr)
    sizes = [size for size in SIZES if not options.size or str(size) in options.size]
    for folder in filter(None, (options.shots, options.output)):
        folder.mkdir(parents=True, exist_ok=True)
    found = []
    for look in looks(chosen, sizes, every=options.states, shots=options.shots):
        found.append(look)
        print(f"{look.network}, {look.size}: {look.whole} of {look.boxes} whole", file=sys.stderr)
        write(found, options.output)
    print(markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
