"""Pooling: each element of the output is the maximum or the mean of a window of the input."""

from functools import partial
from math import inf, prod

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Domain, Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._joint_rules import per_dim, shaped, step
from nbgrad.core.ops.index.getitem import gather_along
from nbgrad.core.ops.neural.rectifiers import relu

_functional = torch.nn.functional

_LARGEST = r"\bar{y} \text{ at the indices, } 0 \text{ elsewhere}"


def windows(rank):
    """Shapes with and without a batch, and an empty one."""
    whole = (4, 3, 4)[:rank]
    return ((2, *whole), (3, 2, *whole), (0, 2, *whole))


# The largest: its gradient goes to where it was.


def _chosen(make: Make):
    """Indices into a plane, as the rows of the maximum give them. One occurs twice, as with overlapping windows."""
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
    ranks=range(2, 6),
    reference=_scattered,
)
def max_pool_backward(g, indices, x=None, *, size):
    """Zeros with g added at the indices, which count the places of a plane: the gradient of a maximum.

    It does not read ``x``, the input of the maximum. ``x`` only records which tensor the indices came from.

    Shapes: g and indices alike; output as g, but ``size`` replaces the last dimensions, as many as it has.
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
    """The result of ``kernel``; on a CPU, for a copy of the input in which the channels of a place lie side by side.

    In this copy torch's kernel compares the channels of a place all at once. In an input whose places lie side by side,
    it compares number by number. No processor can predict which of two numbers is larger, so this takes 3 to 5 times as
    long.
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
"""The layout in which the channels of a place lie side by side, for each number of dimensions of a plane."""


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
        ranks=(rank + 1, rank + 2),
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
    """The row for the maximum of each window of an adaptive pooling; ``across`` uses ``_across_channels``."""
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

    Inputs of any size become outputs of one size, as a following linear layer needs them. Where ``output_size`` is
    None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), both outputs alike with planes of ``output_size``.
    """
    row = op(
        formula=r"\max_{i \in w} x_i",
        outputs=("out", "indices"),
        samples=samples,
        ranks=(rank + 1, rank + 2),
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
        drawn = make(1, 2, rank, domain=Domain(0.0, 1.0))
        yield Sample.of(make(2, *(4,) * rank), drawn, kernel_size=(2, 1, 2)[:rank], output_size=(2, 3, 1)[:rank])

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
        ranks=(rank + 1, rank + 2),
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
    ranks=range(2, 6),
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

    Shapes: x and indices alike; output as x, but ``size`` replaces the last dimensions, as many as it has. Raises
    RuntimeError for an index beyond ``size``.
    """
    rank = len(size)
    zeros = x.new_zeros((*x.shape[:-rank], *size))
    zeros.flatten(-rank).scatter_(-1, indices.flatten(-rank), x.flatten(-rank))
    return zeros


@max_unpool.rule("x", r"\bar{y} \text{ at } i")
def _(g, indices, size):
    return picked(g, indices, len(size))


def _settings(rank):
    """Every setting of a mean over windows."""
    yield {"kernel_size": 2}
    yield {"kernel_size": (3, 2, 2)[:rank], "stride": (2, 1, 1)[:rank], "padding": 1}
    yield {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False}
    yield {"kernel_size": (3, 2, 3)[:rank], "stride": 2, "ceil_mode": True}


def _averages(rank):
    def samples(make: Make):
        shapes = windows(rank)
        for shape in shapes:
            yield Sample.of(make(*shape), kernel_size=2)
        for settings in _settings(rank):
            yield Sample.of(make(*shapes[1]), **settings)
        if rank > 1:
            yield Sample.of(make(*shapes[1]), kernel_size=2, divisor_override=3)

    return samples


def _kernel_of(rank):
    return getattr(_functional, f"avg_pool{rank}d")


_DOC = """The mean of each window of {what}.

    It shrinks a map: a feature that moves by less than a window still counts. Each place of a window gets the same
    gradient. Windows are ``stride`` apart, by default their own size. Zeros of the padding count, unless
    ``count_include_pad`` is False.{divisor}

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """
_DIVISOR = " ``divisor_override`` divides in place of the number of places."
_MEAN = r"\frac{1}{|w|} \sum_{i \in w} x_i"
_SHARED = r"\sum_{w \ni i} \frac{\bar{y}_w}{|w|}"


def _mean1d(input, *, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    return _functional.avg_pool1d(input, kernel_size, step(stride, kernel_size), padding, ceil_mode, count_include_pad)


_mean1d.__name__, _mean1d.__doc__ = "avg_pool1d", _DOC.format(what="a sequence", divisor="")
avg_pool1d = op(formula=_MEAN, samples=_averages(1), ranks=(2, 3), reference=_functional.avg_pool1d)(_mean1d)


@avg_pool1d.rule("input", _SHARED)
def _(g, input_path, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad):
    settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    return avg_pool_backward(
        g, input_path, size=tuple(input_shape[-1:]), count_include_pad=count_include_pad, **settings
    )


def _average(rank, what):
    """The row of the mean of windows of planes or volumes."""
    kernel = _kernel_of(rank)

    def average(
        input,
        *,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        return kernel(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    average.__name__, average.__doc__ = f"avg_pool{rank}d", _DOC.format(what=what, divisor=_DIVISOR)
    row = op(formula=_MEAN, samples=_averages(rank), ranks=(rank + 1, rank + 2), reference=kernel)(average)

    @row.rule("input", _SHARED)
    def _(g, input_path, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        settings |= {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
        return avg_pool_backward(g, input_path, size=tuple(input_shape[-rank:]), **settings)

    return row


avg_pool2d = _average(2, "an image")
avg_pool3d = _average(3, "a volume")
_ROWS = (avg_pool1d, avg_pool2d, avg_pool3d)


def _shares(make: Make):
    for rank, row in enumerate(_ROWS, 1):
        some, more, empty = windows(rank)
        for shape, settings in [
            *((more, one) for one in _settings(rank)),
            *((one, {"kernel_size": 2}) for one in (some, empty)),
        ]:
            y = row(make(*shape), **settings)
            yield Sample.of(make(*y.shape), size=shape[-rank:], **settings)
        if rank > 1:
            yield Sample.of(make(2, *(2, 1, 2)[:rank]), size=(4, 3, 4)[:rank], kernel_size=2, divisor_override=3)


def _by_torch(g, x=None, *, size, **settings):
    x = torch.zeros((*g.shape[: -len(size)], *size), dtype=g.dtype, device=g.device, requires_grad=True)
    with torch.enable_grad():
        y = _kernel_of(len(size))(x, **settings)
        return torch.autograd.grad(y, x, g, create_graph=True)[0]


@op(
    formula=r"\sum_{w \ni i} \frac{g_w}{|w|}",
    flat=("x",),
    samples=_shares,
    ranks=range(2, 6),
    reference=_by_torch,
)
def avg_pool_backward(
    g,
    x=None,
    *,
    size,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """The gradient of each place of planes of ``size``, from g, the gradient of the means of windows.

    It does not read ``x``, the input of the means: a mean has no second derivative. As in torch, the gradient of ``x``
    is zeros, not None.

    Shapes: output as g, but ``size`` replaces the last dimensions, as many as it has.
    """
    rank = len(size)
    sizes = [per_dim(value, rank) for value in (kernel_size, step(stride, kernel_size), padding)]
    if rank == 1:  # torch's kernels know planes and volumes
        sizes = [[fill, *value] for fill, value in zip((1, 1, 0), sizes, strict=True)]
        g, size = g.unsqueeze(-2), (1, *size)
    given = shaped(g, (*g.shape[: -len(size)], *size))
    kernel = aten.avg_pool3d_backward if rank == 3 else aten.avg_pool2d_backward
    out = kernel(g, given, *sizes, ceil_mode, count_include_pad, divisor_override)
    return out.squeeze(-2) if rank == 1 else out


@avg_pool_backward.rule("g", r"\frac{1}{|w|} \sum_{i \in w} \bar{y}_i")
def _(gradient, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    if len(size) > 1:
        settings["divisor_override"] = divisor_override
    return _ROWS[len(size) - 1](gradient, count_include_pad=count_include_pad, **settings)


def _adaptive(rank, what):
    """The row for the mean of each window of an adaptive pooling."""
    kernel = getattr(_functional, f"adaptive_avg_pool{rank}d")

    def samples(make: Make):
        for shape in windows(rank):
            yield Sample.of(make(*shape), output_size=2)
        yield Sample.of(make(*windows(rank)[1]), output_size=(3, None, 5)[:rank])
        yield Sample.of(make(*windows(rank)[1]), output_size=1)

    def average(input, *, output_size):
        return kernel(input, output_size if isinstance(output_size, int) else list(output_size))

    average.__name__ = f"adaptive_avg_pool{rank}d"
    average.__doc__ = f"""The mean of each of ``output_size`` windows of {what}.

    With one window it is global average pooling, which makes a vector of a map of any size before the last layer (Lin
    et al. 2013, https://arxiv.org/abs/1312.4400). Where ``output_size`` is None, the size of the input stays.

    Shapes: input (N, C, ...) or (C, ...), output alike with planes of ``output_size``.
    """
    row = op(formula=_MEAN, samples=samples, ranks=(rank + 1, rank + 2), reference=kernel)(average)

    @row.rule("input", _SHARED)
    def _(g, input_path, input_shape):
        if all(places == 1 for places in g.shape[-rank:]):
            input_path = None  # one window: torch computes it as a plain mean, too
        return adaptive_avg_pool_backward(g, input_path, size=tuple(input_shape[-rank:]))

    return row


adaptive_avg_pool1d = _adaptive(1, "a sequence")
adaptive_avg_pool2d = _adaptive(2, "an image")
adaptive_avg_pool3d = _adaptive(3, "a volume")
_ADAPTIVE = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


def _adaptive_shares(make: Make):
    for rank in (1, 2, 3):
        for shape in windows(rank):
            yield Sample.of(make(*shape[:-rank], *(3, 2, 1)[:rank]), size=shape[-rank:])


def _adaptive_by_torch(g, x=None, *, size):
    x = torch.zeros((*g.shape[: -len(size)], *size), dtype=g.dtype, device=g.device, requires_grad=True)
    with torch.enable_grad():
        y = _ADAPTIVE[len(size) - 1].reference(x, list(g.shape[-len(size) :]))
        return torch.autograd.grad(y, x, g, create_graph=True)[0]


@op(
    formula=r"\sum_{w \ni i} \frac{g_w}{|w|}",
    flat=("x",),
    samples=_adaptive_shares,
    ranks=range(2, 6),
    reference=_adaptive_by_torch,
)
def adaptive_avg_pool_backward(g, x=None, *, size):
    """The gradient of each place of planes of ``size``, from g, the gradient of the means, one for each window.

    It does not read ``x``, their input: see avg_pool_backward.

    Shapes: output as g, but ``size`` replaces the last dimensions, as many as it has.
    """
    whole = (*g.shape[: -len(size)], *size)
    if all(places == 1 for places in g.shape[-len(size) :]):  # one mean: as torch, without a kernel of its own
        return (g / max(torch.Size(size).numel(), 1)).expand(whole)
    if len(size) == 3:
        return aten._adaptive_avg_pool3d_backward(g, shaped(g, whole))
    if len(size) == 2:
        return aten._adaptive_avg_pool2d_backward(g, shaped(g, whole))
    given = shaped(g, (*whole[:-1], 1, whole[-1]))
    return aten._adaptive_avg_pool2d_backward(g.unsqueeze(-2), given).squeeze(-2)


@adaptive_avg_pool_backward.rule("g", r"\frac{1}{|w|} \sum_{i \in w} \bar{y}_i")
def _(gradient, g_shape, size):
    return _ADAPTIVE[len(size) - 1](gradient, output_size=tuple(g_shape[-len(size) :]))


_WITH_INDICES = (
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
)
_ADAPTIVE_MAX = (
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
)


def _max_pool(rank):
    """The largest of each window, with its index or without."""
    row = _WITH_INDICES[rank - 1]

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True):
        settings = {"kernel_size": kernel_size, "stride": step(stride, kernel_size), "padding": padding}
        return row(input, dilation=dilation, ceil_mode=ceil_mode, **settings)

    def alone(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        found = with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return found if return_indices else found[0]

    with_indices.__name__, with_indices.__doc__ = row.name, row.doc
    alone.__name__ = f"max_pool{rank}d"
    alone.__doc__ = f"The largest number of each window; with ``return_indices`` also where it is: see {row.name}."
    return alone, with_indices


def _adaptive_max_pool(rank):
    """The largest of each of a number of windows, with its index or without."""
    row = _ADAPTIVE_MAX[rank - 1]

    def with_indices(input, output_size, return_indices=True):
        return row(input, output_size=output_size)

    def alone(input, output_size, return_indices=False):
        found = with_indices(input, output_size)
        return found if return_indices else found[0]

    with_indices.__name__, with_indices.__doc__ = row.name, row.doc
    alone.__name__ = f"adaptive_max_pool{rank}d"
    alone.__doc__ = (
        f"The largest of each of ``output_size`` windows, with ``return_indices`` also where: see {row.name}."
    )
    return alone, with_indices


def _fractional_max_pool(rank):
    """The largest of windows at places drawn at random, with its index or without."""
    row = (fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices)[rank - 2]

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=True, _random_samples=None
    ):
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"fractional_max_pool{rank}d needs output_size or output_ratio, and not both")
        if output_size is None:
            ratios = [output_ratio] * rank if isinstance(output_ratio, float | int) else output_ratio
            output_size = [int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios, strict=True)]
        if _random_samples is None:
            batch = 1 if input.ndim == rank + 1 else input.shape[0]
            drawn = (batch, input.shape[-rank - 1], rank)
            _random_samples = torch.rand(drawn, dtype=input.dtype, device=input.device)
        sizes = {"kernel_size": tuple(per_dim(kernel_size, rank)), "output_size": tuple(per_dim(output_size, rank))}
        return row(input, _random_samples, **sizes)

    def alone(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        found = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return found if return_indices else found[0]

    with_indices.__name__, with_indices.__doc__ = row.name, row.doc
    alone.__name__ = f"fractional_max_pool{rank}d"
    alone.__doc__ = f"The largest of each window at random places, with ``return_indices`` also where: see {row.name}."
    return alone, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)
fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pool(3)


def _max_unpool(rank):
    """Values put back where the indices of a max pooling say."""

    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        if input.ndim not in (rank + 1, rank + 2):
            takes = f"max_unpool{rank}d takes {rank + 1} or {rank + 2} dimensions"
            raise RuntimeError(f"{takes}, not an input of shape {tuple(input.shape)}")
        sizes = (kernel_size, step(stride, kernel_size), padding)
        kernel, strides, paddings = (per_dim(one, rank) for one in sizes)
        usual = [
            (places - 1) * by - 2 * around + width
            for places, by, around, width in zip(input.shape[-rank:], strides, paddings, kernel, strict=True)
        ]
        size = usual if output_size is None else list(output_size)[-rank:]
        fits = len(size) == rank and all(
            abs(wanted - default) < by for wanted, default, by in zip(size, usual, strides, strict=True)
        )
        if output_size is not None and not fits:
            raise ValueError(f"max_unpool{rank}d: output_size {size} must be within a stride of {usual}")
        if min(size) < 0:
            raise ValueError(f"max_unpool{rank}d: with these settings the output would have the size {size}")
        raw = raw_of(indices)
        return max_unpool(input, raw, size=tuple(size))

    unpool.__name__ = f"max_unpool{rank}d"
    unpool.__doc__ = "Zeros with the input put where the indices of a max pooling say: see the row max_unpool."
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))


def _lp_pool(rank):
    """The norm of each window, from the mean of powers."""
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    largest = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]

    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        if abs(norm_type) == inf:
            sign = 1 if norm_type > 0 else -1
            return sign * largest(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        means = average(
            input.pow(norm_type), kernel_size=kernel_size, stride=step(stride, kernel_size), ceil_mode=ceil_mode
        )
        powers = means.sign() * relu(means.abs())  # the mean, but with the gradient 0 where the mean is 0, as in torch
        return (powers * prod(per_dim(kernel_size, rank))).pow(1.0 / norm_type)

    pool.__name__ = f"lp_pool{rank}d"
    pool.__doc__ = """The norm of order ``norm_type`` of each window: between the mean and the maximum.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool, (1, 2, 3))
