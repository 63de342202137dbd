"""A reader types a gradient into a picture with a kernel: the graph remembers the answer, and the picture shows it."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.lab.harness import LabServer, NotebookPage
from tests.lab.test_view import written

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

ASKED = """%%autograd --name asked --ask "a, b"
a = nbgrad.tensor(2.0, requires_grad=True)
b = nbgrad.tensor(-3.5, requires_grad=True)
loss = (a * b + 10.0) * -2.0
loss.backward()"""


def test_the_graph_remembers_what_was_typed(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    sources = ["%load_ext nbgrad\nimport nbgrad", ASKED, "graph = %autograd last", "print('answers', graph.answers)"]
    lab.open(lab_server.add(written(tmp_path / "asked.ipynb", *sources)))
    lab.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")
    view = lab.page.get_by_test_id("nbgrad-view")
    expect(view).to_be_visible(timeout=60_000)
    expect(lab.page.get_by_text("answers {'a': None, 'b': None}")).to_be_visible(timeout=30_000)
    a, b = (view.locator(f"[data-testid=nbgrad-node][aria-label^='{name},']") for name in "ab")
    field = view.get_by_test_id("nbgrad-answer")

    a.click()
    field.fill("-7")
    field.press("Enter")
    expect(view.get_by_test_id("nbgrad-answered")).to_have_text("✗ not yet: the sign is wrong.")
    expect(a).to_contain_text("∇ ✗")
    field.fill("7")
    field.press("Enter")
    expect(a).to_contain_text("∇ 7", timeout=30_000)  # the kernel has drawn it
    expect(view.locator(".nbg-note").first).to_contain_text("Asked for: the gradients of b.")
    lab.screenshot("answered")

    b.click()
    expect(field).to_have_value("")
    field.fill("4")
    field.press("Enter")
    expect(view.get_by_test_id("nbgrad-answered")).to_contain_text("the sign is wrong")
    lab.page.get_by_text("print('answers', graph.answers)").click()
    lab.page.keyboard.press("Control+Enter")
    expect(lab.page.get_by_text("answers {'a': ∇ a ✓ right, 'b': ∇ b ✗ not yet: the sign is wrong.}")).to_be_visible(
        timeout=30_000
    )
