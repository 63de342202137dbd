"""``Calls``: watches what a traced function asks of the world around Python, which a program would not ask again."""

import _lsprof
import io
import logging
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from socket import socket
from types import FrameType
from typing import Any, Self

import torch

from nbgrad.core.engine.call_site import in_library, user_place
from nbgrad.core.engine.place import Place
from nbgrad.core.symbolic.errors import error_at
from nbgrad.core.symbolic.surroundings import Sight

_TIME = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_CLOCKS = frozenset((*_TIME, *(f"{name}_ns" for name in _TIME), "localtime", "gmtime", "ctime", "asctime", "strftime"))
_NOW = frozenset(("now", "utcnow", "today"))
_READS = frozenset(("read", "read1", "readline", "readlines", "readinto", "seek", "tell", "truncate"))
_DRAWS = frozenset(("random", "getrandbits", "manual_seed", "seed", "set_state"))
_FILES = frozenset(("remove", "unlink", "mkdir", "rmdir", "rename", "replace", "link", "symlink", "chmod", "utime"))
_SENDS = frozenset(("send", "sendall", "sendto", "connect", "recv"))
_STARTS = frozenset(("start_new_thread", "start_joinable_thread", "fork", "fork_exec", "posix_spawn", "system", "kill"))
_ACTS = _FILES | _SENDS | _STARTS | {"print", "write", "writelines", "sleep", "warn", "put", "register"}
_NAMES = _CLOCKS | _NOW | _READS | _DRAWS | _ACTS | {"open", "urandom", "input"}
"""The names of the functions that matter: every other call is passed by with one look."""

_STANDARD = ("os", "collections", "random", "secrets", "uuid", "datetime", "_pydatetime", "pathlib", "tempfile")
"""Modules of Python whose functions ask on behalf of their caller."""

_ACTING: dict[str, tuple[Any, str]] = {
    "callHandlers": (logging.Logger.callHandlers.__code__, "logs a message"),
    "put": (queue.Queue.put.__code__, "puts something into a queue"),
    "get": (queue.Queue.get.__code__, "takes something from a queue"),
    "set": (threading.Event.set.__code__, "sets an Event"),
    "write": (None, "writes to {}"),
}
"""Functions of Python's that do something: by name their code, and what they do."""

_ENVIRONMENT: Any = type(os.environ)
_ONE_NAME, _ALL_NAMES = _ENVIRONMENT.__getitem__.__code__, _ENVIRONMENT.__iter__.__code__


class Calls:
    """A context that watches the calls of the thread that it is entered in.

    A profiler of the user's that is a function hears of all calls too. cProfile stands still meanwhile.

    Args:
        sights: what the function uses from outside.
        watches: False if nothing is to be watched, as in a second trace that looks for a line.

    Attributes:
        draws: whether a generator of random numbers was called, of torch's or of Python's; True if that is unknown.

    Raises:
        TraceError: the function uses an iterator from outside; or a profiler is on that is no function, and cannot
            stand still.
    """

    def __init__(self, sights: Iterable[Sight], *, watches: bool = True) -> None:
        self._watches = watches
        self._profiler: Any = None
        if watches:
            self._profiler = _current_profiler()
        if not (self._profiler is None or callable(self._profiler) or _is_pausable(self._profiler)):
            raise error_at(
                user_place(),
                f"the profiler {type(self._profiler).__name__} is on, and a trace has to watch the calls itself",
                "Switch it off for the first call of the function: later calls are not traced",
            )
        self.draws = not self._watches
        self._wrong: tuple[Place, str, str] | None = None
        self._names: set[str] = set()
        self._all_names = False
        for name, value in sights:
            if _is_iterator(value):
                raise error_at(
                    user_place(),
                    f"the function uses {name}, a {type(value).__name__}, and a program would use its same values in "
                    "each run",
                    "Call next(...) outside of the function, and give it the value as an argument",
                )

    def __enter__(self) -> Self:
        if self._watches:
            if _is_pausable(self._profiler):
                self._profiler.disable()
            sys.setprofile(self._see if not callable(self._profiler) else self._see_and_tell)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watches:
            sys.setprofile(self._profiler if callable(self._profiler) else None)
            if _is_pausable(self._profiler):
                self._profiler.enable()

    def check(self) -> None:
        """Raise an error if a program would go on with an old answer.

        Raises:
            TraceError: with the line that asked.
        """
        if self._wrong is not None:
            raise error_at(*self._wrong)

    def guards(self) -> list[tuple[str, Callable[[], Any], Any]]:
        """The environment variables that were read: the text, the function that reads again, and what it gives."""
        found: list[tuple[str, Callable[[], Any], Any]] = [
            (f"os.environ[{name!r}]", partial(os.environ.get, name), os.environ.get(name))
            for name in sorted(self._names)
        ]
        if self._all_names:
            found.append(("os.environ", lambda: dict(os.environ), dict(os.environ)))
        return found

    def _see_and_tell(self, frame: FrameType, event: str, called: Any) -> None:
        """Tell a profiler of the user's of a call that is seen."""
        self._profiler(frame, event, called)
        self._see(frame, event, called)

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = called.__name__
            if name in _NAMES:
                self._see_builtin(frame, name, called)
        elif event == "call":
            code = frame.f_code
            if code is _ONE_NAME or code is _ALL_NAMES:
                self._see_environment(frame)
            elif code.co_name in _ACTING:
                self._see_action(frame, *_ACTING[code.co_name])

    def _see_builtin(self, frame: FrameType, name: str, called: Any) -> None:
        owner = getattr(called, "__self__", None)
        if name in _DRAWS and isinstance(owner, random.Random | torch.Generator):
            self.draws = True
        elif name in _CLOCKS and owner is time:
            self._refuse(frame, f"reads the clock with time.{name}()", "the same time", _OUTSIDE)
        elif name in _NOW and isinstance(owner, type) and issubclass(owner, date):
            self._refuse(frame, f"reads the clock with {owner.__name__}.{name}()", "the same time", _OUTSIDE)
        elif name in _READS and isinstance(owner, io.IOBase):
            self._refuse(frame, f"reads a file with {name}()", "the same contents", _OUTSIDE)
        elif name == "open" and called in (io.open, os.open):
            self._refuse(frame, "opens a file", "what is in it now", _OUTSIDE)
        elif name == "urandom":
            self._refuse(frame, "draws random numbers of the operating system", "the same ones", _OUTSIDE)
        elif name == "input":
            self._refuse(frame, "asks the user with input()", "the same answer", _OUTSIDE)
        elif name in _ACTS:
            self._see_act(frame, name, owner, called)

    def _see_act(self, frame: FrameType, name: str, owner: Any, called: Any) -> None:
        """See something that a program would not do again."""
        of = getattr(owner, "__name__", None) or getattr(called, "__module__", None)
        if name in ("print", "write", "writelines", "warn"):
            self._see_output(frame, of, owner, called)
        elif name == "sleep" and owner is time:
            self._act(_asking(frame), "waits with time.sleep()", _AFTER)
        elif name in _STARTS and of in ("_thread", "posix", "nt", "_posixsubprocess"):
            what = "starts a thread" if of == "_thread" else "starts a process, or signals one"
            self._act(_asking(frame, ("threading", "subprocess", "concurrent")), what, _AFTER)
        elif name in _FILES and of in ("posix", "nt"):
            self._act(_asking(frame, ("shutil",)), f"changes files with os.{name}()", _AFTER)
        elif name in _SENDS and isinstance(owner, socket):
            self._act(_behind(frame), "uses a network connection", _AFTER)
        elif name == "put" and isinstance(owner, queue.SimpleQueue):
            self._act(_asking(frame), "puts something into a queue", _AFTER)
        elif name == "register" and of == "atexit":
            self._act(_asking(frame), "registers a function with atexit", _AFTER)

    def _see_output(self, frame: FrameType, of: str | None, owner: Any, called: Any) -> None:
        if called is print:
            self._act(_asking(frame), "prints", _PRINTED)
        elif of == "_warnings" and not in_library(frame.f_code.co_filename):
            self._act(frame, "gives a warning", _AFTER)
        elif isinstance(owner, io.IOBase) and (
            owner in (sys.stdout, sys.stderr) or not isinstance(owner, io.StringIO | io.BytesIO)
        ):
            self._act(_behind(frame), f"writes to {_file_name(owner)}", _PRINTED)  # the position of others tells

    def _see_action(self, frame: FrameType, code: Any, what: str) -> None:
        """The same for a function that is written in Python."""
        if code is frame.f_code:
            self._act(_behind(frame), what, _PRINTED if "logs" in what else _AFTER)
        elif code is None and frame.f_code.co_argcount:
            owner = frame.f_locals.get(frame.f_code.co_varnames[0])
            if owner is sys.stdout or owner is sys.stderr or isinstance(owner, io.TextIOBase):
                self._act(_behind(frame), what.format(_file_name(owner)), _PRINTED)

    def _act(self, frame: FrameType | None, what: str, remedy: str) -> None:
        """Raise an error before it is done: no one could take it back."""
        if frame is not None:
            if self._wrong is None:
                self._wrong = _place(frame), f"the function {what}, which a run of a program does not do", remedy
            raise error_at(*self._wrong)

    def _see_environment(self, frame: FrameType) -> None:
        if frame.f_locals.get("self") is os.environ and frame.f_back and _asking(frame.f_back) is not None:
            if frame.f_code is _ONE_NAME:
                self._names.add(frame.f_locals["key"])
            else:
                self._all_names = True

    def _refuse(self, frame: FrameType, what: str, same: str, remedy: str) -> None:
        asking = _asking(frame)
        if asking is not None:
            self._note(asking, what, same, remedy)
            if "file" in what and self._wrong is not None:
                raise error_at(*self._wrong)  # before the file is emptied, or read

    def _note(self, frame: FrameType, what: str, same: str, remedy: str) -> None:
        if self._wrong is None:
            self._wrong = _place(frame), f"the function {what}, and a program would use {same} in each run", remedy


_OUTSIDE = "Do it outside of the function, and give the function what it needs as an argument"
_AFTER = "Do it after the call, outside of the function"
_PRINTED = "Return the tensor from the function, and print or log it after the call"


def _place(frame: FrameType) -> Place:
    return Place(frame.f_code, frame.f_lasti)


def _asking(frame: FrameType, others: tuple[str, ...] = ()) -> FrameType | None:
    """The user's frame that asks, maybe through modules of Python; None if a library asks for itself."""
    asking: FrameType | None = frame
    while asking is not None and asking.f_globals.get("__name__", "").partition(".")[0] in (*_STANDARD, *others):
        asking = asking.f_back
    return None if asking is None or in_library(asking.f_code.co_filename) else asking


def _behind(frame: FrameType) -> FrameType | None:
    """The user's frame for which any library acts; None if nbgrad or torch acts for itself, or a warning is shown."""
    asking: FrameType | None = frame
    while asking is not None and in_library(asking.f_code.co_filename):
        if asking.f_globals.get("__name__", "").partition(".")[0] in ("nbgrad", "torch", "warnings"):
            return None
        asking = asking.f_back
    return asking


def _file_name(file: Any) -> str:
    if file in (sys.stdout, sys.stderr):
        return "sys.stdout" if file is sys.stdout else "sys.stderr"
    return f"a {type(file).__name__}"


def _is_iterator(value: Any) -> bool:
    """Whether a loop over ``value`` goes on where the last one has ended. ``Effects`` looks at streams in memory."""
    if isinstance(value, io.IOBase):
        return not (isinstance(value, io.StringIO | io.BytesIO) or value.closed) and value.readable()
    return isinstance(value, Iterator)


def _current_profiler() -> Any:
    """The profiler of this thread, which need not be a function; None if there is none."""
    return sys.getprofile()


def _is_pausable(profiler: Any) -> bool:
    """Whether it is cProfile, which before Python 3.12 takes the place of all other profilers."""
    return isinstance(profiler, _lsprof.Profiler)
