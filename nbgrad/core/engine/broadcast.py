"""Undo broadcasting: sum a gradient down to the shape of its input, and report the summed dimensions."""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import torch

RawTensor, sum_over = torch.Tensor, torch.sum  # a global of this module is found faster


class Reduction(NamedTuple):
    """The sum that undoes a broadcast in one backward. The picture shows it on the edge."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    dims: tuple[int, ...]
    terms: int

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.dims))
        return f"{self.source} -> {self.target}: sum dim{'s' if len(self.dims) > 1 else ''} {dims}"


@lru_cache(1024)  # a loop undoes the same broadcasts in every step
def reduction(source: tuple[int, ...], target: tuple[int, ...]) -> Reduction | None:
    """The sum that takes a gradient of shape ``source`` to shape ``target``, None if ``target`` does not stretch to it.

    ``dims`` are dimensions of ``source``, ``terms`` is how many numbers are added for each one that is kept.
    """
    lead = len(source) - len(target)
    if lead < 0:
        return None
    dims = list(range(lead))
    for dim, (have, want) in enumerate(zip(source[lead:], target, strict=True), lead):
        if have != want:
            if want != 1:
                return None
            dims.append(dim)
    return _over(source, target, dims)


def _over(source: tuple[int, ...], target: tuple[int, ...], dims: list[int]) -> Reduction:
    return Reduction(tuple(source), tuple(target), tuple(dims), prod(source[dim] for dim in dims))


Sums = Callable[[tuple[int, ...], tuple[int, ...]], Reduction | None]
"""A function of the shapes of output and input that returns the sum for the input; None if nothing was summed."""


def for_features(source: tuple[int, ...], target: tuple[int, ...]) -> Reduction | None:
    """The sum over all dimensions of ``source`` but the last ones, which have the shape ``target``."""
    return all_but(source, target, len(source) - len(target))


def for_channels(source: tuple[int, ...], target: tuple[int, ...]) -> Reduction | None:
    """The sum over samples and places of ``source`` (N, C, ...), for each channel; ``target`` is (C,)."""
    return all_but(source, target, 1)


def for_gates(source: tuple[int, ...], target: tuple[int, ...]) -> Reduction | None:
    """The sum over samples and steps, if any, of the gates that made ``source``, which is (T, N, H) or (N, H)."""
    return for_features((*source[:-1], *target), target)


def all_but(source: tuple[int, ...], target: tuple[int, ...], first: int) -> Reduction | None:
    """The sum over all dimensions of ``source`` but those of ``target``, which begin at the dimension ``first``."""
    dims = [dim for dim in range(len(source)) if not first <= dim < first + len(target)]
    return _over(source, target, dims) if dims else None


def sum_to(gradient: Any, given: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """``gradient``, a torch tensor or a ``Tensor`` of shape ``given``, summed down to ``shape``.

    Raises:
        RuntimeError: ``shape`` does not stretch to ``given``.
    """
    if not shape:
        return gradient.sum()
    lead = len(given) - len(shape)
    if lead in (0, 1) and isinstance(gradient, RawTensor):
        # Most often one dimension is summed away. Then a direct sum is faster than sum_to_size, which searches for it.
        found = lead - 1
        for dim in range(lead, len(given)):
            have, want = given[dim], shape[dim - lead]
            if have != want:
                if found >= 0 or want != 1:
                    found = -1
                    break
                found = dim
        if found >= 0:
            return sum_over(gradient, found, not lead)
    return gradient.sum_to_size(*shape)  # torch reads numbers faster than a tuple of them
