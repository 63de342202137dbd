"""Trigonometric and hyperbolic functions and their inverses, elementwise."""

import math

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Domain, Make, Sample, at, pairs, points, unary
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.select import where

_EITHER = Traits(commutes=True)
_INSIDE = Domain(-0.9, 0.9)
_ABOVE_ONE = Domain(1.2, 3.0)


@op(formula=r"\sin x", kernel=torch.sin, inplace=True, samples=at(-math.pi, 0.0, math.pi / 2))
def sin(input):
    """Sine of angles in radians, elementwise.

    The positions of a transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) are coded in sines and
    cosines, and networks of sines (Sitzmann et al. 2020, https://arxiv.org/abs/2006.09661) hold images and shapes.

    Shapes: output as input.
    """


@sin.rule("input", r"\bar{y} \odot \cos x")
def _(g, input):
    return g * input.cos()


@op(formula=r"\cos x", kernel=torch.cos, inplace=True, samples=at(-math.pi, 0.0, math.pi / 2))
def cos(input):
    """Cosine of angles in radians, elementwise.

    Cosine schedules of the learning rate use it, and rotary positions (Su et al. 2021,
    https://arxiv.org/abs/2104.09864).

    Shapes: output as input.
    """


@cos.rule("input", r"-\bar{y} \odot \sin x")
def _(g, input):
    return g * -input.sin()


@op(formula=r"\tan x", kernel=torch.tan, inplace=True, domain=Domain(-1.2, 1.2), samples=unary)
def tan(input):
    """Tangent of angles in radians, elementwise.

    A camera's field of view becomes its focal length with it.

    Shapes: output as input.
    """


@tan.rule("input", r"\bar{y} \odot (1 + y^2)")
def _(g, out):
    return g * (1 + out**2)


@op(formula=r"\arcsin x", kernel=torch.asin, inplace=True, domain=_INSIDE, samples=at(-1.0, 0.0, 1.0, 2.0))
def asin(input):
    """The angle in radians whose sine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the latitude of a direction.

    Shapes: output as input.
    """


@asin.rule("input", r"\frac{\bar{y}}{\sqrt{1 - x^2}}")
def _(g, input):
    return g * (-input * input + 1).rsqrt()


@op(formula=r"\arccos x", kernel=torch.acos, inplace=True, domain=_INSIDE, samples=at(-1.0, 0.0, 1.0, 2.0))
def acos(input):
    """The angle in radians whose cosine each element is; NaN outside [-1, 1]. Its gradient is infinite at the ends.

    It gives the angle between unit vectors, to which ArcFace (Deng et al. 2018, https://arxiv.org/abs/1801.07698)
    adds its margin.

    Shapes: output as input.
    """


@acos.rule("input", r"-\frac{\bar{y}}{\sqrt{1 - x^2}}")
def _(g, input):
    return g * -(-input * input + 1).rsqrt()


for _row in (asin, acos):
    _row.undefined.append((lambda x: abs(x) > 1, f"{_row.name} of a number outside of -1 to 1"))


@op(formula=r"\arctan x", kernel=torch.atan, inplace=True, samples=at(-30.0, 0.0, 30.0))
def atan(input):
    """The angle in radians whose tangent each element is: squeezes any number into (-pi/2, pi/2).

    It bounds a score as tanh does, with flatter tails.

    Shapes: output as input.
    """


@atan.rule("input", r"\frac{\bar{y}}{1 + x^2}")
def _(g, input):
    return g / (input * input + 1)


def _directions(make: Make):
    yield from pairs(make)
    yield Sample.of(points(1.0, -1.0, 0.0, 0.0, 1.0), points(0.0, 0.0, -1.0, 1.0, -1.0))
    yield Sample.of(points(0.0), points(0.0))


@op(formula=r"\operatorname{atan2}(a, b)", kernel=torch.atan2, broadcasts=True, inplace=True, samples=_directions)
def atan2(input, other):
    """The angle in radians of the point with the height ``input`` and the width ``other``, in all four quadrants.

    Heading angles and phases come from it. At the origin its gradient is 0, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@atan2.joint_rule(
    input=r"\bar{y} \odot \frac{b}{a^2 + b^2} \text{, } 0 \text{ at the origin}",
    other=r"-\bar{y} \odot \frac{a}{a^2 + b^2} \text{, } 0 \text{ at the origin}",
)
def _(g, needed, input, other):
    square = input * input + other * other
    per = square.reciprocal().masked_fill(square == 0, 0)
    return g * other * per if needed[0] else None, g * -input * per if needed[1] else None


@op(formula=r"\sqrt{a^2 + b^2}", kernel=torch.hypot, broadcasts=True, inplace=True, samples=pairs, traits=_EITHER)
def hypot(input, other):
    """The hypotenuse of two legs, elementwise, broadcasting, computed without overflow.

    It gives distances in the plane. At the origin its gradient is NaN, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@hypot.rule("input", r"\bar{y} \odot \frac{a}{y}")
def _(g, input, out):
    return g * input / out


@hypot.rule("other", r"\bar{y} \odot \frac{b}{y}")
def _(g, other, out):
    return g * other / out


@op(formula=r"\sinh x", kernel=torch.sinh, inplace=True, samples=unary)
def sinh(input):
    """Hyperbolic sine, elementwise.

    Embeddings in hyperbolic space (Nickel and Kiela 2017, https://arxiv.org/abs/1705.08039) measure with it.

    Shapes: output as input.
    """


@sinh.rule("input", r"\bar{y} \odot \cosh x")
def _(g, input):
    return g * input.cosh()


@op(formula=r"\cosh x", kernel=torch.cosh, inplace=True, samples=unary)
def cosh(input):
    """Hyperbolic cosine, elementwise.

    The log-cosh loss is smooth at 0 and grows like an absolute value.

    Shapes: output as input.
    """


@cosh.rule("input", r"\bar{y} \odot \sinh x")
def _(g, input):
    return g * input.sinh()


@op(formula=r"\operatorname{arsinh} x", kernel=torch.asinh, inplace=True, samples=at(-30.0, 0.0, 30.0))
def asinh(input):
    """Inverse hyperbolic sine, elementwise: like a logarithm far from 0, like the identity near it.

    It tames data with long tails on both sides.

    Shapes: output as input.
    """


@asinh.rule("input", r"\frac{\bar{y}}{\sqrt{x^2 + 1}}")
def _(g, input):
    return g * (input**2 + 1).rsqrt()


@op(formula=r"\operatorname{arcosh} x", kernel=torch.acosh, inplace=True, domain=_ABOVE_ONE, samples=at(0.5, 1.0))
def acosh(input):
    """Inverse hyperbolic cosine, elementwise; NaN below 1. At 1 its gradient is infinite.

    It gives the distance of two points in hyperbolic space.

    Shapes: output as input.
    """


@acosh.rule("input", r"\frac{\bar{y}}{\sqrt{x^2 - 1}}")
def _(g, input):
    if input.is_complex():  # the root of a product is not the product of the roots there
        return g * ((input + 1).rsqrt() * (input - 1).rsqrt())
    return g * (input * input - 1).rsqrt()


acosh.undefined.append((lambda x: x < 1, "acosh of a number below 1"))


@op(
    formula=r"\operatorname{artanh} x",
    kernel=torch.atanh,
    inplace=True,
    domain=_INSIDE,
    samples=at(-1.0, 0.0, 1.0, 2.0),
)
def atanh(input):
    """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    Policies that squash their actions with tanh (Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290) invert it so.

    Shapes: output as input.
    """


@atanh.rule("input", r"\frac{\bar{y}}{1 - x^2}")
def _(g, input):
    return g / (1 - input**2)


atanh.undefined.append((lambda x: abs(x) > 1, "atanh of a number outside of -1 to 1"))
atanh.undefined.append((lambda x: abs(x) == 1, "atanh of -1 or 1 is infinite"))


@op(formula=r"\frac{\sin \pi x}{\pi x}", kernel=torch.sinc, inplace=True, samples=at(-1.0, 0.5, 1.0))
def sinc(input):
    """Normalized sine over its angle, elementwise: 1 at 0, 0 at every other whole number.

    Ideal low-pass filters have this shape: SincNet (Ravanelli and Bengio 2018, https://arxiv.org/abs/1808.00158)
    learns their cut-offs.

    Shapes: output as input.
    """


@sinc.rule("input", r"\bar{y} \odot \frac{\pi x \cos \pi x - \sin \pi x}{\pi x^2} \text{, } 0 \text{ at } 0")
def _(g, input):
    angle = input * math.pi
    scale = input * angle
    return where(scale == 0, 0.0, g * ((angle * angle.cos() - angle.sin()) / scale))


@op(formula=r"\frac{\pi}{180} x", kernel=torch.deg2rad, inplace=True, samples=unary)
def deg2rad(input):
    """Degrees as radians, elementwise.

    Rotations that augment images are given in degrees and computed in radians.

    Shapes: output as input.
    """


@deg2rad.rule("input", r"\frac{\pi}{180} \bar{y}")
def _(g):
    return g * (math.pi / 180)


@op(formula=r"\frac{180}{\pi} x", kernel=torch.rad2deg, inplace=True, samples=unary)
def rad2deg(input):
    """Radians as degrees, elementwise.

    Errors of predicted angles are reported in degrees.

    Shapes: output as input.
    """


@rad2deg.rule("input", r"\frac{180}{\pi} \bar{y}")
def _(g):
    return g * (180 / math.pi)
