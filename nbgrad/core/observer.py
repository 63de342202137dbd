"""What the engine tells whoever looks on, and asks: graphs, ``detect_anomaly``, clocks, checks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from nbgrad.core.node import Node, Origin
    from nbgrad.core.row import Op
    from nbgrad.core.tensor import Tensor
    from nbgrad.core.uses import Cut


class Observer:
    """Sees what the engine does; every method may be overridden, and by default does nothing of its own."""

    __slots__ = ()

    def on_call(self, op: "Op", args: tuple[Any, ...]) -> None:
        """``op`` is about to run on ``args``, recorded or not; what this raises, the caller of the op gets."""

    def on_overwrite(self, data: "torch.Tensor") -> None:
        """The op of the last call is about to change ``data`` in place."""

    def on_result(
        self, op: "Op", args: tuple[Any, ...], settings: dict[str, Any], results: tuple[Any, ...], node: "Node | None"
    ) -> None:
        """``op`` ran and made the raw ``results``; ``node`` is None where it was not recorded."""

    def on_record(self, node: "Node", args: tuple[Any, ...], out: "torch.Tensor") -> None:
        """An op ran and was recorded as ``node``: ``args`` are its inputs as passed, ``out`` the data it made."""

    def on_backward_begin(self, roots: "list[tuple[Origin, Any]]") -> None:
        """A backward starts at ``roots``, pairs of where a tensor came from and the gradient it is seeded with."""

    def on_gradient(self, origin: "Origin", gradient: Any, lone: bool) -> None:
        """The gradient of what ``origin`` made is complete.

        ``lone``: it is the very tensor that ``on_rule`` was told of as what the only rule gave that leads there. That
        of a leaf may become its ``.grad``, without a copy: to keep its values, clone it; never change it in place.
        """

    def on_rule(self, node: "Node", position: int, gradient: Any, reduced: Any, reduction: Any) -> None:
        """The rule of input ``position`` gave ``gradient``; ``reduced`` is it after undoing a broadcast, if any.

        ``reduction`` says what was summed. Where the rule itself has summed, the two are one tensor.
        """

    def on_backward_end(self) -> None:
        """The backward is complete; not called when it raised."""

    def on_error(self, op: "Op", args: tuple[Any, ...], error: Exception) -> None:
        """``op`` raised ``error`` on ``args``."""

    def on_backward_error(self, origin: "Origin", error: Exception) -> None:
        """The backward raised ``error`` when it came to ``origin``."""

    def on_detach(self, tensor: "Tensor", detached: "Tensor", what: str) -> None:
        """``what``, as "detach()", has cut ``detached`` from the graph of ``tensor``."""

    def on_read(self, tensor: "Tensor", what: str) -> None:
        """``what``, as ".data" or "item()", gave the values of ``tensor``, which needs a gradient, without it."""

    def on_change(self, changed: "Sequence[torch.Tensor]", what: str) -> None:
        """``what``, as an in-place method, has changed the data of each tensor in ``changed``."""

    def on_step_begin(self, params: "Sequence[Tensor]", evaluates: bool = False) -> None:
        """An optimizer is about to change the data of ``params``.

        A step that ``evaluates`` runs forward and backward itself, several times, and changes them in between.
        """

    def on_step_end(self, params: "Sequence[Tensor]", what: str) -> None:
        """The step, ``what``, has changed them; not called when it raised."""
        self.on_change([param._data for param in params], what)

    def on_idle_step(self, params: "Sequence[Tensor]", what: str) -> None:
        """A step, ``what``, changed nothing: none of the ``params`` that the optimizer holds has a gradient."""

    def on_slip(self, what: str) -> None:
        """Something was called before what has to come first; ``what`` says so in words."""

    # What error messages ask.

    def backward_begun(self) -> tuple[int, str] | None:
        """The number of the backward that begins now, from 1, and the name of the graph that counts it."""
        return None

    def change_of(self, data: "torch.Tensor", seq: int) -> str | None:  # noqa: ARG002
        """What has changed ``data``, which the op ``seq`` saved, since that ran, and where."""
        return None

    def change_since_backward(self, data: "torch.Tensor") -> str | None:  # noqa: ARG002
        """What has changed ``data`` last since the last backward ended, and where."""
        return None

    def path_ends(self, data: "torch.Tensor") -> "tuple[Cut, ...]":  # noqa: ARG002
        """Where the paths of gradients end along which ``data`` were computed, from which no backward can start."""
        return ()


def tell(
    observers: tuple[Observer, ...],
    op: "Op",
    args: tuple[Any, ...],
    settings: dict[str, Any],
    result: Any,
    node: "Node | None",
) -> None:
    """Tell each observer that ``op`` has run, and first that it was recorded, if it was."""
    results = result if isinstance(result, tuple) else (result,)
    for observer in observers:
        if node is not None:
            observer.on_record(node, args, results[0])
        observer.on_result(op, args, settings, results, node)
