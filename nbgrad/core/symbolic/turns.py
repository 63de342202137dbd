"""Turns: one thread at a time runs a program, traces a function or adds to a ``.grad``.

A trace gives the tensors that it finds data without numbers, until it ends. So the runs, gradients and traces of other
threads wait until it has ended.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from nbgrad.core.tensor.tensor import GRADIENT_LOCK

R = TypeVar("R")

_C: Any = torch._C  # some of its functions are missing in torch's stubs


def alone(function: Callable[..., R], *args: Any) -> R:
    """Return ``function(*args)``, while no other thread runs a program, traces or writes gradients."""
    around = GRADIENT_LOCK._is_owned()  # type: ignore[attr-defined]  # as threading.Condition asks a lock
    try:
        with GRADIENT_LOCK:
            return function(*args)
    except BaseException:
        if not around and GRADIENT_LOCK._is_owned():  # type: ignore[attr-defined]  # Ctrl-C has hit the end of the block
            GRADIENT_LOCK.release()
        raise


def tracing_alone(function: Callable[..., R], *args: Any) -> R:
    """The same for a function that traces: torch's modes are as before after Ctrl-C, too."""
    modes = ModesAround()
    try:
        return alone(function, *args)
    except BaseException as error:
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
