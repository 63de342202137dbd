"""The same numbers seen in another shape or with their dimensions in another order."""

from math import prod

import torch

from nbgrad.core.dispatch.arguments import bind
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.op import install, install_property, op
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample, unary
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.node import identity, raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.tensor.views import View


def _reshapes(make: Make):
    yield Sample.of(make(), shape=(1, 1))
    yield Sample.of(make(6), shape=(2, 3))
    yield Sample.of(make(2, 3), shape=(-1,))
    yield Sample.of(make(2, 1, 3), shape=(3, 2))
    yield Sample.of(make(2, 2, 1, 3), shape=(4, -1))
    yield Sample.of(make(1, 2, 2, 1, 2), shape=(2, 2, 2))
    yield Sample.of(make(2, 0, 3), shape=(0, 5))


@op(formula=r"x \text{ in shape } s", variadic="shape", samples=_reshapes, view=True, traits=Traits(moves=True))
def reshape(x, *, shape):
    """The same elements, in the same order, in another shape; one size may be -1 and is worked out.

    A batch of images becomes a batch of rows with it, before a linear layer.

    Shapes: output as ``shape``. Raises RuntimeError where the number of elements differs.
    """
    return torch.reshape(x, shape)


@reshape.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(*x_shape) if x_shape else g.reshape(())  # torch reads numbers faster than a tuple of them


def _views(make: Make):
    for sample in _reshapes(make):
        yield Sample(sample.args, {"size": sample.settings["shape"]})


@op(
    formula=r"x \text{ in shape } s",
    variadic="size",
    samples=_views,
    view=True,
    method=False,
    traits=Traits(moves=True, laid=True),
)
def view(x, *, size):
    """The same elements in another shape, in the same memory; one size may be -1 and is worked out.

    Attention splits its channels into heads with it.

    Shapes: output as ``size``. Raises RuntimeError where the number of elements differs, or x lies in memory in
    another order: ``reshape`` copies it then.
    """
    return x.view(size)


@view.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(x_shape)


def _bits(make: Make):
    yield Sample.of(make(), dtype=torch.int64)
    yield from (Sample.of(make(*shape), dtype=torch.float32) for shape in SHAPES if shape)


@op(formula=r"\text{the bits of } x", samples=_bits, differentiable=False, view=True, traits=Traits(laid=True))
def view_dtype(x, *, dtype):
    """The same memory read as another element type; it has no gradient.

    Shapes: output as x, its last dimension longer or shorter with the size of an element. Raises RuntimeError where
    that does not come out even.
    """
    return x.view(dtype)


def _view(self, *shape, dtype=None, **size):
    """The same memory in another shape, or with its bits read as another element type."""
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        dtype = shape[0]
    if dtype is None:
        return view(self, *shape, **size)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"view() takes an element type as dtype, not {dtype!r}: write x.view(*size) for a shape")
    return view_dtype(self, dtype=dtype)


install("view", _view)


def _expansions(make: Make):
    yield Sample.of(make(), size=(2, 3))
    yield Sample.of(make(3), size=(2, 3))
    yield Sample.of(make(2, 1), size=(2, 4))
    yield Sample.of(make(2, 1, 3), size=(5, 2, -1, 3))
    yield Sample.of(make(2, 2, 1, 3), size=(2, 2, 4, 3))
    yield Sample.of(make(1, 2, 2, 1, 2), size=(3, 2, 2, 2, 2))
    yield Sample.of(make(2, 0, 1), size=(2, 0, 3))
    yield Sample.of(make(1), size=(0,))
    yield Sample.of(make(2, 3), size=(2, 3))


@op(
    formula=r"x \text{ stretched to shape } s",
    broadcasts=True,
    variadic="size",
    samples=_expansions,
    view=True,
    traits=Traits(moves=True),
)
def expand(x, *, size):
    """Dimensions of size 1, and new leading ones, stretched without copying; -1 keeps a size.

    Broadcasting does this silently; its gradient sums over the stretched dimensions.

    Shapes: output as ``size``. Raises RuntimeError where a dimension that is not 1 would change.
    """
    return x.expand(size)


@expand.rule("x", r"\sum \bar{y} \text{ over the stretched dimensions}", kernel=identity)
def _(g):
    return g  # the engine sums the gradient, and notes over which dimensions


def _contractions(make: Make):
    yield Sample.of(make(), size=())
    yield Sample.of(make(3), size=(1,))
    yield Sample.of(make(2, 2, 1, 3), size=(1, 1, 3))
    yield Sample.of(make(2, 3), size=())
    yield Sample.of(make(2, 3), size=(3,))
    yield Sample.of(make(4, 5), size=(4, 1))
    yield Sample.of(make(3, 2, 2, 1, 2), size=(2, 1, 1, 2))
    yield Sample.of(make(2, 0, 3), size=(3,))
    yield Sample.of(make(2, 3), size=(2, 3))


@op(
    formula=r"\sum x \text{ down to shape } s",
    variadic="size",
    samples=_contractions,
    reference=torch.Tensor.sum_to_size,
    view=True,
)
def sum_to_size(x, *, size):
    """Sum over leading dimensions, and over those that are 1 in ``size``: the undoing of a broadcast.

    Shapes: output as ``size``, which broadcasts to the shape of x. Raises RuntimeError where it does not.
    """
    return x.sum_to_size(size)


@sum_to_size.rule("x", r"\bar{y} \text{ stretched to the shape of } x")
def _(g, x_shape):
    return g.expand(x_shape)


def _new_dims(make: Make):
    yield from (Sample.of(make(*shape), dim=0) for shape in SHAPES)
    yield from (Sample.of(make(*shape), dim=-1) for shape in SHAPES)


@op(formula=r"x \text{ with a new dimension}", samples=_new_dims, view=True, traits=Traits(moves=True))
def unsqueeze(x, *, dim):
    """A new dimension of size 1 at ``dim``, without copying.

    Shapes: output has one dimension more than x. Raises IndexError where ``dim`` is out of range.
    """
    return torch.unsqueeze(x, dim)


@unsqueeze.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(x_shape)


def _ones(make: Make):
    yield from (Sample.of(make(*shape)) for shape in SHAPES)
    yield Sample.of(make(2, 1, 3), dim=1)
    yield Sample.of(make(2, 1, 3), dim=0)
    yield Sample.of(make(1, 0, 1), dim=-1)


@op(formula=r"x \text{ without dimensions of size 1}", samples=_ones, view=True, traits=Traits(moves=True))
def squeeze(x, *, dim=None):
    """The dimensions of size 1 removed, all of them or ``dim`` alone, without copying.

    Shapes: output without these dimensions; a ``dim`` of another size stays.
    """
    return torch.squeeze(x) if dim is None else torch.squeeze(x, dim)


@squeeze.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(x_shape)


def _copies(make: Make):
    yield from unary(make)
    yield Sample.of(make(2, 3).T, memory_format=torch.contiguous_format)
    yield Sample.of(make(2, 3, 2, 2), memory_format=torch.channels_last)


@op(formula=r"x", kernel=torch.clone, samples=_copies, traits=Traits(moves=True))
def clone(x, *, memory_format=torch.preserve_format):
    """A copy in memory of its own; gradients pass through it.

    Shapes: output as x.
    """


@clone.rule("x", r"\bar{y}", kernel=identity)
def _(g):
    return g


def contiguous(input, memory_format=torch.contiguous_format):
    """The tensor laid out in memory in the order of its elements: itself if it is, a copy otherwise."""
    raw = raw_of(input)
    return input if raw.is_contiguous(memory_format=memory_format) else clone(input, memory_format=memory_format)


def flatten(input, start_dim=0, end_dim=-1):
    """The dimensions from ``start_dim`` to ``end_dim`` as one; a single number becomes a vector of one.

    It stands between the convolutions and the linear layers of a classifier.
    """
    shape = tuple(input.shape)
    start, end = _dim(start_dim, len(shape)), _dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    return reshape(input, shape=(*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


def _dim(dim, rank):
    """The dimension as a number from 0 on."""
    count = rank or 1
    if not -count <= dim < count:
        raise IndexError(f"dimension {dim} is out of range for a tensor of {rank} dimensions")
    return dim % count


def unflatten(input, dim, sizes):
    """One dimension as several, of these sizes, one of which may be -1."""
    shape, dim = tuple(input.shape), _dim(dim, len(input.shape))
    sizes = tuple(sizes)
    known = prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and shape[dim] % known == 0:
        sizes = tuple(shape[dim] // known if size == -1 else size for size in sizes)
    if prod(sizes) != shape[dim]:
        raise RuntimeError(f"unflatten: the sizes {sizes} do not multiply to {shape[dim]}, the size of dimension {dim}")
    return view(input, size=(*shape[:dim], *sizes, *shape[dim + 1 :]))


def ravel(input):
    """All elements as one vector: in the same memory, but a copy where they do not lie in it one after the other."""
    return reshape(contiguous(input), shape=(-1,))


def view_as(input, other):
    """The same memory in the shape of another tensor."""
    return view(input, size=tuple(other.shape))


def reshape_as(input, other):
    """The elements in the shape of another tensor."""
    return reshape(input, shape=tuple(other.shape))


def expand_as(input, other):
    """Dimensions of size 1, and new leading ones, stretched to the shape of another tensor."""
    return expand(input, size=tuple(other.shape))


def broadcast_to(input, size):
    """Dimensions of size 1, and new leading ones, stretched to ``size``."""
    return expand(input, size=tuple(size))


def _broadcast_to(self, *sizes, size=()):
    """Dimensions of size 1, and new leading ones, stretched to ``size``, a tuple or separate numbers."""
    return expand(self, size=tuple(size)) if not sizes else expand(self, *sizes)


install("broadcast_to", _broadcast_to)
for _function in (contiguous, flatten, unflatten, ravel, view_as, reshape_as, expand_as):
    install(_function.__name__, _function)


# In place: the tensor keeps its memory and sees it in another shape.


def turned(x, twin, settings):
    """Run ``twin`` on ``x``, and return ``x``. If ``x`` shares memory, no value of the other tensors changes."""
    alias = x._alias
    shared = isinstance(alias, View) or (alias is not None and alias.all())
    return twin.turn(x, settings) if shared else twin(x, **settings)


def turning(row):
    """Give ``Tensor`` the in-place twin of a row whose result is the same memory in another shape."""
    twin = InPlace(row, True, OPS)

    def method(self, *args, **settings):
        given, settings, _ = bind(row, (self, *args), settings)
        return turned(given[0], twin, settings)

    method.__name__, method.__doc__ = f"{row.name}_", twin.__doc__
    install(method.__name__, method)
    return method


for _row in (squeeze, unsqueeze):
    turning(_row)


def _swaps(make: Make):
    yield Sample.of(make(), dim0=0, dim1=-1)
    yield Sample.of(make(3), dim0=0, dim1=0)
    for shape in (shape for shape in SHAPES if len(shape) > 1):
        yield Sample.of(make(*shape), dim0=0, dim1=1)
        yield Sample.of(make(*shape), dim0=-1, dim1=0)
    yield Sample.of(make(2, 3), dim0=1, dim1=1)


@op(formula=r"x^{\top}", samples=_swaps, view=True, traits=Traits(moves=True))
def transpose(x, *, dim0, dim1):
    """Two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """
    return torch.transpose(x, dim0, dim1)


@transpose.rule("x", r"\bar{y}^{\top}")
def _(g, dim0, dim1):
    return g.transpose(dim0, dim1)


def _permutations(make: Make):
    yield Sample.of(make(), dims=())
    yield Sample.of(make(3), dims=(0,))
    yield Sample.of(make(2, 3), dims=(1, 0))
    yield Sample.of(make(2, 1, 3), dims=(2, 0, 1))
    yield Sample.of(make(2, 2, 1, 3), dims=(-1, 0, 2, 1))
    yield Sample.of(make(1, 2, 2, 1, 3), dims=(4, 2, 0, 1, 3))
    yield Sample.of(make(2, 0, 3), dims=(1, 2, 0))


@op(
    formula=r"x \text{ with its dimensions reordered}",
    variadic="dims",
    samples=_permutations,
    view=True,
    traits=Traits(moves=True),
)
def permute(x, *, dims):
    """The dimensions in another order, without copying.

    Images change between channels first and channels last with it.

    Shapes: output dimension i is dimension ``dims[i]`` of x. Raises RuntimeError unless ``dims`` names each one once.
    """
    return torch.permute(x, dims)


@permute.rule("x", r"\bar{y} \text{ with the order undone}")
def _(g, dims):
    back = [0] * len(dims)
    for to, source in enumerate(dims):
        back[source % len(dims)] = to
    return g.permute(back)


def t(input):
    """A matrix transposed; a vector or a single number as it is.

    Raises:
        RuntimeError: the tensor has more than two dimensions.
    """
    if len(input.shape) > 2:
        raise RuntimeError(f"t() expects a tensor with at most 2 dimensions, but it has {len(input.shape)}")
    return transpose(input, dim0=0, dim1=-1)


def _t_(self):
    """In place: a matrix transposed, without moving its elements."""
    if len(self.shape) > 2:
        raise RuntimeError(f"t_() expects a tensor with at most 2 dimensions, but it has {len(self.shape)}")
    return transpose_(self, 0, -1)


def movedim(input, source, destination):
    """Some dimensions moved to other positions; the others keep their order."""
    rank = len(input.shape)
    froms, tos = ([_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)] for dim in (source, destination))
    if len(froms) != len(tos):
        raise RuntimeError(f"movedim: {len(froms)} dimensions in source, but {len(tos)} in destination")
    if len(set(froms)) < len(froms) or len(set(tos)) < len(tos):
        raise RuntimeError(f"movedim: repeated dimension in source {source} or destination {destination}")
    if not rank:
        return permute(input, dims=())
    others = iter([d for d in range(rank) if d not in froms])
    placed = dict(zip(tos, froms, strict=True))
    return permute(input, dims=tuple(placed[d] if d in placed else next(others) for d in range(rank)))


def adjoint(input):
    """The last two dimensions swapped, and complex numbers conjugated."""
    _check_matrix(input, "adjoint()")
    return _adjoint(input)


def _adjoint(x):
    return conjugate(_turned(x))


def _turned(x):
    """The last two dimensions swapped; a number as it is, as torch has it."""
    return transpose(x, dim0=-2, dim1=-1) if len(x.shape) else permute(x, dims=())


def _T(x):
    """All dimensions in reverse order: a matrix transposed."""
    return permute(x, dims=tuple(reversed(range(len(x.shape)))))


def mT(x):
    """The last two dimensions swapped: a batch of matrices transposed."""
    _check_matrix(x, "tensor.mT")
    return _turned(x)


def mH(x):
    """The last two dimensions swapped, and complex numbers conjugated."""
    _check_matrix(x, "tensor.mH")
    return _adjoint(x)


def _H(x):
    """A matrix transposed, and complex numbers conjugated."""
    if len(x.shape) not in (0, 2):
        raise RuntimeError(f"tensor.H is only for matrices, but the tensor has {len(x.shape)} dimensions")
    return _adjoint(x) if len(x.shape) == 2 else conjugate(x)


def _check_matrix(x, what):
    if len(x.shape) == 1:
        raise RuntimeError(f"{what} is only for matrices or batches of them, but the tensor has 1 dimension")


transpose_ = turning(transpose)
swapaxes = swapdims = transpose
moveaxis = movedim
for _name, _method in {
    "adjoint": adjoint,
    "moveaxis": movedim,
    "movedim": movedim,
    "swapaxes": transpose,
    "swapaxes_": transpose_,
    "swapdims": transpose,
    "swapdims_": transpose_,
    "t": t,
    "t_": _t_,
}.items():
    install(_name, _method)
for _name, _part in {"H": _H, "T": _T, "mH": mH, "mT": mT}.items():
    install_property(_name, _part)
