"""How long ops and rules take: what is measured, for which ops, and that other programs are not slowed down."""

import time
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.guarded_listener import GuardedListener
from nbgrad.core.graph.listener import Listener
from nbgrad.core.graph.timing import TimedGraph


class Slow(nbgrad.Function):
    """A function with a slow backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        time.sleep(0.04)
        return g * 2


def test_each_op_has_the_time_of_its_forward_and_of_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return x.exp()

    monkeypatch.setattr(OPS["exp"], "forward", slow)
    with TimedGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        begin = time.perf_counter()
        y = Slow.apply(x.exp()) + x
        y.mul_(2.0)
        loss = y.sum()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
    ops = {record.op.name: graph.times[record.id] for record in graph.records if record.op is not None}
    assert ops.keys() == {"exp", "Slow", "add", "mul_", "sum"}
    assert ops["Slow"].forward is None
    assert all(one.forward for name, one in ops.items() if name != "Slow")
    assert 0.02 <= ops["exp"].forward <= sum(one.forward or 0.0 for one in ops.values()) <= middle - begin
    assert 0.04 <= ops["Slow"].backward <= sum(one.backward for one in ops.values()) <= end - middle


def test_without_a_backward_there_is_none() -> None:
    x = nbgrad.tensor([1.0], requires_grad=True)
    with TimedGraph() as graph:
        y = x * 2
    (times,) = graph.times.values()
    assert times.forward > 0
    assert times.backward is None
    assert y.item() == 2


def test_an_op_that_raised_leaves_no_clock_running() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with TimedGraph() as graph:
        with pytest.raises(RuntimeError):
            x @ nbgrad.tensor([1.0])
        time.sleep(0.3)
        x.sum().backward()
    assert [one.forward < 0.3 for one in graph.times.values()] == [True]


def test_it_keeps_the_times_of_what_is_shown_alone() -> None:
    x = nbgrad.tensor([1.0], requires_grad=True)
    with TimedGraph() as graph:
        for _ in range(2000):
            (x * 2).sum().backward()
        assert len(graph.times) < 1500
    assert graph.times.keys() == {record.id for record in graph.records if record.op is not None}


def test_gradients_that_record_themselves_are_timed_too() -> None:
    x = nbgrad.tensor([1.0, 3.0], requires_grad=True)
    with TimedGraph() as graph:
        (first,) = nbgrad.grad((x**3).sum(), [x], create_graph=True)
        first.sum().backward()
    assert torch.equal(x.grad.data, 6 * x.data)
    assert graph.times


def test_another_graph_has_no_clock() -> None:
    assert type(AutogradGraph().listener) is GuardedListener
    assert Listener.on_call is nbgrad.core.engine.observer.Observer.on_call
    assert not hasattr(AutogradGraph(), "times")
