"""Graphs of many kinds, which are saved and read again."""

import linecache
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any

import pytest
import torch
from torch import nn

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from tests.widgets import cells, networks

PROGRAMS: dict[str, Callable[[], AutogradGraph]] = {}
"""The programs by their names."""


def program(function: Callable[[], AutogradGraph]) -> Callable[[], AutogradGraph]:
    """Add a program."""
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def of_cell(name: str) -> tuple[AutogradGraph, dict[str, Any]]:
    """The graph of one of ``tests.widgets.cells``, and its variables, as a picture names the modules that still exist.

    Python knows its lines as those of a cell.
    """
    source, file, variables = cells.source(name), f"<ipython-input-{name}>", dict[str, Any]()
    random.seed(0)
    exec(compile(source.before, "before", "exec"), variables)
    linecache.cache[file] = len(source.recorded), None, source.recorded.splitlines(keepends=True), file
    with suppress(RuntimeError), nbgrad.record(name, view="none") as graph:
        exec(compile(source.recorded, file, "exec"), variables)
    return graph, variables


def of_network(name: str, monkeypatch: pytest.MonkeyPatch) -> AutogradGraph:
    """The graph of one of ``tests.widgets.networks``, which itself returns only the description."""
    found: list[AutogradGraph] = []

    def step(name: str, loss: Callable[[], nbgrad.Tensor]) -> None:
        with AutogradGraph(name) as graph:
            loss().backward()
        found.append(graph)

    monkeypatch.setattr(networks, "_step", step)
    {**networks.NETWORKS, **networks.LOOPS}[name]()
    return found[0]


@contextmanager
def recorded(**options: Any) -> Iterator[AutogradGraph]:
    """A block whose graph is not shown; an error of the block ends it, and goes no further."""
    with suppress(RuntimeError, KeyboardInterrupt), nbgrad.record(view="none", **options) as graph:
        yield graph


@program
def kinds_of_records() -> AutogradGraph:
    """A parameter, a leaf, an input, a constant, an op, and one from before."""
    layer, outer = nbgrad.nn.Linear(3, 2), nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    before = outer.exp()
    with recorded(name="kinds") as graph:
        x = nbgrad.tensor([0.5, 1.0, 2.0])
        loss = (layer(before * x) * nbgrad.tensor([1.0, 2.0])).sum() + outer.sum()
        loss.backward()
    return graph


@program
def kinds_of_records_before_a_backward() -> AutogradGraph:
    """Nothing has a gradient, and some ops are from before the graph."""
    before = torch.ones(3, requires_grad=True).exp()
    with recorded(name="forward") as graph:
        y = (before * torch.arange(3.0)).relu()
        _ = y.sum(), y.mean()
    return graph


@program
def element_types() -> AutogradGraph:
    """One op of each element type."""
    with recorded(name="types") as graph:
        parts = []
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
            x = torch.tensor([1.0, -2.0, 3.0], dtype=dtype, requires_grad=True)
            mask, whole = torch.tensor([True, False, True]), torch.tensor([1, 2, 3], dtype=torch.int32)
            parts.append((torch.where(mask, x, x * x) * whole * torch.tensor([1, 2, 3], dtype=torch.uint8)).abs().sum())
        sum(part.double() for part in parts).backward()
    return graph


@program
def numbers_that_are_not_finite() -> AutogradGraph:
    """NaN, Inf, -0 and empty tensors."""
    with recorded(name="nan") as graph:
        x = torch.tensor([0.0, -0.0, float("nan"), float("inf")], requires_grad=True)
        (x.log().sum() + torch.ones(0, 3, requires_grad=True).sum() + (x * float("inf")).sum()).backward()
    return graph


@program
def large_tensors() -> AutogradGraph:
    """Histograms, of all numbers and of a sample."""
    torch.manual_seed(0)
    with recorded(name="large") as graph:
        w = torch.randn(300, 400, requires_grad=True)
        ((torch.randn(64, 300) @ w).tanh()[:, :40] ** 2).mean().backward()
    return graph


class Mode(Enum):
    """A class of the user's, whose members are settings."""

    FAST = 1


class Twice(nbgrad.Function):
    """A function of the user's."""

    @staticmethod
    def forward(ctx: Any, x: nbgrad.Tensor, mode: Mode, factor: float) -> nbgrad.Tensor:
        """Twice the input."""
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, g: nbgrad.Tensor) -> Any:
        """Twice the gradient."""
        return g * ctx.factor, None, None


class TorchTwice(torch.autograd.Function):
    """The same of torch's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mode: Mode) -> torch.Tensor:
        """Twice the input."""
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Twice the gradient."""
        return gradients[0] * 2, None


@program
def settings_of_our_ops() -> AutogradGraph:
    """Slices, tuples, None, an ellipsis, an index, types and the user's own objects."""
    with recorded(name="settings") as graph:
        x = nbgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        parts = [
            x[..., None, 1:3].sum(),
            x[::2, -1].sum(),
            x[nbgrad.tensor([1, 0])].sum(),
            x[:, [True, False, True]].sum(),
            x.sum(dim=(0, 1)),
            x.to(torch.float64).sum().to(torch.float32),
            x.clamp(-float("inf"), 5.5).sum(),
            Twice.apply(x, Mode.FAST, 2.0).sum(),
            nbgrad.cat([x, x * 2, x], dim=-1).mean(),
            x.pow(3).std(dim=1, correction=0).sum(),
        ]
        sum(parts).backward()
    return graph


@program
def settings_of_torchs_ops() -> AutogradGraph:
    """The same of torch, with memory formats, an op without a row, and complex and large numbers."""
    torch.manual_seed(0)
    with recorded(name="torch's settings") as graph:
        x = torch.randn(2, 3, 4, 4, requires_grad=True)
        parts = [
            x.to(memory_format=torch.channels_last)[0, ..., ::2].sum(),
            x[:, torch.tensor([2, 0])].sum(),
            torch.fft.rfft2(x, norm="ortho").abs().sum(),
            (x * 1j).abs().sum(),
            (x + 2**62).mean() * 0,
            TorchTwice.apply(x, Mode.FAST).sum(),
            torch.split(x, [1, 2], dim=1)[1].sum(),
            torch.linalg.svdvals(x[0, 0]).sum(),
            torch.cummax(x, dim=-1)[0].sum(),
            nn.functional.interpolate(x, scale_factor=(2.0, 2.0), mode="bilinear", align_corners=False).mean(),
        ]
        torch.stack(parts).sum().backward()
    return graph


@program
def training_with_a_clock() -> AutogradGraph:
    """Times, steps, a history, losses of two lines, weights of one model that two optimizers hold."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters())
    with recorded(name="training", time=True) as graph:
        for _ in range(4):
            optimizer.zero_grad()
            loss = net(torch.randn(6, 4)).square().mean()
            loss.backward()
            penalty = sum(w.square().sum() for w in net.parameters())
            penalty.backward()
            optimizer.step()
    return graph


@program
def a_loop_with_pauses() -> AutogradGraph:
    """Only some of the steps are recorded."""
    w = nbgrad.tensor([1.0], requires_grad=True)
    optimizer = nbgrad.optim.SGD([w], lr=0.1)
    with recorded(name="paced", every=7) as graph:
        for _ in range(40):
            optimizer.zero_grad()
            ((w * nbgrad.tensor([2.0])) ** 2).sum().backward()
            optimizer.step()
    return graph


@program
def two_models() -> AutogradGraph:
    """The frames of models that have the names of their variables."""
    torch.manual_seed(0)
    generator, critic = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), nn.Sequential(nn.Linear(3, 1))
    with recorded(name="GAN") as graph:
        critic(generator(torch.randn(5, 2))).mean().backward()
    return graph


@program
def many_findings() -> AutogradGraph:
    """Dead layers, a softmax in front of a cross-entropy, a missing step, a frozen parameter, a broadcast."""
    torch.manual_seed(0)
    net = nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(4, 4), nn.Sigmoid())], nn.Linear(4, 3))
    net[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
    x, y = torch.randn(8, 4) * 1000, torch.randint(0, 3, (8,))
    with recorded(name="ill", silence="vanishing") as graph:
        for _ in range(3):
            loss = nn.functional.cross_entropy(torch.softmax(net(x), -1), y)
            loss = loss + (net(x).sum(-1) - torch.zeros(8, 1)).square().mean()
            loss.backward()
    assert optimizer
    return graph


@program
def an_op_that_raised() -> AutogradGraph:
    """A product of shapes that do not fit."""
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 4), nbgrad.nn.Linear(5, 2))
    with recorded(name="raised") as graph:
        net(nbgrad.tensor([[1.0, 2.0, 3.0]])).sum().backward()
    return graph


@program
def a_torch_op_that_raised() -> AutogradGraph:
    """The same of torch, after a complete backward."""
    net = nn.Linear(3, 4)
    with recorded(name="torch raised") as graph:
        net(torch.ones(1, 3)).sum().backward()
        net(torch.ones(1, 4))
    return graph


@program
def a_backward_that_raised() -> AutogradGraph:
    """A change in place of what a rule needs."""
    with recorded(name="in place") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        z = y * 2
        y += 1
        z.sum().backward()
    return graph


@program
def an_interrupt() -> AutogradGraph:
    """The user has stopped the cell."""
    with recorded(name="stopped") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (x * 2).sum().backward()
        raise KeyboardInterrupt
    return graph


@program
def tensors_without_numbers() -> AutogradGraph:
    """A layer on the meta device."""
    with recorded(name="meta") as graph:
        layer = nn.Linear(100_000, 10_000, device="meta")
        layer(torch.randn(3, 100_000, device="meta")).sum().backward()
    return graph


@program
def nested_and_sparse_tensors() -> AutogradGraph:
    """Tensors of other layouts: a nested one has no length along one of its dimensions."""
    torch.manual_seed(0)
    with recorded(name="layouts") as graph:
        parts, square = [torch.randn(2, 3), torch.randn(4, 3)], torch.randn(3, 3, requires_grad=True)
        rows = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        (torch.sparse.mm(square.to_sparse(), torch.randn(3, 2)).sum() + (rows * 2).values().sum()).backward()
    return graph


@program
def nothing() -> AutogradGraph:
    """No op ran."""
    with recorded(name="empty") as graph:
        pass
    return graph


@program
def derivatives() -> AutogradGraph:
    """A gradient of a gradient."""
    with recorded(name="second order") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        y = (x**3).sum()
        (g,) = nbgrad.autograd.grad(y, [x], create_graph=True)
        (g * g).sum().backward()
    return graph


@program
def numbers_of_ones_own() -> AutogradGraph:
    """Overlays, a cut edge, and a name that is hostile."""
    with recorded(name='<script>"\ud800&\x00') as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        loss = (y * y).sum()
        loss.backward()
    graph.overlay("fisher", {x: 2.0, y: 0.5}, log=True)
    graph.delete_edge(y, graph.record(loss).inputs[0].source, 1)
    return graph


@program
def lines_of_this_file() -> AutogradGraph:
    """A scope of the user's, and a module without a formula."""
    with recorded(name="scopes") as graph, nbgrad.scope("encoder"):
        x = torch.ones(2, 3, requires_grad=True)
        with nbgrad.scope("inner"):
            y = nn.LSTM(3, 4)(x.unsqueeze(0))[0]
        y.sum().backward()
    return graph
