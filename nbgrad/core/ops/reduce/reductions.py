"""Sums, means and products over all dimensions or over some.

The gradient of a factor is the product of the others. Where no factor is 0 that is the product divided by the factor,
which costs one kernel; elsewhere it is computed without dividing.
"""

from functools import partial

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.backend.below_autograd import unrecorded
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import has_numbers, opaque, recorded
from nbgrad.core.dispatch.samples import Make, Sample, along_a_dim, reducing, unary
from nbgrad.core.ops.elementwise.select import either, where
from nbgrad.core.ops.index.getitem import getitem, getitem_backward
from nbgrad.core.ops.reduce.cumulative import reversed_cumsum


def dims_of(dim, rank):
    """The reduced dimensions as non-negative numbers: None and () mean all of them."""
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(d % rank if rank else 0 for d in ((dim,) if isinstance(dim, int) else dim))


def kept(reduced, shape, dim, keepdim):
    """The result of a reduction over ``dim``, with the reduced dimensions of ``shape`` as dimensions of size 1."""
    if reduced.shape and not keepdim:
        dims = dims_of(dim, len(shape))
        reduced = reduced.reshape(tuple(1 if d in dims else size for d, size in enumerate(shape)))
    return reduced


def stretched(reduced, shape, dim, keepdim):
    """The result of a reduction over ``dim``, expanded to the ``shape`` before the reduction, without copying."""
    # torch reads numbers twice as fast as a tuple of them.
    return kept(reduced, shape, dim, keepdim).expand(*shape) if shape else reduced


def count_of(shape, dim):
    """How many numbers a reduction over ``dim`` combines into one."""
    count = 1
    for d in dims_of(dim, len(shape)):
        count *= shape[d] if shape else 1
    return count


def _sums(make: Make):
    yield from reducing(make)
    yield Sample.of(make(2, 3), dtype=torch.float64)
    yield Sample.of(make.integers(5, 2, 3), dim=1)
    yield Sample.of(make(2, 3) > 0)


@op(formula=r"\sum_i x_i", kernel=torch.sum, samples=_sums)
def sum(x, *, dim=None, keepdim=False, dtype=None):
    """Sum over all elements, or over ``dim`` (a number or a tuple of numbers).

    Every element gets the same gradient, that of the sum: sum is broadcasting read backwards.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """


@sum.rule("x", r"\bar{y} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    return stretched(g, x_shape, dim, keepdim)


def _means(make: Make):
    yield from reducing(make)
    yield Sample.of(make.integers(5, 2, 3), dim=1, dtype=torch.float64)


@op(formula=r"\frac{1}{n} \sum_i x_i", kernel=torch.mean, samples=_means)
def mean(x, *, dim=None, keepdim=False, dtype=None):
    """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none.

    A loss over a batch is a mean, so its gradient does not grow with the batch.

    Shapes: output without the averaged dimensions, or with them as 1 with ``keepdim``.
    """


@mean.rule("x", r"\frac{\bar{y}}{n} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    count = count_of(x_shape, dim) or 1  # x is empty, and so is its gradient
    return stretched(g / count, x_shape, dim, keepdim)


def reductions(make: Make):
    """Each shape over some of its dimensions: fewer samples than ``reducing``, for rows that are much alike."""
    yield Sample.of(make())
    yield Sample.of(make(3))
    yield Sample.of(make(3), dim=0, keepdim=True)
    yield Sample.of(make(2, 3))
    yield Sample.of(make(2, 3), dim=-1)
    yield Sample.of(make(2, 3), dim=(0, 1))
    yield Sample.of(make(2, 1, 3), dim=(0, -1), keepdim=True)
    yield Sample.of(make(2, 2, 1, 3), dim=1)
    yield Sample.of(make(1, 2, 2, 1, 2), dim=(1, 2, 4))
    yield Sample.of(make(0, 3), dim=1)


def _with_nan(make: Make):
    yield from reductions(make)
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0], [nan, nan, nan]], dtype=torch.float64)
    yield Sample.of(x)
    yield Sample.of(x, dim=1, keepdim=True)
    yield Sample.of(x, dim=1, dtype=torch.float64)


@op(formula=r"\sum_i x_i \text{ without NaN}", kernel=torch.nansum, samples=_with_nan)
def nansum(input, *, dim=None, keepdim=False, dtype=None):
    """Sum over all elements, or over ``dim``, that are not NaN.

    Losses over data with gaps use it; a gap gets the gradient 0.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """


@nansum.rule("input", r"\bar{y} \text{ where } x \text{ is a number, else } 0")
def _(g, input, dim, keepdim):
    return stretched(g, input.shape, dim, keepdim) * input.isnan().logical_not()


def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """Mean over all elements, or over ``dim``, that are not NaN; NaN where there are none."""
    count = input.isnan().logical_not().sum(dim, keepdim)
    return nansum(input, dim=dim, keepdim=keepdim, dtype=dtype) / count


install("nanmean", nanmean)


def _logs(make: Make):
    for sample in reductions(make):
        dims = tuple(range(sample.args[0].ndim)) or 0
        yield Sample.of(*sample.args, **{"dim": dims, **sample.settings})
    yield Sample.of(torch.tensor([[1000.0, 1001.0], [float("-inf"), 0.0]], dtype=torch.float64), dim=1)


@op(formula=r"\ln \sum_i e^{x_i}", samples=_logs)
def logsumexp(input, *, dim, keepdim=False):
    """Logarithm of the sum of exponentials over ``dim`` (a number or a tuple of numbers), without overflow.

    It is a smooth maximum, and the logarithm of the divisor of softmax; its gradient is softmax. It normalizes mixtures
    of Gaussians and energy-based models.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """
    return torch.logsumexp(input, dim, keepdim)


@logsumexp.rule("input", r"\bar{y} \odot e^{x - y}")
def _(g, input, out, dim, keepdim):
    shape = input.shape
    return kept(g, shape, dim, keepdim) * (input - kept(out, shape, dim, keepdim)).exp()


def _truths(make: Make):
    for sample in reductions(make):
        yield Sample.of(sample.args[0] > 0, **sample.settings)
    yield Sample.of(make(2, 3))
    yield Sample.of(torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64), dim=1)


@op(formula=r"\bigvee_i x_i", differentiable=False, samples=_truths)
def any(input, *, dim=None, keepdim=False):
    """Whether any element is not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    ``x.isnan().any()`` finds a loss that has blown up.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.any(input) if dim is None and not keepdim else torch.any(input, dim, keepdim)


@op(formula=r"\bigwedge_i x_i", differentiable=False, samples=_truths)
def all(input, *, dim=None, keepdim=False):
    """Whether all elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.all(input) if dim is None and not keepdim else torch.all(input, dim, keepdim)


def _counts(make: Make):
    for sample in _truths(make):
        yield Sample.of(sample.args[0], dim=sample.settings.get("dim"))


@op(formula=r"\sum_i [x_i \neq 0]", kernel=torch.count_nonzero, differentiable=False, samples=_counts)
def count_nonzero(input, *, dim=None):
    """How many elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    It measures sparsity: how many units of a layer are dead, how many weights a pruning has left.

    Shapes: output without the reduced dimensions.
    """


def _chosen_by_zeros(with_zeros, without, *inputs):
    """The result of a rule that is faster if its second-to-last input has no element that is 0."""
    x = inputs[-2].data
    if x.is_meta:
        return with_zeros(*inputs)
    zeros = (x == 0).any()
    if not has_numbers(x):
        return either(zeros, with_zeros, without, *inputs)
    return (with_zeros if bool(zeros) else without)(*inputs)


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
    g, out = kept(g, shape, dim, keepdim), kept(out, shape, dim, keepdim)
    if recorded(g, x, out):
        return _chosen_by_zeros(partial(_by_others, dim), _by_division, g, x, out)
    return _slope_of_prod(dim, g, x, out)


def _by_division(g, x, out):
    return g * (out / x)


def _by_others(dim, g, x, out):  # it takes the arguments of _by_division
    return g * (_others(x.reshape(-1), 0).reshape(x.shape) if dim is None else _others(x, dim))


def _like_the_input(dim, g, x, out):  # it takes the arguments of what it stands for
    return torch.empty_like(x)


@opaque(_like_the_input)
def _slope_of_prod(dim, g, x, out):
    return _chosen_by_zeros(partial(_by_others, dim), _by_division, g, x, out)


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

    In volume rendering it gives the light that is left after each sample of a ray (Mildenhall et al. 2020,
    https://arxiv.org/abs/2003.08934); in diffusion, the signal that is left after each step.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.cumprod(input, dim, dtype=dtype)


@cumprod.rule("input", r"\sum_{j \geq i} \bar{y}_j \prod_{k \leq j, k \neq i} x_k")
def _(g, input, out, dim):
    x = input.to(dtype=g.dtype)
    if recorded(g, x, out):
        return _chosen_by_zeros(partial(_scan_of_others, dim), partial(_scan_of_all, dim), g, x, out)
    return _slope_of_cumprod(dim, g, x, out)


def _scan_of_all(dim, g, x, out):
    return reversed_cumsum(g * out, dim) / x


def _scan_of_others(dim, g, x, out):  # it takes the arguments of _scan_of_all
    return cumprod_backward(g, x, dim=dim)


@opaque(_like_the_input)
def _slope_of_cumprod(dim, g, x, out):
    return _chosen_by_zeros(partial(_scan_of_others, dim), partial(_scan_of_all, dim), g, x, out)


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
    reference=lambda g, x, dim: _without_graph(g, x, dim=dim) + 0 * x,  # for a single number it does not depend on x
)
def cumprod_backward(g, x, *, dim):
    """The gradient of cumprod where an element may be 0.

    Shapes: g and x alike, output as g.
    """
    return torch.empty_like(x) if x.is_meta else _by_kernel(dim, g, x)


@opaque(lambda dim, g, x: torch.empty_like(x))  # noqa: ARG005
def _by_kernel(dim, g, x):
    return unrecorded(_without_graph, g, x, dim=dim)  # torch's kernel is slower if torch's autograd may record it


# Let y be the output. Then sum_i v_i y_i = sum_i sum_(j >= i) g_j p_ij. Here p_i is the running product of x with x_i
# replaced by v_i. The changed x, one for each i, are the rows of a square matrix.


def _replaced(v, x, dim):
    """The matrices whose row i is x along ``dim`` with element i replaced by that of v; and a mask of the new ones."""
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
