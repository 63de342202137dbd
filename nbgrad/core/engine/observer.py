"""``Observer``: the engine's notifications and questions to graphs, ``detect_anomaly``, clocks and checks."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.kept import Reading
from nbgrad.core.engine.node import Node, OpInfo, Origin, raw_of
from nbgrad.core.engine.place import Place


class Cut(NamedTuple):
    """Where a path ends.

    Attributes:
        kind: "no_grad", "checkpoint" (a reentrant one of torch's, which switches gradients off), "draw" (from a
            distribution that could draw with a gradient), "detached", "no gradient", or "frozen".
        what: the op, or "detach()".
        place: the user's line that ran it.
        inside: whether nbgrad ran it, in a function or block that the user called.
        lack: the part that has no gradient, if that is not the op itself.
        name: the names of the frozen parameters.
    """

    kind: str
    what: str
    place: Place
    inside: bool
    lack: str | None = None
    name: str = ""

    def __str__(self) -> str:
        """The sentence about the tensor that was used."""
        if self.kind == "detached":
            return f"cut off by {self.what} at {self.place}"
        if self.kind == "no_grad":
            return f"used by {self.user} inside no_grad(), at {self.place}"
        if self.kind == "checkpoint":
            return (
                f"used by {self.user} at {self.place}, inside a reentrant checkpoint: no input of it needs a gradient"
            )
        if self.kind == "draw":
            return f"cut off by sample() at {self.place}, whose numbers are drawn without a gradient"
        return f"used by {self.user} at {self.place}, and {self._why()}"

    @property
    def end(self) -> str:
        """The sentence about the result, which has no gradient."""
        if self.kind == "no_grad":
            return f"{self.user} inside no_grad(), at {self.place}"
        if self.kind == "checkpoint":
            return f"{self.user} inside a reentrant checkpoint, at {self.place}"
        if self.kind == "draw":
            return f"sample() at {self.place}, whose numbers are drawn without a gradient"
        if self.kind == "no gradient":
            return f"{self.user} at {self.place}: {self._why()}"
        if self.kind == "frozen":
            are = "are" if " and " in self.name else "is"
            return f"{self.what} at {self.place}, where {self.name} {are} frozen (requires_grad=False)"
        return f"{self.what} at {self.place}"

    @property
    def user(self) -> str:
        """The name of the function that the user called: the op, or a function or block that runs it."""
        called = self.place.called if self.inside else None
        return f"{called}()" if called and called != self.what else self.what

    def _why(self) -> str:
        if self.lack is not None:
            return f"{self.lack} has no gradient"
        return f"the {self.what} in it has no gradient" if self.user != self.what else f"{self.what} has no gradient"

    @property
    def remedy(self) -> str:
        """The advice: how to get a gradient."""
        if self.kind == "detached":
            return f"Leave out {self.what} if a gradient is needed."
        if self.kind == "no_grad":
            return "Run that outside of no_grad()."
        if self.kind == "checkpoint":
            return "Use checkpoint(..., use_reentrant=False)."
        if self.kind == "frozen":
            return "Make it trainable with requires_grad_()."
        return (
            "Use an op with a gradient instead, such as softmax for argmax, sigmoid for a comparison or cross_entropy "
            "for the accuracy."
        )


class Observer:
    """Receives the engine's notifications. Every method may be overridden, and does nothing by default.

    A tensor argument is a ``Tensor``, unless the method calls it data. Data and gradients may be raw torch tensors.
    """

    __slots__ = ()

    def follows_torch(self) -> bool:
        """Whether it is also notified of the work of torch's own autograd, while a graph is open.

        The nodes that stand for torch's ops hold no values and have no rules.
        """
        return False

    def follows_gradients(self) -> bool:
        """Whether it needs all gradients of a backward of torch's; if not, those of the leaves are enough.

        If not, ``on_torch_passed`` may replace ``on_rule`` and ``on_gradient`` for the results of ops.
        """
        return True

    def checks_gradients(self) -> bool:
        """Whether it must be notified of each gradient of a backward of torch's as soon as it is computed.

        An observer that raises errors about gradients needs that. The others are notified before the backward ends.
        """
        return True

    def on_call(self, op: OpInfo, args: tuple[Any, ...]) -> None:
        """``op`` is about to run on ``args``, recorded or not. An error raised here goes to the caller of the op."""

    def on_overwrite(self, data: torch.Tensor) -> None:
        """The op of the last call is about to change ``data`` in place."""

    def on_result(
        self, op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any], results: tuple[Any, ...], node: Node | None
    ) -> None:
        """``op`` ran and made the raw ``results``; ``node`` is None where it was not recorded."""

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """An op ran and was recorded as ``node``: ``args`` are its inputs as passed, ``out`` the data it made."""

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:
        """An op ran and torch recorded it; ``node``, which holds no values, stands for it.

        ``node.edges`` are the origins of the inputs that need a gradient. ``args`` are the inputs as passed, ``out`` is
        the result. If no call that was seen made this part of torch's graph, ``args`` is empty and ``out`` is None.
        """

    def on_torch_left_out(self, name: str, records: bool) -> None:
        """The torch op ``name`` ran and was not recorded; ``records``: whether gradients were on."""

    def on_torch_inputs(self, node: Node) -> None:
        """``node`` of a torch op has more inputs now, last in ``node.edges``: ops in its backward have used them."""

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """A backward starts at ``roots``, pairs of the origin of a tensor and the gradient to start from."""

    def began_badly(self) -> bool:
        """Whether the backward that has just begun starts from a number that is not finite, for the first time."""
        return False

    def on_bad_loss(self, saved: Any) -> None:
        """That backward: ``saved(seq)`` gives what the op ``seq`` has saved, as pairs of a name and a tensor."""

    def wants_kept(self) -> bool:
        """Whether it asks what the nodes keep for the backward that has just begun: to find that out takes time."""
        return False

    def on_kept(self, read: Callable[[], Reading]) -> None:
        """Get the answer from ``read``; called only if it asked."""

    def on_backward_inputs(self, origins: list[Origin], create_graph: bool) -> None:
        """The backward that has just begun gives gradients to the tensors of ``origins`` alone: the user named them.

        With ``create_graph`` the user can differentiate these gradients.
        """

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:
        """The gradient of the tensor of ``origin`` is complete.

        ``lone``: only one rule leads there, and this is the same tensor that ``on_rule`` got. The gradient of a leaf
        may become its ``.grad`` without a copy: to keep its values, clone it; never change it in place.
        """

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Any) -> None:
        """The rule of input ``position`` gave ``gradient``; ``reduced`` is that after undoing a broadcast, if any.

        ``reduction`` is the sum. If the rule itself has summed, ``gradient`` and ``reduced`` are one tensor.
        """

    def on_torch_passed(self, node: Node, reductions: list[tuple[int, Any]]) -> None:
        """A backward of torch's, which ends now, reached ``node``.

        ``reductions``: the positions of the inputs that were stretched, each with the sum that undid it.
        """

    def on_backward_end(self) -> None:
        """The backward is complete; not called when it raised."""

    def on_error(self, op: OpInfo, args: tuple[Any, ...], error: Exception) -> None:
        """``op`` raised ``error`` on ``args``."""

    def on_backward_error(self, origin: Origin, error: Exception) -> None:
        """The backward raised ``error`` when it came to ``origin``."""

    def on_detach(self, tensor: Any, detached: Any, what: str) -> None:
        """``what``, as "detach()", has cut ``detached`` from the graph of ``tensor``."""

    def on_read(self, tensor: Any, what: str) -> None:
        """``what``, as ".data" or "item()", gave the values of ``tensor``, which needs a gradient, without it."""

    def on_change(self, changed: Sequence[torch.Tensor], what: str) -> None:
        """``what``, as an in-place method, has changed the data of each tensor in ``changed``."""

    def on_step_begin(self, params: Sequence[Any], evaluates: bool = False) -> None:
        """An optimizer is about to change the data of ``params``.

        A step with ``evaluates`` runs forward and backward itself, several times, and changes the parameters in
        between.
        """

    def on_step_end(self, params: Sequence[Any], what: str) -> None:
        """The step ``what`` has changed the parameters; not called when it raised."""
        self.on_change([raw_of(param) for param in params], what)

    def on_idle_step(self, params: Sequence[Any], what: str) -> None:
        """The step ``what`` changed nothing: none of the ``params`` that the optimizer holds has a gradient."""

    def on_optimizer_call(self, optimizer: Any, kind: str, by: torch.Tensor | None = None) -> None:
        """The program calls "step" or "zero_grad" of an optimizer, of nbgrad's or torch's.

        Or a scaler calls "unscale" for it, which multiplies its gradients ``by`` a number, or a scheduler sets its
        rate: "schedule".
        """

    def on_clip(self, grads: list[torch.Tensor], bound: float, changes: int = 1) -> None:
        """The program clips ``grads`` to a ``bound``, by this number of ``changes`` in place of each."""

    def on_fault(self, error: Exception, doing: str) -> bool:  # noqa: ARG002
        """Nbgrad itself raised ``error`` while it was recording ``doing``. Return whether the program may go on."""
        return False

    # The questions of error messages.

    def backward_begun(self) -> tuple[int, str] | None:
        """The number of the backward that begins now, counted from 1, and the name of the graph that counts."""
        return None

    def change_of(self, data: torch.Tensor, seq: int) -> str | None:  # noqa: ARG002
        """The last change of ``data`` since the op ``seq`` saved it, with its line; None if no change was seen."""
        return None

    def change_since_backward(self, data: torch.Tensor) -> str | None:  # noqa: ARG002
        """The last change of ``data`` since the last backward ended, with its line; None if no change was seen."""
        return None

    def change_by_op(self, seq: int, after: int) -> tuple[str, Place] | None:  # noqa: ARG002
        """The first op ``after`` another that changed the result of the op ``seq`` in place, and its line."""
        return None

    def has_recorded(self) -> bool:
        """Whether it has seen an op on a tensor that needs a gradient."""
        return False

    def change_at(self, data: torch.Tensor, seq: int) -> tuple[str, Place] | None:  # noqa: ARG002
        """The same change as ``change_of``, with its line apart."""
        return None

    def constants_of(self, seq: int) -> list[Any]:  # noqa: ARG002
        """The data of the inputs of the op ``seq`` that need no gradient, as far as they exist."""
        return []

    def use_of(self, seq: int, among: frozenset[int]) -> Place | None:  # noqa: ARG002
        """The line of the first op ``among`` these that used the result of the op ``seq``; None if that is unknown."""
        return None

    def steps_since(self, seq: int) -> list[tuple[str, Place, set[int]]]:  # noqa: ARG002
        """The steps of optimizers since the op ``seq``: name, line, and addresses of the parameters' memory."""
        return []

    def path_ends(self, data: torch.Tensor) -> tuple[Cut, ...]:  # noqa: ARG002
        """The cuts on the paths to ``data``, from which no backward can start."""
        return ()


def tell(
    observers: tuple[Observer, ...],
    op: OpInfo,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    result: Any,
    node: Node | None,
) -> None:
    """Notify each observer that ``op`` has run, and before that, that it was recorded, if it was."""
    results = result if isinstance(result, tuple) else (result,)
    for observer in observers:
        if node is not None:
            observer.on_record(node, args, results[0])
        observer.on_result(op, args, settings, results, node)


def torch_followers(observers: tuple[Observer, ...]) -> tuple[Observer, ...]:
    """The ``observers`` that are also notified of the work of torch's own autograd."""
    for one in observers:
        if not one.follows_torch():
            return tuple([other for other in observers if other.follows_torch()])
    return observers  # most often all do
