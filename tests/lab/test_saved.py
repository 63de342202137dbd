"""A saved notebook that is opened without its kernel: its drawings become live where the host runs scripts."""

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.lab.harness import LabServer, NotebookPage
from tests.lab.test_view import written

pytestmark = [pytest.mark.browser, pytest.mark.rotated(2)]

START = "%load_ext nbgrad\nimport nbgrad, torch\nfrom nbgrad import nn"

NET = """class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        return x + self.back(self.wide(x).relu())
net = nn.Sequential(*[Block() for _ in range(24)], nn.Linear(8, 1))
x = nbgrad.tensor(torch.randn(4, 8))"""

STEP = """%%autograd
loss = net(x).square().mean()
loss.backward()"""


def test_a_saved_notebook_unfolds_searches_and_ranks_without_its_kernel(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    name = lab_server.add(written(tmp_path / "saved.ipynb", START, NET, STEP, STEP))
    lab.open(name)
    lab.run_all()
    assert not lab.errors()
    lab.cell(2)
    expect(lab.page.get_by_test_id("nbgrad-view").first).to_be_visible()
    expect(lab.page.locator(".nbgrad-saved")).to_have_count(0)  # beside the live view nothing else comes to life
    lab.save()
    lab.shut_down()

    lab.open(name)  # with a kernel that knows nothing of the views
    cell = lab.cell(3)
    view = cell.get_by_test_id("nbgrad-view")
    expect(view).to_be_visible(timeout=20_000)
    expect(cell.locator("img[src^='data:image/svg+xml']")).to_be_hidden()
    lab.screenshot("saved_notebook")
    nodes = view.get_by_test_id("nbgrad-node")
    before = nodes.count()
    folded = view.locator("[data-testid=nbgrad-node][aria-expanded]").first
    folded.dblclick()
    expect(nodes).not_to_have_count(before)
    view.get_by_test_id("nbgrad-search").fill("relu")
    view.get_by_test_id("nbgrad-search").press("Enter")
    expect(view.locator(".nbg-match").first).to_be_visible()
    view.get_by_test_id("nbgrad-as-table").click()
    expect(view.get_by_role("row").nth(5)).to_be_visible()
    expect(lab.cell(2).get_by_test_id("nbgrad-view")).to_be_visible()  # its script stands below another cell


def test_a_notebook_that_is_not_trusted_shows_the_drawing(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    name = lab_server.add(written(tmp_path / "mine.ipynb", START, NET, STEP))
    lab.open(name)
    lab.run_all()
    lab.save()
    lab.shut_down()
    theirs = nbformat.read(lab_server.notebooks / name, 4)
    theirs.cells[0].source += "\n# from somewhere else"
    nbformat.write(theirs, tmp_path / "theirs.ipynb")
    lab.open(lab_server.add(tmp_path / "theirs.ipynb"))
    cell = lab.cell(2)
    expect(cell.locator("img[src^='data:image/png']")).to_be_visible()
    expect(cell.get_by_test_id("nbgrad-view")).to_have_count(0)
    lab.screenshot("untrusted_notebook")
