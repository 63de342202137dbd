"""The view for readers who need high contrast, a keyboard or a screen reader, or who have a narrow window."""

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from tests.lab.harness import screenshot
from tests.widgets import graphs
from tests.widgets.cells import recorded
from tests.widgets.networks import NETWORKS
from tests.widgets.tuned_cells import captions

pytestmark = pytest.mark.browser

CONTRASTS = """selector => {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const card = getComputedStyle(document.querySelector(".nbgrad")).backgroundColor;
    const light = (colour, opacity) => {
        for (const [fill, alpha] of [[card, 1], [colour, opacity]]) {
            context.globalAlpha = alpha;
            context.fillStyle = fill;
            context.fillRect(0, 0, 1, 1);
        }
        const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...document.querySelectorAll(selector)].map((part) => {
        const { fill, fillOpacity, stroke, strokeOpacity } = getComputedStyle(part);
        const ink = fill === "none" ? light(stroke, strokeOpacity) : light(fill, fillOpacity);
        const [dark, bright] = [light(card, 1), ink].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    });
}"""


def contrast(tab: Page, selector: str) -> float:
    """The lowest contrast of an element with its card."""
    return float(min(tab.evaluate(CONTRASTS, selector)))


def test_the_edge_without_a_gradient_can_be_seen(opened: Any) -> None:
    for scheme in ("light", "dark"):
        tab = opened(page(lay_out(graphs.trained(1, 1)), "no gradient"), scheme)
        assert contrast(tab, ".nbg-none > :is(.nbg-value, .nbg-tip)") >= 3, scheme
        screenshot(tab, f"view_no_gradient_{scheme}")


def test_what_steps_back_can_be_read_in_high_contrast(opened: Any) -> None:
    for scheme in ("light", "dark"):
        tab = opened(page(lay_out(graphs.trained(1, 1)), "contrast"), scheme)
        tab.evaluate("name => { document.body.dataset.jpThemeName = name; }", f"JupyterLab {scheme} High Contrast")
        tab.get_by_test_id("nbgrad-steps").click()
        back = ".nbg-node:not(.nbg-done, .nbg-current) :is(.nbg-head, .nbg-line)"
        assert 4.5 <= contrast(tab, back) <= 12, scheme
        screenshot(tab, f"view_steps_{scheme}_contrast")
        tab.get_by_test_id("nbgrad-steps").click()
        tab.get_by_test_id("nbgrad-backward").click()
        assert contrast(tab, ".nbg-none > :is(.nbg-value, .nbg-tip)") >= 3, scheme


def test_a_narrow_view_has_room_for_a_search_and_for_what_its_colours_mean(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(12, 1)), "narrow"))
    for width in (320, 640, 958, 1100, 1400):
        tab.set_viewport_size({"width": width, "height": 900})
        field = tab.get_by_test_id("nbgrad-search")
        for words, said in (("", ""), ("relu", "0 found"), ("linear", "12 found")):
            field.fill(words)
            expect(tab.get_by_test_id("nbgrad-found")).to_have_text(said)
            box = field.bounding_box()
            assert box is not None
            assert box["width"] >= 76, (width, words, "six letters")
        screenshot(tab, f"view_search_{width}")
        field.fill("")
    tab.set_viewport_size({"width": 320, "height": 900})
    tab.get_by_test_id("nbgrad-history").click()
    scale, root = tab.get_by_test_id("nbgrad-scale").bounding_box(), tab.locator(".nbg-root .nbg-shape").bounding_box()
    screenshot(tab, "view_narrow_history")
    assert scale is not None
    assert root is not None
    apart = scale["y"] + scale["height"] <= root["y"] or root["y"] + root["height"] <= scale["y"]
    assert apart or scale["x"] + scale["width"] <= root["x"] or root["x"] + root["width"] <= scale["x"]


def test_a_panel_that_a_tool_opens_has_the_focus(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(2, 1)), "focus"))
    panel = tab.get_by_test_id("nbgrad-details")
    for tool in ("reductions", "findings"):
        tab.get_by_test_id(f"nbgrad-{tool}").press("Enter")
        expect(panel).to_be_visible()
        expect(panel).to_be_focused()
        tab.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        expect(tab.get_by_test_id(f"nbgrad-{tool}")).to_be_focused()
    tab.get_by_test_id("nbgrad-findings").press("Enter")
    tab.keyboard.press("Tab")
    expect(tab.get_by_test_id("nbgrad-close")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.get_by_test_id("nbgrad-findings")).to_be_focused()


FRAME = """() => {
    const view = document.querySelector(".nbgrad");
    return view.offsetHeight - view.querySelector(".nbg-body").offsetHeight;
}"""
"""How much of the height is around the picture."""


CUT = """() => {
    const all = document.querySelector(".nbg-words > span");
    const { right, bottom } = all.getBoundingClientRect();
    const words = document.createTreeWalker(all, NodeFilter.SHOW_TEXT);
    const cut = [];
    while (words.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(words.currentNode);
        const box = range.getBoundingClientRect();
        const out = box.right > right + 1 || box.bottom > bottom + 2;
        if (box.top < bottom - 2 && out) cut.push(words.currentNode.data);
    }
    return cut;
}"""
"""The parts of the totals that are seen in part."""


@pytest.mark.parametrize("size", [(1171, 631), (790, 480), (390, 700), (683, 384)])  # the last: a laptop at 200 percent
@pytest.mark.parametrize("name", ["MLP of 3", "ResNet-18", "broken"])
def test_the_frame_takes_ninety_pixels_at_most(opened: Any, name: str, size: tuple[int, int]) -> None:
    picture = lay_out(graphs.broken()) if name == "broken" else whole(NETWORKS[name]())
    tab = opened(page(picture, name), size=size)
    assert tab.evaluate(FRAME) <= 90
    assert tab.evaluate(CUT) == [], "a total that has no room is left out whole"
    tab.get_by_test_id("nbgrad-overlay").select_option(index=1)
    assert tab.evaluate(FRAME) <= 112, "with the scale of a colour"
    stage = tab.locator(".nbg-stage").bounding_box()
    assert stage["height"] >= 0.6 * size[1]
    for text in tab.locator(".nbg-words strong, .nbg-tools button:visible").all():
        box = text.bounding_box()
        assert box["height"] <= 32, "no text is broken into two lines"


def test_the_name_and_the_outcome_are_whole_beside_all_tools(opened: Any) -> None:
    graph = recorded(captions, 2, "graph 1234")
    tab = opened(page(whole(outline(graph)), "tools"), size=(1171, 631))
    for tool in ("history", "memory", "reductions", "findings"):
        expect(tab.get_by_test_id(f"nbgrad-{tool}")).to_be_visible()
    for width in range(700, 1500, 40):
        tab.set_viewport_size({"width": width, "height": 631})
        words = tab.locator(".nbg-words :is(strong, b)")
        assert words.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth).length") == 0, width
        assert tab.evaluate(FRAME) <= 90, width


def test_a_notice_is_one_line_until_it_is_asked_for(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.stopped()), "stopped"), size=(390, 700))
    error, frame = tab.get_by_test_id("nbgrad-error"), tab.evaluate(FRAME)
    assert error.bounding_box()["height"] < 24
    assert error.get_attribute("title") == error.inner_text()
    tab.get_by_test_id("nbgrad-notices").click()
    assert error.evaluate("e => e.scrollHeight <= e.clientHeight && e.clientHeight > 40"), "all of it can be read"
    assert tab.evaluate(FRAME) == frame, "it covers the picture and moves nothing"
    error.click()
    assert error.bounding_box()["height"] < 24


@pytest.mark.parametrize("name", ["MLP of 3", "ResNet-18"])
def test_on_a_phone_the_legend_is_behind_a_button(opened: Any, name: str) -> None:
    tab = opened(page(whole(NETWORKS[name]()), name), size=(390, 844))
    tab.get_by_test_id("nbgrad-legend").click()
    for entry in tab.locator(".nbg-legend span:visible").all():
        box = entry.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 380, "nothing is cut off"
    screenshot(tab, f"view_phone_{name.replace(' ', '_')}")


def two_losses() -> Description:
    """A loop in which two backwards take turns, as those of a generator and a discriminator do."""
    w, b = (nbgrad.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
    with nbgrad.AutogradGraph("two losses") as graph:
        for _ in range(6):
            d_loss = (w * w).sum() + 10.0
            d_loss.backward()
            g_loss = (b * b).sum()
            g_loss.backward()
            with nbgrad.no_grad():
                w -= 0.02 * w.grad
                b -= 0.02 * b.grad
    return describe(graph)


def test_two_losses_are_two_curves_by_their_names() -> None:
    chart = two_losses()["history"]["loss"]
    assert chart is not None
    first, second = chart["curves"]
    assert (first["label"], second["label"]) == ("d_loss", "g_loss")
    assert None not in first["heights"][:-1], "it goes on where only the other one has a number"
    assert first["heights"][:-1] == sorted(first["heights"][:-1], reverse=True)
    assert first["node"] == ""
    assert second["node"] != ""


@pytest.mark.parametrize("size", [(1171, 631), (790, 480), (390, 700)])
def test_the_history_is_a_strip_whose_names_do_not_touch(opened: Any, size: tuple[int, int]) -> None:
    for described in (two_losses(), graphs.trained(12, 2)):
        tab = opened(page(lay_out(described), "history"), size=size)
        tab.get_by_test_id("nbgrad-history").click()
        for chart in tab.locator(".nbg-timeline .nbg-chart").all():
            assert chart.bounding_box()["height"] <= 60
            names = [one.bounding_box() for one in chart.locator(".nbg-names span").all()]
            assert len(names) == min(5, chart.locator(".nbg-curve").count())
            for above, below in pairwise(names):
                assert above["y"] + 11 <= below["y"] + 0.5
