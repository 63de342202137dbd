"""Errors of nbgrad's own while the user's program runs: a graph remembers the first, and the program does not see it.

Code of ours that runs between the calls of the user's program catches ``Exception``, and asks ``taken`` whether the
program may go on. Two kinds of errors still reach the program: those that nbgrad raises on purpose, and those that no
graph remembers.
"""

from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple

from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.place import Place, line_of

RAISES = "NBGRAD_STRICT"
"""The environment variable with which errors in rules and overlays are raised: in tests they have to fail the test."""

_FOLDER = Path(__file__).parents[2]


def line_of_error(error: BaseException, *, users: bool) -> str:
    """The innermost line that ``error`` passed in nbgrad, or outside of it if it is the ``users``; empty for none."""
    lines = [(Path(one.filename), one.lineno or 1) for one in extract_tb(error.__traceback__)]
    found = next((one for one in reversed(lines) if (_FOLDER in one[0].parents) != users), None)
    return "" if found is None else line_of(str(found[0]), found[1]).replace(str(_FOLDER), _FOLDER.name)


class Refusal:
    """A base of the errors that nbgrad raises on purpose, because the user has asked for it."""

    __slots__ = ()


class Fault(NamedTuple):
    """An error of nbgrad's own. It does not hold the error, whose traceback would keep every variable alive.

    Attributes:
        error: its class and its message.
        doing: what nbgrad was recording.
        place: the user's line that ran, if it is known.
    """

    error: str
    doing: str
    place: Place | None

    @classmethod
    def of(cls, error: BaseException, doing: str) -> "Fault":
        """The facts of ``error``; even if they cannot be found out."""
        text, place = "", None
        with suppress(Exception):
            place = user_place()
        with suppress(Exception):
            text = " ".join(str(error).split())
        text = f"{text[:_LONG]} ..." if len(text) > _LONG else text
        return cls(f"{type(error).__name__}: {text}" if text else type(error).__name__, doing, place)

    @property
    def too_deep(self) -> bool:
        """Whether the calls of the program were nested as deeply as Python allows: no defect of nbgrad's."""
        return self.error.startswith(RecursionError.__name__)

    def __str__(self) -> str:
        at = "" if self.place is None else f" at {self.place}"
        if self.too_deep:
            return (
                f"nbgrad could not record {self.doing}{at}, so a part of the graph is missing: the calls were nested "
                "as deeply as Python allows. sys.setrecursionlimit() allows more"
            )
        return (
            f"nbgrad could not record {self.doing}{at} ({self.error}), so a part of the graph is missing. Your program "
            "was not affected. This is a defect of nbgrad: please report it"
        )


_LONG = 200
"""A message has at most this many letters of the error."""


def taken(observers: tuple[Observer, ...], error: Exception, doing: str) -> bool:
    """Whether the user's program may go on after ``error``, because a graph among ``observers`` remembers it."""
    if isinstance(error, Refusal):
        return False
    found = False
    for observer in observers:
        found = observer.on_fault(error, doing) or found
    return found
