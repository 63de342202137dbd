"""The source of a program, written to a file and imported, computes the same bits as the program."""

import ast
import importlib.util
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import Program, trace
from tests.core.symbolic.networks import LOSSES, STEPS, Case, mlp, sgd
from tests.core.symbolic.traced_rows import arguments, closeness, differentiated, spread

LEVELS = ("ops", "torch")


def imported(text: str, folder: Path, name: str = "written") -> Callable[..., Any]:
    """The function of a source that is written to a file."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (function,) = (one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef))
    found: Callable[..., Any] = getattr(module, function.name)
    return found


def raw(structure: Any) -> list[Any]:
    """The leaves of a result. nbgrad's tensors are replaced by their torch tensors."""
    return [one.data if isinstance(one, nbgrad.Tensor) else one for one in leaves(structure)]


def same(found: Any, expected: Any, most: float = 0.0) -> None:
    left, right = raw(found), raw(expected)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor):
            one, other = (each if each.layout is torch.strided else each.to_dense() for each in (one, other))
            torch.testing.assert_close(one, other, rtol=most, atol=most, equal_nan=True)
        else:
            assert one == other


def compare(program: Program, args: tuple[Any, ...], folder: Path, level: Any) -> None:
    """Run the program, and its source on copies of the captured tensors. Results and captured tensors are the same."""
    arguments = program.source_arguments(level)
    copies = {name: one.clone() for name, one in arguments.items()}
    function = imported(program.source(level), folder)
    torch.manual_seed(1)
    found = function(*[one.clone() if isinstance(one, torch.Tensor) else one for one in raw(args)], **copies)
    torch.manual_seed(1)
    expected = program(*args)
    same(found, expected)
    same(list(copies.values()), list(arguments.values()))
    names = {id(value.owner): value.name for value in program.captured if value.owner is not None}
    for owner, _ in program.gradients:
        same(copies[names[id(owner)]].grad, owner.grad)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("made", [*LOSSES, *STEPS], ids=lambda made: made.__name__)
def test_the_source_of_a_network_computes_the_same(made: Callable[[], Case], level: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    function, args = made()
    program = trace(function, *args)
    if made in LOSSES:
        program = program.grad()
    compare(program, args, tmp_path, level)
    compare(program.optimize(), args, tmp_path, level)


@pytest.mark.sampled(16)
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", sorted(OPS))
def test_the_source_of_a_row_and_its_gradient_computes_the_same(name: str, tmp_path: Path) -> None:
    row = OPS[name]
    sample = list(spread(row))[-1]
    args = tuple(arguments(row, sample))
    try:
        program = trace(differentiated(row, sample.settings, 1), *args)
    except TraceError:  # test_traced_rows has the list of these rows and the reasons
        return
    tensors = [one.data for one in leaves(args) if isinstance(one, nbgrad.Tensor)]
    torch.manual_seed(1)
    expected = program(*args)
    for level in LEVELS:
        function = imported(program.source(level), tmp_path)
        torch.manual_seed(1)
        again = function(*(one.clone() for one in tensors), **program.source_arguments(level))
        same(again, expected, closeness(row))


def test_a_row_whose_last_step_a_pass_works_in_place_is_not_called(tmp_path: Path) -> None:
    row = OPS["hardsigmoid_backward"]
    args = [nbgrad.tensor([-1.0, 0.5, 4.0], dtype=nbgrad.float64) for _ in range(2)]
    program = trace(row, *args).optimize()
    assert [step.name for step in program.steps] == ["hardtanh_backward", "div_"]
    compare(program, tuple(args), tmp_path, "ops")


def test_a_gradient_reads_as_one_would_write_it() -> None:
    torch.manual_seed(0)
    function, args = mlp()
    program = trace(function, *args).grad()
    text = program.source()
    assert "    d_linear_2 = ops.tanh_backward(d_tanh, tanh)  # [5, 8]" in text or "d_tanh * " in text
    assert "    d_tanh = d_linear_3 @ w4_weight  # [5, 8]" in text
    assert "    linear = ops.linear(x, w0_weight, w0_bias)  # [5, 8]" in text
    assert "    y,  # [5] int64" in text
    assert "# -------------------- backward\n" in text
    assert re.search(r"# .*networks\.py:\d+, `return nn\.functional\.cross_entropy", text)
    assert text.index("# 0 (Linear)") < text.index("# 1 (ReLU)") < text.index("# 4 (Linear)")
    assert text.count("# 0 (Linear)") == 2  # in the forward, and where its gradient is computed


def test_the_source_of_torch_needs_no_nbgrad(tmp_path: Path) -> None:
    function, args = sgd()
    path = tmp_path / "alone.py"
    path.write_text(trace(function, *args).source("torch"))
    code = f"import runpy, sys; runpy.run_path({str(path)!r}); assert 'nbgrad' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # the command is this test's own Python


def test_a_part_of_a_rule_that_looks_at_numbers_is_imported(tmp_path: Path) -> None:
    x = nbgrad.tensor([2.0, 0.0, 3.0], requires_grad=True)
    program = trace(lambda x: x.prod(), x).grad()
    text = program.source("torch")
    assert "from nbgrad.core.ops.reduce.reductions import _slope_of_prod as slope_of_prod\n" in text
    compare(program, (x,), tmp_path, "torch")


def test_settings_of_an_optimizer_are_arguments(tmp_path: Path) -> None:
    function, args = sgd()
    program = trace(function, *args)
    assert "    lr=0.1,  # SGD.param_groups[0]['lr']\n" in program.source()
    written = imported(program.source(), tmp_path)
    before = [value.data.clone() for value in program.captured if value.name == "w0_weight"]
    arguments = {name: one.clone() for name, one in program.source_arguments().items()}
    written(*raw(args), **arguments, lr=0.0)
    assert torch.equal(arguments["w0_weight"], before[0])


def test_two_optimizers_of_one_kind_have_settings_of_their_own() -> None:
    one, two = (nbgrad.ones(3, requires_grad=True) for _ in range(2))
    optimizers = [nbgrad.optim.SGD([one], lr=0.1), nbgrad.optim.SGD([two], lr=0.2)]

    def step(x: Any) -> None:
        ((one + two) * x).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    text = trace(step, nbgrad.ones(3)).source()
    assert "    lr=0.1,  # SGD.param_groups[0]['lr']\n" in text
    assert "    lr_2=0.2,  # SGD_2.param_groups[0]['lr']\n" in text


def test_an_optimizer_that_runs_as_it_is_is_an_argument(tmp_path: Path) -> None:
    w = nbgrad.ones(3, requires_grad=True)
    optimizer = nbgrad.optim.RMSprop([w], lr=0.1)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    x = nbgrad.ones(3)
    step(x)
    program = trace(step, x)
    arguments = program.source_arguments()
    assert [name for name, one in arguments.items() if not isinstance(one, torch.Tensor)] == ["RMSprop_update"]
    before = w.data.clone()
    imported(program.source(), tmp_path)(x.data, **arguments)
    assert not torch.equal(w.data, before)


def test_variables_and_small_constants_have_their_names_and_numbers() -> None:
    w, half, table = nbgrad.ones(2, requires_grad=True), torch.tensor([0.5, 1.5]), torch.ones(100)
    counts = torch.zeros(2)

    def function(x: Any) -> Any:
        counts.add_(1)
        return (w * x * half).sum() + table.sum()

    text = trace(function, nbgrad.ones(2)).source()
    assert re.search(r"def function\(\n    x,  # \[2\]\n    \*,\n    counts, .*\n    w, .*\n    table, .*\n\):", text)
    assert "* torch.tensor([0.5, 1.5], dtype=torch.float32)" in text


def test_an_error_shows_the_line_of_the_file(tmp_path: Path) -> None:
    function, args = mlp()
    program = trace(function, *args).grad()
    text = program.source("torch").replace("d_linear_3 @ w4_weight", "d_linear_3 @ w4_weight.T")
    written = imported(text, tmp_path, "homework")
    with pytest.raises(RuntimeError) as caught:
        written(*raw(args), **program.source_arguments("torch"))
    last = traceback.extract_tb(caught.tb)[-1]
    assert Path(last.filename).name == "homework.py"
    assert last.line == "d_tanh = d_linear_3 @ w4_weight.T  # [5, 8]"


def test_names_of_python_and_of_the_source_are_not_taken(tmp_path: Path) -> None:
    def function(ops: Any, torch: Any, F: Any, aten: Any, slice: Any) -> Any:  # noqa: A002, N803  # the point
        return ((ops @ torch).relu() + F.exp() * aten).sum() - slice

    args = tuple(nbgrad.tensor(torch.randn(2, 2), requires_grad=True) for _ in range(5))
    compare(trace(lambda *given: function(*given).sum(), *args).grad(), args, tmp_path, "ops")
    compare(trace(function, *args), args, tmp_path, "torch")


def test_a_level_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="source\\(level='c'\\): there are the levels 'ops' and 'torch'"):
        trace(lambda x: x + 1, nbgrad.ones(2)).source("c")  # type: ignore[arg-type]


ENDS = ("\n", "\r", "\x0c\n", "\r\n", "\u2028", "\x85", "\0")
HOSTILE = [f"x{end}    raise SystemExit('it ran')  #" for end in ENDS]
HOSTILE += ['"""\n    raise SystemExit', "\\\n    raise SystemExit", "\ud800", "\u202e) #"]
HOSTILE += ["\u00b2", "\ufb01", "class", "\u0661", "\u00b7x"]
"""Texts with every end of a line, of a string, and with letters that no name or no file has."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_name_leaves_its_comment(name: str, level: Any, tmp_path: Path) -> None:
    class Block(nbgrad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nbgrad.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return (self.inner(x) * self.free).sin()

    Block.__name__ = Block.__qualname__ = name.replace("\0", "\1").encode(errors="replace").decode()
    block = Block()
    block.free = nbgrad.tensor([[float(one) for one in range(8)]] * 2)[:, :2]
    block.free.name = name
    block.inner.weight.name = name
    program = trace(block, nbgrad.tensor([[1.0, 2.0]]))
    text = program.source(level=level)
    run = imported(text, tmp_path)
    given = nbgrad.tensor([[1.0, 2.0]])
    assert torch.equal(run(given.data, **program.source_arguments(level)), block(given).data)
    for line in text.split("\n"):
        assert "raise SystemExit" not in line.partition("#")[0]
        assert line.isprintable()


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_every_file_takes_the_name_of_a_function(name: str, tmp_path: Path) -> None:
    def run(x: Any) -> Any:
        return x.sin()

    run.__name__ = name
    program = trace(run, nbgrad.tensor([1.0, 2.0]))
    program.to_html(tmp_path / "page.html")
    for text in (str(program), program.source(), program.explain(), program.to_fx().code):
        assert text.encode()
