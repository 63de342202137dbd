"""Findings that the user knows better about: kinds that are silenced in a graph, and one finding at one line."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.choices import KINDS, UNSILENCED
from nbgrad.core.graph.silence import silenced_kinds
from nbgrad.widgets.describe import describe

TORCH = SimpleNamespace(nn=torch.nn, tensor=torch.tensor, ones=torch.ones)
OURS = SimpleNamespace(nn=nbgrad.nn, tensor=nbgrad.tensor, ones=nbgrad.ones)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


def squashed(lib: Any, **options: Any) -> nbgrad.AutogradGraph:
    """The graph of a loss that is given probabilities: one finding, which names a line."""
    net = lib.nn.Linear(4, 3)
    with nbgrad.AutogradGraph(**options) as graph:
        scores = net(lib.ones(2, 4)).softmax(1)
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()
    return graph


def kinds(graph: nbgrad.AutogradGraph) -> list[str]:
    return [one.kind for one in graph.findings()]


@pytest.mark.parametrize("given", ["loss input", "loss-input, frozen", ["frozen", "loss_input"], ("loss input",)])
def test_a_kind_is_silenced_in_a_graph(lib: Any, given: Any) -> None:
    assert kinds(squashed(lib)) == ["loss input"]
    graph = squashed(lib, silence=given)
    assert kinds(graph) == []
    assert describe(graph)["problems"] == []
    assert all(not node["badges"] for node in describe(graph)["nodes"])
    check = graph.checkup()["losses and targets"]
    assert (check.state, check.findings, [one.kind for one in check.silenced]) == ("sound", (), ["loss input"])
    assert "1 silenced (loss input)" in repr(graph.checkup())
    assert [one.kind for one in graph.checkup().silenced] == ["loss input"]


def test_other_kinds_are_told(lib: Any) -> None:
    graph = squashed(lib, silence="vanishing")
    assert kinds(graph) == ["loss input"]
    assert graph.checkup().silenced == []


def test_verdicts_and_broadcasts_are_silenced_too(lib: Any) -> None:
    def layers(**options: Any) -> nbgrad.AutogradGraph:
        one, other = lib.nn.Linear(2, 2), lib.nn.Linear(2, 2)
        more = [lib.nn.Linear(2, 2) for _ in range(3)]
        with nbgrad.AutogradGraph(**options) as graph:
            x = lib.ones(1, 2)
            total = (one(x) * 1e-6).sum() + (other(x)).sum()
            for layer in more:
                total = total + layer(x).sum()
            total.backward()
        return graph

    assert "vanishing" in kinds(layers())
    graph = layers(silence=["vanishing"])
    assert kinds(graph) == []
    assert {one["kind"] for one in describe(graph)["verdicts"]} == {"sound"}
    assert [one.kind for one in graph.checkup()["sizes of gradients"].silenced] == ["vanishing"]

    def stretched(**options: Any) -> nbgrad.AutogradGraph:
        column = lib.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with nbgrad.AutogradGraph(**options) as graph:
                lib.nn.functional.mse_loss(column, lib.ones(3)).backward()
        return graph

    assert "broadcast" in kinds(stretched())
    graph = stretched(silence="broadcast")
    assert "broadcast" not in kinds(graph)
    assert all(edge["reduction"]["warning"] is None for edge in describe(graph)["edges"] if edge["reduction"])


def test_one_finding_is_silenced_at_its_line(lib: Any) -> None:
    net = lib.nn.Linear(4, 3)
    with nbgrad.AutogradGraph() as graph:
        scores = net(lib.ones(2, 4)).softmax(1)
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()  # nbgrad: ignore[loss input]
    assert kinds(graph) == []
    assert [one.kind for one in graph.checkup().silenced] == ["loss input"]
    with nbgrad.AutogradGraph() as graph:
        scores = net(lib.ones(2, 4)).softmax(1)
        loss = lib.nn.functional.cross_entropy(
            scores,
            torch.tensor([0, 1]),
        )  # nbgrad: ignore[loss-input, frozen]
        loss.backward()
    assert kinds(graph) == []
    with nbgrad.AutogradGraph() as graph:
        scores = net(lib.ones(2, 4)).softmax(1)  # nbgrad: ignore[loss input]
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()  # nbgrad: ignore[vanishing]
    assert kinds(graph) == ["loss input"], "another line, and another kind"
    assert graph.checkup().notes == ()


def test_a_comment_that_cannot_be_read_silences_nothing_and_is_told(lib: Any) -> None:
    net = lib.nn.Linear(4, 3)
    with nbgrad.AutogradGraph() as graph:
        scores = net(lib.ones(2, 4)).softmax(1)
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()  # nbgrad: ignore[loss inptu]
    assert kinds(graph) == ["loss input"]
    (note,) = graph.checkup().notes
    assert "there is no kind of findings 'loss inptu'; did you mean loss input? Kinds: nan, unreached" in note
    assert note in describe(graph)["notes"]
    with nbgrad.AutogradGraph() as graph:
        scores = net(lib.ones(2, 4)).softmax(1)
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()  # nbgrad: ignore
    assert kinds(graph) == ["loss input"]
    assert "it has to name kinds, as in # nbgrad: ignore[no activation]" in graph.checkup().notes[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("vanishng", r"there is no kind of findings 'vanishng'; did you mean vanishing\? Kinds: nan, unreached, "),
        (["frozen", "x"], "there is no kind of findings 'x'. Kinds: "),
        ("", "there is no kind of findings ''"),
        ("failed", "findings of the kind 'failed' cannot be silenced: they tell of an error of the program"),
        (3, "silence=3: it has to be kinds of findings, such as 'vanishing, no activation'"),
        ([None], "it has to be kinds of findings"),
    ],
)
def test_unknown_kinds_are_refused(given: Any, said: str) -> None:
    for make in (nbgrad.AutogradGraph, nbgrad.record):
        with pytest.raises(ValueError, match=said):
            make(silence=given)


def test_every_kind_but_errors_can_be_silenced() -> None:
    for kind in KINDS:
        if kind not in UNSILENCED:
            assert silenced_kinds(kind) == silenced_kinds(kind.replace(" ", "-")) == {kind}


def test_an_error_is_told_whatever_is_silenced(lib: Any) -> None:
    every = [kind for kind in KINDS if kind not in UNSILENCED]
    with pytest.raises(RuntimeError), nbgrad.AutogradGraph(silence=every) as graph:
        lib.nn.Linear(2, 1)(lib.ones(1, 3))  # nbgrad: ignore[nan]
    assert kinds(graph) == ["failed"]


CELL = """
import torch, nbgrad
net = torch.nn.Linear(4, 3)
scores = net(torch.ones(2, 4)).softmax(1)
torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()
"""


def test_both_hosts_have_the_option(shell: InteractiveShell, tmp_path: Path) -> None:
    def ran(cell: str) -> nbgrad.AutogradGraph:
        with capture_output():
            shell.run_cell(cell, store_history=True).raise_error()
        graph: nbgrad.AutogradGraph = shell.magics_manager.registry["AutogradMagics"].last.graph
        return graph

    assert kinds(ran(f"%%autograd{CELL}")) == ["loss input"]
    for option in ("--silence 'loss input'", "--silence loss-input", "--silence=frozen,loss-input"):
        assert kinds(ran(f"%%autograd {option}{CELL}")) == []
    commented = CELL.replace(".backward()", ".backward()  # nbgrad: ignore[loss input]")
    assert kinds(ran(f"%%autograd{commented}")) == []
    file = tmp_path / "net.json"
    with nbgrad.record(silence="loss input", view="none", save=file):
        exec(CELL)
    assert json.loads(file.read_text())["problems"] == []
    with pytest.raises(UsageError, match="there is no kind of findings 'loss'"):
        shell.run_line_magic("_autograd_begin", "--silence loss")
    with capture_output() as captured:
        shell.run_line_magic("autograd", "config --silence loss-input")
    try:
        assert captured.stdout == ""
        assert kinds(ran(f"%%autograd{CELL}")) == []
        assert kinds(ran(f"%%autograd --silence frozen{CELL}")) == ["loss input"], "the cell's own is what holds"
        assert kinds(ran(f"%%autograd --silence none{CELL}")) == ["loss input"]
    finally:
        shell.run_line_magic("autograd", "config --silence none")
