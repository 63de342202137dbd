"""The gamma function and its relatives, elementwise."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.samples import POSITIVE, Domain, Make, Sample, at, pairs, unary


@op(formula=r"\ln |\Gamma(x)|", inplace=True, domain=POSITIVE, samples=at(-1.5, -0.5, 10.0))
def lgamma(input):
    """The logarithm of the absolute gamma function, elementwise; infinite at 0 and negative whole numbers.

    The likelihoods of counts and of Beta, Gamma and Dirichlet distributions contain it.

    Shapes: output as input.
    """
    return torch.lgamma(input)


@lgamma.rule("input", r"\bar{y} \odot \psi(x)")
def _(g, input):
    return g * input.digamma()


@op(formula=r"\psi(x)", inplace=True, domain=POSITIVE, samples=at(-1.5, -0.5, 10.0))
def digamma(input):
    """The derivative of the logarithm of the gamma function, elementwise.

    The expected logarithm of a Gamma or Dirichlet variable is made of it.

    Shapes: output as input.
    """
    return torch.digamma(input)


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
    name="special_zeta",
    broadcasts=True,
    domain=Domain(1.5, 4.0),
    samples=pairs,
    reference=torch.special.zeta,
)
def zeta(input, other):
    """The Hurwitz zeta function of order ``input`` at ``other``, elementwise, broadcasting.

    It normalizes power-law distributions, such as that of word frequencies. The order has no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, NotImplementedError where
    the order needs a gradient.
    """
    return torch.special.zeta(input, other)


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
    row = op(formula=formula, broadcasts=True, inplace=True, domain=POSITIVE, samples=pairs)(area)

    @row.rule("other", rf"{'-' if sign < 0 else ''}\bar{{y}} \odot \frac{{x^{{a - 1}} e^{{-x}}}}{{\Gamma(a)}}")
    def _(g, input, other):
        density = ((input - 1) * other.log() - other - input.lgamma()).exp()
        return g * density if sign > 0 else -g * density

    return row


igamma = _incomplete("igamma", "lower", r"0}^{x", 1)
igammac = _incomplete("igammac", "upper", r"x}^{\infty", -1)
