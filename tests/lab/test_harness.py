"""The harness notices: a click that reaches the kernel, a failing cell, a page that asks the network for something."""

import errno
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import BrowserContext, expect

from tests.lab.harness import LabServer, NotebookPage, watched_page

pytestmark = pytest.mark.browser

WIDGET = '''
import anywidget
import traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default {
        render({ model, el }) {
            const button = document.createElement("button");
            button.dataset.testid = "counter";
            const show = () => { button.textContent = `${model.get("asked")} ${model.get("answer")}`; };
            button.onclick = () => { model.set("asked", model.get("asked") + 1); model.save_changes(); };
            model.on("change", show);
            show();
            el.append(button);
        },
    };
    """
    asked = traitlets.Int(0).tag(sync=True)
    answer = traitlets.Int(0).tag(sync=True)

    @traitlets.observe("asked")
    def _reply(self, change):
        self.answer = 10 * change.new

Counter()
'''


def test_a_widget_answers_and_a_failure_is_seen(lab: NotebookPage, lab_server: LabServer, tmp_path: Path) -> None:
    sources = [WIDGET, *["'more'"] * 30, "1 / 0"]
    # without it Lab asks for a kernel
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources], metadata=kernel)
    nbformat.write(notebook, tmp_path / "counter.ipynb")
    lab.open(lab_server.add(tmp_path / "counter.ipynb"))
    lab.run_all()

    assert lab.errors() == ["cell 31: ZeroDivisionError: division by zero"]
    expect(lab.cell(31)).to_contain_text("ZeroDivisionError")  # far below: Lab draws it once it is scrolled to
    [(cell, output)] = lab.outputs("application/vnd.jupyter.widget-view+json")
    button = lab.output(cell, output).get_by_test_id("counter")
    expect(button).to_have_text("0 0")
    button.click()
    expect(button).to_have_text("1 10")


def test_a_request_to_elsewhere_is_seen(context: BrowserContext) -> None:
    with watched_page(context) as (page, remote):
        page.set_content('<img src="http://elsewhere.invalid/x.png"><img src="data:,">')
    assert remote == ["http://elsewhere.invalid/x.png"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a port for a server that has not started")
def test_the_port_of_a_server_that_starts_is_taken(tmp_path: Path) -> None:
    """Several processes start servers at once, and kernels and browsers open sockets all the time."""
    server = LabServer(tmp_path)
    with socket.socket() as other, pytest.raises(OSError, match=r".") as taken:
        other.bind(("127.0.0.1", urlsplit(server.url).port))
    server.place.close()
    assert taken.value.errno == errno.EADDRINUSE
