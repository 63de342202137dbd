"""Shape: the same numbers seen in another shape or order."""

import torch

from nbgrad.core.op import op
from nbgrad.core.samples import SHAPES, Make, Sample, unary


def _reshapes(make: Make):
    yield Sample.of(make(), shape=(1, 1))
    yield Sample.of(make(6), shape=(2, 3))
    yield Sample.of(make(2, 3), shape=(-1,))
    yield Sample.of(make(2, 1, 3), shape=(3, 2))
    yield Sample.of(make(2, 2, 1, 3), shape=(4, -1))
    yield Sample.of(make(1, 2, 2, 1, 2), shape=(2, 2, 2))
    yield Sample.of(make(2, 0, 3), shape=(0, 5))


@op(formula=r"x \text{ in shape } s", variadic="shape", samples=_reshapes, view=True)
def reshape(x, *, shape):
    """The same elements, in the same order, in another shape; one size may be -1 and is worked out.

    A batch of images becomes a batch of rows with it, before a linear layer.

    Shapes: output as ``shape``. Raises RuntimeError where the number of elements differs.
    """
    return torch.reshape(x, shape)


@reshape.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(x_shape)


def _swaps(make: Make):
    yield Sample.of(make(), dim0=0, dim1=-1)
    yield Sample.of(make(3), dim0=0, dim1=0)
    for shape in (shape for shape in SHAPES if len(shape) > 1):
        yield Sample.of(make(*shape), dim0=0, dim1=1)
        yield Sample.of(make(*shape), dim0=-1, dim1=0)
    yield Sample.of(make(2, 3), dim0=1, dim1=1)


@op(formula=r"x^{\top}", samples=_swaps, view=True)
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


@op(formula=r"x \text{ with its dimensions reordered}", variadic="dims", samples=_permutations, view=True)
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


def _expansions(make: Make):
    yield Sample.of(make(), sizes=(2, 3))
    yield Sample.of(make(3), sizes=(2, 3))
    yield Sample.of(make(2, 1), sizes=(2, 4))
    yield Sample.of(make(2, 1, 3), sizes=(5, 2, -1, 3))
    yield Sample.of(make(2, 2, 1, 3), sizes=(2, 2, 4, 3))
    yield Sample.of(make(1, 2, 2, 1, 2), sizes=(3, 2, 2, 2, 2))
    yield Sample.of(make(2, 0, 1), sizes=(2, 0, 3))
    yield Sample.of(make(1), sizes=(0,))
    yield Sample.of(make(2, 3), sizes=(2, 3))


@op(
    formula=r"x \text{ stretched to shape } s",
    variadic="sizes",
    samples=_expansions,
    reference=lambda x, sizes: x.expand(sizes),
    view=True,
)
def expand(x, *, sizes):
    """Dimensions of size 1, and new leading ones, stretched without copying; -1 keeps a size.

    Broadcasting does this silently; its gradient sums over what was stretched.

    Shapes: output as ``sizes``. Raises RuntimeError where a dimension that is not 1 would change.
    """
    return x.expand(sizes)


@expand.rule("x", r"\sum \bar{y} \text{ over what was stretched}")
def _(g, x_shape):
    return g.sum_to_size(x_shape)


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


@op(formula=r"x \text{ with a new dimension}", samples=_new_dims, view=True)
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


@op(formula=r"x \text{ without dimensions of size 1}", samples=_ones, view=True)
def squeeze(x, *, dim=None):
    """The dimensions of size 1 removed, all of them or ``dim`` alone, without copying.

    Shapes: output without these dimensions; a ``dim`` of another size stays.
    """
    return torch.squeeze(x) if dim is None else torch.squeeze(x, dim)


@squeeze.rule("x", r"\bar{y} \text{ in the shape of } x")
def _(g, x_shape):
    return g.reshape(x_shape)


@op(formula=r"x", samples=unary)
def clone(x):
    """A copy in memory of its own; gradients pass through it.

    Shapes: output as x.
    """
    return torch.clone(x)


@clone.rule("x", r"\bar{y}")
def _(g):
    return g
