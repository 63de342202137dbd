"""Random cases that torch's samples do not contain: ``make sweep`` runs each sweep for minutes, the tests a few cases.

A sweep is a file of ``tests/sweeps`` with two names. ``check(random)`` makes one case from a ``random.Random`` and
raises AssertionError where nbgrad and torch differ. It may return how many tries the case has made, such as interrupts:
``--tries`` stops a sweep after so many. ``CASES`` says how many cases the unit tests run. The number of a
case is its seed, so ``python -m tools.sweep NAME --seed NUMBER --cases 1`` repeats a failure.
"""

import argparse
import itertools
import secrets
import sys
import traceback
import warnings
from collections import Counter
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

import torch
from pebble import ProcessExpired, ProcessPool

from tests.seeding import seed_only_what_is_there

FOLDER = Path(__file__).parents[1] / "tests" / "sweeps"
GRACE = 120.0
"""How many seconds after its own time limit a process counts as hanging."""


class Failure(NamedTuple):
    """A case that raised."""

    sweep: str
    seed: int
    error: str


class Outcome(NamedTuple):
    """The results of some cases of one sweep; ``tries`` is the sum of what the cases have returned."""

    sweep: str
    cases: int
    failures: list[Failure]
    tries: int = 0


def names() -> list[str]:
    """Return the names of all sweeps."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def run(
    sweep: str, seed: int, *, cases: int | None = None, seconds: float = float("inf"), tries: int | None = None
) -> Outcome:
    """Run the cases of a sweep from ``seed`` on, up to a number of cases, seconds or tries.

    A failure does not end the run.
    """
    check = import_module(f"tests.sweeps.{sweep}").check
    end = monotonic() + seconds
    done, tried, failures = 0, 0, []
    for number in itertools.count(seed) if cases is None else range(seed, seed + cases):
        if monotonic() > end or (tries is not None and tried >= tries):
            break
        torch.default_generator.manual_seed(number)
        done += 1
        try:
            tried += check(Random(number)) or 0
        except Exception:  # any error at all is the result of the case
            failures.append(Failure(sweep, number, traceback.format_exc()))
    return Outcome(sweep, done, failures, tried)


def prepare() -> None:
    """Make a process ready: one thread each."""
    torch.set_num_threads(1)
    seed_only_what_is_there()
    warnings.simplefilter("ignore")  # nbgrad and torch warn of the same things, case after case


def run_all(
    sweeps: list[str], seed: int, *, seconds: float, cases: int | None, tries: int | None = None, jobs: int = 2
) -> list[Outcome]:
    """Run sweeps side by side, each in its own process. A process that dies or hangs counts as a failure."""
    with ProcessPool(jobs, max_tasks=1, initializer=prepare, context=get_context("spawn")) as pool:
        settings = {"cases": cases, "seconds": seconds, "tries": tries}
        begun = [
            (name, pool.schedule(run, args=(name, seed), kwargs=settings, timeout=seconds + GRACE)) for name in sweeps
        ]
        outcomes = []
        for name, future in begun:
            try:
                outcomes.append(future.result())
            except TimeoutError:
                outcomes.append(Outcome(name, 0, [Failure(name, seed, f"a case hangs for more than {GRACE:g} s")]))
            except ProcessExpired as death:
                outcomes.append(Outcome(name, 0, [Failure(name, seed, f"died with exit code {death.exitcode}")]))
            last = outcomes[-1]
            tried = f" with {last.tries:,} tries" if last.tries else ""
            print(f"{name:24} {last.cases:8} cases{tried}, {len(last.failures)} failed", flush=True)
    return outcomes


def report(outcomes: list[Outcome], *, most: int = 5) -> int:
    """Print the first failures of each sweep with how to repeat them; return how many cases failed."""
    shown: Counter[str] = Counter()
    for failure in itertools.chain.from_iterable(outcome.failures for outcome in outcomes):
        shown[failure.sweep] += 1
        if shown[failure.sweep] <= most:
            print(f"\npython -m tools.sweep {failure.sweep} --seed {failure.seed} --cases 1\n{failure.error}")
    print(f"\n{sum(outcome.cases for outcome in outcomes)} cases, {shown.total()} failed")
    return shown.total()


def main(arguments: list[str]) -> int:
    """Run the sweeps that are named, or all; fail when a case does."""
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which sweeps: {', '.join(names())} (default: all)")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long all of them take together")
    parser.add_argument("--cases", type=int, help="stop a sweep after so many cases")
    parser.add_argument("--tries", type=int, help="stop a sweep after so many tries, such as interrupts")
    parser.add_argument("--seed", type=int, help="the number of the first case (default: another one each time)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    options = parser.parse_args(arguments)
    sweeps = options.names or names()
    if unknown := sorted(set(sweeps) - set(names())):
        parser.error(f"no sweep {', '.join(unknown)}: there are {', '.join(names())}")
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    rounds = -(-len(sweeps) // options.jobs)
    print(f"{len(sweeps)} sweeps from seed {seed}, {options.minutes / rounds:.1f} minutes each", flush=True)
    limits = {"cases": options.cases, "tries": options.tries, "jobs": options.jobs}
    outcomes = run_all(sweeps, seed, seconds=options.minutes * 60 / rounds, **limits)
    return report(outcomes) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
