"""Sorting and searching along a dimension."""

import torch

from nbgrad.core.dispatch.function import Function
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample, along_a_dim
from nbgrad.core.engine.state import is_grad_enabled
from nbgrad.core.ops.elementwise import select
from nbgrad.core.ops.reduce.extremes import not_empty_along_a_dim, selecting
from nbgrad.core.tensor.tensor import Tensor


def _orders(make: Make):
    yield from along_a_dim(make)
    ties = torch.tensor([[1.0, 3.0, 3.0, 1.0], [2.0, 0.0, 0.0, float("nan")]], dtype=torch.float64)
    yield Sample.of(ties, dim=1, stable=True)
    yield Sample.of(ties, dim=1, descending=True, stable=True)
    yield Sample.of(make(3, 4), descending=True)


@selecting
@op(
    formula=r"x_{\pi(i)} \text{ in ascending order}",
    outputs=("values", "indices"),
    samples=_orders,
    reference=lambda x, dim=-1, descending=False, stable=False: torch.sort(
        x, dim=dim, descending=descending, stable=stable
    ),
)
def sort(input, *, dim=-1, descending=False, stable=False):
    """The elements along ``dim`` in order, and where each was, as ``(values, indices)``.

    With ``stable`` equal elements keep their order. The sliced Wasserstein distance sorts projections. Each gradient
    goes back to where its element was.

    Shapes: both outputs as input. Raises IndexError where input has no dimension ``dim``.
    """
    return tuple(torch.sort(input, dim=dim, descending=descending, stable=bool(stable)))


@op(
    formula=r"\pi \text{ that sorts } x",
    differentiable=False,
    samples=_orders,
    reference=lambda x, dim=-1, descending=False, stable=False: torch.argsort(
        x, dim=dim, descending=descending, stable=stable
    ),
)
def argsort(input, *, dim=-1, descending=False, stable=False):
    """The indices that put the elements along ``dim`` in order; they have no gradient.

    Ranking metrics need them.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.argsort(input, dim=dim, descending=descending, stable=bool(stable))


def msort(input):
    """The elements in order along the first dimension."""
    return sort(input, dim=0).values


install("msort", msort)


def _best(make: Make):
    yield Sample.of(make(), k=1, dim=0)
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), k=shape[-1] // 2)
        yield Sample.of(make(*shape), k=shape[0], dim=0, largest=False)
    yield Sample.of(torch.tensor([1.0, 3.0, 3.0, 2.0], dtype=torch.float64), k=3)
    yield Sample.of(make(2, 3), k=0)
    yield Sample.of(make(2, 5), k=3, sorted=False)


@selecting
@op(formula=r"x_{\pi(1)}, \ldots, x_{\pi(k)}", outputs=("values", "indices"), samples=_best)
def topk(input, *, k, dim=-1, largest=True, sorted=True):
    """The k largest elements along ``dim``, or the smallest, and where they are, as ``(values, indices)``.

    A mixture of experts sends each token to its top k (Shazeer et al. 2017, https://arxiv.org/abs/1701.06538); the
    others get the gradient 0.

    Shapes: both outputs as input with k along ``dim``. Raises RuntimeError where there are fewer than k.
    """
    return tuple(torch.topk(input, k, dim, largest, sorted))


def _kths(make: Make):
    for sample in not_empty_along_a_dim(make):
        x = sample.args[0]
        yield Sample.of(x, **{"k": x.shape[sample.settings["dim"]] if x.ndim else 1, **sample.settings})
    yield Sample.of(make(2, 5), k=2)


@selecting
@op(formula=r"x_{(k)}", outputs=("values", "indices"), samples=_kths)
def kthvalue(input, *, k, dim=-1, keepdim=False):
    """The k-th smallest element along ``dim``, counted from 1, and where it is, as ``(values, indices)``.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises RuntimeError where there are fewer.
    """
    return tuple(torch.kthvalue(input, k, dim, keepdim))


# Searching


def _insertions(make: Make):
    edges = torch.tensor([-1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    for shape in SHAPES:
        yield make(*shape), edges
    yield torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64), edges


def _searches(make: Make):
    for x, edges in _insertions(make):
        yield Sample.of(edges, x)
    for shape in SHAPES[2:6]:
        x = make(*shape)
        yield Sample.of(x.sort().values, make(*shape), right=True)
    yield Sample.of(edges, 0.0, side="right", out_int32=True)
    yield Sample.of(edges.flip(0), x[0, 0, 0, 0], sorter=torch.tensor([3, 2, 1, 0]))


@op(
    formula=r"\text{where each } x \text{ belongs in the sorted } s",
    symbols={"sorted_sequence": "s"},
    differentiable=False,
    samples=_searches,
    ranks=range(1, 6),
)
def searchsorted(sorted_sequence, input, sorter=None, *, out_int32=False, right=False, side=None):
    """The index along the last dimension where each number can be inserted to keep the sequence sorted; no gradient.

    It draws from a distribution by its cumulative sum. With ``right`` or ``side="right"`` the index is after equal
    numbers, else before them. ``sorter`` holds the indices that sort an unsorted sequence.

    Shapes: output as input, whose leading dimensions are those of the sequence, unless that has one dimension. Raises
    RuntimeError where they differ.
    """
    return torch.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)


def _buckets(make: Make):
    for x, edges in _insertions(make):
        yield Sample.of(x, edges)
    yield Sample.of(x, edges, right=True, out_int32=True)
    yield Sample.of(0.5, edges)


@op(
    formula=r"\text{the interval of } b \text{ in which each } x \text{ lies}",
    symbols={"boundaries": "b"},
    kernel=torch.bucketize,
    differentiable=False,
    samples=_buckets,
)
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The number of the interval between sorted boundaries in which each number lies; it has no gradient.

    Continuous features become categories so, and distances become the buckets of a relative position bias.

    Shapes: boundaries of one dimension, output as input. Raises RuntimeError for other boundaries.
    """


def _memberships(make: Make):
    some = torch.tensor([0, 2])
    for shape in SHAPES:
        yield Sample.of(make.integers(4, *shape), some)
    yield Sample.of(make.integers(4, 2, 3), some, invert=True)
    yield Sample.of(torch.tensor([3, 1, 2]), some, assume_unique=True)
    yield Sample.of(make.integers(4, 3), 2)
    yield Sample.of(2, some)


@op(
    formula=r"x \in S",
    symbols={"elements": "x", "test_elements": "S"},
    kernel=torch.isin,
    differentiable=False,
    samples=_memberships,
)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among others; it has no gradient.

    Masks of special tokens are made so.

    Shapes: output as elements.
    """


# The size of these results depends on the values, so they are no rows: the shapes of a row follow from shapes alone.


def _wrapped(input, result):
    """A raw result, as a ``Tensor`` if the input is one."""
    if not isinstance(input, Tensor):
        return result
    return tuple(map(Tensor, result)) if isinstance(result, tuple) else Tensor(result)


def nonzero(input, *, as_tuple=False):
    """The indices of the elements that are not 0, one row each, or one tensor for each dimension with ``as_tuple``."""
    return _wrapped(input, torch.nonzero(input.data, as_tuple=as_tuple))


def argwhere(input):
    """The indices of the elements that are not 0, one row each."""
    return _wrapped(input, torch.argwhere(input.data))


def where(condition, input=None, other=None):
    """Elements of input where the condition holds, of other elsewhere; with no input, the indices where it holds.

    The indices are a tuple with a tensor for each dimension, as ``nonzero`` with ``as_tuple`` gives them; they have no
    gradient. The condition, input and other broadcast to each other; the gradient goes to the side that was chosen.

    Raises:
        TypeError: one of input and other is missing.
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or with two tensors or numbers to choose from, not with one")
    return select.where(condition, input, other)


class Unique(Function):
    """The values that ``unique`` has found. A backward that comes to them is an error, as in torch."""

    @staticmethod
    def forward(_ctx, values, _input):
        return values

    @staticmethod
    def backward(_ctx, _gradient):
        raise NotImplementedError(
            "unique() has no gradient, as in torch: call it on x.detach(), or take the values with "
            "x.gather(...) or x[indices], through which gradients flow"
        )


def _found(function, input, *args, **settings):
    """The results of a function of torch for ``input``; the values, and only these, depend on it."""
    results = function(input.data if isinstance(input, Tensor) else input, *args, **settings)
    if not isinstance(input, Tensor) or not input.requires_grad or not is_grad_enabled():
        return _wrapped(input, results)
    values, *others = results if isinstance(results, tuple) else (results,)
    reached = Unique.apply(Tensor(values), input)
    return (reached, *map(Tensor, others)) if others else reached


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The elements, or the slices along ``dim``, each once; a backward that comes to them is an error.

    With ``return_inverse`` also which of them each element is, with ``return_counts`` how often each occurs.
    """
    settings = {"return_inverse": return_inverse, "return_counts": return_counts, "dim": dim}
    return _found(torch.unique, input, sorted, **settings)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or the slices along ``dim``, with equal neighbours merged; with the settings of ``unique``."""
    settings = {"return_inverse": return_inverse, "return_counts": return_counts, "dim": dim}
    return _found(torch.unique_consecutive, input, **settings)


for _function in (nonzero, argwhere, unique, unique_consecutive):
    install(_function.__name__, _function)
