"""The measurements, as Markdown for people and as ratios for programs."""

import importlib.metadata
import platform
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks import cells, distributed, imports, kernels, memory, view
from benchmarks.case import Case
from benchmarks.timing import Spread, ratios, time_of

PACKAGES = ("torch", "nbgrad", "autograd", "mygrad", "micrograd", "tinygrad", "jax", "numpy", "rustworkx")

Times = dict[str, list[float]]
Absent = dict[str, str]


def versions() -> dict[str, str]:
    """The versions of everything that was measured, or "not installed"."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def device_name(device: str) -> str | None:
    """The maker's name of a GPU; None for the processor."""
    return None if device == "cpu" else torch.cuda.get_device_name(device)


def section(title: str, per: str, reference: str, times: Times, absent: Absent) -> str:
    """One case as a table: each contender, its time, the spread of the times, and the ratio to the reference's time."""
    lines = [
        f"### {title}",
        "",
        f"| | time{f' per {per}' if per else ''} | half of the rounds within | times {reference} | half within |",
        "|---|---|---|---|---|",
    ]
    for name, taken in sorted(times.items(), key=lambda item: (item[0] != reference, Spread.of(item[1]).middle)):
        time = Spread.of(taken)
        cells = [name, time_of(time.middle), f"{time_of(time.low)} to {time_of(time.high)}"]
        if name == reference:
            cells += ["1", ""]
        elif reference in times:
            ratio = ratios(taken, times[reference])
            cells += [f"**{ratio.middle:.2f}**", f"{ratio.low:.2f} to {ratio.high:.2f}"]
        else:
            cells += ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    for reason in dict.fromkeys(absent.values()):
        names = ", ".join(name for name, one in absent.items() if one == reason)
        lines.append(f"| {names} | not measured: {reason} | | | |")
    return "\n".join(lines)


def overview(cases: list[Case], measured: dict[int, dict[str, Any]]) -> str:
    """The ratios of all cases in which nbgrad and others run: a row each, with the peers sorted by their ratios."""
    threads = list(measured)
    names = [f"nbgrad, {number} thread{'s' if number > 1 else ''}" for number in threads]
    lines = [f"| times torch's time | {' | '.join(names)} | the others, {names[0].partition(', ')[2]} |"]
    lines.append("|---" * (len(threads) + 2) + "|")
    for case in cases:
        found = [compared(case.reference, measured[number][case.name]["times"]) for number in threads]
        if not all("nbgrad" in ratios for ratios in found):
            continue
        cells = ["{ratio:.2f} ({half_within[0]:.2f} to {half_within[1]:.2f})".format(**one["nbgrad"]) for one in found]
        others = sorted((one["ratio"], name) for name, one in found[0].items() if name != "nbgrad")
        peers = ", ".join(f"{name} {ratio:.3g}" for ratio, name in others)
        lines.append(f"| `{case.name}` | {' | '.join(cells)} | {peers} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def compared(reference: str, times: Times) -> dict[str, Any]:
    """The ratio of each contender's time to the reference's time. Empty if the reference did not run."""
    if reference not in times:
        return {}
    spreads = {name: ratios(taken, times[reference]) for name, taken in times.items() if name != reference}
    return {
        name: {"ratio": round(spread.middle, 3), "half_within": [round(spread.low, 3), round(spread.high, 3)]}
        for name, spread in spreads.items()
    }


@dataclass(frozen=True)
class Report:
    """The measurements of one run.

    Attributes:
        cases: the cases that were timed.
        rounds: how many turns each contender had.
        measured: by the number of threads and the name of a case, the times of each contender and who was absent.
        starting: the times of the parts of a program's start (benchmarks/imports.py).
        peaks: the memory of a step.
        cell_peaks: the memory of a recorded step.
        profiles: what a call asks of the device.
        pictures: for each graph the time and the size of its picture.
        together: the steps of two processes, and how much of the sending their backwards hide.
        device: the name of the GPU; None for the processor.
    """

    cases: list[Case]
    rounds: int
    measured: dict[int, dict[str, Any]]
    starting: Times
    peaks: memory.Peaks
    profiles: kernels.Profiles
    pictures: view.Pictures
    cell_peaks: dict[str, cells.CellPeak] = field(default_factory=dict)
    together: dict[str, distributed.Measured] = field(default_factory=dict)
    device: str | None = None

    def markdown(self) -> str:
        """Everything."""
        parts = [
            "# Benchmarks",
            f"Medians of {self.rounds} rounds, in each of which every contender has a turn. A ratio is taken within a "
            "round; what is given is the median of the ratios. Versions: "
            + ", ".join(f"{name} {version}" for name, version in versions().items())
            + ".",
        ]
        if self.measured and (rows := overview(self.cases, self.measured)):
            parts += ["The median of the ratios, and what half of them lie within:", rows]
        for threads, found in self.measured.items():
            where = "" if self.device is None else f"{self.device}, "
            parts.append(f"## {where}{threads} thread{'s' if threads > 1 else ''}")
            parts += [
                section(case.title, case.per, case.reference, found[case.name]["times"], found[case.name]["absent"])
                for case in self.cases
            ]
        if self.peaks:
            parts.append(memory.markdown(self.peaks))
        if self.cell_peaks:
            parts.append(cells.markdown(self.cell_peaks))
        if self.profiles:
            parts.append(kernels.markdown(self.profiles))
        if self.pictures:
            parts.append(view.markdown(self.pictures))
        if self.together:
            parts.append(distributed.markdown(self.together))
        if self.starting:
            parts += ["## Start", section(imports.TITLE, "", imports.REFERENCE, self.starting, {})]
        return "\n\n".join(parts) + "\n"

    def facts(self) -> dict[str, Any]:
        """The ratios, counts and sizes. Times are left out, because they only say how fast this machine is."""
        return {
            "versions": versions(),
            "rounds": self.rounds,
            "device": self.device,
            "memory": {name: {who: one._asdict() for who, one in by.items()} for name, by in self.peaks.items()},
            "cells": {name: one._asdict() for name, one in self.cell_peaks.items()},
            "kernels": {name: {who: one.kernels for who, one in by.items()} for name, by in self.profiles.items()},
            "distributed": {
                name: {**compared("torch", one.times)["nbgrad"], "hidden": round(one.trace.hidden, 3)}
                for name, one in self.together.items()
            },
            "view": {
                name: {"ops": one.ops, "payload": one.payload, "output": one.output, "kept": one.kept}
                for name, one in self.pictures.items()
            },
            "start": {"reference": imports.REFERENCE, "compared": compared(imports.REFERENCE, self.starting)},
            "threads": {
                str(threads): {
                    case.name: {
                        "title": case.title,
                        "reference": case.reference,
                        "compared": compared(case.reference, found[case.name]["times"]),
                        "absent": found[case.name]["absent"],
                    }
                    for case in self.cases
                }
                for threads, found in self.measured.items()
            },
        }
