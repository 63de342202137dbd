"""Pooling under torch's names and with torch's arguments: functions over the rows of pooling and averaging."""

from math import inf, prod

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.ops import averaging, pooling
from nbgrad.core.ops.joint import per_dim, step
from nbgrad.core.ops.rectifier import relu

_WITH_INDICES = (
    pooling.max_pool1d_with_indices,
    pooling.max_pool2d_with_indices,
    pooling.max_pool3d_with_indices,
)
_ADAPTIVE = (
    pooling.adaptive_max_pool1d_with_indices,
    pooling.adaptive_max_pool2d_with_indices,
    pooling.adaptive_max_pool3d_with_indices,
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
    row = _ADAPTIVE[rank - 1]

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
    row = (pooling.fractional_max_pool2d_with_indices, pooling.fractional_max_pool3d_with_indices)[rank - 2]

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
        return pooling.max_unpool(input, raw, size=tuple(size))

    unpool.__name__ = f"max_unpool{rank}d"
    unpool.__doc__ = "Zeros with the input put where the indices of a max pooling say: see the row max_unpool."
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))


def _lp_pool(rank):
    """The norm of each window, from the mean of powers."""
    average = (averaging.avg_pool1d, averaging.avg_pool2d, averaging.avg_pool3d)[rank - 1]
    largest = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]

    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        if abs(norm_type) == inf:
            sign = 1 if norm_type > 0 else -1
            return sign * largest(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        means = average(
            input.pow(norm_type), kernel_size=kernel_size, stride=step(stride, kernel_size), ceil_mode=ceil_mode
        )
        powers = means.sign() * relu(means.abs())  # the mean itself, whose gradient is cut where it is 0, as in torch
        return (powers * prod(per_dim(kernel_size, rank))).pow(1.0 / norm_type)

    pool.__name__ = f"lp_pool{rank}d"
    pool.__doc__ = """The norm of order ``norm_type`` of each window: between the mean and the maximum.

    Shapes: input (N, C, ...) or (C, ...), output alike with smaller planes.
    """
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool, (1, 2, 3))
