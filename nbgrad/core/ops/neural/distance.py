"""How far apart vectors are, and at which angle."""

import math

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.tensor_data import differentiable, dtype_name
from nbgrad.core.ops.elementwise.arithmetic import abs
from nbgrad.core.ops.elementwise.powers import sqrt
from nbgrad.core.ops.elementwise.rounding import sgn
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.getitem import getitem, getitem_backward
from nbgrad.core.ops.reduce.norms import linalg_vector_norm, slope
from nbgrad.core.ops.shape.views import clone, unsqueeze
from nbgrad.core.tensor.tensor import Tensor


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of the difference of two vectors, for each pair in a batch.

    ``eps`` is added to the difference, so that the gradient of equal vectors is finite.

    Shapes: x1 and x2 broadcast; output without the last dimension, or with it as 1 with ``keepdim``.
    """
    return linalg_vector_norm(x1 - x2 + eps, ord=p, dim=-1, keepdim=keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between two vectors along ``dim``: 1 for one direction, 0 for a right angle.

    Contrastive learning compares embeddings with it, as SimCLR (Chen et al. 2020, https://arxiv.org/abs/2002.05709).
    Lengths count as at least ``eps``.

    Shapes: x1 and x2 broadcast; output without the dimension ``dim``.
    """
    rank = max(len(x1.shape), len(x2.shape), 1)  # a 0-d tensor counts as one dimension, as in torch
    common = torch.result_type(raw_of(x1), raw_of(x2))
    if not differentiable(common):
        raise RuntimeError(
            f"cosine_similarity of {dtype_name(x1.dtype)} and {dtype_name(x2.dtype)}: one of the two must have "
            "floating point numbers: write .float() on it"
        )
    x1, x2 = (one.expand(torch.broadcast_shapes(x1.shape, x2.shape)).to(dtype=common) for one in (x1, x2))
    if not -rank <= dim < rank:
        raise IndexError(f"cosine_similarity: there is no dimension {dim} among {rank}")
    return ((x1 / _length(x1, dim, eps)) * (x2 / _length(x2, dim, eps))).sum(dim)


def _length(x, dim, eps):
    """The length of vectors, at least ``eps``. Shorter ones too have the gradient of their own length, as in torch."""
    length = clone(linalg_vector_norm(x, dim=dim, keepdim=True))
    (length.data if isinstance(length, Tensor) else length.detach()).clamp_(min=eps)
    return length


def cosine_of(x1, x2):
    """The cosine along the last dimension as cosine_embedding_loss has it: squares kept from 0 by a small number."""
    product, first, second = (x1 * x2).sum(-1), (x1 * x1).sum(-1) + 1e-12, (x2 * x2).sum(-1) + 1e-12
    return product / sqrt(first * second)


# The distances between two sets.

_BY_PRODUCTS = "use_mm_for_euclid_dist"
_IF_LARGE = "use_mm_for_euclid_dist_if_necessary"


def _two_sets(make: Make):
    """Two sets with every kind of norm and every way, batches of them, and sets without a vector."""
    yield from (Sample.of(make(4, 3), make(2, 3), p=p) for p in (0.5, 1.0, 1.5, 2.0, 3.0, math.inf))
    yield Sample.of(make(2, 4, 3), make(1, 2, 3))
    yield Sample.of(make(2, 1, 2, 3), make(3, 2, 3), compute_mode=_BY_PRODUCTS)
    yield Sample.of(make(1, 2, 1, 2, 3), make(3, 3), p=3.0)
    yield Sample.of(make(2, 3), make(27, 3))
    yield Sample.of(make(2, 3), make(27, 3), compute_mode="donot_use_mm_for_euclid_dist")
    yield Sample.of(make(0, 3), make(2, 3))


def _all_differences(x1, x2, p=2.0, compute_mode=_IF_LARGE):
    """Cdist in small steps, which torch can differentiate twice, unlike its kernel."""
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@op(
    formula=r"\|a_i - b_j\|_p",
    symbols={"x1": "a", "x2": "b"},
    kernel=torch.cdist,
    broadcasts=True,
    samples=_two_sets,
    ranks=range(2, 6),
    reference=_all_differences,
)
def cdist(x1, x2, *, p=2.0, compute_mode=_IF_LARGE):
    """The p-norm of the difference of every vector of x1 from every vector of x2.

    Nearest neighbours and kernels start with it. ``compute_mode`` says when Euclidean distances are computed from
    matrix products: always, never, or for more than 25 vectors. This is fast, but less exact where vectors are close.

    Shapes: x1 (..., P, D) and x2 (..., R, D), output (..., P, R). Raises ValueError for another ``compute_mode`` than
    torch's.
    """


def _by_products(p, compute_mode, *shapes):
    large = compute_mode == _IF_LARGE and max(shape[-2] for shape in shapes) > 25
    return p == 2 and (large or compute_mode == _BY_PRODUCTS)


@cdist.rule("x1", r"\sum_j \bar{y}_{ij} \, \nabla \|a_i - b_j\|_p")
def _(g, x1, x2, out, p, compute_mode):
    if not _by_products(p, compute_mode, x1.shape, x2.shape):
        return cdist_backward(g, x1, x2, out, p=p)
    ratio = where(out == 0, 0.0, g / out)
    return x1 * ratio.sum(-1, True) - ratio @ x2


@cdist.rule("x2", r"-\sum_i \bar{y}_{ij} \, \nabla \|a_i - b_j\|_p")
def _(g, x1, x2, out, p, compute_mode):
    g, out = g.transpose(-1, -2), out.transpose(-1, -2)
    if not _by_products(p, compute_mode, x1.shape, x2.shape):
        return cdist_backward(g, x2, x1, out, p=p)
    ratio = where(out == 0, 0.0, g / out)
    return x2 * ratio.sum(-1, True) - ratio @ x1


def _two_sets_and_gradients(make: Make):
    for (x1, x2), settings in _two_sets(make):
        distances = torch.cdist(x1, x2, p := settings.get("p", 2.0))
        yield Sample.of(make(*distances.shape), x1, x2, distances, p=p)


def _first_gradient_in_small_steps(g, x1, x2, distances, p):
    wide = x1.expand(*distances.shape[:-2], *x1.shape[-2:]).clone().detach().requires_grad_()
    wide = x1.expand(*distances.shape[:-2], *x1.shape[-2:]) if x1.requires_grad else wide
    return torch.autograd.grad(_all_differences(wide, x2, p), wide, g, create_graph=True)[0]


@op(
    formula=r"\sum_j g_{ij} \, \nabla \|a_i - b_j\|_p",
    symbols={"x1": "a", "x2": "b"},
    broadcasts=("x1", "x2"),
    no_gradient=("distances",),
    samples=_two_sets_and_gradients,
    ranks=range(2, 6),
    reference=_first_gradient_in_small_steps,
)
def cdist_backward(g, x1, x2, distances, *, p):
    """The gradient of cdist with regard to x1, not yet summed over broadcast dimensions; the one for x2 is alike.

    Shapes: g and distances (..., P, R), x1 (..., P, D), x2 (..., R, D), output (..., P, D).
    """
    if not g.numel():
        return x1.new_zeros((*g.shape[:-2], *x1.shape[-2:]))
    return aten._cdist_backward(g.contiguous(), x1.contiguous(), x2.contiguous(), p, distances.contiguous())


@cdist_backward.rule("g", r"\langle \bar{y}_i, \nabla \|a_i - b_j\|_p \rangle")
def _(gradient, x1, x2, p):
    between = unsqueeze(x1, dim=-2) - unsqueeze(x2, dim=-3)
    length = linalg_vector_norm(between, ord=p, dim=-1, keepdim=True)
    return (unsqueeze(gradient, dim=-2) * slope(torch.ones_like(raw_of(length)), between, length, p, -1)).sum(-1)


@cdist_backward.rule("x1", r"\sum_j g_{ij} \, \nabla^2 \|a_i - b_j\|_p \, \bar{y}_i")
def _(gradient, g, x1, x2, p):
    return torch.zeros_like(raw_of(x1)) if p in (1, math.inf) else _bent_between(gradient, g, x1, x2, p).sum(-2)


@cdist_backward.rule("x2", r"-\sum_i g_{ij} \, \nabla^2 \|a_i - b_j\|_p \, \bar{y}_i")
def _(gradient, g, x1, x2, p):
    return torch.zeros_like(raw_of(x2)) if p in (1, math.inf) else -_bent_between(gradient, g, x1, x2, p).sum(-3)


def _bent_between(gradient, g, x1, x2, p):
    """For every pair how its part of the gradient of x1 bends along ``gradient``."""
    between = unsqueeze(x1, dim=-2) - unsqueeze(x2, dim=-3)
    length = linalg_vector_norm(between, ord=p, dim=-1, keepdim=True)
    return unsqueeze(g, dim=-1) * _bent(between, unsqueeze(gradient, dim=-2), length, p)


def _bent(between, change, length, p):
    """The second derivative of the norm of differences, times ``change``; 0 where vectors are equal."""
    length = where(length == 0, math.inf, length)
    share = abs(between) / length
    direction = sgn(between) * share ** (p - 1)
    return ((p - 1) / length) * (share ** (p - 2) * change - direction * (direction * change).sum(-1, True))


# The distances within one set.


def _sets(make: Make):
    """Sets of vectors with every kind of norm, and sets without a pair."""
    yield from (Sample.of(make(4, 3), p=p) for p in (1.0, 1.5, 2.0, 3.0, math.inf))
    yield Sample.of(make(5, 2))
    yield Sample.of(make(1, 3))
    yield Sample.of(make(0, 3))


def _in_small_steps(input, p=2.0):
    """Pdist in small steps, which torch can differentiate twice, unlike its kernel."""
    first, second = torch.triu_indices(len(input), len(input), 1)
    return torch.linalg.vector_norm(input[first] - input[second], p, -1)


@op(formula=r"(\|x_i - x_j\|_p)_{i < j}", kernel=torch.pdist, samples=_sets, ranks=(2,), reference=_in_small_steps)
def pdist(input, *, p=2.0):
    """The p-norm of the difference of every pair of vectors in a set.

    Losses that spread embeddings apart (Wang and Isola 2020, https://arxiv.org/abs/2005.10242) need all of them.

    Shapes: input (N, D), output (N (N - 1) / 2,). Raises RuntimeError for a negative p.
    """


@pdist.rule("input", r"\sum_j \bar{y}_{ij} \, \nabla \|x_i - x_j\|_p")
def _(g, input, out, p):
    return pdist_backward(g, input, out, p=p)


def _sets_and_gradients(make: Make):
    for (x,), settings in _sets(make):
        distances = torch.pdist(x, settings.get("p", 2.0))
        yield Sample.of(make(*distances.shape), x, distances, **{"p": 2.0, **settings})


def _gradient_in_small_steps(g, input, distances, p):
    x = input if input.requires_grad else input.clone().requires_grad_()
    return torch.autograd.grad(_in_small_steps(x, p), x, g, create_graph=True)[0]


@op(
    formula=r"\sum_j g_{ij} \, \nabla \|x_i - x_j\|_p",
    no_gradient=("distances",),
    samples=_sets_and_gradients,
    ranks=(1,),
    reference=_gradient_in_small_steps,
)
def pdist_backward(g, input, distances, *, p):
    """The gradient of pdist, from its input and its output.

    Shapes: g and distances (N (N - 1) / 2,), input (N, D), output as input.
    """
    if input.is_meta or not len(g):
        return torch.zeros_like(input)  # torch's kernel would read memory that is not there
    return aten._pdist_backward(g.contiguous(), input.contiguous(), p, distances)


@pdist_backward.rule("g", r"\langle \bar{y}_i - \bar{y}_j, \nabla \|x_i - x_j\|_p \rangle")
def _(gradient, input, p):
    between, change, length, _ = _pairs(input, gradient, p)
    return (change * slope(torch.ones_like(raw_of(length)), between, length, p, -1)).sum(-1)


@pdist_backward.rule("input", r"\sum_j g_{ij} \, \nabla^2 \|x_i - x_j\|_p (\bar{y}_i - \bar{y}_j)")
def _(gradient, g, input, p):
    if p in (1, math.inf):
        return torch.zeros_like(raw_of(input))
    between, change, length, (first, second) = _pairs(input, gradient, p)
    each = unsqueeze(g, dim=-1) * _bent(between, change, length, p)
    shape = tuple(input.shape)
    return getitem_backward(each, index=(first,), shape=shape) - getitem_backward(each, index=(second,), shape=shape)


def _pairs(input, gradient, p):
    """For each pair of vectors: their difference, that of their gradients, the norm of the former, the two indices."""
    numbers = torch.triu_indices(input.shape[0], input.shape[0], 1, device=input.device).unbind()
    between, change = (getitem(x, index=(numbers[0],)) - getitem(x, index=(numbers[1],)) for x in (input, gradient))
    return between, change, linalg_vector_norm(between, ord=p, dim=-1, keepdim=True), numbers
