"""Choosing, elementwise: each number of the output is one of the inputs', picked by a condition or a comparison."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.samples import Make, Sample, binary, pairs, points


def _choices(make: Make):
    """Every pair of shapes that broadcasts, with a condition of either shape."""
    for args, _ in binary(make):
        for shape in {getattr(arg, "shape", ()) for arg in args}:
            yield Sample.of(make(*shape) > 0, *args)


@op(
    formula=r"\text{a where condition, else b}",
    broadcasts=True,
    no_gradient=("condition",),
    method=False,
    samples=_choices,
)
def where(condition, a, b):
    """Elements of a where the condition holds, of b elsewhere, broadcasting.

    The gradient goes to the side that was chosen, and the other side gets 0.

    Shapes: condition, a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.where(condition, a, b)


@where.rule("a", r"\bar{y} \text{ where condition, else } 0")
def _(g, condition):
    return where(condition, g, 0.0)


@where.rule("b", r"0 \text{ where condition, else } \bar{y}")
def _(g, condition):
    return where(condition, 0.0, g)


def _where(self, condition, other):
    """Elements of this tensor where the condition holds, of ``other`` elsewhere, in the order of torch's method."""
    return where(condition, self, other)


install("where", _where)


def _edges(make: Make):
    """Every pair of shapes that broadcasts, a tie, and numbers that are none."""
    yield from pairs(make)
    nan = float("nan")
    yield Sample.of(points(1.0, 2.0, 3.0, nan, 1.0, nan), points(1.0, 3.0, 2.0, 1.0, nan, nan))


@op(formula=r"\max(a, b)", broadcasts=True, samples=_edges)
def maximum(a, b):
    """The larger of a and b, elementwise, broadcasting; NaN where either is NaN.

    At a tie each side gets half of the gradient, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.maximum(a, b)


@maximum.rule("a", r"\bar{y} \text{ where } a > b \text{, half at a tie, else } 0")
def _(g, a, b):
    return where(a == b, g / 2, where(a < b, 0.0, g))


@maximum.rule("b", r"\bar{y} \text{ where } b > a \text{, half at a tie, else } 0")
def _(g, a, b):
    return where(a == b, g / 2, where(b < a, 0.0, g))


@op(formula=r"\min(x, y)", broadcasts=True, samples=_edges)
def minimum(input, other):
    """The smaller of two, elementwise, broadcasting; NaN where either is NaN.

    The clipped objective of PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) is a minimum. At a tie each
    side gets half of the gradient, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.minimum(input, other)


@minimum.rule("input", r"\bar{y} \text{ where } x < y \text{, half at a tie, else } 0")
def _(g, input, other):
    return where(input == other, g / 2, where(input > other, 0.0, g))


@minimum.rule("other", r"\bar{y} \text{ where } y < x \text{, half at a tie, else } 0")
def _(g, input, other):
    return where(input == other, g / 2, where(other > input, 0.0, g))


@op(formula=r"\max(x, y)", broadcasts=True, samples=_edges)
def fmax(input, other):
    """The larger of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a maximum over data with gaps. At a tie the gradient goes to the input, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.fmax(input, other)


@fmax.rule("input", r"\bar{y} \text{ where } x \geq y \text{ or } y \text{ is NaN, else } 0")
def _(g, input, other):
    return where((input >= other) | other.isnan(), g, 0.0)


@fmax.rule("other", r"0 \text{ where } x \geq y \text{ or } y \text{ is NaN, else } \bar{y}")
def _(g, input, other):
    return where((input >= other) | other.isnan(), 0.0, g)


@op(formula=r"\min(x, y)", broadcasts=True, samples=_edges)
def fmin(input, other):
    """The smaller of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a minimum over data with gaps. At a tie the gradient goes to the input, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.fmin(input, other)


@fmin.rule("input", r"\bar{y} \text{ where } x \leq y \text{ or } y \text{ is NaN, else } 0")
def _(g, input, other):
    return where((input <= other) | other.isnan(), g, 0.0)


@fmin.rule("other", r"0 \text{ where } x \leq y \text{ or } y \text{ is NaN, else } \bar{y}")
def _(g, input, other):
    return where((input <= other) | other.isnan(), 0.0, g)


def _bounds(make: Make):
    """No, one or two bounds, numbers and tensors, met exactly and the wrong way round."""
    for x, bound in (sample.args for sample in pairs(make)):
        yield Sample.of(x, bound - 1, bound)
    x = points(-2.0, -1.0, 0.0, 1.0, 2.0)
    for low, high in ((-1, 1), (-1.0, None), (None, 1.0), (1.0, -1.0)):
        yield Sample.of(x, low, high)
        yield Sample.of(
            x, *[None if bound is None else torch.full((5,), float(bound)).double() for bound in (low, high)]
        )


@op(formula=r"\min(\max(x, l), h)", broadcasts=True, inplace=True, samples=_bounds)
def clamp(input, min=None, max=None):
    """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between and at
    the bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """
    return torch.clamp(input, min, max)


def _within(input, min, max):
    if max is None:
        return input >= min
    return input <= max if min is None else (input >= min) & (input <= max)


@clamp.rule("input", r"\bar{y} \text{ where } l \leq x \leq h \text{, else } 0")
def _(g, input, min, max):
    return where(_within(input, min, max), g, 0.0)


@clamp.rule("min", r"\bar{y} \text{ where } x < l < h \text{, else } 0")
def _(g, input, min, max):
    return where(input < min if max is None else (min < max) & (input < min), g, 0.0)


@clamp.rule("max", r"\bar{y} \text{ where } x > h \text{ or } h < l \text{, else } 0")
def _(g, input, min, max):
    return where(input > max if min is None else (input > max) | (max < min), g, 0.0)


def _one_bound(make: Make):
    yield from pairs(make)
    yield Sample.of(points(-1.0, 0.0, 1.0), 0)
    yield Sample.of(points(-1.0, 0.0, 1.0), points(0.0, 0.0, 0.0))


@op(formula=r"\max(x, l)", broadcasts=True, inplace=True, samples=_one_bound)
def clamp_min(input, min):
    """Each element moved up to ``min``, a number or a tensor that broadcasts.

    It keeps a norm that is divided by away from 0. At the bound the gradient goes to the input, as torch has it.

    Shapes: input and min broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.clamp_min(input, min)


@clamp_min.rule("input", r"\bar{y} \text{ where } x \geq l \text{, else } 0")
def _(g, input, min):
    return where(input >= min, g, 0.0)


@clamp_min.rule("min", r"\bar{y} \text{ where } x < l \text{, else } 0")
def _(g, input, min):
    return where(input < min, g, 0.0)


@op(formula=r"\min(x, h)", broadcasts=True, inplace=True, samples=_one_bound)
def clamp_max(input, max):
    """Each element moved down to ``max``, a number or a tensor that broadcasts.

    Importance weights are cut off with it. At the bound the gradient goes to the input, as torch has it.

    Shapes: input and max broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.clamp_max(input, max)


@clamp_max.rule("input", r"\bar{y} \text{ where } x \leq h \text{, else } 0")
def _(g, input, max):
    return where(input <= max, g, 0.0)


@clamp_max.rule("max", r"\bar{y} \text{ where } x > h \text{, else } 0")
def _(g, input, max):
    return where(input > max, g, 0.0)


def _masks(make: Make):
    for x, like in (sample.args for sample in pairs(make)):
        yield Sample.of(x, make(*like.shape) > 0, make())
    yield Sample.of(make(2, 3), make(2, 3) > 0, -float("inf"))
    yield Sample.of(make(2, 3), make(3) > 0, 2)


@op(
    formula=r"v \text{ where mask, else } x",
    broadcasts=True,
    no_gradient=("mask",),
    inplace=True,
    samples=_masks,
)
def masked_fill(input, mask, value):
    """The input with the value, a number or a tensor of one, wherever the mask holds, broadcasting.

    Attention fills the scores of what may not be looked at with -inf before its softmax (Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762). What was replaced gets the gradient 0.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where they do not, or for a value with
    dimensions.
    """
    return torch.masked_fill(input, mask, value)


@masked_fill.rule("input", r"0 \text{ where mask, else } \bar{y}")
def _(g, mask):
    return masked_fill(g, mask, 0)


@masked_fill.rule("value", r"\sum \bar{y} \text{ where mask}")
def _(g, mask):
    return where(mask, g, 0.0)
