"""The outputs of the magics in JupyterLab: a live view over several cells, rich tensors and modules."""

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

from nbgrad.choices import FRAMES
from tests.lab.harness import LabServer, NotebookPage

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

CELLS = [
    "%load_ext nbgrad\nimport nbgrad\nnbgrad.manual_seed(0)\n"
    "net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Tanh(), nbgrad.nn.Linear(3, 1))\nnet",
    "live = nbgrad.watch(net, every=0)",
    "for _ in range(20):\n    loss = (net(nbgrad.tensor([[1.0, 2.0]])) ** 2).mean()\n    loss.backward()",
    "net[0].weight",
    "%%autograd --view text --save graph.svg\n(nbgrad.tensor([1.0], requires_grad=True) * 2).sum().backward()",
]


def written(file: Path, sources: list[str]) -> Path:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}  # without it Lab asks for one
    cells = [new_code_cell(cell) for cell in sources]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), file)
    return file


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return written(tmp_path / "magics.ipynb", CELLS)


def test_a_live_view_changes_in_place_while_other_cells_run(
    lab: NotebookPage, lab_server: LabServer, notebook: Path
) -> None:
    lab.open(lab_server.add(notebook))
    lab.run_all()
    assert lab.errors() == []
    ((cell, output),) = lab.outputs("application/vnd.jupyter.widget-view+json")
    assert cell == 1
    view = lab.output(cell, output).get_by_test_id("nbgrad-view")
    expect(view).to_contain_text("backward from loss, the last of 20")
    expect(view.locator('[data-testid="nbgrad-node"][aria-label^="loss = mean"]')).to_be_visible()
    expect(view).to_have_attribute("aria-label", re.compile("backward from loss, the last of 20$"))
    frames = FRAMES // 2 + 1  # every backward of the first half, and the last
    expect(view.get_by_test_id("nbgrad-history")).to_have_text(f"History ({frames})")
    expect(lab.output(cell, 0)).to_be_hidden()
    lab.screenshot("watch")

    lab.save()
    lab.shut_down()
    lab.open(notebook.name)
    still = lab.output(cell, 0).locator("img")
    expect(still).to_be_visible()
    assert "the last of 20" in unquote(still.get_attribute("src") or "")


def test_a_live_view_shows_where_a_later_cell_failed(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    lab.open(lab_server.add(written(tmp_path / "failing.ipynb", [*CELLS[:3], "net(nbgrad.ones(1, 5))"])))
    lab.run_all()
    (error,) = lab.errors()
    assert "expected last dimension 2, got 5" in error
    view = lab.output(1, 1).get_by_test_id("nbgrad-view")
    expect(view).to_contain_text("The cell stopped here: linear raised RuntimeError")
    expect(view.locator('[data-testid="nbgrad-node"][aria-label^="linear"]').first).to_be_visible()
    lab.screenshot("watch_failed")


def test_tensors_and_modules_display_themselves(lab: NotebookPage, lab_server: LabServer, notebook: Path) -> None:
    lab.open(lab_server.add(notebook))
    lab.run_all()
    tree = lab.cell(0).locator(".nbgrad-module")
    expect(tree).to_contain_text("Sequential 13 parameters")
    tree.locator("summary").first.click()
    expect(tree.get_by_text("0 (Linear)")).to_be_hidden()
    heat = lab.cell(3).locator(".nbgrad-tensor svg")
    expect(heat).to_be_visible()
    assert heat.locator("rect").count() == 6
    lab.screenshot("heat_map")
    assert (lab_server.notebooks / "graph.svg").read_text().startswith("<svg")
