"""The recording mode sees each call of torch's functions while a graph is open, and notifies observers of the ops.

It stands on torch's stack of modes for functions. It sees every call of a function of torch's in its thread, so it is
compiled.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.utils._device import DeviceContext

from nbgrad.core.backend.function_mode import is_heard, mute, take_off, traced, unmute
from nbgrad.core.engine.clock import CLOCKS
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Node, OpInfo, Output, next_seq
from nbgrad.core.engine.observer import Observer, torch_followers
from nbgrad.core.engine.state import State, current, live
from nbgrad.core.engine.torch_origins import KEY, owner_of, shape_of
from nbgrad.core.engine.torch_reads import read_tensor
from nbgrad.core.recorder.foreseen import tap
from nbgrad.core.recorder.functions import CUT, INNER, KNOWN, PLAIN, Called, Unlisted, called, tensors_in, with_several
from nbgrad.core.recorder.nodes import ACCUMULATES, adopt, is_direct, origin_in
from nbgrad.core.recorder.python_functions import INSIDE, OUTSIDE, RETURNS, RUNNING, ask_no_more, asked, returned, where
from nbgrad.core.recorder.tracebacks import traceless
from nbgrad.core.tensor.filled import Filled

_records = torch.is_grad_enabled
_level = torch._C._functorch.maybe_current_level
_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_length = torch._C._len_torch_function_stack
_mode_at = torch._C._get_function_stack_at
_NONE: dict[str, Any] = {}
_PLAIN, _INNER, _CUT, _INSIDE, _RETURNS = PLAIN, INNER, CUT, INSIDE, RETURNS  # compiled to numbers of C's
_FRAMES = 4
"""How many frames the plain Python of ``where``, ``_place``, ``_run`` and ``_torch_function`` puts on the stack."""
NESTED = torch.nested._internal.nested_tensor.NestedTensor
"""A nested tensor: its lengths are no numbers, so its ops are known only by the nodes of torch's graph."""
left: set[int] = set()
"""The threads on whose stack our mode still lies, because another thread has closed their last graph."""
_left = left  # compiled to a set of C's
_clocks: set[Any] = CLOCKS  # the same


def _torch_function(
    mode: "RecordingMode",
    function: Callable[..., Any],
    types: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run ``function``, and notify the observers if torch recorded it."""
    return _run(mode, function, types, args, kwargs)


class RecordingMode:
    """Stands on torch's stack of modes, where torch calls ``__torch_function__`` for every function that is called."""

    __slots__ = ()
    __torch_function__ = traceless(_torch_function)


def _run(
    mode: Any, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Do the same, with the types of C that a function which torch calls cannot have."""
    if _left and get_ident() in _left:
        _leave(mode)
        return function(*args, **kwargs) if kwargs else function(*args)
    table = KNOWN
    known = table.get(function)
    if known is None:
        known = called(function)
    state = current()
    kind = known.kind
    # Inside torch.func tensors belong to its levels; Filled runs ops of ours.
    told = kind != _PLAIN and bool(state.observers) and _level() is None
    overridden = bool(types)
    told = told and NESTED not in types and Filled not in types
    given, named = args, kwargs  # the arguments of the op that is recorded
    if told and RUNNING:
        place = _place(state)
        if place == _INSIDE:
            told = False
        elif place == _RETURNS:
            running = returned()
            known, given, named = running.known, running.args, running.kwargs
            kind = known.kind
    heard = told and is_heard(overridden)  # asked once: torch's functions leave the modes as they are
    if told and kind == _INNER:  # a mode or a subclass of the user's sees this call, and none inside of it
        told = not overridden and _are_devices()
    if told and kind < _CUT and _records() and not state.inference and _learns(given, named, heard):
        if kind == _INNER:
            return _again(mode, function, args, kwargs)
        return _recorded(known, given, named, function, args, kwargs, state, heard)
    result = function(*args, **kwargs) if kwargs else function(*args)  # one line for both: tracebacks show it
    if told:
        guard = mute(heard)
        try:
            _left_out(known, given, named, result, state)
        finally:
            unmute(guard)
    return result


def run_recorded(known: Called, function: Callable[..., Any], args: tuple[Any, ...], state: State) -> Any:
    """``function(*args)``, whose results learn, recorded as the op ``known``: torch shows it to no mode."""
    if _level() is None and _records() and not state.inference and not traced():
        return _recorded(known, args, None, function, args, None, state, is_heard())
    return function(*args)


def _place(state: State) -> int:
    """Where the call stands in a function of torch's in Python: the answer of ``where``."""
    try:
        return where(_FRAMES)
    except Exception as error:
        RUNNING.pop(get_ident(), None)
        if not taken(state.observers, error, "a function of torch's"):
            raise
        return OUTSIDE


def _leave(own: Any) -> None:
    """Take the mode ``own`` off the stack of a thread that records no more, and forget the graph.

    Torch has taken it off for the call that runs, and will put it on again. So the next event of the interpreter after
    the call takes it off.
    """
    live()
    if sys.getprofile() is not None:
        return  # a later call does it, when no other code listens to the events

    def returned(_frame: Any, _event: str, _arg: Any) -> None:
        above = [_pop() for _ in range(_length())]
        kept = [mode for mode in reversed(above) if mode is not own]
        for mode in kept:
            _push(mode)
        if len(kept) < len(above) or get_ident() not in _left:
            sys.setprofile(None)
            _left.discard(get_ident())

    sys.setprofile(returned)


def _are_devices() -> bool:
    """Whether all other modes only choose the device of new tensors: ``torch.set_default_device`` is such a mode."""
    return all(type(_mode_at(at)) is DeviceContext for at in range(_length()))


def _again(mode: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """Run ``function``, one of torch's in Python, and see the calls in it too."""
    ask_no_more(function)
    _push(mode)
    try:
        return function(*args, **kwargs) if kwargs else function(*args)
    finally:
        take_off()
        asked()


def _left_out(known: Called, args: tuple[Any, ...], kwargs: dict[str, Any] | None, result: Any, state: State) -> None:
    """Notify the observers of an op that torch did not record: a path of gradients may end there."""
    if traced():
        return
    try:
        _tell_left_out(known, args, kwargs, result, state)
    except Exception as error:
        if not taken(state.observers, error, known.name):
            raise


def _tell_left_out(
    known: Called, args: tuple[Any, ...], kwargs: dict[str, Any] | None, result: Any, state: State
) -> None:
    observers = torch_followers(state.observers)
    observer: Observer
    if known.kind >= CUT:
        if not args or not isinstance(args[0], Tensor):
            return
        for observer in observers:
            if known.kind == CUT:
                observer.on_detach(args[0], result, known.name)
            elif args[0].requires_grad:
                observer.on_read(args[0], known.name)
        return
    results = tensors_in(result)
    if not results or not (tensors_in(args) or tensors_in(kwargs)):
        return
    op: OpInfo
    op, inputs, settings = known.arguments(args, kwargs or _NONE)
    for observer in observers:
        observer.on_torch_left_out(known.name, _records() and not state.inference)
        observer.on_result(op, inputs, settings, tuple(results), None)


def _learns(args: tuple[Any, ...], kwargs: dict[str, Any] | None, heard: bool) -> bool:
    """The same as ``_any_learns``, but modes and subclasses of the user's do not see that the tensors are looked at.

    False while torch traces the program.
    """
    if traced():
        return False
    guard = mute(heard)
    try:
        return _any_learns(args, kwargs)
    except Exception as error:
        if not taken(current().observers, error, "a call of torch's"):
            raise
        return False
    finally:
        unmute(guard)


def _any_learns(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    """Whether a gradient goes to one of the tensors that a function is given."""
    for arg in args:
        if isinstance(arg, Tensor):
            tensor = arg  # the same object: compiled code knows the type of this name, so it needs no look-up
            if tensor.requires_grad:
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
    known: Called,
    given: tuple[Any, ...],
    named: dict[str, Any] | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    state: State,
    heard: bool,
) -> Any:
    """The result of ``function``; the observers are notified of the op, if torch recorded one.

    Args:
        known: the facts about the op.
        given: the arguments of the op.
        named: those by name.
        function: the function to run, which may be one inside of the op.
        args: its arguments.
        kwargs: those by name.
        state: the state whose observers are notified.
        heard: the answer of ``is_heard``.
    """
    guard = mute(heard)
    observer: Observer
    observers = torch_followers(state.observers)
    node = Node.__new__(Node)
    inputs: Any = None
    try:
        inputs = _called(known, node, given, named, state)
        for observer in observers:
            observer.on_call(node.op, inputs)
            if known.changes and given and isinstance(given[0], Tensor):
                observer.on_overwrite(given[0])
    except Exception as error:
        if not taken(observers, error, known.name):
            raise
        inputs = None
    finally:
        unmute(guard)
    if inputs is None:  # where its result is used, torch's own node says what it was
        return function(*args, **kwargs) if kwargs else function(*args)
    _start(observers, given is not args)
    try:
        result = function(*args, **kwargs) if kwargs else function(*args)
    except Exception as error:
        _tell_error(observers, node, inputs, error, heard)
        raise
    _stop(observers)
    guard = mute(heard)
    try:
        _tell(known, node, inputs, given[0] if known.assigns else result, state, observers)
    except Exception as error:
        _disown(node, given[0] if known.assigns else result)
        if not taken(observers, error, known.name):
            raise
    finally:
        unmute(guard)
    return result


def _tell_error(
    observers: tuple[Observer, ...], node: Node, inputs: tuple[Any, ...], error: Exception, heard: bool
) -> None:
    """Notify the observers of the ``error`` that torch's function raised."""
    guard = mute(heard)
    observer: Observer
    try:
        for observer in observers:
            observer.on_error(node.op, inputs, error)
    finally:
        unmute(guard)


def _start(observers: tuple[Any, ...], again: bool) -> None:
    """Tell the clocks, if there are any, that torch's function begins: nothing of ours runs until it has ended."""
    if _clocks:
        _tell_clocks(observers, True, again)


def _stop(observers: tuple[Any, ...]) -> None:
    """Tell them that it has ended."""
    if _clocks:
        _tell_clocks(observers, False, False)


def _tell_clocks(observers: tuple[Any, ...], begins: bool, again: bool) -> None:
    try:
        for observer in observers:
            if observer in _clocks:
                if begins:
                    observer.on_run(again)
                else:
                    observer.on_ran()
    except Exception as error:
        if not taken(observers, error, "the time of an op"):
            raise


def _disown(node: Node, result: Any) -> None:
    """Forget that ``node``, of which not all is known, has made ``result``: torch's own node says what it was."""
    with suppress(Exception):
        made: Any
        for made in [one.grad_fn for one in tensors_in(result) if one.grad_fn is not None]:
            known = made.metadata.get(KEY)
            if known is not None and owner_of(known) is node:
                del made.metadata[KEY]


def _called(
    known: Called, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any] | None, state: State
) -> tuple[Any, ...]:
    """Fill ``node`` with all that is known before the call, and return the inputs of the op."""
    op: OpInfo
    op, inputs, settings = known.arguments(args, kwargs or _NONE)
    node.op = op
    node.settings = settings
    node.hooks = node.plan = node.saved = None  # type: ignore[assignment]  # its rule is torch's
    node.direct = False
    node.tapped = 0
    node.device = None
    node.edges = _edges(inputs, state)  # before the call, which may change them in place
    return inputs


def _tell(
    known: Called, node: Node, inputs: tuple[Any, ...], out: Any, state: State, observers: tuple[Observer, ...]
) -> None:
    """Make ``node`` the origin of ``out``, and tell the observers of the op, if torch recorded it."""
    results: list[Any] = []
    observer: Observer
    follows = False
    for observer in observers:
        follows = follows or observer.follows_gradients()
    if isinstance(out, Tensor):
        if (known.changes and _through_view(node.op.name, out._base, state)) or not _one(node, out, follows):
            if not out.requires_grad:
                _unrecorded(observers, node, inputs, [out])
            return
    else:
        results = tensors_in(out)
        out = _several(node, out, follows)
        if out is None:
            _unrecorded(observers, node, inputs, [one for one in results if not one.requires_grad])
            return
    for observer in observers:
        observer.on_torch_record(node, inputs, out)
        if len(results) > 1:
            observer.on_result(node.op, inputs, node.settings, tuple(results), node)
    node.saved = None  # type: ignore[assignment]


def _unrecorded(observers: tuple[Observer, ...], node: Node, inputs: tuple[Any, ...], results: list[Any]) -> None:
    """Tell the observers of an op that torch did not record, because its results have no gradient."""
    observer: Observer
    for observer in observers if results else ():
        observer.on_result(node.op, inputs, node.settings, tuple(results), None)


def _edges(inputs: tuple[Any, ...], state: State) -> list[Any]:
    """The origins of the inputs that a gradient goes to; None for the others."""
    return [origin_in(one, state) if isinstance(one, Tensor) else None for one in inputs]


def _one(node: Node, out: Any, follows: bool) -> bool:
    """Make ``node`` the origin of ``out``, and have torch report its gradient; False if torch has recorded nothing."""
    made = out.grad_fn
    if made is None:
        return False
    metadata = made.metadata
    if KEY in metadata:  # there was nothing to do, as for x.float() of a float tensor
        return False
    number = out.output_nr
    node.outputs = 0
    node.seq = next_seq()
    try:
        node.shape, node.dtype, node.saved = read_tensor(out, follows and number == 0)
    except RuntimeError:  # a nested tensor has rows of several lengths
        node.shape, node.dtype = shape_of(out), out.dtype
    if type(node.op) is Unlisted:
        node.direct = is_direct(made, node.edges)
    if number == 0:
        metadata[KEY] = node
        if follows:
            tap(made, node)
    else:  # the others of the node are not given to the caller
        node.outputs = 1
        metadata[KEY] = {number: Output(node, 0, out)}
    return True


def _through_view(name: str, base: Any, state: State) -> bool:
    """Whether the tensor changed in place is a view of ``base``. Then torch has recorded a change of ``base``.

    The op ``name`` is drawn as an op on ``base``, and the view from now on as a view of the changed ``base``. This is
    not so if ``base`` was made inside of another op. For example, the result of ``einsum`` is a view of such a tensor.
    """
    made = None if base is None else base.grad_fn
    if made is None or KEY in made.metadata or not made.name().endswith("CopySlices"):
        return False
    before, _ = made.next_functions[0]
    if before is not None and type(before) is not ACCUMULATES and KEY not in before.metadata:
        return False
    adopt(made, state, name, base)
    return True


def _several(node: Node, result: Any, follows: bool) -> Any:
    """Make ``node`` the origin of the tensors in ``result`` that torch has recorded; the first, None where none is."""
    learned: list[Any] = [one for one in tensors_in(result) if one.grad_fn is not None]
    made = [one for one in learned if KEY not in one.grad_fn.metadata]
    if not made:
        return None
    first = made[0]
    node.outputs = len(made) if len(made) > 1 else 0
    node.seq = next_seq()
    node.shape, node.dtype = shape_of(first), first.dtype
    alone = all(one.grad_fn is first.grad_fn for one in made)
    if alone and follows:
        tap(first.grad_fn, node)
    if not node.outputs and first.output_nr == 0:
        if type(node.op) is Unlisted:
            node.direct = is_direct(first.grad_fn, node.edges)
        first.grad_fn.metadata[KEY] = node
        return first
    if not node.op.several:
        node.op = with_several(node.op, max(1, len(node.edges)))
    if type(node.op) is Unlisted:
        node.direct = alone and is_direct(first.grad_fn, node.edges)
    for index, one in enumerate(made):
        one.grad_fn.metadata.setdefault(KEY, {})[one.output_nr] = Output(node, index, one)
    return first
