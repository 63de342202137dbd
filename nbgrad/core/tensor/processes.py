"""Tensors that are sent to other processes. One that cannot be sent raises an error in the process that waits."""

from collections.abc import Callable
from multiprocessing.queues import Queue
from sys import _getframe
from types import FrameType
from typing import Any

_FEED = Queue._feed.__code__  # type: ignore[attr-defined]  # runs in the thread that empties a queue into its pipe
_UNHEARD = Queue._on_queue_feeder_error  # type: ignore[attr-defined]


def refused(message: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The answer of ``__reduce_ex__`` for a tensor that cannot be pickled: it raises, or returns the error to send.

    A thread pickles the items of a queue, and only prints an error. The reader, for example a ``DataLoader``, would
    wait for ever. So in such a thread the error itself is sent in place of the tensor, and the reader raises it. Other
    queues report errors themselves, such as that of a ``ProcessPoolExecutor``, so there the error is raised at once.

    Raises:
        RuntimeError: with this message, unless the thread of such a queue runs this.
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
