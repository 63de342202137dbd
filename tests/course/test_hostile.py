"""A check never raises, never disturbs the student's work, and always says the same of the same answer."""

import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep
from typing import Any
from warnings import catch_warnings

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import lab
from nbgrad.lab import running
from tests.course import hostile
from tests.course.test_lab import RIGHT

NUMBERS = list(RIGHT)
FUNCTIONAL = [number for number, answers in RIGHT.items() if callable(answers[0]) and not isinstance(answers[0], type)]


def state() -> tuple[Any, ...]:
    """The state that a check has to leave as it was."""
    numbers = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    return (*numbers, torch.get_default_dtype(), nbgrad.is_grad_enabled(), torch.is_grad_enabled(), sys.stdout,
            sys.getrecursionlimit(), sys.gettrace(), signal.getsignal(signal.SIGINT))  # fmt: skip


@contextmanager
def undisturbed() -> Iterator[None]:
    before = state()
    yield
    assert state() == before


def judged(number: str, answer: Any) -> lab.Outcome:
    with undisturbed():
        outcome = lab.check(number, answer)
    said = repr(outcome)
    assert "\n" not in said, said
    assert len(said) < 900, said
    assert not re.search(r"object at 0x|Traceback", said), said
    assert outcome.right or len(outcome.reason) > 10
    return outcome


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", NUMBERS)
def test_no_check_raises_or_takes_nonsense_for_right(number: str) -> None:
    with catch_warnings(action="ignore"):  # some kinds of tensors are prototypes
        answers = {name: make() for name, make in hostile.VALUES.items()} | hostile.FUNCTIONS
    answers |= {f"two: {name}": [one, one] for name, one in hostile.FUNCTIONS.items()}
    wrong = {name: judged(number, answer) for name, answer in answers.items()}
    assert [name for name, outcome in wrong.items() if outcome] == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", FUNCTIONAL)
def test_an_endless_answer_is_stopped(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.2)
    for answer in hostile.ENDLESS.values():
        assert "does not end: it was stopped after 0.2 seconds or more" in judged(number, answer).reason


@pytest.mark.parametrize("endless", hostile.ENDLESS)
def test_an_endless_answer_is_stopped_in_every_thread(endless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal reaches a thread but the main one."""
    monkeypatch.setattr(running, "PATIENCE", 0.2)
    outcomes = []
    thread = Thread(target=lambda: outcomes.append(lab.check("1.2", hostile.ENDLESS[endless])), daemon=True)
    thread.start()
    thread.join(20)
    assert "does not end" in outcomes[0].reason


def test_a_hook_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of lesson 15 are imitated by threads."""
    monkeypatch.setattr(running, "PATIENCE", 0.5)

    def attach(net: Any, all_reduce: Any, size: int) -> None:
        for one in net.parameters():
            one.register_post_accumulate_grad_hook(lambda _: hostile.ENDLESS["an endless loop in one line"]())

    assert "does not end" in judged("15.2", attach).reason


def test_an_answer_that_waits_for_the_computer_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others compute on it, too: it is no fault of the answer that it takes long."""
    monkeypatch.setattr(running, "PATIENCE", 0.1)

    def slow(function: Any, x: float) -> float:
        sleep(0.05)
        return (function(x + 1e-5) - function(x - 1e-5)) / 2e-5

    assert judged("1.2", slow)


def test_an_answer_that_ends_in_time_is_not_stopped_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is taken back if it comes too late."""
    monkeypatch.setattr(running, "PATIENCE", 0.02)
    for _ in range(30):
        lab.check("1.2", RIGHT["1.2"][0])
    assert sum(range(2_000_000)) > 0


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", FUNCTIONAL)
def test_a_right_answer_may_print_and_draw_random_numbers(number: str) -> None:
    for wrap in hostile.WRAPPED.values():
        assert judged(number, wrap(RIGHT[number][0]))


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    nbgrad.manual_seed(seed)


def _other_cells(seed: int) -> Callable[[], None]:
    def before() -> None:
        _seed(seed)
        torch.set_default_dtype((torch.float64, torch.float32)[seed % 2])
        nbgrad.set_grad_enabled(seed % 3 > 0)

    return before


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", NUMBERS)
def test_an_answer_is_judged_the_same_after_other_cells(number: str) -> None:
    from tests.course.handed_in import written

    answers = [one.value for one in written(int(number.partition(".")[0])) if one.number == number]
    kept = torch.get_default_dtype()
    try:
        for make in answers[:: max(1, len(answers) // 6)]:
            told = set()
            for seed in range(4):
                nbgrad.set_grad_enabled(True)  # an answer may call backward itself
                answer = make()
                _other_cells(seed)()
                told.add(((outcome := lab.check(number, answer)).right and "right") or outcome.reason)
            assert len(told) == 1
    finally:
        torch.set_default_dtype(kept)
        nbgrad.set_grad_enabled(True)


@pytest.mark.parametrize("number", ["1.2", "4.3", "5.2", "14.1", "15.2"])
def test_a_check_is_the_same_inside_of_blocks(number: str) -> None:
    for block in (nbgrad.no_grad, nbgrad.inference_mode, nbgrad.strict_broadcast, torch.no_grad):
        with block():
            assert judged(number, RIGHT[number][0])
    with nbgrad.AutogradGraph() as graph:
        loss = (nbgrad.ones(2, requires_grad=True) * 2).sum()
        assert judged(number, RIGHT[number][0])
        loss.backward()
    assert [one.op.name for one in graph.records if one.op] == ["mul", "sum"]


def test_fifty_grades_of_a_random_check_are_the_same() -> None:
    def at_one_point(function: Any, slope: Any) -> bool:
        x = random.uniform(-2, 2)
        return abs((function(x + 1e-5) - function(x - 1e-5)) / 2e-5 - slope(x)) < 1e-3 * (1 + abs(slope(x)))

    outcomes = set()
    for seed in range(50):
        _seed(seed)
        outcomes.add(lab.check("3.3", at_one_point).reason)
    (reason,) = outcomes
    assert re.search(r"it accepts .*, which is wrong, in \d+ of 12 calls: a wrong slope may agree at some x", reason)


TRACED = """
import nbgrad
from nbgrad import lab
from nbgrad.lab import running

def endless(f, x):
    while True: pass

running.PATIENCE = 0.2
print(lab.check(1.1, 3).right, lab.check(14.1, endless).kind)
print(nbgrad.trace(lambda x: x.exp().sum(), nbgrad.ones(3, requires_grad=True)).run is not None)
"""


@pytest.mark.rotated(3)
def test_a_function_can_be_traced_after_a_check_that_ended_or_was_stopped() -> None:
    """Python would look again and again for an error that another thread had sent and taken back."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.splitlines() == ["False raised", "True"], done.stderr
