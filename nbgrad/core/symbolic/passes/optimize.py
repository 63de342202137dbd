"""All passes, one after the other, until none finds anything."""

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.core.symbolic.passes.common import merge_common
from nbgrad.core.symbolic.passes.dead_code import remove_dead_code
from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed

Pass = Callable[[Any], Passed[Any]]

EXACT: tuple[Pass, ...] = (remove_dead_code, merge_common)
"""The passes that change no digit of any result."""


def apply(listing: L, passes: Sequence[Pass]) -> Passed[L]:
    """Apply the passes in order, again and again until none of them changes anything. Each result is checked."""
    notes: list[Note] = []
    while True:
        found: list[Note] = []
        for one in passes:
            passed = one(listing)
            if passed.notes:
                listing = passed.listing.check()
                found += passed.notes
        if not found:
            return Passed(listing, notes)
        notes += found
