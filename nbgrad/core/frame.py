"""What one backward did: the gradients that arrived, the reductions that were made, and their statistics."""

from dataclasses import dataclass, field
from typing import Any

import torch

from nbgrad.core.broadcast import Reduction

SMALL = 1024
"""Tensors with at most this many elements are kept to be shown; of larger ones the statistics are."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What is shown of a tensor's values.

    ``norm`` is the Euclidean norm; ``low``, ``high`` and ``mean`` are None for an empty tensor and where only the norm
    was kept; ``values`` are nested lists, None for all but small tensors.
    """

    shape: tuple[int, ...]
    norm: float
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    nan: int = 0
    inf: int = 0
    values: Any = None


def summarise(data: torch.Tensor) -> Stats:
    """The statistics of a tensor of numbers; NaN and Inf are counted and left out of ``low``, ``high`` and ``mean``."""
    numbers = data.detach().to(torch.float64).flatten()
    finite = numbers[numbers.isfinite()]
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.numel() else (None, None, None)
    return Stats(
        shape=tuple(data.shape),
        norm=float(torch.linalg.vector_norm(numbers)),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        mean=None if mean is None else float(mean),
        nan=int(numbers.isnan().sum()),
        inf=int(numbers.isinf().sum()),
        values=data.tolist() if data.numel() <= SMALL else None,
    )


class Kept:
    """Raw tensors kept to be summarised later, within a budget of bytes; beyond it only their norm is kept."""

    __slots__ = ("_held", "_room", "_seen")

    def __init__(self, budget: int) -> None:
        self._held: dict[Any, tuple[torch.Tensor, int] | Stats] = {}
        self._seen: set[int] = set()
        self._room = budget

    def __setitem__(self, key: Any, data: torch.Tensor) -> None:
        size = 0 if id(data) in self._seen else data.nbytes
        if size > self._room:
            self._held[key] = Stats(tuple(data.shape), float(torch.linalg.vector_norm(data)))
            return
        self._room -= size
        self._seen.add(id(data))
        self._held[key] = (data, data._version)

    def summarise(self) -> dict[Any, Stats]:
        """The statistics of everything kept; a tensor that was changed in place since is left out, not misreported."""
        known: dict[int, Stats] = {}
        found: dict[Any, Stats] = {}
        for key, kept in self._held.items():
            if isinstance(kept, Stats):
                found[key] = kept
            elif kept[0]._version == kept[1]:
                found[key] = known.setdefault(id(kept[0]), summarise(kept[0]))
        return found


@dataclass(slots=True)
class Frame:
    """One backward, as data.

    Attributes:
        number: which backward of its graph it was, from 1.
        roots: ids of what it started from.
        gradients: by id of an op or a leaf, the gradient of the tensor it made or is.
        contributions: by id of an op and position of its input, the gradient that the rule gave that input.
        reductions: by the same key, the sum that undid a broadcast.
    """

    number: int
    roots: tuple[int, ...]
    gradients: dict[int, Stats] = field(default_factory=dict)
    contributions: dict[tuple[int, int], Stats] = field(default_factory=dict)
    reductions: dict[tuple[int, int], Reduction] = field(default_factory=dict)


class FrameRecorder:
    """Collects one backward while it runs; ``frame`` makes the data of it when somebody asks."""

    __slots__ = ("_contributions", "_gradients", "number", "reductions", "roots")

    def __init__(self, number: int, roots: tuple[int, ...], budget: int) -> None:
        self.number = number
        self.roots = roots
        self._gradients = Kept(budget)
        self._contributions = Kept(budget)
        self.reductions: dict[tuple[int, int], Reduction] = {}

    def gradient(self, seq: int, gradient: Any) -> None:
        """The gradient of what ``seq`` made or is arrived."""
        self._gradients[seq] = gradient if isinstance(gradient, torch.Tensor) else gradient.data

    def contribution(self, key: tuple[int, int], gradient: Any, reduction: Reduction | None) -> None:
        """A rule gave its input ``gradient`` (None: not to be kept), after ``reduction`` if there was one."""
        if gradient is not None:
            self._contributions[key] = gradient if isinstance(gradient, torch.Tensor) else gradient.data
        if reduction is not None:
            self.reductions[key] = reduction

    def frame(self) -> Frame:
        """The backward as data, no tensor in it."""
        gradients, contributions = self._gradients.summarise(), self._contributions.summarise()
        return Frame(self.number, self.roots, gradients, contributions, self.reductions)
