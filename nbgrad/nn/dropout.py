"""Dropout: noise in training that keeps units from relying on one another (Srivastava et al. 2014).

In training numbers become zero with probability ``p``, and the others grow by 1 / (1 - p), so that the mean stays. In
evaluation nothing happens. The same seed drops the same numbers as in torch. Shapes: output as input.
"""

from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.nn.function_block import Block


class _Dropout(Block, torchs=torch.nn.Dropout):
    __formula__ = r"x \odot m"

    def _adjust(self, given: dict[str, Any]) -> None:
        if given["p"] < 0 or given["p"] > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {given['p']}")


class Dropout(_Dropout, function=ops.dropout):
    """Makes each number zero with probability ``p``.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    """


class Dropout1d(_Dropout, function=ops.dropout1d, dims=(2, 3)):
    """Makes whole channels of a signal (N, C, L) or (C, L) zero, each with probability ``p``."""


class Dropout2d(_Dropout, function=ops.dropout2d, dims=(3, 4)):
    """Makes whole channels of an image (N, C, H, W) zero, each with probability ``p`` (Tompson et al. 2014)."""


class Dropout3d(_Dropout, function=ops.dropout3d, dims=(4, 5)):
    """Makes whole channels of a volume (N, C, D, H, W) or (C, D, H, W) zero, each with probability ``p``."""


class AlphaDropout(_Dropout, function=ops.alpha_dropout):
    """Sets numbers to the value that ``SELU`` tends to, and keeps mean and variance (Klambauer et al. 2017)."""

    __formula__ = r"a (x \odot m + \alpha' (1 - m)) + b"


class FeatureAlphaDropout(_Dropout, function=ops.feature_alpha_dropout):
    """Sets whole channels to the value that ``SELU`` tends to, and keeps mean and variance."""

    __formula__ = r"a (x \odot m + \alpha' (1 - m)) + b"
