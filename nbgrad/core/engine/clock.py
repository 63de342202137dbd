"""Clocks: the observers that measure how long torch's functions and nodes run, and the times that they measure.

The CPU only starts the work of a GPU. So a time of such work is taken by two events in the queue of the GPU, and read
when somebody asks: to read it at once would make the CPU wait for the GPU.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

import torch


class Instant(NamedTuple):
    """A moment: that of the CPU, and if there is work of a GPU, the place in its queue.

    Attributes:
        ns: nanoseconds of Python's clock.
        event, device: a ``torch.cuda.Event``, and the GPU in whose queue it is; None on the CPU.
    """

    ns: int
    event: Any = None
    device: torch.device | None = None


def instant(device: torch.device | None = None) -> Instant:
    """This moment, for work on tensors of ``device``; None for the CPU."""
    if device is None or device.type != "cuda":
        return Instant(perf_counter_ns())
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return Instant(perf_counter_ns(), event, device)


cuda_is_used: Callable[[], bool] = torch.cuda.is_initialized
"""Whether a tensor may be on a CUDA device: to ask a tensor for its device takes longer."""


def cuda_device(values: Any) -> torch.device | None:
    """The GPU of the first tensor of a GPU among ``values``, also in lists; None if there is none."""
    if not cuda_is_used():
        return None
    for value in values:
        if isinstance(value, list | tuple):
            if (found := cuda_device(value)) is not None:
                return found
        elif getattr(value, "device", None) is not None and value.device.type == "cuda":
            return torch.device(value.device)
    return None


class Stopwatch:
    """The sum of several times.

    Attributes:
        ns: those that are known.
        pairs: the events around the work of a GPU, of the others.
    """

    __slots__ = ("ns", "pairs")

    def __init__(self) -> None:
        self.ns = 0
        self.pairs: list[tuple[Any, Any]] = []

    def add(self, began: Instant, ended: Instant) -> None:
        """Add the time between two moments."""
        if began.event is None or ended.event is None:
            self.ns += ended.ns - began.ns
        else:
            self.pairs.append((began.event, ended.event))

    @property
    def seconds(self) -> float:
        """The sum. It waits for the GPU where that still works."""
        while self.pairs:
            began, ended = self.pairs[-1]
            ended.synchronize()
            self.ns += round(began.elapsed_time(ended) * 1e6)
            self.pairs.pop()
        return self.ns / 1e9


class Clock(Protocol):
    """An observer that measures time."""

    def on_begin(self, args: tuple[Any, ...]) -> None:
        """A function of torch's in Python, which is one op, begins on ``args``."""

    def on_run(self, again: bool) -> None:
        """A function of torch's runs, now that the op was told: nothing of nbgrad's runs until it has ended.

        ``again``: whether it is the last part of the function that began before.
        """

    def on_ran(self) -> None:
        """It has ended."""

    def on_node(self, id: int, began: Instant, ended: Instant) -> None:
        """A node of torch's graph, which belongs to the op or the leaf with this ``id``, ran in a backward."""


CLOCKS: set[Clock] = set()
"""The clocks of the graphs that are open. While there is none, nothing is measured."""
