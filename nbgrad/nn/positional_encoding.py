"""Encodings of the position in a sequence, which attention alone does not see."""

from math import log
from typing import Any

import torch

from nbgrad.core.engine.state import current
from nbgrad.core.ops import flatten, stack
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import uninitialized


class _Added(Module):
    """A vector for each position, added to what stands there."""

    weight: Tensor

    def __init__(self, max_length: int, batch_first: bool) -> None:
        super().__init__()
        self.max_length = max_length
        self.batch_first = batch_first

    def forward(self, input: Any) -> Any:
        along = 1 if self.batch_first and input.ndim == 3 else 0
        length = input.shape[along]
        table = self.weight
        if length > self.max_length or input.shape[-1] != table.shape[1]:
            raise RuntimeError(
                f"{type(self).__name__}: expected at most {self.max_length} positions of {table.shape[1]} features, "
                f"got an input of shape {tuple(input.shape)}"
            )
        vectors = table[:length]
        return input + (vectors.unsqueeze(1) if input.ndim == 3 and not along else vectors)

    def extra_repr(self) -> str:
        return f"{self.max_length}, {self.weight.shape[1]}, batch_first={self.batch_first}"


class SinusoidalPosition(_Added):
    """Adds sines and cosines of the position, whose wave lengths grow from 2 π to ``base`` times that.

    A shift by some steps is a rotation of the vectors, whatever the position (Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762). Nothing is learned, and nothing saved.

    Shapes: input (L, N, E), (N, L, E) with ``batch_first``, or (L, E); output as input.

    Args:
        max_length: the largest L.
        embed_dim: E.
        batch_first: whether the first dimension counts sequences.
        base: the ratio of the longest wave to the shortest.
        device: where the table lives; default: the device of the active graph, else torch's default device.
        dtype: its element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the sequence is longer than ``max_length``.
    """

    __formula__ = (
        r"x_i + p_i, \; p_{i, 2 k} = \sin \frac{i}{10000^{2 k / d}}, \; p_{i, 2 k + 1} = \cos \frac{i}{10000^{2 k / d}}"
    )

    def __init__(
        self,
        max_length: int,
        embed_dim: int,
        batch_first: bool = False,
        base: float = 10000.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(max_length, batch_first)
        angles = _angles(torch.arange(max_length), embed_dim, base)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :embed_dim]
        where = current().device if device is None else device
        table = table.to(device=where, dtype=dtype or torch.get_default_dtype())
        self.register_buffer("weight", table, persistent=False)


class LearnedPosition(_Added):
    """Adds a learned vector for each position (Gehring et al. 2017, https://arxiv.org/abs/1705.03122; GPT, BERT).

    The vectors start normal with a standard deviation of 0.02.

    Shapes: input (L, N, E), (N, L, E) with ``batch_first``, or (L, E); output as input.

    Args:
        max_length: the largest L.
        embed_dim: E.
        batch_first: whether the first dimension counts sequences.
        device: where the vectors live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the sequence is longer than ``max_length``.
    """

    __formula__ = "x_i + W_i"

    def __init__(
        self,
        max_length: int,
        embed_dim: int,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(max_length, batch_first)
        self.weight = uninitialized(max_length, embed_dim, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight, std=0.02)


class RotaryPosition(Module):
    """Turns each pair of features of queries and keys by an angle that grows with the position.

    The product of a query and a key then depends on their distance, not on their positions (Su et al. 2021,
    https://arxiv.org/abs/2104.09864). Pairs are features 0 and 1, 2 and 3, ...

    Shapes: input (..., L, head_dim), output as input.

    Args:
        head_dim: the features of a head, an even number.
        base: the ratio of the slowest rotation's wave length to the fastest's.

    Raises:
        ValueError: ``head_dim`` is odd.
        RuntimeError: when called, if the last dimension is not ``head_dim``.
    """

    __formula__ = r"R(i \theta) x_i"

    def __init__(self, head_dim: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"head_dim must be even, as features are turned in pairs, got {head_dim}")
        self.head_dim = head_dim
        self.base = base

    def forward(self, input: Any, offset: int = 0) -> Any:
        """Rotate the input. ``offset`` is the position of its first step: with a cache, the number of cached keys."""
        if input.shape[-1] != self.head_dim:
            raise RuntimeError(f"RotaryPosition: expected last dimension {self.head_dim}, got {tuple(input.shape)}")
        steps = torch.arange(offset, offset + input.shape[-2], device=input.device)
        angles = _angles(steps, self.head_dim, self.base)
        cos, sin = angles.cos().to(input.dtype), angles.sin().to(input.dtype)
        a, b = input[..., 0::2], input[..., 1::2]
        return flatten(stack([a * cos - b * sin, a * sin + b * cos], dim=-1), -2)

    def extra_repr(self) -> str:
        return f"{self.head_dim}, base={self.base:g}"


class ALiBi(Module):
    """Lowers the scores of attention in proportion to the distance, with another rate for each head.

    A model trained with it on short sequences also works on longer ones (Press et al. 2021,
    https://arxiv.org/abs/2108.12409). Nothing is learned.

    Shapes: scores (..., heads, L, S), output as scores.

    Args:
        num_heads: how many heads there are.
        causal: whether no query sees a later key.
    """

    __formula__ = "-m_h |i - j|"

    def __init__(self, num_heads: int, causal: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.causal = causal

    def forward(self, scores: Any) -> Any:
        length, keys = scores.shape[-2:]
        return scores + self.bias(length, keys, device=scores.device, dtype=scores.dtype)

    def bias(
        self,
        length: int,
        keys: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """The numbers added to the scores, (heads, length, keys): an ``attn_mask`` of scaled_dot_product_attention.

        The last query has the position of the last key; ``keys`` defaults to ``length``.
        """
        keys = length if keys is None else keys
        queries = torch.arange(keys - length, keys, device=device).unsqueeze(1)
        distance = queries - torch.arange(keys, device=device)
        slopes = torch.tensor(_slopes(self.num_heads), device=device, dtype=dtype).reshape(-1, 1, 1)
        lowered = -slopes * distance.abs()
        return Tensor(lowered.masked_fill(distance < 0, float("-inf")) if self.causal else lowered)

    def extra_repr(self) -> str:
        return f"{self.num_heads}, causal={self.causal}"


def _angles(positions: torch.Tensor, size: int, base: float) -> torch.Tensor:
    """Position times frequency, for each pair of ``size`` features, in float64: a large angle needs it."""
    rates = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-log(base) / size))
    return positions.unsqueeze(1) * rates.to(positions.device)


def _slopes(heads: int) -> list[float]:
    """The cost of one position for each head: a geometric series, with terms between if ``heads`` is no power of 2."""
    known = 1 << (heads.bit_length() - 1)
    series = [2 ** (-8 * (head + 1) / known) for head in range(known)]
    between = [2 ** (-8 * (head + 1) / (2 * known)) for head in range(0, 2 * known, 2)]
    return series + between[: heads - known]
