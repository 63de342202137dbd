"""Resampling: maps of another size, by the nearest place or by weights of several; channels traded for places."""

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.averaging import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from nbgrad.core.samples import Make, Sample

_aten = torch.ops.aten
_functional = torch.nn.functional

_RANKS = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "lanczos": (2,)}
_MEANS = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


def _kernel(rank, mode, antialias, backward=""):
    """The kernel of torch for a mode, and whether it takes ``align_corners``."""
    if mode in ("nearest", "nearest-exact"):
        name = "upsample_nearest" if mode == "nearest" else "_upsample_nearest_exact"
        return getattr(_aten, f"{name}{rank}d{backward}").default, False
    name = f"_upsample_{mode}{rank}d_aa" if antialias else f"upsample_{mode}{rank}d"
    return getattr(_aten, f"{name}{backward}").default, True


def _resized(make: Make):
    """Larger, smaller and mixed, by size and by factor, in every mode."""
    for shape in ((2, 2, 4), (1, 2, 4, 3), (1, 2, 3, 2, 3), (0, 2, 4)):
        rank = len(shape) - 2
        x, size = make(*shape), (3, 5, 2)[:rank]
        modes = ("nearest", "nearest-exact", ("linear", "bilinear", "trilinear")[rank - 1])
        for mode in modes if x.numel() else modes[2:]:  # "nearest" fails on a meta tensor without elements
            yield Sample.of(x, size=size, mode=mode)
        yield Sample.of(x, size=size, mode=modes[2], align_corners=True)
    x = make(1, 2, 4, 3)
    yield Sample.of(x, size=(6, 7), mode="bicubic")
    yield Sample.of(x, size=(2, 7), mode="bicubic", align_corners=True)
    yield Sample.of(x, size=(10, 4), scales=(2.6, 1.5), mode="bilinear")
    yield Sample.of(x, size=(10, 4), scales=(2.6, 1.5), mode="nearest")
    yield Sample.of(x, size=(2, 5), mode="bilinear", antialias=True)
    yield Sample.of(x, size=(2, 5), mode="bicubic", antialias=True)


def _by_torch(x, *, size, mode="nearest", align_corners=False, scales=None, antialias=False):
    aligned = None if mode.startswith("nearest") else align_corners
    chosen = {"size": size} if scales is None else {"scale_factor": scales}
    return _functional.interpolate(x, **chosen, mode=mode, align_corners=aligned, antialias=antialias)


@op(
    name="interpolate",
    formula=r"y_j = \sum_i k(j, i)\, x_i",
    samples=_resized,
    reference=_by_torch,
)
def interpolate_row(input, *, size, mode="nearest", align_corners=False, scales=None, antialias=False):
    """Maps of another ``size``: each place is the nearest one of the input, or a weighted sum of those around it.

    Decoders enlarge feature maps with it, feature pyramids bring them to one size. Each place of the input gets the
    gradients of the places that it went into, by the same weights.

    Shapes: input (N, C, ...), output (N, C, *size).
    """
    kernel, aligns = _kernel(len(size), mode, antialias)
    return kernel(input, size, *([align_corners] if aligns else []), *(scales or ()))


@interpolate_row.rule("input", r"\bar{x}_i = \sum_j k(j, i)\, \bar{y}_j")
def _(g, input_shape, mode, align_corners, scales, antialias):
    settings = {"mode": mode, "align_corners": align_corners, "scales": scales, "antialias": antialias}
    return interpolate_backward(g, size=tuple(input_shape[2:]), **settings)


def _shares(make: Make):
    for sample in _resized(make):
        x, size = sample.args[0], sample.settings["size"]
        g = make(*x.shape[:2], *size)
        yield Sample.of(g, **{**sample.settings, "size": tuple(x.shape[2:])})


def _backward_by_torch(g, *, size, **settings):
    x = torch.zeros((*g.shape[:2], *size), dtype=g.dtype, device=g.device, requires_grad=True)
    with torch.enable_grad():
        y = _by_torch(x, size=tuple(g.shape[2:]), **settings)
        return torch.autograd.grad(y, x, g, create_graph=True)[0]


@op(formula=r"\sum_j k(j, i)\, g_j", samples=_shares, reference=_backward_by_torch)
def interpolate_backward(g, *, size, mode="nearest", align_corners=False, scales=None, antialias=False):
    """What each place of maps of ``size`` gets of g, the gradient of the maps made of them.

    Shapes: g (N, C, ...), output (N, C, *size).
    """
    kernel, aligns = _kernel(len(size), mode, antialias, "_backward")
    aligned = [align_corners] if aligns else []
    return kernel(g, g.shape[2:], (*g.shape[:2], *size), *aligned, *(scales or ()))


@interpolate_backward.rule("g", r"\sum_i k(j, i)\, \bar{y}_i")
def _(gradient, g_shape, mode, align_corners, scales, antialias):
    settings = {"mode": mode, "align_corners": align_corners, "scales": scales, "antialias": antialias}
    return interpolate_row(gradient, size=tuple(g_shape[2:]), **settings)


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Maps of another size, given as ``size`` or as a factor, with torch's arguments: see the row interpolate.

    Raises ValueError unless one of ``size`` and ``scale_factor`` is given, for ``align_corners`` or ``antialias`` in a
    mode that has neither, and for a mode of another number of dimensions than the input has.
    """
    rank = input.ndim - 2
    _check_mode(rank, mode, align_corners, antialias)
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate needs one of size and scale_factor, and not both")
    if size is not None and recompute_scale_factor:
        raise ValueError("interpolate: recompute_scale_factor means nothing where size is given")
    scales = None
    if size is None:
        scales = _each(scale_factor, rank, "scale_factor")
        size = tuple(int(places * scale) for places, scale in zip(input.shape[2:], scales, strict=True))
        scales = None if recompute_scale_factor or mode == "area" else tuple(map(float, scales))
    else:
        size = _each(size, rank, "size")
    if mode == "area":
        return _MEANS[rank - 1](input, output_size=size)
    settings = {"align_corners": bool(align_corners), "antialias": antialias}
    return interpolate_row(input, size=size, mode=mode, scales=scales, **settings)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Interpolate under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def _each(value, rank, name):
    """A number for each dimension."""
    if isinstance(value, int | float):
        return (value,) * rank
    if len(value) != rank:
        raise ValueError(f"interpolate: {name} {tuple(value)} must have one number for each of {rank} dimensions")
    return tuple(value)


def _check_mode(rank, mode, align_corners, antialias):
    known = {"nearest", "nearest-exact", "area", *_RANKS}
    if mode not in known:
        raise NotImplementedError(f"interpolate knows no mode {mode!r}, only {', '.join(sorted(known))}")
    if rank not in _RANKS.get(mode, (1, 2, 3)):
        raise NotImplementedError(f"interpolate: mode {mode!r} is not for an input of {rank + 2} dimensions")
    if align_corners is not None and mode not in _RANKS:
        raise ValueError(f"interpolate: mode {mode!r} has no align_corners")
    if antialias and mode not in ("bilinear", "bicubic", "lanczos"):
        raise ValueError(f"interpolate: mode {mode!r} has no antialias")
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError("interpolate: mode 'lanczos' needs antialias=True, and has no align_corners")


# Channels traded for places.


def _shuffles(make: Make):
    for shape in ((4, 2, 3), (2, 8, 1, 2), (1, 2, 4, 2, 1)):
        yield Sample.of(make(*shape), upscale_factor=2)
    yield Sample.of(make(0, 4, 2, 2), upscale_factor=1)  # of nothing, torch's inverse keeps the shape
    yield Sample.of(make(9, 1, 2), upscale_factor=3)


@op(formula=r"x \text{ with } r^2 \text{ channels as } r \times r \text{ places}", samples=_shuffles)
def pixel_shuffle(input, *, upscale_factor):
    """Every ``upscale_factor`` squared channels become a square of places of one channel.

    Networks that make an image larger compute at its small size and end with it (Shi et al. 2016,
    https://arxiv.org/abs/1609.05158).

    Shapes: input (..., C r r, H, W), output (..., C, H r, W r). Raises RuntimeError where r r does not divide the
    channels.
    """
    return torch.pixel_shuffle(input, upscale_factor)


@pixel_shuffle.rule("input", r"\bar{y} \text{ with its places as channels}")
def _(g, input_shape, upscale_factor):
    if 0 in g.shape:
        return g.reshape(input_shape)
    return pixel_unshuffle(g, downscale_factor=upscale_factor)


def _unshuffles(make: Make):
    for shape in ((1, 4, 6), (2, 3, 2, 4), (1, 2, 1, 4, 2)):
        yield Sample.of(make(*shape), downscale_factor=2)
    yield Sample.of(make(0, 1, 2, 2), downscale_factor=1)
    yield Sample.of(make(1, 3, 6), downscale_factor=3)


@op(formula=r"x \text{ with } r \times r \text{ places as } r^2 \text{ channels}", samples=_unshuffles)
def pixel_unshuffle(input, *, downscale_factor):
    """Squares of ``downscale_factor`` places become channels: the inverse of pixel_shuffle.

    Shapes: input (..., C, H r, W r), output (..., C r r, H, W). Raises RuntimeError where r does not divide the places.
    """
    return torch.pixel_unshuffle(input, downscale_factor)


@pixel_unshuffle.rule("input", r"\bar{y} \text{ with its channels as places}")
def _(g, input_shape, downscale_factor):
    if 0 in g.shape:
        return g.reshape(input_shape)
    return pixel_shuffle(g, upscale_factor=downscale_factor)


def _channel_shuffles(make: Make):
    for shape in ((2, 6, 2), (1, 6, 2, 1), (2, 6, 1, 2, 1), (0, 4, 2)):
        yield Sample.of(make(*shape), groups=2)
    yield Sample.of(make(1, 6, 2), groups=3)


@op(formula=r"x \text{ with its channels dealt out}", samples=_channel_shuffles)
def channel_shuffle(input, *, groups):
    """The channels in the order in which they are dealt out to ``groups``.

    Between two grouped convolutions it lets groups see each other (Zhang et al. 2017, https://arxiv.org/abs/1707.01083).

    Shapes: output as input (N, C, ...). Raises RuntimeError where ``groups`` does not divide C.
    """
    return torch.channel_shuffle(input, groups)


@channel_shuffle.rule("input", r"\bar{y} \text{ with its channels dealt back}")
def _(g, groups):
    return channel_shuffle(g, groups=g.shape[1] // groups)
