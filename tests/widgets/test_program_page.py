"""The page of a program in a browser: it shows every step, and computes anew when a number is changed."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import nbgrad
from nbgrad.symbolic import trace


@pytest.mark.browser
def test_a_number_is_changed_and_the_page_computes_anew(browser: Browser, tmp_path: Path) -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    trace(lambda x: (x * x).sum(), x).grad().to_html(tmp_path / "it.html", x)
    tab = browser.new_page()
    tab.goto((tmp_path / "it.html").as_uri())
    results = tab.locator("section > pre")
    expect(results.nth(0)).to_have_text("5")
    expect(results.nth(1)).to_have_text("2 4")
    tab.get_by_label("x").fill("3 4")
    expect(results.nth(0)).to_have_text("25")
    expect(results.nth(1)).to_have_text("6 8")
    tab.get_by_label("x").fill("3")
    expect(tab.locator(".trouble")).to_have_text("x takes 2 numbers")
    tab.locator("details").first.click()
    expect(tab.locator("details").first).to_contain_text("test_program_page.py")
    tab.close()
