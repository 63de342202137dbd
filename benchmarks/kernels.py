"""A call on a device: how many kernels it starts, how long they run, and when the last one was started.

That explains a ratio. Where the device is busy nearly all of the time, only other or fewer kernels would be quicker;
where it waits, what counts is the Python around them.
"""

from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch._C._autograd import DeviceType

from benchmarks.case import Case
from benchmarks.timing import Contender, finished, time_of

TITLE = "kernels of a call"
BOTH = ("torch", "nbgrad")
LONG = ("deep", "rows")
"""Cases that are not profiled: a profile would have hundreds of thousands of lines, or the same ones for each row."""


class Profile(NamedTuple):
    """The work that a call gives the device.

    Attributes:
        kernels: how many it starts. On the processor these are torch's ops, without those that another op called.
        busy: the seconds that they run; the profiler makes those on the processor longer.
        returned: the seconds until the call has returned.
        ended: the seconds until the last kernel has.
    """

    kernels: int
    busy: float
    returned: float
    ended: float


Profiles = dict[str, dict[str, Profile]]


def profile(contender: Contender, device: str) -> Profile:
    """The profile of the third call."""
    for _ in range(2):
        contender.once()
    prepared = contender.prepare() if contender.prepare is not None else None
    finished()
    begin = perf_counter()
    contender.run(prepared)
    returned = perf_counter() - begin
    finished()
    ended = perf_counter() - begin
    prepared = contender.prepare() if contender.prepare is not None else None
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        contender.run(prepared)
        finished()
    found = [event for event in profiler.events() or () if _is_kernel(event, device)]
    return Profile(len(found), sum(event.time_range.elapsed_us() for event in found) / 1e6, returned, ended)


def _is_kernel(event: Any, device: str) -> bool:
    """Whether the event is a kernel, and not something that led to it or that encloses it."""
    if device == "cuda":
        return event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    outer = event.cpu_parent
    return event.name.startswith("aten::") and (outer is None or not outer.name.startswith("aten::"))


def profiles(cases: list[Case], device: str = "cpu") -> Profiles:
    """The profiles of torch and nbgrad, for each case of ``cases`` that has both."""
    found: Profiles = {}
    for case in cases:
        if case.name not in LONG and case.contenders.keys() >= set(BOTH):
            made = {name: case.made(name, device) for name in BOTH}
            found[case.name] = {name: profile(one, device) for name, one in made.items()}
    return found


def markdown(found: Profiles) -> str:
    """A table of them."""
    lines = [
        f"## {TITLE.capitalize()}",
        "",
        "| | | kernels | they run | the call returns after | the last kernel ends after |",
        "|---|---|---|---|---|---|",
    ]
    for name, by in found.items():
        for who, one in by.items():
            times = map(time_of, (one.busy, one.returned, one.ended))
            lines.append(f"| {name} | {who} | {one.kernels} | {' | '.join(times)} |")
    return "\n".join(lines)
