"""Calls of nbgrad beside a program: no error of theirs ends it, and their paths are those of the command."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nbgrad.run.terminal import StatusLine


def guarded(do: Callable[[], object], line: StatusLine | None) -> None:
    """Call ``do``. Where that fails, say so below ``line``: the program has to go on, and to keep its exit status."""
    try:
        do()
    except Exception as error:
        if line is not None:
            line.close()
        with suppress(Exception):
            sys.stderr.write(f"nbgrad: {type(error).__name__}: {error}. This is a defect of nbgrad, please report it\n")


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """In ``folder``, if it still exists: the program may have changed to another one, and names are relative to it."""
    try:
        before: str | None = os.getcwd()  # noqa: PTH109  # to be entered again, not to be looked at
    except OSError:  # it was removed
        before = None
    with suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                os.chdir(before)
