"""Functions of torch that a graph replaces: what a program or another library does with them stays right."""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import nbgrad
from nbgrad.core.engine.state import current
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.recorder.patches import Patch, set_method
from tests.recorder.test_torch_recording import replaced

MODULE: Any = nn.Module
OPTIMIZER: Any = torch.optim.Optimizer


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    before = (*replaced(), OPTIMIZER.zero_grad)
    yield
    assert (*replaced(), OPTIMIZER.zero_grad) == before


def ops(graph: AutogradGraph) -> list[str]:
    return [record.op.name for record in graph.records if record.op is not None]


def test_a_method_is_replaced_as_python_does_it() -> None:
    """Also where subclasses have looked it up, and where a slot of C's changes."""

    class Base:
        def __call__(self) -> int:
            return 1

        __hash__ = object.__hash__

    class Own(Base):
        pass

    base, one = Base, Own()
    call, changed = Base.__call__, (lambda _: 2)
    for _ in range(3):
        assert [(one(), hash(one)) for _ in range(20)] == [(1, object.__hash__(one))] * 20
        set_method(base, "__call__", changed), set_method(base, "__hash__", changed)
        assert [(one(), hash(one)) for _ in range(20)] == [(2, 2)] * 20
        set_method(base, "__call__", call), set_method(base, "__hash__", object.__hash__)
    set_method(base, "added", changed)
    assert one.added() == 2  # type: ignore[attr-defined]


def test_a_class_with_a_say_in_it_is_asked() -> None:
    class Meta(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            seen.append(name)
            super().__setattr__(name, value)

    class Base(metaclass=Meta):
        def call(self) -> int:
            return 1

    seen: list[str] = []
    patch = Patch(Base, "call", lambda run: lambda self: run(self) + 1)
    patch.install()
    assert (Base().call(), seen) == (2, ["call"])
    patch.put_back()
    assert (Base().call(), seen) == (1, ["call", "call"])


def test_a_call_that_was_taken_in_a_graph_works_after_it_and_in_the_next() -> None:
    net, x = nn.Linear(3, 2), torch.ones(1, 3)
    with AutogradGraph():
        call, taken = net.__call__, MODULE.__call__

        class Named(nn.Linear):
            __call__ = MODULE.__call__

    named = Named(3, 2)
    for run in (call, lambda x: taken(net, x), named):
        assert run(x).shape == (1, 2)
        with AutogradGraph() as graph:
            run(x).sum().backward()
        assert ops(graph) == ["linear", "sum"]
        assert next(record.scope for record in graph.records if record.op is not None)
        assert run(x).shape == (1, 2)


def test_taken_functions_of_backward_and_optimizer_work_afterwards() -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with AutogradGraph():
        zero, backward, compiling = OPTIMIZER.zero_grad, torch.autograd._engine_run_backward, torch.compile
    loss = (w * w).sum()
    backward((loss,), (torch.tensor(1.0),), False, False, (), allow_unreachable=True, accumulate_grad=True)
    assert w.grad is not None
    zero(optimizer)
    assert w.grad is None
    assert compiling(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2


PATCHED = [(MODULE, "__call__"), (OPTIMIZER, "zero_grad"), (torch, "compile"), (torch.autograd, "_engine_run_backward")]


def step(net: nn.Module) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def around(function: Any, calls: list[int]) -> Callable[..., Any]:
    def patched(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return function(*args, **kwargs)

    return patched


@pytest.mark.parametrize(("target", "name"), PATCHED)
@pytest.mark.parametrize("restores", ["inside", "after", "in the next", "after the next"])
def test_a_patch_of_another_library_stays_until_that_library_restores(target: Any, name: str, restores: str) -> None:
    net, calls, torchs = nn.Linear(3, 2), list[int](), vars(target)[name]
    with AutogradGraph():
        found = getattr(target, name)
        patched = around(found, calls)
        setattr(target, name, patched)
        step(net)
        if restores == "inside":
            setattr(target, name, found)
    if restores != "inside":
        assert vars(target)[name] is patched
        step(net)
        if name != "compile":
            assert calls
    if restores == "after":
        setattr(target, name, found)
        step(net)
    with AutogradGraph() as graph:
        step(net)
        if restores == "in the next":
            setattr(target, name, found)
    assert ops(graph) == ["linear", "sum"]
    assert [record.scope is not None for record in graph.records if record.op is not None] == [True, False]
    if restores == "after the next":
        setattr(target, name, found)
    step(net)
    with AutogradGraph():
        step(net)
    assert vars(target)[name] is torchs


def test_earlier_functions_of_ours_do_not_pile_up() -> None:
    there = SimpleNamespace(run=lambda: 0)
    first, depth = there.run, list[int]()
    patch = Patch(there, "run", lambda run: lambda: depth.append(1) or run())
    for _ in range(20):
        patch.install()
        found = there.run
        there.run = lambda found=found: found()
        patch.put_back()
        patch.install()
        there.run = found
        patch.put_back()
        patch.install()
        depth.clear()
        there.run()
        assert len(depth) == 1
        patch.put_back()
        assert there.run is first


# Threads.


def in_thread(work: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_a_graph_that_another_thread_closes_leaves_no_mode() -> None:
    graph, x = AutogradGraph(), torch.ones(2, requires_grad=True)
    before = sys.getprofile()
    graph.__enter__()
    (x * 2).sum().backward()
    in_thread(graph.close)
    assert graph.closed
    assert ops(graph) == ["mul", "sum"]
    (x * 3).sum()
    assert torch._C._len_torch_function_stack() == 0
    assert sys.getprofile() is before
    assert current().observers == ()
    with AutogradGraph() as later:
        (x * 3).sum().backward()
    assert ops(later) == ["mul", "sum"]


def test_a_generator_that_is_dropped_in_another_thread_leaves_no_mode() -> None:
    x = torch.ones(2, requires_grad=True)

    def steps() -> Iterator[None]:
        with nbgrad.record(view="none"):
            yield
            yield

    held = [steps()]
    next(held[0])
    (x * 2).sum().backward()
    in_thread(held.clear)
    nn.functional.relu(x)
    assert torch._C._len_torch_function_stack() == 0
    assert current().observers == ()


def test_a_graph_opened_after_it_in_the_same_thread_records() -> None:
    graph, x = AutogradGraph(), torch.ones(2, requires_grad=True)
    graph.__enter__()
    in_thread(graph.close)
    with AutogradGraph() as later:
        (x * 3).sum().backward()
    assert ops(later) == ["mul", "sum"]
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize("default", [False, True])
def test_a_device_that_was_entered_before_the_graph_and_left_in_it_is_left(default: bool) -> None:
    graph, x = AutogradGraph(), torch.ones(2, requires_grad=True)
    device = torch.device("meta")
    torch.set_default_device("meta") if default else device.__enter__()
    try:
        with graph:
            (x * 2).sum().backward()
            assert torch.ones(1).is_meta
            torch.set_default_device(None) if default else device.__exit__(None, None, None)
            assert not torch.ones(1).is_meta
            (x * 3).sum().backward()
        assert (graph.backwards, ops(graph)) == (2, ["mul", "sum"])
        assert torch._C._len_torch_function_stack() == 0
    finally:
        torch.set_default_device(None)


def test_a_device_that_was_entered_in_the_graph_and_left_after_it_is_left() -> None:
    device, x = torch.device("meta"), torch.ones(2, requires_grad=True)
    with AutogradGraph():
        device.__enter__()
        (x * 2).sum().backward()
    assert torch.ones(1).is_meta
    device.__exit__(None, None, None)
    assert torch._C._len_torch_function_stack() == 0


def open_and_drop() -> None:
    graph = AutogradGraph()
    graph.__enter__()
    (torch.ones(2, requires_grad=True) * 2).sum().backward()


@pytest.mark.parametrize("opened", [open_and_drop, lambda: in_thread(open_and_drop)])
def test_a_graph_that_is_dropped_unclosed_leaves_torch_as_it_was(opened: Callable[[], None]) -> None:
    before = replaced()
    opened()
    gc.collect()
    assert torch._C._len_torch_function_stack() == 0
    assert current().observers == ()
    assert replaced() == before


def test_a_thread_that_ends_with_a_graph_open_leaves_torch_as_it_was() -> None:
    before, kept = replaced(), AutogradGraph()
    in_thread(kept.__enter__)
    gc.collect()
    assert replaced() == before
    kept.close()
    assert kept.closed


def test_a_graph_records_while_another_thread_is_in_a_compiled_region() -> None:
    torch._dynamo.reset()
    inside, recorded = threading.Event(), threading.Event()

    def backend(module: Any, _inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            inside.set()
            assert recorded.wait(60)
            return module(*args)

        return run

    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    net, other = nn.Linear(3, 2), list[threading.Thread]()
    with AutogradGraph() as graph:
        other.append(threading.Thread(target=lambda: compiled(torch.ones(2))))
        other[0].start()
        try:
            assert inside.wait(60)
            net(torch.ones(1, 3)).sum().backward()
        finally:
            recorded.set()
        other[0].join()
    assert ops(graph) == ["linear", "sum"]
    assert graph.backwards == 1
    assert {record.name for record in graph.records if record.kind == "parameter"} == {"weight", "bias"}


def test_a_thread_compiles_modules_as_a_whole_while_another_records() -> None:
    torch._dynamo.reset()
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    run = torch.compile(net, backend="eager", fullgraph=True)
    with AutogradGraph() as graph:
        in_thread(lambda: run(torch.ones(1, 3)))
        net(torch.ones(1, 3)).sum().backward()
    assert ops(graph) == ["linear", "tanh", "sum"]


IMPORTING = """
import sys, threading
import torch
from nbgrad.core.graph.graph import AutogradGraph
begun = threading.Event()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo.eval_frame" or "torch._dynamo.eval_frame" in sys.modules:
            begun.set()

sys.meta_path.insert(0, Finder())
thread = threading.Thread(target=lambda: __import__("torch._dynamo"))
thread.start()
assert begun.wait(60)
x = torch.ones(2, requires_grad=True)
while thread.is_alive():
    with AutogradGraph() as graph:
        (x * 2).sum().backward()
    assert graph.backwards == 1
thread.join()
run = torch.compile(lambda x: x.sin(), backend="aot_eager")
with AutogradGraph() as graph:
    run(x).sum().backward()
print([record.op.name for record in graph.records if record.op is not None])
"""


@pytest.mark.rotated(3)
def test_a_graph_opens_while_another_thread_imports_the_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['CompiledFunction', 'sum']\n"
