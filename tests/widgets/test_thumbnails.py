"""The numbers of each tensor as a small picture in its box."""

import re
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page

pytestmark = pytest.mark.browser


def convolution() -> Description:
    """A small picture in three colours, a layer that reads it, and one whose weight is large."""
    torch.manual_seed(0)
    image = torch.zeros(1, 3, 8, 8)
    image[0, 0] = 1.0
    image[0, 2, :, :4] = 1.0
    net = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.Flatten(), nn.Linear(128, 10))
    x = nbgrad.tensor(image)
    with nbgrad.AutogradGraph("thumbnails") as graph:
        loss = net(x).square().mean()
        loss.backward()
    return describe(graph)


def node(tab: Page, name: str) -> Any:
    return tab.locator(f'[data-testid=nbgrad-node][aria-label^="{name}"]')


OUTSIDE = """() => [...document.querySelectorAll(".nbg-thumb")].filter((thumb) => {
    const box = (one) => one.getBoundingClientRect();
    const [a, b] = [box(thumb), box(thumb.closest(".nbg-node").querySelector(".nbg-shape"))];
    const beside = a.left < b.left - 1 || a.right > b.right + 1;
    return beside || a.top < b.top - 1 || a.bottom > b.bottom + 1 || a.height < 3;
}).length"""
"""How many thumbnails are not inside their boxes, or are too low to be seen."""

COVERED = """() => [...document.querySelectorAll(".nbg-thumb")].filter((thumb) => {
    const a = thumb.getBoundingClientRect();
    return [...document.querySelectorAll(".nbg-mark, .nbg-row")].some((one) => {
        const b = one.getBoundingClientRect();
        const beside = a.left > b.right - 1 || b.left > a.right - 1 || a.top > b.bottom - 1 || b.top > a.bottom - 1;
        return !one.contains(thumb) && !beside;
    });
}).length"""
"""How many thumbnails are under a mark or a row."""

CELLS = """[...document.querySelectorAll(".nbg-thumb path")]
    .reduce((sum, path) => sum + path.getAttribute("d").split("M").length - 1, 0)"""


def shown(tab: Page, what: str) -> None:
    tab.get_by_test_id("nbgrad-overlay").select_option(what)


@pytest.mark.parametrize("what", ["@value", "@gradient"])
def test_every_box_with_numbers_shows_them_inside_itself(opened: Any, what: str) -> None:
    described = convolution()
    tab = opened(page(lay_out(described), "thumbnails"))
    shown(tab, what)
    key = what[1:]
    known = [one for one in described["nodes"] if one[key] and (one[key]["columns"] or one[key]["bars"])]  # type: ignore[literal-required]
    expect(tab.get_by_test_id("nbgrad-thumb")).to_have_count(len(known))
    assert tab.evaluate(OUTSIDE) == 0
    covered = tab.evaluate(COVERED)
    assert covered == 0, "no mark and no row lies over one"
    expect(tab.locator(".nbg-pictured .nbg-rule").first).to_be_hidden()
    shown(tab, "")
    expect(tab.get_by_test_id("nbgrad-thumb")).to_have_count(0)
    expect(node(tab, "conv2d").locator(".nbg-rule")).to_be_visible()


def test_what_is_an_image_is_drawn_as_one_and_read_aloud(opened: Any) -> None:
    tab = opened(page(lay_out(convolution()), "thumbnails"))
    shown(tab, "@value")
    x = node(tab, "x, ")
    expect(x).to_have_attribute("aria-label", re.compile("; drawn as an image of 8 × 8$"))
    fills = x.locator(".nbg-thumb path").evaluate_all("all => all.map((one) => one.style.fill).sort()")
    assert fills == ["rgb(255, 0, 0)", "rgb(255, 0, 255)"]
    box = x.get_by_test_id("nbgrad-thumb").bounding_box()
    assert box is not None
    assert abs(box["width"] - box["height"]) < 1
    expect(node(tab, "conv2d")).to_have_attribute("aria-label", re.compile("image of 8 × 8, the first one$"))
    weights = node(tab, "weight, ")
    expect(weights.first).to_have_attribute("aria-label", re.compile("; drawn as a heat map of 6 × 9$"))
    expect(weights.last).to_have_attribute("aria-label", re.compile("; drawn as a histogram from -[0-9.]+ to [0-9.]+$"))
    scale = tab.get_by_test_id("nbgrad-scale")
    expect(scale).to_contain_text("the values in the boxes")
    expect(scale).to_contain_text("large tensors have a histogram; images in grey or in colour")


def test_a_gradient_that_is_still_to_come_is_not_drawn(opened: Any) -> None:
    tab = opened(page(lay_out(convolution()), "thumbnails"))
    shown(tab, "@gradient")
    conv = node(tab, "conv2d").get_by_test_id("nbgrad-thumb")
    expect(conv).to_be_visible()
    tab.get_by_test_id("nbgrad-steps").click()
    expect(conv).to_be_hidden()


def test_they_stay_after_folding_and_a_nan_stands_out(opened: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 4))
    x = nbgrad.tensor([[1.0, float("nan"), -2.0], [0.5, 1.0, 2.0]])
    with nbgrad.AutogradGraph("folded") as graph:
        net(x).sum().backward()
    tab = opened(page(whole(describe(graph), folding=Folding()), "folded"))
    shown(tab, "@value")
    many = tab.get_by_test_id("nbgrad-thumb").count()
    alarm = (
        node(tab, "x, ")
        .locator(".nbg-thumb path")
        .evaluate_all("all => all.map((one) => one.style.fill).filter((fill) => fill.includes('alarm'))")
    )
    assert alarm == ["var(--nbg-alarm)"]
    tab.locator('[data-testid=nbgrad-scope][aria-label*="0 (Sequential)"]').dblclick()
    expect(tab.locator(".nbg-folded")).to_have_count(1)
    assert 0 < tab.get_by_test_id("nbgrad-thumb").count() < many
    expect(tab.get_by_test_id("nbgrad-overlay")).to_have_value("@value")


def test_many_boxes_have_a_bounded_number_of_cells(opened: Any) -> None:
    w = nbgrad.tensor(torch.randn(32, 32), requires_grad=True)
    with nbgrad.AutogradGraph("chain") as graph:
        y = w
        for _ in range(12):
            y = (y * 1.01).sin() + 0.1
        y.sum().backward()
    tab = opened(page(lay_out(describe(graph), folding=Folding()), "chain"))
    shown(tab, "@value")
    assert tab.get_by_test_id("nbgrad-thumb").count() > 30
    cells = tab.evaluate(CELLS)
    assert 2000 < cells <= 20_000
