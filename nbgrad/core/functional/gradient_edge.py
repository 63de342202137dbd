"""``GradientEdge``, the place where a gradient arrives, and one hook for the gradients of several tensors."""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.engine.backward import Walk, reachable
from nbgrad.core.engine.node import Leaf, Node, Output, raw_of
from nbgrad.core.engine.state import current
from nbgrad.core.tensor.filled import entered
from nbgrad.core.tensor.tensor import Tensor


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor arrives; ``grad`` and ``backward`` take one in place of the tensor.

    Attributes:
        node: the node of the op that made it, or its leaf.
        output_nr: which output of the node it is.
        ownership_token: a tensor whose gradient arrives at this place, and which has one element in memory.
    """

    node: "Node | Leaf"
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of ``tensor`` arrives: the edge keeps the graph, but not the memory of the tensor.

    Raises:
        RuntimeError: the tensor needs no gradient.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    origin = tensor.origin
    node, number = (origin.node, origin.index) if isinstance(origin, Output) else (origin, 0)
    return GradientEdge(node, number, _stand_in(origin, tensor.device))


def placed(value: Any) -> Any:
    """A tensor in the place of an edge; anything else as it is.

    Raises:
        RuntimeError: the edge was made by hand for one of several outputs.
    """
    if not isinstance(value, GradientEdge):
        return value
    if value.ownership_token is not None:
        return value.ownership_token
    if isinstance(value.node, Node) and value.node.outputs:
        raise RuntimeError(
            f"a GradientEdge made by hand names output {value.output_nr} of {value.node.op.name}, which has several: "
            "ask get_gradient_edge(tensor) for it"
        )
    return _stand_in(value.node, value.node.device)


def several(values: Any) -> list[Any]:
    """One tensor or edge, or each of several, as a list of tensors."""
    return [entered(placed(one)) for one in held(values)]


def held(values: Any) -> list[Any]:
    """One tensor or edge, or each of several."""
    return [values] if isinstance(values, Tensor | torch.Tensor | GradientEdge) else list(values)


def _stand_in(origin: Any, device: "torch.device | None") -> Tensor:
    """A tensor whose gradient arrives at ``origin``, with one element in memory."""
    return Tensor(torch.zeros((), dtype=origin.dtype, device=device).expand(origin.shape), True, origin)


def increment_version(tensor: "Tensor | torch.Tensor | Iterable[Tensor | torch.Tensor]") -> None:
    """Note that the memory of a tensor, or of each of several, was changed in place where torch does not see it.

    A backward that needs the values as they were is then an error.
    """
    tensors = (tensor,) if isinstance(tensor, Tensor | torch.Tensor) else tensor
    torch.autograd.graph.increment_version([raw_of(one) for one in tensors])


class _Handles(RemovableHandle):
    """Takes several hooks away at once."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Take all of them away."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn`` in each backward with the gradients of all ``tensors``, or with the first that is complete.

    Args:
        tensors: they need gradients; with ``mode="any"`` those that need none are left out.
        fn: gets a list with a gradient for each tensor, None for one that this backward does not come to; with
            ``mode="any"`` one gradient. It may not change them.
        mode: "all" waits until the last gradient that this backward comes to is complete.

    Returns:
        A handle whose ``remove()`` takes the hook away.

    Raises:
        ValueError: another mode.
        RuntimeError: a tensor needs no gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        first = _First(fn)
        return _Handles(tuple([one.register_hook(first) for one in tensors if one.requires_grad]))
    every = _Every(tensors, fn)
    return _Handles(tuple([one.register_hook(every.at(place)) for place, one in enumerate(tensors)]))


class _First:
    """Hands on the first gradient of each backward."""

    def __init__(self, fn: Callable[[Any], None]) -> None:
        self._fn, self._lock = fn, Lock()
        self._seen: WeakSet[Walk] = WeakSet()

    def __call__(self, gradient: Tensor) -> None:
        walk = current().walking
        assert isinstance(walk, Walk)
        with self._lock:
            seen = walk in self._seen
            self._seen.add(walk)
        if not seen:
            self._fn(gradient)


def _visited(walk: Walk) -> set[Any]:
    """The origins that a gradient may come to in a backward that runs."""
    found = set(reachable([origin for origin, _ in walk.roots]))
    return found if walk.useful is None else found & walk.useful


class _Every:
    """Collects the gradients of each backward, and hands them on when the last has come."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[[Any], None]) -> None:
        self._origins = [one.origin if one.requires_grad else None for one in tensors]
        self._fn, self._lock = fn, Lock()
        self._open: WeakKeyDictionary[Walk, tuple[int, list[Any]]] = WeakKeyDictionary()

    def at(self, place: int) -> Callable[[Tensor], None]:
        """The hook of one of the tensors."""

        def hook(gradient: Tensor) -> None:
            walk = current().walking
            assert isinstance(walk, Walk)
            with self._lock:
                if walk not in self._open:
                    visited = _visited(walk)
                    wanted = sum(origin in visited for origin in self._origins)
                    self._open[walk] = wanted, [None] * len(self._origins)
                left, gradients = self._open[walk]
                gradients[place] = gradient
                self._open[walk] = left - 1, gradients
                if left == 1:
                    del self._open[walk]
            if left == 1:
                self._fn(gradients)

        return hook
