"""Threads, tasks and interrupts: no thread sees another's record, no gradient is lost, and none is half written."""

import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.engine import ended
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import next_seq
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.optimizers import optimized
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.tasks import finished

THREADS = 8


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """The results of ``work(number)`` in ``count`` threads that start at the same moment."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = work(number)
        except BaseException as error:  # raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # let threads take turns as often as they can
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    return results


def told(graph: AutogradGraph) -> list[Any]:
    """The content of a graph without its ids, which are shared by all graphs."""
    place = {record.id: number for number, record in enumerate(graph.records)}
    return [
        (
            *(record.kind, record.op and record.op.name, record.name, record.root, record.value, record.gradient),
            [(place.get(taken.source), taken.literal, taken.gradient) for taken in record.inputs if taken.source],
        )
        for record in graph.records
    ]


def train(seed: int) -> tuple[Any, ...]:
    """A few steps inside a new graph: the gradient, and everything that the graph has recorded."""
    w = tensor(torch.full((3,), float(seed)), requires_grad=True)
    with AutogradGraph() as graph:
        for _ in range(10):
            hidden = (w * w).tanh()
            loss = (hidden + w).sum()
            loss.backward()
    assert w.grad is not None
    return w.grad.tolist(), graph.backwards, told(graph)


async def train_in_turns(seed: int) -> tuple[Any, ...]:
    """The same, but other tasks run between any two statements."""
    w = tensor(torch.full((3,), float(seed)), requires_grad=True)
    with AutogradGraph() as graph:
        for _ in range(10):
            hidden = (w * w).tanh()
            await asyncio.sleep(0)
            loss = (hidden + w).sum()
            await asyncio.sleep(0)
            loss.backward()
            await asyncio.sleep(0)
    assert w.grad is not None
    return w.grad.tolist(), graph.backwards, told(graph)


def test_eight_threads_record_as_if_alone() -> None:
    assert together(train) == [train(seed) for seed in range(THREADS)]
    assert current().observers == ()


def test_a_thread_marks_its_own_backwards_alone() -> None:
    """A later error names the backward that freed the values. Another thread's may have ended in between."""
    mine, other = next_seq(), next_seq()
    place = user_place()
    ended.note(1, "mine", place, [mine])
    thread = threading.Thread(target=lambda: (ended.note(1, "other", place, [other]), ended.note_retained(True)))
    thread.start()
    thread.join()
    found = ended.freeing(mine)
    assert found is not None
    assert found.graph == "mine"
    assert found.retained is None
    assert ended.freeing(other) is None
    ended.note_retained(True)
    assert ended.freeing(mine) is None


def test_eight_threads_remember_their_backwards_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "_IDS", 8)  # many are forgotten, too
    place = user_place()

    def work(number: int) -> int:
        for _ in range(2000):
            ended.note(1, str(number), place, range(3))
            ended.note_retained(False)
            ended.freeing(1)
        return number

    assert together(work) == list(range(THREADS))


def test_eight_threads_make_optimizers_while_others_ask_for_all() -> None:
    def work(number: int) -> bool:
        held: Any = None
        for _ in range(500):
            param = tensor([1.0], requires_grad=True)
            held = nbgrad.optim.SGD([param], lr=0.1)
            if id(param) not in optimized():
                return False
        return held is not None

    assert together(work) == [True] * THREADS


def test_eight_interleaved_tasks_record_as_if_alone() -> None:
    async def main() -> list[Any]:
        return list(await asyncio.gather(*(train_in_turns(seed) for seed in range(THREADS))))

    assert finished(main()) == [train(seed) for seed in range(THREADS)]


def test_threads_with_tasks_record_as_if_alone() -> None:
    async def main(seed: int) -> list[Any]:
        return list(await asyncio.gather(*(train_in_turns(seed + number) for number in range(3))))

    expected = [train(seed) for seed in range(6)]
    assert together(lambda seed: asyncio.run(main(seed)), 4) == [expected[seed : seed + 3] for seed in range(4)]


def test_modes_of_a_thread_are_its_own() -> None:
    def work(number: int) -> list[bool]:
        seen = []
        for _ in range(200):
            nbgrad.set_grad_enabled(number % 2 == 0)
            with nbgrad.no_grad():
                seen.append(nbgrad.is_grad_enabled())
            seen.append(nbgrad.is_grad_enabled())
        return seen

    assert together(work) == [[False, number % 2 == 0] * 200 for number in range(THREADS)]
    assert nbgrad.is_grad_enabled()


# A leaf that all threads share.


def test_threads_that_share_a_leaf_lose_no_gradient() -> None:
    shared = tensor(torch.ones(4, dtype=torch.float64), requires_grad=True)

    def work(number: int) -> None:
        for _ in range(200):
            (shared * float(number + 1)).sum().backward()

    together(work)
    assert shared.grad is not None
    assert shared.grad.tolist() == [200.0 * sum(range(1, THREADS + 1))] * 4


def test_the_first_gradient_of_a_shared_leaf_is_not_lost() -> None:
    for _ in range(100):
        shared = tensor([1.0], requires_grad=True)
        together(lambda _, shared=shared: (shared * 1.0).backward(), 4)  # type: ignore[misc]
        assert shared.grad is not None
        assert shared.grad.item() == 4.0


# An exception anywhere in a backward.


class Stops(Observer):
    """Raises at its ``number``-th notification."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self.left = number
        self.error = error

    def _count(self, *_: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error

    on_backward_begin = on_gradient = on_rule = on_backward_end = _count


def program() -> tuple[list[Tensor], Tensor]:
    """Leaves that all have a gradient already, and a loss of them."""
    leaves = [tensor(torch.full((3,), 1.0 + number), requires_grad=True) for number in range(4)]
    for leaf in leaves:
        leaf.grad = torch.full((3,), 10.0)
    a, b, c, d = leaves
    return leaves, ((a * b).tanh() + c * d + a).sum()


def grads(leaves: list[Tensor]) -> list[list[float]]:
    return [leaf.grad.tolist() for leaf in leaves if leaf.grad is not None]


def outcomes() -> tuple[list[list[float]], list[list[float]]]:
    """The gradients before a backward and after it."""
    leaves, loss = program()
    before = grads(leaves)
    loss.backward()
    return before, grads(leaves)


def check_consistent(leaves: list[Tensor], before: list[list[float]], after: list[list[float]]) -> int:
    """Each ``.grad`` is the old or the new one, and the engine still works. Returns how many are new."""
    found = grads(leaves)
    assert all(got in (old, new) for got, old, new in zip(found, before, after, strict=True)), found
    assert current().observers == ()
    assert nbgrad.is_grad_enabled()
    assert not current().walking
    assert outcomes() == (before, after)
    return sum(got == new for got, new in zip(found, after, strict=True))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_observer_that_raises_at_any_event_leaves_every_gradient_old_or_new(error: type[BaseException]) -> None:
    before, after = outcomes()
    new = []
    for number in range(1000):
        leaves, loss = program()
        try:
            with Switch(observers=(Stops(number, error),)):
                loss.backward()
        except error:
            new.append(check_consistent(leaves, before, after))
        else:
            break
    assert new[0] == 0
    assert new[-1] == 4, "the last event comes after all writes"
    assert new == sorted(new)
    assert new.count(0) > 15, "until the last rule has run nothing is written"


def interrupted(loss: Tensor, number: int) -> bool:
    """Run a backward and raise KeyboardInterrupt before its ``number``-th line; False if it ended before that."""
    left = number

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        # A real Ctrl-C cannot come between the acquire and the release of a lock in a with block, but a tracer can.
        if "nbgrad" not in frame.f_code.co_filename or frame.f_code is Tensor.accumulate.__code__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        loss.backward()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_every_gradient_old_or_new() -> None:
    before, after = outcomes()
    new = []
    for number in range(5000):
        leaves, loss = program()
        if not interrupted(loss, number):
            break
        new.append(check_consistent(leaves, before, after))
    assert new == sorted(new)
    assert (new[0], new[-1]) == (0, 4)
    lines = 20 if nbgrad.compiled() else 100
    assert new.count(0) > lines, "until the last rule has run nothing is written"


def test_an_interrupt_inside_a_graph_leaves_the_graph_usable() -> None:
    for number in range(0, 400, 7):
        leaves, loss = program()
        with AutogradGraph() as graph:
            stopped = interrupted((leaves[0] * leaves[1]).sum(), number)
            loss = (leaves[0] * leaves[2]).sum()
            loss.backward()
        assert current().observers == ()
        assert [record.op.name for record in graph.records if record.op] == ["mul", "sum"]
        assert graph.record(loss).root
        assert graph.backwards == (2 if not stopped else graph.backwards)


def test_a_write_that_raises_leaves_the_leaves_after_it_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = outcomes()
    write = Tensor.accumulate
    for number in range(4):
        leaves, loss = program()
        left = [number]

        def fails(self: Tensor, *args: Any, left: list[int] = left, **settings: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise MemoryError
            write(self, *args, **settings)

        with monkeypatch.context() as patched:
            patched.setattr(Tensor, "accumulate", fails)
            with pytest.raises(MemoryError):
                loss.backward()
        assert check_consistent(leaves, before, after) == number
