"""Programs with which something is wrong on purpose: the runner has to say so. ``tests/models/test_models.py``."""

import os
import time
from typing import Any

import torch
from torch import nn

from tests.models.package import Package, Step

package = Package("torch")
KEPT: list[Any] = []


def x() -> torch.Tensor:
    """The input of the networks."""
    return torch.linspace(-1, 1, 6).reshape(3, 2)


def recorded() -> bool:
    """Whether a graph is open."""
    return torch._C._len_torch_function_stack() > 0


@package.step
def right() -> Step:
    return nn.Linear(2, 2), lambda net: net(x()).tanh().square().sum()


@package.step
def another_gradient() -> Step:
    """The loss is the same, a gradient is not."""
    factor = 1.0 + 1e-6 * recorded()

    def loss(net: Any) -> Any:
        net.bias.register_hook(lambda gradient: gradient * factor)
        return net(x()).square().sum()

    return nn.Linear(2, 2), loss


@package.step
def random_itself() -> Step:
    noise = torch.tensor(time.perf_counter() % 1)
    return nn.Linear(2, 2), lambda net: net(x()).square().sum() * noise


@package.step
def kept_alive() -> Step:
    net = nn.Linear(2, 2)
    if recorded():
        KEPT.append(net)
    return net, lambda net: net(x()).square().sum()


@package.step
def replaced() -> Step:
    if recorded():
        torch.nn.functional.elu_ = lambda x: x  # type: ignore[assignment]
    return nn.Linear(2, 2), lambda net: net(x()).square().sum()


@package.step
def hidden() -> Step:
    """A parameter gets its gradient by an assignment, which no graph can see."""

    def loss(net: Any) -> Any:
        net.bias.grad = torch.ones(2)
        return (x() @ net.weight).square().sum()

    return nn.Linear(2, 2), loss


@package.step
def another_branch() -> Step:
    """The loss checks the exact type of a tensor, and takes another branch for nbgrad's."""

    def loss(net: Any) -> Any:
        total = net(x()).square().sum()
        return total * 2 if type(total) is torch.Tensor else total

    return nn.Linear(2, 2), loss


@package.step
def unnamed_error() -> Step:
    """The loss fails with a tensor that is not torch's, and does not say why."""

    def loss(net: Any) -> Any:
        total = net(x()).square().sum()
        if type(total) is not torch.Tensor:
            raise ValueError("no tensor")
        return total

    return nn.Linear(2, 2), loss


@package.step
def fails() -> Step:
    raise RuntimeError("out of order")


@package.step
def fails_recorded() -> Step:
    if recorded():
        raise RuntimeError("out of order")
    return nn.Linear(2, 2), lambda net: net(x()).square().sum()


@package.step
def dies() -> Step:
    os._exit(3)


@package.training
def trains() -> nn.Module:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1 if recorded() else 0.2)
    net(x()).square().sum().backward()
    optimizer.step()
    return net


@package.step
def last() -> Step:
    return nn.Linear(2, 2), lambda net: net(x()).square().sum()
