"""``clear_output(wait=True)`` in a real kernel: recorded or not, the same outputs of the user are left."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.test_magics import SVG, VIEW

PRINTS = "for i in range(3):\n    step()\n    print('step', i)\n    clear_output(wait=True)"
CELLS = {
    "prints": PRINTS,
    "plots": "for i in range(3):\n    step()\n    display(HTML(f'<svg>{i}</svg>'))\n    clear_output(wait=True)",
    "at the beginning": "for i in range(3):\n    clear_output(wait=True)\n    step()\n    print('step', i)",
    "an output follows": PRINTS + "\nprint('end')",
    "a result follows": PRINTS + "\n1 + 1",
    "an error follows": PRINTS + "\nraise ValueError",
    "at once": "print(1)\nstep()\nprint(2)\nclear_output()\nprint(3)\nclear_output()",
    "a bar": "import sys\nfor i in range(3):\n    step()\n    print(f'\\r{i}', end='', file=sys.stderr)\n"
    "    clear_output(wait=True)",
    "a widget": "import ipywidgets\nbar = ipywidgets.IntProgress()\ndisplay(bar)\nfor i in range(3):\n    step()\n"
    "    clear_output(wait=True)\n    bar.value = i",
    "captured": "get_ipython().run_cell_magic('capture', 'kept', 'print(1)\\nclear_output(wait=True)')\nstep()\n"
    "print(2)",
    "captured outputs": "print(1)\nstep()\nget_ipython().run_cell_magic('capture', 'kept', 'display(2)')\n"
    "clear_output(wait=True)",
    "a cell inside": "print(1)\nget_ipython().run_cell('step()\\nprint(2)\\nclear_output(wait=True)')\nstep()",
    "a block": "with nbgrad.record():\n    for i in range(3):\n        step()\n        print(i)\n"
    "        clear_output(wait=True)",
    "a watch": "live = nbgrad.watch(net, every=0)\nfor i in range(3):\n    print(i)\n    clear_output(wait=True)\n"
    "    step()\nlive.close()\nlive = None",
}
BEGIN = (
    "%load_ext nbgrad\nimport torch\nimport nbgrad\nfrom IPython.display import HTML, clear_output, display\n"
    "net = torch.nn.Linear(2, 1)\ndef step():\n    net(torch.ones(1, 2)).sum().backward()"
)


def executed(cells: list[str]) -> list[nbformat.NotebookNode]:
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in [BEGIN, *cells]])
    extra = ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True, extra_arguments=extra).execute()
    return list(notebook.cells[1:])


def users(cell: nbformat.NotebookNode) -> list[str]:
    """The outputs that the code of the user has left below a cell."""
    found, streams = list[str](), False
    for output in cell.outputs:
        data = output.get("data", {})
        view = VIEW in data and "IntProgress" not in data["text/plain"]
        script = "nbgrad-script" in data.get("text/html", "")  # that makes the pictures of a saved notebook live
        if SVG not in data and not view and not script and "Live view of" not in data.get("text/plain", ""):
            told = output.get("text") or data.get("text/html") or data.get("text/plain") or output.get("ename")
            if output.output_type == "stream" and found and streams:
                told = found.pop() + told  # a line may come in two messages
            found.append(told)
            streams = output.output_type == "stream"
    return found


@pytest.fixture(scope="module")
def plain() -> list[nbformat.NotebookNode]:
    return executed([cell.replace("nbgrad.record()", "nbgrad.record(view='none')") for cell in CELLS.values()])


@pytest.mark.rotated(4)
@pytest.mark.parametrize("way", ["a cell", "every cell"])
def test_a_pending_clear_belongs_to_the_next_output_of_the_user(way: str, plain: list[nbformat.NotebookNode]) -> None:
    names = list(CELLS)
    magic, first = ("%%autograd\n", []) if way == "a cell" else ("", ["%autograd on"])
    recorded = executed([*first, *[magic + CELLS[name] for name in names]])[len(first) :]
    for name, before, after in zip(names, plain, recorded, strict=True):
        assert users(after) == users(before), name
        if name != "a watch":
            assert any(SVG in output.get("data", {}) for output in after.outputs), name


@pytest.mark.rotated(3)
def test_unloading_sends_what_is_kept() -> None:
    cells = executed(
        [
            "print(1)\nclear_output(wait=True)\n%unload_ext nbgrad\nprint(2)",
            "'send' in vars(get_ipython().kernel.session)",
        ]
    )
    assert users(cells[0]) == ["2\n"]
    assert users(cells[1]) == ["False"]
