"""Where torch's own autograd is left out of the way to a kernel.

Nobody differentiates what the rules of a backward compute on raw tensors but nbgrad itself. torch asks at every kernel
whether its autograd is to record it, for 0.15 us, a tenth of a small kernel, even where no tensor requires grad. A
backward does without; what is not nbgrad's own, such as a hook, is run outside of that.

Ctrl-C may raise at any instruction, and what is switched off must not stay off. So nothing here is a guard whose end
has to come in order, nor a generator, which ends when somebody lets go of it. There is one switch, of which it is known
what it was, and it is set to that by one call. ``finally`` makes that call; where an interrupt hits the very
``finally``, ``except`` makes it again.
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
    """Whether torch's autograd was left out already around the backwards that run in this thread, innermost last."""

    def __init__(self) -> None:
        self.excluded: list[bool] = []


_around = _Around()


def below_autograd(run: Callable[..., Any], *args: Any) -> Any:
    """``run(*args)``, without torch's autograd being asked by its kernels."""
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
    """``run(*args)``; where a backward runs, torch is as it is around that backward: its autograd works."""
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


def unrecorded(run: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """``run(*args, **settings)`` while torch records no gradients."""
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
    """``run(*args)`` outside of torch's inference mode."""
    return _inferring(False, run, args, {})


def inferring(run: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """``run(*args, **settings)`` in torch's inference mode."""
    return _inferring(True, run, args, settings)


def _inferring(on: bool, run: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    mode: Any = None
    try:
        try:
            mode = torch._C._InferenceMode(on)  # from now on, until it is left, once or several times
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
    """Whether ``function`` is nbgrad's: one in a decorator of nbgrad's still says where it was defined."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def foreign(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, run ``outside`` if it is not nbgrad's own."""
    if is_own(function):
        return function

    @wraps(function)
    def run(*args: Any) -> Any:
        return outside(function, *args)

    return run
