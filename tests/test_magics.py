"""The magics, in a plain IPython shell and in a real kernel."""

import gc
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from textwrap import indent
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import nbgrad
from nbgrad.core.engine.state import State, current
from nbgrad.options import Options
from nbgrad.widgets import describe, notebook_output

SVG, VIEW = "image/svg+xml", "application/vnd.jupyter.widget-view+json"
PRODUCT = "import nbgrad\na = nbgrad.tensor([1.0, 2.0], requires_grad=True)\nloss = (a * a).sum()\nloss.backward()"


def run(shell: InteractiveShell, cell: str) -> tuple[ExecutionResult, Any]:
    """Run a cell as the user would, and return its result and what it displayed and printed."""
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True)  # without it a trailing ; silences nothing
    return result, captured


def last_graph(shell: InteractiveShell) -> nbgrad.AutogradGraph:
    return the_magics(shell).last.graph


def the_magics(shell: InteractiveShell) -> Any:
    return shell.magics_manager.registry["AutogradMagics"]


def test_the_graph_stands_under_the_cell(shell: InteractiveShell) -> None:
    result, shown = run(shell, f"%%autograd --name 'the square'\n{PRODUCT}")
    assert result.success
    assert [SVG in output.data for output in shown.outputs] == [True, False]
    assert VIEW in shown.outputs[1].data
    assert shown.outputs[0].data["text/plain"].startswith("the square: 2 ops, 1 tensor")
    assert "text/html" not in shown.outputs[0].data


@pytest.mark.parametrize("cell", [f"%%autograd\n{PRODUCT}", f"with nbgrad.record():\n{indent(PRODUCT, ' ')}"])
def test_the_collector_waits_until_the_picture_is_sent(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    found = []
    for module, name in ((describe, "outline"), (notebook_output, "show")):
        then = getattr(module, name)
        told = lambda *args, then=then, **named: found.append(gc.isenabled()) or then(*args, **named)  # noqa: E731
        monkeypatch.setattr(module, name, told)
    run(shell, "import nbgrad")
    assert run(shell, cell)[0].success
    assert found == [False, False], "between the steps it would look through what they have made"
    assert gc.isenabled()


def test_text_output_is_the_same_on_every_run(shell: InteractiveShell) -> None:
    first, second = (run(shell, f"%%autograd --name square\n{PRODUCT}")[1].outputs[0].data for _ in range(2))
    assert first == second


def test_variables_stay_and_the_last_expression_displays(shell: InteractiveShell) -> None:
    result, _ = run(shell, f"%%autograd --view none\n{PRODUCT}\na.grad")
    assert result.result is shell.user_ns["a"].grad
    assert shell.user_ns["loss"].item() == 5
    assert run(shell, f"%%autograd --view none\n{PRODUCT}\na.grad;")[1].stdout == ""


def test_no_view_records_and_draws_nothing(shell: InteractiveShell) -> None:
    _, shown = run(shell, f"%%autograd --view none\n{PRODUCT}")
    assert shown.outputs == []
    assert [record.name for record in last_graph(shell).records] == ["a", None, "loss"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--deph 1", "there is no option --deph; did you mean --depth?"),
        ("--xyzzy", "there is no option --xyzzy\n"),
        ("depth", "there is no option depth; did you mean --depth?"),
        ("--dep 1", "there is no option --dep; did you mean --depth?"),
        ("--view grpah", "view='grpah': it has to be one of graph, steps, flow, text, none; did you mean graph?"),
        ("--view Steps", "view='Steps': it has to be one of graph, steps, flow, text, none; did you mean steps?"),
        ("--direction LEFT", "direction='LEFT': it has to be one of auto, TB, LR"),
        ("--depth one", "depth='one': it has to be a whole number, 0 or more"),
        ("--depth -1", "depth=-1: it has to be a whole number, 0 or more"),
        ("--history 1", "history=1: it must be 0, or at least 2"),
        (
            "--device tpu",
            "device='tpu': it has to be a device that torch knows, such as cpu, cuda or cuda:1; did you mean cpu?",
        ),
        ("--name", "--name needs a value, as in: %%autograd --name "),
        ("--name 'open", "No closing quotation"),
        ("--watch=no", "--watch takes no value: write --watch, or --no-watch to switch it off\n"),
        ("--no-time=1", "--time takes no value: write --time, or --no-time to switch it off\n"),
        ("--save net.jpeg", "'net.jpeg': a graph is not written to a file that ends in .jpeg, but to .svg, .png, .pdf"),
        ("--save net", "'net': a graph is not written to a file without a suffix"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_runs(shell: InteractiveShell, options: str, said: str) -> None:
    result, shown = run(shell, f"%%autograd {options}\nran = True")
    assert isinstance(result.error_in_exec, UsageError)
    assert f"UsageError: %%autograd: {said}" in shown.stdout + shown.stderr
    assert "ran" not in shell.user_ns
    assert current() == State()


def test_cuda_where_there_is_none_says_so_and_runs_nothing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    _, shown = run(shell, "%%autograd --device cuda\nran = True")
    assert "torch finds no CUDA device on this machine" in shown.stdout + shown.stderr
    assert "ran" not in shell.user_ns


def test_an_error_shows_the_users_line_and_closes_the_graph(shell: InteractiveShell) -> None:
    result, shown = run(shell, f"%%autograd\n{PRODUCT}\n1 / 0\nnever = 1")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    frames = result.error_in_exec.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    assert frames is not None
    assert frames.tb_lineno == 6
    assert [SVG in output.data for output in shown.outputs] == [True, False], "what there is is drawn"
    assert last_graph(shell).closed
    assert current() == State()
    assert run(shell, f"%%autograd\n{PRODUCT}")[0].success


def test_where_an_op_raised_is_drawn_with_what_it_was_given(shell: InteractiveShell) -> None:
    cell = "%%autograd\nimport nbgrad\nw = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)\nh = w.exp()\nh @ w"
    result, shown = run(shell, cell)
    assert "matmul(" in str(result.error_in_exec)
    drawing, text = shown.outputs[0].data[SVG], shown.outputs[0].data["text/plain"]
    assert all(word in drawing for word in ("exp", "matmul", "(1, 2)", "raised RuntimeError"))
    assert "The cell stopped here: matmul raised RuntimeError" in text


STOPPED = {
    "a block that names itself": (
        "",
        "net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 4), nbgrad.nn.Linear(3, 1))\nnet(nbgrad.ones(1, 2))",
        ("2 ops", "linear raised RuntimeError: 1", "expected last dimension 3, got 4"),
    ),
    "a broadcast that is refused": (
        "--strict-broadcast",
        "h = nbgrad.ones(3, 1, requires_grad=True) * 2\nh - nbgrad.ones(3)",
        ("2 ops", "sub raised BroadcastError: strict_broadcast"),
    ),
    "an anomaly": (
        "--anomaly",
        "h = nbgrad.tensor([-1.0], requires_grad=True) * 2\nh.log()",
        ("2 ops", "log raised AnomalyError: log made nan in the forward"),
    ),
    "an anomaly that is not recorded": (
        "--anomaly",
        "h = nbgrad.tensor([1.0], requires_grad=True) * 2\nnbgrad.tensor([-1.0]).log()",
        ("2 ops", "log raised AnomalyError: log made nan in the forward"),
    ),
    "a leaf changed in place": (
        "",
        "w = nbgrad.ones(2, requires_grad=True)\nw -= 0.1",
        ("1 op, 2 tensors", "sub_ raised RuntimeError: sub_ changes a leaf"),
    ),
    "a leaf changed in place after a backward": (
        "",
        "w = nbgrad.ones(2, requires_grad=True)\n(w * 3).sum().backward()\nw -= 0.1",
        ("3 ops, 2 tensors", "sub_ raised RuntimeError: sub_ changes a leaf"),
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_whatever_an_op_raised_it_is_drawn_and_counted(shell: InteractiveShell, name: str) -> None:
    options, body, said = STOPPED[name]
    result, shown = run(shell, f"%%autograd --view text {options}\nimport nbgrad\n{body}")
    assert not result.success
    text = shown.outputs[0].data["text/plain"]
    assert [word for word in (*said, "The cell stopped here") if word not in text] == []
    assert "No backward ran" not in text


ENDED = {
    "an error of the cell": ("h = x * 2\n1 / 0", "ZeroDivisionError: division by zero (line 5 of the cell, `1 / 0`)"),
    "an assertion": ("h = x * 2\nassert h.shape == 3", "AssertionError (line 5 of the cell, `assert h.shape == 3`)"),
    "a backward of a vector": ("y = x * x\ny.backward()", "RuntimeError: {} (line 5 of the cell, `y.backward()`)"),
    "a choice by a vector": ("h = x * x\nif h > 1:\n    pass", "RuntimeError: {} (line 5 of the cell, `if h > 1:`)"),
    "in a function": (
        "h = x * 2\ndef f(h):\n    return h * 2 + z\nf(h)",
        "NameError: {} (line 6 of the cell, `return h * 2 + z`)",
    ),
    "in a compiled library": (
        "h = x * 2\nimport numpy\nnumpy.random.default_rng().integers(5, 1)",
        "ValueError: low >= high (line 6 of the cell, `numpy.random.default_rng().integers(5, 1)`)",
    ),
}
"""Cells that end with an error outside of any op, and the message; {} stands for the error's own words."""


@pytest.mark.parametrize("name", ENDED)
def test_an_error_of_no_op_is_told_with_its_line_and_is_no_missing_backward(shell: InteractiveShell, name: str) -> None:
    body, said = ENDED[name]
    cell = f"%%autograd --view text\nimport nbgrad\nx = nbgrad.tensor([1.0, 2.0], requires_grad=True)\n{body}"
    result, shown = run(shell, cell)
    text, message = shown.outputs[0].data["text/plain"], str(result.error_in_exec).partition("\n")[0].rstrip(".")
    assert f"The cell raised {said.format(message)}. No backward was complete, so no gradient is shown." in text


def test_an_error_after_a_backward_is_told_too(shell: InteractiveShell) -> None:
    cell = f"%%autograd --view text\n{PRODUCT}\nraise KeyError('later')"
    text = run(shell, cell)[1].outputs[0].data["text/plain"]
    said = "KeyError: 'later' (line 6 of the cell, `raise KeyError('later')`). The gradients are those of backward 1,"
    assert f"The cell raised {said} the last complete one." in text


def test_what_is_drawn_or_written_later_says_what_raised_as_well(shell: InteractiveShell, tmp_path: Path) -> None:
    cell = "%%autograd --view text\nimport nbgrad\nx = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)\n"
    _, shown = run(shell, f"{cell}(x * 2) @ nbgrad.ones(3)")
    under = shown.outputs[0].data["text/plain"]
    assert "The cell stopped here: matmul raised RuntimeError" in under
    assert run(shell, f"%autograd save {tmp_path / 'line.txt'}")[0].success
    last_graph(shell).save(tmp_path / "python.txt")
    assert [(tmp_path / name).read_text() for name in ("line.txt", "python.txt")] == [f"{under}\n"] * 2
    again = run(shell, "%autograd last")[1].outputs[0].data["text/plain"]
    assert again.startswith(under.partition("\n")[0])
    assert "The cell stopped here: matmul raised RuntimeError" in again


def test_a_block_that_raised_says_so_wherever_its_graph_is_drawn(tmp_path: Path) -> None:
    x = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
    with pytest.raises(RuntimeError), nbgrad.AutogradGraph() as graph:
        (x * 2) @ nbgrad.ones(3)
    graph.save(tmp_path / "q.txt")
    assert "The program stopped here: matmul raised RuntimeError" in (tmp_path / "q.txt").read_text()


def test_where_the_first_op_raised_is_drawn_too(shell: InteractiveShell) -> None:
    cell = "%%autograd --view text\nimport nbgrad\nnbgrad.tensor([1.0], requires_grad=True) @ nbgrad.tensor([1.0, 2.0])"
    _, shown = run(shell, cell)
    assert "raised RuntimeError" in shown.outputs[0].data["text/plain"]
    assert run(shell, "%%autograd\nimport no_such_module")[1].outputs == [], "nothing ran, and nothing is drawn"


def test_an_interrupt_closes_the_graph(shell: InteractiveShell) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(shell, f"%%autograd\n{PRODUCT}\nraise KeyboardInterrupt")[0].raise_error()
    assert last_graph(shell).closed
    assert current() == State()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_while_the_picture_is_drawn_says_how_to_draw_it(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr("nbgrad.widgets.notebook_output.lay_out", interrupted)
        result, shown = run(shell, f"%%autograd --name large\n{PRODUCT}")
    assert result.success
    assert shown.stdout == ""
    assert shown.stderr == "Interrupted while the graph was drawn. %autograd last draws it.\n"
    _, shown = run(shell, "%autograd last")
    assert shown.outputs[0].data["text/plain"].startswith("large: 2 ops")


def test_an_interrupt_while_the_graph_closes_lets_go_of_it(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(shell, f"%%autograd --view none --name before\n{PRODUCT}")
    with monkeypatch.context() as slow:
        slow.setattr("nbgrad.core.graph.graph.AutogradGraph._make_paths", interrupted)
        result, shown = run(shell, f"%%autograd\n{PRODUCT}\nits = %autograd last")
    assert result.success
    assert (shown.stdout, shown.outputs) == ("", [])
    assert shown.stderr == "Interrupted before the graph was complete: no graph was kept.\n"
    assert shell.user_ns["its"].closed
    assert shell.user_ns["its"].records == []
    assert current() == State()
    run(shell, "kept = %autograd last")
    assert shell.user_ns["kept"].name == "before"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no folder/net.svg", "'no folder/net.svg' was not written: there is no folder 'no folder'"),
        (".", "'.': a graph is not written to a file without a suffix"),
        ("folder.svg", "'folder.svg' was not written: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_and_the_graph_is_kept(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.svg").mkdir()
    _, shown = run(shell, f"%%autograd --view text --save '{path}'\n{PRODUCT}")
    assert shown.stdout == ""
    assert shown.stderr.startswith(f"UsageError: %%autograd: {said}")
    run(shell, f"%%autograd --view none\n{PRODUCT}")
    _, shown = run(shell, f"%autograd save '{path}'")
    assert shown.stderr.startswith(f"UsageError: %autograd save: {said}")
    _, shown = run(shell, "%autograd save it's.svg")
    assert shown.stderr == "UsageError: %autograd save: No closing quotation\n"


def test_a_folder_that_is_not_there_is_told_before_the_cell_runs(shell: InteractiveShell) -> None:
    _, shown = run(shell, f"%%autograd --save 'no folder/net.svg'\n{PRODUCT}")
    assert "there is no folder 'no folder'. Make it first" in shown.stderr
    assert "loss" not in shell.user_ns, "a cell may take an hour"


@pytest.mark.parametrize("outer", ["%%time", "%%capture kept", "%%timeit -n 2 -r 2"])
def test_it_stacks_below_other_magics(shell: InteractiveShell, outer: str) -> None:
    result, _ = run(shell, f"{outer}\n%%autograd --view none\n{PRODUCT}")
    assert result.success
    assert last_graph(shell).closed
    assert len(last_graph(shell).records) == 3


@pytest.mark.parametrize("inner", ["%%time", "%%capture kept"])
def test_it_stacks_above_other_magics(shell: InteractiveShell, inner: str) -> None:
    result, _ = run(shell, f"%%autograd --view none\n{inner}\n{PRODUCT}")
    assert result.success
    assert [record.name for record in last_graph(shell).records] == ["a", None, "loss"]


def test_a_cell_that_runs_cells_ends_with_its_own_end(shell: InteractiveShell) -> None:
    nested = f"get_ipython().run_cell('1')\n{PRODUCT}"
    run(shell, f"%%autograd --view none\n{nested}")
    assert len(last_graph(shell).records) == 3


def test_a_magic_called_by_hand_does_the_same(shell: InteractiveShell) -> None:
    with capture_output():
        shell.run_cell_magic("autograd", "--view none", PRODUCT)
    assert len(last_graph(shell).records) == 3
    with capture_output(), pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("autograd", "", "1 / 0")


def test_help_shows_the_options(shell: InteractiveShell) -> None:
    _, shown = run(shell, "%%autograd?")
    assert "--strict-broadcast" in shown.stdout
    assert the_magics(shell).last is None


ENDINGS = (
    *("?", "??", "# why is this zero?", "# why is this zero??", "# really ?", "# what !", "# done;"),
    *("# 'open", '# "open?', "# \\", "# {1 / 0} $loss %pwd", "# été 数?", "# \ud800?", "# \x00", "#\t?", "\t# tabs?"),
    *("\xa0# blank", "  ", "\r", "--name 'why?'", "--name why?;", "--name '!x' # ?"),
)
REFUSED = ("--name a\tb?", "--name x \\", "?x", "x?", "!ls", "; x?")


@pytest.mark.parametrize("ending", [*ENDINGS, *REFUSED], ids=ascii)
@pytest.mark.parametrize("outer", ["", "%%time\n", "%%capture kept\n"])
def test_whatever_ends_the_line_the_cell_runs_once_or_is_refused(
    shell: InteractiveShell, outer: str, ending: str
) -> None:
    run(shell, "%autograd config --view text")
    shell.user_ns["runs"] = 0
    with capture_output() as shown:  # without history: its database accepts no lone surrogates
        result = shell.run_cell(f"{outer}%%autograd {ending}\nruns += 1\n{PRODUCT}")
    assert not isinstance(result.error_in_exec, RecursionError)
    if outer == "":
        asks, refused = ending in ("?", "??"), ending in REFUSED
        assert isinstance(result.error_in_exec, UsageError) == refused
        assert shell.user_ns["runs"] == (not refused and not asks)
        assert len(shown.outputs) == shell.user_ns["runs"]
        assert ("--strict-broadcast" in shown.stdout) == asks


@pytest.mark.parametrize("line", ["# why?", "?", "%%autograd ?", "-h"])
def test_a_magic_called_by_hand_with_any_line_comes_to_an_end(shell: InteractiveShell, line: str) -> None:
    with capture_output() as shown:
        shell.run_cell_magic("autograd", line, PRODUCT)
    assert ("--strict-broadcast" in shown.stdout) == (line != "# why?")
    with capture_output(), pytest.raises(UsageError, match="no option a"):
        shell.run_cell_magic("autograd", "a\nb?", PRODUCT)


@pytest.mark.parametrize("above", ["# a note\n", "#| echo: false\n", "\n# %% part\n", "x = 1\n", "%%time\n# a note\n"])
def test_a_line_above_the_magic_is_refused_with_what_to_do(shell: InteractiveShell, above: str) -> None:
    result, shown = run(shell, f"{above}%%autograd --view text\nran = True")
    assert not result.success or above.startswith("%%time")  # %%time of IPython 8 prints an error and goes on
    said = "UsageError: %%autograd has to be the first line of the cell: move what stands above it, comments and #|"
    assert said in shown.stdout + shown.stderr
    assert "ran" not in shell.user_ns
    assert run(shell, f"\n%%autograd --view text\n# a note\n{PRODUCT}")[1].outputs[0].data["text/plain"]


@pytest.mark.parametrize("magic", ["%%px", "%%px_a", "%%px0 --noblock"])
def test_engines_record_what_they_run(shell: InteractiveShell, magic: str) -> None:
    _, shown = run(shell, f"%%autograd --view text\n{magic}\nran = True")
    said = "UsageError: %%autograd: the engines run this cell, so they have to record it: put %%px on the first line"
    assert said in shown.stdout + shown.stderr
    assert "ran" not in shell.user_ns


OLD_IPYTHON = """
from IPython.core import completer
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for name in ("CompletionContext", "SimpleCompletion", "SimpleMatcherResult", "context_matcher"):
    delattr(completer, name)  # as in IPython 7
shell.run_cell("%load_ext nbgrad").raise_error()
shell.run_cell("%%autograd --view text --name old\\nimport nbgrad\\nx = nbgrad.ones(1, requires_grad=True)\\nx.exp()")
shell.run_cell("%unload_ext nbgrad").raise_error()
"""


@pytest.mark.rotated(3)
def test_an_ipython_without_matchers_has_all_but_completions() -> None:
    """Google's Colab runs this version, IPython 7."""
    done = subprocess.run([sys.executable, "-c", OLD_IPYTHON], capture_output=True, text=True, check=True, timeout=120)
    assert "old: " in done.stdout, done.stdout


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_cell_that_asks_for_help_gets_it_and_does_not_run(shell: InteractiveShell, flag: str) -> None:
    result, shown = run(shell, f"%%autograd --depth 2 {flag}\nran = True")
    assert result.success
    for option in fields(Options):
        assert f"--{option.name.replace('_', '-')}" in shown.stdout
        assert option.metadata["help"].split("; ")[0].split(" to ")[0] in " ".join(shown.stdout.split())
    assert shown.stdout.startswith("  %%autograd [--name NAME]")
    assert "ran" not in shell.user_ns


def test_a_cell_that_is_typed_into_a_terminal_goes_on_to_an_empty_line(shell: InteractiveShell) -> None:
    assert shell.check_complete("%%autograd --view text")[0] == "incomplete"
    assert shell.check_complete("%%autograd --view text\nx = 1")[0] == "incomplete"
    assert shell.check_complete("%%autograd --view text\nx = 1\n\n")[0] == "complete"


def test_loading_twice_and_unloading_undo_exactly_what_loading_did(one_shell: InteractiveShell) -> None:
    def state() -> tuple[Any, ...]:
        magics = {kind: dict(names) for kind, names in one_shell.magics_manager.magics.items()}
        callbacks = {event: list(them) for event, them in one_shell.events.callbacks.items()}
        return magics, callbacks, list(one_shell.input_transformers_cleanup), dict(one_shell.magics_manager.registry)

    def users_own(line: str, cell: str) -> None:
        """A magic of the same name that the user had before."""

    one_shell.register_magic_function(users_own, "cell", "autograd")
    before = state()
    nbgrad.load_ipython_extension(one_shell)
    loaded = state()
    nbgrad.load_ipython_extension(one_shell)
    assert state() == loaded != before
    nbgrad.unload_ipython_extension(one_shell)
    assert state() == before
    nbgrad.unload_ipython_extension(one_shell)
    assert state() == before
    del one_shell.magics_manager.magics["cell"]["autograd"]


def test_unloading_closes_an_open_graph(shell: InteractiveShell) -> None:
    run(
        shell,
        "%%autograd --view none\nimport nbgrad\n"
        "get_ipython().extension_manager.loaded.add('nbgrad')\n%unload_ext nbgrad",
    )
    assert current() == State()
    assert "autograd" not in shell.magics_manager.magics["cell"]


def test_a_graph_as_the_last_expression_displays(shell: InteractiveShell) -> None:
    body = PRODUCT.replace("\n", "\n    ")
    _, shown = run(shell, f"import nbgrad\nwith nbgrad.AutogradGraph('mine') as graph:\n    {body}\ngraph")
    assert any(SVG in output.data for output in shown.outputs)


# In a real kernel, where a cell runs in a context of its own.


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    cells = [
        "%load_ext nbgrad",
        f"%%autograd\n{PRODUCT}\na.grad",
        f"%%autograd\nimport asyncio\n{PRODUCT}\nawait asyncio.sleep(0)\n'awaited'",
        f"%%autograd\n{PRODUCT}\n1 / 0",
        "from nbgrad.core.engine.state import State, current\ncurrent() == State()",
        "%%autograd --name '<script>\"&'\n" + PRODUCT,
        "%%autograd\n1 + 1",
        "%unload_ext nbgrad",
        "%%autograd\n1",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    extra = ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True, extra_arguments=extra).execute()
    return notebook


def kinds(cell: nbformat.NotebookNode) -> list[str]:
    """The outputs of a cell, in order."""
    return [
        next((mime for mime in (SVG, VIEW) if mime in output.get("data", {})), output.output_type)
        for output in cell.outputs
    ]


@pytest.mark.rotated(3)
def test_in_a_kernel_the_graph_follows_the_result(executed: nbformat.NotebookNode) -> None:
    assert kinds(executed.cells[1]) == ["execute_result", SVG, VIEW, "display_data"]  # the script of a saved notebook
    assert executed.cells[1].outputs[2].data["text/plain"] == ""


def test_in_a_kernel_await_works_at_top_level(executed: nbformat.NotebookNode) -> None:
    assert kinds(executed.cells[2]) == ["execute_result", SVG, VIEW]
    assert "awaited" in executed.cells[2].outputs[0].data["text/plain"]


def test_in_a_kernel_an_error_has_the_users_line_and_leaves_the_engine_clean(executed: nbformat.NotebookNode) -> None:
    assert kinds(executed.cells[3]) == ["error", SVG, VIEW]
    traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(executed.cells[3].outputs[0].traceback))
    assert "line 6" in traceback
    assert "----> 6 1 / 0" in traceback
    assert executed.cells[4].outputs[0].data["text/plain"] == "True"


def test_a_hostile_name_is_text(executed: nbformat.NotebookNode) -> None:
    assert kinds(executed.cells[5]) == [SVG, VIEW]
    assert "<script" not in executed.cells[5].outputs[0].data[SVG]
    assert "&lt;script&gt;" in executed.cells[5].outputs[0].data[SVG]


def test_a_cell_without_gradients_says_what_to_do(executed: nbformat.NotebookNode) -> None:
    text = next(output.data["text/plain"] for output in executed.cells[6].outputs if SVG in output.get("data", {}))
    assert "requires_grad=True" in text


def test_unloaded_the_magic_is_gone(executed: nbformat.NotebookNode) -> None:
    assert "`%%autograd` not found" in executed.cells[8].outputs[0].text
