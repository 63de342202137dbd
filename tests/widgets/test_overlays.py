"""Overlays of the user's: what their keys may be, how they are coloured, and where they are seen."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description, Node
from nbgrad.widgets.folding.choose import Folding, folded_below
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg


class Net(nn.Module):
    """Two named layers, of which one is in a container."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return self.rest(self.first(x))


def recorded() -> tuple[Net, nbgrad.AutogradGraph, nbgrad.Tensor, nbgrad.Tensor]:
    torch.manual_seed(0)
    net, x = Net(), nbgrad.tensor(torch.randn(5, 3))
    with nbgrad.AutogradGraph("net") as graph:
        loss = net(x).pow(2).mean()
        loss.backward()
    return net, graph, x, loss


def levels(graph: nbgrad.AutogradGraph, key: str = "own0") -> dict[str, float]:
    """The levels of an overlay by the names of the boxes. If boxes share a name, the shape is added."""
    nodes: list[Node] = describe(graph)["nodes"]
    return {" ".join(node["label"][:2]): node["levels"][key] for node in nodes if key in node["levels"]}


def test_keys_are_tensors_records_ids_and_names() -> None:
    net, graph, _, loss = recorded()
    pow_id = next(one.id for one in graph.records if one.op is not None and one.op.name == "pow")
    values = {net.first.weight: 0, "rest.1.bias": 10, "first.bias": 5, graph.record(loss): 2.5, pow_id: 7.5, "x": 1}
    graph.overlay("fisher", values)
    assert levels(graph) == {
        "weight (4, 3)": 0.0, "bias (2,)": 1.0, "bias (4,)": 0.5, "loss = mean ()": 0.25, "pow (5, 2)": 0.75,
        "x (5, 3)": 0.1,
    }  # fmt: skip
    (overlay,) = [one for one in describe(graph)["overlays"] if one["key"] == "own0"]
    assert overlay == {"key": "own0", "label": "fisher", "low": "0", "high": "10", "classes": []}


def test_a_module_has_a_number_for_all_in_it_that_nothing_nearer_names() -> None:
    net, graph, _, _ = recorded()
    graph.overlay("age", {net: 0.0, "rest": 1.0, net.rest[1]: 4.0, net.rest[1].weight: 2.0})
    found = levels(graph)
    assert found["weight (2, 4)"] == 0.5
    assert found["bias (2,)"] == found["linear (5, 2)"] == 1.0
    assert found["tanh (5, 4)"] == 0.25
    assert found["weight (4, 3)"] == found["linear (5, 4)"] == 0.0
    assert "pow (5, 2)" not in found


def test_modules_and_tensors_of_torch_are_keys_too() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    with nbgrad.AutogradGraph("torch") as graph:
        net(torch.randn(4, 3)).sum().backward()
    graph.overlay("own", {net[1]: 1, net[0].weight: torch.tensor(3.0, requires_grad=True), "0.bias": np.float32(2)})
    assert sorted(levels(graph).values()) == [0.0, 0.5, 1.0]


def test_a_number_may_be_a_tensor_of_one_and_a_scale_logarithmic() -> None:
    _, graph, _, _ = recorded()
    one, two = nbgrad.tensor([1e-4], requires_grad=True), np.array([[1.0]])
    values = {"first.weight": one, "first.bias": two, "rest.1.weight": 1e-2, "rest.1.bias": float("nan")}
    graph.overlay("fisher", values, log=True)
    assert levels(graph) == {"weight (4, 3)": 0.0, "bias (4,)": 1.0, "weight (2, 4)": 0.5, "bias (2,)": 1.0}
    rows = {row["term"]: row["text"] for node in describe(graph)["nodes"] for row in node["details"]}
    assert rows["fisher"] == "nan", "the last one that has it"
    assert describe(graph)["overlays"][-1]["label"] == "fisher (log)"


def test_an_overlay_with_the_name_of_another_row_is_no_code() -> None:
    _, graph, _, _ = recorded()
    graph.overlay("in your code", {"first.weight": 1.0})
    rows = [row for node in describe(graph)["nodes"] for row in node["details"] if row["term"] == "in your code"]
    assert {"term": "in your code", "text": "1"} in rows
    assert all(row["text"] != "1" for row in rows if row.get("role") == "code")


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ({"first.weigth": 1.0}, KeyError, "shows nothing called 'first.weigth'; did you mean first.weight?"),
        ({"nothing at all": 1.0}, KeyError, "shows nothing called"),
        ({10_000: 1.0}, KeyError, "has no record of 10000"),
        ({nbgrad.ones(2): 1.0}, KeyError, "has no record of a tensor of shape (2,)"),
        ({nn.Linear(1, 1): 1.0}, KeyError, "shows no call of this Linear"),
        ({2.5: 1.0}, TypeError, "not by float"),
        ({True: 1.0}, TypeError, "not by bool"),
        ([1.0], TypeError, "takes a dict of numbers"),
        ({}, ValueError, "got no numbers"),
        ({"first.weight": torch.ones(4, 3)}, ValueError, "has shape (4, 3); give one number, such as the mean"),
        ({"first.weight": torch.ones(0)}, ValueError, "has shape (0,); give one number"),
        ({"first.weight": "0.5"}, TypeError, "is of type str; give a real number"),
        ({"first.weight": None}, TypeError, "is of type NoneType; give a real number"),
        ({"first.weight": 1j}, TypeError, "give a real number"),
    ],
)
def test_what_is_no_overlay_is_refused_and_changes_nothing(values: Any, error: type[Exception], said: str) -> None:
    _, graph, _, _ = recorded()
    with pytest.raises(error, match=re.escape(said)):
        graph.overlay("fisher", values)
    assert graph.overlays == {}
    assert describe(graph)["colour"] == ""


def test_a_name_is_a_text_and_a_logarithm_needs_no_negative_numbers() -> None:
    _, graph, _, _ = recorded()
    with pytest.raises(TypeError, match="takes a name first"):
        graph.overlay({"first.weight": 1.0}, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"first\.weight' is -1; with log=True"):
        graph.overlay("fisher", {"first.weight": -1.0}, log=True)


def test_the_newest_is_shown_first_and_none_takes_one_away() -> None:
    _, graph, _, _ = recorded()
    graph.overlay("a", {"first.weight": 1})
    graph.overlay("b", {"first.weight": 2})
    graph.overlay("a", {"first.bias": 3})
    described = describe(graph)
    assert [one["label"] for one in described["overlays"][-2:]] == ["b", "a"]
    assert described["colour"] == "own1"
    graph.overlay("a", None)
    assert describe(graph)["colour"] == "own0"
    with pytest.raises(KeyError, match="has no overlay 'a'"):
        graph.overlay("a", None)
    graph.clear()
    assert graph.overlays == {}


def test_a_folded_box_has_the_largest_number_inside_it() -> None:
    net, graph, _, _ = recorded()
    graph.overlay("fisher", {net.first.weight: -3.0, net.rest[1].weight: 1.0, net.rest[1].bias: 0.0})
    described = describe(graph)
    picture = lay_out(described, folding=folded_below(described, 0))
    (box,) = [node for node in picture["description"]["nodes"] if node["kind"] == "folded"]
    assert box["levels"]["own0"] == 1.0
    graph.overlay("fisher", {"loss": 1.0})
    picture = lay_out(describe(graph), folding=folded_below(described, 0))
    (box,) = [node for node in picture["description"]["nodes"] if node["kind"] == "folded"]
    assert "own0" not in box["levels"]


def test_a_folded_box_has_a_level_in_each_overlay() -> None:
    described = trained()
    keys = {one["key"] for one in described["overlays"]}
    assert keys > {"gradient", "ratio", "update", "saved", "time", "dtype", "device", "own0"}
    picture = lay_out(described, folding=folded_below(described, 0))
    (box,) = [node for node in picture["description"]["nodes"] if node["kind"] == "folded"]
    drawn = {node["id"] for node in picture["description"]["nodes"]}
    inside = [node["levels"] for node in described["nodes"] if node["id"] not in drawn]
    for key in keys - {"dtype", "history"}:
        assert box["levels"][key] == max(level[key] for level in inside if key in level), key
    assert len({level["dtype"] for level in inside}) == 2
    assert "dtype" not in box["levels"], "the box has no class if its nodes have several"


@pytest.mark.rotated(3)
def test_a_box_has_the_same_level_whoever_folded_it(opened: Any) -> None:
    described = trained()
    scope = described["scopes"][0]["id"]
    folding = Folding(frozenset({scope}))
    found = []
    for picture in (lay_out(described, folding=folding), {**lay_out(described), "folded": [scope]}):
        tab = opened(page(picture, "folded"))
        box, choice = tab.locator(".nbg-node.nbg-folded"), tab.get_by_test_id("nbgrad-overlay")
        expect(box).to_have_count(1)
        shown = {}
        for overlay in described["overlays"]:
            choice.select_option(overlay["key"])
            shown[overlay["key"]] = box.evaluate(
                "box => [box.classList.contains('nbg-levelled'), box.classList.contains('nbg-classed'), "
                "box.style.getPropertyValue('--nbg-level')]"
            )
        found.append(shown)
    assert found[0] == found[1]
    assert found[0]["update"][0]
    assert found[0]["device"][1]
    assert found[0]["dtype"][:2] == [False, False]


def trained() -> Description:
    """A module of two element types, with a level in each overlay of a single process."""
    torch.manual_seed(0)
    net = Net()
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    x = nbgrad.tensor(torch.randn(5, 3))
    with TimedGraph("net") as graph:
        for _ in range(2):
            with nbgrad.scope("all"):
                loss = net(x).double().pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        graph.overlay("fisher", {net.first.weight: -3.0, net.rest[1].weight: 1.0})
    return describe(graph)


def test_an_open_graph_forgets_what_is_no_longer_in_it() -> None:
    w = nbgrad.tensor([2.0], requires_grad=True)
    with nbgrad.AutogradGraph("loop") as graph:
        (w * w).sum().backward()
        graph.overlay("own", {one: 1.0 for one in graph.records if one.op is not None})
        (w + 1).sum().backward()
        assert describe(graph)["colour"] == ""
        graph.overlay("own", {w: 1.0})
        (w + 1).sum().backward()
        assert describe(graph)["colour"] == "own0"


def test_a_still_picture_is_coloured_by_it_and_has_a_scale(tmp_path: Path) -> None:
    net, graph, _, _ = recorded()
    plain = svg(lay_out(describe(graph)))
    assert "nbgs-heat" not in plain
    graph.overlay("<fisher> & co", {net.first.weight: 1.0, "loss": 5.0, "x": 3.0})
    graph.save(tmp_path / "net.svg")
    drawn = (tmp_path / "net.svg").read_text()
    assert "&lt;fisher&gt; &amp; co</text>" in drawn
    boxes = re.findall(r'class="nbgs-(\w+) nbgs-heat(\d+)"[^>]*stroke-width="([^"]+)"', drawn)
    assert [one for one in boxes if one[2] != "0"] == [
        ("input", "5", "3.5"),
        ("root", "10", "6"),
        ("parameter", "0", "1"),
    ]
    assert len([one for one in boxes if one[2] == "0"]) == 11, "the scale"
    assert ".nbgs-heat10{fill:#" in drawn, "also on a dark page"
    (weight,) = re.findall(r"<g><title>weight .*?</g>", drawn, re.DOTALL)[:1]
    assert set(re.findall(r'class="nbgs-([\w-]+)', weight)) == {"parameter", "bare", "bare-sign"}
    graph.save(tmp_path / "net.png")


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_page_opens_with_it_and_offers_it_beside_its_own(opened: Any) -> None:
    net, graph, _, _ = recorded()
    graph.overlay("fisher", {net.first.weight: 1.0, net.rest[1].weight: 5.0, "loss": 2.0})
    tab = opened(page(whole(describe(graph), folding=Folding()), "net"))
    scale = tab.get_by_test_id("nbgrad-scale")
    expect(scale).to_have_text("fisher15")
    choice = tab.get_by_test_id("nbgrad-overlay")
    expect(choice).to_have_value("own0")
    assert "fisher" in choice.locator("option").all_text_contents()
    expect(tab.locator(".nbg-levelled")).to_have_count(3)
    tab.locator('[data-testid=nbgrad-node][aria-label^="weight, (2, 4)"]').click()
    assert "fisher5" in tab.get_by_test_id("nbgrad-details").inner_text().replace("\n", "")
    tab.keyboard.press("Escape")
    scope = tab.locator('[data-testid=nbgrad-scope][aria-label*="rest"]')
    scope.dblclick()
    expect(tab.locator(".nbg-folded.nbg-levelled")).to_have_count(1)
    assert tab.locator(".nbg-folded.nbg-levelled").evaluate("e => e.style.getPropertyValue('--nbg-level')") == "1"
    choice.select_option("")
    expect(scale).to_have_count(0)
