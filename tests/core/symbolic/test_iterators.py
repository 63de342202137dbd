"""Iterators from outside of a traced function: refused, and set back, or the error says that they have moved on."""

import collections
import cProfile
import csv
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
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


SET_BACK: dict[str, Callable[[], Iterator[Any]]] = {
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
}
MOVED: dict[str, Callable[[], Iterator[Any]]] = {
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
TAKES: dict[str, Callable[[Any], Any]] = {
    "next": next,
    "for": lambda given: next(one for one in given),
    "islice": lambda given: list(itertools.islice(given, 1)),
    "dunder": lambda given: given.__next__(),
}


def stepping(held: Any, take: Callable[[Any], Any]) -> Any:
    def step(x: Any) -> Any:
        take(held.values)
        return x * 1

    return step


def rest(values: Any) -> list[str]:
    return [re.sub(" at 0x.*", "", repr(one)) for one in itertools.islice(values, 3)]


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("name", SET_BACK)
def test_an_iterator_is_set_back(name: str, take: str) -> None:
    held = SimpleNamespace(values=SET_BACK[name]())
    with pytest.raises(TraceError, match=r"tests/core/symbolic/test_iterators\.py:\d+") as refused:
        nbgrad.compile(stepping(held, TAKES[take]))(nbgrad.ones(2))
    assert "moved on" not in str(refused.value)
    assert rest(held.values) == rest(SET_BACK[name]())


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("name", MOVED)
def test_an_iterator_that_cannot_be_set_back(name: str, take: str) -> None:
    held = SimpleNamespace(values=MOVED[name]())
    with pytest.raises(TraceError, match=r"outside of .*have moved on|outside of .*has moved on") as refused:
        nbgrad.compile(stepping(held, TAKES[take]))(nbgrad.ones(2))
    if name in ("generator", "wrapper", "loader"):
        assert " has moved on by 1 value, and Python cannot put it back" in str(refused.value)


def test_a_file_is_set_back(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\n2\n3\n")
    for take in TAKES.values():
        with path.open() as file:
            with pytest.raises(TraceError):
                nbgrad.compile(stepping(SimpleNamespace(values=file), take))(nbgrad.ones(2))
            assert file.read() == "1\n2\n3\n"


def test_the_count_of_values_is_said() -> None:
    held = SimpleNamespace(values=generated())
    with pytest.raises(TraceError, match=r"The generator has moved on by 3 values"):
        nbgrad.compile(stepping(held, lambda given: [next(given) for _ in range(3)]))(nbgrad.ones(2))
    assert next(held.values) == 3.0


def cold(values: Any) -> Any:
    """A step of an optimizer without state, which is called without a program at first."""
    net = nn.Linear(2, 1)
    opt = nbgrad.optim.Adam(net.parameters())

    def step(x: Any) -> Any:
        scale = next(values)
        loss = net(x * scale).square().mean()
        loss.backward()
        opt.step()
        return nbgrad.tensor(float(scale))

    return step


def test_a_call_without_a_program_does_not_take_the_value_after() -> None:
    values = generated()
    with pytest.raises(TraceError, match=r"its trace ends with ColdOptimizer.* has moved on by 1 value"):
        nbgrad.compile(cold(values))(nbgrad.ones(1, 2))
    assert nbgrad.compile(cold(iter(NUMBERS)))(nbgrad.ones(1, 2)).item() == 0.0


def test_an_error_of_the_function_says_so_too() -> None:
    values = generated()

    def step(x: Any) -> Any:
        next(values)
        raise KeyError("absent")

    with pytest.raises(TraceError, match=r"its trace ends with KeyError.* has moved on by 1 value") as refused:
        nbgrad.compile(step)(nbgrad.ones(2))
    assert isinstance(refused.value.__cause__, KeyError)

    def asks(x: Any) -> Any:
        next(values)
        return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match=r"asks for a number.* has moved on by 1 value"):
        nbgrad.compile(asks)(nbgrad.ones(2))


# ------------------------------------------------------------------------------------------------------- profilers


def prints(x: Any) -> Any:
    print("step")
    return x * 1


def starts(x: Any) -> Any:
    threading.Thread(target=print, args=("thread",)).start()
    return x * 1


def advances(x: Any, values: Any = generated()) -> Any:  # noqa: B008  # one for all calls
    next(values)
    return x * 1


ACTS = {"prints": prints, "starts": starts, "advances": advances}


def refused_before(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with pytest.raises(TraceError, match=r"prints|starts a thread|next value|takes values"):
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
