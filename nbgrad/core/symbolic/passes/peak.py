"""``peak_memory``: how much memory the results of a listing take at the same time."""

from dataclasses import dataclass

from nbgrad.core.symbolic.ir import Listing, Value


@dataclass(frozen=True)
class Life:
    """The memory of one storage that the program makes.

    Attributes:
        nbytes: its size.
        first, last: the step that makes it and the last one that uses it.
    """

    nbytes: int
    first: int
    last: int


def lives(listing: Listing) -> dict[int, Life]:
    """The memory that a listing makes, by storage. What leaves the program lives until the end."""
    external = listing.external()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for position, step in enumerate(listing.steps):
        for value in step.results():
            storage = value.storage
            if storage in external:
                continue
            if storage not in first:
                first[storage] = position
                sizes[storage] = extent(value)
            last[storage] = position
        for value in (*step.inputs(), *step.writes):
            if value.storage in first:
                last[value.storage] = position
    for value in listing.kept():
        if value.storage in first:
            last[value.storage] = len(listing.steps)
    return {storage: Life(sizes[storage], first[storage], last[storage]) for storage in first}


def extent(value: Value) -> int:
    """The bytes from the first to the last element of a value."""
    if value.stride is None or not value.numel:
        return value.nbytes
    elements = 1 + sum((size - 1) * abs(stride) for size, stride in zip(value.shape, value.stride, strict=True))
    return elements * value.dtype.itemsize


def profile(listing: Listing) -> list[int]:
    """For each step the bytes that are alive while it runs: its results, and what it and later steps read."""
    changes = [0] * (len(listing.steps) + 2)
    for life in lives(listing).values():
        changes[life.first] += life.nbytes
        changes[life.last + 1] -= life.nbytes
    found, alive = list[int](), 0
    for change in changes[: len(listing.steps)]:
        alive += change
        found.append(alive)
    return found


def peak_memory(listing: Listing) -> int:
    """The most bytes of results that are alive at the same time; arguments and captured tensors are not counted."""
    return max(profile(listing), default=0)
