"""Multi-head attention: several means of the values at once, each weighted in its own way."""

from typing import Any

import torch

from nbgrad.core.ops.neural.multihead import attended, for_each, projected, same_ranks
from nbgrad.nn import init
from nbgrad.nn.function_block import of_shape
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.call import misfit
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, uninitialized


class MultiheadAttention(Module):
    """Attention with several heads, each over its own projection of queries, keys and values (Vaswani et al. 2017).

    Each head has ``embed_dim / num_heads`` features; the results of all heads are concatenated and projected once more.
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
            query: the queries.
            key: the keys, with which each query is compared.
            value: the values, of which each query gets a weighted mean.
            key_padding_mask: (N, S), True where a key is padding; or numbers that are added to the scores.
            need_weights: whether to return the weights. This uses a slower kernel.
            attn_mask: (L, S) or (N * heads, L, S), True where a query may not see a key; or numbers that are added.
            average_attn_weights: whether the weights returned are the mean over the heads.
            is_causal: says that ``attn_mask`` lets no query see a later key, so that a faster kernel may be used.
        """
        self._check(query, key, value)
        batched = query.ndim == 3
        if not batched:
            query, key, value = for_each(query, key, value, lambda one: one.unsqueeze(1))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = for_each(query, key, value, lambda one: one.transpose(0, 1))
        weight: Any = self.in_proj_weight
        if weight is None:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        found, weights = attended(
            projected(query, key, value, weight, self.in_proj_bias),
            self.num_heads,
            masks=(attn_mask, key_padding_mask),
            ends=None if self.bias_k is None else (self.bias_k, self.bias_v),
            static=(None, None),
            zeros=self.add_zero_attn,
            p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
            average=average_attn_weights,
            is_causal=is_causal,
            fail=misfit,
        )
        out = self.out_proj(found)
        if not batched:
            return out.squeeze(1), None if weights is None else weights.squeeze(0)
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _check(self, query: Any, key: Any, value: Any) -> None:
        same_ranks(query, key, value, misfit)
        wanted = (self.embed_dim, self.kdim, self.vdim)
        for name, one, size in zip(("query", "key", "value"), (query, key, value), wanted, strict=True):
            if one.shape[-1] != size:
                wrong = f"expected {name} with last dimension {size}, got {one.shape[-1]}, {of_shape(one)}"
                raise misfit(AssertionError(wrong))
        if key.shape[:-1] != value.shape[:-1]:
            wrong = f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}"
            raise misfit(AssertionError(wrong))
