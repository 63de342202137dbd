"""``TorchCalls``: sees each call of torch's functions while a graph is open, and tells the observers of those recorded.

It stands on torch's stack of modes for functions. Every call of a function of torch's in its thread comes by, so it is
compiled.
"""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.backend.function_mode import take_off
from nbgrad.core.engine.node import Node, OpInfo, Output, next_seq
from nbgrad.core.engine.observer import Observer, torch_followers
from nbgrad.core.engine.state import State, current
from nbgrad.core.engine.torch_origins import KEY
from nbgrad.core.recorder.functions import INNER, KNOWN, PLAIN, Called, called, tensors_in, unlisted
from nbgrad.core.recorder.nodes import origin_in
from nbgrad.core.tensor.filled import Filled, fillings

RawTensor = torch.Tensor
_records = torch.is_grad_enabled
_level = torch._C._functorch.maybe_current_level
_push = torch._C._push_on_torch_function_stack
_NONE: dict[str, Any] = {}


class TorchCalls:
    """Stands on torch's stack of modes, where torch calls ``__torch_function__`` for every function that is called."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run ``function``, and tell whoever observes, if torch recorded what it did."""
        known: Called | None = KNOWN.get(function)
        if known is None:
            known = called(function)
        state = current()
        off = known.kind == PLAIN or not state.observers or not _records() or state.inference
        off = off or (fillings.any and Filled in types)  # it runs ops of ours
        # Inside torch.func tensors belong to its levels. There is one line for all calls: a trace has its number.
        if off or not _any_learns(args, kwargs) or _level() is not None:
            return function(*args, **kwargs) if kwargs else function(*args)
        if known.kind == INNER:
            return self._again(known.inner, args, kwargs)
        return _recorded(known, function, args, kwargs, state)

    def _again(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Run ``function`` and see the calls in it too."""
        _push(self)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        finally:
            take_off()


def _any_learns(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    """Whether a gradient goes to one of the tensors that a function is given."""
    for arg in args:
        if isinstance(arg, RawTensor):
            if arg.requires_grad:
                return True
        elif isinstance(arg, list | tuple):
            for one in tensors_in(arg):
                if one.requires_grad:
                    return True
    if kwargs:
        for one in tensors_in(kwargs):
            if one.requires_grad:
                return True
    return False


def _recorded(
    known: Called, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None, state: State
) -> Any:
    """The result of ``function``; the observers are told of the op, if torch recorded one."""
    row = known.row
    op: OpInfo
    if row is not None and not kwargs and not known.swapped and known.names is None and row.arity == len(args):
        op, inputs, settings = row, args, _NONE
    else:
        op, inputs, settings = known.bound(args, kwargs or _NONE)
    node = Node.__new__(Node)
    node.op = op
    node.settings = {**op.defaults, **settings} if settings else op.defaults
    node.hooks = None
    node.device = None
    node.edges = _edges(inputs, state)  # before the call, which may change them in place
    observers = torch_followers(state.observers)
    observer: Observer
    for observer in observers:
        observer.on_call(op, inputs)
    try:
        result = function(*args, **kwargs) if kwargs else function(*args)
    except Exception as error:
        for observer in observers:
            observer.on_error(op, inputs, error)
        raise
    out = args[0] if known.assigns else result
    if isinstance(out, RawTensor):
        if not _one(node, out):
            return result
        if known.changes:
            _through_view(node, out)
    else:
        out = _several(node, out)
        if out is None:
            return result
    for observer in observers:
        observer.on_torch_record(node, inputs, out)
    return result


def _edges(inputs: tuple[Any, ...], state: State) -> list[Any]:
    """The origins of the inputs that a gradient goes to; None for the others."""
    return [origin_in(one, state) if isinstance(one, RawTensor) and one.requires_grad else None for one in inputs]


def _one(node: Node, out: Any) -> bool:
    """Make ``node`` the origin of ``out``; False where torch has recorded nothing."""
    made = out.grad_fn
    if made is None:
        return False
    metadata = made.metadata
    if KEY in metadata:  # nothing was to do, as of x.float() where x is
        return False
    number = out.output_nr
    node.outputs = 0
    node.seq = next_seq()
    node.shape = out.shape
    node.dtype = out.dtype
    if number == 0:
        metadata[KEY] = node
    else:  # the others of the node are not given to the caller
        node.outputs = 1
        metadata[KEY] = {number: Output(node, 0, out)}
    return True


def _through_view(node: Node, out: Any) -> None:
    """Make ``node`` the origin of what ``out`` is a view of, which it has changed in place."""
    base = out._base
    if base is not None and base.grad_fn is not None and KEY not in base.grad_fn.metadata:
        base.grad_fn.metadata[KEY] = node


def _several(node: Node, result: Any) -> Any:
    """Make ``node`` the origin of the tensors in ``result`` that torch has recorded; the first, None where none is."""
    learned: list[Any] = [one for one in tensors_in(result) if one.grad_fn is not None]
    made = [one for one in learned if KEY not in one.grad_fn.metadata]
    if not made:
        return None
    first = made[0]
    node.outputs = len(made) if len(made) > 1 else 0
    node.seq = next_seq()
    node.shape, node.dtype = first.shape, first.dtype
    if not node.outputs and first.output_nr == 0:
        first.grad_fn.metadata[KEY] = node
        return first
    if not node.op.several:
        node.op = unlisted(node.op.name, max(1, len(node.edges)), True)
    for index, one in enumerate(made):
        one.grad_fn.metadata.setdefault(KEY, {})[one.output_nr] = Output(node, index, one)
    return first
