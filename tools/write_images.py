"""Write the pictures of the documentation, docs/images, with the front end as it is: run it after a change of that.

Without a name it writes all of them, else those that are named.

Nothing compares them: letters differ a little from one machine to the next.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import fragment, runtime
from tools.check_tools import chromium
from tools.pictured import PICTURED

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def found(tab: Page, name: str) -> Locator:
    """The element that has this test id."""
    return tab.get_by_test_id(f"nbgrad-{name}")


def stepping(tab: Page) -> Locator:
    """Go to the step at which the first of two paths reaches the point where they meet."""
    found(tab, "steps").click()
    while "path 1 of 2 that meet here" not in found(tab, "details").inner_text():
        found(tab, "next").click()
    return found(tab, "view")


def compared(tab: Page) -> Locator:
    """The first backward, compared with the sixth."""
    found(tab, "history").click()
    found(tab, "frame").fill("0")
    found(tab, "compare").select_option("5")
    return found(tab, "view")


def updates(tab: Page) -> Locator:
    """The history alone, with its other curves."""
    found(tab, "history").click()
    found(tab, "chart").select_option("update / weight")
    return found(tab, "timeline")


LOOKS: dict[str, Callable[[Page], Locator]] = {
    "first_graph": lambda tab: found(tab, "view"),
    "own_model": lambda tab: found(tab, "view"),
    "steps": stepping,
    "history": compared,
    "updates": updates,
}
"""For each picture the element that is written; the function first presses the buttons that show it."""


@contextmanager
def shown(browser: Browser, description: Description) -> Iterator[Page]:
    """A graph as a cell of a notebook shows it, on a screen of 1440 x 900."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.html"
        picture = fragment(lay_out(description))
        file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><body>{picture}{runtime()}", encoding="utf-8")
        tab = browser.new_page(viewport={"width": 1190, "height": 900}, screen={"width": 1440, "height": 900})
        tab.goto(file.as_uri())
        tab.locator(".nbg-stage > g[transform]").wait_for(state="attached")
        yield tab
        tab.close()


def main() -> None:
    """Write every picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        for name, look in LOOKS.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            with shown(browser, PICTURED[name]()) as tab:
                part = look(tab)
                tab.mouse.move(0, 0)
                part.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
            print(f"wrote docs/images/{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
