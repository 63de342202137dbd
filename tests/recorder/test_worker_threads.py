"""A forward in another thread, whose ops no graph has seen: the backward here still shows each gradient of a leaf."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from nbgrad import AutogradGraph


def _within(context: Any) -> Callable[..., Any]:
    def run(net: Any, x: torch.Tensor) -> Any:
        with context:
            return net(x)

    return run


WAYS: dict[str, Callable[[], Callable[..., Any]]] = {
    "plain": lambda: lambda net, x: net(x),
    "the same values": lambda: _within(saved_tensors_hooks(lambda saved: saved, lambda saved: saved)),
    "copies": lambda: _within(saved_tensors_hooks(lambda saved: saved.detach().clone(), lambda saved: saved + 0)),
    "arrays": lambda: _within(saved_tensors_hooks(lambda saved: saved.detach().numpy().copy(), torch.from_numpy)),
    "on the cpu": lambda: _within(save_on_cpu()),
    "a checkpoint": lambda: lambda net, x: checkpoint(net, x, use_reentrant=False),
    "a checkpoint of a part": lambda: lambda net, x: net[2](checkpoint(net[:2], x, use_reentrant=False)),
}


@pytest.mark.parametrize("aside", [False, True], ids=["the same thread", "a worker"])
@pytest.mark.parametrize("way", WAYS)
def test_each_leaf_has_its_gradient(way: str, aside: bool) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3, requires_grad=True)
    run, made = WAYS[way](), []

    def work() -> None:
        made.append(run(net, x).square().sum())

    with AutogradGraph() as graph:
        if aside:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
        made[0].backward()
    shown = [(one.shape, one.gradient.norm) for one in graph.records if one.op is None and one.gradient is not None]
    expected: list[Any] = [(one.shape, one.grad.norm().item()) for one in (x, *net.parameters())]
    assert {shape for shape, _ in shown} == {shape for shape, _ in expected}
    assert dict(shown) == pytest.approx(dict(expected), rel=1e-6)
    reached = {one.source for record in graph.records for one in record.inputs}
    assert all(record.id in reached for record in graph.records if record.op is None)


@pytest.mark.parametrize("way", WAYS)
def test_steps_in_workers_have_the_gradients_of_the_last_one(way: str) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    step = torch.optim.SGD(net.parameters(), lr=0.1)
    run, x = WAYS[way](), torch.randn(5, 3)
    with AutogradGraph() as graph:
        for _ in range(3):
            made: list[torch.Tensor] = []
            thread = threading.Thread(target=lambda made=made: made.append(run(net, x).square().sum()))
            thread.start()
            thread.join()
            step.zero_grad()
            made[0].backward()
            step.step()
    shown = {one.shape: one.gradient and one.gradient.norm for one in graph.records if one.kind == "parameter"}
    assert shown == pytest.approx({one.shape: one.grad.norm().item() for one in net.parameters()}, rel=1e-6)
