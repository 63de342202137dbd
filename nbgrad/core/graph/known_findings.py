"""``KnownFindings``: a graph that brings findings and words along, which no rule could find in its records."""

from nbgrad.core.graph.finding import Finding
from nbgrad.core.translation import message


class KnownFindings:
    """The findings that a graph brings along, beside those that rules find in it.

    Attributes:
        known: the findings.
        compared: the words on what was looked at; empty if nothing was.
        uncompared: why some of it could not be judged; empty if all was.
        unnumbered: the tensors that have shapes and no numbers, in words.
    """

    known: tuple[Finding, ...] = ()
    compared: str = ""
    uncompared: str = ""
    unnumbered: str = message("tensors on the meta device")
