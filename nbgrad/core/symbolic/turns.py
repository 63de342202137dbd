"""Turns: programs run in several threads at once, but a trace has its tensors for itself.

A trace gives the tensors that it finds data without numbers, until it ends. So it waits until the runs of other threads
have ended, and runs, gradients and traces of other threads wait until it has ended.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, RLock, get_ident
from typing import Any

import torch

from nbgrad.core.tensor.tensor import GRADIENT_LOCK

_C: Any = torch._C  # some of its functions are missing in torch's stubs
_lock = RLock()
_turn = Condition(_lock)
_running: dict[int, int] = {}
"""By thread how many runs it is in, one inside of the other."""
_traces: dict[int, int] = {}
"""The same for traces: at most one thread traces."""
_waiting: list[int] = []
"""The threads that wait for a trace. No run begins before theirs, or they would wait for ever."""


_PATIENCE = 1.0
"""The seconds after which a waiting thread checks that the others still run: an interrupt may have ended one."""


def _wait() -> None:
    """Wait until another thread has ended something."""
    if not _turn.wait(_PATIENCE):
        frames = sys._current_frames()
        for held in (_running, _traces):
            for thread in [one for one in held if not _in_a_program(frames.get(one))]:
                del held[thread]
        _waiting[:] = [one for one in _waiting if _in_a_program(frames.get(one))]


def _together(change: Callable[..., None], *args: Any) -> None:
    """Run ``change``, which no other thread does meanwhile. The lock is given back even if Ctrl-C hits the ``finally``.

    A ``with`` statement would keep it: the first and the last steps of a ``Condition`` are Python functions, which
    Ctrl-C may hit. Then all programs of all threads would wait for ever.
    """
    try:
        try:
            _lock.acquire()
            change(*args)
        finally:
            _give_back(_lock)
    except BaseException:
        _give_back(_lock)
        raise


def _owns(lock: Any) -> bool:
    """Whether this thread has ``lock``, which is asked as ``threading.Condition`` asks."""
    return bool(lock._is_owned())


def _give_back(lock: Any) -> None:
    if _owns(lock):
        lock.release()


def _in_a_program(frame: Any) -> bool:
    """Whether a frame is in a program or in a trace."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            return True
        frame = frame.f_back
    return False


_PACKAGE = __name__.rpartition(".")[0] + "."


def _after_fork() -> None:
    """In the child no other thread is there."""
    global _lock  # noqa: PLW0603  # another thread may have held the old lock
    _lock = RLock()
    _turn.__init__(_lock)  # type: ignore[misc]
    for held in (_running, _traces):
        for thread in [one for one in held if one != get_ident()]:
            del held[thread]
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _alone(held: dict[int, int], thread: int) -> bool:
    """Whether no other thread is in ``held``."""
    return not held or (len(held) == 1 and thread in held)


def _leave(held: dict[int, int], thread: int) -> None:
    if held.get(thread, 1) > 1:
        held[thread] -= 1
    else:
        held.pop(thread, None)
        _turn.notify_all()


def _run(thread: int) -> None:
    _wait_no_more(thread)
    while (_traces or _waiting) and thread not in _running and thread not in _traces:
        _wait()
    _running[thread] = _running.get(thread, 0) + 1


def _trace(thread: int) -> None:
    try:
        _waiting.append(thread)
        while not (_alone(_traces, thread) and _alone(_running, thread)):
            _wait()
        _traces[thread] = _traces.get(thread, 0) + 1
    finally:
        _wait_no_more(thread)
        if _owns(_lock):  # an interrupt may end the wait before the lock is taken again
            _turn.notify_all()


def _wait_no_more(thread: int) -> None:
    """Take ``thread`` off those that wait: it does something else, or an interrupt has ended its wait."""
    while thread in _waiting:
        _waiting.remove(thread)


class Running:
    """A context in which a program runs: no other thread traces meanwhile."""

    __slots__ = ()

    def __enter__(self) -> None:
        _together(_run, get_ident())

    def __exit__(self, *_: object) -> None:
        _together(_leave, _running, get_ident())


running = Running()


@contextmanager
def tracing() -> Iterator[None]:
    """A context in which a function is traced: no other thread runs a program, traces or writes gradients meanwhile."""
    thread, around, modes = get_ident(), _owns(GRADIENT_LOCK), ModesAround()
    _together(_trace, thread)
    try:  # both, as in ``_together``
        try:
            if not around:
                GRADIENT_LOCK.acquire()
            yield
        finally:
            if not around:
                _give_back(GRADIENT_LOCK)
            _together(_leave, _traces, thread)
    except BaseException as error:
        if not around:
            _give_back(GRADIENT_LOCK)
        if not isinstance(error, Exception):
            modes.restore()
        raise


class ModesAround:
    """Torch's modes around a trace. ``restore`` takes those off that are left, if Ctrl-C has hit the ends of blocks.

    The steps at the ends are Python. A block of ``DisableTorchFunction`` that is not left hides every call of torch
    from all later traces of its thread.
    """

    __slots__ = ("_functions", "_operators", "_state")

    def __init__(self) -> None:
        self._operators = _modes()
        self._functions = torch._C._len_torch_function_stack()
        self._state = _C._get_torch_function_state()

    def restore(self) -> None:
        """Have the modes as they were. It may be called twice."""
        _leave_modes(self._operators)
        while torch._C._len_torch_function_stack() > self._functions:
            torch._C._pop_torch_function_stack()
        _C._set_torch_function_state(self._state)


def _modes() -> list[Any]:
    """The modes on torch's stack for operators."""
    return [torch._C._get_dispatch_stack_at(place) for place in range(torch._C._len_torch_dispatch_stack())]


def _leave_modes(before: list[Any]) -> None:
    """Take the modes of a trace off torch's stack, if Ctrl-C has hit the ends of their blocks: these are Python."""
    for mode in reversed(_modes()):
        if not any(mode is one for one in before):
            key = getattr(mode, "_mode_key", None)  # torch's own modes, such as that of fake tensors, have places
            if key is None:
                torch._C._pop_torch_dispatch_stack(None)
            else:
                torch._C._unset_dispatch_mode(key)
