"""Special functions, elementwise: the error function, the gamma function, Bessel functions and their relatives."""

import math

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.choosing import where
from nbgrad.core.samples import POSITIVE, Domain, Make, Sample, at, binary, points, unary

_PROBABILITY = Domain(0.05, 0.95)

# The error function and the normal distribution.


@op(formula=r"\operatorname{erf} x", inplace=True, samples=at(-30.0, 0.0, 30.0))
def erf(input):
    """The error function, elementwise: twice the area under a bell curve from 0.

    The GELU activation (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415) weighs its input by it.

    Shapes: output as input.
    """
    return torch.erf(input)


@erf.rule("input", r"\frac{2}{\sqrt{\pi}} \bar{y} \odot e^{-x^2}")
def _(g, input):
    return 2 / math.sqrt(math.pi) * (-(input**2)).exp() * g


@op(formula=r"1 - \operatorname{erf} x", inplace=True, samples=at(-30.0, 0.0, 30.0))
def erfc(input):
    """One minus the error function, elementwise, exact also where that is nearly 0.

    The tails of a normal distribution are this.

    Shapes: output as input.
    """
    return torch.erfc(input)


@erfc.rule("input", r"-\frac{2}{\sqrt{\pi}} \bar{y} \odot e^{-x^2}")
def _(g, input):
    return -2 / math.sqrt(math.pi) * (-(input**2)).exp() * g


@op(formula=r"\operatorname{erf}^{-1} x", inplace=True, domain=Domain(-0.9, 0.9), samples=at(-1.0, 0.0, 1.0))
def erfinv(input):
    """The number whose error function each element is; infinite at -1 and 1, NaN beyond.

    It turns uniform random numbers into normal ones, through which gradients flow.

    Shapes: output as input.
    """
    return torch.erfinv(input)


@erfinv.rule("input", r"\frac{\sqrt{\pi}}{2} \bar{y} \odot e^{y^2}")
def _(g, input):
    return 0.5 * math.sqrt(math.pi) * (erfinv(input) ** 2).exp() * g


@op(formula=r"e^{x^2} (1 - \operatorname{erf} x)", name="special_erfcx", samples=unary, reference=torch.special.erfcx)
def erfcx(input):
    """The complementary error function times the exponential of the square, elementwise, without underflow.

    Logarithms of the tails of a normal distribution are computed from it.

    Shapes: output as input.
    """
    return torch.special.erfcx(input)


@erfcx.rule("input", r"\bar{y} \odot \left(2 x y - \frac{2}{\sqrt{\pi}}\right)")
def _(g, input, out):
    return (2 * input * out - 2 / math.sqrt(math.pi)) * g


def ndtr(input):
    """The area under the standard normal curve up to each element; it is recorded as what it is made of."""
    return (1 + erf(input * math.sqrt(0.5))) * 0.5


@op(
    formula=r"\Phi^{-1}(x)",
    name="special_ndtri",
    domain=_PROBABILITY,
    samples=at(0.0, 0.5, 1.0),
    reference=torch.special.ndtri,
)
def ndtri(input):
    """The number up to which the area under the standard normal curve is each element; NaN outside [0, 1].

    It gives the quantiles of a normal distribution.

    Shapes: output as input.
    """
    return torch.special.ndtri(input)


@ndtri.rule("input", r"\sqrt{2 \pi} \, \bar{y} \odot e^{y^2 / 2}")
def _(g, out):
    return g * math.sqrt(2 * math.pi) * (out**2 / 2).exp()


@op(
    formula=r"\ln \Phi(x)",
    name="special_log_ndtr",
    samples=at(-30.0, 0.0, 30.0),
    reference=torch.special.log_ndtr,
)
def log_ndtr(input):
    """The logarithm of the area under the standard normal curve up to each element, without underflow.

    Likelihoods of censored data and of probit models add it up.

    Shapes: output as input.
    """
    return torch.special.log_ndtr(input)


@log_ndtr.rule("input", r"\frac{\bar{y}}{\sqrt{2 \pi}} \odot e^{-(y + x^2 / 2)}")
def _(g, input, out):
    return g / math.sqrt(2 * math.pi) * (-(out + input**2 / 2)).exp()


# Probabilities.


def _odds(make: Make):
    yield from at(0.5)(make)
    yield Sample.of(points(0.01, 0.1, 0.5, 0.9, 0.99), eps=0.1)
    yield Sample.of(points(-0.5, 0.5, 1.5))


@op(formula=r"\ln \frac{x}{1 - x}", inplace=True, domain=_PROBABILITY, samples=_odds)
def logit(input, *, eps=None):
    """The logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1].

    Scores are made of probabilities with it. With ``eps`` the input is moved into [eps, 1 - eps] first, and beyond
    these bounds the gradient is 0.

    Shapes: output as input.
    """
    return torch.logit(input, eps)


@logit.rule("input", r"\frac{\bar{y}}{x (1 - x)}")
def _(g, input, eps):
    return logit_backward(g, input, eps=eps)


def _gradients_of_odds(make: Make):
    for sample in _odds(make):
        yield Sample.of(make(*sample.args[0].shape), *sample.args, **sample.settings)


def _logit_backward(g, x, eps=None):
    """What torch differentiates in place of its kernel, for what the kernel takes and as exactly as it computes."""
    aten.logit_backward(g.detach(), x.detach(), eps)
    low, high, beyond = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
    wide = x.double()
    return torch.where((wide >= low) & (wide <= high), g / (wide * (1 - wide)), beyond).to(torch.result_type(g, x))


@op(formula=r"\frac{g}{x (1 - x)}", samples=_gradients_of_odds, reference=_logit_backward)
def logit_backward(g, x, *, eps=None):
    """The gradient of logit: 0 beyond the bounds that ``eps`` gives, NaN outside [0, 1] without it.

    Shapes: g and x alike, output as g.
    """
    return aten.logit_backward(g, x, eps)


def _inside(x, eps):
    return (x >= 0) & (x <= 1) if eps is None else (x >= eps) & (x <= 1 - eps)


@logit_backward.rule("g", r"\frac{\bar{y}}{x (1 - x)}")
def _(gradient, x, eps):
    return where(_inside(x, eps), logit_backward(gradient, x, eps=eps), 0.0)


@logit_backward.rule("x", r"\bar{y} \odot g \odot \frac{2 x - 1}{x^2 (1 - x)^2}")
def _(gradient, g, x, eps):
    inside, spread = _inside(x, eps), x * (1 - x)
    # Each factor is 0 beyond the bounds, not the product: there another may be NaN, and 0 times that is no zero.
    return where(inside, gradient, 0.0) * where(inside, g, 0.0) * where(inside, (2 * x - 1) / (spread * spread), 0.0)


@op(
    formula=r"-x \ln x",
    name="special_entr",
    domain=POSITIVE,
    samples=at(0.5, 1.0),
    reference=torch.special.entr,
)
def entr(input):
    """The entropy that each probability adds, elementwise: 0 at 0, -inf below.

    A bonus for high entropy keeps a policy exploring.

    Shapes: output as input.
    """
    return torch.special.entr(input)


@entr.rule("input", r"-\bar{y} \odot (1 + \ln x)")
def _(g, input):
    return g * -(1 + input.log())


def _entropies(make: Make):
    yield from binary(make)
    yield Sample.of(points(0.0, 0.0, 0.0, 1.0), points(-1.0, 0.0, -2.0, -0.5))
    yield Sample.of(points(0.0, 1.0), -1.0)


@op(
    formula=r"x \ln(1 + y)",
    name="special_xlog1py",
    broadcasts=True,
    domain=POSITIVE,
    samples=_entropies,
    reference=torch.special.xlog1py,
)
def xlog1py(input, other):
    """The input times the logarithm of 1 plus the other, elementwise, broadcasting; 0 wherever the input is 0.

    The likelihood of failures is this, with minus a probability as the other.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.special.xlog1py(input, other)


@xlog1py.rule("input", r"\bar{y} \odot \ln(1 + y) \text{, } 0 \text{ where } x = 0 \text{ and } y \leq -1")
def _(g, input, other):
    slope = xlog1py(g, other)
    if isinstance(other, int | float):
        return slope if other > -1 else slope.masked_fill(input == 0, 0)
    return slope.masked_fill((input == 0) & (other <= -1), 0)


@xlog1py.rule("other", r"\bar{y} \odot \frac{x}{1 + y}")
def _(g, input, other):
    return g * input / (other + 1)
