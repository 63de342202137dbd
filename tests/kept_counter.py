"""A count of what torch keeps for a backward that nothing of nbgrad takes part in: torch asks a hook to pack it."""

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import torch
from torch.autograd.graph import saved_tensors_hooks


class _Packed:
    """It stands in a node for a tensor, and lives as long as the node needs the tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def counted(forward: Callable[[], Any], parameters: Iterable[torch.Tensor]) -> int:
    """The bytes that the backward of what ``forward`` returns needs, each storage once.

    Without those of ``parameters`` and of other leaves that get a gradient: they live in any case.
    """
    alive: WeakSet[_Packed] = WeakSet()

    def pack(tensor: torch.Tensor) -> _Packed:
        packed = _Packed(tensor.detach())
        alive.add(packed)
        return packed

    owned = {one.untyped_storage()._cdata for one in parameters}
    with saved_tensors_hooks(pack, lambda packed: packed.tensor):
        result = forward()
    sizes = {one.tensor.untyped_storage()._cdata: one.tensor.untyped_storage().nbytes() for one in alive}
    assert result is not None
    owned |= {leaf.untyped_storage()._cdata for leaf in _leaves(result)}
    return sum([size for storage, size in sizes.items() if storage not in owned])


def _leaves(result: Any) -> set[torch.Tensor]:
    """The leaves that a backward from ``result`` would give a gradient."""
    waiting: list[Any] = [one.grad_fn for one in (result if isinstance(result, tuple | list) else [result])]
    seen: set[Any] = set()
    found: set[torch.Tensor] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(node.variable)
        waiting += [one for one, _ in node.next_functions]
    return found
