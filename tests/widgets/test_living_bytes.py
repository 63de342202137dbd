"""The bytes of a graph in its pictures: totals, folded boxes, colours, and the timeline."""

from typing import Any

import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.folding.apply import fold
from nbgrad.widgets.folding.choose import folded_below
from nbgrad.widgets.pipeline import whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.text import text


def trained() -> AutogradGraph:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.5)), nn.Sequential(nn.Linear(64, 64), nn.Tanh())
    )
    x = torch.randn(128, 32)
    with nbgrad.record(view="none") as graph:
        net(x).pow(2).mean().backward()
    return graph


def test_the_totals_are_in_the_header_and_in_the_text() -> None:
    graph = trained()
    described = describe(graph)
    assert described["memory"] is not None
    assert described["memory"]["text"].startswith("144 KiB kept for the backward; at most ")
    lines = text(described).splitlines()
    assert lines[1] == f"Memory: {described['memory']['text']}"
    assert lines[2] == f"Memory: {graph.memory.timeline.line} (forward, then backward)"


def test_a_lesson_with_ten_numbers_says_nothing_of_memory() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (x.exp() * 2).sum().backward()
    described = describe(graph)
    assert described["memory"] is None
    assert "Memory" not in text(described)
    assert graph.memory.total == 8


def test_each_box_has_the_bytes_that_it_keeps() -> None:
    graph = trained()
    described = describe(graph)
    found = {node["op"]: node["bytes"] for node in described["nodes"] if node["kind"] == "op"}
    block = 128 * 64 * 4
    assert found["relu"] == block
    assert found["tanh"] == block
    assert sum(node["bytes"] for node in described["nodes"]) > graph.memory.total  # a shared storage counts twice
    assert max(node["levels"].get("saved", 0) for node in described["nodes"]) == 1.0


def test_a_folded_box_counts_a_storage_once() -> None:
    graph = trained()
    whole_graph = outline(graph)
    drawn = fold(whole_graph, folded_below(whole_graph, 0)).description
    (box,) = [node for node in drawn["nodes"] if node["kind"] == "folded"]
    ops = [record.id for record in graph.records if record.kind == "op" and record.scope is not None]
    kept = graph.memory.kept_by(ops)
    assert box["bytes"] == kept
    assert {"term": "Kept for the backward", "text": "144 KiB", "role": "parts"} in box["details"]
    assert box["label"][1].endswith(", 144 KiB")
    assert box["levels"]["saved"] == 1.0
    assert set(drawn["living"]) <= {node["id"] for node in drawn["nodes"]}


def test_the_frames_have_the_bytes_of_all_that_is_inside() -> None:
    graph = trained()
    scopes = {scope["label"]: scope["bytes"] for scope in describe(graph)["scopes"]}
    assert scopes["Sequential"] == graph.memory.kept_by(
        [record.id for record in graph.records if record.kind == "op" and record.scope is not None]
    )
    assert 0 < scopes["1 (Sequential)"] < scopes["Sequential"]


class Scaled(nn.Module):
    """Changes a view in place: torch does not show what this keeps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = x.tanh().clone()
        made[0].mul_(x[1])
        return made.exp()


def test_a_picture_says_at_least_where_torch_does_not_show_all() -> None:
    net, x = nn.Sequential(nn.Linear(64, 64), Scaled()), torch.randn(128, 64)
    with nbgrad.record(view="none") as graph:
        net(x).pow(2).mean().backward()
    described = describe(graph)
    folds = {scope["label"]: scope["folds"] for scope in described["scopes"]}
    assert folds["1 (Scaled)"].endswith(", at least 64 KiB")
    assert folds["Sequential"].endswith(", at least 96 KiB")
    assert "at least" not in folds["0 (Linear)"]
    assert described["memory"] is not None
    assert described["memory"]["text"].startswith("at least 96 KiB kept for the backward; at least ")
    drawn = fold(outline(graph), folded_below(outline(graph), 0)).description
    (box,) = [node for node in drawn["nodes"] if node["kind"] == "folded"]
    assert {"term": "Kept for the backward", "text": "at least 96 KiB", "role": "parts"} in box["details"]


def test_the_timeline_has_a_column_for_each_moment() -> None:
    graph = trained()
    described = describe(graph)
    memory, timeline = described["memory"], graph.memory.timeline
    assert memory is not None
    assert memory["ops"] == [one.op for one in timeline]
    assert len(described["living"]) == len(timeline)
    assert [sum(column) for column in zip(*memory["sizes"], strict=True)] == [one.total for one in timeline]
    assert sum(sizes[memory["peak"]] for sizes in memory["sizes"]) == graph.memory.peak


@pytest.mark.browser
def test_a_strip_shows_what_lives(opened: Any) -> None:
    described = describe(trained())
    tab = opened(page(whole(described), "memory"))
    expect(tab.get_by_test_id("nbgrad-memory-strip")).to_be_hidden()
    tab.get_by_test_id("nbgrad-memory").click()
    strip = tab.get_by_test_id("nbgrad-memory-strip")
    expect(strip).to_be_visible()
    expect(strip.locator(".nbg-step-title")).to_have_text(f"Peak: {trained().memory.timeline.peak}")
    expect(strip.locator("path.nbg-living")).to_have_count(5)
    tab.get_by_test_id("nbgrad-memory-earlier").click()
    expect(strip.locator(".nbg-step-title")).not_to_contain_text("Peak")
    tab.get_by_test_id("nbgrad-memory-go").click()
    expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.get_by_test_id("nbgrad-moment").focus()
    tab.keyboard.press("Escape")
    expect(strip).to_be_hidden()
    expect(tab.locator(".nbg-header")).to_contain_text("kept for the backward")
    tab.get_by_test_id("nbgrad-overlay").select_option("saved")
    expect(tab.get_by_test_id("nbgrad-scale")).to_contain_text("bytes kept for the backward (log)")
    assert tab.locator(".nbg-levelled").count() > 0
