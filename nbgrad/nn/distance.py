"""How far two vectors are from one another."""

from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.function_block import Block


class CosineSimilarity(Block, function=ops.cosine_similarity, torchs=torch.nn.CosineSimilarity):
    """The cosine of the angle between two vectors along ``dim``.

    Shapes: two inputs that broadcast, output the same without ``dim``.

    Args:
        dim: the dimension along which the vectors lie.
        eps: the smallest length; shorter vectors count as if they had this length, against division by zero.
    """

    __formula__ = r"\frac{a \cdot b}{\|a\| \, \|b\|}"

    def forward(self, x1: Tensor, x2: Tensor) -> Any:  # type: ignore[override]
        return self._compute(x1, x2)


class PairwiseDistance(Block, function=ops.pairwise_distance, torchs=torch.nn.PairwiseDistance):
    """The p-norm of the difference of two vectors along the last dimension.

    Shapes: two inputs (N, D) or (D,), output (N,) or (), with ``keepdim`` (N, 1) or (1,).

    Args:
        p: which norm.
        eps: the number added to each difference, so that the norm has a gradient at 0.
        keepdim: whether the last dimension stays, with size 1.
    """

    __formula__ = r"\|a - b + \epsilon\|_p"

    def forward(self, x1: Tensor, x2: Tensor) -> Any:  # type: ignore[override]
        return self._compute(x1, x2)
