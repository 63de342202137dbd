"""A live view in a browser beside its kernel, which is this process: no notebook, no server.

A page (``first_look.html``) has the front end of the widget. What it asks of a kernel, a real ``GraphView`` answers.
"""

import base64
import contextlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

from playwright.sync_api import Browser, Page

from nbgrad import magics
from nbgrad.widgets import notebook_output, view
from nbgrad.widgets.description.schema import Question
from tools.unpacking import unpacked

HERE = Path(__file__).parent
HOST = "http://first-look.test/"

QUIET = 150
"""So many milliseconds after the last change, nothing else comes of a click."""

OPENING = 700
"""So many milliseconds after the last change, a picture that was opened is complete: it may ask for another layout when
its stage has kept its size for a while."""


class Size(NamedTuple):
    """The pixels of the part of a window in which outputs scroll, and of the window."""

    width: int
    height: int
    window: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


class Kernel(view.GraphView):
    """A live view whose page is not in a notebook.

    Attributes:
        last: the newest of them.
        messages: what it has sent beside its traits since ``answer`` was called.
    """

    last: "ClassVar[Kernel | None]" = None

    def __init__(self, *args: Any) -> None:
        self.messages: list[Any] = []
        self._answered: dict[str, Any] = {}
        super().__init__(*args)
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
        self.messages, self._answered = [], {}
        self.request = request
        return {**self._answered, "messages": self.messages}

    def send_state(self, key: Any = None) -> None:
        """Keep the picture and the numbers for the page; an equal picture may be sent again."""
        if key == "picture":
            self._answered[key] = _text(self.picture)
        elif key == "numbers":
            self._answered[key] = self.numbers

    @property
    def questions(self) -> list[Question]:
        """The gradients that the picture asks for."""
        return unpacked(self.picture)["description"].get("questions", [])


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

    def run(self, before: str, recorded: str, options: str = "") -> tuple[Kernel, float]:
        """Run a cell, and then one that is recorded.

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
            self.shell.run_cell(before).raise_error()
            self.shell.run_cell(f"%%autograd {options}\n{recorded}")
        kernel: Kernel | None = Kernel.last
        if kernel is None:
            raise RuntimeError(f"There is no live view: {said.getvalue()}")
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


class Window:
    """A browser's window of one size, in which pictures are opened one after the other.

    Attributes:
        size: of the part in which outputs scroll, and of the window.
    """

    def __init__(self, browser: Browser, size: Size) -> None:
        width, height = size.window
        viewport: Any = {"width": width, "height": height}
        self._context = browser.new_context(viewport=viewport, device_scale_factor=1, reduced_motion="reduce")
        self._context.set_default_timeout(120_000)
        self._context.route(f"{HOST}**", lambda route: route.fulfill(path=HERE / "first_look.html"))
        self.size = size

    @contextmanager
    def opened(self, kernel: Kernel) -> Iterator["Opened"]:
        """A page with this view."""
        tab = self._context.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.expose_function("kernel", kernel.answer)
        tab.goto(f"{HOST}?{self.size.width}&{self.size.height}")
        tab.locator(".nbg-node, .nbg-empty").first.wait_for(state="attached", timeout=300_000)
        page = Opened(tab, errors)
        page.settle(OPENING)
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

    def settle(self, quiet: int = QUIET) -> None:
        """Wait until nothing has changed for so many milliseconds."""
        self.tab.wait_for_function("quiet => window.host.rests(quiet)", arg=quiet, timeout=300_000)

    def times(self) -> tuple[float, float]:
        """The milliseconds from the call of the view until its first box is drawn, and until its last change."""
        host = self.tab.evaluate("() => window.host")
        return host["first"] - host["begun"], host["changed"] - host["begun"]

    def look(self) -> dict[str, Any]:
        """The figures of what is seen now."""
        figures: dict[str, Any] = self.tab.evaluate("() => window.firstLook.look()")
        return figures

    def collisions(self) -> list[str]:
        """The texts that collide now, each with what it collides with."""
        found: list[str] = self.tab.evaluate("() => window.firstLook.collisions()")
        return found
