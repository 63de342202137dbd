"""``TimedGraph``: a graph that also measures the time of each op, and of its part of the last backward."""

from typing import Any, Self

import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.clock import CLOCKS, Instant, Stopwatch, cuda_device, instant
from nbgrad.core.engine.node import Node, OpInfo, Origin, raw_of
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.guarded_listener import GuardedListener
from nbgrad.core.graph.slowest import By, Slowest, Times, slowest


class _TimedListener(GuardedListener):
    """A listener with a clock; another class, so that other graphs do not become slower."""

    def forget(self) -> None:
        super().forget()
        self._forward: dict[int, Stopwatch] = {}
        self._backward: dict[int, Stopwatch] = {}
        self._device: torch.device | None = None  # the GPU of the op that runs
        self._begun: Instant | None = None  # when the function of torch's in Python began that is the next op
        self._called: Instant | None = None  # when the op that runs was called; None while none does
        self._ran: Instant | None = None  # when torch's function has ended
        self._began: Instant | None = None  # when the rule that runs began

    @property
    def times(self) -> dict[int, Times]:
        """By id of the record of an op or a leaf, how long it took."""
        forward, backward = self._forward.copy(), self._backward.copy()
        return {
            id: Times(*(None if spent is None else spent.seconds for spent in (forward.get(id), backward.get(id))))
            for id in forward.keys() | backward.keys()
        }

    def _sweep(self) -> None:
        super()._sweep()
        self.keep(self.ops.keys())

    def keep(self, ids: Any) -> None:
        """Forget the times of all ops but those with ``ids``."""
        self._forward = {id: spent for id, spent in self._forward.items() if id in ids}

    # The clock runs while the engine does, not while this graph takes its notes.

    def on_call(self, op: OpInfo, args: tuple[Any, ...]) -> None:
        """The op begins."""
        super().on_call(op, args)
        self._device = cuda_device([raw_of(arg) for arg in args])
        self._ran, self._called = None, instant(self._device)

    def on_begin(self, args: tuple[Any, ...]) -> None:
        """A function of torch's in Python begins: the call whose result it returns will be the op."""
        self._begun = instant(cuda_device(args))

    def on_run(self, again: bool) -> None:
        """Torch's function begins, after its call was noted."""
        self._called = self._begun if again else instant(self._device)

    def on_ran(self) -> None:
        """It has ended, and is noted now."""
        called = self._called
        self._ran = None if called is None else instant(called.device)

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
        called, ran = self._called, self._ran  # another thread of the graph may take them away
        if node is not None and called is not None and not self.closed:
            spent = self._forward[node.seq] = Stopwatch()
            spent.add(called, ran or instant(called.device))
        self._called = self._ran = None

    def on_error(self, op: OpInfo, args: tuple[Any, ...], error: Exception) -> None:
        """It has not ended."""
        self._called = self._ran = None
        super().on_error(op, args, error)

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """The times of the last backward give way to those of this one."""
        super().on_backward_begin(roots)
        if not self.closed:
            self._backward = {}

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:
        """The rules of ``origin`` begin."""
        super().on_gradient(origin, gradient, lone)
        self._began = instant(cuda_device([raw_of(gradient)]))

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:
        """One of them has ended, and the next begins."""
        ours = self.running is not None and node.plan is not None  # torch's nodes have a clock of their own
        began = self._began
        if ours and began is not None:
            self.on_node(node.seq, began, instant(began.device))
        super().on_rule(node, position, gradient, reduced, reduction)
        if ours and self._began is not None:
            self._began = instant(cuda_device([raw_of(reduced)]))

    def on_node(self, id: int, began: Instant, ended: Instant) -> None:
        """A rule, or a node of torch's, has run."""
        self._backward.setdefault(id, Stopwatch()).add(began, ended)


class TimedGraph(AutogradGraph):
    """An ``AutogradGraph`` with a clock.

    It measures the time of the program, not what nbgrad needs to note it. On a CUDA device this is the time of the
    work there, from the moment when the device comes to it; if the device waits for the CPU, the wait counts. On
    another device it is the time of the CPU. An op that calls other recorded ops has no time of its own: those ops
    have it. A node of torch's graph that an op has made inside of it belongs to that op, and the node that fills a
    ``.grad`` to the leaf.
    """

    _listens = _TimedListener
    listener: _TimedListener

    def __enter__(self) -> Self:
        CLOCKS.add(self.listener)
        try:
            return super().__enter__()
        except BaseException:
            CLOCKS.discard(self.listener)
            raise

    def leave(self) -> None:
        """Stop recording, and the clock."""
        CLOCKS.discard(self.listener)
        super().leave()

    @property
    def times(self) -> dict[int, Times]:
        """By id of the record of an op or a leaf, how long it took."""
        return self.listener.times

    def _forward_seconds(self) -> dict[int, float]:
        return {id: one.forward for id, one in self.times.items() if one.forward is not None}

    def slowest(self, by: By = "call") -> Slowest:
        """A table of what took the time, the slowest first: printed, it shows forward, backward and share of each.

        Args:
            by: "call" for each op and each leaf; "op" for all ops of a name together; "module" for all that ran in a
                module, with the modules inside it; "line" for the line of your code.

        Raises:
            ValueError: ``by`` is something else.
        """
        return slowest(self.records, self.times, by)

    def close(self, namespace: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Stop recording; the times of the shown ops remain."""
        super().close(namespace, error)
        self.listener.keep({record.id for record in (*self._records, *self._failed)})
