"""The generators of random numbers that are not torch's own one, to see whether a function has drawn from one."""

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import torch

from nbgrad.core.symbolic.kernel_settings import Setting


def generators(around: Iterable[Any]) -> list[Setting]:
    """The generators of Python's and of numpy's, and those among the objects that a function uses.

    Returns:
        What each is called, the function that reads its state, and the function that writes it.
    """
    found: list[Setting] = [
        ("Python's random", random.getstate, random.setstate),
        ("numpy.random", partial(np.random.get_state, legacy=False), np.random.set_state),
    ]
    for one in around:
        if isinstance(one, random.Random):
            found.append(("a random.Random", one.getstate, one.setstate))
        elif isinstance(one, np.random.Generator):
            bits = one.bit_generator
            found.append(("a generator of numpy", partial(getattr, bits, "state"), partial(setattr, bits, "state")))
        elif isinstance(one, np.random.RandomState):
            found.append(("a RandomState of numpy", partial(one.get_state, legacy=False), one.set_state))
        elif isinstance(one, torch.Generator):
            found.append(("a generator of torch", one.get_state, one.set_state))
    return found
