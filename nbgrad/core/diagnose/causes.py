"""The probable cause of two Jacobians that differ: each common mistake leaves evidence in their numbers."""

from collections.abc import Iterator
from itertools import combinations
from math import prod

import torch

from nbgrad.core.diagnose.numeric_jacobian import Mismatch


def cause(problem: Mismatch) -> str:
    """The probable cause of a problem, as a sentence."""
    return circumstance(problem) or mistake(problem)


def circumstance(problem: Mismatch) -> str:
    """A cause in how or where the function was checked; nothing if there is no evidence of one."""
    if problem.kind == "nondeterministic":
        return "two backwards at the same point differ: the rule draws random numbers, or sums in an order that varies"
    if problem.kind == "not linear":
        return (
            "the rule is not linear in the incoming gradient g: it is right where g is 0 or 1 and wrong elsewhere, as "
            "g * g or abs(g) would be; a rule multiplies g once"
        )
    return next(filter(None, (evidence(problem) for evidence in (_random, _undefined, kink))), "")


def mistake(problem: Mismatch) -> str:
    """A cause in the rule: what the two Jacobians have to do with each other."""
    for evidence in (_zero, _factor, _conjugated, _transposed, _incomplete):
        if text := evidence(problem):
            return text
    agree = torch.isclose(problem.got, problem.want, rtol=1e-4, atol=1e-6)
    return (
        f"the formula is wrong: {int(agree.sum())} of {agree.numel()} entries of the Jacobian are right, and the "
        "others are not a multiple, a transpose or a part of the right ones"
    )


def kink(problem: Mismatch) -> str:
    """Evidence of a point without a derivative: the slopes to the left and right differ, the rule lies between."""
    if problem.kind != "wrong":
        return ""
    got, _ = problem.values
    left, right = _sides(problem, problem.probe.limits.eps)
    gap = abs(right - left)
    slack = 1e-3 * gap
    if not gap or not min(left, right) - slack <= got <= max(left, right) + slack:
        return ""
    near_left, near_right = _sides(problem, problem.probe.limits.eps / 8)
    slopes = f"the slope is {left:.6g} to the left and {right:.6g} to the right, and the rule gives {got:.6g}"
    if abs(near_right - near_left) > gap / 2:
        return f"not differentiable at this point: {slopes}. Move the input away from the kink"
    return f"the function bends within eps of this point: {slopes}. Move the input, or make eps smaller"


def _sides(problem: Mismatch, eps: float) -> tuple[float, float]:
    """The slopes at the worst entry from one-sided differences: to the left, to the right."""
    below, here, above = (
        float(problem.probe.moved(problem.input, problem.column, by)[problem.output][problem.row])
        for by in (-eps, 0.0, eps)
    )
    return (here - below) / eps, (above - here) / eps


def _random(problem: Mismatch) -> str:
    once, again = (problem.probe.run()[problem.output].data for _ in range(2))
    if torch.equal(once, again) or not (torch.isfinite(once) & torch.isfinite(again)).all():
        return ""
    return "the function gives different values at the same point: it draws random numbers. Seed them inside func"


def _undefined(problem: Mismatch) -> str:
    got, want = (torch.tensor(value) for value in problem.values)
    if torch.isfinite(want):
        return "" if torch.isfinite(got) else f"the rule gives {got} where the function is smooth: 0 * inf, or 0 / 0"
    return f"the function has no finite slope here ({want}): the point is outside of its domain or at the edge"


def _zero(problem: Mismatch) -> str:
    if problem.got.any():
        return ""
    return "no gradient arrives: every entry is 0, as if a rule returned None or zeros, or as if the path were cut"


def _near(got: torch.Tensor, want: torch.Tensor) -> bool:
    scale = float(want.abs().max()) if want.numel() else 0.0
    return torch.allclose(got, want, rtol=1e-5, atol=1e-6 * scale)


def _factor(problem: Mismatch) -> str:
    """Every entry is the same multiple of the right one."""
    got, want = problem.got, problem.want
    if not want.any():
        return ""
    ratio = float((got * want).sum() / (want * want).sum())
    if not ratio or not _near(got, ratio * want):
        return ""
    size = abs(ratio)
    flipped = "the sign is flipped" if ratio < 0 else ""
    if abs(size - 1) < 1e-5:
        return flipped
    return " and ".join(filter(None, [flipped, _multiple(problem, size)]))


def _multiple(problem: Mismatch, size: float) -> str:
    # A mean does not divide by the parts of complex numbers.
    output, input = (shape[: len(shape) - pair] for shape, pair in zip(problem.shapes, problem.complex, strict=True))
    counts = {*output, *input, prod(output), prod(input)} - {0, 1, 2}
    for count in sorted(counts):
        if abs(size / count - 1) < 1e-5:
            return (
                f"a division by n = {count} is missing: every entry is {count} times too large, as if a mean were a sum"
            )
        if abs(size * count - 1) < 1e-5:
            return (
                f"a division by n = {count} is too many: every entry is {count} times too small, as if a sum were a "
                "mean"
            )
    for factor, what in ((2.0, "too many"), (0.5, "missing")):
        if abs(size / factor - 1) < 1e-5:
            return f"a factor 2 is {what} in every entry: the derivative of a square, or a term counted twice or once"
    return f"every entry is off by the same factor {size:.6g}: a constant in the formula is wrong"


def _conjugated(problem: Mismatch) -> str:
    """The Jacobian is right with the other sign of the imaginary part of the output, of the input or of both."""
    output, input = problem.complex
    for rows, columns in ((True, True), (False, True), (True, False)):
        if (rows and not output) or (columns and not input):
            continue
        turned = problem.got.clone()
        if rows:
            turned[1::2] *= -1
        if columns:
            turned[:, 1::2] *= -1
        if _near(turned, problem.want):
            return (
                "a conjugate is missing, or is one too many: with w = f(z), the gradient of z is the gradient of w "
                "times the conjugate of the derivative"
            )
    return ""


def _transposed(problem: Mismatch) -> str:
    if any(_near(other, problem.want) for other in _transposes(problem)):
        return (
            "something is transposed: the Jacobian is right after swapping two dimensions of equal size, or a reshape"
        )
    return ""


def _transposes(problem: Mismatch) -> Iterator[torch.Tensor]:
    """The Jacobian as it would be if the rule had transposed the gradient, an operand, or what it returns."""
    output, input = problem.shapes
    sizes = (*output, *input)
    full = problem.got.reshape(sizes)
    for one, other in combinations(range(len(sizes)), 2):
        if sizes[one] == sizes[other] > 1:
            yield full.transpose(one, other).reshape(problem.got.shape)
    if len(input) > 1:  # reshaped to the right shape, where it should have been transposed to it
        yield problem.got.reshape(-1, *input[:-2], input[-1], input[-2]).mT.reshape(problem.got.shape)


def _incomplete(problem: Mismatch) -> str:
    """Right but for entries that are zero in one of the two: contributions are left out, or go where none belong."""
    got, want = problem.got, problem.want
    scale = float(want.abs().max())
    agree = torch.isclose(got, want, rtol=1e-4, atol=1e-6 * scale)
    if not (agree & (want != 0)).any():
        return ""
    if not got[~agree].any():
        return (
            f"a reduction or a broadcast is missing: {int((~agree).sum())} of {agree.numel()} entries are 0 and should "
            "not be, all others are right. The rule has to sum over each dimension that the op stretched, and to "
            "stretch each dimension that it summed"
        )
    if (want[~agree].abs() <= 1e-6 * scale).all():
        return (
            f"a reduction or a broadcast is too many: {int((~agree).sum())} of {agree.numel()} entries should be 0, "
            "all others are right. An output that does not depend on an element must give it nothing"
        )
    return ""
