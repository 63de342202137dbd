"""Gradients in float64 along random directions agree with eighth-order finite differences to ten digits."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import torch

from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.tensor import tensor
from tests.core import rows

CASES = 120
DIGITS = 1e-10
"""The largest difference between a derivative and the finite difference, relative to the numbers in both."""

STEPS = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
"""The weights of the central difference of the eighth order."""

TOGETHER = {
    "log_sigmoid_backward": "the buffer is made of the input",
    "flash_attention_backward": "the output is made of the inputs",
    "cross_entropy_backward": "the probabilities are made of the scores",
    "cdist_backward": "the distances are made of the points",
    "pdist_backward": "the distances are made of the points",
    "embedding_bag_backward": "the bags are made of the numbers",
    **{f"{name}_norm_backward": "mean and spread are made of the input" for name in ("layer", "rms", "group", "batch")},
    **dict.fromkeys(("linalg_eigh", "linalg_cholesky", "linalg_cholesky_ex"), "the input is to be symmetric"),
    **dict.fromkeys(("cholesky_inverse", "cholesky_solve"), "one half of the input is not read"),
    **dict.fromkeys(("bernoulli", "normal"), "numbers are drawn"),
    "as_strided_scatter": "of elements of src at one place the last one counts, and as in torch each gets a gradient",
}
"""Rows whose inputs cannot change independently, and why."""

ROUGH = dict.fromkeys(("digamma", "lgamma", "mvlgamma", "polygamma"), 1e-8)
"""Rows that use torch's kernel of the trigamma function, which has only nine right digits."""

ROWS = [name for name, row in OPS.items() if row.differentiable and row.rules and name not in TOGETHER]


def check(random: Random) -> None:
    """Differentiate one sample of one row along a random direction, once or twice."""
    name = random.choice(ROWS)
    given = samples(name)
    if not given:
        return
    try:
        found = error(name, random.choice(given), random.randrange(10**9), twice=random.random() < 0.5)
    except RuntimeError as refused:
        if "between 0 and 1" in str(refused):  # the direction leads away from the probabilities
            return
        raise
    assert not found, found


@cache
def samples(name: str) -> list[Sample]:
    """The real samples of a row with something to differentiate. Large numbers are left out: torch has NaN for some."""
    row = OPS[name]
    found = []
    for sample in rows.samples(row):
        given = [arg for arg in sample.args if isinstance(arg, torch.Tensor)]
        near = all(
            one.numel() and not one.is_complex() and bool((one > -100).all() and (one < 100).all()) for one in given
        )
        if not near or not rows.differentiable(row, sample) or sample.settings.get("padding_idx", -1) >= 0:
            continue  # by definition a padding row of an embedding has a gradient of 0
        if sample.settings.get("hermitian"):
            continue  # a random direction leads away from the symmetric matrices
        if not any(one.is_complex() for one in rows.live(row, row(*sample.args, **sample.settings))):
            found.append(sample)
    return found


def error(name: str, sample: Sample, seed: int, *, twice: bool) -> str:
    """The error of the first or second derivative of a row; empty if there is none."""
    row = OPS[name]
    draw = torch.Generator().manual_seed(seed)
    positions = rows.differentiable(row, sample)
    places = [sample.args[position] for position in positions]
    way, apart = ([torch.randn(one.shape, generator=draw, dtype=torch.float64) for one in places] for _ in range(2))
    point = [one + 0.05 * shift for one, shift in zip(places, apart, strict=True)]
    weights: dict[int, torch.Tensor] = {}

    def weighted(outputs: list[Any]) -> Any:
        total: Any = 0.0
        for place, one in enumerate(outputs):
            if place not in weights:
                weights[place] = torch.randn(one.shape, generator=draw, dtype=torch.float64)
            total = total + (one * weights[place]).sum()
        return total

    def value(*inputs: Any) -> Any:
        args = list(sample.args)
        for position, one in zip(positions, inputs, strict=True):
            args[position] = one
        torch.manual_seed(0)
        return weighted(rows.live(row, row(*args, **sample.settings)))

    def slope(*inputs: Any, create_graph: bool = True) -> Any:
        given = [one if create_graph else tensor(one, requires_grad=True) for one in inputs]
        gradients = grad(value(*given), given, create_graph=create_graph, allow_unused=True)
        terms = [(one * v).sum() for one, v in zip(gradients, way, strict=True) if one is not None]
        return sum(terms) if terms else tensor(0.0, dtype=torch.float64)

    function: Callable[..., Any] = slope if twice else value
    inputs = [tensor(one, requires_grad=True) for one in point]
    if not (result := function(*inputs)).requires_grad:
        return ""
    gradients = grad(result, inputs, allow_unused=True)
    ours = sum(float((one.data * v).sum()) for one, v in zip(gradients, way, strict=True) if one is not None)

    def at(step: float) -> float:
        moved = [one + step * v for one, v in zip(point, way, strict=True)]
        return float(slope(*moved, create_graph=False) if twice else value(*moved))

    wide, near = (sum(weight * (at(k * step) - at(-k * step)) for k, weight in STEPS) / step for step in (4e-3, 2e-3))
    size = max(1.0, abs(ours), abs(float(result)))
    # If the two finite differences differ, a kink or a pole is near. Then neither of them is the derivative.
    if not abs(wide - near) <= DIGITS / 3 * size or abs(near - ours) <= ROUGH.get(name, DIGITS) * size:
        return ""
    order = "second" if twice else "first"
    return f"{name}({rows.describe(sample)}), {seed=}: {order} derivative {ours!r}, difference {near!r}"
