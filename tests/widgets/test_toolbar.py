"""Tools that have no room in their line: a button at each end says that there are more, and shows them."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import page
from tests.widgets import graphs

pytestmark = pytest.mark.browser

INSIDE = """one => {
    const [box, bar] = [one.getBoundingClientRect(), one.closest(".nbg-rail").getBoundingClientRect()];
    return box.left >= bar.left - 1 && box.right <= bar.right + 1;
}"""
UNCOVERED = """one => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    return one.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
}"""


def tools(opened: Any, width: int) -> tuple[Page, Locator, Locator]:
    """A page of this width, and its buttons for more tools to the left and to the right."""
    tab = opened(page(lay_out(graphs.trained()), "tools"), size=(width, 700))
    return tab, tab.get_by_test_id("nbgrad-tools-left"), tab.get_by_test_id("nbgrad-tools-right")


def test_with_room_for_all_tools_there_is_no_sign(opened: Any) -> None:
    _, left, right = tools(opened, 1171)
    expect(left).to_be_hidden()
    expect(right).to_be_hidden()


@pytest.mark.parametrize("width", [390, 520])
def test_the_pointer_brings_the_last_tool_and_the_first_one(opened: Any, width: int) -> None:
    tab, left, right = tools(opened, width)
    last, first = tab.get_by_test_id("nbgrad-legend"), tab.locator(".nbg-tools .nbg-group button").first
    expect(left).to_be_hidden()
    assert not last.evaluate(INSIDE)
    for button, other, tool in ((right, left, last), (left, right, first)):
        for _ in range(9):
            if box := button.bounding_box():  # a click of Playwright's scrolls the bar first
                tab.mouse.click(box["x"] + 12, box["y"] + 12)
                tab.wait_for_timeout(100)  # the bar tells after a moment that it was scrolled
        expect(button).to_be_hidden()
        expect(other).to_be_visible()
        assert tool.evaluate(INSIDE)
        assert tool.evaluate(UNCOVERED)


def test_tab_brings_a_tool_into_sight_beside_the_signs(opened: Any) -> None:
    tab, left, right = tools(opened, 520)
    tab.get_by_test_id("nbgrad-findings").focus()
    for name in ("nbgrad-overlay", "nbgrad-search"):
        tab.keyboard.press("Tab")
        tool = tab.get_by_test_id(name)
        expect(tool).to_be_focused()
        assert tool.evaluate(INSIDE)
        assert tool.evaluate(UNCOVERED)
    expect(left.or_(right).first).to_be_visible()


def test_a_wider_page_takes_the_signs_away(opened: Any) -> None:
    tab, _, right = tools(opened, 520)
    expect(right).to_be_visible()
    tab.set_viewport_size({"width": 1171, "height": 700})
    expect(right).to_be_hidden()
