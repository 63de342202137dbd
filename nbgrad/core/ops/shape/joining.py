"""Joining: several tensors become one."""

from functools import reduce
from itertools import combinations as choices, combinations_with_replacement
from typing import Any

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.ops.index.getitem import getitem
from nbgrad.core.ops.shape.views import expand, reshape, unsqueeze


def _joined(make: Make):
    for shape in SHAPES[1:]:
        yield Sample.of(make(*shape), make(*shape), dim=0)
    yield Sample.of(make(2, 3), make(2, 1), make(2, 0), dim=1)
    yield Sample.of(make(4, 1, 3), make(2, 1, 3), dim=-3)
    yield Sample.of(make(2, 3), dim=-1)
    yield Sample.of(make(0), make(2, 3), dim=1)
    yield Sample.of(make(2), make.integers(5, 3))


@op(
    formula=r"(x_1, \ldots, x_n)",
    samples=_joined,
    ranks=range(1, 6),
    reference=lambda *tensors, dim=0: torch.cat(tensors, dim),
)
def cat(*tensors, dim=0):
    """Tensors put one after the other along ``dim``.

    A skip connection of a U-Net joins the channels of two layers (Ronneberger et al. 2015,
    https://arxiv.org/abs/1505.04597), and generation appends each new key and value to its cache.

    Shapes: alike but for ``dim``, whose sizes add up; a tensor of shape (0,) joins anything. Raises RuntimeError where
    they are not.
    """
    return torch.cat(tensors, dim)


@cat.joint_rule(tensors=r"\text{its part of } \bar{y}")
def _(g, needed, tensors_shape, dim):
    start, parts = 0, list[Any]()
    for wanted, shape in zip(needed, tensors_shape, strict=True):
        if tuple(shape) == (0,):  # it joins tensors of any rank
            parts.append(torch.zeros(0, dtype=g.dtype, device=g.device))
            continue
        parts.append(g.narrow(dim, start, shape[dim]) if wanted else None)
        start += shape[dim]
    return parts


def _stacked(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), make(*shape), dim=0)
        yield Sample.of(make(*shape), make(*shape), make(*shape), dim=-1)
    yield Sample.of(make(2, 3), dim=1)


@op(
    formula=r"(x_1, \ldots, x_n)",
    samples=_stacked,
    reference=lambda *tensors, dim=0: torch.stack(tensors, dim),
)
def stack(*tensors, dim=0):
    """Tensors of one shape put side by side along a new dimension ``dim``.

    It makes a batch of examples, and a sequence of the states of a recurrent network.

    Shapes: all alike; output has one dimension more, of size n for n tensors. Raises RuntimeError where they are not
    alike.
    """
    return torch.stack(tensors, dim)


@stack.joint_rule(tensors=r"\text{its part of } \bar{y}")
def _(g, needed, dim):
    return g.unbind(dim)


concat = concatenate = cat


def _listed(tensors):
    """The tensors of the arguments, or of the list that is the only argument."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else list(tensors)


def _each(function, tensors):
    tensors = _listed(tensors)
    return function(tensors[0]) if len(tensors) == 1 else tuple(function(one) for one in tensors)


def atleast_1d(*tensors):
    """Single numbers as vectors of one; other tensors as they are."""
    return _each(_vector, tensors or ((),))


def atleast_2d(*tensors):
    """Single numbers and vectors as matrices of one row; other tensors as they are."""
    return _each(_row, tensors or ((),))


def atleast_3d(*tensors):
    """Tensors of fewer than three dimensions with new ones of size 1 around them; other tensors as they are."""
    return _each(_deep, tensors or ((),))


def _vector(x):
    return x if x.shape else reshape(x, shape=(1,))


def _row(x):
    return x if len(x.shape) > 1 else unsqueeze(_vector(x), dim=0)


def _deep(x):
    return x if len(x.shape) > 2 else unsqueeze(_row(x), dim=-1)


def hstack(tensors):
    """Tensors put side by side: along the second dimension, vectors along their only one."""
    tensors = [_vector(one) for one in tensors]
    return cat(tensors, dim=0 if len(tensors[0].shape) == 1 else 1)


def vstack(tensors):
    """Tensors put below each other: vectors become rows."""
    return cat([_row(one) for one in tensors], dim=0)


def dstack(tensors):
    """Tensors put behind each other, along the third dimension."""
    return cat([_deep(one) for one in tensors], dim=2)


row_stack = vstack


def column_stack(tensors):
    """Vectors as the columns of a matrix; tensors of more dimensions side by side."""
    return hstack([reshape(one, shape=(-1, 1)) if len(one.shape) < 2 else one for one in tensors])


def block_diag(*tensors):
    """A matrix with these matrices along its diagonal and 0 elsewhere."""
    blocks = [_row(one) for one in _one_type(_listed(tensors))]
    for block in blocks:
        if len(block.shape) > 2:
            raise RuntimeError(f"block_diag() takes tensors with at most 2 dimensions, not {len(block.shape)}")
    if not blocks:
        return torch.zeros(1, 0)
    width, before, rows = sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        height, own = block.shape
        sides = [
            torch.zeros(height, size, dtype=block.dtype, device=block.device) for size in (before, width - before - own)
        ]
        rows.append(cat([sides[0], block, sides[1]], dim=1))
        before += own
    return cat(rows, dim=0)


def _one_type(tensors):
    """The tensors in the element type that they have in common, in which a number counts less than what has dimensions.

    ``cat`` knows no such difference, so the numbers are converted before they get dimensions.
    """
    if len({one.dtype for one in tensors}) < 2:
        return tensors
    kinds = [reduce(torch.promote_types, dtypes) for dtypes in _by_dims(tensors) if dtypes]
    common = kinds[0]
    if len(kinds) > 1:
        common = torch.result_type(torch.empty(0, dtype=kinds[0]), torch.empty((), dtype=kinds[1]))
    return [one.to(dtype=common) for one in tensors]


def _by_dims(tensors):
    """The element types of what has dimensions, and of numbers."""
    return [one.dtype for one in tensors if one.shape], [one.dtype for one in tensors if not one.shape]


def broadcast_tensors(*tensors):
    """Tensors stretched to the shape that they have in common by broadcasting."""
    tensors = _listed(tensors)
    shape = torch.broadcast_shapes(*[tuple(one.shape) for one in tensors])
    return tuple(one if one.shape == shape else expand(one, size=tuple(shape)) for one in tensors)


def meshgrid(*tensors, indexing="ij"):
    """The coordinates of the points of a grid: each vector lies along its own dimension, stretched along the others.

    With ``indexing="xy"`` the first two dimensions are swapped, as a picture has rows before columns.
    """
    if indexing not in ("ij", "xy", None):  # None is what torch's function hands on where nothing is said
        raise RuntimeError(f"meshgrid: indexing must be one of 'xy' or 'ij', but it is {indexing!r}")
    vectors = [_vector(one) for one in _listed(tensors)]
    if any(len(one.shape) > 1 for one in vectors):
        raise RuntimeError("meshgrid() takes vectors and single numbers")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    sizes = tuple(vectors[i].shape[0] for i in order)

    def along(position, vector):
        shape = tuple(size if i == position else 1 for i, size in zip(order, sizes, strict=True))
        return expand(reshape(vector, shape=shape), size=sizes)

    return tuple(along(position, vector) for position, vector in enumerate(vectors))


def cartesian_prod(*tensors):
    """Every choice of one element of each vector: a choice is a row."""
    vectors = _listed(tensors)
    if any(len(one.shape) != 1 for one in vectors):
        raise RuntimeError("cartesian_prod() takes vectors")
    if len(vectors) == 1:
        return vectors[0]
    return stack([reshape(one, shape=(-1,)) for one in meshgrid(*vectors)], dim=1)


def combinations(input, r=2, with_replacement=False):
    """Every choice of ``r`` elements of a vector, in its order: a choice is a row."""
    if len(input.shape) != 1:
        raise RuntimeError(f"combinations() takes a vector, not a tensor of {len(input.shape)} dimensions")
    if r < 0:
        raise RuntimeError(f"combinations() takes a number of elements that is not negative, not {r}")
    if r == 0:
        return torch.empty(0, dtype=input.dtype, device=input.device)
    chosen = list((combinations_with_replacement if with_replacement else choices)(range(input.shape[0]), r))
    rows = torch.tensor(chosen, dtype=torch.int64, device=input.device).reshape(-1, r)
    return getitem(input, index=rows)
