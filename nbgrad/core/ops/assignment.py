"""Assignment: tensors some or all of whose elements are replaced, and the in-place ops that do it."""

import torch

from nbgrad.core.alias import Path
from nbgrad.core.op import OPS, install, op
from nbgrad.core.ops.indexing import getitem, indexed, picks
from nbgrad.core.samples import SHAPES, Make, Sample, unary


def _zeros(g):
    return torch.zeros(g.shape, dtype=g.dtype, device=g.device)


def _fillings(make: Make):
    for sample in unary(make):
        yield Sample.of(*sample.args, 2.5)
        yield Sample.of(*sample.args, make())


@op(formula=r"v", broadcasts=("value",), inplace=True, samples=_fillings)
def fill(input, value):
    """A tensor like the input, every element of which is the value.

    ``x.fill_(0)`` clears a buffer. What was there before gets the gradient 0.

    Shapes: value is a number or a tensor without dimensions, output as input. Raises RuntimeError for another value.
    """
    return torch.fill(input, value)


@fill.rule("input", r"0")
def _(g):
    return _zeros(g)


@fill.rule("value", r"\bar{y}")
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
    return _zeros(g)


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
    """The index without repeated places, where which of two values stays would be left to chance."""
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
    reference=_assigned,
)
def setitem(x, value, *, index):
    """The tensor with the elements at ``index`` replaced; ``x[index] = value`` does it in place.

    Masked filling is one, and so is writing a step's result into a buffer. What was replaced gets the gradient 0.

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
    extra = len(value_shape) - len(picked.shape)  # leading dimensions of size 1 that the value has too many
    return picked.reshape((1,) * extra + tuple(picked.shape)) if extra > 0 else picked


def _setitem(self, index, value):
    """``x[index] = value`` in place, with everything as an index that Python, numpy and torch take for one."""
    args = (self, value)
    setitem.in_place.run(args, {"index": indexed(setitem, args, index)})


install("__setitem__", _setitem)


def _views(make: Make):
    def path(*steps):
        return Path((OPS[name], settings) for name, settings in steps)

    row = ("getitem", {"index": 0})
    swap = ("transpose", {"dim0": 0, "dim1": -1})
    flat = ("reshape", {"shape": (-1,)})
    for shape in SHAPES:
        yield Sample.of(make(*shape), make(*shape), path=path(swap, swap))
        yield Sample.of(make(*shape), make(1, *shape), path=path(("unsqueeze", {"dim": 0})))
        if len(shape) > 1 and shape[0]:
            yield Sample.of(make(*shape), make(*shape[1:]), path=path(row))
            size = torch.empty(shape).numel()
            yield Sample.of(make(*shape), make(size), path=path(flat))
            yield Sample.of(make(*shape), make(size // shape[-1] if shape[-1] else 0), path=path(swap, row, flat))


def _scattered(base, view, path):
    """The places of the view's elements as the same ops pick them from numbers, and there its values."""
    places = path.follow(torch.arange(base.numel(), device=base.device).reshape(base.shape)).flatten()
    values = view.reshape(-1) if isinstance(view, torch.Tensor) else base.new_full((1,), view)
    return base.flatten().index_put((places,), values).reshape(base.shape)


@op(
    formula=r"v \text{ in its places, } x \text{ elsewhere}",
    method=False,
    samples=_views,
    reference=_scattered,
)
def view_scatter(base, view, *, path):
    """The base after one of its views was changed in place: the view's values in their places, all others as before.

    It appears by itself where a view is changed: ``row = x[0]; row.mul_(2)`` changes x too.

    Shapes: view as the ops of ``path`` make it from base, output as base.
    """
    out = base.clone(memory_format=torch.contiguous_format)
    place = path.follow(out)
    if (place is out or place._base is out) and 0 not in place.stride():
        place[...] = view
        return out
    return _scattered(base, view, path)  # on fresh memory one of the ops makes a copy, or stretches


@view_scatter.rule("base", r"0 \text{ in the view's places, } \bar{y} \text{ elsewhere}")
def _(g, path):
    return view_scatter(g, 0.0, path=path)


@view_scatter.rule("view", r"\bar{y} \text{ in the view's places}")
def _(g, path):
    return path.follow(g)
