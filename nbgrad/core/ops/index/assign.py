"""Replacing elements at an index, a mask or a position, also in place."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample, unary
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.node import identity, raw_of
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index._indices import mask_or_positions
from nbgrad.core.ops.index.getitem import getitem, indexed, picks, take
from nbgrad.core.tensor.views import Path


def _all_zeros(g):
    return torch.zeros(g.shape, dtype=g.dtype, device=g.device)


def _fillings(make: Make):
    for sample in unary(make):
        yield Sample.of(*sample.args, 2.5)
        yield Sample.of(*sample.args, make())


@op(formula=r"v", kernel=torch.fill, broadcasts=("value",), inplace=True, samples=_fillings)
def fill(input, value):
    """A tensor like the input, every element of which is the value.

    ``x.fill_(0)`` clears a buffer. The old values get the gradient 0.

    Shapes: value is a number or a tensor without dimensions, output as input. Raises RuntimeError for another value.
    """


@fill.rule("input", r"0")
def _(g):
    return _all_zeros(g)


@fill.rule("value", r"\bar{y}", kernel=identity)
def _(g):
    return g


def _zero_(self):
    """Every element becomes 0, in place; the tensor itself is returned."""
    return fill.in_place(self, 0)


install("zero_", _zero_)


def _copies(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), make(*shape))
    for shape, source in (((2, 3), (3,)), ((2, 3), ()), ((2, 1, 3), (1, 3)), ((2, 0, 3), (1,)), ((4, 5), (4, 1))):
        yield Sample.of(make(*shape), make(*source))


def _copied(x, src):
    return x.clone().copy_(src)


@op(formula=r"s", broadcasts=("src",), inplace=True, samples=_copies, reference=_copied)
def copy(x, src):
    """The values of another tensor in the shape, element type and place of x.

    ``x.copy_(src)`` loads weights into a parameter, under no_grad, without making a new one.

    Shapes: src broadcasts to x, output as x. Raises RuntimeError where it does not.
    """
    return torch.empty_like(x).copy_(src)


@copy.rule("x", r"0")
def _(g):
    return _all_zeros(g)


@copy.rule("src", r"\bar{y}")
def _(g, src_device):
    return g.to(device=src_device)


def _assignments(make: Make):
    for sample in picks(make):
        x, index = sample.args[0], _once(sample.settings["index"])
        yield Sample.of(x, make(*x[index].shape), index=index)
        yield Sample.of(x, 1.5, index=index)
    yield Sample.of(make(3, 4), make(4), index=slice(1, None))
    yield Sample.of(make(3, 4), make(1, 1, 4), index=0)
    yield Sample.of(make(3, 4), make(1, 2, 4), index=torch.tensor([2, 0]))
    yield Sample.of(make(3, 4), make(), index=Ellipsis)


def _once(index):
    """The index without repeated places: at a repeated place, either of the values might stay."""
    parts = list(index) if isinstance(index, tuple) else [index]
    for position, part in enumerate(parts):
        if isinstance(part, torch.Tensor) and part.dtype == torch.int64:
            rows = part[:1] if part.ndim > 1 else part
            parts[position] = torch.arange(rows.numel()).reshape(rows.shape)
            break
    return tuple(parts) if isinstance(index, tuple) else parts[0]


def _assign(x, value, *, index):
    x[index] = value


def _assigned(x, value, index):
    x = x.clone()
    x[index] = value
    return x


@op(
    formula=r"v \text{ at } i \text{, } x \text{ elsewhere}",
    broadcasts=("value",),
    method=False,
    inplace=_assign,
    samples=_assignments,
)
def setitem(x, value, *, index):
    """The tensor with the elements at ``index`` replaced; ``x[index] = value`` does it in place.

    Masked filling uses it, and so does writing the result of a step into a buffer. Replaced elements get the gradient
    0.

    Shapes: value broadcasts to the elements that ``index`` picks, output as x. Raises RuntimeError where it does not,
    IndexError where ``index`` leaves the tensor.
    """
    return _assigned(x, value, index)


@setitem.rule("x", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere}")
def _(g, index):
    return setitem(g, 0.0, index=index)


@setitem.rule("value", r"\bar{y}[i]")
def _(g, index, value_shape, value_device):
    picked = getitem(g, index=index).to(device=value_device)
    extra = len(value_shape) - len(picked.shape)  # how many leading dimensions of size 1 the value has in excess
    return picked.reshape((1,) * extra + tuple(picked.shape)) if extra > 0 else picked


def _setitem(self, index, value):
    """``x[index] = value`` in place, for every index that Python, numpy and torch accept."""
    args = (self, value)
    setitem.in_place.run(args, {"index": indexed(setitem, args, index)})


install("__setitem__", _setitem)


def _views(make: Make):
    def sample(x, *steps):
        path = Path(((OPS[name], settings) for name, settings in steps), x)
        return Sample.of(x, make(*path.follow(x).shape), path=path)

    row, part = ("getitem", {"index": 0}), ("getitem", {"index": slice(0, 1)})
    swap, flat = ("transpose", {"dim0": 0, "dim1": -1}), ("reshape", {"shape": (-1,)})
    for shape in SHAPES:
        yield sample(make(*shape), swap, swap)
        yield sample(make(*shape), ("unsqueeze", {"dim": 0}))
        if len(shape) > 1 and shape[0]:
            yield sample(make(*shape), row)
            yield sample(make(*shape), flat)
            yield sample(make(*shape).transpose(0, -1), swap, part, ("view", {"size": (-1,)}))
    strided = {"size": (2, 2), "stride": (2, 1), "storage_offset": 1, "geometry": ((2, 3), (1, 2), 0)}
    yield sample(make(3, 2).T, ("as_strided", strided))
    yield sample(make.complex(2, 3), row, ("conj", {}), ("imag", {}))
    yield sample(make.complex(2, 3), ("view_as_real", {}), ("select", {"dim": 2, "index": 1}))
    yield sample(make(2, 3, 2).transpose(0, 1), ("getitem", {"index": 1}), ("view_as_complex", {}), ("real", {}))


def _written(base, view, path):
    """Torch's own in-place change of a view."""
    base = base.clone()
    path.follow(base)[...] = view
    return base


@op(
    formula=r"v \text{ in its places, } x \text{ elsewhere}",
    symbols={"base": "x", "view": "v"},
    holomorphic=False,
    samples=_views,
    reference=_written,
)
def view_scatter(base, view, *, path):
    """The base after one of its views was changed in place: the view's values in their places, all others as before.

    It appears by itself where a view is changed: ``row = x[0]; row.mul_(2)`` changes x too.

    Shapes: view as the ops of ``path`` make it from base, output as base.
    """
    out = path.laid(base)
    path.follow(out)[...] = view
    return out


@view_scatter.rule("base", r"0 \text{ in the view's places, } \bar{y} \text{ elsewhere}")
def _(g, path):
    return view_scatter(g, 0.0, path=path)


@view_scatter.rule("view", r"\bar{y} \text{ in the view's places}")
def _(g, path):
    return view_scatter_backward(g, path=path)


def _gathers(make: Make):
    for base, _, path in ((*sample.args, sample.settings["path"]) for sample in _views(make)):
        yield Sample.of(base, path=path)


@op(
    formula=r"x \text{ in the view's places}",
    holomorphic=False,
    samples=_gathers,
    reference=lambda x, path: path.follow(x),
)
def view_scatter_backward(x, *, path):
    """The elements of x in the places of a view; x may have another memory layout than the base of the view.

    It is the gradient of a view that was changed in place.

    Shapes: x as the base, output as the ops of ``path`` make it from that.
    """
    return path.picked(x)


@view_scatter_backward.rule("x", r"\bar{y} \text{ in the view's places, } 0 \text{ elsewhere}")
def _(g, x_shape, path):
    return view_scatter(torch.zeros(x_shape, dtype=path.dtype, device=g.device), g, path=path)


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
    """Input with the elements of source at the positions in index, which count through the flattened input.

    With ``accumulate`` the elements of source are added to those of input instead, repeated places included.

    Shapes: source has as many elements as index, output as input. Raises IndexError where an index is out of range.
    """
    return input.put(index, source, accumulate)


@put.rule(
    "input", r"0 \text{ at } (i) \text{, } \bar{y} \text{ elsewhere; } \bar{y} \text{ everywhere if values are added}"
)
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
    kernel=torch.masked_scatter,
    broadcasts=("input",),
    no_gradient=("mask",),
    inplace=True,
    samples=_masked_scatters,
)
def masked_scatter(input, mask, source):
    """Input with the elements where the mask holds replaced by those of source, in order.

    It puts the features of an image into the places that are reserved for them in a text.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where source has fewer elements than the mask
    has True places.
    """


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
    ranks=range(1, 6),
    reference=lambda x, values, indices, accumulate=False: aten.index_put(x, indices, values, accumulate),
)
def index_put_at(input, values, *, indices, accumulate=False):
    """Input with the elements at ``indices`` replaced by values; ``indices`` has a tensor for each dimension.

    It is ``x[indices] = values`` without the change in place. With ``accumulate`` the values are added instead, and
    they add up at repeated places.

    Shapes: values broadcasts to what the indices pick, output as input. Raises IndexError where an index is out of
    range.
    """
    return aten.index_put(input, indices, values, accumulate)


@index_put_at.rule(
    "input", r"0 \text{ at } i \text{, } \bar{y} \text{ elsewhere; } \bar{y} \text{ everywhere if values are added}"
)
def _(g, indices, accumulate):
    return g if accumulate else index_put_at(g, _zeros(g), indices=indices)


@index_put_at.rule("values", r"\bar{y}[i]")
def _(g, indices):
    return getitem(g, index=_in_brackets(indices))


def _in_brackets(indices):
    """The indices as ``x[...]`` takes them.

    A tensor without dimensions gets one if it stands beside other tensors. Without it, it would count as a plain
    number, which is applied before the tensors.
    """
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
    """Copies of the indices, checked. A rule reads the copies later, when the user may have changed the originals."""
    raw = [raw_of(part) for part in indices] if isinstance(indices, list | tuple) else []
    wrong = next((_told(part) for part in raw if _told(part)), None if raw else f"indices={indices!r}")
    if wrong:
        raise TypeError(
            "index_put() takes as indices a tuple with a tensor of positions or truth values for each dimension, and "
            f"was given {wrong}: write x[index] = values for any other index"
        )
    return tuple(mask_or_positions(part) for part in raw)


def _told(part):
    """The words of the error message for a part of the indices that is not allowed; None if it is allowed."""
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


@op(formula=r"s \text{ at } x[\ldots, i, \ldots]", samples=_selected, ranks=range(1, 6))
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
    yield Sample.of(make(2, 5), make(2, 2), dim=1, start=1, end=3)


@op(
    formula=r"s \text{ at } x[\ldots, a:b, \ldots]",
    symbols={"start": "a", "end": "b"},
    kernel=torch.slice_scatter,
    samples=_sliced,
    ranks=range(1, 6),
)
def slice_scatter(input, src, *, dim=0, start=None, end=None, step=1):
    """Input with the slice from ``start`` to ``end`` along ``dim`` replaced.

    Shapes: src as that slice, output as input. Raises RuntimeError where it is not.
    """


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
    yield Sample.of(make(2, 3, 4), make(2, 3), offset=1, dim1=1, dim2=2)
    yield Sample.of(make(2, 0, 3), make(3, 0))


@op(
    formula=r"s \text{ on the diagonal, } x \text{ elsewhere}",
    kernel=torch.diagonal_scatter,
    samples=_diagonals,
    ranks=range(2, 6),
)
def diagonal_scatter(input, src, *, offset=0, dim1=0, dim2=1):
    """Input with a diagonal of its dimensions ``dim1`` and ``dim2`` replaced.

    Shapes: src as that diagonal, output as input. Raises RuntimeError where it is not.
    """


@diagonal_scatter.rule("input", r"0 \text{ on the diagonal, } \bar{y} \text{ elsewhere}")
def _(g, src_shape, offset, dim1, dim2):
    return diagonal_scatter(g, _zeros(g, src_shape), offset=offset, dim1=dim1, dim2=dim2)


@diagonal_scatter.rule("src", r"\operatorname{diag}(\bar{y})")
def _(g, offset, dim1, dim2):
    return g.diagonal(offset, dim1, dim2)
