"""A process that fails: the others end soon, and their messages name it."""

import re
import time

import pytest

from tests.nn.parallel import workers
from tests.nn.parallel.processes import TIMEOUT, errors, free_port, run, values

pytestmark = [pytest.mark.once, pytest.mark.rotated(6)]

DIFFERENT = {
    "shape": r"rank 1 has parameter 'weight' of shape \(3, 4\).*, and rank 0 parameter 'weight' of shape \(2, 4\)",
    "count": r"rank 1 has 1 parameters, and rank 0 2; only rank 0 has parameter 'bias' of shape \(2,\)",
    "type": r"rank 1 has parameter 'weight' of shape \(2, 4\) and dtype float64, and rank 0 .* float32",
    "frozen": r"rank 1 has parameter '0.weight' .*, frozen,, and rank 0 parameter '0.weight'",
}


def match(pattern, message):
    assert re.search(pattern, message), message


@pytest.mark.parametrize("kind", DIFFERENT)
def test_modules_that_differ(kind):
    for message in errors(workers.different, 2, kind):
        match(r"RuntimeError: .*the modules of the processes differ: .*Make the same module in each process", message)
        match(DIFFERENT[kind], message)


def test_gradients_that_come_in_no_process():
    for rank, message in enumerate(errors(workers.missing, 2, (0, 1), {})):
        match(rf"rank {rank}: no gradient arrived for parameters 'never.weight', 'never.bias', .*find_unused", message)


@pytest.mark.parametrize("settings", [{}, {"static_graph": True}])
def test_a_gradient_that_never_comes_in_one_process(settings):
    begin = time.monotonic()
    messages = errors(workers.missing, 3, (1,), settings)
    match(r"DistributedDataParallel, rank 1: .*no gradient arrived for parameters 'never.weight'", messages[1])
    for message in (messages[0], messages[2]):
        match(r"rank \d stopped while averaging gradients, bucket \d of \d+: rank 1 raised RuntimeError: ", message)
        match(r"'never.weight'", message)
    assert time.monotonic() - begin < TIMEOUT


FAILED = {
    "raises": r"rank 2 raised ValueError: the seventh row is broken",
    "is interrupted": r"rank 2 raised KeyboardInterrupt",
    "dies": r"rank 2 ended",
    "keeper dies": r"rank 0 ended",
}


@pytest.mark.rotated(3)
@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("raises", "backward"),
        ("is interrupted", "backward"),
        ("dies", "backward"),
        ("dies", "step"),
        ("dies", "norm"),
        ("keeper dies", "backward"),
    ],
)
def test_a_process_that_ends(how, where):
    begin = time.monotonic()
    ended = run(workers.failing, 3, how, where)
    culprit = 0 if how == "keeper dies" else 2
    for rank, one in enumerate(ended):
        if rank != culprit:
            assert one.error, ended
            match(rf"rank {rank} stopped while [a-zA-Z ]+.*: {FAILED[how]}", one.error)
            match(r"start them again from a checkpoint; torchrun --max-restarts does both", one.error)
            others = {0, 1, 2} - {culprit}
            assert not any(
                f"rank {other} ended" in one.error or f"rank {other} raised" in one.error for other in others
            )
    assert time.monotonic() - begin < TIMEOUT


@pytest.mark.rotated(3)
def test_the_process_that_keeps_the_store_ends():
    ended = run(workers.failing, 3, "keeper dies", "backward", address=f"tcp://127.0.0.1:{free_port()}")
    for rank in (1, 2):
        match(rf"rank {rank} stopped while .*: rank 0 ended, and with it the store", ended[rank].error)


def test_a_process_that_is_slow():
    first, second = values(workers.slow, 2)
    assert first == second
