"""Scattering: a tensor with some of its elements or slices replaced, or added to, at given places."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.ops.indexing import gather_along, getitem_backward
from nbgrad.core.ops.picking import index_lines, index_select_along
from nbgrad.core.ops.shape import reshape
from nbgrad.core.samples import SHAPES, Make, Sample


def _zero(g):
    return torch.zeros((), dtype=g.dtype, device=g.device)


def as_source(picked, shape):
    """The gradient of a source of ``shape``, of which index may have used the first elements along each dimension."""
    if tuple(picked.shape) == tuple(shape):
        return picked
    if not shape:  # a number, for which an index of one place or of none is no larger
        return picked.sum()
    if not picked.shape:
        picked = reshape(picked, shape=(1,))
    return getitem_backward(picked, index=tuple(slice(0, size) for size in picked.shape), shape=shape)


def scatterings(make: Make):
    """A tensor, an index that names no place twice, a source and a dimension."""
    for shape in SHAPES:
        for dim in {0, len(shape) - 1} - {-1} or {0}:
            x = make(*shape)
            index = torch.rand(shape, generator=torch.Generator().manual_seed(3)).argsort(dim)
            yield x, index, make(*shape), dim
    yield make(3, 4), torch.tensor([[2], [0]]), make(2, 1), 1
    yield make(3, 4), torch.tensor([[2], [0]]), make(3, 4), -1  # more of the source than there are places


# By element


def _replacements(make: Make):
    for x, index, src, dim in scatterings(make):
        yield Sample.of(x, index, src if src.shape == index.shape else make(*index.shape), dim=dim)
    yield Sample.of(x, index, 1.5, dim=dim)


@op(
    formula=r"s \text{ at } i \text{, } x \text{ elsewhere}",
    name="scatter",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, src, dim: raw.scatter_(dim, index, src),
    samples=_replacements,
    reference=lambda x, index, src, dim: torch.scatter(x, dim, index, src),
)
def scatter_along(input, index, src, *, dim):
    """Input with the elements at the numbers in index along ``dim`` replaced by those of src, or by a number.

    One-hot vectors are ones scattered into zeros. Where index names a place twice, which value stays is left open.

    Shapes: all of equal rank, index no larger than src, output as input. Raises RuntimeError where an index is out of
    range.
    """
    return torch.scatter(input, dim, index, src)


@scatter_along.rule("input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere}")
def _(g, index, dim):
    return scatter_along(g, index, 0.0, dim=dim)


@scatter_along.rule("src", r"\bar{y}[\ldots, i, \ldots]")
def _(g, index, src_shape, dim):
    return as_source(gather_along(g, index, dim=dim), src_shape)


def _additions(make: Make):
    for x, index, src, dim in scatterings(make):
        yield Sample.of(x, index, src if src.shape == index.shape else make(*index.shape), dim=dim)
    yield Sample.of(make(5), torch.tensor([1, 1, 0]), make(3), dim=0)


@op(
    formula=r"x + s \text{ at } i",
    name="scatter_add",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, src, dim: raw.scatter_add_(dim, index, src),
    samples=_additions,
    reference=lambda x, index, src, dim: torch.scatter_add(x, dim, index, src),
)
def scatter_add_along(input, index, src, *, dim):
    """Input with src added along ``dim`` at the numbers in index, repeated places included.

    The nodes of a graph sum the messages of their neighbours with it.

    Shapes: all of equal rank, index no larger than src, output as input. Raises RuntimeError where an index is out of
    range.
    """
    return torch.scatter_add(input, dim, index, src)


@scatter_add_along.rule("input", r"\bar{y}")
def _(g):
    return g


@scatter_add_along.rule("src", r"\bar{y}[\ldots, i, \ldots]")
def _(g, index, src_shape, dim):
    return as_source(gather_along(g, index, dim=dim), src_shape)


def scatter_add(input, dim, index, src):
    """Input with ``src`` added along ``dim`` at the numbers in ``index``, in torch's order of arguments."""
    return scatter_add_along(input, index, src, dim=dim)


def _scatter_add_(self, dim, index, src):
    """In place: ``src`` added along ``dim`` at the numbers in ``index``."""
    return scatter_add_along.in_place(self, index, src, dim=dim)


install("scatter_add", scatter_add)
install("scatter_add_", _scatter_add_)


# By slice


def _slices(make: Make):
    for x, index, dim in index_lines(make):
        several = x.ndim and x.shape[dim] > 1  # each once: torch leaves open which of two values stays
        index = torch.arange(x.shape[dim] - 1, 0, -1) if several else index[:1]
        yield x, index, torch.index_select(x, dim, index), dim


def _slice_samples(make: Make):
    for x, index, picked, dim in _slices(make):
        yield Sample.of(x, index, make(*picked.shape), dim=dim)


def _slice_additions(make: Make):
    yield from _slice_samples(make)
    yield Sample.of(make(3, 4), torch.tensor([2, 2]), make(2, 4), dim=0, alpha=-2)


@op(
    formula=r"x + \alpha s \text{ at } i",
    name="index_add",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, source, dim, alpha=1: raw.index_add_(dim, index, source, alpha=alpha),
    samples=_slice_additions,
    reference=lambda x, index, source, dim, alpha=1: torch.index_add(x, dim, index, source, alpha=alpha),
)
def index_add_along(input, index, source, *, dim, alpha=1):
    """Input with ``alpha`` times the slices of source added along ``dim`` at the numbers in index, repeats included.

    The gradient of an embedding is one.

    Shapes: source as input with the length of index along ``dim``, output as input. Raises RuntimeError where it is
    not, or where an index is out of range.
    """
    return torch.index_add(input, dim, index, source, alpha=alpha)


@index_add_along.rule("input", r"\bar{y}")
def _(g):
    return g


@index_add_along.rule("source", r"\alpha \bar{y}[\ldots, i, \ldots]")
def _(g, index, source_shape, dim, alpha):
    picked = index_select_along(g, index, dim=dim).reshape(source_shape)
    return picked if alpha == 1 else picked * alpha


@op(
    formula=r"s \text{ at } i \text{, } x \text{ elsewhere}",
    name="index_copy",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, source, dim: raw.index_copy_(dim, index, source),
    samples=_slice_samples,
    reference=lambda x, index, source, dim: torch.index_copy(x, dim, index, source),
)
def index_copy_along(input, index, source, *, dim):
    """Input with the slices along ``dim`` at the numbers in index replaced by those of source.

    Shapes: source as input with the length of index along ``dim``, output as input. Raises RuntimeError where it is
    not, or where an index is out of range.
    """
    return torch.index_copy(input, dim, index, source)


@index_copy_along.rule("input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere}")
def _(g, index, dim):
    return index_fill_along(g, index, 0.0, dim=dim)


@index_copy_along.rule("source", r"\bar{y}[\ldots, i, \ldots]")
def _(g, index, source_shape, dim):
    return index_select_along(g, index, dim=dim).reshape(source_shape)


def _fillings(make: Make):
    for x, index, _, dim in _slices(make):
        yield Sample.of(x, index, make(), dim=dim)
    yield Sample.of(make(3, 4), torch.tensor([2, 2, 0]), make(), dim=-1)
    yield Sample.of(make(3, 4), torch.tensor([2, 0]), 1.5, dim=0)


@op(
    formula=r"v \text{ at } i \text{, } x \text{ elsewhere}",
    name="index_fill",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, value, dim: raw.index_fill_(dim, index, value),
    samples=_fillings,
    reference=lambda x, index, value, dim: torch.index_fill(x, dim, index, value),
)
def index_fill_along(input, index, value, *, dim):
    """Input with every element of the slices along ``dim`` at the numbers in index replaced by one value.

    Shapes: value is a number or a tensor without dimensions, output as input. Raises IndexError where an index is out
    of range.
    """
    return torch.index_fill(input, dim, index, value)


@index_fill_along.rule("input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere}")
def _(g, index, dim):
    return index_fill_along(g, index, 0.0, dim=dim)


@index_fill_along.rule("value", r"\sum \bar{y}[\ldots, i, \ldots]")
def _(g, index, dim):
    if index.device.type != "meta":
        index = index.data.unique()  # a slice that is named twice is filled once
    return index_select_along(g, index, dim=dim).sum()


def index_add(input, dim, index, source, *, alpha=1):
    """Input with ``alpha`` times the slices of ``source`` added along ``dim`` at the numbers in ``index``."""
    return index_add_along(input, index, source, dim=dim, alpha=alpha)


def _index_add_(self, dim, index, source, *, alpha=1):
    """In place: ``alpha`` times the slices of ``source`` added along ``dim`` at the numbers in ``index``."""
    return index_add_along.in_place(self, index, source, dim=dim, alpha=alpha)


def index_copy(input, dim, index, source):
    """Input with the slices along ``dim`` at the numbers in ``index`` replaced by those of ``source``."""
    return index_copy_along(input, index, source, dim=dim)


def _index_copy_(self, dim, index, source):
    """In place: the slices along ``dim`` at the numbers in ``index`` replaced by those of ``source``."""
    return index_copy_along.in_place(self, index, source, dim=dim)


def index_fill(input, dim, index, value):
    """Input with the slices along ``dim`` at the numbers in ``index`` filled with ``value``."""
    return index_fill_along(input, index, value, dim=dim)


def _index_fill_(self, dim, index, value):
    """In place: the slices along ``dim`` at the numbers in ``index`` filled with ``value``."""
    return index_fill_along.in_place(self, index, value, dim=dim)


install("index_add", index_add)
install("index_add_", _index_add_)
install("index_copy", index_copy)
install("index_copy_", _index_copy_)
install("index_fill", index_fill)
install("index_fill_", _index_fill_)
