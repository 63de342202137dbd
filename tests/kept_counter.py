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

    Without those of ``parameters`` and of other leaves that get a gradient: they live in any case. The backward runs,
    because what it needs is what it frees: a node that it does not reach, as of a result in a cache, keeps the rest.
    The gradients are dropped.
    """
    owners = list(parameters)  # while they live, no other storage is at their addresses
    alive: WeakSet[_Packed] = WeakSet()

    def pack(tensor: torch.Tensor) -> _Packed:
        packed = _Packed(tensor.detach())
        alive.add(packed)
        return packed

    with saved_tensors_hooks(pack, lambda packed: packed.tensor):
        result = forward()
    assert result is not None
    roots = [one for one in (result if isinstance(result, tuple | list) else [result]) if one.requires_grad]
    owners += _leaves(roots)
    owned = {one.untyped_storage()._cdata for one in owners}
    before = [(id(one), one.tensor.untyped_storage()) for one in alive]
    _run_backward(roots, owners)
    left = {id(one) for one in alive}
    freed = {storage._cdata: storage.nbytes() for packed, storage in before if packed not in left}
    return sum([size for storage, size in freed.items() if storage not in owned])


def _run_backward(roots: list[torch.Tensor], leaves: list[torch.Tensor]) -> None:
    """Run the backward from ``roots``, which frees what it needs, and leave the ``.grad`` of the leaves as it was."""
    grads = [one.grad for one in leaves]
    for one in leaves:
        one.grad = None
    torch.autograd.backward(roots, [torch.ones_like(one) for one in roots])
    for one, grad in zip(leaves, grads, strict=True):
        one.grad = grad


def _leaves(roots: list[torch.Tensor]) -> set[torch.Tensor]:
    """The leaves that a backward from ``roots`` would give a gradient."""
    waiting: list[Any] = [one.grad_fn for one in roots]
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
