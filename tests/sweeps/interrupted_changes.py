"""Ctrl-C hits programs with changes in place: an op that has changed the data has also made the history.

The test runs a stopped op again, unless its data are already changed. So values and gradients are torch's, as if there
had been no Ctrl-C.
"""

from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

from nbgrad.core.dispatch.inplace import InPlace
from tests.core.interrupting import Instants
from tests.sweeps import inplace

CASES = 40

LONGEST = 2500
"""The interrupt comes before one of this many first instructions. Few ops have more."""


def check(random: Random) -> None:
    """Run one program; every second change is interrupted somewhere."""
    with (
        patch.object(InPlace, "run", _stopping(InPlace.run, random)),
        patch.object(InPlace, "turn", _stopping(InPlace.turn, random)),
    ):
        inplace.check(random)


def _stopping(change: Callable[..., Any], random: Random) -> Callable[..., Any]:
    def stopped(self: InPlace, target: Any, settings: Any) -> Any:
        if random.random() < 0.5:
            return change(self, target, settings)
        tensor = target[0] if isinstance(target, tuple) else target
        before, returned = _state(tensor), []
        if not Instants(random.randrange(LONGEST)).run(lambda: returned.append(change(self, target, settings))):
            return returned[0]
        return tensor if _state(tensor) != before else change(self, target, settings)

    return stopped


def _state(tensor: Any) -> Any:
    raw = tensor.data
    return raw.shape, raw.stride(), raw.storage_offset(), raw._version
