"""Two graphs in one picture: one camera, one selection, and what differs is marked."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.comparison import Comparison
from nbgrad.widgets.describe_comparison import outline_comparison
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Layout
from nbgrad.widgets.folding.choose import Folding, folded_below
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from tests.core.test_graph_comparison import run


def activations() -> Comparison:
    """A sigmoid against a ReLU that a dropout follows."""
    left = run("sigmoid", nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
    right = run("relu", nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Tanh())
    return nbgrad.compare(left, right)


def test_both_graphs_are_in_one_description_that_names_what_differs() -> None:
    described = outline_comparison(activations()).detail()
    assert described["name"] == "sigmoid against relu"
    tops = [scope["label"] for scope in described["scopes"] if scope["parent"] is None]
    assert tops == ["sigmoid", "relu"]
    nodes = {node["id"]: node for node in described["nodes"]}
    assert all(described["twins"][twin] == one for one, twin in described["twins"].items())
    (sigmoid,) = [node for node in nodes.values() if node["op"] == "sigmoid"]
    relu = nodes[described["twins"][sigmoid["id"]]]
    assert relu["op"] == "relu"
    assert any("sigmoid against relu" in line for line in relu["label"])
    row = {one["term"]: one["text"] for one in relu["details"]}
    assert row["against sigmoid"].startswith("sigmoid against relu, value by ")
    (alone,) = [node for node in nodes.values() if node["op"] == "tanh"]
    assert alone["id"] not in described["twins"]
    assert alone["label"][-1] == "≠ only in relu"
    assert [badge["kind"] for badge in alone["badges"]] == ["warning"]
    (x,) = [node for node in nodes.values() if node["id"][0] == "a" and node["label"][0] == "x"]
    assert not any("≠" in line for line in x["label"]), "the same on both sides"


def test_modules_have_counterparts_too() -> None:
    described = outline_comparison(activations()).description
    labels = {scope["id"]: scope["label"] for scope in described["scopes"]}
    pairs = {(labels[a], labels[b]) for a, b in described["twins"].items() if a in labels}
    assert {("sigmoid", "relu"), ("1 (Sigmoid)", "1 (ReLU)"), ("0 (Linear)", "0 (Linear)")} <= pairs


def test_colours_have_one_scale_for_both_sides() -> None:
    comparison = activations()
    described = outline_comparison(comparison).description
    assert described["colour"] == "own-value", "all gradients differ after a value does"
    assert [one["key"] for one in described["overlays"]] == ["own-value", "own-gradient", "gradient"]
    levels = {node["id"]: node["levels"] for node in described["nodes"]}
    for a, b in described["twins"].items():
        if a in levels:
            for key in ("own-gradient", "own-value"):
                assert levels[a].get(key) == levels[b].get(key)
    strongest = max((pair for pair in comparison.pairs if pair.gradient is not None), key=lambda pair: pair.gradient)
    at = comparison.records[0].index(strongest.left)
    assert levels[f"an{at}"]["own-gradient"] == 1.0


def test_steps_go_through_both_and_an_outline_can_be_put_away() -> None:
    outline = outline_comparison(activations())
    described = outline.detail()
    sides = [step["node"][0] for step in described["steps"]]
    assert set(sides) == {"a", "b"}
    edges = {edge["id"] for edge in described["edges"]}
    assert all(given["edge"] in edges for step in described["steps"] for given in step["given"])
    assert Outline.taken_out(outline.put_away()).detail() == described


def above(layout: Layout) -> bool:
    return layout["scopes"]["aside"]["y"] < layout["scopes"]["bside"]["y"]


def test_the_left_graph_comes_first_in_both_directions() -> None:
    outline = outline_comparison(activations())
    down, across = (lay_out(outline, direction=direction, folding=Folding())["layout"] for direction in ("TB", "LR"))
    assert down["scopes"]["aside"]["x"] < down["scopes"]["bside"]["x"]
    assert above(across)
    for layout in (down, across):
        for name, box in layout["nodes"].items():
            frame = layout["scopes"][f"{name[0]}side"]
            assert frame["x"] <= box["x"], name
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]
            assert frame["y"] <= box["y"]
            assert box["y"] + box["height"] <= frame["y"] + frame["height"]
        for name, runs in layout["edges"].items():
            frame = layout["scopes"][f"{name[0]}side"]
            assert all(frame["y"] <= y <= frame["y"] + frame["height"] for curve in runs for _, y in curve)


def test_equal_sides_are_not_drawn_as_one_block_twice() -> None:
    left, right = (run("net", nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2))
    outline = outline_comparison(nbgrad.compare(left, right, ("before (net)", "after (net)")))
    drawn = lay_out(outline, folding=folded_below(outline, 0))["description"]
    assert sorted(node["label"][0] for node in drawn["nodes"]) == ["after (net)", "before (net)"]


def test_it_is_saved_in_every_format(tmp_path: Path) -> None:
    comparison = activations()
    for suffix in ("svg", "html", "txt", "json", "dot"):
        comparison.save(tmp_path / f"both.{suffix}")
    assert "only in relu" in (tmp_path / "both.txt").read_text()
    assert "≠ only in relu" in (tmp_path / "both.svg").read_text()
    assert json.loads((tmp_path / "both.json").read_text())["twins"]
    assert svg(lay_out(outline_comparison(comparison))) == (tmp_path / "both.svg").read_text(), "the same bytes"


def node(tab: Page, name: str) -> Any:
    return tab.locator(f'[data-testid=nbgrad-node][data-node-id="{name}"]')


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_what_is_chosen_lights_up_on_both_sides_and_folding_folds_both(opened: Any) -> None:
    outline = outline_comparison(activations())
    described = outline.detail()
    sigmoid = next(one["id"] for one in described["nodes"] if one["op"] == "sigmoid")
    relu = described["twins"][sigmoid]
    tab = opened(page(whole(outline, folding=Folding()), "both"))
    expect(tab.get_by_test_id("nbgrad-scale")).to_contain_text("difference of values")
    node(tab, sigmoid).click()
    for one in (sigmoid, relu):
        assert "nbg-on" in (node(tab, one).get_attribute("class") or "")
    assert "nbg-same" in (node(tab, relu).get_attribute("class") or "")
    tab.get_by_role("button", name="relu on the other side").click()
    expect(tab.locator(".nbg-chosen")).to_have_attribute("data-node-id", relu)
    tab.keyboard.press("Escape")
    tab.get_by_test_id("nbgrad-fit").click()
    tab.locator('[data-testid=nbgrad-scope][aria-label*="Sequential"]').first.dblclick()
    expect(tab.locator(".nbg-folded")).to_have_count(2)
    tab.locator(".nbg-folded").first.click()
    expect(tab.locator(".nbg-folded.nbg-same")).to_have_count(2)


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_kernel_folds_both_sides_too() -> None:
    from nbgrad.widgets.view import GraphView

    outline = outline_comparison(activations())
    view = GraphView(outline, folding=Folding())
    labels = {scope["label"]: scope["id"] for scope in outline.description["scopes"] if scope["id"][0] == "a"}
    view.request = {"toggle": [labels["Sequential"]], "count": 1}
    from tools.unpacking import unpacked

    drawn = unpacked(view.picture)["description"]["nodes"]
    assert sum(one["kind"] == "folded" for one in drawn) == 2
    view.request = {"toggle": [labels["Sequential"]], "count": 2}
    assert not any(one["kind"] == "folded" for one in unpacked(view.picture)["description"]["nodes"])
    view.close()


def test_torch_against_nbgrad_says_that_nothing_differs() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    data = torch.randn(5, 3)
    with nbgrad.AutogradGraph("torch") as left:
        net(data).pow(2).sum().backward()
    with nbgrad.AutogradGraph("nbgrad") as right:
        nbgrad.from_torch(net)(nbgrad.tensor(data)).pow(2).sum().backward()
    described = outline_comparison(nbgrad.compare(left, right)).detail()
    rows = [row["text"] for one in described["nodes"] for row in one["details"] if row["term"] == "against torch"]
    assert "nothing differs, up to rounding" in rows
