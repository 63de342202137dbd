"""Where torch's own autograd is left out of the way to a kernel.

Nobody differentiates what the rules of a backward compute on raw tensors but nbgrad itself. torch asks at every kernel
whether its autograd is to record it, for 0.15 us, a tenth of a small kernel, even where no tensor requires grad. A
backward does without; what is not nbgrad's own, such as a hook, is run outside of that.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any

import torch


class _Around(local):
    """What torch dispatched to around the backwards that run in this thread, the innermost last."""

    def __init__(self) -> None:
        self.sets: list[tuple[Any, Any]] = []


_around = _Around()


class BelowAutograd:
    """A context manager: inside it kernels run without torch's autograd being asked."""

    __slots__ = ("_guard",)

    _guard: Any

    def __enter__(self) -> None:
        _around.sets.append((torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()))
        self._guard = torch._C._AutoDispatchBelowAutograd()
        self._guard.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._guard.__exit__(*raised)
        _around.sets.pop()


@contextmanager
def outside() -> Iterator[None]:
    """Inside it, where a backward runs, torch is as it is around that backward: its autograd works."""
    if not _around.sets:
        yield
        return
    with torch._C._ForceDispatchKeyGuard(*_around.sets[-1]):
        yield


def is_own(function: Callable[..., Any]) -> bool:
    """Whether ``function`` is nbgrad's: one in a decorator of nbgrad's still says where it was defined."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def foreign(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, run ``outside`` if it is not nbgrad's own."""
    if is_own(function):
        return function

    @wraps(function)
    def run(*args: Any) -> Any:
        with outside():
            return function(*args)

    return run
