"""Tracebacks in a notebook show the user's own lines, and not nbgrad's lines between and below them."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core.engine import backward_errors

BEGIN = "import nbgrad, torch\nx = nbgrad.tensor([1.0, 2.0], requires_grad=True)\n"


def shown(shell: InteractiveShell, cell: str) -> str:
    """The output of a cell that raises."""
    with capture_output() as captured:
        result = shell.run_cell(cell)
    assert result.error_in_exec is not None
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout)


def lines(text: str) -> list[str]:
    """The lines that arrows point at, and the message."""
    marked = re.findall(r"^-+> \d+ +(.*)$", text, re.MULTILINE)
    return [*marked, text.splitlines()[-1].partition(":")[0]]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x + nbgrad.ones(3)", ["x + nbgrad.ones(3)", "RuntimeError"]),
        ("y = (x * x).sum()\ny.backward()\ny.backward()", ["y.backward()", "RuntimeError"]),
        ("%%autograd --view none\ny = (x * x).sum()\ny.backward()\ny.backward()", ["y.backward()", "nbgrad"]),
        ("nbgrad.nn.Linear(3, 4)(x)", ["nbgrad.nn.Linear(3, 4)(x)", "RuntimeError"]),
        ("nbgrad.optim.SGD([x], lr=-1.0)", ["nbgrad.optim.SGD([x], lr=-1.0)", "ValueError"]),
        ("nbgrad.tensor('one')", ["nbgrad.tensor('one')", "TypeError"]),
        ("x[7]", ["x[7]", "IndexError"]),
        ("nbgrad.Tensr", ["nbgrad.Tensr", "AttributeError"]),
        ("nbgrad.nn.Liner", ["nbgrad.nn.Liner", "AttributeError"]),
        (
            "class Net(nbgrad.nn.Module):\n    def __init__(self):\n        self.a = nbgrad.nn.Linear(1, 1)\nNet()",
            ["Net()", "self.a = nbgrad.nn.Linear(1, 1)", "AttributeError"],
        ),
    ],
)
def test_an_error_of_nbgrad_shows_the_line_that_caused_it_alone(
    shell: InteractiveShell, cell: str, expected: list[str]
) -> None:
    shell.run_cell(BEGIN)
    text = shown(shell, cell)
    assert lines(text) == expected
    assert "nbgrad/core" not in text
    assert "Could not get source" not in text


def stopped_in(package: str) -> Callable[..., None]:
    """A function of a module ``package``. The user presses the stop button while it runs."""
    namespace: dict[str, Any] = {"__name__": package}
    exec("def stop(*_, **__):\n    raise KeyboardInterrupt", namespace)
    stop: Callable[..., None] = namespace["stop"]
    return stop


@pytest.mark.parametrize("magic", ["", "%%autograd --view none\n"])
@pytest.mark.parametrize("package", ["torch", "nbgrad.core.ops.linalg.matmul", "contextlib"])
def test_the_stop_button_shows_the_line_that_ran_alone(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, magic: str, package: str
) -> None:
    shell.run_cell(f"{BEGIN}net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Tanh())")
    monkeypatch.setattr(torch.nn.functional, "linear", stopped_in(package))
    text = shown(shell, f"{magic}while True:\n    loss = net(x).sum()\n    loss.backward()")
    assert lines(text) == ["loss = net(x).sum()", "KeyboardInterrupt"]
    assert "nbgrad/" not in text


def test_where_the_stop_button_meets_the_users_own_function_its_frames_stay(shell: InteractiveShell) -> None:
    shell.run_cell(BEGIN)
    text = shown(shell, "def hook(g):\n    raise KeyboardInterrupt\nx.register_hook(hook)\n(x * 2).sum().backward()")
    assert lines(text)[:-1] == ["(x * 2).sum().backward()", "raise KeyboardInterrupt"]


@pytest.mark.parametrize("line", ["%%autograd", "%%autograd --view none", '%%autograd --view none --name "it\'s mine"'])
def test_the_first_line_of_a_recorded_cell_is_the_one_that_was_typed(shell: InteractiveShell, line: str) -> None:
    shell.run_cell(BEGIN)
    for _ in range(2):
        text = shown(shell, f"{line}\ny = x * 2\nx + nbgrad.ones(3)")
        assert lines(text) == ["x + nbgrad.ones(3)", "RuntimeError"]
        assert re.findall(r"^ +1 (.*)$", text, re.MULTILINE) == [f"# {line}"]
        assert "get_ipython" not in text


@pytest.mark.parametrize("error", ["1 / 0", "g[7]", "g.nothing", "unknown"])
def test_the_frames_of_a_hook_stay(shell: InteractiveShell, error: str) -> None:
    shell.run_cell(BEGIN)
    text = shown(shell, f"def hook(g):\n    return {error}\nx.register_hook(hook)\n(x * 2).sum().backward()")
    assert lines(text)[:-1] == ["(x * 2).sum().backward()", f"return {error}"]
    assert "nbgrad/core" not in text


def test_the_frames_of_a_module_of_the_user_stay(shell: InteractiveShell) -> None:
    shell.run_cell(BEGIN)
    text = shown(
        shell,
        "class Net(nbgrad.nn.Module):\n    def forward(self, x):\n        return x @ x.new_ones(3)\n"
        "nbgrad.nn.Sequential(Net())(x)",
    )
    assert lines(text)[:-1] == ["nbgrad.nn.Sequential(Net())(x)", "return x @ x.new_ones(3)"]


def test_what_may_be_a_defect_of_nbgrad_keeps_every_frame(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(backward_errors, "freed")
    shell.run_cell(BEGIN)
    text = shown(shell, "y = (x * x).sum()\ny.backward()\ny.backward()")
    assert "AttributeError" in text
    assert "backward.py" in text


def test_xmode_show_shows_every_frame(shell: InteractiveShell) -> None:
    shell.run_cell(BEGIN)
    hidden = shell.InteractiveTB.skip_hidden
    try:
        shell.run_line_magic("xmode", "--show")
        assert "nbgrad/core" in shown(shell, "x + nbgrad.ones(3)")
    finally:
        shell.InteractiveTB.skip_hidden = hidden


def test_errors_without_nbgrad_and_of_torch_alone_are_shown_as_ever(shell: InteractiveShell) -> None:
    shell.run_cell(BEGIN)
    assert lines(shown(shell, "1 / 0")) == ["1 / 0", "ZeroDivisionError"]
    assert "torch/nn/modules/linear.py" in shown(shell, "torch.nn.Linear(3, 4)(torch.ones(2))")


def test_the_debugger_gets_the_same_frames(shell: InteractiveShell) -> None:
    import sys

    shell.run_cell(BEGIN)
    shown(shell, "x + nbgrad.ones(3)")
    trace = sys.last_traceback
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "<module>"


def test_a_syntax_error_is_shown_as_ipython_does(shell: InteractiveShell) -> None:
    with capture_output() as captured:
        result = shell.run_cell("x = (")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert "Traceback" not in captured.stdout
    assert type(result.error_before_exec).__name__ in captured.stdout  # CPython 3.13 has a class of its own for it


def test_who_handles_errors_already_goes_on_doing_so(shell: InteractiveShell) -> None:
    nbgrad.unload_ipython_extension(shell)
    seen: list[str] = []
    shell.set_custom_exc((ValueError,), lambda *args, **_: seen.append(args[1].__name__))
    try:
        nbgrad.load_ipython_extension(shell)
        shell.run_cell("raise ValueError")
        nbgrad.unload_ipython_extension(shell)
        shell.run_cell("raise ValueError")
        assert seen == ["ValueError", "ValueError"]
    finally:
        shell.set_custom_exc((), None)


def test_unloading_leaves_a_handler_that_came_later(shell: InteractiveShell) -> None:
    handled = SimpleNamespace(count=0)

    def handler(*_: object, **__: object) -> None:
        handled.count += 1

    shell.set_custom_exc((ValueError,), handler)
    try:
        nbgrad.unload_ipython_extension(shell)
        shell.run_cell("raise ValueError")
        assert handled.count == 1
    finally:
        shell.set_custom_exc((), None)
    nbgrad.load_ipython_extension(shell)
    nbgrad.unload_ipython_extension(shell)
    assert shell.custom_exceptions == ()
