"""Ops on a list: time and memory grow linearly with the number of tensors, even if the length is new."""

import gc
import tracemalloc
from collections.abc import Callable
from itertools import count
from time import process_time
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import Tensor

FEW, TIMES = 120, 8
"""The number of tensors, and a factor for more: quadratic work then grows 64 times, linear work 8 times."""

NEW = count()
"""Added to a length, so that this length has not occurred before."""


class Doubled(nbgrad.autograd.Function):
    """A user's function of any number of tensors."""

    @staticmethod
    def forward(ctx, *tensors):
        return nbgrad.stack([2 * one for one in tensors])

    @staticmethod
    def backward(ctx, g):
        return tuple(2 * one for one in g.unbind(0))


LISTED: dict[str, Callable[[list[Tensor]], Any]] = {
    "cat": nbgrad.cat,
    "stack": nbgrad.stack,
    "hstack": nbgrad.hstack,
    "vstack": nbgrad.vstack,
    "dstack": nbgrad.dstack,
    "column_stack": nbgrad.column_stack,
    "broadcast_tensors": lambda tensors: nbgrad.broadcast_tensors(*tensors),
    "pad_sequence": nbgrad.nn.utils.rnn.pad_sequence,
    "torch.cat": torch.cat,  # type: ignore[arg-type]
    "Function": lambda tensors: Doubled.apply(*tensors),
    "unbind": lambda tensors: nbgrad.ones(len(tensors), requires_grad=True).unbind(),
}


def step(make: Callable[[list[Tensor]], Any], number: int) -> None:
    """One forward and backward of ``number`` tensors. The gradient of each is 1 or 2."""
    tensors = [nbgrad.ones(1, requires_grad=True) for _ in range(number)]
    result = make(tensors)
    outputs = [result] if isinstance(result, Tensor) else list(result)
    nbgrad.autograd.backward([one.sum() for one in outputs])


def seconds(make: Callable[[list[Tensor]], Any], number: int) -> float:
    """The processor time of the fastest of three runs. Each run has a new length."""
    times = []
    for _ in range(3):
        begun = process_time()
        step(make, number + next(NEW))
        times.append(process_time() - begun)
    return min(times)


def bytes_of(make: Callable[[list[Tensor]], Any], number: int) -> int:
    """The peak of Python's memory in bytes during the run."""
    gc.collect()
    tracemalloc.start()
    try:
        step(make, number + next(NEW))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LISTED)
def test_time_grows_with_the_number_of_tensors(name):
    few, many = seconds(LISTED[name], FEW), seconds(LISTED[name], TIMES * FEW)
    assert many < 3 * TIMES * few, f"{TIMES} times as many tensors take {many / few:.1f} times as long"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LISTED)
def test_memory_grows_with_the_number_of_tensors(name):
    few, many = bytes_of(LISTED[name], FEW), bytes_of(LISTED[name], TIMES * FEW)
    assert many < 1.5 * TIMES * few, f"{TIMES} times as many tensors take {many / few:.1f} times as much memory"
    assert many < 8_000 * TIMES * FEW, f"{many / (TIMES * FEW):.0f} bytes for each tensor"


@pytest.mark.rotated(2)
@pytest.mark.parametrize("name", ["cat", "stack"])
def test_time_grows_with_the_number_of_tensors_in_a_graph(name):
    def recorded(tensors: list[Tensor]) -> Tensor:
        with nbgrad.AutogradGraph():
            return LISTED[name](tensors)

    few, many = seconds(recorded, FEW), seconds(recorded, TIMES * FEW)
    assert many < 3 * TIMES * few, f"{TIMES} times as many tensors take {many / few:.1f} times as long"


def kept(run: Callable[[int], Any], numbers: range) -> int:
    """How many bytes more Python holds after the runs than before."""
    gc.collect()
    tracemalloc.start()
    try:
        for number in numbers:
            run(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_list_that_grows_keeps_little_for_each_length():
    """A text generator appends one step to its cache each time. Each length of the list has its own row."""
    one = nbgrad.ones(1, requires_grad=True)
    assert kept(lambda number: nbgrad.cat([one] * number), range(1000, 1060)) < 16e6


def test_each_other_choice_of_what_needs_a_gradient_keeps_little():
    one, constant = nbgrad.ones(1, requires_grad=True), nbgrad.ones(1)

    def joined(number: int) -> Tensor:
        return nbgrad.cat([one if (number * 7919) >> (place % 20) & 1 else constant for place in range(1000)])

    assert kept(joined, range(1, 61)) < 16e6


def test_many_tensors_of_which_some_need_a_gradient_get_it():
    tensors = [nbgrad.full((2,), float(place), requires_grad=place % 3 == 0) for place in range(1000)]
    (nbgrad.cat(tensors) * nbgrad.arange(2000.0)).sum().backward()
    for place, one in enumerate(tensors):
        wanted = None if place % 3 else [2.0 * place, 2.0 * place + 1]
        assert (one.grad if one.grad is None else one.grad.tolist()) == wanted
