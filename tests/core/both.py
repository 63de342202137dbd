"""The same call on torch's tensors and on ours: value, gradient and second-order gradient are to be equal."""

from collections.abc import Callable
from typing import Any

import torch

import nbgrad
from nbgrad.core.tensor.tensor import Tensor
from tests.core import rows


def same(call: Callable[..., Any], *data: torch.Tensor) -> None:
    """Compare ``call`` on the tensors; those of floating point need a gradient."""
    theirs = [t.clone().requires_grad_(t.is_floating_point()) for t in data]
    ours = [nbgrad.tensor(t.clone(), requires_grad=t.is_floating_point()) for t in data]
    expected, got = call(*theirs), call(*ours)
    for yours, mine in zip(parts(expected), parts(got), strict=True):
        assert type(mine) is Tensor
        assert mine.requires_grad == yours.requires_grad
        rows.close(mine.data, yours.detach(), "value")
    yours, mine = [t for t in theirs if t.requires_grad], [t for t in ours if t.requires_grad]
    first = gradients(torch.autograd.grad, number(expected), yours)
    again = gradients(nbgrad.grad, number(got), mine)
    compare(again, first, "gradient")
    if any(g is not None and g.requires_grad for g in first):
        seconds = gradients(torch.autograd.grad, number(first), yours)
        compare(gradients(nbgrad.grad, number(again), mine), seconds, "second-order gradient")


def parts(result: Any) -> tuple[Any, ...]:
    """A result, or several, as a tuple."""
    return tuple(result) if isinstance(result, tuple) else (result,)


def number(result: Any) -> Any:
    """One number that depends on all elements of a result that require a gradient, each with another weight."""
    total: Any = 0
    for one in parts(result):
        if one is not None and one.requires_grad:
            total = (
                total + (one * one * rows.weights(one.data if isinstance(one, nbgrad.Tensor) else one.detach())).sum()
            )
    return total


def gradients(grad: Callable[..., Any], output: Any, inputs: list[Any]) -> tuple[Any, ...]:
    return tuple(grad(output, inputs, create_graph=True, allow_unused=True))


def compare(ours: tuple[Any, ...], theirs: tuple[Any, ...], what: str) -> None:
    for mine, yours in zip(ours, theirs, strict=True):
        raw = None if mine is None else mine.data
        plain = None if yours is None else yours.detach()
        if raw is not None and plain is not None:
            rows.close(raw, plain, what)
        else:  # a gradient that is None in one library may be zeros in the other
            assert not any(one is not None and bool(one.any()) for one in (raw, plain)), what
