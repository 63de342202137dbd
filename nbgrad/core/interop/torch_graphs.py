"""Functions whose gradient is torch's to compute: ``torch.autograd.Function`` and custom ops, on our tensors.

A call is one node. Its function runs on torch tensors, and torch records what it does in a small graph of its own,
which the node keeps. The rule of the node is a backward of torch's through that graph, so the context, the marks and
the errors of the function are torch's. A backward that is itself recorded records torch's backward as another such
node. So every order of derivatives that torch has for the function can be computed.
"""

from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any
from warnings import warn
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.autograd.graph import get_gradient_edge

from nbgrad.core.backend.below_autograd import outside
from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.dispatch.function import Context, Function, row_of, settled, underivable
from nbgrad.core.dispatch.plan import Plan, path_to
from nbgrad.core.engine.kept import InnerGraph, Reading, maker_of
from nbgrad.core.engine.node import Node, Output, next_seq
from nbgrad.core.engine.state import Switch, current, is_grad_enabled, no_grad, recording, restoring
from nbgrad.core.functional.checkpoint import checkpoint
from nbgrad.core.recorder.kept import keep_below
from nbgrad.core.recorder.patches import Patch
from nbgrad.core.structure import exchanged, of_kind
from nbgrad.core.tensor.filled import entered
from nbgrad.core.tensor.tensor import Tensor

Kind = type[Function]
"""A class that describes a function of torch's to the record and the picture."""

_THEIRS: Any = torch.autograd.Function


class _Entrance(torch.autograd.Function):
    """Where a tensor enters a graph of torch's: its gradient goes to a leaf that has no memory of its own."""

    @staticmethod
    def forward(_ctx: Any, _leaf: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


def _entered(argument: Any, *, recorded: bool) -> tuple[torch.Tensor | None, Any]:
    """The leaf to which the gradient of ``argument`` goes, if it needs one, and the value that the function gets.

    The function may change that value in place.
    """
    if not isinstance(argument, Tensor):
        return None, argument
    data = argument._data
    if not recorded or not argument.requires_grad:
        return None, data.detach()
    leaf = torch.zeros((), dtype=data.dtype, device=data.device).expand(data.shape).requires_grad_()
    return leaf, _applied(_Entrance, leaf, data)


def _unseen(run: Callable[[], Any]) -> Any:
    """``run()``, with torch's autograd on inside a backward too, and unseen by nbgrad's graphs."""
    with Switch(observers=()):
        return outside(unheard, run)


class TorchGraph(InnerGraph):
    """The graph that torch recorded for one call.

    Attributes:
        leaves: for each argument of the call the leaf of torch's that its gradient goes to, None where there is none.
        ends: the edges in torch's graph from the outputs that have a gradient.
    """

    __slots__ = ("ends", "leaves")

    def __init__(self, leaves: list[torch.Tensor | None], outputs: Iterable[torch.Tensor]) -> None:
        self.leaves = leaves
        self.ends = [get_gradient_edge(one) for one in outputs]

    def keep(self, node: Node, found: Reading) -> None:
        """Add what torch's nodes keep, as kept by ``node``."""
        pairs = zip(self.leaves, node.edges, strict=True)
        given = {leaf: maker for leaf, edge in pairs if leaf is not None and (maker := maker_of(edge))}
        keep_below([end.node for end in self.ends], node, found, given)


class TorchGraphPlan(Plan):
    """How a backward runs torch's backward of one call."""

    __slots__ = ("kind",)

    foreign = True

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rules = ()
        self.broadcasts, self.sums = frozenset(), {}
        self.joined = self.keeps_values = True
        self.saved_names = ("graph",)

    def unpack(self, node: Node, saved: tuple[Any, ...], gradient: Any) -> list[Any]:
        """The graph that torch recorded, and for each input a tensor without memory that has the input's history."""
        return [*saved, *(path_to(edge, gradient) for edge in node.edges)]

    def joint(self, gradient: Any, needed: tuple[bool, ...], graph: TorchGraph, *paths: Any) -> list[Any]:
        """Torch's gradients of the inputs; recorded if this backward is."""
        arrived = gradient if isinstance(gradient, list) else [gradient]
        ends = [end for end, one in zip(graph.ends, arrived, strict=True) if one is not None]
        given = [self.lift(one) for one in arrived if one is not None]
        places = [place for place, need in enumerate(needed) if need]
        found: list[Any] = [None] * len(needed)
        if not ends or not places:
            return found
        recorded = recording(current())
        once = recorded and self.kind in _once
        entered = [_entered(one, recorded=recorded and not once) for one in given]
        settings = {"retain_graph": True, "create_graph": recorded and not once, "allow_unused": True}
        leaves = [graph.leaves[place] for place in places]
        gradients = _unseen(partial(torch.autograd.grad, ends, leaves, [start for _, start in entered], **settings))
        if recorded:
            known = [place for place, leaf in enumerate(graph.leaves) if leaf is not None]
            sources = [*(paths[place] for place in known), *given]
            starts = [*(graph.leaves[place] for place in known), *(leaf for leaf, _ in entered)]
            if once:
                gradients = [None if one is None else underivable(Tensor(one), sources) for one in gradients]
            else:
                kind = kind_of(self.kind, (), f"{self.kind.__name__}Backward", "", _ANY)
                gradients = _settled(kind, sources, starts, [None] * len(starts), gradients)
        for place, one in zip(places, gradients, strict=True):
            found[place] = one
        return found


@restoring
def run_as_one(kind: Kind, run: Callable[[list[Any]], Any], args: list[Any]) -> Any:
    """Call ``run`` with torch's tensors in place of ours among ``args``, as one op.

    Args:
        kind: describes the function.
        run: takes the arguments and returns a tensor, a list or tuple of tensors and other values, or another value.
        args: the arguments, tensors or not.
    """
    recorded = is_grad_enabled() and any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
    entered = [_entered(arg, recorded=recorded) for arg in args]
    values = [value for _, value in entered]
    result = _unseen(partial(run, values))
    returned = tuple(result) if isinstance(result, list | tuple) else (result,)
    outputs = _settled(kind, args, [leaf for leaf, _ in entered], values, returned)
    return type(result)(outputs) if type(result) in (list, tuple) else outputs[0]


def _settled(kind: Kind, args: list[Any], leaves: list[Any], values: list[Any], returned: tuple[Any, ...]) -> list[Any]:
    """The outputs of a call, from what torch returned.

    Args:
        kind: describes the function.
        args: its arguments.
        leaves: the leaves of torch's that stand for them.
        values: the values that the function got for them; one that it changed in place is also among ``returned``.
        returned: what it returned.
    """
    context = Context()
    context.needs_input_grad = tuple(leaf is not None for leaf in leaves)
    given = [Tensor(arg._data.detach()) if isinstance(arg, Tensor) else arg for arg in args]
    changed = {id(value): ours for value, ours in zip(values, given, strict=True) if isinstance(ours, Tensor)}
    results = tuple(changed[id(one)] if id(one) in changed else _wrapped(one) for one in returned)
    context._dirty = tuple(id(changed[id(one)]) for one in returned if id(one) in changed)
    context._constant = tuple(
        id(ours) for ours, one in zip(results, returned, strict=True) if not getattr(one, "requires_grad", False)
    )
    live = [place for place, one in enumerate(returned) if isinstance(one, torch.Tensor) and one.requires_grad]

    def made(*_: Any) -> list[Any]:
        outputs = [Tensor(one._data) if isinstance(one, Tensor) else one for one in results]
        if not live:
            return outputs
        graph = TorchGraph(leaves, [returned[place] for place in live])
        node = node_of(kind, args, leaves, graph, outputs[live[0]]._data)
        for slot, place in enumerate(live):
            raw = outputs[place]._data
            outputs[place] = Tensor(raw, True, Output(node, slot, raw) if node.outputs else node)
        return outputs

    return settled(kind, context, tuple(args), given, results, made, recorded=bool(live))


def node_of(
    kind: Kind,
    args: list[Any],
    leaves: list[Any],
    graph: TorchGraph,
    first: torch.Tensor,
    *,
    keeps_values: bool = True,
) -> Node:
    """The node of a call whose first output with a gradient is ``first``.

    ``keeps_values``: whether a backward and a checkpoint let go of the graph.
    """
    node = Node()
    node.op = row_of(kind, len(args))
    node.settings = {}
    node.saved, node.versions = (graph,), [None]  # torch itself notices changes in place
    node.edges = [None if leaf is None else arg.origin for arg, leaf in zip(args, leaves, strict=True)]
    node.seq = next_seq()
    node.shape, node.dtype, node.device = first.shape, first.dtype, first.device
    node.outputs, node.hooks = (len(graph.ends) if len(graph.ends) > 1 else 0), None
    node.plan = TorchGraphPlan(kind)
    node.plan.keeps_values = keeps_values
    for observer in current().observers:
        observer.on_record(node, tuple(args), first)
    return node


def _wrapped(value: Any) -> Any:
    """``value`` with a tensor of ours for each of torch's."""
    return exchanged(torch.Tensor, lambda one: Tensor(one.detach()), value)


# The description of a function.

_ANY = (Parameter("inputs", Parameter.VAR_POSITIONAL),)
_kinds: "WeakKeyDictionary[Any, dict[Any, Kind]]" = WeakKeyDictionary()


def kind_of(function: Any, key: Any, name: str, doc: str | None, parameters: Iterable[Parameter]) -> Kind:
    """The class that describes ``function``; it is made once for each ``key``."""
    kinds = _kinds.setdefault(function, {})
    if key not in kinds:

        def forward(*_: Any) -> Any:
            raise NotImplementedError

        context = Parameter("ctx", Parameter.POSITIONAL_ONLY)
        forward.__signature__ = Signature([context, *parameters])  # type: ignore[attr-defined]
        kinds[key] = type(name, (Function,), {"__doc__": doc, "forward": staticmethod(forward)})
    return kinds[key]


def _parameters(function: Any) -> tuple[Parameter, ...]:
    """The parameters of the forward of a ``torch.autograd.Function``, without ``ctx``."""
    names = list(signature(function.forward).parameters.values())
    names = names if _is_apart(function) else names[1:]
    places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
    return tuple(one.replace(default=Parameter.empty) for one in names if one.kind in places)


_once: "WeakSet[Kind]" = WeakSet()
"""The classes of functions whose backward is marked with ``once_differentiable``."""

_MARK = torch.autograd.function.once_differentiable(lambda _: None).__code__


def _is_once(backward: Any) -> bool:
    """Whether ``backward`` is marked with ``once_differentiable``.

    torch itself raises only if a gradient that the backward is given requires grad.
    """
    while backward is not None and getattr(backward, "__code__", None) is not _MARK:
        backward = getattr(backward, "__wrapped__", None)
    return backward is not None


def _is_apart(function: Any) -> bool:
    return bool(function.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context)


# torch.autograd.Function


def _run_function(function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """``apply`` of a ``torch.autograd.Function`` on our tensors."""
    if function.__module__ == "torch.utils.checkpoint" and function.__name__ == "CheckpointFunction":
        return _run_checkpoint(*args)
    if _is_apart(function):
        bound = signature(function.forward).bind(*args, **settings)
        bound.apply_defaults()
        args, settings = bound.args, {}
    hidden = [one for arg in args if not isinstance(arg, Tensor) for one in of_kind(Tensor, arg) if one.requires_grad]
    if hidden and is_grad_enabled():
        raise RuntimeError(
            f"{function.__name__}.apply() got an nbgrad tensor that requires grad inside a list, tuple or dict, where "
            "its gradient would be lost: pass each tensor as an argument of its own, or t.detach()"
        )
    args = tuple([entered(arg) if isinstance(arg, torch.Tensor) else arg for arg in args])
    kind = kind_of(function, (), function.__name__, function.__doc__, _parameters(function))
    if _is_once(function.backward):
        _once.add(kind)
    return run_as_one(kind, lambda values: _applied(function, *map(_raw, values), **settings), list(args))


def _run_checkpoint(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
    """Run nbgrad's checkpoint for ``torch.utils.checkpoint.checkpoint(..., use_reentrant=True)``.

    It has none of the limits of torch's.
    """
    if is_grad_enabled() and not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
        warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)
        with no_grad():
            return function(*args)
    return checkpoint(function, *args, preserve_rng_state=preserve_rng_state, early_stop=False)


def _raw(value: Any) -> Any:
    """``value`` with torch's tensors in place of ours."""
    return exchanged(Tensor, lambda one: one._data.detach(), value)


_apply: Any = vars(_THEIRS)["apply"].__func__


def _applied(function: Any, *args: Any, **settings: Any) -> Any:
    """Torch's own ``function.apply(*args, **settings)``."""
    return _apply(function, *args, **settings)


def _applying(_: Any) -> Any:
    """The ``apply`` of torch's functions that is ours where one of the arguments is a tensor of ours."""

    @wraps(_apply)
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if isinstance(arg, Tensor):
                return _run_function(cls, args, kwargs)
        if kwargs and any(isinstance(arg, Tensor) for arg in kwargs.values()):
            return _run_function(cls, args, kwargs)
        return _apply(cls, *args, **kwargs)

    apply._nbgrad = True  # type: ignore[attr-defined]
    return classmethod(apply)


PATCHES = (Patch(_THEIRS, "apply", _applying),)
"""The patches that make torch's functions take nbgrad's tensors."""

if not hasattr(_apply, "_nbgrad"):
    for _patch in PATCHES:
        _patch.install()


# Custom ops.


def run_custom_op(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """An op that ``torch.library`` or C++ has registered, on our tensors.

    Raises:
        NotImplementedError: it changes a tensor in place while a gradient is asked for.
    """
    schema = op._schema
    args, settings = entered(args), entered(settings)
    given = dict(zip([one.name for one in schema.arguments], args, strict=False)) | settings
    names = [name for name, value in given.items() for name in _named(name, value)]
    tensors = [tensor for value in given.values() for tensor in of_kind(Tensor, value)]
    if schema.is_mutable and is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise NotImplementedError(
            f"{op} changes its arguments in place, which nbgrad cannot record: call it on t.detach(), or inside "
            "torch.no_grad()"
        )
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    short = schema.name.rpartition("::")[2]
    kind = kind_of(op, tuple(names), short, None, parameters)

    def run(values: list[Any]) -> Any:
        left = iter(values)

        def replaced(value: Any) -> Any:
            if isinstance(value, Tensor):
                return next(left)
            return type(value)(map(replaced, value)) if type(value) in (list, tuple) else value

        return op(*map(replaced, args), **{name: replaced(value) for name, value in settings.items()})

    return run_as_one(kind, run, tensors)


def _named(name: str, value: Any) -> list[str]:
    """The names of our tensors in an argument."""
    if isinstance(value, Tensor):
        return [name]
    return [f"{name}_{place}" for place in range(len(of_kind(Tensor, value)))]
