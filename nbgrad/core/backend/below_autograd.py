"""Run the rules of a backward without torch's autograd.

Only nbgrad differentiates what rules compute on raw tensors. At every kernel torch checks whether its autograd has to
record it, which takes 0.15 us, a tenth of a small kernel, even if no tensor requires grad. A backward switches this
check off. Code that is not nbgrad's own, such as a hook, runs with it on.

Ctrl-C may raise at any instruction, and the switch must be restored. So there is no guard and no generator here: one
call restores the earlier value. ``finally`` makes the call; if an interrupt hits that ``finally``, ``except`` makes it
again.
"""

from collections.abc import Callable
from functools import wraps
from threading import local
from typing import Any

import torch

_RECORDS = torch._C.DispatchKey.AutogradFunctionality
_left_out: Callable[[Any], bool] = torch._C._dispatch_tls_is_dispatch_key_excluded
_leave_out: Callable[[Any, bool], None] = torch._C._dispatch_tls_set_dispatch_key_excluded


class _Around(local):
    """Whether torch's autograd was off around each backward that runs in this thread, innermost last."""

    def __init__(self) -> None:
        self.excluded: list[bool] = []


_around = _Around()


def below_autograd(run: Callable[..., Any], *args: Any) -> Any:
    """Return ``run(*args)``. While it runs, torch's kernels do not ask torch's autograd."""
    around, before = _around.excluded, _left_out(_RECORDS)
    depth = len(around)
    try:
        try:
            around.append(before)
            _leave_out(_RECORDS, True)
            return run(*args)
        finally:
            _leave_out(_RECORDS, before)
            del around[depth:]
    except BaseException:
        _leave_out(_RECORDS, before)
        del around[depth:]
        raise


def outside(run: Callable[..., Any], *args: Any) -> Any:
    """Return ``run(*args)``. Inside a backward, torch's autograd is on meanwhile, if it was on around that backward."""
    around = _around.excluded
    if not around:
        return run(*args)
    before = _left_out(_RECORDS)
    try:
        try:
            _leave_out(_RECORDS, around[-1])
            return run(*args)
        finally:
            _leave_out(_RECORDS, before)
    except BaseException:
        _leave_out(_RECORDS, before)
        raise


def unrecorded(run: Callable[..., Any], /, *args: Any, **settings: Any) -> Any:
    """Return ``run(*args, **settings)``. While it runs, torch records no history."""
    before = torch.is_grad_enabled()
    try:
        try:
            torch._C._set_grad_enabled(False)
            return run(*args, **settings)
        finally:
            torch._C._set_grad_enabled(before)
    except BaseException:
        torch._C._set_grad_enabled(before)
        raise


def without_inference(run: Callable[..., Any], *args: Any) -> Any:
    """Return ``run(*args)``, run outside of torch's inference mode."""
    return _inferring(False, run, args, {})


def inferring(run: Callable[..., Any], /, *args: Any, **settings: Any) -> Any:
    """Return ``run(*args, **settings)``, run in torch's inference mode."""
    return _inferring(True, run, args, settings)


def _inferring(on: bool, run: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    mode: Any = None
    try:
        try:
            mode = torch._C._InferenceMode(on)  # it is on from here until __exit__, which may be called twice
            return run(*args, **settings)
        finally:
            _leave(mode)
    except BaseException:
        _leave(mode)
        raise


def _leave(mode: Any) -> None:
    if mode is not None:
        mode.__exit__(None, None, None)


def is_own(function: Callable[..., Any]) -> bool:
    """Whether ``function`` is nbgrad's own. A decorator of nbgrad's keeps the module of the function that it wraps."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def foreign(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``, or a function that runs it ``outside`` if it is not nbgrad's own."""
    if is_own(function):
        return function

    @wraps(function)
    def run(*args: Any) -> Any:
        return outside(function, *args)

    return run
