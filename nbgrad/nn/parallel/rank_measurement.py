"""The measurements of one backward in one process, for the graphs that compare the ranks."""

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch

from nbgrad.core.engine.node import record_id
from nbgrad.core.engine.observer import Observer
from nbgrad.core.graph.rank_part import measured_part, norm_of, store_of
from nbgrad.core.graph.rank_recorder import RankRecorder
from nbgrad.nn.parallel.buckets import Bucket
from nbgrad.nn.parameter import Parameter


class RankMeasurement:
    """Measures one backward: the norms of what this process sends, and when each bucket has left and arrived.

    Args:
        recorders: of the graphs that ask for it.
    """

    def __init__(self, recorders: Sequence[RankRecorder]) -> None:
        self._recorders = recorders
        self._norms: dict[int, torch.Tensor] = {}
        self._sent: dict[int, float] = {}
        self._arrived: dict[int, float] = {}

    @classmethod
    def of(cls, observers: Sequence[Observer]) -> "RankMeasurement | None":
        """The measurement for the graphs that ask for one through ``observers``; None if none asks."""
        found = [one for one in observers if isinstance(one, RankRecorder)]
        return cls(found) if found else None

    def put(self, number: int, view: torch.Tensor, scale: float) -> None:
        """Measure what this process sends of parameter ``number``: ``view``, which was multiplied by ``scale``."""
        self._norms[number] = norm_of(view) / scale

    def leaves(self, bucket: Bucket) -> None:
        """Note that ``bucket`` is about to be sent."""
        self._sent[bucket.index()] = perf_counter()

    def travels(self, bucket: Bucket) -> None:
        """Note when ``bucket``, which has been sent, arrives."""
        work = bucket.work
        future = work if isinstance(work, torch._C.Future) else work.get_future()
        future.add_done_callback(partial(self._arrive, bucket.index()))

    def _arrive(self, index: int, _: Any) -> None:
        self._arrived[index] = perf_counter()

    def end(self, group: Any, buckets: Sequence[Bucket], names: Sequence[str]) -> None:
        """Give the measurements to the graphs; the buckets hold the averages.

        Args:
            group: the process group.
            buckets: in the order in which they travel.
            names: of all parameters.
        """
        now = perf_counter()
        numbers = [one for bucket in buckets for one in bucket.numbers]
        parameters: list[Parameter] = [one for bucket in buckets for one in bucket.parameters()]
        part = measured_part(
            [(names[number], one.data) for number, one in zip(numbers, parameters, strict=True)],
            [(bucket.flat.nbytes, len(bucket.numbers)) for bucket in buckets],
            [self._norms[one] for one in numbers],
            [view for bucket in buckets for view in bucket.views],
            [self._arrived.get(one.index(), now) - self._sent[one.index()] for one in buckets],
        )
        ids = [record_id(one.origin) for one in parameters]
        for recorder in self._recorders:
            recorder.add(store_of(group), part, ids)
