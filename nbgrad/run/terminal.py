"""One line on a terminal that says how a program goes, and makes way for what the program prints."""

import shutil
import sys
from contextlib import suppress
from time import perf_counter
from typing import Any, TextIO

_EVERY = 0.25
"""The least seconds between two lines."""


class StatusLine:
    """A line at the lower end of a terminal. It is erased before the program writes, and shown again later.

    While the program stands in the middle of a line of its own, as a bar or a question does, it is not shown.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = perf_counter() + _EVERY
        self._shown = self._mid = False
        self._wrapped: list[tuple[Any, Any]] = []
        for one in {id(one): one for one in (sys.stdout, sys.stderr) if _is_terminal(one)}.values():
            self._wrap(one)

    @classmethod
    def of(cls, stream: TextIO) -> "StatusLine | None":
        """A line on ``stream``, if that is a terminal."""
        return cls(stream) if _is_terminal(stream) else None

    def _wrap(self, stream: Any) -> None:
        """Have the line erased before something else is written to ``stream``."""
        write = stream.write

        def erasing(text: str) -> int:
            self.erase()
            if text:
                self._mid = not text.endswith(("\n", "\r"))
            written: int = write(text)
            return written

        with suppress(AttributeError):  # a stream of the program's own, which takes no other method
            stream.write = erasing
            self._wrapped.append((stream, write))

    def is_due(self) -> bool:
        """Whether it is time for another line."""
        return perf_counter() >= self._next and not self._mid

    def show(self, text: str) -> None:
        """Show ``text`` in place of the last line."""
        self._next = perf_counter() + _EVERY
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[2K{text[:width]}")
        self._shown = True

    def erase(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = False
            self._write("\r\x1b[2K")

    def close(self) -> None:
        """Take the line away for good, and end a line of the program's that is open: what follows is no part of it."""
        self.erase()
        if self._mid:
            self._mid = False
            with suppress(Exception):  # the program may have closed it, or have put anything there
                sys.stdout.flush()
            self._write("\n")
        self._next = float("inf")
        for stream, _ in self._wrapped:
            with suppress(AttributeError):  # the program has taken it away, and put its own there
                del stream.write
        self._wrapped = []

    def _write(self, text: str) -> None:
        write = next((write for stream, write in self._wrapped if stream is self._stream), self._stream.write)
        with suppress(OSError, ValueError):  # the terminal is gone, or the program has closed it
            write(text)
            self._stream.flush()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
