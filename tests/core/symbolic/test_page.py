"""Programs as pages: the interpreter in them gives torch's numbers, and what it does not know is refused."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.exports import page
from nbgrad.symbolic import Program, trace

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
CLASSES = nbgrad.tensor([0, 2, 1, 1, 2])


def ran(file: Path, change: str = "{}") -> dict[str, Any]:
    """The numbers of the page: its results and the values of its steps."""
    text = file.read_text(encoding="utf-8")
    program = re.search(r'id="program">(.*?)</script>', text, re.DOTALL)
    script = re.search(r'<script type="module">(.*)</script>', text, re.DOTALL)
    assert program is not None
    assert script is not None
    code = f"""{script[1]}
    const found = run({program[1]}, {change});
    const told = (x) => Array.from(x.data, (v) => Number.isFinite(v) ? v : String(v));
    const all = (part) => Object.fromEntries(Object.entries(part).map(([key, x]) => [key, told(x)]));
    console.log(JSON.stringify({{results: all(found.results), steps: all(found.steps)}}));"""
    (file.parent / "run.cjs").write_text(code, encoding="utf-8")
    done = subprocess.run([str(NODE), file.parent / "run.cjs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def compare(program: Program, args: tuple[Any, ...], file: Path, terms: float = 0.0) -> dict[str, Any]:
    """Compare every result of a page with torch's. ``terms`` is the size of the numbers that are summed in a result."""
    program.to_html(file, *args)
    found = ran(file)
    made = program.run([one.data for one in args], program.captured_data())
    for value, wanted in zip(program.leaving(), made, strict=True):
        one = torch.tensor([float(x) for x in found["results"][value.name]], dtype=torch.float64).view(wanted.shape)
        exact = torch.finfo(wanted.dtype).eps if wanted.is_floating_point() else 0.0
        size = max(terms, float(wanted.double().abs().max()) if wanted.numel() else 0.0)
        torch.testing.assert_close(one, wanted.double(), rtol=32 * exact, atol=32 * exact * size)
    assert found["steps"].keys() == {value.name for step in program.steps for value in step.results()}
    return found


@pytest.mark.sampled(2)
@needs_node
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "layers",
    [
        lambda: [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)],
        lambda: [nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)],
        lambda: [nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 6), nn.SiLU(), nn.ELU(), nn.Softplus(), nn.Linear(6, 3)],
    ],
)
def test_a_network_its_gradient_and_its_steps(layers: Callable[[], Any], dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*layers()).to(dtype)
    x = nbgrad.tensor(torch.randn(5, 4, dtype=dtype))
    program = trace(lambda x, y: nn.functional.cross_entropy(net(x), y), x, CLASSES)
    compare(program, (x, CLASSES), tmp_path / "page.html")
    compare(program.grad().optimize(), (x, CLASSES), tmp_path / "page.html")


KINDS: list[Any] = [
    lambda x: (x.exp() * x.sin() - x.sqrt()).mean(0).std(),
    lambda x: nbgrad.where(x > 0.5, x**2, 1 / x).clamp(0.3, 2.0).sum(1, keepdim=True).expand(3, 4).T,
    lambda x: nn.functional.mse_loss(x.softmax(0), x.log_softmax(1)),
    lambda x: nn.functional.binary_cross_entropy_with_logits(x, (x > 0.3).to(x.dtype)),
    lambda x: nbgrad.cat([x, x * 2], 1).split(3, 1)[1].reshape(-1).cumsum(0),
    lambda x: x.amax(1) - x.amin(1) * x.var(1) + x.argmax(1),
    lambda x: x[[2, 0]].unsqueeze(1) @ x.T,
    lambda x: nn.functional.embedding(nbgrad.tensor([[0, 2], [1, 1]]), x).sum(0),
    lambda x: x.gather(1, (x > 0.5).long()).round() + x[1:, ::2][:1, 1:],
    lambda x: x.log1p() + x.expm1() + x.rsqrt() + x.erf() + x.atan() + (x / 3 - 1).abs(),
]


@needs_node
@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_kinds_of_steps(number: int, dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(number)
    x = nbgrad.tensor(torch.rand(3, 4, dtype=dtype) + 0.1, requires_grad=True)
    compare(trace(KINDS[number], x), (x,), tmp_path / "page.html")
    compare(trace(lambda x: KINDS[number](x).sum(), x).grad(), (x,), tmp_path / "page.html")


@needs_node
def test_a_changed_input_changes_the_results(tmp_path: Path) -> None:
    x = nbgrad.tensor([1.0, 2.0])
    trace(lambda x: (x * x).sum(), x).to_html(tmp_path / "page.html", x)
    assert ran(tmp_path / "page.html")["results"]["sum"] == [5]
    change = '{x: {shape: [2], dtype: "float32", data: Float64Array.of(3, 4)}}'
    assert ran(tmp_path / "page.html", change)["results"]["sum"] == [25]


@needs_node
def test_the_operators_are_those_of_the_table_in_the_script(tmp_path: Path) -> None:
    code = f"{page.kernels()}\nconsole.log(JSON.stringify(Object.keys(nbgradKernels.OPS)))"
    (tmp_path / "run.cjs").write_text(code, encoding="utf-8")
    done = subprocess.run([str(NODE), tmp_path / "run.cjs"], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == page.OPERATORS


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: nn.functional.dropout(x, 0.5), r"HTML: the step \w+ at .*test_page.py:\d+.*random numbers"),
        (lambda x: x.cumprod(0), r"HTML: the step cumprod at .*test_page.py:\d+.*aten.cumprod.* has no translation"),
        (lambda x: x.to(torch.complex64), r"HTML: .*complex64 cannot be written to a page"),
    ],
)
def test_a_step_without_translation_names_itself(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=message):
        trace(function, nbgrad.tensor(torch.randn(3, 4))).to_html(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_a_large_network_is_refused(tmp_path: Path) -> None:
    weight = nbgrad.tensor(torch.zeros(1001, 1000))
    with pytest.raises(ValueError, match="1000000 numbers at most, and <lambda> takes 1002000: pages are for small"):
        trace(lambda x: x @ weight.T, nbgrad.tensor(torch.zeros(1000))).to_html(tmp_path / "it")


def test_the_page_holds_no_foreign_code(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return x * 2  # </script><script>alert(1)</script>

    function.__name__ = "</title><script>alert(1)</script>"
    trace(function, nbgrad.tensor([1.0])).to_html(tmp_path / "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text(encoding="utf-8")
