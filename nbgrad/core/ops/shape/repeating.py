"""Repeating, flipping and rolling elements."""

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.tensor import Tensor


def _repeats(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), repeats=(1, 2, 1)[: len(shape)] if len(shape) < 3 else (1,) * len(shape))
    yield Sample.of(make(), repeats=(2, 3))
    yield Sample.of(make(3), repeats=(2, 1, 3))
    yield Sample.of(make(2, 3), repeats=(0, 2))


@op(formula=r"(x, \ldots, x)", variadic="repeats", samples=_repeats)
def repeat(input, *, repeats):
    """Copies of a tensor put side by side, so many along each dimension; there may be new leading dimensions.

    Each element gets the sum of the gradients of its copies. ``expand`` does the same for a size of 1 without copying.

    Shapes: each size times its number. Raises RuntimeError for fewer numbers than dimensions.
    """
    return input.repeat(repeats)


@repeat.rule("input", r"\sum \bar{y} \text{ over the copies}")
def _(g, input_shape, repeats):
    extra = len(repeats) - len(input_shape)
    sizes = (1,) * extra + tuple(input_shape)
    if 0 in repeats:
        return torch.zeros(tuple(input_shape), dtype=g.dtype, device=g.device)
    apart = tuple(part for number, size in zip(repeats, sizes, strict=True) for part in (number, size))
    copies = tuple(2 * i for i, number in enumerate(repeats) if number != 1 or i < extra)
    if not copies:
        return g.reshape(tuple(input_shape))
    return g.reshape(apart).sum(copies).reshape(tuple(input_shape))


def tile(input, *repeats, dims=None):
    """Copies of a tensor put side by side; dimensions that no number is given for are not repeated."""
    given = repeats if dims is None else (dims,)
    numbers = tuple(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return repeat(input, repeats=(1,) * (len(input.shape) - len(numbers)) + tuple(numbers))


def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each slice along ``dim``, repeated ``repeats`` times in a row; without ``dim`` each element, as a vector.

    Grouped-query attention gives each key to several queries so.

    Args:
        input: the tensor. If it is the only argument, it holds numbers of repetitions, and the result is the repeated
            indices.
        repeats: a number, or one for each slice.
        dim: the dimension.
        output_size: the size of the result, if it is known: then the numbers in ``repeats`` need not be read.
    """
    if repeats is None:
        return _indices(input, output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    if not input.shape:
        input = input.reshape(1)
    dim = dim % len(input.shape)
    if not isinstance(repeats, int):
        repeats = torch.as_tensor(getattr(repeats, "data", repeats), device=input.device)
        if repeats.numel() == 1:
            repeats = repeats.reshape(1).expand(input.shape[dim])
        places = torch.repeat_interleave(repeats, output_size=output_size)
        return input[(slice(None),) * dim + (places,)]
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave() takes numbers that are not negative, not {repeats}")
    shape = tuple(input.shape)
    copies = input.unsqueeze(dim + 1).expand((*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return copies.reshape((*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :])).clone()


def _indices(repeats, output_size):
    places = torch.repeat_interleave(raw_of(repeats), output_size=output_size)
    return Tensor(places) if isinstance(repeats, Tensor) else places


def _flips(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), dims=tuple(range(len(shape))))
    yield Sample.of(make(2, 3), dims=(-1,))
    yield Sample.of(make(2, 3), dims=())


@op(formula=r"x_{n - 1 - i}", variadic="dims", samples=_flips)
def flip(input, *, dims):
    """The elements along these dimensions in reverse order.

    Mirrored images are the commonest augmentation, and a bidirectional network reads its sequence in reverse.

    Shapes: output as input. Raises IndexError where input lacks a dimension.
    """
    return torch.flip(input, (dims,) if isinstance(dims, int) else dims)


@flip.rule("input", r"\bar{y}_{n - 1 - i}")
def _(g, dims):
    return g.flip(dims)


def fliplr(input):
    """Columns in reverse order."""
    _check_rank(input, 2, "fliplr")
    return flip(input, dims=(1,))


def flipud(input):
    """Rows in reverse order."""
    _check_rank(input, 1, "flipud")
    return flip(input, dims=(0,))


def _check_rank(x, rank, name):
    if len(x.shape) < rank:
        raise RuntimeError(f"{name}() takes a tensor of at least {rank} dimensions, not {len(x.shape)}")


def _rolls(make: Make):
    yield from (Sample.of(make(*shape), shifts=1) for shape in SHAPES)
    yield Sample.of(make(2, 3), shifts=-1, dims=1)
    yield Sample.of(make(2, 3), shifts=(1, 5), dims=(0, -1))


@op(formula=r"x_{i - k}", symbols={"shifts": "k"}, samples=_rolls)
def roll(input, *, shifts, dims=()):
    """The elements moved along these dimensions, or along all of them as one vector; what leaves comes in again.

    Swin shifts its windows by half their size with it (Liu et al. 2021, https://arxiv.org/abs/2103.14030).

    Shapes: output as input. Raises RuntimeError where there are more shifts than dimensions, or fewer.
    """
    return torch.roll(input, shifts, dims)


@roll.rule("input", r"\bar{y}_{i + k}")
def _(g, shifts, dims):
    return g.roll(-shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts), dims)


def rot90(input, k=1, dims=(0, 1)):
    """A quarter turn from the first of two dimensions towards the second, ``k`` times.

    Raises:
        RuntimeError: the tensor lacks the dimensions, or they are the same one.
    """
    rank = len(input.shape)
    if len(dims) != 2 or rank < 2 or not all(-rank <= dim < rank for dim in dims) or (dims[0] - dims[1]) % rank == 0:
        raise RuntimeError(f"rot90() takes two different dimensions, not {tuple(dims)} of {rank}")
    first, second = dims
    turns = k % 4
    if turns == 1:
        return flip(input, dims=(second,)).transpose(first, second)
    if turns == 2:
        return flip(input, dims=tuple(dims))
    return flip(input, dims=(first,)).transpose(first, second) if turns == 3 else input.clone()


for _function in (tile, repeat_interleave, fliplr, flipud, rot90):
    install(_function.__name__, _function)
