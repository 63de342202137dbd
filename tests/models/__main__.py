"""Run other people's models plain, recorded and converted, and compare: ``python -m tests.models``.

Each package runs in its own process. A program that fails, hangs or kills its process is still a row of the table. The
command fails in three cases: a program differs when it is recorded; a converted program differs without an error; or
a program is worse than ``results.md`` says.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

from tests.models.packages import PROGRAMS, SMALL
from tests.models.result import Result
from tests.models.table import RESULTS, faults, page, results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "models.md"


@dataclass
class Ran:
    """The results of a package: its name for pip, its version, and a result for each program."""

    package: str
    version: str = ""
    results: list[Result] = field(default_factory=list)


def run(module: str, options: list[str], limit: float = 300.0) -> Ran:
    """Run the programs of ``module`` in a process. If it dies or hangs, a new process runs the remaining programs.

    Args:
        module: a module of ``tests.models.programs``, or the full name of another module.
        options: for the worker.
        limit: how many seconds a program may take.
    """
    ran, done, said = Ran(module), [], ""
    while True:
        skipped = [word for name in done for word in ("--skip", name)]
        command = [sys.executable, "-m", "tests.models.worker", module, *options, *skipped]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stderr is not None
            errors: list[str] = []
            listens = Thread(target=lambda pipe=process.stderr, kept=errors: kept.extend(pipe))
            listens.start()
            running = None
            for facts in _facts(process, limit):
                if "package" in facts:
                    ran.package, ran.version = facts["package"], facts["version"]
                elif "begins" in facts:
                    running = facts["begins"]
                    done.append(running)
                else:
                    ran.results.append(Result(**facts))
                    running = None
            process.kill()
            process.wait()
            listens.join()
        said = errors[-1].strip() if errors else ""
        if running is None and (process.returncode == 0 or done):
            return ran
        what = "its process hangs" if process.returncode == -9 else f"its process ended with {process.returncode}"
        ran.results.append(Result(running or "import", recorded=f"error: {what}: {said}"[:300]))
        if running is None:
            return ran


def _facts(process: "subprocess.Popen[str]", limit: float) -> Iterator[dict[str, Any]]:
    """The lines that the worker writes. They end after the worker was silent for ``limit`` seconds."""
    lines: Queue[str | None] = Queue()

    def read(pipe: IO[str]) -> None:
        for line in pipe:
            lines.put(line)
        process.wait()
        lines.put(None)

    assert process.stdout is not None
    Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=limit)
        except Empty:
            return
        if line is None:
            return
        yield json.loads(line)


def main(arguments: list[str]) -> int:
    """Run, print, write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"default: all of {', '.join(PROGRAMS)}")
    parser.add_argument("--small", action="store_true", help="the programs of the packages that install in seconds")
    parser.add_argument("--quick", action="store_true", help="measure neither time nor memory")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; times are right with one alone")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the graph of each program as SVG")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write results.md and docs/models.md, with the rows of the packages that run",
    )
    options = parser.parse_args(arguments)
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    modules = options.modules or list(SMALL if options.small else PROGRAMS)
    more = ["--quick"] * options.quick + (["--pictures", str(options.pictures.resolve())] if options.pictures else [])

    def work(module: str) -> Ran:
        return run(module, [*more, *(["--only", *SMALL[module]] if options.small else [])])

    rans, wrong = [], []
    known = RESULTS.read_text(encoding="utf-8")
    with ThreadPoolExecutor(options.jobs) as pool:
        for ran in pool.map(work, modules):
            rans.append(ran)
            if options.write:
                RESULTS.write_text(results(rans, known), encoding="utf-8")
                PAGE.write_text(page(RESULTS.read_text(encoding="utf-8")), encoding="utf-8")
            for result in ran.results:
                found = faults(ran.package, result, known)
                wrong += found
                print(f"{'!!' if found else '  '} {ran.package} {ran.version} {result}", flush=True)
    print(*wrong, f"{sum(len(ran.results) for ran in rans)} programs, {len(wrong)} faults", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main(sys.argv[1:]))
