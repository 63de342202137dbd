"""Run programs plain and recorded, and say where they differ.

``python -m tests.recorder.unnoticed.harness NAME ...`` compares the programs whose names contain one of these texts.
"""

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.recorder.unnoticed.registry import Program, load
from tests.recorder.unnoticed.ways import BLOCKS, CELLS, PLAIN, Seen, plain_of

ROOT = Path(__file__).parents[3]
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Server:
    """A process with torch in which each program gets a process of its own."""

    def __init__(self, recorded: bool, warm: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="unnoticed_"))
        self.count = 0
        environment = {**os.environ, **THREADS, "PYTHONHASHSEED": "0", "IPYTHONDIR": str(self.folder / "ipython")}
        environment.pop("NBGRAD_COMPILED", None)  # plain Python cannot leave its frames out of tracebacks
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "tests.recorder.unnoticed.server", "recorded" if recorded else "plain", warm]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, **pipes)
        self.ready = False

    def begin(self, program: str, way: str, *, seed: int, dtype: str, seconds: float = 30.0) -> Path:
        """Send a request; return the folder in which the program runs. Its name has the same length each time."""
        self.count += 1
        folder = self.folder / f"{self.count:06}"
        folder.mkdir()
        request = {"program": program, "way": way, "folder": str(folder), "seconds": seconds}
        self._write(json.dumps({**request, "seed": seed, "dtype": dtype}))
        return folder

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, folder: Path) -> Seen:
        """Wait for the oldest request, and return what its program has seen."""
        if not self.ready:
            assert self._read() == "ready\n", "the process of the programs did not start"
            self.ready = True
        said = json.loads(self._read())
        pickled, failure = (Path(f"{folder}.{ending}") for ending in ("pickle", "failure"))
        if pickled.exists():
            seen: Seen = pickle.loads(pickled.read_bytes())
        else:
            told = failure.read_text(encoding="utf-8") if failure.exists() else ""
            printed = Path(f"{folder}.stderr")
            printed_text = printed.read_text(encoding="utf-8", errors="replace")[-2000:] if printed.exists() else ""
            seen = {"process": f"{said}\n{told}\n{printed_text}"}
        shutil.rmtree(folder, ignore_errors=True)
        for path in folder.parent.glob(f"{folder.name}.*"):
            path.unlink()
        return seen

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Servers:
    """The processes of a comparison, which start when they are needed."""

    def __init__(self) -> None:
        self.running: dict[tuple[bool, str], Server] = {}

    def of(self, program: Program, way: str) -> Server:
        """The one for a program and a way: in a plain one nbgrad is never imported."""
        key = way not in PLAIN, program.warm
        if key not in self.running:
            self.running[key] = Server(*key)
        return self.running[key]

    def run(self, program: Program, ways: list[str], *, seed: int = 0, dtype: str = "float32") -> dict[str, Seen]:
        """Run a program in some ways, side by side."""
        begun = []
        for way in ways:
            server = self.of(program, way)
            begun.append((way, server, server.begin(program.name, way, seed=seed, dtype=dtype)))
        return {way: server.end(folder) for way, server, folder in begun}

    def differences(self, program: Program, ways: list[str], **settings: Any) -> dict[str, list[str]]:
        """The differences of a program from its plain run, by way; no entry for a way without one."""
        found = {}
        seen = self.run(program, list(dict.fromkeys([*map(plain_of, ways), *ways])), **settings)
        for way in ways:
            if told := compared(seen[plain_of(way)], seen[way], drawn=way == "drawn"):
                found[way] = told
        return found

    def close(self) -> None:
        """End the processes."""
        for one in self.running.values():
            one.close()
        self.running.clear()


@contextmanager
def servers() -> Iterator[Servers]:
    """Processes that end with the block."""
    started = Servers()
    with closing(started):
        yield started


def compared(plain: Seen, recorded: Seen, *, drawn: bool = False) -> list[str]:
    """One line for each thing that differs. What a drawn program prints ends with the picture and its file."""
    found = []
    for key in sorted({**plain, **recorded}, key=lambda key: not key.startswith(_FIRST)):
        one, other = plain.get(key, "nothing"), recorded.get(key, "nothing")
        if drawn and key in ("stdout", "stderr") and other.startswith(one):
            continue
        if one != other:
            found.append(f"{key}: {_shortened(one, other)}")
    raised = [one for one in found if one.startswith("error")]
    if raised and "error" in recorded and plain["error"] != recorded["error"]:
        found = [one for one in found if not one.startswith("result")]  # it has none
    if "process" in plain:
        found.insert(0, "the plain program failed")
    return found


_FIRST = ("error", "process", "stdout", "stderr", "warning", "result")
"""How the names begin of what is most telling."""


def _shortened(one: str, other: str, most: int = 700) -> str:
    """Two texts from shortly before the place where they differ."""
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, place - 60) if place > 120 else 0
    lead = "..." if start else ""
    return f"plain {lead}{one[start : start + most]!r}, recorded {lead}{other[start : start + most]!r}"


def _report(name: str, told: dict[str, list[str]]) -> Iterator[str]:
    """Lines that say how a program differs. Ways that differ alike are named together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for way, lines in told.items():
        alike.setdefault(tuple(lines), []).append(way)
    for lines, ways in alike.items():
        yield f"{name} [{', '.join(ways)}]: {len(lines)} differences\n"
        yield from (f"    {line}\n" for line in lines[:12])


WAYS = [way for way in (*BLOCKS, *CELLS) if way != "drawn"]


def ways_of(program: Program, ways: list[str]) -> list[str]:
    """Those of the ways in which a program can run."""
    return [way for way in ways if program.cell or way not in CELLS]


def main(arguments: list[str]) -> int:
    """Compare programs, print how they differ, and return how many do."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorder.unnoticed.harness", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of programs (default: all)")
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=[*BLOCKS, *CELLS, *PLAIN])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--raised", action="store_true", help="list the programs that raise when they run plain")
    options = parser.parse_args(arguments)
    failed = count = 0
    with servers() as started:
        for name, program in load().items():
            if options.names and not any(part in name for part in options.names):
                continue
            count += 1
            if options.raised:
                seen = started.run(program, ["plain"])["plain"]
                told = {
                    "plain": [seen[key] for key in ("error", "error text", "error frames", "process") if key in seen]
                }
                if seen.get("error") == "NoneType None":
                    continue
            else:
                settings = {"seed": options.seed, "dtype": options.dtype}
                told = started.differences(program, ways_of(program, options.ways), **settings)
            failed += bool(told)
            print(*_report(name, told), sep="", end="", flush=True)
    print(f"{count} programs, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
