"""Times of several contenders, taken in turns within one run.

Plain code on purpose. pytest-benchmark, asv, pyperf and torch.utils.benchmark measure one contender after another: on a
machine that also does other work, a change of its load between them distorts the ratio. Also, none of them leaves out
work that must be prepared for every single call, such as the forward pass if only the backward is timed.
"""

import gc
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import torch

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def finished() -> None:
    """Wait for the GPU if one was used: its kernels still run after the calls that started them have returned."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's function has no types
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Contender:
    """A call that is timed. On a GPU the time ends when its kernels have ended.

    Attributes:
        run: the call; it gets what ``prepare`` has made, and returns the numbers that all contenders must agree on.
        prepare: called before every call, outside of the time.
    """

    run: Callable[[Any], Any]
    prepare: Callable[[], Any] | None = None

    def once(self) -> Any:
        """The result of one call."""
        return self.run(self.prepare() if self.prepare is not None else None)

    def time(self, calls: int) -> float:
        """The mean seconds of one call, over ``calls`` calls in a row."""
        if self.prepare is None:
            finished()
            begin = perf_counter()
            for _ in range(calls):
                self.run(None)
            finished()
            return (perf_counter() - begin) / calls
        total = 0.0
        for _ in range(calls):
            prepared = self.prepare()
            finished()
            begin = perf_counter()
            self.run(prepared)
            finished()
            total += perf_counter() - begin
        return total / calls


def in_turns(contenders: Mapping[str, Contender], *, rounds: int, least: float = 0.02) -> dict[str, list[float]]:
    """The seconds of a call, one number for each round and contender.

    In every round each contender makes as many calls as take about ``least`` seconds; each round begins with another
    contender. The calls of two contenders never overlap: an open graph replaces functions of torch for everyone. The
    garbage collector stays on, as for users, but runs before each turn: no library pays for another's garbage.
    """
    calls = {name: max(1, round(least / contender.time(1))) for name, contender in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.freeze()  # the collector need not look through the objects of a dozen imported libraries each time
    try:
        for number in range(rounds):
            for name in beginning(number, contenders):
                gc.collect()
                times[name].append(contenders[name].time(calls[name]))
    finally:
        gc.unfreeze()
    return times


def beginning(number: int, names: Iterable[str]) -> list[str]:
    """``names``, rotated so that the one at position ``number``, modulo their count, is the first."""
    listed = list(names)
    first = number % len(listed) if listed else 0
    return listed[first:] + listed[:first]


@dataclass(frozen=True)
class Spread:
    """The median of several numbers, and the first and the third quartile."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: list[float]) -> "Spread":
        """The spread of at least two numbers."""
        low, _, high = quantiles(numbers, n=4, method="inclusive")
        return cls(median(numbers), low, high)


def ratios(times: list[float], reference: list[float]) -> Spread:
    """The ratio of the times, round by round: what slows a whole round down cancels."""
    return Spread.of([mine / theirs for mine, theirs in zip(times, reference, strict=True)])


def time_of(seconds: float) -> str:
    """The time with three digits and a unit."""
    scale, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Interrupt Python code that takes longer than ``seconds``.

    Raises:
        TimeoutError: the code took longer.
    """

    def interrupt(*_: Any) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
