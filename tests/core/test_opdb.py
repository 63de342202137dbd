"""nbgrad agrees with torch on the entries of torch's own op database that the kept list names, and on no others.

These tests run a few samples of each entry; ``make test`` takes one entry in ten. ``make opdb`` runs all samples.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad.core.ops
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor
from tests.core import opdb
from tests.core.result import Result
from tests.core.unruly import nothing, unruly
from tests.sampling import chosen
from tools import opdb as tool

pytestmark = pytest.mark.once

SAMPLES = 4
ONE_IN = 10  # of the cases, in a run with --sampled
REGENERATE = "run `make setup` and then `.venv/bin/python -m tools.opdb --keep {names}`, and look at what it changes"


CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
LISTED = next(line for line in CONSTRAINTS.read_text("utf-8").splitlines() if line.startswith("torch==")).split("==")[1]

of_that_torch = pytest.mark.skipif(
    torch.__version__.partition("+")[0] != LISTED, reason=f"the lists are of the op database of torch {LISTED}"
)


@pytest.fixture(scope="module")
def results(pytestconfig: pytest.Config) -> dict[str, Result]:
    """The result of each case: of an agreeing case for a few samples, of a differing case for its listed sample."""
    known = set(opdb.cases())
    work: list[tool.Work] = [(case, SAMPLES, None) for case in opdb.read_agreed() if case in known]
    work += [(case, None, number) for case, number in opdb.read_different().items() if case in known]
    options = pytestconfig.option
    run = chosen("opdb", len(work), ONE_IN if options.sampled else 1, options.turn)
    return {result.case: result for result in tool.run([work[place] for place in sorted(run)], limit=120.0)}


@of_that_torch
def test_the_lists_name_every_case_once() -> None:
    listed = [*opdb.read_agreed(), *opdb.read_different()]
    assert sorted(listed) == sorted(opdb.cases()), REGENERATE.format(names="")


def test_a_reason_is_that_of_an_entry() -> None:
    assert opdb.SKIPPED.keys() <= opdb.entries().keys()
    assert opdb.UNSETTLED.keys() <= opdb.read_different().keys()


@pytest.mark.rotated(3)
@of_that_torch
def test_every_listed_case_agrees(results: dict[str, Result]) -> None:
    agreed = results.keys() & opdb.read_agreed()
    assert agreed
    lost = {case: dict(results[case].reasons) for case in agreed if not results[case].agrees}
    assert not lost


@pytest.mark.rotated(3)
@of_that_torch
def test_no_other_case_agrees(results: dict[str, Result]) -> None:
    settled = results.keys() & opdb.read_different().keys() - opdb.UNSETTLED.keys()
    gained = sorted(case for case in settled if results[case].agrees)
    names = " ".join(dict.fromkeys(case.removesuffix(opdb.COMPLEX) for case in gained))
    assert not gained, f"these may belong into {opdb.AGREED.name} now: {REGENERATE.format(names=names)}"


# The tester is tested.

ROW = OPS["exp"]
INPUT = ROW.inputs[0]


@pytest.fixture
def rule() -> Iterator[Callable[[Callable[..., Any]], Any]]:
    """Give the row another rule, until the test ends."""
    right = ROW.rules[INPUT]
    yield ROW.rule(INPUT, right.formula)
    ROW.rule(INPUT, right.formula, kernel=right.kernel)(right.function)


def agreeing(result: Result) -> list[str]:
    return [column for column, (passed, total) in result.counts.items() if passed == total > 0]


def test_the_right_row_agrees() -> None:
    result = opdb.check("exp")
    assert agreeing(result) == list(opdb.COLUMNS)
    assert result.agrees
    assert result.failing is None


def test_a_rule_that_is_wrong_by_a_thousandth_is_caught(rule: Callable[[Callable[..., Any]], Any]) -> None:
    rule(lambda g, out: g * out * 1.001)
    result = opdb.check("exp")
    assert "value" in agreeing(result)
    assert not {"gradient", "second order", "method"} & set(agreeing(result))
    assert not result.agrees
    assert result.failing == 0


def test_a_rule_that_has_no_gradient_of_its_own_is_caught(rule: Callable[[Callable[..., Any]], Any]) -> None:
    rule(lambda g, out: g * out.detach())
    assert agreeing(opdb.check("exp")) == [column for column in opdb.COLUMNS if column != "second order"]


def test_a_wrong_value_is_caught(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(ROW.in_place.forget)  # the test makes the row of exp_ with a wrong kernel
    monkeypatch.setattr(ROW, "forward", lambda x: torch.exp(x) * 1.001)
    assert not {"value", "gradient", "method"} & set(agreeing(opdb.check("exp")))


def test_a_missing_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPS, "exp")
    monkeypatch.delattr(nbgrad.core.ops, "exp")
    monkeypatch.setattr(TensorMethods, "exp", None)
    result = opdb.check("exp")
    assert agreeing(result) == ["in place"]
    assert {tool.kind(reason) for _, reason in result.reasons} == {"op torch.exp", "'NoneType' object is not callable"}


def sample(*args: Any, **settings: Any) -> Any:
    """A sample as torch makes it: a tensor first, then the given arguments."""
    opdb.entries()  # imports torch's testing modules, which warn
    from torch.testing._internal.opinfo.core import SampleInput

    first = torch.rand(3, dtype=torch.float64).requires_grad_()
    return SampleInput(first, args=tuple(first if arg is SAME else arg for arg in args), kwargs=settings)


SAME = object()
"""Stands for the first tensor."""


ORDERS = opdb.COLUMNS[:3]


def test_an_argument_that_is_not_known_is_named() -> None:
    found = opdb.differences(lambda x: x.exp(surely=1) if isinstance(x, Tensor) else x.exp(), sample(), ORDERS)
    assert {tool.kind(reason) for reason in found.values()} == {"argument surely of exp"}


def test_a_result_of_torchs_kind_is_caught() -> None:
    found = opdb.differences(lambda x: torch.exp(x.data), sample(), ORDERS)
    assert found["value"] == "the result is a tensor of torch's: its gradient is lost"


def test_a_result_without_a_gradient_that_torch_has_is_caught() -> None:
    found = opdb.differences(lambda x: x.detach() if isinstance(x, Tensor) else x * 1, sample(), ORDERS)
    assert all(found.values())


def test_an_in_place_twin_that_changes_nothing_is_caught() -> None:
    def twin(x: Any) -> Any:
        return x.exp() if isinstance(x, Tensor) else x.exp_()

    found = opdb.differences(twin, sample(), ORDERS[:2], in_place=True)
    assert found["value"] == "gives back another tensor than the one it changed"


def test_a_tensor_that_is_passed_twice_is_one_on_both_sides() -> None:
    found = opdb.differences(torch.mul, sample(SAME), ORDERS)
    assert found == dict.fromkeys(ORDERS, "")


def test_samples_are_spread_over_all_or_one_is_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(opdb, "compare", lambda entry, sample: seen.append(sample) or {"value": ""})
    monkeypatch.setattr(opdb, "samples_of", lambda entry, dtype: list(range(10)))
    for at_most, only, numbers in ((3, None, [0, 4, 9]), (1, None, [0]), (20, None, [*range(10)]), (None, 7, [7])):
        seen.clear()
        opdb.check("exp", at_most, only)
        assert seen == numbers


def test_an_entry_without_samples_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opdb, "samples_of", lambda entry, dtype: [])
    assert not opdb.check("exp").agrees


@pytest.mark.rotated(6)
def test_a_process_that_dies_or_hangs_stops_nothing() -> None:
    cases = ("well", "dies", "hangs", "raises", "still well")
    results = list(tool.run([(case, None, None) for case in cases], jobs=2, limit=5.0, function=unruly, ready=nothing))
    assert [(result.case, result.agrees, *result.reasons) for result in results] == [
        ("well", True),
        ("dies", False, ("value", "its process died with exit code 3")),
        ("hangs", False, ("value", "not done in 5 s")),
        ("raises", False, ("value", "no samples")),
        ("still well", True),
    ]
    with pytest.raises(SystemExit, match="dies, hangs, raises"):
        tool.keep(results)


def test_the_command_writes_a_table_and_fails_below_what_is_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Result("mul", {"value": (0, 2)}, (0, 2))
    wrong.reasons["value", "nbgrad has no op 'torch.mul' yet: use a|b"] = 2
    right = Result("exp", dict.fromkeys(opdb.COLUMNS, (1, 1)), (1, 1))
    monkeypatch.setattr(tool, "run", lambda work, **_: iter([right, wrong]))
    path = tmp_path / "table.md"
    command = ["exp", "mul", "--output", str(path)]
    assert tool.main([*command, "--require", "1"]) == 0
    assert tool.main([*command, "--require", "2"]) == 1
    assert "1 of 2 differentiable entries agree in all samples" in capsys.readouterr().out
    lines = path.read_text().splitlines()
    assert "| exp | 1/1 | 1/1 | 1/1 | 1/1 | 1/1 |  |  |" in lines
    assert r"| mul | 0/2 |  |  |  |  |  | value: nbgrad has no op 'torch.mul' yet: use a\|b (2) |" in lines
    assert "| 1 | op torch.mul | mul |" in lines


def test_kept_lists_change_only_for_what_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opdb, "read_agreed", lambda: ["exp", "mul", "no longer there"])
    monkeypatch.setattr(opdb, "read_different", lambda: {"add": 3, "sub": 4})
    agreed = Result("add", whole=(1, 1))
    differs = Result("mul", failing=7)
    differs.reasons["value", "wrong"] += 1
    assert opdb.lists([agreed, differs]) == ("add\nexp\n", "mul 7\nsub 4\n")


def test_names_choose_entries() -> None:
    assert tool.chosen(["exp"]) == ["exp", "exp:complex128"]
    assert {"max.binary", "max.reduction_no_dim"} <= set(tool.chosen(["max"]))
    assert "linalg.det:complex128" in tool.chosen(["linalg.*"])
    assert tool.chosen([]) == opdb.cases()
    with pytest.raises(SystemExit, match="no differentiable entry 'nothing'"):
        tool.chosen(["nothing"])
