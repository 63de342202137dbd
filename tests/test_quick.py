"""``make quick``: the names and the files that a change reaches, and the order of their tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import quick

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]

SOURCE = """
LIMIT = 3


def _helper(x):
    return x + 1


@op(formula="x")
def logcosh(input):
    return _helper(input)


@logcosh.rule("input", "y")
def _(g, input):
    return g * input.tanh()


class Boxes:
    def first(self):
        return 1

    def second(self):
        return 2


two, three = made(2), made(3)
"""


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("LIMIT", {"LIMIT"}),
        ("x + 1", {"logcosh"}),
        ("@op", {"logcosh"}),
        ("_helper(input)", {"logcosh"}),
        ("input.tanh", {"logcosh"}),
        ("return 2", {"Boxes", "second"}),
        ("two", {"two", "three"}),
        ("", set()),
    ],
)
def test_a_changed_line_belongs_to_what_it_defines(line: str, names: set[str]) -> None:
    number = next(number for number, text in enumerate(SOURCE.splitlines(), 1) if (line in text if line else not text))
    assert quick.names_in(SOURCE, {number}) == names


def test_all_of_a_new_module_is_changed() -> None:
    assert quick.names_in(SOURCE, None) == {"LIMIT", "logcosh", "Boxes", "two", "three"}


def test_the_nearest_tests_have_the_shortest_chain_of_imports_and_a_package_is_no_way() -> None:
    graph = {
        "a.py": ["b.py", "tests/test_a.py", "__init__.py"],
        "b.py": ["tests/helper.py", "tests/test_a.py", "a.py"],
        "tests/helper.py": ["tests/test_far.py"],
        "__init__.py": ["tests/test_of_all.py"],
    }
    assert quick.distances(graph, ["a.py"]) == {"tests/test_a.py": 1, "tests/test_far.py": 3}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("nbgrad/widgets/layout/columns.py", "tests/widgets/test_sizes.py"),
        ("nbgrad/widgets/description/overlays.py", "tests/widgets/test_overlays.py"),
        ("nbgrad/core/recorder/functions.py", "tests/recorder/test_forms.py"),
        ("nbgrad/widgets/src/scene.ts", "tests/widgets/test_bundle.py"),
        ("tests/core/test_sums.py", "tests/core/test_sums.py"),
    ],
)
def test_files_of_this_package_have_tests(file: str, first: str) -> None:
    found = quick.near([file])
    assert next(iter(found)) == first
    assert len(found) <= quick.FILES


TESTS = """
import pytest

@pytest.mark.parametrize("row", ["cosh", "logcosh", "logcosh_backward"])
def test_a_row(row):
    pass

def test_logcosh_is_even():
    pass

def test_other():
    pass
"""
PROGRAM = """
import sys, pytest
from tools.quick import Nearest

plugin = Nearest({sys.argv[2]: int(sys.argv[5])}, {"logcosh"}, float(sys.argv[1]))
options = ["-v", "-p", "no:cacheprovider", "-c", sys.argv[3], "--rootdir", "."]
pytest.main([*options, sys.argv[4], sys.argv[2]], plugins=[plugin])
print("left", plugin.left)
"""


def ran(folder: Path, end: str, distance: int = 1) -> tuple[list[str], str]:
    """The tests that ran, in their order; and what was printed."""
    for name in ("test_far.py", "test_near.py"):
        (folder / name).write_text(TESTS)
    files = ["test_near.py", str(ROOT / "pyproject.toml"), "test_far.py"]
    command = [sys.executable, "-c", PROGRAM, end, *files, str(distance)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if " PASSED" in line], done.stdout


NAMED = [
    f"{file}::{test}"
    for file in ("test_far.py", "test_near.py")
    for test in ("test_a_row[logcosh]", "test_a_row[logcosh_backward]", "test_logcosh_is_even")
]


def test_what_has_a_changed_name_runs_first_and_of_far_files_nothing_else(tmp_path: Path) -> None:
    tests, said = ran(tmp_path, "inf")
    assert tests == [*NAMED, "test_near.py::test_a_row[cosh]", "test_near.py::test_other"]
    assert "collected 8 items" in said
    assert "left 0" in said


def test_when_the_time_is_over_only_what_has_a_changed_name_runs(tmp_path: Path) -> None:
    tests, said = ran(tmp_path, "0")
    assert tests == NAMED
    assert "left 2" in said
    tests, said = ran(tmp_path, "0", distance=0)
    assert len(tests) == 8, "and a test that has changed itself"
    assert "left 0" in said
