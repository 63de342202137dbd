"""Tensors without numbers: torch's fake tensors, and what a call of torch does to them.

Fake tensors are private to torch. This file alone uses them, and ``tests/core/symbolic/test_fake.py`` says what it
needs of them.
"""

import logging
import warnings
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from nbgrad.core.backend.autocast import any_enabled
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.structure import leaves, mapped

NEEDS_NUMBERS = (DataDependentOutputException, DynamicOutputShapeException)
"""What torch raises where a result depends on the numbers of a tensor."""

_LOG = logging.getLogger("torch._subclasses.fake_tensor")
_SEEDED = torch.Tag.nondeterministic_seeded


class FakeRun(NamedTuple):
    """What a call of torch gave.

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


class Fakes:
    """Makes fake tensors and runs torch functions on them.

    Calls with equal functions, shapes, strides, types and settings are run once: the result of the others is made from
    that of the first.
    """

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._known: dict[Hashable, tuple[bool, list[tuple[Any, ...]], bool]] = {}

    def of(self, data: torch.Tensor) -> torch.Tensor:
        """A fake tensor like ``data``. Tensors that share memory have fakes that do."""
        with warnings.catch_warnings(), torch._C.DisableTorchFunction():
            warnings.simplefilter("ignore")
            fake: torch.Tensor = self.mode.from_tensor(data.detach())
        return fake

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeRun:
        """Call ``function`` on fake tensors."""
        key = _key(function, args, kwargs)
        if key is not None and (known := self._known.get(key)) is not None:
            alone, kinds, random = known
            made = [
                FakeTensor(self.mode, torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device)
                for shape, stride, dtype, device in kinds
            ]
            return FakeRun(made[0] if alone else tuple(made), (), random)
        witness, logs = _Witness(), not _LOG.disabled
        _LOG.disabled = True  # torch writes the traceback of every error, also of one that is caught
        try:
            with warnings.catch_warnings(), self.mode, witness:
                warnings.simplefilter("ignore")
                result = function(*args, **kwargs)
        finally:
            _LOG.disabled = not logs
        given = [one for one in leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        writes = tuple(one for one in given if storage_of(one) in witness.written)
        if key is not None and not writes:
            self._keep(key, result, given, witness.random)
        return FakeRun(result, writes, witness.random)

    def _keep(self, key: Hashable, result: Any, given: list[torch.Tensor], random: bool) -> None:
        """Remember a result whose tensors have memory of their own."""
        alone = isinstance(result, torch.Tensor)
        made = [result] if alone else result if type(result) is tuple else []
        storages = {storage_of(one) for one in given}
        fresh = all(
            isinstance(one, FakeTensor)
            and one.layout is torch.strided
            and storage_of(one) not in storages
            and one.storage_offset() == 0
            and not one.is_conj()
            and not one.is_neg()
            for one in made
        )
        if made and fresh and len({storage_of(one) for one in made}) == len(made):
            self._known[key] = (
                alone,
                [(tuple(one.shape), one.stride(), one.dtype, one.device) for one in made],
                random,
            )


def is_fake(data: object) -> bool:
    """Whether ``data`` is a tensor without numbers."""
    return isinstance(data, FakeTensor)


def _key(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What the result of a call depends on; None where that cannot be said."""
    if any_enabled():  # autocast
        return None
    try:
        key = (function, _part(args), _part(kwargs), torch.get_default_dtype())
        hash(key)
    except TypeError:
        return None
    return key


def _part(given: Any) -> Hashable:
    if isinstance(given, torch.Tensor):
        if given.layout is not torch.strided or given.is_conj() or given.is_neg():
            raise TypeError
        return (tuple(given.shape), given.stride(), given.dtype, given.device)
    if isinstance(given, list | tuple):
        return (type(given), *map(_part, given))
    if isinstance(given, dict):
        return tuple((name, _part(one)) for name, one in given.items())
    if isinstance(given, slice):
        return ("slice", given.start, given.stop, given.step)
    if isinstance(given, Number):  # it may be another one in each run
        return Number
    return (type(given), given)


def without_fakes(structure: Any) -> Any:
    """The same structure, where each fake tensor is described by its shape: for an error message."""
    return mapped(lambda one: f"tensor of shape {tuple(one.shape)}" if is_fake(one) else one, structure)
