"""A decorator for functions in which the garbage collector could only lose time: it pauses while they run."""

import gc
import os
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


_waits_for: list[int] = []
"""The thread that has switched the collector off last."""


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, without the cyclic garbage collector: it makes 100,000 dicts and lists that are in no cycle.

    The collector would look through them and through all that the user has, several times, and find nothing. It is
    switched on again whatever is raised, also by an interrupt that hits the very ``finally``.

    If the collector is off when ``function`` is called, it is left alone: the user has switched it off, or another
    function of this kind. Such a function may run in another thread, and switch the collector on at any time. If
    ``function`` then restored the state that it had found, the collector would stay off for good.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        try:
            try:
                _waits_for[:] = [get_ident()]
                gc.disable()
                return function(*args, **kwargs)
            finally:
                gc.enable()
        except BaseException:
            gc.enable()
            raise

    return run


def _forked() -> None:
    """Switch the collector on in a child process: the thread of the parent that would have done so is not there."""
    if _waits_for and _waits_for != [get_ident()]:
        gc.enable()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)
