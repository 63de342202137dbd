"""Modified Bessel functions of the first kind, elementwise, plain and scaled by ``exp(-|x|)``."""

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.choosing import where
from nbgrad.core.samples import at, unary

_special = torch.special
_edges = at(-30.0, 0.0, 30.0)


@op(formula=r"I_0(x)", inplace=True, samples=unary)
def i0(input):
    """The modified Bessel function of order 0, elementwise.

    The von Mises distribution of angles is scaled by it, and Kaiser windows of audio models are made of it.

    Shapes: output as input.
    """
    return torch.i0(input)


@i0.rule("input", r"\bar{y} \odot I_1(x)")
def _(g, input):
    return g * i1(input)


@op(formula=r"e^{-|x|} I_0(x)", name="special_i0e", samples=_edges, reference=_special.i0e)
def i0e(input):
    """The modified Bessel function of order 0 times ``exp(-|x|)``, elementwise, without overflow.

    The likelihood of angles that hardly vary needs it.

    Shapes: output as input.
    """
    return _special.i0e(input)


@i0e.rule("input", r"\bar{y} \odot (e^{-|x|} I_1(x) - \operatorname{sign}(x) \odot y)")
def _(g, input, out):
    return g * (i1e(input) - input.sgn() * out)


@op(formula=r"I_1(x)", name="special_i1", samples=at(0.0), reference=_special.i1)
def i1(input):
    """The modified Bessel function of order 1, elementwise.

    It is the derivative of that of order 0.

    Shapes: output as input.
    """
    return _special.i1(input)


def _away_from_0(input):
    """Where the input is far enough from 0 to divide by, and the input with a tiny number elsewhere."""
    tiny = torch.finfo(input.dtype).eps
    far = input.abs() > tiny
    return far, where(far, input, tiny)


@i1.rule("input", r"\bar{y} \odot \left(I_0(x) - \frac{y}{x}\right) \text{, half at } 0")
def _(g, input, out):
    far, safe = _away_from_0(input)
    return g * where(far, i0(safe) - out * safe.reciprocal(), 0.5)


@op(formula=r"e^{-|x|} I_1(x)", name="special_i1e", samples=at(-30.0, 0.0, 30.0), reference=_special.i1e)
def i1e(input):
    """The modified Bessel function of order 1 times ``exp(-|x|)``, elementwise, without overflow.

    Its ratio to that of order 0 is the mean length of von Mises variables.

    Shapes: output as input.
    """
    return _special.i1e(input)


@i1e.rule("input", r"\bar{y} \odot \left(e^{-|x|} I_0(x) - y \left(\operatorname{sign}(x) + \frac{1}{x}\right)\right)")
def _(g, input, out):
    far, safe = _away_from_0(input)
    return g * where(far, i0e(safe) - out * (safe.sgn() + safe.reciprocal()), 0.5)
