"""Special functions, elementwise: the error function, the gamma function, Bessel functions and their relatives."""

import math

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import POSITIVE, Domain, Make, Sample, at, binary, pairs, points, unary
from nbgrad.core.ops.elementwise.select import where

_PROBABILITY = Domain(0.05, 0.95)

# The error function and the normal distribution.


@op(formula=r"\operatorname{erf} x", kernel=torch.erf, inplace=True, samples=at(-30.0, 0.0, 30.0))
def erf(input):
    """The error function, elementwise: twice the area under a bell curve from 0.

    The GELU activation (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415) weighs its input by it.

    Shapes: output as input.
    """


@erf.rule("input", r"\frac{2}{\sqrt{\pi}} \bar{y} \odot e^{-x^2}")
def _(g, input):
    return 2 / math.sqrt(math.pi) * (-(input**2)).exp() * g


@op(formula=r"1 - \operatorname{erf} x", kernel=torch.erfc, inplace=True, samples=at(-30.0, 0.0, 30.0))
def erfc(input):
    """One minus the error function, elementwise, exact also where that is nearly 0.

    It gives the tails of a normal distribution.

    Shapes: output as input.
    """


@erfc.rule("input", r"-\frac{2}{\sqrt{\pi}} \bar{y} \odot e^{-x^2}")
def _(g, input):
    return -2 / math.sqrt(math.pi) * (-(input**2)).exp() * g


@op(
    formula=r"\operatorname{erf}^{-1} x",
    kernel=torch.erfinv,
    inplace=True,
    domain=Domain(-0.9, 0.9),
    samples=at(-1.0, 0.0, 1.0),
)
def erfinv(input):
    """The number whose error function each element is; infinite at -1 and 1, NaN beyond.

    It turns uniform random numbers into normal ones, through which gradients flow.

    Shapes: output as input.
    """


@erfinv.rule("input", r"\frac{\sqrt{\pi}}{2} \bar{y} \odot e^{y^2}")
def _(g, input):
    return 0.5 * math.sqrt(math.pi) * (erfinv(input) ** 2).exp() * g


@op(formula=r"e^{x^2} (1 - \operatorname{erf} x)", kernel=torch.special.erfcx, name="special_erfcx", samples=unary)
def erfcx(input):
    """The complementary error function times the exponential of the square, elementwise, without underflow.

    Logarithms of the tails of a normal distribution are computed from it.

    Shapes: output as input.
    """


@erfcx.rule("input", r"\bar{y} \odot \left(2 x y - \frac{2}{\sqrt{\pi}}\right)")
def _(g, input, out):
    return (2 * input * out - 2 / math.sqrt(math.pi)) * g


def ndtr(input):
    """The area under the standard normal curve up to each element; it is recorded as the ops that compute it."""
    return (1 + erf(input * math.sqrt(0.5))) * 0.5


@op(
    formula=r"\Phi^{-1}(x)",
    kernel=torch.special.ndtri,
    name="special_ndtri",
    domain=_PROBABILITY,
    samples=at(0.0, 0.5, 1.0),
)
def ndtri(input):
    """The number up to which the area under the standard normal curve equals each element; NaN outside [0, 1].

    It gives the quantiles of a normal distribution.

    Shapes: output as input.
    """


@ndtri.rule("input", r"\sqrt{2 \pi} \, \bar{y} \odot e^{y^2 / 2}")
def _(g, out):
    return g * math.sqrt(2 * math.pi) * (out**2 / 2).exp()


@op(formula=r"\ln \Phi(x)", kernel=torch.special.log_ndtr, name="special_log_ndtr", samples=at(-30.0, 0.0, 30.0))
def log_ndtr(input):
    """The logarithm of the area under the standard normal curve up to each element, without underflow.

    Likelihoods of censored data and of probit models add it up.

    Shapes: output as input.
    """


@log_ndtr.rule("input", r"\frac{\bar{y}}{\sqrt{2 \pi}} \odot e^{-(y + x^2 / 2)}")
def _(g, input, out):
    return g / math.sqrt(2 * math.pi) * (-(out + input**2 / 2)).exp()


# Probabilities.


def _odds(make: Make):
    yield from at(0.5)(make)
    yield Sample.of(points(0.01, 0.1, 0.5, 0.9, 0.99), eps=0.1)
    yield Sample.of(points(-0.5, 0.5, 1.5))


@op(formula=r"\ln \frac{x}{1 - x}", kernel=torch.logit, inplace=True, domain=_PROBABILITY, samples=_odds)
def logit(input, *, eps=None):
    """The logarithm of the odds of a probability, elementwise: the inverse of sigmoid; NaN outside [0, 1].

    Scores are made of probabilities with it. With ``eps`` the input is moved into [eps, 1 - eps] first, and beyond
    these bounds the gradient is 0.

    Shapes: output as input.
    """


@logit.rule("input", r"\frac{\bar{y}}{x (1 - x)}")
def _(g, input, eps):
    return logit_backward(g, input, eps=eps)


def _gradients_of_odds(make: Make):
    for sample in _odds(make):
        yield Sample.of(make(*sample.args[0].shape), *sample.args, **sample.settings)


def _logit_backward(g, x, eps=None):
    """The kernel written as a formula that torch can differentiate, with the same domain and precision."""
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
    # Each factor is set to 0 beyond the bounds, not only the product: a factor may be NaN there, and 0 * NaN is NaN.
    return where(inside, gradient, 0.0) * where(inside, g, 0.0) * where(inside, (2 * x - 1) / (spread * spread), 0.0)


@op(formula=r"-x \ln x", kernel=torch.special.entr, name="special_entr", domain=POSITIVE, samples=at(0.5, 1.0))
def entr(input):
    """The entropy that each probability adds, elementwise: 0 at 0, -inf below.

    A bonus for high entropy keeps a policy exploring.

    Shapes: output as input.
    """


@entr.rule("input", r"-\bar{y} \odot (1 + \ln x)")
def _(g, input):
    return g * -(1 + input.log())


def _entropies(make: Make):
    yield from binary(make)
    yield Sample.of(points(0.0, 0.0, 0.0, 1.0), points(-1.0, 0.0, -2.0, -0.5))
    yield Sample.of(points(0.0, 1.0), -1.0)


@op(
    formula=r"a \ln(1 + b)",
    kernel=torch.special.xlog1py,
    name="special_xlog1py",
    broadcasts=True,
    domain=POSITIVE,
    samples=_entropies,
)
def xlog1py(input, other):
    """The input times the logarithm of 1 plus the other, elementwise, broadcasting; 0 wherever the input is 0.

    If the other is minus the probability of a success, it is the log-likelihood of failures.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@xlog1py.rule("input", r"\bar{y} \odot \ln(1 + b) \text{, } 0 \text{ where } a = 0 \text{ and } b \leq -1")
def _(g, input, other):
    slope = xlog1py(g, other)
    if isinstance(other, int | float):
        return slope if other > -1 else slope.masked_fill(input == 0, 0)
    return slope.masked_fill((input == 0) & (other <= -1), 0)


@xlog1py.rule("other", r"\bar{y} \odot \frac{a}{1 + b}")
def _(g, input, other):
    return g * input / (other + 1)


@op(formula=r"\ln |\Gamma(x)|", kernel=torch.lgamma, inplace=True, domain=POSITIVE, samples=at(-1.5, -0.5, 10.0))
def lgamma(input):
    """The logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers.

    The likelihoods of counts and of Beta, Gamma and Dirichlet distributions contain it.

    Shapes: output as input.
    """


@lgamma.rule("input", r"\bar{y} \odot \psi(x)")
def _(g, input):
    return g * input.digamma()


@op(formula=r"\psi(x)", kernel=torch.digamma, inplace=True, domain=POSITIVE, samples=at(-1.5, -0.5, 10.0))
def digamma(input):
    """The derivative of the logarithm of the gamma function, elementwise.

    The expected logarithm of a Gamma or Dirichlet variable is made of it.

    Shapes: output as input.
    """


@digamma.rule("input", r"\bar{y} \odot \psi'(x)")
def _(g, input):
    return g * polygamma(1, input)


def _derivatives(make: Make):
    yield from (Sample.of(*sample.args, n=1) for sample in unary(make))
    yield from (Sample.of(make(2, 3), n=n) for n in (0, 2, 3))


def _polygamma(input, *, n):
    return torch.polygamma(n, input)


@op(
    formula=r"\psi^{(n)}(x)",
    name="polygamma",
    method=False,
    inplace=lambda raw, *, n: raw.polygamma_(n),
    domain=POSITIVE,
    samples=_derivatives,
    reference=_polygamma,
)
def _polygammas(input, *, n):
    """The derivative of order ``n`` of digamma, elementwise.

    Second derivatives of likelihoods with gamma functions need it.

    Shapes: output as input. Raises RuntimeError for a negative order.
    """
    return torch.polygamma(n, input)


@_polygammas.rule("input", r"\bar{y} \odot \psi^{(n + 1)}(x)")
def _(g, input, n):
    return g * polygamma(n + 1, input)


def polygamma(n, input):
    """The derivative of order ``n`` of digamma, elementwise, in torch's order of arguments."""
    return _polygammas(input, n=n)


install("polygamma", _polygammas)
install("polygamma_", _polygammas.in_place)


def _multivariate(make: Make):
    yield from (Sample.of(*sample.args, p=1) for sample in unary(make))
    yield from (Sample.of(make(2, 3) + 1, p=p) for p in (2, 3))


@op(
    formula=r"\ln \Gamma_p(x)",
    inplace=True,
    domain=POSITIVE,
    samples=_multivariate,
)
def mvlgamma(input, *, p):
    """The logarithm of the multivariate gamma function of dimension ``p``, elementwise.

    The likelihood of a Wishart distribution of covariance matrices contains it.

    Shapes: output as input. Raises RuntimeError for p below 1.
    """
    return torch.mvlgamma(input, p)


@mvlgamma.rule("input", r"\bar{y} \odot \sum_{i=0}^{p-1} \psi\left(x - \frac{i}{2}\right)")
def _(g, input, p):
    steps = torch.arange(p, dtype=input.dtype, device=input.device) / 2
    return g * (input.unsqueeze(-1) - steps).digamma().sum(-1)


@op(
    formula=r"\zeta(s, q) = \sum_{k=0}^{\infty} \frac{1}{(k + q)^{s}}",
    symbols={"input": "s", "other": "q"},
    kernel=torch.special.zeta,
    name="special_zeta",
    broadcasts=True,
    domain=Domain(1.5, 4.0),
    samples=pairs,
)
def zeta(input, other):
    """The Hurwitz zeta function of order ``input`` at ``other``, elementwise, broadcasting.

    It normalizes power-law distributions, such as that of word frequencies. The order has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the order needs a gradient.
    """


@zeta.rule("other", r"-\bar{y} \odot s \odot \zeta(s + 1, q)")
def _(g, input, other):
    return g * -input * zeta(input + 1.0, other)


def _incomplete(name, of, integral, sign):
    """The row of one of the two regularized incomplete gamma functions: they add up to 1."""
    kernel = getattr(torch, name)

    def area(input, other):
        return kernel(input, other)

    area.__name__ = name
    area.__doc__ = f"""The regularized {of} incomplete gamma function of shape ``input`` at ``other``, elementwise.

    It is the probability of a Gamma variable {"below" if sign > 0 else "above"} the other. The shape has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the shape needs a gradient.
    """
    formula = rf"\frac{{1}}{{\Gamma(a)}} \int_{{{integral}}} t^{{a - 1}} e^{{-t}} dt"
    row = op(
        formula=formula,
        symbols={"input": "a", "other": "x"},
        broadcasts=True,
        inplace=True,
        domain=POSITIVE,
        samples=pairs,
    )(area)

    @row.rule("other", rf"{'-' if sign < 0 else ''}\bar{{y}} \odot \frac{{x^{{a - 1}} e^{{-x}}}}{{\Gamma(a)}}")
    def _(g, input, other):
        density = ((input - 1) * other.log() - other - input.lgamma()).exp()
        return g * density if sign > 0 else -g * density

    return row


igamma = _incomplete("igamma", "lower", r"0}^{x", 1)
igammac = _incomplete("igammac", "upper", r"x}^{\infty", -1)


_special = torch.special
_edges = at(-30.0, 0.0, 30.0)


@op(formula=r"I_0(x)", kernel=torch.i0, inplace=True, samples=unary)
def i0(input):
    """The modified Bessel function of order 0, elementwise.

    The von Mises distribution of angles is scaled by it, and Kaiser windows of audio models are made of it.

    Shapes: output as input.
    """


@i0.rule("input", r"\bar{y} \odot I_1(x)")
def _(g, input):
    return g * i1(input)


@op(formula=r"e^{-|x|} I_0(x)", kernel=_special.i0e, name="special_i0e", samples=_edges)
def i0e(input):
    """The modified Bessel function of order 0 times ``exp(-|x|)``, elementwise, without overflow.

    The likelihood of angles that hardly vary needs it.

    Shapes: output as input.
    """


@i0e.rule("input", r"\bar{y} \odot (e^{-|x|} I_1(x) - \operatorname{sign}(x) \odot y)")
def _(g, input, out):
    return g * (i1e(input) - input.sgn() * out)


@op(formula=r"I_1(x)", kernel=_special.i1, name="special_i1", samples=at(0.0))
def i1(input):
    """The modified Bessel function of order 1, elementwise.

    It is the derivative of that of order 0.

    Shapes: output as input.
    """


def _away_from_0(input):
    """Where the input is far enough from 0 for a division, and the input with a tiny number in the other places."""
    tiny = torch.finfo(input.dtype).eps
    far = input.abs() > tiny
    return far, where(far, input, tiny)


@i1.rule("input", r"\bar{y} \odot \left(I_0(x) - \frac{y}{x}\right) \text{, } \frac{\bar{y}}{2} \text{ at } 0")
def _(g, input, out):
    far, safe = _away_from_0(input)
    return g * where(far, i0(safe) - out * safe.reciprocal(), 0.5)


@op(formula=r"e^{-|x|} I_1(x)", kernel=_special.i1e, name="special_i1e", samples=at(-30.0, 0.0, 30.0))
def i1e(input):
    """The modified Bessel function of order 1 times ``exp(-|x|)``, elementwise, without overflow.

    Its ratio to that of order 0 is the mean length of von Mises variables.

    Shapes: output as input.
    """


@i1e.rule("input", r"\bar{y} \odot \left(e^{-|x|} I_0(x) - y \left(\operatorname{sign}(x) + \frac{1}{x}\right)\right)")
def _(g, input, out):
    far, safe = _away_from_0(input)
    return g * where(far, i0e(safe) - out * (safe.sgn() + safe.reciprocal()), 0.5)
