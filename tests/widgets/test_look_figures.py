"""The tester of the first look is tested: it sees what is wrong in a page that is made to be wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from benchmarks import first_look
from benchmarks.first_look import SIZES, Examiner, Look, markdown, summary
from benchmarks.live_page import Notebook, Window
from benchmarks.look_states import ZOOMS, states
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
        found: dict[str, Any] = tab.evaluate(
            "() => ({ ...window.firstLook.look(), collisions: window.firstLook.collisions() })"
        )
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
    assert found["white"] == pytest.approx(0.5, abs=0.01)
    edge = '<g class="nbg-edge"><path d="M0 0 L400 0 L400 300" fill="none"/></g>'
    assert figures(edge)["white"] == pytest.approx(0.5, abs=0.02), "the hull of its corner is a triangle"


@pytest.mark.browser
def test_outside_is_what_lies_beyond_the_outermost_parts(figures: Any) -> None:
    assert figures("")["outside"] == 1
    corners = box(0, 0, width=50, height=50) + box(150, 250, width=50, height=50)
    assert figures(corners)["outside"] == pytest.approx(0.5, abs=0.01)
    edge = '<g class="nbg-edge"><path d="M0 0 L400 0 L400 300" fill="none"/></g>'
    assert figures(corners + edge)["outside"] == pytest.approx(0, abs=0.01)


@pytest.mark.browser
def test_lines_are_as_long_as_they_are_seen(figures: Any) -> None:
    lines = '<path class="nbg-value" d="M0 0 L100 0"/><path class="nbg-value" d="M0 9 L40 9"/>'
    assert (figures(lines)["ink"], figures(lines)["longest"]) == (140, 100)
    scaled = figures(f'<g transform="scale(0.5)">{lines}</g>')
    assert (scaled["ink"], scaled["longest"]) == (70, 50)
    assert figures("")["ink"] == 0


def words(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" style="font: 12px Arial">{text}</text>'


def label(x: int, y: int, text: str) -> str:
    return f'<g class="nbg-scope-name">{words(x, y, text)}</g>'


@pytest.mark.browser
def test_texts_that_collide_in_the_drawing_are_named(figures: Any) -> None:
    two = box(10, 10, "one") + box(200, 10, "two")
    assert figures(two)["collisions"] == []
    on_text = figures(two + label(25, 32, "title"))["collisions"]
    assert sorted(on_text) == ["“one” on “title”", "“title” on the box “one”"]
    assert figures(two + label(60, 50, "title"))["collisions"] == ["“title” on the box “one”"]
    assert figures(two + label(10, 80, "title"))["collisions"] == [], "below the box"
    beside = box(10, 10, "value 1.137").replace("</g>", words(10 + 5 + 62, 30, "∇ -3.656") + "</g>")
    assert figures(beside)["collisions"] == ["“value 1.137” on “∇ -3.656”", "“∇ -3.656” out of its box"]
    assert figures(box(10, 10, "far wider than it is", width=60))["collisions"] == [
        "“far wider than it is” out of its box"
    ]
    row = box(20, 40, "row", width=60, height=15).replace('y="60"', 'y="51"').replace("nbg-node", "nbg-node nbg-row")
    assert figures(box(10, 10, "whole") + row)["collisions"] == [], "a row stands in its box"
    covered = figures(box(10, 20, "head") + row.replace('y="40"', 'y="30"').replace('y="51"', 'y="41"'))["collisions"]
    assert covered, "a row covers the text of its box"
    hidden = label(25, 32, "title").replace("font:", "visibility: hidden; font:")
    assert figures(two + hidden)["collisions"] == []


@pytest.mark.browser
def test_texts_that_collide_around_the_drawing_are_named(figures: Any) -> None:
    at = "position: absolute; font: 12px Arial; top: 100px; left: {}px"
    apart = f'<div style="{at.format(10)}">details</div><div style="{at.format(90)}">value</div>'
    assert figures("", apart)["collisions"] == []
    close = f'<div style="{at.format(10)}">details</div><div style="{at.format(30)}">value</div>'
    assert figures("", close)["collisions"] != []
    under = f'<div class="nbg-minimap" style="{at.format(0)}; width: 80px; height: 20px; background: red"></div>'
    assert figures("", apart + under)["collisions"] == ["“details” under nbg-minimap"]
    cut = "<select style='width: 60px'><option>colour: gradient norm</option></select>"
    assert figures("", f'<div style="{at.format(10)}">{cut}</div>')["collisions"] == ["“colour: gradient norm” is cut"]
    whole = cut.replace("60px", "200px")
    assert figures("", f'<div style="{at.format(10)}">{whole}</div>')["collisions"] == []


def look(**facts: Any) -> Look:
    right: dict[str, Any] = {"boxes": 20, "whole": 20, "wordless": 0, "letters": 9.5, "white": 0.3, "outside": 0.2}
    right |= {
        "ink": 1200.0,
        "longest": 90.0,
        "frame": 80,
        "view": 600,
        "stage": (1000, 520),
        "kernel": 0.1,
        "first": 0.1,
        "drawn": 0.2,
    }
    right |= {"collisions": {"opening": [], "fit": []}, "zooms": {"fit": (9.0, 0)}}
    return Look("net", "790x480", **{**right, **facts})


def test_the_summary_counts_what_is_right() -> None:
    bad = look(
        whole=3,
        wordless=1,
        letters=4.0,
        white=0.9,
        outside=0.6,
        ink=2400.0,
        longest=700.0,
        frame=200,
        kernel=1.0,
        zooms={"fit": (4.0, 2)},
    )
    bad = replace(bad, size="390x700", stage=(388, 400), collisions={"opening": ["a"], "fit": ["b", "c"]})
    said = summary([look(), bad])
    assert said == (
        "1 of 2 pictures whole, 1 with letters of 9 pixels or more in every box, 1 of 2 with more than 12 boxes "
        "leave less than 45 % of the stage outside, 1 are less than 45 % white, 1,800 pixels of lines in the mean "
        "picture, 1 with a line longer than 60 % of the stage, 1 with a frame of at most 90 pixels, 1 without a "
        "collision at first, 1 of 2 without one in any state, 0 with errors of scripts."
    )
    line = markdown([look(), bad]).splitlines()[2]
    assert line == (
        "| net | 3 of 20 (390x700) | 1 | 4.0 | 90 % | 60 % | 1,200, 2,400 | 90, 700 | 200 "
        "| 1000x520, 388x400 | 1.00 + 0.20 | 4.0, 2 "
        "| opening 1, fit 2 |"
    )


def test_the_two_halves_have_everything_once() -> None:
    tuned, kept = first_look.half("tuned"), first_look.half("kept")
    every = [*first_look.networks(), *first_look.added()]
    assert len(every) == len(tuned) + len(kept) == len({one.name for one in tuned + kept})
    assert len(cells.CELLS) >= 35
    assert all("loss" in one.text.recorded for one in tuned + kept)
    assert [str(size) for size in SIZES] == ["1171x631", "790x480", "390x700"]


@pytest.mark.browser
def test_a_page_asks_its_kernel_and_gets_another_picture(browser: Browser, shell: Any) -> None:
    (network,) = [one for one in first_look.networks() if one.name == "vae"]
    kernel, seconds = Notebook(shell).run(network.text.before, network.text.recorded)
    assert seconds > 0
    window = Window(browser, SIZES[0])
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


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_tool_is_open_in_its_state(browser: Browser, shell: Any) -> None:
    (network,) = [one for one in first_look.networks() if one.name == "own engine mlp"]
    kernel, _ = Notebook(shell).run(network.text.before, network.text.recorded)
    window, opened = Window(browser, SIZES[0]), dict[str, list[str]]()
    pressed = "() => [...document.querySelectorAll('[aria-pressed=true]')].map((one) => one.dataset.testid)"
    with window.opened(kernel) as page:
        for state in states(page):
            opened[state] = page.tab.evaluate(pressed)
    window.close()
    for name in ("steps", "history", "memory"):
        assert opened[f"panel {name}"] == [f"nbgrad-{name}"]
    assert opened["step 3"] == ["nbgrad-steps"]
    assert opened["opening"] == opened["fit"] == opened["zoom 2"] == []


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_picture_is_brought_into_every_state(browser: Browser, shell: Any, tmp_path: Path) -> None:
    (network,) = [one for one in first_look.networks() if one.name == "linear regression"]
    window = Window(browser, SIZES[0])
    found = Examiner(Notebook(shell), window, every=True, shots=tmp_path).look(network)
    window.close()
    assert {"opening", "panel steps", "step 2", "panel history", "panel as-table", "fit"} <= found.collisions.keys()
    assert {"details of the loss", "details of a parameter", "search", "what if"} <= found.collisions.keys()
    assert [state for state in found.collisions if state.startswith("a")] == [
        "asked",
        "answer 1",
        "answer 2",
        "answered",
    ]
    assert set(found.zooms) == {"fit", *ZOOMS}
    sizes = [found.zooms[state][0] for state in ("zoom 0.5", "zoom 0.7", "fit", "zoom 1.4", "zoom 2", "zoom 3.8")]
    assert sizes == sorted(sizes)
    assert len(list(tmp_path.iterdir())) == len(found.collisions)
    assert found.errors == []


def test_a_program_that_cannot_run_is_no_picture(shell: Any) -> None:
    with pytest.raises(RuntimeError, match="There is no live view"):
        Notebook(shell).run("import torch", "1 / 0")
    with pytest.raises(ModuleNotFoundError):
        Notebook(shell).run("import nothing_like_it", "")
