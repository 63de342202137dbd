"""Buckets: gradients of several parameters in one piece of memory, which processes average with one message."""

from collections.abc import Sequence
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import memory_uses, overlaps
from nbgrad.nn.parameter import Parameter

MEBIBYTE = 1 << 20


class Bucket:
    """The gradients that travel together. A communication hook gets it in place of a ``torch.distributed.GradBucket``.

    Attributes:
        numbers: the numbers of the parameters.
        flat: the memory of all gradients, of shape (elements,).
        views: the part of ``flat`` of each parameter, laid out as the parameter is.
        missing: how many gradients have not arrived yet in this backward.
        work: what waits for the average: torch's work, or the future that a hook gave.
    """

    def __init__(self, numbers: Sequence[int], parameters: Sequence[Parameter], index: int, last: bool) -> None:
        self.numbers = tuple(numbers)
        self._parameters = [parameters[number] for number in numbers]
        self._index, self._last = index, last
        self._allocate()
        self.missing = 0
        self.work: Any = None

    def _allocate(self) -> None:
        first = self._parameters[0].data
        sizes = [one.data.numel() for one in self._parameters]
        self.flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.views = [
            _laid_out(part, one.data) for part, one in zip(torch.split(self.flat, sizes), self._parameters, strict=True)
        ]
        self._own_uses = memory_uses(self.flat)

    def renew(self) -> bool:
        """Take new memory if a tensor outside holds a part of it: a gradient of an earlier backward.

        Returns:
            Whether the memory is new.
        """
        if memory_uses(self.flat) == self._own_uses:
            return False
        self._allocate()
        return True

    def index(self) -> int:
        """The number of the bucket: the order in which buckets travel."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last bucket of a backward."""
        return self._last

    def buffer(self) -> torch.Tensor:
        """The memory of all gradients as one torch tensor of shape (elements,)."""
        return self.flat

    def set_buffer(self, buffer: torch.Tensor) -> None:
        """Give all gradients the values of ``buffer``, of shape (elements,)."""
        self.flat.copy_(buffer)

    def gradients(self) -> list[torch.Tensor]:
        """The gradient of each parameter, as a view of the buffer."""
        return list(self.views)

    def parameters(self) -> list[Parameter]:
        """The parameters."""
        return list(self._parameters)


def _laid_out(part: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """``part``, of one dimension, in the shape of ``data``; and in its layout if that fills its memory."""
    filled = data.is_contiguous() or _fills(data)
    return part.as_strided(data.shape, data.stride(), part.storage_offset()) if filled else part.view(data.shape)


def _fills(data: torch.Tensor) -> bool:
    reach = 1 + sum((size - 1) * stride for size, stride in zip(data.shape, data.stride(), strict=True))
    return data.numel() > 0 and reach == data.numel() and not overlaps(data)


def filled_buckets(order: Sequence[int], parameters: Sequence[Parameter], caps: Sequence[int]) -> list[Bucket]:
    """Put parameters into buckets, those of an element type and device together.

    Args:
        order: the numbers of the parameters, in the order in which gradients are expected.
        parameters: all parameters.
        caps: how many bytes a bucket may have before it is closed: the first, the second, and the last for the rest.
    """
    open_: dict[Any, list[int]] = {}
    closed: list[tuple[int, list[int]]] = []
    counts: dict[Any, int] = {}
    sizes: dict[Any, int] = {}
    for place, number in enumerate(order):
        data = parameters[number].data
        kind = (data.dtype, data.device)
        numbers = open_.setdefault(kind, [])
        numbers.append(number)
        sizes[kind] = sizes.get(kind, 0) + data.nbytes
        if sizes[kind] >= caps[min(counts.get(kind, 0), len(caps) - 1)]:
            closed.append((place, open_.pop(kind)))
            counts[kind], sizes[kind] = counts.get(kind, 0) + 1, 0
    rest = sorted((order.index(numbers[-1]), numbers) for numbers in open_.values())
    ready = sorted([*closed, *rest])  # a bucket is complete when the last of its gradients arrives
    return [Bucket(numbers, parameters, index, index == len(ready) - 1) for index, (_, numbers) in enumerate(ready)]
