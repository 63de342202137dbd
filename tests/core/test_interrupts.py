"""Ctrl-C at any instant: nbgrad leaves no switch behind, and the interrupted code runs as usual afterwards."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import nbgrad
from nbgrad.core.backend import below_autograd
from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine import state
from nbgrad.core.engine.state import current
from nbgrad.core.recorder.switches import unfollow_to
from nbgrad.core.symbolic import turns
from tests.core.interrupting import (
    BLOCKS,
    CHANGES,
    ENGINE,
    PICTURES,
    Change,
    Instants,
    check_untouched,
    leaf,
    switched,
    tracing,
)

EVERY = ("no_gc", "below_autograd", "randomness")
"""Modules that switch for all others. Each of their instructions is interrupted."""

MOST = 150
"""How many instructions of other modules are interrupted in each scenario. The sweep ``interrupts`` runs them all."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("make", [*ENGINE, *BLOCKS], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_interrupt_at_any_instruction_leaves_nothing_switched(make: Callable[[], Callable[[], Any]]) -> None:
    run, modules = make(), {**ENGINE, **BLOCKS}[make]
    want = run()
    run()
    notes = Instants(modules=modules)
    assert not notes.run(run)
    numbers = notes.each()
    every = [at for at in numbers if Path(notes.passed[at][0].co_filename).stem in EVERY]
    for count, number in enumerate(sorted({*every, *numbers[:: len(numbers) // MOST + 1]})):
        before, begun = switched(), current()
        tracer = Instants(number, modules)
        if not tracer.run(make() if count % 20 else run):
            continue
        if make in BLOCKS and not nbgrad.compiled():
            state.set_state(state.unwound(begun))  # the end of a cell does this
            unfollow_to(0)
        check_untouched(before, str(tracer.hit))
        if count % 20 == 0:
            assert run() == want, tracer.hit
    assert run() == want


PICTURED = 16
"""How many instants of each picture are interrupted. After each one, the picture must be drawn the same."""


@pytest.mark.rotated(3)
@pytest.mark.parametrize("make", PICTURES, ids=lambda make: make.__name__)
def test_a_picture_that_was_interrupted_is_the_same_when_it_is_drawn_again(
    make: Callable[[], Callable[[], Any]],
) -> None:
    run = make()
    want = run()
    assert run() == want
    notes = Instants(modules=PICTURES[make])
    assert not notes.run(run)
    numbers = notes.each()
    for number in numbers[:: len(numbers) // PICTURED + 1]:
        before = switched()
        tracer = Instants(number, PICTURES[make])
        assert tracer.run(run)
        check_untouched(before, str(tracer.hit))
        assert run() == want, tracer.hit


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
@pytest.mark.parametrize("make", [*ENGINE, *BLOCKS, *PICTURES], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_modules_that_switch_something_run_in_what_is_interrupted(make: Callable[[], Callable[[], Any]]) -> None:
    modules = {**ENGINE, **BLOCKS, **PICTURES}[make]
    notes = Instants(modules=modules)
    make()()
    notes.run(make())
    assert {Path(code.co_filename).stem for code, _ in notes.passed} == set(modules)


def test_a_guard_that_is_left_too_late_is_found() -> None:
    """The tester is tested: with one ``finally`` only, which an interrupt may hit, torch's autograd stays off."""

    def once(run: Callable[..., Any], *args: Any) -> Any:
        below_autograd._leave_out(below_autograd._RECORDS, True)
        try:
            return run(*args)
        finally:
            below_autograd._leave_out(below_autograd._RECORDS, False)

    once.__code__ = once.__code__.replace(co_filename=str(Path(nbgrad.__file__).parent / "once.py"))
    before, found = switched(), []
    notes = Instants(modules=["once"])
    notes.run(lambda: once(int))
    for number in range(len(notes.passed)):
        tracer = Instants(number, ["once"])
        assert tracer.run(lambda: once(int))
        try:
            check_untouched(before, str(tracer.hit))
        except AssertionError as error:
            found.append(str(error))
            below_autograd._leave_out(below_autograd._RECORDS, False)
    assert found
    assert all("exclude" in one for one in found)


def _each(module: str, run: Callable[[], Any]) -> Iterator[str]:
    """Run what ``run`` makes, each time with an interrupt before another instruction of ``module``; yield its place."""
    for number in itertools.count():
        tracer = Instants(number, [module])
        if not tracer.run(run()):
            return
        yield str(tracer.hit)


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_at_the_end_of_a_backward_leaves_a_graph_that_fits_together() -> None:
    """The graph shows this backward or the one before it. The next backward is as usual."""

    def step() -> None:
        y = x * x
        y.sum().backward()

    graphs: list[nbgrad.AutogradGraph] = []
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)

    def run() -> Callable[[], Any]:
        graphs.append(nbgrad.AutogradGraph())
        graphs[-1].__enter__()
        step()
        recorder = graphs[-1].listener
        y = (x * x).sum()
        recorder.on_backward_begin([(y.origin, nbgrad.ones(()))])
        recorder.on_gradient(y.origin, torch.ones(()), False)
        return recorder.on_backward_end

    before = current()
    for hit in _each("listener", run):
        graph = graphs[-1]
        assert len(graph.records) == 3, hit
        assert graph.frame is not None, hit
        assert graph.frame.number in (1, 2), hit
        assert graph.frame.number >= graph.backwards, hit
        step()
        assert graph.listener.changes.backwards == graph.backwards, hit
        assert graph.frame.number == graph.backwards, hit
        assert [frame.number for frame in graph.history][-1] == graph.backwards, hit
        graph.leave()
        graph.close()
        assert len(graph.records) == 3, hit
        state.set_state(before)
    graphs[-1].leave()
    assert len(graphs) > 50


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_while_a_tensor_gets_other_data_loses_no_hook() -> None:
    calls: list[Any] = []
    made: list[nbgrad.Tensor] = []

    def change() -> None:
        made[-1].data = torch.ones(2, 2)

    def run() -> Callable[[], Any]:
        made.append(leaf())
        made[-1].register_hook(calls.append)
        return change

    for hit in _each("tensor", run):
        change()
        calls.clear()
        (made[-1] * made[-1]).sum().backward()
        assert len(calls) == 1, hit
    assert len(made) > 20


def _interrupted(make: Callable[[], Change]) -> list[tuple[Any, str]]:
    """The outcomes of a change, each with the place where Ctrl-C hit it. The last outcome is that without Ctrl-C."""
    make().change()  # creates what the first run creates and all later runs use
    notes, found = Instants(), []
    whole = make()
    assert not notes.run(whole.change)
    for number in notes.signalled():
        one, tracer = make(), Instants(number)
        assert tracer.run(one.change)
        found.append((one.outcome(), str(tracer.hit)))
    assert len(found) > 3
    return [*found, (whole.outcome(), "no interrupt")]


@pytest.mark.parametrize("make", CHANGES, ids=lambda make: make.__name__)
def test_an_interrupted_change_in_place_is_whole_or_has_not_begun(make: Callable[[], Change]) -> None:
    """Ctrl-C cannot stop torch in the middle of an op, so data and history always fit together. The same holds here."""
    before = make().outcome()
    outcomes = _interrupted(make)
    after = outcomes[-1][0]
    assert before != after or make.__name__ == "frozen"
    for outcome, hit in outcomes:
        assert outcome in (before, after), hit
    assert outcomes[0][0] == before


def test_an_interrupted_function_that_changes_its_input_has_changed_all_history_or_none() -> None:
    """The user's forward may stop after its change. Then only the data are changed, as in torch."""

    class Doubled(nbgrad.autograd.Function):
        stops = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.data.mul_(2)
            if Doubled.stops:
                raise KeyboardInterrupt
            return x

        @staticmethod
        def backward(_: Any, g: Any) -> Any:
            return g * 2

    def make() -> Change:
        x = leaf()
        y = x * 2
        v, w = y[:2], y[1:]
        return Change(x, [v, w, y], lambda: Doubled.apply(v))

    before, stopped = make().outcome(), make()
    Doubled.stops = True
    with pytest.raises(KeyboardInterrupt):
        stopped.change()
    Doubled.stops = False
    torn = stopped.outcome()
    outcomes = _interrupted(make)
    after = outcomes[-1][0]
    assert torn not in (before, after)
    for outcome, hit in outcomes:
        assert outcome in (before, torn, after), hit


def test_a_change_in_place_whose_result_is_refused_is_whole() -> None:
    """An observer raises after the op has run: both the data and the history are changed."""
    x = leaf()
    y = x - 1
    v = y[:2]
    with nbgrad.detect_anomaly(), pytest.raises(nbgrad.AnomalyError, match="log_"):
        v.log_()
    assert y.isinf().any()
    assert y.grad_fn is not None
    assert y.grad_fn.op.name == "view_scatter"
    assert v.grad_fn is not None
    assert v.grad_fn.op.name == "getitem"


@pytest.mark.parametrize("op", ["mul_", "view_scatter"])
def test_a_change_in_place_that_an_observer_refuses_is_whole(op: str) -> None:
    class Refusing(nbgrad.extend.Observer):
        def on_record(self, node: Any, args: Any, out: Any) -> None:  # an Observer's arguments
            if node.op.name == op:
                raise ValueError(op)

    x = leaf()
    y = x * 2
    v = y[:2]
    with nbgrad.extend.observe(Refusing()), pytest.raises(ValueError, match=op):
        v.mul_(5)
    (y.sum() + v.sum()).backward()
    assert y.tolist() == [10, 20, 6]
    assert x.grad is not None
    assert x.grad.tolist() == [20, 20, 2]


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_while_an_error_is_noted_loses_no_complete_backward() -> None:
    def hook(_: Any) -> None:
        raise ValueError("no")

    made: list[tuple[nbgrad.AutogradGraph, ValueError]] = []

    def run() -> Callable[[], Any]:
        x = leaf()
        graph = nbgrad.AutogradGraph()
        graph.__enter__()
        (x * x).sum().backward()
        y = x * 2
        y.register_hook(hook)
        with pytest.raises(ValueError, match="no") as raised:
            y.sum().backward()
        graph.leave()
        made.append((graph, raised.value))
        return lambda: graph.raised(raised.value)

    for hit in _each("graph", run):
        graph, error = made[-1]
        graph.recovered()
        assert graph.frame is not None, hit
        assert graph.frame.number == 1, hit
        graph.raised(error)
        assert graph.frame.number == 0, hit
        graph.recovered()
        assert graph.frame.number == 1, hit
    assert len(made) > 10


def test_an_interrupt_in_a_hook_leaves_torchs_autograd_on() -> None:
    x = nbgrad.tensor([1.0], requires_grad=True)
    y = x * x

    def hook(_: Any) -> None:
        raise KeyboardInterrupt

    y.register_hook(hook)
    before = switched()
    with pytest.raises(KeyboardInterrupt) as raised:
        y.sum().backward()
    check_untouched(before, "while the traceback is held")
    frames = raised.traceback
    del raised, frames
    check_untouched(before, "and after it has gone")


def test_switches_of_torchs_that_a_hook_leaves_are_put_back() -> None:
    """The exits of torch's own blocks are Python functions: an interrupt may hit their first instruction."""
    x = nbgrad.tensor([1.0], requires_grad=True)
    y = x * x

    def hook(_: Any) -> None:
        torch.no_grad().__enter__()
        torch.set_autocast_enabled("cpu", True)
        raise KeyboardInterrupt

    y.register_hook(hook)
    before = switched()
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    check_untouched(before, "a hook")


def test_open_blocks_are_left_and_settings_stay() -> None:
    begin = current()
    try:
        nbgrad.set_grad_enabled(False)
        nbgrad.no_grad().__enter__()
        nbgrad.AutogradGraph().__enter__()
        nbgrad.detect_anomaly().__enter__()
        nbgrad.set_grad_enabled(True)
        left = state.unwound(begin)
        assert not left.grad_enabled
        assert left.observers == ()
        inner = current()
        assert state.unwound(inner) is inner
    finally:
        state.set_state(begin)
        unfollow_to(0)


@pytest.mark.parametrize("turn", [turns.running, turns.tracing], ids=["run", "trace"])
def test_an_interrupted_turn_keeps_no_thread_waiting(turn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock or a place in the queue that stayed behind would let every program of every thread wait for ever."""
    monkeypatch.setattr(turns, "_PATIENCE", 0.01)

    def take() -> None:
        with turn if turn is turns.running else turn():
            pass

    def others() -> None:
        with turns.running:
            pass
        with turns.tracing():
            pass

    hits = 0
    for hit in _each("turns", lambda: take):
        hits += 1
        thread = threading.Thread(target=others, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), hit
        others()
    assert hits > 30


def test_an_interrupted_trace_leaves_no_mode_of_torch_on() -> None:
    """The last steps of torch's blocks are Python functions, which Ctrl-C may hit: then the mode stays on the stack."""

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's classes have no types
        pass

    make: Any = Mode

    def interrupted() -> None:
        with turns.tracing():
            FakeTensorMode().__enter__()
            make().__enter__()
            raise KeyboardInterrupt

    FakeTensorMode()  # the first one imports modules, which change the warnings
    before = switched()
    with make() as own:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert torch._C._len_torch_dispatch_stack() == 1
        assert torch._C._get_dispatch_stack_at(0) is own
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    check_untouched(before, "an interrupted trace")


def _steps(make: Callable[[], Callable[[], Any]], modules: tuple[str, ...], name: str) -> Iterator[str]:
    """Interrupt each instruction of the function ``name`` in these modules, in a new run of ``make`` each time."""
    run = make()
    run()
    notes = Instants(modules=modules)
    notes.run(run)
    for number in notes.each():
        if notes.passed[number][0].co_name == name:
            tracer = Instants(number, modules)
            tracer.run(run)
            yield f"{tracer.hit}"


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
@pytest.mark.parametrize("name", ["storage_of", "_of", "run", "of"])
def test_an_interrupted_trace_hides_no_call_of_torch_from_the_next_one(name: str) -> None:
    """A block in which torch asks no mode that is never left would hide all calls of later traces."""
    before, hits = switched(), 0
    for hit in _steps(tracing, ("fake",), name):
        hits += 1
        check_untouched(before, hit)
    assert hits > 10
    tracing()()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["release", "_released", "restore_modules", "release_settings", "restore"])
def test_an_interrupt_at_the_end_of_a_trace_leaves_the_tensors_their_data(name: str) -> None:
    run = tracing()
    want, hits = run(), 0
    for hit in _steps(lambda: run, ("tracing", "tracer", "turns"), name):
        hits += 1
        assert run() == want, hit
    assert hits > 3


def test_an_interrupt_in_a_muted_function_leaves_torchs_modes_on() -> None:
    before = torch._C._get_torch_function_state()  # type: ignore[attr-defined]  # missing in torch's stubs
    run = muted(lambda: None)
    for hit in _each("function_mode", lambda: run):
        assert torch._C._get_torch_function_state() == before, hit  # type: ignore[attr-defined]


def test_an_interrupt_at_the_end_of_torchs_no_grad_cannot_come_while_a_program_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last step of torch's ``no_grad`` is Python: if Ctrl-C hits its beginning, torch records nothing any more."""

    def hit(*_: object) -> None:
        raise KeyboardInterrupt

    run = tracing()
    want = run()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(torch.no_grad, "__exit__", hit)
            again = run()
        assert again == want
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
