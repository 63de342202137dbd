"""Compiled functions and the world around them: clocks, files, iterators, numbers as arguments, and threads."""

import copy
import math
import os
import pickle
import random
import signal
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from threading import Barrier, Event, Thread
from types import FunctionType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic import fake
from nbgrad.core.symbolic.errors import TraceError

X = torch.tensor([1.0, 3.0])


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: time.time(), r"reads the clock with time.time\(\)"),  # noqa: PLW0108  # the line is the user's
        (lambda: time.perf_counter(), r"reads the clock with time.perf_counter\(\)"),  # noqa: PLW0108
        (lambda: time.monotonic_ns(), "reads the clock"),  # noqa: PLW0108
        (lambda: time.localtime().tm_year, "reads the clock"),
        (lambda: datetime.now().second, r"reads the clock with datetime.now\(\)"),
        (lambda: date.today().day, r"reads the clock with date.today\(\)"),
        (lambda: random.SystemRandom().random(), "draws random numbers of the operating system"),
        (lambda: uuid.uuid4().int % 5, "draws random numbers of the operating system"),
    ],
)
def test_the_clock_is_refused(ask: Callable[[], float], told: str) -> None:
    compiled = nbgrad.compile(lambda x: x * ask())
    with pytest.raises(TraceError, match=rf"test_outside.py:\d+, `.*`: the function {told}.*, and a program"):
        compiled(nbgrad.tensor(X))


def test_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scale.txt"
    path.write_text("2\n3\n")
    with path.open() as file:
        for ask in (file.readline, lambda: path.read_text()[0], lambda: next(file), lambda: max(file)):
            file.seek(0)
            with pytest.raises(TraceError, match=r"reads a file|opens a file|uses .*, a TextIOWrapper"):
                nbgrad.compile(lambda x, ask=ask: x * float(ask()))(nbgrad.tensor(X))
    with pytest.raises(TraceError, match="opens a file"):
        nbgrad.compile(lambda x: x * opened(path))(nbgrad.tensor(X))


def opened(path: Path) -> float:
    with path.open() as file:
        return float(file.readline())


def test_an_iterator_that_is_made_inside_is_fine() -> None:
    net, values = nn.Linear(2, 2), {"a": 2.0}

    def function(x: Any) -> Any:
        first = next(net.parameters())
        total = sum(one for one in (1.0, 2.0))
        return (x * first * next(iter(values.values())) * total).sum()

    compiled = nbgrad.compile(function)
    for _ in range(3):
        assert compiled(nbgrad.tensor(X)).item() == function(nbgrad.tensor(X)).item()
    assert len(compiled.reasons) == 1


def test_what_libraries_ask_is_fine() -> None:
    careful = FunctionType(compile("warn('careful')", torch.__file__, "eval"), {"warn": warnings.warn})

    def function(x: Any) -> Any:
        careful()
        return x * len(os.path.join("a", "b"))  # noqa: PTH118

    compiled = nbgrad.compile(function)
    with pytest.warns(UserWarning, match="careful"):
        assert compiled(nbgrad.tensor(X)).tolist() == [3.0, 9.0]


def test_a_scheduler_in_a_compiled_step_is_refused() -> None:
    net = nn.Linear(2, 1)
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.5)
    schedule = nbgrad.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)

    def step(x: Any) -> Any:
        net(x).sum().backward()
        opt.step()
        schedule.step()
        return x * 1

    with pytest.raises(TraceError, match=r"changes SGD.param_groups\[0\]\['lr'\].* call schedulers, outside"):
        nbgrad.compile(step)(nbgrad.ones(1, 2))
    assert opt.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("values", [(0.0, -0.0), (0, False, 0.0), (1, True, 1.0), (0j, complex(0, -0.0))], ids=str)
def test_arguments_that_are_equal_and_differ(values: tuple[Any, ...]) -> None:
    def function(x: Any, scale: Any) -> Any:
        return x * (2.0 if isinstance(scale, bool) else math.copysign(3.0, complex(scale).real + complex(scale).imag))

    def signed(x: Any, scale: Any) -> Any:
        return x * len(repr(scale))

    for one in (function, signed):
        compiled = nbgrad.compile(one)
        for value in values * 2:
            assert torch.equal(compiled(nbgrad.tensor(X), value).data, one(nbgrad.tensor(X), value).data)
        assert len(compiled.reasons) == len(values)


def test_a_nan_is_one_argument() -> None:
    compiled = nbgrad.compile(lambda x, scale: x * scale)
    for _ in range(4):
        compiled(nbgrad.tensor(X), float("nan"))
    assert len(compiled.reasons) == 1


def test_a_number_that_changes_is_told_once_and_its_programs_are_limited() -> None:
    compiled = nbgrad.compile(lambda x, scale: x * scale)

    def run(numbers: range) -> None:
        for number in numbers:
            assert compiled(nbgrad.tensor(X), number / 7).tolist() == (X * (number / 7)).tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(range(8))
    with pytest.warns(UserWarning, match=r"differ in numbers or text alone.*nbgrad\.tensor\(0\.5\)") as heard:
        run(range(8, 150))
    assert len(heard) == 1
    assert heard[0].filename == __file__
    assert sum(map(len, compiled._variants.values())) <= 64


def test_shapes_are_not_numbers() -> None:
    compiled = nbgrad.compile(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(1, 20):
            compiled(nbgrad.ones(size))


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work`` in several threads at once, and raise what one of them has raised."""
    errors: list[BaseException] = []
    barrier = Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("count", [2, 4])
def test_threads_in_one_compiled_function(count: int) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    compiled = nbgrad.compile(lambda x: net(x).sum())

    def work(number: int) -> None:
        for step in range(39):
            x = nbgrad.tensor(torch.randn(1 + (step + number) % 13, 4))
            with nbgrad.no_grad():
                found = compiled(x)
            assert type(found.data) is torch.Tensor
            assert found.shape == ()

    in_threads(count, work)
    assert len(compiled.reasons) == 13


def test_threads_that_train_while_others_trace() -> None:
    net = nn.Linear(4, 1)
    loss = nbgrad.compile(lambda x: net(x).square().sum())

    def work(number: int) -> None:
        for step in range(20):
            loss(nbgrad.tensor(torch.randn(1 + (step + number) % 7, 4))).backward()

    in_threads(3, work)
    assert net.weight.grad is not None
    assert type(net.weight.grad.data) is torch.Tensor
    assert len(loss.reasons) <= 14  # for each shape without and with a gradient


def test_threads_with_compiled_functions_of_their_own_that_share_a_network() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def work(number: int) -> None:
        compiled = nbgrad.compile(lambda x: net(x) * number)
        for size in range(1, 6):
            with nbgrad.no_grad():
                assert compiled(nbgrad.ones(size, 4)).shape == (size, 4)

    in_threads(4, work)
    assert all(type(one.data) is torch.Tensor for one in net.parameters())


def test_an_error_in_a_trace_lets_other_threads_go_on() -> None:
    compiled = nbgrad.compile(lambda x: x if x.sum() > 0 else -x)
    fine = nbgrad.compile(lambda x: x * 2)

    def work(number: int) -> None:
        for size in range(1, 5):
            if number:
                with pytest.raises(TraceError, match="asks for a number"):
                    compiled(nbgrad.ones(size))
            else:
                assert fine(nbgrad.ones(size)).shape == (size,)

    in_threads(3, work)


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


USES: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda net, x: net(x).tolist(),
    "eval": lambda net, x: net.eval()(x).tolist(),
    "backward, later": lambda net, x: net(x).sum(),
    "numpy": lambda net, _: net[0].weight.detach().numpy().tolist(),
    "numpy of the data": lambda net, _: net[0].weight.data.numpy().tolist(),
    "item": lambda net, _: net[3].bias.item(),
    "repr": lambda net, _: repr(net[0].weight),
    "views": lambda net, _: (net[0].weight.T.tolist(), net[0].weight[1].tolist(), net[0].weight.view(-1).tolist()),
    "address": lambda net, _: net[0].weight.data_ptr() == net[0].weight.detach().data_ptr(),
    "deepcopy": lambda net, x: copy.deepcopy(net)(x).tolist(),
    "state_dict": lambda net, _: {key: one.tolist() for key, one in net.state_dict().items()},
    "load_state_dict": lambda net, _: str(net.load_state_dict(network().state_dict())),
    "pickle": lambda net, x: pickle.loads(pickle.dumps(net))(x).tolist(),
    "in place": lambda net, _: net[1].running_var.add_(1).tolist(),
    "torch": lambda net, _: torch.add(net[0].weight, 1).tolist(),
    "to": lambda net, _: net[0].weight.to(torch.float64).tolist(),
}


WAITING = """
def run(self, *given):
    calls.append(given)
    if len(calls) == 5:
        inside.set()
        assert used.wait(60)
    return own(self, *given)
"""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("use", USES)
def test_a_network_that_one_thread_traces_is_an_ordinary_one_in_another(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, same, x = network(), network(), nbgrad.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 1.0, 2.0]])
    space: dict[str, Any] = {"inside": Event(), "used": Event(), "calls": [], "own": fake.Fakes.run}
    exec(compile(WAITING, nbgrad.__file__, "exec"), space)  # a trace waits in nbgrad's code: in the user's it may not
    monkeypatch.setattr(fake.Fakes, "run", space["run"])
    found: list[Any] = []

    def work(number: int) -> None:
        if number:
            assert space["inside"].wait(60)
            try:
                found.append(USES[use](net, x))
            finally:
                space["used"].set()
        else:
            compiled(x)

    def function(x: Any) -> Any:
        made = net[3].weight.sum() + net[0].weight.sum() + net[0].bias.sum() + net[1].running_var.sum()
        return made + x.sum()

    compiled = nbgrad.compile(function)
    in_threads(2, work)
    expected = USES[use](same, x)
    if use == "backward, later":
        for one in (found[0], expected):
            one.backward()
        found[0], expected = ([one.grad.tolist() for one in each.parameters()] for each in (net, same))
    assert found == [expected]


def test_sixteen_threads_that_compile_run_and_draw_at_once() -> None:
    net = network().eval()
    inputs = [nbgrad.tensor(torch.randn(size, 4)) for size in range(1, 8)]
    with nbgrad.no_grad():
        expected = [net(x).tolist() for x in inputs]
    shared = nbgrad.compile(net)
    before = sys.getswitchinterval()

    def work(number: int) -> None:
        own = nbgrad.compile(net)
        runs = (shared, net, own, net)[number % 4]
        with nbgrad.no_grad():
            for step in range(63):
                place = (step + number) % 7
                torch.randperm(5)
                assert runs(inputs[place]).tolist() == expected[place]

    sys.setswitchinterval(1e-5)
    try:
        in_threads(16, work)
    finally:
        sys.setswitchinterval(before)
    assert len(shared.reasons) == 7


def test_an_interrupt_while_torch_runs_a_fake_kernel_comes_after_it() -> None:
    seen: list[int] = []

    def interrupted(x: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        seen.append(torch._C._len_torch_dispatch_stack())
        return x * 2

    before, fakes = signal.default_int_handler, fake.Fakes()
    earlier = signal.signal(signal.SIGINT, before)  # a program that another test has run may have left another one
    try:
        with pytest.raises(KeyboardInterrupt):
            fakes.run(interrupted, (fakes.of(X),), {})
        assert seen == [2], "the function has run to its end"
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert fakes.run(torch.neg, (fakes.of(X),), {}).result.shape == X.shape
