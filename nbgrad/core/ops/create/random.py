"""Random numbers from a distribution whose parameters are tensors.

Most draws do not move with the parameters, so the gradient is 0; an in-place draw replaces the old values, whose
gradient is 0 too. Gamma and Dirichlet draws do move: if α changes, the draw y changes so that F(y; α), the probability
of a smaller number, stays the same. So dy/dα = -(∂F(y; α)/∂α) / p(y; α), the implicit reparametrization (Figurnov et
al. 2018, https://arxiv.org/abs/1805.08498). torch.distributions uses these functions.
"""

from inspect import Parameter, Signature
from sys import _getframe
from types import FrameType

import torch

from nbgrad.core.backend.torch_guards import in_function
from nbgrad.core.dispatch.function import Function, once_differentiable
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.op import install, named, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current, enable_grad, no_grad
from nbgrad.core.ops.elementwise.rounding import flat
from nbgrad.core.ops.index.assign import copy
from nbgrad.core.tensor.tensor import Tensor


def _certain(make: Make):
    """Probabilities 0 and 1, with which the result is not random."""
    yield from (Sample.of(make.integers(2, *shape).double()) for shape in SHAPES)
    yield Sample.of(make(2, 3), p=1.0)


def _drawn(input, p=None):
    """The result of torch's function. Its form with ``p`` has no gradient at all, so a gradient of 0 is added."""
    return torch.bernoulli(input) if p is None else torch.bernoulli(input.detach(), p) + 0 * input


@op(
    formula=r"y \sim \operatorname{Bernoulli}(p)",
    symbols={"input": "p"},
    samples=_certain,
    reference=_drawn,
    random=True,
    unvaried={"generator": "it only says where the random numbers come from, and each call moves it on"},
)
def bernoulli(input, *, p=None, generator=None):
    """Draws 1 with the probability in input, or with ``p`` for all elements; otherwise 0.

    It draws masks. No gradient flows through them. A network that learns through a draw needs an estimate of the
    gradient, such as the score function (Williams 1992) or gumbel_softmax.

    Shapes: output as input. Raises RuntimeError for a number that is no probability.
    """
    if p is None:
        return torch.bernoulli(input, generator=generator)
    return torch.bernoulli(input, p, generator=generator)


@bernoulli.rule("input", r"0")
def _(g):
    return flat(g)


def _without_spread(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), torch.zeros(shape, dtype=torch.float64))
    yield Sample.of(make(2, 3), torch.zeros(3, dtype=torch.float64))
    yield Sample.of(make(2, 3), 0.0)
    yield Sample.of(1.5, torch.zeros(2, dtype=torch.float64))


@op(
    formula=r"y \sim \mathcal{N}(\mu, \sigma^2)",
    symbols={"mean": r"\mu", "std": r"\sigma"},
    broadcasts=True,
    samples=_without_spread,
    random=True,
    unvaried={"generator": "it only says where the random numbers come from, and each call moves it on"},
)
def normal(mean, std=None, *, generator=None):
    """Normal random numbers with the given means and standard deviations; one may be a number. ``std`` defaults to 1.

    ``mean + std * torch.randn(shape)`` draws the same distribution and has a gradient (Kingma and Welling 2013,
    https://arxiv.org/abs/1312.6114).

    Shapes: both broadcast to the output. Raises RuntimeError for a negative standard deviation.
    """
    return torch.normal(mean, 1.0 if std is None else std, generator=generator)


@normal.rule("mean", r"0")
def _(g):
    return flat(g)


@normal.rule("std", r"0")
def _(g):
    return flat(g)


def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn with probabilities proportional to the numbers in each row of the input; they have no gradient.

    Shapes: output as input, with the last dimension of size ``num_samples``. Raises RuntimeError if ``num_samples`` is
    more than can be drawn without ``replacement``.
    """
    return Tensor(torch.multinomial(raw_of(input), num_samples, replacement, generator=generator))


install("multinomial", multinomial)

_FILLS = {
    "bernoulli_": (
        {"p": 0.5},
        "ones with the probability ``p`` (a number, or a tensor with a probability for each element), else zeros",
    ),
    "cauchy_": ({"median": 0.0, "sigma": 1.0}, "numbers of Cauchy's distribution"),
    "exponential_": ({"lambd": 1.0}, "numbers of the exponential distribution with the rate ``lambd``"),
    "geometric_": ({"p": Parameter.empty}, "numbers of tries until an event of probability ``p`` happens"),
    "log_normal_": ({"mean": 1.0, "std": 2.0}, "numbers whose logarithms have that mean and standard deviation"),
    "normal_": ({"mean": 0.0, "std": 1.0}, "normal numbers"),
    "random_": ({}, "integers from the first of two ``limits`` (0 by default) up to the second, which is excluded"),
    "uniform_": ({}, "numbers that are uniform between the two ``limits`` (0 and 1)"),
}
"""torch's methods that draw every element anew: what they take, and what they draw."""


def _fill(name, takes, says):
    """The method of that name. It copies what torch draws into the tensor, and is recorded under that name."""
    twin = InPlace(copy, torch.Tensor.copy_, OPS)
    twin.row.name = name

    def fill(self, *args, generator=None, **settings):
        raw = {key: raw_of(value) for key, value in settings.items()}
        drawn = getattr(torch.empty_like(self.data), name)(*map(raw_of, args), generator=generator, **raw)
        return twin.run((self, drawn), {})

    if takes:
        parts = [Parameter(one, Parameter.POSITIONAL_OR_KEYWORD, default=usual) for one, usual in takes.items()]
    else:  # torch calls one of them ``from``, which is a keyword of Python
        parts = [Parameter("limits", Parameter.VAR_POSITIONAL)]
    tensor = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    signature = Signature([tensor, *parts, Parameter("generator", Parameter.KEYWORD_ONLY, default=None)])
    return named(fill, name, signature, f"In place: {says}; they have no gradient.")


for _name, _texts in _FILLS.items():
    install(_name, _fill(_name, *_texts))


def _saved_draw(kernel, ctx, concentration, generator):
    """The numbers that ``kernel`` draws, saved with the concentrations for the backward."""
    drawn = Tensor(kernel(concentration.data, generator=generator))
    ctx.save_for_backward(concentration, drawn)
    return drawn


class StandardGamma(Function):
    """Draws from gamma distributions of rate 1."""

    @staticmethod
    def forward(ctx, concentration, generator):
        return _saved_draw(torch._standard_gamma, ctx, concentration, generator)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        concentration, drawn = ctx.saved_tensors
        return g * torch._standard_gamma_grad(concentration.data, drawn.data), None


class SampleDirichlet(Function):
    """Draws from Dirichlet distributions: positive numbers that add up to 1 along the last dimension."""

    @staticmethod
    def forward(ctx, concentration, generator):
        return _saved_draw(torch._sample_dirichlet, ctx, concentration, generator)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        concentration, drawn = (one.data for one in ctx.saved_tensors)
        total = concentration.sum(-1, True).expand_as(concentration)
        slopes = torch._dirichlet_grad(drawn, concentration, total)
        return slopes * (g - (drawn * g).sum(-1, True)), None


def standard_gamma(input, generator=None):
    """Numbers of the gamma distributions of rate 1 with these concentrations."""
    return StandardGamma.apply(input, generator)


def sample_dirichlet(input, generator=None):
    """Numbers of the Dirichlet distributions with the concentrations along the last dimension."""
    if not in_function():
        return SampleDirichlet.apply(input, generator)
    # torch's distribution draws in the forward of its own Function, where nothing is recorded. For rsample() the draw
    # has to be recorded.
    switched = no_grad() if _constant() else enable_grad()
    return switched(SampleDirichlet.apply)(input, generator)


def _constant():
    """Whether sample() of one of torch's distributions is the caller, or nothing is recorded anyway."""
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_globals.get("__name__", "").startswith("torch.distributions"):
            return True
        frame = frame.f_back
    return not current().grad_enabled
