"""Helpers for ``samples=`` of a row, the inputs of its tests: ranks 0 to 5, broadcasting, empty tensors, edges."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch


class Domain(NamedTuple):
    """An interval from which random numbers are drawn uniformly, and the part around zero that is excluded."""

    low: float
    high: float
    gap: float = 0.0


REALS = Domain(-2.0, 2.0)
POSITIVE = Domain(0.2, 3.0)
NONZERO = Domain(-2.0, 2.0, gap=0.3)

SHAPES = ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (0,), (2, 0, 3))
PAIRS = (
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((2, 3), (3,)),
    ((4, 1), (1, 5)),
    ((2, 3), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((2, 2, 1, 3), (2, 1)),
    ((1, 2, 2, 1, 2), (3, 1, 2, 2, 1)),
    ((0,), (1,)),
    ((2, 0, 3), (1, 3)),
)


class Sample(NamedTuple):
    """One call of a row: tensor inputs (raw, float64 where differentiable) and settings."""

    args: tuple[Any, ...]
    settings: dict[str, Any]

    @classmethod
    def of(cls, *args: Any, **settings: Any) -> "Sample":
        """Make a sample, written like the call that it stands for."""
        return cls(args, settings)


class Make:
    """Draws random tensors from a domain, the same ones for the same seed."""

    def __init__(self, domain: Domain, seed: int = 0) -> None:
        self.domain = domain
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, domain: Domain | None = None) -> torch.Tensor:
        """A float64 tensor of ``shape``."""
        low, high, gap = domain or self.domain
        drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64) * (high - low) + low
        return drawn + gap * torch.where(drawn < 0, -1.0, 1.0) if gap else drawn

    def complex(self, *shape: int) -> torch.Tensor:
        """A complex128 tensor of ``shape``."""
        return torch.complex(self(*shape), self(*shape))

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """An int64 tensor of ``shape`` with numbers from 0 to ``high - 1``."""
        return torch.randint(high, shape, generator=self._generator)


Samples = Callable[[Make], Iterator[Sample]]


def unary(make: Make) -> Iterator[Sample]:
    """A random tensor of every shape."""
    yield from (Sample.of(make(*shape)) for shape in SHAPES)


def binary(make: Make) -> Iterator[Sample]:
    """Every pair of shapes that broadcasts, both ways round, and numbers on either side."""
    for a, b in PAIRS:
        yield Sample.of(make(*a), make(*b))
        yield Sample.of(make(*b), make(*a))
    yield Sample.of(make(2, 3), 1.5)
    yield Sample.of(2, make(2, 3))


def pairs(make: Make) -> Iterator[Sample]:
    """Every pair of shapes that broadcasts: for ops of two tensors, where a number may be an error."""
    yield from (Sample.of(make(*a), make(*b)) for a, b in PAIRS)


def points(*values: float) -> torch.Tensor:
    """A float64 tensor of special points."""
    return torch.tensor(values, dtype=torch.float64)


def at(*points: float) -> Samples:
    """A random tensor of every shape, then a tensor of the special points."""

    def samples(make: Make) -> Iterator[Sample]:
        yield from unary(make)
        yield Sample.of(torch.tensor(points, dtype=torch.float64))

    return samples


def reducing(make: Make) -> Iterator[Sample]:
    """Every shape without ``dim``, then one, several, negative and all dimensions, with and without ``keepdim``."""
    yield from unary(make)
    for shape in ((3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (2, 0, 3)):
        for keepdim in (False, True):
            yield Sample.of(make(*shape), dim=0, keepdim=keepdim)
            yield Sample.of(make(*shape), dim=-1, keepdim=keepdim)
            yield Sample.of(make(*shape), dim=tuple(range(len(shape))), keepdim=keepdim)
            if len(shape) > 2:
                yield Sample.of(make(*shape), dim=(0, -1), keepdim=keepdim)


def along_a_dim(make: Make) -> Iterator[Sample]:
    """Every shape along its first and its last dimension. As in torch, a 0-d tensor also accepts 0 and -1."""
    for shape in SHAPES:
        yield Sample.of(make(*shape), dim=0)
        yield Sample.of(make(*shape), dim=-1)


def alike(*points: float) -> Samples:
    """Pairs of tensors of one shape, for every shape; then special points, if any, in the second tensor."""

    def samples(make: Make) -> Iterator[Sample]:
        yield from (Sample.of(make(*shape), make(*shape)) for shape in SHAPES)
        if points:
            yield Sample.of(make(len(points)), torch.tensor(points, dtype=torch.float64))

    return samples


def varied(samples: Samples, *changes: dict[str, Any]) -> Samples:
    """The samples, and then the last one again with each of these settings."""

    def more(make: Make) -> Iterator[Sample]:
        drawn = list(samples(make))
        yield from drawn
        yield from (Sample(drawn[-1].args, {**drawn[-1].settings, **change}) for change in changes)

    return more
