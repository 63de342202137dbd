"""nbgrad exports exactly those functions of the op table that torch has too, and editors see their true signatures."""

import ast
import inspect
import re
import subprocess
import sys
from difflib import unified_diff
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops
from nbgrad.core.dispatch import exports
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.table import OPS, Op
from tests.lacking import need
from tools import write, write_functions, write_methods

pytestmark = pytest.mark.once

INTEROP = write.ROOT / "docs" / "interop.md"
MODULES = [pytest.param(module, id=module.__name__) for module in write_functions.MODULES]

CALLS = """
from typing import assert_type

import torch

import nbgrad
from nbgrad.nn import functional as F

x = nbgrad.tensor([[1.0, 2.0]])
assert_type(nbgrad.exp(x), nbgrad.Tensor)
assert_type(nbgrad.add(x, 1, alpha=2), nbgrad.Tensor)
assert_type(nbgrad.cat([x, torch.ones(1, 2)], 0), nbgrad.Tensor)
assert_type(nbgrad.split(x, 1), tuple[nbgrad.Tensor, ...])
assert_type(nbgrad.linalg.svd(x, full_matrices=False).S, nbgrad.Tensor)
assert_type(nbgrad.max(x, 0).indices, nbgrad.Tensor)
assert_type(nbgrad.fft.rfft(x), nbgrad.Tensor)
assert_type(nbgrad.zeros(2, 3, requires_grad=True), nbgrad.Tensor)
assert_type(nbgrad.randint_like(x, 5), nbgrad.Tensor)
assert_type(x.to(0, copy=True), nbgrad.Tensor)
assert_type(nbgrad.special.expit(x), nbgrad.Tensor)
assert_type(F.relu(x, inplace=True), nbgrad.Tensor)
nbgrad.conv2d(x)  # type: ignore[call-arg]
nbgrad.exp("x")  # type: ignore[arg-type]
nbgrad.conv5d  # type: ignore[attr-defined]
"""


def held(module: ModuleType) -> set[str]:
    """The names in a module that come from the table: rows, twins, and functions that choose a row or use rows."""
    return set(write_functions.of_table(module))


@pytest.mark.skipif(nbgrad.compiled(), reason="a compiled method does not say its parameters")
def test_the_stubs_are_what_the_table_gives() -> None:
    need("linear_cross_entropy")
    changes = [
        line
        for path, made in write.made().items()
        for line in unified_diff(path.read_text("utf-8").splitlines(), made.splitlines(), path.name, "the table", n=0)
    ]
    assert not changes, "run: python tools/write.py\n" + "\n".join(changes[:40])


def test_every_parameter_in_the_stubs_has_a_type() -> None:
    assert not {*write_methods.unknown(), *write_functions.unknown()}, "say in tools/annotations.py what these take"


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_names_what_the_module_has(module: ModuleType) -> None:
    if module is nbgrad.nn.functional:
        need("linear_cross_entropy")
    tree = ast.parse(write_functions.path_of(module).read_text("utf-8"))
    (names,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    assert set(ast.literal_eval(names)) == set(module.__all__) == held(module)


def test_every_row_that_torch_has_is_exported() -> None:
    there = {name for name in OPS if callable(getattr(torch, name, None)) and not name.endswith("_backward")}
    # The function that traces programs is also called trace. For a matrix it calls the row.
    assert there - held(nbgrad) == {"trace"}
    assert float(nbgrad.trace(nbgrad.eye(3))) == 3.0


def test_rows_of_torchs_modules_are_in_nbgrads() -> None:
    for place in exports.PLACES:
        there = {name.removeprefix(f"{place}_") for name in OPS if name.startswith(f"{place}_")}
        there = {name for name in there if hasattr(getattr(torch, place), name)}
        assert there - held(getattr(nbgrad, place)) == set()


def test_an_exported_name_is_what_the_table_calls_so() -> None:
    for name in held(nbgrad):
        value = getattr(nbgrad, name)
        assert value is getattr(ops, name)
        if isinstance(value, Op) and name in OPS:  # a function may choose a row, or have torch's order of arguments
            assert value is OPS[name]


def test_a_name_that_torch_has_means_the_same_there() -> None:
    for name, value in vars(nbgrad).items():
        if isinstance(value, torch.dtype):
            assert value is getattr(torch, name)


def test_two_functions_of_one_name_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_of_one").mkdir()
    (tmp_path / "two_of_one" / "__init__.py").touch()
    for name in ("first", "second"):
        (tmp_path / "two_of_one" / f"{name}.py").write_text("def relu(input):\n    return input\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = import_module("two_of_one")
    with pytest.raises(ImportError, match=r"relu is a function in two_of_one\.second and another in two_of_one\.first"):
        exports.found("two_of_one", package.__path__, "", {})
    assert exports.found("two_of_one", package.__path__, "second", {}).keys() == {"relu"}
    decided = {"relu": len}
    assert exports.found("two_of_one", package.__path__, "", decided) == decided


@pytest.mark.parametrize("name", sorted(held(nbgrad.nn.functional)))
def test_a_function_of_nn_takes_what_torchs_does(name: str) -> None:
    torchs = parameters(getattr(torch.nn.functional, name))
    if torchs is None or "args" in torchs:
        return  # it is written in C, or an argument chooses it: its signature is unknown
    value = getattr(nbgrad.nn.functional, name)
    ours = parameters(value)
    assert ours is not None
    first = len(value.inputs) if isinstance(value, Op) else 0  # a row also accepts torch's other names of its inputs
    old = {"size_average", "reduce", "_stacklevel"}  # nbgrad accepts these, but not in torch's positions
    theirs = [one for one in torchs if one not in old]
    assert [one for one in ours if one not in old][first : len(theirs)] == theirs[first:]
    assert isinstance(value, Op) or ({*torchs} & {"size_average", "reduce"}) <= {*ours}


def parameters(function: Any) -> list[str] | None:
    """The names of what a function takes; None where it does not say."""
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:
        return None


@pytest.mark.rotated(3)
def test_a_type_checker_knows_the_functions(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", str(tmp_path / "calls.py")]
    result = subprocess.run(command, cwd=write.ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_in_place_twin_is_exported_where_torch_has_it() -> None:
    assert isinstance(nbgrad.relu_, InPlace)
    assert nbgrad.nn.functional.elu_ is ops.elu.in_place


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("poisson", "torch.poisson"),
        ("save", "torch.save"),
        ("device", "torch.device"),
        ("GradScaler", r"it is nbgrad\.amp\.GradScaler"),
        ("distributions", r"torch.distributions itself"),
        ("is_tensor", r"isinstance\(x, nbgrad.Tensor\)"),
    ],
)
def test_a_name_that_only_torch_has_leads_there(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'nbgrad' has no attribute '{name}': .*{hint}"):
        getattr(nbgrad, name)


def test_what_the_docs_say_to_import_is_there() -> None:
    listed = dict(
        re.findall(r"^\| `torch\.([\w.]+)`.* \| `nbgrad\.([\w.]+)` \|$", INTEROP.read_text("utf-8"), re.MULTILINE)
    )
    assert len(listed) > 3
    for torchs, ours in listed.items():
        assert torchs == ours, "put nbgrad for torch in the import, it says"
        place, _, name = ours.rpartition(".")
        if place:
            exec(f"from nbgrad.{place} import {name}")
    assert nbgrad.utils.checkpoint.checkpoint is nbgrad.checkpoint


def test_what_only_torchs_utils_have_leads_there() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'nbgrad.utils' has no attribute 'data': use torch.utils.data it"
    ):
        nbgrad.utils.data  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        (nbgrad, "Tensr", "Tensor"),
        (nbgrad, "nograd", "no_grad"),
        (nbgrad.nn, "Liner", "Linear"),
        (nbgrad.nn.functional, "sofmax", "softmax"),
        (nbgrad.optim, "Adm", "Adam"),
        (nbgrad.linalg, "slove", "solve"),
        (nbgrad.fft, "rftt", "rfft"),
        (nbgrad.special, "gamaln", "gammaln"),
        (nbgrad.amp, "autocst", "autocast"),
        (nbgrad.masked, "softmx", "softmax"),
        (nbgrad.nn.init, "xavier_unifrm_", "xavier_uniform_"),
        (nbgrad.func, "functional_cal", "functional_call"),
        (nbgrad.func, "grad", "nbgrad.grad"),
        (nbgrad.func, "hessian", "nbgrad.hessian"),
        (nbgrad.linalg, "einsum", "nbgrad.einsum"),
    ],
)
def test_a_name_that_is_nearly_one_leads_there(module: ModuleType, name: str, meant: str) -> None:
    expected = f"module '{module.__name__}' has no attribute '{name}'; did you mean {meant}?"
    with pytest.raises(AttributeError, match=f"^{re.escape(expected)}$"):
        getattr(module, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from {module.__name__} import {name}")


def test_a_name_that_is_like_no_other_leads_nowhere() -> None:
    assert not hasattr(nbgrad, "no_such_name")
    with pytest.raises(AttributeError, match=r"^module 'nbgrad' has no attribute 'no_such_name'$"):
        nbgrad.no_such_name  # noqa: B018
