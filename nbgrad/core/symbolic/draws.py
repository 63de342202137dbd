"""``Draws``: whether a function has drawn random numbers that are not torch's."""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch


class Draws:
    """The states of the generators of Python's and of numpy's, to see whether one has moved on.

    Args:
        around: objects that a function uses; generators among them are looked at too.
    """

    def __init__(self, around: Iterable[Any]) -> None:
        kinds: list[tuple[str, Callable[[], Any], Callable[[Any], object]]] = [
            ("Python's random", random.getstate, random.setstate),
            ("numpy.random", partial(np.random.get_state, legacy=False), np.random.set_state),
        ]
        for one in around:
            if isinstance(one, random.Random):
                kinds.append(("a random.Random", one.getstate, one.setstate))
            elif isinstance(one, np.random.Generator):
                bits = one.bit_generator
                kinds.append(("a generator of numpy", partial(getattr, bits, "state"), partial(setattr, bits, "state")))
            elif isinstance(one, np.random.RandomState):
                kinds.append(("a RandomState of numpy", partial(one.get_state, legacy=False), one.set_state))
            elif isinstance(one, torch.Generator):
                kinds.append(("a generator of torch", one.get_state, one.set_state))
        self._before = [(name, read, write, read()) for name, read, write in kinds]

    def changed(self) -> str | None:
        """The name of a generator that has drawn since; None if none has."""
        return next((name for name, read, _, before in self._before if _flat(read()) != _flat(before)), None)

    def restore(self) -> None:
        """Give the generators that have drawn their old states."""
        for _, read, write, before in self._before:
            if _flat(read()) != _flat(before):
                write(before)


def _flat(state: Any) -> Any:
    """A state that can be compared: arrays as bytes."""
    if isinstance(state, dict):
        return {key: _flat(one) for key, one in state.items()}
    if isinstance(state, torch.Tensor):
        state = state.numpy()
    return state.tobytes() if isinstance(state, np.ndarray) else state
