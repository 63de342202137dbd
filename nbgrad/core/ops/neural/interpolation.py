"""Resizing images, by the nearest pixel or a weighted mean of several, and sampling images at the points of a grid."""

from functools import partial, reduce
from itertools import product
from math import prod
from operator import mul

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._joint_rules import asked, spread, total
from nbgrad.core.ops.index.scatter import scatter_add
from nbgrad.core.ops.neural.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from nbgrad.core.ops.shape.joining import stack

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
    ranks=range(3, 6),
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


@interpolate_row.rule("input", r"\sum_j k(j, i)\, \bar{y}_j")
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


@op(formula=r"\sum_j k(j, i)\, g_j", samples=_shares, ranks=range(3, 6), reference=_backward_by_torch)
def interpolate_backward(g, *, size, mode="nearest", align_corners=False, scales=None, antialias=False):
    """The gradient of each place of maps of ``size``, from g, the gradient of the maps made of them.

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

    Raises ValueError unless one of ``size`` and ``scale_factor`` is given, and for ``align_corners`` or ``antialias``
    in a mode without that setting. Raises NotImplementedError for an unknown mode, and for a mode of another number of
    dimensions than the input has.
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
    yield Sample.of(make(0, 4, 2, 2), upscale_factor=1)  # torch's pixel_unshuffle never reshapes an empty tensor
    yield Sample.of(make(9, 1, 2), upscale_factor=3)


@op(
    formula=r"x \text{ with } r^2 \text{ channels as } r \times r \text{ places}",
    symbols={"upscale_factor": "r"},
    samples=_shuffles,
    ranks=range(3, 6),
)
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


@op(
    formula=r"x \text{ with } r \times r \text{ places as } r^2 \text{ channels}",
    symbols={"downscale_factor": "r"},
    samples=_unshuffles,
    ranks=range(3, 6),
)
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


@op(formula=r"x \text{ with the channels of its groups interleaved}", samples=_channel_shuffles, ranks=range(3, 6))
def channel_shuffle(input, *, groups):
    """The channels of the ``groups`` interleaved: the first channel of each group, then the second of each, and so on.

    Between two grouped convolutions it lets groups see each other (Zhang et al. 2017, https://arxiv.org/abs/1707.01083).

    Shapes: output as input (N, C, ...). Raises RuntimeError where ``groups`` does not divide C.
    """
    return torch.channel_shuffle(input, groups)


@channel_shuffle.rule("input", r"\bar{y} \text{ with the order undone}")
def _(g, groups):
    return channel_shuffle(g, groups=g.shape[1] // groups)


def _motions(make: Make):
    yield Sample.of(make(2, 2, 3), size=(2, 1, 3, 4))
    yield Sample.of(make(2, 2, 3), size=(2, 1, 3, 4), align_corners=True)
    yield Sample.of(make(2, 3, 4), size=(2, 1, 3, 2, 2))
    yield Sample.of(make(2, 3, 4), size=(2, 1, 3, 2, 2), align_corners=True)
    yield Sample.of(make(0, 2, 3), size=(0, 1, 3, 4))


@op(
    name="affine_grid",
    formula=r"\theta \, (u, v, 1)^{\top}",
    samples=_motions,
    ranks=(3,),
    reference=lambda theta, *, size, align_corners=False: aten.affine_grid_generator(theta, size, align_corners),
)
def affine_grid_row(theta, *, size, align_corners=False):
    """Where each place of an image comes from when it is moved, turned or stretched: coordinates from -1 to 1.

    Spatial transformers learn the motion with it (Jaderberg et al. 2015, https://arxiv.org/abs/1506.02025).

    Shapes: theta (N, 2, 3) and size (N, C, H, W) give (N, H, W, 2); theta (N, 3, 4) and size (N, C, D, H, W) give
    (N, D, H, W, 3).
    """
    return aten.affine_grid_generator(theta, size, align_corners)


@affine_grid_row.rule("theta", r"\sum \bar{y} \, (u, v, 1)")
def _(g, size, align_corners):
    return affine_grid_backward(g, size=size, align_corners=align_corners)


def _moved(make: Make):
    for sample in _motions(make):
        n, _, *places = sample.settings["size"]
        yield Sample.of(make(n, *places, len(places)), **sample.settings)


def _identity(like, size, align_corners):
    """The coordinates of each place, and 1: one row for each."""
    rank = len(size) - 2
    same = torch.eye(rank, rank + 1, dtype=like.dtype, device=like.device).unsqueeze(0)
    places = aten.affine_grid_generator(same, [1, 1, *size[2:]], align_corners).reshape(-1, rank)
    return torch.cat([places, torch.ones_like(places[:, :1])], 1)


@op(
    formula=r"\sum g \, (u, v, 1)",
    samples=_moved,
    ranks=range(4, 6),
    reference=lambda g, *, size, align_corners=False: (
        g.reshape(len(g), torch.Size(size[2:]).numel(), len(size) - 2).mT @ _identity(g, size, align_corners)
    ),
)
def affine_grid_backward(g, *, size, align_corners=False):
    """The gradient of affine_grid: the gradients of all places, times their coordinates, added up.

    Shapes: g (N, ..., 2 or 3), output (N, 2, 3) or (N, 3, 4).
    """
    flat = g.reshape(len(g), torch.Size(size[2:]).numel(), len(size) - 2)
    return flat.mT @ _identity(g, size, align_corners)


@affine_grid_backward.rule("g", r"\bar{y} \, (u, v, 1)^{\top}")
def _(gradient, size, align_corners):
    return affine_grid_row(gradient, size=size, align_corners=align_corners)


def affine_grid(theta, size, align_corners=None):
    """Where each place of a moved image comes from, with torch's arguments: see the row affine_grid."""
    return affine_grid_row(theta, size=tuple(size), align_corners=bool(align_corners))


_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
"""The numbers of modes and paddings in torch's kernels."""

_BACKWARD = {4: aten.grid_sampler_2d_backward, 5: aten.grid_sampler_3d_backward}


def _readings(make: Make):
    for mode, padding, align in product(_MODES.values(), _PADDINGS.values(), (False, True)):
        settings = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}
        yield Sample.of(make(2, 2, 3, 4), make(2, 2, 3, 2), **settings)
        if mode != _MODES["bicubic"] and align == (padding == 1):
            yield Sample.of(make(1, 2, 3, 2, 2), make(1, 2, 1, 2, 3), **settings)
    yield Sample.of(make(0, 2, 3, 4), make(0, 2, 3, 2), interpolation_mode=0, padding_mode=0, align_corners=False)


def _grid_sampler(input, grid, *, interpolation_mode, padding_mode, align_corners):
    return torch.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@op(
    formula=r"\sum_p w_p(\text{grid}) \, x_p",
    symbols={"grid": r"\text{grid}"},
    samples=_readings,
    ranks=range(4, 6),
    reference=_grid_sampler,
)
def grid_sampler(input, grid, *, interpolation_mode, padding_mode, align_corners):
    """An image read at the places of a grid, each number a weighted sum of those around its place.

    Spatial transformers turn and stretch images so, and learn how from the gradient of the grid (Jaderberg et al. 2015,
    https://arxiv.org/abs/1506.02025); optical flow is fitted so too.

    Shapes: input (N, C, H, W), grid (N, h, w, 2) with x before y, from -1 to 1, output (N, C, h, w); or the same with
    one dimension more. The modes are torch's numbers. For interpolation: bilinear 0, nearest 1, bicubic 2. For places
    outside: zeros 0, the place at the border 1, reflected at the border 2. Raises RuntimeError for other shapes.
    """
    return _grid_sampler(
        input, grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners
    )


grid_sampler_2d = grid_sampler_3d = grid_sampler


@grid_sampler.joint_rule(
    input=r"\sum w_p \bar{y} \text{ at } p",
    grid=r"\sum_c \bar{y}_c \sum_p \frac{\partial w_p}{\partial \text{grid}} x_p",
)
def _(g, needed, input, grid, interpolation_mode, padding_mode, align_corners):
    settings = {
        "interpolation_mode": interpolation_mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
        "mask": needed,
    }
    return spread(grid_sampler_backward(g, input, grid, **settings), needed)


def _read(make: Make):
    for number, (args, settings) in enumerate(_readings(make)):
        if settings["interpolation_mode"] == _MODES["nearest"]:  # its gradients depend on no values of the image
            continue
        input, grid = args
        mask = (number % 6 != 4, True)
        yield Sample.of(make(*input.shape[:2], *grid.shape[1:-1]), input, grid, **settings, mask=mask)


def _gradients_by_torch(g, input, grid, *, mask, **settings):
    with torch.enable_grad():
        x, places = (one if one.requires_grad else one.clone().requires_grad_() for one in (input, grid))
        return torch.autograd.grad(_grid_sampler(x, places, **settings), asked((x, places), mask), g, create_graph=True)


@op(
    formula=r"\bar{x}, \overline{\text{grid}} \text{ of } g",
    symbols={"grid": r"\text{grid}"},
    many=True,
    samples=_read,
    ranks=range(4, 6),
    reference=_gradients_by_torch,
)
def grid_sampler_backward(g, input, grid, *, interpolation_mode, padding_mode, align_corners, mask):
    """The gradients of grid_sampler with respect to input and grid, those that ``mask`` asks for.

    Shapes: g as the output of grid_sampler; the results as input and as grid.
    """
    kernel = _BACKWARD[input.ndim]
    return asked(kernel(g, input, grid, interpolation_mode, padding_mode, align_corners, mask), mask)


@grid_sampler_backward.joint_rule(
    g=r"\sum_p w_p \bar{\bar{x}}_p + \sum_p (\nabla w_p \cdot v) x_p \text{, } v = \overline{\overline{\text{grid}}}",
    input=r"\sum (\nabla w_p \cdot v) g \text{ at } p",
    grid=r"\sum_c g_c \sum_p \left(\nabla w_p \bar{\bar{x}}_p + \nabla^2 w_p v \, x_p\right)",
)
def _(gradients, needed, g, input, grid, interpolation_mode, padding_mode, align_corners, mask):
    settings = {
        "interpolation_mode": interpolation_mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
    }
    of_input, of_grid = spread(gradients, mask)
    to_g = to_input = to_grid = None
    if of_input is not None:
        to_g = grid_sampler(of_input, grid, **settings) if needed[0] else None
        to_grid = grid_sampler_backward(g, of_input, grid, **settings, mask=(False, True))[0] if needed[2] else None
    if of_grid is not None and interpolation_mode != _MODES["nearest"]:
        more = _along(of_grid, g, input, grid, **settings)
        to_g, to_input, to_grid = total(to_g, more[0]), more[1], total(to_grid, more[2])
    return to_g, to_input, to_grid


def _along(v, g, input, grid, *, interpolation_mode, padding_mode, align_corners):
    """The gradients of sum(g * the derivative of the sampled image along v) for g, input and grid.

    Each output is a sum over the places around it. The weight of a place is a product of one weight for each dimension.
    The loop takes one place at a time, so that no temporary tensor is larger than the output.
    """
    sizes = input.shape[2:]
    rank, flat = len(sizes), input.reshape((*input.shape[:2], prod(sizes)))
    g_flat, places = g.reshape((*g.shape[:2], prod(g.shape[2:]))), grid.reshape((len(grid), prod(g.shape[2:]), rank))
    directions = v.reshape(places.shape)
    read = _bicubic if interpolation_mode == _MODES["bicubic"] else _bilinear
    lines = [read(places[:, :, d], sizes[-1 - d], padding_mode, align_corners) for d in range(rank)]
    slopes = [slope for slope, _ in lines]
    zeros = partial(torch.zeros, dtype=g.dtype, device=g.device)
    to_g, to_input, to_grid = zeros(g_flat.shape), zeros(flat.shape), [zeros(())] * rank
    for chosen in product(*(taps for _, taps in lines)):
        index = sum(place * prod(sizes[rank - d :]) for d, (place, *_) in enumerate(chosen))
        inside = reduce(mul, (tap[1] for tap in chosen)).unsqueeze(1)
        index = index.unsqueeze(1).expand(g_flat.shape)
        weight = partial(_product, [tap[2] for tap in chosen], slopes)
        along = total(*(directions[:, :, d] * weight(d) for d in range(rank)))
        weighted = along.unsqueeze(1) * inside
        seen = flat.gather(2, index)
        to_g = to_g + seen * weighted
        to_input = scatter_add(to_input, 2, index, g_flat * weighted)
        both = (g_flat * seen * inside).sum(1)
        for d in range(rank):
            bends = [directions[:, :, e] * bend for e in range(rank) if (bend := weight(d, e)) is not None]
            to_grid[d] = sum((both * bend for bend in bends), to_grid[d])
    to_grid = stack(to_grid, dim=2)
    return to_g.reshape(g.shape), to_input.reshape(input.shape), to_grid.reshape(grid.shape)


def _product(taps, slopes, *dims):
    """The product of the taps of all dimensions, differentiated for the grid along ``dims``; None where it is 0."""
    orders = [dims.count(d) for d in range(len(taps))]
    factors = [tap[order] for tap, order in zip(taps, orders, strict=True)] + [slopes[d] for d in dims]
    return None if any(factor is None for factor in factors) else reduce(mul, factors)


def _bilinear(x, size, padding, align):
    """How far a place moves with its coordinate of the grid along one dimension, and the two taps around the place.

    A tap consists of a place, whether it is inside, and its weight with the first and second derivative of the weight.
    """
    raw = raw_of(x)
    place, slope = _unnormalized(raw, size, align)
    place, slope = _bounded(place, slope, size, padding, align)
    low = place.floor()
    f = x * slope + (place - low - raw * slope)
    taps = ((0, (1 - f, -1.0, None)), (1, (f, 1.0, None)))
    return slope, [(*_tap(low + offset, size), weight) for offset, weight in taps]


def _bicubic(x, size, padding, align):
    """The same with the four taps of a cubic convolution. Here each tap is brought inside, not the place."""
    raw = raw_of(x)
    place, slope = _unnormalized(raw, size, align)
    low = place.floor()
    f = x * slope + (place - low - raw * slope)
    taps = []
    for offset in range(-1, 3):
        bounded, _ = _bounded(low + offset, slope, size, padding, align)
        taps.append((*_tap(bounded, size), _cubic(f - offset if offset <= 0 else offset - f, offset)))
    return slope, taps


def _cubic(distance, offset, a=-0.75):
    """The weight of a tap at a distance, and its derivatives with respect to the fractional part of the place."""
    sign = 1 if offset <= 0 else -1
    if offset in (0, 1):
        weight = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        return weight, (3 * (a + 2) * distance - 2 * (a + 3)) * distance * sign, 6 * (a + 2) * distance - 2 * (a + 3)
    weight = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return weight, ((3 * a * distance - 10 * a) * distance + 8 * a) * sign, 6 * a * distance - 10 * a


def _tap(place, size):
    """A place as an integer, and whether it is inside. A place outside is read at the border, and counts 0."""
    inside = (place >= 0) & (place <= size - 1)
    return place.clamp(0, size - 1).long(), inside


def _unnormalized(raw, size, align):
    """Coordinates from -1 to 1 as places, and how far a place moves with its coordinate."""
    scale = (size - 1) / 2 if align else size / 2
    return (raw + 1) * scale - (0 if align else 0.5), torch.full_like(raw, scale)


def _bounded(place, slope, size, padding, align):
    """Places outside brought inside, as ``padding`` says, and their new slopes."""
    if padding == _PADDINGS["zeros"]:
        return place, slope
    if padding == _PADDINGS["reflection"]:
        first, span = (0.0, size - 1) if align else (-0.5, size)
        if not span:
            return torch.zeros_like(place), torch.zeros_like(slope)
        off = (place - first).abs()
        slope = torch.where(place < first, -slope, slope)
        turned = (off / span).floor() % 2 != 0
        rest = off.fmod(span)
        place = torch.where(turned, span - rest, rest) + first
        slope = torch.where(turned, -slope, slope)
    outside = (place <= 0) | (place >= size - 1)
    return place.clamp(0, size - 1), slope.masked_fill(outside, 0)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """An image read at the places of a grid, with torch's arguments: see the row grid_sampler.

    Raises ValueError for an unknown mode.
    """
    for name, given, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if given not in known:
            raise ValueError(f"grid_sample() takes {', '.join(known)} for {name}, not {given!r}")
    settings = {"interpolation_mode": _MODES[mode], "padding_mode": _PADDINGS[padding_mode]}
    return grid_sampler(input, grid, **settings, align_corners=bool(align_corners))
