"""Lint, types and the nearest tests of what has changed, in half a minute: ``python -m tools.quick``.

Nearly every test imports all of nbgrad, so the graph of imports alone says that everything reaches everything. So tests
have an order. First come the changed tests, and the tests and cases that are named after a changed row, function,
class or module: these always run. Then come the test files with the shortest chain of imports to a changed file, until
the time is over. ``make test`` runs the others.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from math import inf
from pathlib import Path
from time import perf_counter

import pytest

ROOT = Path(__file__).parents[1]
FILES = 12
"""At most so many test files are read because they are near."""
_TABLE = re.compile(r"\b(OPS|every_row|block_rows|loss_rows)\b")
"""A test file with one of these has cases that are named after rows or modules."""


def output(*command: str) -> str:
    """The text that a command prints."""
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def changed(since: str) -> dict[str, set[int] | None]:
    """The files that differ from a commit, each with its changed lines; None for a file that git does not know."""
    found: dict[str, set[int] | None] = {}
    for part in output("git", "diff", "-U0", "--no-renames", "--diff-filter=d", since).split("\ndiff --git "):
        if path := re.search(r"^\+\+\+ b/(.*)$", part, re.MULTILINE):
            hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", part, re.MULTILINE)
            found[path[1]] = {int(at) + line for at, count in hunks for line in range(int(count or 1) or 1)}
    return found | dict.fromkeys(output("git", "ls-files", "--others", "--exclude-standard").split())


def names_in(source: str, lines: set[int] | None) -> set[str]:
    """The public functions, classes, methods and rows of a module of which these lines are a part, or all.

    A change of a private helper is one of each function that calls it. A rule belongs to its row.
    """
    body = ast.parse(source).body
    hit = [one for one in body if lines is None or _spans(one, lines)]
    found: set[str] = set()
    while hit:
        defined = {name for one in hit for name in _defined(one, lines)} - found
        found |= defined
        words = {name for name in defined if name.startswith("_")}
        hit = [one for one in body if words & {getattr(part, "id", None) for part in ast.walk(one)}]
    return {name for name in found if not name.startswith("_")}


def _spans(statement: ast.stmt, lines: set[int]) -> bool:
    first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
    return any(first <= line <= (statement.end_lineno or first) for line in lines)


def _defined(statement: ast.stmt, lines: set[int] | None) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        for one in statement.decorator_list:  # @logcosh.rule(...)
            yield from (part.id for part in ast.walk(one) if isinstance(part, ast.Name) and statement.name == "_")
        if statement.name != "_":
            yield statement.name
    if isinstance(statement, ast.ClassDef):
        yield from (
            one.name for one in statement.body if isinstance(one, ast.FunctionDef) and lines and _spans(one, lines)
        )
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def distances(graph: dict[str, list[str]], files: Iterable[str]) -> dict[str, int]:
    """How many imports each test file is away from the nearest of these files.

    A package that imports all its modules to show them again is no way: everything imports it.
    """
    found = dict.fromkeys(files, 0)
    level = list(found)
    for distance in range(1, len(graph)):
        level = [one for file in level for one in graph.get(file, ()) if not one.endswith("__init__.py")]
        level = [one for one in dict.fromkeys(level) if one not in found]
        found |= dict.fromkeys(level, distance)
    return {file: distance for file, distance in found.items() if Path(file).name.startswith("test_")}


def near(files: Iterable[str]) -> dict[str, int]:
    """The test files of a change and how far they are, the nearest first. The own tests of a changed file have 0."""
    graph = json.loads(output(sys.executable, "-m", "ruff", "analyze", "graph", "--direction", "dependents", "."))
    found = distances(graph, files)
    stems = {f"test_{Path(file).stem}" for file in files}
    found |= {test: 0 for test in graph if Path(test).stem in stems}
    if any(Path(file).suffix in (".ts", ".css") for file in files):
        found |= {test: 0 for test in graph if Path(test).name in ("test_bundle.py", "test_typescript.py")}
    folders = {part for file in files for part in Path(file).parts[1:-1]}
    order = sorted(found, key=lambda test: (found[test], folders.isdisjoint(Path(test).parts), test))
    return {test: found[test] for test in order[:FILES]}


def naming(names: set[str], files: Iterable[str]) -> list[str]:
    """The test files that may have tests or cases of these names, which are defined in these files."""
    rows = any(file.startswith(("nbgrad/core/ops/", "nbgrad/nn/")) for file in files)
    pattern = re.compile(rf"""(def test_\w*|["'])({"|".join(map(re.escape, names))})""")
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob("tests/**/test_*.py")}
    return [path for path, text in texts.items() if names and ((rows and _TABLE.search(text)) or pattern.search(text))]


class Nearest:
    """A plugin of pytest: it collects only what is near, and runs it in this order until the time is over.

    Args:
        files: of these all tests are collected; those with the distance 0 run however long it takes.
        names: of other files, only the tests and cases that have one of these names.
        end: when the time is over.
    """

    def __init__(self, files: dict[str, int], names: set[str], end: float) -> None:
        self._files = files
        # A name in the name of a test has spaces that are underscores: test_logcosh_is_even.
        self._named = re.compile(rf"(?<![^\W_])({'|'.join(map(re.escape, names))})(?![^\W_])") if names else None
        self._end = end
        self.left = 0

    def _is_named(self, item: pytest.Item) -> bool:
        return self._named is not None and self._named.search(item.name) is not None

    def _distance(self, item: pytest.Item) -> float:
        return -1 if self._is_named(item) else self._files.get(item.nodeid.partition("::")[0], inf)

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        """Drop each case at once that will not run: most tests of rows have hundreds."""
        made = yield
        if not isinstance(made, list):
            return made
        return [one for one in made if not isinstance(one, pytest.Item) or self._distance(one) < inf]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the nearest first."""
        items.sort(key=self._distance)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Run no more when the time is over, except tests that are named after the change, or have changed."""
        if perf_counter() < self._end or self._distance(item) <= 0:
            return None
        self.left += 1
        return True


def checks(files: list[str]) -> dict[str, list[str]]:
    """The commands that check these files, except for the tests."""
    python = [file for file in files if file.endswith(".py")]
    typed = [file for file in python if file.startswith(("nbgrad/", "tools/", "benchmarks/"))]
    found: dict[str, list[str]] = {}
    if python:
        found["ruff"] = [sys.executable, "-m", "ruff", "check", "--quiet", *python]
        found["format"] = [sys.executable, "-m", "ruff", "format", "--check", "--quiet", *python]
    if any(file.startswith("nbgrad/") for file in python):
        found["imports"] = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo"]
    if typed:
        found["types"] = [sys.executable, "-m", "mypy", *typed]
    if any(Path(file).suffix in (".ts", ".css") for file in files):
        found["front end"] = ["make", "--no-print-directory", "frontend"]
    return found


def tests(files: list[str], names: set[str], seconds: float) -> int:
    """Run the nearest tests, and return the status of pytest."""
    found = near(files)
    nearest = Nearest(found, names, perf_counter() + seconds)
    paths = sorted({*found, *naming(names, files)})
    if not paths:
        print("no test is near")
        return 0
    options = ["-q", "-p", "no:nbval", "-m", "not browser and not more", "--sampled", "-x"]
    status = pytest.main([*options, *paths], plugins=[nearest])
    if nearest.left:
        print(f"the time is over, and {nearest.left} tests farther away did not run: QUICK_FLAGS='--seconds 100'")
    return 0 if status is pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


def main(arguments: list[str]) -> int:
    """Check what has changed; fail if something is wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    parser.add_argument(
        "--seconds", type=float, default=20, help="start no test later, unless it is named after the change"
    )
    options = parser.parse_args(arguments)
    begin = perf_counter()
    lines = changed(options.since)
    if not lines:
        print(f"nothing differs from {options.since}: QUICK_FLAGS='--since HEAD~1' checks the last commit")
        return 0
    files = sorted(lines)
    os.environ["NBGRAD_COMPILED"] = "0"  # what has changed is not compiled
    running = {
        name: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name, command in checks(files).items()
    }
    sources = [file for file in files if file.startswith("nbgrad/") and file.endswith(".py")]
    names = set().union(*(names_in((ROOT / file).read_text("utf-8"), lines[file]) for file in sources))
    print(
        f"changed: {', '.join(files)}", *([f"names: {', '.join(sorted(names))}"] if names else []), sep="\n", flush=True
    )
    failed = ["tests"] if tests(files, names, options.seconds) else []
    for name, process in running.items():
        said, _ = process.communicate()
        if process.returncode:
            print(f"== {name}\n{said}")
            failed.append(name)
    print(f"{'failed: ' + ', '.join(failed) if failed else 'all is well'} ({perf_counter() - begin:.0f} s)")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
