"""An op may itself stretch an input. The graph shows the sum in its fused rule like a sum of the engine."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.tensor.tensor import Tensor
from tests.core import rows

ROWS = [row for row in OPS.values() if row.sums]
CASES = [(row, sample) for row in ROWS for sample in rows.samples(row)]


def summed(graph: AutogradGraph) -> dict[str, Any]:
    """The sum for each input of a graph with one op, by the name of the input."""
    inputs = [one for record in graph.records for one in record.inputs]
    return {one.name: one.reduction for one in inputs if one.reduction is not None}


def run(row: Op, sample: Sample) -> tuple[list[Any], Tensor, AutogradGraph]:
    """The inputs, the output of the row, and the graph with a backward."""
    inputs = [
        nbgrad.tensor(arg, requires_grad=row.inputs[at] in row.rules) if isinstance(arg, torch.Tensor) else arg
        for at, arg in enumerate(sample.args)
    ]
    with AutogradGraph() as graph:
        made = row(*inputs, **sample.settings)
        out = made[0] if isinstance(made, tuple) else made
        out.backward(torch.ones_like(out.data), retain_graph=True)
    return inputs, out, graph


@pytest.mark.parametrize(("row", "sample"), CASES, ids=lambda one: one.name if isinstance(one, Op) else None)
def test_each_number_of_the_output_goes_to_the_place_that_is_kept(row: Op, sample: Sample) -> None:
    inputs, out, graph = run(row, sample)
    told = summed(graph)
    for name in row.sums:
        at = row.inputs.index(name)
        if at >= len(inputs) or not isinstance(inputs[at], Tensor):
            continue
        given, undone = inputs[at], told.get(name)
        if undone is None:
            assert given.numel() == out.numel() or row.name == "matmul", "each number was used once"
            continue
        assert undone.target == given.shape
        assert undone.terms * given.numel() == torch.Size(undone.source).numel()
        if row.name == "matmul":
            assert given.ndim != 2 or undone.source == (*out.shape[:-2], *given.shape), "the engine sums other factors"
            continue
        if name in ("b_ih", "b_hh"):  # each number of the output depends on several gates
            assert undone.source == (*out.shape[:-1], *given.shape)
            ones = nbgrad.grad(out, [given], torch.ones_like(out.data), retain_graph=True)[0]
            parts = [_of_one_sample(out, given, sample) for sample in range(out.shape[-2])]
            torch.testing.assert_close(sum(parts, torch.zeros_like(ones.data)), ones.data)
            continue
        assert undone.source == out.shape
        for index in product(*map(range, out.shape)):
            one = torch.zeros_like(out.data)
            one[index] = 1.0
            (gradient,) = nbgrad.grad(out, [given], one, retain_graph=True)
            kept = tuple(index[dim] for dim in range(out.ndim) if dim not in undone.dims) or (0,) * given.ndim
            reached = gradient.data.nonzero().tolist()
            assert reached in ([], [list(kept)]), f"{name}: {index} reaches {reached}, kept is {kept}"
            if name == "bias":
                assert gradient.data[kept] == 1.0


def _of_one_sample(out: Tensor, bias: Tensor, sample: int) -> torch.Tensor:
    """The part of a bias's gradient from one sequence. The graph tells the sum over all sequences."""
    only = torch.zeros_like(out.data)
    only[..., sample, :] = 1.0
    return nbgrad.grad(out, [bias], only, retain_graph=True)[0].data


def test_the_rows_that_sum_by_themselves_are_known() -> None:
    assert {row.name for row in ROWS} == {
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("layer_norm", "rms_norm", "group_norm", "batch_norm", "prelu", "matmul"),
        *("rnn_tanh_step", "rnn_relu_step", "lstm_step", "gru_step"),
        *("rnn_tanh_layer", "rnn_relu_layer", "lstm_layer", "gru_layer"),
    }
    assert all(row.sums.keys() <= set(row.inputs) for row in ROWS)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda nn: nn.Conv2d(1, 2, 3)(nbgrad.randn(4, 1, 5, 5)), "(4, 2, 3, 3) -> (2,): sum dims 0, 2, 3"),
        (lambda nn: nn.Conv2d(1, 2, 3)(nbgrad.randn(1, 5, 5)), "(2, 3, 3) -> (2,): sum dims 1, 2"),
        (lambda nn: nn.LayerNorm(3)(nbgrad.randn(2, 4, 3)), "(2, 4, 3) -> (3,): sum dims 0, 1"),
        (lambda nn: nn.BatchNorm1d(3)(nbgrad.randn(5, 3)), "(5, 3) -> (3,): sum dim 0"),
        (lambda nn: nn.PReLU()(nbgrad.randn(2, 3)), "(2, 3) -> (1,): sum dims 0, 1"),
        (lambda nn: nn.LSTM(2, 3)(nbgrad.randn(5, 4, 2))[0], "(5, 4, 12) -> (12,): sum dims 0, 1"),
        (lambda nn: nn.GRU(2, 3)(nbgrad.randn(5, 4, 2))[0], "(5, 4, 9) -> (9,): sum dims 0, 1"),
        (lambda nn: nn.RNN(2, 3)(nbgrad.randn(5, 4, 2))[0], "(5, 4, 3) -> (3,): sum dims 0, 1"),
        (lambda nn: nn.LSTMCell(2, 3)(nbgrad.randn(4, 2))[0], "(4, 12) -> (12,): sum dim 0"),
        (lambda _: nbgrad.randn(5, 4, 2) @ nbgrad.randn(2, 3, requires_grad=True), "(5, 2, 3) -> (2, 3): sum dim 0"),
    ],
)
def test_what_was_summed_is_a_fact_of_the_backward(make: Callable[[Any], Tensor], told: str) -> None:
    with AutogradGraph() as graph:
        make(nbgrad.nn).sum().backward()
    found = summed(graph)
    assert {str(undone) for undone in found.values()} == {told}
    stretched = [one for record in graph.records for one in record.inputs if one.reduction is not None]
    assert all(one.unreduced is None for one in stretched), "the gradient before the sum is unknown"


def test_nothing_was_summed_where_nothing_was_stretched() -> None:
    with AutogradGraph() as graph:
        (nbgrad.nn.LayerNorm(3)(nbgrad.randn(3)).sum() + (nbgrad.randn(2, 3) @ nbgrad.randn(3, 2)).sum()).backward()
    assert summed(graph) == {}
