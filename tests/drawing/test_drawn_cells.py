"""``%%autograd`` over a cell in which only another engine runs."""

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.drawing import cell as cells
from nbgrad.drawing.graph import DrawnGraph
from nbgrad.widgets.describe import describe

SETUP = "from tests.drawing.engines import MicrogradValue as Value, Cell\nimport nbgrad"


def run(shell: InteractiveShell, code: str) -> tuple[AutogradGraph | None, str]:
    """The last graph, and what was printed."""
    with capture_output() as captured:
        shell.run_cell(SETUP, store_history=True)  # type: ignore[no-untyped-call]
        shell.run_cell(code, store_history=True).raise_error()  # type: ignore[no-untyped-call]
    last = shell.magics_manager.registry["AutogradMagics"].last
    return None if last is None else last.graph, captured.stdout + captured.stderr


def drawn(shell: InteractiveShell, code: str) -> DrawnGraph:
    graph, said = run(shell, code)
    assert isinstance(graph, DrawnGraph), said
    assert said == ""
    return graph


def roots(graph: AutogradGraph) -> list[str | None]:
    return [record.name for record in graph.records if record.root]


def test_a_cell_of_another_engine_is_drawn(shell: InteractiveShell) -> None:
    graph = drawn(shell, "%%autograd --name mine\na, b = Value(2.0), Value(3.0)\nloss = a * b + a\nloss.backward()")
    assert graph.name == "mine"
    assert [record.name or record.kind_or_op for record in graph.records] == ["a", "b", "*", "loss"]
    assert roots(graph) == ["loss"]
    assert "requires_grad" not in str(describe(graph)["notes"])


def test_the_picture_is_below_the_cell_and_can_be_shown_again(shell: InteractiveShell) -> None:
    with capture_output() as captured:
        shell.run_cell(SETUP)  # type: ignore[no-untyped-call]
        shell.run_cell("%%autograd\nx = Value(2.0)\ny = x * x\ny.backward()")  # type: ignore[no-untyped-call]
    assert any("image/svg+xml" in one.data for one in captured.outputs)
    with capture_output():
        again = shell.run_line_magic("autograd", "last")
    assert isinstance(again, DrawnGraph)


def test_a_cell_asks_for_gradients_of_the_engine(shell: InteractiveShell) -> None:
    graph = drawn(shell, "%%autograd --ask w\nw, x = Value(2.0), Value(3.0)\nloss = w * x\nloss.backward()")
    assert [node["rule"] for node in describe(graph)["nodes"] if node["label"][0] == "w"] == ["∇ ?"]
    assert not graph.answer("w", 2.0)
    assert graph.answer("w", 3.0)


def test_the_last_result_that_a_backward_reached_is_drawn(shell: InteractiveShell) -> None:
    code = "%%autograd\nx = Value(2.0)\nfirst = x * 2.0\nloss = x * 3.0\nloss.backward()\nlater = x * 4.0"
    assert roots(drawn(shell, code)) == ["loss"], "it is newer than first, and later has no gradient"


def test_objects_inside_of_lists_and_objects(shell: InteractiveShell) -> None:
    code = """%%autograd
class Trainer:
    pass
trainer, losses = Trainer(), []
x = Value(2.0)
trainer.loss = x * x
trainer.loss.backward()"""
    assert roots(drawn(shell, code)) == ["trainer.loss"]
    code = "%%autograd\nlosses.append(x ** 3)\nlosses[-1].backward()"
    assert roots(drawn(shell, code)) == ["losses[0]"]


def test_a_backward_of_an_earlier_cells_loss(shell: InteractiveShell) -> None:
    run(shell, "x = Value(2.0)\nloss = x * x\nother = x * 3.0\nother.backward()")
    assert roots(drawn(shell, "%%autograd\nloss.backward()")) == ["loss"], "the cell does not name the other one"


def test_ops_of_nbgrads_or_torchs_come_first(shell: InteractiveShell) -> None:
    graph, _ = run(
        shell, "%%autograd\nx = Value(2.0) * Value(3.0)\ny = nbgrad.tensor(1.0, requires_grad=True) * 2\ny.backward()"
    )
    assert not isinstance(graph, DrawnGraph)
    assert graph is not None
    assert roots(graph) == ["y"]


def test_a_cell_without_any_engine_keeps_its_advice(shell: InteractiveShell) -> None:
    graph, said = run(shell, "%%autograd\nx = 3\nleaf = Value(1.0)")
    assert graph is not None
    assert not isinstance(graph, DrawnGraph)
    assert said == ""
    assert "requires_grad=True" in describe(graph)["notes"][0]


def test_an_engine_that_cannot_be_read_is_told(shell: InteractiveShell) -> None:
    graph, said = run(shell, "%%autograd\nx = Cell(1.0, 'ab', '+')")
    assert not isinstance(graph, DrawnGraph)
    assert "parents: expected a tuple of objects, got 'ab'" in said


def test_ordinary_cells_are_not_searched(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the variables were searched")

    monkeypatch.setattr(cells, "drawn_cell", never)
    run(shell, "%%autograd\ny = nbgrad.tensor(1.0, requires_grad=True) * 2\ny.backward()")
    run(shell, "x = Value(2.0) * Value(3.0)")
    with capture_output():
        shell.run_line_magic("autograd", "on")
    run(shell, "x = Value(2.0) * Value(3.0)")


def test_the_cells_of_the_page(shell: InteractiveShell) -> None:
    page = (Path(__file__).parents[2] / "docs" / "drawing.md").read_text("utf-8")
    cells = re.findall(r"```(?:python|ipython)\n(.*?)```", page, re.DOTALL)
    (magic,) = [at for at, cell in enumerate(cells) if cell.startswith("%%")]
    with capture_output():
        for cell in cells[: magic + 1]:
            shell.run_cell(cell, store_history=True).raise_error()  # type: ignore[no-untyped-call]
    graph = shell.magics_manager.registry["AutogradMagics"].last.graph
    assert graph.name == "my engine"
    assert [record.name or record.kind_or_op for record in graph.records] == ["w", "x", "*", "loss"]
