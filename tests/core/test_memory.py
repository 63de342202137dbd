"""Memory: nothing grows or is left over, and a graph may have any depth. The collector is off in every test."""

import gc
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from nbgrad.choices import FRAMES
from nbgrad.core.engine.node import Leaf, Node
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.last_backward import VALUES
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import SMALL
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.programs import garbage

STEPS = 10_000
SWEPT = 4096
"""The number of recorded ops after which the record is swept for the first time."""


@pytest.fixture(autouse=True)
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # leftovers of earlier tests, such as the last graph of a shell, do not count
    gc.disable()
    yield
    gc.enable()


def census() -> Counter[str]:
    """The number of nbgrad's objects and of torch tensors, and the number of bytes that these hold."""
    found: Counter[str] = Counter()
    storages: dict[int, int] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if str(kind.__module__).startswith("nbgrad.core"):
            found[kind.__name__] += 1
        elif kind is torch.Tensor:
            found["torch.Tensor"] += 1
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    found["bytes"] = sum(storages.values())
    return found


class Training:
    """Steps of a small network with everything that a step makes: a batch, constants, an index, a dropped branch."""

    def __init__(self) -> None:
        self.w = tensor(torch.full((4, 3), 0.1), requires_grad=True)
        self.b = tensor(torch.zeros(3), requires_grad=True)
        self.factor = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, number: int) -> Tensor:
        batch = tensor([[float(number % 7), 1.0, 2.0, 3.0]])
        hidden = (batch @ self.w + self.b).tanh()
        picked = hidden[:, torch.tensor([0, 2, 1])] * self.factor
        picked.exp()  # no code keeps the result
        return (picked**2).mean()

    def step(self, number: int) -> None:
        self.forward(number).backward()
        for leaf in (self.w, self.b):
            assert leaf.grad is not None
            leaf.data.sub_(leaf.grad.data, alpha=0.01)
            leaf.grad = None


def contexts() -> list[Any]:
    return [
        pytest.param(nullcontext, id="no graph"),
        pytest.param(AutogradGraph, id="watched"),
        pytest.param(lambda: AutogradGraph(watch=False), id="unwatched"),
    ]


def samples(run: Callable[[int], object], context: AbstractContextManager[Any]) -> list[Counter[str]]:
    """The census at 50 moments of 10,000 runs. They cover all phases of the record, which is swept now and then."""
    found = []
    with context:
        for number in range(STEPS):
            run(number)
            if number % 197 == 196:
                found.append(census())
    return found


def check_flat(found: list[Counter[str]], *, watched: bool, recorded: bool) -> None:
    """Nothing grows: exactly without a graph, within the stated bounds with one."""
    for kind in ("Tensor", "Node", "Leaf"):
        assert len({counts[kind] for counts in found}) == 1, kind
    if not watched:
        assert len({counts["torch.Tensor"] for counts in found}) == 1
        assert len({counts["bytes"] for counts in found}) == 1
    values = VALUES // 512 if watched else 0
    assert max(counts["torch.Tensor"] for counts in found) <= found[0]["torch.Tensor"] + values
    assert max(counts["bytes"] for counts in found) <= found[0]["bytes"] + (VALUES if watched else 0)
    records = [counts["Outer"] for counts in found]
    # The records of freed ops wait for the next sweep, and so do those of at most as many constants and leaves.
    assert max(records) <= 2 * (SWEPT + 100) if recorded else max(records) == 0
    if recorded:
        half = len(records) // 2
        assert max(records[half:]) <= 1.2 * max(records[:half])


@pytest.mark.rotated(6)
@pytest.mark.parametrize("make", contexts())
def test_ten_thousand_training_steps_keep_memory_flat(make: Callable[[], AbstractContextManager[Any]]) -> None:
    context = make()
    found = samples(Training().step, context)
    watched = isinstance(context, AutogradGraph) and context.watch
    check_flat(found, watched=watched, recorded=isinstance(context, AutogradGraph))
    del context
    assert census()["Outer"] == census()["Record"] == 0


@pytest.mark.rotated(6)
@pytest.mark.parametrize("make", contexts())
def test_ten_thousand_forwards_keep_memory_flat(make: Callable[[], AbstractContextManager[Any]]) -> None:
    context = make()
    found = samples(Training().forward, context)
    watched = isinstance(context, AutogradGraph) and context.watch
    check_flat(found, watched=watched, recorded=isinstance(context, AutogradGraph))


def test_ten_thousand_backwards_of_one_graph_keep_memory_flat() -> None:
    with AutogradGraph():
        w = tensor([1.0, 2.0], requires_grad=True)
        loss = (w * w).sum()
        counts = []
        for number in range(STEPS):
            loss.backward(retain_graph=True)
            if number % 2500 == 2499:
                counts.append(census())
    for kind, most in (("_StoredFrame", FRAMES), ("_Numbers", 3 * FRAMES)):  # three lists of norms in a frame
        assert all(count.pop(kind) < most for count in counts), "the frames of the history are bounded"
    assert counts[0] == counts[-1]


@pytest.mark.parametrize("watch", [True, False])
def test_the_facts_of_what_is_gone_leave_the_record(watch: bool) -> None:
    """The record has at most twice as many ops as are alive or were in the last backward, plus 4,096."""
    w = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph(watch=watch) as graph:
        held = [w * 2 for _ in range(1000)]
        for _ in range(3):
            for _ in range(20_000):
                w.exp()
                assert len(graph.listener.ops) <= 2 * 1002 + SWEPT + 1
            held[0].sum().backward(retain_graph=True)
        assert all(graph.record(one) for one in held[:1])
        held.clear()
        for _ in range(3 * SWEPT):
            w.exp()
        assert len(graph.listener.ops) <= SWEPT + 8
        assert len(graph.listener.notes.values) <= (SWEPT if watch else 0)
        assert len(graph.listener.outer) == 1


def test_old_backwards_leave_the_record() -> None:
    w = tensor(torch.ones(2000), requires_grad=True)
    with AutogradGraph() as graph:
        held = []
        for _ in range(5):
            (w * 2).sum().backward()
            held.append(census()["bytes"])
        assert graph.backwards == 5
        assert abs(held[-1] - held[1]) < 100  # the values of the sums, four bytes each
    assert census()["bytes"] < held[-1]


def test_a_backward_that_raised_leaves_the_record() -> None:
    def fails(_: Any) -> None:
        raise ValueError

    w = tensor(torch.ones(2000), requires_grad=True)
    w.grad = torch.zeros(2000)
    w.register_post_accumulate_grad_hook(fails)
    with AutogradGraph():
        w.exp()
        before = census()["bytes"]
        with pytest.raises(ValueError, match=r"^$"):
            (w * 2).sum().backward()
        assert census()["bytes"] > before
        w.exp()
        assert census()["bytes"] < before + 100


# Objects that are alive.


def test_after_a_backward_only_leaves_and_what_the_user_holds_are_alive() -> None:
    x, w = tensor(torch.ones(8, 4)), tensor(torch.ones(4, 3), requires_grad=True)
    before = census()
    held = (x @ w).tanh()
    loss = (held.exp() ** 2).mean()
    loss.backward()
    after = census()
    assert after["torch.Tensor"] - before["torch.Tensor"] == 3, "held, the loss and the gradient of w"
    assert after["Tensor"] - before["Tensor"] == 3
    del held, loss
    last = census()
    assert last["Node"] == before["Node"]
    assert last["torch.Tensor"] - before["torch.Tensor"] == 1


def test_leaving_the_context_frees_the_rest() -> None:
    w = tensor(torch.ones(50), requires_grad=True)
    before = census()
    with AutogradGraph() as graph:
        (w * torch.ones(50)).exp().sum().backward()
        assert census()["torch.Tensor"] > before["torch.Tensor"] + 1
    after = census()
    assert after["torch.Tensor"] == before["torch.Tensor"] + 1, "the gradient of w"
    assert after["Node"] == before["Node"]
    assert [record.value is not None for record in graph.records] == [True] * 5
    del graph
    last = census()
    assert (last["Outer"], last["Record"]) == (before["Outer"], before["Record"])


def test_an_unwatched_graph_holds_no_tensor_at_all() -> None:
    w = tensor(torch.ones(50), requires_grad=True)
    with AutogradGraph(watch=False):
        y = w * 2
        before = census()["torch.Tensor"]
        for _ in range(100):
            w[torch.tensor([1, 2])].sum()
        y.sum().backward()
        assert census()["torch.Tensor"] == before + 1, "the gradient of w"


def test_a_record_keeps_no_index_and_a_held_record_no_graph() -> None:
    w, index = tensor(torch.ones(50), requires_grad=True), torch.tensor([1, 2])
    gone = weakref.ref(index)
    with AutogradGraph() as graph:
        w[index].sum().backward()
        (picked,) = (record for record in graph.records if record.op and "index" in record.settings)
    del index
    assert gone() is None
    assert str(picked.settings["index"]) == "int64 of shape (2,)"
    closed = weakref.ref(graph)
    del graph
    assert closed() is None
    assert picked.gradient is not None


def test_the_values_kept_are_the_newest_within_the_budget() -> None:
    w = tensor(torch.ones(SMALL), requires_grad=True)
    with AutogradGraph() as graph:
        made = [w * 2 for _ in range(1000)]
        assert graph.record(made[0]).value is None
        assert graph.record(made[-1]).value is not None
        assert sum(graph.record(one).value is not None for one in made[::50]) < 11


def test_a_small_window_does_not_keep_large_memory() -> None:
    large = tensor(torch.ones(1000, 1000), requires_grad=True)
    with AutogradGraph() as graph:
        wide = large * 2
        corner = wide[0, :2]
        before = census()["bytes"]
        del wide
        kept = graph.record(corner)
        del corner
        assert census()["bytes"] <= before - 4_000_000
        assert kept.value is not None
        assert kept.value.values == [2.0, 2.0]


def test_the_collector_finds_nothing_of_ours() -> None:
    with garbage() as found:
        training = Training()
        for make in (AutogradGraph, lambda: AutogradGraph(watch=False)):
            with make() as graph:
                for number in range(20):
                    training.step(number)
                loss = training.forward(1)
                loss.backward(create_graph=True)
                graph.delete_node(loss)
                records = graph.records
                graph.path(records[0], records[-1])
                repr(records), [record.inputs for record in records]
            graph.clear()
        del training, graph, loss, records, number
    assert found == []


# Depth.


@pytest.mark.rotated(6)
def test_many_ops_go_back_without_recursion() -> None:
    """200,000 ops: a recursion of this depth would overflow Python's stack and C's."""
    begin = time.process_time()
    x = tensor([1.0], requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y * 1.0
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 1.0
    last, end = weakref.ref(y.grad_fn), time.process_time()
    del y
    assert last() is None
    assert time.process_time() - end < end - begin, "to let go of it takes no longer than to make it"


@pytest.mark.rotated(6)
def test_a_long_chain_is_recorded_asked_and_dropped() -> None:
    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x
        for _ in range(30_000):
            y = y * 1.0
        path = graph.path(x, y)
        assert path is not None
        assert len(path) == 30_001
        assert len(graph.ancestors(y)) == 30_000
        y.backward()
    assert len(graph.reverse_toposort_from(path[-1])) == 30_001
    last = weakref.ref(y.grad_fn)
    del y
    assert last() is None


def test_forty_doublings_are_linear() -> None:
    x = tensor(1.0, dtype=torch.float64, requires_grad=True)
    before = census()["Node"]
    with AutogradGraph() as graph:
        y = x
        for _ in range(40):
            y = y + y
        assert census()["Node"] == before + 40
        y.backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0**40
    assert graph.frame is not None
    assert len(graph.frame.contributions) == 80
    assert (graph.rx.num_nodes(), graph.rx.num_edges()) == (41, 80)


def test_the_census_sees_what_it_counts() -> None:
    before = census()
    x = tensor(torch.ones(100), requires_grad=True)
    y = x * 2
    after = census()
    assert (after["Tensor"] - before["Tensor"], after["Node"] - before["Node"]) == (2, 1)
    assert after["bytes"] - before["bytes"] >= 800
    assert isinstance(x.origin, Leaf)
    assert isinstance(y.origin, Node)
    with AutogradGraph() as graph:
        z = y * 2
        record = graph.record(z)  # this makes the record of z; the older facts of y stay
        assert isinstance(record, Record)
        seen = census()
        assert (seen["Outer"] - before["Outer"], seen["Record"] - before["Record"]) == (1, 1)
