"""What if a number were another, beside a kernel: the slider, the picture, the nudge, and a kernel that is gone."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.lab.harness import LabServer, NotebookPage
from tests.lab.test_view import written

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

SMALL = """%%autograd --name small
w = nbgrad.tensor([[0.5, -1.0], [2.0, 3.0]], requires_grad=True)
x = nbgrad.tensor([1.0, 2.0])
loss = ((w * x).tanh() ** 2).sum()
loss.backward()"""

TORCH = """%%autograd --name torchs
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
data = torch.randn(16, 2)
loss = net(data).pow(2).mean()
loss.backward()"""

CHECK = """print("w is", w.data.tolist(), "grad", w.grad.data[0].tolist())"""


def view_of(lab: NotebookPage, lab_server: LabServer, path: Path, *sources: str) -> Locator:
    """The picture in a notebook that has these cells and that the page runs."""
    lab.open(lab_server.add(written(path, *sources)))
    lab.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
    view = lab.page.get_by_test_id("nbgrad-view")
    expect(view).to_be_visible(timeout=60_000)
    return view


def test_a_slider_beside_its_kernel(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    sources = ["%load_ext nbgrad\nimport nbgrad, torch", SMALL, CHECK]
    view = view_of(lab, lab_server, tmp_path / "what_if.ipynb", *sources)
    leaf = view.locator('[data-testid=nbgrad-node][aria-label^="w,"]')
    root = view.locator(".nbg-root .nbg-line").last
    first = root.text_content() or ""
    leaf.click()
    part = view.get_by_test_id("nbgrad-what-if")
    slider = part.get_by_role("slider", name="w[0, 0]")
    expect(slider).to_be_visible(timeout=30_000)
    lab.screenshot("what_if_before")
    slider.focus()
    lab.page.keyboard.press("End")
    expect(root).not_to_have_text(first)
    banner = view.get_by_test_id("nbgrad-what-if-banner")
    expect(banner).to_contain_text("What if: w[0, 0] = 1.5.")
    expect(part.get_by_test_id("nbgrad-what-if-result")).to_contain_text("loss ")
    for _ in range(30):
        lab.page.keyboard.press("ArrowLeft")
    part.get_by_role("button", name="Nudge").click()
    expect(part.get_by_test_id("nbgrad-nudge-result")).to_contain_text("They differ by")
    lab.screenshot("what_if_moved")
    part.get_by_role("button", name="Reset").click()
    expect(root).to_have_text(first)
    expect(banner).to_be_hidden()
    expect(lab.page.get_by_text("w is [[0.5, -1.0], [2.0, 3.0]] grad")).to_be_visible()

    lab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(part).to_contain_text("The kernel that made this picture is gone", timeout=30_000)


def test_a_question_that_a_restart_overtakes(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    """The kernel is busy, so the question still waits when the kernel ends. It never gets an answer."""
    view = view_of(lab, lab_server, tmp_path / "overtaken.ipynb", "%load_ext nbgrad\nimport nbgrad", SMALL)
    view.locator('[data-testid=nbgrad-node][aria-label^="w,"]').click()
    part = view.get_by_test_id("nbgrad-what-if")
    field = part.get_by_role("spinbutton", name="w[1, 1]", exact=True)
    expect(field).to_be_visible(timeout=30_000)
    session = "jupyterapp.shell.currentWidget.sessionContext"
    busy = "import time; time.sleep(600)"
    lab.page.evaluate(f"() => {{ {session}.session.kernel.requestExecute({{ code: '{busy}' }}); }}")
    field.fill("5")
    lab.page.evaluate(f"() => {session}.restartKernel()")
    expect(part).to_contain_text("The kernel that made this picture is gone", timeout=30_000)


def test_a_graph_of_torchs(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    view = view_of(lab, lab_server, tmp_path / "torchs.ipynb", "%load_ext nbgrad\nimport nbgrad, torch", TORCH)
    root = view.locator(".nbg-root .nbg-line").last
    first = root.text_content() or ""
    view.locator('[data-testid=nbgrad-node][aria-label^="data,"]').click()
    part = view.get_by_test_id("nbgrad-what-if")
    part.get_by_test_id("nbgrad-what-if-number").fill("3", timeout=30_000)
    expect(root).not_to_have_text(first)
    part.get_by_role("button", name="Nudge").click()
    expect(part.get_by_test_id("nbgrad-nudge-result")).to_contain_text("Central difference")
    lab.screenshot("what_if_torch")
