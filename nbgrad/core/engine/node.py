"""The fields of a tensor, the nodes of the recorded graph, and the hooks on them.

References run from output to input only: a tensor holds its origin, a node holds its parents. There is no cycle, so a
dropped graph is freed at once, without the garbage collector.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.engine.broadcast import Sums, sum_to
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.tensor_data import told
from nbgrad.core.suggestions import kind_of


class TensorBase:
    """The fields of ``Tensor``, and the methods that the layers below it need. ``Tensor`` has all others.

    ``_alias`` is None, or says how the tensor shares its memory: ``tensor.views`` alone reads it.
    """

    __slots__ = ("__weakref__", "_alias", "_data", "_grad", "_needs_grad", "_origin", "name")

    _alias: Any
    _data: torch.Tensor
    _grad: "TensorBase | None"
    _needs_grad: bool
    _origin: Any
    name: str | None

    def __init__(self, data: torch.Tensor, requires_grad: bool = False, origin: Any = None) -> None:
        if not isinstance(data, torch.Tensor):
            raise TypeError(
                f"Tensor() wraps a torch tensor and was given a {type(data).__name__}: write nbgrad.tensor([1.0, 2.0]) "
                "for numbers, and nbgrad.empty(2, 3) for a shape"
            )
        self._data = data
        self._needs_grad = requires_grad
        self._origin = origin
        self._grad = None
        self._alias = None
        self.name = None

    # The layers below ``Tensor`` call these. ``Tensor`` overrides each.

    @property
    def data(self) -> torch.Tensor:
        """The torch tensor itself."""
        raise NotImplementedError

    @property
    def origin(self) -> Any:
        """The origin of the tensor: the node or the output of an op, or a leaf."""
        raise NotImplementedError

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made it; None for a leaf."""
        raise NotImplementedError

    @property
    def requires_grad(self) -> bool:
        """Whether a backward gives it a gradient."""
        raise NotImplementedError

    @property
    def is_leaf(self) -> bool:
        """Whether the user made it, not a recorded op."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of its box in the picture."""
        raise NotImplementedError


def raw_of(value: Any) -> Any:
    """The torch tensor that ``value`` wraps; any other object unchanged."""
    return value._data if isinstance(value, TensorBase) else value


Table = OrderedDict[int, Callable[..., Any]]


class Hooks:
    """The hooks of one origin; made when the first is registered, so that an origin without hooks costs nothing.

    Attributes:
        gradient: run on the gradient of a tensor when it is complete; each may replace it.
        before: run on the gradients of a node's outputs before its rules.
        after: run on the gradients that the rules of a node gave, and those of its outputs.
        accumulated: run on a leaf after its ``.grad`` has been written.
        retained: the tensor that asked to keep this gradient as its ``.grad``, weakly.
        reducer: the object that reduces the gradient of a leaf over several processes, and the number of the leaf
            there.
    """

    __slots__ = ("accumulated", "after", "before", "gradient", "reducer", "retained")

    def __init__(self, retained: Any = None) -> None:
        self.gradient: Table = OrderedDict()
        self.before: Table = OrderedDict()
        self.after: Table = OrderedDict()
        self.accumulated: Table = OrderedDict()
        self.retained: ref[Any] | None = None if retained is None else ref(retained)
        self.reducer: tuple[Reducer, int] | None = None


class Reducer:
    """Reduces the gradients of leaves over several processes, while the backward that computes them still runs.

    ``Hooks.reducer`` says which one a leaf has. A backward that only returns gradients, and writes no ``.grad``, does
    not ask it.
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        number = id(self)
        REDUCERS[number] = ref(self, lambda _: REDUCERS.pop(number, None))

    def hurries(self) -> bool:
        """Whether the next backward should bring each gradient when it is complete, not when all rules have run."""
        raise NotImplementedError

    def take(self, number: int, gradient: Any, walk: Any) -> None:
        """Take the complete gradient of leaf ``number``, after the hooks on it; called once per backward."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when all that was begun is done; called when the last rule has run, before any ``.grad`` is written.

        Raises:
            RuntimeError: the reduction failed. Every ``.grad`` stays as it was.
        """
        raise NotImplementedError

    def put(self, number: int, tensor: Any) -> bool:
        """Write the reduced gradient of leaf ``number`` to the ``.grad`` of ``tensor``.

        Args:
            number: the number of the leaf.
            tensor: the leaf's tensor.

        Returns:
            Whether it has written it. If not, the caller adds the gradient of this process to the ``.grad``.
        """
        raise NotImplementedError

    def end(self) -> None:
        """Finish, when every ``.grad`` has been written."""
        raise NotImplementedError

    def abandon(self, error: BaseException) -> None:
        """Give up: ``error`` has ended the backward. It must raise nothing of its own."""
        raise NotImplementedError


REDUCERS: "dict[int, ref[Reducer]]" = {}
"""Every reducer that there is, by its id."""


def in_a_hurry() -> bool:
    """Whether there is a reducer that wants gradients early."""
    alive = [one() for one in list(REDUCERS.values())]
    return any(one is not None and one.hurries() for one in alive)


def add(table: Table, hook: Callable[..., Any]) -> RemovableHandle:
    """Put ``hook`` in ``table``; its handle takes it out again with ``remove()`` or at the end of a ``with`` block."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def run_before(node: "Node", table: Table, gradient: Any, create_graph: bool) -> Any:
    """Run the prehooks of a node; return the gradients of its outputs."""
    several = isinstance(gradient, list)
    given = gradient if several else [gradient]
    for hook in list(table.values()):
        given = _replaced(node, "prehook", hook(_lifted(node, given)), given, create_graph=create_graph)
    return given if several else given[0]


def run_after(
    node: "Node", table: Table, gradient: Any, given: list[tuple[int, Any]], create_graph: bool
) -> list[tuple[int, Any]]:
    """Run the hooks of a node; return the gradients of its inputs by position."""
    outputs = _lifted(node, gradient if isinstance(gradient, list) else [gradient])
    found = dict(given)
    before = results = [_summed(found.get(position), edge) for position, edge in enumerate(node.edges)]
    for hook in list(table.values()):
        results = _replaced(node, "hook", hook(_lifted(node, results), outputs), results, create_graph=create_graph)
    if results is before:
        return given  # not summed: the engine sums them itself, and the picture shows these sums
    return [(position, one) for position, one in enumerate(results) if one is not None and node.edges[position]]


def _summed(given: Any, edge: Any) -> Any:
    """The result of a rule in the shape of the input, as hooks get it."""
    if given is None or edge is None or given.shape == edge.shape:
        return given
    return sum_to(given, given.shape, edge.shape)


def run_accumulated(table: Table, tensor: Any) -> None:
    """Run the hooks of a leaf whose ``.grad`` has been written."""
    for hook in list(table.values()):
        if hook(tensor) is not None:
            raise RuntimeError(
                "a hook of register_post_accumulate_grad_hook() returned a value: it has to return None, and may "
                "change tensor.grad in place"
            )


def check_alike(kind: str, returned: Any, gradient: Any) -> None:
    """Raise unless a hook has ``returned`` a tensor that can replace ``gradient``.

    Raises:
        RuntimeError: ``returned`` has another shape or element type, or is no tensor.
    """
    got = told("a tensor", returned._data) if isinstance(returned, TensorBase) else kind_of(returned)
    if got != (wanted := told("a tensor", gradient.data)):
        raise RuntimeError(f"{kind} must return None or {wanted}, not {got}")


def _lifted(node: "Node", gradients: list[Any]) -> tuple[Any, ...]:
    return tuple(None if one is None else node.plan.lift(one) for one in gradients)


def _replaced(node: "Node", kind: str, returned: Any, given: list[Any], *, create_graph: bool) -> list[Any]:
    """The result of a hook, or ``given`` if that is None; raw tensors unless the backward records itself."""
    if returned is None:
        return given
    new = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(new) != len(given):
        raise RuntimeError(
            f"a {kind} of {node.op.name} returned {len(new)} gradients, but it was given {len(given)}: "
            "return a tuple with one for each, or None to leave them as they are"
        )
    for one, gradient in zip(new, given, strict=True) if kind == "prehook" else ():
        if one is not None and gradient is not None:
            check_alike(f"a prehook of {node.op.name}", one, gradient)
    return [one if one is None or create_graph else one.data for one in new]


_numbers = count(1)


def next_seq() -> int:
    """The next sequence number. An origin made later has a larger one; a backward visits the largest first."""
    return next(_numbers)


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
        """Restore the saved values of ``node``, and return them."""
        raise NotImplementedError

    def held(self) -> list[tuple[str, Any]]:
        """List what it holds until then, each object with the name of the value it is for; nothing is restored."""
        return []


class Vertex:
    """Base of the origins: the facts about the gradient of one tensor.

    Attributes:
        seq: the sequence number.
        shape, dtype, device: of the gradient, which are those of the tensor; ``Node`` says what they are there.
        hooks: the user's hooks, None where there are none.
    """

    __slots__ = ("__weakref__", "device", "dtype", "hooks", "seq", "shape")

    @property
    def reference(self) -> "ref[Any]":
        """A weak reference to it."""
        return ref(self)

    seq: int
    shape: "torch.Size"
    dtype: "torch.dtype"
    device: "torch.device | None"
    hooks: Hooks | None


class Rule(NamedTuple):
    """The rule that computes the gradient of one input from the gradient of the output.

    Attributes:
        function: takes the gradients of the outputs, and then what ``needs`` names. A joint rule has one more parameter
            between these, ``needed``: it says which inputs need a gradient.
        needs: the parameters of the function after the gradients.
        formula: LaTeX.
        outputs: positions of the outputs whose gradients it names; None for the one gradient ``g``.
        joint: whether one call gives the gradients of all inputs.
        kernel: the kernel, if the function only calls one with its own arguments; otherwise None.
    """

    function: Callable[..., Any]
    needs: tuple[str, ...]
    formula: str
    outputs: tuple[int, ...] | None = None
    joint: bool = False
    kernel: Callable[..., Any] | None = None


def identity(g: Any) -> Any:
    """The kernel of a rule that returns the gradient as it is. A backward need not call it."""
    return g


INFO = (
    *("arity", "broadcasts", "defaults", "differentiable", "doc", "formula", "forward", "inputs", "listed", "live"),
    *("many", "name", "no_gradient", "optional", "required", "results", "rules", "several", "shown", "stretched"),
    *("sums", "variadic"),
)
"""The attributes of an ``OpInfo`` that are fields of C's in compiled code: node.pxd declares them."""


class OpInfo:
    """The facts about an op that need no run of it. A row of the table has them, and so has a ``Function``.

    Attributes:
        name: torch's name of the op.
        forward: the function on raw torch tensors: the decorated one, or the kernel that it names; a ``Function`` has
            none.
        doc: its docstring.
        formula: LaTeX of the forward.
        inputs: names of the tensor inputs, in order.
        optional: how many of the last inputs may be left out.
        defaults, required: the settings with their default values, and the names of those that have none.
        variadic: the setting that takes all remaining positional arguments; None for most ops.
        results: the names of the results of the forward; empty for an op with ``many`` outputs.
        shown: how many of ``results`` the caller gets; the others are only saved for rules.
        live: positions of the outputs that have a gradient.
        many: whether the forward returns a tuple of any length, whose tensors all have a gradient.
        several: whether the rules take the gradients of several outputs, or of another than the first.
        listed: the name of the input that is a list of tensors, None for most ops.
        arity: the number of inputs; -1 where a list may have any length: then ``of(length)`` is the row that runs.
        stretched, broadcasts: the names and the positions of the inputs that the op broadcasts, whose gradients the
            engine sums down.
        sums: for an input whose gradient a fused rule returns already summed: a function that returns the ``Reduction``
            that describes this sum.
        differentiable: False for an op whose result is piecewise constant or no floating point number.
        no_gradient: inputs that never get a gradient, such as a target of class numbers.
        rules: the gradient rule of each input.
    """

    name: str
    forward: Callable[..., Any]
    doc: str
    formula: str
    inputs: tuple[str, ...]
    optional: int
    defaults: dict[str, Any]
    required: frozenset[str]
    variadic: str | None
    results: tuple[str, ...]
    shown: int
    live: tuple[int, ...]
    many: bool
    several: bool
    listed: str | None
    arity: int
    stretched: frozenset[str]
    broadcasts: frozenset[int]
    sums: "dict[str, Sums]"
    differentiable: bool
    no_gradient: tuple[str, ...]
    rules: dict[str, Rule]

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run the op."""
        raise NotImplementedError

    @property
    def module(self) -> str:
        """The module of the op table where the row stands, such as ``linalg.matmul``; for other ops the full name."""
        found = getattr(getattr(self, "__wrapped__", getattr(self, "forward", None)), "__module__", None)
        return (found or "").removeprefix("nbgrad.core.ops.")

    def of(self, count: int) -> "OpInfo":
        """The row that runs an op of a list on ``count`` tensors."""
        raise NotImplementedError

    def other_names(self) -> dict[str, str]:
        """The other names of the arguments, each with the op's own."""
        raise NotImplementedError

    def is_list(self, name: str) -> bool:
        """Whether a rule gets a tuple for this name: the list of tensors, or a fact about each of them."""
        return self.listed is not None and name.removeprefix(self.listed) in {"", "_shape", "_device", "_others"}

    def expanded(self, name: str, wanted: Sequence[int]) -> list[str]:
        """The names of the single values that a name in a rule stands for: for a list of tensors, one name for each.

        ``wanted``: the positions of the inputs that need a gradient.
        """
        if self.listed is None or not self.is_list(name):
            return [name]
        members = [input for input in self.inputs if input.startswith(f"{self.listed}[")]
        what = name.removeprefix(self.listed)
        if what == "_others":  # the rule of a single input reads its history, not its values
            alone = {self.inputs[wanted[0]]} if len(wanted) == 1 else set()
            return [f"{member}_path" if member in alone else member for member in members]
        return [f"{member}{what}" for member in members]

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Steps:
    """The steps of a backward at a node.

    Attributes:
        rules: for each input that needs a gradient its position, its rule and the slots of ``Node.saved`` it takes.
            None is the rule that passes the gradient on unchanged.
        joined: whether there is one rule for all inputs instead, ``joint``.
        keeps_values: whether the node saves tensors, which a backward frees.
        broadcasts: positions of the inputs whose gradients the engine sums down.
        sums: by position of an input whose gradient a rule returns already summed: a function that returns the
            ``Reduction`` that describes this sum.
        saved_names: the names of the saved values, slot by slot.
    """

    __slots__ = ("broadcasts", "joined", "keeps_values", "rules", "saved_names", "sums")

    rules: tuple[tuple[int, Callable[..., Any] | None, tuple[int, ...]], ...]
    joined: bool
    keeps_values: bool
    broadcasts: frozenset[int]
    sums: "dict[int, Sums]"
    saved_names: tuple[str, ...]

    foreign = False
    """Whether the rules are code of the user's, which may hold the gradients that it sees or gives."""

    def joint(self, gradient: Any, needed: tuple[bool, ...], *saved: Any) -> Any:
        """The gradients of all inputs, by position, from the one rule where the plan is ``joined``."""
        raise NotImplementedError

    def unpack(self, node: "Node", saved: tuple[Any, ...], gradient: Any) -> list[Any]:
        """The ``saved`` values of ``node`` as tensors with their history, for a backward that is itself recorded."""
        raise NotImplementedError

    def lift(self, value: Any) -> Any:
        """A gradient as a ``Tensor``."""
        raise NotImplementedError


class Node(Vertex):
    """One op that has run, with the values that its rules need and the origins of its inputs.

    Attributes:
        op: the row of the table that ran.
        plan: which rules a backward runs, and what each takes from ``saved``.
        settings: the op's settings, defaults filled in.
        saved: the values that the rules named, nothing else; ``Freed`` after a backward,
            ``Deferred`` inside a checkpoint.
        versions: for each saved value torch's version counter when it was saved; None if it is no tensor.
        edges: the origin of each input that needs a gradient, None for the others.
        shape, dtype: of the differentiable output, the first one if there are several.
        device: the device of an output without dimensions, which mixes with tensors of any device; otherwise None.
        outputs: the number of ``Output`` origins that bring it gradients; 0 if the node itself is the origin of its
            tensor.
        place: the user's line that ran it; missing if no observer was active.
        changed: the view into which it wrote in place, if a rule needs that view; otherwise missing.
        direct: for an op of torch's that the table does not have: whether torch gives a gradient to each of ``edges``
            and to no other origin.
        tapped: for a node that stands for an op of torch's: 0 if torch does not report the gradients that arrive there.
            Otherwise n + 1, where the first n inputs get the arriving gradient unchanged.
        past: what the closed graph that recorded it still tells of it; missing if there is none.
    """

    __slots__ = (
        *("changed", "direct", "edges", "op", "outputs", "past", "place", "plan", "saved", "settings", "tapped"),
        "versions",
    )

    op: OpInfo
    plan: Steps
    settings: dict[str, Any]
    saved: tuple[Any, ...] | Freed | Deferred
    versions: list[int | None]
    edges: "list[Origin | None]"
    outputs: int
    place: "Place"
    changed: Any
    direct: bool
    tapped: int
    past: Any

    @property
    def next_functions(self) -> "tuple[tuple[Node | Leaf | None, int], ...]":
        """For each input, the node that gets its gradient, and the number of its output; (None, 0) for a constant."""
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
    """One of several outputs of an op that have gradients. It leads to the node of the op, and fills a slot there."""

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
    def op(self) -> OpInfo:
        """The row that made it."""
        return self.node.op

    def __repr__(self) -> str:
        return f"<{self.node.op.name} output {self.index}>"


class Leaf(Vertex):
    """The end of a path: a tensor that no recorded op made, reached through a weak reference.

    It has the facts that the picture shows, so the record of a graph need not keep the tensor itself.
    """

    __slots__ = ("kind", "name", "ref")

    def __init__(self, tensor: "TensorBase") -> None:
        self.ref: ref[Any] = ref(tensor)
        self.seq = next_seq()
        self.shape = tensor.data.shape
        self.dtype = tensor.data.dtype
        self.device = tensor.data.device
        self.name: str | None = tensor.name
        self.kind = tensor.kind
        self.hooks = None

    @property
    def variable(self) -> Any:
        """The tensor, as torch calls it; None when it is gone."""
        return self.ref()

    @property
    def next_functions(self) -> tuple[()]:
        """A path ends here: there are none."""
        return ()

    def stands_for(self, tensor: "TensorBase") -> bool:
        """Whether this is still the leaf of ``tensor``, which may have been frozen since, or may have other data.

        All uses must lead to one leaf, or the gradient of some would be lost. No use leads to the leaf of a constant.
        """
        data, kept = tensor.data, self.kind == tensor.kind or not tensor.requires_grad
        return kept and (self.shape, self.dtype, self.device) == (data.shape, data.dtype, data.device)

    def __repr__(self) -> str:
        return f"<leaf {self.name or tuple(self.shape)}>"


Origin = Node | Output | Leaf


def record_id(origin: Origin) -> int:
    """The number under which a graph records the result of ``origin``: all outputs of an op have the op's number."""
    return origin.node.seq if isinstance(origin, Output) else origin.seq
