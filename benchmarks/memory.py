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
    """Bytes of tensors above those that were there before the step.

    Attributes:
        highest: the most that there was at a time.
        kept: what the forward left for the backward: the activations.
    """

    highest: int
    kept: int


Peaks = dict[str, dict[str, Peak]]


def allocations(run: Callable[[], Any], device: str = "cpu") -> list[int]:
    """How many bytes of tensors there are, more than before, after each time that some come or go.

    torch's allocator is asked, which gives memory to both libraries. That of a GPU tells the most that there were and
    those in the end.
    """
    if device == "cuda":
        finished()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        held = run()
        finished()
        return [torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler's, about what it cannot do beside another one
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            held = run()  # until the profiler has stopped
    del held
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    now, levels = 0, [0]
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        levels.append(now)
    return levels


def peak(library: Any, name: str, device: str = "cpu") -> Peak:
    """That of a step of a network, after two steps that make what stays."""
    with torch.device(device):
        step = NETWORKS[name][0](library)
    for _ in range(2):
        step()
    step.zero_grad()  # what is freed is counted only if it was made while the profiler looked on
    kept = allocations(step.forward, device)[-1]
    return Peak(max(allocations(step, device)), kept)


def peaks(device: str = "cpu") -> Peaks:
    """Those of every network, by its name and that of the library; of the large ones on a GPU alone."""
    names = [name for name in NETWORKS if device != "cpu" or name not in LARGE]
    return {name: {"torch": peak(torch, name, device), "nbgrad": peak(nbgrad, name, device)} for name in names}


def markdown(found: Peaks) -> str:
    """A table of them."""
    lines = [
        f"## {TITLE.capitalize()}",
        "",
        "| | torch | nbgrad | times torch | above what the forward keeps, times torch |",
        "|---|---|---|---|---|",
    ]
    for name, by in found.items():
        theirs, ours = by["torch"], by["nbgrad"]
        sizes = [f"{one.highest / 2**20:.2f} MiB" for one in (theirs, ours)]
        above = (ours.highest - ours.kept) / (theirs.highest - theirs.kept)
        lines.append(f"| {name} | {' | '.join(sizes)} | **{ours.highest / theirs.highest:.2f}** | {above:.2f} |")
    return "\n".join(lines)
