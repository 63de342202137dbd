"""The number from which a backward started is in the title, and a sum has the numbers of its parts in its box."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rerun import rerun_of
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.pipeline import drawable, lay_out
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.what_if import WhatIf


@pytest.fixture(params=["own", "torch"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """The package whose tensors a program uses."""
    return nbgrad if request.param == "own" else torch


def lines(graph: Any, name: str) -> list[str]:
    """The lines of the value in the box of the variable ``name``."""
    (node,) = [one for one in describe(graph)["nodes"] if one["variable"] == name]
    return node["label"][slice(*node["numbers"])]


def test_a_summed_loss_names_its_parts_with_their_numbers(library: ModuleType) -> None:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        a = (w * w).sum()
        b = w.sum()
        c = w.abs().mean()
        loss = a + 0.1 * b - c
        loss.backward()
    assert lines(graph, "loss") == ["value 3.4", "= 5 (a) − 0.1 (0.1 × b) − 1.5 (c)"]
    assert lines(graph, "a") == ["value 5"], "a part that is no sum has none"


def test_a_part_that_is_a_sum_has_its_own_parts(library: ModuleType) -> None:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        first, second = w.sum(), (w * w).sum()
        both = first + second
        loss = both - w.sum() * w.mean()
        loss.backward()
    assert lines(graph, "both") == ["value 4", "= -1 (first) + 5 (second)"]
    assert lines(graph, "loss") == ["value 3.5", "= 4 (both) − 0.5 (sum × mean)"]


def test_a_negative_number_that_is_subtracted_is_added(library: ModuleType) -> None:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        a, b = w.abs().sum(), w.sum()
        loss = a - b
        loss.backward()
    assert lines(graph, "loss") == ["value 4", "= 3 (a) + 1 (−b)"]


def test_pythons_sum_of_losses_is_a_sum(library: ModuleType) -> None:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        a, b, c = w.sum(), (w * w).sum(), w.mean()
        loss = sum([a, b, c])
        loss.backward()
    assert lines(graph, "loss") == ["value 3.5", "= -1 (a) + 5 (b) − 0.5 (c)"]


def a_sum_of_numbers(library: ModuleType) -> Any:
    a, b = (library.tensor(one, requires_grad=True) for one in (2.0, 3.0))
    return a * b + a


def a_weight_of_a_part(library: ModuleType) -> Any:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    return library.add(w.sum(), w.mean(), alpha=2)


def a_loop_of_losses(library: ModuleType) -> Any:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    loss = w.sum()
    for _ in range(9):
        loss = loss + (w * w).sum()
    return loss


def an_array(library: ModuleType) -> Any:
    w = library.tensor([1.0, -2.0], requires_grad=True)
    return (w * 2 + w).sum()


@pytest.mark.parametrize("build", [a_sum_of_numbers, a_weight_of_a_part, a_loop_of_losses, an_array])
def test_other_sums_are_not_written_out(build: Callable[[ModuleType], Any], library: ModuleType) -> None:
    with nbgrad.record() as graph:
        loss = build(library)
        loss.backward()
    assert len(lines(graph, "loss")) == 1


def test_another_run_has_its_own_parts() -> None:
    w = nbgrad.tensor([1.0, -2.0], requires_grad=True)
    with AutogradGraph("recorded") as graph:
        a, b = (w * w).sum(), w.sum()
        loss = a + 0.5 * b
        loss.backward()
        graph.name_variables({"w": w, "a": a, "b": b, "loss": loss})
    description = describe(graph)
    ids = {one["label"][0]: one["id"] for one in description["nodes"]}
    asked = {"node": ids["w"], "place": 0, "changes": {ids["w"]: {"0": 3.0}}, "nudge": False}
    told = WhatIf(rerun_of(graph)).answer(asked, description)
    assert told["texts"][ids["loss = add"]][0] == "value 13.5\n= 13 (a) + 0.5 (0.5 × b)"


def trained() -> AutogradGraph:
    w = nbgrad.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        for step in range(4):
            total = (w * w).sum() + step * w.mean()
            total.backward()
    return graph


def test_the_title_tells_the_loss_of_the_frame_that_is_shown(opened: Any, tmp_path: Path) -> None:
    graph = trained()
    graph.save(tmp_path / "history.html")
    tab = opened((tmp_path / "history.html").read_text(encoding="utf-8"))
    title = tab.get_by_test_id("nbgrad-losses")
    expect(title).to_have_text("total 3.5")
    tab.get_by_test_id("nbgrad-history").click()
    frame = tab.get_by_test_id("nbgrad-frame")
    frame.fill("1")
    expect(title).to_have_text("total 4.5")
    root = tab.locator(".nbg-root")
    expect(root).to_contain_text("value 4.5")
    expect(root).not_to_contain_text("×")  # the parts are those of the last backward
    frame.fill("3")
    expect(title).to_have_text("total 3.5")
    expect(root).to_contain_text("(3 × mean)")


def test_each_frame_has_the_name_of_its_own_loss(opened: Any, tmp_path: Path) -> None:
    w = nbgrad.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        for _ in range(3):
            d_loss = (w * w).sum()
            d_loss.backward()
            g_loss = (w * w).mean()
            g_loss.backward()
    graph.save(tmp_path / "two.html")
    tab = opened((tmp_path / "two.html").read_text(encoding="utf-8"))
    title = tab.get_by_test_id("nbgrad-losses")
    expect(title).to_have_text("g_loss 2.5")
    tab.get_by_test_id("nbgrad-history").click()
    tab.get_by_test_id("nbgrad-frame").fill("2")
    expect(title).to_have_text("d_loss 5")


def test_the_title_tells_each_of_several_losses_and_a_nan_in_red(opened: Any, tmp_path: Path) -> None:
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    with nbgrad.record() as graph:
        good, bad = (w * w).sum(), w.log().sum()
        torch.autograd.backward([good, bad])
    graph.save(tmp_path / "two.html")
    title = opened((tmp_path / "two.html").read_text(encoding="utf-8")).get_by_test_id("nbgrad-losses")
    expect(title).to_have_text("good 5, bad nan")
    alarm = title.evaluate("one => getComputedStyle(one).color")
    assert alarm != title.evaluate("one => getComputedStyle(one.previousSibling).color")


def test_a_gradient_that_is_not_finite_is_red_in_its_box_and_along_its_edge(opened: Any, tmp_path: Path) -> None:
    w = torch.tensor([0.0, 4.0], requires_grad=True)
    with nbgrad.record() as graph:
        root = w.sqrt()
        loss = root.sum()
        loss.backward()
    nodes = {one["label"][0]: one for one in describe(graph)["nodes"]}
    assert {name: one["spoiled"] for name, one in nodes.items()} == {
        "w": ["gradient"],
        "root = sqrt": [],
        "loss = sum": [],
    }
    assert [edge["spoiled"] for edge in describe(graph)["edges"]] == [1, 0]
    drawing = svg(lay_out(describe(graph)))
    assert ">NaN or infinity</text>" in drawing
    graph.save(tmp_path / "inf.html")
    tab = opened((tmp_path / "inf.html").read_text(encoding="utf-8"))
    red = tab.locator(".nbg-bad-gradient .nbg-rule").first.evaluate("one => getComputedStyle(one).fill")
    assert tab.locator(".nbg-root .nbg-rule").evaluate("one => getComputedStyle(one).fill") != red
    spoiled, sound = (
        tab.locator(".nbg-edge.nbg-spoiled .nbg-back"),
        tab.locator(".nbg-edge:not(.nbg-spoiled) .nbg-back"),
    )
    assert spoiled.first.evaluate("one => getComputedStyle(one).stroke") == red
    dashes = "one => getComputedStyle(one).strokeDasharray"
    assert spoiled.first.evaluate(dashes) != sound.first.evaluate(dashes), "colour alone would leave some readers out"
    tab.get_by_role("button", name="?").click()
    expect(tab.get_by_text("∇ NaN or infinity")).to_be_visible()


def test_a_nan_in_a_large_value_is_red_without_its_numbers() -> None:
    x = torch.full((20, 20), torch.nan, requires_grad=True)
    with nbgrad.record() as graph:
        x.tanh().sum().backward()
    (large,) = [one for one in describe(graph)["nodes"] if one["op"] == "tanh"]
    assert (large["spoiled"], large["numbers"]) == (["value"], [])
    assert 'class="nbgs-op nbgs-wrong"' in svg(lay_out(describe(graph)))


def test_a_folded_box_says_that_a_nan_is_inside() -> None:
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()) for _ in range(2)])
    x = torch.full((2, 3), torch.nan)
    with nbgrad.record() as graph:
        net(x).sum().backward()
    folded = [one for one in drawable(outline(graph), 3)["nodes"] if one["kind"] == "folded"]
    assert folded
    assert all(one["label"][1].endswith("NaN or Inf inside") for one in folded)
    assert all("inside" in one["spoiled"] for one in folded)
