"""How much memory a training step takes at its peak: counted, not sampled, so that every run gives the same bytes."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import nbgrad
from benchmarks.networks import LARGE, NETWORKS
from benchmarks.timing import finished

TITLE = "peak memory of a step"


class Peak(NamedTuple):
    """The memory of tensors in bytes, beyond that of the tensors that were there before the step.

    Attributes:
        highest: the largest amount at any time.
        kept: what the forward leaves for the backward: the activations. None for a program, which has no such halves.
    """

    highest: int
    kept: int | None = None


Peaks = dict[str, dict[str, Peak]]


def allocations(run: Callable[[], Any], device: str = "cpu") -> list[int]:
    """The bytes of the tensors after each allocation and each release, without those that were there before.

    The numbers come from torch's allocator, which serves both libraries. The allocator of a GPU gives only the largest
    amount and the amount at the end.
    """
    if device == "cuda":
        finished()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        held = run()
        finished()
        return [torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler warns of what it cannot do beside another profiler
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            held = run()  # the result stays alive until the profiler has stopped
    del held
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    now, levels = 0, [0]
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        levels.append(now)
    return levels


def peak(library: Any, name: str, device: str = "cpu") -> Peak:
    """The peak of one step of a network. Two earlier steps make the tensors that stay."""
    with torch.device(device):
        step = NETWORKS[name][0](library)
    for _ in range(2):
        step()
    step.zero_grad()  # the profiler counts a release only if it saw the allocation
    kept = allocations(step.forward, device)[-1]
    return Peak(max(allocations(step, device)), kept)


def program_peak(name: str, device: str = "cpu") -> Peak:
    """The peak of a step that runs as a program and drops its gradients at the end."""
    with torch.device(device):
        step = NETWORKS[name][0](nbgrad)
        run = nbgrad.compile(step.cleared_after, backend="replay")
    for _ in range(2):
        run()
    return Peak(max(allocations(run, device)))


def peaks(device: str = "cpu") -> Peaks:
    """The peaks by network and by who runs it. Large networks are measured only on a GPU, and not as programs."""
    names = [name for name in NETWORKS if device != "cpu" or name not in LARGE]
    found = {name: {"torch": peak(torch, name, device), "nbgrad": peak(nbgrad, name, device)} for name in names}
    for name in set(names) - set(LARGE):
        found[name]["program"] = program_peak(name, device)
    return found


def markdown(found: Peaks) -> str:
    """A table of them."""
    lines = [
        f"## {TITLE.capitalize()}",
        "",
        "| | torch | nbgrad | times torch | above what the forward keeps, times torch | program, times torch |",
        "|---" * 6 + "|",
    ]
    for name, by in found.items():
        theirs, ours = by["torch"], by["nbgrad"]
        sizes = [f"{one.highest / 2**20:.2f} MiB" for one in (theirs, ours)]
        above = (ours.highest - (ours.kept or 0)) / (theirs.highest - (theirs.kept or 0))
        program = f"{by['program'].highest / theirs.highest:.2f}" if "program" in by else ""
        times = f"**{ours.highest / theirs.highest:.2f}**"
        lines.append(f"| {' | '.join([name, *sizes, times, f'{above:.2f}', program])} |")
    return "\n".join(lines)
