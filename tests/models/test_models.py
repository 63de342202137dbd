"""The runner of other people's models says what is wrong with a program."""

import re
from collections.abc import Iterator

import pytest

from tests.models.__main__ import PAGE, Ran, run
from tests.models.result import Result
from tests.models.table import RESULTS, faults, page, programs, results, written

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    return run("tests.models.wrong", ["--quick"])


RECORDED = {
    "right": "equal",
    "another_gradient": "bias.grad differs",
    "random_itself": "equal",
    "kept_alive": "5 tensors and modules are kept alive",
    "replaced": "torch.nn.functional.elu_ is replaced in torch",
    "hidden": "no gradient in the graph: bias",
    "another_branch": "equal",
    "unnamed_error": "equal",
    "fails": "error without recording: RuntimeError: out of order",
    "fails_recorded": "error: RuntimeError: out of order",
    "dies": "error: its process ended with 3: ",
    "trains": "weight and 1 more differ",
    "last": "equal",
}

CONVERTED = {
    "another_branch": ("different", "loss is off by 0.5 and 2 more"),
    "unnamed_error": ("error", "ValueError: no tensor"),
    "right": ("equal to the bit", ""),
}


@pytest.mark.rotated(6, together="wrong programs")
@pytest.mark.parametrize("program", RECORDED)
def test_what_is_wrong_is_reported(ran: Ran, program: str) -> None:
    assert [result.recorded for result in ran.results if result.program == program] == [RECORDED[program]]


@pytest.mark.rotated(6, together="wrong programs")
@pytest.mark.parametrize("program", CONVERTED)
def test_what_is_wrong_when_converted_is_reported(ran: Ran, program: str) -> None:
    (result,) = [result for result in ran.results if result.program == program]
    assert (result.converted, result.message) == CONVERTED[program]


@pytest.mark.rotated(3)
def test_every_program_has_one_result_also_after_one_that_ends_the_process(ran: Ran) -> None:
    assert [result.program for result in ran.results] == list(RECORDED)


@pytest.mark.rotated(3)
def test_a_program_that_is_not_the_same_twice_is_noted(ran: Ran) -> None:
    assert [result.program for result in ran.results if result.note] == ["random_itself"]


@pytest.mark.rotated(6)
def test_time_and_memory_are_measured() -> None:
    (right,) = run("tests.models.wrong", ["--only", "right"]).results
    assert right.time is not None
    assert right.time > 1
    assert right.memory is not None
    assert right.memory >= 1
    assert right.converted_time is not None
    assert right.ops == 4


def test_the_page_counts_the_rows_that_the_site_adds_to_it() -> None:
    known = RESULTS.read_text("utf-8")
    version = re.compile(r"with torch \S+\.$", re.MULTILINE)
    assert version.sub("", page(known)) == version.sub("", PAGE.read_text("utf-8"))
    assert results([], known) == known
    assert programs().endswith(known)


def test_the_table_is_what_the_next_run_is_compared_with(ran: Ran) -> None:
    text = results([ran])
    known = written(text)
    assert known["torch", "right"] == "equal to the bit"
    assert known["torch", "another_branch"] == "different"
    assert not faults("torch", Result("right", "equal", converted="close"), text)
    assert not faults("torch", Result("another_branch", "equal", converted="different"), text)
    assert not faults("torch", Result("new", "equal", converted="refused"), text)
    assert faults("torch", Result("right", "equal", converted="refused"), text)
    assert faults("torch", Result("unnamed_error", "equal", converted="different"), text)
    assert faults("torch", Result("new", "equal", converted="error"), text)
    assert faults("torch", Result("right", "loss differs", converted="close"), text)


@pytest.mark.rotated(4)
def test_a_package_that_cannot_be_imported_is_a_row() -> None:
    (result,) = run("tests.models.absent", []).results
    assert result.program == "import"
    assert result.recorded.endswith("ModuleNotFoundError: No module named 'tests.models.absent'")
