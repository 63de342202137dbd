"""Grids: where in an image each place of another one lies."""

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.samples import Make, Sample


def _motions(make: Make):
    yield Sample.of(make(2, 2, 3), size=(2, 1, 3, 4))
    yield Sample.of(make(2, 2, 3), size=(2, 1, 3, 4), align_corners=True)
    yield Sample.of(make(2, 3, 4), size=(2, 1, 3, 2, 2))
    yield Sample.of(make(2, 3, 4), size=(2, 1, 3, 2, 2), align_corners=True)
    yield Sample.of(make(0, 2, 3), size=(0, 1, 3, 4))


@op(
    name="affine_grid",
    formula=r"\theta \, (x, y, 1)^{\top}",
    samples=_motions,
    reference=lambda theta, *, size, align_corners=False: aten.affine_grid_generator(theta, size, align_corners),
)
def affine_grid_row(theta, *, size, align_corners=False):
    """Where each place of an image comes from when it is moved, turned or stretched: coordinates from -1 to 1.

    Spatial transformers learn the motion with it (Jaderberg et al. 2015, https://arxiv.org/abs/1506.02025).

    Shapes: theta (N, 2, 3) and size (N, C, H, W) give (N, H, W, 2); theta (N, 3, 4) and size (N, C, D, H, W) give
    (N, D, H, W, 3).
    """
    return aten.affine_grid_generator(theta, size, align_corners)


@affine_grid_row.rule("theta", r"\sum \bar{y} \, (x, y, 1)")
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
    formula=r"\sum g \, (x, y, 1)",
    samples=_moved,
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


@affine_grid_backward.rule("g", r"\bar{y} \, (x, y, 1)^{\top}")
def _(gradient, size, align_corners):
    return affine_grid_row(gradient, size=size, align_corners=align_corners)


def affine_grid(theta, size, align_corners=None):
    """Where each place of a moved image comes from, with torch's arguments: see the row affine_grid."""
    return affine_grid_row(theta, size=tuple(size), align_corners=bool(align_corners))
