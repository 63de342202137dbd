"""Attention: each query takes a mean of values, weighted by how well their keys match it.

torch's fused kernels compute it where the device and the element type have one. A fused kernel goes through keys and
values in blocks and keeps one number for each query, its logsumexp, not a weight for each pair; its backward computes
the weights again (Dao et al. 2022, https://arxiv.org/abs/2205.14135). The form of the logsumexp is the kernel's own, so
a backward has to be of the same backend as its forward.
"""

import math

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops._joint_rules import total
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.neural.dropout import dropout
from nbgrad.core.ops.neural.softmax import softmax, softmax_backward
from nbgrad.core.ops.shape.repeating import repeat_interleave

MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
"""torch's numbers for its backends, of ``torch.nn.attention.SDPBackend``."""


def choose(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
    """The backend that torch would run for these tensors, or MATH if we have no kernel for it.

    It heeds ``torch.nn.attention.sdpa_kernel`` as torch does. On a GPU it is MATH in two more cases. With dropout, the
    fused kernels would draw random numbers that no other code sees. And they need heads whose size is a multiple of 8.
    """
    device = query.device.type
    if enable_gqa or not (device == "cpu" or (device == "cuda" and torch.version.cuda)):  # ROCm has kernels of its own
        return MATH
    if device == "cuda":
        if dropout_p or not query.is_floating_point() or query.shape[-1] % 8 or value.shape[-1] % 8:
            return MATH
        query = query.detach().requires_grad_()  # for wide heads some GPUs have a forward and no backward
    tensors = query, key, value, mask
    if device == "cpu" and torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        backend = _choose_for_fakes(tensors, dropout_p, is_causal, scale)
    else:
        backend = torch._fused_sdp_choice(*tensors, dropout_p, is_causal, scale=scale)
    return backend if (device, backend) in _FORWARD else MATH


def _choose_for_fakes(tensors, dropout_p, is_causal, scale):
    """The choice for tensors of ``FakeTensorMode``: for those torch names the slow kernel, and runs the fast one."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily  # imported where the mode is on

    with unset_fake_temporarily():
        query, key, value, mask = [
            None if one is None else torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in tensors
        ]
        return torch._fused_sdp_choice(query, key, value, mask, dropout_p, is_causal, scale=scale)  # type: ignore[arg-type]


def attend(query, key, value, mask, is_causal, scale, backend):
    """The means, of the shape of the query, and the logsumexp."""
    return _FORWARD[_place(query, backend)](query, key, value, mask, is_causal, scale)


def attend_backward(g, query, key, value, mask, out, logsumexp, is_causal, scale, backend):
    """The gradients of query, key and value."""
    return _BACKWARD[_place(query, backend)](g, query, key, value, mask, out, logsumexp, is_causal, scale)


def _place(query, backend):
    """The backend to use: if none is given, the fused kernel on the CPU and the products elsewhere."""
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
    q, k, v = (one.to(out.dtype) for one in (query, key, value))  # autocast casts each product of the forward
    weights = torch._safe_softmax(_scores(q, k, mask, is_causal, scale), -1).to(out.dtype)
    of_scores = weights * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale_of(q, scale)
    return (of_scores @ k).to(query.dtype), (of_scores.mT @ q).to(key.dtype), (weights.mT @ g).to(value.dtype)


def _scores(query, key, mask, is_causal, scale):
    scores = (query @ key.mT) * scale_of(query, scale)
    if is_causal:
        mask = causal(query, key)
    return scores if mask is None else scores + mask


def scale_of(query, scale):
    """The factor of the products of queries and keys: one over the root of the size of a head."""
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


def _attentions(make: Make):
    q, k, v = make(2, 2, 3, 4), make(2, 2, 5, 4), make(2, 2, 5, 4)
    yield Sample.of(q, k, v)
    yield Sample.of(q, k, v, scale=0.3)
    yield Sample.of(q, k, v, make(3, 5))
    yield Sample.of(q, k, v, make(2, 1, 3, 5))
    yield Sample.of(q, q, make(2, 2, 3, 4), is_causal=True)
    yield Sample.of(q, k, v, make(3, 5), scale=0.3, backend=MATH)
    yield Sample.of(q, q, make(2, 2, 3, 4), is_causal=True, backend=MATH)
    yield Sample.of(make(0, 2, 3, 4), make(0, 2, 5, 4), make(0, 2, 5, 4))


def _by_torch(query, key, value, attn_mask=None, *, is_causal=False, scale=None, backend=None):
    settings = {"is_causal": is_causal, "scale": scale, "attn_mask": attn_mask}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, **settings)


@op(
    formula=r"\operatorname{softmax}\left(\frac{q k^{\top}}{\sqrt{d}} + m\right) v",
    symbols={"query": "q", "key": "k", "attn_mask": "m"},
    aux=("logsumexp",),
    no_gradient=("attn_mask",),
    samples=_attentions,
    ranks=(4,),
    reference=_by_torch,
    traits=Traits(units=-1),
)
def flash_attention(query, key, value, attn_mask=None, *, is_causal=False, scale=None, backend=None):
    """Attention in one kernel: each query takes a mean of the values, weighted by how well their keys match it.

    A fused kernel goes through keys and values in blocks and keeps one number for each query, not a weight for each
    pair; the backward computes the weights again (Dao et al. 2022, https://arxiv.org/abs/2205.14135). ``backend`` is
    the number of a ``torch.nn.attention.SDPBackend``; without one it is the fused kernel on the CPU, and products
    elsewhere.

    Shapes: query (N, H, L, E), key and value (N, H, S, E), attn_mask broadcasts to (N, H, L, S) and is added to the
    scores; output as query.
    """
    if not query.numel():
        return query.clone(), query.new_empty(query.shape[:-1])
    # torch returns a class of tuples with names, which compiled code does not take for a tuple.
    return tuple(attend(query, key, value, attn_mask, is_causal, scale, backend))


@flash_attention.joint_rule(
    query=r"\frac{1}{\sqrt{d}} \bar{s} k", key=r"\frac{1}{\sqrt{d}} \bar{s}^{\top} q", value=r"w^{\top} \bar{y}"
)
def _(g, needed, query, key, value, attn_mask, out, logsumexp, is_causal, scale, backend):
    settings = {"is_causal": is_causal, "scale": scale, "backend": backend}
    return (*flash_attention_backward(g, query, key, value, out, logsumexp, attn_mask, **settings), None)


def _attention_gradients(make: Make):
    for sample in _attentions(make):
        q, k, v, *mask = sample.args
        out, logsumexp = flash_attention.forward(q, k, v, *mask, **sample.settings)
        yield Sample.of(make(*q.shape), q, k, v, out, logsumexp, *mask, **sample.settings)


def _gradients_by_torch(g, query, key, value, out, logsumexp, attn_mask=None, **settings):
    query, key, value = given = tuple(
        one if one.requires_grad else one.clone().requires_grad_() for one in (query, key, value)
    )
    with torch.enable_grad():
        y = _by_torch(query, key, value, attn_mask, **settings)
        touched = 0 * sum(one.sum() for one in (g, *given))  # torch's gradients of empty tensors have no history
        return tuple(one + touched for one in torch.autograd.grad(y, given, g, create_graph=True))


@op(
    formula=r"\bar{q}, \bar{k}, \bar{v} \text{ of } g",
    symbols={
        "query": "q",
        "key": "k",
        "value": "v",
        "g_query": r"\bar{\bar{q}}",
        "g_key": r"\bar{\bar{k}}",
        "g_value": r"\bar{\bar{v}}",
    },
    outputs=("query", "key", "value"),
    no_gradient=("out", "logsumexp", "attn_mask"),
    samples=_attention_gradients,
    ranks=(4,),
    reference=_gradients_by_torch,
)
def flash_attention_backward(
    g, query, key, value, out, logsumexp, attn_mask=None, *, is_causal=False, scale=None, backend=None
):
    """The gradients of attention with regard to query, key and value, from its output and its logsumexp.

    Shapes: g as query; the outputs as query, key and value.
    """
    if not query.numel():
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    return tuple(attend_backward(g, query, key, value, attn_mask, out, logsumexp, is_causal, scale, backend))


@flash_attention_backward.joint_rule(
    g=r"\bar{p} v + w \bar{\bar{v}}",
    query=r"\frac{1}{\sqrt{d}} (\bar{\bar{s}} k + \bar{s} \bar{\bar{k}})",
    key=r"\frac{1}{\sqrt{d}} (\bar{\bar{s}}^{\top} q + \bar{s}^{\top} \bar{\bar{q}})",
    value=r"\bar{p}^{\top} g",
)
def _(g_query, g_key, g_value, needed, g, query, key, value, attn_mask, is_causal, scale):
    # With w = softmax(s), p = g v' and s̄ the gradient of s, the gradients are scale s̄ k, scale s̄' q and w' g. The
    # gradients that arrive for the first two of these make m, the gradient of s̄.
    scale = scale_of(query, scale)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    p = g @ _turned(value)
    m = total(
        None if g_query is None else (g_query @ _turned(key)) * scale,
        None if g_key is None else (query @ _turned(g_key)) * scale,
    )
    of_weights = None if g_value is None else g @ _turned(g_value)
    of_g = None if g_value is None else weights @ g_value
    of_value = of_query = of_key = None
    if m is not None:
        of_p = softmax_backward(m, weights, dim=-1)
        of_g, of_value = total(of_g, of_p @ value), _turned(of_p) @ g
        bent = m * (p - (p * weights).sum(-1, True)) - p * (m * weights).sum(-1, True)
        of_weights = total(of_weights, bent)
        of_scores = softmax_backward(p, weights, dim=-1)
        of_query = None if g_key is None else (of_scores @ g_key) * scale
        of_key = None if g_query is None else (_turned(of_scores) @ g_query) * scale
    of_s = softmax_backward(of_weights, weights, dim=-1) * scale
    of_query, of_key = total(of_query, of_s @ key), total(of_key, _turned(of_s) @ query)
    return of_g, of_query, of_key, of_value, None, None, None


def _turned(matrix):
    return matrix.transpose(-2, -1)


def _weights(query, key, attn_mask, is_causal, scale):
    """How much each query takes of each value; all 0 where every key is masked."""
    root = math.sqrt(abs(scale))  # each factor is scaled before the product, so overflow is rarer, as in torch
    scores = (query * root) @ _turned(key * math.copysign(root, scale))
    if is_causal:
        attn_mask = causal(query, key)
    if attn_mask is None:
        return softmax(scores, dim=-1)
    scores = scores + attn_mask
    masked = (scores == -math.inf).all(dim=-1, keepdim=True)
    return where(masked, 0.0, softmax(where(masked, 0.0, scores), dim=-1))  # softmax of only -inf is NaN


@as_one(torch.nn.functional.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """Each query takes a mean of the values, weighted by the softmax of its products with their keys.

    Transformers are built of it (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762). A mask is True where a key may
    be seen, or is added to the scores; ``is_causal`` lets no query see a later key. With ``enable_gqa`` several heads
    of the query share a head of key and value. If torch would choose a fused kernel, the row flash_attention runs.
    Else the products run one by one. They always do so with ``enable_gqa``, for a mask that needs a gradient, and on a
    GPU with dropout or if the size of a head is no multiple of 8.

    Shapes: query (..., L, E), key (..., S, E), value (..., S, Ev), attn_mask broadcasts to (..., L, S); output
    (..., L, Ev). Raises RuntimeError for a mask together with ``is_causal``, and where key and value differ in S.
    """
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention takes attn_mask or is_causal, not both")
    if key.shape[-2] != value.shape[-2]:  # the fused kernel would not see it
        raise RuntimeError(
            f"scaled_dot_product_attention: each key needs a value, but key of shape {tuple(key.shape)} has "
            f"{key.shape[-2]} positions and value of shape {tuple(value.shape)} has {value.shape[-2]}"
        )
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed = raw_of(attn_mask)
        attn_mask = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
        attn_mask = attn_mask.masked_fill_(~allowed, -math.inf)
    backend = MATH
    if not getattr(attn_mask, "requires_grad", False):
        q, k, v, mask = (raw_of(one) for one in (query, key, value, attn_mask))
        backend = choose(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa)
    if backend != MATH:
        on_cpu = query.device.type == "cpu"  # where there is one kernel, which need not be named
        settings = {"is_causal": is_causal, "scale": scale, "backend": None if on_cpu else backend}
        if query.ndim == 3:  # from torch 2.14 on a fused kernel is chosen for it, which takes 4 dimensions
            query, key, value = (one.unsqueeze(0) for one in (query, key, value))
            if attn_mask is not None:
                attn_mask = attn_mask[(None,) * (4 - attn_mask.ndim)]
            return flash_attention(query, key, value, attn_mask, **settings).squeeze(0)
        return flash_attention(query, key, value, attn_mask, **settings)
    if enable_gqa:
        key = repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    weights = _weights(query, key, attn_mask, is_causal, scale_of(query, scale))
    return dropout(weights, dropout_p) @ value
