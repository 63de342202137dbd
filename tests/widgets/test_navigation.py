"""The part of the picture that the reader sees after each click: the clicked box stays in sight, and nothing jumps."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import nbgrad
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding, folded_below
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import fragment, page, runtime
from nbgrad.widgets.render.wire_format import packed
from tests.lab.harness import screenshot
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS
from tests.widgets.test_html_page import INSIDE, SCALE, notebook

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]


def middle(part: Locator) -> tuple[float, float]:
    box = part.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def sent(picture: Any) -> str:
    return base64.b64encode(packed(picture)).decode()


@pytest.mark.parametrize("key", [None, "f"])
def test_a_module_that_the_kernel_unfolds_stays_in_sight(opened: Any, stack: Any, key: str | None) -> None:
    outline = Outline.of(stack(300))
    chosen = first_folding(outline, NODES)
    tab = opened(notebook(lay_out(outline, folding=chosen)))
    tab.get_by_test_id("nbgrad-fit").click()
    group = tab.locator(".nbg-folded").first
    before = middle(group)
    if key is None:
        group.dblclick()
    else:
        group.focus()
        before = middle(group)  # the focus may have scrolled the box into sight
        tab.keyboard.press(key)
    (asked,) = tab.evaluate("window.asked.filter(one => one.toggle)")
    folding = chosen.toggled(outline, asked["toggle"], NODES)
    tab.evaluate("picture => window.assign(picture)", sent(lay_out(outline, folding=folding)))
    expect(tab.get_by_test_id("nbgrad-scope").first).to_be_attached()
    unfolded = tab.locator(f'[data-scope-id="{asked["toggle"][0]}"], [data-node-id="f-{asked["toggle"][0]}"]')
    expect(unfolded).to_be_attached()
    after = middle(unfolded)
    stage = tab.locator(".nbg-stage").bounding_box()
    assert stage is not None
    assert stage["x"] <= after[0] <= stage["x"] + stage["width"]
    assert stage["y"] <= after[1] <= stage["y"] + stage["height"]
    assert abs(after[0] - before[0]) < stage["width"] / 2
    screenshot(tab, "view_unfolded_in_place")


def test_one_click_on_a_sign_folds_and_unfolds(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "signs"))
    block = tab.get_by_test_id("nbgrad-scope").filter(has_text="1 (Block)")
    block.locator(".nbg-fold").click()
    folded = tab.locator(".nbg-folded")
    expect(folded).to_have_count(1)
    expect(folded.locator(".nbg-plus")).to_be_visible()
    assert folded.evaluate(INSIDE)
    expect(tab.get_by_test_id("nbgrad-details")).to_be_hidden()
    screenshot(tab, "view_fold_sign")
    at = middle(folded)
    folded.locator(".nbg-fold").click()
    expect(folded).to_have_count(0)
    frame = tab.locator(".nbg-scope").last
    assert frame.evaluate(INSIDE), "all that was unfolded is in sight"
    assert abs(middle(frame)[0] - at[0]) < 400


def test_a_picture_that_is_out_of_the_page_folds_and_is_whole_when_it_is_back(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "hidden"))
    tab.get_by_test_id("nbgrad-fit").click()
    tab.get_by_test_id("nbgrad-scope").filter(has_text="1 (Block)").evaluate(
        """frame => {
            const view = frame.closest(".nbgrad"), place = view.parentElement;
            view.remove(); // as JupyterLab does with a hidden output
            frame.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
            place.append(view);
        }"""
    )
    expect(tab.locator(".nbg-folded")).to_be_visible()
    assert tab.locator(".nbg-folded").evaluate(INSIDE)


def test_the_panel_of_the_first_click_takes_no_second_one(opened: Any) -> None:
    described = graphs.trained(1, 2)
    tab = opened(notebook(lay_out(described, folding=folded_below(described, 0))))
    tab.get_by_test_id("nbgrad-fit").click()
    stage, group = tab.locator(".nbg-stage").bounding_box(), tab.locator(".nbg-folded")
    assert stage is not None
    x, _ = middle(group)
    tab.mouse.move(stage["x"] + 6, stage["y"] + 6)
    tab.mouse.down()
    tab.mouse.move(stage["x"] + 6 + (stage["x"] + stage["width"] - 120 - x), stage["y"] + 6, steps=3)
    tab.mouse.up()
    group.dblclick()  # the click is where the panel will be
    assert tab.evaluate("window.asked.filter(one => one.toggle).length") == 1


def test_a_live_picture_that_is_drawn_anew_stays_where_the_reader_looks(opened: Any, stack: Any) -> None:
    described = stack(120, blocks=4)
    picture = lay_out(described, folding=Folding())
    tab = opened(notebook(picture))
    stage = tab.locator(".nbg-stage").bounding_box()
    assert stage is not None
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 60, y + 200, steps=4)
    tab.mouse.up()
    where = "() => document.querySelector('.nbg-stage > g').getAttribute('transform')"
    before = tab.evaluate(where)
    tab.evaluate("picture => window.assign(picture)", sent({**picture, "direction": "TB"}))
    expect(tab.get_by_test_id("nbgrad-node").first).to_be_attached()
    tab.wait_for_timeout(100)
    assert tab.evaluate(where) == before


def test_the_way_to_what_was_unfolded_is_shown_unless_motion_is_reduced(opened: Any) -> None:
    def places(tab: Page) -> int:
        return int(
            tab.evaluate(
                """async () => {
                    const look = () => document.querySelector(".nbg-stage > g").getAttribute("transform");
                    document.querySelector('.nbg-root').dispatchEvent(new MouseEvent("click"));
                    const seen = new Set();
                    for (let frame = 0; frame < 30; frame++) {
                        await new Promise(requestAnimationFrame);
                        seen.add(look());
                    }
                    return seen.size;
                }"""
            )
        )

    tab = opened(page(lay_out(graphs.trained(1, 1)), "motion"))
    tab.get_by_test_id("nbgrad-fit").click()
    assert places(tab) == 1
    tab = opened(page(lay_out(graphs.trained(1, 1)), "motion"))
    tab.emulate_media(reduced_motion="no-preference")
    tab.get_by_test_id("nbgrad-fit").click()
    assert places(tab) > 2


CELL = "<!DOCTYPE html><meta charset='utf-8'><body style='margin:0'><div id='above' style='height:600px'></div>"


def cell(picture: Any, *, inside: str = "") -> str:
    """A page that scrolls, with a picture. With ``inside`` it is in a part that scrolls too and has these styles."""
    tail = "<div style='height:900px'></div></body>"
    around = f"<div id='part' style='overflow:auto;{inside}'><div style='overflow-x:auto'>" if inside else "<div><div>"
    return f"{CELL}{around}{fragment(picture)}</div></div>{tail}{runtime()}"


def heights(tab: Page) -> tuple[float, float]:
    seen = [tab.locator(one).evaluate("e => e.offsetHeight ?? e.clientHeight") for one in (".nbgrad", ".nbg-stage")]
    return seen[0], seen[1]


@pytest.mark.parametrize(("inside", "room"), [("", 553), ("height:540px", 540)])
def test_the_view_is_as_high_as_what_scrolls_it(opened: Any, inside: str, room: int) -> None:
    picture = lay_out(NETWORKS["MLP of 5"](), on=Stage(1e5, 1e5))
    picture["description"]["history"] = graphs.trained(3, 1)["history"]
    tab = opened(cell(picture, inside=inside), size=(1440, 790))
    tab.get_by_test_id("nbgrad-fit").click()
    expect(tab.locator(".nbg-stage > g")).to_have_attribute("transform", re.compile("scale"))
    whole, before = heights(tab)
    assert room - 40 < whole <= room, "at most seven tenths of the window"
    for tool in ("history", "steps"):
        tab.get_by_test_id(f"nbgrad-{tool}").click()
        # Picture and chart are seen together.
        tab.wait_for_function("room => document.querySelector('.nbgrad').offsetHeight <= room", arg=room)
        whole, stage = heights(tab)
        assert 160 <= stage < before
        tab.keyboard.press("Escape")
        tab.wait_for_function("before => document.querySelector('.nbg-stage').clientHeight == before", arg=before)
    tab.evaluate("document.documentElement.scrollTop = 590")
    tab.get_by_test_id("nbgrad-history").click()
    assert tab.evaluate("document.documentElement.scrollTop") == 590, "the focus scrolls nothing"
    screenshot(tab, f"view_height_{room}")


def test_the_wheel_scrolls_the_page_and_says_how_to_zoom(opened: Any) -> None:
    scale = "() => document.querySelector('.nbg-stage > g').getAttribute('transform')"
    tab = opened(cell(lay_out(graphs.trained(1, 1))), size=(1200, 800))
    tab.evaluate("document.documentElement.scrollTop = 500")
    stage, hint = tab.locator(".nbg-stage"), tab.get_by_test_id("nbgrad-hint")
    stage.click(position={"x": 5, "y": 150})
    before = tab.evaluate(scale)
    tab.mouse.wheel(0, 90)
    expect(hint).to_have_class(re.compile("nbg-shown"))
    expect(hint).to_contain_text("the wheel zoom")
    screenshot(tab, "view_hint")
    tab.wait_for_function("document.documentElement.scrollTop > 500")
    assert tab.evaluate(scale) == before
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, 90)
    tab.keyboard.up("Control")
    tab.wait_for_function(f"before => ({scale})() !== before", arg=before)
    alone = opened(page(lay_out(graphs.shared(2)), "alone"), size=(1200, 800))
    alone.locator(".nbg-stage").hover(position={"x": 5, "y": 150})
    before = alone.evaluate(scale)
    alone.mouse.wheel(0, 90)
    alone.wait_for_function(f"before => ({scale})() !== before", arg=before)  # the page itself cannot scroll


def test_banners_say_what_matters_first_in_its_colour(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.stopped()), "stopped"))
    error = tab.get_by_test_id("nbgrad-error")
    expect(error).to_contain_text("The program stopped here: matmul raised RuntimeError")
    tab.get_by_test_id("nbgrad-notices").click()
    expect(error).to_have_css("white-space-collapse", "preserve-breaks")
    expect(tab.get_by_test_id("nbgrad-top-finding")).to_have_count(0)  # the finding would repeat the error
    red = error.evaluate("e => getComputedStyle(e).backgroundColor")
    tab = opened(page(lay_out(graphs.broken()), "broken"))
    top = tab.get_by_test_id("nbgrad-top-finding")
    expect(top).to_contain_text("NaN begins here")
    assert top.evaluate("e => getComputedStyle(e).backgroundColor") == red
    tab.get_by_test_id("nbgrad-legend").click()
    expect(tab.locator(".nbg-legend")).to_contain_text("≠NaN or infinity")
    top.click()
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("log")
    screenshot(tab, "view_banner")
    described = graphs.trained(1, 2)
    tab = opened(page(lay_out(described, folding=folded_below(described, 1)), "folded"))
    note = tab.get_by_role("note")
    expect(note).to_contain_text("folded")
    assert note.evaluate("e => getComputedStyle(e).backgroundColor") not in (red, "rgb(255, 243, 214)")


def test_a_cell_without_a_graph_has_no_empty_canvas(opened: Any) -> None:
    with nbgrad.AutogradGraph("nothing") as graph:
        pass
    content = page(lay_out(describe(graph)), "nothing") + "<i data-testid='nbgrad-node'></i>"
    tab = opened(content)
    expect(tab.get_by_role("note")).to_contain_text("Nothing was recorded")
    expect(tab.locator(".nbg-stage")).to_be_hidden()


def test_the_colour_key_lies_over_no_box(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(3, 1)), "key"))
    for key in ("gradient", "dtype", "history"):
        tab.get_by_test_id("nbgrad-overlay").select_option(key)
        stage, scale = tab.locator(".nbg-stage").bounding_box(), tab.get_by_test_id("nbgrad-scale").bounding_box()
        assert stage is not None
        assert scale is not None
        assert scale["y"] >= stage["y"] + stage["height"]


def test_a_search_leads_into_folded_modules_and_back(opened: Any) -> None:
    described = graphs.trained(1, 2)
    inner = next(scope["id"] for scope in described["scopes"] if scope["label"] == "2 (Block)")
    tab = opened(page({**lay_out(described), "folded": [inner]}, "search"))
    where = "() => document.querySelector('.nbg-stage > g').getAttribute('transform')"
    tab.get_by_test_id("nbgrad-fit").click()
    before = tab.evaluate(where)
    search, back = tab.get_by_test_id("nbgrad-search"), tab.get_by_test_id("nbgrad-return")
    expect(back).to_be_hidden()
    search.fill("2.wide.weight")
    search.press("Enter")
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("weight")
    expect(tab.locator(".nbg-folded")).to_have_count(0)
    chosen = tab.locator(".nbg-chosen")
    assert chosen.evaluate(INSIDE)
    assert 11 * tab.locator(".nbg-stage > g").evaluate(SCALE) >= 9.85
    screenshot(tab, "view_found")
    back.click()
    expect(back).to_be_hidden()
    assert tab.evaluate(where) == pytest.approx(before) or tab.evaluate(where) == before
    tab.locator(".nbg-root").dispatch_event("click")
    tab.get_by_test_id("nbgrad-ancestors").click()
    expect(back).to_be_visible()


def test_a_shortened_name_is_whole_where_it_is_read_and_searched(opened: Any) -> None:
    name = "the_very_first_of_all_the_layers_that_anyone_ever_wrote_for_this_network"
    with nbgrad.AutogradGraph("names") as graph:
        leaf = nbgrad.tensor([1.0], requires_grad=True)
        leaf.name = name
        with nbgrad.scope(f"{name} (Linear)"):
            (leaf * 2).tanh().sum().backward()
    tab = opened(page(lay_out(describe(graph)), "names"))
    leaf_box = tab.locator(".nbg-leaf")
    drawn = leaf_box.locator(".nbg-head").text_content() or ""
    assert drawn.startswith("the_very_first")
    assert drawn.endswith("this_network"), "the ellipsis is in the middle"
    expect(leaf_box).to_have_attribute("aria-label", re.compile(name))
    leaf_box.hover()
    expect(tab.locator(".nbg-card")).to_contain_text(name)
    expect(tab.get_by_test_id("nbgrad-scope")).to_contain_text("(Linear)")
    expect(tab.get_by_test_id("nbgrad-scope")).to_have_attribute("aria-label", re.compile(f"{name} .Linear"))
    tab.get_by_test_id("nbgrad-search").fill("anyone_ever_wrote")
    expect(tab.get_by_test_id("nbgrad-found")).to_have_text(re.compile(r"^[1-9]\d* found"))


def test_what_is_folded_in_the_page_leaves_no_stale_legend_and_no_empty_frame(opened: Any) -> None:
    tab = opened(page(whole(graphs.trained(1, 1)), "folded"))
    legend = tab.locator(".nbg-legend")
    tab.get_by_test_id("nbgrad-legend").click()
    expect(legend).not_to_contain_text("folded module")
    outer = tab.locator("rect.nbg-scope").first
    tab.get_by_test_id("nbgrad-scope").filter(has_text="1 (Block)").dispatch_event("dblclick")
    tab.get_by_test_id("nbgrad-legend").click()
    expect(legend).to_contain_text("folded module")
    frame = outer.bounding_box()
    boxes = [one.bounding_box() for one in tab.locator(".nbg-node").all()]
    right, bottom = frame["x"] + frame["width"], frame["y"] + frame["height"]
    inside = [one for one in boxes if one["x"] > frame["x"] and frame["y"] < one["y"] < bottom]
    assert len(inside) >= 3
    assert 0 < min(one["x"] for one in inside) - frame["x"] < 30
    assert 0 < min(one["y"] for one in inside) - frame["y"] < 40, "its title is there"
    assert 0 < right - max(one["x"] + one["width"] for one in inside) < 30
    assert 0 < bottom - max(one["y"] + one["height"] for one in inside) < 30
    screenshot(tab, "view_frame_tight")
    tab.get_by_test_id("nbgrad-scope").first.dispatch_event("dblclick")
    tab.get_by_test_id("nbgrad-legend").click()
    expect(legend).not_to_contain_text("operation" if tab.locator(".nbg-op:not(.nbg-root)").count() == 0 else "leaf")


def test_the_forward_shows_what_the_backward_sums(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "forward"))
    mark = tab.get_by_test_id("nbgrad-mark").first
    expect(mark.locator(".nbg-expansion")).to_be_hidden()
    tab.get_by_test_id("nbgrad-forward").click()
    for _ in range(2):
        tab.get_by_test_id("nbgrad-zoom-in").click()  # a mark shows its text where it can be read
    expect(mark.locator(".nbg-expansion")).to_be_visible()
    expect(mark.locator(".nbg-expansion")).to_have_text("(8,) → (16, 8)")
    expect(mark.locator(".nbg-mark-text")).to_be_hidden()
    screenshot(tab, "view_forward")


@pytest.mark.parametrize("by_hand", [False, True])
def test_steps_over_folded_parts_say_which_rules_ran(opened: Any, by_hand: bool) -> None:
    described = graphs.trained(1, 2)
    rules = len(described["steps"])
    inner = next(scope["id"] for scope in described["scopes"] if scope["label"] == "2 (Block)")
    folding = Folding(frozenset({inner}))
    picture = {**lay_out(described), "folded": [inner]} if by_hand else lay_out(described, folding=folding)
    tab = opened(page(picture, "steps"))
    tab.get_by_test_id("nbgrad-steps").click()
    player, future = tab.get_by_test_id("nbgrad-player"), tab.locator(".nbg-node:not(.nbg-done) .nbg-rule").last
    expect(player).to_contain_text(f"Step 1 of {rules - 3} (rule 1 of {rules}): the rule of cross_entropy")
    expect(future).to_have_text("∇ ?")
    expect(tab.locator(".nbg-told").first).to_contain_text("norm")
    tab.get_by_test_id("nbgrad-next").click()
    tab.get_by_test_id("nbgrad-next").click()
    expect(player).to_contain_text(f"Step 3 of {rules - 3} (rules 3-6 of {rules}): ")
    expect(player).to_contain_text("inside 2 (Block)")
    screenshot(tab, "view_step_folded")
    tab.get_by_test_id("nbgrad-step").press("Escape")
    expect(tab.locator(".nbg-told")).to_have_count(0)
    expect(tab.locator(".nbg-stage")).not_to_have_class(re.compile("nbg-focus|nbg-stepping"))
    assert "∇ ?" not in tab.locator(".nbg-rule").all_text_contents()


def test_the_formula_of_a_step_says_the_names_of_the_cell(opened: Any) -> None:
    with nbgrad.AutogradGraph("names") as graph:
        x, w = nbgrad.tensor([1.0, 2.0]), nbgrad.tensor([0.5, -1.0], requires_grad=True)
        (x * w).tanh().sum().backward()
    tab = opened(page(lay_out(describe(graph)), "names"))
    tab.get_by_test_id("nbgrad-steps").click()
    panel = tab.get_by_test_id("nbgrad-details")
    expect(panel).to_contain_text("gradient of the result of tanh, the input “x”")
    told, line = (tab.locator(one).bounding_box() for one in (".nbg-told", ".nbg-edge.nbg-current .nbg-back"))
    assert told is not None
    assert line is not None
    assert told["x"] > line["x"] + line["width"], "beside the edge, which can be seen"
    for _ in range(2):
        tab.get_by_test_id("nbgrad-next").click()
    expect(panel).to_contain_text("gradient of w, the input “b”")
    # The rule has its own letters. They differ from the names in the cell, which also has an x.
    expect(tab.get_by_test_id("nbgrad-where")).to_have_text("Here a is x, b is w, y¯ is the gradient that comes in.")
    tab.locator(".nbg-node", has_text="tanh").click()
    expect(tab.get_by_test_id("nbgrad-where")).to_have_text(
        "Here x is the result of mul, y¯ is the gradient that comes in."
    )


def test_an_edge_ends_on_the_side_of_its_box(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.wordy()), "ends"))
    far = tab.evaluate(
        """() => {
            const shapes = document.querySelectorAll(":is(.nbg-node:not(.nbg-row), .nbg-mark) > .nbg-shape");
            const boxes = [...shapes].map(e => e.getBBox());
            const off = ([x, y]) => Math.min(...boxes.map(b =>
                Math.abs(Math.max(b.x - x, x - b.x - b.width, b.y - y, y - b.y - b.height))));
            return [...document.querySelectorAll(".nbg-tip, .nbg-back-tip")].map(e =>
                off(e.getAttribute("points").split(" ")[0].split(",").map(Number)));
        }"""
    )
    assert max(far) < 1.5


CLICKS = """async () => {
    const stage = document.querySelector(".nbg-stage").getBoundingClientRect();
    for (let at = 0; at < 8; at++) {
        const seen = [...document.querySelectorAll(".nbg-op")].filter(one => {
            const { left, right, top, bottom } = one.getBoundingClientRect();
            return left > stage.left && right < stage.right && top > stage.top && bottom < stage.bottom;
        });
        seen[at % seen.length].dispatchEvent(new MouseEvent("click", { detail: 1, bubbles: true }));
        await new Promise(requestAnimationFrame);
        await new Promise(resolve => setTimeout(resolve, 20));
    }
}"""


def test_a_click_among_300_boxes_is_answered_at_once(opened: Any, stack: Any) -> None:
    tab = opened(page(lay_out(stack(250), folding=Folding()), "answered"))
    assert tab.locator(".nbg-node").count() == 300
    stage = tab.locator(".nbg-stage")
    width = stage.evaluate("e => e.clientWidth")
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # without the time of other processes

    def worked() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    before = worked()
    tab.evaluate(CLICKS)
    assert (worked() - before) / 8 < 0.1  # seconds
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    assert stage.evaluate("e => e.clientWidth") == width, "the panel lies over it"


def test_one_finger_scrolls_the_page_and_two_move_the_picture(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(cell(lay_out(graphs.trained(1, 1))), encoding="utf-8")
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 760}, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(file.as_uri())
    where = "() => document.querySelector('.nbg-stage > g')?.getAttribute('transform')"
    tab.wait_for_function(where)
    tab.evaluate("document.documentElement.scrollTop = 600")
    stage, hint = tab.locator(".nbg-stage"), tab.get_by_test_id("nbgrad-hint")
    expect(stage).to_have_css("touch-action", "pan-x pan-y")
    box = stage.bounding_box()
    assert box is not None
    session, before = context.new_cdp_session(tab), tab.evaluate(where)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        at = [{"x": box["x"] + x, "y": box["y"] + y, "id": number} for number, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", (100, 150))
    expect(hint).not_to_have_class(re.compile("nbg-shown"))  # a tap shows no hint
    touch("touchMove", (100, 120))
    expect(hint).to_contain_text("Two fingers")
    touch("touchEnd")
    assert tab.evaluate(where) == before
    touch("touchStart", (100, 150), (200, 150))
    touch("touchMove", (80, 150), (240, 150))
    touch("touchEnd")
    assert tab.evaluate(where) != before
    context.close()
