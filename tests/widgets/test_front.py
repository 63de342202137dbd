"""The front end in a browser, on real graphs, from files on disk: what a reader can see, do and find."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import dist
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, expect

import nbgrad
from benchmarks import panning
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.choose import Folding, folded_below
from nbgrad.widgets.layout import curves
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from tests.lab.harness import SCREENSHOTS, screenshot
from tests.widgets import graphs

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]


def view(tab: Page) -> Locator:
    return tab.get_by_test_id("nbgrad-view")


def node(tab: Page, title: str) -> Locator:
    starts = (f'[aria-label^="{title}, "]', f'[aria-label^="{title} · "]')  # with or without the name of a module
    return tab.locator(f"[data-testid=nbgrad-node]:is({', '.join(starts)})")


def details(tab: Page) -> Locator:
    return tab.get_by_test_id("nbgrad-details")


def test_both_directions_are_one_picture(opened: Any) -> None:
    described = graphs.trained(1, 1)
    described["edges"][1]["mismatch"] = "gradient of shape (3,) for a value of shape (8, 4)"
    picture = lay_out(described)
    tab = opened(page(picture, "directions"))
    drawn = [edge for edge in described["edges"] if picture["layout"]["edges"][edge["id"]]]
    assert 5 < len(drawn) < len(described["edges"]), "a row has no edge"
    came = [edge for edge in drawn if edge["gradient"] is not None]
    expect(tab.locator(".nbg-back")).to_have_count(len(came))
    expect(tab.locator(".nbg-value")).to_have_count(len(drawn))
    assert tab.locator(".nbg-label:not(.nbg-back-label)").evaluate_all("all => all.map(e => e.textContent)") == [
        edge["label"] for edge in drawn if edge["mismatch"]
    ], "what no box says"
    expect(tab.locator(".nbg-back-label")).to_have_count(1)  # the shapes of value and gradient differ on one edge
    expect(tab.locator(".nbg-mismatch .nbg-back-label, .nbg-mismatch title").first).to_contain_text("gradient of shape")

    tab.get_by_test_id("nbgrad-forward").click()
    expect(tab.locator(".nbg-back").first).to_be_hidden()
    expect(tab.locator(".nbg-value").first).to_be_visible()
    tab.get_by_test_id("nbgrad-backward").click()
    expect(tab.locator(".nbg-edge:not(.nbg-none) .nbg-value").first).to_be_hidden()
    expect(tab.locator(".nbg-back").first).to_be_visible()
    screenshot(tab, "view_backward")
    tab.get_by_test_id("nbgrad-both").click()
    expect(tab.get_by_test_id("nbgrad-both")).to_have_attribute("aria-checked", "true")

    edge = tab.locator(".nbg-edge:not(.nbg-none)").first
    edge.dispatch_event("mouseenter")
    expect(edge).to_have_class(re.compile("nbg-on"))
    widths = edge.evaluate(
        "e => ['.nbg-value', '.nbg-back'].map(part => getComputedStyle(e.querySelector(part)).strokeWidth)"
    )
    assert all(float(width.removesuffix("px")) > 2 for width in widths), "one lights up with the other"
    edge.dispatch_event("click")
    expect(details(tab)).to_contain_text("gradient, backward")
    outlines = {"parameter": "nbg-inner", "op": "nbg-shape"}
    for kind, shape in outlines.items():
        expect(tab.locator(f".nbg-{kind} .{shape}").first).to_be_visible()
    expect(tab.locator(".nbg-input polygon.nbg-shape").first).to_be_visible()
    expect(tab.locator(".nbg-root .nbg-sign")).to_have_count(1)


def test_a_reduction_that_is_probably_not_meant_has_a_warning(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.unpaired()), "unpaired"))
    expect(tab.locator(".nbg-mark.nbg-warned")).to_have_count(1)
    tab.get_by_test_id("nbgrad-reductions").click()
    details(tab).get_by_role("button", name=re.compile("sum dim 1")).click()
    expect(details(tab).get_by_role("alert")).to_contain_text("(3, 1) against (3,) makes (3, 3)")
    expect(details(tab).get_by_test_id("nbgrad-sums")).to_contain_text("grad[0, 0] = 0 + ")
    expect(details(tab).get_by_test_id("nbgrad-heat")).to_have_count(2)
    screenshot(tab, "view_reduction")


def test_reductions_that_are_called_alike_say_where_they_are(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "reductions"))
    tab.get_by_test_id("nbgrad-reductions").click()
    listed = details(tab).locator("li small:first-of-type").all_inner_texts()
    assert len(set(listed)) == len(listed) == 4
    assert listed[1] == "bias → linear in Sequential › 1 (Block) › wide (Linear)"
    details(tab).locator("li").last.get_by_role("button").click()
    sums = details(tab).get_by_test_id("nbgrad-sums")
    assert sums.evaluate("e => e.scrollWidth <= e.clientWidth"), "what is added up is seen to its end"


def test_the_inspector_tells_everything_of_an_op(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "inspector"))
    tab.get_by_test_id("nbgrad-fit").click()
    node(tab, "tanh").click()
    panel = details(tab)
    expect(panel.locator("h3")).to_have_text("tanh")
    expect(panel).to_contain_text("Sequential › 1 (Block)")
    expect(panel).to_contain_text("squeezes any number into (-1, 1)")
    expect(panel).to_contain_text("its gradient vanishes there")
    expect(panel.locator(".nbg-formula math")).to_have_count(2)
    expect(panel).to_contain_text("float32, on cpu")
    expect(panel).to_contain_text("out: 1 KiB")
    expect(panel).to_contain_text("return x + self.back(self.wide(x).tanh())")
    expect(panel.get_by_test_id("nbgrad-heat")).to_have_count(2)
    expect(panel.get_by_test_id("nbgrad-histogram")).to_have_count(2)
    expect(panel.get_by_role("heading", name="Used by")).to_be_visible()
    screenshot(tab, "view_inspector")
    node(tab, "linear").first.click(position={"x": 40, "y": 8})  # above its rows
    block = panel.locator("dt:text-is('block') + dd")
    expect(block).to_contain_text("0 (Linear): ")
    expect(block.locator("math")).to_have_count(1)


def test_heat_maps_have_the_colours_that_a_displayed_tensor_has(opened: Any) -> None:
    with nbgrad.AutogradGraph("signs") as graph:
        w = nbgrad.tensor([1.0, -1.0], requires_grad=True)
        (w * w).sum().backward()
    tab = opened(page(lay_out(describe(graph)), "signs"))
    node(tab, "w").click()
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        colours = details(tab).locator("td").evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
        shades = [float(colour.removesuffix(")").split()[2]) for colour in colours]  # oklab(lightness a b)
        assert [shade > 0 for shade in shades] == [True, False] * 2, "orange above zero, blue below"


def test_the_backward_is_walked_step_by_step(opened: Any) -> None:
    described = graphs.trained(1, 1)
    tab = opened(page(lay_out(described), "steps"))
    node(tab, "tanh").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".nbg-chosen")).to_have_count(1)
    tab.keyboard.press("s")
    expect(tab.locator(".nbg-chosen, .nbg-on")).to_have_count(0)  # the selection is no part of the walk
    player, slider = tab.get_by_test_id("nbgrad-player"), tab.get_by_test_id("nbgrad-step")
    expect(slider).to_be_focused()
    expect(details(tab).locator("h3")).to_have_text("∇ loss = cross_entropy")
    seen = [tab.locator(".nbg-node.nbg-current").get_attribute("data-node-id")]
    for _ in described["steps"][1:]:
        tab.keyboard.press("ArrowRight")
        seen.append(tab.locator(".nbg-node.nbg-current").get_attribute("data-node-id"))
    assert seen == [step["node"] for step in described["steps"]]
    tab.keyboard.press("ArrowLeft")
    expect(player).to_contain_text(described["steps"][-2]["title"])
    meeting = next(at for at, step in enumerate(described["steps"]) if any(one["sum"] for one in step["given"]))
    slider.fill(str(meeting + 1))
    expect(details(tab).get_by_test_id("nbgrad-given")).to_contain_text("path 1 of 2 that meet here")
    expect(details(tab)).to_contain_text("Incoming gradient")
    expect(details(tab)).to_contain_text("Local rule")
    expect(tab.locator(".nbg-edge.nbg-current")).to_have_count(len(described["steps"][meeting]["given"]))
    expect(tab.locator(".nbg-status[role=status]")).to_be_hidden()  # the note that this is a part of the graph is gone
    inside = """e => {
        const [one, stage] = [e, e.closest('.nbg-stage')].map(one => one.getBoundingClientRect());
        return one.top < stage.bottom && one.bottom > stage.top;
    }"""
    leads_to = tab.locator(".nbg-node.nbg-done", has_text="linear").nth(1)  # the nearer of the two layers
    assert leads_to.evaluate(inside)
    assert tab.locator(".nbg-node.nbg-current").evaluate(inside)
    screenshot(tab, "view_steps")
    slider.focus()
    tab.keyboard.press("Escape")
    expect(player).to_be_hidden()
    expect(tab.locator(".nbg-stepping")).to_have_count(0)
    tab.keyboard.press("t")
    expect(tab.get_by_test_id("nbgrad-table")).to_be_visible()


def test_the_walk_plays_and_pauses(opened: Any) -> None:
    described = graphs.trained(1, 1)
    tab = opened(page(lay_out(described), "playing"))
    tab.get_by_test_id("nbgrad-steps").click()
    player, play = tab.get_by_test_id("nbgrad-player"), tab.get_by_test_id("nbgrad-play")
    player.get_by_label("Speed").select_option("fast")
    tab.clock.install()
    tab.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))  # so that no step ends too early for this test
    play.click()
    expect(play).to_have_text("Pause")
    for step in described["steps"][1:3]:
        tab.clock.run_for(350)
        expect(player).to_contain_text(step["title"])
    play.click()
    expect(play).to_have_text("Play")
    tab.clock.run_for(5000)
    expect(player).to_contain_text(described["steps"][2]["title"])
    play.click()
    tab.clock.run_for(350 * len(described["steps"]))
    expect(player).to_contain_text(described["steps"][-1]["title"])
    expect(play).to_have_text("Play")


def test_history_is_scrubbed_and_two_frames_are_compared(opened: Any) -> None:
    described = graphs.trained()
    tab = opened(page(lay_out(described), "history"))
    tab.get_by_test_id("nbgrad-history").click()
    frame, timeline = tab.get_by_test_id("nbgrad-frame"), tab.get_by_test_id("nbgrad-timeline")
    expect(frame).to_be_focused()
    expect(timeline).to_contain_text("backward 12, loss ")
    gradients, updates = described["history"]["charts"]
    curves, chart = tab.get_by_test_id("nbgrad-curves"), tab.get_by_test_id("nbgrad-chart")
    expect(curves.locator(".nbg-curve")).to_have_count(len(gradients["curves"]))
    expect(curves.locator(".nbg-guide")).to_have_count(0)
    weight = next(node for node in described["nodes"] if node["kind"] == "parameter")
    rule = tab.locator(f'[data-node-id="{weight["id"]}"] .nbg-rule')
    expect(rule).to_have_text(weight["rule"] or "")
    for _ in range(11):
        tab.keyboard.press("ArrowLeft")
    expect(timeline).to_contain_text("backward 1, loss ")
    expect(rule).to_have_text(f"∇ norm {weight['norms'][0]}")
    assert tab.locator(".nbg-levelled").count() > 10
    tab.get_by_test_id("nbgrad-compare").select_option(label=described["history"]["frames"][5]["title"])
    expect(details(tab).locator("h3")).to_have_text("Difference")
    expect(details(tab)).to_contain_text("the same ops on the same shapes")
    expect(tab.get_by_test_id("nbgrad-norms").locator("tr").first).to_contain_text(weight["norms"][5])
    names = tab.get_by_test_id("nbgrad-norms").locator("td:first-child").all_text_contents()
    assert len(set(names)) == len(names), "a name that repeats has the path of its module before it"
    assert "Sequential › 4 (Linear) › weight" in names
    for was, sign, now in (
        tab.get_by_test_id("nbgrad-norms")
        .locator("tr")
        .evaluate_all("all => all.map(row => [...row.cells].slice(1).map(cell => cell.textContent))")
    ):
        assert sign == ("=" if was == now else "▲" if float(now) > float(was) else "▼"), "of any size"
    table = tab.get_by_test_id("nbgrad-norms")
    assert table.evaluate("e => e.scrollWidth <= e.parentElement.clientWidth"), "long paths wrap"
    screenshot(tab, "view_history")
    chart.select_option("update / weight")
    expect(curves.locator(".nbg-guide")).to_have_count(1)
    expect(timeline.locator(".nbg-chart").last).to_have_attribute("title", updates["text"])
    drawn = curves.locator(".nbg-curve").evaluate_all("all => all.map(e => e.getAttribute('d').split('h0').length - 1)")
    assert drawn == [sum(height is not None for height in curve["heights"]) for curve in updates["curves"]]
    assert max(drawn) == 11, "after the twelfth the step is not measured"
    expect(curves.locator("title").first).to_have_text(
        f"{updates['curves'][0]['label']}: {updates['curves'][0]['text']}"
    )
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        timeline.screenshot(path=SCREENSHOTS / f"view_history_updates_{scheme}.png")
    frame.focus()
    tab.keyboard.press("Escape")
    expect(rule).to_have_text(weight["rule"] or "")


def test_a_frame_is_shown_with_its_own_numbers_and_a_key(opened: Any) -> None:
    described = graphs.trained(3, 1)
    tab = opened(page(lay_out(described), "frames"))
    values = [frame["value"] for frame in described["history"]["frames"]]
    root, colour = tab.locator(".nbg-node.nbg-root"), tab.get_by_test_id("nbgrad-overlay")
    tab.get_by_test_id("nbgrad-history").click()
    expect(root).to_contain_text(values[-1])
    expect(colour).to_have_value("history")
    expect(tab.get_by_test_id("nbgrad-scale")).to_contain_text("history: gradient norm")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    expect(root).to_contain_text(values[0])
    expect(root).not_to_contain_text(values[-1])
    expect(root).to_have_attribute("aria-label", re.compile(re.escape(values[0])))
    screenshot(tab, "view_frame")
    colour.select_option("dtype")
    expect(tab.get_by_test_id("nbgrad-timeline")).to_be_hidden()
    expect(root).to_contain_text(values[-1])
    expect(tab.get_by_test_id("nbgrad-scale")).to_contain_text("dtype")
    colour.select_option("history")
    expect(tab.get_by_test_id("nbgrad-frame")).to_be_focused()


def test_of_other_boxes_than_the_root_an_earlier_frame_shows_no_value(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.descent()), "values"))
    w = node(tab, "w")
    expect(w).to_contain_text("value ")
    tab.get_by_test_id("nbgrad-history").click()
    tab.keyboard.press("ArrowLeft")
    expect(w).not_to_contain_text("value ")
    expect(w).to_contain_text("not kept")  # so that the box keeps its size
    expect(w).not_to_have_attribute("aria-label", re.compile("value "))
    w.click()
    expect(details(tab)).to_contain_text("of the last backward")
    tab.get_by_test_id("nbgrad-fit").click()
    screenshot(tab, "view_frame_values")
    tab.get_by_test_id("nbgrad-frame").press("Escape")
    expect(w).to_contain_text("value ")


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_folded_module_still_says_what_is_inside(opened: Any, by_hand: bool) -> None:
    described = graphs.trained(3, 1)
    tab = opened(page(lay_out(described, folding=None if by_hand else folded_below(described, 0)), "folded"))
    if by_hand:
        tab.get_by_test_id("nbgrad-scope").first.dispatch_event("dblclick")
    expect(tab.locator(".nbg-folded")).to_have_count(1)
    tab.get_by_test_id("nbgrad-reductions").click()
    expect(tab.get_by_test_id("nbgrad-reductions")).to_have_text("Σ Reductions (4)")
    told = details(tab).get_by_role("button", name=re.compile("bias → linear, .*inside Sequential"))
    expect(told).to_have_count(4 if by_hand else 3)
    expect(details(tab)).to_contain_text("inside Sequential" if by_hand else "2 times inside Sequential")
    told.first.click()
    expect(details(tab).locator("h3")).to_have_text("Sequential")
    tab.get_by_test_id("nbgrad-history").click()
    tab.get_by_test_id("nbgrad-compare").select_option(index=1)
    table = tab.get_by_test_id("nbgrad-norms")
    expect(table).to_contain_text("Sequential › 1 (Block) › wide (Linear) › weight")
    weight = next(node for node in described["nodes"] if node["kind"] == "parameter")
    expect(table).to_contain_text(weight["norms"][0])


def test_a_difference_tells_the_same_of_a_module_whoever_folded_it(opened: Any) -> None:
    told = []
    for described in (graphs.trained(3, 1), graphs.tied()):
        for by_hand in (False, True):
            folding = None if by_hand else folded_below(described, 0)
            tab = opened(page(lay_out(described, folding=folding), "folded"))
            if by_hand:
                tab.get_by_test_id("nbgrad-scope").first.dispatch_event("dblclick")
            tab.get_by_test_id("nbgrad-history").click()
            tab.get_by_test_id("nbgrad-compare").select_option(index=1)
            rows = tab.get_by_test_id("nbgrad-norms").locator("tr")
            told.append(sorted(rows.evaluate_all("all => all.map(row => row.innerText)")))
        assert told[-1] == told[-2]
        assert len(set(told[-1])) == len(told[-1]) > 2


def test_a_curve_leads_to_the_box_that_was_folded_in_the_page(opened: Any) -> None:
    for described in (graphs.trained(3, 1), graphs.tied()):
        tab = opened(page(lay_out(described), "folded"))
        tab.get_by_test_id("nbgrad-history").click()
        tab.get_by_test_id("nbgrad-frame").press("ArrowLeft")
        tab.get_by_test_id("nbgrad-scope").first.dispatch_event("dblclick")
        curves = tab.get_by_test_id("nbgrad-curves").locator(".nbg-curve")
        curves.first.dispatch_event("click")
        expect(details(tab).locator("h3")).to_have_text(described["scopes"][0]["label"])
        expect(tab.get_by_test_id("nbgrad-timeline")).to_contain_text("backward 2, loss ")
        tab.locator(".nbg-folded").dispatch_event("dblclick")
        curves.first.dispatch_event("click")
        expect(details(tab).locator("h3")).to_have_text("weight")


def test_a_verdict_leads_to_its_module(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.vanishing()), "vanishing"))
    tab.get_by_test_id("nbgrad-findings").click()
    verdict = details(tab).get_by_role("button", name=re.compile(r"Sequential > 1 \(Sequential\) > 0 \(Linear\): "))
    expect(verdict).to_contain_text("times smaller than in the last modules")
    screenshot(tab, "view_verdicts")
    verdict.click()
    expect(details(tab).locator("h3")).to_have_text("weight")
    expect(details(tab)).to_contain_text("1 (Sequential)")


def test_each_verdict_is_said_once_in_the_order_of_the_modules(opened: Any) -> None:
    described = graphs.vanishing()
    tab = opened(page(lay_out(described), "verdicts"))
    tab.get_by_test_id("nbgrad-findings").click()
    told = details(tab).locator("li").all_text_contents()
    assert told == [*(one["text"] for one in (*described["problems"], *described["verdicts"])), *described["checked"]]
    wrong = [one for one in described["verdicts"] if one["kind"] != "sound"]
    assert wrong
    expect(tab.get_by_test_id("nbgrad-findings")).to_have_text(f"Findings ({len(wrong) + len(described['problems'])})")
    expect(details(tab).get_by_role("button")).to_have_count(len(wrong) + len(described["problems"]) + 1)  # and Close
    expect(details(tab)).not_to_contain_text("no findings in")


def test_a_picture_without_findings_says_what_was_checked(opened: Any) -> None:
    described = graphs.trained(3, 1)
    assert described["problems"] == []
    assert any(line.startswith("progress of the loss: the loss fell from ") for line in described["checked"])
    tab = opened(page(lay_out(described), "sound"))
    button = tab.get_by_test_id("nbgrad-findings")
    expect(button).to_have_text("Findings (0)")
    button.click()
    expect(details(tab)).to_contain_text("✓ no findings in ")
    expect(details(tab).locator("h4").last).to_have_text("Checked")
    told = details(tab).locator("li").all_text_contents()
    assert told[-len(described["checked"]) :] == described["checked"]


def test_the_difference_of_two_frames_is_a_part_of_the_history(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(3, 1)), "closed"))
    for close in ("click", "escape"):
        tab.get_by_test_id("nbgrad-history").click()
        tab.get_by_test_id("nbgrad-compare").select_option(index=1)
        expect(details(tab).locator("h3")).to_have_text("Difference")
        if close == "click":
            tab.get_by_test_id("nbgrad-history").click()
        else:
            tab.get_by_test_id("nbgrad-frame").press("Escape")
        expect(tab.get_by_test_id("nbgrad-timeline")).to_be_hidden()
        expect(details(tab)).to_be_hidden()
    tab.get_by_test_id("nbgrad-history").click()
    tab.get_by_test_id("nbgrad-compare").select_option(index=0)
    expect(details(tab)).to_be_hidden()
    node(tab, "weight").first.dispatch_event("click")
    tab.get_by_test_id("nbgrad-history").click()
    expect(details(tab).locator("h3")).to_have_text("weight")


def test_the_legend_has_no_line_that_is_not_drawn(opened: Any) -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        y = (x * 2).exp()
    assert y.requires_grad
    picture = lay_out(describe(graph))
    tab = opened(page(picture, "forward"))
    tab.keyboard.press("Tab")
    tab.keyboard.press("?")
    legend = tab.locator(".nbg-legend")
    expect(legend).to_contain_text("no gradient")
    expect(legend).not_to_contain_text("value, forward")
    assert "value, forward" not in svg(picture)
    assert "no gradient" in svg(picture)


def test_a_verdict_leads_to_the_folded_box_that_its_module_is_in(opened: Any) -> None:
    described = graphs.vanishing()
    wanted = re.compile(r"Sequential > 1 \(Sequential\) > 0 \(Linear\): ")
    inner = next(scope for scope in described["scopes"] if scope["label"] == "1 (Sequential)")
    outer = described["scopes"][0]
    for closed, box in ((inner, "1 (Sequential)"), (outer, "Sequential")):
        folding = Folding(frozenset({closed["id"]}))
        for picture in (lay_out(described, folding=folding), {**lay_out(described), "folded": [closed["id"]]}):
            tab = opened(page(picture, "folded"))  # folded by the kernel, and folded in the page
            tab.get_by_test_id("nbgrad-findings").click()
            details(tab).get_by_role("button", name=wanted).click()
            expect(details(tab).locator("h3")).to_have_text(box)
            expect(tab.locator(".nbg-chosen.nbg-folded")).to_have_count(1)


def test_a_problem_leads_to_the_box_that_was_folded_in_the_page(opened: Any) -> None:
    with nbgrad.AutogradGraph() as graph, nbgrad.scope("inside"):
        (nbgrad.tensor([1.0, -1.0], requires_grad=True).log() * 2).sum().backward()
    described = describe(graph)
    tab = opened(page({**lay_out(described), "folded": [described["scopes"][0]["id"]]}, "folded"))
    tab.get_by_test_id("nbgrad-findings").click()
    details(tab).get_by_role("button", name=re.compile("NaN begins here")).click()
    expect(details(tab).locator("h3")).to_have_text("inside")


def test_overlays_and_findings_light_up(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.broken()), "broken"))
    expect(node(tab, "log").locator(".nbg-badge-nan")).to_have_count(1)
    tab.get_by_test_id("nbgrad-findings").click()
    expect(details(tab)).to_contain_text(
        "NaN begins here, in the forward of log: log of a negative number: x[1] = -1.0"
    )
    expect(details(tab)).to_contain_text("No gradient reached unused (1,): it ends at mul")
    details(tab).get_by_role("button", name=re.compile("NaN begins")).click()
    expect(details(tab).locator("h3")).to_have_text("log")
    choice = tab.get_by_test_id("nbgrad-overlay")
    for key in ("gradient", "ratio"):
        choice.select_option(key)
        expect(tab.get_by_test_id("nbgrad-scale")).to_be_visible()
        assert tab.locator(".nbg-levelled").count() > 0
    for key in ("dtype", "device"):
        choice.select_option(key)
        expect(tab.locator(".nbg-classed")).to_have_count(len(tab.get_by_test_id("nbgrad-node").all()))
    expect(choice).to_contain_text("gradient to weight; no step was measured")
    screenshot(tab, "view_findings")
    choice.select_option("")
    expect(tab.get_by_test_id("nbgrad-scale")).to_have_count(0)


def test_what_a_step_changed_is_an_overlay_and_a_line(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(steps=34, blocks=1)), "updates"))
    choice = tab.get_by_test_id("nbgrad-overlay")
    choice.select_option(label="update to weight after backward 33")
    expect(tab.locator(".nbg-levelled.nbg-parameter").first).to_be_visible()
    tab.locator(".nbg-parameter").first.dispatch_event("click")
    expect(details(tab).locator("dl")).to_contain_text(re.compile("step ?changed it by [0-9.e-]+ of its norm"))
    expect(details(tab).locator("dd code")).to_have_text("x @ weight.T + bias")  # a docstring's markup
    expect(details(tab)).not_to_contain_text("``")
    screenshot(tab, "view_updates")


def test_what_took_long_is_an_overlay_and_a_line(opened: Any) -> None:
    with TimedGraph("timed") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        with nbgrad.scope("inner"):
            loss = (x.exp() * 2).sum()
        loss.backward()
    tab = opened(page(lay_out(describe(graph)), "timed"))
    tab.get_by_test_id("nbgrad-overlay").select_option(label="time, forward and backward")
    expect(tab.locator(".nbg-levelled")).to_have_count(3)
    node(tab, "exp").click()
    expect(details(tab).locator("dl")).to_contain_text(
        re.compile(r"time ?forward [\d.e+]+ .?s, backward [\d.e+]+ .?s; [\d.]+% of all")
    )
    screenshot(tab, "view_time")
    tab.get_by_test_id("nbgrad-scope").dblclick()
    expect(tab.locator(".nbg-folded.nbg-levelled")).to_have_count(1)


CONTRASTS = """() => {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = (colour) => {
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...document.querySelectorAll(".nbg-node")].flatMap((node) => {
        const fill = light(getComputedStyle(node.querySelector(".nbg-shape")).fill);
        return [...node.querySelectorAll(".nbg-head, .nbg-line, .nbg-rule")].map((text) => {
            const [dark, bright] = [fill, light(getComputedStyle(text).fill)].sort((a, b) => a - b);
            return (bright + 0.05) / (dark + 0.05);
        });
    });
}"""


def test_text_on_a_filled_node_can_be_read(opened: Any) -> None:
    content = page(lay_out(graphs.trained(2, 1)), "contrast")
    for scheme in ("light", "dark"):
        tab = opened(content, scheme)
        for host in ("", f"JupyterLab {scheme} High Contrast"):
            tab.evaluate("name => { document.body.dataset.jpThemeName = name; }", host)
            for key in ("", "gradient", "ratio", "saved", "dtype"):
                tab.get_by_test_id("nbgrad-overlay").select_option(key)
                least = min(tab.evaluate(CONTRASTS))
                assert least >= 4.5, (scheme, host, key)  # WCAG AA
                if key == "gradient":
                    tab.get_by_test_id("nbgrad-fit").click()
                    screenshot(tab, f"view_gradient_{scheme}{'_contrast' if host else ''}")


def test_modules_fold_and_unfold_without_a_kernel(opened: Any) -> None:
    tab = opened(page(whole(graphs.trained(1, 1)), "folding"))
    block = tab.get_by_test_id("nbgrad-scope").filter(has_text="1 (Block)")
    before = tab.get_by_test_id("nbgrad-node").count()
    tab.get_by_test_id("nbgrad-fit").click()
    block.locator("text").dblclick()
    folded = tab.locator(".nbg-node.nbg-folded")
    expect(folded).to_have_count(1)
    expect(folded).to_have_attribute("aria-expanded", "false")
    expect(folded).to_contain_text("4 parameters (280)")
    assert tab.get_by_test_id("nbgrad-node").count() == before - 7
    screenshot(tab, "view_folded")
    folded.dblclick()
    expect(folded).to_have_count(0)
    expect(tab.get_by_test_id("nbgrad-node")).to_have_count(before)
    node(tab, "tanh").first.focus()
    tab.keyboard.press("f")
    expect(folded).to_have_count(1)
    expect(folded).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")
    expect(folded).to_have_count(0)


DRAWN = """() => {
    const window = document.querySelector(".nbg-stage").getBoundingClientRect();
    const nodes = [...document.querySelectorAll(".nbg-node")];
    const layer = document.querySelector(".nbg-stage > g");
    const hidden = nodes.filter(node => node.style.display === "none");
    const missing = hidden.filter(node => {
        node.style.display = "";
        const box = node.getBoundingClientRect();
        node.style.display = "none";
        return box.right > window.left && box.left < window.right && box.bottom > window.top && box.top < window.bottom;
    });
    return [nodes.length, hidden.length, missing.length];
}"""


def test_of_a_large_drawing_what_is_near_is_drawn(opened: Any) -> None:
    tab = opened(page(lay_out(panning.parallel(6), limit=1000, folding=Folding()), "large"))
    tab.get_by_test_id("nbgrad-fit").click()
    assert tab.evaluate(DRAWN) == [252, 0, 0]
    for _ in range(6):
        tab.get_by_test_id("nbgrad-zoom-in").click()
    _, hidden, missing = tab.evaluate(DRAWN)
    assert hidden > 100
    assert missing == 0
    stage = tab.locator(".nbg-stage").bounding_box()
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    for step in range(20):
        tab.mouse.move(x + 20 * step, y + 15 * step)
        assert tab.evaluate(DRAWN)[2] == 0, "also while it moves"
    tab.mouse.up()


def test_nothing_lights_up_while_the_picture_moves_below_the_pointer(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "moving"))
    tab.get_by_test_id("nbgrad-fit").click()
    first = tab.locator(".nbg-op").first
    box = first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    expect(first).to_have_class(re.compile("nbg-on"))
    tab.mouse.down()
    tab.mouse.move(x + 30, y)
    root = tab.locator(".nbg-root")
    root.dispatch_event("mouseenter")
    expect(root).not_to_have_class(re.compile("nbg-on"))
    tab.mouse.up()
    stage = tab.locator(".nbg-stage").bounding_box()
    tab.mouse.move(stage["x"] + 4, stage["y"] + 4)
    expect(tab.locator(".nbg-stage")).not_to_have_class(re.compile("nbg-focus"))


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_is_inside_folded_modules_is_found_there(opened: Any, by_hand: bool) -> None:
    described = graphs.trained(1, 2)
    tab = opened(page(lay_out(described, folding=None if by_hand else folded_below(described, 1)), "searched"))
    search, found = tab.get_by_test_id("nbgrad-search"), tab.get_by_test_id("nbgrad-found")
    if by_hand:
        search.fill("wide.weight")
        expect(found).to_have_text("2 found")
        scopes = tab.get_by_test_id("nbgrad-scope")
        for label in ("1 (Block)", "2 (Block)"):
            scopes.filter(has_text=label).first.dispatch_event("dblclick")
    weights = sum(one["kind"] == "parameter" and one["label"][0] == "weight" for one in described["nodes"])
    inside = 4 if by_hand else weights
    search.fill("weight parameter")
    expect(found).to_have_text(f"{weights} found, {inside} in folded modules")
    box = search.bounding_box()
    assert box is not None
    assert box["width"] > 80, "what was found leaves room for what is typed"
    search.fill("1.wide.weight (16, 8)")
    expect(found).to_have_text("1 found, 1 in folded modules")
    expect(tab.locator(".nbg-match.nbg-folded")).to_have_count(1)
    search.press("Enter")
    # A click in the page unfolds what the page folded. Here no kernel can unfold what it has folded.
    expect(details(tab).locator("h3")).to_have_text("weight" if by_hand else re.compile("Block"))
    search.fill("nothing of this name")
    expect(found).to_have_text("0 found")
    search.press("Enter")
    search.fill("")
    expect(found).to_have_text("")


def test_nodes_are_found_by_words_and_by_their_place(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 2)), "search"))
    search = tab.get_by_test_id("nbgrad-search")
    search.fill("tanh 16 block")
    expect(tab.get_by_test_id("nbgrad-found")).to_have_text("2 found")
    expect(tab.locator(".nbg-match")).to_have_count(2)
    search.press("Enter")
    expect(details(tab).locator("h3")).to_have_text("tanh")
    first = tab.locator(".nbg-chosen").get_attribute("data-node-id")
    search.press("Enter")
    assert tab.locator(".nbg-chosen").get_attribute("data-node-id") != first, "the next one"
    tab.get_by_test_id("nbgrad-descendants").click()
    assert tab.locator(".nbg-node.nbg-out").count() > 8
    expect(tab.locator(".nbg-root.nbg-out")).to_have_count(0)
    tab.get_by_test_id("nbgrad-ancestors").click()
    expect(tab.locator(".nbg-root.nbg-out")).to_have_count(1)
    tab.get_by_test_id("nbgrad-path").click()
    expect(tab.locator(".nbg-status[role=status]")).to_contain_text("other end")
    node(tab, "loss = cross_entropy").dispatch_event("click")
    assert 3 <= tab.locator(".nbg-node:not(.nbg-out)").count() <= 6
    tab.keyboard.press("Escape")
    expect(tab.locator(".nbg-out")).to_have_count(0)


def test_it_fits_its_host(opened: Any) -> None:
    content = page(whole(graphs.trained(1, 1)), "themes")
    for scheme in ("light", "dark"):
        tab = opened(content, scheme)
        screenshot(tab, f"view_{scheme}")
    dark = view(tab).evaluate("e => getComputedStyle(e).backgroundColor")
    assert dark == "rgb(20, 24, 31)"
    tab.evaluate("document.body.dataset.jpThemeName = 'JupyterLab Dark High Contrast'")
    assert view(tab).evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(0, 0, 0)"
    screenshot(tab, "view_contrast")
    above, below = (node(tab, name).first.bounding_box() for name in ("x", "linear"))
    assert above["y"] + above["height"] < below["y"]
    tab.get_by_test_id("nbgrad-turn").click()
    before, after = (node(tab, name).first.bounding_box() for name in ("x", "linear"))
    assert before["x"] + before["width"] < after["x"]
    screenshot(tab, "view_sideways")
    tab.get_by_test_id("nbgrad-as-table").click()
    table = tab.get_by_test_id("nbgrad-table")
    expect(table.get_by_role("table")).to_be_visible()
    assert table.get_by_role("row").count() == 1 + tab.get_by_test_id("nbgrad-node").count()
    expect(table).to_contain_text("gradient summed (16, 3) -> (3,): sum dim 0")
    table.get_by_role("button", name=re.compile("^tanh")).click()
    expect(details(tab).locator("h3")).to_have_text("tanh")
    for locator in (view(tab), tab.locator(".nbg-stage"), tab.get_by_role("toolbar"), details(tab)):
        assert locator.get_attribute("aria-label")
    tools = tab.get_by_role("toolbar")
    expect(tools.get_by_role("button", name=re.compile(r"^Findings \(\d+\)$|^Findings$"))).to_be_visible()
    expect(tools.get_by_role("button", name="Zoom out", exact=True)).to_have_text("−")
    tab.set_viewport_size({"width": 420, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    screenshot(tab, "view_narrow")


def test_the_table_says_of_a_gradient_what_the_picture_says(opened: Any) -> None:
    def gradients(description: Description) -> list[str]:
        tab = opened(page(lay_out(description), "table"))
        tab.get_by_test_id("nbgrad-as-table").click()
        return tab.get_by_test_id("nbgrad-table").locator("tbody td:nth-of-type(4)").all_inner_texts()

    assert gradients(graphs.unwatched()) == ["not kept", "none", "not kept", "not kept"]
    uses = gradients(graphs.shared(7))
    assert uses.count("norm 28 in all") == 7, "of each use"
    assert "none" not in uses
    folded = graphs.trained(1, 1)
    shown = lay_out(folded, folding=Folding(frozenset({"s0"})))
    tab = opened(page(shown, "folded"))
    tab.get_by_test_id("nbgrad-as-table").click()
    row = tab.get_by_test_id("nbgrad-table").get_by_role("row", name=re.compile("^Sequential"))
    expect(row).to_contain_text("∇ norm")


@pytest.mark.parametrize(("graph", "where"), [(graphs.stopped, "matmul"), (graphs.changed, "mul")])
def test_where_a_program_stopped_is_drawn(opened: Any, graph: Any, where: str) -> None:
    tab = opened(page(lay_out(graph()), "stopped"))
    expect(tab.locator(".nbg-note")).to_contain_text("The program stopped here")
    at = tab.locator(".nbg-has-failed, .nbg-has-inplace")
    expect(at).to_have_count(1)
    expect(at).to_have_attribute("aria-label", re.compile(rf"^(z = )?{where},"))
    at.click()
    expect(details(tab).locator(".nbg-finding").first).to_contain_text("RuntimeError")
    if graph is graphs.stopped:
        expect(details(tab)).to_contain_text("(1, 3) float32")
        expect(details(tab)).to_contain_text("(2, 1) float32")
    screenshot(tab, f"view_{tab.locator('.nbg-words strong').inner_text()}")


def test_the_uses_of_a_shared_leaf_say_that_they_are_one_tensor(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.shared(7)), "shared"))
    uses = tab.locator(".nbg-leaf")
    expect(uses).to_have_count(7)
    expect(uses.nth(2)).to_contain_text("use 3 of 7")
    expect(uses.nth(2)).to_contain_text("∇ 28 in all")
    tab.get_by_test_id("nbgrad-fit").click()
    uses.nth(2).click()
    expect(tab.locator(".nbg-same")).to_have_count(7)
    expect(tab.locator(".nbg-on.nbg-leaf")).to_have_count(7)
    expect(details(tab)).to_contain_text("Used by: their gradients are added")
    expect(details(tab).get_by_role("button", name=re.compile("^mul as a.*value 6"))).to_be_visible()
    screenshot(tab, "view_shared")
    expect(opened(page(lay_out(graphs.shared(4)), "few")).locator(".nbg-leaf")).to_have_count(1)


def test_all_that_was_asked_for_is_lit_and_no_note_covers_it(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "ancestors"))
    tab.get_by_test_id("nbgrad-fit").click()
    tab.locator(".nbg-node.nbg-root").click()
    lit = ".nbg-node:not(.nbg-out)"
    opacities = "all => new Set(all.map(e => getComputedStyle(e).fillOpacity)).size"
    assert tab.locator(lit).evaluate_all(opacities) == 2
    details(tab).get_by_test_id("nbgrad-ancestors").click()
    assert tab.locator(lit).evaluate_all(opacities) == 1
    note, stage = tab.locator(".nbg-status[role=status]"), tab.locator(".nbg-stage")
    expect(note).to_contain_text("Only these boxes are highlighted")
    assert note.evaluate("e => e.getBoundingClientRect().bottom") <= stage.evaluate(
        "e => e.getBoundingClientRect().top"
    )
    screenshot(tab, "view_ancestors")


def test_the_focus_stays_in_the_picture(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "focus"))
    focused = "document.activeElement.closest('.nbg-stage') && document.activeElement.dataset.nodeId"
    node(tab, "tanh").focus()
    tab.keyboard.press("t")
    expect(tab.get_by_test_id("nbgrad-table")).to_be_focused()
    tab.keyboard.press("t")
    expect(node(tab, "tanh")).to_be_focused()
    for close in ("Escape", "t"):
        tab.keyboard.press("t")
        tab.keyboard.press(close)
        assert tab.evaluate(focused)
    tanh = node(tab, "tanh")
    tanh.focus()
    tab.keyboard.press("f")
    expect(tab.locator(".nbg-folded")).to_be_focused()
    tab.keyboard.press("f")
    assert tab.locator(".nbg-folded").count() == 0
    inside = [one["id"] for one in graphs.trained(1, 1)["nodes"] if one["scope"] not in (None, "s0", "s1")]
    assert tab.evaluate(focused) in inside


def test_arrows_walk_the_way_that_the_picture_runs(opened: Any) -> None:
    ways = {"TB": ("Down", "Up", "Right", "Left"), "LR": ("Right", "Left", "Down", "Up")}
    for direction, (on, back, after, before) in ways.items():
        tab = opened(page(lay_out(graphs.shared(3), direction=direction), direction))
        root = tab.locator(".nbg-root")
        tab.locator(".nbg-node").first.focus()
        for _ in range(40):
            if root.evaluate("e => e === document.activeElement"):
                break
            tab.keyboard.press(f"Arrow{on}")
        expect(root).to_be_focused()
        tab.keyboard.press(f"Arrow{back}")
        expect(root).not_to_be_focused()
        places = []
        along = "x" if direction == "LR" else "y"
        for key in [before] * 30 + [after] * 30:
            tab.keyboard.press(f"Arrow{key}")
            places.append(tab.evaluate(f"document.activeElement.getBoundingClientRect().{along}"))
        moved = [b - a for a, b in pairwise(places)]
        assert max(moved[:29]) < 2, "row by row, or column by column"
        assert min(moved[30:]) > -2
        assert max(moved[30:]) > 20


def test_no_key_of_the_view_reaches_the_notebook(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "letters"))
    tab.evaluate("window.heard = []; document.addEventListener('keydown', event => window.heard.push(event.key))")
    for focused in (node(tab, "tanh"), tab.get_by_test_id("nbgrad-fit"), tab.locator(".nbg-stage")):
        focused.focus()
        for key in "axdzv":
            tab.keyboard.press(key)
    assert tab.evaluate("window.heard") == [], "in a notebook x cuts the cell"
    tab.keyboard.press("Control+s")
    assert tab.evaluate("window.heard") == ["Control", "s"]
    node(tab, "tanh").focus()
    tab.keyboard.press("S")
    expect(tab.get_by_test_id("nbgrad-step")).to_be_focused()
    tab.keyboard.press("s")
    expect(tab.get_by_test_id("nbgrad-player")).to_be_hidden()
    expect(node(tab, "tanh")).to_be_focused()


def test_arrows_choose_a_direction(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "radio"))
    forward, backward, both = (tab.get_by_test_id(f"nbgrad-{one}") for one in ("forward", "backward", "both"))
    both.focus()
    for key, chosen in [("Right", both), ("Left", backward), ("Up", forward), ("Left", forward), ("Down", backward)]:
        tab.keyboard.press(f"Arrow{key}")
        expect(chosen).to_be_focused()
        expect(chosen).to_have_attribute("aria-checked", "true")
    expect(tab.locator(".nbg-edge:not(.nbg-none) .nbg-value").first).to_be_hidden()


PAINTED = """(layers) => {
    const brush = document.createElement("canvas").getContext("2d");
    for (const layer of layers) {
        brush.fillStyle = layer;
        brush.fillRect(0, 0, 1, 1);
    }
    return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def luminance(colour: list[int]) -> float:
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_small_letters_can_be_read_in_the_colours_of_jupyterlab(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "letters"))
    inks = (
        "--jp-ui-font-color1: rgba(0, 0, 0, 0.87); --jp-ui-font-color2: rgba(0, 0, 0, 0.54); --jp-layout-color0: #fff"
    )
    tab.evaluate("inks => document.documentElement.setAttribute('style', inks)", inks)
    colour = "(e, what) => getComputedStyle(e)[what]"
    for words, on in [
        (".nbg-parameter .nbg-line", ".nbg-parameter .nbg-shape"),
        (".nbg-root .nbg-line", ".nbg-root .nbg-shape"),
    ]:
        ink, card = (tab.locator(one).first.evaluate(colour, "fill") for one in (words, on))
        light, dark = sorted(
            (luminance(tab.evaluate(PAINTED, layers)) for layers in ([card], [card, ink])), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) > 4.5
    tab.get_by_test_id("nbgrad-legend").click()
    ink = tab.locator(".nbg-help").evaluate(colour, "color")
    assert 1.05 / (luminance(tab.evaluate(PAINTED, ["white", ink])) + 0.05) > 4.5
    assert tab.locator(".nbg-help").evaluate(colour, "opacity") == "1"


def test_a_page_that_runs_from_right_to_left_turns_no_shape_around(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "rtl"))
    ends = "e => [0, e.getNumberOfChars() - 1].map(at => e.getStartPositionOfChar(at).x)"
    tab.evaluate("document.documentElement.dir = 'rtl'")
    words = [head for head in tab.locator(".nbg-head").all() if len(head.text_content() or "") > 1]
    assert len(words) > 10, "more than names of one letter"
    for word in words:
        begin, end = word.evaluate(ends)
        assert begin < end, word.text_content()
    expect(view(tab)).to_have_css("direction", "ltr")


def test_forced_colours_show_which_direction_is_chosen(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(1, 1)), "forced"))
    tab.emulate_media(forced_colors="active")
    for one, adjusted in (("both", "none"), ("forward", "auto")):
        expect(tab.get_by_test_id(f"nbgrad-{one}")).to_have_css("forced-color-adjust", adjusted)


def test_what_is_seen_whole_stays_so_beside_a_panel(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.shared(3), direction="LR"), "wide"))
    edges = "e => [e.getBoundingClientRect().left, e.getBoundingClientRect().right]"
    tab.get_by_test_id("nbgrad-fit").click()
    before = tab.locator(".nbg-stage > g").evaluate(edges)
    tab.get_by_test_id("nbgrad-findings").click()
    (left, right), (start, end) = (tab.locator(one).evaluate(edges) for one in (".nbg-stage > g", ".nbg-stage"))
    assert start <= left < right <= end
    tab.keyboard.press("Escape")
    assert tab.locator(".nbg-stage > g").evaluate(edges) == pytest.approx(before, abs=1)


def test_the_tools_fit_into_one_row_of_a_cell(opened: Any) -> None:
    tab = opened(page(lay_out(graphs.trained(12, 1)), "tools"))
    tab.set_viewport_size({"width": 958, "height": 800})  # a cell beside JupyterLab's files, 1,366 pixels wide
    heights = tab.locator(".nbg-rail > :not([hidden])").evaluate_all("all => all.map(e => e.getBoundingClientRect())")
    middles = [round(box["y"] + box["height"] / 2) for box in heights]
    assert max(middles) - min(middles) <= 2


def points_in(path: str) -> list[tuple[float, float]]:
    """The points of a path of an SVG or of a polygon: in the order in which they are written."""
    found: list[tuple[float, float]] = []
    start = (0.0, 0.0)
    for command, numbers in re.findall(r"([MCclz]?)([^MCclz]*)", path):
        values = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", numbers)]
        for at, (x, y) in enumerate(zip(values[::2], values[1::2], strict=True)):
            if command in ("c", "l") and (at % 3 == 0 or command == "l"):
                start = found[-1]
            found.append((x + start[0], y + start[1]) if command in ("c", "l") else (x, y))
    return found


def drawn(picture: Any, tab: Page) -> tuple[list[float], list[float]]:
    """The coordinates of every edge and arrow head: those of the SVG, and those of the front end.

    Each arrow head is where it is nearest to one of the SVG.
    """
    found = ElementTree.fromstring(svg(picture))
    graph = found.find("{*}g[@transform]")
    assert graph is not None
    shapes = [one for one in graph.iter() if re.fullmatch(r"nbgs-(value|back|faint|wrong)", one.get("class") or "")]
    heads = [one.get("d") or "" for one in graph if (one.get("class") or "").endswith("-tip")]
    tips = [points_in(head) for path in heads for head in re.findall(r"M[^M]*", path)]
    ours = [points_in(one.get("d") or "") for one in shapes]
    lines = tab.locator(".nbg-edge :is(.nbg-value, .nbg-back)").evaluate_all("all => all.map(e => e.getAttribute('d'))")
    ends = tab.locator(".nbg-edge polygon").evaluate_all("all => all.map(e => e.getAttribute('points'))")
    theirs, others = [points_in(line) for line in lines], [points_in(end) for end in ends]
    assert len(others) == len(tips)
    for other in others:
        near = min(tips, key=lambda one: sum(dist(a, b) for a, b in zip(one, other, strict=True)))
        tips.remove(near)
        ours.append(near)
        theirs.append(other)
    flat = [[one for points in group for point in points for one in point] for group in (ours, theirs)]
    return flat[0], flat[1]


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_the_curves_are_those_of_the_svg(opened: Any, direction: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for description in (graphs.trained(1, 1), graphs.recurrent(), graphs.unwatched()):
        picture = lay_out(description, direction=direction)
        ours, theirs = drawn(picture, tab := opened(page(picture, "curves")))
        assert len(ours) > 20
        assert theirs == pytest.approx(ours, abs=0.11)  # one side rounds a half down, the other up
        for size in ("TIP_LENGTH", "TIP_SIDE"):
            with monkeypatch.context() as patch:  # does this test notice a change?
                patch.setattr(curves, size, getattr(curves, size) + 0.5)
                assert drawn(picture, tab)[0] != pytest.approx(theirs, abs=0.11)
