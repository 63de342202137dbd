"""Blocks that rearrange or resize images."""

from typing import Any

from nbgrad.core import ops
from nbgrad.nn.function_block import Block, Size, settings

Ratio = float | tuple[float, ...]


@settings("upscale_factor={upscale_factor}")
class PixelShuffle(Block, function=ops.pixel_shuffle):
    """Makes one channel, r times as large in both directions, from r * r channels (Shi et al. 2016).

    Shapes: input (..., C * r * r, H, W), output (..., C, H * r, W * r), with r the ``upscale_factor``.
    """

    upscale_factor: int


@settings("downscale_factor={downscale_factor}")
class PixelUnshuffle(Block, function=ops.pixel_unshuffle):
    """Undoes ``PixelShuffle``.

    Shapes: input (..., C, H * r, W * r), output (..., C * r * r, H, W), with r the ``downscale_factor``.
    """

    downscale_factor: int


@settings("groups={groups}")
class ChannelShuffle(Block, function=ops.channel_shuffle):
    """Interleaves the channels of the groups of a convolution, so that the groups mix (Zhang et al. 2017).

    Shapes: input and output (N, C, ...).
    """

    groups: int


@settings()
class Upsample(Block, function=ops.interpolate):
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

    size: Size | None = None
    scale_factor: Ratio | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def __post_init__(self, *_: Any) -> None:
        factor: Any = self.scale_factor
        if factor:  # as torch has it: 0 is no factor
            self.scale_factor = tuple(map(float, factor)) if isinstance(factor, tuple) else float(factor)
        else:
            self.scale_factor = None

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


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
