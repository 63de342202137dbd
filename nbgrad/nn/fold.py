"""Unfold and Fold: images as columns of patches, and back. A convolution is a matrix product of these columns."""

import torch

from nbgrad.core import ops
from nbgrad.nn.function_block import Block


class Unfold(Block, function=ops.unfold, dims=(3, 4), torchs=torch.nn.Unfold):
    """Cuts all patches out of images, as columns: a convolution is then a matrix product (im2col).

    Shapes: input (N, C, H, W) or (C, H, W), output (N, C * prod(kernel_size), patches).

    Args:
        kernel_size: the size of a patch.
        dilation: the distance between its points.
        padding: zeros around the image.
        stride: the distance between patches.
    """


class Fold(Block, function=ops.fold, dims=(2, 3), torchs=torch.nn.Fold):
    """Adds patches to images: the gradient of ``Unfold`` (col2im).

    Shapes: input (N, C * prod(kernel_size), patches), with or without N, output (N, C, *output_size).

    Args:
        output_size: the size of the images.
        kernel_size: the size of a patch.
        dilation: the distance between its points.
        padding: zeros around the image, which are cut off.
        stride: the distance between patches.
    """

    __formula__ = r"\sum_{s i + j = p} x_{i j}"
