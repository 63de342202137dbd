"""A step over several cells: the picture of the backward has the ops of all of them."""

import gc
from typing import Any
from weakref import ref

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import nbgrad
from nbgrad.widgets.describe import describe

SVG = "image/svg+xml"


def run(shell: InteractiveShell, cell: str) -> Any:
    """Run a cell as the user would, and return what it displayed and printed."""
    with capture_output() as captured:
        shell.run_cell(cell, store_history=True)
    return captured


def graph_of(shell: InteractiveShell) -> nbgrad.AutogradGraph:
    graph: nbgrad.AutogradGraph = shell.magics_manager.registry["AutogradMagics"].last.graph
    return graph


def pictures(shown: Any) -> int:
    return sum(SVG in output.data for output in shown.outputs)


def number(shell: InteractiveShell) -> int:
    """The number of the next cell."""
    return int(shell.execution_count)


SETUP = """import torch, nbgrad
torch.manual_seed(0)
net = LIB.nn.Sequential(LIB.nn.Linear(3, 4), LIB.nn.ReLU(), LIB.nn.Linear(4, 1))
x, y = LIB.tensor(torch.randn(5, 3).tolist()), LIB.tensor(torch.randn(5, 1).tolist())
optimizer = LIB.optim.SGD(net.parameters(), lr=0.1)"""
FORWARD = "out = net(x)"
LOSS = "loss = ((out - y) ** 2).mean()"
BACKWARD = "optimizer.zero_grad()\nloss.backward()"
STEP = "optimizer.step()"


@pytest.fixture(params=["torch", "nbgrad"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begin(shell: InteractiveShell, library: str, on: bool = True) -> None:
    run(shell, SETUP.replace("LIB", library))
    if on:
        run(shell, "%autograd on")


def whole(shell: InteractiveShell) -> bool:
    """Whether the last graph has the whole step, with the gradients of all parameters."""
    records = graph_of(shell).records
    weights = [record for record in records if record.kind == "parameter"]
    names = [record.name for record in records if record.kind == "op"]
    return (
        len(weights) == 4
        and all(record.gradient is not None for record in weights)
        and {"out", "loss"} <= set(names)
        and all(record.scope is not None for record in weights)
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "cells",
    [
        [f"{FORWARD}\n{LOSS}", BACKWARD],
        [FORWARD, f"{LOSS}\n{BACKWARD}"],
        [FORWARD, LOSS, BACKWARD],
        [FORWARD, LOSS, "print(loss.item())", BACKWARD],
        [FORWARD, "h = out - y", "loss = (h ** 2).mean()", "print(loss.item())", BACKWARD],
    ],
    ids=["2", "forward alone", "3", "4", "5"],
)
@pytest.mark.parametrize("explicit", [False, True], ids=["on", "%%autograd"])
def test_a_step_over_cells_is_one_graph(
    shell: InteractiveShell, library: str, cells: list[str], explicit: bool
) -> None:
    begin(shell, library, on=not explicit)
    numbers = []
    for cell in cells:
        numbers.append(number(shell))
        shown = run(shell, f"%%autograd\n{cell}" if explicit and "print" not in cell else cell)
    assert pictures(shown) == 1
    assert whole(shell)
    records = graph_of(shell).records
    assert {record.earlier for record in records if record.scope is not None and record.kind == "op"} == {
        f"In [{numbers[0]}]"
    }
    text = shown.outputs[0].data["text/plain"]
    assert f"of the ops from In [{numbers[0]}]" in text
    assert f"· In [{numbers[0]}]" in shown.outputs[0].data[SVG] or "folded" in str(describe(graph_of(shell)))
    if len(cells) == 2 and cells[1] != BACKWARD:
        loss = next(record for record in records if record.name == "loss")
        assert loss.earlier is None


@pytest.mark.sampled(2)
def test_each_form_of_recording_finds_the_other(shell: InteractiveShell, library: str) -> None:
    begin(shell, library, on=False)
    run(shell, f"with nbgrad.record():\n    {FORWARD}\n    {LOSS}")
    run(shell, f"%%autograd\n{BACKWARD}")
    assert whole(shell)
    run(shell, f"%%autograd\n{FORWARD}\n{LOSS}")
    run(shell, "with nbgrad.record() as graph:\n    loss.backward()")
    assert len([one for one in shell.user_ns["graph"].records if one.kind == "parameter"]) == 4


def test_a_first_cell_that_is_not_recorded_is_shown(shell: InteractiveShell, library: str) -> None:
    begin(shell, library, on=False)
    run(shell, f"{FORWARD}\n{LOSS}")
    run(shell, f"%%autograd\n{BACKWARD}")
    records = graph_of(shell).records
    weights = [record for record in records if record.kind == "parameter"]
    assert len(weights) == 4
    assert all(record.gradient is not None for record in weights)
    assert all(record.earlier is None for record in records)


@pytest.mark.sampled(2)
def test_cells_that_run_twice_and_out_of_order(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    run(shell, FORWARD)
    run(shell, LOSS)
    first = number(shell)
    run(shell, FORWARD)  # once more, but the loss is that of the first run
    run(shell, BACKWARD)
    assert len([record for record in graph_of(shell).records if record.kind == "parameter"]) == 4
    second = number(shell)
    run(shell, LOSS)
    run(shell, BACKWARD)
    assert whole(shell)
    titles = {record.name: record.earlier for record in graph_of(shell).records if record.kind == "op"}
    assert titles["out"] == f"In [{first}]"
    assert titles["loss"] == f"In [{second}]"


def test_a_cell_that_is_edited_in_between(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    run(shell, FORWARD)
    run(shell, LOSS)
    run(shell, "loss = ((out - y).abs()).mean()")
    run(shell, BACKWARD)
    assert whole(shell)
    ops = [record.op.name for record in graph_of(shell).records if record.op]
    assert "abs" in ops
    assert "pow" not in ops


def test_a_checkpoint_that_is_loaded_in_between(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    run(shell, "state = {name: value.detach().clone() for name, value in net.state_dict().items()}")
    run(shell, FORWARD)
    run(shell, "net.load_state_dict(state)")
    run(shell, FORWARD)
    run(shell, LOSS)
    run(shell, BACKWARD)
    assert whole(shell)


@pytest.mark.sampled(2)
def test_a_loop_over_two_cells_keeps_one_graph(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    pasts = []
    for _ in range(4):
        run(shell, f"{FORWARD}\n{LOSS}")
        loss: Any = shell.user_ns["loss"]
        origin: Any = loss.grad_fn.metadata["nbgrad"] if library == "torch" else loss._origin
        pasts.append(ref(origin.past))
        del loss, origin
        run(shell, f"{BACKWARD}\n{STEP}")
        assert whole(shell)
    gc.collect()
    assert [past() is not None for past in pasts] == [False, False, False, True]


def test_an_error_in_the_first_cell(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    run(shell, f"{FORWARD}\n{LOSS}\n1 / 0")
    run(shell, BACKWARD)
    assert whole(shell)


def test_a_forward_is_drawn_without_a_complaint(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    shown = run(shell, FORWARD)
    assert pictures(shown) == 1
    text = shown.outputs[0].data["text/plain"]
    assert "forward only" in text
    assert "no findings, but no backward ran" in text
    assert "Note" not in text
    assert "Finding" not in text


LOOKS = [
    "print(w[0], w[0, 0].item())",
    "rows = w[:2].reshape(-1); print(rows.tolist())",
    "print(w.T[0], w[None].shape)",
]


@pytest.mark.parametrize("cell", LOOKS)
def test_a_cell_that_only_looks_at_tensors_has_no_picture(shell: InteractiveShell, library: str, cell: str) -> None:
    begin(shell, library)
    run(shell, f"w = {library}.ones(3, 2, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()")
    before = graph_of(shell)
    shown = run(shell, cell)
    assert shown.outputs == []
    assert graph_of(shell) is before, "%autograd last draws the graph that was shown"
    asked = run(shell, f"%%autograd\n{LOOKS[1]}")
    assert pictures(asked) == 1, "whoever asks for a picture gets it"


def test_a_long_forward_has_one_line(shell: InteractiveShell, library: str) -> None:
    begin(shell, library)
    long = "\n".join(["h = net[0].weight", *["h = h * 2 + 1"] * 50])
    shown = run(shell, long)
    assert [output.data for output in shown.outputs] == [
        {"text/plain": "100 ops ran here, and no backward. %autograd last draws them."}
    ]
    assert pictures(run(shell, "%autograd last")) == 1
    looped = run(shell, "h = net[0].weight\nfor _ in range(50):\n    h = h * 2 + 1")
    assert pictures(looped) == 1, "a loop is folded"


@pytest.mark.rotated(3)
def test_three_cells_in_a_kernel() -> None:
    cells = [f"%load_ext nbgrad\n{SETUP.replace('LIB', 'torch')}\n%autograd on", FORWARD, LOSS, BACKWARD]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    nbformat.validate(notebook)
    *_, forward, loss, backward = notebook.cells
    assert "forward only" in forward.outputs[0].data["text/plain"]
    assert "forward only" in loss.outputs[0].data["text/plain"]
    text = backward.outputs[0].data["text/plain"]
    assert "3 of the ops from In [2], 3 of the ops from In [3]; backward from loss" in text
    assert text.count("weight") >= 2
    assert "In [2]" in backward.outputs[0].data[SVG]
