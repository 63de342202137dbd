"""The recorder of torch functions does not see the calls of nbgrad's own engine: each look would cost time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.backend.function_mode import put_back, recorder, take_off
from nbgrad.core.recorder.calls import RecordingMode
from tests.nn.block_rows import ROWS, tensors
from tests.nn.loss_rows import LOSSES
from tests.nn.test_blocks import flat
from tests.recorder.test_user_modes import name

PROFILER = {"_record_function_enter_new", "_record_function_exit._RecordFunction"}
"""torch's own calls around each step of an optimizer."""


CALLING = ("Triplet", "AdaptiveLogSoftmax", "LinearCrossEntropy")
"""These blocks call a function or a module that may be the user's, so the recorder stays on."""

BLOCKS = {name: row for name, row in {**ROWS, **LOSSES}.items() if not name.startswith(CALLING)}


class Counting(RecordingMode):
    """Keeps the names of the functions that reach the recorder."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(name(function))
        return super().__torch_function__(function, types, args, kwargs)


@contextmanager
def counted() -> Iterator[list[str]]:
    """Count, inside a graph, what reaches its recorder."""
    counting, usual = Counting(), recorder.mode
    depth = take_off()
    assert depth
    recorder.mode = counting
    put_back(depth)
    try:
        yield counting.seen
    finally:
        assert take_off() == depth  # it is on again after each part that had it off
        recorder.mode = usual
        put_back(depth)


def training(make: Callable[..., Any], **settings: Any) -> Callable[[], None]:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2))
    optimizer = make(net.parameters(), **settings)
    x, y = nbgrad.randn(6, 4), nbgrad.tensor([0, 1, 1, 0, 1, 0])

    def run() -> None:
        for number in range(3):
            if number != 1:  # the second gradient is added to the first
                optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

    return run


def descent() -> Callable[[], None]:
    return training(nbgrad.optim.SGD, lr=0.1, momentum=0.9)


def adam() -> Callable[[], None]:
    return training(nbgrad.optim.Adam)


def derivatives() -> Callable[[], None]:
    w, ones = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.ones(2)

    def run() -> None:
        (slope,) = nbgrad.grad((w * w * w).sum(), w, create_graph=True)
        slope.sum().backward()
        nbgrad.backward([w.sin().sum(), w.cos()], [None, ones])

    return run


def idle() -> Callable[[], None]:
    net, x = nn.Linear(2, 2), nbgrad.ones(1, 2)
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)

    def run() -> None:
        net(x).sum().backward()
        optimizer.zero_grad()
        optimizer.step()

    return run


def changes() -> Callable[[], None]:
    w = nbgrad.ones(3, requires_grad=True)
    w.register_hook(lambda gradient: gradient + 1)

    def run() -> None:
        h = w * 2
        h.mul_(3)
        h[0] = 1
        h.register_hook(lambda gradient: gradient * 2)
        (h.detach() * h).sum().backward()
        with nbgrad.no_grad():
            w.sub_(1)

    return run


PROGRAMS = [descent, adam, derivatives, idle, changes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("watch", [False, True], ids=["no tensor", "all"])
def test_the_recorder_sees_nothing_of_the_own_engine(program: Callable[[], Callable[[], None]], watch: bool) -> None:
    run = program()
    with nbgrad.AutogradGraph(watch=watch) as graph, counted() as seen:
        run()
    assert graph.records
    assert [one for one in seen if one not in PROFILER] == []


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", BLOCKS)
def test_the_recorder_sees_nothing_of_a_block(name: str) -> None:
    row = BLOCKS[name]
    block = row.make(nn).double()
    inputs = [nbgrad.tensor(one, requires_grad=one.requires_grad) for one in tensors(row.inputs[-1])]
    with nbgrad.AutogradGraph(watch=False), counted() as seen:
        results = flat(block(*inputs))
        learned = [one.sum() for one in results if one.requires_grad]
        if learned:
            nbgrad.backward(learned)
    assert seen == []


def test_the_recorder_sees_torch_inside_of_a_hook() -> None:
    """A hook that runs after the leaf's ``.grad`` is written is the user's code."""
    plain = torch.ones(2, requires_grad=True)
    found: list[torch.Tensor] = []
    w = nbgrad.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda _: found.append(plain.exp()))
    with nbgrad.AutogradGraph(), counted() as seen:
        (w * w).sum().backward()
        torch.ones(2).cos()
    assert seen == ["exp", "ones", "cos"]


def test_the_recorder_is_back_after_a_hook_that_raises() -> None:
    def broken(_: Any) -> None:
        raise ArithmeticError

    w = nbgrad.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(broken)
    with nbgrad.AutogradGraph(), counted() as seen:
        with pytest.raises(ArithmeticError):
            (w * w).sum().backward()
        torch.ones(2).cos()
    assert seen[-2:] == ["ones", "cos"]
