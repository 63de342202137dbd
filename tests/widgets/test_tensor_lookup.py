"""All numbers of a large tensor. The view finds them while they exist, and shows no changed numbers as the old ones."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets import tensor_lookup as module
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.schema import Numbers
from nbgrad.widgets.tensor_lookup import Holdings, shown
from nbgrad.widgets.view import GraphView
from tools.unpacking import unpacked


def levels(found: Numbers) -> "np.ndarray[Any, Any]":
    assert found["look"] is not None
    codes = np.frombuffer(found["look"]["levels"].encode(), np.uint8)
    return codes.reshape(-1, found["look"]["columns"])


def weight(rows: int = 40, columns: int = 60) -> nbgrad.Tensor:
    return nbgrad.tensor(torch.arange(rows * columns).reshape(rows, columns) - 1000.0, requires_grad=True)


def closed(w: nbgrad.Tensor) -> AutogradGraph:
    with AutogradGraph() as graph:
        (w * w).sum().backward()
    return graph


def test_a_leaf_that_has_not_changed_is_shown_whole() -> None:
    w = weight()
    holdings = Holdings(closed(w))
    found = holdings.numbers("n0", "value")
    assert found["said"] == "(40, 60) float32: one cell for each number"
    assert levels(found).shape == (40, 60)
    signs = np.sign(levels(found).astype(int) - ord("M"))
    assert (signs == np.sign(w.data.numpy()))[np.abs(w.data.numpy()) > 10].all()
    assert found["rows"][0].split() == ["-1000", "-999", "-998", "-997", "-996", "-995", "…", "54", "more"]
    assert len(found["rows"]) == 9
    assert found["rows"][-1] == "… 32 rows more"
    assert holdings.numbers("n0", "gradient")["rows"][0].startswith("     -2000")


def test_the_histogram_of_a_tensor_that_is_looked_up_is_one_of_all_its_numbers() -> None:
    data = torch.zeros(400, 600)
    data[7, 300] = -1000.0  # a sample need not have it
    w = nbgrad.tensor(data, requires_grad=True)
    graph = closed(w)
    found = Holdings(graph).numbers("n0", "value")["look"]
    assert found is not None
    assert (found["bars"], found["sample"]) == ([4, *[0] * 18, 100], "")
    (drawn,) = [node["value"] for node in describe(graph)["nodes"] if node["label"][0] == "w"]
    assert drawn is not None
    assert drawn["sample"] == "16,384 of 240,000"
    assert drawn["facts"] == found["facts"]


@pytest.mark.parametrize("what", ["value", "gradient"])
def test_numbers_that_have_changed_are_not_shown_as_those_of_the_picture(what: module.What) -> None:
    w = weight()
    holdings = Holdings(closed(w))
    (w if what == "value" else w.grad).data[3, 4] += 1e-1
    found = holdings.numbers("n0", what)
    assert found["said"] == f"The {what} has changed since this picture was made: only its statistics were kept."
    assert found["look"] is None
    assert found["rows"] == []


def test_what_is_gone_is_said_to_be_gone() -> None:
    w = weight()
    holdings = Holdings(closed(w))
    assert holdings.numbers("n1", "value")["said"] == module._LET_GO["value"]
    assert holdings.numbers("n1", "gradient")["said"] == module._LET_GO["gradient"]
    w.grad = None
    assert "has changed" in holdings.numbers("n0", "gradient")["said"]
    assert holdings.numbers("n7", "value")["said"] == "The graph has no tensor here."
    del w
    assert holdings.numbers("n0", "value")["said"] == "The tensor does not exist any more."


def test_an_open_graph_has_the_gradients_within_its_budget() -> None:
    w = weight()
    for budget, held in ((256 << 20, True), (0, False)):
        with AutogradGraph(budget=budget) as graph:
            (w * 2).sum().backward()
            found = Holdings(graph).numbers("n1", "gradient")
            assert (found["look"] is not None) == held
            assert held or "did not fit into the budget" in found["said"]
            assert Holdings(graph).numbers("n1", "value")["said"] == module._LET_GO["value"]
            assert Holdings(graph).numbers("n0", "value")["look"] is not None


def test_a_map_is_bounded_and_a_cell_is_the_mean_of_its_block() -> None:
    data = torch.zeros(256, 512)
    data[:128, :256], data[200, 400] = 2.0, math.nan
    data[:, 300] = -1.0
    found = shown("n0", "value", data)
    assert found["said"] == "(256, 512) float32: each cell is the mean of 2 x 4 numbers"
    cells = levels(found)
    assert cells.shape == (128, 128)
    assert (cells[:64, :64] == ord("Y")).all()
    assert (cells[:, 75] < ord("M")).all()
    assert cells[100, 100] == ord("n"), "no NaN is averaged away"
    assert (cells == ord("n")).sum() == 1
    assert found["look"] is not None
    assert "1 NaN" in found["look"]["facts"]


@pytest.mark.parametrize(
    ("shape", "table"),
    [((2000,), (1, 128)), ((3, 20, 30), (20, 90)), ((4, 2, 16, 16), (64, 32)), ((2, 2, 3, 10, 20), (40, 60))],
)
def test_images_stand_side_by_side(shape: tuple[int, ...], table: tuple[int, int]) -> None:
    assert levels(shown("n0", "value", torch.randn(shape))).shape == table


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64])
def test_every_type_of_numbers_has_a_map(dtype: torch.dtype) -> None:
    found = shown("n0", "value", torch.ones(40, 40).to(dtype))
    assert (levels(found) == ord("Y")).all()
    assert str(dtype).removeprefix("torch.") in found["said"]
    assert ("magnitudes" in found["said"]) == dtype.is_complex


def test_what_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2000)
    w = weight()
    assert Holdings(closed(w)).numbers("n0", "value")["said"] == "2,400 elements are too many to be read for a picture."


@pytest.mark.parametrize("away", [False, True])
def test_a_map_that_the_picture_had_no_room_for_is_shown_when_asked_for(away: bool) -> None:
    leaves = [nbgrad.tensor(torch.full((32, 32), float(at)), requires_grad=True) for at in range(40)]
    with nbgrad.AutogradGraph() as graph:
        nbgrad.stack(leaves).sum().backward()
    widget = GraphView(outline(graph), holdings=Holdings(graph))
    if away:
        widget.put_away()
        GraphView(outline(graph)).put_away()
        assert widget._outline is None
    drawn = unpacked(widget.picture)["description"]["nodes"]
    without = next(node["id"] for node in drawn if node["kind"] == "leaf" and not node["value"]["columns"])
    widget.request = {"node": without, "of": "value"}
    assert widget.numbers["said"] == "(32, 32): one cell for each number"
    assert widget.numbers["look"]["columns"] == 32
    assert set(widget.numbers["look"]["levels"]) == {"Y"}
    widget.request = {"node": "n99", "of": "value"}
    assert widget.numbers["said"] == "The graph has no tensor here."
    bare = GraphView(outline(graph))
    bare.request = {"node": "n99", "of": "value"}
    assert bare.numbers["said"] == "The tensors of this picture no longer exist."


def test_the_widget_answers_each_time() -> None:
    w = weight()
    graph = closed(w)
    widget = GraphView(describe(graph), holdings=Holdings(graph))
    answers: list[Any] = []
    widget.observe(lambda change: answers.append(change["new"]), "numbers")
    for count in (1, 2):
        widget.request = {"node": "n0", "of": "value", "count": count}
    widget.request = {"node": 7, "of": "everything", "count": 3}
    assert [answer["count"] for answer in answers] == [1, 2]
    assert answers[0]["look"] == answers[1]["look"]
    assert answers[0]["look"] is not None
