"""Switch the recording of torch's own autograd on and off: the hooks into torch, which are there while a graph is open.

``follow`` is called when a graph begins to record in a thread, ``unfollow`` when it ends. When the last graph has
ended, torch's own functions are restored, also after an error or an interrupt.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from threading import RLock, get_ident, local
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.autograd.function import _HookMixin
from torch.jit._builtins import _get_builtin_table
from torch.optim.lr_scheduler import LRScheduler

from nbgrad.core.backend.function_mode import mute, place, put_back, recorder, take_off, traced, unheard, unmute
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Node
from nbgrad.core.engine.observer import Observer, torch_followers
from nbgrad.core.engine.pacing import Stretch, backward_begun, backward_ended, pacers, passing, step_begun, step_ended
from nbgrad.core.engine.scope import called, forget_paths
from nbgrad.core.engine.state import State, current
from nbgrad.core.engine.torch_origins import KEY
from nbgrad.core.recorder.backwards import QUIET, TorchBackward, recorded, recorded_inside, register
from nbgrad.core.recorder.calls import RecordingMode, left
from nbgrad.core.recorder.captures import Captures
from nbgrad.core.recorder.compiled_regions import Regions, await_import
from nbgrad.core.recorder.functions import ASKS, tensors_in
from nbgrad.core.recorder.nodes import origin_in
from nbgrad.core.recorder.patches import Patch
from nbgrad.core.recorder.python_functions import ANSWERS, MODULES, RUNNING
from nbgrad.core.recorder.tracebacks import traceless
from nbgrad.core.tensor.filled import Filled

_length = torch._C._len_torch_function_stack
_C: Any = torch._C  # some of its functions are missing in torch's stubs
_MODULE: Any = torch.nn.Module
_AUTOGRAD: Any = torch.autograd
_HOOKS: Any = _HookMixin
_OPTIMIZERS: Any = import_module("torch.optim.optimizer")  # torch.optim deletes this name after its import
_CLIPPING: Any = import_module("torch.nn.utils.clip_grad")
_KEY: Any = "nbgrad"
_BATCHED: Any = torch._C._parse_dispatch_key("Batched")
_CALLS = RecordingMode()


class _ThreadEnd:
    """Is dropped when its thread ends: then no graph of it records any more."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def __del__(self) -> None:
        if not sys.is_finalizing() and self._thread in _torch.open:
            with _torch.lock:
                _torch.open[:] = [thread for thread in _torch.open if thread != self._thread]
                if not _torch.open and recorder.mode is not None:
                    _restore()


class _Thread(local):
    """The state of the recorder in this thread.

    Attributes:
        end: tells when the thread ends.
        walk: the backward of torch's that runs.
        runs: whether one runs whose end the pacers wait for.
        depth: the answer of ``take_off``, which a compiled region called; 0 outside of such a region.
        functions: torch's state of modes and subclasses before the first graph; None while no graph is open.
    """

    def __init__(self) -> None:
        self.end = _ThreadEnd()
        self.walk: TorchBackward | None = None
        self.runs = False
        self.depth = 0
        self.functions: Any = None


_thread = _Thread()

_stepping: dict[int, int] = {}
"""The answer of ``take_off`` in each thread in which an optimizer steps: our mode is off for the step."""

OPTIMIZERS: WeakValueDictionary[int, torch.optim.Optimizer] = WeakValueDictionary()
"""By Python's ``id()`` the optimizers that nbgrad knows: its own, and those of torch's that were called while a graph
was open."""


class _Torch:
    """The replaced functions of torch.

    Attributes:
        open: the id of the thread of each graph that records. Only this says which threads record: it changes in one
            step, which no interrupt divides.
        resting: by a key of each graph that rests, the id of its thread. While there is one, backwards and the steps of
            optimizers are noticed: of torch's functions, only the one that runs its engine is replaced.
        lock: held while something is replaced or put back.
    """

    __slots__ = ("lock", "open", "resting")

    def __init__(self) -> None:
        self.lock = RLock()  # threads may open graphs at the same time
        self.open: list[int] = []
        self.resting: dict[int, int] = {}


_torch = _Torch()


def _forked() -> None:
    """In a new process no other thread holds the lock, and no other thread records."""
    _torch.lock = RLock()
    _torch.open = [thread for thread in _torch.open if thread == get_ident()]
    _torch.resting = {key: thread for key, thread in _torch.resting.items() if thread == get_ident()}
    for thread in list(_stepping):
        if thread != get_ident():
            del _stepping[thread]
    for thread in list(_inside):
        if thread != get_ident():
            del _inside[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def follows() -> int:
    """How many graphs record in this thread."""
    return _torch.open.count(get_ident())


def follow() -> int:
    """Record what torch does in this thread, until ``unfollow`` is called with the number that this returns."""
    thread = get_ident()
    await_import()  # not with the lock, which the thread that imports may need
    with _torch.lock:
        left.discard(thread)
        _torch.open.append(thread)
        if recorder.mode is None:
            forget_paths()  # a module of torch's does not say that it got a child
            _install()
        else:
            _place_functions()
    if not _stacked():
        _thread.walk = None
        _thread.functions = _C._get_torch_function_state()
        place()
    QUIET.since()
    return thread


def _stacked() -> bool:
    """Whether our mode lies on the stack of this thread."""
    return any(torch._C._get_function_stack_at(at) is _CALLS for at in range(_length()))


def unfollow(thread: int) -> None:
    """Undo one ``follow`` of that thread."""
    with _torch.lock:
        if thread in _torch.open:
            _torch.open.remove(thread)
            if thread != get_ident() and thread not in _torch.open:
                left.add(thread)  # its own next call of torch takes our mode off its stack
    unfollow_to(follows())


def begin_to_rest(key: int) -> None:
    """Go on notifying the pacers when ``unfollow`` has been called, until ``stop_resting``: see ``pacing``."""
    with _torch.lock:
        _torch.resting[key] = get_ident()


def stop_resting(key: int) -> None:
    """Undo ``begin_to_rest``; without one, do nothing."""
    with _torch.lock:
        _torch.resting.pop(key, None)
        if not _torch.resting and recorder.mode is None:
            _BACKWARD.put_back()
            _unhook()


def resting(key: int) -> int | None:
    """The thread in which ``begin_to_rest`` was called for ``key``; None after ``stop_resting``."""
    return _torch.resting.get(key)


def unfollow_to(count: int) -> None:
    """Undo ``follow`` beyond ``count`` graphs of this thread, also if an interrupt left a part of it."""
    try:
        _settle(count)
    except BaseException:  # an interrupt: to settle twice has the same effect as once
        _settle(count)
        raise


def _settle(count: int) -> None:
    while _torch.lock._is_owned():  # type: ignore[attr-defined]  # an interrupt hit the end of a block
        _torch.lock.release()
    if count == 0:
        take_off()
        RUNNING.pop(get_ident(), None)
        _thread.walk, _thread.runs = None, False
        _stepping.pop(get_ident(), None)
        if _thread.functions is not None:  # an interrupt may have hit the recorder while it was muted
            _C._set_torch_function_state(_thread.functions)
            _thread.functions = None
    with _torch.lock:
        while follows() > count:
            _torch.open.remove(get_ident())
        if not _torch.open and recorder.mode is not None:
            _restore()


def _enter_region() -> None:
    _thread.depth = take_off()
    _place_functions()


def _leave_region() -> None:
    _place_functions()
    depth, _thread.depth = _thread.depth, 0
    if depth and follows() and not _stacked():
        put_back(depth)


def _place_functions() -> None:
    """Have our functions in torch while a thread records that is in no compiled region.

    A compiler runs modules too, and looks at the code of their calls.
    """
    with _torch.lock:
        if recorder.mode is not None and any(thread not in _inside for thread in _torch.open):
            _replace()
        else:
            _put_back()


def _aside(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``run(*args, **kwargs)`` with the recorder off, in which torch captures a function."""
    depth = take_off()
    if not depth:
        return run(*args, **kwargs)
    _put_back()
    try:
        return run(*args, **kwargs)
    finally:
        _replace()
        put_back(depth)


_captures = Captures(_aside)


def _install() -> None:
    recorder.mode = _CALLS  # first: from now on there is something to undo
    _regions.watch()
    _captures.watch()
    _place_functions()
    _OPTIMIZERS._global_optimizer_pre_hooks[_KEY] = _step_begins
    _OPTIMIZERS._global_optimizer_post_hooks[_KEY] = _step_ended


def _restore() -> None:
    _put_back()
    _regions.unwatch()
    _captures.unwatch()
    if not _torch.resting:
        _unhook()
    recorder.mode = None


def _unhook() -> None:
    _OPTIMIZERS._global_optimizer_pre_hooks.pop(_KEY, None)
    _OPTIMIZERS._global_optimizer_post_hooks.pop(_KEY, None)


def _replace() -> None:
    """Put our functions where torch looks for its own."""
    for patch in _PATCHES:
        patch.install()
    _regions.pass_for_torchs()
    _change_answers(ANSWERS)


def _put_back() -> None:
    """Put torch's own there."""
    for patch in _PATCHES:
        if patch is not _BACKWARD or not _torch.resting:
            patch.put_back()
    _regions.pass_for_torchs_no_more()
    _change_answers({ours: own for own, ours in ANSWERS.items()})


def _change_answers(by: dict[Any, Any]) -> None:
    """Put other functions in the place of those by which torch's functions in Python ask for overrides.

    Torch's compiler of scripts knows these functions by their ``id()``.
    """
    scripted = _get_builtin_table()  # type: ignore[no-untyped-call]
    for own, other in by.items():
        if id(own) in scripted:
            scripted[id(other)] = scripted[id(own)]
    for name in MODULES:
        held = vars(sys.modules[name]) if name in sys.modules else {}
        for asked in ASKS:
            if held.get(asked) in by:
                held[asked] = by[held[asked]]


def _backward_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is torch's ``_engine_run_backward`` or another library's around it."""

    def run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if _BACKWARD.ours is not made:
            return run(t_outputs, *args, **kwargs)
        stretch: Stretch | None = passing()
        if stretch is not None:
            return stretch.ran(run, t_outputs, args, kwargs)
        if not pacers() or _thread.runs:
            return _run_backward(run, t_outputs, args, kwargs)
        backward_begun()
        _thread.runs = True
        try:
            result = _run_backward(run, t_outputs, args, kwargs)
        finally:
            _thread.runs = False
        _, _, create_graph, *_ = args
        backward_ended(t_outputs, bool(kwargs.get("accumulate_grad")), bool(create_graph))
        return result

    made = traceless(run_backward, run)
    return made


def _run_backward(run: Callable[..., Any], t_outputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Torch's ``_engine_run_backward``, which is ``run``: the observers are notified of it."""
    state = current()
    accumulates = bool(kwargs.get("accumulate_grad"))
    if not state.observers or get_ident() in _inside or torch._C._functorch.maybe_current_level() is not None:
        return run(t_outputs, *args, **kwargs)
    if not accumulates and _batched(args[0]):
        return run(t_outputs, *args, **kwargs)
    if _thread.walk is not None:
        guard = mute()
        try:
            return recorded_inside(_unmuted(run, guard), _thread.walk, t_outputs, args, kwargs)
        finally:
            unmute(guard)
    depth = take_off()
    _thread.walk = walk = TorchBackward(state, accumulates, bool(args[2]))
    guard = mute()
    try:
        return recorded(walk, _unmuted(run, guard), state, t_outputs, args, kwargs)
    finally:
        unmute(guard)
        _thread.walk = None
        put_back(depth)


def _unmuted(run: Callable[..., Any], guard: Any) -> Callable[..., Any]:
    """``run`` with the modes switched on while it runs, for a caller that is muted by ``guard``."""

    def heard(*args: Any, **settings: Any) -> Any:
        guard.__exit__(None, None, None)
        try:
            return run(*args, **settings)
        finally:
            guard.__enter__()

    return heard


def _batched(seeds: Any) -> bool:
    """Whether ``autograd.grad`` computes many gradients at once: then its tensors are batched, as inside ``vmap``."""
    return any(isinstance(one, torch.Tensor) and torch._C._dispatch_keys(one).has(_BATCHED) for one in seeds)


def _call_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is torch's ``Module.__call__``: it runs it in the scope of the module."""

    def call_module(module: Any, /, *args: Any, **kwargs: Any) -> Any:
        state: State = current()
        if _stepping:
            _stepped()  # a step that raised
        if not state.observers or _CALL.ours is not made or (_inside and get_ident() in _inside):
            return run(module, *args, **kwargs)
        return called(module, state, run, (module, *args), kwargs, _know)

    made = traceless(call_module, run)
    return made


def _know(result: Any) -> None:
    """Make the results of a module known while its scope is active, such as those of a compiled module."""
    if traced():
        return
    guard = mute()  # reading a tensor calls the mode too
    try:
        if not isinstance(result, Tensor) or not _is_known(result):
            for one in tensors_in(result):
                if one.requires_grad and not isinstance(one, Filled):
                    origin_in(one, current())
    except Exception as error:
        if not taken(current().observers, error, "the result of a module"):
            raise
    finally:
        unmute(guard)


def _is_known(tensor: torch.Tensor) -> bool:
    """Whether an op that was seen has made it, and no unknown op has changed it."""
    made: Any = tensor.grad_fn
    if made is None:
        return False
    metadata = made.metadata
    return type(metadata.get(KEY)) is Node


def _learned(optimizer: Any, stepped: bool = False) -> list[Any]:
    """The parameters of ``optimizer`` that torch's autograd gives a gradient. An optimizer of nbgrad's has none.

    ``stepped``: only those that have a gradient, which a step changes.
    """
    found: list[Any] = []
    for group in optimizer.param_groups:
        for one in group["params"]:
            if isinstance(one, Tensor):
                tensor = one  # the same object: compiled code knows the type of this name, so it needs no look-up
                if tensor.requires_grad and not (stepped and tensor.grad is None):
                    found.append(one)
    return found


def _step_begins(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Notify the observers that a step begins, and take our mode off meanwhile: the step looks at every ``.grad``.

    A step with a closure runs the user's code, which is recorded.
    """
    if passing() is not None:
        return
    _stepped()  # the last one may have raised
    step_begun()
    observers = current().observers and torch_followers(current().observers)
    if not observers:
        return
    depth = take_off()
    if depth:
        _stepping[get_ident()] = depth
    closure = bool(len(args) > 1 or kwargs.get("closure"))
    guard = mute()
    learned: list[Any] = []
    try:
        observer: Observer
        OPTIMIZERS[id(optimizer)] = optimizer
        for observer in observers:
            observer.on_optimizer_call(optimizer, "step")
        learned = _learned(optimizer)
        for observer in observers if learned else ():
            observer.on_step_begin(learned if closure else _learned(optimizer, stepped=True), closure)
    except Exception as error:
        if not taken(observers, error, "the step of an optimizer"):
            raise
    finally:
        unmute(guard)
    if closure or not learned:
        _stepped()


def _step_ended(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001  # torch gives them
    stretch: Stretch | None = passing()
    if stretch is not None and stretch.stepped(optimizer):
        return
    if current().observers:
        _notify_of_step(optimizer)
    _stepped()
    step_ended(optimizer)


def _notify_of_step(optimizer: Any) -> None:
    """Notify the observers that a step has ended."""
    observers = torch_followers(current().observers)
    guard = mute()
    try:
        groups = optimizer.param_groups if observers else []
        held = [one for group in groups for one in group["params"] if isinstance(one, Tensor)]
        learned, name = _learned(optimizer, stepped=True) if held else [], f"{type(optimizer).__name__}.step()"
        idle = not [one for one in held if one.grad is not None]  # a tensor that needs none may have been given one
        observer: Observer
        for observer in observers if held else ():
            if learned:
                observer.on_step_end(learned, name)
            elif idle:
                observer.on_idle_step(held, name)
    except Exception as error:
        if not taken(observers, error, "the step of an optimizer"):
            raise
    finally:
        unmute(guard)


def _stepped() -> None:
    """Put our mode back where a step took it off."""
    if _stepping:
        put_back(_stepping.pop(get_ident(), 0))


def _zero_grad_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is torch's ``Optimizer.zero_grad``: it runs it with our mode off."""

    def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if _ZERO_GRAD.ours is made:
            _tell("zero_grad", optimizer)
        return unheard(run, optimizer, *args, **kwargs)

    made = traceless(zero_grad, run)
    return made


def _unscale_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is torch's ``GradScaler._unscale_grads_``."""

    def unscale(scaler: Any, optimizer: Any, inv_scale: Any, *args: Any, **kwargs: Any) -> Any:
        if _UNSCALE.ours is made:
            _tell("unscale", optimizer, inv_scale)
        return run(scaler, optimizer, inv_scale, *args, **kwargs)

    made = traceless(unscale, run)
    return made


def _schedule_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is the ``step`` of torch's schedulers. Their first step is made by themselves."""

    def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        if _SCHEDULE.ours is made and getattr(scheduler, "last_epoch", -1) >= 0:
            _tell("schedule", scheduler.optimizer)
        return run(scheduler, *args, **kwargs)

    made = traceless(step, run)
    return made


def _clip_patch(run: Callable[..., Any]) -> Any:
    """Our function for ``run``, which is the part of torch's ``clip_grad_norm_`` that changes the gradients."""

    def clip(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        if _CLIP.ours is made:
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            grads = [one.grad for one in parameters if one.grad is not None]
            _notify(lambda observer: observer.on_clip(grads, float(max_norm)), "the clipping of gradients")
        return run(parameters, max_norm, *args, **kwargs)

    made = traceless(clip, run)
    return made


def _tell(kind: str, optimizer: Any, by: Any = None) -> None:
    """Notify the observers of a call that is about ``optimizer``."""

    def call(observer: Observer) -> None:
        observer.on_optimizer_call(optimizer, kind, by)

    if not isinstance(optimizer, torch.optim.Optimizer):
        return
    OPTIMIZERS[id(optimizer)] = optimizer
    _notify(call, f"the {kind} of an optimizer")


def _notify(tell: Callable[[Observer], None], doing: str) -> None:
    """Call ``tell`` with each observer of this thread."""
    observers = torch_followers(current().observers)
    if not observers:
        return
    guard = mute()
    try:
        for observer in observers:
            tell(observer)
    except Exception as error:
        if not taken(observers, error, doing):
            raise
    finally:
        unmute(guard)


_BACKWARD = Patch(_AUTOGRAD, "_engine_run_backward", _backward_patch)
_CALL = Patch(_MODULE, "__call__", _call_patch)
_ZERO_GRAD = Patch(_OPTIMIZERS.Optimizer, "zero_grad", _zero_grad_patch)
_UNSCALE = Patch(GradScaler, "_unscale_grads_", _unscale_patch)
_SCHEDULE = Patch(LRScheduler, "step", _schedule_patch)
_CLIP = Patch(_CLIPPING, "_clip_grads_with_norm_", _clip_patch)
_PATCHES = (
    _BACKWARD,
    _CALL,
    _ZERO_GRAD,
    _UNSCALE,
    _SCHEDULE,
    _CLIP,
    Patch(_HOOKS, "_register_hook", lambda _: staticmethod(register)),
)
_regions = Regions(_enter_region, _leave_region, _CALL)
_inside = _regions.inside
