"""The answer of ``nbgrad compare``: the text of a comparison, and the exit status."""

from os import PathLike
from typing import NamedTuple

from nbgrad.core.graph.comparison import Comparison, Recorded

EQUAL, DIFFERENT = 0, 1
"""The exit status: as those of ``diff``, so that a script can ask for it."""


class ComparisonReport(NamedTuple):
    """The text of a comparison, and the exit status: 0 if all numbers agree, 1 if something differs."""

    text: str
    status: int


def report(
    left: Recorded,
    right: Recorded,
    names: tuple[str, str] | None = None,
    *,
    rtol: float | None = None,
    save: str | PathLike[str] | None = None,
) -> ComparisonReport:
    """Compare two graphs, such as ``nbgrad.load`` reads them.

    Args:
        left: the reference.
        right: the other graph.
        names: what they are called in the text; default: their own names.
        rtol: as of ``nbgrad.compare``.
        save: a file for the picture of both.

    Raises:
        TypeError, ValueError: as of ``nbgrad.compare``.
        ModuleNotFoundError, RuntimeError, OSError: the picture cannot be drawn or written.
    """
    found = Comparison(left, right, names, rtol=rtol)
    if save is not None:
        found.save(save)
    return ComparisonReport(str(found), EQUAL if found.equal else DIFFERENT)
