"""The overlays that were added with ``nbgrad.extend.overlay``."""

import os
from collections import defaultdict
from typing import NamedTuple

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.faults import RAISES, Fault, line_of_error
from nbgrad.core.engine.state import Switch
from nbgrad.core.graph.plugins import COLOUR, OVERLAY_KINDS, OverlayKind
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.overlays import Levels, classes, linear, scaled
from nbgrad.widgets.description.schema import Detail, Overlay

KIND = "kind"
"""The keys of these overlays begin with this."""


class AddedOverlays(NamedTuple):
    """The overlays of one graph.

    Attributes:
        overlays: those that say something about it.
        levels: of each record, by id.
        details: lines for the inspector, by the id of the record.
        notes: a sentence about each that failed.
    """

    overlays: list[Overlay]
    levels: Levels
    details: dict[int, list[Detail]]
    notes: list[str]

    @classmethod
    @muted
    def of(cls, records: list[Record]) -> "AddedOverlays":
        """Ask all overlays that are there now about ``records``."""
        made = cls([], defaultdict(dict), defaultdict(list), [])
        with Switch(observers=()):  # what a function computes is no part of the graph
            for place, kind in enumerate(tuple(OVERLAY_KINDS.values())):
                try:
                    made._add(f"{KIND}{place}", kind, records)
                except Exception as error:
                    if os.environ.get(RAISES):
                        raise
                    at = line_of_error(error, users=True)
                    made.notes.append(
                        translate(
                            "The overlay {name!r} failed, so the picture does not have it: {error}{more}.",
                            name=kind.name,
                            error=Fault.of(error, kind.name).error,
                            more=translate(", at {at}", at=at) if at else "",
                        )
                    )
        return made

    def _add(self, key: str, kind: OverlayKind, records: list[Record]) -> None:
        """Add an overlay, unless its function fails, or has nothing to say."""
        values = {record.id: value for record in records if (value := kind(record)) is not None}
        labels = {id: value for id, value in values.items() if isinstance(value, str)}
        numbers = {id: value for id, value in values.items() if not isinstance(value, str)}
        if labels and numbers:
            raise TypeError("it gave numbers for some records and texts for others")
        label = kind.name + " (log)" * kind.log * bool(numbers)
        if numbers:
            found = (scaled if kind.log else linear)(key, label, numbers, number, self.levels)
        else:
            found = classes(key, label, labels, self.levels)
            if found is not None and any(colours := [_colour(kind, name) for name in found["classes"]]):
                found["colours"] = colours
        if found is not None:
            self.overlays.append(found)
        for id, value in values.items():
            text = value if isinstance(value, str) else number(value)
            self.details[id].append(Detail(term=kind.name, text=text))


def _colour(kind: OverlayKind, label: str) -> str:
    """The colour of a label; empty for one of the six that all overlays have."""
    return kind.colours.get(label, label if COLOUR.fullmatch(label) else "")
