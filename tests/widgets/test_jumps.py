"""Lines that are too long to be followed: their two ends have signs of the same letter, and each leads to the other."""

from itertools import combinations, pairwise
from math import hypot
from typing import Any

import pytest
from playwright.sync_api import expect

import nbgrad
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Box, Description, Picture
from nbgrad.widgets.description.stage import STAGE, Stage
from nbgrad.widgets.layout.jumps import _LONG
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import Moment, svg
from nbgrad.widgets.render.wire_format import packed
from tests.widgets.collisions import COLLISIONS
from tests.widgets.test_positions import apart, assert_sound, inside
from tools.unpacking import unpacked

SIZES = [Stage(1171, 566), Stage(790, 400), Stage(390, 560)]


def skips() -> Description:
    """Six results that later ops take again, the first one last, as in a U-Net."""
    x = nbgrad.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
    with nbgrad.AutogradGraph("skips") as graph:
        a = x.exp().tanh()
        b = a.sin().sigmoid()
        c = b.cos().relu()
        d = c.exp().atan()
        e = d.sin().tanh()
        up = e.cos().exp() + e
        up = (up.sigmoid() * d).sin()
        up = (up.tanh() - c).cos()
        up = (up.exp() / b).tanh()
        near, far = up.sigmoid(), (up.sin() + a) * a
        loss = (near * far).sum()
        loss.backward()
    return describe(graph)


def length(runs: list[list[list[float]]]) -> float:
    return sum(hypot(x - a, y - b) for run in runs for (a, b), (x, y) in pairwise(run))


def touches(point: list[float], box: Box) -> bool:
    """Whether a point is on the edge of a box."""
    (x, y), right, low = point, box["x"] + box["width"], box["y"] + box["height"]
    within = box["x"] - 0.2 <= x <= right + 0.2 and box["y"] - 0.2 <= y <= low + 0.2
    return within and min(abs(x - box["x"]), abs(x - right), abs(y - box["y"]), abs(y - low)) <= 0.2


def jumping(picture: Picture) -> set[str]:
    return {edge for jump in picture["layout"]["jumps"] for edge in jump["edges"]}


@pytest.mark.parametrize("on", SIZES, ids=str)
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_both_ends_of_a_long_line_have_a_sign_that_covers_nothing(on: Stage, direction: Any) -> None:
    picture = lay_out(skips(), on=on, direction=direction)
    assert_sound(picture)
    description, layout = picture["description"], picture["layout"]
    assert layout["jumps"], "a picture with such lines"
    edges = {edge["id"]: edge for edge in description["edges"]}
    for one in jumping(picture):
        edge, (leaves, comes) = edges[one], layout["edges"][one]
        signs = {jump["node"]: jump for jump in layout["jumps"] if one in jump["edges"]}
        assert signs.keys() == {edge["source"], edge["target"]}
        assert touches(leaves[0], layout["nodes"][edge["source"]])
        assert touches(leaves[-1], signs[edge["source"]]["box"])
        assert touches(comes[0], signs[edge["target"]]["box"])
        assert touches(comes[-1], layout["nodes"][edge["target"]])
        assert set(signs[edge["source"]]["letters"].split()) <= set(signs[edge["target"]]["letters"].split())
        assert one not in layout["labels"]
    boxes = [jump["box"] for jump in layout["jumps"]]
    everything: Box = {"x": 0, "y": 0, "width": layout["width"], "height": layout["height"]}
    assert all(inside(sign, everything) for sign in boxes)
    others = [*boxes, *layout["nodes"].values(), *layout["marks"].values(), *layout["labels"].values()]
    assert all(apart(sign, other) for sign in boxes for other in others if other is not sign)
    assert all(apart(one, other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("on", SIZES, ids=str)
def test_no_long_line_is_left_where_there_is_room_for_signs(on: Stage) -> None:
    picture = lay_out(skips(), on=on)
    layout = picture["layout"]
    most = _LONG * min(on.width, on.height) / on.scale(layout)
    lines = {one: length(runs) for one, runs in layout["edges"].items() if one not in jumping(picture)}
    assert max(lines.values()) <= most


def test_a_tensor_has_one_letter_and_one_sign_beside_its_box() -> None:
    layout = lay_out(skips(), on=SIZES[0])["layout"]
    places = [(jump["node"], jump["text"].startswith("→")) for jump in layout["jumps"] if jump["text"]]
    assert len(places) == len(set(places))
    letters = {letter for jump in layout["jumps"] for letter in jump["letters"].split()}
    assert letters == set("abcdefghij"[: len(letters)])


def test_a_small_picture_keeps_its_lines() -> None:
    x = nbgrad.tensor([0.1, 0.2], requires_grad=True)
    with nbgrad.AutogradGraph("one skip") as graph:
        h = x.exp()
        loss = (h.tanh().sin().cos().sigmoid() + h).sum()
        loss.backward()
    assert lay_out(describe(graph))["layout"]["jumps"] == []


def test_drawings_and_the_bytes_for_the_browser_have_the_signs() -> None:
    picture = lay_out(skips(), on=SIZES[0])
    drawn = svg(picture)
    for jump in picture["layout"]["jumps"]:
        assert f">{jump['letters']}<" in drawn
    assert any(f">{jump['text']}</tspan>" in drawn for jump in picture["layout"]["jumps"])
    assert "goes on at the same letter" in drawn
    assert unpacked(packed(picture))["layout"]["jumps"] == picture["layout"]["jumps"]
    nothing = frozenset[str]()
    early = svg(picture, Moment("", "", nothing, nothing, nothing, nothing, forward=True))
    assert early.count("nbgs-jump") >= len(picture["layout"]["jumps"])


LIT = "() => [...document.querySelectorAll('.nbg-jump.nbg-on')].map((one) => one.textContent)"


@pytest.mark.browser
def test_a_sign_lights_the_other_end_and_leads_there(opened: Any) -> None:
    picture = lay_out(skips(), on=STAGE)
    tab = opened(page(picture, "jumps"), size=(1171, 631))
    assert tab.evaluate(COLLISIONS) == []
    signs = tab.get_by_test_id("nbgrad-jump")
    expect(signs).to_have_count(len(picture["layout"]["jumps"]))
    first = picture["layout"]["jumps"][0]
    edges = {edge["id"]: edge for edge in picture["description"]["edges"]}
    ends = {edges[one][end] for one in first["edges"] for end in ("source", "target")} - {first["node"]}
    signs.first.hover()
    assert len(tab.evaluate(LIT)) >= 2
    signs.first.click()
    chosen = tab.locator(".nbg-node.nbg-chosen")
    assert chosen.get_attribute("data-node-id") in ends
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    tab.keyboard.press("Escape")
    signs.first.focus()
    tab.keyboard.press("Enter")
    assert chosen.get_attribute("data-node-id") in ends
    tab.keyboard.press("Escape")
    tab.get_by_test_id("nbgrad-legend").click()
    expect(tab.locator(".nbg-legend")).to_contain_text("goes on at the same letter")


@pytest.mark.browser
def test_a_folded_end_takes_its_sign_away(opened: Any) -> None:
    """Without a kernel the page folds: what leads into the folded box is a line again."""

    class Inner(nbgrad.nn.Module):
        def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
            return x.sin().cos().exp()

    inner = Inner()
    x = nbgrad.tensor([0.1] * 12, requires_grad=True)
    with nbgrad.AutogradGraph("folds") as graph:
        begin = inner(x)
        h = begin
        for op in ("tanh", "sin", "sigmoid", "cos", "exp", "relu", "atan", "sinh", "cosh"):
            h = getattr(h, op)()
        loss = (h * begin).sum()
        loss.backward()
    picture = whole(describe(graph), on=STAGE)
    inside = {one["id"] for one in picture["description"]["nodes"] if one["scope"] is not None}
    ends = {edge["id"]: {edge["source"], edge["target"]} for edge in picture["description"]["edges"]}
    jumps = picture["layout"]["jumps"]
    left = [jump for jump in jumps if any(ends[edge].isdisjoint(inside) for edge in jump["edges"])]
    assert len(left) < len(jumps)
    tab = opened(page(picture, "folds"), size=(1171, 631))
    expect(tab.get_by_test_id("nbgrad-jump")).to_have_count(len(jumps))
    tab.locator(".nbg-scope-name .nbg-fold").first.click()
    expect(tab.locator(".nbg-folded")).to_have_count(1)
    expect(tab.get_by_test_id("nbgrad-jump")).to_have_count(len(left))
    assert tab.evaluate(COLLISIONS) == []
