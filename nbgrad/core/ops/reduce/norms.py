"""Norms: how large a vector is, and how far two are apart."""

import math

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.ops.elementwise.complex import real_part
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.reduce.reductions import dims_of, kept, reductions

_ORDERS = (1, 2, 3, 1.5, 0.5, math.inf, -math.inf, -1.5)


def _norm_samples(make: Make):
    yield from reductions(make)
    x = torch.tensor([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [2.0, -2.0, 2.0]], dtype=torch.float64)
    for ord in _ORDERS:
        yield Sample.of(make(2, 3), ord=ord)
        if ord > 0:
            yield Sample.of(x[::2] if ord < 1 else x, ord=ord, dim=1, keepdim=ord == 2)
    yield Sample.of(make(2, 3), ord=2, dtype=torch.float64)


def slope(g, x, norm, p, dims):
    """The gradient of the norm of order p over ``dims``, which g and the norm still have; 0 where the norm is 0."""
    if p == 0:
        return None
    if p == 1:
        return x.sgn() * g
    if p == 2:
        return g * where(norm == 0, 0.0, x / norm)
    if math.isinf(p):
        size = x.abs()
        ties = (size == norm) | size.isnan()
        return x.sgn() * ((g / ties.sum(dims, True)) * ties)
    if p < 1:
        return x.sgn() * where(x == 0, 0.0, x.abs() ** (p - 1)) * g * norm ** (1 - p)
    scale = where(norm == 0, 0.0, g / norm ** (p - 1))
    return (x.sgn() * x.abs() ** (p - 1) if p < 2 else x * x.abs() ** (p - 2)) * scale


@op(
    formula=r"\left(\sum_i |x_i|^p\right)^{1/p}",
    symbols={"ord": "p"},
    kernel=torch.linalg.vector_norm,
    holomorphic=False,
    samples=_norm_samples,
)
def linalg_vector_norm(x, *, ord=2, dim=None, keepdim=False, dtype=None):
    """The norm of order ``ord`` of all elements as one vector, or along ``dim`` (a number or a tuple of numbers).

    Weight decay and the clipping of gradients measure it; cosine similarity divides by it. ``ord`` is any number,
    inf and -inf for the largest and the smallest size, 0 for how many elements are not 0. Its gradient where the norm
    is 0 is taken to be 0, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """


@linalg_vector_norm.rule("x", r"\bar{y} \odot \operatorname{sgn}(x) \odot \left(\frac{|x|}{y}\right)^{p - 1}")
def _(g, x, out, ord, dim, keepdim):
    shape = x.shape
    over = dims_of(dim, len(shape))
    return slope(kept(g, shape, dim, keepdim), x, kept(out, shape, dim, keepdim), ord, over)


def _renorms(make: Make):
    for shape in (shape for shape in SHAPES if len(shape) > 1):
        yield Sample.of(make(*shape), p=2, dim=0, maxnorm=1.0)
        yield Sample.of(make(*shape), p=1, dim=-1, maxnorm=2.0)
    yield Sample.of(make(3, 4), p=3, dim=1, maxnorm=1.5)
    yield Sample.of(make(3, 4), p=1.5, dim=1, maxnorm=100.0)


@op(
    formula=r"x \odot \min(1, \frac{m}{\|x\|_p})",
    symbols={"maxnorm": "m"},
    inplace=True,
    holomorphic=False,
    samples=_renorms,
    ranks=range(2, 6),
)
def renorm(input, *, p, dim, maxnorm):
    """Each slice along ``dim`` whose norm of order p is above ``maxnorm`` scaled down to it; the others as they are.

    ``Embedding(max_norm=...)`` keeps its rows short so; Hinton et al. 2012 (https://arxiv.org/abs/1207.0580) bound
    the weights of each unit.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """
    return torch.renorm(input, p, dim, maxnorm)


@renorm.rule(
    "input", r"\frac{m}{\|x\|} \left(\bar{y} - \frac{\sum \bar{y} x}{\|x\|} \nabla \|x\|\right) \text{ where scaled}"
)
def _(g, input, p, dim, maxnorm):
    rank = len(input.shape)
    others = tuple(d for d in range(rank) if d != dim % rank)
    norm = linalg_vector_norm(input, ord=p, dim=others, keepdim=True)
    inner = real_part(conjugate(input) * g).sum(others, True)
    turned = slope(inner, input, norm, p, others)
    inverse = 1 / (norm + 1e-7)  # torch's kernel divides by this
    scaled = maxnorm * inverse * (g if turned is None else g - inverse * turned)
    return where(norm > maxnorm, scaled, g)


def _distances(make: Make):
    for shape in SHAPES:
        if 0 not in shape:
            yield Sample.of(make(*shape), make(*shape))
    for p in (1, 3, 1.5, math.inf):
        yield Sample.of(make(2, 3), make(3), p=p)
    yield Sample.of(make(0), make(0))
    x = make(2, 3)
    yield Sample.of(x, x.clone())


@op(formula=r"\|a - b\|_p", kernel=torch.dist, broadcasts=True, holomorphic=False, samples=_distances)
def dist(input, other, *, p=2):
    """The norm of order p of the difference, all elements as one vector.

    Shapes: input and other broadcast, output is a single number. Raises RuntimeError where they do not.
    """


@dist.rule("input", r"\bar{y} \nabla \|a - b\|_p")
def _(g, input, other, out, p):
    return slope(g, input - other, out, p, ())


@dist.rule("other", r"-\bar{y} \nabla \|a - b\|_p")
def _(g, input, other, out, p):
    return slope(-g, input - other, out, p, ())
