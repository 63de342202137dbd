"""Measure what a reader sees first: pictures of many networks, in a browser, at three sizes of the view.

python -m benchmarks.first_look
python -m benchmarks.first_look --only vae --size 790x480 --shots build/shots
"""

import argparse
import base64
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Browser, Page, sync_playwright

import nbgrad
from nbgrad import magics
from nbgrad.widgets import notebook_output, view
from tests.lab.harness import CHROMIUM_FLAGS
from tests.widgets import cells
from tools.check_tools import chromium

HERE = Path(__file__).parent
HOST = "http://first-look.test/"

QUIET = 150
"""So many milliseconds after the last change, a picture is complete."""


class Size(NamedTuple):
    """The pixels of the part of a window in which outputs scroll, and of the window."""

    width: int
    height: int
    window: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


SIZES = (Size(1171, 631, (1366, 768)), Size(790, 480, (1024, 600)), Size(390, 700, (390, 844)))
"""JupyterLab on a laptop, beside a side panel, and a phone."""

REAL = (
    *(("einops", "mixer"), ("einops", "attention"), ("torch", "gradient_penalty"), ("torch", "complex_numbers")),
    *(("torch", "per_sample"), ("torch", "half_precision"), ("transformers", "gpt2"), ("transformers", "bert")),
    *(("transformers", "llama"), ("transformers", "t5"), ("x_transformers", "decoder"), ("torch_geometric", "gat")),
    *(("torchdiffeq", "adjoint"), ("timm", "vit"), ("timm", "resnet"), ("diffusers", "unet"), ("monai", "unet")),
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


def half(which: str) -> list[Network]:
    """Half of the networks: those that are ``tuned`` on, or the ``kept`` ones. Anything else is both.

    Whoever changes the picture looks at the first half alone: the other half then says whether a change holds for
    other networks, too. The two alternate, so both have networks of each kind.
    """
    return networks()[{"tuned": slice(0, None, 2), "kept": slice(1, None, 2)}.get(which, slice(None))]


# The kernel.


class Kernel(view.GraphView):
    """A live view whose page is not in a notebook.

    Attributes:
        last: the newest of them.
        messages: what it has sent beside its traits since ``answer`` was called.
    """

    last: "ClassVar[Kernel | None]" = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.messages: list[Any] = []
        Kernel.last = self

    def send(self, content: Any, buffers: Any = None) -> None:
        """Keep it for the page."""
        del buffers
        self.messages.append(content)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return what the page gets when it asks for something, or when it opens."""
        if "opened" in request:
            texts = {"script": base64.b64encode(str(self._esm).encode()).decode(), "css": str(self._css)}
            return {**texts, "picture": _text(self.picture), "numbers": {}}
        self.messages, told = [], dict[str, Any]()

        def note(change: Any) -> None:
            told[change["name"]] = _text(change["new"]) if change["name"] == "picture" else change["new"]

        self.observe(note, ["picture", "numbers"])
        try:
            self.request = request
        finally:
            self.unobserve(note, ["picture", "numbers"])
        return {**told, "messages": self.messages}

    def send_state(self, key: Any = None) -> None:
        """There is no line to the page."""


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Notebook:
    """Runs cells as a notebook does, and keeps the live view of the recorded one.

    Args:
        shell: an IPython shell with our extension.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._ended = self._shown = 0.0

    def run(self, network: Network, options: str = "") -> tuple[Kernel, float]:
        """Run the cells of a network.

        Returns:
            Its view, and the seconds from the end of its cell until the view was sent.
        """
        Kernel.last = None
        self.shell.reset(new_session=True)
        with (
            patch.object(magics.Session, "ended", self._noting(magics.Session.ended)),
            patch.object(notebook_output, "display", self._display),
            patch.object(notebook_output, "get_ipython", lambda: SimpleNamespace(display_pub=self)),
            patch.object(view, "GraphView", Kernel),
            patch.object(self.shell, "showtraceback", lambda *_, **__: None),  # a fault of a program is no news here
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            self.shell.run_cell(network.text.before).raise_error()
            self.shell.run_cell(f"%%autograd {options}\n{network.text.recorded}")
        kernel: Kernel | None = Kernel.last
        if kernel is None:
            raise RuntimeError(f"{network.name} has no live view: {said.getvalue()}")
        return kernel, self._shown - self._ended

    def _noting(self, ended: Callable[..., None]) -> Callable[..., None]:
        def noted(session: magics.Session, *args: Any, **kwargs: Any) -> None:
            self._ended = perf_counter()
            ended(session, *args, **kwargs)

        return noted

    def _display(self, *_: Any, **__: Any) -> "Notebook":
        self._shown = perf_counter()
        return self

    def update(self, *_: Any, **__: Any) -> None:
        """The drawing without scripts comes again with its PNG, after the view."""


# The page.


class Window:
    """A browser's window of one size, in which pictures are opened one after the other."""

    def __init__(self, browser: Browser, size: Size) -> None:
        width, height = size.window
        viewport: Any = {"width": width, "height": height}
        self._context = browser.new_context(viewport=viewport, device_scale_factor=1, reduced_motion="reduce")
        self._context.set_default_timeout(20_000)
        self._context.route(f"{HOST}**", lambda route: route.fulfill(path=HERE / "first_look.html"))
        self._size = size

    @contextmanager
    def opened(self, kernel: Kernel) -> Iterator["Opened"]:
        """A page with this view."""
        tab = self._context.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.expose_function("kernel", kernel.answer)
        tab.goto(f"{HOST}?{self._size.width}&{self._size.height}")
        tab.locator(".nbg-node, .nbg-empty").first.wait_for(state="attached", timeout=60_000)
        page = Opened(tab, errors)
        page.settle()
        tab.evaluate((HERE / "first_look.js").read_text(encoding="utf-8"))
        yield page
        tab.close()

    def close(self) -> None:
        """Close all of it."""
        self._context.close()


class Opened(NamedTuple):
    """A page with a picture, and the errors of its scripts."""

    tab: Page
    errors: list[str]

    def settle(self) -> None:
        """Wait until nothing changes any more."""
        self.tab.wait_for_function("quiet => window.host.rests(quiet)", arg=QUIET, timeout=60_000)

    def times(self) -> tuple[float, float]:
        """The milliseconds from the call of the view until its first box is drawn, and until its last change."""
        host = self.tab.evaluate("() => window.host")
        return host["first"] - host["begun"], host["changed"] - host["begun"]

    def look(self) -> dict[str, Any]:
        """The figures of what is seen now."""
        figures: dict[str, Any] = self.tab.evaluate("() => window.firstLook.look()")
        return figures


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
        bare: the same where a frame covers nothing.
        frame: the pixels of the view's height that are not the stage.
        view: the pixels of the view's height.
        stage: width and height of the stage.
        kernel: seconds from the end of the cell until the view is sent.
        first: seconds in the browser until the first box is drawn.
        drawn: seconds in the browser until nothing changes any more, with all that the view asks of the kernel.
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
    bare: float
    frame: float
    view: float
    stage: tuple[float, float]
    kernel: float
    first: float
    drawn: float
    cut: list[str] = field(default_factory=list)
    smallest: str = ""
    errors: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the end of the cell until the picture is complete."""
        return self.kernel + self.drawn


KEPT = ("boxes", "whole", "wordless", "letters", "white", "bare", "frame", "view", "stage", "cut", "smallest")


def measured(window: Window, size: Size, name: str, kernel: Kernel, seconds: float, shots: Path | None) -> Look:
    """The first look at that view."""
    with window.opened(kernel) as page:
        first, drawn = page.times()
        figures = page.look()
        if shots is not None:
            page.tab.screenshot(path=shots / f"{name.replace(' ', '_').replace(':', '')}-{size}.png")
        kept: dict[str, Any] = {key: figures[key] for key in KEPT}
        return Look(name, str(size), kernel=seconds, first=first / 1000, drawn=drawn / 1000, errors=page.errors, **kept)


def looks(chosen: list[Network], sizes: list[Size], shots: Path | None = None) -> Iterator[Look]:
    """The first looks at these networks, each at every size."""
    shell: Any = InteractiveShell.instance()
    nbgrad.load_ipython_extension(shell)
    notebook = Notebook(shell)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        windows = {size: Window(browser, size) for size in sizes}
        for network in chosen:
            if network.package and not _installed(network.package):
                print(f"{network.name}: skipped, {network.package} is not installed", file=sys.stderr)
                continue
            for number in count():
                kernel, seconds = notebook.run(network)
                if number:  # the first run of a network imports modules and fills caches
                    break
            for size, window in windows.items():
                yield measured(window, size, network.name, kernel, seconds, shots)
            kernel.close()
        browser.close()


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


# The table.


def worst(found: list[Look]) -> dict[str, list[Look]]:
    """The looks by network, the worst size first."""
    by_name: dict[str, list[Look]] = {}
    for look in found:
        by_name.setdefault(look.network, []).append(look)
    return {name: sorted(some, key=lambda one: one.whole / max(1, one.boxes)) for name, some in by_name.items()}


def summary(found: list[Look]) -> str:
    """How many pictures are as they should be."""
    every = len(found)
    whole = sum(one.whole == one.boxes for one in found)
    large = sum(one.letters >= 9 and not one.wordless for one in found)
    many = [one for one in found if one.boxes > 12]
    dense = sum(one.white < 0.45 for one in many)
    low = sum(one.frame <= 90 for one in found)
    return (
        f"{whole} of {every} pictures whole, {large} with letters of 9 pixels or more in every box, "
        f"{dense} of {len(many)} with more than 12 boxes are less than 45 % white, "
        f"{low} with a frame of at most 90 pixels, {sum(bool(one.errors) for one in found)} with errors"
    )


TITLES = (
    *("network", "boxes whole", "without a word", "smallest letters", "white", "frame", "stage"),
    "seconds, kernel + browser",
)


def markdown(found: list[Look]) -> str:
    """A line for each network, with the worst of its sizes in each column."""
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for name, some in worst(found).items():
        one, slow = some[0], max(some, key=lambda look: look.seconds)
        where = "" if one.whole == one.boxes else f" ({one.size})"
        high = max(some, key=lambda look: look.frame)
        cells_ = [
            f"{one.whole} of {one.boxes}{where}",
            str(max(look.wordless for look in some)),
            f"{min(look.letters for look in some):.1f}",
            f"{100 * max(look.white for look in some):.0f} %",
            f"{high.frame:.0f}",
            " ".join(f"{look.stage[0]:.0f}x{look.stage[1]:.0f}" for look in sorted(some, key=lambda look: look.size)),
            f"{slow.kernel:.2f} + {slow.drawn:.2f}",
        ]
        lines.append(f"| {name} | {' | '.join(cells_)} |")
    return "\n".join([*lines, "", summary(found)])


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table and write it, with all figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_look", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="networks whose names contain this")
    parser.add_argument("--size", action="append", default=[], choices=[str(size) for size in SIZES])
    parser.add_argument("--half", choices=["tuned", "kept", "both"], default="both", help=half.__doc__)
    parser.add_argument("--shots", type=Path, help="a folder for screenshots")
    parser.add_argument("--output", type=Path, default=Path("build"), help="a folder for first_look.md and .json")
    options = parser.parse_args(arguments)
    chosen = [one for one in half(options.half) if not options.only or any(name in one.name for name in options.only)]
    sizes = [size for size in SIZES if not options.size or str(size) in options.size]
    for folder in filter(None, (options.shots, options.output)):
        folder.mkdir(parents=True, exist_ok=True)
    found = []
    for look in looks(chosen, sizes, options.shots):
        found.append(look)
        print(f"{look.network}, {look.size}: {look.whole} of {look.boxes} whole", file=sys.stderr)
    table = markdown(found)
    print(table)
    (options.output / "first_look.md").write_text(f"{table}\n", encoding="utf-8")
    facts = json.dumps([asdict(look) for look in found], indent=1)
    (options.output / "first_look.json").write_text(f"{facts}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
