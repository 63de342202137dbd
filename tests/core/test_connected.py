"""Which second-order gradients exist: nbgrad gives a tensor, None or an error exactly where torch does.

The second derivative of relu, pooling and similar functions is zeros, not None. So networks of them have a Hessian.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from tests.core import calls, rows

MORE = {
    "cross_entropy_backward": "it has the gradient for its target, which torch makes of other ops",
    "cumprod": "its gradient of a single number is a constant to torch",
    "cumprod_backward": "its gradient of a single number is a constant to torch",
    "embedding_bag": "its gradient is a constant to torch, which has no second order of it",
    "group_norm": "the gradient of its bias is a constant to torch",
}
"""Rows with one gradient more than torch: it is zeros, or it has the right numbers."""

OTHERWISE = {
    "index_put": "its indices are a setting",
    "layer_norm_backward": "torch differentiates it with mean and spread fixed",
    "batch_norm_backward": "torch differentiates it with mean and spread fixed",
}
"""Rows that cannot be compared in this way."""

ROWS = [name for name, row in OPS.items() if row.differentiable and row.rules and name not in OTHERWISE]

Call = Callable[[Any, Any], Any]
"""A call: it gets the functional module of torch or nbgrad, and a tensor of that library."""


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore:Default grid_sample and affine_grid behavior")
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("constant", [False, True], ids=["differentiated by the seed too", "from a constant seed"])
def test_a_gradient_has_the_gradients_that_torchs_has(name: str, constant: bool) -> None:
    row = OPS[name]
    for sample in comparable(row)[:2]:
        wanted = rows.differentiable(row, sample)
        args = [
            arg.detach().clone().requires_grad_(place in wanted) if isinstance(arg, torch.Tensor) else arg
            for place, arg in enumerate(sample.args)
        ]
        found = calls.difference(by_torch(row, sample), *args, of=row, constant_seeds=constant, **sample.settings)
        if name in MORE:
            assert not found or "torch has None" in found or "torch has False" in found, found
        else:
            assert not found, f"{name}({rows.describe(sample)}): {found}"


def comparable(row: Op) -> list[Sample]:
    """The samples with at least one element and something to differentiate."""
    return [
        sample
        for sample in rows.samples(row)
        if not rows.lacks(row, sample)
        and rows.differentiable(row, sample)
        and all(arg.numel() for arg in sample.args if isinstance(arg, torch.Tensor))
    ]


def by_torch(row: Op, sample: Sample) -> Callable[..., Any]:
    """torch's kernel for the sample. If the kernel has more outputs, the public function that uses it."""
    kernel = rows.own(row, sample)
    assert kernel is not None
    outputs = rows.parts(kernel(*sample.args, **sample.settings))
    if len(outputs) != len(rows.parts(row(*sample.args, **sample.settings))):
        return rows.reference(row)
    return kernel


FAMILY: dict[str, Call] = {
    "relu": lambda f, x: f.relu(x),
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.1),
    "prelu": lambda f, x: f.prelu(x, x.new_full((1,), 0.2)),
    "relu6": lambda f, x: f.relu6(x),
    "hardtanh": lambda f, x: f.hardtanh(x),
    "hardshrink": lambda f, x: f.hardshrink(x),
    "softshrink": lambda f, x: f.softshrink(x),
    "threshold": lambda f, x: f.threshold(x, 0.1, -1.0),
    "rrelu": lambda f, x: f.rrelu(x),
    "max_pool1d": lambda f, x: f.max_pool1d(x, 2),
    "max_pool2d": lambda f, x: f.max_pool2d(x, (1, 2)),
    "avg_pool1d": lambda f, x: f.avg_pool1d(x, 2),
    "avg_pool2d": lambda f, x: f.avg_pool2d(x, (1, 2)),
    "adaptive_avg_pool1d": lambda f, x: f.adaptive_avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda f, x: f.adaptive_max_pool1d(x, 2),
    "global mean": lambda f, x: f.adaptive_avg_pool1d(x, 1),
    "pad reflect": lambda f, x: f.pad(x, (1, 1), mode="reflect"),
    "pad replicate": lambda f, x: f.pad(x, (1, 1), mode="replicate"),
    "nll_loss": lambda f, x: f.nll_loss(x[0], CLASSES),
    "l1_loss": lambda f, x: f.l1_loss(x, x.detach() * 0.5),
    "smooth_l1_loss": lambda f, x: f.smooth_l1_loss(x, x.detach() * 0.5, beta=0.0),
    "hinge_embedding_loss": lambda f, x: f.hinge_embedding_loss(x[0, 0], SIGNS),
    "abs": lambda f, x: x.abs(),
    "clamp": lambda f, x: x.clamp(-0.5, 0.5),
    "max": lambda f, x: x.max(),
    "max of a dimension": lambda f, x: x.max(1).values,
    "interpolate": lambda f, x: f.interpolate(x, 2, mode="area"),
}
"""Piecewise linear functions."""

ONCE_IN_TORCH: dict[str, Call] = {
    "hardsigmoid": lambda f, x: f.hardsigmoid(x),
    "multilabel_margin_loss": lambda f, x: f.multilabel_margin_loss(x[0], LISTS),
    "multi_margin_loss": lambda f, x: f.multi_margin_loss(x[0], CLASSES),
}
"""Other piecewise linear functions, which torch differentiates only once."""

CLASSES, SIGNS = torch.tensor([0, 3, 1]), torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
LISTS = torch.tensor([[0, -1, 0, 0], [3, 1, -1, 0], [1, -1, 0, 0]])


def points() -> torch.Tensor:
    return torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


@pytest.mark.parametrize("name", FAMILY)
def test_the_hessian_of_straight_pieces_is_there_where_torchs_is(name: str) -> None:
    def outcome(library: Any, function: Any, x: Any) -> list[Any]:
        made = FAMILY[name](function, x)
        (first,) = library.grad(made.sum(), x, create_graph=True)
        if not first.requires_grad:
            return [first.detach(), None]
        (second,) = library.grad((first * first.detach()).sum(), x, allow_unused=True)
        return [first.detach(), second]

    theirs = outcome(torch.autograd, functional, points().requires_grad_())
    ours = outcome(nbgrad.autograd, nn.functional, nbgrad.tensor(points(), requires_grad=True))
    assert [one is None for one in ours] == [one is None for one in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        if yours is not None:
            rows.close(mine.data, yours, name)


@pytest.mark.parametrize("name", ONCE_IN_TORCH)
def test_the_hessian_is_zeros_where_torch_differentiates_once(name: str) -> None:
    x = nbgrad.tensor(points(), requires_grad=True)
    (first,) = nbgrad.grad(ONCE_IN_TORCH[name](nn.functional, x).sum(), x, create_graph=True)
    (second,) = nbgrad.grad(first.sum(), x)
    assert torch.equal(second.data, torch.zeros(1, 3, 4, dtype=torch.float64))


def network(library: Any) -> Any:
    """A small piecewise linear network with the same weights in both libraries."""
    layers = library.Sequential(
        *(library.Linear(2, 4), library.ReLU(), library.Linear(4, 4), library.LeakyReLU(), library.Linear(4, 1))
    )
    draw = torch.Generator().manual_seed(3)
    state = {name: torch.randn(one.shape, generator=draw) for name, one in layers.state_dict().items()}
    layers.load_state_dict(state)
    return layers


def test_a_gradient_penalty_gives_hidden_biases_zeros_as_in_torch() -> None:
    given = torch.randn(5, 2, generator=torch.Generator().manual_seed(4))
    found = []
    for library, autograd, x in (
        (torch.nn, torch.autograd, given.clone().requires_grad_()),
        (nn, nbgrad.autograd, nbgrad.tensor(given, requires_grad=True)),
    ):
        net = network(library)
        (slope,) = autograd.grad(net(x).sum(), x, create_graph=True)
        ((slope * slope).sum() - 1).backward()
        found.append({name: one.grad for name, one in net.named_parameters()})
    theirs, ours = found
    assert theirs.keys() == ours.keys()
    for name, yours in theirs.items():
        assert (ours[name] is None) == (yours is None), name
        if yours is not None:
            rows.close(ours[name].data, yours, name)
    assert ours["0.bias"] is not None


def test_the_hessian_of_a_relu_network_is_zeros() -> None:
    net = network(nn)
    x = nbgrad.tensor([0.3, -0.2])
    hessian = nbgrad.autograd.functional.hessian(lambda x: net(x).sum(), x)
    assert torch.equal(hessian.data, torch.zeros(2, 2))


def test_the_path_to_the_input_of_a_pooling_takes_no_memory_and_holds_no_numbers() -> None:
    x = nbgrad.tensor(points(), requires_grad=True)
    y = (x * 1).sigmoid()
    pooled = nn.functional.avg_pool1d(y, 2)
    saved = pooled.grad_fn.saved
    assert not any(isinstance(one, torch.Tensor) for one in saved)
    (first,) = nbgrad.grad(pooled.sum(), y, create_graph=True)
    (second,) = nbgrad.grad(first.sum(), x)
    assert torch.equal(second.data, torch.zeros(1, 3, 4, dtype=torch.float64))
