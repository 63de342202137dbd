"""The field for an answer in a page without a kernel: it says whether a gradient is right, and how it is wrong."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import nbgrad
from tests.widgets.collisions import COLLISIONS

pytestmark = pytest.mark.browser

OFTEN = "often that of a square, or of a value used twice"


def opens(opened: Any, graph: nbgrad.AutogradGraph, folder: Path) -> Page:
    graph.save(folder / "asked.html")
    return opened((folder / "asked.html").read_text("utf-8"))  # type: ignore[no-any-return]


def box(tab: Page, name: str) -> Locator:
    return tab.locator(f"[data-testid=nbgrad-node][aria-label^='{name},']")


def give(tab: Page, answer: str) -> Locator:
    tab.get_by_test_id("nbgrad-answer").fill(answer)
    tab.get_by_test_id("nbgrad-answer").press("Enter")
    return tab.get_by_test_id("nbgrad-answered")


def test_a_number_is_typed_into_a_page(opened: Any, tmp_path: Path) -> None:
    with nbgrad.AutogradGraph(ask="a, b") as graph:
        a, b = nbgrad.tensor(2.0, requires_grad=True), nbgrad.tensor(-3.5, requires_grad=True)
        loss = (a * b + 10.0) * -2.0
        loss.backward()
    tab = opens(opened, graph, tmp_path)
    expect(box(tab, "a")).to_contain_text("∇ ?")
    box(tab, "a").click()
    for answer, said in {
        "-7": "✗ not yet: the sign is wrong.",
        "3.5": f"✗ not yet: a factor 2 is missing: {OFTEN}.",
        "14": f"✗ not yet: a factor 2 is too many: {OFTEN}.",
        "0": "✗ not yet: it is 0, which is not right.",
        "5": "✗ not yet: it is wrong by more than its sign or a factor 2.",
        "seven": "✗ not yet: numbers are expected, such as -1.5 or 1/4.",
        "": "✗ not yet: numbers are expected, such as -1.5 or 1/4.",
        "7, 7": "✗ not yet: the shape is (), so 1 number is expected, not 2.",
        "7.02": "✗ not yet: it is nearly right: write more digits.",
    }.items():
        expect(give(tab, answer)).to_have_text(said)
        expect(box(tab, "a")).to_contain_text("∇ ✗")
    expect(give(tab, "14 / 2")).to_have_text("✓ right")
    expect(box(tab, "a")).to_contain_text("∇ 14 / 2 ✓")
    assert tab.evaluate(COLLISIONS) == []
    expect(give(tab, "7.005")).to_have_text("✓ right")
    expect(box(tab, "b")).to_contain_text("∇ ?")
    box(tab, "b").click()
    expect(tab.get_by_test_id("nbgrad-answer")).to_have_value("")
    expect(give(tab, "−4")).to_have_text("✓ right")  # as it is copied from a text
    for _ in range(2):  # the backward steps write into the boxes, too
        tab.get_by_role("button", name="Steps").first.click()
    expect(box(tab, "a")).to_contain_text("∇ 7.005 ✓")


def test_a_list_is_typed_into_a_page(opened: Any, tmp_path: Path) -> None:
    with nbgrad.AutogradGraph(ask="w") as graph:
        w = nbgrad.tensor([[1.0, 2.0], [-3.0, 4.0]], requires_grad=True)
        (w**2).sum().backward()
    tab = opens(opened, graph, tmp_path)
    box(tab, "w").first.click()
    expect(tab.get_by_test_id("nbgrad-answered")).to_have_text("4 numbers, such as 1, -2.5, 1/4")
    for answer, said in {
        "2 4 6 8": "✗ not yet: the sign of 1 of 4 elements is wrong.",
        "1 2 -3 4": f"✗ not yet: a factor 2 is missing: {OFTEN}.",
        "-2 -4 6 -8": "✗ not yet: the sign of every element is wrong.",
        "[[2, 4], [-6, 9]]": "✗ not yet: 3 of 4 elements are right.",
        "2.01 3.99 -6.02 8.01": "✗ not yet: it is nearly right: write more digits.",
        "9 9 9 9": "✗ not yet: none of 4 elements are right.",
        "2 4": "✗ not yet: the shape is (2, 2), so 4 numbers are expected, not 2.",
        "0 0 0 0": "✗ not yet: every element is 0.",
    }.items():
        expect(give(tab, answer)).to_have_text(said)
    expect(give(tab, "[[2, 4], [-6, 8]]")).to_have_text("✓ right")
    expect(box(tab, "w").first).to_contain_text("∇ ✓")


def test_what_was_not_asked_for_has_no_field(opened: Any, tmp_path: Path) -> None:
    with nbgrad.AutogradGraph(ask="a") as graph:
        a, b = nbgrad.tensor(2.0, requires_grad=True), nbgrad.tensor(3.0, requires_grad=True)
        (a * b).backward()
    tab = opens(opened, graph, tmp_path)
    box(tab, "b").click()
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-answer")).to_have_count(0)
