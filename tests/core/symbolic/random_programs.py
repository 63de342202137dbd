"""Random functions for tests of passes: arithmetic, broadcasting, views, changes in place, constants and dropout."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.structure import leaves
from nbgrad.symbolic import Program, trace

SHAPES = ((), (1,), (6,), (5, 1), (1, 6), (5, 6))
UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: -x,
    lambda x: x * 1,
    lambda x: 1.0 * x,
    lambda x: x / 1,
    lambda x: x + 0.0,
    lambda x: x - 0,
    lambda x: x * 2.0 * 0.5,
    lambda x: x.exp().clamp(max=5.0),
    lambda x: x.tanh(),
    lambda x: x.abs().log().exp(),
    lambda x: x.relu(),
    lambda x: x.square(),
    lambda x: x.sigmoid() * 3,
    lambda x: x.sum(),
    lambda x: x.sum(0, keepdim=True) if x.dim() else x,
    lambda x: x.sum(-1).unsqueeze(-1) if x.dim() else x,
    lambda x: x.sum((0, 1)) if x.dim() == 2 else x,
    lambda x: x.mean(-1, keepdim=True) if x.dim() else x,
    lambda x: x.t().t() if x.dim() == 2 else x,
    lambda x: x.t().contiguous().t() if x.dim() == 2 else x,
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: x.unsqueeze(0).squeeze(0),
    lambda x: x.expand(5, 6),
    lambda x: x.unsqueeze(0).expand(2, *x.shape).sum(0),
    lambda x: x.to(torch.float64).to(torch.float32),
    lambda x: x * torch.tensor(2.0),
    lambda x: x + nbgrad.ones(1) * 3,
    lambda x: x * nbgrad.zeros(5, 6),
    lambda x: x + nbgrad.ones_like(x).expand(5, 6),
    lambda x: nn.functional.dropout(x, 0.3),
    lambda x: x.clone().mul_(2.0).add_(x),
    lambda x: x.clone().add_(1.0).sub_(x).neg_(),
    lambda x: x.contiguous(),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x + (-y),
    lambda x, y: x - (-y),
    lambda x, y: (-x) + y,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: nbgrad.where(x > y, x, y),
    lambda x, y: (x + y) * (x + y),
    lambda x, y: x.sum(0, keepdim=True) + y.sum(0, keepdim=True) if x.dim() and y.dim() else x + y,
    lambda x, y: (x * y).sum(-1, keepdim=True) if x.dim() or y.dim() else x * y,
    lambda x, y: x.expand(5, 6) * y,
    lambda x, y: (x.expand(5, 6) * y.expand(5, 6)).sum(0),
)


def _changed_view(x: Any, y: Any) -> Any:
    """A view is changed. Its base is read before and after the change."""
    base = x.expand(5, 6) * 1.0
    before = base + y
    base[1].mul_(3.0)
    base.t().add_(1.0)
    return before * base


def random_function(random: Random, steps: int) -> Callable[..., Any]:
    """A function of three tensors that does ``steps`` random things, the same in each call."""
    plan = []
    for number in range(steps):
        kind = random.random()
        function: Callable[..., Any]
        if kind < 0.45:
            function, count = random.choice(UNARY), 1
        elif kind < 0.95:
            function, count = random.choice(BINARY), 2
        else:
            function, count = _changed_view, 2
        plan.append((function, [random.randrange(max(0, number - 4), number + 3) for _ in range(count)]))
    returned = random.sample(range(steps + 3), 2)

    def function_(*args: Any) -> Any:
        values = list(args)
        for one, places in plan:
            values.append(one(*(values[place] for place in places)))
        total = sum(values[place].sum() for place in (0, 1, *returned)) + values[-1].sum()
        return total, [values[place] for place in returned]

    return function_


def random_arguments(random: Random) -> list[Any]:
    """Three tensors, of which the first requires a gradient."""
    generator = torch.Generator().manual_seed(random.randrange(1 << 30))
    made = [torch.randn(random.choice(SHAPES), generator=generator) for _ in range(3)]
    return [nbgrad.tensor(one, requires_grad=place < 2) for place, one in enumerate(made)]


def results(program: Program, args: Sequence[Any], seed: int = 0) -> list[torch.Tensor]:
    """The raw results of a run after a seed."""
    torch.manual_seed(seed)
    found = program(*args)
    return [one._data.clone() for one in leaves(found) if isinstance(one, nbgrad.Tensor)]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same numbers, including the signs of zeros. Any two NaN count as the same."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    unknown = one.isnan() & other.isnan() if one.is_floating_point() else torch.zeros_like(one, dtype=torch.bool)
    equal = (one == other) & (one.signbit() == other.signbit()) if one.is_floating_point() else one == other
    return bool((unknown | equal).all())


def check_passes(random: Random) -> None:
    """Optimize a random program, and compare it with the program without passes.

    Raises:
        AssertionError: they differ: by a bit for exact passes, or by more than the last digits for the others.
    """
    function, args = random_function(random, random.randrange(2, 14)), random_arguments(random)
    seed = random.randrange(1 << 30)
    program = trace(function, *args)
    if random.random() < 0.8:
        program = program.grad()
    before = [one._data.clone() for one in args]
    expected = results(program, args, seed)
    exact = program.optimize()
    for _ in range(2):  # the second run uses the state that the first run left
        found = results(exact, args, seed)
        assert all(same_bits(one, other) for one, other in zip(found, expected, strict=True)), str(program)
    for one, other in zip(results(program.optimize("reassociate"), args, seed), expected, strict=True):
        scale = float(other.nan_to_num(0.0, 0.0, 0.0).abs().max()) if other.numel() else 0.0
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * max(scale, 1.0), equal_nan=True), str(program)
    assert all(same_bits(one._data, other) for one, other in zip(args, before, strict=True)), "an argument has changed"
