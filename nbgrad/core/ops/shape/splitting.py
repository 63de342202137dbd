"""Splitting: one tensor becomes several, or one part of it is taken. The results share its memory."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.shape.joining import cat, stack


def _filled(gradients, shapes):
    """Zeros in place of the gradients that did not arrive."""
    known = next(g for g in gradients if g is not None)
    return [
        torch.zeros(shape, dtype=known.dtype, device=known.device) if g is None else g
        for g, shape in zip(gradients, shapes, strict=True)
    ]


def _rejoined(gradients, shape, sizes, dim):
    """The gradients of the parts of these sizes as that of the whole."""
    dim = dim % len(shape)
    return cat(_filled(gradients, [(*shape[:dim], size, *shape[dim + 1 :]) for size in sizes]), dim=dim)


def _sizes(size, parts):
    """The sizes of the parts. A number makes equal parts, the last maybe smaller; given sizes stay as they are."""
    if not isinstance(parts, int):
        return parts
    return [min(parts, size - start) for start in range(0, size, parts or 1)] or [0]


def _splits(make: Make):
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), split_size_or_sections=1 if shape[0] else 3)
    yield Sample.of(make(5, 3), split_size_or_sections=2)
    yield Sample.of(make(2, 5), split_size_or_sections=7, dim=-1)
    yield Sample.of(make(2, 5), split_size_or_sections=(1, 4, 0), dim=1)
    yield Sample.of(make(0, 2), split_size_or_sections=0)


@op(
    formula=r"y_1, \ldots, y_n \text{ of } x = (y_1, \ldots, y_n)",
    samples=_splits,
    ranks=range(1, 6),
    many=True,
    view=True,
)
def split(tensor, *, split_size_or_sections, dim=0):
    """The parts of a tensor along ``dim``: of one size, the last one maybe smaller, or of several sizes.

    One product makes queries, keys and values of attention, and a split takes them apart.

    Shapes: outputs as the tensor but for ``dim``. Raises RuntimeError where sizes do not add up to that of ``dim``.
    """
    return torch.split(tensor, split_size_or_sections, dim)


@split.rule("tensor", r"(\bar{y}_1, \ldots, \bar{y}_n)")
def _(g, tensor_shape, split_size_or_sections, dim):
    return _rejoined(g, tensor_shape, _sizes(tensor_shape[dim], split_size_or_sections), dim)


def _exact_splits(make: Make):
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), split_sizes=(1, shape[0] - 1) if shape[0] else (0, 0))
    yield Sample.of(make(2, 5), split_sizes=(1, 4, 0), dim=-1)


@op(
    formula=r"y_1, \ldots, y_n \text{ of } x = (y_1, \ldots, y_n)",
    samples=_exact_splits,
    ranks=range(1, 6),
    many=True,
    view=True,
)
def split_with_sizes(input, *, split_sizes, dim=0):
    """The parts of a tensor along ``dim`` of these sizes.

    Shapes: outputs as input but for ``dim``. Raises RuntimeError where sizes do not add up to that of ``dim``.
    """
    return torch.split_with_sizes(input, split_sizes, dim)


@split_with_sizes.rule("input", r"(\bar{y}_1, \ldots, \bar{y}_n)")
def _(g, input_shape, split_sizes, dim):
    return _rejoined(g, input_shape, split_sizes, dim)


def _unbound(make: Make):
    for shape in SHAPES[1:]:
        if shape[0]:
            yield Sample.of(make(*shape))
    yield Sample.of(make(2, 3), dim=1)
    yield Sample.of(make(2, 0, 3), dim=-1)


@op(
    formula=r"y_1, \ldots, y_n \text{ of } x = (y_1, \ldots, y_n)",
    kernel=torch.unbind,
    samples=_unbound,
    ranks=range(1, 6),
    many=True,
    view=True,
)
def unbind(input, *, dim=0):
    """The slices of a tensor along ``dim``, without that dimension: what ``stack`` undoes.

    A recurrent network takes the steps of a sequence apart with it.

    Shapes: outputs as input without ``dim``. Raises IndexError where input has no dimension ``dim``.
    """


@unbind.rule("input", r"(\bar{y}_1, \ldots, \bar{y}_n)")
def _(g, input_shape, dim):
    dim = dim % len(input_shape)
    return stack(_filled(g, [(*input_shape[:dim], *input_shape[dim + 1 :])] * len(g)), dim=dim)


def chunk(input, chunks, dim=0):
    """At most ``chunks`` parts of a tensor along ``dim``, of one size but for the last."""
    if chunks <= 0:
        raise RuntimeError(f"chunk() takes a number of chunks greater than 0, not {chunks}")
    size = input.shape[dim]
    if not size:
        return split(input, split_size_or_sections=(0,) * chunks, dim=dim)
    return split(input, split_size_or_sections=-(-size // chunks), dim=dim)


# One part.


def _picked(make: Make):
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), dim=0, start=0, length=min(1, shape[0]))
    yield Sample.of(make(4, 5), dim=-1, start=1, length=3)
    yield Sample.of(make(4, 5), dim=0, start=-2, length=2)
    yield Sample.of(make(4, 5), dim=0, start=4, length=0)


@op(
    formula=r"x_{i : i + n}",
    symbols={"start": "i", "length": "n"},
    samples=_picked,
    ranks=range(1, 6),
    view=True,
    traits=Traits(moves=True),
)
def narrow(input, *, dim, start, length):
    """The ``length`` slices along ``dim`` from ``start`` on, in the same memory.

    Shapes: output as input but for ``dim``. Raises RuntimeError or IndexError where the slices leave the tensor.
    """
    return torch.narrow(input, dim, int(start), length)


@narrow.rule("input", r"\bar{y} \text{ in its place, } 0 \text{ elsewhere}")
def _(g, input_shape, dim, start, length):
    begin = int(start) % max(input_shape[dim], 1) if int(start) < 0 else int(start)
    return slice_backward(g, input_sizes=tuple(input_shape), dim=dim, start=begin, end=begin + length, step=1)


def _placed(make: Make):
    for shape in SHAPES[1:]:
        size = min(1, shape[0])
        yield Sample.of(make(size, *shape[1:]), input_sizes=shape, dim=0, start=0, end=size, step=1)
    yield Sample.of(make(4, 2), input_sizes=(4, 5), dim=-1, start=1, end=5, step=2)


@op(formula=r"g \text{ in its place, } 0 \text{ elsewhere}", samples=_placed, ranks=range(1, 6))
def slice_backward(g, *, input_sizes, dim, start, end, step):
    """The gradient of a slice: zeros of the shape of the whole with the gradient in its place.

    Shapes: g as the slice, output as ``input_sizes``.
    """
    return aten.slice_backward(g, input_sizes, dim, start, end, step)


@slice_backward.rule("g", r"\text{the slice of } \bar{y}")
def _(g, dim, start, end, step):
    return g[(slice(None),) * (dim % len(g.shape)) + (slice(start, end, step),)]


def _selected(make: Make):
    for shape in SHAPES[1:]:
        if shape[0]:
            yield Sample.of(make(*shape), dim=0, index=0)
    yield Sample.of(make(4, 5), dim=-1, index=-2)
    yield Sample.of(make(2, 0, 3), dim=2, index=1)


@op(formula=r"x_i", samples=_selected, ranks=range(1, 6), view=True, traits=Traits(moves=True))
def select(input, *, dim, index):
    """The slice at ``index`` along ``dim``, without that dimension, in the same memory.

    Shapes: output as input without ``dim``. Raises IndexError where the index leaves the tensor.
    """
    return torch.select(input, dim, index)


@select.rule("input", r"\bar{y} \text{ in its place, } 0 \text{ elsewhere}")
def _(g, input_shape, dim, index):
    return select_backward(g, input_sizes=tuple(input_shape), dim=dim, index=int(index))


def _slices(make: Make):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (2, 0)):
        yield Sample.of(make(*shape), input_sizes=(2, *shape), dim=0, index=1)
    yield Sample.of(make(4), input_sizes=(4, 5), dim=-1, index=-2)


@op(formula=r"g \text{ in its place, } 0 \text{ elsewhere}", samples=_slices)
def select_backward(g, *, input_sizes, dim, index):
    """The gradient of ``select``: zeros of the shape of the whole with the gradient in its place.

    Shapes: g as the slice, output as ``input_sizes``.
    """
    return aten.select_backward(g, input_sizes, dim, index)


@select_backward.rule("g", r"\bar{y}_i")
def _(g, dim, index):
    return g.select(dim, index)


def tensor_split(input, indices_or_sections, dim=0):
    """Parts of a tensor along ``dim``: as many as asked for, of sizes that differ by at most one; or cut at indices.

    Raises:
        RuntimeError: input has no dimensions, or the number of parts is not positive.
    """
    if not input.shape:
        raise RuntimeError("tensor_split() takes a tensor of at least one dimension")
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"tensor_split() takes a number of sections greater than 0, not {indices_or_sections}")
        small, larger = divmod(size, indices_or_sections)
        cuts = [i * small + min(i, larger) for i in range(1, indices_or_sections)]
    else:
        cuts = list(indices_or_sections)
    bounds = [(start, stop) for start, stop in zip([0, *cuts], [*cuts, size], strict=True)]
    ranges = [slice(start, stop).indices(size) for start, stop in bounds]
    return tuple(narrow(input, dim=dim, start=start, length=max(stop - start, 0)) for start, stop, _ in ranges)


def _split_along(name, dim, rank):
    def parts(input, indices_or_sections):
        if len(input.shape) < rank:
            raise RuntimeError(f"{name}() takes a tensor of at least {rank} dimensions, not {len(input.shape)}")
        along = 0 if len(input.shape) == 1 else dim
        if isinstance(indices_or_sections, int) and input.shape[along] % (indices_or_sections or 1):
            raise RuntimeError(
                f"{name}(): dimension {along} of size {input.shape[along]} does not divide into "
                f"{indices_or_sections} equal parts"
            )
        return tensor_split(input, indices_or_sections, along)

    parts.__name__ = name
    parts.__doc__ = f"Equal parts of a tensor along dimension {dim}, or cut at indices."
    return parts


hsplit = _split_along("hsplit", 1, 1)
vsplit = _split_along("vsplit", 0, 2)
dsplit = _split_along("dsplit", 2, 3)

for _function in (chunk, tensor_split, hsplit, vsplit, dsplit):
    install(_function.__name__, _function)
