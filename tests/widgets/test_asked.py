"""Gradients that a reader is asked for: hidden in every picture until the answer is right."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.answers import names_of
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.questions import WIDTH, scaled, sealed
from nbgrad.widgets.description.schema import Question
from nbgrad.widgets.render.text import text
from nbgrad.widgets.tensor_lookup import Holdings
from nbgrad.widgets.view import GraphView
from tools.unpacking import unpacked

SUFFIXES = ("svg", "json", "html", "txt", "dot")


def chain(ask: Any = True, kind: type[nbgrad.AutogradGraph] = nbgrad.AutogradGraph) -> nbgrad.AutogradGraph:
    """L = (a * b + c) * f. No other number in it equals one of its gradients 6.203, 4.3203, -2.0301 and 4.1117."""
    with kind(ask=ask) as graph:
        a, b, c, f = (nbgrad.tensor(one, requires_grad=True) for one in (-2.1281, -3.0555, -2.3907, -2.0301))
        d = a * b + c
        L = d * f  # noqa: N806  # the lesson's name
        L.backward()
    return graph


RIGHT = {"a": 6.203, "b": 4.3203, "c": -2.0301, "d": -2.0301, "f": 4.1117}
SEEN = ("6.203", "4.32")


def said(graph: nbgrad.AutogradGraph, folder: Path) -> str:
    """The whole text of the pictures of a graph."""
    for suffix in SUFFIXES:
        graph.save(folder / f"graph.{suffix}")
    return "".join((folder / f"graph.{suffix}").read_text("utf-8") for suffix in SUFFIXES)


def test_a_row_is_hidden_for_what_it_tells_and_not_for_its_name() -> None:
    graph = chain()
    graph.overlay("step", {"a": 7.0})
    rows = [row for node in describe(graph)["nodes"] for row in node["details"] if row["term"] == "step"]
    assert rows == [{"term": "step", "text": "7"}]


def test_the_pictures_hide_what_is_asked_until_it_is_answered(tmp_path: Path) -> None:
    graph = chain()
    whole = said(graph, tmp_path)
    assert not [one for one in SEEN if one in whole]
    assert "∇ ?" in whole
    assert graph.answers == dict.fromkeys(("a", "b", "c", "d", "f"))
    for name, value in RIGHT.items():
        assert graph.answer(name, value)
    assert all(graph.answers.values())
    whole = said(graph, tmp_path)
    assert [one for one in SEEN if one in whole]
    assert "∇ ?" not in whole
    plain = chain(None)
    plain.name = graph.name
    assert [node["rule"] for node in describe(graph)["nodes"]] == [node["rule"] for node in describe(plain)["nodes"]]


def test_names_alone_hide_these_alone(tmp_path: Path) -> None:
    graph = chain("a, f")
    rules = {node["label"][0].partition(" ")[0]: node["rule"] for node in describe(graph)["nodes"]}
    assert rules["a"] == rules["f"] == "∇ ?"
    assert rules["c"] == "∇ -2.03"
    assert graph.answers == {"a": None, "f": None}
    assert (
        describe(graph)["notes"][0]
        == "Asked for: the gradients of a, f. Click a box to answer, or use graph.answer('a', ...)."
    )
    graph.answer("a", RIGHT["a"])
    assert (
        describe(graph)["notes"][0]
        == "Asked for: the gradients of f. Click a box to answer, or use graph.answer('f', ...)."
    )
    assert "6.203" in said(graph, tmp_path)


def test_a_wrong_answer_says_how_and_shows_nothing(tmp_path: Path) -> None:
    graph = chain()
    found = graph.answer("b", -RIGHT["b"])
    assert (found.right, found.kind, found.reason) == (False, "sign", "the sign is wrong")
    assert repr(found) == "∇ b ✗ not yet: the sign is wrong."
    assert graph.answers["b"] is found
    assert not [one for one in SEEN if one in said(graph, tmp_path)]
    assert repr(graph.answer("b", RIGHT["b"])) == "∇ b ✓ right"


@pytest.mark.parametrize(
    "form",
    [list, tuple, np.array, torch.tensor, nbgrad.tensor, lambda values: [nbgrad.tensor(v) for v in values]],
)
def test_an_answer_has_any_form(form: Any) -> None:
    with nbgrad.AutogradGraph(ask="w") as graph:
        w = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (w**2).sum().backward()
    assert graph.answer("w", form([2.0, 4.0, 6.0]))
    assert graph.answer("w", form([1.0, 2.0, 3.0])).kind == "factor"
    assert graph.answer("w", form([2.0, 4.0])).reason.startswith("the last element is missing")


def test_steps_and_the_mark_of_a_broadcast_say_nothing() -> None:
    with nbgrad.AutogradGraph(ask="b") as graph:
        x, b = nbgrad.tensor([[1.5, 2.5], [3.5, 4.5]]), nbgrad.tensor([7.25, 8.25], requires_grad=True)
        (x * b).sum().backward()
    described = describe(graph)
    (edge,) = [edge for edge in described["edges"] if edge["input"] == "b"]
    assert (edge["gradient"], edge["reduction"]) == ("?", None)
    given = [given for step in described["steps"] for given in step["given"] if given["edge"] == edge["id"]]
    assert given == [{"edge": edge["id"], "text": "to b: ?", "came": "?", "reduction": None, "sum": None}]
    leaf = next(node for node in described["nodes"] if node["label"][0] == "b")
    assert leaf["gradient"] is None
    assert "5, 7" not in json.dumps(described)
    graph.answer("b", [5, 7])
    assert "[5, 7]" in json.dumps(describe(graph))


def test_modules_are_asked_by_the_names_of_their_parameters(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    net[0].weight.name, net[2].weight.name = "first", "last"
    with nbgrad.AutogradGraph(ask=["first"]) as graph:
        net(nbgrad.ones(3, 2)).sum().backward()
    graph.save(tmp_path / "net.svg", depth=0)
    graph.save(tmp_path / "net.html")
    assert graph.answers == {"first": None}
    assert graph.answer("first", net[0].weight.grad)
    with pytest.raises(KeyError, match="2 tensors are called bias: set the name of each"):
        graph.answer("bias", 1.0)
    with pytest.raises(KeyError, match=r"no tensor called firts got a gradient here; there are .*did you mean first\?"):
        graph.answer("firts", 1.0)
    with pytest.raises(TypeError, match=r"the name of a tensor is expected, such as 'w', not 0"):
        graph.answer(0, 1.0)  # type: ignore[arg-type]


def test_what_is_too_large_to_be_typed_is_not_asked_for(tmp_path: Path) -> None:
    with nbgrad.AutogradGraph(ask=True) as graph:
        w, v = nbgrad.ones(50, 50).requires_grad_(), nbgrad.tensor(3.5, requires_grad=True)
        (w.sum() * v).backward()
    assert list(graph.answers) == ["v"]
    with pytest.raises(
        KeyError, match=r"the gradient of w has shape \(50, 50\): these are too many numbers to ask for"
    ):
        graph.answer("w", 1.0)
    with nbgrad.AutogradGraph(ask="w, q") as graph:
        (w.sum() * v).backward()
    assert describe(graph)["notes"][-1].startswith("Nothing called w or q got a gradient of at most 1,024 numbers")


def test_a_graph_that_is_open_is_asked_too() -> None:
    with nbgrad.AutogradGraph(ask=True) as graph:
        w = nbgrad.tensor(3.0, requires_grad=True)
        assert graph.answers == {}
        assert "∇ ?" not in text(describe(graph))
        (w * w).backward()
        graph.name_variables({"w": w})
        assert graph.answer("w", 6)
    assert graph.answers["w"]


def test_record_and_the_clock_ask_as_well() -> None:
    with nbgrad.record(view="none", ask="w", time=True) as graph:
        w = nbgrad.tensor(3.0, requires_grad=True)
        (w * w).backward()
    assert isinstance(graph, TimedGraph)
    assert graph.answers == {"w": None}
    assert graph.answer("w", 6)


@pytest.mark.parametrize(("line", "names"), [("--ask", ["a", "b"]), ("--ask a", ["a"]), ("--ask 'a, b'", ["a", "b"])])
def test_the_magic_asks(shell: InteractiveShell, line: str, names: list[str]) -> None:
    code = "import nbgrad\na, b = (nbgrad.tensor(v, requires_grad=True) for v in (1.5, 2.75))\nL = a * b\nL.backward()"
    with capture_output() as captured:
        result = shell.run_cell(f"%%autograd {line} --view text\n{code}")
    assert result.success
    graph = shell.magics_manager.registry["AutogradMagics"].last.graph
    assert list(graph.answers) == names
    assert "∇ ?" in str([output.data for output in captured.outputs])


def test_names_in_every_form() -> None:
    assert names_of("w, b") == names_of("w b") == names_of(["w", "b"]) == names_of(("w", "b")) == ("w", "b")
    assert names_of(None) == names_of(False) == names_of("") == ()
    assert names_of(True) == names_of("all") == ("all",)
    for wrong in (3, [3], nbgrad.tensor(1.0)):
        with pytest.raises(ValueError, match="ask="):
            nbgrad.record(ask=wrong)


def is_right(asked: Question, place: int, number: float) -> bool:
    """The same as answers.ts computes."""
    return sealed(place, round((scaled(number) - asked["offsets"][place]) / WIDTH)) == asked["seals"][place]


@pytest.mark.parametrize("right", [0.0, 1.0, -6.0, 0.25, 1 / 64, 1e-3, -3e4, 1e9, 12.5])
def test_a_question_knows_an_answer_as_far_as_an_answer_may_be_off(right: float) -> None:
    with nbgrad.AutogradGraph(ask="w") as graph:
        w = nbgrad.tensor(2.0, dtype=nbgrad.float64, requires_grad=True)
        (w * right).backward()
    (asked,) = describe(graph)["questions"]
    assert (asked["name"], asked["shape"]) == ("w", [])
    assert right not in asked["offsets"] or not right
    off = 1e-4 + 1e-3 * abs(right)
    for part in (0.0, 0.5, -0.5, 0.95, -0.95):
        assert is_right(asked, 0, right + part * off), part
        assert graph.answer("w", right + part * off)
    for part in (1.05, -1.05, 3.0, -3.0):
        assert not is_right(asked, 0, right + part * off), part
        assert not graph.answer("w", right + part * off)
    if right:
        assert not any(is_right(asked, 0, other) for other in (-right, 2 * right, right / 2, 0.0))


def test_a_right_answer_leaves_no_question_and_equal_numbers_have_no_equal_seals() -> None:
    with nbgrad.AutogradGraph(ask="w, v, z") as graph:
        w, v = nbgrad.ones(2, 2, requires_grad=True), nbgrad.ones(8, 9, requires_grad=True)
        z = nbgrad.tensor([0.0, 1.0], requires_grad=True)
        (w.sum() * 3 + v.sum() + z.sqrt().sum()).backward()
    (asked,) = describe(graph)["questions"]  # v is too long for an answer, and one number of z's gradient is infinite
    assert asked["name"] == "w"
    assert len(set(asked["seals"])) == 4
    assert len(set(asked["offsets"])) == 1
    graph.answer("w", 3 * np.ones((2, 2)))
    assert describe(graph)["questions"] == []


def test_the_live_view_hands_an_answer_to_the_graph() -> None:
    view = GraphView(describe(graph := chain("a, b")), holdings=Holdings(graph))
    before = view.picture
    view.request = {"answer": {"name": "a", "shape": [], "numbers": [1.0]}, "count": 1}
    assert graph.answers["a"] is not None
    assert (bool(graph.answers["a"]), view.picture) == (False, before)
    view.request = {"answer": {"name": "a", "shape": [], "numbers": [RIGHT["a"]]}, "count": 2}
    assert graph.answers["a"]
    drawn = unpacked(view.picture)["description"]
    assert [one["name"] for one in drawn["questions"]] == ["b"]
    assert "∇ 6.203" in [node["rule"] for node in drawn["nodes"]]
    holdings = view._holdings
    assert holdings is not None
    assert holdings.asks is graph
    view.put_away()
    del graph
    gc.collect()
    assert holdings.asks is None  # the view does not keep the graph alive
    view.request = {"answer": {"name": "b", "shape": [], "numbers": [1.0]}, "count": 3}


def test_the_summary_counts_the_reductions_that_are_shown() -> None:
    with nbgrad.AutogradGraph(ask="w, b") as graph:
        w, b = nbgrad.ones(3, 2, requires_grad=True), nbgrad.zeros(2, requires_grad=True)
        ((nbgrad.ones(4, 3) @ w + b) * b).sum().backward()
    described = describe(graph)
    shown = sum(edge["reduction"] is not None for edge in described["edges"])
    assert f", {shown} broadcast reductions," in described["summary"]
