"""A program in sentences: its size, the values for the gradient, the work of the passes, the changes by a run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.lines import ProgramLine, lines_of
from nbgrad.core.symbolic.outline import count_of
from nbgrad.core.symbolic.passes.common import merge_common
from nbgrad.core.symbolic.passes.rewrite import Note

_SHOWN = 6
"""How many things a sentence names."""


def explanation(listing: Listing, notes: Sequence[Note]) -> str:
    """The sentences, one a line.

    Args:
        listing: a program.
        notes: what passes have done to it.
    """
    lines = lines_of(listing, "ops")
    parts = [
        _size(listing, lines),
        *_needs(lines),
        *_passes(notes),
        *_repeated(listing, lines),
        *_random(listing),
        *_changes(listing),
        *_gradients(listing),
    ]
    return "\n".join(parts)


def _size(listing: Listing, lines: list[ProgramLine]) -> str:
    counts = Counter(phase_of for line in lines for phase_of in [line.phase] * len(line.steps))
    rows = [line for line in lines if line.row is not None]
    phases = ", ".join(f"{counts[phase]} {phase}" for phase in ("forward", "backward", "update") if counts[phase])
    inside = sum(len(line.steps) for line in rows)
    takes = f"{count_of(len(listing.inputs), 'input')} and {count_of(len(listing.captured), 'captured tensor')}"
    return (
        f"{listing.name} takes {takes}. "
        f"It has {count_of(len(listing), 'step')}: {phases or 'none'}. "
        f"{count_of(len(rows), 'call')} of rows of the op table {'makes' if len(rows) == 1 else 'make'} {inside} of "
        "the steps."
    )


def _needs(lines: list[ProgramLine]) -> Iterator[str]:
    """The values of the forward that the backward reads."""
    made: dict[int, Value] = {}
    read: dict[int, Value] = {}
    for line in lines:
        for step in line.steps:
            if line.phase == "forward":
                made |= {id(value): value for value in step.results()}
            elif line.phase == "backward":
                read |= {id(value): value for value in step.inputs()}
    saved = [value for key, value in made.items() if key in read]
    if not any(line.phase == "backward" for line in lines):
        return
    if not saved:
        yield "The backward needs no value of the forward but the inputs and the captured tensors."
        return
    nbytes = sum({value.storage: value.nbytes for value in saved}.values())
    yield (
        f"The backward needs {count_of(len(saved), 'value')} of the forward, {_size_of(nbytes)}: "
        f"{_named([f'{value!r} {list(value.shape)}' for value in saved])}."
    )


def _passes(notes: Sequence[Note]) -> Iterator[str]:
    if not notes:
        return
    rules = Counter(note.rule for note in notes)
    nodes, nbytes = sum(note.nodes for note in notes), sum(note.nbytes for note in notes)
    yield (
        f"Passes have left out {count_of(nodes, 'step')} and {_size_of(nbytes)} of results: "
        f"{', '.join(f'{count} by {rule}' for rule, count in rules.items())}."
    )
    yield from (f"  {note}" for note in notes[:_SHOWN])
    if len(notes) > _SHOWN:
        yield f"  ... and {len(notes) - _SHOWN} more: program.notes has all, in order"


def _repeated(listing: Listing, lines: list[ProgramLine]) -> Iterator[str]:
    """The steps that are computed more than once, and the values of the forward that the backward computes anew."""
    again = merge_common(listing).notes
    if again:
        named = _named([f"{note.before} is {note.after}" for note in again], ";")
        yield (
            f"{count_of(len(again), 'step')} {'computes' if len(again) == 1 else 'compute'} the result of an earlier "
            f"step again: {named}. optimize() removes {'it' if len(again) == 1 else 'them'}."
        )
    readers = Counter(id(value) for step in listing.steps for value in {id(one): one for one in step.inputs()}.values())
    reused = [value for line in lines for value in line.results() if readers[id(value)] > 2]
    if reused:
        named = _named([f"{value!r} ({readers[id(value)]} steps)" for value in reused])
        yield f"More than two steps read {'this result' if len(reused) == 1 else 'each of these results'}: {named}."


def _random(listing: Listing) -> Iterator[str]:
    random = [step for step in listing.steps if step.random]
    if random:
        yield (
            f"{count_of(len(random), 'step')} {'draws' if len(random) == 1 else 'draw'} random numbers "
            f"({_named(dict.fromkeys(step.name for step in random))}): each run draws anew, in this order, and no pass "
            "merges or drops them."
        )


def _changes(listing: Listing) -> Iterator[str]:
    writing = [step for step in listing.steps if step.writes]
    if not writing:
        return
    outer = listing.external()
    outside = {id(value): value for step in writing for value in step.writes if value.storage in outer}
    inside = [step for step in writing if not any(value.storage in outer for value in step.writes)]
    if inside:
        yield (
            f"{count_of(len(inside), 'step')} {'changes' if len(inside) == 1 else 'change'} a result in place "
            f"({_named(_names(inside))})."
        )
    if outside:
        yield f"A run changes {count_of(len(outside), 'captured tensor')}: {_named(map(repr, outside.values()))}."


def _gradients(listing: Listing) -> Iterator[str]:
    kept = [value for _, value in listing.gradients if value is not None]
    if kept:
        yield (
            f"A run sets .grad of {count_of(len(kept), 'tensor')} as the function does ({_named(map(repr, kept))}). So "
            "these gradients leave the program, and no pass drops them or uses their memory for something else. To "
            "free them, call zero_grad() after the step as well."
        )


def _names(steps: Iterable[ProgramStep]) -> list[str]:
    return [f"{step.name} of {', '.join(map(repr, step.writes))}" for step in steps]


def _named(texts: Iterable[str], between: str = ",") -> str:
    """Some texts in a row, and how many more there are."""
    every = list(texts)
    more = [f"and {len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return f"{between} ".join([*every[:_SHOWN], *more])


def _size_of(nbytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return count_of(nbytes, "byte")
