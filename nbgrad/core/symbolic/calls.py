"""``Calls``: watches what a traced function asks of the world around Python, which a program would not ask again."""

import io
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from types import FrameType, GeneratorType
from typing import Any, Self

import torch

from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.place import Place
from nbgrad.core.symbolic.errors import error_at
from nbgrad.core.symbolic.surroundings import in_library

_TIME = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_CLOCKS = frozenset((*_TIME, *(f"{name}_ns" for name in _TIME), "localtime", "gmtime", "ctime", "asctime", "strftime"))
_NOW = frozenset(("now", "utcnow", "today"))
_READS = frozenset(("read", "read1", "readline", "readlines", "readinto", "seek", "tell", "truncate"))
_DRAWS = frozenset(("random", "getrandbits", "manual_seed", "seed", "set_state"))
_NAMES = _CLOCKS | _NOW | _READS | _DRAWS | {"open", "urandom", "input", "next"}
"""The names of the functions that matter: every other call is passed by with one look."""

_STANDARD = ("os", "collections", "random", "secrets", "uuid", "datetime", "_pydatetime", "pathlib", "tempfile")
"""Modules of Python whose functions ask on behalf of their caller."""

_ENVIRONMENT: Any = type(os.environ)
_ONE_NAME, _ALL_NAMES = _ENVIRONMENT.__getitem__.__code__, _ENVIRONMENT.__iter__.__code__


class Calls:
    """A context that watches the calls of the thread that it is entered in.

    A profiler of the user's keeps running; then nothing is watched.

    Args:
        around: what the function uses from outside; iterators among them must stay where they are.
        watches: False if nothing is to be watched, as in the second trace of one function.

    Attributes:
        draws: whether a generator of random numbers was called, of torch's or of Python's; True if that is unknown.
    """

    def __init__(self, around: Iterable[Any], *, watches: bool = True) -> None:
        self._watches = watches and sys.getprofile() is None
        self.draws = watches and not self._watches
        self._wrong: tuple[Place, str, str] | None = None
        self._next: Place | None = None
        self._names: set[str] = set()
        self._all_names = False
        self._iterators = [one for one in around if isinstance(one, Iterator)]
        self._before = [_position(one) for one in self._iterators]
        self._own = {id(one) for one in self._iterators}
        self._generators = {id(one.gi_frame) for one in self._iterators if isinstance(one, GeneratorType)}

    def __enter__(self) -> Self:
        if self._watches:
            sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watches:
            sys.setprofile(None)

    def check(self) -> None:
        """Raise an error if a program would go on with an old answer.

        Raises:
            TraceError: with the line that asked.
        """
        if self._wrong is not None:
            raise error_at(*self._wrong)
        for iterator, before in zip(self._iterators, self._before, strict=True):
            if before is not _STILL and _position(iterator) != before:
                raise error_at(
                    self._next or user_place(),
                    f"the function takes values from a {type(iterator).__name__} outside of it, and a program would "
                    "use the same ones in each run",
                    _GIVE,
                )

    def guards(self) -> list[tuple[str, Callable[[], Any], Any]]:
        """The environment variables that were read: the text, the function that reads again, and what it gives."""
        found: list[tuple[str, Callable[[], Any], Any]] = [
            (f"os.environ[{name!r}]", partial(os.environ.get, name), os.environ.get(name))
            for name in sorted(self._names)
        ]
        if self._all_names:
            found.append(("os.environ", lambda: dict(os.environ), dict(os.environ)))
        return found

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = called.__name__
            if name in _NAMES:
                self._see_builtin(frame, name, called)
        elif event == "call":
            code = frame.f_code
            if code is _ONE_NAME or code is _ALL_NAMES:
                self._see_environment(frame)
            elif id(frame) in self._generators or (code.co_name == "__next__" and self._own):
                self._see_next(frame)

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
        elif name == "next" and self._next is None and not in_library(frame.f_code.co_filename):
            self._next = _place(frame)
        elif name == "input":
            self._refuse(frame, "asks the user with input()", "the same answer", _OUTSIDE)

    def _see_environment(self, frame: FrameType) -> None:
        if frame.f_locals.get("self") is os.environ and frame.f_back and _asking(frame.f_back) is not None:
            if frame.f_code is _ONE_NAME:
                self._names.add(frame.f_locals["key"])
            else:
                self._all_names = True

    def _see_next(self, frame: FrameType) -> None:
        if id(frame) not in self._generators:
            named = frame.f_code.co_varnames[:1]
            if not named or id(frame.f_locals.get(named[0])) not in self._own:
                return
        caller = frame.f_back
        while caller is not None and in_library(caller.f_code.co_filename):
            caller = caller.f_back
        what = f"takes the next value of the iterator {frame.f_code.co_qualname}"
        self._note(caller or frame, what, "the same one", _GIVE)

    def _refuse(self, frame: FrameType, what: str, same: str, remedy: str) -> None:
        asking = _asking(frame)
        if asking is not None:
            self._note(asking, what, same, remedy)

    def _note(self, frame: FrameType, what: str, same: str, remedy: str) -> None:
        if self._wrong is None:
            self._wrong = _place(frame), f"the function {what}, and a program would use {same} in each run", remedy


_OUTSIDE = "Do it outside of the function, and give the function what it needs as an argument"
_GIVE = "Call next(...) outside of the function, and give it the value as an argument"


def _place(frame: FrameType) -> Place:
    return Place(frame.f_code, frame.f_lasti)


_STILL: Any = object()
"""The position of an iterator whose calls are seen."""


def _asking(frame: FrameType) -> FrameType | None:
    """The user's frame that asks, maybe through modules of Python; None if a library asks for itself."""
    asking: FrameType | None = frame
    while asking is not None and asking.f_globals.get("__name__", "").partition(".")[0] in _STANDARD:
        asking = asking.f_back
    return None if asking is None or in_library(asking.f_code.co_filename) else asking


def _position(iterator: Any, depth: int = 0) -> Any:
    """Something that changes when the iterator goes on. Where nothing tells it, the position is never the same."""
    kind = type(iterator)
    if isinstance(iterator, GeneratorType) or hasattr(kind.__next__, "__code__"):
        return _STILL if depth == 0 else _UnknownPosition()
    if isinstance(iterator, io.IOBase):
        return _file_position(iterator)
    if kind.__module__ not in ("builtins", "itertools") or depth > 4:
        return _UnknownPosition()
    try:
        reduced = iterator.__reduce__()
    except Exception:  # one of the many kinds that cannot be copied
        return _UnknownPosition()
    return tuple(_position(one, depth + 1) if isinstance(one, Iterator) else _told(one) for one in reduced[1:])


def _file_position(file: Any) -> Any:
    """The place in a file; a loop over a text file switches ``tell`` off."""
    if file.closed or not file.readable():
        return _STILL
    try:
        return file.tell()
    except OSError:
        return _UnknownPosition()


def _told(given: Any) -> Any:
    if isinstance(given, tuple):
        return tuple(_position(one, 1) if isinstance(one, Iterator) else _told(one) for one in given)
    return given if isinstance(given, int | float | str) else len(given) if hasattr(given, "__len__") else 0


class _UnknownPosition:
    """The position of an iterator that does not tell it: equal to no other."""
