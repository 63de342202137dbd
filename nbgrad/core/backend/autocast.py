"""torch's autocast around nbgrad's ops: each cast is recorded, so the rules see the same values as the kernels.

``torch.autocast`` works below our ops, in torch's dispatcher. It runs a forward in bfloat16, but our ops would save
their inputs before the cast. So each op runs once on copies, for each kind of arguments, to show which inputs torch
casts. From then on the same casts run as recorded ops of their own. nbgrad has no list of ops for this: torch's policy
for each device decides.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain
from types import BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbgrad.core.backend.below_autograd import unrecorded, without_inference
from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state

any_enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled
"""Whether autocast is on for any kind of device in this thread."""

autocast = torch.autocast
"""``nbgrad.autocast`` is torch's: both names open the same context, and either works around both kinds of tensors."""

Casts = tuple[tuple[int, torch.dtype], ...]

_KINDS = ("cpu", "cuda", "mps", "xpu")
_POLICIES = ("AutocastCPU", "AutocastCUDA", "AutocastMPS", "AutocastXPU", "AutocastPrivateUse1")
_known: "WeakKeyDictionary[Any, dict[Any, Casts]]" = WeakKeyDictionary()


def cast(op: Any, args: tuple[Any, ...], values: list[Any], settings: dict[str, Any]) -> tuple[Any, ...]:
    """Cast ``args`` as autocast does for ``op``, and return them. Each cast of a ``Tensor`` is a recorded ``to``.

    Args:
        op: the row that is about to run.
        args: its inputs as they were passed.
        values: ``args`` as raw torch tensors, numbers and None; the casts are written into this list.
        settings: its settings.
    """
    known = _known.setdefault(op, {})
    modes = [torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in _KINDS]
    onednn = torch._C._get_mkldnn_enabled()  # its kernels for recurrent layers cast what torch's own do not
    key = (onednn, *modes, *map(_kind, values), *((name, _kind(value)) for name, value in settings.items()))
    if key not in known:
        try:
            known[key] = _ask(op.policy or op.forward, values, settings)
        except (
            RuntimeError,
            IndexError,
            TypeError,
            ValueError,
        ):  # the call that follows raises the same error, with an explanation
            return args
    changed = list(args)
    for position, dtype in known[key]:
        changed[position] = changed[position].to(dtype=dtype)
        values[position] = changed[position].data
    return tuple(changed)


def may_cast(function: Callable[..., Any]) -> bool:
    """Whether autocast may cast the arguments of ``function``: False only for kernels without a policy.

    Rows without one need not ask whether autocast is on, which takes a twentieth of the time of a small op.
    """
    if not isinstance(function, BuiltinFunctionType) or not (function.__module__ or "").startswith("torch"):
        return True
    return function.__name__ in _with_policy()


def may_cast_in(function: Callable[..., Any]) -> bool:
    """The same for any function or method of torch's that a program calls."""
    if not isinstance(function, BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType):
        return True
    name = function.__name__
    return (name.strip("_") if name.startswith("__") else name) in _with_policy()


@cache
def _with_policy() -> frozenset[str]:
    """The names of torch's functions for which autocast has a policy, or which are composed of other functions."""
    keys = [key for key in (*_POLICIES, "CompositeImplicitAutograd") if hasattr(torch._C.DispatchKey, key)]
    found = chain.from_iterable(map(torch._C._dispatch_get_registrations_for_dispatch_key, keys))
    return frozenset(name.partition("::")[2].partition(".")[0] for name in found)


def _kind(value: Any) -> Any:
    """The properties of an argument that decide which kernel of torch's a row calls, and so which policy holds."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.device.type, value.ndim
    if isinstance(value, tuple):
        return len(value)  # torch pads one, two and three dimensions by different kernels
    return value if isinstance(value, bool | str) else type(value)


class Settings:
    """The settings of autocast when this is made; ``set`` sets them again, each by a call of its own.

    torch's own context managers count how deeply they are nested, and an interrupt may make that count wrong.
    """

    __slots__ = ("_cache", "_modes")

    def __init__(self) -> None:
        self._cache = torch.is_autocast_cache_enabled()
        self._modes = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _KINDS]

    def key(self) -> tuple[Any, ...]:
        """The settings as something to compare."""
        return (self._cache, *self._modes)

    def set(self) -> None:
        """Set autocast to these settings."""
        torch.set_autocast_cache_enabled(self._cache)
        for kind, enabled, dtype in self._modes:
            if (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) != (enabled, dtype):
                torch.set_autocast_dtype(kind, dtype)
                torch.set_autocast_enabled(kind, enabled)
        if not any_enabled():
            torch.clear_autocast_cache()  # torch's own contexts do this when the outermost one ends

    def restored(self, run: Callable[..., Any], *args: Any) -> Any:
        """Return ``run(*args)``, run with these settings; afterwards autocast is set as it was before the call."""
        before = Settings()
        try:
            try:
                self.set()
                return run(*args)
            finally:
                before.set()
        except BaseException:
            before.set()
            raise


def set_back(settings: Settings | None) -> None:
    """Set autocast to ``settings``; None switches it off for every kind of device."""
    if settings is not None:
        settings.set()
    elif any_enabled():
        for kind in _KINDS:
            torch.set_autocast_enabled(kind, False)
        torch.clear_autocast_cache()


class _Off:
    """A context without autocast. At its end autocast is on again for the kinds of devices that had it before."""

    __slots__ = ("_on",)

    def __init__(self) -> None:
        self._on = [kind for kind in _KINDS if torch.is_autocast_enabled(kind)]

    def __enter__(self) -> None:
        for kind in self._on:
            torch.set_autocast_enabled(kind, False)

    def __exit__(self, *raised: object) -> None:
        for kind in self._on:
            torch.set_autocast_enabled(kind, True)


_AS_IT_IS = nullcontext()


def switched_off() -> AbstractContextManager[None]:
    """A context without autocast: rules run in the element types of the forward, also in a backward under autocast.

    An interrupt may hit its end, so the function around it has to set autocast back when something is raised.
    """
    return _Off() if any_enabled() else _AS_IT_IS


def without_autocast(run: Callable[..., Any], *args: Any) -> Any:
    """Return ``run(*args)``, run without autocast; afterwards it is on again, also after an interrupt."""
    off = switched_off()
    try:
        try:
            off.__enter__()
            return run(*args)
        finally:
            off.__exit__(None, None, None)
    except BaseException:
        off.__exit__(None, None, None)
        raise


def _ask(forward: Callable[..., Any], values: list[Any], settings: dict[str, Any]) -> Casts:
    """Find the casts of autocast: those of a run with autocast, except those that ``forward`` makes by itself."""
    before = Settings()
    try:
        with_it = without_inference(unrecorded, _casts, forward, values, settings)
        if not with_it:
            return ()
        with switched_off():
            try:
                without = without_inference(unrecorded, _casts, forward, values, settings)
            except (RuntimeError, IndexError, TypeError, ValueError):  # element types that only autocast makes agree
                without = {}
    except BaseException:
        before.set()
        raise
    return tuple(sorted((place, dtype) for place, dtype in with_it.items() if without.get(place) != dtype))


def _casts(forward: Callable[..., Any], values: list[Any], settings: dict[str, Any]) -> dict[int, torch.dtype]:
    """Run ``forward`` on copies; return the element type that each input was cast to, by the input's position."""
    # The copies are contiguous. Otherwise a forward may call contiguous() first, and cast a tensor that is not watched.
    copies = [
        value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value
        for value in values
    ]
    watch = _CastRecorder(copies)
    drawing_from(random_state(cuda_devices(copies)), watch.run, forward, *copies, **settings)
    return watch.found


class _CastRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    """Watches the kernels that run below autocast, and notes which of them cast one of its tensors."""

    def __init__(self, watched: list[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = {id(one): place for place, one in enumerate(watched) if isinstance(one, torch.Tensor)}
        self.found: dict[int, torch.dtype] = {}
        self._moved: list[torch.Tensor] = []  # kept alive: ``_places`` knows them by their identity

    def run(self, forward: Callable[..., Any], /, *values: Any, **settings: Any) -> None:
        """Watch ``forward(*values, **settings)``, and leave torch's stack of modes as high as it is now.

        torch's own ``__enter__`` and ``__exit__`` are Python functions, which an interrupt may hit in the middle.
        """
        height = torch._C._len_torch_dispatch_stack()
        try:
            try:
                torch._C._push_on_torch_dispatch_stack(self)
                forward(*values, **settings)
            finally:
                _lower(height)
        except BaseException:
            _lower(height)
            raise

    def __torch_dispatch__(
        self, function: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.aten._to_copy.default and id(args[0]) in self._places and kwargs.get("dtype"):
            self.found.setdefault(self._places[id(args[0])], kwargs["dtype"])
        result = function(*args, **kwargs)
        packet = function.overloadpacket  # a row detaches an input of which only its products cast a copy
        moves = (function.is_view and packet is not torch.ops.aten.detach) or packet in _COPIES
        if moves and id(args[0]) in self._places and getattr(result, "dtype", None) is args[0].dtype:
            self._places[id(result)] = self._places[id(args[0])]
            self._moved.append(result)
        return result


_COPIES = {torch.ops.aten.clone, torch.ops.aten._unsafe_view, torch.ops.aten.constant_pad_nd}
"""Kernels that copy elements, or add zeros: as for a view, a cast after one is the same as a cast before it."""


def _lower(height: int) -> None:
    """Pop torch's stack of modes until it is as high as ``height``."""
    while torch._C._len_torch_dispatch_stack() > height:
        torch._C._pop_torch_dispatch_stack(None)
