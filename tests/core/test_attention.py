"""Attention: which way it is computed, and that torch's arguments mean what they mean there."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops

attend = torch.nn.functional.scaled_dot_product_attention


def heads(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


MASK = torch.tensor([[True, False, True], [True, True, False], [False, False, False]])

CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": -0.7},
    "bool mask": {"attn_mask": MASK},
    "float mask": {"attn_mask": torch.where(MASK, 0.5, -torch.inf).double()},
    "dropout": {"dropout_p": 0.4},
    "grouped": {"enable_gqa": True},
}


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("case", CALLS)
def test_it_is_torchs_attention(case: str, rank: int) -> None:
    settings = CALLS[case]
    shared = 2 if case == "grouped" else 4
    shapes = [(2, 4, 3, 5), (2, shared, 3, 5), (2, shared, 3, 5)]
    raw = [heads(*shape[4 - rank :]) for shape in shapes]
    theirs, ours = [one.clone().requires_grad_() for one in raw], [nbgrad.tensor(o, requires_grad=True) for o in raw]
    torch.manual_seed(0)
    expected = attend(*theirs, **settings)
    torch.manual_seed(0)
    got = ops.scaled_dot_product_attention(*ours, **settings)
    torch.testing.assert_close(got.data, expected.detach())
    seed = heads(*expected.shape)
    grads = torch.autograd.grad(expected, theirs, seed)
    for mine, yours in zip(nbgrad.grad(got, ours, nbgrad.tensor(seed)), grads, strict=True):
        torch.testing.assert_close(mine.data, yours)


def test_where_torch_takes_its_fused_kernel_we_record_one_node() -> None:
    q = nbgrad.tensor(heads(1, 2, 3, 4), requires_grad=True)
    assert repr(ops.scaled_dot_product_attention(q, q, q).grad_fn) == "<flash_attention>"
    assert repr(attend(q, q, q, is_causal=True).grad_fn) == "<flash_attention>"


def test_a_mask_that_needs_a_gradient_gets_it() -> None:
    q, mask = heads(1, 2, 3, 4), heads(3, 3)
    theirs, ours = mask.clone().requires_grad_(), nbgrad.tensor(mask, requires_grad=True)
    attend(q, q, q, attn_mask=theirs).square().sum().backward()
    ops.scaled_dot_product_attention(nbgrad.tensor(q), q, q, attn_mask=ours).square().sum().backward()
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad)


def test_a_mask_and_causal_together_are_refused() -> None:
    q = nbgrad.tensor(heads(1, 2, 3, 4))
    with pytest.raises(RuntimeError, match="not both"):
        ops.scaled_dot_product_attention(q, q, q, attn_mask=MASK, is_causal=True)


@pytest.mark.parametrize("masked", [False, True])
def test_a_key_without_a_value_is_refused_where_torchs_fused_kernel_reads_on(masked: bool) -> None:
    q, k, v = (nbgrad.tensor(heads(1, 2, count, 4)) for count in (3, 3, 4))
    mask = torch.zeros(3, 3) if masked else None
    words = r"key of shape \(1, 2, 3, 4\) has 3 positions and value of shape \(1, 2, 4, 4\) has 4"
    with pytest.raises(RuntimeError, match=words):
        ops.scaled_dot_product_attention(q, k, v, attn_mask=mask)
