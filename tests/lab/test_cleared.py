"""If an output is cleared, the kernel drops the data of its view. It keeps them as long as the view may come back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.lab.harness import LabServer, NotebookPage
from tests.lab.test_view import DEEP, written

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]

SETUP = """%load_ext nbgrad
import gc
import comm, ipywidgets, nbgrad, pathlib, torch
from IPython.display import clear_output, display
from ipywidgets.widgets.widget import _instances
def kept():
    gc.collect()
    known = [model for model, one in _instances.items() if type(one).__name__ == "GraphView"]
    comms = [model for model in known if model in comm.get_comm_manager().comms]
    alive = [one for one in gc.get_objects() if type(one).__name__ == "GraphView" and one._outline is not None]
    kept = [one for one in gc.get_objects() if type(one).__name__ == "GraphView" and one._kept is not None]
    return len(known), len(comms), len({id(one) for one in (*alive, *kept)})"""

KEPT = "kept()"

RECORDED = "with nbgrad.record('deep'):\n" + "\n".join("        " + line for line in DEEP.splitlines()[1:])

WATCHED = """net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 8), nbgrad.nn.Tanh(), nbgrad.nn.Linear(8, 1))
live = nbgrad.watch(net)
for _ in range(3):
    (net(nbgrad.tensor(torch.ones(4, 2))) ** 2).mean().backward()
    clear_output(wait=True)
    live.show()"""

APPS = pytest.mark.parametrize("app", ["lab/tree", "notebooks"])

HOSTS = ("reading 'schema'", "debugger state", "filebrowser:open-path")
"""Parts of errors that JupyterLab and Notebook themselves report."""

LONG = 3000  # in milliseconds: by then a page has said everything about an output


@pytest.fixture
def quiet(page: Page) -> Iterator[None]:
    """The page must report no error of nbgrad or of a widget."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield
    assert [error for error in errors if not any(one in error for one in HOSTS)] == []


def command(lab: NotebookPage, name: str, cell: int | None = None) -> None:
    """Run a menu command on a cell."""
    if cell is not None:
        lab.cell(cell)
    lab.page.evaluate("name => jupyterapp.commands.execute(name).then(() => {})", f"notebook:{name}")


def run(lab: NotebookPage, cell: int, source: str) -> None:
    lab.page.evaluate(
        """([cell, source]) => {
            jupyterapp.shell.currentWidget.content.widgets[cell].model.sharedModel.setSource(source);
        }""",
        [cell, source],
    )
    command(lab, "run-cell", cell)


def kept(lab: NotebookPage, many: int) -> None:
    """Run the last cell again until it says that ``many`` views are kept."""
    last = len(lab.cells()) - 1
    for _ in range(20):
        command(lab, "run-cell", last)
        if (said := lab.cells()[last]["outputs"][0]["data"]["text/plain"]) == str((many,) * 3):
            return
        lab.page.wait_for_timeout(500)
    pytest.fail(f"{said} views are kept, and not {many}")


def kept_for_long(lab: NotebookPage, many: int) -> None:
    lab.page.wait_for_timeout(LONG)
    kept(lab, many)


def check_live(view: Locator) -> None:
    """The kernel still answers this view."""
    view.locator(".nbg-folded").first.dblclick()
    expect(view.locator(".nbg-folded")).to_have_count(60)


def shown(lab: NotebookPage, cell: int) -> Locator:
    return lab.cell(cell).get_by_test_id("nbgrad-view")


def opened(lab: NotebookPage, server: LabServer, path: Path, *sources: str, app: str = "lab/tree") -> str:
    name = server.add(written(path, SETUP, *sources, KEPT))
    lab.open(name, app)
    lab.run_all()
    assert not lab.errors()
    return name


@APPS
def test_a_cleared_output_frees_its_view(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None, app: str
) -> None:
    opened(lab, lab_server, tmp_path / f"cleared_{app[:3]}.ipynb", DEEP, DEEP, "1", app=app)
    expect(shown(lab, 1)).to_be_visible()
    kept(lab, 2)
    command(lab, "clear-cell-output", 1)
    kept(lab, 1)
    check_live(shown(lab, 2))
    command(lab, "run-cell", 1)
    check_live(shown(lab, 1))
    kept(lab, 2)
    command(lab, "run-cell", 1)
    kept_for_long(lab, 2)
    check_live(shown(lab, 1))

    command(lab, "hide-cell-outputs", 1)
    kept_for_long(lab, 2)
    command(lab, "show-cell-outputs", 1)
    expect(shown(lab, 1).locator(".nbg-folded")).to_have_count(60)
    command(lab, "hide-cell-outputs", 1)
    command(lab, "clear-cell-output", 1)
    kept(lab, 1)
    command(lab, "clear-all-cell-outputs")
    kept(lab, 0)


@APPS
def test_a_cell_that_is_deleted_moved_or_cut_comes_back_with_its_view(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None, app: str
) -> None:
    opened(lab, lab_server, tmp_path / f"deleted_{app[:3]}.ipynb", DEEP, "1", app=app)
    for gone, back in (("delete-cell", "undo-cell-action"), ("cut-cell", "paste-cell-above")):
        expect(shown(lab, 1)).to_be_visible()
        command(lab, gone, 1)
        kept_for_long(lab, 1)
        lab.cell(1)
        command(lab, back)
        expect(shown(lab, 1)).to_be_visible()
    command(lab, "move-cell-down", 1)
    kept_for_long(lab, 1)
    check_live(shown(lab, 2))
    command(lab, "clear-cell-output", 2)
    kept(lab, 0)


def test_a_closed_notebook_shows_its_views_when_it_is_opened_again(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None
) -> None:
    name = opened(lab, lab_server, tmp_path / "closed.ipynb", DEEP)
    lab.save()
    lab.page.evaluate("() => { jupyterapp.shell.currentWidget.close(); }")
    lab.page.wait_for_timeout(LONG)
    lab.page.evaluate("path => { jupyterapp.commands.execute('docmanager:open', { path }); }", name)
    expect(lab.page.get_by_test_id("nbgrad-view")).to_be_visible(timeout=20_000)
    check_live(shown(lab, 1))
    kept(lab, 1)


@APPS
def test_a_page_that_is_loaded_anew_or_opened_twice_has_live_views(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None, app: str
) -> None:
    name = opened(lab, lab_server, tmp_path / f"twice_{app[:3]}.ipynb", DEEP, app=app)
    lab.save()
    other = NotebookPage(lab.page.context.new_page(), lab_server)
    other.open(name, app)
    expect(shown(other, 1)).to_be_visible()
    command(lab, "clear-cell-output", 1)
    lab.page.wait_for_timeout(LONG)
    check_live(shown(other, 1))
    kept(lab, 1)


def test_the_last_of_several_views_frees_what_is_kept(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None
) -> None:
    opened(lab, lab_server, tmp_path / "several.ipynb", DEEP)
    for close in (True, False):
        command(lab, "create-output-view", 1)
        expect(lab.page.get_by_test_id("nbgrad-view")).to_have_count(2)
        lab.page.evaluate(
            """close => {
                const { shell } = jupyterapp;
                if (close) shell.currentWidget.close();
                else shell.activateById([...shell.widgets('main')].find(one => one.content?.activeCell).id);
            }""",
            close,
        )
        lab.page.wait_for_function("() => jupyterapp.shell.currentWidget?.content?.activeCell")
        kept_for_long(lab, 1)
    check_live(shown(lab, 1))
    command(lab, "clear-cell-output", 1)
    kept(lab, 0)


@APPS
def test_what_may_be_displayed_again_is_kept(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None, app: str
) -> None:
    captured = f"out = ipywidgets.Output()\nwith out:\n    {RECORDED}\nout"
    sources = (WATCHED, captured, "1", "1")
    opened(lab, lab_server, tmp_path / f"held_{app[:3]}.ipynb", *sources, app=app)
    for cell in (1, 2):
        expect(shown(lab, cell)).to_be_visible()
    run(lab, 3, "taken = out.outputs; out.outputs = ()")
    expect(shown(lab, 2)).to_have_count(0)
    kept_for_long(lab, 2)
    run(lab, 3, "out.outputs = taken")
    expect(shown(lab, 2)).to_be_visible()
    command(lab, "clear-all-cell-outputs")
    kept_for_long(lab, 2)
    for cell, source in ((3, "live.show()"), (4, "display(out)")):
        run(lab, cell, source)
        expect(shown(lab, cell)).to_be_visible()
    check_live(shown(lab, 4))


@pytest.mark.parametrize("mode", ["full", "defer"])
def test_a_view_that_is_scrolled_away_is_kept(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None, mode: str
) -> None:
    opened(lab, lab_server, tmp_path / f"scrolled_{mode}.ipynb", DEEP, *["#\n" * 60] * 8)
    lab.page.evaluate(
        """mode => {
            const { content } = jupyterapp.shell.currentWidget;
            content.notebookConfig = { ...content.notebookConfig, windowingMode: mode };
        }""",
        mode,
    )
    expect(shown(lab, 1)).to_be_visible()
    lab.cell(9)
    kept_for_long(lab, 1)
    check_live(shown(lab, 1))
    lab.cell(9)
    command(lab, "clear-all-cell-outputs")
    kept(lab, 0)


def test_a_kernel_that_was_restarted_is_told_nothing(
    lab: NotebookPage, lab_server: LabServer, tmp_path: Path, quiet: None
) -> None:
    opened(lab, lab_server, tmp_path / "restarted.ipynb", DEEP)
    expect(shown(lab, 1)).to_be_visible()
    lab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel().then(() => {})")
    command(lab, "clear-all-cell-outputs")
    lab.page.wait_for_timeout(LONG)
