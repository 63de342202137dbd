"""``TimedGraph``: a graph that also measures the time of each op, and of its rules in the last backward."""

from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import Node, OpInfo, Origin
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.guarded_listener import GuardedListener


class Times(NamedTuple):
    """How long an op took, in seconds.

    Attributes:
        forward: from its call until it was recorded; None of a ``Function`` of the user's.
        backward: all its rules in the last backward, with the sums that undid broadcasts; None if that did not reach
            it.
    """

    forward: float | None
    backward: float | None


class _TimedListener(GuardedListener):
    """A listener with a clock; another class, so that other graphs do not become slower."""

    def forget(self) -> None:
        super().forget()
        self._forward: dict[int, int] = {}
        self._backward: dict[int, int] = {}
        self._called = 0  # when the op that runs was called; 0 while none does
        self._began = 0  # when the rule that runs began

    @property
    def times(self) -> dict[int, Times]:
        """By id of the record of an op, how long it took."""
        forward, backward = self._forward.copy(), self._backward.copy()
        return {
            id: Times(*(None if ns is None else ns / 1e9 for ns in (forward.get(id), backward.get(id))))
            for id in forward.keys() | backward.keys()
        }

    def _sweep(self) -> None:
        super()._sweep()
        self.keep(self.ops.keys())

    def keep(self, ids: Any) -> None:
        """Forget the times of all ops but those with ``ids``."""
        self._forward = {id: ns for id, ns in self._forward.items() if id in ids}

    # The clock runs while the engine does, not while this graph takes its notes.

    def on_call(self, op: OpInfo, args: tuple[Any, ...]) -> None:
        """The op begins."""
        super().on_call(op, args)
        self._called = perf_counter_ns()

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """The op has ended."""
        self._stop(node)
        super().on_record(node, args, out)

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:
        """The torch op has ended; a part of torch's graph that no call made has no time."""
        self._stop(node if out is not None else None)
        super().on_torch_record(node, args, out)

    def on_result(
        self, op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any], results: tuple[Any, ...], node: Node | None
    ) -> None:
        """The op has ended; one in place is recorded later."""
        self._stop(node)
        super().on_result(op, args, settings, results, node)

    def _stop(self, node: Node | None) -> None:
        """Only the op that began last has a time: one that called others has lost its beginning."""
        if node is not None and self._called and not self.closed:
            self._forward[node.seq] = perf_counter_ns() - self._called
        self._called = 0

    def on_error(self, op: OpInfo, args: tuple[Any, ...], error: Exception) -> None:
        """It has not ended."""
        self._called = 0
        super().on_error(op, args, error)

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """The times of the last backward give way to those of this one."""
        super().on_backward_begin(roots)
        if not self.closed:
            self._backward = {}

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:
        """The rules of ``origin`` begin."""
        super().on_gradient(origin, gradient, lone)
        self._began = perf_counter_ns()

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:
        """One of them has ended, and the next begins."""
        if self.running is not None and node.plan is not None:  # torch reports its rules some time after they ran
            self._backward[node.seq] = self._backward.get(node.seq, 0) + perf_counter_ns() - self._began
        super().on_rule(node, position, gradient, reduced, reduction)
        self._began = perf_counter_ns()


class TimedGraph(AutogradGraph):
    """An ``AutogradGraph`` with a clock.

    It measures the time on the CPU. A GPU may still compute after that. An op that waits for the GPU, such as one that
    reads a number, then also has the time of everything that it waited for. An op that calls other recorded ops has no
    time of its own: those ops have it. Ops of torch's own have the time of their forward.
    """

    _listens = _TimedListener
    listener: _TimedListener

    @property
    def times(self) -> dict[int, Times]:
        """By id of the record of an op, how long it took."""
        return self.listener.times

    def _forward_seconds(self) -> dict[int, float]:
        return {id: one.forward for id, one in self.times.items() if one.forward is not None}

    def close(self, namespace: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Stop recording; the times of the shown ops remain."""
        super().close(namespace, error)
        self.listener.keep({record.id for record in (*self._records, *self._failed)})
