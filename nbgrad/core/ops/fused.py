"""torch's fused kernels for attention, and the products that they fuse where a device or an element type has none.

A fused kernel goes through keys and values in blocks and keeps one number for each query, its logsumexp, not a weight
for each pair; its backward computes the weights again (Dao et al. 2022, https://arxiv.org/abs/2205.14135). What the
logsumexp looks like is the kernel's own affair, so a backward has to be of the same backend as its forward.
"""

import math

import torch

from nbgrad.core.kernels import aten

MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
"""torch's numbers for its backends, of ``torch.nn.attention.SDPBackend``."""


def choose(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
    """The backend that torch would run for these tensors, or MATH if we have no kernel for it.

    It heeds ``torch.nn.attention.sdpa_kernel`` as torch does. The fused kernels of a GPU drop weights as they go, with
    numbers that nobody else sees, and need heads of a multiple of 8: with dropout and for other heads it is MATH.
    """
    device = query.device.type
    if enable_gqa or not (device == "cpu" or (device == "cuda" and torch.version.cuda)):  # ROCm has kernels of its own
        return MATH
    if device == "cuda":
        if dropout_p or not query.is_floating_point() or query.shape[-1] % 8 or value.shape[-1] % 8:
            return MATH
        query = query.detach().requires_grad_()  # of wide heads some GPUs have a forward and no backward
    backend = torch._fused_sdp_choice(query, key, value, mask, dropout_p, is_causal, scale=scale)
    return backend if (device, backend) in _FORWARD else MATH


def attend(query, key, value, mask, is_causal, scale, backend):
    """The means, of the shape of the query, and the logsumexp."""
    return _FORWARD[_place(query, backend)](query, key, value, mask, is_causal, scale)


def attend_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale, backend):
    """The gradients of query, key and value."""
    return _BACKWARD[_place(query, backend)](g, query, key, value, mask, out, logsumexp, is_causal, scale)


def _place(query, backend):
    """Where to look: without a backend it is the fused kernel on the CPU and the products elsewhere."""
    device = query.device.type
    if backend is None:
        backend = FLASH if device == "cpu" else MATH
    return None if backend == MATH else (device, backend)


# A kernel that drops nothing reads no state of a generator, but is declared to take one.


def _no_state(query):
    return query.new_empty((), dtype=torch.int64)


def _flash_on_cpu(query, key, value, mask, is_causal, scale):
    return aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )


def _flash_on_cpu_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale):
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        g, query, key, value, out, logsumexp, 0.0, is_causal, attn_mask=mask, scale=scale
    )


def _flash(query, key, value, mask, is_causal, scale):
    return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, is_causal, scale=scale)[:2]


def _flash_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale):
    sizes, state = (query.shape[-2], key.shape[-2]), _no_state(query)
    return aten._scaled_dot_product_flash_attention_backward(
        g, query, key, value, out, logsumexp, None, None, *sizes, 0.0, is_causal, state, state, scale=scale
    )


def _efficient(query, key, value, mask, is_causal, scale):
    mask = _aligned(mask, query, key)
    return aten._scaled_dot_product_efficient_attention(query, key, value, mask, True, 0.0, is_causal, scale=scale)[:2]


def _efficient_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale):
    mask, state, wanted = _aligned(mask, query, key), _no_state(query), (True, True, True, False)
    return aten._scaled_dot_product_efficient_attention_backward(
        g, query, key, value, mask, out, logsumexp, state, state, 0.0, wanted, is_causal, scale=scale
    )[:3]


def _aligned(mask, query, key):
    """The mask for every pair, its rows at multiples of 16 numbers: the kernel reads several at once."""
    if mask is None:
        return None
    keys = key.shape[-2]
    mask = mask.expand(*query.shape[:-1], keys)
    *outer, step = mask.stride()
    if keys % 16 == 0 and step == 1 and not any(one % 16 for one in outer):
        return mask
    return mask.new_zeros(*query.shape[:-1], -(-keys // 16) * 16).narrow(-1, 0, keys).copy_(mask)


def _cudnn(query, key, value, mask, is_causal, scale):
    return aten._scaled_dot_product_cudnn_attention(query, key, value, mask, True, 0.0, is_causal, scale=scale)[:2]


def _cudnn_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale):
    sizes, state = (query.shape[-2], key.shape[-2]), _no_state(query)
    return aten._scaled_dot_product_cudnn_attention_backward(
        g, query, key, value, out, logsumexp, state, state, mask, None, None, *sizes, 0.0, is_causal, scale=scale
    )


def _products(query, key, value, mask, is_causal, scale):
    scores = _scores(query, key, mask, is_causal, scale)
    return torch._safe_softmax(scores, -1) @ value, scores.logsumexp(-1)


def _products_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale):
    weights = torch._safe_softmax(_scores(query, key, mask, is_causal, scale), -1)
    of_scores = weights * (g @ value.mT - (g * out).sum(-1, keepdim=True)) * scale_of(query, scale)
    return of_scores @ key, of_scores.mT @ query, weights.mT @ g


def _scores(query, key, mask, is_causal, scale):
    scores = (query @ key.mT) * scale_of(query, scale)
    if is_causal:
        mask = causal(query, key)
    return scores if mask is None else scores + mask


def scale_of(query, scale):
    """What the products of queries and keys are multiplied by: one over the root of the size of a head."""
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def causal(query, key):
    """0 where a key is no later than its query, else minus infinity."""
    later = torch.full((query.shape[-2], key.shape[-2]), -math.inf, dtype=query.dtype, device=query.device)
    return later.triu(1)


_FORWARD = {
    None: _products,
    ("cpu", FLASH): _flash_on_cpu,
    ("cuda", FLASH): _flash,
    ("cuda", EFFICIENT): _efficient,
    ("cuda", CUDNN): _cudnn,
}
_BACKWARD = {
    None: _products_backward,
    ("cpu", FLASH): _flash_on_cpu_backward,
    ("cuda", FLASH): _flash_backward,
    ("cuda", EFFICIENT): _efficient_backward,
    ("cuda", CUDNN): _cudnn_backward,
}
