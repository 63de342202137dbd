"""A picture fits its stage, with as much in each box as there is room for. A browser shows more when it zooms in."""

import base64
from itertools import combinations
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Picture
from nbgrad.widgets.description.stage import LETTERS, READ, STAGE, Pages, Stage
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.layout.card import Card, measured
from nbgrad.widgets.layout.forms import levels
from nbgrad.widgets.pipeline import first_look, lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.wire_format import packed
from nbgrad.widgets.view import GraphView
from tests.widgets.cells import recorded
from tests.widgets.collisions import COLLISIONS
from tests.widgets.networks import LOOPS, NETWORKS
from tests.widgets.test_html_page import INSIDE, LETTERS as SMALLEST, notebook
from tests.widgets.test_positions import assert_sound
from tests.widgets.tuned_cells import captions
from tools.unpacking import unpacked

STAGES = {"laptop": STAGE, "side panel": Stage(790, 330), "phone": Stage(390, 500)}
DETAIL = {"card": 3, "short": 2, "line": 1, "name": 0}


def branched() -> Description:
    """A network with a way around each of its layers, and two losses that are added: 30 ops without a module."""
    x = nbgrad.tensor(torch.rand(8, 16))
    weights = [nbgrad.tensor(torch.rand(16, 16) / 4, requires_grad=True) for _ in range(6)]
    with nbgrad.AutogradGraph("branched") as graph:
        h = x
        for weight in weights:
            h = h + (h @ weight).tanh()
        (((h - 1) ** 2).mean() + 0.1 * h.abs().sum()).backward()
    return describe(graph)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("size", STAGES)
@pytest.mark.parametrize("name", ["branched", *(name for name in NETWORKS if name != "encoder of 4 layers"), *LOOPS])
def test_a_picture_is_seen_whole_with_letters_of_nine_pixels(name: str, size: str) -> None:
    on = STAGES[size]
    picture = lay_out({"branched": branched, **NETWORKS, **LOOPS}[name](), on=on)
    layout = picture["layout"]
    scale = min(1.25, on.width / layout["width"], on.height / layout["height"])
    assert 11 * scale >= 9
    assert picture["stage"] == list(on)
    assert_sound(picture)


@pytest.mark.parametrize("name", ["branched", "ResNet-18", "encoder of 4 layers"])
def test_more_than_twelve_boxes_use_the_stage(name: str) -> None:
    picture = lay_out({"branched": branched, **NETWORKS}[name]())
    layout = picture["layout"]
    assert sum(node["row"] is None for node in picture["description"]["nodes"]) > 12
    assert STAGE.covered(layout) > 0.55
    assert_sound(picture)
    for edge in picture["description"]["edges"]:
        runs = layout["edges"][edge["id"]]
        for (x, y), end in ((runs[0][0], edge["source"]), (runs[-1][-1], edge["target"])) if runs else ():
            box = layout["nodes"][end]
            assert box["x"] - 2 <= x <= box["x"] + box["width"] + 2
            assert box["y"] - 2 <= y <= box["y"] + box["height"] + 2


def test_names_become_shorter_where_rows_of_long_ones_are_too_wide() -> None:
    x = nbgrad.tensor(torch.rand(8, 16))
    with nbgrad.AutogradGraph("towers") as graph:
        towers = [nbgrad.tensor(torch.rand(16, 16), requires_grad=True) for _ in range(4)]
        one, two, three, four = [((x @ tower).tanh() + 1).sigmoid() for tower in towers]
        (one * two * three * four).mean().backward()
    described = describe(graph)
    for at, node in enumerate(described["nodes"]):
        node["label"][0] = f"the_result_of_a_tower_{at}"
    large, small = (lay_out(described, folding=Folding(), on=STAGES[on]) for on in ("side panel", "phone"))
    assert STAGES["phone"].fits(small["layout"])
    assert_sound(small)
    names = {node["id"]: node["cuts"] for node in large["description"]["nodes"]}
    for node in small["description"]["nodes"]:
        if node["row"] is None:
            assert node["cuts"][0] == names[node["id"]][0]
            assert len(node["cuts"][1]) < len(names[node["id"]][1])


def test_a_small_stage_gives_up_details_and_a_large_one_none() -> None:
    described = branched()
    large, small = (lay_out(described, folding=Folding(), on=on) for on in (Stage(4000, 3000), Stage(790, 330)))
    assert large["layout"]["forms"] == large["layout"]["shrunk"] == {}
    forms = small["layout"]["forms"]
    assert "card" not in forms.values()
    assert len(forms) > 20
    assert large["description"] == small["description"], "only what is drawn in the boxes differs"


@pytest.mark.parametrize("size", [(900, 447), (790, 330)])
def test_boxes_near_the_loss_have_most_detail(size: tuple[int, int]) -> None:
    picture = lay_out(branched(), on=Stage(*size))
    nodes, forms = picture["description"]["nodes"], picture["layout"]["forms"]
    front = {node["id"] for node in nodes if node["root"] or node["badges"]}
    distances = dict.fromkeys(front, 0)
    home = {node["id"]: node["row"] or node["id"] for node in nodes}
    ends = [(home[edge["source"]], home[edge["target"]]) for edge in picture["description"]["edges"]]
    while front:
        near = {b for one in front for a, b in [*ends, *(end[::-1] for end in ends)] if a == one}
        front = near - distances.keys()
        distances |= dict.fromkeys(front, max(distances.values()) + 1)
    detail = {box: DETAIL[forms.get(box, "card")] for box in distances}
    # A box whose card is no larger than another form stays a card.
    full = {box for box in detail if detail[box] == DETAIL["card"]}
    for one, other in combinations(sorted(distances.keys() - full, key=distances.__getitem__), 2):
        assert distances[one] == distances[other] or detail[one] >= detail[other]
    assert any(detail.values()), "not all are names"


def test_what_the_reader_unfolded_has_most_detail() -> None:
    drawn = lay_out(NETWORKS["MLP of 5"]())["description"]
    first, *_, far, loss = [node["id"] for node in drawn["nodes"] if node["row"] is None]
    *_, near, names = levels(drawn, frozenset([first]))
    assert (near[first], near[far]) == ("short", "name")
    assert names[first] == names[far] == "name"
    assert names[loss] == "short", "the loss always says its value"


@pytest.mark.parametrize("on", [Stage(790, 330), Stage(390, 500)], ids=str)
def test_what_the_reader_chose_keeps_its_lines_where_there_is_little_room(on: Stage) -> None:
    described = branched()
    plain = lay_out(described, on=on)
    forms = plain["layout"]["forms"]
    leanest = min(DETAIL[form] for form in forms.values())
    chosen = next(one for one, form in forms.items() if DETAIL[form] == leanest and one in plain["layout"]["nodes"])
    picture = lay_out(described, on=on, near=frozenset([chosen]))
    now = picture["layout"]["forms"]
    assert DETAIL[now.get(chosen, "card")] > leanest
    assert on.fits(picture["layout"]) == on.fits(plain["layout"])


def test_a_view_remembers_what_the_reader_chose() -> None:
    described = branched()
    view = GraphView(described)
    near = frozenset(one["id"] for one in described["nodes"][5:9])
    try:
        view.request = {"stage": [790, 330], "near": sorted(near), "count": 1}
        chosen = lay_out(described, on=Stage(790, 330), near=near)
        assert unpacked(view.picture) == _sent(chosen) != _sent(lay_out(described, on=Stage(790, 330)))
        view.request = {"stage": [700, 330], "count": 2}
        assert unpacked(view.picture) == _sent(lay_out(described, on=Stage(700, 330), near=near))
        view.request = {"near": [], "count": 3}
        assert unpacked(view.picture) == _sent(lay_out(described, on=Stage(700, 330)))
    finally:
        view.close()
        Pages.stage = STAGE


def test_a_box_of_one_line_says_the_same_as_a_short_one() -> None:
    described = branched()
    for node in described["nodes"]:
        if node["row"] is None:
            short, line = Card.of(node, "short"), Card.of(node, "line")
            assert line.below == 0
            assert line.rule == short.rule
            assert all(one in line.tail for one in short.lines)
            assert measured(node, "line").height < measured(node, "short").height


def test_the_same_graph_on_the_same_stage_is_the_same_picture() -> None:
    described = branched()
    for on in STAGES.values():
        assert lay_out(described, on=on) == lay_out(described, on=on)
        assert svg(lay_out(described, on=on)) == svg(lay_out(described, on=on))


def test_rows_of_a_box_that_is_no_card_lie_in_it_and_are_not_written() -> None:
    picture = lay_out(branched(), on=Stage(790, 330))
    layout = picture["layout"]
    rows = [node for node in picture["description"]["nodes"] if node["row"] in layout["forms"]]
    assert rows
    for row in rows:
        inner, outer = layout["nodes"][row["id"]], layout["nodes"][row["row"] or ""]
        assert layout["shrunk"][row["id"]] == layout["shrunk"][row["row"] or ""] < 1
        for start, size in (("x", "width"), ("y", "height")):
            assert outer[start] <= inner[start]  # type: ignore[literal-required]
            assert inner[start] + inner[size] <= outer[start] + outer[size] + 0.2  # type: ignore[literal-required]
    drawing = svg(picture)
    hidden = [row for row in rows if row["kind"] == "parameter"]
    assert not any(f">{row['label'][0]}<" in drawing for row in hidden)


def test_a_view_lays_its_picture_out_for_the_stage_that_its_page_tells() -> None:
    described = branched()
    view = GraphView(described)
    try:
        assert unpacked(view.picture) == _sent(lay_out(described))
        view.request = {"stage": [790, 330], "count": 1}
        small = lay_out(described, on=Stage(790, 330))
        assert unpacked(view.picture) == _sent(small)
        assert Pages.stage == (790, 330), "the next view begins there"
        assert view.draw(described) == {**small, "direction": small["direction"]}
        view.request = {"stage": [1e9, 0], "count": 2}
        assert unpacked(view.picture)["stage"] == [4000, 150], "no page is so large or so small"
    finally:
        view.close()
        Pages.stage = STAGE


def _sent(picture: Picture) -> Picture:
    return unpacked(packed(picture))


def test_a_reader_toggles_what_the_stage_shows() -> None:
    described = NETWORKS["encoder of 4 layers"]()
    on = STAGES["side panel"]
    view = GraphView(described)
    try:
        view.request = {"stage": list(on), "count": 1}
        folding = first_look(Outline.of(described), on=on)
        assert folding.closed
        box = next(node for node in unpacked(view.picture)["description"]["nodes"] if node["kind"] == "folded")
        view.request = {"toggle": box["holds"], "count": 2}
        assert box["id"] not in {node["id"] for node in unpacked(view.picture)["description"]["nodes"]}
    finally:
        view.close()
        Pages.stage = STAGE


# In the browser.

# A slow page may offer its first stage before the window is made narrow.
NARROW = "() => window.asked.some(one => one.stage && one.stage[0] < 600)"
EMPTY = """() => [...document.querySelectorAll(".nbg-node:not(.nbg-roomless)")].filter(node =>
    ![...node.querySelectorAll("text")].some(text => text.textContent && getComputedStyle(text).display !== "none"))
    .map(node => node.dataset.nodeId)"""

OUTSIDE = """() => [...document.querySelectorAll(".nbg-node:not(.nbg-roomless)")].flatMap(node => {
    const box = [...node.querySelectorAll(".nbg-shape")].pop().getBoundingClientRect();
    const texts = [...node.querySelectorAll(".nbg-texts text")].filter(text => text.getBoundingClientRect().width);
    return texts.filter(text => {
        const it = text.getBoundingClientRect();
        return it.left < box.left - 1 || it.right > box.right + 1 || it.top < box.top - 2 || it.bottom > box.bottom + 2;
    }).map(text => text.textContent);
})"""

TITLED = """() => [...document.querySelectorAll(".nbg-scope-name text")].filter(title => {
    const it = title.getBoundingClientRect();
    return [...document.querySelectorAll(".nbg-node:not(.nbg-row) > .nbg-shape")].some(shape => {
        const box = shape.getBoundingClientRect();
        return it.left < box.right && box.left < it.right && it.top < box.bottom - 1 && box.top < it.bottom - 1;
    });
}).map(title => title.textContent)"""


def looks_right(tab: Page) -> None:
    assert tab.evaluate(EMPTY) == []
    assert tab.evaluate(OUTSIDE) == []
    assert tab.evaluate(TITLED) == []
    assert tab.evaluate(SMALLEST) >= READ - 0.1


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1171, 768), (790, 600), (390, 844)])
@pytest.mark.parametrize("name", ["branched", "ResNet-18", "MLP of 5"])
def test_no_zoom_empties_a_box_or_lets_a_text_leave_it(opened: Any, name: str, size: tuple[int, int]) -> None:
    described = {"branched": branched, **NETWORKS}[name]()
    tab = opened(page(whole(described, on=Stage(size[0], 0.7 * size[1] - 200)), name), size=size)
    tab.wait_for_function("() => /scale/.test(document.querySelector('.nbg-stage > g').getAttribute('transform'))")
    assert tab.locator(".nbg-stage > g").evaluate(INSIDE), "it opens whole"
    looks_right(tab)
    for tool, times in (("zoom-out", 3), ("zoom-in", 8)):
        for _ in range(times):
            tab.get_by_test_id(f"nbgrad-{tool}").click()
            looks_right(tab)


ABOVE = """() => {
    const box = document.querySelector(".nbg-current.nbg-node").getBoundingClientRect();
    const [stage, panel] = [".nbg-stage", ".nbg-panel"].map(one => document.querySelector(one).getBoundingClientRect());
    return box.top >= stage.top - 1 && box.bottom <= panel.top + 1;
}"""


@pytest.mark.browser
def test_above_the_panel_of_a_phone_the_box_of_each_step_can_be_read(opened: Any) -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 8), nbgrad.nn.ReLU(), nbgrad.nn.Linear(8, 1))
    with nbgrad.AutogradGraph("phone") as graph:
        (net(nbgrad.tensor(torch.rand(16, 2))) ** 2).mean().backward()
    tab = opened(page(whole(describe(graph), on=Stage(388, 536)), "phone"), size=(390, 600))
    tab.get_by_test_id("nbgrad-steps").click()
    assert tab.locator(".nbg-panel").is_visible()
    assert tab.evaluate(SMALLEST) >= READ - 0.1, "the picture is not made smaller"
    assert tab.evaluate(OUTSIDE) == []
    for _ in range(4):
        assert tab.evaluate(ABOVE), "the box of the step is in sight"
        expect(tab.locator(".nbg-current .nbg-head")).to_be_visible()
        tab.get_by_test_id("nbgrad-next").click()
    tab.get_by_test_id("nbgrad-steps").click()
    assert tab.locator(".nbg-stage > g").evaluate(INSIDE), "all is seen again"


@pytest.mark.browser
def test_zooming_in_brings_the_rows_of_a_box_back_in_its_place(opened: Any) -> None:
    picture = lay_out(branched(), on=Stage(790, 330))
    tab = opened(page(picture, "rows"), size=(820, 760))
    row = next(node for node in picture["description"]["nodes"] if node["row"] in picture["layout"]["forms"])
    drawn = tab.locator(f'[data-node-id="{row["id"]}"]')
    expect(drawn).to_have_css("opacity", "0")
    shape = tab.locator(f'[data-node-id="{row["row"]}"] > .nbg-shape').first
    place = shape.get_attribute("x"), shape.get_attribute("width")
    for _ in range(12):
        tab.get_by_test_id("nbgrad-zoom-in").click()
    expect(drawn).to_have_css("opacity", "1")
    assert (shape.get_attribute("x"), shape.get_attribute("width")) == place, "nothing else has moved"
    tab.get_by_test_id("nbgrad-fit").click()
    expect(drawn).to_have_css("opacity", "0")


@pytest.mark.browser
def test_a_page_tells_the_kernel_its_stage_once_for_each_size(opened: Any) -> None:
    described = branched()
    tab = opened(notebook(lay_out(described)))
    tab.set_viewport_size({"width": 600, "height": 800})
    tab.wait_for_function(NARROW)
    asked = [one["stage"] for one in tab.evaluate("window.asked") if "stage" in one]
    width, height = asked[-1]
    assert 500 < width < 600
    assert 150 < height < 560, "at most seven tenths of the window"
    picture = lay_out(described, on=Stage(width, height))
    tab.evaluate("picture => window.assign(picture)", base64.b64encode(packed(picture)).decode())
    tab.wait_for_function("() => /scale/.test(document.querySelector('.nbg-stage > g').getAttribute('transform'))")
    tab.wait_for_timeout(600)
    assert len([one for one in tab.evaluate("window.asked") if "stage" in one]) == len(asked), "it is that stage now"
    assert tab.locator(".nbg-stage > g").evaluate(INSIDE)
    assert 11 * STAGE.scale(picture["layout"]) >= READ * LETTERS / 11


@pytest.mark.browser
def test_a_picture_for_another_stage_waits_until_the_details_are_closed(opened: Any) -> None:
    described = branched()
    tab = opened(notebook(lay_out(described)))
    details, drawn = tab.get_by_test_id("nbgrad-details"), tab.locator(".nbg-stage > g .nbg-head").first
    before = drawn.get_attribute("x") or ""
    other = lay_out(described, direction="LR", on=Stage(500, 300))
    tab.set_viewport_size({"width": 560, "height": 500})
    tab.wait_for_function(NARROW)
    tab.get_by_test_id("nbgrad-node").last.dispatch_event("click")
    expect(details).to_be_visible()
    show = "picture => window.assign(picture)"
    tab.evaluate(show, base64.b64encode(packed(other)).decode())
    tab.wait_for_timeout(600)
    expect(details).to_be_visible()
    expect(drawn).to_have_attribute("x", before)
    tab.get_by_test_id("nbgrad-node").last.press("Escape")
    expect(details).to_be_hidden()
    expect(drawn).not_to_have_attribute("x", before)

    tab.get_by_test_id("nbgrad-node").last.dispatch_event("click")
    tab.evaluate(show, base64.b64encode(packed(lay_out(described))).decode())  # of another backward: nothing holds it
    expect(drawn).to_have_attribute("x", before)
    tab.evaluate(show, base64.b64encode(packed(other)).decode())
    expect(drawn).not_to_have_attribute("x", before)

    tab.get_by_test_id("nbgrad-turn").click()  # now the reader asks
    tab.get_by_test_id("nbgrad-node").last.dispatch_event("click")
    tab.evaluate(show, base64.b64encode(packed(lay_out(described))).decode())
    expect(drawn).to_have_attribute("x", before)


@pytest.mark.browser
def test_a_path_that_the_reader_lights_gets_more_detail(opened: Any) -> None:
    described = branched()
    tab = opened(notebook(lay_out(described, on=Stage(790, 330))))
    tab.get_by_test_id("nbgrad-node").first.dispatch_event("click")
    tab.get_by_test_id("nbgrad-details").get_by_text("Descendants").click()
    (near,) = [one["near"] for one in tab.evaluate("window.asked") if one.get("near")]
    lit = "() => [...document.querySelectorAll('.nbg-node:not(.nbg-out)')].map((one) => one.dataset.nodeId)"
    before = tab.evaluate(lit)
    assert sorted(near) == sorted(before)
    picture = lay_out(described, on=Stage(790, 330), near=frozenset(near))
    tab.evaluate("picture => window.assign(picture)", base64.b64encode(packed(picture)).decode())
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    expect(tab.locator(".nbg-stage.nbg-only")).to_be_visible()
    assert sorted(tab.evaluate(lit)) == sorted(before)
    tab.wait_for_timeout(400)
    assert len([one for one in tab.evaluate("window.asked") if one.get("near")]) == 1, "once for a path"


SIGNED = """() => {
    const seen = one => one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const signs = [...document.querySelectorAll(":is(.nbg-fold, .nbg-badge) circle")].filter(seen);
    return [...document.querySelectorAll(".nbg-told, .nbg-head")].filter(seen).filter(text => {
        const it = text.getBoundingClientRect();
        return signs.some(sign => {
            const { left, right, top, bottom, width } = sign.getBoundingClientRect();
            const free = 0.15 * width;  // a circle leaves the corners free
            return Math.min(right - free, it.right) - Math.max(left + free, it.left) > 2
                && Math.min(bottom - free, it.bottom) - Math.max(top + free, it.top) > 0.3 * Math.min(it.height, width);
        });
    }).map(text => text.textContent);
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["LSTM cell, 12 steps", "gradient descent, 30 steps"])
def test_what_comes_back_is_not_written_under_the_sign_of_a_box(opened: Any, name: str) -> None:
    described = {**NETWORKS, **LOOPS}[name]()
    tab = opened(page(whole(described, on=Stage(788, 339)), name), size=(790, 600))
    tab.get_by_test_id("nbgrad-steps").click()
    for at in range(6):
        assert tab.evaluate(SIGNED) == [], at
        tab.get_by_test_id("nbgrad-next").click()


WRITTEN = """() => [...document.querySelectorAll(".nbg-node:not(.nbg-roomless) .nbg-rule")].filter(
    one => one.checkVisibility()).map(one => one.textContent)"""


@pytest.mark.browser
def test_a_step_writes_as_much_of_a_gradient_as_its_box_has_room_for(opened: Any) -> None:
    x, weight = nbgrad.tensor(torch.rand(3, 4)), nbgrad.tensor(torch.rand(4, 2), requires_grad=True)
    with nbgrad.AutogradGraph("numbers") as graph:
        ((x @ weight).abs() ** 2).mean().backward()
    tab = opened(page(whole(describe(graph), on=Stage(788, 180)), "numbers"), size=(790, 420))
    tab.emulate_media(reduced_motion="reduce")
    tab.wait_for_function("() => /scale/.test(document.querySelector('.nbg-stage > g').getAttribute('transform'))")
    tab.get_by_test_id("nbgrad-fit").click()
    before = tab.evaluate(WRITTEN)
    assert any(text.endswith("…") for text in before), "small boxes have no room for all"
    tab.get_by_test_id("nbgrad-steps").click()
    for at in range(4):
        assert tab.evaluate(OUTSIDE) == [], at
        assert tab.evaluate(COLLISIONS) == [], at
        tab.get_by_test_id("nbgrad-next").click()
    tab.get_by_test_id("nbgrad-steps").click()
    tab.get_by_test_id("nbgrad-fit").click()
    assert tab.evaluate(WRITTEN) == before


@pytest.mark.browser
def test_a_box_in_another_form_has_letters_as_wide_as_they_are(opened: Any) -> None:
    """Letters move together, or apart, where an earlier backward or another run is written into a box."""
    tab = opened(page(lay_out(branched(), on=Stage(788, 339)), "squeezed"), size=(790, 600))
    tab.emulate_media(reduced_motion="reduce")
    tab.wait_for_function("() => /scale/.test(document.querySelector('.nbg-stage > g').getAttribute('transform'))")
    tab.evaluate("""() => document.querySelectorAll(".nbg-brief .nbg-line, .nbg-brief .nbg-rule").forEach(
        one => one.setAttribute("textLength", "400"))""")
    for _ in range(6):
        tab.get_by_test_id("nbgrad-zoom-in").dispatch_event("click")
    assert tab.evaluate(OUTSIDE) == []


@pytest.mark.browser
def test_what_comes_back_is_not_written_under_the_panel(opened: Any) -> None:
    picture = whole(NETWORKS["MLP of 5"](), on=Stage(788, 362))
    tab = opened(page(picture, "beside"), size=(812, 600))
    tab.emulate_media(reduced_motion="reduce")
    tab.get_by_test_id("nbgrad-steps").click()
    for at in range(8):
        panel = tab.locator(".nbg-panel").bounding_box()
        assert panel is not None
        for told in tab.locator(".nbg-told").all():
            box = told.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= panel["x"] + 1, at
        tab.get_by_test_id("nbgrad-next").click()


APART = """() => {
    const told = [...document.querySelectorAll(".nbg-told")].map(one => [one.textContent, one.getBBox()]);
    return told.flatMap(([text, a], at) => told.slice(at + 1).filter(([, b]) =>
        Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 4 &&
        Math.max(a.x, b.x) - Math.min(a.x + a.width, b.x + b.width) < 2).map(([other]) => `${text} | ${other}`));
}"""


@pytest.mark.browser
def test_what_comes_back_along_two_edges_is_two_texts(opened: Any) -> None:
    tab = opened(page(whole(outline(recorded(captions)), on=Stage(740, 520)), "apart"), size=(760, 680))
    tab.emulate_media(reduced_motion="reduce")
    tab.get_by_test_id("nbgrad-steps").click()
    for at in range(16):
        assert tab.evaluate(APART) == [], at
        tab.get_by_test_id("nbgrad-next").click()
