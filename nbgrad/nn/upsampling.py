"""Blocks that rearrange or resize images."""

from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.nn.function_block import Block, Size

Ratio = float | tuple[float, ...]


class PixelShuffle(Block, function=ops.pixel_shuffle, torchs=torch.nn.PixelShuffle):
    """Makes one channel, r times as large in both directions, from r * r channels (Shi et al. 2016).

    Shapes: input (..., C * r * r, H, W), output (..., C, H * r, W * r), with r the ``upscale_factor``.
    """


class PixelUnshuffle(Block, function=ops.pixel_unshuffle, torchs=torch.nn.PixelUnshuffle):
    """Undoes ``PixelShuffle``.

    Shapes: input (..., C, H * r, W * r), output (..., C * r * r, H, W), with r the ``downscale_factor``.
    """


class ChannelShuffle(Block, function=ops.channel_shuffle, torchs=torch.nn.ChannelShuffle):
    """Interleaves the channels of the groups of a convolution, so that the groups mix (Zhang et al. 2017).

    Shapes: input and output (N, C, ...).
    """


class Upsample(Block, function=ops.interpolate, torchs=torch.nn.Upsample):
    """Makes signals, images or volumes larger, or smaller, by interpolation.

    Shapes: input (N, C, ...) with one, two or three dimensions more, output (N, C, *size).

    Args:
        size: the size of the output; pass it or ``scale_factor``.
        scale_factor: the size of the output divided by that of the input.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area".
        align_corners: whether the centres of the corner pixels of input and output coincide, instead of their outer
            corners.
        recompute_scale_factor: whether the factor is computed again from the output's rounded size.
    """

    def _adjust(self, given: dict[str, Any]) -> None:
        factor = given["scale_factor"] or None  # as torch has it: 0 is no factor
        if factor is not None:
            factor = tuple(map(float, factor)) if isinstance(factor, tuple) else float(factor)
        given["scale_factor"] = factor


class UpsamplingNearest2d(Upsample):
    """Makes images larger by repeating their pixels.

    Args:
        size: the size of the output; pass it or ``scale_factor``.
        scale_factor: the size of the output divided by that of the input.
    """

    def __init__(self, size: Size | None = None, scale_factor: Ratio | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Makes images larger by linear interpolation between their pixels; the corners stay where they are.

    Args:
        size: the size of the output; pass it or ``scale_factor``.
        scale_factor: the size of the output divided by that of the input.
    """

    def __init__(self, size: Size | None = None, scale_factor: Ratio | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
