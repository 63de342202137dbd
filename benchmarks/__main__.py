"""Compare nbgrad with torch and with every peer that pip installs, as ratios taken within one run.

``make bench`` runs all of it and writes build/bench.md and build/bench.json; ``python -m benchmarks --help`` says how
to run less. The measuring is done by this same program in processes of its own for each number of threads.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks import (  # noqa: F401  # they add cases
    cells,
    chains,
    distributed,
    imports,
    kernels,
    memory,
    mlp,
    networks,
    pacing,
    programs,
    view,
    watching,
)
from benchmarks.case import CASES, Case
from benchmarks.report import Report, device_name
from nbgrad.core.compilation import why_not

OUTPUT = Path("build")


def measure(cases: list[Case], threads: int, rounds: int, turn: int, device: str) -> dict[str, Any]:
    """The times of each case, in this process; ``turn`` says which contender is made first."""
    torch.set_num_threads(threads)
    found = {}
    for case in cases:
        print(f"{threads} thread{'s' if threads > 1 else ''}: {case.title}", file=sys.stderr)
        times, absent = case.times(rounds, turn=turn, device=device)
        found[case.name] = {"times": times, "absent": absent}
    return found


def in_processes(cases: list[Case], threads: int, rounds: int, processes: int, device: str) -> dict[str, Any]:
    """The same with the rounds in several processes: each process has the contenders at other places in memory."""
    turns = range(min(processes, rounds))
    parts = [in_a_process(cases, threads, len(range(turn, rounds, processes)), turn, device) for turn in turns]
    whole = {}
    for name in parts[0]:
        times = [part[name]["times"] for part in parts]
        everywhere = [contender for contender in times[0] if all(contender in taken for taken in times)]
        whole[name] = {
            "times": {contender: [one for taken in times for one in taken[contender]] for contender in everywhere},
            "absent": {contender: why for part in parts for contender, why in part[name]["absent"].items()},
        }
    return whole


def in_a_process(cases: list[Case], threads: int, rounds: int, turn: int, device: str) -> dict[str, Any]:
    """The measurements of one process. From its start all its libraries have ``threads`` threads."""
    # numpy's and jax's pools are as large as the processors that the process may use when they start.
    processors = sorted(os.sched_getaffinity(0))[:threads] if hasattr(os, "sched_getaffinity") else []
    job = ["--child", str(threads), str(turn), "--rounds", str(rounds), "--device", device]
    command = [sys.executable, "-m", "benchmarks", *job, "--", *names(cases)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    if len(processors) == threads:
        environment["BENCHMARK_PROCESSORS"] = ",".join(map(str, processors))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def names(cases: list[Case]) -> list[str]:
    """The short names of the cases."""
    return [case.name for case in cases]


def child(cases: list[Case], threads: int, rounds: int, turn: int, device: str) -> None:
    """Measure, and print the times for the process that waits for them."""
    if processors := os.environ.get("BENCHMARK_PROCESSORS"):
        os.sched_setaffinity(0, set(map(int, processors.split(","))))
    print(json.dumps(measure(cases, threads, rounds, turn, device)))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    known = {case.name: case for case in CASES}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    tables = {case.name: case.title for case in CASES} | {
        "start": imports.TITLE,
        "memory": memory.TITLE,
        "cell-memory": cells.TITLE,
        "kernels": kernels.TITLE,
        "view": view.TITLE,
        "distributed": distributed.TITLE,
    }
    listed = "; ".join(f"{name}: {title}" for name, title in tables.items())
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"{listed}. Default: all",
    )
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="turns of each; default: %(default)s")
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="default: 1 2; with --device cuda 1")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where the tensors are; default: %(default)s"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: %(default)s")
    parser.add_argument(
        "--processes", type=int, default=3, metavar="N", help="the turns are dealt out to so many; default: %(default)s"
    )
    parser.add_argument("--child", type=int, nargs=2, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - tables.keys():
        parser.error(f"there is no case {', '.join(sorted(unknown))}: there are {', '.join(tables)}")
    if options.rounds < 2 and options.child is None:
        parser.error("the spread of the times needs --rounds 2 or more")
    if options.processes < 1:
        parser.error("--processes is to be 1 or more")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device here")
    if options.device == "cpu" and (large := [name for name in options.cases if name in known and known[name].large]):
        parser.error(f"{', '.join(large)}: a step takes minutes on a processor: add --device cuda")
    if (reason := why_not()) is not None and os.environ.get("NBGRAD_COMPILED") != "0":
        parser.error(f"these would be the times of plain Python: {reason}. NBGRAD_COMPILED=0 measures it on purpose")
    options.threads = options.threads or ([1, 2] if options.device == "cpu" else [1])
    usual = [name for name in tables if _is_usual(name, known.get(name), options.device)]
    options.tables = [name for name in tables if name in (options.cases or usual)]
    options.cases = [known[name] for name in options.tables if name in known]
    options.profiled = options.cases or [known[name] for name in usual if name in known]
    return options


def _is_usual(table: str, case: Case | None, device: str) -> bool:
    """Whether this table is made when the command names no table."""
    if device == "cuda":
        return table not in ("start", "view", "distributed", "cell-memory")  # these tables run no kernel on a GPU
    return table != "kernels" if case is None else not case.large


def main(arguments: list[str]) -> int:
    """Measure, print the tables, and keep them."""
    options = parse(arguments)
    if options.child is not None:
        child(options.cases, options.child[0], options.rounds, options.child[1], options.device)
        return 0
    cases, rounds, tables, device = options.cases, options.rounds, options.tables, options.device
    numbers = options.threads if cases else []
    report = Report(
        cases,
        rounds,
        {threads: in_processes(cases, threads, rounds, options.processes, device) for threads in numbers},
        starting=imports.times(rounds) if "start" in tables else {},
        peaks=memory.peaks(device) if "memory" in tables else {},
        cell_peaks=cells.peaks() if "cell-memory" in tables else {},
        profiles=kernels.profiles(options.profiled, device) if "kernels" in tables else {},
        pictures=view.all_sent(rounds) if "view" in tables else {},
        together=distributed.steps(rounds) if "distributed" in tables else {},
        device=device_name(device),
    )
    text = report.markdown()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "bench.md").write_text(text)
    (options.output / "bench.json").write_text(json.dumps(report.facts(), indent=2) + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
