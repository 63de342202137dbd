"""Every row of the op table and its gradients, in a graph of torch.fx."""

import pytest
import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import trace
from tests.core.symbolic.traced_rows import arguments, closeness, differentiated, spread


def same(found: torch.Tensor, expected: torch.Tensor, most: float) -> None:
    one, other = (each if each.layout is torch.strided else each.to_dense() for each in (found, expected))
    torch.testing.assert_close(one, other, rtol=most, atol=most, equal_nan=True)


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings(r"ignore:index_reduce\(\) is in beta")
@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_is_the_same_in_a_graph(name: str) -> None:
    row = OPS[name]
    for sample in spread(row):
        args = arguments(row, sample)
        try:
            program = trace(differentiated(row, sample.settings, 2), *args).optimize()
        except TraceError:  # test_traced_rows has the list of these rows and the reasons
            continue
        torch.manual_seed(0)
        expected = [one.data for one in leaves(program(*args))]
        torch.manual_seed(0)
        graphed = program.to_fx()(*[one.data if hasattr(one, "_data") else one for one in _tensors(args)])
        for found, wanted in zip(graphed, expected, strict=True):
            same(found, wanted, closeness(row))


def _tensors(args: list) -> list:
    return [one for one in leaves(args) if hasattr(one, "requires_grad")]
