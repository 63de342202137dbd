"""A block next to torch's: same weights, same input; output and all gradients must be the same."""

from typing import Any

import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn.utils.rnn import PackedSequence
from tests.core.closeness import identical

TIGHT = {"rtol": 1e-9, "atol": 1e-12}


def matched(make: Any, dtype: torch.dtype = torch.float64) -> tuple[Any, Any]:
    """The block that ``make`` makes of our library and that of torch's: their first values are the same numbers."""
    torch.manual_seed(3)
    ours = make(nn)
    torch.manual_seed(3)
    theirs = make(torch.nn)
    mine, yours = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(yours)
    assert all(torch.equal(mine[key], yours[key]) for key in yours)
    return ours.to(dtype), theirs.to(dtype)


def each(values: Any, change: Any) -> Any:
    """``values``, nested in tuples and lists, with ``change`` made to every tensor."""
    if isinstance(values, torch.nn.utils.rnn.PackedSequence | PackedSequence):
        return type(values)(change(values.data), *values[1:])
    if isinstance(values, tuple | list):
        changed = [each(value, change) for value in values]
        return changed if isinstance(values, list) else tuple(changed)
    return change(values) if isinstance(values, torch.Tensor | nbgrad.Tensor) else values


def flat(values: Any) -> list[Any]:
    """The floating point tensors in nested ``values``."""
    found: list[Any] = []
    each(values, lambda one: found.append(one) if one.dtype.is_floating_point else None)
    return found


def leaf(lib: Any) -> Any:
    """A function that makes an input for our library or torch: a leaf, with a gradient if it is floating point."""

    def make(value: torch.Tensor) -> Any:
        grad = value.dtype.is_floating_point
        if lib is nn:
            return nbgrad.tensor(as_laid_out(value), requires_grad=grad)
        return as_laid_out(value).requires_grad_(grad)

    return make


def as_laid_out(value: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of ``value``. If ``value`` is stretched (a stride of 0), a contiguous copy."""
    if 0 in value.stride():
        return value.detach().clone()
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())


def check(ours: Any, theirs: Any, *args: Any, tolerance: Any = TIGHT, **settings: Any) -> Any:
    """Run both blocks on the same input, which holds torch tensors. Return our output.

    Outputs, input gradients and parameter gradients must be equal.
    """
    results = []
    for lib, block in ((nn, ours), (torch.nn, theirs)):
        inputs = each(args, leaf(lib))
        named = {key: each(value, leaf(lib)) for key, value in settings.items()}
        torch.manual_seed(11)
        out = block(*packed(inputs, lib), **named)
        torch.manual_seed(12)
        loss = sum((one * torch.randn_like(raw(one))).sum() for one in flat(out))
        block.zero_grad()
        loss.backward()
        gradients = [one.grad for one in flat([inputs, list(named.values())])]
        results.append((out, gradients, [one.grad for one in block.parameters()]))
    (mine, mine_in, mine_weights), (yours, yours_in, yours_weights) = results
    same(flat(mine), flat(yours), tolerance)
    same(mine_in, yours_in, tolerance)
    same(mine_weights, yours_weights, tolerance)
    return mine


def same(mine: list[Any], yours: list[Any], tolerance: Any) -> None:
    for one, other in zip(mine, yours, strict=True):
        assert (one is None) == (other is None)
        if one is not None and not identical(raw(one), raw(other)):
            torch.testing.assert_close(raw(one), raw(other), **tolerance)


def raw(value: Any) -> Any:
    return value.data if isinstance(value, nbgrad.Tensor) else value.detach()


def packed(inputs: Any, lib: Any) -> Any:
    """The inputs, with each packed sequence turned into one of ``lib``."""
    kind = PackedSequence if lib is nn else torch.nn.utils.rnn.PackedSequence
    return [kind(*one) if isinstance(one, torch.nn.utils.rnn.PackedSequence) else one for one in inputs]
