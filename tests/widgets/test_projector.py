"""A picture on a projector: all of it with letters of 20 points, and afterwards the view as it was."""

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.stage import LETTERS, PROJECTOR, SCREEN, STAGE, Pages
from nbgrad.widgets.pipeline import first_look, for_projector, lay_out, unfoldable, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.view import GraphView
from tests.widgets.networks import NETWORKS
from tests.widgets.test_html_page import LETTERS as SMALLEST
from tests.widgets.test_positions import assert_sound
from tools.unpacking import unpacked

POINTS = 20 * 96 / 72
"""The pixels of 20 points."""

NAMES = ("MLP of 2", "CNN of lesson 10", "GPT of 4 blocks", "LSTM cell, 12 steps", "encoder of 4 layers")

PLACE = """view => {
    const {x, y, width, height} = view.getBoundingClientRect();
    const drawn = view.querySelector(".nbg-stage > g");
    return [x, y, width, height, scrollY, view.className, drawn.getAttribute("transform"), drawn.textContent];
}"""

DRAWN = """() => {
    const box = document.querySelector(".nbg-stage > g").getBoundingClientRect();
    return [box.x, box.y, box.right, box.bottom];
}"""


@pytest.mark.parametrize("name", NAMES)
def test_all_of_a_network_is_seen_with_letters_of_20_points(name: str) -> None:
    on = SCREEN.projected()
    picture, folding = for_projector(Outline.of(NETWORKS[name]()), on=on)
    layout = picture["layout"]
    assert min(SCREEN.width / layout["width"], SCREEN.height / layout["height"]) * LETTERS > POINTS - 0.01
    assert sum(node["row"] is None for node in picture["description"]["nodes"]) > 3
    assert folding is not None
    assert_sound(picture)


def test_what_the_reader_has_folded_stays_if_it_can_be_read() -> None:
    outline, on = Outline.of(NETWORKS["encoder of 4 layers"]()), SCREEN.projected()
    coarse, fine = first_look(outline, on=on), first_look(outline)
    assert coarse != fine
    other = replace(coarse, asked=frozenset(sorted(coarse.closed)[:1]))
    assert for_projector(outline, folding=other, on=on)[1] == other
    assert for_projector(outline, folding=fine, on=on)[1] == coarse


def test_a_file_holds_the_picture_for_a_projector_if_its_own_letters_are_too_small(small: Any) -> None:
    outline = Outline.of(NETWORKS["ResNet-18"]())
    held = unfoldable(outline, lay_out(outline), None)["large"]
    alive = whole(outline)["large"]
    assert held is not None
    assert alive is not None
    assert held["layout"] == alive["layout"]
    assert set(held["layout"]["forms"].values()) == {"name", "short"}
    one = {**small, "nodes": small["nodes"][:1], "edges": [], "steps": []}
    assert whole(one)["large"] is None


class Told(GraphView):
    """A view that keeps what it sends beside its traits."""

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent = content, buffers


def test_the_kernel_answers_the_page_that_asks_and_no_other() -> None:
    view = Told(NETWORKS["GPT of 4 blocks"]())
    before = view.picture, view._on, view._folding
    asked: dict[str, Any] = {"page": 0.5, "stage": [1280, 720], "toggled": [], "direction": None, "near": []}
    view.request = {"project": asked, "count": 1}
    content, (data,) = view.sent
    assert content == {"projected": 0.5}
    large = unpacked(data)
    assert large["stage"] == list(SCREEN.projected())
    folded = next(node for node in large["description"]["nodes"] if node["holds"])
    view.request = {"project": {**asked, "toggled": [folded["holds"]]}, "count": 2}
    opened = unpacked(view.sent[1][0])["description"]["nodes"]
    assert len(opened) > len(large["description"]["nodes"])
    assert (view.picture, view._on, view._folding) == before
    view.request = {"project": {**asked, "direction": "LR"}, "count": 3}
    assert unpacked(view.sent[1][0])["direction"] == "LR"
    view.close()


def test_with_the_option_each_picture_of_a_view_is_for_a_projector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pages, "stage", STAGE)
    described = NETWORKS["MLP of 3"]()
    view = GraphView(described, {**lay_out(described, on=STAGE.projected()), "projected": True})
    view.request = {"stage": [1280, 720], "count": 1}
    picture = unpacked(view.picture)
    assert picture["projected"]
    assert picture["stage"] == list(SCREEN.projected())
    assert Pages.stage == SCREEN, "the next picture may have no such letters"
    wide, plain = (
        float(svg(one).split('width="')[1].split('"')[0]) for one in (picture, {**picture, "projected": False})
    )
    assert wide == pytest.approx(PROJECTOR * plain, abs=0.5)
    view.close()


def _width(drawing: str) -> float:
    return float(drawing.split('width="')[1].split('"', maxsplit=1)[0])


# --- in a browser --------------------------------------------------------------------------------------------------


def project(tab: Page) -> None:
    """Press the key, and wait until the view has the screen."""
    tab.keyboard.press("p")
    expect(tab.locator(".nbg-projected")).to_have_count(1)


@pytest.mark.browser
@pytest.mark.parametrize("allowed", [True, False])
def test_a_key_leads_to_the_projector_and_back_to_the_same_place(opened: Any, allowed: bool) -> None:
    tab = opened(page(whole(NETWORKS["ResNet-18"]()), "net"), size=(1280, 720))
    view = tab.get_by_test_id("nbgrad-view")
    if not allowed:
        view.evaluate("view => { view.requestFullscreen = () => Promise.reject(new TypeError('not allowed')); }")
    view.get_by_test_id("nbgrad-node").nth(2).click()
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    tab.wait_for_timeout(400)  # a folded box opens its details beside the picture a moment later
    before = view.evaluate(PLACE)
    project(tab)
    assert tab.evaluate("() => document.fullscreenElement !== null") == allowed
    expect(tab.get_by_test_id("nbgrad-details")).to_be_hidden()
    assert view.evaluate("view => [view.clientWidth, view.clientHeight]") == [1280, 720]
    assert tab.evaluate(SMALLEST) >= POINTS
    left, top, right, bottom = tab.evaluate(DRAWN)
    assert min(left, top) >= 0
    assert (right <= 1280, bottom <= 720) == (True, True)
    assert tab.locator(".nbg-header").evaluate("header => getComputedStyle(header).opacity") == "0"
    tab.mouse.move(600, 3)
    expect(tab.locator(".nbg-header")).to_have_css("opacity", "1")
    tab.mouse.move(600, 500)
    tab.keyboard.press("s")
    expect(tab.get_by_test_id("nbgrad-player")).to_be_visible()
    assert tab.evaluate(SMALLEST) >= POINTS, "the letters stay as large beside the details"
    letters = tab.get_by_test_id("nbgrad-details").evaluate(
        "it => parseFloat(getComputedStyle(it).fontSize) * it.currentCSSZoom"
    )
    assert letters >= POINTS
    tab.evaluate("document.exitFullscreen()") if allowed else tab.keyboard.press(
        "Escape"
    )  # as the browser does for Escape
    expect(tab.locator(".nbg-projected")).to_have_count(0)
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    tab.wait_for_timeout(400)
    assert view.evaluate(PLACE) == before


@pytest.mark.browser
def test_a_picture_that_is_too_large_says_how_large_its_letters_are(opened: Any, flat: Any) -> None:
    tab = opened(page(whole(flat(90)), "flat"), size=(1280, 720))
    tab.locator(".nbg-stage").focus()
    project(tab)
    expect(tab.locator(".nbg-below")).to_contain_text("All of the graph fits with letters of")
    left, top, right, bottom = tab.evaluate(DRAWN)
    assert min(left, top) >= 0
    assert max(right - 1280, bottom - 720) <= 0
    said = int(tab.locator(".nbg-below").inner_text().split("letters of ")[1].split()[0])
    assert said == int(tab.evaluate(SMALLEST) * 0.75 + 0.01) < 20
