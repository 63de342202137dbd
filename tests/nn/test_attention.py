"""Multi-head attention next to torch's, over every option, mask and layout."""

from itertools import product

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from tests.nn.alike import TIGHT, check, matched, same

OPTIONS = {
    "plain": {},
    "without bias": {"bias": False},
    "batch first": {"batch_first": True},
    "other sizes": {"kdim": 3, "vdim": 5},
    "added key and value": {"add_bias_kv": True},
    "added zeros": {"add_zero_attn": True},
    "all": {
        "kdim": 3, "vdim": 5, "add_bias_kv": True, "add_zero_attn": True, "batch_first": True, "dropout": 0.3,
        "bias": False,
    },
    "dropout": {"dropout": 0.4},
}  # fmt: skip
LENGTH, KEYS, BATCH, HEADS = 3, 4, 2, 2


def attention(name):
    return matched(lambda lib: lib.MultiheadAttention(6, HEADS, **OPTIONS[name]))


def inputs(name, batch=BATCH):
    """Query, key and value. For ``batch=None`` they have no batch dimension."""
    settings = OPTIONS[name]
    made = []
    for length, size in ((LENGTH, 6), (KEYS, settings.get("kdim", 6)), (KEYS, settings.get("vdim", 6))):
        shape = (length,) if batch is None else (batch, length) if settings.get("batch_first") else (length, batch)
        made.append(torch.randn(*shape, size, dtype=torch.float64))
    return made


HIDDEN = torch.tensor([[False, True, False, True], [True, False, False, False], [False, False, True, False]])
MASKS = {
    "none": {},
    "of booleans": {"attn_mask": HIDDEN},
    "of numbers": {"attn_mask": torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)},
    "of each head": {"attn_mask": torch.linspace(-1, 1, 48, dtype=torch.float64).reshape(4, 3, 4)},
    "of padding": {"key_padding_mask": torch.tensor([[False, False, True, True], [False, True, False, False]])},
    "both": {
        "attn_mask": HIDDEN,
        "key_padding_mask": torch.tensor([[False, False, True, False], [False, False, False, False]]),
    },
    "weights of each head": {"average_attn_weights": False},
    "in float": {"key_padding_mask": torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(2, 4)},
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_batches(name, mask, need_weights, training):
    ours, theirs = (block.train(training) for block in attention(name))
    check(ours, theirs, *inputs(name), need_weights=need_weights, **MASKS[mask])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_one_sequence(name, need_weights):
    ours, theirs = attention(name)
    padding = torch.tensor([False, True, False, False])
    for masks in ({}, {"attn_mask": HIDDEN}, {"key_padding_mask": padding}):
        check(ours, theirs, *inputs(name, None), need_weights=need_weights, **masks)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_one_tensor_in_several_places(count, bias, batch_first):
    ours, theirs = matched(lambda lib: lib.MultiheadAttention(6, 2, bias=bias, batch_first=batch_first))
    given = [torch.randn(3, 3, 6, dtype=torch.float64) for _ in range(count)]
    results = []
    for block, x in ((ours, [nbgrad.tensor(one, requires_grad=True) for one in given]), (theirs, given)):
        x = [one.requires_grad_() for one in x]
        out, _ = block(*x, *[x[-1]] * (3 - count), need_weights=False)
        (out * out).sum().backward()
        results.append([out, *(one.grad for one in x), *(one.grad for one in block.parameters())])
    same(*results, {"rtol": 1e-9, "atol": 1e-12})


@pytest.mark.parametrize(("need_weights", "padded"), list(product([True, False], repeat=2)))
def test_the_hint_that_a_mask_is_causal(need_weights, padded):
    ours, theirs = matched(lambda lib: lib.MultiheadAttention(6, 2))
    x = [torch.randn(4, 2, 6, dtype=torch.float64) for _ in range(3)]
    masks = {"attn_mask": torch.ones(4, 4, dtype=torch.bool).triu(1), "is_causal": True}
    if padded:
        masks["key_padding_mask"] = torch.tensor([[False, False, True, True], [False, True, False, False]])
    check(ours, theirs, *x, need_weights=need_weights, **masks)


def test_single_precision():
    ours, theirs = matched(lambda lib: lib.MultiheadAttention(6, 2), torch.float32)
    x = [torch.randn(6, 2, 4).transpose(0, 2) for _ in range(3)]
    check(ours, theirs, *x, tolerance={"rtol": 1.3e-6, "atol": 1e-5})


def test_an_empty_batch():
    ours, theirs = matched(lambda lib: lib.MultiheadAttention(6, 2))
    check(ours, theirs, *[torch.randn(3, 0, 6, dtype=torch.float64)] * 3, need_weights=False)


@pytest.mark.parametrize("lib", [nn, torch.nn], ids=["ours", "torch"])
def test_sizes_that_cannot_be(lib):
    with pytest.raises(ValueError, match="must be greater than 0"):
        lib.MultiheadAttention(0, 2)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        lib.MultiheadAttention(6, 4)


WRONG = {
    "Need attn_mask": {"is_causal": True},
    r"is \(2, 4\), but should be \(3, 4\)": {"attn_mask": torch.zeros(2, 4)},
    r"is \(3, 3, 4\), but should be \(4, 3, 4\)": {"attn_mask": torch.zeros(3, 3, 4)},
    "dimension 1 is not supported": {"attn_mask": torch.zeros(4)},
    r"key_padding_mask of shape \(2, S\), got \(3, 4\)": {"key_padding_mask": torch.zeros(3, 4)},
    "only bool and floating types of attn_mask": {"attn_mask": torch.zeros(3, 4, dtype=torch.int64)},
}


@pytest.mark.parametrize("message", WRONG)
def test_masks_that_do_not_fit(message):
    q, k, v = (nbgrad.tensor(one) for one in inputs("plain"))
    with pytest.raises((RuntimeError, AssertionError), match=message):
        nn.MultiheadAttention(6, 2).double()(q, k, v, **WRONG[message])


def test_inputs_that_do_not_fit():
    block, ones = nn.MultiheadAttention(6, 2), lambda *shape: nbgrad.tensor(torch.ones(shape))
    with pytest.raises(AssertionError, match=r"^MultiheadAttention: expected key with last dimension 6, got 5"):
        block(ones(3, 2, 6), ones(4, 2, 5), ones(4, 2, 6))
    with pytest.raises(AssertionError, match="does not match value shape"):
        block(ones(3, 2, 6), ones(4, 2, 6), ones(5, 2, 6))
    with pytest.raises(AssertionError, match="must all be 2-D or all 3-D"):
        block(ones(3, 6), ones(4, 2, 6), ones(4, 2, 6))


class Named(torch.Tensor):
    """A subclass of torch's tensor, as other libraries make them."""


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kinds", ["ooo", "orr", "ror", "onr", "nnn", "rrr"])
def test_inputs_of_several_kinds(kinds, need_weights):
    """Ours, torch's raw ones and a subclass of those: the numbers are torch's, and ours get their gradients."""
    ours, theirs = matched(lambda lib: lib.MultiheadAttention(6, 2))
    x = [torch.randn(3, 2, 6, dtype=torch.float64) for _ in kinds]
    make = {"o": lambda t: nbgrad.tensor(t, requires_grad=True), "r": torch.clone, "n": lambda t: t.as_subclass(Named)}
    given = [make[kind](one) for kind, one in zip(kinds, x, strict=True)]
    out, weights = ours(*given, need_weights=need_weights)
    raw = [one.clone().requires_grad_() for one in x]
    expected, their_weights = theirs(*raw, need_weights=need_weights)
    assert type(out) is nbgrad.Tensor
    out.sum().backward()
    expected.sum().backward()
    same([out], [expected], {})
    assert (weights is None) == (their_weights is None)
    for kind, one, other in zip(kinds, given, raw, strict=True):
        if kind == "o":
            same([one.grad], [other.grad], {})
    same([one.grad for one in ours.parameters()], [one.grad for one in theirs.parameters()], {})


CALLS = {
    "plain": {},
    "no weights": {"need_weights": False},
    "each head": {"average_attn_weights": False},
    "separate": {"use_separate_proj_weight": True},
    "ends": {"bias_k": (1, 1, 4), "bias_v": (1, 1, 4), "add_zero_attn": True},
    "static": {"static_k": (4, 5, 2), "static_v": (4, 5, 2)},
    "masks": {"attn_mask": (3, 5), "key_padding_mask": (2, 5)},
    "no bias": {"in_proj_bias": None, "out_proj_bias": None},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=list(CALLS))
def test_the_function_is_torchs(options):
    torch.manual_seed(2)
    shapes = {
        "query": (3, 2, 4),
        "key": (5, 2, 4),
        "value": (5, 2, 4),
        "in_proj_weight": (12, 4),
        "in_proj_bias": (12,),
        "bias_k": None,
        "bias_v": None,
        "out_proj_weight": (4, 4),
        "out_proj_bias": (4,),
        **{f"{name}_proj_weight": (4, 4) for name in "qkv"},
    }
    given = {"embed_dim_to_check": 4, "num_heads": 2, "add_zero_attn": False, "dropout_p": 0.0}
    given |= {
        name: torch.randn(one, dtype=torch.float64) if isinstance(one, tuple) else one
        for name, one in (shapes | options).items()
    }
    results = []
    for function, make in ((functional, nbgrad.tensor), (torch.nn.functional, lambda x: x.clone())):
        inputs = {
            name: make(one).requires_grad_() if isinstance(one, torch.Tensor) else one for name, one in given.items()
        }
        out, weights = function.multi_head_attention_forward(**inputs)
        loss = (out * out).sum() + (0 if weights is None else (weights * weights).sum())
        loss.backward()
        leaves = [inputs[name].grad for name, one in given.items() if isinstance(one, torch.Tensor)]
        results.append([out, weights, *leaves])
    same(*results, TIGHT)


def test_the_function_says_what_does_not_fit():
    x, weight = torch.ones(3, 2, 4), torch.ones(12, 4)
    usual = {"key": x, "value": x, "embed_dim_to_check": 4, "num_heads": 2, "in_proj_weight": weight}
    usual |= {"in_proj_bias": None, "bias_k": None, "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0}
    usual |= {"out_proj_weight": torch.ones(4, 4), "out_proj_bias": None}
    for changed, message in (
        ({"embed_dim_to_check": 5}, "expected embedding dimension 5, got 4"),
        ({"num_heads": 3}, "not divisible by num_heads 3"),
        ({"bias_k": torch.ones(1, 1, 4)}, "one is set and the other is None"),
        ({"in_proj_weight": None}, "its weights are None"),
        ({"use_separate_proj_weight": True}, "its weights are None"),
        ({"value": x[:2]}, "does not match value shape"),
        ({"static_k": torch.ones(3, 5, 2)}, r"of shape \(4, S, 2\), got \(3, 5, 2\)"),
    ):
        for lib, query in ((functional, nbgrad.tensor(x)), (torch.nn.functional, x)):
            with pytest.raises(AssertionError, match=message if lib is functional else None):
                lib.multi_head_attention_forward(query, **(usual | changed))
