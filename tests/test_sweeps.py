"""A few cases of every sweep; ``make test`` runs a fifth of them. ``make sweep`` runs more cases for any time."""

from importlib import import_module
from random import Random
from types import ModuleType

import pytest

from nbgrad.core.symbolic.nest import interpreter
from tools import sweep

SEED = 20_000
INTERPRETED = ("fused", "nests")
"""The sweeps of what runs in the interpreter of loop nests, which plain Python does not have."""

ONE_IN = 5  # of the cases, where a part of the tests' cases runs


@pytest.mark.rotated(4)
@pytest.mark.parametrize("name", sweep.names())
def test_a_sweep_finds_nothing(name, pytestconfig):
    if name in INTERPRETED and not interpreter.available():
        pytest.skip("the interpreter of loop nests is not there")
    every, options = import_module(f"tests.sweeps.{name}").CASES, pytestconfig.option
    first, end = 0, every
    if options.sampled or options.sample > 1:
        part = options.turn % ONE_IN
        first, end = every * part // ONE_IN, every * (part + 1) // ONE_IN
    cases = end - first
    assert cases > 0
    outcome = sweep.run(name, SEED + first, cases=cases)
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
