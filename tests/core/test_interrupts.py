"""Ctrl-C at any instant: nothing that nbgrad switches is left behind, and what was stopped runs as ever afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.backend import below_autograd
from nbgrad.core.engine import state
from nbgrad.core.engine.state import current
from tests.core.interrupting import BLOCKS, ENGINE, Instants, check_untouched, switched

EVERY = ("collecting", "dispatch", "randomness")
"""What switches for all others: every instruction of it is interrupted."""

MOST = 150
"""So many of the others are, of each scenario; ``python -m tools.sweep interrupts`` goes through all."""


@pytest.mark.parametrize("make", [*ENGINE, *BLOCKS], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_interrupt_at_any_instruction_leaves_nothing_switched(make: Callable[[], Callable[[], Any]]) -> None:
    run, modules = make(), {**ENGINE, **BLOCKS}[make]
    want = run()
    run()
    notes = Instants(modules=modules)
    assert not notes.run(run)
    numbers = notes.each()
    every = [at for at in numbers if Path(notes.passed[at][0].co_filename).stem in EVERY]
    for count, number in enumerate(sorted({*every, *numbers[:: len(numbers) // MOST + 1]})):
        before, state = switched(), current()
        tracer = Instants(number, modules)
        if not tracer.run(make() if count % 20 else run):
            continue
        if make in BLOCKS and not nbgrad.compiled():
            state.set_state(state.unwound(state))  # as at the end of a cell
        check_untouched(before, str(tracer.hit))
        if count % 20 == 0:
            assert run() == want, tracer.hit
    assert run() == want


@pytest.mark.skipif(nbgrad.compiled(), reason="compiled code is not traced")
@pytest.mark.parametrize("make", [*ENGINE, *BLOCKS], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_modules_that_switch_something_run_in_what_is_interrupted(make: Callable[[], Callable[[], Any]]) -> None:
    modules = {**ENGINE, **BLOCKS}[make]
    notes = Instants(modules=modules)
    make()()
    notes.run(make())
    assert {Path(code.co_filename).stem for code, _ in notes.passed} == set(modules)


def test_a_guard_that_is_left_too_late_is_found() -> None:
    """The tester is tested: with one ``finally`` only, which an interrupt may hit, torch's autograd stays off."""

    def once(run: Callable[..., Any], *args: Any) -> Any:
        below_autograd._leave_out(below_autograd._RECORDS, True)
        try:
            return run(*args)
        finally:
            below_autograd._leave_out(below_autograd._RECORDS, False)

    once.__code__ = once.__code__.replace(co_filename=str(Path(nbgrad.__file__).parent / "once.py"))
    before, found = switched(), []
    notes = Instants(modules=["once"])
    notes.run(lambda: once(int))
    for number in range(len(notes.passed)):
        tracer = Instants(number, ["once"])
        assert tracer.run(lambda: once(int))
        try:
            check_untouched(before, str(tracer.hit))
        except AssertionError as error:
            found.append(str(error))
            below_autograd._leave_out(below_autograd._RECORDS, False)
    assert found
    assert all("exclude" in one for one in found)


def test_an_interrupt_in_a_hook_leaves_torchs_autograd_on() -> None:
    x = nbgrad.tensor([1.0], requires_grad=True)
    y = x * x

    def hook(_: Any) -> None:
        raise KeyboardInterrupt

    y.register_hook(hook)
    before = switched()
    with pytest.raises(KeyboardInterrupt) as raised:
        y.sum().backward()
    check_untouched(before, "while the traceback is held")
    frames = raised.traceback
    del raised, frames
    check_untouched(before, "and after it has gone")


def test_switches_of_torchs_that_a_hook_leaves_are_put_back() -> None:
    """torch's own blocks are left by functions of Python's: an interrupt may hit their first instruction."""
    x = nbgrad.tensor([1.0], requires_grad=True)
    y = x * x

    def hook(_: Any) -> None:
        torch.no_grad().__enter__()
        torch.set_autocast_enabled("cpu", True)
        raise KeyboardInterrupt

    y.register_hook(hook)
    before = switched()
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    check_untouched(before, "a hook")


def test_blocks_that_nobody_left_are_left_and_settings_stay() -> None:
    begin = current()
    try:
        nbgrad.set_grad_enabled(False)
        nbgrad.no_grad().__enter__()
        nbgrad.AutogradGraph().__enter__()
        nbgrad.detect_anomaly().__enter__()
        nbgrad.set_grad_enabled(True)
        left = state.unwound(begin)
        assert not left.grad_enabled
        assert left.observers == ()
        inner = current()
        assert state.unwound(inner) is inner
    finally:
        state.set_state(begin)
