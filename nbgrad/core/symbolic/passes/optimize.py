"""All passes, one after the other, until none finds anything."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from nbgrad.core.no_gc import uncollected
from nbgrad.core.symbolic.passes.algebra import simplify, simplify_inexact
from nbgrad.core.symbolic.passes.broadcast import factor_out, merge_sums, sink_broadcasts, sink_broadcasts_inexact
from nbgrad.core.symbolic.passes.common import merge_common
from nbgrad.core.symbolic.passes.constants import fold_constants
from nbgrad.core.symbolic.passes.contract import contract_products
from nbgrad.core.symbolic.passes.dead_code import remove_dead_code
from nbgrad.core.symbolic.passes.functional import undo_in_place, work_in_place
from nbgrad.core.symbolic.passes.layout import channels_last
from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed
from nbgrad.core.symbolic.passes.updates import fold_updates, run_updates_early

Pass = Callable[[Any], Passed[Any]]
Level = Literal["exact", "reassociate"]

EXACT: tuple[Pass, ...] = (
    undo_in_place,
    remove_dead_code,
    merge_common,
    fold_constants,
    simplify,
    sink_broadcasts,
)
"""The passes that change no digit of any result."""

REASSOCIATE: tuple[Pass, ...] = (*EXACT, simplify_inexact, sink_broadcasts_inexact, merge_sums, factor_out)
"""The passes that may change the last digits: they sum in another order."""

LEVELS: dict[str, tuple[Pass, ...]] = {"exact": EXACT, "reassociate": REASSOCIATE}

LAST: dict[str, tuple[Pass, ...]] = {
    "exact": (work_in_place,),
    "reassociate": (contract_products, fold_updates, channels_last, run_updates_early, work_in_place),
}
"""The passes that are applied once, after all others."""

UNORDERED: tuple[Pass, ...] = (fold_updates, run_updates_early)
"""The passes after which an error in a run leaves another state than an error in the function does."""


@uncollected
def optimized(listing: L, level: str, ordered: bool = False) -> Passed[L]:
    """Apply the passes of a level up to a fixed point, and then those that come last.

    Args:
        listing: what they change.
        level: a key of ``LEVELS``.
        ordered: whether an error in a run has to leave the state that it leaves in the function.

    Raises:
        ValueError: there is no such level.
    """
    notes: list[Note] = []
    for passed in stages(listing, level, ordered):
        listing = passed.listing
        notes += passed.notes
    return Passed(listing, notes)


def stages(listing: L, level: str, ordered: bool = False) -> Iterator[Passed[L]]:
    """The result of each pass that changes something, in order: its listing, and its own notes.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"optimize(level={level!r}): the levels are {', '.join(LEVELS)}")
    for passed in applied(listing, LEVELS[level]):
        listing = passed.listing
        yield passed
    for one in LAST[level]:
        if ordered and one in UNORDERED:
            continue
        passed = one(listing)
        if passed.notes:
            listing = passed.listing.check()
            yield Passed(listing, passed.notes)


def applied(listing: L, passes: Sequence[Pass]) -> Iterator[Passed[L]]:
    """Apply the passes in order, again and again until none of them changes anything. Each result is checked."""
    quiet = 0  # how many passes in a row have found nothing
    while quiet < len(passes):
        for one in passes:
            passed = one(listing)
            quiet += 1
            if passed.notes:
                listing, quiet = passed.listing.check(), 0
                yield Passed(listing, passed.notes)
            if quiet == len(passes):
                break
