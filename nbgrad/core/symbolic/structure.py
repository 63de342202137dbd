"""Nested arguments: lists, tuples and dicts of values, walked and rebuilt."""

from collections.abc import Callable, Iterator
from typing import Any

import torch


def leaves(structure: Any) -> Iterator[Any]:
    """The values in nested lists, tuples, dicts and slices, from left to right."""
    if isinstance(structure, list | tuple) and not isinstance(structure, torch.Size):
        for part in structure:
            yield from leaves(part)
    elif isinstance(structure, dict):
        for part in structure.values():
            yield from leaves(part)
    elif isinstance(structure, slice):
        yield from (structure.start, structure.stop, structure.step)
    else:
        yield structure


def first_places(given: list[Any]) -> tuple[int, ...]:
    """For each value the place of the first one that is equal to it."""
    return tuple(given.index(one) for one in given)


def mapped(change: Callable[[Any], Any], structure: Any) -> Any:
    """The same structure with ``change(value)`` in place of each value."""
    if isinstance(structure, list | tuple) and not isinstance(structure, torch.Size):
        parts = [mapped(change, part) for part in structure]
        if type(structure) in (list, tuple):
            return type(structure)(parts)
        # A namedtuple takes its fields one by one, one of torch's return types a sequence.
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if isinstance(structure, dict):
        return {key: mapped(change, part) for key, part in structure.items()}
    if isinstance(structure, slice):
        return slice(change(structure.start), change(structure.stop), change(structure.step))
    return change(structure)
