"""The bars in folded boxes show gradient norms of parameters, iterations or earlier backwards; and their texts."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from nbgrad.widgets.description.schema import Bars, Description, Node
from nbgrad.widgets.folding.bars import MOST
from nbgrad.widgets.folding.choose import folded_below
from nbgrad.widgets.layout.card import BAR, BAR_HEIGHT, bar_height
from nbgrad.widgets.pipeline import drawable, lay_out
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from tests.lab.harness import screenshot
from tests.widgets import graphs
from tests.widgets.networks import LOOPS, NETWORKS
from tests.widgets.test_first_look import folded


def charted(description: Description, depth: int | None = None) -> Node:
    """The first folded box with bars."""
    drawn = drawable(description, 300, folded_below(description, depth))
    return next(one for one in folded(drawn) if one["bars"] is not None)


def bars(node: Node) -> Bars:
    assert node["bars"] is not None
    return node["bars"]


def test_of_one_backward_they_are_the_norms_of_the_parameters() -> None:
    described = NETWORKS["MLP of 3"]()
    node = charted(described, 0)
    levels = [one["levels"]["gradient"] for one in described["nodes"] if one["kind"] == "parameter"]
    assert [round(25 * level) for level in levels] == [ord(letter) - ord("A") for letter in bars(node)["heights"]]
    assert bars(node)["text"] == "gradient norms of 6 parameters"
    (told,) = [one["text"] for one in node["details"] if one["term"] == "Gradients of parameters"]
    assert [re.sub(r" \(.*", "", line) for line in told.split("\n")] == ["weight", "bias"] * 3
    assert all("∇ norm " in line for line in told.split("\n")), "in numbers too"


def test_of_a_loop_they_are_those_of_its_iterations() -> None:
    node = charted(LOOPS["RNN by hand, 100 steps"]())
    heights = bars(node)["heights"]
    assert len(heights) == MOST
    assert bars(node)["text"] == "gradient norms of the results of 20 of 100 iterations"
    assert heights[0] < heights[-1], "the gradient vanishes on the way back"


def test_of_a_history_they_are_the_largest_norms_of_the_backwards() -> None:
    node = charted(graphs.trained(12, 2), 0)
    assert bars(node)["heights"] == node["past"]
    assert bars(node)["text"] == "largest gradient norm inside in 12 backwards"


def test_there_are_none_without_gradients_or_of_one_number() -> None:
    described = NETWORKS["MLP of 2"]()
    for node in described["nodes"]:
        node["levels"] = {}
    assert all(one["bars"] is None for one in drawable(described, 300, folded_below(described, 0))["nodes"])


def test_the_still_picture_has_them_in_their_box() -> None:
    picture = lay_out(NETWORKS["ResNet-18"]())
    drawing = svg(picture)
    for node in folded(picture["description"]):
        told = bars(node)
        drawing = drawing[drawing.index(f"<title>{node['label'][0]} (") :]
        assert f"bars: {told['text']}" in drawing.partition("</title>")[0]
        box = picture["layout"]["nodes"][node["id"]]
        at = re.search(r'<path class="nbgs-rule" d="M([\d.]+) ([\d.]+)h2v-([\d.]+)', drawing)
        assert at is not None
        x, foot, high = map(float, at.groups())
        assert box["x"] < x < x + BAR * len(told["heights"]) <= box["x"] + box["width"]
        assert box["y"] < foot - BAR_HEIGHT < foot < box["y"] + box["height"]
        assert high == bar_height(told["heights"][0])


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_live_picture_has_the_same_and_says_them_aloud(opened: Any, scheme: str) -> None:
    picture = lay_out(NETWORKS["ResNet-18"]())
    tab = opened(page(picture, "bars"), scheme)
    for node in folded(picture["description"]):
        element = tab.locator(f"[data-node-id='{node['id']}']")
        expect(element).to_have_attribute("aria-label", re.compile(re.escape(f"bars: {bars(node)['text']}")))
        drawn = element.locator(".nbg-minibars")
        expect(drawn).to_have_attribute("aria-hidden", "true")
        path = drawn.get_attribute("d") or ""
        heights = [float(high) for high in re.findall(r"v-([\d.]+)", path)]
        assert heights == pytest.approx([bar_height(one) for one in bars(node)["heights"]], abs=0.06)
        chart, whole = drawn.bounding_box(), element.locator(".nbg-shape").last.bounding_box()
        assert whole["x"] < chart["x"]
        assert chart["x"] + chart["width"] < whole["x"] + whole["width"]
        lines = element.locator("text:visible").all()  # a short box hides the others
        assert len(lines) >= 3, "name, shape and gradient"
        for line in lines:
            text = line.bounding_box()
            apart = text["x"] + text["width"] <= chart["x"] + 1 or text["y"] + text["height"] <= chart["y"] + 3
            assert apart or chart["y"] + chart["height"] <= text["y"] + 3, "no text stands in the chart"
    screenshot(tab, f"bars_{scheme}")
