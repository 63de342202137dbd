"""Random numbers whose distribution tensors say: what is drawn does not move with them, so the gradient is 0."""

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.rounding import flat
from nbgrad.core.samples import SHAPES, Make, Sample


def _certain(make: Make):
    """Probabilities 0 and 1, where chance has nothing to say."""
    yield from (Sample.of(make.integers(2, *shape).double()) for shape in SHAPES)
    yield Sample.of(make(2, 3), p=1.0)


def _drawn(input, p=None):
    """What torch gives, which has no gradient of the second form, where it is 0 too."""
    return torch.bernoulli(input) if p is None else torch.bernoulli(input.detach(), p) + 0 * input


@op(formula=r"y \sim \operatorname{Bernoulli}(p)", samples=_certain, reference=_drawn)
def bernoulli(input, *, p=None, generator=None):
    """1 with the probabilities that input says, or all with the probability ``p``, else 0.

    Masks are drawn so. A network learns through them by another estimate of the gradient, such as the score function
    (Williams 1992) or gumbel_softmax.

    Shapes: output as input. Raises RuntimeError for a probability that is none.
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


@op(formula=r"y \sim \mathcal{N}(\mu, \sigma^2)", broadcasts=True, method=False, samples=_without_spread)
def normal(mean, std=None, *, generator=None):
    """Normal random numbers with the means and standard deviations given, of which one may be a number; default: 1.

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
