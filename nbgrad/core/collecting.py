"""The garbage collector, and when it can only lose time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the cyclic garbage collector, where a hundred thousand dicts and lists are made that are in no cycle.

    It would look through them and through all that the user has, several times, and find nothing.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
