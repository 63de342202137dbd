"""Take the recorder of torch's functions off torch's stack of modes, while nbgrad's own code calls torch.

Each call of torch, and each look at an attribute of a tensor, takes a microsecond more with a mode on the stack. An op
of nbgrad's makes about ten of them, and none is the user's.
"""

from collections.abc import Callable
from typing import Any

import torch

_length = torch._C._len_torch_function_stack
_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack


class _RecordingMode:
    """The mode that records, while it lies on the stack of some thread; None where nothing is recorded."""

    __slots__ = ("mode",)

    def __init__(self) -> None:
        self.mode: Any = None


recorder = _RecordingMode()
_recorder = recorder  # of a type of C's in compiled code, where Python cannot see it


def lift() -> bool:
    """Take the mode that records off the stack, if it lies on top; whether it did."""
    if _recorder.mode is None or not _length():
        return False
    mode = _pop()
    if mode is _recorder.mode:
        return True
    _push(mode)
    return False


def put_back() -> None:
    """Lay it on the stack again, after ``lift`` took it off."""
    _push(_recorder.mode)


def take_off() -> bool:
    """Take it off, also where others lie on it; whether it was there."""
    above: list[Any] = []
    found = False
    while not found and _length():
        mode = _pop()
        found = mode is recorder.mode
        if not found:
            above.append(mode)
    while above:
        _push(above.pop())
    return found


def unheard(run: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """``run(*args, **settings)`` with the mode off."""
    if not lift():
        return run(*args, **settings)
    try:
        return run(*args, **settings)
    finally:
        put_back()
