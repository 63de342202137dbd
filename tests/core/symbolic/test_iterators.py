"""Iterators from outside of a traced function: refused before the first value is taken."""

import collections
import cProfile
import csv
import io
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError

NUMBERS = [float(one) for one in range(9)]


def generated() -> Iterator[float]:
    yield from NUMBERS


class Counting:
    """An iterator of the user's."""

    def __init__(self) -> None:
        self.count = 0.0

    def __iter__(self) -> "Counting":
        return self

    def __next__(self) -> float:
        self.count += 1
        return self.count


class Wrapping:
    """An iterator of the user's around another one."""

    def __init__(self) -> None:
        self.inner = generated()

    def __iter__(self) -> "Wrapping":
        return self

    def __next__(self) -> float:
        return next(self.inner)


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter(NUMBERS),
    "tuple": lambda: iter(tuple(NUMBERS)),
    "range": lambda: iter(range(9)),
    "text": lambda: iter("123456789"),
    "reversed": lambda: reversed(NUMBERS),
    "zip": lambda: zip(NUMBERS, range(9), strict=True),
    "map": lambda: map(float, NUMBERS),
    "filter": lambda: filter(None, NUMBERS),
    "nested": lambda: map(sum, zip(NUMBERS, NUMBERS, strict=True)),
    "tensor": lambda: iter(torch.arange(9.0).reshape(3, 3)),
    "class": Counting,
    "set": lambda: iter({1, 2, 3}),
    "dict": lambda: iter({1: 2, 3: 4, 5: 6}.values()),
    "deque": lambda: iter(collections.deque(NUMBERS)),
    "enumerate": lambda: enumerate(NUMBERS),
    "calls": lambda: iter(generated().__next__, 5.0),
    "matches": lambda: re.finditer("[0-9]", "123"),
    "rows": lambda: csv.reader(["1", "2", "3"]),
    "count": itertools.count,
    "cycle": lambda: itertools.cycle(NUMBERS),
    "chain": lambda: itertools.chain(NUMBERS, NUMBERS),
    "islice": lambda: itertools.islice(NUMBERS, 8),
    "accumulate": lambda: itertools.accumulate(NUMBERS),
    "product": lambda: itertools.product(NUMBERS, NUMBERS),
    "permutations": lambda: itertools.permutations(NUMBERS, 2),
    "tee": lambda: itertools.tee(NUMBERS)[0],
    "groups": lambda: itertools.groupby(NUMBERS),
    "pairwise": lambda: itertools.pairwise(NUMBERS),
    "generator": generated,
    "map of a generator": lambda: map(float, generated()),
    "wrapper": Wrapping,
    "array": lambda: np.nditer(np.arange(9.0)),
    "places": lambda: np.ndenumerate(np.arange(9.0)),
    "loader": lambda: iter(DataLoader(list(range(9)), batch_size=1)),  # type: ignore[arg-type]
    "sampler": lambda: iter(RandomSampler(range(9))),
}


def stepping(held: Any) -> Any:
    def step(x: Any) -> Any:
        next(held.values)
        return x * 1

    return step


def rest(values: Any) -> list[str]:
    return [re.sub(" at 0x.*", "", repr(one)) for one in itertools.islice(values, 3)]


@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_is_refused_as_it_is(name: str) -> None:
    held = SimpleNamespace(values=ITERATORS[name]())
    torch.manual_seed(0)  # a sampler draws its first number in the first ``next``
    with pytest.raises(TraceError, match=r"the function uses held\.values, a .* Call next\(\.\.\.\) outside"):
        nbgrad.compile(stepping(held))(nbgrad.ones(2))
    found = rest(held.values)
    torch.manual_seed(0)
    assert found == rest(ITERATORS[name]())


def test_a_file_is_refused_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\n2\n3\n")
    with path.open() as file:
        with pytest.raises(TraceError, match=r"the function uses held\.values, a TextIOWrapper"):
            nbgrad.compile(stepping(SimpleNamespace(values=file)))(nbgrad.ones(2))
        assert file.read() == "1\n2\n3\n"


def test_a_stream_in_memory_and_a_file_that_is_closed_are_fine(tmp_path: Path) -> None:
    memory, file = io.StringIO("1"), (tmp_path / "numbers").open("w")
    file.close()
    compiled = nbgrad.compile(lambda x: x * len(memory.getvalue()) * (2 if file.closed else 3))
    assert compiled(nbgrad.ones(2)).tolist() == [2.0, 2.0]


def test_a_step_of_an_optimizer_without_state_takes_no_value() -> None:
    net, values = nn.Linear(2, 1), iter(NUMBERS)
    opt = nbgrad.optim.Adam(net.parameters())

    def step(x: Any) -> Any:
        net(x * next(values)).square().mean().backward()
        opt.step()

    with pytest.raises(TraceError, match="the function uses values, a list_iterator"):
        nbgrad.compile(step)(nbgrad.ones(1, 2))
    assert list(values) == NUMBERS


# ------------------------------------------------------------------------------------------------------- profilers


def prints(x: Any) -> Any:
    print("step")
    return x * 1


def starts(x: Any) -> Any:
    threading.Thread(target=print, args=("thread",)).start()
    return x * 1


ACTS = {"prints": prints, "starts": starts}


def refused_before(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with pytest.raises(TraceError, match=r"prints|starts a thread"):
            nbgrad.compile(ACTS[act])(nbgrad.ones(2))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("act", ACTS)
def test_a_profiler_of_the_user_hears_of_calls_too(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []

    def profile(frame: Any, event: str, called: Any) -> None:
        heard.append(frame.f_code.co_name if event == "call" else event)

    sys.setprofile(profile)
    try:
        refused_before(act, capsys)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert act in heard


@pytest.mark.parametrize("act", ACTS)
def test_calls_are_watched_under_cprofile(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        before = sys.getprofile()
        refused_before(act, capsys)
        assert sys.getprofile() is before
        sorted([2, 1])
    finally:
        profiler.disable()
    names = {one.code if isinstance(one.code, str) else one.code.co_name for one in profiler.getstats()}
    assert "<built-in method builtins.sorted>" in names


@pytest.mark.parametrize("act", ACTS)
def test_calls_are_watched_under_a_tracer_of_lines(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = 0

    def tracing(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return tracing

    before = sys.gettrace()
    sys.settrace(tracing)
    try:
        refused_before(act, capsys)
        assert sys.gettrace() is tracing
    finally:
        sys.settrace(before)
    assert lines


def test_another_profiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getprofile", lambda: 3)
    with pytest.raises(TraceError, match=r"the profiler int is on, .* Switch it off for the first call"):
        nbgrad.compile(lambda x: x * 1)(nbgrad.ones(2))
