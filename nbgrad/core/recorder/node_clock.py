"""How long each node of torch's graph runs in a backward: a hook before it, and one after it, while clocks are open.

Nothing of nbgrad's runs between the two: torch calls the hooks of tensors, and so the taps, before the hooks of the
node, and ours is the last of these and the first after the node. On a GPU the hooks put events into the queue in which
the node computes; torch runs such nodes in a thread of the GPU.
"""

from typing import Any

import torch

from nbgrad.core.engine.clock import Clock, Instant, cuda_is_used, instant
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.torch_origins import KEY, leaf_of, owner_of
from nbgrad.core.engine.walk import nodes_before
from nbgrad.core.recorder.foreseen import NodeHook
from nbgrad.core.recorder.nodes import ACCUMULATES

_task: Any = torch._C._current_graph_task_id


class NodeClock:
    """The times of all nodes in one backward.

    Args:
        clocks: are told the times.

    Attributes:
        task: torch's number of the backward, from its first node on: another one may run on the same nodes, inside of
            it or in another thread.
    """

    def __init__(self, clocks: list[Clock]) -> None:
        self.clocks = clocks
        self.hooks: list[NodeHook] = []
        self.task = -1

    def begin(self, roots: list[Any]) -> None:
        """Hook every node that leads to ``roots``."""
        met = set(roots)
        waiting = [(made, 0) for made in roots]
        while waiting:
            made, above = waiting.pop()
            id = _id(made) or above  # a node without an id is a part of the op that led to it
            if id:
                self._hook(made, id)
            for after in nodes_before(made):
                if after not in met:
                    met.add(after)
                    waiting.append((after, id))

    def _hook(self, made: Any, id: int) -> None:
        before = Before(self, _device(made))
        after = After(before, id)
        made.register_prehook(before)
        made.register_hook(after)
        table: Any = after.table or {}
        for key in [*table][:-1]:  # torch calls the hooks in the order in which they were put there
            table[key] = table.pop(key)
        self.hooks += [before, after]

    def failed(self, error: Exception) -> None:
        """Take an error of ours, so that the backward goes on."""
        observers: Any = tuple(self.clocks)
        if not taken(observers, error, "the time of a backward"):
            raise error

    def end(self) -> None:
        """Take the hooks off."""
        for hook in self.hooks:
            hook.take_off()
        self.hooks = []


class Before(NodeHook):
    """The hook before a node.

    Attributes:
        began: when the node began; None before that, and after it has ended.
    """

    __slots__ = ("began", "clock", "device")

    def __init__(self, clock: NodeClock, device: torch.device | None) -> None:
        self.table = None
        self.clock, self.device = clock, device
        self.began: Instant | None = None

    def __call__(self, arrived: Any) -> None:  # noqa: ARG002  # torch gives it
        clock = self.clock
        if clock.task < 0:
            clock.task = _task()
        if clock.task == _task():
            try:
                self.began = instant(self.device)
            except Exception as error:
                clock.failed(error)


class After(NodeHook):
    """The hook after it."""

    __slots__ = ("before", "id")

    def __init__(self, before: Before, id: int) -> None:
        self.table = None
        self.before, self.id = before, id

    def __call__(self, given: Any, arrived: Any) -> None:  # noqa: ARG002  # torch gives both
        before = self.before
        if before.began is None or before.clock.task != _task():
            return
        began, before.began = before.began, None
        try:
            ended = instant(began.device)
            for clock in before.clock.clocks:
                clock.on_node(self.id, began, ended)
        except Exception as error:
            before.clock.failed(error)


def _id(made: Any) -> int:
    """The id of the record of the op or the leaf that ``made`` is the node of; 0 if it is no op's own node."""
    if type(made) is ACCUMULATES:
        return leaf_of(made.variable).seq
    known = made.metadata.get(KEY)
    return 0 if known is None else owner_of(known).seq


def _device(made: Any) -> torch.device | None:
    """The GPU on which the node ``made`` computes; None for the CPU."""
    if not cuda_is_used():
        return None
    return next((one.device for one in made._input_metadata if one.device.type == "cuda"), None)
