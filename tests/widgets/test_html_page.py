"""The exported page: data that can't break out of it, and a view that is alive in a browser without a network."""

import base64
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description, Picture
from nbgrad.widgets.description.text_metrics import FONT
from nbgrad.widgets.folding.choose import Folding, folded_below
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import fragment, page, runtime
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.wire_format import packed, sent
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS
from tools.unpacking import unpacked

# --- the text of the page ------------------------------------------------------------------------------------------


def test_the_data_survives_its_escape(hostile: Description) -> None:
    picture = lay_out(hostile)
    text = page(picture, "<b>&")
    (data,) = re.findall(r'<script type="text/plain" class="nbgrad-picture">(.*?)</script>', text, re.DOTALL)
    assert sent(unpacked(base64.b64decode(data))) == sent(picture)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data), "nothing that could end the element"
    assert "<title>&lt;b&gt;&amp;</title>" in text
    assert text.isascii() or text.encode()


def test_a_picture_that_arrived_says_which_modules_learn_nothing() -> None:
    nbgrad.manual_seed(0)
    layers = [part for _ in range(12) for part in (nn.Linear(8, 8), nn.Sigmoid())]
    with nbgrad.record(view="none") as graph:
        nn.Sequential(*layers)(nbgrad.ones(4, 8)).sum().backward()
    picture = lay_out(describe(graph))
    assert any(one["kind"] == "vanishing" for one in picture["description"]["verdicts"])
    assert "nbgrad-static" in fragment(unpacked(packed(picture)))


def test_several_fragments_share_one_runtime(small: Description) -> None:
    picture = lay_out(small)
    assert runtime().count("<script") == 1
    assert runtime().count("</script>") == 1
    assert "nbgrad-static" in fragment(picture), "what a reader without scripts sees"
    assert page(picture, "x") == page(picture, "x")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_drawing_is_there_until_the_script_has_run(browser: Browser, small: Description) -> None:
    written = page(lay_out(small), "small")
    tab = browser.new_page()
    for policy, alive in (("img-src data:", 1), ("default-src 'none'; style-src 'unsafe-inline'", 0)):
        headers = {"Content-Type": "text/html", "Content-Security-Policy": policy}
        tab.route(f"http://picture.test/{alive}", partial(Route.fulfill, body=written, headers=headers))
        tab.goto(f"http://picture.test/{alive}")
        expect(tab.get_by_test_id("nbgrad-view")).to_have_count(alive)
        expect(tab.locator("svg.nbgrad-static")).to_be_visible(visible=not alive)
    tab.close()


# --- the page in a browser -----------------------------------------------------------------------------------------


def node(tab: Page, name: str) -> Any:
    return tab.locator(f'[data-testid=nbgrad-node][data-node-id="{name}"]')


def transform(tab: Page) -> str | None:
    return tab.locator(".nbg-stage > g").get_attribute("transform")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_fit_fits_at_once_into_the_room_that_the_line_above_leaves(opened: Any, stack: Any) -> None:
    tab = opened(page(lay_out(stack(80, blocks=4), folding=Folding()), "stack"))
    expect(tab.locator(".nbg-status[role=status]")).to_be_visible()
    seen = tab.evaluate(
        """async () => {
            const look = () => document.querySelector(".nbg-stage > g").getAttribute("transform");
            document.querySelector('[data-testid="nbgrad-fit"]').click();
            const at_once = look();
            for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
            return [at_once, look()];
        }"""
    )
    expect(tab.locator(".nbg-status[role=status]")).to_be_hidden()
    assert seen[0] == seen[1]


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_click_opens_the_details_and_escape_closes_them(opened: Any, mlp: Description) -> None:
    tab = opened(page(lay_out(mlp), "mlp"))
    expect(tab.get_by_test_id("nbgrad-view")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-node")).to_have_count(len(mlp["nodes"]))
    details = tab.get_by_test_id("nbgrad-details")
    expect(details).to_be_hidden()
    tab.get_by_test_id("nbgrad-fit").click()
    before = transform(tab)
    node(tab, "n4").click()
    expect(details).to_be_visible()
    expect(details.locator("h3")).to_have_text("matmul")
    expect(details).to_contain_text("MLP › layers.0 (Linear)")
    expect(details.locator("pre").first).to_have_text("line 3:\n  y = f(x)")
    expect(details).to_contain_text("What matmul does.")
    expect(details.get_by_test_id("nbgrad-heat")).to_have_count(2)
    expect(details.get_by_test_id("nbgrad-histogram")).to_have_count(2)
    expect(details.locator("math")).to_have_count(2)
    expect(details).to_contain_text("∇ (32, 10), norm 0.25")
    details.get_by_role("button", name=re.compile("^t as b")).click()
    expect(details.locator("h3")).to_have_text("t")
    chosen = node(tab, "n2").bounding_box()
    panel = details.bounding_box()
    assert chosen is not None
    assert panel is not None
    assert chosen["x"] + chosen["width"] < panel["x"], "the panel covers nothing that it tells about"
    tab.keyboard.press("Escape")
    expect(details).to_be_hidden()
    tab.get_by_test_id("nbgrad-fit").click()
    assert transform(tab) == before


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_pan_and_zoom_move_the_picture_and_fit_restores_it(opened: Any, mlp: Description) -> None:
    tab = opened(page(lay_out(mlp), "mlp"))
    tab.get_by_test_id("nbgrad-fit").click()
    fitted = transform(tab)
    box = tab.locator(".nbg-stage").bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + 30, box["y"] + 30)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 130, box["y"] + 90, steps=4)
    tab.mouse.up()
    panned = transform(tab)
    assert panned != fitted
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # a point that the map does not cover
    tab.mouse.wheel(0, -300)
    expect(tab.locator(".nbg-stage > g")).not_to_have_attribute("transform", panned or "")
    tab.get_by_role("button", name="Zoom in").click()
    tab.get_by_role("button", name="Zoom out").click()
    assert transform(tab) != fitted
    tab.get_by_test_id("nbgrad-fit").click()
    assert transform(tab) == fitted


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_in_a_narrow_view_the_panel_covers_no_chosen_node(opened: Any, mlp: Description) -> None:
    tab = opened(page(lay_out(mlp), "mlp"))
    tab.set_viewport_size({"width": 480, "height": 760})
    node(tab, "n9").click()
    chosen, panel = node(tab, "n9").bounding_box(), tab.get_by_test_id("nbgrad-details").bounding_box()
    assert chosen is not None
    assert panel is not None
    assert chosen["y"] + chosen["height"] <= panel["y"]


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_keyboard_alone_is_enough(opened: Any, small: Description) -> None:
    tab = opened(page(lay_out(small), "small"))
    tab.get_by_test_id("nbgrad-fit").focus()
    tab.keyboard.press("Tab")  # the graph comes after the tools
    expect(node(tab, "n0")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(tab.get_by_test_id("nbgrad-mark")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(node(tab, "n2")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("mul")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press(" ")
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("sum")
    tab.keyboard.press("ArrowUp")
    expect(node(tab, "n2")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("nbgrad-details")).to_be_hidden()
    before = transform(tab)
    tab.keyboard.press("+")
    assert transform(tab) != before
    assert node(tab, "n2").get_attribute("aria-label") == "mul, (32,) float32, gradient ∇ 0.2 (operation)"


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_reductions_are_one_click_away(opened: Any, mlp: Description) -> None:
    tab = opened(page(lay_out(mlp), "mlp"))
    tab.get_by_test_id("nbgrad-reductions").click()
    details = tab.get_by_test_id("nbgrad-details")
    expect(details.locator("li")).to_have_count(2)
    details.get_by_role("button", name=re.compile(r"\(10,\)")).click()
    expect(details).to_contain_text("the sum over dim 0 adds 32 numbers")
    expect(details.get_by_test_id("nbgrad-sums")).to_have_text("grad[0] = 1 + 1 = 2")
    expect(details).to_contain_text("Incoming, before the sum")
    expect(details).to_contain_text("Reduced, after the sum")
    chosen = tab.locator(".nbg-chosen")
    expect(chosen).to_have_attribute("data-testid", "nbgrad-mark")
    expect(chosen).to_have_attribute("aria-label", "broadcast reduction (32, 10) -> (10,): sum dim 0")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_hovering_shows_the_neighbours(opened: Any, mlp: Description) -> None:
    tab = opened(page(lay_out(mlp), "mlp"))
    tab.get_by_test_id("nbgrad-fit").click()
    node(tab, "n4").hover()
    expect(tab.locator(".nbg-node.nbg-on")).to_have_count(4)  # the node itself, its inputs, and its reader
    expect(tab.locator(".nbg-edge.nbg-on")).to_have_count(3)
    tab.mouse.move(2, 2)
    expect(tab.locator(".nbg-on")).to_have_count(0)


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_copy_shows_the_details_of_its_tensor(opened: Any, stack: Any) -> None:
    picture = lay_out(stack(60, blocks=6, shared=1), folding=Folding())
    tab = opened(page(picture, "stack"))
    node(tab, "n1.3").dispatch_event("click")
    details = tab.get_by_test_id("nbgrad-details")
    expect(details.locator("h3")).to_have_text("tied")
    expect(details).to_contain_text("mean 0.01, norm 0.2")
    assert details.locator("li").count() > 3


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_hostile_names_are_text(opened: Any, hostile: Description) -> None:
    tab = opened(page(lay_out(hostile), "<script>window.hacked = 1</script>"))
    for index in range(1, 11):
        node(tab, f"n{index}").dispatch_event("click")
        expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
        assert tab.locator(".nbgrad :is(img, script, iframe, a, foreignObject)").count() == 0
    expect(tab.locator(".nbg-words strong")).to_have_text("<script>window.hacked = 1</script>")
    assert tab.evaluate("window.hacked") is None


@pytest.mark.browser
@pytest.mark.rotated(4)
@pytest.mark.parametrize(
    "markup",
    [
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi onclick="window.hacked=1">x</mi></math>',
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi href="javascript:window.hacked=1">x</mi></math>',
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><script xmlns="http://www.w3.org/1999/xhtml">1</script></math>',
        '<script xmlns="http://www.w3.org/1999/xhtml">window.hacked = 1</script>',
        "<math><mi>no namespace</mi></math>",
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>not closed',
    ],
)
def test_what_is_not_plain_mathml_is_shown_as_latex(opened: Any, small: Description, markup: str) -> None:
    small["ops"]["mul"]["formulas"] = [{"of": "", "latex": r"a \odot b", "mathml": markup}]
    tab = opened(page(lay_out(small), "x"))
    node(tab, "n2").click()
    expect(tab.locator(".nbg-formula .nbg-latex")).to_have_text(r"a \odot b")
    assert tab.locator("math").count() == 0
    assert tab.evaluate("window.hacked") is None


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_several_pictures_live_in_one_page(opened: Any, small: Description, mlp: Description) -> None:
    body = fragment(lay_out(small)) + fragment(lay_out(mlp)) + runtime()
    tab = opened(f"<!DOCTYPE html><meta charset='utf-8'><body>{body}</body>")
    expect(tab.get_by_test_id("nbgrad-view")).to_have_count(2)
    second = tab.get_by_test_id("nbgrad-view").nth(1)
    second.get_by_test_id("nbgrad-fit").click()
    second.locator('[data-node-id="n4"]').click()
    expect(second.get_by_test_id("nbgrad-details")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-view").first.get_by_test_id("nbgrad-details")).to_be_hidden()


LAB = """<!DOCTYPE html><meta charset="utf-8"><style>{css}</style><body>
<div class="jp-OutputArea"><div class="jp-OutputArea-child" id="other">{svg}</div>
<div class="jp-OutputArea-child" id="static">{svg}</div>
<div class="jp-OutputArea-child" id="live"><div id="el"></div></div></div>
<script type="module">{script}
const listeners = new Map();
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
let picture = bytes("{picture}");
window.asked = [];
const model = {{
  get: () => picture, set: (_, value) => window.asked.push(value), save_changes: () => {{}}, send: () => {{}},
  on: (event, f) => listeners.set(event, f), off: (event, _) => listeners.delete(event),
}};
window.stop = NAME().render({{ model, el: document.getElementById("el") }});
window.assign = (other) => {{ picture = bytes(other); listeners.get("change:picture")(); }};
window.listeners = listeners;
</script></body>"""


def notebook(picture: Picture) -> str:
    """Imitate the outputs of a cell: the default export of the module gets a name of its own."""
    from nbgrad.widgets.view import STATIC

    script = (STATIC / "graph.js").read_text(encoding="utf-8")
    found = re.search(r"export\{([\w$]+) as default\};?", script)
    assert found is not None
    text = LAB.format(
        css=(STATIC / "graph.css").read_text(encoding="utf-8"), svg=svg(picture), script=script,
        picture=base64.b64encode(packed(picture)).decode(),
    )  # fmt: skip
    return text.replace("NAME().render", f"{found[1]}().render")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_live_view_hides_the_static_one_and_gives_it_back(opened: Any, small: Description, mlp: Any) -> None:
    tab = opened(notebook(lay_out(small)))
    expect(tab.locator("#static")).to_be_hidden()
    expect(tab.locator("#other")).to_be_visible()
    tab.evaluate("picture => window.assign(picture)", base64.b64encode(packed(lay_out(mlp))).decode())
    expect(tab.get_by_test_id("nbgrad-node")).to_have_count(len(mlp["nodes"]))
    tab.evaluate("window.stop()")
    expect(tab.locator("#static")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-view")).to_have_count(0)
    assert tab.evaluate("window.listeners.size") == 0


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_what_stands_around_a_live_view_follows_its_picture(opened: Any) -> None:
    first, later = lay_out(graphs.trained(1, 1)), lay_out(graphs.trained(3, 1))
    tab = opened(notebook(first))
    view, history = tab.get_by_test_id("nbgrad-view"), tab.get_by_test_id("nbgrad-history")
    expect(history).to_be_hidden()
    tab.get_by_test_id("nbgrad-overlay").select_option("gradient")
    tab.get_by_test_id("nbgrad-search").fill("tanh")

    tab.evaluate("picture => window.assign(picture)", base64.b64encode(packed(later)).decode())
    expect(history).to_have_text("History (3)")
    expect(view).to_have_attribute("aria-label", re.compile("the last of 3$"))
    expect(tab.get_by_test_id("nbgrad-overlay")).to_have_value("gradient")
    expect(tab.get_by_test_id("nbgrad-search")).to_be_focused()
    history.click()
    frame, timeline = tab.get_by_test_id("nbgrad-frame"), tab.get_by_test_id("nbgrad-timeline")
    expect(timeline).to_contain_text("backward 3, loss")
    tab.get_by_test_id("nbgrad-earlier").click()
    expect(timeline).to_contain_text("backward 2, loss")

    longer = {**later["description"]["history"]}
    longer["frames"] = [{"number": 0, "title": "backward 0, loss 9", "value": "", "structure": 0}, *longer["frames"]]
    unpaired = lay_out(graphs.unpaired())
    unpaired["description"]["history"] = longer
    tab.evaluate("picture => window.assign(picture)", base64.b64encode(packed(unpaired)).decode())
    expect(history).to_have_text("History (4)")
    expect(timeline).to_contain_text("backward 2, loss")
    expect(frame).to_have_value("2")
    expect(tab.get_by_test_id("nbgrad-reductions")).to_have_text("⚠ Σ Reductions (1)")
    expect(view).to_have_attribute("aria-label", re.compile("^unpaired: "))
    tab.get_by_test_id("nbgrad-legend").click()
    expect(tab.locator(".nbg-legend")).not_to_contain_text("parameter")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_page_says_at_once_which_numbers_it_does_not_have(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.large()), "numbers"))
    tab.locator('[aria-label^="w, "]').click()
    panel = tab.get_by_test_id("nbgrad-details")
    for what in ("value", "gradient"):
        expect(panel.get_by_test_id(f"nbgrad-{what}-numbers")).to_have_text(
            "Its numbers do not fit into the picture. A notebook looks them up while its kernel runs."
        )
    expect(panel.get_by_role("button", name="All numbers")).to_have_count(0)


# The text of a box is written in 11 px at a scale of 1.
SCALE = "e => Number(/scale\\((.*)\\)/.exec(e.getAttribute('transform'))[1])"
# The smallest letters in boxes, in pixels of the screen.
LETTERS = """() => Math.min(...[...document.querySelectorAll(".nbg-node:not(.nbg-roomless) text")]
    .filter(text => getComputedStyle(text).display !== "none" && text.textContent && !text.closest(".nbg-badge"))
    .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
INSIDE = """e => {
    const [one, stage] = [e, e.closest('.nbg-stage')].map(one => one.getBoundingClientRect());
    return one.left >= stage.left && one.right <= stage.right && one.top >= stage.top && one.bottom <= stage.bottom;
}"""


@pytest.mark.browser
@pytest.mark.rotated(4)
@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("screen", [(1366, 768), (1920, 1080)])
def test_what_is_seen_first_can_be_read(opened: Any, stack: Any, screen: Any, direction: Any) -> None:
    descriptions = [graphs.shared(2), graphs.trained(1, 1), graphs.vanishing(), graphs.recurrent(), stack(250)]
    for description in descriptions if direction == "TB" else descriptions[:-1]:
        # A cell of a notebook is as wide as its window, less what is beside it.
        content = f"<meta charset='utf-8'><body>{fragment(lay_out(description, direction=direction))}{runtime()}</body>"
        tab = opened(content, size=(screen[0] - 390, screen[1]))
        layer = tab.locator(".nbg-stage > g")
        expect(layer).to_have_attribute("transform", re.compile("scale"))
        assert layer.evaluate(INSIDE)
        assert tab.evaluate(LETTERS) >= 8.9
        expect(tab.locator(".nbg-status[role=status]")).to_be_hidden()
        tab.close()


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_two_taps_on_a_screen_raise_nothing(browser: Browser, small: Description, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(lay_out(small), "touched"), encoding="utf-8")
    context = browser.new_context(has_touch=True)
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(file.as_uri())
    stage = tab.locator(".nbg-stage")
    for _ in range(2):
        stage.tap(position={"x": 30, "y": 30})
    node(tab, "n2").tap()
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("mul")
    context.close()
    assert errors == []


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_on_paper_the_whole_picture_is_on_one_page(opened: Any, stack: Any) -> None:
    for direction in ("TB", "LR"):
        tab = opened(page(lay_out(stack(60), direction=direction, folding=Folding()), "paper"))
        node(tab, tab.locator(".nbg-root").get_attribute("data-node-id") or "").click()
        tab.set_viewport_size({"width": 718, "height": 1047})  # the size of A4 within its margins
        tab.emulate_media(media="print")
        assert tab.locator(".nbg-stage > g").evaluate(INSIDE)
        assert tab.locator(".nbg-stage").evaluate("e => e.getBoundingClientRect().bottom <= innerHeight")
        assert tab.locator(".nbg-stage").evaluate("e => e.getBoundingClientRect().bottom") <= tab.get_by_test_id(
            "nbgrad-details"
        ).evaluate("e => e.getBoundingClientRect().top")
        expect(tab.get_by_role("toolbar")).to_be_hidden()
        tab.close()


@pytest.mark.browser
@pytest.mark.rotated(4)
@pytest.mark.parametrize("font", ["DejaVu Sans", "Liberation Sans"])
def test_letters_of_any_font_stay_in_their_boxes(opened: Any, font: str) -> None:
    described = graphs.wordy()
    picture = lay_out(described, folding=folded_below(described, 1))
    still = f"<meta charset='utf-8'><i data-testid='nbgrad-node'></i>{svg(picture)}"
    for content in (page(picture, "fonts"), still):
        tab = opened(content.replace(FONT, font).replace(FONT.replace(", ", ",").replace("'", ""), font))
        wide = """all => all.map(e => {
            const box = e.parentNode.querySelector('rect, polygon');
            return box ? e.getComputedTextLength() / box.getBBox().width : 0;
        })"""
        shares = tab.locator("svg g:has(> rect) > text").evaluate_all(wide)
        assert len(shares) > 10
        assert max(shares) < 0.97
        tab.close()


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_graph_too_large_to_read_starts_at_its_root(opened: Any, stack: Any) -> None:
    picture = lay_out(stack(250), folding=Folding())
    tab = opened(page(picture, "large"))
    root = next(node["id"] for node in picture["description"]["nodes"] if node["root"])
    expect(node(tab, root)).to_be_in_viewport()
    tab.get_by_test_id("nbgrad-fit").click()
    expect(node(tab, "n0")).to_be_in_viewport()


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_picture_takes_what_is_left_of_the_window(opened: Any, stack: Any) -> None:
    description = stack(70)
    tab = opened(page(lay_out(description, folding=Folding()), "stack"), size=(1366, 768))

    def below() -> int:
        return int(tab.evaluate("document.documentElement.scrollHeight - innerHeight"))

    def stage() -> dict[str, float]:
        return tab.locator(".nbg-stage").bounding_box()  # type: ignore[return-value]

    expect(tab.locator(".nbg-status[role=status]")).to_contain_text("Here is a part")
    root = node(tab, next(one["id"] for one in description["nodes"] if one["root"])).bounding_box()
    assert root["y"] + root["height"] <= stage()["y"] + stage()["height"], "it starts at all of the root"
    assert below() == 0
    tab.get_by_test_id("nbgrad-fit").click()
    before = stage()["height"]
    tab.get_by_test_id("nbgrad-steps").click()
    expect(tab.get_by_test_id("nbgrad-player")).to_be_visible()
    assert below() == 0
    assert 400 < stage()["height"] < before
    tab.set_viewport_size({"width": 400, "height": 500})
    assert stage()["height"] >= 320, "and on a small one the page scrolls"


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_run_of_calls_opens_in_a_page_without_a_kernel(opened: Any) -> None:
    tab = opened(page(whole(NETWORKS["GPT of 12 blocks"]()), "GPT"))
    nodes, folded = tab.get_by_test_id("nbgrad-node"), tab.locator(".nbg-folded")
    expect(folded).to_have_count(1)
    expect(folded).to_contain_text("GPTBlock × 12")
    expect(tab.locator(".nbg-root")).to_be_in_viewport()
    assert tab.evaluate("location.hash") == ""
    folded.locator(".nbg-fold").click()
    expect(folded).to_have_count(12)  # every block by itself
    folded.filter(has_text="blocks.0 ").locator(".nbg-fold").click()
    expect(folded).to_have_count(11)
    expect(nodes.filter(has_text="gelu")).to_have_count(1)
    tab.get_by_test_id("nbgrad-fit").click()
    tab.locator(".nbg-root").click()
    held = tab.evaluate("location.href")
    assert "folded=" in held
    other = tab.context.new_page()
    other.goto(held)
    expect(other.locator(".nbg-folded")).to_have_count(11)
    tab.get_by_test_id("nbgrad-turn").click()
    expect(folded).to_have_count(11)


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_search_leads_into_what_the_first_picture_folds(opened: Any) -> None:
    tab = opened(page(whole(NETWORKS["ResNet-18"]()), "ResNet"))
    many = tab.locator(".nbg-folded").count()
    assert many > 1
    tab.get_by_test_id("nbgrad-turn").click()
    expect(tab.locator(".nbg-folded")).to_have_count(many)
    tab.get_by_test_id("nbgrad-search").fill("layer3.0.downsample.1")
    tab.keyboard.press("Enter")
    expect(tab.locator(".nbg-chosen")).to_be_in_viewport()
    expect(tab.get_by_test_id("nbgrad-scope").filter(has_text="downsample")).to_have_count(1)


FRAMED = """() => {
    const wide = element => element.querySelector("rect, path").getBoundingClientRect();
    const outer = document.querySelector(".nbg-scope").getBoundingClientRect();
    const inside = ({ top, bottom, left, right }) =>
        top >= outer.top && bottom <= outer.bottom && left >= outer.left && right <= outer.right;
    return [...document.querySelectorAll(".nbg-node:not(.nbg-root, .nbg-constant, .nbg-input)")]
        .filter(node => !inside(wide(node))).map(node => node.getAttribute("aria-label"));
}"""


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_frame_holds_its_boxes_when_something_in_it_is_folded(opened: Any) -> None:
    tab = opened(page(whole(NETWORKS["ResNet-18"]()), "ResNet"))
    assert tab.evaluate(FRAMED) == []
    expect(tab.locator(".nbg-notices")).to_contain_text("module calls are folded")
    tab.locator(".nbg-folded").first.locator(".nbg-fold").click()
    expect(tab.locator(".nbg-notices")).not_to_contain_text("are folded")
    assert tab.evaluate(FRAMED) == []
