"""The cost of a recorded training loop: as ``%%autograd`` records it, in full, and without a graph."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

import nbgrad
from benchmarks.case import Case
from benchmarks.chains import drawn
from benchmarks.mlp import like_torch
from benchmarks.timing import Contender
from benchmarks.watching import IMAGES, SIDE, WITHOUT, resnet18

PACED = "as in a %%autograd cell"
FULL = "as with --every 1"

Step = Callable[[], Any]


def loop_of(make: Callable[[], Step], steps: int, graph: Callable[[], AbstractContextManager[Any]]) -> Contender:
    """``steps`` calls of the step that ``make`` returns, inside a ``graph``, and its end."""
    step = make()

    def loop(_: Any) -> Any:
        with graph():
            for _ in range(steps):
                loss = step()
        return loss.detach()

    return Contender(loop)


def trained(net: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> Step:
    """A step of SGD."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's method has no types
        optimizer.step()
        return loss

    return step


def chain() -> Step:
    """100 products and sums of 8 x 8 tensors."""
    w, b = (torch.from_numpy(drawn(8, 8)).requires_grad_() for _ in range(2))
    c = torch.from_numpy(drawn(8, 8))

    def step() -> torch.Tensor:
        w.grad = b.grad = None
        x = w
        for _ in range(50):
            x = x * c + b
        total = x.sum()
        total.backward()  # type: ignore[no-untyped-call]  # torch's method has no types
        return total

    return step


def resnet() -> Step:
    """A ResNet-18 of small images."""
    torch.manual_seed(0)
    net, x, y = resnet18(), torch.randn(IMAGES, 3, SIDE, SIDE), torch.randint(0, 10, (IMAGES,))
    return trained(net, lambda: torch.nn.functional.cross_entropy(net(x), y))


def lstm() -> Step:
    """An LSTM of two layers on 16 sequences of 32 words."""
    torch.manual_seed(0)
    net = torch.nn.LSTM(64, 128, num_layers=2, batch_first=True)
    x = torch.randn(16, 32, 64)
    return trained(net, lambda: torch.mean(net(x)[0] ** 2))


def transformer() -> Step:
    """A transformer of six layers on 8 sequences of 64 words."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    x = torch.randn(8, 64, 256)
    return trained(net, lambda: torch.mean(net(x) ** 2))


LOOPS: dict[str, tuple[str, Callable[[], Step], int]] = {
    "paced-mlp": ("the MLP in plain torch", partial(like_torch, torch), 1000),
    "paced-chain": ("a chain of 100 small ops in plain torch", chain, 400),
    "paced-resnet": (f"a ResNet-18, {IMAGES} images of {SIDE} x {SIDE}", resnet, 60),
    "paced-lstm": ("an LSTM of two layers", lstm, 100),
    "paced-transformer": ("a transformer of six layers", transformer, 100),
}
"""By the name of the case: what is trained, what makes its step, and how many steps there are."""

for _name, (_what, _make, _steps) in LOOPS.items():
    _case = Case(_name, f"{_steps:,} steps of {_what}, with the end of the graph", ops=_steps, per="step", first=600)
    _case.reference = WITHOUT
    _case.contenders = {
        WITHOUT: partial(loop_of, _make, _steps, nullcontext),
        PACED: partial(loop_of, _make, _steps, partial(nbgrad.record, view="none")),
        FULL: partial(loop_of, _make, _steps, partial(nbgrad.record, view="none", every=1)),
    }
