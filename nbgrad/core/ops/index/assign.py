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
    yield sample(torch.complex(make(2, 3), make(2, 3)), row, ("conj", {}), ("imag", {}))
    yield sample(torch.complex(make(2, 3), make(2, 3)), ("view_as_real", {}), ("select", {"dim": 2, "index": 1}))
    yield sample(make(2, 3, 2).transpose(0, 1), ("getitem", {"index": 1}), ("view_as_complex", {}), ("real", {}))


def _written(base, view, path):
    """Torch's own change in place of a view."""
    base = base.clone()
    path.follow(base)[...] = view
    return base


@op(
    formula=r"v \text{ in its places, } x \text{ elsewhere}",
    method=False,
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
    method=False,
    holomorphic=False,
    samples=_gathers,
    reference=lambda x, path: path.follow(x),
)
def view_scatter_backward(x, *, path):
    """The elements in the places of a view, of a tensor that need not lie in memory as the base of the view does.

    It is the gradient of a view that was changed in place.

    Shapes: x as the base, output as the ops of ``path`` make it from that.
    """
    return path.picked(x)


@view_scatter_backward.rule("x", r"\bar{y} \text{ in the view's places, } 0 \text{ elsewhere}")
def _(g, x_shape, path):
    return view_scatter(torch.zeros(x_shape, dtype=path.dtype, device=g.device), g, path=path)
