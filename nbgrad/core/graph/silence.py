"""Findings that the user knows better about: kinds that are silenced in a graph, and one finding at one line."""

import re
from collections.abc import Iterable

from nbgrad.choices import KINDS, UNSILENCED, kinds_in
from nbgrad.core.engine.place import Place
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.suggestions import nearest
from nbgrad.core.translation import translate

_COMMENT = re.compile(r"#\s*nbgrad:\s*ignore\b\s*(?:\[([^\]]*)\])?")
"""The comment of a line: ``# nbgrad: ignore[no activation, frozen]``."""

OWN_KINDS: set[str] = set()
"""The kinds of the rules that were added from outside."""


def silenced_kinds(given: "str | Iterable[str] | None") -> frozenset[str]:
    """The kinds that ``given`` stands for: "vanishing, no activation" or a list; "no-activation" is the same kind.

    Raises:
        ValueError: there is no such kind, or it is that of an error; the message has all kinds.
    """
    return frozenset([_known(kind) for kind in kinds_in(given)])


def _known(kind: str) -> str:
    known = [one for one in (*KINDS, *sorted(OWN_KINDS)) if one not in UNSILENCED]
    if kind in UNSILENCED:
        raise ValueError(f"findings of the kind {kind!r} cannot be silenced: they tell of an error of the program")
    if kind not in known:
        meant = nearest(kind, known) or "."
        raise ValueError(f"there is no kind of findings {kind!r}{meant} Kinds: {', '.join(known)}")
    return kind


def silenced_at(place: Place | None) -> tuple[frozenset[str], str | None]:
    """The kinds that a comment on the lines of ``place`` silences; and what is wrong with the comment, if it is."""
    found = None if place is None else next(filter(None, map(_COMMENT.search, place.lines)), None)
    if found is None or place is None:
        return frozenset(), None
    try:
        if found[1] is None:
            raise ValueError("it has to name kinds, as in # nbgrad: ignore[no activation]")
        return silenced_kinds(found[1]), None
    except ValueError as error:
        return frozenset(), translate(
            "The comment at {place} silences nothing: {error}", place=place_text(place), error=error
        )


class Silence:
    """The findings that are silenced: those of some kinds, and those at lines whose comment says so.

    Args:
        kinds: the kinds that are silenced everywhere in a graph.

    Attributes:
        silenced: the findings that were silenced so far.
        mistakes: a sentence about each comment that cannot be read.
    """

    def __init__(self, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self.silenced: list[Finding] = []
        self.mistakes: list[str] = []

    def takes(self, finding: Finding) -> bool:
        """Whether ``finding`` is silenced."""
        if finding.kind in UNSILENCED:
            return False
        here, mistake = silenced_at(finding.place)
        if mistake is not None and mistake not in self.mistakes:
            self.mistakes.append(mistake)
        taken = finding.kind in self._kinds or finding.kind in here
        if taken:
            self.silenced.append(finding)
        return taken
