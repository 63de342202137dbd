"""Multi-head attention: several means of the values at once, each weighted in its own way."""

from typing import Any

import torch

from nbgrad.core.ops import (
    baddbmm,
    bmm,
    cat,
    chunk,
    constant_pad_nd,
    dropout,
    linear,
    scaled_dot_product_attention,
    softmax,
    split,
)
from nbgrad.core.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.block import of_shape
from nbgrad.nn.calling import misfit
from nbgrad.nn.linear import Linear
from nbgrad.nn.module import Module
from nbgrad.nn.parameter import Parameter, uninitialized


class MultiheadAttention(Module):
    """Attention with several heads, each over its own projection of queries, keys and values (Vaswani et al. 2017).

    Each head has ``embed_dim / num_heads`` features; what the heads find is put side by side and projected once more.
    See https://arxiv.org/abs/1706.03762.

    Shapes: query (L, N, E), key (S, N, kdim) and value (S, N, vdim); (N, L, E) and so on with ``batch_first``; (L, E)
    and so on for one sequence alone. Output as query, and the weights (N, L, S), (N, heads, L, S) or None.

    Args:
        embed_dim: E, the features of queries and of the output.
        num_heads: how many heads there are; it divides ``embed_dim``.
        dropout: the probability that a weight is dropped in training.
        bias: whether the projections learn biases.
        add_bias_kv: whether a learned key and value stand at the end of the sequences.
        add_zero_attn: whether a key and value of zeros stand at their end.
        kdim: the features of keys; default: ``embed_dim``.
        vdim: the features of values; default: ``embed_dim``.
        batch_first: whether the first dimension counts sequences.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: ``embed_dim`` or ``num_heads`` is not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``; as in torch.
    """

    __formula__ = (
        r"[h_1, \dots, h_k] W_o, \; h_i = \operatorname{softmax}\left(\frac{Q_i K_i^\top}{\sqrt{d}}\right) V_i"
    )

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def made(wanted: bool, *shape: int) -> Parameter | None:
            return uninitialized(*shape, device=device, dtype=dtype) if wanted else None

        same = self.kdim == self.vdim == embed_dim
        self.register_parameter("in_proj_weight", made(same, 3 * embed_dim, embed_dim))
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", made(not same, embed_dim, size))
        self.register_parameter("in_proj_bias", made(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", made(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", made(add_bias_kv, 1, 1, embed_dim))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for added in (self.bias_k, self.bias_v):
            if added is not None:
                init.xavier_normal_(added)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The output, and the weights if they are needed.

        Args:
            query: what asks.
            key: what it is compared with.
            value: what is averaged.
            key_padding_mask: (N, S), True where a key is padding; or numbers that are added to the scores.
            need_weights: whether to return the weights, for which a slower way is gone.
            attn_mask: (L, S) or (N * heads, L, S), True where a query may not see a key; or numbers that are added.
            average_attn_weights: whether the weights returned are the mean over the heads.
            is_causal: says that ``attn_mask`` lets no query see a later key, so that a faster way may be gone.
        """
        self._check(query, key, value)
        batched = query.ndim == 3
        if not batched:
            query, key, value = _for_each(query, key, value, lambda one: one.unsqueeze(1))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = _for_each(query, key, value, lambda one: one.transpose(0, 1))
        length, batch = query.shape[:2]
        padding = _as_numbers(key_padding_mask, "key_padding_mask", query.dtype)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        by_hint = is_causal and padding is None and not need_weights
        mask = None if by_hint else _as_numbers(attn_mask, "attn_mask", query.dtype)
        mask = self._mask_of_heads(mask, batch, length, len(key))
        q, k, v = (self._heads(one) for one in self._projected(query, key, value))
        k, v, mask, padding = self._with_ends(k, v, mask, padding)
        mask = self._merged(mask, padding, batch)
        p = self.dropout if self.training else 0.0
        if need_weights:
            found, weights = _averaged(q, k, v, mask, p)
        else:
            queries, keys, values = (one.reshape(batch, self.num_heads, *one.shape[1:]) for one in (q, k, v))
            if mask is not None and mask.shape[0] > 1:
                mask = mask.reshape(batch, self.num_heads, *mask.shape[1:])
            found = scaled_dot_product_attention(queries, keys, values, mask, p, by_hint)
            found, weights = found.reshape(q.shape), None
        out = self.out_proj(found.transpose(0, 1).reshape(length, batch, self.embed_dim))
        if weights is not None:
            weights = weights.reshape(batch, self.num_heads, length, k.shape[1])
            weights = weights.mean(dim=1) if average_attn_weights else weights
        if not batched:
            return out.squeeze(1), None if weights is None else weights.squeeze(0)
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _check(self, query: Any, key: Any, value: Any) -> None:
        if query.ndim not in {2, 3} or not query.ndim == key.ndim == value.ndim:
            shapes = ", ".join(str(tuple(one.shape)) for one in (query, key, value))
            raise misfit(AssertionError(f"query, key and value must all be 2-D or all 3-D, got {shapes}"))
        wanted = (self.embed_dim, self.kdim, self.vdim)
        for name, one, size in zip(("query", "key", "value"), (query, key, value), wanted, strict=True):
            if one.shape[-1] != size:
                wrong = f"expected {name} with last dimension {size}, got {one.shape[-1]}, {of_shape(one)}"
                raise misfit(AssertionError(wrong))
        if key.shape[:-1] != value.shape[:-1]:
            wrong = f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}"
            raise misfit(AssertionError(wrong))

    def _projected(self, query: Any, key: Any, value: Any) -> Any:
        """Queries, keys and values of all heads, in as few products as there are different inputs."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is None:
            weights: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key is value:
            return chunk(linear(query, weight, bias), 3, dim=-1)
        elif key is value:
            sizes = [self.embed_dim, 2 * self.embed_dim]
            of_q, of_kv = split(weight, sizes)
            bias_q, bias_kv = (None, None) if bias is None else split(bias, sizes)
            return linear(query, of_q, bias_q), *chunk(linear(key, of_kv, bias_kv), 2, dim=-1)
        else:
            weights = chunk(weight, 3)
        biases = (None, None, None) if bias is None else chunk(bias, 3)
        return [linear(*one) for one in zip((query, key, value), weights, biases, strict=True)]

    def _heads(self, x: Any) -> Any:
        """(S, N, E) as (N * heads, S, E / heads)."""
        return x.reshape(len(x), x.shape[1] * self.num_heads, self.head_dim).transpose(0, 1)

    def _with_ends(self, k: Any, v: Any, mask: Any, padding: Any) -> tuple[Any, Any, Any, Any]:
        """Keys and values with what is added at their end, which no mask hides."""
        added = []
        if self.bias_k is not None and self.bias_v is not None:
            batch = k.shape[0] // self.num_heads
            added.append([self._heads(one.repeat(1, batch, 1)) for one in (self.bias_k, self.bias_v)])
        if self.add_zero_attn:
            added.append([torch.zeros(len(k), 1, self.head_dim, dtype=k.dtype, device=k.device)] * 2)
        if added:
            k, v = (cat([one, *ends], dim=1) for one, ends in zip((k, v), zip(*added, strict=True), strict=True))
            widths = (0, len(added))
            mask, padding = (None if one is None else constant_pad_nd(one, pad=widths) for one in (mask, padding))
        return k, v, mask, padding

    def _mask_of_heads(self, mask: Any, batch: int, length: int, keys: int) -> Any:
        """The mask with a first dimension for batch and heads, 1 if all have the same."""
        if mask is None:
            return None
        wanted = (length, keys) if mask.ndim == 2 else (batch * self.num_heads, length, keys)
        if mask.ndim not in {2, 3}:
            raise misfit(RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported"))
        if tuple(mask.shape) != wanted:
            wrong = f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {wanted}."
            raise misfit(RuntimeError(wrong))
        return mask.unsqueeze(0) if mask.ndim == 2 else mask

    def _merged(self, mask: Any, padding: Any, batch: int) -> Any:
        if padding is None:
            return mask
        keys = padding.shape[-1]
        if padding.shape[0] != batch or padding.ndim != 2:
            wrong = f"Expected key_padding_mask of shape ({batch}, S), got {tuple(padding.shape)}"
            raise misfit(AssertionError(wrong))
        each = padding.reshape(batch, 1, 1, keys).expand(-1, self.num_heads, -1, -1)
        each = each.reshape(batch * self.num_heads, 1, keys)
        return each if mask is None else mask + each


def _for_each(query: Any, key: Any, value: Any, change: Any) -> tuple[Any, Any, Any]:
    """Query, key and value changed; what was one tensor stays one."""
    q = change(query)
    k = q if key is query else change(key)
    return q, k, q if value is query else k if value is key else change(value)


def _as_numbers(mask: Any, name: str, dtype: torch.dtype) -> Any:
    """A mask to add to scores: minus infinity where one of booleans is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    hidden = mask.data if isinstance(mask, Tensor) else mask
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


def _averaged(q: Any, k: Any, v: Any, mask: Any, p: float) -> tuple[Any, Any]:
    """Each query's mean of the values, and the weights it has."""
    q, turned = q * q.shape[-1] ** -0.5, k.transpose(1, 2)
    weights = softmax(bmm(q, turned) if mask is None else baddbmm(mask, q, turned), dim=-1)
    weights = dropout(weights, p) if p else weights
    return bmm(weights, v), weights
