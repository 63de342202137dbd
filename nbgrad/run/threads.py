"""The threads of a program beside its main thread: those that train are noticed, and the first one can be recorded."""

import threading
from collections.abc import Callable
from contextlib import suppress
from threading import current_thread
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.place import Place
from nbgrad.tracebacks import shortened

ALONE = 2
"""After this many backwards, a thread without an optimizer is in its second step of training."""


class OtherThread(NamedTuple):
    """A thread whose backwards no graph records.

    Attributes:
        name: of the thread.
        place: the line that called the first backward.
        backwards: how many it has run.
    """

    name: str
    place: Place
    backwards: int


class OtherThreads(pacing.Pacer):
    """Counts the backwards in threads that no graph records.

    Args:
        record: called in such a thread after a step of training; it may begin to record the thread, and says whether it
            does. Then the thread is no longer one of these.
    """

    def __init__(self, record: Callable[[OtherThread], bool]) -> None:
        self._record = record
        self._found: dict[str, OtherThread] = {}

    def backward_ended(self, *_: Any) -> None:
        """A backward has ended in this thread, which is none of torch's own: those run parts of another backward."""
        if torch._C._current_autograd_node() is not None:
            return
        with suppress(Exception):  # the program has to go on
            name = current_thread().name
            known = self._found.get(name)
            place, many = (user_place(), 0) if known is None else (known.place, known.backwards)
            self._found[name] = OtherThread(name, place, many + 1)
            if many + 1 >= ALONE:
                self._offer(name)

    def step_ended(self, optimizer: Any) -> None:  # noqa: ARG002  # as of every pacer
        """A step of training has ended in this thread."""
        with suppress(Exception):
            self._offer(current_thread().name)

    def _offer(self, name: str) -> None:
        if name in self._found and self._record(self._found[name]):
            del self._found[name]

    def add(self, thread: OtherThread) -> None:
        """One of these after all: it has trained no further."""
        self._found[thread.name] = thread

    @property
    def found(self) -> list[OtherThread]:
        """The threads, in the order of their first backward."""
        return list(self._found.values())


class ThreadErrors:
    """Keeps the error that ends this thread. It is printed as ever, without the frames of nbgrad.

    Attributes:
        error: None as long as there is none.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._thread = current_thread()
        self._hook = threading.excepthook
        threading.excepthook = self._ended

    def _ended(self, args: Any) -> None:
        if current_thread() is self._thread and args.exc_value is not None:
            self.error = args.exc_value
            trace = shortened(args.exc_value, args.exc_traceback)
            args = threading.ExceptHookArgs((args.exc_type, args.exc_value.with_traceback(trace), trace, args.thread))
        self._hook(args)

    def close(self) -> None:
        """Wait for no error any more."""
        if threading.excepthook == self._ended:
            threading.excepthook = self._hook
