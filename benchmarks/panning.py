"""How smoothly a drawing of 1,000 nodes follows the hand: frames a second in headless Chromium, without a GPU.

python -m benchmarks.panning
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from playwright.sync_api import Page, sync_playwright

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import page
from tools.check_tools import chromium

BEGIN = """() => {
    const moved = window.moved = { spans: [], last: performance.now(), on: true };
    const tick = now => {
        moved.spans.push(now - moved.last);
        moved.last = now;
        if (moved.on) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
}"""
END = "() => { window.moved.on = false; return window.moved.spans.slice(2); }"

# A point of the picture with a node under it if ``over`` is true, else without one.
POINT = """over => {
    const { left, top, width, height } = document.querySelector(".nbg-stage").getBoundingClientRect();
    const nodes = [...document.querySelectorAll(".nbg-node")].map(node => node.getBoundingClientRect());
    const spread = [...Array(400).keys()].map(
        i => [left + width * (0.2 + 0.6 * ((i * 0.618034) % 1)), top + height * (0.2 + 0.6 * ((i * 0.754878) % 1))]);
    const middles = nodes.filter(box => box.width).map(box => [box.left + box.width / 2, box.top + box.height / 2]);
    const inside = ([x, y]) => x > left + 200 && x < left + width - 200 && y > top + 200 && y < top + height - 200;
    for (const [x, y] of over ? middles.filter(inside) : spread) {
        const element = document.elementFromPoint(x, y);
        if (over ? element.closest(".nbg-node") : element.classList.contains("nbg-stage")) return [x, y];
    }
    throw new Error("no such point");
}"""

# The distance from the middle to the node that is nearest to it.
ASIDE = """() => {
    const { left, top, width, height } = document.querySelector(".nbg-stage").getBoundingClientRect();
    const boxes = [...document.querySelectorAll(".nbg-node")].map(node => node.getBoundingClientRect());
    const aside = boxes.filter(box => box.width).map(
        box => [box.left + box.width / 2 - left - width / 2, box.top + box.height / 2 - top - height / 2]);
    return aside.sort((a, b) => Math.hypot(...a) - Math.hypot(...b))[0];
}"""

SEEN = """() => {
    const { left, right, top, bottom } = document.querySelector(".nbg-stage").getBoundingClientRect();
    const seen = box => box.width && box.right > left && box.left < right && box.bottom > top && box.top < bottom;
    return [...document.querySelectorAll(".nbg-node")].filter(node => seen(node.getBoundingClientRect())).length;
}"""


class Moved(NamedTuple):
    """A movement of the picture: its name, the number of visible nodes, and the milliseconds between frames."""

    what: str
    seen: int
    spans: list[float]

    @property
    def rate(self) -> float:
        """Frames a second."""
        return 1000 * len(self.spans) / sum(self.spans)


def parallel(chains: int = 24) -> Description:
    """``chains`` chains of 30 ops side by side. Each is in a scope and has 10 leaves."""
    with AutogradGraph("parallel") as graph:
        start = nbgrad.tensor(torch.rand(8, 8), requires_grad=True)
        ends = []
        for chain in range(chains):
            with nbgrad.scope(f"chain.{chain}"):
                h = start
                for step in range(30):
                    h = h * nbgrad.tensor(torch.rand(8), requires_grad=True) if step < 20 and step % 2 else h.sin()
            ends.append(h)
        sum(ends[1:], ends[0]).sum().backward()
    return describe(graph)


def drag(tab: Page, x: float, y: float, events: int) -> None:
    """Move the picture to and fro."""
    tab.mouse.down()
    for step in range(events):
        tab.mouse.move(x + 6 * (step % 20 - 10), y + 6 * (step % 30 - 15))
    tab.mouse.up()


def wheel(tab: Page, _x: float, _y: float, events: int) -> None:
    """Zoom out by 1.7 and in again."""
    for step in range(events):
        tab.mouse.wheel(0, 40 if step % 20 < 10 else -40)


MOVES: dict[str, Callable[[Page, float, float, int], None]] = {"drag": drag, "wheel": wheel}


@contextmanager
def shown(description: Description) -> Iterator[Page]:
    """The whole of it, drawn in a browser."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "picture.html"
        limit = len(description["nodes"]) + 100
        picture = lay_out(description, limit=limit, folding=Folding())
        file.write_text(page(picture, "picture"), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        tab.goto(file.as_uri())
        tab.get_by_test_id("nbgrad-fit").click()
        yield tab
        browser.close()


def measured(description: Description, events: int = 60) -> list[Moved]:
    """All movements of a hand, at three zoom levels: from the whole picture to readable letters."""
    found = []
    with shown(description) as tab:
        for closer in (1.0, 2.7, 7.5):
            for over, (name, move) in product((False, True), MOVES.items()):
                tab.wait_for_timeout(500)  # until the last wheel event counts as over: before, no node is found
                x, y = tab.evaluate(POINT, over)
                tab.mouse.move(x, y)
                tab.wait_for_timeout(100)
                tab.evaluate(BEGIN)
                seen = tab.evaluate(SEEN)
                move(tab, x, y, events)
                what = f"{name}, {closer:g} times as large, {'from a node' if over else 'from between'}"
                found.append(Moved(what, seen, tab.evaluate(END)))
            for _ in range(3):
                tab.get_by_test_id("nbgrad-zoom-in").click()
            _centre(tab)
    return found


def _centre(tab: Page) -> None:
    """Bring a node into the middle."""
    right, down = tab.evaluate(ASIDE)
    x, y = tab.evaluate(POINT, False)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - right / 2, y - down / 2)
    tab.mouse.move(x - right, y - down)
    tab.mouse.up()


def main() -> None:
    """Print a table."""
    print("| | nodes seen | frames a second | median ms | the slowest of 20 |\n|---|---|---|---|---|")
    for one in measured(parallel()):
        spans = sorted(one.spans)
        middle, slow = spans[len(spans) // 2], spans[int(0.95 * len(spans))]
        print(f"| {one.what} | {one.seen} | {one.rate:.0f} | {middle:.0f} | {slow:.0f} |")


if __name__ == "__main__":
    main()
