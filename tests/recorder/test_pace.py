"""Paced recording: which steps of a loop are recorded, and what a graph knows of the others."""

import contextvars
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import AutogradGraph
from nbgrad.core.engine import pacing

_OPTIMIZERS: Any = import_module("torch.optim.optimizer")
_SCHEDULERS: Any = import_module("torch.optim.lr_scheduler")


class Loop:
    """A model of one layer and its steps, in torch's dialect or ours."""

    def __init__(self, ours: bool) -> None:
        torch.manual_seed(0)
        self.lib: Any = nbgrad if ours else torch
        self.net = self.lib.nn.Linear(3, 1)
        self.optimizer = self.lib.optim.SGD(self.net.parameters(), lr=0.01)
        x = torch.randn(8, 3)
        self.x, self.y = (nbgrad.tensor(x), nbgrad.tensor(x.sum(1, True))) if ours else (x, x.sum(1, True))

    def loss(self) -> Any:
        return ((self.net(self.x) - self.y) ** 2).mean()

    def step(self, factor: float = 1.0) -> None:
        self.optimizer.zero_grad()
        loss = self.loss() * factor
        loss.backward()
        self.optimizer.step()


@pytest.fixture(params=[False, True], ids=["torch", "ours"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return Loop(request.param)


def numbers(graph: AutogradGraph) -> list[int]:
    """The numbers of the recorded backwards."""
    return [frame.number for frame in graph.history]


def torchs() -> dict[str, Any]:
    """The functions and hooks of torch that a graph replaces or adds to."""
    return {
        "call": torch.nn.Module.__dict__["__call__"],
        "zero_grad": _OPTIMIZERS.Optimizer.zero_grad,
        "schedule": _SCHEDULERS.LRScheduler.step,
        "ask": torch.nn.functional.has_torch_function,
        "modes": torch._C._len_torch_function_stack(),
        "register": torch.autograd.function._HookMixin.__dict__["_register_hook"],
        "backward": torch.autograd._engine_run_backward,  # type: ignore[attr-defined]  # private
        "pre": dict(_OPTIMIZERS._global_optimizer_pre_hooks),
        "post": dict(_OPTIMIZERS._global_optimizer_post_hooks),
    }


def test_one_step_of_so_many_is_recorded_and_the_last(loop: Loop) -> None:
    with AutogradGraph(every=10) as graph:
        for _ in range(35):
            loop.step()
    assert numbers(graph) == [1, 2, 11, 21, 31, 35]
    assert (graph.backwards, graph.recorded) == (35, 6)
    assert graph.fault is None


def test_the_numbers_are_those_of_the_same_loop_in_full() -> None:
    found = []
    for every in (1, 7):
        loop = Loop(ours=False)
        with AutogradGraph(every=every, history=100) as graph:
            for _ in range(30):
                loop.step()
        found.append((graph, [one.value for one in graph.losses], loop.net.weight.detach().clone()))
    (full, losses, weight), (paced, others, same) = found
    assert torch.equal(weight, same)
    assert losses == others
    norms = {frame.number: [one.gradient for one in frame.records] for frame in full.history}
    assert all([one.gradient for one in frame.records] == norms[frame.number] for frame in paced.history)


@pytest.mark.rotated(3)
def test_the_first_steps_are_recorded_and_then_as_many_as_the_cost_allows(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(plain=1.0, more=0.5)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None, cost=0.1) as graph:
        for _ in range(1000):
            clock.passes(graph)
            loop.step()
    assert numbers(graph)[:4] == [1, 2, 3, 4]
    spent = 0.5 * graph.recorded / 1000
    assert 0.03 < spent <= 0.04 + 4 * 0.5 / 1000  # the rest is for the end of the graph


class Clock:
    """A clock on which a step takes so many seconds, and ``more`` if it is recorded."""

    def __init__(self, plain: float, more: float) -> None:
        self.plain, self.more, self.now = plain, more, 0.0

    def __call__(self) -> float:
        return self.now

    def passes(self, graph: AutogradGraph) -> None:
        self.now += self.plain if graph.pace.rests else self.plain + self.more


@pytest.mark.sampled(2)
def test_a_recording_that_costs_nothing_rests_only_to_be_measured(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(plain=1.0, more=0.01)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None) as graph:
        for _ in range(500):
            clock.passes(graph)
            loop.step()
    assert graph.recorded > 480


def counted_rounds(loop: Loop, after: Callable[[], None]) -> None:
    for _ in range(201):
        loop.step()
        after()


def shuffled_batches(loop: Loop, after: Callable[[], None]) -> None:
    loader = torch.utils.data.DataLoader(torch.arange(3.0), shuffle=True)  # type: ignore[arg-type]  # has items
    for _epoch in range(67):  # a name of its own: its value says which round runs
        for _batch in loader:
            loop.step()
            after()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cost", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("plain", [2e-5, 3e-4, 1e-3, 5e-3, 0.1])
@pytest.mark.parametrize("more", [2e-4, 3e-3, 0.05])
@pytest.mark.parametrize("run", [counted_rounds, shuffled_batches])
def test_all_steps_are_counted_at_any_speed(
    run: Callable[[Loop, Callable[[], None]], None],
    plain: float,
    more: float,
    cost: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, loop = Clock(plain, more), Loop(ours=False)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    done = 0

    def after() -> None:
        nonlocal done
        clock.passes(graph)
        done += 1
        if done % 50 == 7:
            assert graph.backwards == graph.pace.steps == len(graph.losses) == done

    with AutogradGraph(every=None, cost=cost) as graph:
        run(loop, after)
    assert graph.backwards == graph.pace.steps == len(graph.losses) == 201
    assert graph.fault is None
    assert 4 <= graph.recorded <= 201


def test_torchs_functions_are_its_own_between_recorded_steps() -> None:
    before, loop = torchs(), Loop(ours=False)
    with AutogradGraph(every=10) as graph:
        for _ in range(15):
            loop.step()
        assert graph.pace.rests
        assert different(before) == {"backward", "pre", "post"}
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.ones(3) + torch.ones(4)
        assert different(before) == {"backward", "pre", "post"}
    assert different(before) == set()


def different(before: dict[str, Any]) -> set[str]:
    now = torchs()
    return {name for name in before if before[name] is not now[name] and before[name] != now[name]}


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_error_between_recorded_steps_leaves_torch_as_it_was(loop: Loop, error: BaseException) -> None:
    before = torchs()
    graph = AutogradGraph(every=10)

    def train() -> None:
        with graph:
            for at in range(15):
                loop.step()
                if at == 13:
                    raise error

    with pytest.raises(type(error)):
        train()
    assert different(before) == set()
    assert pacing.pacers() == ()
    assert (graph.backwards, graph.recorded) == (14, 3)
    assert "backward 11, the last recorded one" in graph_text(graph)


def graph_text(graph: AutogradGraph) -> str:
    from nbgrad.widgets.describe import outline
    from nbgrad.widgets.render.text import text

    return text(outline(graph).description)


def test_the_picture_says_which_backward_it_shows(loop: Loop) -> None:
    with AutogradGraph(every=10) as graph:
        steps = iter(range(18))
        while next(steps, None) is not None:  # no line says how many there are
            loop.step()
    told = graph_text(graph)
    assert "backward 11 from" in told
    assert "the last recorded of 18" in told
    weight = next(one for one in graph.records if one.name == "weight")
    assert weight.since is not None
    assert weight.since.grad is None
    assert weight.since.later is not None
    assert weight.since.later.norm == pytest.approx(float(raw(loop.net.weight.grad).norm()))


def raw(tensor: Any) -> torch.Tensor:
    return tensor.data if isinstance(tensor, nbgrad.Tensor) else tensor


def test_two_optimizers_that_take_turns_are_one_step(loop: Loop) -> None:
    other = loop.lib.nn.Linear(3, 1)
    second = loop.lib.optim.SGD(other.parameters(), lr=0.01)

    def step() -> None:
        loop.step()
        second.zero_grad()
        ((other(loop.x) - loop.net(loop.x)) ** 2).mean().backward()
        second.step()

    with AutogradGraph(every=5) as graph:
        for _ in range(12):
            step()
    found = numbers(graph)
    assert found == [1, 2, 3, 4, 11, 12, 21, 22, 23, 24]


def test_accumulated_backwards_are_one_step(loop: Loop) -> None:
    with AutogradGraph(every=4) as graph:
        for _ in range(9):
            loop.optimizer.zero_grad()
            for _ in range(3):
                (loop.loss() / 3).backward()
            loop.optimizer.step()
    assert numbers(graph) == [*range(1, 7), *range(13, 16), *range(25, 28)]
    assert [one.kind for one in graph.findings()] == []


def test_accumulation_by_the_number_of_the_round(loop: Loop) -> None:
    with AutogradGraph(every=100) as graph:
        for at in range(40):
            (loop.loss() / 4).backward()
            if at % 4 == 3:
                loop.optimizer.step()
                loop.optimizer.zero_grad()
    assert numbers(graph) == [*range(1, 9), *range(37, 41)]


def package(folder: Path, name: str, text: str) -> Any:
    """A module of an installed package."""
    file = folder / "site-packages" / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_step_that_a_package_takes_has_the_users_line(loop: Loop, tmp_path: Path) -> None:
    helper = package(tmp_path, "helper", "def backward(loss): loss.backward()\ndef step(optimizer): optimizer.step()\n")
    other = Loop(loop.lib is nbgrad)
    with AutogradGraph(every=10) as graph:
        for _ in range(25):
            loop.optimizer.zero_grad()
            other.optimizer.zero_grad()
            helper.backward(loop.loss())
            helper.step(loop.optimizer)
            helper.backward(-other.loss())
            helper.step(other.optimizer)
    assert {one.place.text for one in graph.losses} == {
        "helper.backward(loop.loss())",
        "helper.backward(-other.loss())",
    }
    assert numbers(graph) == [1, 2, 3, 4, 21, 22, 41, 42, 49, 50]


def test_the_losses_of_a_loop_in_a_package_have_the_lines_of_the_package(loop: Loop, tmp_path: Path) -> None:
    text = "def train(loop):\n    loop.loss().backward()\n    (2 * loop.loss()).backward()\n"
    trainer = package(tmp_path, "trainer", text)
    with AutogradGraph() as graph:
        for _ in range(3):
            trainer.train(loop)
    assert [one.place.text for one in graph.losses] == 3 * ["loop.loss().backward()", "(2 * loop.loss()).backward()"]


def test_a_closure_is_a_part_of_the_step() -> None:
    loop = Loop(ours=False)
    optimizer = torch.optim.LBFGS(loop.net.parameters(), max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loop.loss()
        loss.backward()
        return loss

    with AutogradGraph(every=3) as graph:
        ends = []
        for _ in range(6):
            optimizer.step(closure)
            ends.append(graph.backwards)
    first = set(range(1, ends[1] + 1))
    fourth = set(range(ends[2] + 1, ends[3] + 1))
    last = set(range(ends[4] + 1, ends[5] + 1))
    assert set(numbers(graph)) == first | fourth | last


def test_without_an_optimizer_two_backwards_are_recorded_together(loop: Loop) -> None:
    w = loop.lib.ones(3, requires_grad=True)
    with AutogradGraph(every=10) as graph:
        for _ in range(25):
            (w * w).sum().backward()
            with loop.lib.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
    assert numbers(graph) == [1, 2, 3, 11, 12, 21, 22, 25]
    assert graph.findings() == []


@pytest.mark.parametrize(("create_graph", "times"), [(True, 100), (False, 40)], ids=["flow", "attack"])
def test_gradients_inside_of_a_step_end_none(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, create_graph: bool, times: int
) -> None:
    clock = Clock(plain=1.0, more=0.5)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    grad = nbgrad.grad if loop.lib is nbgrad else torch.autograd.grad
    x = loop.x.detach().clone().requires_grad_()
    with AutogradGraph(every=None) as graph:
        for _ in range(times):
            clock.passes(graph)
            (slope,) = grad(loop.net(x).sum(), [x], create_graph=create_graph)
            x = x + 0.1 * slope if create_graph else (x + 0.1 * slope).detach().requires_grad_()
        (loop.net(x).sum() + loop.net.weight.sum()).backward()
        assert graph.recorded == times + 1


def test_a_loop_that_asks_only_for_gradients_is_paced(loop: Loop) -> None:
    grad = nbgrad.grad if loop.lib is nbgrad else torch.autograd.grad
    with AutogradGraph(every=10, history=1000) as graph:
        for _ in range(200):
            grad(loop.loss(), list(loop.net.parameters()))
    assert numbers(graph)[:64] == list(range(1, 65))
    assert 70 < graph.recorded < 100
    assert numbers(graph)[-1] == 200


def test_a_leap_of_the_loss_is_followed_by_recorded_steps(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(plain=1.0, more=0.5)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None, cost=0.05) as graph:
        steps = iter(range(72))
        while (at := next(steps, None)) is not None:
            clock.passes(graph)
            loop.step(1e4 if at == 65 else 1.0)
    assert {67, 68, 69} <= set(numbers(graph))
    assert not {64, 65, 66} & set(numbers(graph))


def test_a_loss_that_was_not_finite_is_named_where_it_was_not_recorded(loop: Loop) -> None:
    with AutogradGraph(every=20) as graph:
        for at in range(50):
            loop.step(float("nan") if at == 24 else 1.0)
    (found,) = graph.findings()
    assert found.kind == "nan"
    assert "since backward 25 at" in found.text
    assert "whose loss was nan. It was not recorded: %%autograd --every 1" in found.text


def test_the_losses_of_all_backwards_are_known(loop: Loop) -> None:
    expected = []
    with AutogradGraph(every=10) as graph:
        for _ in range(25):
            expected.append(float(raw(loop.loss().detach())))
            loop.step()
    assert [one.number for one in graph.losses] == list(range(1, 26))
    assert [one.value for one in graph.losses] == pytest.approx(expected)
    assert {one.place.text for one in graph.losses} == {"loss.backward()"}


def test_some_losses_of_one_line_are_picked(loop: Loop) -> None:
    with AutogradGraph() as graph:
        for _ in range(9):
            loop.step()
            (loop.net(loop.x) ** 2).mean().backward()
    losses = graph.pace.losses
    assert losses.along(1, 100) == [one for one in graph.losses if one.number % 2]
    assert [one.number for one in losses.along(18, 5)] == [2, 6, 10, 14, 18]
    assert losses.along(19, 5) == []


def test_several_roots_have_no_loss() -> None:
    w = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        torch.autograd.backward([w.sum(), (w * w).sum()])
        (w * w).backward(torch.ones(2))
        (w.sum() * float("nan")).backward()
    assert [one.value for one in graph.losses][:2] == [None, None]
    assert graph.losses[2].value != graph.losses[2].value


def plain(loop: Loop) -> None:
    for _step in range(3, 40, 2):
        loop.step()


def enumerated(loop: Loop) -> None:
    items = [0] * 23
    for _at, _ in enumerate(items, 5):
        loop.step()


def nested(loop: Loop) -> None:
    for _epoch in range(3):
        for _batch in range(11):
            loop.step()


def inside(loop: Loop) -> None:
    def train() -> None:
        for _batch in range(9):
            loop.step()

    for _epoch in range(4):
        train()


def computed(loop: Loop) -> None:
    epochs, data = 3, [0, 1, 2, 3, 4]
    for _step in range(epochs * len(data)):
        loop.step()


LASTS = {plain: 19, enumerated: 23, nested: 33, inside: 36, computed: 15}
"""Loops that say how often they run, each with the number of its last backward."""


@pytest.mark.parametrize(("run", "last"), LASTS.items(), ids=[run.__name__ for run in LASTS])
def test_the_last_step_is_foreseen(loop: Loop, run: Callable[[Loop], None], last: int) -> None:
    with AutogradGraph(every=1000) as graph:
        run(loop)
    assert numbers(graph) == [1, 2, last]


def test_the_last_batch_of_a_loader_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.pace._SHORT", 0.0)
    loop = Loop(ours=False)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(loop.x), batch_size=2)
    with AutogradGraph(every=1000) as graph:
        for _epoch in range(3):
            for _ in loader:
                loop.step()
    assert numbers(graph) == [1, 2, 12]


def test_a_loop_that_says_nothing_is_not_guessed(loop: Loop) -> None:
    with AutogradGraph(every=1000) as graph:
        for _ in (one for one in range(20)):
            loop.step()
    assert numbers(graph) == [1, 2]


def test_a_loop_with_a_while_around_it_is_not_guessed(loop: Loop) -> None:
    with AutogradGraph(every=1000) as graph:
        rounds = 0
        while rounds < 2:
            rounds += 1
            for _step in range(5):
                loop.step()
    assert numbers(graph) == [1, 2]


def test_inside_of_a_block_it_does_not_rest() -> None:
    loop = Loop(ours=True)
    with AutogradGraph(every=10) as graph, nbgrad.scope("block"):
        for _ in range(12):
            loop.step()
    assert graph.recorded == 12


def test_a_graph_inside_of_another_does_not_rest(loop: Loop) -> None:
    with AutogradGraph() as outer, AutogradGraph(every=10) as graph:
        for _ in range(12):
            loop.step()
    assert (graph.recorded, outer.recorded) == (12, 12)


def test_a_graph_that_opens_while_another_rests(loop: Loop) -> None:
    with AutogradGraph(every=10) as outer:
        for _ in range(5):
            loop.step()
        assert outer.pace.rests
        with AutogradGraph() as inner:
            loop.step()
        for _ in range(8):
            loop.step()
    assert (inner.backwards, inner.recorded) == (1, 1)
    assert outer.backwards == 14
    assert numbers(outer) == [1, 2, 5, 11, 14]


class Again(torch.autograd.Function):
    """Runs a backward of its own inside of the backward, as a checkpoint does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            (torch.ones(1, requires_grad=True) * 2).sum().backward()
        return gradient


def quick_rounds(loop: Loop, after: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> AutogradGraph:
    """A graph of 60 quick steps. ``after`` each one that no decision follows, it is called with the steps by then."""
    clock = Clock(plain=1e-4, more=1e-2)
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None) as graph:
        for at in range(60):
            clock.passes(graph)
            loop.step()
            if pacing.passing() is not None:
                after(at + 1)
    return graph


def test_what_happens_between_quick_steps_is_no_part_of_them(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    other, seen = Loop(ours=False), list[int]()

    def after(steps: int) -> None:
        seen.append(steps)
        thread = threading.Thread(target=other.step)
        thread.start()
        thread.join()
        contextvars.Context().run(other.step)  # a task that began before the graph
        torch.func.vmap(torch.func.grad(lambda one: one * one))(torch.ones(3))

    graph = quick_rounds(loop, after, monkeypatch)
    assert len(seen) > 20
    assert (graph.backwards, graph.pace.steps, len(graph.losses)) == (60, 60, 60)
    assert graph.fault is None


class Following(pacing.Pacer):
    """Remembers how many steps had ended each time that it was notified of one."""

    def __init__(self) -> None:
        self.graph: AutogradGraph | None = None
        self.seen: list[int] = []

    def step_ended(self, optimizer: Any) -> None:
        assert self.graph is not None
        self.seen.append(self.graph.pace.steps)


@pytest.mark.parametrize("late", [False, True])
def test_another_pacer_is_late_for_quick_steps_only_if_it_may_be(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    clock, other = Clock(plain=1e-4, more=1e-2), Following()
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None) as graph:
        other.graph = graph
        pacing.add(other, late=late)
        for _ in range(200):
            clock.passes(graph)
            loop.step()
        pacing.remove(other)
    assert (graph.backwards, graph.pace.steps, len(graph.losses)) == (200, 200, 200)
    apart = [after - before for before, after in itertools.pairwise(other.seen)]
    if late:
        assert 2 < max(apart) <= pacing.QUIET
        assert other.seen[-1] > 200 - pacing.QUIET
    else:
        assert other.seen == list(range(1, 201))


def test_a_backward_inside_of_a_quick_one_is_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nested(Loop):
        def loss(self) -> Any:
            return Again.apply(super().loss())

    seen: list[int] = []
    graph = quick_rounds(Nested(ours=False), seen.append, monkeypatch)
    assert len(seen) > 20
    assert (graph.backwards, graph.pace.steps) == (60, 60)
    assert all(one.value is not None and one.value != 2 for one in graph.losses)


def test_another_optimizer_ends_the_quick_steps(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    other, seen = Loop(loop.lib is nbgrad), list[int]()

    def after(steps: int) -> None:
        if not seen:
            other.step()
        seen.append(steps)

    graph = quick_rounds(loop, after, monkeypatch)
    assert seen
    assert graph.backwards == len(graph.losses) == 61
    assert graph.pace.steps in (60, 61)  # a new line belongs to the step before it
    assert graph.fault is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("factor", [1e6, float("nan"), float("-inf")])
@pytest.mark.parametrize("begin", range(100, 108))
def test_a_leap_among_quick_steps_is_followed_at_once(
    loop: Loop, factor: float, begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, quick = Clock(plain=1e-3, more=1e-3), 0
    monkeypatch.setattr("nbgrad.core.graph.pace.perf_counter", clock)
    with AutogradGraph(every=None) as graph:
        for at in range(150):
            clock.passes(graph)
            quick += at > begin - 8 and pacing.passing() is not None
            loop.step(factor if at == begin else 1.0)
            if at == begin:
                assert not graph.pace.rests
    assert quick
    assert begin + 2 in numbers(graph)
    assert graph.fault is None


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_the_loss_of_a_quick_step_is_a_number(
    kind: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Typed(Loop):
        def loss(self) -> Any:
            return (super().loss() + 1 / 3).to(kind).reshape(shape)

        def step(self, factor: float = 1.0) -> None:
            found.append(self.loss().item())
            super().step(factor)

    found: list[float] = []
    graph = quick_rounds(Typed(ours=False), lambda _: None, monkeypatch)
    assert [one.value for one in graph.losses] == found


def test_a_thread_of_its_own_is_not_counted() -> None:
    loop, other = Loop(ours=False), Loop(ours=False)
    before = torchs()
    with AutogradGraph(every=10) as graph:
        for _ in range(4):
            loop.step()
            thread = threading.Thread(target=other.step)
            thread.start()
            thread.join()
    assert graph.backwards == 4
    assert different(before) == set()


def test_two_threads_that_rest(loop: Loop) -> None:
    del loop
    before, graphs = torchs(), list[AutogradGraph]()
    start = threading.Barrier(2)

    def train() -> None:
        mine = Loop(ours=False)
        with AutogradGraph(every=5) as graph:
            start.wait()
            for _ in range(21):
                mine.step()
        graphs.append(graph)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [numbers(one) for one in graphs] == [[1, 2, 6, 11, 16, 21]] * 2
    assert [one.fault for one in graphs] == [None, None]
    assert different(before) == set()


def test_a_generator_that_is_never_finished_leaves_torch_as_it_was() -> None:
    before, loop = torchs(), Loop(ours=False)

    def steps() -> Iterator[None]:
        with AutogradGraph(every=10):
            while True:
                loop.step()
                yield

    generator = steps()
    for _ in range(4):
        next(generator)
    del generator
    gc.collect()
    assert different(before) == set()


def test_a_backward_through_an_unrecorded_stretch_says_so(loop: Loop) -> None:
    with AutogradGraph(every=10) as graph:
        steps = iter(range(10))
        while next(steps, None) is not None:
            early = loop.loss()
            loop.step()
        assert not graph.pace.rests
        early.backward()
    assert "ops of this backward ran between recorded steps" in graph_text(graph)


@pytest.mark.parametrize("options", [{"every": 0}, {"every": "two"}, {"cost": "0%"}, {"cost": "half"}, {"cost": 2}])
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}="):
        nbgrad.record(**options)


def test_options_that_see_every_op_record_every_step(loop: Loop) -> None:
    for name in ("time", "anomaly", "strict_broadcast"):
        with pytest.raises(ValueError, match=f"with {name} each step is recorded"):
            nbgrad.record(every=10, **{name: True})
        with nbgrad.record(view="none", cost="1%", **{name: True}) as graph:
            for _ in range(12):
                loop.step()
        assert graph.recorded == 12


@pytest.mark.rotated(4)
def test_a_long_loop_keeps_its_memory(loop: Loop) -> None:
    begin, found = living(), list[int]()
    with AutogradGraph(every=3, history=8) as graph:
        for _ in range(3):
            for _ in range(2000):
                loop.step()
            found.append(living() - begin)
    assert max(found[1:]) < 1.5 * found[0]
    assert graph.backwards == 6000


def living() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("ours", [False, True], ids=["torch", "ours"])
def test_a_head_that_learned_in_steps_that_were_not_recorded_is_no_unused_layer(ours: bool) -> None:
    """Each step asks one head. The one of steps 4 to 7 moves in no recorded step, and the last one never."""
    lib: Any = nbgrad if ours else torch
    heads = lib.nn.ModuleList([lib.nn.Linear(3, 1) for _ in range(3)])
    body = lib.nn.Linear(3, 3)

    class Net(lib.nn.Module):  # type: ignore[misc]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.body, self.heads = body, heads

        def forward(self, x: Any, which: int) -> Any:
            return self.heads[which](self.body(x))

    net, x = Net(), lib.ones(4, 3)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.01)
    with AutogradGraph(every=10) as graph:
        for at in range(25):
            optimizer.zero_grad()
            net(x, int(4 <= at < 8)).square().mean().backward()
            optimizer.step()
    assert numbers(graph) == [1, 2, 11, 21, 25]
    assert {one.name for one in graph.unreached()} == {"heads.2.weight", "heads.2.bias"}


def _under_no_grad(loop: Loop) -> None:
    with loop.lib.no_grad():
        for one in loop.net.parameters():
            one -= 0.1 * one.grad


def _on_data(loop: Loop) -> None:
    for one in loop.net.parameters():
        one.data -= 0.1 * one.grad


def _with_other_data(loop: Loop) -> None:
    for one in loop.net.parameters():
        one.data = one.data - 0.1 * one.grad


BY_HAND: dict[str, Callable[[Loop], None]] = {
    "under no_grad": _under_no_grad,
    "on data": _on_data,
    "with other data": _with_other_data,
}


class Asking(pacing.Pacer):
    """Asks at each backward whether the first step has ended without an optimizer."""

    def __init__(self, graph: AutogradGraph) -> None:
        self.graph = graph
        self.answers: list[bool] = []

    def backward_begun(self) -> None:
        self.answers.append(self.graph.pace.ended_by_hand())


def answers(loop: Loop, run: Callable[[], object]) -> list[bool]:
    """The answers at the backwards of ``run``, of a program that has no optimizer but those that ``run`` makes."""
    del loop.optimizer
    gc.collect()
    with AutogradGraph() as graph:
        asking = Asking(graph)
        pacing.add(asking)
        try:
            run()
        finally:
            pacing.remove(asking)
    assert len(asking.answers) == graph.backwards
    return asking.answers


@pytest.mark.parametrize("how", BY_HAND)
@pytest.mark.parametrize("accumulated", [1, 3])
def test_a_step_by_hand_is_known_before_the_next_backward(loop: Loop, how: str, accumulated: int) -> None:
    def run() -> None:
        for _ in range(2):
            for _ in range(accumulated):
                loop.loss().backward()
            BY_HAND[how](loop)
            loop.net.zero_grad()

    assert answers(loop, run) == [False] * accumulated + [True] * accumulated


def test_a_backward_by_a_function_is_noticed_when_it_begins(loop: Loop) -> None:
    def run() -> None:
        for _ in range(2):
            loop.lib.autograd.backward(loop.loss())
            BY_HAND["under no_grad"](loop)
        loop.lib.autograd.grad(loop.loss(), list(loop.net.parameters()))

    assert answers(loop, run) == [False, True, True]


def test_gradients_that_are_asked_for_end_a_step_if_parameters_change(loop: Loop) -> None:
    def run() -> None:
        params = list(loop.net.parameters())
        for _ in range(3):
            found = loop.lib.autograd.grad(loop.loss(), params)
            with loop.lib.no_grad():
                for one, gradient in zip(params, found, strict=True):
                    one -= 0.1 * gradient

    assert answers(loop, run) == [False, True, True]


def test_an_attack_on_the_input_ends_no_step_of_an_optimizer(loop: Loop) -> None:
    """It changes the input between gradients that reach nothing else."""

    def run() -> None:
        optimizer = loop.lib.optim.SGD(loop.net.parameters(), lr=0.1)
        loop.x.requires_grad_()
        for _ in range(3):
            (found,) = loop.lib.autograd.grad(loop.loss(), [loop.x])
            with loop.lib.no_grad():
                loop.x += 0.01 * found.sign()
        loop.loss().backward()
        optimizer.step()

    assert answers(loop, run) == [False] * 4


@pytest.mark.parametrize("called", [False, True])
def test_parameters_of_an_optimizer_that_are_changed_by_hand_end_no_step(loop: Loop, called: bool) -> None:
    """The method SAM changes them between the two backwards of a step."""

    def run() -> None:
        optimizer = loop.lib.optim.SGD(loop.net.parameters(), lr=0.1)
        if called:
            optimizer.zero_grad()
        loop.loss().backward()
        BY_HAND["under no_grad"](loop)
        loop.loss().backward()
        optimizer.step()

    assert answers(loop, run) == [False, False]
