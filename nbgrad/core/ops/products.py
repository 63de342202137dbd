"""Products: of all elements, along a dimension, and running ones, with gradients that are right where an element is 0.

The gradient of a factor is the product of the others. Where no factor is 0 that is the product divided by the factor,
which costs one kernel; elsewhere it is computed without dividing.
"""

import torch

from nbgrad.core.dispatch import unrecorded
from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.choosing import where
from nbgrad.core.ops.indexing import getitem, getitem_backward
from nbgrad.core.ops.reduction import kept
from nbgrad.core.ops.scan import reversed_cumsum
from nbgrad.core.samples import Make, Sample, along_a_dim, unary


def _may_have_zeros(x):
    return x.device.type == "meta" or bool((x.data == 0).any())


def _zeros(*dims):
    """Factors of which none, one, two and all are 0."""
    rows = [[1.5, 2.0, -0.5], [1.5, 0.0, -0.5], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    x = torch.tensor(rows, dtype=torch.float64)
    for dim in dims:
        yield Sample.of(x.clone(), dim=dim)


def _products(make: Make):
    yield from unary(make)
    yield from along_a_dim(make)
    yield Sample.of(make(2, 1, 3), dim=1, keepdim=True)
    yield from _zeros(0, 1)
    for row in next(_zeros(0)).args[0]:
        yield Sample.of(row)
    yield Sample.of(torch.zeros((), dtype=torch.float64))
    yield Sample.of(make.integers(4, 2, 3), dim=1, dtype=torch.float64)


@op(formula=r"\prod_i x_i", samples=_products)
def prod(input, *, dim=None, keepdim=False, dtype=None):
    """Product of all elements, or along ``dim``.

    Likelihoods of independent events are products, and so is the determinant of a triangular Jacobian.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """
    return torch.prod(input, dtype=dtype) if dim is None else torch.prod(input, dim, keepdim, dtype=dtype)


@prod.rule("input", r"\bar{y} \odot \prod_{j \neq i} x_j")
def _(g, input, out, dim, keepdim):
    shape = input.shape
    if not shape:
        return g
    x = input.to(dtype=g.dtype)
    if not _may_have_zeros(x):
        return kept(g, shape, dim, keepdim) * (kept(out, shape, dim, keepdim) / x)
    others = _others(x.reshape(-1), 0).reshape(shape) if dim is None else _others(x, dim)
    return kept(g, shape, dim, keepdim) * others


def _others(x, dim):
    """For each element along ``dim`` the product of all others: of those before it and those after it."""
    return cumprod(_shifted(x, dim), dim=dim) * cumprod(_shifted(x.flip(dim), dim), dim=dim).flip(dim)


def _shifted(x, dim):
    """The elements moved one place up along ``dim``, after a 1."""
    before = (slice(None),) * (dim % len(x.shape))
    first = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    first[(*before, slice(0, 1))] = 1
    rest = getitem(x, index=(*before, slice(None, -1)))
    return first + getitem_backward(rest, index=(*before, slice(1, None)), shape=x.shape)


def _running(make: Make):
    yield from along_a_dim(make)
    yield from _zeros(0, 1)
    yield Sample.of(torch.zeros((), dtype=torch.float64), dim=0)
    yield Sample.of(make.integers(4, 2, 3), dim=1, dtype=torch.float64)


@op(formula=r"\prod_{j \leq i} x_j", inplace=True, samples=_running)
def cumprod(input, *, dim, dtype=None):
    """The running product along ``dim``.

    The light that is left after each sample of a ray is one in volume rendering (Mildenhall et al. 2020,
    https://arxiv.org/abs/2003.08934), and so is the signal that is left after each step of a diffusion.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.cumprod(input, dim, dtype=dtype)


@cumprod.rule("input", r"\sum_{j \geq i} \bar{y}_j \prod_{k \leq j, k \neq i} x_k")
def _(g, input, out, dim):
    x = input.to(dtype=g.dtype)
    if not _may_have_zeros(x):
        return reversed_cumsum(g * out, dim) / x
    return cumprod_backward(g, x, dim=dim)


def _running_backwards(make: Make):
    for sample in _running(make):
        if sample.args[0].is_floating_point():
            x = sample.args[0]
            yield Sample.of(make(*x.shape), x, dim=sample.settings["dim"])


def _without_graph(g, x, *, dim):
    x = x.conj()  # which torch's kernel undoes
    return aten.cumprod_backward(g, x, dim, torch.cumprod(x, dim))


@op(
    formula=r"\sum_{j \geq i} g_j \prod_{k \leq j, k \neq i} x_k",
    samples=_running_backwards,
    reference=lambda g, x, dim: _without_graph(g, x, dim=dim) + 0 * x,  # one number does not depend on x
)
def cumprod_backward(g, x, *, dim):
    """The gradient of cumprod where an element may be 0.

    Shapes: g and x alike, output as g.
    """
    if x.is_meta:
        return torch.empty_like(x)
    return unrecorded(_without_graph, g, x, dim=dim)  # torch's kernel is slower where its own autograd may follow


# The sum over all i of v_i times the output is the sum over i and j >= i of g_j times the running product of x with
# x_i replaced by v_i: one row of a square matrix for each i.


def _replaced(v, x, dim):
    """The matrices whose row i is x along ``dim`` with element i replaced by that of v; and where that is."""
    size = x.shape[dim]
    diagonal = torch.eye(size, dtype=torch.bool, device=x.device)
    return where(diagonal, v.transpose(dim, -1).unsqueeze(-1), x.transpose(dim, -1).unsqueeze(-2)), diagonal


def _from_the_diagonal_on(rows):
    size = rows.shape[-1]
    return rows * torch.ones(size, size, dtype=rows.dtype, device=rows.device).triu()


@cumprod_backward.rule("g", r"\sum_{i \leq j} \bar{y}_i \prod_{k \leq j, k \neq i} x_k")
def _(gradient, x, dim):
    if not x.shape:
        return gradient
    rows, _ = _replaced(gradient, x, dim)
    return _from_the_diagonal_on(cumprod(rows, dim=-1)).sum(-2).transpose(dim, -1)


@cumprod_backward.rule("x", r"\sum_{i \neq l} \sum_{j \geq i, l} \bar{y}_i g_j \prod_{k \leq j, k \neq i, l} x_k")
def _(gradient, g, x, dim):
    if not x.shape:
        return gradient * 0
    rows, diagonal = _replaced(gradient, x, dim)
    later = _from_the_diagonal_on(g.transpose(dim, -1).unsqueeze(-2).expand(rows.shape))
    slopes = cumprod_backward(later, rows, dim=-1)
    return where(diagonal, 0.0, slopes).sum(-2).transpose(dim, -1)
