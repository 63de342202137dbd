"""The view for readers with a keyboard or a screen reader, and to those with a special system setting."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from nbgrad.widgets import view
from nbgrad.widgets.folding.choose import folded_below
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import page
from tests.lab.harness import screenshot
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS
from tests.widgets.test_html_page import notebook

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

AXE = Path(view.STATIC).parent / "node_modules" / "axe-core" / "axe.min.js"

# This rule is experimental. It wants the visible text of a box in its name, but the name says signs such as × in words.
CHECK = """async () => (await axe.run({ rules: { "label-content-name-mismatch": { enabled: false } } })).violations.map(
    ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`)"""


def found(tab: Page) -> list[str]:
    return [one for one in tab.evaluate(CHECK) if not re.match("(page-has-heading-one|region|landmark-one-main)", one)]


@pytest.mark.skipif(not AXE.exists(), reason="needs `npm ci` in nbgrad/widgets")
@pytest.mark.parametrize(
    ("scheme", "setting"),
    [
        ("light", {}), ("dark", {}), ("light", {"contrast": "more"}), ("dark", {"contrast": "more"}),
        ("light", {"forced_colors": "active"}), ("dark", {"forced_colors": "active"}),
    ],
)  # fmt: skip
def test_a_checker_finds_nothing(opened: Any, scheme: str, setting: dict[str, Any]) -> None:
    described = graphs.trained(3, 2)
    content = page(lay_out(described, folding=folded_below(described, 1)), "checked")
    # The page's policy allows no other script. So the checker stands before the policy in the page.
    tab = opened(content.replace("<title>", f"<script>{AXE.read_text(encoding='utf-8')}</script><title>", 1), scheme)
    tab.emulate_media(color_scheme=scheme, **setting)  # type: ignore[arg-type]  # one of those that are known
    assert found(tab) == []
    screenshot(tab, f"checked_{scheme}_{'_'.join(setting) or 'plain'}")
    tab.locator(".nbg-root").click()
    assert found(tab) == []
    tab.keyboard.press("Escape")
    for tool in ("history", "steps", "findings", "as-table"):
        tab.get_by_test_id(f"nbgrad-{tool}").click()
        assert found(tab) == [], tool


@pytest.mark.skipif(not AXE.exists(), reason="needs `npm ci` in nbgrad/widgets")
def test_a_checker_finds_nothing_on_a_phone(opened: Any) -> None:
    content = page(lay_out(graphs.trained(3, 2)), "phone")
    script = f"<script>{AXE.read_text(encoding='utf-8')}</script><title>"
    tab = opened(content.replace("<title>", script, 1), size=(390, 844))
    assert found(tab) == []
    tab.locator(".nbg-root").click()
    assert found(tab) == []


def test_tab_goes_to_one_button_of_a_group(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(3, 1)), "groups"))
    steps, history, findings = (tab.get_by_test_id(f"nbgrad-{one}") for one in ("steps", "history", "findings"))
    tab.get_by_test_id("nbgrad-both").focus()
    tab.keyboard.press("Tab")
    expect(steps).to_be_focused()
    tab.keyboard.press("ArrowRight")
    expect(history).to_be_focused()
    tab.keyboard.press("Tab")
    expect(tab.get_by_test_id("nbgrad-overlay")).to_be_focused()
    tab.keyboard.press("Shift+Tab")
    expect(history).to_be_focused()
    expect(history).to_have_attribute("aria-pressed", "false")
    tab.keyboard.press("Enter")
    expect(history).to_have_attribute("aria-pressed", "true")
    tab.keyboard.press("Escape")
    expect(history).to_have_attribute("aria-pressed", "false")
    findings.click()
    expect(findings).to_have_attribute("aria-pressed", "true")
    tab.keyboard.press("Escape")
    expect(findings).to_have_attribute("aria-pressed", "false")
    stops = tab.locator(".nbg-tools button:visible").evaluate_all("all => all.filter(e => e.tabIndex === 0).length")
    assert stops == 3
    expect(tab.get_by_test_id("nbgrad-edge").first).to_have_attribute("aria-hidden", "true")


def test_more_contrast_is_the_same_whoever_asks_for_it(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "contrast"))
    inks = """() => {
        const style = getComputedStyle(document.querySelector(".nbgrad"));
        return ["ink", "muted", "card", "raised", "border", "edge", "faint", "scope-fill", "grad", "dim", "bold"].map(
            name => style.getPropertyValue(`--nbg-${name}`));
    }"""
    plain = tab.evaluate(inks)
    tab.evaluate("document.body.dataset.jpThemeName = 'JupyterLab Light High Contrast'")
    named = tab.evaluate(inks)
    tab.evaluate("delete document.body.dataset.jpThemeName")
    tab.emulate_media(contrast="more")
    assert tab.evaluate(inks) == named != plain


def test_the_history_is_scrubbed_on_its_chart(opened: Any) -> None:
    described = graphs.trained(12, 1)
    history = described["history"]
    for frame, number in zip(history["frames"], (*range(1, 12), 100), strict=True):
        frame["number"] = number
    tab = opened(page(lay_out(described), "chart"))
    tab.get_by_test_id("nbgrad-history").click()
    timeline, loss = tab.get_by_test_id("nbgrad-timeline"), tab.get_by_test_id("nbgrad-loss")
    expect(loss.locator(".nbg-curve")).to_have_count(1)
    expect(timeline.locator(".nbg-axis").first).to_contain_text("loss")
    expect(timeline.locator(".nbg-names span").first).to_be_visible()
    box = loss.bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + 1, box["y"] + 8)
    expect(timeline).to_contain_text("backward 1, loss ")
    tab.mouse.move(box["x"] + box["width"] / 20, box["y"] + 8)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 8)  # backward 11 is nearer than the last one, 100
    tab.mouse.up()
    expect(timeline).to_contain_text("backward 11, loss ")
    expect(tab.locator(".nbg-root")).not_to_have_class(re.compile("nbg-levelled"))


def test_the_numbers_come_first_side_by_side(opened: Any) -> None:
    tab = opened(page(lay_out(NETWORKS["MLP of 2"]()), "inspector"))
    tab.locator(".nbg-parameter", has_text="bias").first.click(position={"x": 40, "y": 8})  # above its reduction
    panel = tab.get_by_test_id("nbgrad-details")
    value, gradient = (panel.locator(".nbg-look").nth(at).bounding_box() for at in range(2))
    assert value is not None
    assert gradient is not None
    assert value["y"] == pytest.approx(gradient["y"], abs=1)
    first = panel.locator("dl").bounding_box()
    assert first is not None
    assert first["y"] > value["y"]
    expect(panel.locator(".nbg-shades").first).to_be_visible()
    expect(panel.locator("td").first).to_have_attribute("title", re.compile(r"^\[0\] -?\d"))


HOST = """<!DOCTYPE html><meta charset="utf-8"><style>{css}</style><body>
<div class="cell_container"><div class="output_container"><div class="output">{svg}</div></div></div>
<div class="cell_container"><div class="output_container" id="text">text <b>of a cell</b>{svg}</div>
<div class="output_container" id="still"><div class="output">{svg}</div></div>
<div class="output_container"><div class="output" id="el"></div></div></div>"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_legend_has_the_colours_of_the_boxes_where_colours_are_forced(opened: Any, scheme: str) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "forced"), scheme)
    tab.get_by_test_id("nbgrad-legend").click()
    tab.emulate_media(color_scheme=scheme, forced_colors="active")  # type: ignore[arg-type]  # one of those that are known
    for kind in ("op", "parameter", "root"):
        box, key = (tab.locator(one).first for one in (f".nbg-{kind} > .nbg-shape", f".nbg-key-{kind}"))
        fill = box.evaluate("element => getComputedStyle(element).fill")
        assert key.evaluate("element => getComputedStyle(element).backgroundColor") == fill, kind


def hosted(page: str) -> str:
    content = notebook(lay_out(graphs.trained(1, 1)))
    outputs = content[content.index("<body>") : content.index('<script type="module">')]
    still = outputs[outputs.index("<svg") : outputs.index("</svg>") + len("</svg>")]
    css = content[content.index("<style>") + len("<style>") : content.index("</style>")]
    return page.format(css=css, svg=still) + content[content.index('<script type="module">') :]


def test_another_host_shows_no_second_picture(opened: Any) -> None:
    tab = opened(hosted(HOST))
    expect(tab.locator("#still")).to_be_hidden()
    expect(tab.locator("svg.nbgrad-static:visible")).to_have_count(2)
    tab.evaluate("window.stop()")
    expect(tab.locator("#still")).to_be_visible()


ENGINES = """<!DOCTYPE html><meta charset="utf-8"><style>{css}</style><body>
<div>[output:0]</div><div id="still-0">{svg}</div><div>[output:1]</div><div id="still-1">{svg}</div>
<div>[output:0]</div><div id="el"></div></body>"""


def test_the_picture_of_the_same_engine_gives_way(opened: Any) -> None:
    tab = opened(hosted(ENGINES))
    expect(tab.locator("#still-0")).to_be_hidden()
    expect(tab.locator("#still-1")).to_be_visible()
    expect(tab.get_by_text("[output:0]").locator("visible=true")).to_have_count(1)
    tab.evaluate("window.stop()")
    expect(tab.locator("#still-0")).to_be_visible()
    expect(tab.get_by_text("[output:0]").locator("visible=true")).to_have_count(2)
