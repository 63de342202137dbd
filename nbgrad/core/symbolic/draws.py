"""``Draws``: whether a function has drawn random numbers that are not torch's."""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np


class Draws:
    """The states of the generators of Python's and of numpy's, to see whether one has moved on.

    Args:
        around: objects that a function uses; generators among them are looked at too.
    """

    def __init__(self, around: Iterable[Any]) -> None:
        reads: list[tuple[str, Callable[[], Any]]] = [
            ("Python's random", random.getstate),
            ("numpy.random", partial(_older_state_of, np.random)),
        ]
        for one in around:
            if isinstance(one, random.Random):
                reads.append(("a random.Random", one.getstate))
            elif isinstance(one, np.random.Generator):
                reads.append(("a generator of numpy", partial(_state_of, one.bit_generator)))
            elif isinstance(one, np.random.RandomState):
                reads.append(("a RandomState of numpy", partial(_older_state_of, one)))
        self._before = [(name, read, read()) for name, read in reads]

    def changed(self) -> str | None:
        """The name of a generator that has drawn since; None if none has."""
        return next((name for name, read, before in self._before if read() != before), None)


def _state_of(generator: Any) -> Any:
    return _flat(generator.state)


def _older_state_of(generator: Any) -> Any:
    return _flat(generator.get_state(legacy=False))


def _flat(state: Any) -> Any:
    """A state that can be compared: arrays as bytes."""
    if isinstance(state, dict):
        return {key: _flat(one) for key, one in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
