"""Pooling: each place of a smaller map is the largest or the mean of a window of the larger one."""

from functools import partial
from math import prod

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.indexing import gather_along
from nbgrad.core.ops.joint import per_dim, step
from nbgrad.core.samples import Domain, Make, Sample

_functional = torch.nn.functional

_LARGEST = r"\bar{y} \text{ at the indices, } 0 \text{ elsewhere}"


def windows(rank):
    """Shapes with and without a batch, and an empty one."""
    whole = (4, 3, 4)[:rank]
    return ((2, *whole), (3, 2, *whole), (0, 2, *whole))


# The largest: its gradient goes to where it was.


def _chosen(make: Make):
    """Indices into a plane, as the rows of the maximum give them; one that occurs twice, as windows overlap."""
    for rank in (1, 2, 3):
        for shape in windows(rank):
            size = 4 * 3 ** (rank > 1) * 4 ** (rank > 2)
            index = make.integers(size, *shape[:-rank], *(2,) * rank)
            yield Sample.of(make(*index.shape), index, size=shape[-rank:])


def _scattered(g, indices, x=None, *, size):
    zeros = torch.zeros((*g.shape[: -len(size)], *size), dtype=g.dtype, device=g.device).flatten(-len(size))
    return zeros.scatter_add(-1, indices.flatten(-len(size)), g.flatten(-len(size))).unflatten(-1, size)


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("indices",),
    flat=("x",),
    samples=_chosen,
    reference=_scattered,
)
def max_pool_backward(g, indices, x=None, *, size):
    """Zeros with g added where the indices, which count the places of a plane, say: the gradient of a maximum.

    It does not read ``x``, the input of the maximum, which says where the indices came from.

    Shapes: g and indices alike, of as many last dimensions as ``size`` has, which are ``size`` in the output.
    """
    shape, rank = tuple(g.shape), len(size)
    lead, places = shape[:-rank], (*shape[:-rank], prod(shape[-rank:]))
    zeros = g.new_zeros(*lead, prod(size))  # as fast as the kernels of each kind of pooling, and one for all
    zeros.scatter_add_(-1, torch.reshape(indices, places), torch.reshape(g, places))
    return torch.reshape(zeros, (*lead, *size))


@max_pool_backward.rule("g", r"\bar{y} \text{ at } i")
def _(gradient, indices, size):
    return picked(gradient, indices, len(size))


def picked(x, indices, rank):
    """The elements of the last ``rank`` dimensions of x at the indices, which count its places."""
    lead = tuple(indices.shape[:-rank])
    planes, places = (*lead, prod(x.shape[-rank:])), (*lead, prod(indices.shape[-rank:]))
    flat = gather_along(x.reshape(planes), indices.reshape(places), dim=-1)
    return flat.reshape(indices.shape)


_REGISTER = 32
"""The bytes of numbers that a processor compares at once."""

_WORTH = 1 << 13
"""With fewer numbers than that the copies take longer than they save."""


def _across_channels(rank, kernel, input, *settings):
    """What ``kernel`` gives; on a processor of a copy of the input in which the channels of a place lie side by side.

    There torch's kernel compares the channels of a place all at once. Of an input whose places lie side by side it
    compares number by number, and which of two is larger no processor can guess: 3 to 5 times as long.
    """
    side_by_side = _LAYOUTS[rank]
    if (
        not input.is_cpu
        or input.dim() != rank + 2
        or input.numel() < _WORTH
        or input.shape[1] * input.itemsize < _REGISTER
        or not input.is_contiguous()
        or input.is_contiguous(memory_format=side_by_side)
    ):
        return kernel(input, *settings)
    found = kernel(input.contiguous(memory_format=side_by_side), *settings)
    return tuple([one.clone(memory_format=torch.contiguous_format) for one in found])


_LAYOUTS = {2: torch.channels_last, 3: torch.channels_last_3d}
"""By the dimensions of a plane the layout in which the channels of a place lie side by side."""


def _largest(forward, rank, what):
    """A row whose forward gives the largest of each window, and where it was."""

    def samples(make: Make):
        shapes = windows(rank)
        for shape in shapes:
            yield Sample.of(make(*shape), kernel_size=2)
        x = make(*shapes[1])
        yield Sample.of(x, kernel_size=(2, 3, 2)[:rank], stride=(2, 1, 1)[:rank], padding=1, ceil_mode=True)
        yield Sample.of(x, kernel_size=2, stride=1, dilation=(2, 1, 2)[:rank])
        yield Sample.of(torch.zeros(shapes[1], dtype=torch.float64), kernel_size=3, stride=1, padding=1)  # ties

    forward.__name__ = f"max_pool{rank}d_with_indices"
    forward.__doc__ = f"""The largest number of each window of {what}, and where it is, as ``(out, indices)``.

    Whether a feature is there at all counts more than where exactly; the gradient goes to the winner alone, the first
    one of several. Windows are ``stride`` apart, by default their own size; padding counts as smaller than any number.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with smaller planes; indices count the places of one.
    """
    row = op(
        formula=r"\max_{i \in w} x_i",
        outputs=("out", "indices"),
        samples=samples,
        reference=getattr(_functional, f"max_pool{rank}d_with_indices"),
    )(forward)
    return _goes_to_the_winner(row, rank)


def _goes_to_the_winner(row, rank):
    @row.rule("input", _LARGEST)
    def _(g, indices, input_path, input_shape):
        return max_pool_backward(g, indices, input_path, size=tuple(input_shape[-rank:]))

    return row


def _max_pool1d(input, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    one = [per_dim(value, 1)[0] for value in (kernel_size, step(stride, kernel_size), padding, dilation)]
    sizes = [[fill, value] for fill, value in zip((1, 1, 0, 1), one, strict=True)]
    out, indices = _across_channels(2, aten.max_pool2d_with_indices, input.unsqueeze(-2), *sizes, ceil_mode)
    return out.squeeze(-2), indices.squeeze(-2)


def _max_pool2d(input, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    sizes = kernel_size, step(stride, kernel_size), padding, dilation
    return _across_channels(2, aten.max_pool2d_with_indices, input, *sizes, ceil_mode)


def _max_pool3d(input, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    sizes = kernel_size, step(stride, kernel_size), padding, dilation
    return _across_channels(3, aten.max_pool3d_with_indices, input, *sizes, ceil_mode)


max_pool1d_with_indices = _largest(_max_pool1d, 1, "a sequence")
max_pool2d_with_indices = _largest(_max_pool2d, 2, "an image")
max_pool3d_with_indices = _largest(_max_pool3d, 3, "a volume")


def _adaptive_largest(rank, what, across=False):
    """The row of the largest of as many windows as the output is to have; whether ``_across_channels`` is quicker."""
    kernel = getattr(_functional, f"adaptive_max_pool{rank}d_with_indices")
    run = partial(_across_channels, rank, kernel) if across else kernel

    def samples(make: Make):
        for shape in windows(rank):
            yield Sample.of(make(*shape), output_size=2)
        yield Sample.of(make(*windows(rank)[1]), output_size=(3, None, 1)[:rank])

    def largest(input, *, output_size):
        return run(input, output_size if isinstance(output_size, int) else list(output_size))

    largest.__name__ = f"adaptive_max_pool{rank}d_with_indices"
    largest.__doc__ = f"""The largest of each of ``output_size`` windows of {what}, and where, as ``(out, indices)``.

    Inputs of any size become outputs of one size, as a linear layer after it wants them. None keeps a size.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with planes of ``output_size``.
    """
    row = op(
        formula=r"\max_{i \in w} x_i",
        outputs=("out", "indices"),
        samples=samples,
        reference=kernel,
    )(largest)
    return _goes_to_the_winner(row, rank)


adaptive_max_pool1d_with_indices = _adaptive_largest(1, "a sequence")
adaptive_max_pool2d_with_indices = _adaptive_largest(2, "an image", across=True)
adaptive_max_pool3d_with_indices = _adaptive_largest(3, "a volume")


def _fractional(rank, what):
    """The row of the largest of windows at places drawn at random."""
    kernel = getattr(aten, f"fractional_max_pool{rank}d")

    def samples(make: Make):
        for shape in ((3, 2, *(4,) * rank), (2, *(4,) * rank), (0, 2, *(4,) * rank)):
            drawn = make((1, *shape)[-rank - 2], 2, rank, domain=Domain(0.0, 1.0))
            sizes = {"kernel_size": (2,) * rank, "output_size": (2,) * rank}
            yield Sample.of(make(*shape), drawn, **sizes)

    def largest(input, random_samples, *, kernel_size, output_size):
        return kernel(input, kernel_size, output_size, random_samples)

    largest.__name__ = f"fractional_max_pool{rank}d_with_indices"
    largest.__doc__ = f"""The largest of each of ``output_size`` windows of {what} at random places, and where it is.

    Windows overlap irregularly, so a map shrinks by any factor (Graham 2014, https://arxiv.org/abs/1412.6071).

    Shapes: input (N, C, ...) or (C, ...), random_samples (N, C, {rank}) from 0 to 1, both outputs as input with planes
    of ``output_size``.
    """
    row = op(
        formula=r"\max_{i \in w} x_i",
        outputs=("out", "indices"),
        no_gradient=("random_samples",),
        samples=samples,
        reference=lambda x, drawn, *, kernel_size, output_size: kernel(x, kernel_size, output_size, drawn),
    )(largest)
    return _goes_to_the_winner(row, rank)


fractional_max_pool2d_with_indices = _fractional(2, "an image")
fractional_max_pool3d_with_indices = _fractional(3, "a volume")


def _put_back(make: Make):
    for rank in (1, 2, 3):
        for shape in windows(rank):
            x = make(*shape[:-rank], *(2,) * rank)
            size = shape[-rank:]
            places = torch.arange(2**rank).reshape((2,) * rank).flip(0)
            yield Sample.of(x, places.expand(x.shape).contiguous(), size=size)


@op(
    formula=r"x \text{ at } i \text{ in zeros}",
    no_gradient=("indices",),
    samples=_put_back,
    reference=lambda x, indices, size: (
        torch.zeros((*x.shape[: -len(size)], *size), dtype=x.dtype, device=x.device)
        .flatten(-len(size))
        .scatter(-1, indices.flatten(-len(size)), x.flatten(-len(size)))
        .unflatten(-1, size)
    ),
)
def max_unpool(x, indices, *, size):
    """Zeros with x put where the indices of a max pooling say: its partial inverse.

    A decoder puts features back where the encoder found them (Zeiler and Fergus 2014, https://arxiv.org/abs/1311.2901).

    Shapes: x and indices alike, of as many last dimensions as ``size`` has, which are ``size`` in the output. Raises
    RuntimeError for an index beyond it.
    """
    rank = len(size)
    zeros = x.new_zeros((*x.shape[:-rank], *size))
    zeros.flatten(-rank).scatter_(-1, indices.flatten(-rank), x.flatten(-rank))
    return zeros


@max_unpool.rule("x", r"\bar{y} \text{ at } i")
def _(g, indices, size):
    return picked(g, indices, len(size))
