"""Random programs of integers, with gradients: loop nests compute what torch's kernels compute."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.core.symbolic import fusion
from nbgrad.core.symbolic.replay import replay

CASES = 25
EXACT = 2.0**23
"""Integers below this are exact in float32, and so are their sums in any order."""


def check(random: Random) -> None:
    """Compare one program, and count how much of it was fused."""
    rows, columns = random.choice((1, 2, 5, 16, 33)), random.choice((1, 3, 8, 17, 64))
    shapes = [random.choice(((rows, columns), (rows, 1), (columns,), (1, columns), ())) for _ in range(3)]
    shapes[0] = (rows, columns)
    plan = [random.randrange(10**6) for _ in range(random.randint(2, 25))]
    leaves = [nbgrad.tensor(drawn(random, shape), requires_grad=True) for shape in shapes]
    gradients = random.random() < 0.7
    program = nbgrad.trace(made(plan, gradients=gradients), *leaves)
    if random.random() < 0.7:
        program = program.optimize(random.choice(("exact", "reassociate")))
    data = [leaf._data.clone() for leaf in leaves]
    right = replay(program)([one.clone() for one in data], program.captured_data())
    if any(float(one.abs().max()) >= EXACT for one in right):
        return
    faster = fusion._Fusion._faster
    if random.random() < 0.7:  # also fuse steps where torch's own kernels may be faster
        fusion._Fusion._faster = lambda *_: True
    try:
        run = fusion.interpreted(program)
    finally:
        fusion._Fusion._faster = faster
    for _ in range(2):
        found = run([one.clone() for one in data], program.captured_data())
        for one, other, value in zip(found, right, program.leaving(), strict=True):
            assert torch.equal(one, other), (value, str(program))
            assert one.shape == other.shape
            assert one.dtype == other.dtype


def drawn(random: Random, shape: tuple[int, ...]) -> torch.Tensor:
    """Small whole numbers."""
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    return torch.randint(-2, 3, shape, generator=generator).float()


def made(plan: list[int], *, gradients: bool) -> Callable[..., Any]:
    """The function that a plan describes, with its gradients."""

    def function(*leaves: Any) -> Any:
        values = list(leaves)
        for seed in plan:
            random = Random(seed)
            values.append(step(random, values).clamp(-4, 4))
        loss = sum((one.sum() for one in values[3:]), values[0].sum())
        kept = [one for one in values[3:] if one.ndim == 2][:2]
        if not gradients:
            return [loss, *kept]
        return [loss, *kept, *nbgrad.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]

    return function


def step(random: Random, values: list[Any]) -> Any:
    """One op on values that were there before."""
    a, b = random.choice(values), random.choice(values)
    makers: list[Callable[[], Any]] = [
        *(lambda: a + b, lambda: a - b, lambda: a * b, lambda: a * 2 - b, lambda: nbgrad.maximum(a, b)),
        *(lambda: -a, a.relu, a.abs, lambda: a**2, lambda: a + 1, lambda: 3 - a),
        *(lambda: nbgrad.where(a > b, a, b - 1), lambda: values[0] * 0 + a, lambda: a.sum() + b),
        lambda: nbgrad.addcmul(a, b, values[0], value=2),
    ]
    if a.ndim:
        dim = random.randrange(a.ndim)
        makers.append(lambda: a.sum(dim, keepdim=True))  # the gradient of amax() divides, and is no whole number
    if a.ndim == 2:
        makers += [
            lambda: a.T.T + b,
            lambda: (a.reshape(-1) * 3).reshape(a.shape),
            lambda: a.expand(values[0].shape),
            lambda: (a @ a.T).clamp(-3, 3).sum() + b,
        ]
    return random.choice(makers)()
