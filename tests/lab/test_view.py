"""The view where it lives: beside a kernel that answers, is busy, was restarted, or is gone."""

import re
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

from tests.lab.harness import LabServer, NotebookPage
from tests.widgets.test_html_page import LETTERS

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

DEEP = """%%autograd --name deep
x = nbgrad.tensor([0.5, 2.0], requires_grad=True)
h = x
h = ((((h * 1.1 + 0) * 1.1 + 1) * 1.1 + 2) * 1.1 + 3) * 1.1 + 4
h = ((h * 1.1 + 5) * 1.1 + 6) * 1.1 + 7
for layer in range(60):
    with nbgrad.scope("Layer"):
        for _ in range(3):
            h = (h * 0.9).tanh()
loss = h.sum()
loss.backward()"""

TRAINED = """%%autograd --name trained
w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
for step in range(5):
    w.grad = None
    loss = ((w * 2 - 3) ** 2).sum()
    loss.backward()
    w.data -= 0.1 * w.grad.data"""

NET = """net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 8), nbgrad.nn.Tanh(), nbgrad.nn.Linear(8, 1))
x, y = nbgrad.tensor(torch.randn(32, 2)), nbgrad.tensor(torch.randn(32, 1))"""

STEPS = """%%autograd
for step in range(5):
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()"""

STOPPED = """%%autograd --name stopped
a = nbgrad.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
b = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
(a * 2) @ b"""

HOSTILE = """%%autograd --name hostile
script = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
names = [script, "quotes \\" ' ` & <b>", "two\\nlines", chr(0x202E) + "thgir morf", "x" * 10_000]
leaves = [nbgrad.tensor([1.0], requires_grad=True) for _ in names]
for leaf, name in zip(leaves, names):
    leaf.name = name
with nbgrad.scope(script + names[1]):
    loss = sum(leaf * 2 for leaf in leaves).sum()
loss.backward()"""

LARGE = """%%autograd --name large
weight = nbgrad.tensor([[(i - 100) * (j - 150) / 1e4 for j in range(300)] for i in range(200)], requires_grad=True)
(weight * 2).sum().backward()"""

BUSY = """import time
pathlib.Path("running").touch()
deadline = time.monotonic() + 60
while time.monotonic() < deadline and not pathlib.Path("enough").exists():
    time.sleep(0.05)"""


def written(path: Path, *sources: str) -> Path:
    # without it Lab asks for a kernel
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources], metadata=kernel), path)
    return path


def details(view: Locator) -> Locator:
    return view.get_by_test_id("nbgrad-details")


def check_hostile(lab: NotebookPage, cell: int, output: int) -> None:
    """Names with HTML or control characters appear as plain text: in the picture, the details and the table."""
    hostile = lab.output(cell, output).get_by_test_id("nbgrad-view")
    for text in ("<script>window.hacked", "quotes \" ' ` & <b>", "two lines", "thgir morf", "xxxx"):
        leaf = hostile.locator(".nbg-leaf .nbg-head").get_by_text(text)
        expect(leaf).to_have_count(1)
        assert len(leaf.text_content() or "") <= 44, "it fits its box"
        node = leaf.locator("xpath=ancestor::*[@data-node-id]").get_attribute("data-node-id")
        leaf.dispatch_event("click")
        expect(details(hostile).locator("h3")).to_contain_text(text)
        hostile.locator(f'[data-node-id="{node}"]').press("Escape")  # its name may be shorter beside the details
        expect(details(hostile)).to_be_hidden()
    expect(hostile.get_by_test_id("nbgrad-scope")).to_contain_text("<script>window.hacked")
    hostile.get_by_test_id("nbgrad-as-table").click()
    expect(hostile.get_by_test_id("nbgrad-table")).to_contain_text("<script>window.hacked")
    still = lab.cell(cell).locator(".jp-OutputArea-output").first
    for shown in (hostile, still):
        assert shown.locator("script, img[src=x]").count() == 0
    assert lab.page.evaluate("() => window.hacked") is None


@pytest.mark.parametrize("app", ["lab/tree", "notebooks"])
def test_the_view_beside_its_kernel(lab: NotebookPage, lab_server: LabServer, tmp_path: Path, app: str) -> None:
    name = f"view_{app.partition('/')[0]}"
    sources = ["%load_ext nbgrad\nimport nbgrad, pathlib", DEEP, TRAINED, HOSTILE, STOPPED]
    lab.open(lab_server.add(written(tmp_path / f"{name}.ipynb", *sources)), app)
    lab.run_all()
    assert [error.partition(":")[0] for error in lab.errors()] == ["cell 4"], "the one that is to fail"
    (raised,) = [output for output in lab.cells()[4]["outputs"] if output["output_type"] == "error"]
    assert ".py" not in "".join(raised["traceback"]), "its own lines alone"
    shown = lab.outputs(WIDGET_VIEW)
    assert [cell for cell, _ in shown] == [1, 2, 3, 4]

    deep = lab.output(*shown[0]).get_by_test_id("nbgrad-view")
    group = deep.locator(".nbg-folded")
    expect(group).to_contain_text("Layer × 60")
    lab.screenshot(f"{name}_folded")
    group.dblclick()  # the kernel answers: it alone has the content of the box
    expect(deep.locator(".nbg-folded")).to_have_count(60)
    first = deep.locator('[data-node-id^="f-"]').first
    first.dispatch_event("dblclick")
    expect(deep.locator(".nbg-folded")).to_have_count(59)
    expect(deep.get_by_test_id("nbgrad-scope")).to_have_count(1)
    deep.get_by_test_id("nbgrad-turn").click()
    expect(deep.locator(".nbg-status[role=status]")).to_contain_text("a part of the graph")
    lab.screenshot(f"{name}_unfolded")

    # Two views at once, each with a state of its own.
    trained = lab.output(*shown[1]).get_by_test_id("nbgrad-view")
    trained.get_by_test_id("nbgrad-steps").click()
    trained.get_by_test_id("nbgrad-step").press("ArrowRight")
    expect(details(trained).locator("h3")).to_have_text("∇ pow")
    trained.get_by_test_id("nbgrad-step").press("Escape")
    trained.get_by_test_id("nbgrad-history").click()
    expect(trained.get_by_test_id("nbgrad-timeline")).to_contain_text("backward 5, loss ")
    lab.screenshot(f"{name}_history")

    check_hostile(lab, *shown[2])
    lab.screenshot(f"{name}_hostile")
    stopped = lab.output(*shown[3]).get_by_test_id("nbgrad-view")
    expect(stopped.locator(".nbg-failed")).to_have_count(1)
    expect(stopped.locator(".nbg-note")).to_contain_text("The cell stopped here: matmul raised RuntimeError")
    expect(stopped.locator(".nbg-stepping")).to_have_count(0)
    lab.screenshot(f"{name}_stopped")


def test_the_kernel_lays_out_a_picture_for_a_projector(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 720})
    lab.open(lab_server.add(written(tmp_path / "projector.ipynb", "%load_ext nbgrad\nimport nbgrad", DEEP)))
    lab.run_all()
    view = lab.output(*lab.outputs(WIDGET_VIEW)[0]).get_by_test_id("nbgrad-view")
    drawn = view.locator(".nbg-stage > g")
    expect(view.locator(".nbg-folded")).to_contain_text("Layer × 60")
    lab.page.wait_for_timeout(1000)  # the stage keeps its size for a moment, and the kernel lays the picture out for it
    before = drawn.text_content(), drawn.get_attribute("transform")
    view.locator(".nbg-stage").focus()
    lab.page.keyboard.press("p")
    expect(view).to_have_class(re.compile("nbg-projected"))
    expect(drawn).not_to_have_text(before[0] or "")
    assert lab.page.evaluate(LETTERS) >= 20 * 96 / 72
    lab.screenshot("projector")
    view.locator(".nbg-folded").dblclick()
    expect(view.locator(".nbg-folded")).to_have_count(60)
    lab.page.keyboard.press("p")
    expect(view).not_to_have_class(re.compile("nbg-projected"))
    expect(drawn).to_have_text(before[0] or "")
    assert drawn.get_attribute("transform") == before[1]


def test_all_numbers_of_a_large_tensor_are_asked_of_the_kernel(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    sources = ["%load_ext nbgrad\nimport nbgrad, pathlib", LARGE, BUSY.replace("enough", "enough_numbers")]
    lab.open(lab_server.add(written(tmp_path / "numbers.ipynb", *sources)))
    lab.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
    view = lab.page.get_by_test_id("nbgrad-view")
    expect(view).to_be_visible(timeout=60_000)
    view.locator('[aria-label^="weight, "]').click()
    panel = details(view)
    panel.get_by_role("button", name="All numbers").first.click()
    value = panel.get_by_test_id("nbgrad-value-numbers")
    expect(value).to_contain_text("It answers when the running cell has ended")
    (lab_server.notebooks / "enough_numbers").touch()
    expect(value).to_contain_text("(200, 300) float32: each cell is the mean of 1.562 x 2.344 numbers", timeout=30_000)
    expect(value).to_contain_text("1.5       1.49       1.48       1.47       1.46       1.45  … 294 more")
    expect(value.get_by_test_id("nbgrad-heat")).to_have_attribute("viewBox", "0 0 128 128")
    value.scroll_into_view_if_needed()
    lab.screenshot("view_numbers")

    view.locator('[aria-label^="mul"]').click()
    panel.get_by_role("button", name="All numbers").first.click()
    expect(panel).to_contain_text("Only statistics were kept: gradients of results are freed when the graph closes.")

    lab.cell(1)  # nothing more is to be asked of the cell that was busy
    view.locator('[aria-label^="weight, "]').click()
    offered = panel.get_by_role("button", name="All numbers").last
    lab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    offered.click()
    gone = "Its numbers do not fit into the picture. The kernel that made this picture is gone: run this cell again."
    expect(panel.get_by_test_id("nbgrad-gradient-numbers")).to_have_text(gone, timeout=1000)
    view.locator('[aria-label^="mul"]').click()
    view.locator('[aria-label^="weight, "]').click()
    for what in ("value", "gradient"):
        expect(panel.get_by_test_id(f"nbgrad-{what}-numbers")).to_have_text(gone)
    expect(panel.get_by_role("button", name="All numbers")).to_have_count(0)
    view.get_by_test_id("nbgrad-turn").click()
    expect(view.locator(".nbg-status[role=status]")).to_have_text(
        gone.removeprefix("Its numbers do not fit into the picture. ")
    )
    panel.get_by_test_id("nbgrad-value-numbers").scroll_into_view_if_needed()
    lab.screenshot("view_numbers_gone")


def test_a_copied_notebook_on_the_same_kernel_leaves_the_views_of_the_first_alive(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    first = written(tmp_path / "first.ipynb", "%load_ext nbgrad\nimport nbgrad, pathlib", DEEP)
    name = lab_server.add(first)
    copy = lab_server.add(first.rename(tmp_path / "second.ipynb"))
    lab.open(name)
    lab.run_all()
    open_beside = """async path => {
        const first = jupyterapp.shell.currentWidget, { id } = first.sessionContext.session.kernel;
        const panel = await jupyterapp.commands.execute('docmanager:open', { path, kernel: { id } });
        await panel.sessionContext.ready;
        return [id, panel.sessionContext.session.kernel.id];
    }"""
    kernels = lab.page.evaluate(open_beside, copy)
    assert kernels[0] == kernels[1]
    lab.run_all()
    assert not lab.errors()
    lab.page.evaluate("path => jupyterapp.commands.execute('docmanager:open', { path })", name)
    view = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)").get_by_test_id("nbgrad-view")
    view.locator(".nbg-folded").dblclick()
    expect(view.locator(".nbg-folded")).to_have_count(60)


def test_a_cell_that_runs_again_leaves_no_view_in_the_kernel(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    count = (
        "from ipywidgets.widgets.widget import _instances\n"
        "sum(type(one).__name__ == 'GraphView' for one in _instances.values())"
    )
    sources = ["%load_ext nbgrad\nimport nbgrad, pathlib", DEEP, TRAINED, count]
    lab.open(lab_server.add(written(tmp_path / "again.ipynb", *sources)))
    for _ in range(3):
        lab.run_all()
        assert lab.cells()[3]["outputs"][0]["data"]["text/plain"] == "2"
    deep = lab.output(1, 1).get_by_test_id("nbgrad-view")
    deep.locator(".nbg-folded").dblclick()
    expect(deep.locator(".nbg-folded")).to_have_count(60)
    expect(lab.cell(1).get_by_test_id("nbgrad-view")).to_have_count(1)
    assert not lab.errors()
    lab.screenshot("view_again")


def test_the_view_answers_while_a_cell_runs_and_after_its_kernel(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    name = lab_server.add(written(tmp_path / "busy.ipynb", "%load_ext nbgrad\nimport nbgrad, pathlib", TRAINED, BUSY))
    lab.open(name)
    lab.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
    # lab.cell() would choose the cell, and so end the run
    view = lab.page.get_by_test_id("nbgrad-view")
    expect(view).to_be_visible(timeout=30_000)
    deadline = time.monotonic() + 30
    while not (lab_server.notebooks / "running").exists() and time.monotonic() < deadline:
        lab.page.wait_for_timeout(50)
    view.locator('[aria-label^="sub"]').click(position={"x": 20, "y": 8})
    expect(details(view).locator("math")).to_have_count(5)
    assert lab.cells()[2]["execution_count"] is None, "it still runs: the question reached no kernel"
    (lab_server.notebooks / "enough").touch()
    expect(lab.page.locator(".jp-InputPrompt").nth(2)).to_have_text("[3]:")

    lab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    view.locator('[aria-label^="w, "]').click()
    expect(details(view).locator("h3")).to_have_text("w")

    lab.save()
    lab.open(name)  # without a kernel that knows the widget: what the drawing holds
    expect(lab.cell(1).locator(".nbgrad-saved").get_by_test_id("nbgrad-view")).to_be_visible(timeout=20_000)
    saved = nbformat.read(lab_server.notebooks / name, 4)
    assert "widgets" not in saved.metadata


def test_a_saved_notebook_with_ten_views_takes_less_than_a_megabyte_and_a_half(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path
) -> None:
    name = lab_server.add(written(tmp_path / "ten.ipynb", "%load_ext nbgrad\nimport nbgrad, torch", NET, *[STEPS] * 10))
    lab.open(name)
    lab.run_all()
    lab.save()
    assert not lab.errors()
    saved = nbformat.read(lab_server.notebooks / name, 4)
    assert all("image/png" in cell.outputs[0].data for cell in saved.cells[2:])
    assert (lab_server.notebooks / name).stat().st_size < 1_500_000
