"""Reductions: many numbers become one, over all dimensions or over some."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.samples import Make, Sample, reducing


def dims_of(dim, rank):
    """The reduced dimensions as non-negative numbers: None and () mean all of them."""
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(d % rank if rank else 0 for d in ((dim,) if isinstance(dim, int) else dim))


def kept(reduced, shape, dim, keepdim):
    """What a reduction over ``dim`` gave, with the dimensions that it took from ``shape`` as dimensions of size 1."""
    if reduced.shape and not keepdim:
        dims = dims_of(dim, len(shape))
        reduced = reduced.reshape(tuple(1 if d in dims else size for d, size in enumerate(shape)))
    return reduced


def stretched(reduced, shape, dim, keepdim):
    """What a reduction over ``dim`` gave, put back to the ``shape`` that it reduced, without copying."""
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


@op(formula=r"\sum_i x_i", samples=_sums)
def sum(x, *, dim=None, keepdim=False, dtype=None):
    """Sum over all elements, or over ``dim`` (a number or a tuple of numbers).

    Every element gets the same gradient, that of the sum: sum is broadcasting read backwards.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.sum(x, dim, keepdim, dtype=dtype)


@sum.rule("x", r"\bar{y} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    return stretched(g, x_shape, dim, keepdim)


def _means(make: Make):
    yield from reducing(make)
    yield Sample.of(make.integers(5, 2, 3), dim=1, dtype=torch.float64)


@op(formula=r"\frac{1}{n} \sum_i x_i", samples=_means)
def mean(x, *, dim=None, keepdim=False, dtype=None):
    """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none.

    A loss over a batch is a mean, so its gradient does not grow with the batch.

    Shapes: output without the averaged dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.mean(x, dim, keepdim, dtype=dtype)


@mean.rule("x", r"\frac{\bar{y}}{n} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    count = count_of(x_shape, dim) or 1  # of nothing: no element's gradient depends on it
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


@op(formula=r"\sum_i x_i \text{ without NaN}", samples=_with_nan)
def nansum(input, *, dim=None, keepdim=False, dtype=None):
    """Sum over all elements, or over ``dim``, that are not NaN.

    Losses over data with gaps use it; a gap gets the gradient 0.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.nansum(input, dim, keepdim, dtype=dtype)


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

    It is a smooth maximum, and what softmax divides by; its gradient is softmax. The normalizer of mixtures of
    Gaussians and of energy-based models is one.

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


@op(formula=r"\sum_i [x_i \neq 0]", differentiable=False, samples=_counts)
def count_nonzero(input, *, dim=None):
    """How many elements are not 0, of all or along ``dim`` (a number or a tuple of numbers); it has no gradient.

    It measures sparsity: how many units of a layer are dead, how many weights a pruning has left.

    Shapes: output without the reduced dimensions.
    """
    return torch.count_nonzero(input, dim)
