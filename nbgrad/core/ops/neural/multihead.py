"""Multi-head attention: the projections, the masks and the heads. nn.MultiheadAttention calls it, too."""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.linalg.matmul import baddbmm, bmm, linear
from nbgrad.core.ops.neural.attention import scaled_dot_product_attention
from nbgrad.core.ops.neural.dropout import dropout
from nbgrad.core.ops.neural.softmax import softmax
from nbgrad.core.ops.shape.joining import cat
from nbgrad.core.ops.shape.padding import constant_pad_nd
from nbgrad.core.ops.shape.splitting import chunk, split


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """The output of ``nn.MultiheadAttention`` as a function of its weights: ``(output, weights or None)``.

    Shapes: query (L, N, E), key (S, N, E) and value (S, N, E), or all three without N; weights (N, L, S). Raises
    AssertionError where weights are missing or a shape does not fit, RuntimeError for a mask that does not.
    """
    if query.shape[-1] != embed_dim_to_check:
        raise AssertionError(f"expected embedding dimension {embed_dim_to_check}, got {query.shape[-1]}")
    if embed_dim_to_check % num_heads:
        raise AssertionError(f"embed_dim {embed_dim_to_check} not divisible by num_heads {num_heads}")
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("of bias_k and bias_v, one is set and the other is None")
    batched = same_ranks(query, key, value)
    if not batched:
        query, key, value = for_each(query, key, value, lambda one: one.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    if any(one is None for one in separate or (in_proj_weight,)):
        raise AssertionError(f"use_separate_proj_weight is {use_separate_proj_weight}, but its weights are None")
    alike = 2 if use_separate_proj_weight else 3
    if key.shape[:alike] != value.shape[:alike]:
        raise AssertionError(f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    found, weights = attended(
        projected(query, key, value, separate or in_proj_weight, in_proj_bias),
        num_heads,
        masks=(attn_mask, key_padding_mask),
        ends=None if bias_k is None else (bias_k, bias_v),
        static=(static_k, static_v),
        zeros=add_zero_attn,
        p=dropout_p if training else 0.0,
        need_weights=need_weights,
        average=average_attn_weights,
        is_causal=is_causal,
    )
    out = linear(found, out_proj_weight, out_proj_bias)
    return (out, weights) if batched else (out.squeeze(1), None if weights is None else weights.squeeze(0))


def same_ranks(query: Any, key: Any, value: Any, fail: Callable[[Exception], Exception] = lambda error: error) -> bool:
    """Whether there is a batch; ``fail`` turns an error about a shape into the error to raise."""
    if query.ndim not in {2, 3} or not query.ndim == key.ndim == value.ndim:
        shapes = ", ".join(str(tuple(one.shape)) for one in (query, key, value))
        raise fail(AssertionError(f"query, key and value must all be 2-D or all 3-D, got {shapes}"))
    return bool(query.ndim == 3)


def for_each(query: Any, key: Any, value: Any, change: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Query, key and value changed; if two were one tensor, they stay one."""
    q = change(query)
    k = q if key is query else change(key)
    return q, k, q if value is query else k if value is key else change(value)


def projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> Any:
    """Queries, keys and values of all heads, in as few products as there are different inputs.

    Args:
        query: (L, N, E).
        key: (S, N, K).
        value: (S, N, V).
        weight: (3 E, E), or three of them.
        bias: (3 E,) or None.
    """
    if isinstance(weight, tuple):
        weights = weight
    elif query is key is value:
        return chunk(linear(query, weight, bias), 3, dim=-1)
    elif key is value:
        sizes = [query.shape[-1], 2 * query.shape[-1]]
        of_q, of_kv = split(weight, sizes)
        bias_q, bias_kv = (None, None) if bias is None else split(bias, sizes)
        return linear(query, of_q, bias_q), *chunk(linear(key, of_kv, bias_kv), 2, dim=-1)
    else:
        weights = chunk(weight, 3)
    biases = (None, None, None) if bias is None else chunk(bias, 3)
    return [linear(*one) for one in zip((query, key, value), weights, biases, strict=True)]


def attended(
    qkv: Any,
    heads: int,
    *,
    masks: tuple[Any, Any],
    ends: tuple[Any, Any] | None,
    static: tuple[Any, Any],
    zeros: bool,
    p: float,
    need_weights: bool,
    average: bool,
    is_causal: bool,
    fail: Callable[[Exception], Exception] = lambda error: error,
) -> tuple[Any, Any]:
    """The results of the heads, side by side as (L, N, E), and the weights if they are needed.

    Args:
        qkv: queries, keys and values of all heads, (L, N, E) and (S, N, E).
        heads: how many there are.
        masks: the attention's and that of padding, or None.
        ends: a key and a value, (1, 1, E), to stand at the end of the sequences, or None.
        static: keys and values of (N * heads, S, E / heads) to take in place of those given, or None.
        zeros: whether a key and a value of zeros stand at the end.
        p: the probability that a weight is dropped.
        need_weights: whether to return them.
        average: whether they are the mean over the heads.
        is_causal: says that the mask lets no query see a later key.
        fail: turns an error about a mask into the error to raise.
    """
    length, batch, size = qkv[0].shape
    attn_mask, padding = masks
    padding = _as_numbers(padding, "key_padding_mask", qkv[0].dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    by_hint = is_causal and padding is None and not need_weights
    mask = None if by_hint else _as_numbers(attn_mask, "attn_mask", qkv[0].dtype)
    mask = _mask_of_heads(mask, (batch * heads, length, len(qkv[1])), fail)
    if ends is not None and any(one is not None for one in static):
        raise AssertionError("bias cannot be added to a static key or value")
    q, k, v = (_by_head(one, heads) for one in qkv)
    k, v = (_static(own, given, fail) for own, given in zip((k, v), static, strict=True))
    k, v, mask, padding = _with_ends(k, v, mask, padding, _added(k, ends, zeros))
    mask = _merged(mask, padding, (batch, heads, k.shape[2]), fail)
    if need_weights:
        queries, keys, values = (one.reshape(batch * heads, *one.shape[2:]) for one in (q, k, v))
        found, weights = _averaged(queries, keys, values, mask, p)
        found = found.reshape(q.shape)
        weights = weights.reshape(batch, heads, length, k.shape[2])
        weights = weights.mean(dim=1) if average else weights
    else:
        if mask is not None and mask.shape[0] > 1:
            mask = mask.reshape(batch, heads, *mask.shape[1:])
        found, weights = scaled_dot_product_attention(q, k, v, mask, p, by_hint), None
    return found.permute(2, 0, 1, 3).reshape(length, batch, size), weights


def _by_head(x, heads):
    """(S, N, E) as (N, heads, S, E / heads)."""
    return x.reshape(len(x), x.shape[1], heads, x.shape[2] // heads).permute(1, 2, 0, 3)


def _static(own, given, fail):
    """The keys or values to take: ``own``, or those given as (N * heads, S, E / heads)."""
    if given is None:
        return own
    batch, heads, _, size = own.shape
    if (given.shape[0], given.shape[2]) != (batch * heads, size):
        wrong = f"expected static keys and values of shape ({batch * heads}, S, {size}), got {tuple(given.shape)}"
        raise fail(AssertionError(wrong))
    return given.reshape(batch, heads, *given.shape[1:])


def _added(k, ends, zeros):
    """The pairs of key and value that stand at the end, each (N, heads, 1, E / heads)."""
    batch, heads, _, size = k.shape
    added = []
    if ends is not None:
        added.append([_by_head(one.repeat(1, batch, 1), heads) for one in ends])
    if zeros:
        added.append([torch.zeros(batch, heads, 1, size, dtype=k.dtype, device=k.device)] * 2)
    return added


def _with_ends(k, v, mask, padding, added):
    """Keys and values with the additional ones at their end, which no mask hides."""
    if added:
        k, v = (cat([one, *ends], dim=2) for one, ends in zip((k, v), zip(*added, strict=True), strict=True))
        widths = (0, len(added))
        mask, padding = (None if one is None else constant_pad_nd(one, pad=widths) for one in (mask, padding))
    return k, v, mask, padding


def _mask_of_heads(mask, whole, fail):
    """The mask with a first dimension for batch and heads, 1 if all have the same."""
    if mask is None:
        return None
    if mask.ndim not in {2, 3}:
        raise fail(RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported"))
    wanted = whole[-mask.ndim :]
    if tuple(mask.shape) != wanted:
        wrong = f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {wanted}."
        raise fail(RuntimeError(wrong))
    return mask.unsqueeze(0) if mask.ndim == 2 else mask


def _merged(mask, padding, sizes, fail):
    if padding is None:
        return mask
    batch, heads, keys = sizes
    if tuple(padding.shape) != (batch, keys):
        wrong = f"Expected key_padding_mask of shape ({batch}, S), got {tuple(padding.shape)}"
        raise fail(AssertionError(wrong))
    each = padding.reshape(batch, 1, 1, keys).expand(-1, heads, -1, -1).reshape(batch * heads, 1, keys)
    return each if mask is None else mask + each


def _as_numbers(mask, name, dtype):
    """A mask to add to scores: minus infinity where one of booleans is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    hidden = raw_of(mask)
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


def _averaged(q, k, v, mask, p):
    """Each query's mean of the values, and the weights it has."""
    q, turned = q * q.shape[-1] ** -0.5, k.transpose(1, 2)
    weights = softmax(bmm(q, turned) if mask is None else baddbmm(mask, q, turned), dim=-1)
    weights = dropout(weights, p) if p else weights
    return bmm(weights, v), weights
