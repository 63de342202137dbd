"""Tensors on their way to other processes: in the workers of a DataLoader, through queues and pipes, in shared memory.

Every wait is bounded: what would hang is a failure.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset

import nbgrad
from nbgrad import nn

WAIT = 60.0
"""How many seconds a process is waited for."""


class Items(Dataset[Any]):
    """A data set. It holds a tensor, and ``make`` makes its items from this tensor."""

    def __init__(self, make: Callable[[nbgrad.Tensor, int], Any]) -> None:
        self.make, self.held = make, nbgrad.ones(3, requires_grad=True)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.make(self.held, index)


def a_result(held: nbgrad.Tensor, index: int) -> Any:
    return held * index


def in_a_dict(held: nbgrad.Tensor, index: int) -> Any:
    return {"x": [held.detach() * index, held * index]}


def a_leaf(_held: nbgrad.Tensor, index: int) -> Any:
    return nbgrad.tensor([float(index)] * 3, requires_grad=True)


def a_constant(_held: nbgrad.Tensor, index: int) -> Any:
    return nbgrad.tensor([float(index)] * 3)


def without_recording(held: nbgrad.Tensor, index: int) -> Any:
    with nbgrad.no_grad():
        return held * index


def as_it_is(items: list[Any]) -> list[Any]:
    return items


def loader(make: Callable[..., Any], method: str, collate: Any = None) -> DataLoader[Any]:
    return DataLoader(
        Items(make),
        batch_size=2,
        num_workers=1,
        collate_fn=collate,
        multiprocessing_context=method,
        timeout=WAIT,  # so that a hang becomes an error
    )


def batches(loader: DataLoader[Any]) -> list[Any]:
    """All batches. The workers end after them, also after an error, because its traceback would keep them alive."""
    iterator: Any = iter(loader)
    try:
        return list(iterator)
    finally:
        iterator._shutdown_workers()


@pytest.mark.parametrize("make", [a_result, in_a_dict, a_leaf])
def test_a_batch_of_a_worker_that_needs_a_gradient_is_an_error_as_in_torch(make: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match=r"needs a gradient.*detach\(\)"):
        batches(loader(make, "fork"))
    twin: Callable[..., Any] = torch.ones(3, requires_grad=True).mul  # torch's own error also comes from its collate
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        batches(DataLoader(Twins(twin), batch_size=2, num_workers=1, timeout=WAIT, multiprocessing_context="fork"))


class Twins(Items):
    """The same with torch's tensors."""

    def __getitem__(self, index: int) -> Any:
        return self.make(index)  # type: ignore[call-arg]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "method"), [(in_a_dict, "fork"), (a_result, "fork"), (a_result, "spawn"), (a_result, "forkserver")]
)
def test_a_result_that_a_worker_sends_is_an_error_for_who_waits(make: Callable[..., Any], method: str) -> None:
    with pytest.raises(RuntimeError, match=r"sent to another process.*<mul>.*detach\(\)"):
        batches(loader(make, method, as_it_is))


def test_what_a_worker_can_send_arrives() -> None:
    first, second = batches(loader(a_constant, "fork"))
    assert (first.tolist(), second.tolist()) == ([[0.0] * 3, [1.0] * 3], [[2.0] * 3, [3.0] * 3])
    assert not first.requires_grad
    assert first.is_shared()  # as in torch, the worker puts the batch into shared memory


def test_leaves_and_what_was_not_recorded_arrive_from_a_worker() -> None:
    leaves = [one for batch in batches(loader(a_leaf, "fork", as_it_is)) for one in batch]
    assert [(one.tolist(), one.requires_grad) for one in leaves] == [([float(i)] * 3, True) for i in range(4)]
    plain = batches(loader(without_recording, "fork"))
    assert [one.tolist() for one in plain] == [[[0.0] * 3, [1.0] * 3], [[2.0] * 3, [3.0] * 3]]


def test_without_workers_a_batch_keeps_its_gradient() -> None:
    data = Items(a_result)
    (first, second) = DataLoader(data, batch_size=2)
    (first.sum() + second.sum()).backward()
    assert data.held.grad is not None
    assert data.held.grad.tolist() == [6.0] * 3


# Queues and pipes.


def put(queue: Any, made: Callable[[nbgrad.Tensor, int], Any]) -> None:
    queue.put(made(nbgrad.ones(3, requires_grad=True), 2))
    queue.put("after")  # the next item is not lost


def send(pipe: Any, made: Callable[[nbgrad.Tensor, int], Any]) -> None:
    held = nbgrad.ones(3, requires_grad=True)
    try:
        pipe.send(made(held, 2))
    except RuntimeError as error:
        pipe.send(str(error))
    pipe.recv()


def test_a_queue_gives_the_error_to_who_reads_it() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=put, args=(queue, a_result))
    process.start()
    with pytest.raises(RuntimeError, match="sent to another process"):
        queue.get(timeout=WAIT)
    assert queue.get(timeout=WAIT) == "after"
    process.join(WAIT)
    assert process.exitcode == 0


@pytest.mark.parametrize("made", [a_result, a_leaf])
def test_a_pipe_gives_the_error_to_who_sends(made: Callable[..., Any]) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=send, args=(there, made))
    process.start()
    assert here.poll(WAIT)
    got = here.recv()
    here.send("seen")
    process.join(WAIT)
    assert process.exitcode == 0
    if made is a_leaf:
        assert (got.tolist(), got.requires_grad) == ([2.0] * 3, True)
    else:
        assert "sent to another process" in got


def doubled(index: int) -> Any:
    return nbgrad.ones(2, requires_grad=True) * index


def added(tensor: Any) -> float:
    return float(tensor.sum())


def test_a_pool_says_that_it_cannot_send() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        with pytest.raises(Exception, match="sent to another process"):
            pool.apply_async(doubled, (2,)).get(WAIT)
        assert pool.apply_async(added, (nbgrad.ones(2),)).get(WAIT) == 2.0


def test_an_executor_says_that_it_cannot_send() -> None:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(Exception, match="sent to another process"):
            pool.submit(doubled, 2).result(WAIT)
        with pytest.raises(RuntimeError, match="sent to another process"):
            pool.submit(added, nbgrad.ones(2, requires_grad=True) * 2).result(WAIT)
        assert pool.submit(added, nbgrad.ones(2)).result(WAIT) == 2.0


# Shared memory.


def fill(tensor: Any, net: nn.Module) -> None:
    with nbgrad.no_grad():
        tensor.fill_(7.0)
        for parameter in net.parameters():
            parameter.fill_(3.0)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_memory_is_seen_by_both(method: str) -> None:
    tensor, net = nbgrad.zeros(3), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert not tensor.is_shared()
    assert tensor.share_memory_() is tensor
    assert net.share_memory() is net
    assert tensor.is_shared()
    assert all(one.is_shared() for one in (*net.parameters(), *net.buffers()))
    process = multiprocessing.get_context(method).Process(target=fill, args=(tensor, net))
    process.start()
    process.join(WAIT)
    assert process.exitcode == 0
    assert tensor.tolist() == [7.0] * 3
    assert all(bool((parameter == 3.0).all()) for parameter in net.parameters())


def test_a_parameter_arrives_as_one_with_its_name_and_tags() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    parameter = nn.Parameter(nbgrad.ones(2))
    parameter.name, parameter.no_decay = "w", True  # type: ignore[attr-defined]
    queue.put(parameter)
    got = queue.get()
    assert (type(got), got.name, got.no_decay, got.requires_grad) == (nn.Parameter, "w", True, True)
    got.data.fill_(5.0)
    assert parameter.tolist() == [5.0, 5.0]  # like torch's tensors, it moved into shared memory when it was sent
