"""Only a part of the cases runs: the same one in all runs of a commit, each case in some turn, and never none."""

import subprocess
import sys
from pathlib import Path

import pytest

from nbgrad.core.dispatch.table import OPS
from tests import sampling
from tests.core import test_rows

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]

TESTS = """
import pytest

@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", range(21))
def test_many(case):
    assert case >= 0

@pytest.mark.parametrize("case", range(21))
def test_each(case):
    assert case >= 0

@pytest.mark.sampled(5)
def test_one():
    pass

@pytest.mark.rotated(2, together="made once")
@pytest.mark.parametrize("case", range(2))
def test_long_alike(case):
    pass

@pytest.mark.rotated(3)
@pytest.mark.parametrize("case", range(2))
def test_long(case):
    pass

@pytest.mark.rotated(3)
def test_longer():
    pass
"""


@pytest.mark.parametrize("cases", [1, 2, 7, 41])
@pytest.mark.parametrize("one_in", [1, 2, 5, 50])
def test_the_first_case_runs_each_time_and_each_other_once_in_so_many_turns(cases: int, one_in: int) -> None:
    runs = [sampling.chosen("tests/test_a.py::test_a", cases, one_in, turn) for turn in range(100, 100 + one_in)]
    times = [sum(position in run for run in runs) for position in range(cases)]
    assert times == [one_in, *[1] * (cases - 1)]


@pytest.mark.parametrize("tests", [1, 2, 3, 13])
@pytest.mark.parametrize("one_in", [1, 2, 3, 50])
def test_each_rotated_test_runs_once_in_so_many_turns(tests: int, one_in: int) -> None:
    runs = [sampling.rotated("tests/test_a.py", tests, one_in, turn) for turn in range(100, 100 + one_in)]
    assert [sum(position in run for run in runs) for position in range(tests)] == [1] * tests
    full, rest = divmod(tests, one_in)
    assert all(full <= len(run) <= full + (rest > 0) for run in runs)


def test_a_sample_is_spread_over_all_cases_and_alternates_with_no_parameter() -> None:
    run = sorted(sampling.chosen("tests/test_a.py::test_a", 401, 4, 0))
    assert len(run) == 101
    assert all(4 * group < position <= 4 * group + 4 for group, position in enumerate(run[1:]))
    assert 30 < sum(position % 2 for position in run) < 70


def test_another_function_and_another_turn_have_other_cases() -> None:
    runs = [sampling.chosen(name, 101, 4, turn) for name, turn in (("a", 0), ("b", 0), ("a", 1), ("a", 4))]
    assert runs[0] == runs[3]
    assert len({frozenset(run) for run in runs}) == 3


def ran(folder: Path, *options: str, tests: str = TESTS) -> tuple[dict[str, set[int]], str]:
    """Which cases of each test ran, and what pytest wrote."""
    file = folder / "test_cases.py"
    file.write_text(tests)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:nbval", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    done = subprocess.run(
        [*command, "-c", ROOT / "pyproject.toml", "--rootdir", folder, file, *options],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    cases: dict[str, set[int]] = {}
    for line in done.stdout.splitlines():
        if "PASSED" in line:
            name = next(word for word in line.split() if "::" in word).partition("::")[2]
            function, _, case = name.partition("[")
            cases.setdefault(function, set()).add(int(case.rstrip("]") or 0))
    return cases, done.stdout


@pytest.mark.rotated(3)
@pytest.mark.parametrize("processes", [0, 2])
def test_sampled_leaves_out_cases_of_the_marked_tests_alone(tmp_path: Path, processes: int) -> None:
    cases, said = ran(tmp_path, "--sampled", "--turn", "3", "-n", str(processes))
    long = [("test_long", 0), ("test_long", 1), ("test_longer", 0)]
    assert cases.keys() - {"test_long", "test_longer", "test_long_alike"} == {"test_many", "test_each", "test_one"}
    run = sampling.rotated("test_cases.py 3", 3, 3, 3)
    assert [place for place, (name, case) in enumerate(long) if case in cases.get(name, ())] == sorted(run)
    assert len(run) == 1
    assert cases["test_many"] == sampling.chosen("test_cases.py::test_many", 21, 5, 3)
    assert cases["test_each"] == {*range(21)}
    assert "--turn 4 takes others" in said


def test_what_is_marked_can_be_rarer(tmp_path: Path) -> None:
    cases, _ = ran(tmp_path, "--sampled", "--rarer", "2", "--turn", "3")
    assert cases["test_many"] == sampling.chosen("test_cases.py::test_many", 21, 10, 3)
    assert cases["test_each"] == {*range(21)}


def test_tests_that_need_one_thing_take_turns_as_one(tmp_path: Path) -> None:
    turns = [ran(tmp_path, "--sampled", "--turn", str(turn))[0].get("test_long_alike") for turn in (3, 4)]
    assert sorted(turns, key=bool) == [None, {0, 1}]


def test_sample_leaves_out_cases_of_all_tests_and_without_it_all_run(tmp_path: Path) -> None:
    cases, _ = ran(tmp_path, "--sample", "10", "--sampled", "--turn", "3")
    for name in ("test_many", "test_each"):
        assert cases[name] == sampling.chosen(f"test_cases.py::{name}", 21, 10, 3)
    assert cases["test_one"] == {0}
    cases, said = ran(tmp_path)
    every = {"test_many": {*range(21)}, "test_each": {*range(21)}, "test_one": {0}, "test_long_alike": {0, 1}}
    assert cases == {**every, "test_long": {0, 1}, "test_longer": {0}}
    assert "takes others" not in said


@pytest.mark.rotated(3)
def test_functions_leaves_out_whole_test_functions_and_two_turns_run_all(tmp_path: Path) -> None:
    first, second = (ran(tmp_path, "--functions", "2", "--sample", "10", "--turn", str(turn))[0] for turn in (3, 4))
    names = ["test_many", "test_each", "test_one"]
    run = sampling.rotated("test_cases.py", 3, 2, 3)
    assert {name for name in first if "long" not in name} == {names[position] for position in run}
    assert {name for name in second if "long" not in name} == {*names} - first.keys()
    for name in first.keys() & {"test_many", "test_each"}:
        assert first[name] == sampling.chosen(f"test_cases.py::{name}", 21, 10, 3)


def test_every_row_is_compared_with_torch_each_time() -> None:
    compared = test_rows.test_value_gradient_and_second_order_gradient_equal_torchs
    marks = {mark.name: mark for mark in compared.pytestmark}
    assert not {"sampled", "rotated"} & marks.keys()
    assert list(test_rows.every_row.args[1]) == list(OPS.values())
    assert any(mark == test_rows.every_row.mark for mark in compared.pytestmark)


def test_files_take_turns() -> None:
    def named(one_in: int) -> list[str]:
        program = [sys.executable, "-m", "tests.sampling", str(one_in), *"abcdefg"]
        return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    assert named(1) == list("abcdefg")
    assert len(named(3)) in (2, 3)
    assert set(named(3)) < set("abcdefg")


NEEDING = """
import pytest

@pytest.mark.more("json")
def test_there():
    pass

@pytest.mark.more("no_such_package")
def test_not_there():
    import no_such_package
"""


@pytest.mark.rotated(3)
def test_what_needs_a_package_is_skipped_without_it_but_not_where_it_was_asked_for(tmp_path: Path) -> None:
    cases, said = ran(tmp_path, tests=NEEDING)
    assert cases == {"test_there": {0}}
    assert "no_such_package is not installed: make more" in said
    with pytest.raises(subprocess.CalledProcessError) as failed:
        ran(tmp_path, "-m", "more", tests=NEEDING)
    assert "1 failed, 1 passed" in failed.value.stdout


def test_make_more_runs_every_file_that_needs_its_packages() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    listed = next(line.split()[2:] for line in makefile.splitlines() if line.startswith("IN_MORE :="))
    mark = "mark." + "more("
    marked = [path for path in ROOT.glob("tests/**/test_*.py") if mark in path.read_text("utf-8")]
    assert sorted(listed) == sorted(path.relative_to(ROOT).as_posix() for path in marked if path != Path(__file__))
