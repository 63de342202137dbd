"""Powers, roots, exponentials and logarithms, elementwise."""

import cmath
import math
import operator
from math import inf

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import POSITIVE, Make, Sample, at, binary, pairs, points, unary
from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.arithmetic import mul
from nbgrad.core.ops.elementwise.rounding import flat
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.shape.conversion import to

_EITHER = Traits(commutes=True)
_POWER = Traits(neutral=1.0, sign="^")
_UP = Traits(interval=(0.0, inf))


@op(formula=r"e^{x}", kernel=torch.exp, inplace=True, samples=unary, traits=_UP)
def exp(x):
    """The exponential function, elementwise.

    Softmax turns scores into positive numbers with it. It is its own derivative, so large values have large gradients.

    Shapes: output as x.
    """


@exp.rule("x", r"\bar{y} \odot y", kernel=operator.mul)
def _(g, out):
    return g * out


@op(formula=r"\ln x", kernel=torch.log, inplace=True, domain=POSITIVE, samples=unary)
def log(x):
    """Natural logarithm, elementwise; NaN for negative x, -inf at 0.

    Losses take the logarithm of a probability: a confident mistake costs much, and its gradient is large.

    Shapes: output as x.
    """


@log.rule("x", r"\frac{\bar{y}}{x}", kernel=operator.truediv)
def _(g, x):
    return g / x


log.slope = "the slope of log, 1 / x, is infinite at 0"


@op(formula=r"2^{x}", kernel=torch.exp2, inplace=True, samples=unary, traits=_UP)
def exp2(input):
    """Two to the power of each element.

    Hardware computes it faster than the exponential of base e, so fast attention kernels use it.

    Shapes: output as input.
    """


@exp2.rule("input", r"\bar{y} \odot y \ln 2")
def _(g, out):
    return g * out * math.log(2)


@op(formula=r"e^{x} - 1", kernel=torch.expm1, inplace=True, samples=at(-1e-10, 0.0, 1e-10))
def expm1(input):
    """The exponential minus 1, elementwise, exact also near 0.

    The ELU activation (Clevert et al. 2015, https://arxiv.org/abs/1511.07289) uses it for negative numbers.

    Shapes: output as input.
    """


@expm1.rule("input", r"\bar{y} \odot (y + 1)")
def _(g, out):
    return g * (out + 1)


@op(formula=r"\log_2 x", kernel=torch.log2, inplace=True, domain=POSITIVE, samples=unary)
def log2(input):
    """Logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0.

    An entropy comes out in bits with it.

    Shapes: output as input.
    """


@log2.rule("input", r"\frac{\bar{y}}{x \ln 2}")
def _(g, input):
    return g / (input * math.log(2))


@op(formula=r"\log_{10} x", kernel=torch.log10, inplace=True, domain=POSITIVE, samples=unary)
def log10(input):
    """Logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0.

    Decibels and the signal-to-noise ratio of images are made with it.

    Shapes: output as input.
    """


@log10.rule("input", r"\frac{\bar{y}}{x \ln 10}")
def _(g, input):
    return g / (input * math.log(10))


for _row in (log, log2, log10):
    _row.undefined += [(lambda x: x < 0, "log of a negative number"), (lambda x: x == 0, "log of 0")]


@op(formula=r"\ln(1 + x)", kernel=torch.log1p, inplace=True, domain=POSITIVE, samples=at(-0.5, -1e-10, 0.0, 1e-10))
def log1p(input):
    """Logarithm of 1 plus each element, exact also near 0.

    It transforms counts with a long tail before they enter a network: 0 stays 0.

    Shapes: output as input.
    """


@log1p.rule("input", r"\frac{\bar{y}}{1 + x}")
def _(g, input):
    return g / (input + 1)


log1p.undefined.append((lambda x: x < -1, "log1p of a number below -1"))
log1p.undefined.append((lambda x: x == -1, "log1p of -1, the log of 0"))


def _far_apart(make: Make):
    yield from pairs(make)
    yield Sample.of(points(-1000.0, 0.0, 1000.0), points(1000.0, 0.0, -1000.0))


@op(formula=r"\ln(e^{a} + e^{b})", kernel=torch.logaddexp, broadcasts=True, samples=_far_apart, traits=_EITHER)
def logaddexp(input, other):
    """Logarithm of the sum of two exponentials, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept as logarithms, as in the forward algorithm of a hidden Markov model.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@logaddexp.rule("input", r"\frac{\bar{y}}{1 + e^{b - a}}")
def _(g, input, other):
    return g / (1 + (other - input).exp())


@logaddexp.rule("other", r"\frac{\bar{y}}{1 + e^{a - b}}")
def _(g, input, other):
    return g / (1 + (input - other).exp())


@op(formula=r"\log_2(2^{a} + 2^{b})", kernel=torch.logaddexp2, broadcasts=True, samples=_far_apart, traits=_EITHER)
def logaddexp2(input, other):
    """Base-2 logarithm of the sum of two powers of 2, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept in bits.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@logaddexp2.rule("input", r"\frac{\bar{y}}{1 + 2^{b - a}}")
def _(g, input, other):
    return g / (1 + 2 ** (other - input))


@logaddexp2.rule("other", r"\frac{\bar{y}}{1 + 2^{a - b}}")
def _(g, input, other):
    return g / (1 + 2 ** (input - other))


def _entropies(make: Make):
    yield from binary(make)
    yield Sample.of(points(0.0, 0.0, 0.0, 1.0, -1.0), points(0.0, 1.0, -1.0, 0.5, 0.5))
    yield Sample.of(points(0.0, 1.0), 0.0)
    yield Sample.of(0.0, points(0.0, 1.0))


@op(formula=r"a \ln b", kernel=torch.xlogy, broadcasts=True, inplace=True, domain=POSITIVE, samples=_entropies)
def xlogy(input, other):
    """The input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0.

    Entropies and cross entropies are sums of it: an outcome of probability 0 adds nothing, not NaN.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@xlogy.rule("input", r"\bar{y} \odot \ln b \text{, } 0 \text{ where } a = 0 \text{ and } b \leq 0")
def _(g, input, other):
    slope = xlogy(g, other)
    if isinstance(other, int | float):
        return slope if other > 0 else slope.masked_fill(input == 0, 0)
    return slope.masked_fill((input == 0) & (other <= 0), 0)


@xlogy.rule("other", r"\bar{y} \odot \frac{a}{b}")
def _(g, input, other):
    return g * input / other


def _powers(make: Make):
    """Positive bases with any exponent, and edge cases: the base 0, and negative bases with whole exponents."""
    yield from binary(make)
    edges = points(-1.5, 0.0, 2.0)
    for exponent in (0, 1, 2, 3, 2.0):
        yield Sample.of(edges, exponent)
    yield Sample.of(points(0.0, 0.5, 2.0), 2.5)
    yield Sample.of(0.0, points(0.0, 0.5, 2.0))
    yield Sample.of(edges, points(2.0, 1.0, 3.0))
    z = make.complex(2, 3)
    for pair in ((z, 2), (z, 1.5 + 1j), (2.0, z), (-2.0, z), (z, make(3)), (z, z.flip(0))):
        yield Sample.of(*pair)


@op(
    formula=r"a^{b}",
    kernel=torch.pow,
    broadcasts=True,
    operator="pow",
    inplace=True,
    domain=POSITIVE,
    samples=_powers,
    traits=_POWER,
)
def pow(a, b):
    """The power a to the b, elementwise, broadcasting.

    Squares are the commonest: errors, norms, variances. Where b is 0 the gradient of a is 0, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """


_SQUARED = 2
"""The commonest power: errors, variances, norms."""


@pow.rule("a", r"\bar{y} \odot b \odot a^{b - 1}")
def _(g, a, b):
    if isinstance(b, int | float | complex):
        if b == _SQUARED:
            return (g * a).mul_(2)  # half the time of the formula; to double a number rounds nothing
        return g * (b * a ** (b - 1)) if b != 0 else flat(g)
    return where(b == 0, 0.0, g * (b * a ** (b - 1)))


@pow.rule("b", r"\bar{y} \odot y \odot \ln a")
def _(g, out, a, b):
    # 0 to a power of at least 0 does not depend on b, though the logarithm of 0 is infinite: masked as torch does.
    steady = (b.imag == 0) & (b.real >= 0) if b.is_complex() else b >= 0
    if isinstance(a, int | float | complex):
        slope = out * _log(a, out)
        return g * (where(steady, 0.0, slope) if a == 0 else slope)
    slope = out * log(a.to(dtype=out.dtype))
    return g * where((a == 0) & steady, 0.0, slope)


pow.undefined.append((lambda a, b: a < 0 and b % 1 > 0, "a negative number to a power that is not a whole number"))
pow.undefined.append((lambda a, b: a == 0 and b < 0, "division by 0: 0 to a negative power"))
pow.slope = "the slope of a power below 1 is infinite at 0"


def _log(a, like):
    """The logarithm of the number ``a``: complex if ``like`` is complex, else real, and NaN for a negative ``a``."""
    if a == 0:
        return -math.inf
    if like.is_complex():
        return cmath.log(a)
    return math.log(a) if a > 0 else math.nan


@op(formula=r"\sqrt{x}", kernel=torch.sqrt, inplace=True, domain=POSITIVE, samples=unary, traits=_UP)
def sqrt(x):
    """Square root, elementwise; NaN for negative x.

    Standard deviations and norms end with it. Its gradient is infinite at 0.

    Shapes: output as x.
    """


@sqrt.rule("x", r"\frac{\bar{y}}{2 y}")
def _(g, out):
    return g / (2 * out)


@op(formula=r"\frac{1}{\sqrt{x}}", kernel=torch.rsqrt, inplace=True, domain=POSITIVE, samples=unary, traits=_UP)
def rsqrt(input):
    """One over the square root, elementwise; NaN for negative numbers, infinite at 0.

    Normalization layers multiply by it instead of dividing by a standard deviation.

    Shapes: output as input.
    """


@rsqrt.rule("input", r"-\frac{1}{2} \bar{y} \odot y^3")
def _(g, out):
    return -0.5 * g * out**3


for _row in (sqrt, rsqrt):
    _row.undefined.append((lambda x: x < 0, "square root of a negative number"))
rsqrt.undefined.append((lambda x: x == 0, "division by 0: 1 / sqrt(0)"))
sqrt.slope = "the slope of the square root is infinite at 0"
rsqrt.slope = "the slope of 1 / sqrt(x) is infinite at 0"


def square(input):
    """The square, elementwise. It is recorded as ``pow`` with the exponent 2.

    Squared errors and variances are made of it.
    """
    return pow(input, 2)


def _square_(input):
    """The square, elementwise, in place."""
    return pow.in_place(input, 2)


install("square", square)
install("square_", _square_)


def _double(value):
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return complex(value) if isinstance(value, complex) else float(value)
    return to(value, dtype=torch.complex128 if dtype.is_complex else torch.float64)


def float_power(input, exponent):
    """The power, elementwise, broadcasting, computed in float64 or complex128 whatever the inputs are.

    It is for sums of many powers, where float32 would lose digits.
    """
    return pow(_double(input), _double(exponent))


def _float_power_(input, exponent):
    """The power, elementwise, in place; only of a float64 or complex128 tensor, which can hold the result.

    Raises:
        RuntimeError: the tensor has another dtype.
    """
    if input.dtype not in (torch.float64, torch.complex128):
        raise RuntimeError(f"float_power_ gives float64, which a {input.dtype} tensor cannot hold: use float_power()")
    return pow.in_place(input, _double(exponent))


install("float_power", float_power)
install("float_power_", _float_power_)


def ldexp(input, other):
    """The input times 2 to the power of the other, elementwise, broadcasting; it is recorded as the product it is."""
    kind, given = getattr(input, "dtype", None), getattr(other, "dtype", None)
    if kind is not None and given is not None and differentiable(kind) and not differentiable(given):
        other = other.to(kind)  # the result is of the input's type
    return mul(input, pow(2.0, other))


def _ldexp_(input, other):
    """The input times 2 to the power of the other, elementwise, in place."""
    return mul.in_place(input, pow(2.0, other))


install("ldexp", ldexp)
install("ldexp_", _ldexp_)


_numbers = at(-3.0, -0.75, 0.0, 1.0, 1e-30, 1e30)


@op(
    formula=r"m, k \text{ of } x = m \, 2^k",
    symbols={"mantissa": "m", "exponent": "k"},
    outputs=("mantissa", "exponent"),
    samples=_numbers,
)
def frexp(x):
    """Each number as a mantissa, whose size is between 1/2 and 1, and the exponent of a power of 2.

    It helps to round numbers to fewer bits. The gradient of the mantissa treats the exponent as a constant.

    Shapes: both outputs as x, the exponent int32.
    """
    return tuple(torch.frexp(x))


@frexp.rule("x", r"\bar{m} \, 2^{-k}")
def _(g, exponent):
    return g / exponent.to(dtype=g.dtype).exp2()  # torch's exp2 of int32 is in float32, which has no 2 ** -900
