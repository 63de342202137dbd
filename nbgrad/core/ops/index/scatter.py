"""Writing elements or slices at the positions in an index tensor: replacing, adding or reducing."""

import warnings
from functools import cache
from typing import Any, NamedTuple

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import check_of_numbers, opaque
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.node import identity, raw_of
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.getitem import gather_along, getitem_backward, index_lines, index_select_along
from nbgrad.core.ops.shape.views import reshape
from nbgrad.core.tensor.tensor import Tensor


def _zero(g):
    return torch.zeros((), dtype=g.dtype, device=g.device)


def as_source(picked, shape):
    """The gradient of a source of ``shape``. An index may use only the source's first elements along each dimension."""
    if tuple(picked.shape) == tuple(shape):
        return picked
    if not shape:  # the source is a single number, so the index has at most one place
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


@scatter_add_along.rule("input", r"\bar{y}", kernel=identity)
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

    The gradient of an embedding is computed so.

    Shapes: source as input with the length of index along ``dim``, output as input. Raises RuntimeError where it is
    not, or where an index is out of range.
    """
    return torch.index_add(input, dim, index, source, alpha=alpha)


@index_add_along.rule("input", r"\bar{y}", kernel=identity)
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
    return index_fill_backward(g, index, dim=dim)


def _fillings_backwards(make: Make):
    for (x, index, value), settings in _fillings(make):
        if isinstance(value, torch.Tensor):
            yield Sample.of(make(*x.shape), index, **settings)


def _sum_in_a_mask(g, index, dim):
    """The sum in small steps, which torch can differentiate."""
    return (g * torch.zeros_like(g).index_fill(dim, index, 1)).sum()


@op(
    formula=r"\sum g[\ldots, i, \ldots] \text{, each } i \text{ once}",
    no_gradient=("index",),
    samples=_fillings_backwards,
    reference=_sum_in_a_mask,
)
def index_fill_backward(g, index, *, dim):
    """The gradient of the value that index_fill writes: the sum of the slices that it fills, each counted once.

    Shapes: index (K,), output a single number. Raises IndexError where an index is out of range.
    """
    return g.new_empty(()) if g.is_meta else _sum_at(g, index, dim)


@opaque(lambda g, index, dim: g.new_empty(()))  # noqa: ARG005
def _sum_at(g, index, dim):
    return torch.index_select(g, dim, index.unique()).sum()


@index_fill_backward.rule("g", r"\bar{y} \text{ at } i \text{, else } 0")
def _(gradient, g_shape, index, dim):
    return index_fill_along(
        torch.zeros(g_shape, dtype=gradient.dtype, device=gradient.device), index, gradient, dim=dim
    )


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


class _Kind(NamedTuple):
    """The four rows for one kind of index: an index of elements, or an index of slices."""

    reduce: Any
    pick: Any
    add: Any
    clear: Any


def _to_input(kind, g, input, index, src, out, settings):
    """The gradient of the input, into which the values are reduced."""
    dim, reduce, include_self = settings["dim"], settings["reduce"], settings["include_self"]
    if reduce == "sum":
        slope = g
    elif reduce == "mean":
        slope = g / _counts(kind, g, index, src, dim, include_self)
    elif reduce == "prod":  # the product of the other factors; 1 replaces an input of 0
        factors = where(input == 0, 1.0, input)
        slope = g * kind.reduce(factors, index, src, **settings) / factors
    else:
        slope = (input == out) * (g / _ties(kind, g, input, index, src, out, dim))
    return slope if include_self else kind.clear(slope, index, 0.0, dim=dim)


def _to_source(kind, g, input, index, src, out, settings):
    """The gradient of the values that are reduced."""
    dim, reduce = settings["dim"], settings["reduce"]
    if reduce == "sum":
        return kind.pick(g, index, dim=dim)
    if reduce == "mean":
        return kind.pick(g / _counts(kind, g, index, src, dim, settings["include_self"]), index, dim=dim)
    if reduce == "prod":
        return _product_to_source(kind, g, input, index, src, out, settings)
    part = g / _ties(kind, g, input, index, src, out, dim)
    return (src == kind.pick(out, index, dim=dim)) * kind.pick(part, index, dim=dim)


def _counts(kind, g, index, src, dim, include_self):
    """How many values meet at each place, but at least 1."""
    own = torch.full(g.shape, float(include_self), dtype=g.dtype, device=g.device)
    count = kind.add(own, index, torch.ones(src.shape, dtype=g.dtype, device=g.device), dim=dim)
    return where(count == 0, 1.0, count)


def _ties(kind, g, input, index, src, out, dim):
    """How many values share each extreme, the input's own included."""
    among = (src == kind.pick(out, index, dim=dim)).to(dtype=g.dtype)
    return kind.add((input == out).to(dtype=g.dtype), index, among, dim=dim)


def _product_to_source(kind, g, input, index, src, out, settings):
    """The gradient of a factor: g times the product of the other factors.

    That product is the output divided by the factor. For the only 0 at a place, it is computed without the 0.
    """
    dim = settings["dim"]
    zero = src == 0
    none = torch.zeros(g.shape, dtype=torch.int64, device=g.device)  # int64, as complex counts have no order
    zeros = kind.pick(kind.add(none, index, zero.to(dtype=none.dtype), dim=dim), index, dim=dim)
    if isinstance(g, Tensor):
        _check_alone(raw_of(zeros), kind.reduce.name)
    alone = where(zeros == 1, zero, False)
    without = kind.reduce(input, index, where(alone, 1.0, src), **settings)
    divided = kind.pick(g * out, index, dim=dim) / where(zero, 1.0, src)
    return where(alone, kind.pick(g * without, index, dim=dim), divided)


@check_of_numbers
def _check_alone(zeros, name):
    if bool((zeros > 1).any()):
        raise NotImplementedError(
            f"{name}(reduce='prod') cannot be differentiated twice where several zeros meet at one place"
        )


_INPUT = r"\text{the share of } \bar{y} \text{ for the input in the sum, product, mean or extreme of each place}"
_SOURCE = r"\text{the share of } \bar{y} \text{ at } i \text{ for each value}"


def _reductions(make: Make):
    kinds = ("sum", "prod", "mean", "amax", "amin")
    for number, (x, index, src, dim) in enumerate(scatterings(make)):
        if src.shape == index.shape:
            yield Sample.of(x, index, src, dim=dim, reduce=kinds[number % 5], include_self=number % 3 > 0)
    index = torch.tensor([1, 1, 0, 1])
    for reduce in kinds:
        for include_self in (True, False):
            yield Sample.of(make(3), index, make(4), dim=0, reduce=reduce, include_self=include_self)
    yield from _edges(index)


def _edges(index):
    """Ties, a zero in the input and one among the values."""
    x = torch.tensor([0.0, 2.0, 1.0], dtype=torch.float64)
    src = torch.tensor([2.0, 0.0, 3.0, 2.0], dtype=torch.float64)
    for reduce in ("prod", "amax", "amin"):
        yield Sample.of(x, index, src, dim=0, reduce=reduce)


@op(
    formula=r"\operatorname{reduce}(x, s \text{ at } i)",
    symbols={"reduce": r"\operatorname{reduce}"},
    name="scatter_reduce",
    no_gradient=("index",),
    method=False,
    inplace=lambda raw, index, src, dim, reduce, include_self=True: raw.scatter_reduce_(
        dim, index, src, reduce, include_self=include_self
    ),
    samples=_reductions,
    reference=lambda x, index, src, dim, reduce, include_self=True: torch.scatter_reduce(
        x, dim, index, src, reduce, include_self=include_self
    ),
)
def scatter_reduce_along(input, index, src, *, dim, reduce, include_self=True):
    """Elements of src, reduced along ``dim`` at the numbers in index: "sum", "prod", "mean", "amax" or "amin".

    Graph networks gather their neighbours' messages so (Xu et al. 2019, https://arxiv.org/abs/1810.00826, compare
    sum, mean and max). With ``include_self`` the input's own element takes part. Without it, the input's element stays
    only where nothing arrives. Elements that share an extreme share its gradient.

    Shapes: all of equal rank, index no larger than src, output as input. Raises RuntimeError where an index is out of
    range; NotImplementedError where a product with several zeros at one place is differentiated twice.
    """
    return torch.scatter_reduce(input, dim, index, src, reduce, include_self=include_self)


_BY_ELEMENT = _Kind(scatter_reduce_along, gather_along, scatter_add_along, scatter_along)


@scatter_reduce_along.rule("input", _INPUT)
def _(g, input, index, src, out, dim, reduce, include_self):
    settings = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return _to_input(_BY_ELEMENT, g, input, index, src, out, settings)


@scatter_reduce_along.rule("src", _SOURCE)
def _(g, input, index, src, out, dim, reduce, include_self):
    settings = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return as_source(_to_source(_BY_ELEMENT, g, input, index, src, out, settings), src.shape)


@cache
def _hear_torch_out():
    """Trigger torch's warning that index_reduce is in beta, and ignore it, so that no user's call triggers it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.index_reduce(torch.ones(1), 0, torch.tensor([0]), torch.ones(1), "prod")


def _index_reduce_kernel(raw, index, source, dim, reduce, include_self=True):
    _hear_torch_out()
    raw.index_reduce_(dim, index, source, reduce, include_self=include_self)


def _slice_reductions(make: Make):
    kinds = ("prod", "mean", "amax", "amin")
    shapes = ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (2, 0, 3))
    for number, shape in enumerate(shapes):
        index = torch.arange(shape[0])[:2] if shape else torch.zeros(1, dtype=torch.int64)
        source = make(len(index), *shape[1:]) if shape else make()
        yield Sample.of(make(*shape), index, source, dim=0, reduce=kinds[number % 4], include_self=number % 3 > 0)
    index = torch.tensor([1, 1, 0, 1])
    for reduce in kinds:
        for include_self in (True, False):
            yield Sample.of(make(2, 3), index, make(2, 4), dim=-1, reduce=reduce, include_self=include_self)
    yield from _edges(index)


@op(
    formula=r"\operatorname{reduce}(x, s \text{ at } i)",
    symbols={"reduce": r"\operatorname{reduce}"},
    name="index_reduce",
    no_gradient=("index",),
    method=False,
    inplace=_index_reduce_kernel,
    samples=_slice_reductions,
    reference=lambda x, index, source, dim, reduce, include_self=True: torch.index_reduce(
        x, dim, index, source, reduce, include_self=include_self
    ),
)
def index_reduce_along(input, index, source, *, dim, reduce, include_self=True):
    """Slices of source, reduced along ``dim`` at the numbers in index: "prod", "mean", "amax" or "amin".

    With ``include_self`` the input's own slice takes part. Without it, the input's slice stays only where nothing
    arrives. Elements that share an extreme share its gradient.

    Shapes: source as input with the length of index along ``dim``, output as input. Raises RuntimeError where it is
    not; NotImplementedError where a product with several zeros at one place is differentiated twice.
    """
    _hear_torch_out()
    return torch.index_reduce(input, dim, index, source, reduce, include_self=include_self)


_BY_SLICE = _Kind(index_reduce_along, index_select_along, index_add_along, index_fill_along)


@index_reduce_along.rule("input", _INPUT)
def _(g, input, index, source, out, dim, reduce, include_self):
    settings = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return _to_input(_BY_SLICE, g, input, index, source, out, settings)


@index_reduce_along.rule("source", _SOURCE)
def _(g, input, index, source, out, dim, reduce, include_self):
    settings = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return _to_source(_BY_SLICE, g, input, index, source, out, settings)


# In torch's order of arguments


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """The input, with the elements of ``src`` reduced into it along ``dim`` at the numbers in ``index``."""
    return scatter_reduce_along(input, index, src, dim=dim, reduce=reduce, include_self=include_self)


def _scatter_reduce_(self, dim, index, src, reduce, *, include_self=True):
    """In place: the elements of ``src`` reduced into this tensor along ``dim`` at the numbers in ``index``."""
    return scatter_reduce_along.in_place(self, index, src, dim=dim, reduce=reduce, include_self=include_self)


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """The input, with the slices of ``source`` reduced into it along ``dim`` at the numbers in ``index``."""
    return index_reduce_along(input, index, source, dim=dim, reduce=reduce, include_self=include_self)


def _index_reduce_(self, dim, index, source, reduce, *, include_self=True):
    """In place: the slices of ``source`` reduced into this tensor along ``dim`` at the numbers in ``index``."""
    return index_reduce_along.in_place(self, index, source, dim=dim, reduce=reduce, include_self=include_self)


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """Input with the elements at ``index`` along ``dim`` replaced by ``src``, a tensor or a number.

    With ``reduce``, "add" or "multiply", they are added or multiplied instead.
    """
    row, *args = _scattered(input, index, src, value, reduce)
    return row(*args, dim=dim, **_PRODUCT.get(reduce, {}))


def _scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    """In place: the elements at ``index`` along ``dim`` replaced by ``src``, or combined with it by ``reduce``."""
    row, *args = _scattered(self, index, src, value, reduce)
    return row.in_place(*args, dim=dim, **_PRODUCT.get(reduce, {}))


_PRODUCT = {"multiply": {"reduce": "prod"}}


def _scattered(input, index, src, value, reduce):
    """The row for a way to reduce, and its inputs. If it reduces, a number becomes a tensor of the shape of index."""
    if (src is None) == (value is None):
        raise TypeError("scatter() takes either src or value")
    src = _number(value) if src is None else src
    rows = {None: scatter_along, "add": scatter_add_along, "multiply": scatter_reduce_along}
    if reduce not in rows:
        raise RuntimeError(f"scatter(reduce={reduce!r}): it must be 'add' or 'multiply'")
    if reduce is not None and isinstance(src, int | float | complex):
        src = torch.full(index.shape, src, dtype=input.dtype, device=input.device)
    return rows[reduce], input, index, src


def _number(value):
    """The number that ``value`` is, or that it holds as a tensor without dimensions."""
    raw = raw_of(value)
    if not isinstance(raw, torch.Tensor):
        return value
    if raw.ndim or value.requires_grad:
        learns = " that needs a gradient" if value.requires_grad else ""
        raise TypeError(
            f"scatter(value=...) takes a number, not a tensor of shape {tuple(raw.shape)}{learns}: give the tensor as "
            "src, with the shape of index"
        )
    return raw.item()


install("scatter", scatter)
install("scatter_", _scatter_)
install("scatter_reduce", scatter_reduce)
install("scatter_reduce_", _scatter_reduce_)
install("index_reduce", index_reduce)
install("index_reduce_", _index_reduce_)
