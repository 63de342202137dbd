"""Bugs that the sweep over argument types found, a test for each."""

from itertools import product
from typing import Any

import pytest
import torch
from torch.nn import functional

import nbgrad
from tests.core import calls


def real(*shape: int, needs: bool = True) -> torch.Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)
    return drawn.requires_grad_(needs)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3)])
@pytest.mark.parametrize("needs", list(product([False, True], repeat=2)), ids=str)
def test_linear_takes_a_weight_of_one_dimension(shape: tuple[int, ...], needs: tuple[bool, bool]) -> None:
    x, w = real(*shape, needs=needs[0]), real(3, needs=needs[1])
    for bias in (None, real(), real(needs=False)):
        assert not calls.difference(functional.linear, x, w, bias)


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_a_source_of_scatter_may_be_a_number(name: str) -> None:
    for shape, index in (((3,), torch.tensor([1])), ((), torch.tensor(0)), ((3,), torch.tensor(2))):
        assert not calls.difference(getattr(torch, name), real(*shape), 0, index, real())


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_of_a_source_that_is_longer_than_its_index_the_rest_gets_nothing(name: str) -> None:
    x, source = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor([5.0, 6.0], requires_grad=True)
    getattr(nbgrad, name)(x, 0, torch.tensor(1), source).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", ["mH", "mT", "H", "T"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_a_number_transposed_is_itself(name: str, dtype: torch.dtype) -> None:
    number = torch.randn((), dtype=dtype, requires_grad=True)
    assert not calls.difference(lambda x: getattr(x, name), number)


BOOLS = torch.tensor([True, False, True])


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (functional.cosine_similarity, (real(2, 3), BOOLS)),
        (functional.cosine_similarity, (BOOLS.expand(2, 3), real(2, 3))),
        (functional.cosine_similarity, (torch.tensor([[1, 2, 3]]), real(2, 3))),
        (functional.cosine_similarity, (torch.randn(2, 3), real(2, 3))),
        (torch.ldexp, (real(3), BOOLS)),
        (torch.ldexp, (BOOLS, real(3))),
        (torch.block_diag, (BOOLS, real(2, 2))),
        (torch.block_diag, (real(), torch.randn(2, 2, requires_grad=True))),
        (torch.block_diag, (torch.tensor(1), torch.tensor([1, 2], dtype=torch.int32))),
        (torch.meshgrid, (real(3),)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.filterwarnings("ignore:torch.meshgrid")
def test_mixed_types_are_torchs(function: Any, args: tuple[Any, ...]) -> None:
    for constant in (False, True):
        assert not calls.difference(function, *args, constant_seeds=constant)


def test_the_cosine_of_whole_numbers_alone_is_refused_as_in_torch() -> None:
    whole = nbgrad.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"cosine_similarity of int64 and int64.*\.float\(\)"):
        functional.cosine_similarity(whole, whole, dim=0)
