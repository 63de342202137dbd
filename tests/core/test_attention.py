"""Attention: which kernel computes it, and that its arguments mean the same as in torch."""

from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

import nbgrad
from nbgrad.core import ops
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.ops.neural import attention
from tests.core import rows

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


def as_in_torch(settings: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    """Compare attention and its gradients with torch's, for query, key and value of these shapes."""
    raw = [heads(*shape) for shape in shapes]
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


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("case", CALLS)
def test_it_is_torchs_attention(case: str, rank: int) -> None:
    shared = 2 if case == "grouped" else 4
    shapes = [(2, 4, 3, 5), (2, shared, 3, 5), (2, shared, 3, 5)]
    as_in_torch(CALLS[case], [shape[4 - rank :] for shape in shapes])


@pytest.mark.parametrize("shape", [(), (3,), (3, 1), (4, 3, 3), (1, 1, 3)], ids=str)
def test_a_mask_of_any_rank_is_torchs_without_a_batch(shape: tuple[int, ...]) -> None:
    as_in_torch({"attn_mask": heads(*shape)}, [(4, 3, 5)] * 3)


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


BACKENDS = {"flash": attention.FLASH, "efficient": attention.EFFICIENT, "cudnn": attention.CUDNN}


def test_the_numbers_of_the_backends_are_torchs() -> None:
    for name in ("MATH", "FLASH", "EFFICIENT", "CUDNN"):
        theirs = SDPBackend.MATH if name == "MATH" else getattr(SDPBackend, f"{name}_ATTENTION")
        assert getattr(attention, name) == int(theirs)


@pytest.mark.parametrize("row", ["flash_attention", "flash_attention_backward"])
def test_the_products_are_what_the_fused_kernel_gives(row: str) -> None:
    forward = OPS[row].forward
    tried = 0
    for sample in rows.samples(OPS[row]):
        expected = forward(*sample.args, **sample.settings)
        got = forward(*sample.args, **{**sample.settings, "backend": attention.MATH})
        torch.testing.assert_close(got, expected)
        tried += 1
    assert tried


def test_of_a_query_that_sees_no_key_the_products_give_zero_as_the_fused_kernel_does() -> None:
    q, mask = heads(1, 2, 3, 4), torch.where(MASK, 0.5, -torch.inf).double()
    out, logsumexp = attention.attend(q, q, q, mask, False, None, attention.MATH)
    assert out[..., 2, :].eq(0).all()
    for one in attention.attend_backward(q, q, q, q, mask, out, logsumexp, False, None, attention.MATH):
        assert one.isfinite().all()
    torch.testing.assert_close(out, attention.attend(q, q, q, mask, False, None, attention.FLASH)[0])


@pytest.mark.parametrize(
    ("backend", "masked"),
    [("flash", False), ("efficient", False), ("efficient", True), ("cudnn", False), ("cudnn", True)],
)
def test_kernels_of_a_gpu_take_what_they_are_given(backend: str, masked: bool) -> None:
    """Checks declarations and shapes with torch's fake GPU tensors. The numbers are tested on a GPU."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 24, 64, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.empty(2, 4, 32, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        mask = torch.empty(24, 32, device="cuda", dtype=torch.bfloat16) if masked else None
        out, logsumexp = attention.attend(q, k, v, mask, False, 0.3, BACKENDS[backend])
        found = attention.attend_backward(out, q, k, v, mask, out, logsumexp, False, 0.3, BACKENDS[backend])
        assert [(one.shape, one.dtype, one.device) for one in (out, *found)] == [
            (one.shape, one.dtype, one.device) for one in (q, q, k, v)
        ]


def test_the_mask_of_an_efficient_kernel_has_aligned_rows_and_the_same_numbers() -> None:
    q = torch.empty(2, 4, 3, 8)
    for keys in (5, 16, 32):
        for shape in ((3, keys), (2, 1, 1, keys), (3, 1), (2, 4, 3, keys)):
            mask = torch.randn(shape)
            made = attention._aligned(mask, q, torch.empty(2, 4, keys, 8))
            torch.testing.assert_close(made, mask.expand(2, 4, 3, keys), rtol=0, atol=0)
            assert made.stride(-1) == 1
            assert not any(stride % 16 for stride in made.stride()[:-1])


def test_a_backend_is_torchs_choice_where_we_have_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def choice(query: torch.Tensor, *_: Any, **__: Any) -> int:
        asked.append(query.requires_grad)
        return said

    monkeypatch.setattr(torch, "_fused_sdp_choice", choice)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    with FakeTensorMode():
        wide, narrow = (torch.empty(1, 2, 8, size, device="cuda") for size in (64, 4))
        for said in (attention.MATH, *BACKENDS.values()):
            assert attention.choose(wide, wide, wide, None, 0.0, True, None, False) == said
        assert asked == [True] * 4, "of a forward alone torch would choose kernels that have no backward"
        assert attention.choose(wide, wide, wide, None, 0.1, True, None, False) == attention.MATH
        assert attention.choose(narrow, narrow, narrow, None, 0.0, True, None, False) == attention.MATH
        assert attention.choose(wide, wide, wide, None, 0.0, True, None, True) == attention.MATH
        said = 4  # the number of a backend outside of torch
        assert attention.choose(wide, wide, wide, None, 0.0, True, None, False) == attention.MATH
        monkeypatch.setattr(torch.version, "cuda", None)
        said = attention.FLASH
        assert attention.choose(wide, wide, wide, None, 0.0, True, None, False) == attention.MATH


@pytest.mark.cuda
@pytest.mark.parametrize("case", ["plain", "causal", "scaled", "bool mask", "float mask"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn"])
def test_a_fused_kernel_on_a_gpu_is_torchs(backend: str, dtype: torch.dtype, case: str) -> None:
    settings = {name: one.cuda() if isinstance(one, torch.Tensor) else one for name, one in CALLS[case].items()}
    if case == "scaled":
        settings["scale"] = 0.7  # with a negative scale torch's bfloat16 kernels give NaN
    if case == "float mask":
        settings["attn_mask"] = settings["attn_mask"].to(dtype)
    raw = [heads(2, 4, 3, 64).to("cuda", dtype) for _ in range(3)]
    theirs, ours = [one.clone().requires_grad_() for one in raw], [nbgrad.tensor(o, requires_grad=True) for o in raw]
    theirs_settings = dict(settings)
    if case == "bool mask" and backend == "cudnn":  # for cuDNN torch masks by -65504: a query without keys sees all
        zero = torch.zeros((), dtype=dtype, device="cuda")
        theirs_settings["attn_mask"] = zero.where(settings["attn_mask"], -torch.inf)
    with sdpa_kernel(SDPBackend(BACKENDS[backend])):
        try:
            expected = attend(*theirs, **theirs_settings)
        except RuntimeError:
            pytest.skip("torch has no such kernel for these tensors on this GPU")
        got = ops.scaled_dot_product_attention(*ours, **settings)
    assert repr(got.grad_fn) == "<flash_attention>"
    torch.testing.assert_close(got.data, expected.detach())
    seed = torch.ones_like(expected)
    grads = torch.autograd.grad(expected, theirs, seed)
    for mine, yours in zip(nbgrad.grad(got, ours, nbgrad.tensor(seed)), grads, strict=True):
        torch.testing.assert_close(mine.data, yours)
