"""``nbgrad.watch``: one live view for a loop that runs over several cells."""

import gc
import time
import weakref
from typing import Any

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import nbgrad
from nbgrad.core.engine.state import State, current
from nbgrad.watching import Watch
from tests.recorder.test_pace import Clock, different, torchs
from tools.unpacking import unpacked

NET = "import nbgrad\nnet = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Tanh(), nbgrad.nn.Linear(3, 1))"
STEP = "loss = (net(nbgrad.tensor([[1.0, 2.0]])) ** 2).mean()\nloss.backward()"
LOOP = "for _ in range(5):\n    " + STEP.replace("\n", "\n    ")


def run(shell: InteractiveShell, cell: str) -> Any:
    with capture_output() as captured:
        shell.run_cell(cell).raise_error()
    return captured


def shown(live: Watch) -> dict[str, Any]:
    return unpacked(live.view.picture)["description"]


@pytest.fixture
def live(shell: InteractiveShell) -> Any:
    captured = run(shell, f"{NET}\nlive = nbgrad.watch(net, every=0)")
    assert captured.outputs[0].data == {"text/plain": "Live view of Sequential, from its first backward on."}
    assert "application/vnd.jupyter.widget-view+json" in captured.outputs[1].data
    yield shell.user_ns["live"]
    shell.user_ns["live"].close()
    assert current() == State()


def test_the_view_changes_in_place_and_shows_the_last_backward(shell: InteractiveShell, live: Watch) -> None:
    assert live.view.picture == b""
    pictures: list[bytes] = []
    live.view.observe(lambda change: pictures.append(change["new"]), "picture")
    captured = run(shell, LOOP)
    assert captured.outputs == []
    assert pictures
    assert "backward from loss, the last of 5" in shown(live)["summary"]
    run(shell, LOOP)
    assert "the last of 10" in shown(live)["summary"]
    assert [node["label"][0] for node in shown(live)["nodes"]][-1] == "loss = mean"
    assert len(live.graph.history) == 10


def test_a_long_loop_is_paced(shell: InteractiveShell, live: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    before, clock = torchs(), Clock(plain=1.0, more=0.5)
    clock.now = time.perf_counter()
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    shell.user_ns.update(clock=clock, live=live)
    run(shell, "optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)")
    steps = f"optimizer.zero_grad()\n{STEP}\noptimizer.step()\nclock.passes(live.graph)"
    loop = "for _ in range(200):\n    " + steps.replace("\n", "\n    ")
    said: list[str] = []
    monkeypatch.setattr(live.view, "say", said.append)
    run(shell, loop)
    assert (live.graph.backwards, live.graph.frame.number) == (200, 200)
    assert 10 < live.graph.recorded < 30
    assert different(before) == set()
    assert "backward from loss, the last of 200" in shown(live)["summary"]
    assert said[-1].startswith("backward 200, loss ")
    run(shell, loop)
    assert live.graph.frame.number == live.graph.backwards == 400
    live.close()
    assert different(before) == set()


def failed(live: Watch) -> list[dict[str, Any]]:
    return [node for node in shown(live)["nodes"] if node["kind"] == "failed"]


def raising(shell: InteractiveShell, cell: str) -> None:
    with capture_output():
        assert shell.run_cell(cell).error_in_exec is not None


@pytest.mark.parametrize("before", [LOOP, "pass"], ids=["after a loop", "at first"])
def test_a_forward_that_fails_is_drawn_until_the_next_backward(
    shell: InteractiveShell, live: Watch, before: str
) -> None:
    run(shell, before)
    raising(shell, "net(nbgrad.tensor([[1.0, 2.0, 3.0]]))")
    (node,) = failed(live)
    assert node["label"] == ["linear", "raised RuntimeError"]
    assert shown(live)["notes"][0].startswith("The cell stopped here: linear raised RuntimeError")
    names = {each["id"]: each["label"][0] for each in shown(live)["nodes"]}
    given = [names[edge["source"]] for edge in shown(live)["edges"] if edge["target"] == node["id"]]
    assert given == ["constant", "weight", "bias"]
    assert len(live.graph.history) == (5 if before == LOOP else 0)
    assert live.graph.ending is None
    run(shell, "(nbgrad.ones(2, requires_grad=True) * 2).sum().backward()")
    assert failed(live) == [node], "that is no backward through the model"
    run(shell, STEP)
    assert failed(live) == []
    assert ("the last of 7" if before == LOOP else "backward from loss") in shown(live)["summary"]


def test_a_backward_that_fails_is_drawn_until_the_next_one(shell: InteractiveShell, live: Watch) -> None:
    run(shell, LOOP)
    raising(shell, "h = net[0](nbgrad.tensor([[1.0, 2.0]])).exp()\nloss = h.sum()\nh.zero_()\nloss.backward()")
    assert any("no .grad changed" in note for note in shown(live)["notes"])
    raising(shell, "net(nbgrad.ones(1, 3))")
    assert shown(live)["notes"][0].startswith("The cell stopped here: linear")
    assert "backward from loss, the last of 5" in shown(live)["summary"], "the last one that was complete"
    assert "exp" not in {node["op"] for node in shown(live)["nodes"]}
    run(shell, STEP)
    assert not any("stopped" in note for note in shown(live)["notes"])
    assert "the last of 6" in shown(live)["summary"]


def test_a_backward_of_another_model_is_not_drawn_with_a_failure(shell: InteractiveShell, live: Watch) -> None:
    run(shell, "nbgrad.nn.Linear(2, 2)(nbgrad.ones(1, 2)).exp().sum().backward()")
    raising(shell, "net(nbgrad.ones(1, 3))")
    assert live.view.picture == b""


def test_a_watch_that_is_closed_leaves_the_failure(shell: InteractiveShell, live: Watch) -> None:
    run(shell, LOOP)
    raising(shell, "net(nbgrad.ones(1, 3))")
    live.close()
    assert len(failed(live)) == 1
    assert live.graph.backwards == 5


@pytest.mark.parametrize(
    "cell", ["nbgrad.ones(2) @ nbgrad.ones(3)", "misspelt", "raise KeyboardInterrupt", "nbgrad.ones(2).backward()"]
)
def test_an_error_of_something_else_changes_nothing(shell: InteractiveShell, live: Watch, cell: str) -> None:
    run(shell, LOOP)
    before = live.view.picture
    raising(shell, cell)
    assert live.view.picture == before
    assert live.graph.ending is None


def test_pictures_are_throttled_and_the_last_backward_of_a_cell_is_shown(shell: InteractiveShell) -> None:
    run(shell, f"{NET}\nlive = nbgrad.watch(net, every=1000)")
    live = shell.user_ns["live"]
    pictures: list[bytes] = []
    live.view.observe(lambda change: pictures.append(change["new"]), "picture")
    run(shell, LOOP)
    assert 1 <= len(pictures) <= 2, "the first backward, and the last when the cell ends"
    assert "the last of 5" in shown(live)["summary"]
    live.close()


def test_drawing_takes_a_small_part_of_the_time(shell: InteractiveShell, live: Watch) -> None:
    begin = time.perf_counter()
    run(shell, f"{LOOP}\n{LOOP}")
    assert live._next > begin
    pictures: list[bytes] = []
    live.view.observe(lambda change: pictures.append(change["new"]), "picture")
    live._next = float("inf")
    run(shell, LOOP)
    assert len(pictures) == 1


def test_a_backward_through_something_else_is_not_shown(shell: InteractiveShell, live: Watch) -> None:
    run(shell, STEP)
    before = live.view.picture
    run(shell, "nbgrad.tensor([1.0], requires_grad=True).exp().backward()")
    assert live.view.picture == before


def test_close_ends_it_and_gives_the_graph(shell: InteractiveShell, live: Watch) -> None:
    run(shell, LOOP)
    graph = live.close()
    assert graph is live.close() is live.graph
    assert graph.closed
    assert [record.name for record in graph.records][-1] == "loss"
    assert repr(live) == "<watch of Sequential: 5 backwards, closed>"
    run(shell, LOOP)
    assert graph.backwards == 5
    assert current() == State()


def test_as_a_context_and_beside_a_recorded_cell(shell: InteractiveShell) -> None:
    block = STEP.replace("\n", "\n    ")
    run(shell, f"{NET}\nwith nbgrad.watch(net, name='mine', direction='LR') as live:\n    {block}")
    assert shell.user_ns["live"].graph.closed
    assert current() == State()
    run(shell, "live = nbgrad.watch(net)")
    run(shell, f"%%autograd --view none\n{STEP}")
    run(shell, STEP)
    assert shell.user_ns["live"].graph.backwards == 2
    assert shell.magics_manager.registry["AutogradMagics"].last.graph.backwards == 1
    shell.user_ns["live"].close()


def test_a_second_watch_and_the_end_of_the_model_end_the_first(shell: InteractiveShell) -> None:
    run(shell, f"{NET}\nfirst = nbgrad.watch(net)")
    run(shell, "second = nbgrad.watch(net)")
    first, second = shell.user_ns["first"], shell.user_ns["second"]
    assert (first.graph.closed, second.graph.closed) == (True, False)
    gone = weakref.ref(shell.user_ns["net"])
    run(shell, "del net")
    gc.collect()
    assert gone() is None
    run(shell, "1")
    assert second.graph.closed
    assert current() == State()


def test_reader_and_writer_of_the_folds(shell: InteractiveShell) -> None:
    run(shell, f"{NET}\nlive = nbgrad.watch(net, depth=0, every=0)")
    live = shell.user_ns["live"]
    run(shell, STEP)
    assert [node["kind"] for node in shown(live)["nodes"]].count("folded") == 1
    live.close()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"view": "text"}, TypeError, "no option view, only name, .*; nbgrad.record has it"),
        ({"dept": 1}, TypeError, "no option dept, only name, .*; did you mean depth"),
        ({"depth": -1}, ValueError, "depth=-1"),
    ],
)
def test_options_that_cannot_be(
    shell: InteractiveShell, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        nbgrad.watch(nbgrad.nn.Linear(1, 1), **options)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("net", r"the str 'net': pass the module itself, without quotes: nbgrad\.watch\(net\)"),
        (nbgrad.nn.Linear, r"the class Linear: make a module of it, net = Linear\(\.\.\.\)"),
        (None, "the NoneType None: pass the module that your loop trains"),
    ],
)
def test_what_is_no_module_is_refused_at_once(shell: InteractiveShell, model: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        nbgrad.watch(model)
    assert current() == State()
    run(shell, "import nbgrad\nnbgrad.tensor([1.0], requires_grad=True).exp().backward()")


def test_a_module_of_torchs_is_watched_too(shell: InteractiveShell) -> None:
    cell = "import nbgrad, torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 1))\nlive = nbgrad.watch(net, every=0)"
    run(shell, cell)
    live = shell.user_ns["live"]
    for count in (1, 2):
        assert torch._C._len_torch_function_stack() == 0  # in a cell alone
        run(shell, "loss = net(torch.ones(3, 2)).mean()\nloss.backward()")
        assert live.graph.backwards == count
    assert [node["label"][0] for node in shown(live)["nodes"]][-2:] == ["linear", "loss = mean"]
    live.close()
    run(shell, "net(torch.ones(3, 2)).mean().backward()")
    assert live.graph.backwards == 2
    assert current() == State()


def test_a_watch_that_cannot_draw_ends_and_the_backward_goes_on(
    shell: InteractiveShell, live: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no room")

    run(shell, STEP)
    before = live.view.picture
    monkeypatch.setattr("nbgrad.watching.outline", fail)
    with pytest.warns(UserWarning, match=r"could not draw .* ValueError: no room\. Your"):
        run(shell, LOOP)
    assert shell.user_ns["net"][0].weight.grad is not None
    assert (live.graph.closed, live.view.picture) == (True, before)
    run(shell, LOOP)


def test_without_a_notebook_there_is_nothing_to_draw_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.watching.get_ipython", lambda: None)
    with pytest.raises(RuntimeError, match=r"nbgrad\.record works everywhere"):
        nbgrad.watch(nbgrad.nn.Linear(1, 1))


@pytest.mark.rotated(3)
def test_in_a_kernel_it_sees_the_cells_that_follow() -> None:
    cells = [
        f"{NET}\nlive = nbgrad.watch(net)",
        LOOP,
        f"import asyncio\nawait asyncio.sleep(0)\n{LOOP}\nlive",
        "live.close()",
        "from nbgrad.core.engine.state import State, current\ncurrent() == State()",
        f"{LOOP}\nlive",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    extra = ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=60, kernel_name="python3", extra_arguments=extra).execute()
    outputs: list[list[nbformat.NotebookNode]] = [
        [output.data for output in cell.outputs if output.output_type != "stream"] for cell in notebook.cells
    ]
    assert "the last of 10" in outputs[0][0]["text/plain"], "also where the notebook is opened without its kernel"
    assert "image/svg+xml" in outputs[0][0]
    assert "image/png" in outputs[0][0]
    assert "application/vnd.jupyter.widget-view+json" in outputs[0][1]
    assert outputs[1] == []
    assert outputs[2][0]["text/plain"] == "<watch of Sequential: 10 backwards>"
    assert "image/svg+xml" in outputs[3][0]
    assert outputs[4][0]["text/plain"] == "True"
    assert outputs[5][0]["text/plain"] == "<watch of Sequential: 10 backwards, closed>"


def test_the_step_and_its_loss_are_said_as_they_come(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shell, f"{NET}\nlive = nbgrad.watch(net, every=100)")
    live, lines = shell.user_ns["live"], []
    monkeypatch.setattr(live.view, "send", lambda content, _buffers=None: lines.append(content["live"]))
    monkeypatch.setattr("nbgrad.watching._TOLD", 0.0)
    monkeypatch.setattr("nbgrad.watching._SHARE", 0.0)
    run(shell, LOOP)
    assert [line.split(",")[0] for line in lines] == [f"backward {number}" for number in range(1, 6)]
    loss, norm = shell.user_ns["loss"].item(), torch.stack([p.grad.data.norm() for p in live._model().parameters()])
    assert lines[-1] == f"backward 5, loss {loss:.4g}, gradient norm {norm.norm().item():.4g}"
    monkeypatch.setattr("nbgrad.watching._TOLD", 100.0)
    run(shell, LOOP)
    assert len(lines) <= 7, "and no more often than a reader can see"
    assert lines[-1].startswith("backward 10, "), "but the last one when the cell has ended"
    live.close()


def test_lines_that_take_long_are_said_less_often(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shell, f"{NET}\nlive = nbgrad.watch(net, every=100)")
    live, lines, clock = shell.user_ns["live"], [], [0.0]
    monkeypatch.setattr("nbgrad.watching.perf_counter", lambda: clock[0])

    def slow(content: dict[str, str], _buffers: Any = None) -> None:
        clock[0] += 1.0
        lines.append(content["live"].split(",")[0])

    monkeypatch.setattr(live.view, "send", slow)
    live._next_line, live._next = 0.0, 1e9
    run(shell, LOOP)
    assert lines == ["backward 1", "backward 5"], "one, and the last one when the cell has ended"
    clock[0] += 19.0
    run(shell, LOOP)
    assert lines == ["backward 1", "backward 5", "backward 10"]
    clock[0] += 21.0
    run(shell, LOOP)
    assert lines[3:] == ["backward 11", "backward 15"]
    live.close()
