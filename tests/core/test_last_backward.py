"""The gradients that a graph keeps of one backward, and the memory budget for it."""

import gc
import itertools
import math
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import raw_of
from nbgrad.core.graph import last_backward
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.last_backward import GRADIENT, OBJECT, UNREDUCED, FrameRecorder, Kept, Lengths, Values
from nbgrad.core.graph.stats import SMALL, Stats, nbytes_of, summarise
from nbgrad.core.tensor.tensor import tensor
from tests.core.interrupting import Instants


def test_beyond_the_budget_only_the_norm_is_kept() -> None:
    kept = Kept(budget=2 * OBJECT + 100)
    for op, count in enumerate((20, 20, 5)):
        kept.keep(op, GRADIENT, torch.ones(count), 4 * count)
    found = kept.summarise()
    assert found[0].values == [1.0] * 20
    assert found[1] == Stats((20,), pytest.approx(math.sqrt(20)))
    assert found[2].values == [1.0] * 5, "what still fits is kept"


def test_what_is_kept_is_told_apart_by_the_op_the_input_and_what_it_is_of() -> None:
    kept = Kept(budget=10_000)
    for count, position in enumerate((GRADIENT, 0, 3, UNREDUCED, UNREDUCED - 3), 1):
        kept.keep(7, position, torch.ones(count), 4 * count)
    sizes = {key: stats.shape for key, stats in kept.summarise().items()}
    assert sizes == {7: (1,), (7, 0): (2,), (7, 3): (3,), (7, 0, "unreduced"): (4,), (7, 3, "unreduced"): (5,)}


def test_the_same_tensor_is_paid_for_once() -> None:
    kept, one, other = Kept(budget=2 * OBJECT + 190), torch.ones(20), torch.ones(25)
    for op, data in enumerate([one, other, one, other, one, one, torch.ones(3)]):
        kept.keep(op, GRADIENT, data, data.nbytes)
    found = kept.summarise()
    assert {key for key, stats in found.items() if stats.values is not None} == set(range(6))
    assert found[6].norm == pytest.approx(math.sqrt(3)), "what does not fit has its norm"


def test_a_sparse_gradient_is_kept_as_a_dense_one() -> None:
    kept = Kept(budget=OBJECT + 36)
    for number in (1, 2):
        kept.keep(number, GRADIENT, torch.eye(3).to_sparse(), 36)
    assert kept.summarise()[1].values == torch.eye(3).tolist()
    assert kept.summarise()[2] == Stats((3, 3), pytest.approx(math.sqrt(3))), "a norm needs no dense one"


@pytest.mark.rotated(6)
@pytest.mark.parametrize("room", [0, 1 << 20])
def test_small_gradients_cost_no_more_than_the_budget_and_a_few_bytes_each(room: int) -> None:
    count = 20_000
    kept, gradient = Kept(room), torch.ones(1)
    tracemalloc.start()
    for op in range(count):
        kept.keep(op, GRADIENT, gradient * 1.0, 4)
    taken, _ = tracemalloc.get_traced_memory()
    held = sum(data.nbytes + OBJECT for data, _ in kept._held().values())
    kept.forget_places()
    known = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held <= room
    assert taken < 64 * count + room
    assert known < 64 * count + room, "where they are is not remembered"
    assert len(kept.summarise()) == len(kept.norms({})) == count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.bool])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_bytes_are_those_that_torch_says(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    assert nbytes_of(shape, dtype) == torch.empty(shape, dtype=dtype).nbytes


@pytest.mark.parametrize("how", ["cat", "reshaped", "hook"])
def test_a_window_is_paid_for_with_all_that_it_keeps(how: str) -> None:
    """Otherwise a small view would keep a large storage beyond the budget, even while the next backward runs."""
    little, large = tensor([[1.0, 2.0]], requires_grad=True), tensor([[1.0, 2.0]] * 4096, requires_grad=True)
    with AutogradGraph(budget=1 << 14) as graph:
        used = little * 1.0
        if how == "hook":
            used.register_hook(lambda _: nbgrad.Tensor(torch.ones(1 << 14)[:2].reshape(1, 2)))
        rows = [used.reshape(2).reshape(1, 2) if how == "reshaped" else used, large * 1.0]
        ((rows[0] if how == "hook" else nbgrad.cat(rows)) ** 2).sum().backward()
        recorder = graph.listener.notes.frame
        assert isinstance(recorder, FrameRecorder)
        sizes = [data.untyped_storage().nbytes() for data, _ in recorder._kept._held().values()]
        assert sum(sizes) < 1 << 14


def test_a_tensor_changed_in_place_since_is_left_out() -> None:
    kept, changed = Kept(budget=10_000), torch.ones(2)
    kept.keep(1, GRADIENT, changed, changed.nbytes)
    kept.keep(2, GRADIENT, torch.ones(3), 12)
    changed.add_(1)
    assert set(kept.summarise()) == {2}
    assert not kept.changed(), "neither is the gradient of a leaf"


def test_a_leafs_gradient_that_was_changed_in_place_is_noticed() -> None:
    kept, gradient = Kept(budget=10_000), torch.ones(2)
    kept.keep(1, GRADIENT, torch.ones(3), 12, leaf=True)
    kept.keep(2, 0, gradient, gradient.nbytes, 3, leaf=True)
    assert not kept.changed()
    gradient.add_(1)
    assert kept.changed()


def test_what_the_one_rule_gave_is_the_gradient_and_is_kept_once() -> None:
    kept, data = Kept(budget=3 * OBJECT + 100), torch.ones(20)
    kept.keep(7, 0, data, data.nbytes, 1, leaf=True)
    kept.keep(7, 1, torch.ones(30), 3 * OBJECT, 2)  # there is no room for this one
    kept.keep(7, 2, torch.ones(2), 8, 3)
    assert kept.norms({}) == {}, "that no other rule leads there is known when the walk comes by"
    kept.lone(1)
    kept.lone(2)
    kept.keep(3, GRADIENT, torch.full((2,), 3.0), 8)  # another rule contributed to this one too
    found = kept.summarise()
    assert found == {key: kept.get(key) for key in found}
    assert (found[1].values, found[2], found[3].values) == ([1.0] * 20, found[7, 1], [3.0, 3.0])
    assert found[7, 1] == Stats((30,), pytest.approx(math.sqrt(30)))
    found_norms = {whose: float(norm) for whose, norm in kept.norms({}).items()}
    assert found_norms == pytest.approx({1: math.sqrt(20), 2: math.sqrt(30), 3: math.sqrt(18)})
    assert not kept.changed()
    data.add_(1)
    assert kept.changed()
    assert (kept.get(1), kept.raw(1)) == (None, None)


def arrive(recorder: FrameRecorder, leaf: int, gradient: torch.Tensor, *, lone: bool) -> None:
    """``gradient`` arrives at a leaf: as a sum of several gradients, or as the result of the only rule."""
    if lone:
        recorder.contribution(9, 0, gradient, gradient.nbytes, leaf, leaf=True)
        recorder.lone(leaf)
    else:
        recorder.gradient(leaf, gradient, gradient.nbytes, leaf=True)
    recorder.leaf(leaf, gradient)


@pytest.mark.parametrize("lone", [True, False])
def test_of_a_leafs_gradient_the_norm_survives_a_change_in_place(lone: bool) -> None:
    recorder, gradient = FrameRecorder((), budget=10_000), torch.tensor([3.0, 4.0])
    arrive(recorder, 5, gradient, lone=lone)
    recorder.end(1, None)
    gradient.mul_(0.1)
    assert recorder.frame().gradients == {5: Stats((2,), 5.0)}


@pytest.mark.parametrize("lone", [True, False])
def test_norms_are_taken_again_once_a_leafs_gradient_was_changed_in_place(lone: bool) -> None:
    recorders: list[FrameRecorder] = []
    for number, change in enumerate([False, False, True, False, False], 1):
        if recorders:
            recorders[-1].give_way()
        recorder, gradient = FrameRecorder((), budget=10_000), torch.tensor([3.0, 4.0])
        arrive(recorder, 5, gradient, lone=lone)
        recorder.end(number, recorders[-1] if recorders else None)
        recorders.append(recorder)
        if change:
            gradient.mul_(2)
    assert [recorder.careful for recorder in recorders] == [False, False, True, True, True], "seen by the next one"
    norms = [recorder.frame().gradients.get(5) for recorder in recorders]
    assert norms[2] is None, "the change came as a surprise: the values are gone, and nothing else is shown for them"
    assert all(norms[k] is not None for k in (0, 1, 3, 4))


LARGE = 16 * SMALL
"""The bytes of a gradient that is not small."""


def large(recorder: FrameRecorder, seq: int) -> weakref.ref[torch.Tensor]:
    """A large gradient that ``recorder`` keeps, or takes the norm of."""
    gradient = torch.ones(LARGE // 8, dtype=torch.float64)
    recorder.gradient(seq, gradient, LARGE)
    return weakref.ref(gradient)


@pytest.mark.parametrize(
    ("budget", "second", "left"),
    [(4, 2, 3), (4, 3, 3), (3, 2, 0), (4, 4, 3)],
    ids=["to the end", "to the third", "not at all", "to the third of four"],
)
def test_the_tensors_of_the_backward_before_stay_as_long_as_the_budget_has_room(
    budget: int, second: int, left: int
) -> None:
    """The first backward has two large gradients.

    Args:
        budget: the number of gradients for which there is room.
        second: the number of gradients of the second backward.
        left: how often we see the gradients of the first one: when the second begins, and after each of its gradients.
    """
    room = budget * (LARGE + OBJECT)
    first = FrameRecorder((), room)
    before = [large(first, seq) for seq in (1, 2)]
    first.end(1, None)
    last = FrameRecorder((), room, None, first)
    there = [[one() is not None for one in before]]
    now = []
    for seq in range(second):
        now.append(large(last, seq))
        there.append([one() is not None for one in before])
    assert there == [[True, True]] * left + [[False, False]] * (second + 1 - left)
    last.end(2, first)
    assert [one() for one in before] == [None, None]
    assert all(one() is not None for one in now), "the budget is for the last backward"
    stats = summarise(torch.ones(LARGE // 8, dtype=torch.float64))
    assert last.frame().gradients == dict.fromkeys(range(second), stats)


def test_a_backward_that_raised_leaves_the_tensors_of_the_one_before() -> None:
    x = torch.ones(SMALL + 1, requires_grad=True)
    with AutogradGraph() as graph:
        (x * 2).sum().backward()
        x.grad = None
        y = x * 3
        y.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert graph.records[0].gradient == summarise(torch.full((SMALL + 1,), 2.0))


@pytest.mark.parametrize("ours", [False, True])
def test_backwards_that_raise_leave_nothing_once_another_has_ended(ours: bool) -> None:
    make = nbgrad.ones if ours else torch.ones
    x = make(3, requires_grad=True)
    gradients: list[weakref.ref[torch.Tensor]] = []

    def fail(gradient: Any) -> None:
        gradients.append(weakref.ref(raw_of(gradient)))
        raise ZeroDivisionError

    with AutogradGraph() as graph:
        for _ in range(5):
            y = x * 3
            y.register_hook(fail)
            z = y * 2
            with pytest.raises(ZeroDivisionError):
                z.sum().backward()
            assert graph.listener.running is None
            del y, z
            x.grad = None
            (x * 2).sum().backward()
        gc.collect()
        assert len(gradients) == 5
        assert [one() for one in gradients] == [None] * 5
        assert graph.backwards == 5


def test_a_backward_inside_of_another_may_raise() -> None:
    x, w = (tensor([1.0, 2.0], requires_grad=True) for _ in range(2))

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    def inside(_: Any) -> None:
        with nbgrad.enable_grad():
            y = w * 3
            y.register_hook(fail)
            z = (y * 2).sum()
        with pytest.raises(ZeroDivisionError):
            z.backward()

    with AutogradGraph() as graph:
        y = x * 2
        y.register_hook(inside)
        (y * y).sum().backward()
        found = {record.name: record for record in graph.records if record.kind == "leaf"}
        assert graph.backwards == 1
        assert [record.gradient.values for record in found.values() if record.gradient] == [[8.0, 16.0]]


def test_a_frame_is_the_recorder_as_data() -> None:
    recorder, step = FrameRecorder((7,), budget=10_000), Reduction((2, 3), (3,), (0,), 2)
    recorder.reductions[7, 0] = step
    recorder.gradient(7, torch.ones(1), 4)
    recorder.gradient(8, tensor([2.0]), 4)
    recorder.contribution(7, 0, torch.ones(3), 12, 6)
    recorder.end(3, None)
    frame = recorder.frame()
    assert (frame.number, frame.roots) == (3, (7,))
    assert {seq: stats.values for seq, stats in frame.gradients.items()} == {7: [1.0], 8: [2.0]}
    assert {key: stats.shape for key, stats in frame.contributions.items()} == {(7, 0): (3,)}
    assert frame.reductions == {(7, 0): step}


@pytest.mark.parametrize("watch", [True, False])
def test_the_gradients_of_several_results_of_an_op_are_told_together(watch: bool) -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    with AutogradGraph(watch=watch) as graph:
        for _ in range(2):
            first, _, last = x.unbind(0)
            (first * 3 + last * torch.tensor([0.0, math.inf])).sum().backward()
        if watch:
            split = graph.record(first)
            assert split is not None
            assert split.gradient == Stats((2,), math.inf, inf=1), "NaN and Inf are counted in all of them"
        (x.unbind(0)[1] * 7).sum().backward()
    (split,) = [record for record in graph.records if record.op is not None and record.op.name == "unbind"]
    assert graph.history[0].records[1].gradient == (math.inf if watch else None)
    if watch:
        assert split.gradient is not None
        assert split.gradient.values == [7.0, 7.0], "where one alone has a gradient it is that"
    with AutogradGraph(watch=watch) as graph:
        first, _, last = x.unbind(0)
        (first * 3 + last * 4).sum().backward()
    (split,) = [record for record in graph.records if record.op is not None and record.op.name == "unbind"]
    assert split.gradient == (Stats((2,), pytest.approx(math.sqrt(50.0))) if watch else None)
    assert graph.history[0].records[1].gradient == (pytest.approx(math.sqrt(50.0)) if watch else None)


def test_the_gradient_of_the_one_result_that_has_one_can_be_looked_at() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with AutogradGraph() as graph:
        first, second = x.unbind(0)
        (second * 7).sum().backward()
        notes, record = graph.listener.notes, graph.record(first)
        kept = notes.kept_gradient(record.id)
        assert kept is not None
        assert kept.tolist() == [7.0, 7.0]
        (first * 3 + second).sum().backward()
        assert notes.kept_gradient(record.id) is None, "there are two"


def _each_interrupted(run: Callable[[], Callable[[], Any]]) -> "list[str]":
    """Interrupt what ``run`` makes before each instruction of the module ``last_backward``; return the places."""
    hits: list[str] = []
    for number in itertools.count():
        tracer = Instants(number, ["last_backward"])
        if not tracer.run(run()):
            return hits
        hits.append(str(tracer.hit))
    raise AssertionError("unreachable")


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
@pytest.mark.parametrize("room", [0, 1 << 20], ids=["norms", "tensors"])
def test_an_interrupt_at_any_instruction_leaves_whole_what_is_kept(room: int) -> None:
    """Earlier values are there, the current value is there or not, and later values are there."""

    def keep(kept: Kept, op: int) -> None:
        kept.keep(op, 0, torch.ones(op), 4 * op, receiver=100 + op)
        kept.lone(100 + op)

    whole = Kept(room)
    for op in (1, 2, 3):
        keep(whole, op)
    want = whole.summarise()
    made: list[Kept] = []

    def interrupted() -> Callable[[], Any]:
        made.append(Kept(room))
        keep(made[-1], 1)
        return lambda: keep(made[-1], 2)

    hits = _each_interrupted(interrupted)
    assert any(" Kept.keep " in hit for hit in hits)
    assert any(" Lengths.add " in hit for hit in hits) == (room == 0)
    for hit, kept in zip(hits, made, strict=False):
        found = kept.summarise()
        assert found == {key: stats for key, stats in want.items() if key in found}, hit
        assert {(1, 0), 101} <= found.keys(), hit
        keep(kept, 2)
        keep(kept, 3)
        assert kept.summarise() == want, hit


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_at_any_instruction_gives_no_norm_of_a_gpu_to_another_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a device norms stay tensors. Several of them wait until they become one vector."""
    monkeypatch.setattr(last_backward, "_STACKED", 2)

    def add(lengths: Lengths, op: int) -> None:
        lengths.add(op, GRADIENT, 0, (op,), torch.tensor(float(op)) if op % 4 else float(op))

    made: list[Lengths] = []

    def interrupted() -> Callable[[], Any]:
        made.append(Lengths())
        for op in (1, 2, 3, 4):
            add(made[-1], op)
        return lambda: [add(made[-1], op) for op in (5, 6)]

    hits = _each_interrupted(interrupted)
    assert any(" Lengths._stack " in hit for hit in hits)
    for hit, lengths in zip(hits, made, strict=False):
        for more in ((), (5, 6, 7, 8, 9)):
            for op in more:
                add(lengths, op)
            found = lengths.all([])
            assert found.keys() >= {1, 2, 3, 4, *more}, hit
            assert found == {op: Stats((op,), float(op)) for op in found}, hit
            assert {op: float(norm) for op, norm in lengths.norms([]).items()} == {op: float(op) for op in found}, hit
            assert lengths.get(3, []) == found[3], hit


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_at_any_instruction_leaves_small_values_within_their_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(last_backward, "VALUES", 4 * (OBJECT + 4))
    made: list[Values] = []

    def interrupted() -> Callable[[], Any]:
        made.append(Values())
        for op in range(4):
            made[-1].add(op, torch.ones(1))
        return lambda: made[-1].add(4, torch.ones(1))

    hits = _each_interrupted(interrupted)
    assert any(" Values.keep " in hit for hit in hits)
    for hit, values in zip(hits, made, strict=False):
        for op in range(5, 25):
            values.add(op, torch.ones(1))
            assert len(values) <= 4, hit
            assert values.raw(op) is not None, hit


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
def test_an_interrupt_at_any_instruction_leaves_whole_what_was_recorded_of_a_backward() -> None:
    """This is the end of a backward, which computes the norms of the leaves' gradients."""

    def recorder() -> FrameRecorder:
        made = FrameRecorder((1,), 0)
        for seq in (1, 2):
            made.leaf(seq, torch.ones(seq))
        return made

    whole = recorder()
    whole.leaf(3, torch.ones(3))
    want = whole.norms()
    made: list[FrameRecorder] = []

    def interrupted() -> Callable[[], Any]:
        made.append(recorder())
        return lambda: made[-1].leaf(3, torch.ones(3))

    hits = _each_interrupted(interrupted)
    for hit, one in zip(hits, made, strict=False):
        assert one.norms() == {seq: norm for seq, norm in want.items() if seq in one.norms()}, hit
        one.leaf(3, torch.ones(3))
        assert one.norms() == want, hit
    made.clear()

    def ended() -> Callable[[], Any]:
        made.append(recorder())
        return lambda: made[-1].end(1, None)

    hits = _each_interrupted(ended)
    assert any(" Lengths.add " in hit for hit in hits)
    for hit, one in zip(hits, made, strict=False):
        assert one.norms() == {seq: norm for seq, norm in want.items() if seq < 3}, hit
        assert one.number in (0, 1), hit
        one.frame()


def large_step(create_graph: bool, library: Any) -> AutogradGraph:
    """Gradients of results with 90,000 numbers, some of which are views of one another."""
    torch.manual_seed(0)
    start = torch.randn(300, 300)
    w = library.tensor(start.tolist(), requires_grad=True)
    with AutogradGraph() as graph:
        x = (w * 2).t().reshape(30, 10, 300).sin()
        loss = (x.exp() * w.reshape(30, 10, 300)).sum()
        loss.backward(create_graph=create_graph)
    return graph


@pytest.mark.parametrize("library", [nbgrad, torch])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_statistics_are_the_same_whether_taken_early_or_late(
    library: Any, create_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = large_step(create_graph, library).records
    monkeypatch.setattr(last_backward, "AT_HAND", 0)
    early = large_step(create_graph, library).records
    assert [record.kind_or_op for record in early] == [record.kind_or_op for record in late]
    for mine, theirs in zip(early, late, strict=True):
        assert mine.gradient == theirs.gradient
        assert [one.gradient for one in mine.inputs] == [one.gradient for one in theirs.inputs]
    assert sum(record.gradient is not None and record.gradient.sample is not None for record in early) > 4


def test_only_the_first_backward_takes_statistics_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_backward, "AT_HAND", 0)
    w = torch.ones(300, 300, requires_grad=True)
    with AutogradGraph() as graph:
        for number in range(2):
            middle = w * 2
            (middle * middle).sum().backward()
            (made,) = [record for record in graph.records if record.name == "middle"]
            assert (graph.listener.notes.kept_gradient(made.id) is None) is (number == 0)
            stats = made.gradient
            assert stats is not None
            assert (stats.low, stats.high, stats.sample) == (4.0, 4.0, 16_384)
