"""Type checkers and editors read the methods of ``Tensor`` that the op table gives it."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor
from tools.annotations import METHODS, WAYS
from tools.write_methods import ROOT, STUB, stub

from_the_sources = pytest.mark.skipif(nbgrad.compiled(), reason="a compiled method does not say its parameters")

CALLS = """
from typing import assert_type

import numpy as np
import torch

import nbgrad
from nbgrad.core.tensor.methods import ValuesAndIndices

x = nbgrad.tensor([[1.0, 2.0]])
for y in (x + x, x + 1, 2 - x, 2.0 / x, x**2, 2**x, -x, x @ x, x < 1, x * torch.ones(2), x - np.ones(2), x == x):
    assert_type(y, nbgrad.Tensor)
assert_type(x.sum(0), nbgrad.Tensor)
assert_type(x.mean((0, 1), keepdim=True), nbgrad.Tensor)
assert_type(x.reshape(2, -1), nbgrad.Tensor)
assert_type(x.reshape((2, -1)).transpose(0, 1), nbgrad.Tensor)
assert_type(x.softmax(dim=-1), nbgrad.Tensor)
assert_type(x[0, ..., None], nbgrad.Tensor)
assert_type(x.max(), nbgrad.Tensor)
assert_type(x.max(0), ValuesAndIndices)
assert_type(x.max(0).values, nbgrad.Tensor)
assert_type(x.max(dim=0).indices.T.real, nbgrad.Tensor)
assert_type(x.topk(1).values, nbgrad.Tensor)
assert_type(x.svd(), tuple[nbgrad.Tensor, nbgrad.Tensor, nbgrad.Tensor])
assert_type(x.chunk(2), tuple[nbgrad.Tensor, ...])
assert_type(x.split([1, 1], dim=1), tuple[nbgrad.Tensor, ...])
assert_type(x.squeeze_(0).add_(1).clamp_(min=0), nbgrad.Tensor)
assert_type(x.allclose(x), bool)
assert_type(x.to(nbgrad.float64).to("cpu"), nbgrad.Tensor)
x.softmax()  # type: ignore[call-arg]
x + "1"  # type: ignore[operator]
x @ 2  # type: ignore[operator]
"""


@from_the_sources
def test_the_stub_is_what_the_table_gives() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run: python tools/write.py"


@from_the_sources
def test_every_method_is_in_the_stub_and_the_reverse() -> None:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "TensorMethods")
    written = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    has = {name for name, value in vars(TensorMethods).items() if inspect.isfunction(value) or type(value) is property}
    assert written == has
    assert {*WAYS, *METHODS} <= written, "tools/annotations.py has ways to call a method that no tensor has"


def test_no_method_of_the_table_hides_one_of_the_tensor() -> None:
    own = {name for name in vars(Tensor) if not name.startswith("__")}
    assert not own & set(vars(TensorMethods))


def test_a_method_says_what_its_row_says() -> None:
    for name in ("relu", "sum", "softmax"):
        assert getattr(Tensor, name).__doc__ == OPS[name].doc
        assert inspect.getdoc(getattr(nbgrad, name)) == inspect.cleandoc(OPS[name].doc)
        assert inspect.signature(getattr(Tensor, name)) == inspect.signature(OPS[name])


@pytest.mark.rotated(3)
@pytest.mark.once
def test_a_type_checker_knows_the_methods(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy"]
    result = subprocess.run(
        [*command, str(tmp_path / "calls.py")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
