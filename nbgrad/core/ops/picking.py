"""Picking: elements and slices at the numbers in an index tensor, or where a mask holds."""

import torch

from nbgrad.core.indices import part
from nbgrad.core.op import install, op
from nbgrad.core.ops.choosing import where
from nbgrad.core.ops.indexing import gather_along, getitem
from nbgrad.core.samples import SHAPES, Make, Sample


def take_along_dim(input, indices, dim=None):
    """Along ``dim``, the elements at the numbers in ``indices``, which broadcasts with input in all other dimensions.

    Without ``dim`` both are taken as one line of elements. It picks by what ``argsort`` and ``argmax`` give.
    """
    if dim is None:
        return gather_along(input.reshape(-1), indices.reshape(-1), dim=0)
    if len(input.shape) != len(indices.shape):
        raise RuntimeError(
            f"take_along_dim(): input of shape {tuple(input.shape)} and indices of shape {tuple(indices.shape)} "
            "must have as many dimensions"
        )
    shape = list(torch.broadcast_shapes(*(_without(x.shape, dim) for x in (input, indices))))
    place = dim % len(input.shape)
    indices = _counted(indices, input.shape[place])
    stretched = [x.expand((*shape[:place], -1, *shape[place:])) for x in (input, indices)]
    return gather_along(*stretched, dim=dim)


def _counted(indices, size):
    """Indices that count from the end, which ``gather`` does not know, as those that count from the start."""
    return where(indices < 0, indices + size, indices)


def _without(shape, dim):
    return tuple(size for d, size in enumerate(shape) if d != dim % len(shape))


install("take_along_dim", take_along_dim)


def index_lines(make: Make):
    """Tensors, a dimension and indices along it."""
    for shape in ((), (5,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (2, 0, 3)):
        for dim in {0, len(shape) - 1} - {-1} or {0}:
            yield make(*shape), make.integers(shape[dim] if shape else 1, 3 if shape else 1), dim
    yield make(3, 4), torch.tensor([], dtype=torch.int64), -1


def _selections(make: Make):
    for x, index, dim in index_lines(make):
        yield Sample.of(x, index, dim=dim)
    yield Sample.of(make(3, 4), torch.tensor([2, 2, 0]), dim=-2)


@op(
    formula=r"x[\ldots, i, \ldots]",
    name="index_select",
    no_gradient=("index",),
    method=False,
    samples=_selections,
    reference=lambda x, index, dim: torch.index_select(x, dim, index),
)
def index_select_along(input, index, *, dim):
    """The slices along ``dim`` at the numbers in index.

    An embedding is one. A slice that is picked twice gets both gradients.

    Shapes: index of one dimension, output as input with the length of index along ``dim``. Raises IndexError where an
    index is out of range.
    """
    return torch.index_select(input, dim, index)


@index_select_along.rule("input", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, index, input_shape, dim):
    return index_select_backward(g, index, dim=dim, shape=input_shape)


def _unselections(make: Make):
    for sample in _selections(make):
        x, index = sample.args
        dim = sample.settings["dim"]
        yield Sample.of(make(*torch.index_select(x, dim, index).shape), index, dim=dim, shape=tuple(x.shape))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("index",),
    samples=_unselections,
    reference=lambda g, index, dim, shape: torch.zeros(shape, dtype=g.dtype).index_add(dim, index, g),
)
def index_select_backward(g, index, *, dim, shape):
    """Zeros of ``shape`` with the slices of g added along ``dim`` at the numbers in index.

    Shapes: g as what index picks, output as ``shape``.
    """
    return torch.zeros(shape, dtype=g.dtype, device=g.device).index_add_(dim, index, g)


@index_select_backward.rule("g", r"\bar{y}[\ldots, i, \ldots]")
def _(gradient, index, dim):
    return index_select_along(gradient, index, dim=dim)


def index_select(input, dim, index):
    """The slices along ``dim`` at the numbers in ``index``, in torch's order of arguments."""
    return index_select_along(input, index, dim=dim)


install("index_select", index_select)


def _takings(make: Make):
    for shape in SHAPES:
        size = torch.Size(shape).numel()
        yield Sample.of(make(*shape), make.integers(size or 1, 2, 2 if size else 0))
    yield Sample.of(make(2, 3), torch.tensor(-1))


@op(formula=r"x_{(i)}", no_gradient=("index",), samples=_takings)
def take(input, index):
    """The elements at the numbers in index, counted through all dimensions.

    Shapes: output as index. Raises IndexError where an index is out of range.
    """
    return torch.take(input, index)


@take.rule("input", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, index, input_shape):
    return take_backward(g, index, shape=input_shape)


def _untakings(make: Make):
    for sample in _takings(make):
        x, index = sample.args
        yield Sample.of(make(*index.shape), index, shape=tuple(x.shape))
    yield Sample.of(make(2, 1, 3), make.integers(6, 2, 1, 3), shape=(6,))
    yield Sample.of(make(2, 2, 1, 3), make.integers(6, 2, 2, 1, 3), shape=(6,))
    yield Sample.of(make(1, 2, 2, 1, 2), make.integers(6, 1, 2, 2, 1, 2), shape=(6,))
    yield Sample.of(make(3), make.integers(6, 3), shape=(2, 3))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("index",),
    samples=_untakings,
    reference=lambda g, index, shape: torch.zeros(shape, dtype=g.dtype).put(index, g, accumulate=True),
)
def take_backward(g, index, *, shape):
    """Zeros of ``shape`` with g added at the numbers in index, counted through all dimensions.

    Shapes: g and index alike, output as ``shape``.
    """
    return torch.zeros(shape, dtype=g.dtype, device=g.device).put_(index, g, accumulate=True)


@take_backward.rule("g", r"\bar{y}_{(i)}")
def _(gradient, index):
    return take(gradient, index)


def masked_select(input, mask):
    """The elements where the mask holds, in one line; input and mask broadcast.

    A loss over the words that were masked out takes these alone.
    """
    mask = part(mask)
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_select(): the mask must have the dtype bool, not {mask.dtype}")
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    whole = input if input.shape == shape else input.expand(tuple(shape))
    return getitem(whole, index=mask.expand(shape))


install("masked_select", masked_select)
