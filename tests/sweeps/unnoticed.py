"""Programs of plain torch, run plain and recorded in fresh processes: any way, seed and default type."""

import atexit
from functools import cache
from random import Random

from tests.recorder.unnoticed.harness import WAYS, Servers, ways_of
from tests.recorder.unnoticed.registry import load

CASES = 5

EXCEPT_DOUBLE = ("tools.", "modules.")
"""Families whose programs need the usual default type."""


@cache
def _servers() -> Servers:
    started = Servers()
    atexit.register(started.close)
    return started


def check(random: Random) -> None:
    """Run one program in one way."""
    programs = load()
    name = random.choice(list(programs))
    dtype = "float32" if name.startswith(EXCEPT_DOUBLE) else random.choice(["float32", "float32", "float64"])
    ways = [random.choice(ways_of(programs[name], [*WAYS, "drawn"]))]
    found = _servers().differences(programs[name], ways, seed=random.randrange(1000), dtype=dtype)
    assert not found, f"{name}: {found}"
