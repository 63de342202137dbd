"""``RankRecorder``: the measurements of this process, and those of the others once they are asked for.

Each process measures its own part while a backward runs. When its graph closes, it leaves the parts of the last
backwards in the store at which the processes have met. It reads the other parts on request. So no process sends a
message in a backward, and one that does not ask waits for none.
"""

from collections import deque
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

import torch.distributed as dist

from nbgrad.choices import is_launched
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import current
from nbgrad.core.graph.rank_part import GroupStore, RankPart, read_part
from nbgrad.core.graph.ranks import RankedBucket, RankedParameter, Ranks, compare
from nbgrad.core.graph.sharded_reduction import REDUCES, ShardedReduction
from nbgrad.core.graph.torch_reduction import DOING, FORWARDS, Reduced, TorchReduction

PATIENCE = 10.0
"""The seconds that a process waits for the measurements of the others."""

_KEPT = 4
"""The parts of so many backwards are kept. If a rank has ended earlier than others, they compare an earlier one."""


class RankRecorder(Observer):
    """Keeps the measurements of this process in the last backwards that averaged gradients, for one graph.

    The reducer of a module of nbgrad's finds it among the observers of the backward. Modules of torch's are met in
    their forward.
    """

    def __init__(self, graph: str) -> None:
        self._graph = graph
        self._expected: WeakSet[Any] = WeakSet()  # modules of torch's whose forward has run
        self._reductions: list[TorchReduction] = []
        self._sharded: ShardedReduction | None = None
        self.forget()

    def forget(self) -> None:
        """Forget the measurements."""
        self._measured: deque[list[Reduced]] = deque(maxlen=_KEPT)
        self._fresh = True
        self._begun = 0
        self._known: Ranks | RuntimeError | None = None
        self._compared: list[Reduced] = []

    # Notifications of the engine.

    def follows_torch(self) -> bool:
        """The modules of torch's average in the backwards of torch's."""
        return True

    def follows_gradients(self) -> bool:
        """No gradient has to be kept for it."""
        return False

    def checks_gradients(self) -> bool:
        """It raises no errors about gradients."""
        return False

    def begin(self) -> None:
        """Watch the forwards of torch's modules, until ``end``."""
        FORWARDS.begin(self)

    def end(self) -> None:
        """The graph records no more."""
        FORWARDS.end(self)
        self._abandon()
        self._expected.clear()

    def expect(self, net: Any) -> None:
        """``net``, a ``DistributedDataParallel`` of torch's, averages in one of the next backwards."""
        self._expected.add(net)

    def on_backward_begin(self, roots: Any) -> None:  # noqa: ARG002
        """From here on, new measurements belong to another backward."""
        self._fresh = True
        self._abandon()
        for net in self._expected:
            self._reductions.append(TorchReduction(net, current().observers))
            self._reductions[-1].begin()
        self._sharded = ShardedReduction(current().observers)
        try:
            REDUCES.begin(self._sharded)
        except Exception as error:  # another torch has other functions
            if not taken(current().observers, error, DOING):
                raise

    def on_backward_end(self) -> None:
        """Keep what was measured of torch's modules."""
        reductions = [one for one in self._reductions if one.measured]
        sharded = self._sharded
        self._abandon()
        for one in reductions:
            self._expected.discard(one.net)
        try:
            found = [one.end() for one in reductions] + ([] if sharded is None else sharded.end())
            for reduced in found:
                self.add(*reduced)
        except Exception as error:
            if not taken(current().observers, error, DOING):
                raise

    def on_backward_error(self, origin: Any, error: Exception) -> None:  # noqa: ARG002
        """The last gradients did not become averages: another process has ended, or the program is wrong."""
        if any(one.measured for one in self._reductions):
            self._begun += 1
        self._abandon()
        self._expected.clear()

    def _abandon(self) -> None:
        for one in self._reductions:
            one.remove()
        self._reductions = []
        if self._sharded is not None:
            REDUCES.end(self._sharded)
            self._sharded = None

    def add(self, store: GroupStore, part: RankPart, ids: list[int]) -> None:
        """Keep the measurements.

        Args:
            store: of the processes.
            part: the measurements of this process.
            ids: the ids of the parameters' records in the graph of this process.
        """
        if self._fresh:
            self._measured.append([])
            self._begun += 1
        self._fresh, self._known = False, None
        self._measured[-1].append(Reduced(store, part, ids))

    # The comparison.

    def publish(self) -> None:
        """Send the measurements of this process to the others."""
        for store, part, _ in (one for measured in self._measured for one in measured):
            store.leave(f"ranks/{part.digest}/{store.rank}", part._replace(backwards=self._begun).text())

    @property
    def leads(self) -> bool:
        """Whether this process shows the comparison: it is rank 0, or has nothing to compare."""
        return not self._measured or self._measured[-1][0].store.rank == 0

    def ranks(self) -> Ranks:
        """The measurements of all processes, which have published them; the first call waits for them.

        Raises:
            RuntimeError: no backward has averaged, or a process has sent nothing.
        """
        if self._known is None:
            try:
                self._known = self._gathered()
            except RuntimeError as error:
                self._known = error
        if isinstance(self._known, RuntimeError):
            raise self._known
        return self._known

    @property
    def places(self) -> list[tuple[int, RankedParameter]]:
        """The id of the record of each parameter, with the parameter."""
        parameters = self.ranks().parameters
        return list(zip([id for one in self._compared for id in one.ids], parameters, strict=True))

    def _gathered(self) -> Ranks:
        """The comparison of the last backward that all ranks have measured."""
        if not self._measured:
            raise RuntimeError(self._nothing())
        until = monotonic() + PATIENCE
        first: RuntimeError | None = None
        for measured in reversed(self._measured):
            try:
                return self._gathered_of(measured, until)
            except RuntimeError as error:
                first, until = first or error, 0.0
        raise first or RuntimeError(self._nothing())

    def _nothing(self) -> str:
        return (
            f"{self._graph!r} has no ranks to compare: no backward in it averaged gradients over processes. Wrap "
            "the module in DistributedDataParallel, torch's or nbgrad's, or divide it with torch's fully_shard on a "
            "mesh of one dimension, and run forward and backward in the graph, outside of no_sync(). What the older "
            "FullyShardedDataParallel and meshes of two dimensions reduce is not compared"
        )

    def _gathered_of(self, measured: list[Reduced], until: float) -> Ranks:
        parameters, buckets = list[RankedParameter](), list[RankedBucket]()
        parts: list[RankPart] = []
        for store, own, _ in measured:
            parts = [self._read(store, own, rank, until) for rank in range(store.size)]
            for rank, part in enumerate(parts):
                if part.names != own.names:
                    raise RuntimeError(
                        f"{self._graph!r} cannot compare the ranks: rank {rank} has other parameters in its last "
                        "backward. Let the last backward in the graph be the same in every process"
                    )
            compare(parts, own, parameters, buckets)
        self._compared = measured
        store = measured[0].store
        backwards = tuple(part.backwards for part in parts)
        return Ranks(store.rank, store.size, tuple(parameters), tuple(buckets), backwards)

    def _read(self, store: GroupStore, own: RankPart, rank: int, until: float) -> RankPart:
        if rank == store.rank:
            return own._replace(backwards=self._begun)
        key, why = f"ranks/{own.digest}/{rank}", ""
        while True:
            try:
                text = store.read(key)
            except RuntimeError as error:  # the process that keeps the store has ended
                text, why, until = None, f" ({error})", 0.0
            if text is not None:
                return read_part(text)
            if monotonic() > until:
                raise RuntimeError(
                    f"{self._graph!r} cannot compare the ranks: rank {rank} has sent no figures of this backward. It "
                    "still runs, as one with more batches does, or it compares no ranks: open "
                    "nbgrad.record(ranks=True), or %%autograd --ranks, in every process, for the same "
                    f"backwards{why}"
                )
            sleep(0.01)


def check_group(wanted: bool) -> None:
    """Raise a RuntimeError if ranks should be compared, and there is no process group and none can be expected."""
    if wanted and not (dist.is_available() and (dist.is_initialized() or is_launched())):
        raise RuntimeError(
            "ranks=True compares the processes of a group, and there is none: call "
            "torch.distributed.init_process_group('gloo') first, in a program that torchrun has started"
        )
