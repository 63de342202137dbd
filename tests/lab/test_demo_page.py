"""The page that `make demo` writes: one file, alive, and silent on the network."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.lab.harness import ROOT, screenshot
from tools.demo import build

pytestmark = pytest.mark.browser


def test_the_page_of_the_tour_is_alive(page: Page, tmp_path: Path) -> None:
    target = tmp_path / "tour.html"
    facts = build(ROOT / "notebooks" / "00_tour.ipynb", target)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(target.as_uri())

    views = page.get_by_test_id("nbgrad-view")
    expect(views).to_have_count(facts["views"])
    assert facts["views"] >= 2
    for i in range(facts["views"]):
        views.nth(i).scroll_into_view_if_needed()
        views.nth(i).get_by_test_id("nbgrad-fit").click()
        views.nth(i).get_by_test_id("nbgrad-node").first.click()
        expect(views.nth(i).get_by_test_id("nbgrad-details")).to_be_visible()
        screenshot(page, f"page_view_{i}")
    assert problems == []
