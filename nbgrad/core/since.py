"""What became of the leaves after the last backward: other values, and a ``.grad`` that holds more than it brought.

An optimizer's step follows most backwards, and a ``.grad`` that nobody has set to zero is a sum of several: a picture
of the backward that shows a leaf as it is now has to say so.
"""

from collections.abc import Iterable
from math import isclose, isnan
from typing import NamedTuple

from nbgrad.core.changes import Changes
from nbgrad.core.record import Record
from nbgrad.core.stats import SMALL, Stats, countable, norms, summarise
from nbgrad.core.tensor import Tensor

_ALIKE = 1e-4
"""Norms that differ by no more than this part are those of one gradient, summed in another order."""


class Since(NamedTuple):
    """What became of a leaf.

    Attributes:
        what: an optimizer's step or an in-place op that has changed its values; None if nothing seen has.
        place: the line of that, in words.
        grad: its ``.grad``, where that is not what the last backward brought: the sum of several, or clipped.
    """

    what: str | None
    place: str | None
    grad: Stats | None


def since(records: Iterable[Record], changes: Changes) -> dict[int, Since]:
    """For each of the leaves among ``records`` to which something happened, by id, what."""
    found: dict[int, Since] = {}
    for record in records:
        tensor = None if record.leaf is None else record.leaf()
        if tensor is None:
            continue
        change = changes.since_backward(tensor.data)
        grad = _other(tensor.grad, record.gradient)
        if change is not None or grad is not None:
            what, place = (None, None) if change is None else (change[0], str(change[1]))
            found[record.id] = Since(what, place, grad)
    return found


def _other(grad: Tensor | None, gradient: Stats | None) -> Stats | None:
    """The statistics of a ``.grad`` whose norm is not that of ``gradient``."""
    if grad is None or gradient is None or not countable(grad.data):
        return None
    norm = norms({0: grad.data})[0].item() if grad.data.numel() else 0.0
    if isclose(norm, gradient.norm, rel_tol=_ALIKE) or (isnan(norm) and isnan(gradient.norm)):
        return None
    return summarise(grad.data) if grad.data.numel() <= SMALL else Stats(tuple(grad.data.shape), norm)
