"""KeyboardInterrupt at random instants, by a signal and by a tracer: nothing that nbgrad switches is left behind."""

import sys
import warnings
from random import Random
from time import perf_counter
from unittest.mock import patch

import torch

import nbgrad
from nbgrad.core.engine import state
from nbgrad.core.engine.state import current
from nbgrad.core.recorder.switches import unfollow_to
from tests.core.interrupting import BLOCKS, ENGINE, PICTURES, Alarm, Instants, check_untouched, paced, switched, torchs

CASES = 8

SECONDS = 1.0
"""A case interrupts its scenario for so long: ``--tries 1000000`` makes a million interrupts.

A picture or a trace takes a hundred times as long as a step, and runs to its end after each interrupt.
"""


SCENARIOS = ENGINE | BLOCKS | PICTURES


def check(random: Random) -> int:
    """Interrupt one scenario again and again, and run it to its end in between; return how often it was interrupted."""
    done = 0
    make = random.choice(list(SCENARIOS))
    ignored: list[object] = []  # Python ignores what is raised in a __del__, as that of a widget
    with warnings.catch_warnings(), patch.object(sys, "unraisablehook", ignored.append):
        warnings.simplefilter("ignore")
        run = make()
        want = run()
        begin = perf_counter()
        run()
        seconds = perf_counter() - begin
        traced = random.random() < 0.5
        # Most instants are in code that switches nothing, and a tracer of all of them is slow.
        modules = SCENARIOS[make] if random.random() < 0.5 else None
        count = 0
        if traced:
            notes = Instants(modules=modules)
            notes.run(run)
            traced, count = bool(notes.passed), len(notes.passed)  # compiled modules have no instructions
        end = perf_counter() + SECONDS
        while perf_counter() < end:
            number = random.randrange(count) if traced else 0
            stop = Instants(number, modules) if traced else Alarm(random.uniform(1e-6, 1.1 * seconds))
            before, begun = switched(), current()
            interrupted = stop.run(run)
            done += interrupted
            if make in BLOCKS and not nbgrad.compiled():
                state.set_state(state.unwound(begun))  # as at the end of a cell
                unfollow_to(0)
            if make in (torchs, paced) and not traced:
                torch.set_grad_enabled(True)  # torch's own optimizers may leave it off, with or without a graph
            hit = stop.hit if isinstance(stop, Instants) else None
            where = f"{make.__name__} at {hit}" if traced else f"{make.__name__} by a signal"
            check_untouched(before, where)
            assert interrupted or hit is None or ignored  # one run may take fewer instructions than another
            if make in PICTURES:
                assert run() == want, where
        assert run() == want, make.__name__
    return done
