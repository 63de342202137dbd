"""The origin of a torch tensor: the ``Node`` or ``Output`` of an op that was recorded, or a ``Leaf``.

The origin of an op's result is kept in the metadata of torch's own node, ``grad_fn.metadata``. So it lives as long as
torch's graph does, and nothing of that graph is kept alive.
"""

from typing import Any
from weakref import ref

import torch
from torch.nn.parameter import is_lazy

from nbgrad.core.engine.node import Leaf, Node, Origin, TensorBase, next_seq, record_id

RawTensor = torch.Tensor
TENSORS: Any = (TensorBase, torch.Tensor)
KEY = "nbgrad"
"""The key under which the metadata of a node of torch's hold the ``Node`` of ours. Where it has several outputs, they
hold a dict of ``Output`` by number."""

_leaves: dict[int, tuple[Leaf, Any]] = {}
"""By the id of a torch tensor that no op made, its ``Leaf``, and a reference that drops it with the tensor."""


def node_of(made: Any, number: int) -> Any:
    """The origin of output ``number`` of ``made``, a node of torch's; None where it has none yet."""
    known = made.metadata.get(KEY)
    return known.get(number) if type(known) is dict else known


def owner_of(known: Any) -> Node:
    """The op whose ``Node``, or dict of ``Output``, is kept in the metadata of a node of torch's."""
    owner: Node = known if type(known) is Node else next(iter(known.values())).node
    return owner


def leaf_of(tensor: torch.Tensor) -> Leaf:
    """The leaf of a torch tensor that requires grad and that no op made."""
    key = id(tensor)
    known = _leaves.get(key)
    if known is not None and known[1]() is tensor:
        leaf: Leaf = known[0]
        if leaf.dtype is tensor.dtype and leaf.shape == shape_of(tensor):  # its data may have been replaced
            return leaf
    return _new_leaf(key, tensor)


def shape_of(tensor: torch.Tensor) -> Any:
    """The lengths of ``tensor``; that of a nested one which differs from row to row is -1."""
    if not tensor.is_nested:
        return tensor.shape
    if tensor.layout is torch.jagged:
        return torch.Size([one if type(one) is int else -1 for one in tensor.shape])
    return torch.Size([_length(tensor, dim) for dim in range(tensor.dim())])


def _length(tensor: torch.Tensor, dim: int) -> int:
    try:
        return tensor.size(dim)
    except RuntimeError:  # the rows have several lengths
        return -1


def _new_leaf(key: int, tensor: torch.Tensor) -> Leaf:
    def drop(gone: Any) -> None:
        held = _leaves.get(key)
        if held is not None and held[1] is gone:
            del _leaves[key]

    made = Leaf.__new__(Leaf)
    made.ref = ref(tensor)
    made.seq = next_seq()
    made.shape, made.dtype, made.device = shape_of(tensor), tensor.dtype, tensor.device
    made.name = None
    made.kind = kind_of(tensor)
    made.hooks = None
    _leaves[key] = (made, ref(tensor, drop))
    return made


def kind_of(tensor: Any) -> str:
    """The kind of ``tensor`` in a picture: "op", "parameter", "leaf" or "constant"."""
    if isinstance(tensor, TensorBase):
        return tensor.kind
    if isinstance(tensor, torch.nn.Parameter):
        return "parameter"
    if tensor.grad_fn is not None:
        return "op"
    return "leaf" if tensor.requires_grad else "constant"


def origin_of(tensor: Any) -> Origin | None:
    """The origin of ``tensor``, ours or torch's; None for a constant of torch's or the result of an unknown op."""
    if isinstance(tensor, TensorBase):
        origin: Origin = tensor.origin
        return origin
    found = known_origin(tensor)
    if found is not None or tensor.grad_fn is not None or not tensor.requires_grad or is_lazy(tensor):
        return found  # a lazy parameter has no shape yet
    return leaf_of(tensor)


def known_origin(tensor: Any) -> Origin | None:
    """The origin of ``tensor``, if an op that was seen used it or made it. No new origin is made."""
    if isinstance(tensor, TensorBase):
        own: Origin | None = tensor._origin
        return own
    raw = tensor  # the same object: compiled code knows the type of this name, so it needs no look-up
    made = raw.grad_fn
    if made is not None:
        found: Node | None = node_of(made, raw.output_nr)
        return found
    known = _leaves.get(id(tensor))
    return known[0] if known is not None and known[1]() is tensor else None


def known_id(tensor: Any) -> int | None:
    """The number under which a graph records ``tensor``; None where no op that was seen has used or made it."""
    origin = known_origin(tensor)
    return None if origin is None else record_id(origin)
