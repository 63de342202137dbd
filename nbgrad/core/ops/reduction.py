"""Reductions: many numbers become one, over all dimensions or over some."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.ops.elementwise import where
from nbgrad.core.ops.indexing import gather_backward
from nbgrad.core.samples import Make, Sample, along_a_dim, binary, reducing, unary


def _dims(dim, rank):
    """The reduced dimensions as non-negative numbers: None and () mean all of them."""
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(d % rank if rank else 0 for d in ((dim,) if isinstance(dim, int) else dim))


def _stretched(reduced, shape, dim, keepdim):
    """What a reduction over ``dim`` gave, put back to the ``shape`` that it reduced, without copying."""
    if reduced.shape and not keepdim:
        dims = _dims(dim, len(shape))
        reduced = reduced.reshape(tuple(1 if d in dims else size for d, size in enumerate(shape)))
    return reduced.expand(shape)


def _count(shape, dim):
    """How many numbers a reduction over ``dim`` combines into one."""
    count = 1
    for d in _dims(dim, len(shape)):
        count *= shape[d] if shape else 1
    return count or 1  # of nothing: no element's gradient depends on it


@op(formula=r"\sum_i x_i", samples=reducing)
def sum(x, *, dim=None, keepdim=False, dtype=None):
    """Sum over all elements, or over ``dim`` (a number or a tuple of numbers).

    Every element gets the same gradient, that of the sum: sum is broadcasting read backwards.

    Shapes: output without the summed dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.sum(x, dim, keepdim, dtype=dtype)


@sum.rule("x", r"\bar{y} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    return _stretched(g, x_shape, dim, keepdim)


@op(formula=r"\frac{1}{n} \sum_i x_i", samples=reducing)
def mean(x, *, dim=None, keepdim=False, dtype=None):
    """Mean over all elements, or over ``dim`` (a number or a tuple of numbers); NaN where there are none.

    A loss over a batch is a mean, so its gradient does not grow with the batch.

    Shapes: output without the averaged dimensions, or with them as 1 with ``keepdim``.
    """
    return torch.mean(x, dim, keepdim, dtype=dtype)


@mean.rule("x", r"\frac{\bar{y}}{n} \text{, stretched to the shape of } x")
def _(g, x_shape, dim, keepdim):
    return _stretched(g / _count(x_shape, dim), x_shape, dim, keepdim)


def _with_ties(make: Make):
    """Reductions of something, and ties."""
    for sample in reducing(make):
        if sample.args[0].numel():
            yield sample
    yield Sample.of(make(2, 0, 3), dim=0)
    yield Sample.of(torch.tensor([3.0, 3.0, 3.0, 1.0], dtype=torch.float64))
    yield Sample.of(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], dtype=torch.float64))
    yield Sample.of(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], dtype=torch.float64), dim=1)


@op(formula=r"\max_i x_i", samples=_with_ties)
def amax(x, *, dim=(), keepdim=False):
    """The largest element, or the largest along ``dim`` (a number or a tuple of numbers).

    Ties share the gradient evenly, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``. Raises IndexError where a
    reduced dimension is empty.
    """
    return torch.amax(x, dim, keepdim)


@amax.rule("x", r"\frac{\bar{y}}{\text{number of ties}} \text{ where } x = y \text{, else } 0")
def _(g, x, out, dim, keepdim):
    shape = x.shape
    ties = (x == _stretched(out, shape, dim, keepdim)).to(dtype=g.dtype)
    shared = ties / ties.sum(_dims(dim, len(shape)), True)
    return _stretched(g, shape, dim, keepdim) * shared


def _not_empty_along_a_dim(make: Make):
    for sample in along_a_dim(make):
        shape = sample.args[0].shape
        if not shape or shape[sample.settings["dim"]]:
            yield sample
    yield Sample.of(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]], dtype=torch.float64), dim=1)
    yield Sample.of(make(2, 3), dim=-1, keepdim=True)


@op(
    formula=r"\max_i x_i",
    outputs=("values", "indices"),
    method=False,
    samples=_not_empty_along_a_dim,
    reference=torch.max,
)
def max_along(x, *, dim, keepdim=False):
    """The largest elements along ``dim`` and their indices, as ``(values, indices)``.

    Max pooling is this: the gradient goes to the winner alone, the first or last one as the kernel chose among ties.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError where ``dim`` is empty.
    """
    return tuple(torch.max(x, dim, keepdim))


@max_along.rule("x", r"\bar{y} \text{ at the index of the maximum, } 0 \text{ elsewhere}")
def _(g, indices, x_shape, dim, keepdim):
    if x_shape and not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return gather_backward(g, indices, dim=dim, shape=x_shape)


def _pairs_to_compare(make: Make):
    """Every pair of shapes that broadcasts, and a tie."""
    for sample in binary(make):
        if all(isinstance(arg, torch.Tensor) for arg in sample.args):
            yield sample
    yield Sample.of(torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64))


@op(formula=r"\max(a, b)", broadcasts=True, samples=_pairs_to_compare)
def maximum(a, b):
    """The larger of a and b, elementwise, broadcasting.

    At a tie each side gets half of the gradient, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.maximum(a, b)


@maximum.rule("a", r"\bar{y} \text{ where } a > b \text{, half at a tie, else } 0")
def _(g, a, b):
    return where(a == b, g / 2, where(a < b, 0.0, g))


@maximum.rule("b", r"\bar{y} \text{ where } b > a \text{, half at a tie, else } 0")
def _(g, a, b):
    return where(a == b, g / 2, where(b < a, 0.0, g))


def max(input, dim=None, keepdim=False):
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    if dim is None:
        return amax(input)
    return max_along(input, dim=dim, keepdim=keepdim) if isinstance(dim, int) else maximum(input, dim)


install("max", max)


def _argmax_samples(make: Make):
    yield from (sample for sample in unary(make) if sample.args[0].numel())
    yield from _not_empty_along_a_dim(make)


@op(formula=r"\arg\max_i x_i", differentiable=False, samples=_argmax_samples)
def argmax(x, *, dim=None, keepdim=False):
    """The index of the largest element, or of the largest along ``dim``; it has no gradient.

    The class that a classifier predicts is the argmax of its scores.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """
    return torch.argmax(x, dim, keepdim)
