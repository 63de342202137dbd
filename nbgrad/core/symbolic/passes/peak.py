"""``peak_memory``: how much memory the results of a listing take at the same time."""

from nbgrad.core.symbolic.ir import Listing, Value


def peak_memory(listing: Listing) -> int:
    """The most bytes of results that are alive at the same time; arguments and captured tensors are not counted.

    Memory is alive from the step that makes it to the last one that uses it. What leaves the program lives on.
    """
    external = listing.external()
    sizes: dict[int, int] = {}
    last: dict[int, int] = {}
    begins: list[list[int]] = []
    for position, step in enumerate(listing.steps):
        made = {value.storage: extent(value) for value in reversed(step.results()) if value.storage not in external}
        begins.append([storage for storage in made if storage not in sizes])
        sizes = made | sizes
        used = [value.storage for value in (*step.inputs(), *step.writes) if value.storage in sizes]
        last |= dict.fromkeys([*made, *used], position)
    last |= {value.storage: len(listing.steps) for value in listing.kept() if value.storage in sizes}
    ends = [0] * (len(listing.steps) + 1)
    for storage, position in last.items():
        ends[position] += sizes[storage]
    alive = peak = 0
    for position, begun in enumerate(begins):
        alive += sum(map(sizes.__getitem__, begun))
        peak = max(peak, alive)
        alive -= ends[position]
    return peak


def extent(value: Value) -> int:
    """The bytes from the first to the last element of a value."""
    if value.stride is None or not value.numel:
        return value.nbytes
    elements = 1 + sum((size - 1) * abs(stride) for size, stride in zip(value.shape, value.stride, strict=True))
    return elements * value.dtype.itemsize
