"""What was recorded: a node per op, and the leaf where a path of the graph ends.

References run from output to input only: a tensor holds its origin, a node holds its parents. There is no cycle, so a
graph that the user drops is gone at once, without the garbage collector.
"""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

from torch.utils.hooks import RemovableHandle

from nbgrad.core.hooks import Hooks, add

if TYPE_CHECKING:
    import torch

    from nbgrad.core.broadcast import Sums
    from nbgrad.core.caller import Place
    from nbgrad.core.plan import Plan
    from nbgrad.core.row import Op
    from nbgrad.core.tensor import Tensor

next_seq: Final = count(1).__next__
"""The next sequence number: an origin made later has a larger one, which is the order that backward walks in."""


class Freed:
    """Stands in ``Node.saved`` when a backward has released what the node had saved.

    Attributes:
        place: the line that called that backward.
        counted: the number that a graph gave that backward, and the graph's name; None where none was active.
    """

    __slots__ = ("counted", "place")

    def __init__(self, place: "Place", counted: tuple[int, str] | None) -> None:
        self.place = place
        self.counted = counted


class Deferred:
    """Stands in ``Node.saved`` for values that are computed again when a backward needs them."""

    __slots__ = ()

    def restore(self, node: "Node") -> Any:
        """Put back what ``node`` had saved, and return it."""
        raise NotImplementedError


class Vertex:
    """What every origin says of the gradient that it stands for.

    Attributes:
        seq: the sequence number.
        shape, dtype, device: of the gradient, which are those of the tensor; a node says more.
        hooks: the user's hooks, None where there are none.
    """

    __slots__ = ("__weakref__", "device", "dtype", "hooks", "seq", "shape")

    seq: int
    shape: "torch.Size"
    dtype: "torch.dtype"
    device: "torch.device | None"
    hooks: Hooks | None


class Steps:
    """What a backward does at a node.

    Attributes:
        rules: for each input that needs a gradient its position, its rule and the slots of ``Node.saved`` it takes.
            None is the rule that hands the gradient on as it is.
        joined: whether there is one rule for all inputs instead, ``joint``.
        keeps_values: whether the node saves tensors, which a backward frees.
        broadcasts: positions of the inputs whose gradients the engine sums down.
        sums: by position of an input that a rule gives a gradient summed over the output, what was summed.
    """

    __slots__ = ("broadcasts", "joined", "keeps_values", "rules", "sums")

    rules: tuple[tuple[int, Callable[..., Any] | None, tuple[int, ...]], ...]
    joined: bool
    keeps_values: bool
    broadcasts: frozenset[int]
    sums: "dict[int, Sums]"


class Node(Vertex):
    """One op that ran: what its rules need, and where its inputs came from.

    Attributes:
        op: the row of the table that ran.
        plan: which rules a backward runs, and what each takes from ``saved``.
        settings: the op's settings, defaults filled in.
        saved: the values that the rules named, nothing else; ``Freed`` after a backward,
            ``Deferred`` inside a checkpoint.
        versions: for each saved value torch's version counter when it was saved; None for what is no tensor.
        edges: the origin of each input that needs a gradient, None for the others.
        shape, dtype: of the differentiable output, the first one if there are several.
        device: of an output without dimensions, which mixes with tensors of any device; None where nobody has to ask.
        outputs: how many ``Output`` origins bring it gradients; 0 where the node itself is the origin of its tensor.
        place: the line of the user's that ran it; only there if somebody watched.
        changed: the view that it wrote into in place and that a rule wants to know; only there if there is one.
    """

    __slots__ = ("changed", "edges", "op", "outputs", "place", "plan", "saved", "settings", "versions")

    op: "Op"
    plan: "Plan"
    settings: dict[str, Any]
    saved: tuple[Any, ...] | Freed | Deferred
    versions: list[int | None]
    edges: "list[Origin | None]"
    outputs: int
    place: "Place"
    changed: Any

    @property
    def next_functions(self) -> "tuple[tuple[Node | Leaf | None, int], ...]":
        """For each input where a gradient goes on to, and which output that is there; (None, 0) for a constant."""
        return tuple([(edge.node, edge.index) if isinstance(edge, Output) else (edge, 0) for edge in self.edges])

    def __repr__(self) -> str:
        return f"<{self.op.name}>"

    def name(self) -> str:
        """The name of the op that ran."""
        return self.op.name

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of the user's own for this node."""
        return _METADATA.setdefault(self, {})

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` in each backward after the rules of this node have run.

        Both are tuples of ``Tensor`` or None. A tuple that the hook returns replaces ``grad_inputs``.
        """
        self.hooks = self.hooks or Hooks()
        return add(self.hooks.after, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` in each backward before the rules of this node run.

        It gets a tuple of ``Tensor`` or None; a tuple that it returns replaces it.
        """
        self.hooks = self.hooks or Hooks()
        return add(self.hooks.before, hook)


_METADATA: WeakKeyDictionary[Node, dict[str, Any]] = WeakKeyDictionary()


class Output(Vertex):
    """One output of an op that has several with a gradient; it leads to the op's node, where it fills a slot."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int, data: "torch.Tensor") -> None:
        self.node = node
        self.index = index
        self.seq = next_seq()
        self.shape = data.shape
        self.dtype = data.dtype
        self.device = data.device
        self.hooks = None

    @property
    def op(self) -> "Op":
        """The row that made it."""
        return self.node.op

    def __repr__(self) -> str:
        return f"<{self.node.op.name} output {self.index}>"


class Leaf(Vertex):
    """The end of a path: a tensor that no recorded op made, reached through a weak reference.

    It carries what the picture shows of the tensor, so that the record of a graph need not keep the tensor itself.
    """

    __slots__ = ("kind", "name", "ref")

    def __init__(self, tensor: "Tensor") -> None:
        self.ref = ref(tensor)
        self.seq = next_seq()
        self.shape = tensor.data.shape
        self.dtype = tensor.data.dtype
        self.device = tensor.data.device
        self.name: str | None = tensor.name
        self.kind = tensor.kind
        self.hooks = None

    @property
    def variable(self) -> "Tensor | None":
        """The tensor, as torch calls it; None when it is gone."""
        return self.ref()

    @property
    def next_functions(self) -> tuple[()]:
        """A path ends here: there are none."""
        return ()

    def stands_for(self, tensor: "Tensor") -> bool:
        """Whether it still is the leaf of its ``tensor``, which may have been frozen since or have got other data.

        All uses are to lead to one leaf, or the gradient of some would be lost. None leads to that of a constant.
        """
        data, kept = tensor.data, self.kind == tensor.kind or not tensor.requires_grad
        return kept and (self.shape, self.dtype, self.device) == (data.shape, data.dtype, data.device)

    def __repr__(self) -> str:
        return f"<leaf {self.name or tuple(self.shape)}>"


Origin = Node | Output | Leaf


def record_id(origin: Origin) -> int:
    """The number under which a graph records what ``origin`` made: an output goes by its op's."""
    return origin.node.seq if isinstance(origin, Output) else origin.seq
