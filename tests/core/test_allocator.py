"""A step reuses the memory that the step before it freed."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
import torch

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
held = []
for code in {stages}:
    exec(code)
    before = ask().hblks
    held.append(torch.empty(30 << 20, dtype=torch.uint8))
    print(ask().hblks - before)
"""

CONSTANT = "import nbgrad; nbgrad.ones(3).exp()"
RECORDED = "import nbgrad; nbgrad.ones(3, requires_grad=True).exp()"
LOOP = """
import nbgrad
model = nbgrad.nn.Linear(2, 2)
optimizer = nbgrad.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(nbgrad.ones(3, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FAKE = """
from torch._subclasses.fake_tensor import FakeTensorMode
import nbgrad
with FakeTensorMode():
    nbgrad.tensor(torch.ones(3), requires_grad=True).exp()
"""


def of_their_own(*stages: str, **variables: str) -> list[bool]:
    """Run pieces of code in one process. After each one: does a new block of 30 MiB come from the system?"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "LD_PRELOAD"))}
    program = [sys.executable, "-c", PROGRAM.format(stages=stages)]
    ran = subprocess.run(program, env=environment | variables, capture_output=True, text=True, check=True)
    return [bool(int(line)) for line in ran.stdout.split()]


@pytest.mark.rotated(6)
@pytest.mark.once  # its module is not compiled
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library tells what it does")
def test_freed_memory_is_kept_for_the_next_step() -> None:
    # With torch alone the block comes from the system. An import of nbgrad or unrecorded ops do not change that.
    assert of_their_own("", "import nbgrad", CONSTANT, RECORDED) == [True, True, True, False]
    assert of_their_own(LOOP) == [False]
    assert of_their_own(RECORDED, MALLOC_TRIM_THRESHOLD_="131072") == [True], "what the user has set stays"


@pytest.mark.rotated(4)
@pytest.mark.once
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library tells what it does")
def test_an_op_on_tensors_without_memory_leaves_it_to_later_ones() -> None:
    assert of_their_own(f"{FAKE}\n{RECORDED}") == [False]
