"""The losses of all backwards of a graph, also of those that were not recorded."""

from array import array
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.call_site import CallSites
from nbgrad.core.engine.place import Place

_READ = 64
"""So many losses on a GPU are copied to the memory of the CPU at once, and read when they have arrived."""

_KNOWN = 16
"""After this many losses of a line, the next one can be a leap."""

_LEAPS = 8
"""A loss leaps if it lies above the mean by this many times the mean distance of the losses before it."""

_LINES = 16
"""The losses of at most this many lines are told apart."""

_NONE = 1 << 15
"""Is added to the number of the line of a backward that began from no single real number."""


class BackwardLoss(NamedTuple):
    """The loss of one backward.

    Attributes:
        number: of the backward, from 1.
        value: the number it began from; None if it was no single real number.
        place: the user's line that called it; where several losses come from one such line, that of the package.
    """

    number: int
    value: float | None
    place: Place


class _Level:
    """How high the losses of a line are lately, and how far they are from that."""

    __slots__ = ("around", "bad", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.around = 0.0
        self.bad = False

    def bound(self) -> float:
        """The next loss does not leap if it is not above this."""
        return self.mean + max(_LEAPS * self.around, abs(self.mean) / 2) if self.count >= _KNOWN else torch.inf

    def leaps(self, value: float) -> bool:
        """Whether ``value`` is far above the losses before it, or the first that is not finite."""
        if not -torch.inf < value < torch.inf:
            first, self.bad = not self.bad, True
            return first
        far = value - self.mean
        found = self.count >= _KNOWN and far > _LEAPS * self.around and far > abs(self.mean) / 2
        self.count += 1
        share = max(1 / self.count, 1 / 32)
        self.around += share * (abs(far) - self.around) if self.count > 1 else 0.0
        self.mean += share * far
        return found


class LossRecorder:
    """Collects the losses as numbers: eight bytes each, and two for the line.

    A loss on a GPU is copied later, many at once, and the program does not wait for it.
    """

    def __init__(self) -> None:
        self._values = array("d")
        self._lines = array("H")
        self._places: list[Place] = []
        self._sites = CallSites()
        self._inner: dict[tuple[int, int], list[tuple[int, Place]]] = {}  # by the user's line, those that it leads to
        self._levels: list[_Level] = []
        self._far: list[tuple[int, torch.Tensor]] = []
        self._copies: list[tuple[list[int], torch.Tensor, Any]] = []

    def note(self, value: float | torch.Tensor | None, at: tuple[Place, Place]) -> bool:
        """A backward has ended that was called ``at`` a line for the user's own one, as ``places()`` gives them.

        ``value`` is the number it began from, as ``number_in`` gives it. Return whether a loss leaps, as far as that is
        known by now.
        """
        line = min(self._sites.number(at), _LINES - 1)
        if line == len(self._places):
            self._add(*at)
        self._lines.append(line if value is not None else line + _NONE)
        self._values.append(value if isinstance(value, float) else torch.nan)
        if isinstance(value, float):
            level = self._levels[line]
            return level.leaps(value)
        if value is None:
            return False
        self._far.append((len(self._values) - 1, value))
        return self._copied() if len(self._far) >= _READ else False

    def bound(self) -> float:
        """No loss that is not above this leaps, of whichever line it is."""
        return max([level.bound() for level in self._levels], default=torch.inf)

    def _add(self, place: Place, own: Place) -> None:
        """Make a line known."""
        self._levels.append(_Level())
        alike = self._inner.setdefault(own.instruction, [])
        alike.append((len(self._places), place))
        self._places.append(own)
        if len(alike) > 1:
            for other, inner in alike:
                self._places[other] = inner

    def _copied(self) -> bool:
        """Copy those on the device, and look at the copies that have arrived."""
        places, held = [at for at, _ in self._far], [one for _, one in self._far]
        self._far = []
        for device in {one.device for one in held}:
            some = [at for at, one in zip(places, held, strict=True) if one.device == device]
            there = torch.stack([one.double() for one in held if one.device == device])
            cuda = device.type == "cuda"
            copy = torch.empty(len(some), dtype=torch.float64, pin_memory=cuda).copy_(there, non_blocking=cuda)
            arrived = torch.cuda.Event() if cuda else None  # type: ignore[no-untyped-call]  # torch's
            if arrived is not None:
                arrived.record(torch.cuda.current_stream(device))
            self._copies.append((some, copy, arrived))
        return self._arrived(wait=False)

    def _arrived(self, wait: bool) -> bool:
        """Take over the copies that have arrived. Return whether one of the losses is a leap."""
        found, waiting = False, []
        for places, copy, arrived in self._copies:
            if arrived is not None and not wait and not arrived.query():
                waiting.append((places, copy, arrived))
                continue
            if arrived is not None:
                arrived.synchronize()
            for at, value in zip(places, copy.tolist(), strict=True):
                self._values[at] = value
                found = self._levels[self._lines[at]].leaps(value) or found
        self._copies = waiting
        return found

    def read(self) -> None:
        """Wait for all that are on a device."""
        if self._far:
            self._copied()
        self._arrived(wait=True)

    def last(self) -> float | None:
        """The last loss; None if there is none, or if it was no single real number."""
        if self._far:
            return float(self._far[-1][1])
        return self._values[-1] if self._values and self._lines[-1] < _NONE else None

    def losses(self) -> list[BackwardLoss]:
        """All of them, in order."""
        self.read()
        return list(map(self._loss, range(len(self._values))))

    def along(self, number: int, most: int) -> list[BackwardLoss]:
        """The losses of the line that called the backward ``number``: all, or ``most`` of them at equal distances."""
        self.read()
        lines = np.array(self._lines) % _NONE
        places = np.flatnonzero(lines == lines[number - 1]) if 0 < number <= len(lines) else lines[:0]
        picked = np.unique(np.linspace(0, len(places) - 1, most).round().astype(int)) if len(places) else places
        return [self._loss(at) for at in places[picked].tolist()]

    def _loss(self, at: int) -> BackwardLoss:
        line = self._lines[at]
        return BackwardLoss(at + 1, self._values[at] if line < _NONE else None, self._places[line % _NONE])
