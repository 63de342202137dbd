"""Each attribute of torch's tensors: ours have it too, and with the same answer, or an error says what to write."""

from typing import Any

import pytest
import torch

import nbgrad

OTHER_LAYOUTS = {
    *("ccol_indices", "coalesce", "col_indices", "crow_indices", "dense_dim", "indices", "is_coalesced"),
    *("resize_as_sparse_", "row_indices", "smm", "sparse_dim", "sparse_mask", "sparse_resize_"),
    *("sparse_resize_and_clear_", "sspaddmm", "to_dense", "to_mkldnn", "to_padded_tensor", "to_sparse"),
    *("to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values"),
    *("dequantize", "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points"),
    *("q_scale", "q_zero_point", "qscheme"),
}
"""They belong to sparse, nested or quantised tensors, which nbgrad does not have."""

MEMORY = {
    *("apply_", "map_", "map2_", "set_", "resize", "resize_", "resize_as", "resize_as_", "storage", "storage_type"),
    *("pin_memory", "record_stream", "module_load", "as_subclass", "const_data_ptr", "new_empty_strided", "grad_dtype"),
    *("ipu", "mtia", "xpu", "output_nr"),
}
"""They change or give the memory of the raw tensor, or belong to its own history."""

GONE = {"eig", "geqrf", "index", "lstsq", "reinforce", "solve", "symeig", "volatile"}
"""Torch has removed them, or keeps them for itself."""

WITHOUT_GRADIENT = {"hash_tensor", "histogram", "nextafter", "nextafter_", "nonzero_static", "slice_inverse"} | {
    "unsafe_split_with_sizes"
}
"""They have no gradient in torch either, or are another name."""

LEFT_OUT = OTHER_LAYOUTS | MEMORY | GONE | WITHOUT_GRADIENT

PUBLIC = [name for name in dir(torch.Tensor) if not name.startswith("_") and hasattr(torch.Tensor, name)]

MAKERS = {
    "a matrix": lambda lib: lib.arange(6.0).reshape(2, 3),
    "a view": lambda lib: lib.arange(6.0).reshape(2, 3).t(),
    "whole numbers": lambda lib: lib.arange(4),
    "one number": lambda lib: lib.ones(()),
    "one that needs a gradient": lambda lib: lib.ones(3, requires_grad=True),
    "complex numbers": lambda lib: lib.ones(2, dtype=torch.complex64),
    "none": lambda lib: lib.zeros(0, 3),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PUBLIC)
def test_each_attribute_is_there_or_its_error_says_what_to_write(name: str) -> None:
    ours = nbgrad.arange(4.0).reshape(2, 2).to(torch.complex64 if name == "imag" else torch.float32)
    if name not in LEFT_OUT:
        getattr(ours, name)
        return
    with pytest.raises(AttributeError) as raised:
        getattr(ours, name)
    assert "which torch's tensors have" in str(raised.value)
    assert f"Use t.data.{name}, without a gradient" in str(raised.value)
    if name not in GONE:
        getattr(ours.data, name)


FACTS = sorted(
    name
    for name in {*PUBLIC} - LEFT_OUT
    if name.startswith("is_") and name not in ("is_set_to", "is_same_size", "is_shared", "is_leaf", "is_pinned")
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("name", [*FACTS, "dim_order", "dtype", "itemsize", "layout", "nbytes", "ndim", "shape"])
def test_a_fact_is_the_same_as_torchs(name: str, made: str) -> None:
    ours, theirs = (_answer(MAKERS[made](lib), name) for lib in (nbgrad, torch))
    assert ours == theirs


def _answer(tensor: Any, name: str) -> Any:
    try:
        value = getattr(tensor, name)
        return value() if callable(value) else value
    except (RuntimeError, TypeError) as error:  # such as is_nonzero() of several numbers
        return type(error)


def test_a_tensor_is_set_to_itself_and_to_no_copy() -> None:
    x = nbgrad.ones(3)
    assert x.is_set_to(x)
    assert x.is_set_to(x.data)
    assert not x.is_set_to(x.clone())


@pytest.mark.parametrize("lib", [torch, nbgrad])
def test_python_asks_a_tensor_as_it_asks_torchs(lib: Any) -> None:
    x = lib.arange(6.0).reshape(2, 3)
    assert 3.0 in x
    assert lib.tensor(5.0) in x
    assert 9 not in x
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        assert "a" in x
    assert complex(lib.tensor(2.0)) == 2 + 0j
    assert reversed(x).tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]  # type: ignore[call-overload]
    assert reversed(lib.tensor(2.0)).item() == 2.0


def test_rows_in_the_opposite_order_have_a_gradient() -> None:
    x = nbgrad.arange(3.0).requires_grad_()
    (reversed(x) * nbgrad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 2.0, 1.0]
