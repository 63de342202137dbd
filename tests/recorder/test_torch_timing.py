"""How long torch's ops and their backwards take: by op, module and line, without what nbgrad needs to note it."""

import gc
import re
import threading
import time
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import nbgrad
from nbgrad.core.engine import clock
from nbgrad.core.engine.clock import CLOCKS, Instant, Stopwatch, cuda_device, instant
from nbgrad.core.graph.slowest import Times
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Where other work needs the cores, threads wait for each other, also in an op that is small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def timed(run: Callable[[], Any]) -> TimedGraph:
    """The graph of ``run``, with times."""
    with nbgrad.record(view="none", time=True) as graph:
        run()
    assert isinstance(graph, TimedGraph)
    assert graph.fault is None
    assert not CLOCKS
    return graph


def by_name(graph: TimedGraph) -> dict[str, Times]:
    """The times of the ops and leaves of different names."""
    return {record.name or record.kind_or_op: graph.times[record.id] for record in graph.records}


class Slow(torch.autograd.Function):
    """A function with a slow backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        time.sleep(0.03)
        return grads[0] * 2


def test_each_op_and_leaf_has_its_times() -> None:
    w = torch.ones(2, requires_grad=True)

    def run() -> None:
        y = Slow.apply(w.exp())
        y.sum().backward()

    graph = timed(run)
    times = {record.kind_or_op: graph.times[record.id] for record in graph.records}
    assert times.keys() == {"leaf", "exp", "Slow", "sum"}
    assert times["Slow"].forward is None  # no call of a function of torch's made it
    assert times["Slow"].backward >= 0.03
    assert all(0 < one.backward < 0.03 for name, one in times.items() if name != "Slow")
    assert times["exp"].forward > 0 < times["sum"].forward
    assert times["leaf"].forward is None  # its backward is the node that fills its .grad
    assert graph.slowest()[0].op == "Slow"


def least(run: Callable[[], torch.Tensor], turns: int) -> tuple[list[float], list[float]]:
    """The shortest forward and backward of ``run``: in plain torch, and the sums of the times in a graph."""
    plain, told = [], []
    for _ in range(turns):
        began = perf_counter()
        loss = run()
        middle = perf_counter()
        loss.backward()
        plain.append((middle - began, perf_counter() - middle))
        graph = timed(lambda: run().backward())
        found = graph.slowest()
        told.append((found.forward, found.backward))
        gc.collect()
    return [min(column) for column in zip(*plain, strict=True)], [min(column) for column in zip(*told, strict=True)]


def products(w: torch.Tensor) -> torch.Tensor:
    y = w
    for _ in range(8):
        y = (y @ w).tanh()
    return y.sum()


def small(w: torch.Tensor) -> torch.Tensor:
    y = w[0]
    for _ in range(100):
        y = y * 1.01
    return y.sum()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("program", "within"), [(products, 0.15), (small, 0.4)])
def test_the_time_of_the_recorder_is_taken_out(program: Callable[[torch.Tensor], torch.Tensor], within: float) -> None:
    """A recorded small op takes twice as long as in plain torch, its measured time does not."""
    w = torch.randn(400, 400).div_(20).requires_grad_()
    for _ in range(6):  # other work on the machine only makes it longer
        plain, told = least(lambda: program(w), turns=8)
        ratios = [one / other for one, other in zip(told, plain, strict=True)]
        if all(1 - within < ratio < 1 + within for ratio in ratios):
            return
    raise AssertionError(ratios)


def test_a_function_of_torchs_in_python_is_timed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one op, also where its first part takes the time: the recorder sees the call whose result it returns."""
    stretch = torch.broadcast_tensors

    def slow(*tensors: torch.Tensor) -> Any:
        time.sleep(0.1)
        return stretch(*tensors)

    monkeypatch.setattr(torch, "broadcast_tensors", slow)
    w = torch.ones(3, requires_grad=True)

    def run() -> None:
        functional.mse_loss(w * 1.0, torch.zeros(3)).backward()
        time.sleep(0.3)

    graph = timed(run)
    times = {record.kind_or_op: graph.times[record.id] for record in graph.records if record.op}
    assert times.keys() == {"mul", "mse_loss"}
    assert 0.1 <= times["mse_loss"].forward < 0.3
    assert times["mul"].forward < 0.1


def test_a_call_with_several_nodes_has_one_time() -> None:
    """The nodes inside of an op belong to it."""
    lstm = torch.nn.LSTM(4, 8)
    x = torch.randn(5, 2, 4)
    began = perf_counter()
    graph = timed(lambda: lstm(x)[0].sum().backward())
    ended = perf_counter()
    ops = {record.kind_or_op for record in graph.records if record.op}
    assert graph.times.keys() == {record.id for record in graph.records if record.kind != "constant"}
    assert {row.op for row in graph.slowest("op")} == ops | {"parameter"}
    found = graph.slowest()
    assert sum(row.seconds for row in found) == pytest.approx(found.forward + found.backward)
    assert found.forward + found.backward < ended - began


def test_hooks_of_the_users_do_not_count() -> None:
    w = torch.ones(2, requires_grad=True)

    def sleep(*_: Any) -> None:
        time.sleep(0.02)

    def run() -> None:
        y = w.exp()
        y.register_hook(sleep)
        y.grad_fn.register_hook(sleep)  # after the node
        y.grad_fn.register_prehook(sleep)
        y.sum().backward()

    graph = timed(run)
    assert all((one.backward or 0.0) < 0.02 for one in graph.times.values())


def test_a_checkpoint_has_the_time_of_what_it_runs_again() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3))
    x = torch.ones(2, 3, requires_grad=True)

    def slow(y: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return net(y).tanh()

    for kind in (True, False):
        graph = timed(lambda reentrant=kind: checkpoint(slow, x, use_reentrant=reentrant).sum().backward())
        assert sum(one.backward or 0.0 for one in graph.times.values()) >= 0.02


def test_another_backward_on_the_same_nodes_does_not_count() -> None:
    """A hook runs it, inside of the one that is measured."""
    w = torch.ones(2, requires_grad=True)
    slow = Slow.apply(w)
    y = slow.exp()

    def inner(_: Any) -> None:
        torch.autograd.grad(y, [w], torch.ones(2), retain_graph=True)

    def run() -> None:
        handle = y.register_hook(lambda grad: (handle.remove(), inner(grad))[1])
        y.sum().backward(retain_graph=True)

    graph = timed(run)
    (took,) = (row for row in graph.slowest() if row.op == "Slow")
    assert 0.03 <= took.backward < 0.06


def test_autograd_grad_and_gradients_of_gradients_are_timed() -> None:
    w = torch.ones(2, requires_grad=True)

    def run() -> None:
        (first,) = torch.autograd.grad((w**3).sum(), [w], create_graph=True)
        first.sum().backward()

    graph = timed(run)
    assert graph.slowest().backward > 0
    assert torch.equal(w.grad, torch.full((2,), 6.0))


def test_a_backward_that_raises_leaves_no_hook() -> None:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise ZeroDivisionError

    w = torch.ones(2, requires_grad=True)

    def run() -> None:
        y = Bad.apply(w.exp())
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert not [one for one in gc.get_objects() if type(one).__name__ == "Before" and one.table]

    timed(run)


def test_a_gradient_is_filled_in_without_a_copy() -> None:
    """The hooks hold no gradient, so torch makes it the ``.grad`` of a leaf as it is."""
    w = torch.ones(300, requires_grad=True)
    seen = []
    y = w * 2
    y.grad_fn.register_hook(lambda given, _: seen.append(given[0].data_ptr()))
    timed(lambda: y.sum().backward())
    assert w.grad.data_ptr() == seen[0]


def test_a_thread_with_a_graph_of_its_own_is_timed_for_that_alone() -> None:
    graphs: list[TimedGraph] = []
    w = torch.ones(2, requires_grad=True)

    def other() -> None:
        with nbgrad.record(view="none", time=True) as graph:
            (torch.ones(3, requires_grad=True) * 2).sum().backward()
        graphs.append(graph)  # type: ignore[arg-type]

    with nbgrad.record(view="none", time=True) as graph:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        w.exp().backward(torch.ones(2))
    assert {record.kind_or_op for record in graph.records} == {"leaf", "exp"}
    assert graph.times.keys() == {record.id for record in graph.records}
    assert graphs[0].times.keys() == {record.id for record in graphs[0].records if record.kind != "constant"}


def test_an_inner_graph_and_the_outer_one_have_the_same_times() -> None:
    w = torch.ones(2, requires_grad=True)
    with TimedGraph() as outer, TimedGraph() as inner:
        w.exp().sum().backward()
    assert inner.times.keys() == outer.times.keys()
    assert all(inner.times[key].backward == one.backward for key, one in outer.times.items())


# The table.


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 256)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(256, 256) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for one in self.layers:
            y = one(y).relu()
        return y


@pytest.mark.parametrize("engine", ["torch", "nbgrad"])
def test_the_slowest_by_op_module_and_line(engine: str) -> None:
    net: Any = Net()
    x: Any = torch.randn(512, 64)
    if engine == "nbgrad":
        net, x = nbgrad.nn.Sequential(nbgrad.nn.Linear(64, 256), nbgrad.nn.Linear(256, 256)), nbgrad.tensor(x)

    def run() -> None:
        loss = net(x).mean()
        loss.backward()

    graph = timed(run)
    calls, ops, modules, lines = (graph.slowest(by) for by in ("call", "op", "module", "line"))
    assert [row.seconds for row in calls] == sorted((row.seconds for row in calls), reverse=True)
    for table in (calls, ops, lines):  # each op is in one row
        assert sum(row.share for row in table) == pytest.approx(1)
        assert sum(row.forward for row in table) == pytest.approx(table.forward)
        assert sum(row.backward for row in table) == pytest.approx(table.backward)
    (linear,) = (row for row in ops if row.op == "linear")
    assert linear.calls == (3 if engine == "torch" else 2)
    assert linear.forward == pytest.approx(sum(row.forward for row in calls if row.op == "linear"))
    assert linear.backward == pytest.approx(sum(row.backward for row in calls if row.op == "linear"))
    assert modules[0].module == ""  # the model holds all modules
    inner = "first" if engine == "torch" else "0"
    (part,) = (row for row in modules if row.module == inner)
    assert part.seconds == pytest.approx(sum(row.seconds for row in calls if row.module == inner))
    assert any("net(x).mean()" in row.line for row in lines)
    assert repr(calls).splitlines()[0].split() == ["op", "module", "line", "forward", "backward", "share"]
    assert repr(modules).splitlines()[2].startswith("(model)")
    assert repr(ops).splitlines()[-1].startswith("all: ")


def test_torchs_times_are_an_overlay_and_a_detail() -> None:
    w = torch.ones(2, requires_grad=True)
    described = describe(timed(lambda: w.exp().sum().backward()))
    assert "time, forward and backward (log)" in [one["label"] for one in described["overlays"]]
    assert all("time" in node["levels"] for node in described["nodes"])
    details = {node["kind"]: {one["term"]: one["text"] for one in node["details"]} for node in described["nodes"]}
    assert re.fullmatch(r"forward [\d.]+ .?s, backward [\d.]+ .?s; [\d.]+% of all", details["op"]["time"])
    assert re.fullmatch(r"backward [\d.]+ .?s; [\d.]+% of all", details["leaf"]["time"])


def test_a_long_table_is_cut_and_says_so() -> None:
    w = torch.ones(2, requires_grad=True)

    def run() -> None:
        y = w
        for _ in range(40):
            y = y * 2
        y.sum().backward()

    found = timed(run).slowest()
    assert len(found) == 42
    assert "... 22 more" in repr(found)


def test_another_order_is_refused() -> None:
    with pytest.raises(ValueError, match="by='size': choose one of call, op, module, line"):
        TimedGraph().slowest("size")  # type: ignore[arg-type]
    assert repr(TimedGraph().slowest()).endswith("all: - forward, - backward")


# A GPU.


class Event:
    """An event of a GPU that is always two seconds after the event before it."""

    number = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.stream: Any = None
        self.waited = False

    def record(self, stream: Any) -> None:
        self.stream = stream
        Event.number += 1
        self.at = Event.number

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, other: "Event") -> float:
        assert other.waited
        return 2000.0 * (other.at - self.at)


def test_the_work_of_a_gpu_is_measured_by_events_that_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.torch.cuda, "Event", Event)
    monkeypatch.setattr(clock.torch.cuda, "current_stream", lambda device=None: ("stream", device))
    device = torch.device("cuda:1")
    began = instant(device)
    ended = instant(began.device)
    assert began.event.stream == ("stream", device)
    spent = Stopwatch()
    spent.add(began, ended)
    spent.add(Instant(0), Instant(500_000_000))
    assert not ended.event.waited
    assert spent.seconds == spent.seconds == 2.5
    assert ended.event.waited
    assert instant().event is None
    assert instant(torch.device("cpu")).event is None


@pytest.mark.parametrize("hit", [1, 2, 3, 4, 5, 6, 7, 8])
def test_an_error_of_a_clock_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch, hit: int) -> None:
    """The graph remembers it as its fault."""
    calls, w = 0, torch.ones(2, requires_grad=True)

    def bad(_device: Any = None) -> Instant:
        nonlocal calls
        calls += 1
        if calls == hit:
            raise RuntimeError("the queue is captured")
        return Instant(calls)

    monkeypatch.setattr("nbgrad.core.graph.timing.instant", bad)
    monkeypatch.setattr("nbgrad.core.recorder.node_clock.instant", bad)
    with nbgrad.record(view="none", time=True) as graph:
        functional.mse_loss(w, torch.zeros(2)).backward()
    assert calls >= 8
    assert torch.equal(w.grad, torch.ones(2))
    assert "the queue is captured" in str(graph.fault)
    assert not CLOCKS


def test_without_a_gpu_no_tensor_is_looked_at() -> None:
    assert torch.cuda.is_initialized() or cuda_device([object()]) is None


@pytest.mark.cuda
def test_ops_of_a_gpu_have_its_times() -> None:
    w = torch.randn(4096, 4096, device="cuda", requires_grad=True)

    def run() -> None:
        (w @ w).tanh().sum().backward()
        torch.cuda.synchronize()

    timed(run)  # the kernels are loaded
    began = perf_counter()
    graph = timed(run)
    ended = perf_counter()
    times = {record.kind_or_op: graph.times[record.id] for record in graph.records}
    least = 2 * 4096**3 / 1e15  # no GPU multiplies faster than that
    assert least < times["matmul"].forward < ended - began
    assert times["matmul"].backward > 1.5 * times["matmul"].forward  # two products
    assert graph.slowest().forward + graph.slowest().backward < ended - began
