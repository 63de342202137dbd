"""A picture that is larger than the view: a map shows where the reader is, and modules keep titles that can be read."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks import panning
from nbgrad.widgets.describe import describe
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from tests.lab.harness import screenshot
from tests.run.programs import of_cell
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

SEEN = """() => {
    const stage = document.querySelector(".nbg-stage").getBoundingClientRect();
    const layer = document.querySelector(".nbg-stage > g").getCTM();
    return [-layer.e / layer.a, -layer.f / layer.a, stage.width / layer.a, stage.height / layer.a];
}"""

TITLES = """() => [...document.querySelectorAll(".nbg-scope-name")].map(group => {
    const text = group.querySelector("text"), box = text.getBoundingClientRect();
    const id = group.dataset.scopeId, shown = getComputedStyle(text).display !== "none";
    return { left: box.left, right: box.right, top: box.top, bottom: box.bottom, shown,
             grown: group.classList.contains("nbg-grown") };
})"""


def large(opened: Any, scheme: str = "light") -> Page:
    tab: Page = opened(page(lay_out(panning.parallel(6), limit=1000, folding=Folding()), "large"), scheme)
    zoomed(tab, 0.9)
    return tab


SCALE = "() => document.querySelector('.nbg-stage > g').getCTM().a"


def zoomed(tab: Page, least: float) -> None:
    """Zoom in until the scale is at least this."""
    for _ in range(12):
        if tab.evaluate(SCALE) >= least:
            return
        tab.get_by_test_id("nbgrad-zoom-in").click()
    raise AssertionError(f"a scale of {tab.evaluate(SCALE)}")


def window(tab: Page) -> list[float]:
    """The window in the map: its left and upper edges, its width and its height."""
    rect = tab.locator(".nbg-minimap-window")
    return [float(rect.get_attribute(name) or "nan") for name in ("x", "y", "width", "height")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_map_shows_which_part_is_in_sight_and_moves_it(opened: Any, scheme: str) -> None:
    tab = large(opened, scheme)
    shown = tab.get_by_test_id("nbgrad-minimap")
    expect(shown).to_be_visible()
    expect(shown).to_have_attribute("aria-label", re.compile(r"\d+ percent are in sight"))
    screenshot(tab, f"map_{scheme}")
    x, y, width, height = window(tab)
    left, top, wide, high = tab.evaluate(SEEN)
    assert abs(x - max(left, 0)) < 1
    assert abs(y - max(top, 0)) < 1
    assert width <= wide + 1
    assert height <= high + 1
    shown.focus()
    tab.keyboard.press("ArrowUp")
    assert abs(window(tab)[1] - (y - high / 4)) < 1
    box = shown.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.up()
    left, top, wide, high = tab.evaluate(SEEN)
    size = list(map(float, (shown.locator("svg").get_attribute("viewBox") or "").split()))[2:]
    assert abs(left + wide / 2 - size[0] / 2) < size[0] / 40
    assert abs(top + high / 2 - size[1] / 2) < size[1] / 40
    tab.get_by_test_id("nbgrad-fit").click()
    expect(shown).to_be_hidden()


def test_what_is_seen_whole_needs_no_map(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.shared(3)), "small"))
    expect(tab.locator(".nbg-root")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-minimap")).to_be_hidden()
    assert tab.locator(".nbg-minimap svg").count() == 0, "and nothing is drawn for it"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_titles_of_modules_can_be_read_when_the_picture_is_small(opened: Any, scheme: str) -> None:
    tab = large(opened, scheme)
    before = tab.evaluate(TITLES)
    assert not any(title["grown"] for title in before)
    for _ in range(6):  # as far as it goes: little farther than Fit
        tab.get_by_test_id("nbgrad-zoom-out").click()
    assert tab.evaluate(SCALE) < 0.6
    screenshot(tab, f"titles_{scheme}")
    titles = tab.evaluate(TITLES)
    assert len(titles) == 6
    assert all(title["grown"] and title["shown"] for title in titles)
    boxes = [one.bounding_box() for one in tab.locator(".nbg-node > .nbg-shape").all()]
    assert not any(
        title["left"] < box["x"] + box["width"]
        and box["x"] < title["right"]
        and title["top"] < box["y"] + box["height"] - 1
        and box["y"] < title["bottom"] - 1
        for title in titles
        for box in boxes
        if box is not None
    ), "a title covers nothing that it titles"
    assert all(
        one["right"] <= other["left"] or other["right"] <= one["left"] or one["bottom"] <= other["top"]
        for at, one in enumerate(titles)
        for other in titles[at + 1 :]
    )


def test_a_title_drops_its_class_before_it_becomes_small(opened: Any) -> None:
    graph, variables = of_cell("matrix factorisation")
    assert variables["users"] is not None, "the picture names the modules that still exist"
    tab: Page = opened(page(lay_out(describe(graph), folding=Folding()), "tables"), size=(390, 844))
    titles = tab.locator(".nbg-scope-name text").filter(has_text="users")
    zoomed(tab, 0.95)
    expect(titles).to_have_text("variables['users'] (Embedding)")
    for _ in range(6):
        tab.get_by_test_id("nbgrad-zoom-out").click()
    screenshot(tab, "titles_brief")
    expect(titles).to_have_text("variables['users']")


COVERED = """() => {
    const map = document.querySelector(".nbg-minimap").getBoundingClientRect();
    const over = box => Math.max(0, Math.min(map.right, box.right) - Math.max(map.left, box.left))
        * Math.max(0, Math.min(map.bottom, box.bottom) - Math.max(map.top, box.top));
    const sum = which => [...document.querySelectorAll(which)].reduce(
        (all, node) => all + over(node.querySelector("rect, path").getBoundingClientRect()), 0);
    return [sum(".nbg-root"), sum(".nbg-node")];
}"""


@pytest.mark.parametrize("name", ["LSTM layer", "MLP of 3", "ResNet-18", "encoder of 4 layers"])
def test_a_map_makes_way_for_boxes(opened: Any, name: str) -> None:
    tab = opened(page(whole(NETWORKS[name]()), name), size=(390, 844))
    shown = tab.get_by_test_id("nbgrad-minimap")
    expect(tab.locator(".nbg-root")).to_be_in_viewport()
    zoomed(tab, 1.6)
    tab.locator(".nbg-root").focus()
    expect(shown).to_be_visible()
    box, stage = shown.bounding_box(), tab.locator(".nbg-stage").bounding_box()
    assert box is not None
    assert stage is not None
    assert box["width"] < 0.35 * stage["width"]
    loss, every = tab.evaluate(COVERED)
    assert loss == 0, "the loss is in sight"
    assert every < box["width"] * box["height"]
    tab.set_viewport_size({"width": 1220, "height": 760})
    assert not shown.is_visible() or tab.evaluate(COVERED)[1] == 0, "there is room beside the boxes"


ARROWS = """() => {
    const map = document.querySelector(".nbg-minimap").getBoundingClientRect();
    const arrows = [...document.querySelectorAll(".nbg-scope-name .nbg-fold")];
    return arrows.map(arrow => arrow.getBoundingClientRect()).filter(
        box => box.right > map.left && box.left < map.right && box.bottom > map.top && box.top < map.bottom).length;
}"""


@pytest.mark.parametrize("size", [(1180, 600), (1000, 560)])
def test_a_map_covers_no_arrow_of_a_frame(opened: Any, size: tuple[int, int]) -> None:
    tab = opened(page(whole(NETWORKS["encoder of 4 layers"]()), "arrows"), size=size)
    zoomed(tab, 1.1)
    expect(tab.get_by_test_id("nbgrad-minimap")).to_be_visible()
    assert tab.evaluate(ARROWS) == 0


@pytest.mark.parametrize("size", [(1180, 600), (1366, 560), (390, 700)])
def test_a_map_covers_no_detail(opened: Any, size: tuple[int, int]) -> None:
    tab = opened(page(whole(NETWORKS["ResNet-18"]()), "details"), size=size)
    for node in tab.locator(".nbg-folded").all():
        node.dispatch_event("click")
        shown, panel = tab.get_by_test_id("nbgrad-minimap"), tab.get_by_test_id("nbgrad-details").bounding_box()
        tab.wait_for_timeout(350)  # a second click could have followed
        if shown.is_visible():
            box = shown.bounding_box()
            assert box["x"] + box["width"] <= panel["x"] or box["y"] + box["height"] <= panel["y"]
