"""The findings of a picture as text: one list for every rendering that runs no script."""

from typing import NamedTuple

from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.schema import BadgeKind, Description

LISTED = 30
"""At most this many findings are listed."""

GROUPED = 3
"""If the gradients of more modules than this are alike, they share a finding: they have one cause."""


class Told(NamedTuple):
    """A finding, and the node at which it is drawn, if it is."""

    kind: BadgeKind
    text: str
    node: str | None


def told(description: Description) -> list[Told]:
    """All findings of a picture: the problems, and the modules whose gradients are not sound."""
    found = [Told(one["kind"], one["text"], one["node"]) for one in description["problems"]]
    unsound = [one for one in description["verdicts"] if one["kind"] != "sound"]
    for kind in dict.fromkeys(one["kind"] for one in unsound):
        said = grouped([(one["name"], one["text"]) for one in unsound if one["kind"] == kind])
        found += [Told("warning", text, None) for text in said]
    return found


def grouped(modules: list[tuple[str, str]]) -> list[str]:
    """The texts about modules of one kind, with their names; one text for all of them if they are many."""
    if len(modules) <= GROUPED:
        return [text for _, text in modules]
    (_, first), *others = modules
    names = ", ".join(name for name, _ in others[:GROUPED])
    more = ", ..." if len(others) > GROUPED else ""
    return [
        translate(
            "{first}. So do {modules}: {names}{more}",
            first=first,
            modules=counted(len(others), "other module"),
            names=names,
            more=more,
        )
    ]


def unlisted(found: list[Told]) -> list[str]:
    """The sentence about the findings that are not listed, if there are any."""
    left = len(found) - LISTED
    return [translate("({left:,} more findings are not listed)", left=left)] if left > 0 else []
