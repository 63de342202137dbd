"""Take the recorder of torch's functions off torch's stack of modes, while nbgrad's own code calls torch.

Each call of torch, and each look at an attribute of a tensor, takes a microsecond more with a mode on the stack. An op
of nbgrad's makes about ten of them, and none is the user's.

So there are two switches. ``take_off`` and ``put_back`` move the recorder's mode alone. But the user may have modes
too: ``torch.set_default_device`` puts one on the stack. ``mute`` and ``unmute`` switch all modes off while the recorder
looks at tensors. The program's own calls still reach the modes.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

_length = torch._C._len_torch_function_stack
_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_mode_at = torch._C._get_function_stack_at
_DEFAULT: Any = torch._GLOBAL_DEVICE_CONTEXT
_Guard = torch._C.DisableTorchFunction
_functions: Any = torch._C._get_torch_function_state  # type: ignore[attr-defined]  # missing in torch's stubs
_set_functions: Any = torch._C._set_torch_function_state  # type: ignore[attr-defined]
_traces = torch._C._get_tracing_state
_dispatched = torch._C._len_torch_dispatch_stack
_dispatched_before: Any = torch._ops._len_torch_dispatch_stack_pre_dispatch  # above autograd, for torch.export
_dispatch_mode: Any = torch._C._get_dispatch_mode
_TRACERS: tuple[Any, ...] = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FUNCTIONAL)


class _RecordingMode:
    """The mode that records, while it lies on the stack of some thread; None where nothing is recorded."""

    __slots__ = ("mode",)

    def __init__(self) -> None:
        self.mode: Any = None


recorder = _RecordingMode()
_recorder = recorder  # in compiled code this name has a type of C's, and Python cannot see it


def take_off() -> int:
    """Take the recording mode off the stack, also from below other modes.

    Returns:
        What ``put_back`` takes: 0 if the mode was not there; otherwise one more than the number of modes above it.
    """
    if _recorder.mode is None or not _length():
        return 0
    top = _pop()
    if top is _recorder.mode:
        return 1
    return _dig(top)


def _dig(top: Any) -> int:
    """Do the same below the mode ``top``, which has been taken off."""
    above = [top]
    found = 0
    while not found and _length():
        mode = _pop()
        if mode is _recorder.mode:
            found = len(above) + 1
        else:
            above.append(mode)
    while above:
        _push(above.pop())
    return found


def put_back(depth: int) -> None:
    """Put the recording mode where it was before ``take_off``, which returned ``depth``."""
    if not depth or _recorder.mode is None:  # another thread may have closed the graph since
        return
    if depth == 1:
        _push(_recorder.mode)
    else:
        _bury(depth - 1)


def _bury(depth: int) -> None:
    """Put the recording mode below ``depth`` others."""
    above = [_pop() for _ in range(min(depth, _length()))]
    _push(_recorder.mode)
    while above:
        _push(above.pop())


def place() -> None:
    """Put the recording mode on the stack, below the modes of the user that are there.

    Torch ends a mode by taking the top of the stack off: if the user ends one that began before the recording, that
    has to be the user's. Only the mode of ``torch.set_default_device`` stays below: torch looks for it there.
    """
    default = getattr(_DEFAULT, "device_context", None)
    if _recorder.mode is not None:  # else another thread has closed the graph since
        _bury(_length() - (default is not None and _length() > 0 and _mode_at(0) is default))


def is_heard(overridden: bool = False) -> bool:
    """Whether a mode, or a subclass of torch's Tensor, would see it if the recorder looks at a tensor.

    Args:
        overridden: whether there may be tensors of such a subclass.
    """
    return overridden or _length() > 0


def traced() -> bool:
    """Whether torch traces the program in this thread, as ``torch.export``, ``make_fx`` and ``torch.jit.trace`` do.

    Then each look at a tensor, and each op of ours, would become a part of the traced program.
    """
    if _dispatched():  # the modes of torch's tracers are on this stack, and the user's own
        for tracer in _TRACERS:
            if _dispatch_mode(tracer) is not None:
                return True
        if _dispatched_before() > 0:
            return True
    return _traces() is not None


def mute(heard: bool = True) -> Any:
    """Switch all modes off in this thread, also the user's, and what subclasses of torch's Tensor override.

    Args:
        heard: the answer of ``is_heard``. If it is False, nothing is switched.

    Returns:
        What ``unmute`` takes; None if nothing was switched.
    """
    if not heard:
        return None
    guard = _Guard()
    guard.__enter__()
    return guard


def unmute(guard: Any) -> None:
    """Switch the modes on again, after ``mute`` returned ``guard``."""
    if guard is not None:
        guard.__exit__(None, None, None)


def muted(run: Callable[P, T]) -> Callable[P, T]:
    """``run``, while all modes and the overrides of subclasses of torch's Tensor are off."""

    @wraps(run)
    def quiet(*args: P.args, **settings: P.kwargs) -> T:
        before, guard = _functions(), None
        try:
            try:
                guard = mute()
                return run(*args, **settings)
            finally:
                unmute(guard)
        except BaseException:  # Ctrl-C may come before the guard is known here, or in the ``finally``
            _set_functions(before)
            raise

    return quiet


def unheard(run: Callable[..., Any], /, *args: Any, **settings: Any) -> Any:
    """``run(*args, **settings)`` with the mode off."""
    depth = take_off()
    try:
        return run(*args, **settings)
    finally:
        put_back(depth)
