"""Tensors that are sent to other processes. One that cannot be sent raises an error in the process that waits."""

from collections.abc import Callable
from multiprocessing.queues import Queue
from sys import _getframe
from types import FrameType
from typing import Any

_FEED = Queue._feed.__code__  # type: ignore[attr-defined]  # runs in the thread that empties a queue into its pipe
_UNHEARD = Queue._on_queue_feeder_error  # type: ignore[attr-defined]


def refused(message: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What ``__reduce_ex__`` is to return for a tensor that cannot be pickled, if it returns.

    A thread pickles what was put into a queue. An error there is printed, and who reads the queue waits for ever: a
    ``DataLoader`` does. There the error is sent in the tensor's place, and raised where it is read. A queue that hands
    its errors on, as that of a ``ProcessPoolExecutor`` to the future, has it at once.

    Raises:
        RuntimeError: with that message, but in the thread of such a queue.
    """
    if not _unheard():
        raise RuntimeError(message)
    return arrived, (message,)


def arrived(message: str) -> None:
    """Raise the error that was sent in the place of a tensor."""
    raise RuntimeError(message)


def _unheard() -> bool:
    """Whether the caller runs in the thread of a queue that only prints errors."""
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code is _FEED:
            return frame.f_locals.get("onerror") is _UNHEARD
        frame = frame.f_back
    return False
