"""The storages that the nodes of a graph keep for its backward; the reading of nbgrad's own nodes.

``core.recorder.kept`` reads those of torch. Nothing here computes, copies a tensor, or calls a function of the user's.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.node import Deferred, Leaf, Node, Origin, Output, TensorBase, raw_of


class Holding(NamedTuple):
    """A storage that an op keeps for its backward.

    Attributes:
        op: the number of the op.
        name: the name of the value that lies in it: of an input, of a result, or as torch calls it.
        storage: identifies the storage while it exists.
        size: its bytes.
        maker: the number of the op that made it; 0 if no op did, or if that is not known.
        aside: whether the rule of a ``Function`` holds it as an attribute of ``ctx``, so that no hook packs it.
    """

    op: int
    name: str
    storage: int
    size: int
    maker: int
    aside: bool = False


class Owned(NamedTuple):
    """The storage of a parameter, or of another leaf.

    Attributes:
        leaf: the number of the leaf; 0 for a frozen parameter.
        size: its bytes.
        held: the bytes of the ``.grad`` that it had before the backward.
    """

    leaf: int
    size: int
    held: int


class Reading:
    """The storages that the nodes below some roots keep at one moment.

    Attributes:
        kept: the storages that ops keep; one per op and value.
        owned: the storages of the leaves, by storage. Leaves exist without a backward, so nothing keeps them for it.
        ops: the numbers of the ops that were read.
        hidden: the numbers of ops with a node that does not show what it keeps.
        makers: for the nodes of torch's graphs inside of ops of nbgrad's, the number of the op that made the result.
    """

    __slots__ = ("hidden", "kept", "makers", "ops", "owned")

    def __init__(self) -> None:
        self.makers: dict[Any, int] = {}
        self.kept: list[Holding] = []
        self.owned: dict[int, Owned] = {}
        self.ops: set[int] = set()
        self.hidden: set[int] = set()

    def own(self, tensor: Any, leaf: int) -> None:
        """Note ``tensor`` as a leaf, or as a frozen parameter."""
        data = raw_of(tensor)
        grad = raw_of(tensor.grad) if leaf else None
        for storage, size in storages_of(data):
            known = self.owned.get(storage)
            if known is None or not known.leaf:
                held = 0 if grad is None else sum(one for _, one in storages_of(grad))
                self.owned[storage] = Owned(leaf, size, held)

    def keep(self, op: int, name: str, value: Any, maker: int, *, aside: bool = False) -> None:
        """Note that ``op`` keeps the tensors in ``value``."""
        for tensor in tensors_in(value):
            held = tensor._base if isinstance(tensor, torch.Tensor) and tensor._is_view() else tensor
            if isinstance(held, torch.nn.Parameter) or (isinstance(held, TensorBase) and held.kind == "parameter"):
                self.own(held, 0)
            for storage, size in storages_of(raw_of(tensor)):
                self.kept.append(Holding(op, name, storage, size, maker, aside))


class InnerGraph:
    """Stands in ``Node.saved`` for a graph of torch's that was recorded for this op alone."""

    __slots__ = ()

    def keep(self, node: Node, found: Reading) -> None:
        """Add what the graph keeps to ``found``, as kept by ``node``."""
        raise NotImplementedError


def storages_of(data: Any) -> list[tuple[int, int]]:
    """The storages behind ``data``, each with its bytes: several for a sparse tensor or a wrapper of other tensors."""
    try:
        storage = data.untyped_storage()
        return [(storage._cdata, storage.nbytes())]
    except (RuntimeError, NotImplementedError, AttributeError):
        return [found for part in _parts_of(data) for found in storages_of(part)]


def _parts_of(data: Any) -> list[torch.Tensor]:
    """The plain tensors that a sparse or wrapping tensor is made of."""
    if not isinstance(data, torch.Tensor):
        return []
    if data.layout is torch.sparse_coo:
        return [data._indices(), data._values()]
    if data.layout in _COMPRESSED:
        rows = data.layout in (torch.sparse_csr, torch.sparse_bsr)
        indices = [data.crow_indices(), data.col_indices()] if rows else [data.ccol_indices(), data.row_indices()]
        return [*indices, data.values()]
    flat = getattr(type(data), "__tensor_flatten__", None)
    return [] if flat is None else [getattr(data, name) for name in flat(data)[0]]


_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors, ours and torch's, in ``value`` and in the tuples, lists and dicts there."""
    stack, seen = [value], set[int]()
    while stack:
        one = stack.pop()
        if isinstance(raw_of(one), torch.Tensor):
            yield one
        elif isinstance(one, tuple | list | dict) and id(one) not in seen:  # a list may hold itself
            seen.add(id(one))
            stack += one.values() if isinstance(one, dict) else one


def kept_below(roots: Iterable[Origin]) -> Reading:
    """Read what nbgrad's own nodes below ``roots``, themselves included, keep."""
    found, waiting, seen = Reading(), list(roots), set[Origin]()
    while waiting:
        origin = waiting.pop()
        if origin in seen:
            continue
        seen.add(origin)
        if isinstance(origin, Leaf):
            tensor = origin.ref()
            if tensor is not None and tensor.requires_grad:
                found.own(tensor, origin.seq)
        elif isinstance(origin, Output):
            waiting.append(origin.node)
        else:
            waiting += [edge for edge in origin.edges if edge is not None]
            _read(origin, found)
    return found


def _read(node: Node, found: Reading) -> None:
    """Add what ``node`` keeps to ``found``."""
    found.ops.add(node.seq)
    saved: Any = node.saved
    if isinstance(saved, Deferred):
        for name, value in saved.held():
            found.keep(node.seq, name, value, 0)
    elif isinstance(saved, tuple):
        for name, value in zip(node.plan.saved_names, saved, strict=False):
            if isinstance(value, InnerGraph):
                value.keep(node, found)
            elif name == "ctx":  # what the user's ``Function`` has put on it
                for attribute, held in vars(value).items():
                    if not attribute.startswith("_"):
                        found.keep(node.seq, attribute, held, node.seq, aside=True)
            elif value is not None:
                found.keep(node.seq, name, value, _maker(node, name))


def _maker(node: Node, name: str) -> int:
    """The number of the op that made the value that ``node`` saved as ``name``; 0 if no op did."""
    op = node.op
    if name not in op.inputs:
        return maker_of(node)
    position = op.inputs.index(name)
    return maker_of(node.edges[position] if position < len(node.edges) else None)


def maker_of(origin: Origin | None) -> int:
    """The number of the op that made the storage of the tensor with this ``origin``; 0 if no op did."""
    if origin is None or isinstance(origin, Leaf):
        return 0
    node = origin.node if isinstance(origin, Output) else origin
    while getattr(node.op, "view", False) and node.edges and isinstance(node.edges[0], Node):
        node = node.edges[0]
    return node.seq
