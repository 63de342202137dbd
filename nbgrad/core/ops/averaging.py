"""Mean pooling: each place of a smaller map is the mean of a window of the larger one."""

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.joint import per_dim, shaped, step
from nbgrad.core.ops.pooling import windows
from nbgrad.core.samples import Make, Sample

_functional = torch.nn.functional


def _settings(rank):
    """Every setting of a mean over windows."""
    yield {"kernel_size": 2}
    yield {"kernel_size": (3, 2, 2)[:rank], "stride": (2, 1, 1)[:rank], "padding": 1}
    yield {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False}


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

    A map is shrunk by it without losing what moves by less than a window; each place of a window gets the same
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
avg_pool1d = op(formula=_MEAN, samples=_averages(1), reference=_functional.avg_pool1d)(_mean1d)


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
    row = op(formula=_MEAN, samples=_averages(rank), reference=kernel)(average)

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
        for shape, settings in zip(windows(rank), _settings(rank), strict=True):
            y = row(make(*shape), **settings)
            yield Sample.of(make(*y.shape), size=shape[-rank:], **settings)


def _by_torch(g, x=None, *, size, **settings):
    x = torch.zeros((*g.shape[: -len(size)], *size), dtype=g.dtype, device=g.device, requires_grad=True)
    with torch.enable_grad():
        y = _kernel_of(len(size))(x, **settings)
        return torch.autograd.grad(y, x, g, create_graph=True)[0]


@op(
    formula=r"\sum_{w \ni i} \frac{g_w}{|w|}",
    flat=("x",),
    samples=_shares,
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
    """What each place of planes of ``size`` gets of g, the gradient of the means of windows.

    It does not read ``x``, their input: a mean has no second derivative, and torch says so with zeros.

    Shapes: g of as many last dimensions as ``size`` has, which are ``size`` in the output.
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
    """The row of the mean of as many windows as the output is to have."""
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
    et al. 2013, https://arxiv.org/abs/1312.4400). None keeps a size.

    Shapes: input (N, C, ...) or (C, ...), output alike with planes of ``output_size``.
    """
    row = op(formula=_MEAN, samples=samples, reference=kernel)(average)

    @row.rule("input", _SHARED)
    def _(g, input_path, input_shape):
        if all(places == 1 for places in g.shape[-rank:]):
            input_path = None  # the mean of all is none of windows to torch either
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


@op(formula=r"\sum_{w \ni i} \frac{g_w}{|w|}", flat=("x",), samples=_adaptive_shares, reference=_adaptive_by_torch)
def adaptive_avg_pool_backward(g, x=None, *, size):
    """What each place of planes of ``size`` gets of g, the gradient of the means of as many windows as g has places.

    It does not read ``x``, their input: see avg_pool_backward.

    Shapes: g of as many last dimensions as ``size`` has, which are ``size`` in the output.
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
