"""Tensors without numbers: torch's fake tensors, and what a call of torch does to them.

Fake tensors are private to torch. This file alone uses them.
"""

import logging
import signal
import warnings
from collections.abc import Callable, Hashable
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch.utils._python_dispatch import TorchDispatchMode

from nbgrad.core.backend.autocast import any_enabled
from nbgrad.core.engine.state import current
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.numbers import Number

NEEDS_NUMBERS = (DataDependentOutputException, DynamicOutputShapeException)
"""The errors of torch for a result that depends on the numbers of a tensor."""

_LOG = logging.getLogger("torch._subclasses.fake_tensor")
_SEEDED = torch.Tag.nondeterministic_seeded


class FakeRun(NamedTuple):
    """The result of a call of torch.

    Attributes:
        result: its result, with fake tensors.
        writes: the fake tensors among its arguments whose memory it changed.
        random: whether it drew random numbers.
    """

    result: Any
    writes: tuple[torch.Tensor, ...]
    random: bool


class _Witness(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's has no types
    """Sees the operators that one call of torch runs, and by their schemas what they write and whether they draw."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written: set[int] = set()
        self.random = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        if schema.is_mutable:
            for position, argument in enumerate(schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    given = args[position] if position < len(args) else kwargs.get(argument.name)
                    self.written |= {storage_of(one) for one in leaves(given) if isinstance(one, torch.Tensor)}
        self.written |= _moved(schema, args, kwargs)
        if _SEEDED in func.tags and not _is_dry(schema, args, kwargs):
            self.random = True
        return func(*args, **kwargs)


class _Views(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's has no types
    """Makes a view of a fake tensor without the checks of torch's own mode."""

    def __init__(self, fakes: "Fakes") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fakes = fakes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.as_strided.default:  # torch asks for the device on its way
            return func(*args, **(kwargs or {}))
        return self.fakes.view(*args)


def _moved(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[int]:
    """The memory of the running statistics that a normalization moves, of which torch's schemas do not tell."""
    names = [argument.name for argument in schema.arguments]
    if "running_mean" not in names or schema.name.endswith(("backward", "functional", "no_update", "no_training")):
        return set()
    given = dict(zip(names, args, strict=False)) | kwargs
    modes = [name for name in ("training", "train", "use_input_stats") if name in names]
    if modes and not any(given.get(name) for name in modes):
        return set()
    return {storage_of(given[name]) for name in ("running_mean", "running_var") if given.get(name) is not None}


def _is_dry(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an operator that can draw random numbers draws none this time: its dropout is zero or off."""
    for position, argument in enumerate(schema.arguments):
        if argument.name in ("dropout_p", "dropout", "p", "train"):
            given = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
            if not given:
                return True
    return False


def storage_of(data: torch.Tensor) -> int:
    """Identifies the memory of a tensor, also of one without numbers."""
    try:
        with torch._C.DisableTorchFunction():
            return int(data.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return -id(data)


class _FakeTwin(FakeTensor):
    """The fake tensor that stands for a tensor with numbers; to a thread that traces nothing it is that tensor.

    While a function is traced, the tensors that it uses have fake data. Other threads may use them meanwhile, and may
    keep what they find for a backward.

    Attributes:
        original: the tensor with numbers.
    """

    original: torch.Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Also for what torch's operators do not see: memory, numbers, copies."""
        if current().tracer is None:
            args, kwargs = mapped(_with_numbers, args), mapped(_with_numbers, kwargs or {})
        return _without_subclass(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as torch's own
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if current().tracer is None:
            return func(*mapped(_with_numbers, args), **mapped(_with_numbers, kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs or {})


_without_subclass: Any = torch._C._disabled_torch_function_impl


def _with_numbers(given: Any) -> Any:
    return given.original if isinstance(given, _FakeTwin) else given


class FakeMemory:
    """The memory of a fake tensor, which has an address to compare and nothing in it."""

    def __init__(self, data: torch.Tensor) -> None:
        with torch._C.DisableTorchFunction():
            self._storage = data.untyped_storage()

    def data_ptr(self) -> int:
        """Identifies the memory."""
        return int(self._storage._cdata)

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._storage.nbytes()


class _MadeTensor(NamedTuple):
    """How a tensor that a call returns is made again: as one of its arguments, as a view of it, or in new memory.

    Attributes:
        of: which tensor among the arguments it is, or a view of; None for memory of its own.
        itself: whether it is that argument.
        shape, stride, dtype, device: of the tensor.
        offset: where a view begins in the memory.
    """

    of: int | None
    itself: bool
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int


class _KnownCall(NamedTuple):
    """The effects of a call.

    Attributes:
        kind: the type of its result; None for a single tensor.
        parts: the tensors in the result.
        writes: which tensors among the arguments it changed.
        random: whether it drew random numbers.
    """

    kind: Any
    parts: list[_MadeTensor | None]
    writes: list[int]
    random: bool


_KNOWN: dict[Hashable, _KnownCall] = {}
"""The calls that some trace has run: the result of an equal one is made from this. See ``_key``."""

_KEPT = 8192
"""The most calls that are kept."""


class _Postponed:
    """A context in which Ctrl-C waits until its end.

    While torch runs a kernel on fake tensors, its C++ code has taken the mode off. If an interrupt leaves the mode on
    there, C++ puts it on once more, and ends the process because it is there already.
    """

    def __enter__(self) -> None:
        self._came: tuple[int, FrameType | None] | None = None
        self._handler = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
        if callable(self._handler):
            signal.signal(signal.SIGINT, self._wait)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._came = number, frame

    def __exit__(self, *_: object) -> None:
        if callable(self._handler):
            signal.signal(signal.SIGINT, self._handler)
            if self._came is not None:
                self._handler(*self._came)


class Fakes:
    """Makes fake tensors and runs torch functions on them.

    Calls with equal functions, shapes, strides, types and settings are run once: the results of the others are made
    from those of the first, in this trace and in later ones.
    """

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        # Each with its fake. The real one is held, so that no other memory gets its address while this exists.
        self._memory: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._views = _Views(self)
        self._plain: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._attributes: dict[torch.device, dict[str, Any]] = {}
        self._settings = (
            torch.get_default_device(),
            torch.are_deterministic_algorithms_enabled(),
            torch._C._get_mkldnn_enabled(),
            torch._C._get_cudnn_enabled(),
        )

    def of(self, data: torch.Tensor) -> torch.Tensor:
        """A fake tensor like ``data``. Tensors that share memory have fakes that do."""
        with _Postponed(), warnings.catch_warnings(), torch._C.DisableTorchFunction():
            warnings.simplefilter("ignore")
            return self._of(data.detach())

    def twin(self, data: torch.Tensor) -> torch.Tensor:
        """The same; in a thread that traces nothing it is ``data`` itself."""
        fake = self.of(data)
        if type(fake) is FakeTensor:
            fake.__class__ = _FakeTwin
            vars(fake)["original"] = data
        return fake

    def _of(self, data: torch.Tensor) -> torch.Tensor:
        plain = type(data) is torch.Tensor and data.layout is torch.strided and data.device.type != "meta"
        if not plain or data.is_quantized or data.is_nested or data.is_inference():
            made: torch.Tensor = self.mode.from_tensor(data)
            return made
        for turned, turn in ((data.is_conj(), torch._conj), (data.is_neg(), torch._neg_view)):
            if turned:
                unturned = self._of(turn(data))
                with self.mode:
                    return turn(unturned)
        memory = data.untyped_storage()
        if memory._cdata not in self._memory:
            fake = torch.empty(memory.nbytes(), dtype=torch.uint8, device="meta")
            self._memory[memory._cdata] = memory, fake.untyped_storage()
        twin = self._memory[memory._cdata][1]
        like = torch.empty(0, dtype=data.dtype, device="meta")
        like.set_(twin, data.storage_offset(), data.shape, data.stride())
        return self._wrapped(like, data.device)

    def _wrapped(self, like: torch.Tensor, device: torch.device) -> torch.Tensor:
        """The fake tensor over a tensor of torch's device meta, which has the same memory.

        torch's own constructor is called once for each device. The attributes that it sets are copied to the later fake
        tensors on that device.
        """
        attributes = self._attributes.get(device)
        if attributes is None:
            fake: torch.Tensor = FakeTensor(self.mode, like, device)
            self._attributes[device] = dict(vars(fake))
        else:
            fake = torch.Tensor._make_subclass(
                FakeTensor, like, False, dispatch_device=True, device_for_backend_keys=device
            )
            vars(fake).update(attributes)
        torch._C._set_throw_on_mutable_data_ptr(fake)
        self._plain[id(fake)] = (fake, like)
        return fake

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeRun:
        """Call ``function`` on fake tensors."""
        key, given = self._key(function, args, kwargs)
        if key is not None and (known := _KNOWN.get(key)) is not None:
            return self._again(known, given)
        witness, logs = _Witness(), not _LOG.disabled
        _LOG.disabled = True  # torch writes the traceback of every error, also of one that is caught
        try:
            with _Postponed(), warnings.catch_warnings(), self.mode, witness:
                warnings.simplefilter("ignore")
                result = function(*args, **kwargs)
        finally:
            _LOG.disabled = not logs
        if not given:
            given = [one for one in leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        writes = tuple(one for one in given if storage_of(one) in witness.written) if witness.written else ()
        if key is not None and (not writes or self._key(function, args, kwargs)[0] == key):  # no shape changed
            self._keep(
                key,
                result,
                given,
                [place for place, one in enumerate(given) if any(one is other for other in writes)],
                witness.random,
            )
        return FakeRun(result, writes, witness.random)

    def _again(self, known: _KnownCall, given: list[torch.Tensor]) -> FakeRun:
        """The result of a call that is known, on these tensors."""
        written: tuple[torch.Tensor, ...] = ()
        if known.writes:
            storages = {storage_of(given[place]) for place in known.writes}
            written = tuple(one for one in given if storage_of(one) in storages)
            if not torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.ADInplaceOrView):
                torch.autograd.graph.increment_version([given[place] for place in known.writes])
        parts = [None if one is None else self._made(one, given) for one in known.parts]
        return FakeRun(parts[0] if known.kind is None else known.kind(parts), written, known.random)

    def _made(self, one: _MadeTensor, given: list[torch.Tensor]) -> torch.Tensor:
        """A tensor of a result."""
        if one.of is None:
            like = torch.empty_strided(one.shape, one.stride, dtype=one.dtype, device="meta")
            return self._wrapped(like, one.device)
        source = given[one.of]
        if one.itself:
            return source
        # torch's autograd makes a view of what ``self.view`` returns: the view has a base, and counts changes with it.
        with self._views:
            return torch.as_strided(source, one.shape, one.stride, one.offset)

    def view(self, source: torch.Tensor, shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> torch.Tensor:
        """A fake tensor with the memory of another one."""
        known = self._plain.get(id(source))
        if known is not None:
            like = torch.as_strided(known[1], shape, stride, offset)
        else:
            with in_kernel_invocation_manager(self.mode):
                like = torch.as_strided(source, shape, stride, offset)
        return self._wrapped(like, source.device)

    @staticmethod
    def _keep(key: Hashable, result: Any, given: list[torch.Tensor], written: list[int], random: bool) -> None:
        """Remember a call of which it can be said how each tensor of the result is made, and what it changed."""
        alone = isinstance(result, torch.Tensor)
        if not alone and not isinstance(result, list | tuple):
            return
        parts: list[_MadeTensor | None] = []
        fresh: set[int] = set()
        held = [storage_of(one) for one in given]
        if written and len(set(held)) < len(held):
            return
        for one in [result] if alone else result:
            if one is None:
                parts.append(None)
                continue
            made = _how(one, given, held) if isinstance(one, FakeTensor) and one.layout is torch.strided else None
            if made is None or (made.of is None and storage_of(one) in fresh):
                return
            fresh.add(storage_of(one))
            parts.append(made)
        if len(_KNOWN) >= _KEPT:
            _KNOWN.clear()
        _KNOWN[key] = _KnownCall(None if alone else type(result), parts, written, random)

    def _key(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Hashable, list[torch.Tensor]]:
        """The facts on which the result of a call depends, None if unknown; and the tensors among the arguments."""
        given: list[torch.Tensor] = []
        if any_enabled():  # autocast
            return None, given
        try:
            parts = tuple([_part(one, given) for one in args])
            named = tuple([(name, _part(one, given)) for name, one in kwargs.items()]) if kwargs else ()
            modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
            key = (function, parts, named, modes, self._settings)
            hash(key)
        except TypeError:
            return None, []
        return key, given


def _how(one: torch.Tensor, given: list[torch.Tensor], held: list[int]) -> _MadeTensor | None:
    """How a tensor of a result is made from the tensors among the arguments; None where that cannot be said."""
    if one.is_conj() or one.is_neg():
        return None
    storage = storage_of(one)
    count = held.count(storage)
    form = (tuple(one.shape), one.stride(), one.dtype, one.device, int(one.storage_offset()))
    if not count:
        return None if form[-1] else _MadeTensor(None, False, *form)
    source = given[held.index(storage)]
    if count > 1 or (source.dtype, source.device) != (one.dtype, one.device):
        return None
    return _MadeTensor(held.index(storage), one is source, *form)


def is_fake(data: object) -> bool:
    """Whether ``data`` is a tensor without numbers."""
    return isinstance(data, FakeTensor)


def _part(given: Any, tensors: list[torch.Tensor]) -> Hashable:  # noqa: PLR0911  # a case for each type
    """An argument as a part of a key; the tensors in it are appended to ``tensors``."""
    if isinstance(given, torch.Tensor):
        if given.layout is not torch.strided or given.is_conj() or given.is_neg():
            raise TypeError
        tensors.append(given)
        return (given.shape, given.stride(), given.dtype, given.device, given.storage_offset())
    kind = type(given)
    if kind in _SIMPLE:
        return (kind, given)
    if isinstance(given, list | tuple):
        return (kind, *[_part(one, tensors) for one in given])
    if isinstance(given, dict):
        return tuple([(name, _part(one, tensors)) for name, one in given.items()])
    if isinstance(given, slice):
        return ("slice", given.start, given.stop, given.step)
    if isinstance(given, Number):  # it may be another one in each run
        return Number
    return (kind, given)


_SIMPLE = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device))
