"""A notebook with the engines of ipyparallel: they train together, and one picture stands for all of them."""

from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = [
    pytest.mark.once,
    pytest.mark.more("ipyparallel"),
    pytest.mark.rotated(2, together="engines"),
]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "distributed.md"

STEP = """%%px
%%autograd --ranks --name both
net(nbgrad.ones(3, 4) * (rank + 1)).sum().backward()"""

EACH = STEP.replace("--ranks --name both", "--view text")

STUCK = """%%px
%%autograd --ranks --view text
import signal, threading
if rank == 0:
    threading.Timer(1, signal.raise_signal, [signal.SIGINT]).start()  # as if the reader interrupted the cell
else:
    raise ValueError("the seventh row is broken")
net(nbgrad.ones(3, 4)).sum().backward()"""

AGAIN = """%%px
dist.destroy_process_group()"""

SAME = """%%px
print(sum(one.grad.sum().item() for one in net.parameters()))"""


def cells_of_the_page() -> list[str]:
    """The code that a notebook needs before its first picture, from the page on training."""
    section = PAGE.read_text("utf-8").partition("## In a notebook")[2].partition("\n## ")[0]
    return [block.partition("```")[0].strip() for block in section.split("```ipython\n")[1:]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    start, join, shown, stop = cells_of_the_page()
    again = [start.splitlines()[-1], AGAIN, join]
    sources = [start, join, shown, STEP, SAME, EACH, STUCK, *again, STEP, stop]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    folder = tmp_path_factory.mktemp("engines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("PYTHONPATH", str(ROOT))
        client = NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(folder)}})
        client.execute()
    return notebook


def shown(cell: NotebookNode) -> list[dict[str, Any]]:
    return [output["data"] for output in cell.outputs if "data" in output]


def labels(cell: NotebookNode) -> list[str]:
    return [data["text/plain"] for data in shown(cell) if data["text/plain"].startswith("[output:")]


def errors(cell: NotebookNode) -> str:
    return "".join(str(output.get("text", "")) + str(output.get("evalue", "")) for output in cell.outputs)


@pytest.mark.parametrize("at", [2, 3, 10])
def test_one_picture_stands_for_all_ranks(ran: NotebookNode, at: int) -> None:
    """This holds for the page's picture, for a later one, and for one after the engines have joined a new group."""
    cell = ran.cells[at]
    assert not errors(cell)
    still, live = [data for data in shown(cell) if not data["text/plain"].startswith(("[output:", "%px:"))]
    assert labels(cell) == ["[output:0]", "[output:0]"]
    assert "Note: Rank 0 of 2. It sent " in still["text/plain"]
    assert {"image/svg+xml", "image/png"} <= set(still)
    assert "application/vnd.jupyter.widget-view+json" in live


def test_the_gradients_of_the_engines_are_averaged(ran: NotebookNode) -> None:
    first, second = [data["text/plain"].strip() for data in shown(ran.cells[4]) if "[stdout" in data["text/plain"]]
    assert {first.partition("]")[0], second.partition("]")[0]} == {"[stdout:0", "[stdout:1"}
    assert first.partition("]")[2] == second.partition("]")[2]


def test_without_ranks_each_engine_shows_its_own(ran: NotebookNode) -> None:
    assert sorted(labels(ran.cells[5])) == ["[output:0]", "[output:1]"]


def test_an_engine_that_raises_is_named_and_an_interrupt_frees_the_others(ran: NotebookNode) -> None:
    said = errors(ran.cells[6])
    assert "the seventh row is broken" in said
    assert "KeyboardInterrupt" in said
    assert not any(errors(cell) for cell in ran.cells[7:])


def test_no_cell_of_the_page_fails(ran: NotebookNode) -> None:
    assert not any(output["output_type"] == "error" for at in (0, 1, 2, -1) for output in ran.cells[at].outputs)
