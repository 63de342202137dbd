"""The explanation of an error of a backward: the error carries it, so its traceback and the findings show it."""

from typing import NamedTuple

from nbgrad.core.engine.place import Place


class Explanation(NamedTuple):
    """Why a backward failed, and what to write instead.

    Attributes:
        text: the cause with its lines, and the remedy, in sentences.
        remedy: the part of the text that is code or advice; None if there is none.
        place: the line to change; None where it is not known.
    """

    text: str
    remedy: str | None
    place: Place | None


_KEY = "_nbgrad_explanation"


def explain(error: BaseException, found: Explanation, *, note: bool = True) -> None:
    """Let ``error`` carry the explanation; with ``note`` its traceback shows it. The first explanation stays."""
    if _KEY not in error.__dict__:
        error.__dict__[_KEY] = found
        if note:
            error.add_note(f"nbgrad: {found.text}")


def explanation_of(error: BaseException) -> Explanation | None:
    """The explanation that ``error`` carries; None if it has none."""
    found: Explanation | None = error.__dict__.get(_KEY)
    return found
