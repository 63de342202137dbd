"""Windows and other views by strides, and torch's ops with _copy in their names, which return a copy of the view."""

from inspect import signature
from math import prod

import torch

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.tensor_data import differentiable, overlaps
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.linalg.diagonals import diagonal
from nbgrad.core.ops.shape.splitting import chunk, narrow, split, split_with_sizes, unbind
from nbgrad.core.ops.shape.views import clone, expand, permute, squeeze, t, transpose, turned, unsqueeze, view
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.tensor.views import View


def _windows(make: Make):
    yield Sample.of(make(), dimension=0, size=1, step=1)
    yield from (Sample.of(make(*shape), dimension=-1, size=2, step=1) for shape in SHAPES if shape and shape[-1] > 1)
    yield Sample.of(make(5, 2), dimension=0, size=3, step=2)
    yield Sample.of(make(4), dimension=0, size=2, step=3)
    yield Sample.of(make(0, 4), dimension=1, size=2, step=1)


@op(
    formula=r"x_{s i + j}",
    symbols={"step": "s"},
    samples=_windows,
    reference=lambda x, dimension, size, step: x.unfold(dimension, size, step),
    view=True,
)
def unfold(input, *, dimension, size, step):
    """All windows of ``size`` elements along a dimension, ``step`` apart, in the same memory.

    Moving averages, patches of images and frames of sound are windows.

    Shapes: the dimension becomes the number of windows, and there is a last dimension of ``size``. Raises RuntimeError
    where a window is longer than the dimension.
    """
    return input.unfold(dimension, size, step)


@unfold.rule("input", r"\sum \bar{y} \text{ over the windows that hold it}")
def _(g, input_shape, dimension, size, step):
    return unfold_backward(g, input_sizes=tuple(input_shape), dimension=dimension, size=size, step=step)


def _folds(make: Make):
    for sample in _windows(make):
        x = sample.args[0]
        windows = x.unfold(**sample.settings)
        yield Sample.of(make(*windows.shape), input_sizes=tuple(x.shape), **sample.settings)
    yield Sample.of(make(1), input_sizes=(), dimension=0, size=1, step=1)


def _folded(g, input_sizes, dimension, size, step):
    return torch.ops.aten.unfold_backward(g, input_sizes, dimension, size, step)


@op(formula=r"\sum_{s i + j = k} g_{ij}", symbols={"step": "s"}, samples=_folds, ranks=range(1, 6))
def unfold_backward(g, *, input_sizes, dimension, size, step):
    """The gradient of ``unfold``: each element gets the sum of the gradients of the windows that it is in.

    Shapes: g as the windows, output as ``input_sizes``.
    """
    return _folded(g, input_sizes, dimension, size, step)


@unfold_backward.rule("g", r"\bar{y}_{s i + j}")
def _(g, dimension, size, step):
    return g.unfold(dimension, size, step)


def _strided(make: Make):
    for shape in SHAPES:
        x = make(*shape)
        yield Sample.of(x, size=shape, stride=x.stride(), storage_offset=0, geometry=(shape, x.stride(), 0))
    for size, stride, offset in (((3, 2), (1, 1), 0), ((2, 2), (1, 3), 1), ((4,), (0,), 2), ((), (), 5)):
        yield Sample.of(make(2, 3), size=size, stride=stride, storage_offset=offset, geometry=((2, 3), (3, 1), 0))
    yield Sample.of(make(3, 2).T, size=(4,), stride=(1,), storage_offset=1, geometry=((2, 3), (1, 2), 0))


def _reference(input, size, stride, storage_offset, geometry):
    return torch.as_strided(input, size, stride, storage_offset)


def _stride_(raw, *, size, stride, storage_offset, geometry):
    raw.as_strided_(size, stride, storage_offset)


@op(
    name="as_strided",
    formula=r"x \text{ with strides } s",
    symbols={"stride": "s"},
    samples=_strided,
    reference=_reference,
    view=True,
    method=False,
    traits=Traits(laid=True),
)
def _as_strided(input, *, size, stride, storage_offset, geometry):
    """The memory of a tensor seen with any sizes and strides; ``geometry`` says how the tensor itself sees it.

    Shapes: output as ``size``. Raises RuntimeError where an element would lie outside of the memory.
    """
    return torch.as_strided(input, size, stride, storage_offset)


@_as_strided.rule("input", r"\sum \bar{y} \text{ over the elements at the same address}")
def _(g, size, stride, storage_offset, geometry):
    return as_strided_backward(g, seen=(size, stride, storage_offset), geometry=geometry)


def as_strided(input, size, stride, storage_offset=None):
    """The memory of a tensor seen with any sizes and strides.

    Raises:
        NotImplementedError: several elements of the tensor itself are one place in memory, and it needs a gradient.
    """
    seen = _seen(input, size, stride, storage_offset)
    view = _as_strided(input, **seen)
    if isinstance(view, Tensor) and isinstance(view._alias, View) and not _within(**seen):
        view._alias.recorded = False  # a change in place would lose the gradient of elements outside of input
    return view


@muted  # these calls are not part of the user's computation
def _within(size, stride, storage_offset, geometry):
    """Whether all elements of the view are also elements of the tensor that it was made from."""
    lowest = min(storage_offset, geometry[2])
    places = torch.arange(max(_reach(size, stride, storage_offset), _reach(*geometry)) - lowest)
    seen, there = (
        places.as_strided(sizes, strides, offset - lowest).reshape(-1)
        for sizes, strides, offset in ((size, stride, storage_offset), geometry)
    )
    return bool(torch.isin(seen, there).all())


def _seen(input, size, stride, storage_offset):
    raw = raw_of(input)
    if getattr(input, "requires_grad", False) and overlaps(raw):
        raise NotImplementedError(
            f"as_strided() of a tensor of shape {tuple(raw.shape)}, several of whose elements share one number in "
            "memory, as after expand(), unfold() or as_strided(), has no gradient: call it on a clone(), or on the "
            "base of this view"
        )
    return {
        "size": tuple(map(_number, size)),
        "stride": tuple(map(_number, stride)),
        "storage_offset": raw.storage_offset() if storage_offset is None else _number(storage_offset),
        "geometry": (tuple(raw.shape), raw.stride(), raw.storage_offset()),
    }


def _number(one):
    """The number in a tensor, which torch takes for an int; anything else as it is, so that torch reports it."""
    raw = raw_of(one)
    if not isinstance(raw, torch.Tensor) or raw.numel() != 1 or raw.dtype is torch.bool or differentiable(raw.dtype):
        return one
    return int(raw)


_in_place = InPlace(_as_strided, _stride_, OPS)


def _as_strided_(self, size, stride, storage_offset=None):
    """In place: the memory of the tensor seen with other sizes and strides."""
    return turned(self, _in_place, _seen(self, size, stride, storage_offset))


def _backs(make: Make):
    for sample in _strided(make):
        kind = sample.settings
        seen = (kind["size"], kind["stride"], kind["storage_offset"])
        yield Sample.of(make(*kind["size"]), seen=seen, geometry=kind["geometry"])


def _gathered(g, seen, geometry):
    lowest = min(seen[2], geometry[2])
    length = max(_reach(*seen), _reach(*geometry)) - lowest
    places = torch.arange(length, device=g.device).as_strided(seen[0], seen[1], seen[2] - lowest)
    memory = torch.zeros(length, dtype=g.dtype, device=g.device)
    memory = memory.index_add(0, places.reshape(-1), g.reshape(-1))
    return memory.as_strided(geometry[0], geometry[1], geometry[2] - lowest)


def _reach(sizes, strides, offset):
    """The place after the last element."""
    if not prod(sizes):
        return offset
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


@op(formula=r"\sum g \text{ over the elements at the same address}", samples=_backs)
def as_strided_backward(g, *, seen, geometry):
    """The gradient of ``as_strided``: each place in memory gets the sum of the gradients of its elements.

    Shapes: g as the view that ``seen`` describes, output as the tensor that ``geometry`` describes.
    """
    return _gathered(g, seen, geometry)


@as_strided_backward.rule("g", r"\bar{y} \text{ with strides } s")
def _(g, seen, geometry):
    return as_strided_backward(g, seen=geometry, geometry=seen)


def _pasted(make: Make):
    for sample in _strided(make):
        kind = sample.settings
        if 0 not in kind["stride"]:  # else elements share a place, and any of them may be written there
            yield Sample.of(sample.args[0], make(*kind["size"]), **kind)


def _pasting(input, src, size, stride, storage_offset, geometry):
    """In two steps, because torch's as_strided_scatter passes the gradient in the places of src on to input, too."""
    copied = torch.empty_strided(input.shape, input.stride(), dtype=input.dtype, device=input.device).copy_(input)
    copied.as_strided(size, stride, storage_offset - input.storage_offset()).copy_(src)
    return copied


@op(
    name="as_strided_scatter",
    formula=r"s \text{ at the strided positions, } x \text{ elsewhere}",
    samples=_pasted,
    reference=_pasting,
    method=False,
)
def _as_strided_scatter(input, src, *, size, stride, storage_offset, geometry):
    """A copy of a tensor with ``src`` in the places that ``as_strided`` would see.

    Shapes: src as ``size``, output as input. Raises RuntimeError where an element would lie outside of the memory.
    """
    return torch.as_strided_scatter(input, src, size, stride, storage_offset)


@_as_strided_scatter.rule("input", r"0 \text{ at the strided positions, } \bar{y} \text{ elsewhere}")
def _(g, size, stride, storage_offset, geometry):
    ones = torch.ones(size, dtype=g.dtype, device=g.device)
    return g.masked_fill(_gathered(ones, (size, stride, storage_offset), geometry) != 0, 0)


@_as_strided_scatter.rule("src", r"\bar{y} \text{ at the strided positions}")
def _(g, size, stride, storage_offset, geometry):
    return as_strided_backward(g, seen=geometry, geometry=(size, stride, storage_offset))


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of a tensor with ``src`` in the places that ``as_strided`` would see.

    Raises:
        NotImplementedError: several elements of the tensor itself are one place in memory, and it needs a gradient.
    """
    return _as_strided_scatter(input, src, **_seen(input, size, stride, storage_offset))


install("as_strided_scatter", as_strided_scatter)
install("as_strided", as_strided)
install("as_strided_", _as_strided_)


def _copying(name, viewing):
    """``viewing``, whose results are copied to memory of their own; both steps are recorded."""

    def copied(*args, **settings):
        given = viewing(*args, **settings)
        return tuple(clone(one) for one in given) if isinstance(given, tuple | list) else clone(given)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"The result of ``{name.removesuffix('_copy')}``, in memory of its own."
    copied.__signature__ = signature(viewing)  # type: ignore[attr-defined]  # what help() shows
    return copied


as_strided_copy = _copying("as_strided_copy", as_strided)
diagonal_copy = _copying("diagonal_copy", diagonal)
expand_copy = _copying("expand_copy", expand)
narrow_copy = _copying("narrow_copy", narrow)
permute_copy = _copying("permute_copy", permute)
split_with_sizes_copy = _copying("split_with_sizes_copy", split_with_sizes)
squeeze_copy = _copying("squeeze_copy", squeeze)
t_copy = _copying("t_copy", t)
transpose_copy = _copying("transpose_copy", transpose)
unbind_copy = _copying("unbind_copy", unbind)
unfold_copy = _copying("unfold_copy", unfold)
unsqueeze_copy = _copying("unsqueeze_copy", unsqueeze)
view_copy = _copying("view_copy", view)


def alias_copy(input):
    """A copy."""
    return clone(input)


def unsafe_chunk(input, chunks, dim=0):
    """The parts that ``chunk`` makes, each in memory of its own."""
    return tuple(clone(one) for one in chunk(input, chunks, dim))


def unsafe_split(input, split_size_or_sections, dim=0):
    """The parts that ``split`` makes, each in memory of its own."""
    return tuple(clone(one) for one in split(input, split_size_or_sections, dim))


for _name in ("narrow_copy", "unsafe_chunk", "unsafe_split"):
    install(_name, globals()[_name])
