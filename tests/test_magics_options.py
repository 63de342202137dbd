"""The options of the magic and of ``nbgrad.record`` come from one table. Each option works in both as it says."""

import logging
import re
import shlex
from dataclasses import fields
from inspect import signature
from io import StringIO
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch
from IPython.core.completer import CompletionContext, provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets.widgets.widget import _instances

import nbgrad
from nbgrad import recording
from nbgrad.completions import complete
from nbgrad.core.engine.state import State, current
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.core.stages import STAGES
from nbgrad.core.suggestions import nearest
from nbgrad.magic_arguments import COMMANDS, flags, parsed
from nbgrad.magics import AutogradMagics
from nbgrad.options import TABLE, Options, View, flag
from nbgrad.widgets import pipeline
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description import drawn as boxes
from nbgrad.widgets.render import svg
from tools.unpacking import unpacked

NET = """
import nbgrad
net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Sequential(nbgrad.nn.Tanh(), nbgrad.nn.Linear(3, 1)))
for _ in range(3):
    loss = (net(nbgrad.tensor([[1.0, 2.0]])) ** 2).mean()
    loss.backward()
"""


def run(shell: InteractiveShell, cell: str) -> tuple[ExecutionResult, Any]:
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True)
    return result, captured


def the_magics(shell: InteractiveShell) -> Any:
    return shell.magics_manager.registry["AutogradMagics"]


def recorded(shell: InteractiveShell) -> nbgrad.AutogradGraph:
    return the_magics(shell).last.graph


def shown(captured: Any) -> list[str]:
    return [output.data["text/plain"] for output in captured.outputs if output.data.get("text/plain")]


def drawn(captured: Any) -> str:
    return "".join(output.data.get("image/svg+xml", "") for output in captured.outputs)


def opened(captured: Any) -> str:
    """The first content of the live view of an output."""
    (model,) = [
        view["model_id"]
        for output in captured.outputs
        if (view := output.data.get("application/vnd.jupyter.widget-view+json"))
    ]
    return unpacked(_instances[model].picture)["opens"]


# Each option, in a cell and in Python.


def both(
    shell: InteractiveShell, option: str, net: str = NET
) -> list[tuple[ExecutionResult, Any, nbgrad.AutogradGraph | None]]:
    """The effects of an option, given as in a cell: first in a cell, then as an argument of ``record``."""
    word, *value = shlex.split(option)
    name = word.removeprefix("--").removeprefix("no-").replace("-", "_")
    field = next(field for field in TABLE if field.name == name)
    given = not word.startswith("--no-") if not value else int(value[0]) if "least" in field.metadata else value[0]
    shell.user_ns.pop("graph", None)
    first = run(shell, f"%%autograd {option}\n{net}")
    magic = shell.magics_manager.registry["AutogradMagics"].last
    indented = net.replace("\n", "\n    ")
    second = run(shell, f"import nbgrad\nwith nbgrad.record({field.name}={given!r}) as graph:\n    {indented}")
    return [(*first, magic and magic.graph), (*second, shell.user_ns.get("graph"))]


def test_name(shell: InteractiveShell) -> None:
    for _, captured, graph in both(shell, "--name 'my first net'"):
        assert graph.name == "my first net"
        assert shown(captured)[0].startswith("my first net: ")


def test_device(shell: InteractiveShell) -> None:
    for _, _, graph in both(shell, "--device meta"):
        assert graph.device == torch.device("meta")


@pytest.mark.parametrize(("depth", "folded"), [("0", 1), ("1", 2), ("2", 1), ("3", 0)])
def test_depth(shell: InteractiveShell, depth: str, folded: int) -> None:
    for _, captured, _ in both(shell, f"--depth {depth}"):
        assert len(re.findall(r">\d+ ops?, \d+ parameters \(\d+\)<", drawn(captured))) == folded


def test_nodes(shell: InteractiveShell) -> None:
    for nodes, folded in (("1", True), ("1000", False)):
        for _, captured, _ in both(shell, f"--nodes {nodes}"):
            assert ("is folded, holding" in drawn(captured)) == folded


def test_direction(shell: InteractiveShell) -> None:
    for option, wide in (("--direction LR", True), ("--direction TB", False)):
        for _, captured, _ in both(shell, option):
            width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', drawn(captured)).groups())
            assert (width > height) == wide


@pytest.mark.rotated(3)
def test_view(shell: InteractiveShell) -> None:
    for _, captured, _ in both(shell, "--view text"):
        assert [list(output.data) for output in captured.outputs] == [["text/plain"]]
        assert "backward from loss" in shown(captured)[0]
    for _, captured, graph in both(shell, "--view none"):
        assert captured.outputs == []
        assert graph.backwards == 3
    for opens in ("graph", "steps", "flow"):
        for _, captured, _ in both(shell, f"--view {opens}"):
            assert drawn(captured)
            assert opened(captured) == opens


@pytest.mark.rotated(3)
def test_projector(shell: InteractiveShell) -> None:
    for option, by in (("--projector", 3), ("--no-projector", 1)):
        for _, captured, _ in both(shell, option):
            width, wide = map(float, re.search(r' width="(\S+)" .*?viewBox="0 0 (\S+) ', drawn(captured)).groups())
            assert width == pytest.approx(by * wide, abs=0.5)


@pytest.mark.rotated(3)
def test_history(shell: InteractiveShell) -> None:
    for option, numbers in (("--history 2", [1, 3]), ("--history 0", []), ("--history 64", [1, 2, 3])):
        for _, _, graph in both(shell, option):
            assert [frame.number for frame in graph.history] == numbers


@pytest.mark.rotated(3)
def test_every(shell: InteractiveShell) -> None:
    for option, numbers in (("--every 5", [1, 2, 3, 6, 7, 11, 12]), ("--every 1", list(range(1, 13)))):
        for _, _, graph in both(shell, option, NET.replace("range(3)", "range(12)") + "    net.zero_grad()\n"):
            found = [frame.number for frame in graph.history]
            assert found in (numbers, numbers[:-1])  # a cell says how many rounds there are, a text for exec() does not


def test_options_that_contradict_each_other_are_a_usage_error(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="every=10: with time each step is recorded, so leave one of the two out"):
        parsed(the_magics(shell).autograd.parser, "--every 10 --time")


@pytest.mark.rotated(3)
def test_cost(shell: InteractiveShell) -> None:
    for option, cost in (("--cost 2%", 0.02), ("--cost 0.5", 0.5)):
        for _, _, graph in both(shell, option):
            assert graph.pace.cost == cost


@pytest.mark.rotated(3)
def test_watch(shell: InteractiveShell) -> None:
    for option, watched in (("--no-watch", False), ("--watch", True)):
        for _, _, graph in both(shell, option):
            assert any(record.gradient is not None for record in graph.records) == watched


@pytest.mark.rotated(3)
def test_budget(shell: InteractiveShell) -> None:
    for option, kept in (("--budget 0", False), ("--budget 1", True)):
        for _, _, graph in both(shell, option):
            loss = next(record for record in graph.records if record.name == "loss")
            assert (loss.gradient.values is not None) == kept


@pytest.mark.rotated(3)
def test_silence(shell: InteractiveShell) -> None:
    for option, kinds in (
        ("--silence 'frozen, no activation'", {"frozen", "no activation"}),
        ("--silence sign", {"sign"}),
    ):
        for _, _, graph in both(shell, option):
            assert graph.silence == kinds


@pytest.mark.rotated(3)
def test_time(shell: InteractiveShell) -> None:
    for option, timed in (("--time", True), ("--no-time", False)):
        for _, captured, graph in both(shell, option):
            assert isinstance(graph, TimedGraph) == timed
            overlays = [overlay["key"] for overlay in describe(graph)["overlays"]]
            assert ("time" in overlays) == timed
            assert not timed or all(graph.times[record.id].backward for record in graph.records if record.op)
            still = captured.outputs[0].data
            assert still.keys() == {"image/svg+xml", "image/png", "text/plain"}
            times = r"\d [µm]?s\b"
            assert not re.search(times, still["image/svg+xml"]), "a picture would never repeat"
            assert bool(re.search(times, still["text/plain"])) == timed


@pytest.mark.rotated(6)
def test_ask(shell: InteractiveShell) -> None:
    for option, missing in (("--ask loss", ["loss"]), ("--ask weight", [])):
        for _, captured, graph in both(shell, option):
            assert graph.questions.unknown(graph.records) == missing, "the backward begins at the loss"
            assert ("∇ ?" in shown(captured)[0]) == (not missing)
    for line in ("--ask", "--ask --view graph"):
        _, captured = run(shell, f"%%autograd {line}\n{NET}")
        assert "∇ ?" in shown(captured)[0]


@pytest.mark.rotated(3)
def test_ranks(shell: InteractiveShell, tmp_path: Path) -> None:
    assert "there is none: call torch.distributed" in run(shell, f"%%autograd --ranks\n{NET}")[1].stderr
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        run(shell, "from nbgrad.nn.parallel import DistributedDataParallel as Wrapped\nimport nbgrad")
        wrapped = (
            NET.replace("net = nbgrad.nn.Sequential(", "net = Wrapped(nbgrad.nn.Sequential(")
            .replace("\nfor", ")\nfor", 1)
            .replace("1)))\n)", "1))))")
        )
        for line in ("%%autograd --ranks", "with nbgrad.record(ranks=True) as graph:"):
            cell = f"{line}\n{wrapped}" if line.startswith("%") else line + wrapped.replace("\n", "\n    ")
            result, captured = run(shell, cell)
            result.raise_error()
            graph = recorded(shell) if line.startswith("%") else shell.user_ns["graph"]
            assert graph.ranks().size == 1
            assert {"bucket", "spread"} & {overlay["key"] for overlay in describe(graph)["overlays"]} == {"bucket"}
            assert "Rank 0 of 1. It sent 52 B in 1 bucket." in shown(captured)[0]
    finally:
        dist.destroy_process_group()


@pytest.mark.rotated(3)
def test_anomaly(shell: InteractiveShell) -> None:
    for option, message in (("--anomaly", "log made nan"), ("--no-anomaly", None)):
        cells = [f"%%autograd {option} --view none\nimport nbgrad\ny = nbgrad.tensor([-1.0], requires_grad=True).log()"]
        setting = option == "--anomaly"
        cells.append(
            f"with nbgrad.record(anomaly={setting}, view='none'):\n    nbgrad.tensor([-1.0], requires_grad=True).log()"
        )
        for cell in cells:
            result, _ = run(shell, cell)
            assert (message in str(result.error_in_exec)) if message else result.success
            assert current() == State()


@pytest.mark.rotated(3)
def test_strict_broadcast(shell: InteractiveShell) -> None:
    add = "nbgrad.tensor([[1.0], [2.0]], requires_grad=True) + nbgrad.tensor([1.0, 2.0])"
    for cell in (
        f"%%autograd --strict-broadcast\nimport nbgrad\n{add}",
        f"with nbgrad.record(strict_broadcast=True):\n    {add}",
    ):
        result, _ = run(shell, cell)
        assert isinstance(result.error_in_exec, nbgrad.BroadcastError)
        assert current() == State()
    assert run(shell, f"%%autograd --no-strict-broadcast\n{add}")[0].success


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")  # of a core that is not compiled
def test_inside_compiled(shell: InteractiveShell) -> None:
    torch._dynamo.reset()
    step = "torch.compile(lambda x: (x * w).sin(), backend='eager')(torch.ones(2)).sum().backward()"
    run(shell, "import torch, nbgrad\nw = torch.ones(2, requires_grad=True)")
    for option, ops in (("--inside-compiled", "4 ops"), ("--no-inside-compiled", "ops")):
        setting = option == "--inside-compiled"
        for cell in (
            f"%%autograd {option} --view text\n{step}",
            f"with nbgrad.record(inside_compiled={setting}, view='text'):\n    {step}",
        ):
            result, captured = run(shell, cell)
            assert result.success
            text = shown(captured)[0]
            assert ops in text
            assert ("compiled by eager" in text) == setting


@pytest.mark.rotated(6)
def test_stages(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"fold": (boxes, "clipped"), "place": (pipeline, "answered"), "render": (svg, "_header")}
    for late, (owner, name) in slow.items():
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, after_a_while(getattr(owner, name)))
            for _, captured, _ in both(shell, "--stages"):
                (line,) = [one for one in captured.stdout.splitlines() if one.startswith("stages: ")]
                times = {stage: float(ms) for stage, ms in re.findall(r"(\w+) ([\d.]+) ms", line)}
                assert list(times) == [*STAGES, "together"]
                assert times["together"] == pytest.approx(sum(times[stage] for stage in STAGES), abs=0.5)
                assert times[late] >= 200
    assert "stages" not in run(shell, f"%%autograd\n{NET}")[1].stdout
    with capture_output() as captured, nbgrad.record(view="none", stages=True):
        (nbgrad.tensor([1.0], requires_grad=True) * 2).backward()
    assert captured.stdout == "", "there is no picture"


def after_a_while(function: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        sleep(0.2)
        return function(*args, **kwargs)

    return run


def test_save(shell: InteractiveShell, tmp_path: Path) -> None:
    for number, _ in enumerate(both(shell, f"--save '{tmp_path}/a net.svg'")):
        assert (tmp_path / "a net.svg").read_text().startswith("<svg"), number
    (tmp_path / "a net.svg").unlink()


def test_there_is_a_test_of_every_option() -> None:
    assert {f"test_{field.name}" for field in TABLE} <= globals().keys()


@pytest.mark.parametrize("field", TABLE, ids=lambda field: field.name)
def test_the_example_of_every_option_is_its_own_and_valid(shell: InteractiveShell, field: Any) -> None:
    example = field.metadata["example"]
    assert example.split()[0] in (f"--{field.name.replace('_', '-')}", f"--no-{field.name}")
    if field.name in ("device", "save", "ranks"):  # a GPU or a process group may be missing; no file is written
        return
    assert run(shell, f"%%autograd {example} --view none\n1")[0].success
    told = run(shell, f"%autograd help {field.name}")[1].stdout
    assert f"%%autograd {example}" in told
    call = re.search(r"with (nbgrad\.record\(.*\)) as graph", told)[1]
    assert isinstance(eval(call), nbgrad.record)


# In Python alone.


def test_record_names_variables_and_rejects_what_is_none_of_an_options_values() -> None:
    with nbgrad.record("mine", view="none") as graph:
        a = nbgrad.tensor([1.0], requires_grad=True)
        loss = (a * a).sum()
        loss.backward()
    assert [record.name for record in graph.records] == ["a", None, "loss"]
    assert graph.name == "mine"
    for wrong, said in (
        ({"view": "grpah"}, "view='grpah': it has to be one of graph, steps, flow, text, none; did you mean graph?"),
        ({"depth": -1}, "depth=-1: it has to be a whole number, 0 or more"),
        ({"depth": True}, "depth=True: it has to be a whole number"),
        ({"watch": 1}, "watch=1: it has to be True or False"),
        ({"save": "net.doc"}, "a graph is not written to a file that ends in .doc"),
        ({"save": 3}, "3: a graph is written to a file, such as 'net.svg'"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            nbgrad.record(**wrong)
    with pytest.raises(TypeError, match=r"record\(\) has no option deph, only name, .*; did you mean depth\?"):
        nbgrad.record(deph=1)  # type: ignore[call-arg]
    assert list(signature(nbgrad.record).parameters) == [field.name for field in TABLE], "editors show it"


def test_record_prints_the_text_where_there_is_no_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    with nbgrad.record("mine", view="text"):
        nbgrad.tensor([1.0], requires_grad=True).sum().backward()
    assert capsys.readouterr().out.startswith("mine: 1 op, 1 tensor")


@pytest.mark.parametrize(
    ("view", "out", "err"),
    [("graph", "", "wrote"), ("steps", "", "wrote"), ("text", "mine: 1 op", "wrote"), ("none", "", "")],
)
def test_a_script_that_saves_keeps_its_stdout(
    view: View,
    out: str,
    err: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "_in_notebook", lambda: False)  # a shell of another test may still exist
    with nbgrad.record("mine", save=tmp_path / "net.txt", view=view):
        nbgrad.tensor([1.0], requires_grad=True).sum().backward()
    told = capsys.readouterr()
    assert (tmp_path / "net.txt").exists()
    assert told.out.startswith(out)
    assert bool(told.out) == bool(out)
    assert told.err == (f"nbgrad: wrote {tmp_path / 'net.txt'}\n" if err else "")


def test_record_shows_what_there_is_when_the_block_raises(shell: InteractiveShell) -> None:
    block = "a = nbgrad.tensor([1.0], requires_grad=True)\n    b = a.exp()\n    1 / 0"
    cell = f"import nbgrad\nwith nbgrad.record(anomaly=True):\n    {block}"
    result, captured = run(shell, cell)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "exp" in drawn(captured)
    assert current() == State()


def test_a_record_is_entered_once() -> None:
    recording = nbgrad.record(view="none")
    with recording:
        pass
    with pytest.raises(RuntimeError, match="opened before"):
        recording.__enter__()


# Defaults.


def test_config_sets_the_defaults_of_cells_and_of_record(shell: InteractiveShell) -> None:
    told = run(shell, "%config Autograd")[1].stdout
    for field in fields(Options):
        if field.metadata.get("every", True):
            assert f"Autograd.{field.name}=" in told
    run(shell, "%config Autograd.view = 'text'")
    run(shell, "%autograd config --history 8 --no-watch")
    _, captured = run(shell, f"%%autograd\n{NET}")
    assert [list(output.data) for output in captured.outputs] == [["text/plain"]]
    assert recorded(shell).watch is False
    assert nbgrad.record().history == 8
    assert drawn(run(shell, f"%%autograd --view graph\n{NET}")[1])
    listed = run(shell, "%autograd config")[1].stdout
    assert re.search(r"view +text", listed)
    assert re.search(r"watch +no", listed)
    nbgrad.unload_ipython_extension(shell)
    assert nbgrad.record().view == "graph"


@pytest.mark.parametrize("none", ["-", "none", "None"])
def test_an_option_that_may_be_none_is_set_back_to_it(shell: InteractiveShell, none: str) -> None:
    run(shell, "%autograd config --depth 2 --device cpu")
    assert (nbgrad.record().depth, nbgrad.record().device) == (2, "cpu")
    assert run(shell, f"%autograd config --depth {none} --device {none}")[0].success
    assert (nbgrad.record().depth, nbgrad.record().device) == (None, None)
    run(shell, "%autograd config --depth 0")
    run(shell, f"%%autograd --depth {none} --view none\n1")
    assert the_magics(shell).last.recording.depth is None
    assert "a whole number, or none" in run(shell, "%autograd help depth")[1].stdout
    assert "0 or more, or none" in str(run(shell, "%autograd config --depth one")[0].error_in_exec)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%config Autograd.view = 'movie'", "movie"),
        ("%config Autograd.depth = -3", "-3"),
        ("%config Autograd.history = 1", "it must be 0, or at least 2"),
        ("%config Autograd.device = 'gpu'", "did you mean cpu?"),
        ("%autograd config --name x", "name belongs to one graph"),
        ("%autograd config --veiw text", "did you mean --view?"),
    ],
)
def test_a_wrong_default_is_refused(shell: InteractiveShell, line: str, said: str) -> None:
    logged = logging.StreamHandler(StringIO())
    logging.getLogger().addHandler(logged)
    try:
        _, captured = run(shell, line)
    finally:
        logging.getLogger().removeHandler(logged)
    assert said in captured.stdout + captured.stderr + logged.stream.getvalue()
    assert nbgrad.record().view == "graph"
    assert nbgrad.record().depth is None


def test_a_wrong_default_does_not_keep_the_extension_from_loading_again(shell: InteractiveShell) -> None:
    run(shell, "%config Autograd.view = 'movie'")
    nbgrad.unload_ipython_extension(shell)
    with pytest.warns(UserWarning, match="movie"):
        nbgrad.load_ipython_extension(shell)
    assert run(shell, f"%%autograd\n{NET}")[0].success


# Completion.


def completed(text: str, line: int = 0) -> list[str]:
    """The completions of the words, as IPython asks for them."""
    last = text.split("\n")[line]
    token = re.split(r"[ \t\n`!@#$^&*()=+\[{\]}\\|;:'\",<>?]", last)[-1]
    found = complete(CompletionContext(token, text, len(last), line, None))
    return [re.split("[ =]", last[: len(last) - len(token)])[-1] + one.text for one in found["completions"]]


def test_completion_of_commands_options_and_values() -> None:
    assert completed("%autograd s") == ["status", "save"]
    assert completed("%autograd ") == list(COMMANDS)
    assert completed("%%autograd --d") == ["--device", "--depth", "--direction"]
    assert completed("%%autograd ") == flags()
    assert completed("%%autograd --view ") == ["graph", "steps", "flow", "text", "none"]
    assert completed("%%autograd --name x --view t") == ["text"]
    assert completed("%%autograd --device c") == ["cpu", "cuda"]
    assert completed("%%autograd --no-w") == ["--no-watch"]
    assert completed("%%autograd --watch --an") == ["--anomaly"]
    assert completed("%autograd on --dir") == ["--direction"]
    assert completed("%autograd help dep") == ["depth"]
    assert completed("%%autograd --view=te") == ["text"]
    assert completed("%%autograd --device=cpu --direction=") == ["auto", "TB", "LR"]
    assert completed("graph = %autograd la") == ["last"]
    assert completed("if here:\n    %autograd on --vi", 1) == ["--view"]
    assert completed("%%time\n%%autograd --vi", 1) == ["--view"]
    assert completed("%%autograd --depth ") == ["0", "1", "2", "none"]
    assert completed("%%autograd --history 2") == ["200"]
    assert completed("%autograd help o") == ["on", "off"]
    assert completed("%autograd save ") == []
    assert completed("%%autograd --save ") == []


@pytest.mark.parametrize("one", [one for one in TABLE if "least" in one.metadata], ids=lambda one: one.name)
def test_numbers_are_completed_with_numbers_that_can_be(shell: InteractiveShell, one: Any) -> None:
    line = f"%%autograd {flag(one)} "
    with provisionalcompleter():
        found = list(shell.Completer.completions(line, len(line)))
    assert {one.type for one in found} == {"value"}, "a notebook shows it beside each of them"
    offered = [one.text for one in found]
    assert offered == sorted(completed(line)), "no names of Python's"
    for text in offered:
        assert parsed(AutogradMagics.autograd.parser, f"{flag(one)} {text}").keys() == {one.name}


@pytest.mark.rotated(3)
def test_the_body_of_a_cell_and_other_lines_are_completed_as_ever(shell: InteractiveShell) -> None:
    assert completed("%%autograd\n%%autograd --d", 1) == []
    assert completed("%%time\nx = 1\n%%autograd --d", 2) == []
    assert completed("%time --d") == []
    assert completed("x = 1") == []
    shell.user_ns["depth_of_water"] = 1
    with provisionalcompleter():
        assert "depth_of_water" in {one.text for one in shell.Completer.completions("depth_of", 8)}
        cell = "%%autograd --d\n1"
        assert {"--depth", "--device", "--direction"} == {one.text for one in shell.Completer.completions(cell, 14)}


def test_the_nearest_word_is_named_only_if_it_is_near() -> None:
    assert nearest("--depht", ["--depth", "--device"]) == "; did you mean --depth?"
    assert nearest("--xyzzy", ["--depth"]) == ""


def test_a_usage_error_names_the_option_meant(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match="did you mean --strict-broadcast"):
        shell.run_line_magic("_autograd_begin", "--strict-brodcast")
