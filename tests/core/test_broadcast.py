"""The sums that undo a broadcast, and their texts."""

import pytest
import torch

from nbgrad.core.dispatch.samples import PAIRS
from nbgrad.core.engine.broadcast import reduction, sum_to
from nbgrad.core.tensor.tensor import tensor


@pytest.mark.parametrize(
    ("source", "target", "dims", "terms", "text"),
    [
        ((32, 10), (10,), (0,), 32, "(32, 10) -> (10,): sum dim 0"),
        ((32, 10), (), (0, 1), 320, "(32, 10) -> (): sum dims 0, 1"),
        ((32, 10), (32, 1), (1,), 10, "(32, 10) -> (32, 1): sum dim 1"),
        ((4, 5, 3), (5, 1), (0, 2), 12, "(4, 5, 3) -> (5, 1): sum dims 0, 2"),
        ((2, 3), (1, 1, 3)[1:], (0,), 2, "(2, 3) -> (1, 3): sum dim 0"),
        ((0, 3), (3,), (0,), 0, "(0, 3) -> (3,): sum dim 0"),
        ((3, 1), (1,), (0,), 3, "(3, 1) -> (1,): sum dim 0"),
    ],
)
def test_a_reduction_says_what_is_summed(
    source: tuple[int, ...], target: tuple[int, ...], dims: tuple[int, ...], terms: int, text: str
) -> None:
    made = reduction(source, target)
    assert made is not None
    assert made == (source, target, dims, terms)
    assert str(made) == text


@pytest.mark.parametrize(
    ("source", "target"), [((3,), (2, 3)), ((2, 3), (2,)), ((4,), (3,)), ((1,), (3,)), ((2, 1), (2, 3))]
)
def test_what_does_not_stretch_to_the_source_is_no_reduction(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    assert reduction(source, target) is None


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_dims_and_terms_are_those_of_the_sum_that_is_made(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    full = torch.rand(torch.broadcast_shapes(a, b), dtype=torch.float64)
    for shape in (a, b):
        made = reduction(full.shape, shape)
        assert made is not None
        summed = full.sum(made.dims).reshape(shape) if made.dims else full
        torch.testing.assert_close(sum_to(full, full.shape, shape), summed)
        torch.testing.assert_close(sum_to(tensor(full), full.shape, shape).data, summed)
        assert made.terms == torch.ones_like(full).sum(made.dims).max() if full.numel() and made.dims else True
