"""Rounding and signs, elementwise. Their slope is zero nearly everywhere, so their gradient is zero, as in torch.

Networks that round (quantized weights, binary activations) are trained with a straight-through estimator (Bengio et al.
2013, https://arxiv.org/abs/1308.3432): ``x + (x.round() - x).detach()`` rounds and passes the gradient on.
"""

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, at, pairs, points
from nbgrad.core.engine.node import identity
from nbgrad.core.engine.traits import Traits

_steps = at(-2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5)


def flat(g):
    """The gradient of what does not change with its input: zeros like ``g``."""
    return torch.zeros(g.shape, dtype=g.dtype, device=g.device)


@op(formula=r"\lfloor x \rfloor", kernel=torch.floor, inplace=True, samples=_steps, traits=Traits(jumps=True))
def floor(input):
    """The next whole number below, elementwise.

    It makes the index of a bin from a number.

    Shapes: output as input.
    """


@op(formula=r"\lceil x \rceil", kernel=torch.ceil, inplace=True, samples=_steps, traits=Traits(jumps=True))
def ceil(input):
    """The next whole number above, elementwise.

    It counts the batches that a data set fills.

    Shapes: output as input.
    """


@op(formula=r"\operatorname{trunc}(x)", kernel=torch.trunc, inplace=True, samples=_steps, traits=Traits(jumps=True))
def trunc(input):
    """The whole part, elementwise: rounded towards 0.

    A conversion to an integer does the same.

    Shapes: output as input.
    """


def _roundings(make: Make):
    yield from _steps(make)
    for decimals in (1, 2, -1):
        yield Sample.of(make(2, 3), decimals=decimals)


@op(formula=r"\operatorname{round}(x)", inplace=True, samples=_roundings, traits=Traits(jumps=True))
def round(input, *, decimals=0):
    """The nearest whole number, elementwise, or the nearest with ``decimals`` digits; halfway, the even one.

    Quantization rounds weights to the numbers that few bits can hold.

    Shapes: output as input.
    """
    return torch.round(input, decimals=decimals) if decimals else torch.round(input)


@op(
    formula=r"\operatorname{sign}(x)",
    kernel=torch.sign,
    inplace=True,
    samples=at(-1.0, -0.0, 0.0, 1.0),
    traits=Traits(jumps=True),
)
def sign(input):
    """-1, 0 or 1 as each element is negative, zero or positive.

    Binary networks (Courbariaux et al. 2016, https://arxiv.org/abs/1602.02830) keep only the signs of their weights.

    Shapes: output as input.
    """


def _directions(make: Make):
    yield from at(-1.0, -0.0, 0.0, 1.0)(make)
    yield Sample.of(make.complex(2, 3))
    yield Sample.of(torch.tensor([0.0, 1.0, -2.0j]).to(torch.complex128))


@op(
    formula=r"\operatorname{sgn}(x)",
    kernel=torch.sgn,
    inplace=True,
    holomorphic=False,
    samples=_directions,
    traits=Traits(jumps=True),
)
def sgn(input):
    """The sign of each element; for a complex number, the number of size 1 in the same direction.

    It is the slope of the absolute value: -1, 0 or 1 for a real number.

    Shapes: output as input.
    """


@sgn.rule("input", r"0 \text{; for complex numbers the part of } \frac{\bar{y}}{|x|} \text{ perpendicular to } x")
def _(g, input, out):
    return across(g, input, out) if input.is_complex() else flat(g)


def across(g, input, out):
    """The gradient of complex numbers, from ``g``, the gradient of their direction ``out``.

    It is the part of ``g`` perpendicular to ``out``, divided by the size of each number.
    """
    size = input.abs()
    return (g / size - (g / out).real * out / size).masked_fill(size == 0, 0)


for _row in (floor, ceil, trunc, round, sign):
    _row.rule("input", "0")(flat)


@op(formula=r"x - \operatorname{trunc}(x)", kernel=torch.frac, inplace=True, samples=_steps)
def frac(input):
    """The fractional part of each element, with the sign of the element.

    Positions within a period come from it; between its steps its slope is 1.

    Shapes: output as input.
    """


@frac.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


def _signs(make: Make):
    yield from pairs(make)
    yield Sample.of(make(2, 3), -1.5)
    yield Sample.of(points(0.0, -0.0, 1.0, -1.0, 2.0), points(-1.0, -1.0, -0.0, 0.0, -3.0))


@op(formula=r"|a| \operatorname{sign}(b)", kernel=torch.copysign, broadcasts=True, inplace=True, samples=_signs)
def copysign(input, other):
    """The size of the input with the sign of the other, elementwise, broadcasting; the sign of -0.0 counts.

    It gives a computed size its direction back. At 0 the gradient of the input is 0, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@copysign.rule("input", r"\bar{y} \odot \frac{b}{a} \text{, } 0 \text{ at } a = 0")
def _(g, input, out):
    return g * (out / input).masked_fill(input == 0, 0)


@copysign.rule("other", "0")
def _(g, other_shape):
    return torch.zeros(other_shape, dtype=g.dtype, device=g.device)


def _levels(make: Make):
    yield from pairs(make)
    yield Sample.of(points(-1.0, 0.0, 1.0), points(0.5))


@op(
    formula=r"0 \text{ where } x < 0 \text{, } v \text{ where } x = 0 \text{, } 1 \text{ where } x > 0",
    kernel=torch.heaviside,
    broadcasts=True,
    differentiable=False,
    inplace=True,
    samples=_levels,
    traits=Traits(jumps=True),
)
def heaviside(input, values):
    """The step function, elementwise: 0 below 0, 1 above, and the given value at 0; it has no gradient.

    A perceptron (Rosenblatt 1958) is a step of a weighted sum, which is why it cannot be trained by gradients.

    Shapes: input and values broadcast to the output. Raises RuntimeError where they do not, or for different dtypes.
    """


def _unusual(make: Make):
    special = points(float("nan"), float("inf"), -float("inf"), 0.0, 1.5)
    yield from at(*special.tolist())(make)
    yield Sample.of(special, nan=1.0)
    yield Sample.of(special, nan=1.0, posinf=2.0, neginf=-2.0)


@op(formula=r"x \text{ where finite, else a number}", kernel=torch.nan_to_num, inplace=True, samples=_unusual)
def nan_to_num(input, *, nan=None, posinf=None, neginf=None):
    """NaN becomes 0 or the number ``nan``, infinities the largest and smallest number of the dtype or those given.

    It keeps one bad sample from spoiling a batch. Replaced elements get the gradient 0.

    Shapes: output as input.
    """


@nan_to_num.rule("input", r"\bar{y} \text{ where } x \text{ is finite, else } 0")
def _(g, input):
    return g * input.isfinite()
