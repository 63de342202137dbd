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
        kept: what the forward left for the backward: the activations; None for a program, which has no such halves.
    """

    highest: int
    kept: int | None = None


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


BUDGETS = {"program": None, "program of 0.9 of its peak": 0.9}
"""The programs that are measured, each with its budget."""


def program_peak(name: str, budget: float | None, device: str = "cpu") -> Peak:
    """That of a step as a program, which drops its gradients at the end."""
    with torch.device(device):
        step = NETWORKS[name][0](nbgrad)
        run = nbgrad.compile(step.cleared_after, backend="replay", budget=budget)
    for _ in range(2):
        run()
    return Peak(max(allocations(run, device)))


def peaks(device: str = "cpu") -> Peaks:
    """Those of every network, by its name and who runs it; of the large ones on a GPU alone, and not as programs."""
    names = [name for name in NETWORKS if device != "cpu" or name not in LARGE]
    found = {name: {"torch": peak(torch, name, device), "nbgrad": peak(nbgrad, name, device)} for name in names}
    for name in set(names) - set(LARGE):
        found[name] |= {title: program_peak(name, budget, device) for title, budget in BUDGETS.items()}
    return found


def markdown(found: Peaks) -> str:
    """A table of them."""
    programs = [f"{title}, times torch" for title in BUDGETS]
    lines = [
        f"## {TITLE.capitalize()}",
        "",
        f"| | torch | nbgrad | times torch | above what the forward keeps, times torch | {' | '.join(programs)} |",
        "|---" * (5 + len(programs)) + "|",
    ]
    for name, by in found.items():
        theirs, ours = by["torch"], by["nbgrad"]
        sizes = [f"{one.highest / 2**20:.2f} MiB" for one in (theirs, ours)]
        above = (ours.highest - (ours.kept or 0)) / (theirs.highest - (theirs.kept or 0))
        ratios = [f"{by[title].highest / theirs.highest:.2f}" if title in by else "" for title in BUDGETS]
        times = f"**{ours.highest / theirs.highest:.2f}**"
        lines.append(f"| {' | '.join([name, *sizes, times, f'{above:.2f}', *ratios])} |")
    return "\n".join(lines)
