"""``RankPart``: the measurements of one process in one backward, and the store in which processes leave them."""

import contextlib
import hashlib
import json
from collections import deque
from collections.abc import Sequence
from math import hypot, isfinite
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

LEFT = 32
"""The number of texts of a process that the store keeps: the latest ones."""

_WHOLE = {
    1: (torch.int8, torch.int32),
    2: (torch.int16, torch.int32),
    4: (torch.int32, torch.int32),
    8: (torch.int64, torch.int64),
}
"""By the number of bytes, the type of whole numbers, and that of their sum. A sum in a wider type takes ten times as
long."""


class RankPart(NamedTuple):
    """The measurements of one process in the backward of one module.

    Attributes:
        names: the parameters, in the order in which their gradients travel.
        buckets: for each, the bytes and how many of the parameters are in it.
        norms: for each parameter, of what this process gives to the average.
        averages: the same of the averages.
        digest: says which backward it is, in all processes alike. All have the same averages, and those of another
            backward have other bits: it is that of the bits.
        values, sums: for each parameter, the norm of its values, and a sum of their bits.
        journeys: for each bucket, the seconds from its sending to its arrival; None where they are unknown.
        precision: the smallest relative difference of two numbers of the element type.
        backwards: how many of this process had begun to average when its graph was closed.
        shares: None if each process has all of the averages. Otherwise ``averages`` and ``values`` are norms of the
            share of this process, and there are three numbers for each parameter: the sum of the gradient that this
            process gives, the sum of its share of the average, and how far rounding may move these sums. They prove
            that the parts are of one backward: the shares add up to the average of what the processes gave.
    """

    names: list[str]
    buckets: list[tuple[int, int]]
    norms: list[float]
    averages: list[float]
    digest: str
    values: list[float]
    sums: list[int]
    journeys: list[float] | None
    precision: float
    backwards: int = 0
    shares: list[list[float]] | None = None

    def text(self) -> str:
        """The text that ``read_part`` reads."""
        return json.dumps(self._asdict())


def read_part(text: str) -> RankPart:
    """The part that was written as ``text``."""
    return RankPart(**json.loads(text))


def whole(own: RankPart, parts: Sequence[RankPart]) -> RankPart:
    """``own``, whose averages and values are those of all shares together.

    Args:
        own: the part of this process, which has shares.
        parts: those of all processes.

    Raises:
        RuntimeError: they are of different backwards.
    """
    for at, name in enumerate(own.names):
        given, kept, doubts = zip(*[part.shares[at] for part in parts if part.shares is not None], strict=True)
        total, left = sum(given) / len(parts), sum(kept)
        if isfinite(total) and isfinite(left) and abs(total - left) > sum(doubts):
            raise RuntimeError(
                f"the ranks cannot be compared: the gradients of {name} do not add up to their average, {total:.6g} "
                f"against {left:.6g}. The ranks have measured different backwards: run the same collectives in all"
            )
    return own._replace(
        averages=[hypot(*[part.averages[at] for part in parts]) for at in range(len(own.names))],
        values=[hypot(*[part.values[at] for part in parts]) for at in range(len(own.names))],
    )


def measured_part(
    named: Sequence[tuple[str, torch.Tensor]],
    buckets: list[tuple[int, int]],
    norms: Sequence[torch.Tensor],
    averages: Sequence[torch.Tensor | None],
    journeys: list[float] | None,
) -> RankPart:
    """The part of a process, once the averages have arrived.

    Args:
        named: the parameters with their names, in the order in which their gradients travel.
        buckets: for each, the bytes and how many of the parameters are in it.
        norms: for each parameter, of what this process has sent: tensors of shape ().
        averages: for each parameter; None where no process has used it.
        journeys: for each bucket, the seconds from its sending to its arrival; None where they are unknown.
    """
    nothing = torch.zeros(1)
    held = [nothing if one is None else one for one in averages]
    values = [one for _, one in named]
    sums = sorted(numbers_of([bit_sum(one) for one in held]))
    return RankPart(
        names=[name for name, _ in named],
        buckets=buckets,
        norms=numbers_of(norms),
        averages=numbers_of([norm_of(one) for one in held]),
        digest=hashlib.sha256(repr(sums).encode()).hexdigest()[:32],
        values=numbers_of([_size_of(one) for one in values]),
        sums=numbers_of([bit_sum(one) for one in values]),
        journeys=journeys if all(one.device.type == "cpu" for one in values) else None,
        precision=max(torch.finfo(one.dtype).eps for one in values),
    )


def numbers_of(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The numbers in tensors of shape (), which come from a device together."""
    device = next((one.device for one in tensors if not one.is_cpu), tensors[0].device)
    return torch.stack([one.to(device) for one in tensors]).tolist()


def norm_of(tensor: torch.Tensor) -> torch.Tensor:
    """The norm in double precision, so that differences of norms mean something: a tensor of shape ()."""
    dense = _dense(tensor)
    wide = torch.complex128 if dense.is_complex() else torch.float64
    norm: torch.Tensor = torch.linalg.vector_norm(dense, dtype=wide)
    return norm.real


def bit_sum(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of the elements whose bits are read as whole numbers, without its overflow: a tensor of shape ().

    It is the same on all devices. Tensors whose numbers differ have other sums, but for rare accidents.
    """
    dense = _dense(tensor)
    real = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    whole, summed = _WHOLE[real.element_size()]
    return real.view(whole).sum(dtype=summed).to(torch.int64)


def _size_of(tensor: torch.Tensor) -> torch.Tensor:
    """The norm for a reader, which takes a tenth of the time of ``norm_of``: a tensor of shape ()."""
    dense = _dense(tensor)
    wide = torch.float32 if dense.element_size() < 4 else None  # the result of a short type is rounded
    norm: torch.Tensor = torch.linalg.vector_norm(dense, dtype=wide)
    return norm.real.to(torch.float64)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of ``tensor``, those of a sparse one without its zeros."""
    return tensor.detach() if tensor.layout is torch.strided else tensor.detach().coalesce().values()


class GroupStore:
    """The store of a process group, in which its processes leave texts for one another. No process waits for that.

    Attributes:
        group: the process group.
        rank: the number of this process in it.
        size: how many processes it has.
    """

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._store: Any = dist.distributed_c10d._get_process_group_store(group)
        self._prefix = "nbgrad"
        self._left: deque[str] = deque()

    def write(self, key: str, text: str) -> None:
        """Write ``text`` under ``key``. Nothing happens if the store is gone."""
        with contextlib.suppress(RuntimeError):  # the process that keeps the store has ended
            self._store.set(f"{self._prefix}/{key}", text)

    def leave(self, key: str, text: str) -> None:
        """The same; of the texts that were left, those of the latest ``LEFT`` keys are kept."""
        self.write(key, text)
        if key not in self._left:
            self._left.append(key)
        if len(self._left) > LEFT:
            with contextlib.suppress(RuntimeError):
                self._store.delete_key(f"{self._prefix}/{self._left.popleft()}")

    def read(self, key: str) -> str | None:
        """The text under ``key``; None if there is none yet.

        Raises:
            RuntimeError: the store is gone.
        """
        key = f"{self._prefix}/{key}"
        return self._store.get(key).decode() if self._store.check([key]) else None


_stores: dict[str, GroupStore] = {}


def store_of(group: Any) -> GroupStore:
    """The store of a process group."""
    found = _stores.get(str(group.group_name))
    if found is None or found.group is not group:
        found = _stores[str(group.group_name)] = GroupStore(group)
    return found
