"""Recurrent networks: several layers, directions, projections, single steps. Other tests cover the rows."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def drawn(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def weights(name: str, layers: int, directions: int, biased: bool, projected: int) -> list[tuple[int, ...]]:
    gates, shown = GATES[name] * 4, projected or 4
    shapes: list[tuple[int, ...]] = []
    for place in range(layers * directions):
        shapes += [(gates, 3 if place < directions else shown * directions), (gates, shown)]
        shapes += [(gates,), (gates,)] if biased else []
        shapes += [(projected, 4)] if projected else []
    return shapes


def compare(name: str, settings: tuple[Any, ...], projected: int = 0, dtype: torch.dtype = torch.float64) -> None:
    biased, layers, _, _, both, first = settings
    count = layers * (2 if both else 1)
    states = [(count, 2, projected or 4), (count, 2, 4)][: 2 if name == "lstm" else 1]
    shapes = [(2, 5, 3) if first else (5, 2, 3), *states, *weights(name, layers, 1 + both, biased, projected)]
    raw = [drawn(shape, dtype) for shape in shapes]
    found = []
    for library, leaves in (
        (torch, [one.clone().requires_grad_() for one in raw]),
        (ops, [nbgrad.tensor(one, requires_grad=True) for one in raw]),
    ):
        torch.manual_seed(0)
        hx = tuple(leaves[1:3]) if name == "lstm" else leaves[1]
        results = getattr(library, name)(leaves[0], hx, leaves[1 + len(states) :], *settings)
        total: Any = 0
        for result in results:
            total = total + (result * result).sum()
        total.backward()
        found.append([*results, *(leaf.grad for leaf in leaves)])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got.data, expected.detach())


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(
    "settings",
    [
        (True, 1, 0.0, False, False, False),
        (False, 2, 0.0, False, True, True),
        (True, 2, 0.5, True, True, False),
        (True, 3, 0.0, False, False, True),
    ],
    ids=str,
)
def test_layers_and_directions_are_torchs(name: str, settings: tuple[Any, ...]) -> None:
    compare(name, settings)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_projections_are_torchs(biased: bool, both: bool) -> None:
    compare("lstm", (biased, 2, 0.0, False, both, False), projected=2)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_the_kernel_for_float32_is_torchs(biased: bool, both: bool) -> None:
    compare("lstm", (biased, 1, 0.0, False, both, False), dtype=torch.float32)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_gradient_that_is_recorded_is_the_same(name: str) -> None:
    shapes = [(3, 2, 3), *[(1, 2, 4)] * (2 if name == "lstm" else 1), *weights(name, 1, 1, True, 0)]
    leaves = [nbgrad.tensor(drawn(shape, torch.float32), requires_grad=True) for shape in shapes]
    hx = tuple(leaves[1:3]) if name == "lstm" else leaves[1]
    out = getattr(ops, name)(leaves[0], hx, leaves[len(shapes) - 4 :])[0].sum()
    plain = nbgrad.grad(out, leaves, retain_graph=True)
    for once, again in zip(plain, nbgrad.grad(out, leaves, create_graph=True), strict=True):
        torch.testing.assert_close(once.data, again.data, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", GATES)
def test_a_single_step_is_torchs(name: str, batched: bool) -> None:
    shapes = [(2, 3), *[(2, 4)] * (2 if name == "lstm" else 1), *weights(name, 1, 1, True, 0)]
    raw = [drawn(shape) for shape in shapes]
    states = 2 if name == "lstm" else 1
    hx: Any = tuple(raw[1:3]) if states == 2 else raw[1]
    expected = getattr(torch, f"{name}_cell")(raw[0], hx, *raw[1 + states :])
    begin: Any = [nbgrad.tensor(one if batched else one[0]) for one in raw[: 1 + states]]
    got = getattr(ops, f"{name}_cell")(begin[0], tuple(begin[1:]) if states == 2 else begin[1], *raw[1 + states :])
    for mine, yours in zip(got if states == 2 else [got], expected if states == 2 else [expected], strict=True):
        torch.testing.assert_close(mine.data, yours if batched else yours[0])


def test_a_sequence_without_a_batch_is_one_of_a_batch() -> None:
    shapes = [(5, 1, 3), (1, 1, 4), *weights("gru", 1, 1, True, 0)]
    x, h, *w = (nbgrad.tensor(drawn(shape)) for shape in shapes)
    whole = ops.gru(x, h, w)
    alone = ops.gru(x.squeeze(1), h.squeeze(1), w)
    for one, other in zip(alone, whole, strict=True):
        torch.testing.assert_close(one.data, other.data.squeeze(1))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("lib", [torch, nbgrad], ids=["through torch", "called here"])
@pytest.mark.parametrize("name", GATES)
def test_packed_sequences_are_torchs(name: str, lib: Any, both: bool) -> None:
    states = 2 if name == "lstm" else 1
    directions = 2 if both else 1
    shapes = [(7, 3), *[(2 * directions, 3, 4)] * states, *weights(name, 2, directions, True, 0)]
    raw = [drawn(shape) for shape in shapes]
    results = []
    for call, leaf in ((getattr(torch, name), torch.tensor), (getattr(lib, name), nbgrad.tensor)):
        leaves: Any = [leaf(one.tolist(), dtype=torch.float64, requires_grad=True) for one in raw]
        x, *rest = leaves
        hx = tuple(rest[:states]) if states == 2 else rest[0]
        out = call(x, torch.tensor([3, 2, 1, 1]), hx, rest[states:], True, 2, 0.0, False, both)
        sum((one * one).sum() for one in out).backward()
        results.append([one.data for one in (*out, *(one.grad for one in leaves))])
    for mine, yours in zip(*results, strict=True):
        torch.testing.assert_close(mine, yours)


def test_a_wrong_number_of_weights_says_so() -> None:
    x, h = nbgrad.tensor(drawn((5, 2, 3))), nbgrad.tensor(drawn((1, 2, 4)))
    with pytest.raises(ValueError, match="got 3 weights"):
        ops.gru(x, h, [drawn((12, 3))] * 3, True, 2)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_what_is_not_contiguous_has_the_same_values_and_gradients_in_float32(name: str) -> None:
    states, many = (2, 4) if name == "lstm" else (1, 3 if name == "gru" else 1)
    # A batch that comes first, and weights and states that are transposed.
    shapes = [(2, 5, 3), *[(1, 4, 2)] * states, (3, 4 * many), (4, 4 * many), (4 * many,), (4 * many,)]
    raw = [drawn(shape).float() for shape in shapes]
    results = []
    for lib, call in ((torch, getattr(torch, name)), (nbgrad, getattr(ops, name))):
        leaves: Any = [lib.tensor(one.tolist(), requires_grad=True) for one in raw]
        x, *rest = leaves
        begin, w = [one.transpose(1, 2) for one in rest[:states]], rest[states:]
        hx = tuple(begin) if states == 2 else begin[0]
        given = [w[0].T, w[1].T, w[2], w[3]]
        out = call(x, hx, given, True, 1, 0.0, False, False, True)[0]
        (out * out).sum().backward()
        results.append([out, *[one.grad for one in leaves]])
    for theirs, mine in zip(*results, strict=True):
        torch.testing.assert_close(mine.data, theirs.detach())
