"""The source of a program, written to a file and imported, computes the same bits as the program."""

import ast
import importlib.util
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.core.symbolic.structure import leaves, mapped
from tests.core.symbolic.networks import LOSSES, STEPS, Case, mlp, sgd
from tests.core.symbolic.test_traced_rows import differentiated, leaf, spread

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
    """The leaves of a result, torch's tensors in place of nbgrad's."""
    return [one.data if isinstance(one, nbgrad.Tensor) else one for one in leaves(structure)]


def same(found: Any, expected: Any) -> None:
    left, right = raw(found), raw(expected)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor):
            one, other = (each if each.layout is torch.strided else each.to_dense() for each in (one, other))
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        else:
            assert one == other


def compare(program: Program, args: tuple[Any, ...], folder: Path, level: Any) -> None:
    """Run the program, and its source on a copy of what the program captures: results and copies end up the same."""
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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(OPS))
def test_the_source_of_a_row_and_its_gradient_computes_the_same(name: str, level: str, tmp_path: Path) -> None:
    row = OPS[name]
    for sample in list(spread(row))[:2]:
        names = [*row.inputs, *[row.listed] * len(sample.args)]
        args = tuple(
            mapped(lambda one, name=name: leaf(one, row, name), given)
            for name, given in zip(names, sample.args, strict=False)
        )
        try:
            program = trace(differentiated(row, sample.settings, 1), *args)
        except TraceError:
            continue
        tensors = tuple(one for one in leaves(args) if isinstance(one, nbgrad.Tensor))
        function = imported(program.source(level), tmp_path)
        torch.manual_seed(1)
        found = function(*(one.data.clone() for one in tensors), **program.source_arguments(level))
        torch.manual_seed(1)
        same(found, program(*args))
