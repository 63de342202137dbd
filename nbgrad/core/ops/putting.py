"""Putting: values at places counted through a whole tensor, at masks, at indices, at slices and on diagonals."""

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.indices import mask_or_positions
from nbgrad.core.kernels import aten
from nbgrad.core.op import install, op
from nbgrad.core.ops.choosing import where
from nbgrad.core.ops.indexing import getitem
from nbgrad.core.ops.picking import take
from nbgrad.core.samples import SHAPES, Make, Sample


def _zeros(g, shape=()):
    return torch.zeros(shape, dtype=g.dtype, device=g.device)


def _puts(make: Make):
    for shape in SHAPES:
        size = torch.Size(shape).numel()
        index = torch.arange(size).flip(0)[: max(size - 1, 1)]
        yield Sample.of(make(*shape), index, make(*index.shape))
    yield Sample.of(make(2, 3), torch.tensor([[1, 4], [1, -1]]), make(4), accumulate=True)


@op(
    formula=r"s \text{ at } (i) \text{, } x \text{ elsewhere}",
    no_gradient=("index",),
    inplace=True,
    samples=_puts,
    reference=torch.Tensor.put,
)
def put(input, index, source, *, accumulate=False):
    """Input with the elements at the numbers in index, counted through all dimensions, replaced by those of source.

    With ``accumulate`` they are added, repeated places included.

    Shapes: source has as many elements as index, output as input. Raises IndexError where an index is out of range.
    """
    return input.put(index, source, accumulate)


@put.rule("input", r"0 \text{ at } (i) \text{, } \bar{y} \text{ elsewhere; all of } \bar{y} \text{ where added}")
def _(g, index, accumulate):
    return g if accumulate else put(g, index, _zeros(g, index.shape))


@put.rule("source", r"\bar{y}_{(i)}")
def _(g, index, source_shape):
    return take(g, index).reshape(source_shape)


# At a mask


def _masked(make: Make):
    for shape in SHAPES:
        x = make(*shape)
        mask = make(*shape) > 0
        yield x, mask, make(max(int(mask.sum()), 1))
    yield make(2, 3), torch.tensor([True, False, True]), make(3, 2)
    yield make(2, 3), torch.tensor([[True], [False]]), make(4)
    yield make(3), torch.tensor([[True], [False]]), make(4)


def _masked_scatters(make: Make):
    yield from (Sample.of(*args) for args in _masked(make))


@op(
    formula=r"s \text{ where } m \text{, } x \text{ elsewhere}",
    broadcasts=("input",),
    no_gradient=("mask",),
    inplace=True,
    samples=_masked_scatters,
)
def masked_scatter(input, mask, source):
    """Input with the elements where the mask holds replaced by those of source, in order.

    The features of an image take the places that a text keeps for them with it.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where source has fewer elements than the mask
    holds places.
    """
    return torch.masked_scatter(input, mask, source)


@masked_scatter.rule("input", r"0 \text{ where } m \text{, else } \bar{y}")
def _(g, mask):
    return where(mask, 0.0, g)


@masked_scatter.rule("source", r"\bar{y} \text{ where } m \text{, then zeros}")
def _(g, mask, source_shape):
    return masked_scatter_backward(g, mask, shape=source_shape)


def _masked_gathers(make: Make):
    for x, mask, source in _masked(make):
        yield Sample.of(make(*torch.broadcast_shapes(x.shape, mask.shape)), mask, shape=tuple(source.shape))


def _picked(g, mask, *, shape):
    return aten.masked_scatter_backward(g, mask, shape)


@op(
    formula=r"g \text{ where } m \text{, then zeros}",
    no_gradient=("mask",),
    samples=_masked_gathers,
    reference=lambda g, mask, shape: _picked(g, mask, shape=shape),
)
def masked_scatter_backward(g, mask, *, shape):
    """The elements of g where the mask holds, filled up with zeros to ``shape``.

    Shapes: the mask broadcasts to g, output as ``shape``.
    """
    return g.new_empty(shape) if g.is_meta else _picked(g, mask, shape=shape)


@masked_scatter_backward.rule("g", r"\bar{y} \text{ where } m \text{, else } 0")
def _(gradient, mask, g_shape):
    return masked_scatter(_zeros(gradient, g_shape), mask, gradient)


# At indices


def _index_puts(make: Make):
    for shape in SHAPES[1:6]:
        index = torch.arange(shape[0] - 1, -1, -1)
        yield Sample.of(make(*shape), make(*shape), indices=(index,))
    x, rows, cols = make(3, 4), torch.tensor([0, 2, 0]), torch.tensor([1, 1, 1])
    yield Sample.of(x, make(), indices=(rows[:2], cols[:2]))
    yield Sample.of(x, make(3), indices=(rows, cols), accumulate=True)
    yield Sample.of(x, make(4), indices=(rows,), accumulate=True)
    yield Sample.of(x, make(), indices=(x > 0,))
    yield Sample.of(x, make(3, 2), indices=(None, cols[:1] + torch.arange(2)))
    yield Sample.of(make(0, 2), make(0, 2), indices=(rows[:0],))


@op(
    formula=r"v \text{ at } i \text{, } x \text{ elsewhere}",
    name="index_put",
    broadcasts=("values",),
    no_gradient=(),
    method=False,
    inplace=lambda raw, values, indices, accumulate=False: aten.index_put_(raw, indices, values, accumulate),
    samples=_index_puts,
    reference=lambda x, values, indices, accumulate=False: aten.index_put(x, indices, values, accumulate),
)
def index_put_at(input, values, *, indices, accumulate=False):
    """Input with the elements at ``indices``, one tensor for each dimension, replaced by values, or values added.

    It is ``x[indices] = values`` without the change in place. Repeated places add up with ``accumulate``.

    Shapes: values broadcasts to what the indices pick, output as input. Raises IndexError where an index is out of
    range.
    """
    return aten.index_put(input, indices, values, accumulate)


@index_put_at.rule("input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere; all of } \bar{y} \text{ where added}")
def _(g, indices, accumulate):
    return g if accumulate else index_put_at(g, _zeros(g), indices=indices)


@index_put_at.rule("values", r"\bar{y}[i]")
def _(g, indices):
    return getitem(g, index=_in_brackets(indices))


def _in_brackets(indices):
    """The indices as ``x[...]`` takes them, where a single position would take its dimension away before all others."""
    several = any(part is not None and part.ndim for part in indices)
    parts = [part.reshape(1) if several and part is not None and not part.ndim else part for part in indices]
    return tuple(slice(None) if part is None else part for part in parts)


def index_put(input, indices, values, accumulate=False):
    """Input with the elements at ``indices`` replaced by ``values``, in torch's order of arguments."""
    return index_put_at(input, values, indices=_plain(indices), accumulate=accumulate)


def _index_put_(self, indices, values, accumulate=False):
    """In place: the elements at ``indices`` replaced by ``values``, or ``values`` added with ``accumulate``."""
    return index_put_at.in_place(self, values, indices=_plain(indices), accumulate=accumulate)


def _plain(indices):
    """Copies: a rule reads the indices later."""
    raw = [raw_of(part) for part in indices] if isinstance(indices, list | tuple) else []
    wrong = next((_told(part) for part in raw if _told(part)), None if raw else f"indices={indices!r}")
    if wrong:
        raise TypeError(
            f"index_put(): indices is a tuple of tensors, of positions or of truth values, one for each dimension, and "
            f"was given {wrong}: write x[index] = values for any other index"
        )
    return tuple(mask_or_positions(part) for part in raw)


def _told(part):
    """The name of what is no tensor with positions or truth values of a dimension."""
    if not isinstance(part, torch.Tensor):
        return f"one of type {type(part).__name__}"
    return "a single truth value" if not part.ndim and part.dtype in (torch.bool, torch.uint8) else None


install("index_put", index_put)
install("index_put_", _index_put_)


# At a place along a dimension, a slice, a diagonal


def _selected(make: Make):
    for shape in SHAPES[1:6]:
        yield Sample.of(make(*shape), make(*shape[1:]), dim=0, index=-1)
        yield Sample.of(make(*shape), make(*shape[:-1]), dim=-1, index=0)
    yield Sample.of(make(2, 0, 3), make(0, 3), dim=0, index=1)


@op(formula=r"s \text{ at } x[\ldots, i, \ldots]", samples=_selected)
def select_scatter(input, src, *, dim, index):
    """Input with the slice at one index along ``dim`` replaced.

    Shapes: src as input without ``dim``, output as input. Raises RuntimeError where it is not.
    """
    return torch.select_scatter(input, src, dim, index)


@select_scatter.rule("input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere}")
def _(g, src_shape, dim, index):
    return select_scatter(g, _zeros(g, src_shape), dim=dim, index=index)


@select_scatter.rule("src", r"\bar{y}[\ldots, i, \ldots]")
def _(g, dim, index):
    return getitem(g, index=(slice(None),) * (dim % len(g.shape)) + (index,))


def _sliced(make: Make):
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), make(*shape))
        yield Sample.of(make(*shape), make(*shape[:-1], len(range(shape[-1])[1:])), dim=-1, start=1)
    yield Sample.of(make(2, 5), make(2, 2), dim=1, start=-4, end=4, step=2)


@op(formula=r"s \text{ at } x[\ldots, a:b, \ldots]", samples=_sliced)
def slice_scatter(input, src, *, dim=0, start=None, end=None, step=1):
    """Input with the slice from ``start`` to ``end`` along ``dim`` replaced.

    Shapes: src as that slice, output as input. Raises RuntimeError where it is not.
    """
    return torch.slice_scatter(input, src, dim, start, end, step)


@slice_scatter.rule("input", r"0 \text{ at } a:b \text{, } \bar{y} \text{ elsewhere}")
def _(g, src_shape, dim, start, end, step):
    return slice_scatter(g, _zeros(g, src_shape), dim=dim, start=start, end=end, step=step)


@slice_scatter.rule("src", r"\bar{y}[\ldots, a:b, \ldots]")
def _(g, dim, start, end, step):
    return getitem(g, index=(slice(None),) * (dim % len(g.shape)) + (slice(start, end, step),))


def _diagonals(make: Make):
    for shape in SHAPES[2:6]:
        yield Sample.of(make(*shape), make(*torch.empty(shape).diagonal().shape))
    yield Sample.of(make(3, 4), make(3), offset=1)
    yield Sample.of(make(3, 4), make(2), offset=-1)
    yield Sample.of(make(2, 3, 4), make(3, 2), offset=0, dim1=0, dim2=-1)
    yield Sample.of(make(2, 0, 3), make(3, 0))


@op(formula=r"s \text{ on the diagonal, } x \text{ elsewhere}", samples=_diagonals)
def diagonal_scatter(input, src, *, offset=0, dim1=0, dim2=1):
    """Input with a diagonal of its dimensions ``dim1`` and ``dim2`` replaced.

    Shapes: src as that diagonal, output as input. Raises RuntimeError where it is not.
    """
    return torch.diagonal_scatter(input, src, offset, dim1, dim2)


@diagonal_scatter.rule("input", r"0 \text{ on the diagonal, } \bar{y} \text{ elsewhere}")
def _(g, src_shape, offset, dim1, dim2):
    return diagonal_scatter(g, _zeros(g, src_shape), offset=offset, dim1=dim1, dim2=dim2)


@diagonal_scatter.rule("src", r"\operatorname{diag}(\bar{y})")
def _(g, offset, dim1, dim2):
    return g.diagonal(offset, dim1, dim2)
