"""What became of the leaves after the last backward: other values, and a ``.grad`` that holds more than it brought.

An optimizer's step follows most backwards, and a ``.grad`` that nobody has set to zero is a sum of several: a picture
of the backward that shows a leaf as it is now has to say so.
"""

from collections.abc import Iterable
from math import isclose, isnan
from typing import NamedTuple

import torch

from nbgrad.core.changes import Changes
from nbgrad.core.record import Record
from nbgrad.core.stats import SMALL, Stats, countable, norms, read, summarise

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

    @property
    def stepped(self) -> bool:
        """Whether an optimizer's step has changed its values."""
        return self.what is not None and self.what.endswith(".step()")


def since(records: Iterable[Record], changes: Changes) -> dict[int, Since]:
    """For each of the leaves among ``records`` to which something happened, by id, what."""
    leaves = [(one, tensor) for one in records if one.leaf is not None and (tensor := one.leaf()) is not None]
    # One without a gradient may be no leaf any more: a buffer that values with a history were written into.
    grads = {one.id: tensor.grad for one, tensor in leaves if one.gradient is not None}
    held = {id: grad.data for id, grad in grads.items() if grad is not None and countable(grad.data)}
    sizes = read(norms(held))
    found: dict[int, Since] = {}
    for record, tensor in leaves:
        change = changes.since_backward(tensor.data)
        grad = _other(held.get(record.id), sizes.get(record.id, 0.0), record.gradient)
        if change is not None or grad is not None:
            what, place = (None, None) if change is None else (change[0], str(change[1]))
            found[record.id] = Since(what, place, grad)
    return found


def _other(grad: torch.Tensor | None, norm: float, gradient: Stats | None) -> Stats | None:
    """The statistics of a ``.grad`` whose ``norm`` is not that of ``gradient``."""
    if grad is None or gradient is None:
        return None
    if isclose(norm, gradient.norm, rel_tol=_ALIKE) or (isnan(norm) and isnan(gradient.norm)):
        return None
    return summarise(grad) if grad.numel() <= SMALL else Stats(tuple(grad.shape), norm)
