"""What was recorded: a node per op, and the leaf where a path of the graph ends.

References run from output to input only: a tensor holds its origin, a node holds its parents. There is no cycle, so a
graph that the user drops is gone at once, without the garbage collector.
"""

from itertools import count
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    import torch

    from nbgrad.core.op import Op, Plan
    from nbgrad.core.tensor import Tensor

next_seq: Final = count(1).__next__
"""The next sequence number: an origin made later has a larger one, which is the order that backward walks in."""


class Freed:
    """Stands in ``Node.saved`` when a backward has released what the node had saved."""

    __slots__ = ()


FREED: Final = Freed()


class Node:
    """One op that ran: what its rules need, and where its inputs came from.

    Attributes:
        op: the row of the table that ran.
        plan: which rules a backward runs, and what each takes from ``saved``.
        settings: the op's settings, defaults filled in.
        saved: the values that the rules named, nothing else; ``FREED`` after a backward.
        versions: for each saved tensor its slot in ``saved`` and torch's version counter when it was saved.
        edges: the origin of each input that needs a gradient, None for the others.
        seq: the sequence number.
        shape, dtype, device: of the differentiable output.
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "edges",
        "op",
        "plan",
        "saved",
        "seq",
        "settings",
        "shape",
        "versions",
    )

    op: "Op"
    plan: "Plan"
    settings: dict[str, Any]
    saved: tuple[Any, ...] | Freed
    versions: tuple[tuple[int, int], ...]
    edges: "tuple[Origin | None, ...]"
    seq: int
    shape: "torch.Size"
    dtype: "torch.dtype"
    device: "torch.device"

    def __repr__(self) -> str:
        return f"<{self.op.name}>"


class Leaf:
    """The end of a path: a tensor that no recorded op made, reached through a weak reference.

    It carries what the picture shows of the tensor, so that the record of a graph need not keep the tensor itself.
    """

    __slots__ = ("__weakref__", "device", "dtype", "kind", "name", "ref", "seq", "shape")

    def __init__(self, tensor: "Tensor") -> None:
        self.ref = ref(tensor)
        self.seq = next_seq()
        self.shape = tensor.data.shape
        self.dtype = tensor.data.dtype
        self.device = tensor.data.device
        self.name: str | None = tensor.name
        self.kind = tensor.kind

    def __repr__(self) -> str:
        return f"<leaf {self.name or tuple(self.shape)}>"


Origin = Node | Leaf
