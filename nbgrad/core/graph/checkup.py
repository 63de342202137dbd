"""``Checkup``: what was checked in a graph, on how much, and what came of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from nbgrad.core.graph.finding import Finding
from nbgrad.core.translation import message, translate, translate_count

CheckName = Literal[
    "errors",
    "finite numbers",
    "paths of gradients",
    "sizes of gradients",
    "activations",
    "optimizers",
    "registered modules",
    "order of calls",
    "steps",
    "progress of the loss",
    "losses and targets",
    "input data",
    "layers",
    "modes and freezing",
    "memory",
    "numbers through numpy",
    "broadcasts",
    "rules",
]
"""The names of nbgrad's own checks."""

CHECK_NAMES: tuple[CheckName, ...] = get_args(CheckName)

NOT_JUDGED = message("not judged")
_FOUND, _SILENCED = message("found"), message("silenced")

_SIGNS = {"sound": "✓", "found": "!", "not judged": "-"}
"""The sign of each state, where a checkup is text."""


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of check, and what came of it in one graph.

    Attributes:
        name: of the check.
        kinds: the kinds of findings that it may make.
        looked: what it looked at, with numbers of the graph; empty if there was nothing to look at.
        missing: why it, or a part of it, could not be judged; empty if nothing is missing.
        findings: what it found.
        silenced: what it found and the user has silenced.
    """

    name: str
    kinds: tuple[str, ...]
    looked: str = ""
    missing: str = ""
    findings: tuple[Finding, ...] = ()
    silenced: tuple[Finding, ...] = ()

    @property
    def state(self) -> Literal["sound", "found", "not judged"]:
        """Whether it found something, looked and found nothing, or had nothing to look at."""
        return "found" if self.findings else "sound" if self.looked else "not judged"

    def __str__(self) -> str:
        parts = [_many(self.findings, _FOUND), self.looked, "" if self.looked else translate(NOT_JUDGED), self.missing]
        return f"{translate(self.name)}: {'; '.join(filter(None, [*parts, _many(self.silenced, _SILENCED)]))}"


def _many(findings: tuple[Finding, ...], what: str) -> str:
    """How many there are, and of which kinds: 2 found (frozen, sign)."""
    kinds = ", ".join(dict.fromkeys(one.kind for one in findings))
    return f"{len(findings)} {translate(what)} ({kinds})" if findings else ""


class Checkup:
    """All checks of a graph. ``print`` shows each on a line; ``checkup["losses"]`` is the check of that name.

    Args:
        checks: in the order in which they are told.
        notes: sentences about the checkup itself, such as a comment that silences nothing.
    """

    def __init__(self, checks: tuple[Check, ...], notes: tuple[str, ...] = ()) -> None:
        self.checks = checks
        self.notes = notes

    @property
    def findings(self) -> list[Finding]:
        """The findings of all checks, by check."""
        return [found for one in self.checks for found in one.findings]

    @property
    def silenced(self) -> list[Finding]:
        """The findings that the user has silenced, by check."""
        return [found for one in self.checks for found in one.silenced]

    @property
    def summary(self) -> str:
        """How many checks found something, are sound or could not be judged, in one line."""
        states = [one.state for one in self.checks]
        found = translate_count(len(self.findings), "{count} finding", "{count} findings")
        return translate(
            "{found}; of {count} checks {sound} are sound, and {open} could not be judged",
            found=found,
            count=len(states),
            sound=states.count("sound"),
            open=states.count("not judged"),
        )

    @property
    def lines(self) -> list[str]:
        """The sound checks with what they looked at, then the names of those not judged, then the silenced findings."""
        unjudged = ", ".join(translate(one.name) for one in self.checks if one.state == "not judged")
        silenced = _many(tuple(self.silenced), _SILENCED)
        sound = [f"{translate(one.name)}: {one.looked}" for one in self.checks if one.state == "sound"]
        rest = [translate("not judged: {unjudged}; graph.checkup() says why", unjudged=unjudged)] if unjudged else []
        return [*sound, *rest, *([silenced] if silenced else [])]

    def __len__(self) -> int:
        return len(self.checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __getitem__(self, name: str) -> Check:
        for one in self.checks:
            if one.name == name:
                return one
        raise KeyError(f"there is no check {name!r}, only {', '.join(one.name for one in self.checks)}")

    def __repr__(self) -> str:
        rows = [f"{_SIGNS[one.state]} {one}" for one in self.checks]
        return "\n".join([self.summary, *rows, *(translate("Note: {note}", note=note) for note in self.notes)])
