"""Dropout: one seed, one mask, torch's."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops

functional = torch.nn.functional

FAMILY = {
    "dropout": (3, 4),
    "alpha_dropout": (3, 4),
    "feature_alpha_dropout": (3, 4, 2),
    "dropout1d": (3, 4, 2),
    "dropout2d": (3, 4, 2, 2),
    "dropout3d": (4, 2, 2, 2),
}


OTHER_RANKS = [
    ("dropout2d", (3, 4)),
    ("dropout2d", (3, 4, 5)),
    ("dropout2d", (2, 3, 2, 2, 2)),
    ("dropout3d", (3, 4, 2)),
]


@pytest.mark.filterwarnings("ignore:dropout[23]d. Received a")
@pytest.mark.parametrize(("name", "shape"), OTHER_RANKS)
def test_an_input_of_another_rank_is_dropped_as_torch_does_with_a_warning(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    expected = getattr(functional, name)(torch.ones(shape), 0.5)
    torch.manual_seed(2)
    with pytest.warns(UserWarning, match=f"{name} (got|takes)"):
        found = getattr(ops, name)(nbgrad.ones(shape), 0.5)
    assert torch.equal(found.data, expected)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", FAMILY)
def test_the_same_seed_drops_what_torch_drops(name: str, p: float, inplace: bool) -> None:
    x = torch.randn(FAMILY[name], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theirs, ours = x.clone().requires_grad_(), nbgrad.tensor(x, requires_grad=True)
    results: list[Any] = []
    for library, leaf in ((functional, theirs), (ops, ours)):
        torch.manual_seed(3)
        copy = leaf * 1
        results.append(getattr(library, name)(copy, p, True, inplace))
        if inplace:
            assert results[-1] is copy
    torch.testing.assert_close(results[1].data, results[0].detach())
    results[0].sum().backward()
    results[1].sum().backward()
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad)


@pytest.mark.parametrize("name", FAMILY)
def test_outside_training_nothing_is_dropped(name: str) -> None:
    x = nbgrad.tensor(torch.ones(FAMILY[name]))
    assert getattr(ops, name)(x, 0.5, False) is x


def test_a_probability_is_one() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        ops.dropout(nbgrad.tensor([1.0]), 1.5)
