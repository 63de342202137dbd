"""The nodes of torch's graph that no call seen here has made: of a ``Function``, of C++, of a scripted part."""

import re
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.nn.parameter import is_lazy

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.function_calls import note_torch_call
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Origin, Output, next_seq
from nbgrad.core.engine.observer import torch_followers
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import State, outwards
from nbgrad.core.engine.torch_origins import KEY, leaf_of, origin_of, owner_of
from nbgrad.core.recorder.functions import unlisted

_functions: Any = torch._C._functions
ACCUMULATES = _functions.AccumulateGrad
_TENSOR, _PARAMETER = torch.Tensor, torch.nn.Parameter


def origin_in(tensor: torch.Tensor, state: State) -> Origin | None:
    """The origin of ``tensor``; None if it needs no gradient. An unknown op of torch's becomes known by this."""
    made: Any = tensor.grad_fn
    if made is None:
        return _leaf(tensor, state) if tensor.requires_grad else None
    metadata = made.metadata
    known = metadata.get(KEY)
    if known is None:
        adopt(made, state)
        known = metadata[KEY]
    return known if type(known) is Node else _output(made, tensor.output_nr)


def named(inputs: Any) -> list[Origin]:
    """The origins of the ``inputs`` that a backward was given, tensors or edges, as far as they are known."""
    tensors = [one if isinstance(one, torch.Tensor) else getattr(one[0], "variable", None) for one in inputs]
    found = [None if one is None else origin_of(one) for one in tensors]
    return [one for one in found if one is not None]


def _leaf(tensor: torch.Tensor, state: State) -> Leaf | None:
    """The leaf of ``tensor``. The leaf of a parameter has the name of the parameter in a module around."""
    kind: Any = type(tensor)
    if kind is not _TENSOR and kind is not _PARAMETER and is_lazy(tensor):
        return None  # it has no shape yet
    leaf = leaf_of(tensor)
    if leaf.name is None and leaf.kind == "parameter":
        leaf.name = _attribute(tensor, state)
    return leaf


def _attribute(tensor: torch.Tensor, state: State) -> str | None:
    modules: list[Any] = [scope.module() for scope in outwards(state.scope) if isinstance(scope, ModuleScope)]
    for module in modules:
        for name, one in getattr(module, "_parameters", {}).items():
            if one is tensor:
                return str(name)
    # A tensor that a compiled module or a checkpoint uses belongs to a module inside.
    for module in modules if isinstance(tensor, torch.nn.Parameter) else ():
        for name, one in module.named_parameters() if hasattr(module, "named_parameters") else ():
            if one is tensor:
                return str(name).removeprefix("_orig_mod.")
    return None


def adopt(root: Any, state: State, name: str = "", out: torch.Tensor | None = None) -> None:
    """Notify the observers of torch's node ``root`` and all unknown nodes that lead to it.

    Args:
        root: the node of torch's.
        state: the state whose observers are notified.
        name: of the op that it is; default: the one that torch's name of the node says.
        out: the result, if the user's line that runs has just made it.
    """
    waiting = [root]
    entered = {root}
    while waiting:
        made = waiting[-1]
        if KEY in made.metadata:
            waiting.pop()
            continue
        nexts = [one for one, _ in made.next_functions if one is not None and not isinstance(one, ACCUMULATES)]
        unknown = [one for one in nexts if KEY not in one.metadata and one not in entered]
        if unknown:
            entered.update(unknown)
            waiting += unknown
            continue
        waiting.pop()
        _adopt(made, state, *((name, out) if made is root else ("", None)))


def _adopt(made: Any, state: State, name: str, out: torch.Tensor | None) -> None:
    edges: list[Any] = []
    for one, number in made.next_functions:
        if one is None:
            continue
        origin = _leaf(one.variable, state) if isinstance(one, ACCUMULATES) else _output(one, number)
        if origin is not None:
            edges.append(origin)
    facts = made._input_metadata
    node = Node.__new__(Node)
    node.op = unlisted(name, max(1, len(edges))) if name else _op(made.name(), len(edges), len(facts) > 1)
    node.settings = node.op.defaults
    node.edges = edges
    node.hooks = node.plan = node.saved = None  # type: ignore[assignment]  # its rule is torch's
    node.direct = _is_torchs(made)  # it has the edges of torch's node
    node.tapped = 0
    node.place = None  # type: ignore[assignment]  # its line is not known
    node.seq = next_seq()
    node.outputs = len(facts) if len(facts) > 1 else 0
    node.shape, node.dtype, node.device = torch.Size(), torch.float32, None
    if facts:
        node.shape, node.dtype, node.device = _sizes_in(facts[0]), facts[0].dtype, facts[0].device
    if isinstance(made, BackwardCFunction):
        note_torch_call(node, made)
    made.metadata[KEY] = (
        {number: output_like(node, number, fact) for number, fact in enumerate(facts)} if node.outputs else node
    )
    for observer in torch_followers(state.observers):
        observer.on_torch_record(node, (), out)


_MOST = 32
"""The largest number of torch's nodes that ``is_direct`` follows."""


def is_direct(made: Any, edges: list[Any]) -> bool:
    """Whether an op gives a gradient to each of its ``edges``, and to no other.

    Its nodes are ``made``, torch's node of its result, and those after it that belong to no other op.
    """
    wanted = {origin for origin in edges if origin is not None}
    reached = set()
    inner = [made]
    for one in inner:
        if not _is_torchs(one) or len(inner) > _MOST:
            return False
        for after, number in one.next_functions:
            found = None if after is None else edge_end(after, number)
            if found is not None:
                if found not in wanted:
                    return False
                reached.add(found)
            elif after is not None and after not in inner:
                inner.append(after)  # the loop goes on to it
    return len(reached) == len(wanted)


def edge_end(after: Any, number: int) -> Any:
    """The origin at which an edge of torch's graph ends. None if it ends at a node inside of an op."""
    if type(after) is ACCUMULATES:
        return leaf_of(after.variable)
    known = after.metadata.get(KEY)
    return known.get(number, after) if type(known) is dict else known


def _is_torchs(made: Any) -> bool:
    """Whether torch's own C++ runs at ``made``, which leaves none of its edges out; a ``Function`` may.

    Torch makes the classes of these nodes from its list of derivatives, and numbers them.
    """
    kind = type(made)
    known = _TORCHS.get(kind)
    if known is None:
        known = _TORCHS[kind] = _NUMBERED.fullmatch(kind.__name__) is not None
    return known


_TORCHS: dict[type, bool] = {}
"""For each class of torch's nodes that was met, the answer of ``_is_torchs``."""

_NUMBERED = re.compile(r"[A-Za-z0-9_]*Backward[0-9]+")


def _op(name: str, count: int, several: bool) -> OpInfo:
    """The op of which ``name`` is the gradient: ``addmm`` for ``AddmmBackward0``; a ``Function`` has its own op."""
    bare = name.rstrip("0123456789").removesuffix("Backward") or name
    if bare != name.rstrip("0123456789") and name[-1:].isdigit():
        bare = _WORDS.sub("_", bare).lower()
        row = OPS.get(bare)
        if row is not None and row.arity == count and row.several == several:
            return row
    return unlisted(bare.rpartition("::")[2], max(1, count), several)


_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _output(made: Any, number: int) -> Any:
    """The origin of output ``number`` of the node ``made``; a new one if this output was never used before."""
    known = made.metadata.get(KEY)
    if type(known) is not dict:
        return known
    if number not in known:
        known[number] = output_like(owner_of(known), number, made._input_metadata[number])
    return known[number]


def output_like(node: Node, index: int, facts: Any) -> Output:
    """An output of ``node``, with the ``facts`` that torch gives about it."""
    made = Output.__new__(Output)
    made.node, made.index, made.seq, made.hooks = node, index, next_seq(), None
    made.shape, made.dtype, made.device = _sizes_in(facts), facts.dtype, facts.device
    return made


def _sizes_in(facts: Any) -> torch.Size:
    """The lengths of the result of a node; that of a nested one which differs from row to row is -1."""
    try:
        return torch.Size([one if type(one) is int else -1 for one in facts.shape])
    except RuntimeError:  # torch does not say how many dimensions a nested tensor has
        return torch.Size([-1])
