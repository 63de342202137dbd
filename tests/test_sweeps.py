"""A few cases of every sweep, in ``make test`` a third of them; ``make sweep`` runs others for as long as one likes."""

from importlib import import_module
from random import Random
from types import ModuleType

import pytest

from tools import sweep

SEED = 20_000


@pytest.mark.parametrize("name", sweep.names())
def test_a_sweep_finds_nothing(name, pytestconfig):
    cases, first, options = import_module(f"tests.sweeps.{name}").CASES, SEED, pytestconfig.option
    if options.sampled:
        cases = max(cases // 3, 1)
        first += options.turn % 3 * cases
    outcome = sweep.run(name, first, cases=cases)
    assert outcome.cases == cases
    assert not outcome.failures, f"{len(outcome.failures)} of {cases} cases failed, first: {outcome.failures[0]}"


def test_a_sweep_goes_on_after_a_failure_and_says_how_to_repeat_it(monkeypatch, capsys):
    def check(random: Random) -> None:
        assert random.random() < 0.5

    module = ModuleType("tests.sweeps.wrong")
    module.check = check
    monkeypatch.setitem(sweep.sys.modules, "tests.sweeps.wrong", module)
    wrong = [seed for seed in range(20) if Random(seed).random() >= 0.5]
    outcome = sweep.run("wrong", 0, cases=20)
    assert outcome.cases == 20
    assert [failure.seed for failure in outcome.failures] == wrong
    assert sweep.report([outcome]) == len(wrong)
    printed = capsys.readouterr().out
    assert f"python -m tools.sweep wrong --seed {wrong[0]} --cases 1" in printed
    assert "assert random.random() < 0.5" in printed
    assert f"20 cases, {len(wrong)} failed" in printed


def test_a_name_that_is_no_sweep_is_an_error(capsys):
    with pytest.raises(SystemExit):
        sweep.main(["no_such_sweep"])
    assert "there are" in capsys.readouterr().err
