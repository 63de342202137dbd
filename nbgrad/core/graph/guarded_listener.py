"""The listener of a graph in which no error of nbgrad's reaches the program that it records.

Each notification runs the listener's own method, and remembers the first error as the ``fault`` of the graph. The facts
that this notification would have brought are missing then. It is compiled, because every op makes notifications.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.faults import Fault
from nbgrad.core.engine.kept import Reading
from nbgrad.core.engine.node import Node, OpInfo, Origin
from nbgrad.core.engine.observer import Cut
from nbgrad.core.graph.facts import reached_from
from nbgrad.core.graph.kept_storages import KeptRecorder, KeptStorages, taken
from nbgrad.core.graph.listener import Listener
from nbgrad.core.tensor.tensor import Tensor


class GuardedListener(Listener):
    """A listener that raises no error of its own.

    Attributes:
        fault: the first error of nbgrad's own while the graph recorded or closed; None if there was none.
    """

    def forget(self) -> None:
        """Begin with nothing."""
        self.fault: Fault | None = None
        self.kept = KeptRecorder()
        Listener.forget(self)

    def on_fault(self, error: Exception, doing: str) -> bool:
        """Remember the first one."""
        if self.fault is None:
            self.fault = Fault.of(error, doing)
        return True

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        try:
            Listener.on_record(self, node, args, out)
        except Exception as error:
            self.on_fault(error, node.op.name)

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:
        try:
            Listener.on_torch_record(self, node, args, out)
        except Exception as error:
            self.on_fault(error, node.op.name)

    def on_torch_left_out(self, name: str, records: bool) -> None:
        try:
            Listener.on_torch_left_out(self, name, records)
        except Exception as error:
            self.on_fault(error, name)

    def on_torch_inputs(self, node: Node) -> None:
        try:
            Listener.on_torch_inputs(self, node)
        except Exception as error:
            self.on_fault(error, node.op.name)

    def on_result(
        self, op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any], results: tuple[Any, ...], node: Node | None
    ) -> None:
        try:
            Listener.on_result(self, op, args, settings, results, node)
        except Exception as error:
            self.on_fault(error, op.name)

    def on_error(self, op: OpInfo, args: tuple[Any, ...], error: Exception) -> None:
        try:
            Listener.on_error(self, op, args, error)
        except Exception as own:
            self.on_fault(own, f"the error of {op.name}")

    def on_backward_error(self, origin: Origin, error: Exception) -> None:
        try:
            Listener.on_backward_error(self, origin, error)
        except Exception as own:
            self.on_fault(own, "the error of a backward")

    def on_detach(self, tensor: Tensor, detached: Tensor, what: str) -> None:
        try:
            Listener.on_detach(self, tensor, detached, what)
        except Exception as error:
            self.on_fault(error, what)

    def on_read(self, tensor: Tensor, what: str) -> None:
        try:
            Listener.on_read(self, tensor, what)
        except Exception as error:
            self.on_fault(error, what)

    def on_idle_step(self, params: Sequence[Tensor], what: str) -> None:
        try:
            Listener.on_idle_step(self, params, what)
        except Exception as error:
            self.on_fault(error, what)

    def on_optimizer_call(self, optimizer: Any, kind: str, by: torch.Tensor | None = None) -> None:
        try:
            Listener.on_optimizer_call(self, optimizer, kind, by)
        except Exception as error:
            self.on_fault(error, f"the {kind} of an optimizer")

    def on_clip(self, grads: list[torch.Tensor], bound: float, changes: int = 1) -> None:
        try:
            Listener.on_clip(self, grads, bound, changes)
        except Exception as error:
            self.on_fault(error, "the clipping of gradients")

    def on_change(self, changed: Sequence[torch.Tensor], what: str) -> None:
        try:
            Listener.on_change(self, changed, what)
        except Exception as error:
            self.on_fault(error, what)

    def on_step_begin(self, params: Sequence[Tensor], evaluates: bool = False) -> None:
        try:
            Listener.on_step_begin(self, params, evaluates)
        except Exception as error:
            self.on_fault(error, "the step of an optimizer")

    def on_step_end(self, params: Sequence[Tensor], what: str) -> None:
        try:
            Listener.on_step_end(self, params, what)
        except Exception as error:
            self.on_fault(error, what)

    def change_of(self, data: torch.Tensor, seq: int) -> str | None:
        try:
            return Listener.change_of(self, data, seq)
        except Exception as error:
            self.on_fault(error, "a change in place")
            return None

    def change_since_backward(self, data: torch.Tensor) -> str | None:
        try:
            return Listener.change_since_backward(self, data)
        except Exception as error:
            self.on_fault(error, "a change in place")
            return None

    def path_ends(self, data: torch.Tensor) -> tuple[Cut, ...]:
        try:
            return Listener.path_ends(self, data)
        except Exception as error:
            self.on_fault(error, "the path to a tensor")
            return ()

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        try:
            Listener.on_backward_begin(self, roots)
        except Exception as error:
            self.on_fault(error, "a backward")

    def on_bad_loss(self, saved: Any) -> None:
        try:
            Listener.on_bad_loss(self, saved)
        except Exception as error:
            self.on_fault(error, "a loss that is not finite")

    def wants_kept(self) -> bool:
        """In a loop, for some backwards."""
        try:
            if self.closed or self.running is None:
                return False
            return self.kept.wants(self._latest - self._at_last, self.running.roots, (self.ops, self.outer))
        except Exception as error:
            self.on_fault(error, "what a backward needs")
            return False

    def on_kept(self, read: Callable[[], Reading]) -> None:
        """Keep the facts of what the nodes keep."""
        try:
            if not self.closed and self.running is not None:
                reached = reached_from(self.running.roots, self.ops)
                self.kept.take(self.facts_of_kept(read(), self.backwards + 1, reached))
        except Exception as error:
            self.on_fault(error, "what a backward needs")

    def facts_of_kept(self, reading: Reading, number: int, reached: Iterable[int]) -> KeptStorages:
        """The facts of ``reading``, taken as the backward ``number`` began, which reaches these ops; 0 if none did."""
        given = [known() for known, _ in self.constants.copy().values()]
        given += [one.thing() for one in self.outer.copy().values() if one.kind == "constant" and one.thing is not None]
        return taken(reading, number, self.ops.copy(), reached, given)

    def on_backward_inputs(self, origins: list[Origin], create_graph: bool) -> None:
        try:
            Listener.on_backward_inputs(self, origins, create_graph)
        except Exception as error:
            self.on_fault(error, "a backward")

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:
        try:
            Listener.on_gradient(self, origin, gradient, lone)
        except Exception as error:
            self.on_fault(error, "a gradient")

    def on_torch_passed(self, node: Node, reductions: list[tuple[int, Any]]) -> None:
        try:
            Listener.on_torch_passed(self, node, reductions)
        except Exception as error:
            self.on_fault(error, "a backward")

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:
        try:
            Listener.on_rule(self, node, position, gradient, reduced, reduction)
        except Exception as error:
            self.on_fault(error, f"the gradient of {node.op.name}")

    def on_backward_end(self) -> None:
        try:
            Listener.on_backward_end(self)
        except Exception as error:
            self.running = None
            self.on_fault(error, "the end of a backward")
