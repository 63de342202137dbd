"""Division of a listing: its first steps as one listing, the others as another that takes what the first gives."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from nbgrad.core.symbolic.ir import Listing, ProgramStep


@dataclass(frozen=True)
class Division:
    """A listing in two parts.

    Attributes:
        first: the steps up to one that does not fit; its outputs are the values that are needed after it.
        second: the other steps; its inputs are those of the whole, then the outputs of the first. None where the first
            part is the whole and gives its results in order.
    """

    first: Listing
    second: Listing | None


def divided(listing: Listing, fits: Callable[[ProgramStep], bool]) -> Division:
    """Divide a listing before the first step that does not fit. The first part may be empty."""
    count = next((place for place, step in enumerate(listing.steps) if not fits(step)), len(listing.steps))
    first, second = listing.steps[:count], listing.steps[count:]
    made = {id(value) for step in first for value in step.results()}
    wanted = {id(value): value for step in second for value in (*step.inputs(), *step.writes)}
    wanted |= {id(value): value for value in listing.leaving()}
    handed = [value for key, value in wanted.items() if key in made]
    head = replace(listing, steps=first, outputs=handed, gradients=[])
    if not second and [id(value) for value in listing.leaving()] == [id(value) for value in handed]:
        return Division(head, None)
    return Division(head, replace(listing, inputs=[*listing.inputs, *handed], steps=second))
