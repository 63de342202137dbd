"""The traits of a row are true of its numbers and gradients, and a row that has such numbers has the trait."""

from collections.abc import Iterator
from itertools import permutations
from math import inf
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.traits import Traits, traits_of
from tests.core import rows

LINE = torch.linspace(-9, 9, 3601, dtype=torch.float64)
"""The numbers on which functions of one number are looked at."""


def slopes(row: Op) -> torch.Tensor | None:
    """The slopes of a function of one number along the line; None if the row is no such function."""
    if row.listed or row.arity != 1 or row.required or row.many or row.random or not row.differentiable:
        return None
    x = nbgrad.tensor(LINE, requires_grad=True)
    try:
        out = row(x)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
    if not isinstance(out, nbgrad.Tensor) or out.shape != x.shape or not out.requires_grad:
        return None
    out.sum().backward()
    assert x.grad is not None
    alone = [row(nbgrad.tensor(LINE[place])).item() for place in (1000, 2000, 3000)]
    pointwise = alone == [out.data[place].item() for place in (1000, 2000, 3000)]
    return x.grad.data if pointwise else None


LINES = {name: found for name, row in OPS.items() if (found := slopes(row)) is not None}


def test_the_functions_of_one_number_are_found() -> None:
    assert {"relu", "sigmoid", "tanh", "round", "exp", "hardswish", "sign", "gelu"} <= LINES.keys()
    assert not {"softmax", "cumsum", "matmul"} & LINES.keys()


@pytest.mark.parametrize("name", LINES)
def test_slopes_have_their_traits(name: str) -> None:
    row, slope = OPS[name], LINES[name]
    traits, finite = traits_of(row), slope[slope.isfinite()]
    assert traits.jumps == bool((finite == 0).all())
    some = not traits.jumps and float((slope == 0).double().mean()) > 0.03
    assert traits.flat == (some and not slope.isnan().any()), "a slope of 0 on a part of the line"
    both = [float(finite[:100].abs().max()), float(finite[-100:].abs().max())] if len(finite) == len(slope) else [1.0]
    if traits.steepest is not None:
        assert traits.steepest == pytest.approx(float(finite.abs().max()))
        assert max(both) < 1e-3


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.traits.interval != Traits().interval])
def test_results_lie_in_their_interval(name: str) -> None:
    low, high = OPS[name].traits.interval
    seen = 0
    for sample in rows.samples(OPS[name]):
        out = OPS[name](*sample.args, **sample.settings)
        out = out[~out.isnan()]
        seen += out.numel()
        assert bool(((out >= low) & (out <= high)).all())
    assert seen


@pytest.mark.parametrize("name", LINES)
def test_a_function_of_one_number_between_two_bounds_says_so(name: str) -> None:
    out = OPS[name](LINE)
    within = not out.is_complex() and bool(((out >= 0) & (out <= 1)).all()) and float(out.max() - out.min()) > 0.9
    assert within == (OPS[name].traits.interval == (0.0, 1.0))


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.traits.moves])
def test_what_moves_numbers_makes_no_new_ones(name: str) -> None:
    for sample in rows.samples(OPS[name]):
        first = sample.args[0]
        out = OPS[name](*sample.args, **sample.settings)
        assert {*out.flatten().tolist()} <= {*first.to(out.dtype).flatten().tolist()}, sample


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.traits.multiplies])
def test_what_multiplies_gives_one_input_a_gradient_by_another(name: str) -> None:
    row, told = OPS[name], False
    for sample in rows.samples(row):
        given = [
            nbgrad.tensor(arg, requires_grad=arg.is_floating_point()) if isinstance(arg, torch.Tensor) else arg
            for arg in sample.args
        ]
        learns = [one for one in given if isinstance(one, nbgrad.Tensor) and one.requires_grad]
        out = row(*given, **sample.settings)
        if not out.numel() or not out.requires_grad:
            continue
        for first, second in permutations(learns, 2):
            (gradient,) = nbgrad.autograd.grad(
                (out * torch.rand(out.shape)).sum(), [first], create_graph=True, allow_unused=True
            )
            if gradient is not None and gradient.requires_grad:
                (by,) = nbgrad.autograd.grad(gradient.sum(), [second], allow_unused=True)
                told = told or by is not None
    assert told


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.traits.units is not None])
def test_units_lie_along_a_dimension_of_the_result(name: str) -> None:
    unit = OPS[name].traits.units
    assert any(OPS[name](*one.args, **one.settings).ndim > max(unit, 0) for one in rows.samples(OPS[name]))


def laid_otherwise(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same numbers in another order in memory; and complex ones as conjugates that are only marked as such."""
    turned = tuple(range(x.ndim))[::-1]
    yield x.permute(turned).contiguous().permute(turned)
    if x.is_complex():
        yield x.conj_physical().conj()


def seen(row: Op, x: torch.Tensor, settings: dict[str, Any]) -> list[Any]:
    """The numbers that a row gives."""
    out = row(x, **settings)
    return [one.tolist() for one in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.view])
def test_a_view_that_depends_on_the_memory_says_so(name: str) -> None:
    row, depends = OPS[name], False
    for x, settings in [(one.args[0], one.settings) for one in rows.samples(row) if len(one.args) == 1]:
        for other in laid_otherwise(x):
            try:
                depends = depends or seen(row, other, settings) != seen(row, x, settings)
            except RuntimeError:
                depends = True
    assert depends == row.traits.laid


REAL = {f"elementwise.{one}" for one in ("arithmetic", "powers", "rounding", "select", "special", "trigonometry")}
PAIRS = [name for name, row in OPS.items() if row.module in REAL and row.differentiable and row.arity == 2]
SOME = torch.tensor([-inf, -2.5, -1.0, -0.0, 0.0, 0.3, 1.0, 2.0, 7.0, inf], dtype=torch.float64)


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether both have the same numbers, and the same signs at 0."""
    return torch.equal(first.nan_to_num(0.5), second.nan_to_num(0.5)) and torch.equal(first.signbit(), second.signbit())


@pytest.mark.parametrize("name", PAIRS)
def test_what_commutes_says_so(name: str) -> None:
    first, second = SOME[:, None], SOME[None, :]
    ones, others = OPS[name](first, second), OPS[name](second, first)
    assert torch.equal(ones.nan_to_num(0.5), others.nan_to_num(0.5)) == OPS[name].traits.commutes


@pytest.mark.parametrize("name", PAIRS)
def test_a_neutral_number_changes_no_bit(name: str) -> None:
    finite = SOME[1:-1]
    found = [number for number in (-0.0, 0.0, 1.0) if same(OPS[name](finite, torch.tensor(number).double()), finite)]
    assert ([] if OPS[name].traits.neutral is None else [OPS[name].traits.neutral]) == found[:1]


def test_what_is_no_row_has_no_traits() -> None:
    assert traits_of(None) == traits_of(nbgrad.ones(1)) == Traits()
