"""The tester of the first look is tested: it sees what is wrong in a page that is made to be wrong."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from benchmarks import first_look
from benchmarks.first_look import SIZES, Look, markdown, summary
from tests.widgets import cells

SCRIPT = (Path(first_look.__file__).parent / "first_look.js").read_text(encoding="utf-8")

PAGE = """<!DOCTYPE html><body style="margin: 0"><div class="nbgrad" style="width: 400px">
<div style="height: 60px">title and tools</div>
<div class="body" style="position: relative; height: 300px">
<svg class="nbg-stage" width="400" height="300" style="display: block">{drawing}</svg>{over}</div>
<div style="height: 20px">legend</div></div></body>"""


def box(x: int, y: int, words: str = "", size: int = 12, *, width: int = 100, height: int = 50) -> str:
    text = f'<text x="{x + 5}" y="{y + 20}" style="font: {size}px Arial">{words}</text>' if words else ""
    shape = f'<rect class="nbg-shape" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    return f'<g class="nbg-node"><title>{words}</title>{shape}{text}</g>'


@pytest.fixture
def figures(browser: Browser) -> Any:
    tab = browser.new_page(viewport={"width": 600, "height": 500})

    def of(drawing: str, over: str = "") -> dict[str, Any]:
        tab.set_content(PAGE.format(drawing=drawing, over=over))
        tab.evaluate(SCRIPT)
        found: dict[str, Any] = tab.evaluate("() => window.firstLook.look()")
        return found

    yield of
    tab.close()


@pytest.mark.browser
def test_a_box_that_is_cut_or_covered_is_not_whole(figures: Any) -> None:
    two = box(10, 10, "one") + box(200, 10, "two")
    found = figures(two)
    assert (found["boxes"], found["whole"], found["cut"]) == (2, 2, [])
    assert (found["view"], found["frame"], found["stage"]) == (380, 80, [400, 300])
    assert figures(two + box(350, 100, "cut"))["cut"] == ["cut"]
    assert figures(two + box(100, 290, "below"))["cut"] == ["below"]
    over = '<div style="position: absolute; left: 250px; top: 0; width: 100px; height: 100px"></div>'
    assert figures(two, over)["cut"] == ["two"]
    hidden = over.replace("position", "visibility: hidden; position")
    assert figures(two, hidden)["whole"] == 2
    scaled = f'<g transform="translate(0 -5) scale(2)">{two}</g>'
    assert figures(scaled)["cut"] == ["two"]


@pytest.mark.browser
def test_letters_are_as_large_as_the_camera_makes_them(figures: Any) -> None:
    drawing = box(10, 10, "large", 20) + box(200, 10, "small", 8)
    found = figures(drawing)
    assert (found["letters"], found["smallest"], found["texts"]) == (8, "small", 2)
    assert figures(f'<g transform="scale(0.5)">{drawing}</g>')["letters"] == pytest.approx(4)
    far = drawing.replace('<g class="nbg-node"><title>small', '<g class="nbg-node" transform="translate(500)"><title>')
    assert figures(far)["letters"] == 20, "what is not on the stage is not seen"
    for hidden in ("display: none", "visibility: hidden", "opacity: 0"):
        found = figures(drawing.replace("font: 8px", f"{hidden}; font: 8px"))
        assert (found["letters"], found["wordless"]) == (20, 1), hidden
    assert figures(box(10, 10))["letters"] == 0


@pytest.mark.browser
def test_white_is_what_no_box_and_no_edge_covers(figures: Any) -> None:
    assert figures("")["white"] == 1
    assert figures(box(0, 0, width=400, height=150))["white"] == pytest.approx(0.5, abs=0.01)
    framed = '<rect class="nbg-scope" x="0" y="0" width="400" height="150"/>'
    found = figures(framed + box(0, 0, width=200, height=150))
    assert (found["white"], found["bare"]) == (pytest.approx(0.5, abs=0.01), pytest.approx(0.75, abs=0.01))
    edge = '<g class="nbg-edge"><path d="M0 0 L400 0 L400 300" fill="none"/></g>'
    assert figures(edge)["white"] == pytest.approx(0.5, abs=0.02), "the hull of its corner is a triangle"


def look(**facts: Any) -> Look:
    right: dict[str, Any] = {"boxes": 20, "whole": 20, "wordless": 0, "letters": 9.5, "white": 0.3, "bare": 0.4}
    right |= {"frame": 80, "view": 600, "stage": (1000, 520), "kernel": 0.1, "first": 0.1, "drawn": 0.2}
    return Look("net", "790x480", **{**right, **facts})


def test_the_summary_counts_what_is_right() -> None:
    bad = Look("net", "390x700", 20, 3, 1, 4.0, 0.9, 0.9, 200, 600, (388, 400), 1.0, 0.1, 0.5)
    said = summary([look(), bad])
    assert said.startswith("1 of 2 pictures whole, 1 with letters of 9 pixels or more in every box, 1 of 2 with more")
    line = markdown([look(), bad]).splitlines()[2]
    assert line == "| net | 3 of 20 (390x700) | 1 | 4.0 | 90 % | 200 | 388x400 1000x520 | 1.00 + 0.50 |"


def test_the_two_halves_have_everything_once() -> None:
    tuned, kept = first_look.half("tuned"), first_look.half("kept")
    assert len(first_look.networks()) == len(tuned) + len(kept) == len({one.name for one in tuned + kept})
    assert len(cells.CELLS) >= 35
    assert all("loss" in one.text.recorded for one in tuned + kept)
    assert [str(size) for size in SIZES] == ["1171x631", "790x480", "390x700"]


@pytest.mark.browser
def test_a_page_asks_its_kernel_and_gets_another_picture(browser: Browser, shell: Any) -> None:
    (network,) = [one for one in first_look.networks() if one.name == "vae"]
    kernel, seconds = first_look.Notebook(shell).run(network)
    assert seconds > 0
    window = first_look.Window(browser, SIZES[0])
    with window.opened(kernel) as page:
        before, (first, drawn) = page.look(), page.times()
        assert 0 < first <= drawn < 60_000
        assert before["boxes"] > 10
        page.tab.get_by_test_id("nbgrad-turn").click()
        page.settle()
        assert page.look() != before
        assert page.errors == []
    window.close()
    kernel.close()


def test_a_program_that_cannot_run_is_no_picture(shell: Any) -> None:
    broken = first_look.Network("broken", cells.Source("import torch", "1 / 0"))
    with pytest.raises(RuntimeError, match="broken has no live view"):
        first_look.Notebook(shell).run(broken)
    with pytest.raises(ModuleNotFoundError):
        first_look.Notebook(shell).run(broken._replace(text=cells.Source("import nothing_like_it", "")))
