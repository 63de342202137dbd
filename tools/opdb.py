"""How much of torch's own op database nbgrad agrees with: value, gradient, second order, method and in-place twin.

``make opdb`` runs every sample of every differentiable entry and writes a table to build/opdb.md; with ``--keep`` it
also writes the lists that the tests compare with. A sample that fails, a process that dies and an entry that takes too
long are counted as such, and the run goes on.
"""

import argparse
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import torch
from pebble import ProcessExpired, ProcessPool

from tests.core.opdb import (
    AGREED,
    COLUMNS,
    COMPLEX,
    DIFFERENT,
    SKIPPED,
    cases,
    check,
    entries,
    lists,
    one_line,
)
from tests.core.result import Result
from tests.seeding import seed_only_what_is_there

TABLE = Path("build/opdb.md")


class Broken(Result):
    """The result of a case that did not finish. It says nothing about any sample."""


Work = tuple[str, int | None, int | None]
"""The arguments of ``check``: a case, the largest number of samples, and the only sample to run."""


def run(
    work: Iterable[Work],
    *,
    jobs: int = 2,
    limit: float = 300.0,
    function: Callable[..., Result] = check,
    ready: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Run ``function(*arguments)`` for each item of ``work``, in separate processes. Yield the results in order.

    Args:
        work: the arguments.
        jobs: how many processes.
        limit: how many seconds a case may take.
        function: what runs.
        ready: what each process does first; default: ``prepare``.
    """
    with ProcessPool(jobs, initializer=ready or prepare, context=get_context("spawn")) as pool:
        begun = [(arguments[0], pool.schedule(function, args=arguments, timeout=limit)) for arguments in work]
        for case, future in begun:
            try:
                yield future.result()
            except TimeoutError:
                yield broken(case, f"not done in {limit:g} s")
            except ProcessExpired as death:
                yield broken(case, f"its process died with exit code {death.exitcode}")
            except Exception as error:  # outside of any sample
                yield broken(case, one_line(error))


def prepare() -> None:
    """Make a process ready: set torch to one thread, and import torch's op database, which takes seconds."""
    warnings.simplefilter("ignore")  # torch's samples use what torch deprecates
    torch.set_num_threads(1)
    seed_only_what_is_there()
    entries()


def broken(case: str, reason: str) -> Result:
    """The result of a case that did not end."""
    return Broken(case, reasons=Counter({("value", reason): 1}))


# The table.


def report(results: list[Result], skipped: Iterable[str]) -> str:
    """All of it, as Markdown."""
    by_case = {result.case: result for result in results}
    names = list(dict.fromkeys(result.case.removesuffix(COMPLEX) for result in results))
    rows = [row(name, by_case.get(name), by_case.get(name + COMPLEX)) for name in names]
    head = ["entry", *COLUMNS, "complex128", "what differs, in how many comparisons"]
    parts = [
        "# torch's op database, run on nbgrad",
        *summary(results),
        f"torch {torch.__version__}. A cell says how many samples agree with torch, of how many that torch itself can "
        "do; *method* and *in place* are value and gradient of the call written so. The column complex128 says how "
        "many samples agree there in all of this.",
        "## What is missing or differs",
        table(["entries", "what", "which"], missing(results)),
        "## Entries",
        table(head, rows),
    ]
    if reasons := [[name, SKIPPED[name]] for name in skipped]:
        parts += ["## Not run", table(["entry", "why"], reasons)]
    return "\n\n".join(parts) + "\n"


def summary(results: list[Result]) -> list[str]:
    """One line about the cases in float64, and one about the cases in complex128."""
    real = [result.agrees for result in results if not result.case.endswith(COMPLEX)]
    wide = [result.agrees for result in results if result.case.endswith(COMPLEX)]
    return [
        f"{sum(real)} of {len(real)} differentiable entries agree in all samples",
        f"{sum(wide)} of {len(wide)} that have complex gradients agree in all samples of complex128",
    ]


def row(name: str, real: Result | None, wide: Result | None) -> list[str]:
    """An entry's row."""
    counts = real.counts if real is not None else {}
    cells = ["{}/{}".format(*counts[column]) if column in counts else "" for column in COLUMNS]
    both = [result for result in (real, wide) if result is not None]
    reasons = sum((result.reasons for result in both), Counter[tuple[str, str]]())
    said = [f"{column}: {reason} ({times})" for (column, reason), times in reasons.most_common(2)]
    if len(reasons) > 2:
        said.append(f"and {len(reasons) - 2} more")
    return [name, *cells, "{}/{}".format(*wide.whole) if wide is not None else "", "; ".join(said)]


def missing(results: list[Result]) -> list[list[str]]:
    """The reasons why entries do not agree, the most frequent first."""
    kept = defaultdict(set)
    for result in results:
        for _, reason in result.reasons:
            kept[kind(reason)].add(result.case)
    ranked = sorted(kept.items(), key=lambda item: (-len(item[1]), item[0]))
    return [[str(len(which)), what, shortened(sorted(which))] for what, which in ranked]


PATTERNS = {
    r"nbgrad has no op '(.+?)'": "op {}",
    r"'\w*Tensor' object has no attribute '(.+?)'": "method {}",
    r"(\S+) on an nbgrad tensor takes no (\w+)=": "argument {1} of {0}",
    r"(\S+)\(\) got an unexpected argument '(.+?)'": "argument {1} of {0}",
    r"gradients of (torch\.complex\w+) tensors": "gradients of {}",
    r"(not done in|its process died)": "{}: no result",
    r"(Scalars|Tensor-likes) are not|^number \d+: (Mismatched|Greatest|Expected)": "other numbers than torch's",
}


def kind(reason: str) -> str:
    """The kind of a reason: its text without the details of one sample."""
    for pattern, text in PATTERNS.items():
        if found := re.search(pattern, reason):
            return text.format(*found.groups())
    return re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "N", reason)[:120]


def shortened(names: list[str]) -> str:
    """At most eight names."""
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# The command.


def chosen(patterns: list[str]) -> list[str]:
    """The cases that these patterns name: an entry, a function with all its variants, or a name with wildcards.

    Raises:
        SystemExit: a pattern matches no case.
    """
    known = cases()
    if not patterns:
        return known
    picked = set()
    for pattern in patterns:
        found = {
            case
            for case in known
            if pattern in (case, case.removesuffix(COMPLEX), entries()[case.removesuffix(COMPLEX)].name)
            or fnmatch(case.removesuffix(COMPLEX), pattern)
        }
        if not found:
            raise SystemExit(f"torch's op database has no differentiable entry {pattern!r}")
        picked |= found
    return [case for case in known if case in picked]


def keep(results: list[Result]) -> None:
    """Write the kept lists.

    Raises:
        SystemExit: a case did not end: nothing can be said about it.
    """
    if dead := [result.case for result in results if isinstance(result, Broken)]:
        raise SystemExit(f"the lists are as they were, for these have no result: {', '.join(dead)}")
    for path, text in zip((AGREED, DIFFERENT), lists(results), strict=True):
        path.write_text(text)
    print(f"{AGREED.name} and {DIFFERENT.name} are written")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.opdb", description=__doc__)
    parser.add_argument("names", nargs="*", help="entries, such as max or max.binary or 'linalg.*'; default: all")
    parser.add_argument("--samples", type=int, metavar="K", help="at most so many samples of an entry, spread evenly")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes; default: %(default)s")
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="seconds an entry may take")
    parser.add_argument("--require", type=int, default=0, metavar="N", help="fail if fewer entries agree (float64)")
    parser.add_argument("--keep", action="store_true", help="write the lists that the tests compare with")
    parser.add_argument("--output", type=Path, default=TABLE, metavar="FILE", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.keep and options.samples is not None:
        parser.error("--keep is about all samples: leave --samples out")
    return options


def main(arguments: list[str]) -> int:
    """Run, write the table, print the summary."""
    options = parse(arguments)
    prepare()
    begin = perf_counter()
    work = chosen(options.names)
    results = []
    for result in run([(case, options.samples, None) for case in work], jobs=options.jobs, limit=options.limit):
        results.append(result)
        if sys.stderr.isatty():
            print(f"\r{len(results)}/{len(work)} {result.case:60.60}", end="", file=sys.stderr)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(report(results, [] if options.names else SKIPPED))
    print(f"{options.output}, {perf_counter() - begin:.0f} s" if not sys.stderr.isatty() else "")
    print(*summary(results), sep="\n")
    if options.keep:
        keep(results)
    agreeing = sum(result.agrees for result in results if not result.case.endswith(COMPLEX))
    if agreeing < options.require:
        print(f"{options.require} were required", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
