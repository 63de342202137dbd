"""oneDNN computes large products: rightly for every memory layout of the factors. Some cases must be left to torch."""

from io import BytesIO
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

import nbgrad as ng
from nbgrad.core.backend import gemm
from nbgrad.nn import functional

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")

N, K, M = 130, 1010, 140
"""Sizes just above the limit, which also make room to transpose a factor that has to be copied."""


@pytest.fixture
def calls(monkeypatch):
    """The products that oneDNN gets, as on a processor where oneDNN is faster."""
    made = []
    by_onednn = gemm._by_onednn
    monkeypatch.setattr(gemm, "ONEDNN", True)
    monkeypatch.setattr(gemm, "_by_onednn", lambda *given: made.append(given) or by_onednn(*given))
    return made


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype)


LAID = {
    "row by row": drawn,
    "column by column": lambda *shape: drawn(*shape[:-2], shape[-1], shape[-2]).mT,
    "every other column": lambda *shape: drawn(*shape[:-1], 2 * shape[-1])[..., ::2],
    "every other row": lambda *shape: drawn(*shape[:-2], 2 * shape[-2], shape[-1])[..., ::2, :],
    "in a larger one": lambda *shape: drawn(*shape[:-2], shape[-2] + 3, shape[-1] + 5)[..., 2:-1, 3:-2],
    "one row again and again": lambda *shape: drawn(shape[-1]).expand(shape),
    "one column again and again": lambda *shape: drawn(*shape[:-1], 1).expand(shape),
    "windows that overlap": lambda *shape: drawn(*shape[:-2], shape[-2] + shape[-1]).unfold(-1, shape[-1], 1)[
        ..., :-1, :
    ],
    "negated by a flag": lambda *shape: drawn(*shape, dtype=torch.complex64).conj().imag,
}


IN_ORDER = {"row by row", "column by column", "every other row", "in a larger one"}
"""The memory layouts of the second factor for which oneDNN computes the product."""


FORWARD = {
    "matmul": (ng.matmul, torch.matmul, lambda b: b),
    "mm": (ng.mm, torch.mm, lambda b: b),
    "linear": (functional.linear, torch.nn.functional.linear, lambda b: b.mT),
}
"""nbgrad's function, torch's function, and what turns the second factor into their argument."""


def near(made, kernel, *given):
    """The result has torch's strides. Its error is at most a quarter of the error bound of the sum."""
    exact = kernel(*(one.double() for one in given))
    bound = K / 4 * torch.finfo(torch.float32).eps * kernel(*(one.double().abs() for one in given))
    assert ((made - exact).abs() <= bound).all()
    assert made.stride() == kernel(*given).stride()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("second", LAID)
@pytest.mark.parametrize("first", LAID)
def test_wherever_the_factors_lie(calls, first, second):
    a, b = LAID[first](N, K), LAID[second](K, M)
    near((ng.tensor(a) @ ng.tensor(b)).data, torch.matmul, a, b)
    assert len(calls) == (second in IN_ORDER)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("name", FORWARD)
def test_wherever_the_second_factor_lies(calls, name, laid):
    function, kernel, turned = FORWARD[name]
    a, b = drawn(N, K), turned(LAID[laid](K, M))
    near(function(ng.tensor(a), ng.tensor(b)).data, kernel, a, b)
    assert len(calls) == (laid in IN_ORDER)


@pytest.mark.parametrize("first", LAID)
@pytest.mark.parametrize("name", ["matmul", "linear"])
def test_a_batch_times_a_matrix(calls, name, first):
    function, kernel, turned = FORWARD[name]
    a, b = LAID[first](2, 3, 40, K), turned(drawn(K, M))
    near(function(ng.tensor(a), ng.tensor(b)).data, kernel, a, b)
    assert len(calls) == 1


@pytest.mark.parametrize("laid", LAID)
def test_a_bias_wherever_it_lies(calls, laid):
    x, weight, bias = drawn(N, K), drawn(M, K), LAID[laid](1, M)[0]
    near(
        functional.linear(ng.tensor(x), ng.tensor(weight), ng.tensor(bias)).data,
        torch.nn.functional.linear,
        x,
        weight,
        bias,
    )
    near(ng.addmm(ng.tensor(bias), ng.tensor(x), ng.tensor(weight.mT)).data, torch.addmm, bias, x, weight.mT)


def our_step(x, hx, cx, *weights):
    return ng.lstm_cell(x, (hx, cx), *weights)


def their_step(x, hx, cx, *weights):
    return torch.lstm_cell(x, (hx, cx), *weights)


PROGRAMS = {
    "matmul": (ng.matmul, torch.matmul, [(N, K), (K, M)], 3),
    "matmul of a batch": (ng.matmul, torch.matmul, [(2, 65, K), (K, M)], 3),
    "mm": (ng.mm, torch.mm, [(N, K), (K, M)], 3),
    "linear": (functional.linear, torch.nn.functional.linear, [(N, K), (M, K)], 3),
    "linear with a bias": (functional.linear, torch.nn.functional.linear, [(N, K), (M, K), (M,)], 3),
    "linear of a batch": (functional.linear, torch.nn.functional.linear, [(2, 65, K), (M, K), (M,)], 3),
    "addmm": (ng.addmm, torch.addmm, [(M,), (N, K), (K, M)], 3),
    "rnn cell": (ng.rnn_tanh_cell, torch.rnn_tanh_cell, [(N, K), (N, 150), (150, K), (150, 150), (150,), (150,)], 3),
    "lstm cell": (our_step, their_step, [(N, K), (N, 200), (N, 200), (800, K), (800, 200), (800,), (800,)], 6),
}
"""nbgrad's function, torch's, the shapes of their arguments, and the number of large products forward and backward."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_torchs(calls, name):
    function, kernel, shapes, expected = PROGRAMS[name]
    raw = [drawn(*shape) / shape[-1] ** 0.5 for shape in shapes]
    ours = [ng.tensor(one, requires_grad=True) for one in raw]
    theirs = [one.double().requires_grad_() for one in raw]
    (out, *_), (reference, *_) = (
        [made] if not isinstance(made, tuple) else made for made in (function(*ours), kernel(*theirs))
    )
    (out * out).sum().backward()
    (reference * reference).sum().backward()
    assert len(calls) == expected
    torch.testing.assert_close(out.detach().data, reference.detach().float(), rtol=1e-4, atol=1e-5)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad.data, other.grad.float(), rtol=1e-4, atol=1e-3)


def test_a_gradient_of_a_gradient(calls):
    a, b = drawn(N, K), drawn(K, M)
    ours, theirs = (
        [lib(one) for one in (a, b)]
        for lib in (lambda x: ng.tensor(x, requires_grad=True), lambda x: x.double().requires_grad_())
    )
    made = []
    for lib, (x, y) in ((ng, ours), (torch.autograd, theirs)):
        (first,) = lib.grad((x @ y).square().sum(), x, create_graph=True)
        made.append(lib.grad(first.square().sum(), [x, y]))
    assert len(calls) == 6
    for one, other in zip(*made, strict=True):
        torch.testing.assert_close(one.data, other.float(), rtol=1e-3, atol=1e-2 * other.abs().max().item())


def test_what_is_copied_is_copied_piece_by_piece(calls, monkeypatch):
    pieces = []
    pointwise = gemm._pointwise
    monkeypatch.setattr(gemm, "_COPY", 1 << 15)
    monkeypatch.setattr(gemm, "_pointwise", lambda x, *rest: pieces.append(x.shape) or pointwise(x, *rest))
    a, b, bias = drawn(K, N).mT, drawn(K, M), drawn(M)
    near(ng.matmul(ng.tensor(a), ng.tensor(b)).data, torch.matmul, a, b)
    near(
        functional.linear(ng.tensor(a), ng.tensor(b.mT), ng.tensor(bias)).data,
        torch.nn.functional.linear,
        a,
        b.mT,
        bias,
    )
    assert pieces == 2 * [(32, K), (32, K), (32, K), (32, K), (N - 4 * 32, K)]


def test_special_numbers_spread_as_torchs_do(calls):
    a, b = drawn(N, K), drawn(K, M)
    a[0, 0], a[1, 1], a[2, 3], a[5, 7], b[3, 3] = torch.inf, torch.nan, 0, -torch.inf, torch.inf
    made, theirs = ng.tensor(a).mm(ng.tensor(b)).data, torch.mm(a, b)
    assert len(calls) == 1
    assert not theirs.isfinite().all()
    torch.testing.assert_close(made, theirs, equal_nan=True, rtol=1e-4, atol=1e-3)


LEFT_TO_TORCH = {
    "few multiplications": (drawn(N, K), drawn(K, 120)),
    "few rows": (drawn(8, 2048), drawn(2048, 2048)),
    "few columns": (drawn(2048, 2048), drawn(2048, 8)),
    "columns of length 8": (drawn(2048, 8), drawn(8, 2048)),
    "a copy for few columns": (drawn(K, 300).mT, drawn(K, 100)),
    "a vector": (drawn(5000, 5000), drawn(5000)),
    "batches on both sides": (drawn(2, N, K), drawn(2, K, M)),
    "float64": (drawn(N, K).double(), drawn(K, M).double()),
    "bfloat16": (drawn(N, K).bfloat16(), drawn(K, M).bfloat16()),
}


@pytest.mark.parametrize("why", LEFT_TO_TORCH)
def test_what_is_left_to_torch(calls, why):
    a, b = LEFT_TO_TORCH[why]
    assert torch.equal((ng.tensor(a) @ ng.tensor(b)).data, a @ b)
    assert calls == []


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # torch's context manager sets more switches than asked
def test_torchs_switch_is_one_here_too(calls):
    a, b = drawn(N, K), drawn(K, M)
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal((ng.tensor(a) @ ng.tensor(b)).data, a @ b)
    assert calls == []
    ng.tensor(a) @ ng.tensor(b)
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's forward mode still uses torch.jit
def test_torchs_own_derivatives_go_through_torchs_kernel(calls):
    """On raw tensors an op is torch's: also in torch's backward, forward mode, `torch.func` and `vmap`."""
    a, b = drawn(N, K), drawn(K, M).requires_grad_()
    assert torch.equal(torch.autograd.grad(ng.matmul(a, b).sum(), b)[0], torch.autograd.grad((a @ b).sum(), b)[0])
    b = b.detach()
    assert torch.equal(
        torch.func.grad(lambda x: ng.mm(x, b).sum())(a), torch.func.grad(lambda x: torch.mm(x, b).sum())(a)
    )
    assert torch.equal(torch.func.vmap(ng.matmul, (0, None))(a[None], b), (a @ b)[None])
    with forward_ad.dual_level():
        out = ng.matmul(forward_ad.make_dual(a, a), b)
        assert torch.equal(forward_ad.unpack_dual(out).tangent, a @ b)
    assert calls == []


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested tensors")
def test_what_may_not_even_have_a_shape_is_torchs(calls):
    sparse, dense = drawn(300, 512).to_sparse_csr(), drawn(512, 300)
    torch.testing.assert_close(ng.matmul(sparse, dense), sparse @ dense)
    torch.testing.assert_close(ng.addmm(torch.zeros(300), sparse, dense), sparse @ dense)
    nested = torch.nested.nested_tensor([drawn(200, 512), drawn(150, 512)])
    made, theirs = functional.linear(nested, dense.mT), torch.nn.functional.linear(nested, dense.mT)
    assert all(torch.equal(one, other) for one, other in zip(made.unbind(), theirs.unbind(), strict=True))
    assert calls == []


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_of_torchs_sees_the_product(calls):
    def program(a, b):
        return ng.matmul(a, b)

    traced = torch.jit.trace(program, (drawn(N, K), drawn(K, M)), check_trace=False)
    assert "aten::matmul" in str(traced.graph)
    assert calls == []


def test_torchs_casts_and_counts_see_the_product(calls):
    a, b = drawn(N, K), drawn(K, M)
    with torch.autocast("cpu", torch.bfloat16):
        assert ng.matmul(a, b).dtype is torch.bfloat16
    with FlopCounterMode(display=False) as counter:
        ng.tensor(a) @ ng.tensor(b)
    assert counter.get_total_flops() == 2 * N * K * M
    assert calls == []


@pytest.mark.parametrize(
    ("function", "kernel", "shapes"),
    [
        (ng.matmul, torch.matmul, [(N, K), (K + 1, M)]),
        (ng.mm, torch.mm, [(N, K), (K + 1, M)]),
        (ng.mm, torch.mm, [(2, N, K), (K, M)]),
        (ng.addmm, torch.addmm, [(M + 1,), (N, K), (K, M)]),
        (ng.addmm, torch.addmm, [(M,), (2, N, K), (K, M)]),
        (functional.linear, torch.nn.functional.linear, [(N, K), (M, K + 1)]),
        (functional.linear, torch.nn.functional.linear, [(N, K), (M, K), (M + 1,)]),
    ],
)
def test_what_does_not_fit_is_refused_as_torch_does(calls, function, kernel, shapes):
    given = [drawn(*shape) for shape in shapes]
    with pytest.raises(RuntimeError) as theirs:
        kernel(*given)
    with pytest.raises(RuntimeError, match=r"shape|size|matrix|2D"):
        function(*map(ng.tensor, given))
    assert str(theirs.value)
    assert calls == []


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize(("other", "told"), [(3, "int"), (None, "None"), ([[1.0]], "list"), ("W", "str")])
def test_what_is_no_tensor_is_refused_as_torch_does(calls, name, other, told):
    function, kernel, _ = FORWARD[name]
    with pytest.raises((TypeError, RuntimeError)) as theirs:
        kernel(drawn(N, K), other)
    with pytest.raises(type(theirs.value), match=told):
        function(ng.tensor(drawn(N, K)), other)
    assert calls == []


CPUINFO = b"processor\t: 0\nvendor_id\t: %s\ncpu family\t: 26\n"


@pytest.mark.parametrize(
    ("vendor", "capability", "expected"),
    [
        (b"AuthenticAMD", "AVX512", True),
        (b"GenuineIntel", "AVX512", False),
        (b"AuthenticAMD", "AVX2", False),
        (None, "AVX512", False),
    ],
)
def test_it_is_chosen_by_the_processor(monkeypatch, vendor, capability, expected):
    def opened(*_, **__):
        if vendor is None:
            raise PermissionError("/proc/cpuinfo")
        return BytesIO(CPUINFO % vendor)

    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(Path, "open", opened)
    assert gemm.onednn_is_faster() is expected
