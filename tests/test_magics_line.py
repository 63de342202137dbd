"""The line ``%autograd``: status, every cell, the last graph, its file, defaults and help."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import nbgrad
from nbgrad.core.engine.state import State, current
from nbgrad.magic_arguments import COMMANDS

PRODUCT = "import nbgrad\na = nbgrad.tensor([1.0, 2.0], requires_grad=True)\nloss = (a * a).sum()\nloss.backward()"


def run(shell: InteractiveShell, cell: str) -> tuple[ExecutionResult, Any]:
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True)
    return result, captured


def said(shell: InteractiveShell, line: str) -> str:
    captured = run(shell, line)[1]
    return captured.stdout + captured.stderr


def pictures(captured: Any) -> int:
    return sum("image/svg+xml" in output.data for output in captured.outputs)


def test_status_says_what_is_recorded_and_what_was(shell: InteractiveShell) -> None:
    assert said(shell, "%autograd") == said(shell, "%autograd status")
    assert (
        said(shell, "%autograd status")
        == "only cells that begin with %%autograd are recorded; no cell was recorded yet\n"
    )
    run(shell, f"%%autograd --name square --view none\n{PRODUCT}")
    assert said(shell, "%autograd status").splitlines() == [
        "only cells that begin with %%autograd are recorded",
        "last graph: <AutogradGraph 'square': 2 ops, 1 backwards>, <History: 1 of 1 backwards>",
    ]
    run(shell, "%autograd on --view none --no-watch")
    assert "every cell is recorded, with view=none watch=False" in said(shell, "%autograd status")


def test_on_records_every_cell_that_has_ops_until_off(shell: InteractiveShell) -> None:
    _, captured = run(shell, f"%autograd on\n{PRODUCT}")
    assert pictures(captured) == 0, "from the next cell on"
    assert pictures(run(shell, PRODUCT)[1]) == 1
    assert pictures(run(shell, "1 + 1")[1]) == 0, "nothing to draw"
    assert pictures(run(shell, "loss.item()")[1]) == 0
    assert pictures(run(shell, "import os")[1]) == 0
    assert run(shell, "%autograd last")[0].result.backwards == 1
    run(shell, "%autograd off")
    assert current() == State()
    assert pictures(run(shell, PRODUCT)[1]) == 0


def test_a_cell_of_its_own_adds_to_the_options_of_every_cell(shell: InteractiveShell) -> None:
    run(shell, "%autograd on --view text --history 2")
    _, captured = run(shell, f"%%autograd --name mine\n{PRODUCT}")
    assert [list(output.data) for output in captured.outputs] == [["text/plain"]]
    graph = run(shell, "%autograd last")[0].result
    assert (graph.name, graph.listener.history.limit) == ("mine", 2)
    assert current() == State()


def test_every_cell_where_its_file_has_no_folder_any_more(shell: InteractiveShell, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    run(shell, f"%autograd on --view none --save {folder}/net.svg")
    folder.rmdir()
    told = said(shell, PRODUCT)
    assert told.startswith("UsageError: %autograd on: ")
    assert "there is no folder" in told
    assert told.endswith(". This cell is not recorded.\n")
    assert shell.user_ns["loss"].item() == 5
    folder.mkdir()
    assert said(shell, PRODUCT) == ""
    assert (folder / "net.svg").exists()


def test_every_cell_and_one_that_raises(shell: InteractiveShell) -> None:
    run(shell, "%autograd on")
    result, captured = run(shell, f"{PRODUCT}\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert pictures(captured) == 1
    assert current() == State()
    assert run(shell, "syntax error here")[1].outputs == []
    assert current() == State()


@pytest.mark.parametrize("outer", ["%%time\n", "%%capture kept\n", ""])
def test_every_cell_below_other_magics(shell: InteractiveShell, outer: str) -> None:
    run(shell, "%autograd on --view none")
    run(shell, f"{outer}{PRODUCT}")
    assert len(run(shell, "%autograd last")[0].result.records) == 3


def test_last_gives_the_graph_and_draws_it(shell: InteractiveShell) -> None:
    assert "no cell was recorded yet. Put %%autograd on the first line" in said(shell, "%autograd last")
    run(shell, f"%%autograd --view none\n{PRODUCT}")
    result, captured = run(shell, "%autograd last")
    assert isinstance(result.result, nbgrad.AutogradGraph)
    assert pictures(captured) == 1
    assert pictures(run(shell, "graph = %autograd last")[1]) == 0
    assert shell.user_ns["graph"] is result.result


def test_a_graph_displays_as_the_defaults_have_it(shell: InteractiveShell) -> None:
    run(shell, f"%%autograd --view none\n{PRODUCT}")
    _, before = run(shell, "%autograd last")
    run(shell, "%autograd config --direction LR")
    _, after = run(shell, "%autograd last")
    assert before.outputs[0].data["image/svg+xml"] != after.outputs[0].data["image/svg+xml"]


def test_save_writes_the_last_graph_with_its_options(shell: InteractiveShell, tmp_path: Path) -> None:
    run(shell, f"%%autograd --direction LR --view none\n{PRODUCT}")
    file = tmp_path / "a graph.svg"
    assert said(shell, f"%autograd save '{file}'") == ""
    wanted = tmp_path / "wanted.svg"
    shell.user_ns["path"] = str(wanted)
    run(shell, "graph = %autograd last\ngraph.save(path, direction='LR')")
    assert file.read_bytes() == wanted.read_bytes()
    assert said(shell, "%autograd save {path}") == ""
    assert "it takes one file, as in %autograd save net.svg" in said(shell, "%autograd save")
    assert "it takes one file" in said(shell, "%autograd save a.svg b.svg")
    assert "to .svg, .png, .pdf, .html, .gif, .dot, .json, .txt" in said(shell, "%autograd save net.bmp")


def test_a_path_may_begin_in_the_home_folder(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert said(shell, f"%%autograd --view none --save ~/cell.svg\n{PRODUCT}") == ""
    assert said(shell, "%autograd save ~/line.svg") == ""
    run(shell, "graph = %autograd last\ngraph.save('~/python.svg')")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cell.svg", "line.svg", "python.svg"]


def test_save_in_the_cell_itself_writes_what_there_is_so_far(shell: InteractiveShell, tmp_path: Path) -> None:
    run(shell, f"%%autograd --view none --name mine\n{PRODUCT}\n%autograd save {tmp_path}/graph.txt")
    assert (tmp_path / "graph.txt").read_text().startswith("mine: 2 ops, 1 tensor")


def test_help_lists_everything_and_explains_one_option(shell: InteractiveShell) -> None:
    text = said(shell, "%autograd help")
    assert all(name in text for name in (*COMMANDS, "--strict-broadcast", "--budget", "--view"))
    assert said(shell, "%autograd -h") == text
    assert said(shell, "%autograd on -h") == said(shell, "%autograd config --view text --help") == text
    assert said(shell, "%autograd").startswith("only cells that begin with %%autograd are recorded"), "nothing is on"
    assert "view              graph" in said(shell, "%autograd config"), "nothing is set"
    assert said(shell, "%autograd help depth").splitlines() == [
        "--depth: draw each module that is nested deeper as one box; default: fold until the picture fits",
        "  value      a whole number, or none",
        "  default    -",
        "  now        -",
        "  in a cell  %%autograd --depth 1",
        "  in Python  with nbgrad.record(depth=1) as graph: ...",
    ]
    assert said(shell, "%autograd help --no-watch") == said(shell, "%autograd help watch")
    assert "in Python  with nbgrad.record(watch=False)" in said(shell, "%autograd help watch")
    assert "there is no command or option dept; did you mean depth?" in said(shell, "%autograd help dept")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%autograd stat", "there is no command stat; did you mean status?\nThere are status, on, off"),
        ("%autograd off now", "%autograd off takes no further arguments, but got now"),
        ("%autograd on --veiw text", "there is no option --veiw; did you mean --view?"),
        ("%autograd on --history 1", "history=1: it must be 0, or at least 2"),
        ("%autograd on --save", "--save needs a value, as in: %%autograd --save net.svg\n%autograd help lists"),
    ],
)
def test_a_wrong_command_is_refused(shell: InteractiveShell, line: str, message: str) -> None:
    assert f"UsageError: {message}" in said(shell, line).replace("%%autograd: ", "").replace("%autograd: ", "")
    assert run(shell, "1")[0].success
    assert current() == State()


def test_unloading_ends_the_recording_of_every_cell(shell: InteractiveShell) -> None:
    callbacks = shell.events.callbacks["pre_run_cell"]
    before = len(callbacks)
    run(shell, "%autograd on")
    nbgrad.unload_ipython_extension(shell)
    assert len(callbacks) == before - 1
    assert pictures(run(shell, PRODUCT)[1]) == 0


# In a real kernel, where a cell runs in a context of its own.


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    cells = [
        "%load_ext nbgrad\n%autograd on --view text",
        PRODUCT,
        f"import asyncio\nawait asyncio.sleep(0)\n{PRODUCT}\n'awaited'",
        "%autograd off\nfrom nbgrad.core.engine.state import State, current\ncurrent() == State()",
        PRODUCT,
        "from nbgrad.core.engine.state import State, current\ncurrent() == State()",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    extra = ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True, extra_arguments=extra).execute()
    return notebook


@pytest.mark.rotated(3)
def test_in_a_kernel_every_cell_is_recorded(executed: nbformat.NotebookNode) -> None:
    texts = [
        [output.data["text/plain"] for output in cell.outputs if output.output_type != "stream"]
        for cell in executed.cells
    ]
    assert texts[0] == []
    assert texts[1][0].startswith("graph 1: 2 ops, 1 tensor"), texts[1]
    assert [texts[2][0], texts[2][1][:7]] == ["'awaited'", "graph 2"]
    assert texts[3:] == [["False"], [], ["True"]]


def test_help_explains_commands_too(shell: InteractiveShell) -> None:
    for command in ("on", "config", "last"):
        assert said(shell, f"%autograd help {command}") == f"%autograd {command}: {COMMANDS[command]}\n"
    both = said(shell, "%autograd help save")
    assert both.startswith(f"%autograd save: {COMMANDS['save']}\n\n--save: ")
    assert "there is no command or option statsu; did you mean status?" in said(shell, "%autograd help statsu")


def test_a_comment_stands_after_any_of_it(shell: InteractiveShell, tmp_path: Path) -> None:
    run(shell, f"%%autograd --name 'number #1' --view text # --depth x\n{PRODUCT}")
    assert run(shell, "%autograd last # that one")[0].result.name == "number #1"
    file = tmp_path / "net#1.txt"
    assert said(shell, f"%autograd save {file} # as text") == ""
    assert file.exists()
    assert run(shell, f"%%autograd # -h would help\n{PRODUCT}")[0].success
    assert pictures(run(shell, f"%%autograd # all of it\n{PRODUCT}")[1]) == 1
