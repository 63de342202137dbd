"""What if a number were another? The texts of a run in a notebook, and those that an exported page computes."""

import gc
import json
import re
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rerun import RerunError, rerun_of
from nbgrad.core.symbolic.exports.page import kernels
from nbgrad.widgets import view
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.schema import Supposed
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.pipeline import whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.what_if_page import NUMBERS, what_if_program
from nbgrad.widgets.what_if import WhatIf
from tests.widgets.collisions import COLLISIONS


class Recorded:
    """A graph, and the objects that keep its tensors alive."""

    def __init__(self, build: Callable[[], Any], **options: Any) -> None:
        torch.manual_seed(0)
        with AutogradGraph("recorded", **options) as self.graph:
            self.held = build()
        self.what_if = WhatIf(rerun_of(self.graph))
        self.description = describe(self.graph)

    def ask(self, node: str, place: int = 0, *, nudge: bool = False, **changes: dict[str, float]) -> Supposed:
        asked = {"node": node, "place": place, "changes": changes, "nudge": nudge}
        return self.what_if.answer(asked, self.description)

    def node(self, name: str) -> str:
        return next(one["id"] for one in self.description["nodes"] if one["label"][0] == name)


def small() -> Any:
    w = nbgrad.tensor([[0.5, -1.0], [2.0, 3.0]], requires_grad=True)
    w.name = "w"
    x = nbgrad.tensor([1.0, 2.0])
    loss = ((w * x).tanh() ** 2).sum()
    loss.backward()
    return w, x, loss


def network() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    x, y = nbgrad.tensor(torch.randn(5, 4)), nbgrad.tensor([0, 2, 1, 1, 2])
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return net, x, y, loss


def mixed() -> Any:
    a = nbgrad.tensor(torch.rand(3, 4) + 0.5, requires_grad=True)
    b = nbgrad.tensor(torch.rand(4) + 0.5, requires_grad=True)
    first, second = a.split(2, 1)
    c = nbgrad.where(a > 0.8, a.log(), a * b)
    loss = (c.sum(0) * b.exp()).mean() + (first * second).amax() + (a @ b).softmax(0)[1]
    loss.backward()
    return a, b, loss


def images() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2, stride=2, dilation=2, groups=2),
        nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    x, y = nbgrad.tensor(torch.randn(2, 1, 12, 12)), nbgrad.tensor([0, 2])
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return net, x, y, loss


PROGRAMS = [small, network, mixed, images]


@pytest.mark.parametrize("build", PROGRAMS)
def test_the_recorded_numbers_give_the_recorded_texts(build: Callable[[], Any]) -> None:
    recorded = Recorded(build)
    for node in recorded.description["nodes"]:
        told = recorded.ask(node["id"])
        if told["shape"] is None or told["whole"]:
            continue
        told = recorded.ask(node["id"], **{node["id"]: {"0": float(told["was"])}})
        assert told["said"] == ""
        assert told["notes"] == []
        for one in recorded.description["nodes"]:
            value, rule = told["texts"].get(one["id"], ["", ""])
            lines = [line for line in one["label"][1:] if line.startswith("value ")]
            at = one["label"].index(lines[0]) if lines else 0
            assert (
                value.replace(" ", "").replace("\n", "") == "".join(one["label"][at:]).replace(" ", "")
                if lines
                else value == ""
            )
            assert rule == (one["rule"] or "")
        edges = [one for one in recorded.description["edges"] if node["id"] in (one["source"], one["target"])]
        came = {one["id"]: one["gradient"] for one in edges if one["gradient"] is not None}
        assert told["edges"] == came
        assert told["value"] == node["value"]
        assert told["gradient"] == node["gradient"]
        loss = next(one for one in recorded.description["nodes"] if one["root"])
        number = loss["label"][loss["numbers"][0]].removeprefix("value ")
        assert told["result"] == f"loss {number}, was {number}" or told["result"].endswith(f"{number}, was {number}")


def test_a_changed_number() -> None:
    recorded = Recorded(small)
    w = recorded.held[0]
    leaf = recorded.node("w")
    before = recorded.ask(leaf, 2)
    assert (before["shape"], before["place"], before["number"], before["was"]) == ([2, 2], 2, "2", "2")
    assert before["grid"] == ["0.5", "-1", "2", "3"]
    assert before["texts"] == {}
    told = recorded.ask(leaf, 2, **{leaf: {"2": 0.25}})
    assert (told["number"], told["was"]) == ("0.25", "2")
    fresh = nbgrad.tensor([[0.5, -1.0], [0.25, 3.0]], requires_grad=True)
    loss = ((fresh * nbgrad.tensor([1.0, 2.0])).tanh() ** 2).sum()
    loss.backward()
    assert told["result"].startswith(f"loss {loss.item():.4g}, was ")
    assert told["texts"][leaf][1].startswith("∇ [[")
    assert told["value"]["cells"] == ["0.5", "-1", "0.25", "3"]
    assert w.data[1, 0] == 2.0
    assert torch.equal(w.grad.data, recorded.held[0].grad.data)


def test_a_nudge_in_words() -> None:
    recorded = Recorded(small)
    leaf = recorded.node("w")
    said = recorded.ask(leaf, 0, nudge=True)["nudge"]
    found = re.fullmatch(
        r"Central difference with h = (\S+): (\S+)\. The gradient: (\S+)\. They differ by (\S+)%\.", said
    )
    assert found is not None, said
    assert float(found[2]) == pytest.approx(float(found[3]), rel=2e-3)


def test_what_cannot_be_run_again_says_so() -> None:
    def gone() -> Any:
        x = nbgrad.tensor(torch.randn(2000), requires_grad=True)
        loss = (x * nbgrad.ones(2000)).sum()
        loss.backward()
        return x, loss

    recorded = Recorded(gone)
    said = recorded.ask("n0", n0={"0": 1.0})["said"]
    assert said.startswith("What if: the constant of shape (2000,) no longer exists")
    assert recorded.ask("n0")["shape"] == [2000]


def test_it_answers_when_a_later_cell_has_assigned_every_name_again() -> None:
    recorded = Recorded(network)
    weight = next(one["id"] for one in recorded.description["nodes"] if one["kind"] == "parameter")
    before = recorded.ask(weight, **{weight: {"0": 1.0}})
    del recorded.held
    gc.collect()
    assert recorded.ask(weight, **{weight: {"0": 1.0}}) == before
    assert before["said"] == ""


@pytest.mark.browser
def test_no_text_covers_another_in_another_run(opened: Any, tmp_path: Path) -> None:
    tab: Page = opened(saved(Recorded(small), tmp_path))
    tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    place = tab.locator(".nbg-stage").bounding_box()
    for number in ("-1.23456", "123456", "0.00012345"):
        tab.get_by_test_id("nbgrad-what-if-number").fill(number)
        expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_contain_text("What if: w[0, 0] = ")
        tab.wait_for_timeout(100)
        assert tab.evaluate(COLLISIONS) == [], number
    assert tab.locator(".nbg-stage").bounding_box() == place, "nothing jumps"
    ends = tab.locator(".nbg-range span").all_text_contents()
    assert ends == ["-0.5", "1.5"], "the ends of the slider have numbers"
    banner = tab.get_by_test_id("nbgrad-what-if-banner").inner_text()
    assert max(map(len, re.findall(r"\d+", banner))) <= 8, "a reader compares few digits"


def chain() -> Any:
    w = nbgrad.tensor(0.5, requires_grad=True)
    w.name = "w"
    prediction_error: Any = w
    for op in (nbgrad.exp, nbgrad.tanh, nbgrad.exp, nbgrad.sin, nbgrad.tanh):
        prediction_error = prediction_error * 1.25 + op(prediction_error)
    prediction_error.backward()
    return w, prediction_error


WRITTEN = """node => [...node.querySelectorAll("text")].filter(text => text.getBoundingClientRect().width)
    .map(text => text.textContent).join()"""


@pytest.mark.browser
def test_a_box_of_one_line_says_the_numbers_of_another_run(opened: Any) -> None:
    recorded = Recorded(chain)
    picture = whole(recorded.description, on=Stage(500, 338))
    assert "line" in picture["layout"]["forms"].values()
    program = what_if_program(recorded.graph, "prediction_error", {})
    tab: Page = opened(page(picture, "chain", program), size=(524, 620))
    tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    tab.get_by_test_id("nbgrad-what-if-number").fill("0.70312")
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_contain_text("What if: w = ")
    tab.locator(".nbg-panel .nbg-close").click()
    tab.wait_for_timeout(400)
    w = tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]')
    assert w.locator(".nbg-tail").text_content() == "value 0.7031", "not the recorded number"
    assert tab.evaluate(COLLISIONS) == []
    for tool in ("zoom-in", "zoom-in", "fit"):
        tab.get_by_test_id(f"nbgrad-{tool}").click()
        said = w.evaluate(WRITTEN)
        assert "0.7031" in said, tool
        assert "0.5" not in said, tool
    for _ in range(6):
        tab.get_by_test_id("nbgrad-zoom-in").click()
    assert tab.locator(".nbg-node", has_text="mul").first.locator(".nbg-tail").text_content() == "× 1.25"


@pytest.mark.parametrize("size", [(1171, 631), (790, 480), (390, 700)])
@pytest.mark.browser
def test_a_gradient_of_a_step_covers_no_box(opened: Any, size: tuple[int, int], tmp_path: Path) -> None:
    recorded = Recorded(network)
    recorded.graph.save(tmp_path / "steps.html")
    tab: Page = opened((tmp_path / "steps.html").read_text(encoding="utf-8"), size=size)
    tab.get_by_test_id("nbgrad-steps").click()
    for _ in range(4):
        assert tab.evaluate(COLLISIONS) == []
        tab.get_by_test_id("nbgrad-next").click()


def test_the_gradients_that_a_reader_is_asked_for_stay_hidden() -> None:
    recorded = Recorded(small, ask="w")
    leaf = recorded.node("w")
    told = recorded.ask(leaf, **{leaf: {"0": 1.0}})
    assert told["texts"][leaf][1] == ""
    assert told["gradient"] is None
    edge = next(one["id"] for one in recorded.description["edges"] if one["source"] == leaf)
    assert edge not in told["edges"]
    assert "asked for" in recorded.ask(leaf, nudge=True)["said"]
    with pytest.raises(ValueError, match="asks its reader for gradients"):
        what_if_program(recorded.graph, "loss", recorded.description.get("sums", {}))


def test_300_ops_are_run_and_written_twenty_times_a_second() -> None:
    """The time is processor time: it depends less on the load of the machine."""

    def deep() -> Any:
        weights = [nbgrad.tensor(torch.randn(16, 16) * 0.3, requires_grad=True) for _ in range(100)]
        x = h = nbgrad.tensor(torch.randn(8, 16))
        for weight in weights:
            h = (h @ weight).tanh() * 1.1
        loss = (h**2).mean()
        loss.backward()
        return weights, x, loss

    recorded = Recorded(deep)
    assert sum(one["kind"] == "op" for one in recorded.description["nodes"]) == 302
    took = []
    for number in range(15):
        start = process_time()
        told = recorded.ask("n1", n1={"0": float(number)})
        json.dumps(told)
        took.append(process_time() - start)
        assert told["said"] == ""
    assert min(took) < 1 / 20


# --- the page ------------------------------------------------------------------------------------------------------


def test_a_page_of_too_many_numbers_is_refused(tmp_path: Path) -> None:
    def large() -> Any:
        x = nbgrad.tensor(torch.randn(NUMBERS + 1), requires_grad=True)
        loss = (x * 2).sum()
        loss.backward()
        return x, loss

    recorded = Recorded(large)
    with pytest.raises(ValueError, match="save it without what_if=True"):
        recorded.graph.save(tmp_path / "page.html", what_if=True)
    with pytest.raises(ValueError, match=r"give a file that ends in \.html"):
        recorded.graph.save(tmp_path / "page.svg", what_if=True)
    del recorded.held
    with pytest.raises(RerunError, match="no longer exists"):
        recorded.graph.save(tmp_path / "page.html", what_if=True)


def saved(recorded: Recorded, tmp_path: Path) -> str:
    recorded.graph.save(tmp_path / "saved.html", what_if=True)
    return (tmp_path / "saved.html").read_text(encoding="utf-8")


ANSWER = """([program, description, asked]) => new Promise((done) => nbgradRunner(program, description, done)(asked))"""


@pytest.mark.browser
@pytest.mark.parametrize("build", PROGRAMS)
def test_a_page_gives_the_texts_of_the_kernel(build: Callable[[], Any], opened: Any, tmp_path: Path) -> None:
    recorded = Recorded(build)
    tab: Page = opened(saved(recorded, tmp_path))
    program = json.loads(what_if_program(recorded.graph, "loss", recorded.description.get("sums", {})))
    names = {one["id"]: one["label"][0] for one in recorded.description["nodes"]}
    for node, name in names.items():
        control = recorded.ask(node)
        if control["shape"] is None:
            continue
        asked = {"node": node, "place": 1, "changes": {node: {"1": 1.0}}, "nudge": False}
        wanted = recorded.what_if.answer(asked, recorded.description)
        found = tab.evaluate(ANSWER, [program, outline(recorded.graph).description, asked])
        assert found["said"] == wanted["said"] == ""
        for key in ("shape", "whole", "place", "number", "was", "grid"):
            assert found[key] == wanted[key], (name, key)
        for one, (value, rule) in wanted["texts"].items():
            alike(found["texts"][one][0], value)
            if not rule.endswith("of all results"):
                alike(found["texts"][one][1], rule)
        assert found["edges"].keys() == wanted["edges"].keys()
        for edge, text in wanted["edges"].items():
            alike(found["edges"][edge], text)
        for what in ("value", "gradient"):
            assert (found[what] is None) == (wanted[what] is None)
            if wanted[what] is not None:
                alike(found[what]["facts"], wanted[what]["facts"])
                assert found[what]["columns"] == wanted[what]["columns"]
                alike(" ".join(found[what]["cells"]), " ".join(wanted[what]["cells"]))
                assert found[what]["bars"] == wanted[what]["bars"]
        alike(found["result"].removeprefix("loss "), wanted["result"].split(" ", 1)[1])


def alike(text: str, other: str) -> None:
    """Both texts have the same words and, except for rounding, the same numbers."""
    numbers = r"-?\d+\.?\d*(?:e[+-]\d+)?"
    assert re.sub(numbers, "#", text) == re.sub(numbers, "#", other)
    mine, others = (list(map(float, re.findall(numbers, one))) for one in (text, other))
    assert mine == pytest.approx(others, rel=2e-3, abs=2e-6), (text, other)


@pytest.mark.browser
def test_the_slider_of_a_page_moves_the_picture(opened: Any, tmp_path: Path) -> None:
    recorded = Recorded(small)
    tab: Page = opened(saved(recorded, tmp_path))
    leaf = tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]')
    root = tab.locator(".nbg-root .nbg-line").last
    first, rule = root.text_content() or "", leaf.locator(".nbg-rule").all_text_contents()
    leaf.click()
    part = tab.get_by_test_id("nbgrad-what-if")
    expect(part.get_by_test_id("nbgrad-what-if-cell")).to_have_count(4)
    slider = part.get_by_role("slider", name="w[0, 0]")
    slider.focus()
    tab.keyboard.press("End")
    expect(part.get_by_test_id("nbgrad-what-if-number")).to_have_value("1.5")
    expect(root).not_to_have_text(first)
    assert leaf.locator(".nbg-rule").all_text_contents() != rule
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_contain_text("What if: w[0, 0] = 1.5.")
    expect(tab.get_by_test_id("nbgrad-losses")).to_be_hidden()  # it is that of the recording
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_have_attribute(
        "title", re.compile("findings, colours and heat maps show the recorded numbers")
    )
    wanted = recorded.ask(recorded.node("w"), **{recorded.node("w"): {"0": 1.5}})
    expect(part.get_by_test_id("nbgrad-what-if-result")).to_have_text(wanted["result"])
    expect(tab.get_by_test_id("nbgrad-heat").first).to_contain_text("1.5")

    part.get_by_role("button", name="Nudge").click()
    expect(part.get_by_test_id("nbgrad-nudge-result")).to_contain_text("Central difference")
    part.get_by_role("spinbutton", name="w[1, 0]", exact=True).fill("7")
    expect(part.get_by_role("slider", name="w[1, 0]")).to_be_visible()
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_contain_text("and 1 more")

    # Another node shows the numbers of the same run.
    tab.locator(".nbg-root").click()
    expect(tab.get_by_test_id("nbgrad-details").locator(".nbg-looks")).to_have_class(re.compile("supposed"))
    tab.get_by_test_id("nbgrad-what-if-reset").click()
    expect(root).to_have_text(first)
    assert leaf.locator(".nbg-rule").all_text_contents() == rule
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_be_hidden()
    expect(tab.locator(".nbg-looks.nbg-supposed")).to_have_count(0)


@pytest.mark.browser
def test_a_page_without_a_program_offers_nothing(opened: Any, tmp_path: Path) -> None:
    recorded = Recorded(small)
    recorded.graph.save(tmp_path / "saved.html")
    tab: Page = opened((tmp_path / "saved.html").read_text(encoding="utf-8"))
    tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    expect(tab.get_by_test_id("nbgrad-what-if")).to_have_count(0)
    assert kernels()[:100] not in tab.content()


@pytest.mark.browser
def test_steps_show_the_recording(opened: Any, tmp_path: Path) -> None:
    recorded = Recorded(small)
    tab: Page = opened(saved(recorded, tmp_path))
    root = tab.locator(".nbg-root .nbg-line").last
    first = root.text_content() or ""
    tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    tab.get_by_test_id("nbgrad-what-if-number").fill("1.25")
    expect(root).not_to_have_text(first)
    tab.get_by_test_id("nbgrad-steps").click()
    expect(root).to_have_text(first)
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_be_hidden()


AXE = Path(view.STATIC).parent / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="needs `npm ci` in nbgrad/widgets")
def test_a_checker_finds_nothing(opened: Any, tmp_path: Path) -> None:
    text = saved(Recorded(small), tmp_path)
    script = f"<script>{AXE.read_text(encoding='utf-8')}</script><title>"
    tab: Page = opened(text.replace("<title>", script, 1))
    tab.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    tab.get_by_test_id("nbgrad-what-if-number").fill("1.25")
    expect(tab.get_by_test_id("nbgrad-what-if-banner")).to_be_visible()
    from tests.widgets.test_accessibility import found

    assert found(tab) == []


class Residual(nn.Module):
    """Two layers and a way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return x + self.other(self.one(x).tanh())


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_page_that_begins_folded_runs_before_and_after_something_is_unfolded(opened: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*[Residual() for _ in range(20)])
    x = nbgrad.tensor([[0.5, -1.0, 2.0]])
    with nbgrad.record(view="none") as graph:
        loss = net(x).square().sum()
        loss.backward()
    graph.save(tmp_path / "folded.html", what_if=True)
    tab = opened((tmp_path / "folded.html").read_text(encoding="utf-8"))
    folded, root = tab.locator(".nbg-folded"), tab.locator(".nbg-root .nbg-line").last
    expect(folded).not_to_have_count(20)
    first = root.text_content() or ""
    tab.locator(".nbg-input").first.click()
    slider = tab.get_by_test_id("nbgrad-what-if-slider")
    slider.press("End")
    expect(root).not_to_have_text(first)
    then = root.text_content() or ""
    folded.first.locator(".nbg-fold").click()
    expect(tab.locator(".nbg-root .nbg-line").last).to_have_text(then)
    tab.get_by_test_id("nbgrad-what-if-banner").get_by_role("button").click()
    expect(tab.locator(".nbg-root .nbg-line").last).to_have_text(first)
