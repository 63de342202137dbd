"""Sampling: an image read at any places, between its own ones too, and what that makes of gradients."""

from functools import partial, reduce
from itertools import product
from math import prod
from operator import mul

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.joining import stack
from nbgrad.core.ops.joint import asked, spread, total
from nbgrad.core.ops.scatter import scatter_add
from nbgrad.core.samples import Make, Sample

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
"""How torch's kernels number them."""

_BACKWARD = {4: aten.grid_sampler_2d_backward, 5: aten.grid_sampler_3d_backward}


def _readings(make: Make):
    for mode, padding, align in product(_MODES.values(), _PADDINGS.values(), (False, True)):
        settings = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}
        yield Sample.of(make(2, 2, 3, 4), make(2, 2, 3, 2), **settings)
        if mode != _MODES["bicubic"] and align == (padding == 1):
            yield Sample.of(make(1, 2, 3, 2, 2), make(1, 2, 1, 2, 3), **settings)
    yield Sample.of(make(0, 2, 3, 4), make(0, 2, 3, 2), interpolation_mode=0, padding_mode=0, align_corners=False)


def _by_torch(input, grid, *, interpolation_mode, padding_mode, align_corners):
    return torch.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@op(
    formula=r"\sum_p w_p(\text{grid}) \, x_p",
    samples=_readings,
    reference=_by_torch,
)
def grid_sampler(input, grid, *, interpolation_mode, padding_mode, align_corners):
    """An image read at the places of a grid, each number a weighted sum of those around its place.

    Spatial transformers turn and stretch images so, and learn how from the gradient of the grid (Jaderberg et al. 2015,
    https://arxiv.org/abs/1506.02025); optical flow is fitted so too.

    Shapes: input (N, C, H, W), grid (N, h, w, 2) with x before y, from -1 to 1, output (N, C, h, w); or the same with
    one dimension more. Modes by torch's numbers: bilinear 0, nearest 1, bicubic 2; places outside are 0 (0), those at
    the border (1), or reflected there (2). Raises RuntimeError for other shapes.
    """
    return _by_torch(
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
        return torch.autograd.grad(_by_torch(x, places, **settings), asked((x, places), mask), g, create_graph=True)


@op(formula=r"\bar{x}, \overline{\text{grid}} \text{ of } g", many=True, samples=_read, reference=_gradients_by_torch)
def grid_sampler_backward(g, input, grid, *, interpolation_mode, padding_mode, align_corners, mask):
    """Of the gradients of grid_sampler with regard to input and grid those that ``mask`` asks for.

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

    Each output is a sum over the places around it, whose weights are products of one weight for each dimension: taken
    place by place, so that what is held at once is of the size of the output.
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
    """How a coordinate of the grid is read along its dimension: how it moves the place, and the two taps around it.

    A tap is a place, whether it is inside, and its weight with the first and the second derivative of that.
    """
    raw = raw_of(x)
    place, slope = _unnormalized(raw, size, align)
    place, slope = _bounded(place, slope, size, padding, align)
    low = place.floor()
    f = x * slope + (place - low - raw * slope)
    taps = ((0, (1 - f, -1.0, None)), (1, (f, 1.0, None)))
    return slope, [(*_tap(low + offset, size), weight) for offset, weight in taps]


def _bicubic(x, size, padding, align):
    """The same with the four taps of a cubic convolution; here each tap is bounded by itself, not the place."""
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
    """The weight of a tap at a distance, and its derivatives for the fraction of the place."""
    sign = 1 if offset <= 0 else -1
    if offset in (0, 1):
        weight = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        return weight, (3 * (a + 2) * distance - 2 * (a + 3)) * distance * sign, 6 * (a + 2) * distance - 2 * (a + 3)
    weight = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return weight, ((3 * a * distance - 10 * a) * distance + 8 * a) * sign, 6 * a * distance - 10 * a


def _tap(place, size):
    """A place as a number, and whether it is inside; one that is not is read at the border and counts 0."""
    inside = (place >= 0) & (place <= size - 1)
    return place.clamp(0, size - 1).long(), inside


def _unnormalized(raw, size, align):
    """Coordinates from -1 to 1 as places, and how far a place moves with its coordinate."""
    scale = (size - 1) / 2 if align else size / 2
    return (raw + 1) * scale - (0 if align else 0.5), torch.full_like(raw, scale)


def _bounded(place, slope, size, padding, align):
    """Places outside brought inside, as ``padding`` says, and how they move then."""
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

    Raises ValueError for a mode that there is not.
    """
    for name, given, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if given not in known:
            raise ValueError(f"grid_sample() takes {', '.join(known)} for {name}, not {given!r}")
    settings = {"interpolation_mode": _MODES[mode], "padding_mode": _PADDINGS[padding_mode]}
    return grid_sampler(input, grid, **settings, align_corners=bool(align_corners))
