"""Nested arguments: lists, tuples and dicts of values, walked and rebuilt."""

from collections.abc import Callable
from typing import Any

import torch

_NESTED = (list, tuple, dict, slice)


def leaves(structure: Any) -> list[Any]:
    """The values in nested lists, tuples, dicts and slices, from left to right."""
    found: list[Any] = []
    _collect(structure, found)
    return found


def _collect(structure: Any, found: list[Any]) -> None:
    kind = type(structure)  # isinstance would ask a tensor for its class, which takes longer
    if not issubclass(kind, _NESTED) or kind is torch.Size:
        found.append(structure)
    elif issubclass(kind, dict):
        for part in structure.values():
            _collect(part, found)
    elif kind is slice:
        found += (structure.start, structure.stop, structure.step)
    else:
        for part in structure:
            if issubclass(type(part), _NESTED):
                _collect(part, found)
            else:  # most parts: a call for each would take longer than all else
                found.append(part)


def of_kind(kind: type, structure: Any) -> list[Any]:
    """The values of class ``kind`` among the ``leaves``."""
    return [one for one in leaves(structure) if isinstance(one, kind)]


def first_places(given: list[Any]) -> tuple[int, ...]:
    """For each value the place of the first one that is equal to it."""
    return tuple(given.index(one) for one in given)


def mapped(change: Callable[[Any], Any], structure: Any) -> Any:
    """The same structure with ``change(value)`` in place of each value."""
    kind = type(structure)
    if not issubclass(kind, _NESTED) or kind is torch.Size:
        return change(structure)
    if kind is tuple or kind is list:
        return kind([mapped(change, one) if issubclass(type(one), _NESTED) else change(one) for one in structure])
    if issubclass(kind, dict):
        return {key: mapped(change, part) for key, part in structure.items()} if structure else {}
    if kind is slice:
        return slice(change(structure.start), change(structure.stop), change(structure.step))
    parts = [mapped(change, part) for part in structure]
    # A namedtuple takes its fields one by one, one of torch's return types a sequence.
    return kind(*parts) if hasattr(structure, "_fields") else kind(parts)


def exchanged(kind: type, change: Callable[[Any], Any], structure: Any) -> Any:
    """The same structure with ``change(value)`` in place of each value of class ``kind``."""
    return mapped(lambda one: change(one) if isinstance(one, kind) else one, structure)
