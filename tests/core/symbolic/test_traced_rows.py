"""Every row of the op table as a program: forward, gradient and second gradient equal those that run directly."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import trace
from nbgrad.core.symbolic.structure import leaves, mapped
from nbgrad.core.tensor.tensor import Tensor
from tests.core.rows import samples

REFUSED: dict[str, str] = {
    "getitem": "the size of x[mask] depends on numbers",
    "getitem_backward": "the positions of a mask are numbers",
}
"""Rows of which some sample is refused, and why."""

SAMPLES = 3
"""How many samples of a row are traced, spread over all that it has."""


def spread(row: Op) -> Iterator[Sample]:
    """Some samples of a row."""
    every = list(samples(row))
    yield from every[:: max(1, len(every) // SAMPLES)][: SAMPLES + 1]


def differentiated(row: Op, settings: dict[str, Any], order: int) -> Callable[..., list[Any]]:
    """The function that gives the results of a row and its gradients up to an order."""

    def function(*args: Any) -> list[Any]:
        found = [one for one in leaves(row(*args, **settings)) if isinstance(one, Tensor)]
        wrt = [one for one in leaves(args) if isinstance(one, Tensor) and one.requires_grad]
        live = [one for one in found if one.requires_grad]
        for step in range(order):
            if not live or not wrt:
                break
            total = sum(
                ((one.abs() if one.is_complex() else one * one).sum() for one in live), start=Tensor(torch.zeros(()))
            )
            gradients = nbgrad.grad(total, wrt, allow_unused=True, create_graph=step + 1 < order)
            found += [one for one in gradients if one is not None]
            live = [one for one in gradients if one is not None and one.requires_grad]
        return found

    return function


def leaf(given: Any, row: Op, name: str) -> Any:
    """A tensor of a sample as one of nbgrad, which requires a gradient where the row has a rule for it."""
    if not isinstance(given, torch.Tensor):
        return given
    listed = name == row.listed
    has_rule = name in row.rules or (listed and row.listed in row.rules)
    real = given.is_floating_point() or given.is_complex()
    return nbgrad.tensor(given.clone(), requires_grad=real and has_rule and row.differentiable)


def check(row: Op, sample: Sample, order: int) -> None:
    """Run the sample directly and as a program: both give the same bits."""
    names = [*row.inputs, *[row.listed] * len(sample.args)]
    args = [
        mapped(lambda one, name=name: leaf(one, row, name), given)
        for name, given in zip(names, sample.args, strict=False)
    ]
    function = differentiated(row, sample.settings, order)
    torch.manual_seed(0)
    expected = function(*args)
    program = trace(function, *args)
    torch.manual_seed(0)
    found = program(*args)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        left, right = (
            each.data if each.data.layout is torch.strided else each.data.to_dense() for each in (one, other)
        )
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def is_refused(row: Op, sample: Sample, order: int) -> bool:
    """Compare a sample, if it can be traced."""
    try:
        check(row, sample, order)
    except TraceError:
        if row.name not in REFUSED:
            raise
        return True
    return False


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_computes_the_same_as_a_program(name: str, order: int) -> None:
    refused = [sample for sample in spread(OPS[name]) if is_refused(OPS[name], sample, order)]
    assert bool(refused) == (name in REFUSED)
