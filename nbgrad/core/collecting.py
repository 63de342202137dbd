"""The garbage collector, and when it can only lose time."""

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, without the cyclic garbage collector: it makes 100,000 dicts and lists that are in no cycle.

    The collector would look through them and through all that the user has, several times, and find nothing. It is
    switched on again whatever is raised, also by an interrupt that hits the very ``finally``.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        was = gc.isenabled()
        try:
            try:
                gc.disable()
                return function(*args, **kwargs)
            finally:
                if was:
                    gc.enable()
        except BaseException:
            if was:
                gc.enable()
            raise

    return run
