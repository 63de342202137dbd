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
    finite = numbers.isfinite()
    sound = numbers if finite.all() else numbers[finite]
    low, high, mean = (sound.min(), sound.max(), sound.mean()) if sound.numel() else (None, None, None)
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
    """Raw tensors kept to be summarised later, within a budget of bytes; of the others the norm is kept.

    A norm stays where it was computed until it is asked for: keeping one never waits for a GPU.
    """

    __slots__ = ("_held", "_norms", "_room", "_seen")

    def __init__(self, budget: int) -> None:
        self._held: dict[Any, tuple[torch.Tensor, int]] = {}
        self._norms: dict[Any, tuple[tuple[int, ...], torch.Tensor]] = {}
        self._seen: set[int] = set()
        self._room = budget

    def __setitem__(self, key: Any, data: torch.Tensor) -> None:
        size = 0 if id(data) in self._seen else data.nbytes
        if size > self._room:
            self.keep_norms({key: data})
            return
        self._room -= size
        self._seen.add(id(data))
        self._held[key] = (data, data._version)

    def keep_norms(self, tensors: dict[Any, torch.Tensor]) -> None:
        """Keep the norms of ``tensors``: all that is left of one that is changed in place later."""
        known = {key: data for key, data in tensors.items() if data.numel()}
        dtype = torch.float32 if any(data.dtype.itemsize < 4 for data in known.values()) else None
        norms = torch._foreach_norm(list(known.values()), 2, dtype=dtype) if known else []
        self._norms.update(
            {key: (tuple(data.shape), norm) for (key, data), norm in zip(known.items(), norms, strict=True)}
        )

    def summarise(self) -> dict[Any, Stats]:
        """The statistics of everything kept; of a tensor that was changed in place since, its norm if that was kept."""
        known: dict[int, Stats] = {}
        found = {key: Stats(shape, float(norm)) for key, (shape, norm) in self._norms.items()}
        for key, (data, version) in self._held.items():
            if data._version == version:
                if id(data) not in known:
                    known[id(data)] = summarise(data)
                found[key] = known[id(data)]
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

    __slots__ = ("_kept", "_leaves", "number", "reductions", "roots")

    def __init__(self, number: int, roots: tuple[int, ...], budget: int) -> None:
        self.number = number
        self.roots = roots
        self._kept = Kept(budget)
        self._leaves: dict[int, torch.Tensor] = {}
        self.reductions: dict[tuple[int, int], Reduction] = {}

    def gradient(self, seq: int, gradient: Any) -> None:
        """The gradient of what ``seq`` made or is arrived."""
        self._kept[seq] = _raw(gradient)

    def contribution(self, key: tuple[int, int], gradient: Any) -> None:
        """A rule gave its input ``gradient``, after undoing a broadcast if there was one."""
        self._kept[key] = _raw(gradient)

    def leaf(self, seq: int, gradient: Any) -> None:
        """``gradient`` becomes part of a ``.grad``, which the user may change in place: clipping does."""
        self._leaves[seq] = _raw(gradient)

    def end(self) -> None:
        """The backward is complete: take the norms of what the user can change from now on."""
        self._kept.keep_norms(self._leaves)
        self._leaves = {}

    def frame(self) -> Frame:
        """The backward as data, no tensor in it."""
        kept = self._kept.summarise()
        gradients = {key: stats for key, stats in kept.items() if isinstance(key, int)}
        contributions = {key: stats for key, stats in kept.items() if isinstance(key, tuple)}
        return Frame(self.number, self.roots, gradients, contributions, self.reductions)


def _raw(gradient: Any) -> torch.Tensor:
    """The torch tensor in a gradient, which is a ``Tensor`` when the backward records itself."""
    return gradient if isinstance(gradient, torch.Tensor) else gradient.data
