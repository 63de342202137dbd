"""How fast the numbers in a picture follow a slider: in a page without a kernel; and how fast a kernel answers.

python -m benchmarks.what_if
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from playwright.sync_api import Page, sync_playwright

import nbgrad
from benchmarks.panning import BEGIN, END
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rerun import rerun_of
from nbgrad.widgets.describe import describe
from nbgrad.widgets.what_if import WhatIf
from tools.check_tools import chromium

OPS = 300
"""The largest number of ops that a page may have."""

TURNS = 120
"""How many times the slider is moved."""

WATCH = """() => {
    window.told = 0;
    const line = [...document.querySelectorAll(".nbg-root .nbg-line")].pop();
    new MutationObserver(() => window.told++).observe(line, { childList: true });  // once for each run that is drawn
}"""


class Turned(NamedTuple):
    """How often the page followed the slider.

    Attributes:
        frames: frames a second.
        runs: the number of times a second that the graph was computed again and all its numbers were drawn.
    """

    frames: float
    runs: float


def graph(ops: int = OPS) -> AutogradGraph:
    """``ops`` ops one after the other, on tensors of 4 numbers."""
    torch.manual_seed(0)
    w = nbgrad.tensor(torch.rand(4), requires_grad=True)
    with AutogradGraph("slider") as made:
        h = w
        for at in range(ops - 1):
            h = h.sin() if at.bit_count() % 2 else h * 1.01  # no three ops repeat, so nothing is folded as a loop
        loss = h.sum()
        loss.backward()
    made.kept = loss  # type: ignore[attr-defined]  # the graph holds no tensor
    return made


@contextmanager
def shown(made: AutogradGraph) -> Iterator[Page]:
    """The whole of it in a browser, with the slider of its leaf."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "picture.html"
        made.save(file, what_if=True, nodes=1000)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        tab.goto(file.as_uri())
        tab.get_by_test_id("nbgrad-search").fill("leaf")
        tab.get_by_test_id("nbgrad-search").press("Enter")
        tab.get_by_test_id("nbgrad-what-if-slider").wait_for()
        yield tab
        browser.close()


def page_follows(made: AutogradGraph, turns: int = TURNS) -> Turned:
    """Drag the slider to and fro in a page without a kernel."""
    with shown(made) as tab:
        box = tab.get_by_test_id("nbgrad-what-if-slider").bounding_box()
        assert box is not None
        x, y = box["x"], box["y"] + box["height"] / 2
        tab.mouse.move(x + box["width"] / 2, y)
        tab.mouse.down()
        tab.evaluate(WATCH)
        tab.evaluate(BEGIN)
        for at in range(turns):
            tab.mouse.move(x + box["width"] * (0.1 + 0.8 * abs((at % 80) / 40 - 1)), y)
        spans: list[float] = tab.evaluate(END)
        tab.mouse.up()
        seconds = sum(spans) / 1000
        return Turned(len(spans) / seconds, tab.evaluate("() => window.told") / seconds)


def kernel_answers(made: AutogradGraph, turns: int = TURNS) -> list[float]:
    """The seconds that a kernel takes for each answer, including its encoding as text."""
    described, what_if = describe(made), WhatIf(rerun_of(made))
    (leaf,) = [node["id"] for node in described["nodes"] if node["kind"] == "leaf"]
    found = []
    for at in range(turns):
        asked = {"node": leaf, "place": 0, "changes": {leaf: {"0": 0.5 + at / turns}}, "nudge": False}
        begin = perf_counter()
        told = what_if.answer(asked, described)
        json.dumps(told)
        found.append(perf_counter() - begin)
        assert not told["said"], told["said"]
    return found[1:]  # the first answer also includes a run of the graph without a change


def main() -> None:
    """Print a table."""
    print("| ops | where | frames a second | runs a second |\n|---|---|---|---|")
    for ops in (50, OPS):
        made = graph(ops)
        turned = page_follows(made)
        print(f"| {ops} | in a page, drawn | {turned.frames:.0f} | {turned.runs:.0f} |")
        print(f"| {ops} | in a kernel, not drawn | | {1 / median(kernel_answers(made)):.0f} |")


if __name__ == "__main__":
    main()
