"""Functions that create tensors: the same tensors as in torch, as leaves, on the device of the active graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._device import _device_constructors

import nbgrad
from nbgrad.core.ops.create import tensors
from tests.lacking import lacks
from tools.created import CREATED

NOT_HERE = {
    "asarray": "tensor and as_tensor do what it does",
    "empty_quantized": "nbgrad has no quantized tensors",
    "nested_tensor": "nbgrad has no nested tensors",
    "range": "torch has deprecated it: arange",
    **{f"sparse_{kind}_tensor": "nbgrad has no sparse tensors" for kind in ("bsc", "bsr", "compressed", "coo")},
    **{f"sparse_{kind}_tensor": "nbgrad has no sparse tensors" for kind in ("csc", "csr")},
}

CALLS: dict[str, Callable[[Any], Any]] = {
    "arange": lambda lib: (lib.arange(3), lib.arange(1, 4.0, 0.5), lib.arange(start=1, end=3, dtype=torch.float64)),
    "bartlett_window": lambda lib: lib.bartlett_window(5, periodic=False),
    "blackman_window": lambda lib: lib.blackman_window(5),
    "empty": lambda lib: (lib.empty(2, 0), lib.empty((0,), dtype=torch.int64)),
    "empty_like": lambda lib: lib.empty_like(lib.ones(0, 2), dtype=torch.float64),
    "empty_permuted": lambda lib: lib.empty_permuted((2, 0), (1, 0)),
    "empty_strided": lambda lib: lib.empty_strided((0, 2), (1, 2)),
    "eye": lambda lib: (lib.eye(3), lib.eye(2, 3, dtype=torch.bool), lib.eye(n=2, m=1)),
    "fft_fftfreq": lambda lib: lib.fft.fftfreq(5, 0.1),
    "fft_rfftfreq": lambda lib: lib.fft.rfftfreq(5, d=2.0),
    "full": lambda lib: (lib.full((2, 3), 1.5), lib.full((), True), lib.full(size=(1,), fill_value=lib.ones(()))),
    "full_like": lambda lib: (lib.full_like(lib.ones(2), 3), lib.full_like(lib.ones(2), fill_value=4)),
    "hamming_window": lambda lib: lib.hamming_window(5, False, 0.5),
    "hann_window": lambda lib: lib.hann_window(5),
    "kaiser_window": lambda lib: lib.kaiser_window(5, True, beta=3.0),
    "linspace": lambda lib: (lib.linspace(0, 1, 5), lib.linspace(start=lib.ones(()), end=3, steps=2)),
    "logspace": lambda lib: lib.logspace(0, 2, 3, base=2.0),
    "normal": lambda lib: (
        lib.normal(0.0, 0.01, (2, 1)),
        lib.normal(1, 2, size=(3,), dtype=torch.float64),
        lib.normal(lib.ones(2), 2.0),
        lib.normal(mean=lib.zeros(3)),
    ),
    "ones": lambda lib: (lib.ones(2, 3), lib.ones([2]), lib.ones(()), lib.ones(size=(1, 2), dtype=torch.float16)),
    "ones_like": lambda lib: lib.ones_like(lib.zeros(2, 3, dtype=torch.float64)),
    "rand": lambda lib: (lib.rand(2, 3), lib.rand((2,), generator=torch.Generator().manual_seed(1))),
    "rand_like": lambda lib: lib.rand_like(lib.zeros(2, 3, dtype=torch.float64)),
    "randint": lambda lib: (lib.randint(5, (3,)), lib.randint(-3, 5, (2, 2)), lib.randint(low=1, high=9, size=(4,))),
    "randint_like": lambda lib: (lib.randint_like(lib.ones(3), 9), lib.randint_like(lib.ones(3), low=4, high=9)),
    "randn": lambda lib: (lib.randn(2, 3), lib.randn((2,), dtype=torch.complex128)),
    "randn_like": lambda lib: lib.randn_like(lib.zeros(2, 3)),
    "randperm": lambda lib: lib.randperm(6),
    "scalar_tensor": lambda lib: lib.scalar_tensor(2.5),
    "tril_indices": lambda lib: lib.tril_indices(3, 3),
    "triu_indices": lambda lib: lib.triu_indices(3, 3, offset=1),
    "zeros": lambda lib: (lib.zeros(2, 3), lib.zeros((2,), dtype=torch.int64), lib.zeros(3, device="meta")),
    "zeros_like": lambda lib: lib.zeros_like(lib.ones(2, 3).T, dtype=torch.float64),
}


def made(lib: Any, name: str) -> tuple[Any, ...]:
    torch.manual_seed(4)
    result = CALLS[name](lib)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CALLS)
def test_torchs_numbers_types_and_layout(name: str) -> None:
    for ours, theirs in zip(made(nbgrad, name), made(torch, name), strict=True):
        assert type(ours) is nbgrad.Tensor
        assert ours.is_leaf
        assert not ours.requires_grad
        assert (ours.dtype, ours.device, ours.data.stride()) == (theirs.dtype, theirs.device, theirs.stride())
        assert ours.shape == theirs.shape
        assert ours.device.type == "meta" or torch.equal(ours.data, theirs)


def test_every_function_of_torchs_that_makes_a_tensor_is_here_or_is_said_not_to_be() -> None:
    torchs = {function.__name__ for function in _device_constructors()} - {"tensor"}
    torchs -= {name for name in ("fill", "vander") if lacks(name)}  # they take a tensor
    likes = {name for name in dir(torch) if name.endswith("_like") and not name.startswith("_")}
    assert torchs | likes | {"normal"} == CREATED.keys() | NOT_HERE.keys()
    assert {name for name in CREATED if callable(getattr(tensors, name))} == CREATED.keys()
    assert CALLS.keys() | {"as_tensor"} == CREATED.keys()


def test_what_is_made_can_need_a_gradient() -> None:
    assert nbgrad.normal(0, 1, (2,), requires_grad=True).requires_grad
    for x in (nbgrad.ones(3, requires_grad=True), nbgrad.ones_like(nbgrad.zeros(3), requires_grad=True)):
        (x * x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="int64"):
        nbgrad.arange(3, requires_grad=True)


def test_what_is_like_a_tensor_is_a_constant_to_it() -> None:
    x = nbgrad.ones(2, dtype=torch.float64, requires_grad=True)
    for like in (nbgrad.zeros_like(x), torch.zeros_like(x), torch.full_like(x, fill_value=0.0)):
        assert type(like) is nbgrad.Tensor
        assert like.is_leaf
        assert like.dtype is torch.float64
        assert not like.requires_grad


def test_they_live_where_the_graph_says_or_torch_or_they_are_told() -> None:
    with nbgrad.AutogradGraph(device="meta"):
        assert nbgrad.zeros(2).device.type == nbgrad.arange(2).device.type == "meta"
        assert nbgrad.as_tensor([1.0]).device.type == "meta"
        assert nbgrad.zeros(2, device="cpu").device.type == "cpu"
        assert nbgrad.zeros_like(nbgrad.zeros(2, device="cpu")).device.type == "cpu"
    with torch.device("meta"):
        assert nbgrad.zeros(2).device.type == "meta"
    with nbgrad.inference_mode():
        assert nbgrad.zeros(2).data.is_inference()


def test_a_device_that_is_not_there_and_what_nbgrad_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="torch finds no CUDA device"):
        nbgrad.zeros(2, device="cuda:0")
    with pytest.raises(NotImplementedError, match="tensors are dense"):
        nbgrad.zeros(2, layout=torch.sparse_coo)
    with pytest.raises(NotImplementedError, match="takes no out="):
        nbgrad.zeros(2, out=torch.empty(2))
    with pytest.warns(UserWarning, match="no gradient flows"):
        nbgrad.full((2,), nbgrad.tensor(1.0, requires_grad=True))


def test_as_tensor_copies_nothing_that_it_need_not() -> None:
    x, raw, array = nbgrad.ones(2, requires_grad=True), torch.ones(2), np.ones(2)
    assert nbgrad.as_tensor(x) is x
    assert nbgrad.as_tensor(x, torch.float64).grad_fn is not None
    assert nbgrad.as_tensor(raw).data.data_ptr() == raw.data_ptr()
    shared = nbgrad.as_tensor(array)
    array[0] = 5.0
    assert shared.tolist() == [5.0, 1.0]
    assert nbgrad.as_tensor([nbgrad.tensor(1.0), 2]).tolist() == [1.0, 2.0]


TO: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda x, _: x.to(),
    "none": lambda x, _: x.to(None),
    "dtype": lambda x, _: x.to(torch.float64),
    "device": lambda x, _: x.to("cpu"),
    "device by name": lambda x, _: x.to(device=torch.device("cpu"), dtype=torch.float16),
    "both": lambda x, _: x.to("cpu", torch.float64, True, True),
    "dtype alone of both": lambda x, _: x.to(None, torch.float64),
    "another": lambda x, other: x.to(other),
    "another, copied": lambda x, other: x.to(other, False, True),
    "a copy": lambda x, _: x.to(copy=True),
    "a copy of the type": lambda x, _: x.to(torch.float32, False, True),
    "a copy of the type by name": lambda x, _: x.to(dtype=torch.float32, copy=True),
    "laid out": lambda x, _: x.to(memory_format=torch.contiguous_format),
    "meta": lambda x, _: x.to("meta"),
}


@pytest.mark.parametrize("form", TO)
def test_to_takes_what_torchs_takes(form: str) -> None:
    theirs, ours = torch.ones(2, requires_grad=True), nbgrad.ones(2, requires_grad=True)
    expected, got = TO[form](theirs, torch.ones(3, dtype=torch.float64)), TO[form](ours, nbgrad.ones(3).double())
    assert (got.dtype, got.device, got is ours) == (expected.dtype, expected.device, expected is theirs)
    if got.device.type == "cpu":
        got.sum().backward()
        assert ours.grad is not None
        assert ours.grad.tolist() == [1.0, 1.0]


def test_a_number_is_that_of_a_cuda_device() -> None:
    if torch.cuda.is_available():
        assert nbgrad.ones(2).to(0).device == nbgrad.zeros(2, device=0).device == torch.device("cuda", 0)
    else:
        for ask in (lambda: nbgrad.ones(2).to(0), lambda: nbgrad.zeros(2, device=0)):
            with pytest.raises(RuntimeError, match="device"):
                ask()
