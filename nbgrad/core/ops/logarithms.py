"""Exponentials and logarithms, elementwise."""

import math

import torch

from nbgrad.core.op import op
from nbgrad.core.samples import POSITIVE, Make, Sample, at, binary, pairs, points, unary


@op(formula=r"e^{x}", inplace=True, samples=unary)
def exp(x):
    """The exponential function, elementwise.

    Softmax turns scores into positive numbers with it. It is its own derivative, so large values have large gradients.

    Shapes: output as x.
    """
    return torch.exp(x)


@exp.rule("x", r"\bar{y} \odot y")
def _(g, out):
    return g * out


@op(formula=r"\ln x", inplace=True, domain=POSITIVE, samples=unary)
def log(x):
    """Natural logarithm, elementwise; NaN for negative x, -inf at 0.

    Losses take the logarithm of a probability: a confident mistake costs much, and its gradient is large.

    Shapes: output as x.
    """
    return torch.log(x)


@log.rule("x", r"\frac{\bar{y}}{x}")
def _(g, x):
    return g / x


@op(formula=r"2^{x}", inplace=True, samples=unary)
def exp2(input):
    """Two to the power of each element.

    Hardware computes it faster than the exponential of base e, so fast attention kernels use it.

    Shapes: output as input.
    """
    return torch.exp2(input)


@exp2.rule("input", r"\bar{y} \odot y \ln 2")
def _(g, out):
    return g * out * math.log(2)


@op(formula=r"e^{x} - 1", inplace=True, samples=at(-1e-10, 0.0, 1e-10))
def expm1(input):
    """The exponential minus 1, elementwise, exact also near 0.

    The ELU activation (Clevert et al. 2015, https://arxiv.org/abs/1511.07289) is this for negative numbers.

    Shapes: output as input.
    """
    return torch.expm1(input)


@expm1.rule("input", r"\bar{y} \odot (y + 1)")
def _(g, out):
    return g * (out + 1)


@op(formula=r"\log_2 x", inplace=True, domain=POSITIVE, samples=unary)
def log2(input):
    """Logarithm to base 2, elementwise; NaN for negative numbers, -inf at 0.

    An entropy comes out in bits with it.

    Shapes: output as input.
    """
    return torch.log2(input)


@log2.rule("input", r"\frac{\bar{y}}{x \ln 2}")
def _(g, input):
    return g / (input * math.log(2))


@op(formula=r"\log_{10} x", inplace=True, domain=POSITIVE, samples=unary)
def log10(input):
    """Logarithm to base 10, elementwise; NaN for negative numbers, -inf at 0.

    Decibels and the signal-to-noise ratio of images are made with it.

    Shapes: output as input.
    """
    return torch.log10(input)


@log10.rule("input", r"\frac{\bar{y}}{x \ln 10}")
def _(g, input):
    return g / (input * math.log(10))


@op(formula=r"\ln(1 + x)", inplace=True, domain=POSITIVE, samples=at(-0.5, -1e-10, 0.0, 1e-10))
def log1p(input):
    """Logarithm of 1 plus each element, exact also near 0.

    Counts with a long tail are put in with it, as it leaves 0 at 0.

    Shapes: output as input.
    """
    return torch.log1p(input)


@log1p.rule("input", r"\frac{\bar{y}}{1 + x}")
def _(g, input):
    return g / (input + 1)


def _far_apart(make: Make):
    yield from pairs(make)
    yield Sample.of(points(-1000.0, 0.0, 1000.0), points(1000.0, 0.0, -1000.0))


@op(formula=r"\ln(e^{x} + e^{y})", broadcasts=True, samples=_far_apart)
def logaddexp(input, other):
    """Logarithm of the sum of two exponentials, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept as logarithms, as in the forward algorithm of a hidden Markov model.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.logaddexp(input, other)


@logaddexp.rule("input", r"\frac{\bar{y}}{1 + e^{y - x}}")
def _(g, input, other):
    return g / (1 + (other - input).exp())


@logaddexp.rule("other", r"\frac{\bar{y}}{1 + e^{x - y}}")
def _(g, input, other):
    return g / (1 + (input - other).exp())


@op(formula=r"\log_2(2^{x} + 2^{y})", broadcasts=True, samples=_far_apart)
def logaddexp2(input, other):
    """Base-2 logarithm of the sum of two powers of 2, elementwise, broadcasting, computed without overflow.

    It adds probabilities that are kept in bits.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.logaddexp2(input, other)


@logaddexp2.rule("input", r"\frac{\bar{y}}{1 + 2^{y - x}}")
def _(g, input, other):
    return g / (1 + 2 ** (other - input))


@logaddexp2.rule("other", r"\frac{\bar{y}}{1 + 2^{x - y}}")
def _(g, input, other):
    return g / (1 + 2 ** (input - other))


def _entropies(make: Make):
    yield from binary(make)
    yield Sample.of(points(0.0, 0.0, 0.0, 1.0, -1.0), points(0.0, 1.0, -1.0, 0.5, 0.5))
    yield Sample.of(points(0.0, 1.0), 0.0)
    yield Sample.of(0.0, points(0.0, 1.0))


@op(formula=r"x \ln y", broadcasts=True, inplace=True, domain=POSITIVE, samples=_entropies)
def xlogy(input, other):
    """The input times the logarithm of the other, elementwise, broadcasting; 0 wherever the input is 0.

    Entropies and cross entropies are sums of it: an outcome of probability 0 adds nothing, not NaN.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.xlogy(input, other)


@xlogy.rule("input", r"\bar{y} \odot \ln y \text{, } 0 \text{ where } x = 0 \text{ and } y \leq 0")
def _(g, input, other):
    slope = xlogy(g, other)
    if isinstance(other, int | float):
        return slope if other > 0 else slope.masked_fill(input == 0, 0)
    return slope.masked_fill((input == 0) & (other <= 0), 0)


@xlogy.rule("other", r"\bar{y} \odot \frac{x}{y}")
def _(g, input, other):
    return g * input / other
