"""Division of a listing in two: the second takes what the first gives."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from nbgrad.core.symbolic.ir import Listing, ProgramStep


@dataclass(frozen=True)
class Division:
    """A listing in two parts.

    Attributes:
        first: the steps that fit and that wait for no step of the second part; its outputs are the values that are
            needed after it.
        second: the other steps; its inputs are those of the whole, then the outputs of the first. None where the first
            part is the whole and gives its results in order.
    """

    first: Listing
    second: Listing | None


def divided(listing: Listing, fits: Callable[[ProgramStep], bool]) -> Division:
    """Divide a listing: a step that does not fit goes to the second part, and so does each that has to run after it.

    The order of the steps of a part stays. The first part may be empty.
    """
    first, second = list[ProgramStep](), list[ProgramStep]()
    read, written = set[int](), set[int]()
    random = False
    for step in listing.steps:
        reads, writes = {value.storage for value in step.inputs()}, {value.storage for value in step.writes}
        touched = bool(reads & written or writes & (read | written))
        if fits(step) and not touched and not (random and step.random):
            first.append(step)
            continue
        second.append(step)
        read |= reads
        written |= writes | {value.storage for value in step.results()}
        random |= step.random
    made = {id(value) for step in first for value in step.results()}
    wanted = {id(value): value for step in second for value in (*step.inputs(), *step.writes)}
    wanted |= {id(value): value for value in listing.leaving()}
    handed = [value for key, value in wanted.items() if key in made]
    head = replace(listing, steps=first, outputs=handed, gradients=[])
    if not second and [id(value) for value in listing.leaving()] == [id(value) for value in handed]:
        return Division(head, None)
    return Division(head, replace(listing, inputs=[*listing.inputs, *handed], steps=second))
