"""``Effects``: what a traced function has changed around it, and a program would not change again."""

import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, partialmethod
from io import BytesIO, StringIO
from operator import attrgetter, eq, is_
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.call_site import in_library
from nbgrad.core.engine.node import Hooks, TensorBase
from nbgrad.core.engine.user_names import is_module
from nbgrad.core.symbolic.surroundings import Sight, codes_in, differs, is_library

_MOST = 100_000
"""How many objects are looked at, the nearest first."""

_COPIED = 2**26
"""The bytes of an array up to which its numbers are copied."""

_PLAIN = (
    *(int, float, complex, bool, str, bytes, type(None), range, slice, type(Ellipsis), CodeType, BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.Size, np.generic, np.dtype, property, classmethod, staticmethod),
)
"""The types of values that never change."""

_OWN = {
    "Optimizer": frozenset(("state", "_opt_called", "_step_count", "_runner")),
    "Module": frozenset(("_roles",)),
}
"""Attributes that a program changes too, or that nothing but nbgrad reads, by the name of a class."""

_OTHERS = ("threading", "queue", "_thread", "_queue", "concurrent", "multiprocessing", "asyncio", "logging", "weakref")
"""Modules whose objects other threads change at any time. ``Calls`` watches what this thread does with them."""

_UNSET: Any = object()


class Change:
    """Something that is not what it was before.

    Attributes:
        name: how the user's code calls it, such as "config.count".
        fills: whether it was unset before, as an attribute is that a first call makes.
        owner: the object that it belongs to.
        before, now: its values; both are None where that tells nothing.
    """

    def __init__(self, name: str, owner: Any, before: Any = None, now: Any = None, fills: bool = False) -> None:
        self.name, self.owner, self.before, self.now = name, owner, before, now
        self.fills = fills and "hook" not in name  # the first hook of a module makes the place for it

    def __str__(self) -> str:
        told = all(type(one) in (int, float, str, bool) for one in (self.before, self.now))
        return f"{self.name} from {self.before!r} to {self.now!r}" if told else self.name


class Effects:
    """The values of all that can be reached from what a function uses.

    These are attributes, entries of containers, variables of functions and modules, classes, and the numbers of arrays.
    The numbers of tensors, their ``.grad`` and the states of optimizers are left out, because programs change them.

    Args:
        around: what the function uses from outside.
    """

    def __init__(self, around: Iterable[Sight]) -> None:
        self._held: list[_Held | _Entries] = []
        self._known: set[int] = set()
        self._alive: list[Any] = []  # an id belongs to one object as long as that lives
        waiting = deque((one.name, one.value) for one in around)
        while waiting and len(self._alive) < _MOST:
            name, value = waiting.popleft()
            if not isinstance(value, _PLAIN) and id(value) not in self._known:
                self._known.add(id(value))
                self._alive.append(value)
                waiting.extend(self._found(name, value))

    def changes(self) -> list[Change]:
        """The changes since."""
        return [change for one in self._held for change in one.changes()]

    def restore(self) -> None:
        """Give everything its old value."""
        for one in self._held:
            if next(one.changes(), None) is not None:
                one.restore()

    def has_changed(self, name: str) -> bool:
        """Whether something of this name has changed."""
        near = (one for one in self._held if name.startswith(one.name))
        return any(change.name == name for one in near for change in one.changes())

    # ----------------------------------------------------------------------------------------------- what there is

    def _hold(self, held: "_Held | _Entries") -> None:
        self._held.append(held)

    def _found(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Keep what an object holds, and give the objects in it with their names."""
        if isinstance(value, TensorBase | torch.Tensor):
            self._hold_tensor(name, value)
        elif isinstance(value, type):
            yield from self._found_in_class(value)
        elif isinstance(value, FunctionType):
            yield from self._found_in_function(name, value)
        elif isinstance(value, MethodType):
            yield name, value.__func__
            yield name.rpartition(".")[0] or type(value.__self__).__name__, value.__self__
        elif isinstance(value, CellType):
            self._hold(_cell(name, value))
            yield name, _content(value)
        elif (simple := next((held for kind, held in _SIMPLE if isinstance(value, kind)), None)) is not None:
            self._hold(simple(name, value))
        else:
            yield from self._found_in_container(name, value)
            kind = type(value)
            if not kind.__module__.startswith(("nbgrad.core", "builtins")) and _module_of(kind) not in _OTHERS:
                yield from self._found_in_object(name, value)
            if (inner := getattr(value, "__wrapped__", None)) is not None:
                yield name, inner

    def _found_in_container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            self._hold(_Entries(name, value, value))
            yield from ((f"{name}[{key!r}]", one) for key, one in list(value.items()) if _deep(one))
        elif isinstance(value, list | deque | tuple):
            if not isinstance(value, tuple):
                self._hold(_Listed(name, value))
            yield from ((f"{name}[{place}]", one) for place, one in enumerate(list(value)) if _deep(one))
        elif isinstance(value, set | frozenset):
            if isinstance(value, set):
                self._hold(_set(name, value))
            yield from ((name, one) for one in list(value) if _deep(one))
        elif isinstance(value, partial | partialmethod):
            yield from ((name, value.func), (f"{name}.args", value.args), (f"{name}.keywords", value.keywords))

    def _found_in_object(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            kept = _left_out(value)
            self._hold(_Attributes(name, value, own, kept))
            yield from ((f"{name}.{key}", one) for key, one in list(own.items()) if key not in kept and _deep(one))
        kind = type(value)
        yield kind.__name__, kind
        for one in kind.__mro__:
            for key, slot in vars(one).items():
                if isinstance(slot, MemberDescriptorType) and one.__module__ != "builtins":
                    held = _slot(f"{name}.{key}", value, slot)
                    self._hold(held)
                    yield held.name, held.before

    def _found_in_class(self, value: type) -> Iterator[tuple[str, Any]]:
        for kind in value.__mro__:
            if kind.__module__ == "builtins" or (id(kind) in self._known and kind is not value):
                continue
            self._known.add(id(kind))
            self._hold(_Class(kind.__name__, kind))
            if not is_library(sys.modules.get(kind.__module__)):
                for key, one in list(vars(kind).items()):
                    inner = getattr(one, "__func__", getattr(one, "fget", one))
                    if _deep(inner) and not isinstance(inner, MemberDescriptorType):
                        yield f"{kind.__name__}.{key}", inner

    def _found_in_function(self, name: str, value: FunctionType) -> Iterator[tuple[str, Any]]:
        own = not in_library(value.__code__.co_filename)
        yield from zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        if own:
            self._hold(_function(name, value))
            space, names = value.__globals__, {name for code in codes_in(value.__code__) for name in code.co_names}
            self._hold(_Variables("", value, space, None if "globals" in names else names))
            yield from ((key, space[key]) for key in names if key in space)
            yield f"the defaults of {value.__name__}", value.__defaults__
            yield f"the defaults of {value.__name__}", value.__kwdefaults__
        if value.__dict__:
            yield name, value.__dict__

    def _hold_tensor(self, name: str, value: Any) -> None:
        if getattr(value, "__dict__", None):
            self._hold(_Attributes(name, value, value.__dict__, frozenset()))
        if isinstance(value, TensorBase):
            self._hold(_hooks(name, value))


def _deep(value: Any) -> bool:
    return not isinstance(value, _PLAIN)


def _module_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _left_out(value: Any) -> frozenset[str]:
    if isinstance(value, torch.optim.Optimizer):
        return _OWN["Optimizer"]
    return _OWN["Module"] if is_module(value) else frozenset()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _UNSET


def _is_unset(value: Any) -> bool:
    return value is _UNSET or value is None or value is False


# -------------------------------------------------------------------------------------------------- kinds of objects


class _Held:
    """The content of an object at one time.

    Args:
        name: how the user's code calls it.
        owner: the object.
        read: reads what it holds, in a form that does not change with it.
        write: gives the object back what was read.
        same: whether two readings are the same.
    """

    def __init__(
        self,
        name: str,
        owner: Any,
        read: Callable[[], Any],
        write: Callable[[Any], object],
        same: Callable[[Any, Any], bool] = eq,
    ) -> None:
        self.name, self.owner = name, owner
        self._read, self._write, self._same = read, write, same
        self.before = read()

    def changes(self) -> Iterator[Change]:
        """The changes since."""
        now = self._read()
        if not self._same(now, self.before):
            yield Change(self.name, self.owner, self.before, now, _is_unset(self.before))

    def restore(self) -> None:
        """Give the object back what it held."""
        self._write(self.before)


def _listed(space: Any) -> list[Any]:
    return [*space, *space.values()]


class _Entries:
    """The entries of a dict, which may hold attributes."""

    def __init__(self, name: str, owner: Any, space: Any, kept: frozenset[str] = frozenset()) -> None:
        self.name, self.owner, self.space, self.kept = name, owner, space, kept
        self.before = dict(space)

    def _now(self) -> dict[Any, Any]:
        return dict(self.space)

    def changes(self) -> Iterator[Change]:
        """The changes since."""
        now = self._now()
        if len(now) == len(self.before) and all(map(is_, _listed(now), _listed(self.before))):
            return
        for key in [*self.before, *(one for one in now if one not in self.before)]:
            first, last = self.before.get(key, _UNSET), now.get(key, _UNSET)
            if first is not last and differs(last, first) and not self._leaves_out(key):
                yield Change(self.called(key), self.owner, first, last, _is_unset(first))
        if now.keys() == self.before.keys() and any(map(differs, now, self.before)):
            yield Change(self.name, self.owner)  # the order of its keys

    def _leaves_out(self, key: Any) -> bool:
        return isinstance(key, str) and key in self.kept

    def called(self, key: Any) -> str:
        """The name of an entry."""
        return f"{self.name}[{key!r}]"

    def restore(self) -> None:
        """Give the dict back its entries."""
        kept = {key: self.space[key] for key in self.kept if key in self.space}
        self.space.clear()
        self.space.update({**self.before, **kept})


class _Attributes(_Entries):
    """The attributes of an object, and its class."""

    def __init__(self, name: str, owner: Any, space: Any, kept: frozenset[str]) -> None:
        super().__init__(name, owner, space, kept)
        self.kind = type(owner)

    def changes(self) -> Iterator[Change]:
        yield from super().changes()
        if type(self.owner) is not self.kind:
            yield Change(f"{self.name}.__class__", self.owner)

    def called(self, key: Any) -> str:
        return f"{self.name}.{key}"

    def restore(self) -> None:
        if type(self.owner) is not self.kind:
            self.owner.__class__ = self.kind
        super().restore()


class _Variables(_Entries):
    """The variables of a module, those of Python's own left out; or those of them that have one of the names."""

    def __init__(self, name: str, owner: Any, space: Any, names: set[str] | None = None) -> None:
        super().__init__(name, owner, space)
        self.names = names
        self.before = self._now()

    def _now(self) -> dict[str, Any]:
        if self.names is None:
            return dict(self.space)
        return {key: self.space[key] for key in self.names if key in self.space}

    def called(self, key: Any) -> str:
        return f"{self.name}.{key}" if self.name else str(key)

    def _leaves_out(self, key: Any) -> bool:
        return isinstance(key, str) and key.startswith("__")

    def restore(self) -> None:
        for change in list(self.changes()):
            self._put(change.name.rpartition(".")[2], change.before)

    def _put(self, key: str, value: Any) -> None:
        if value is _UNSET:
            del self.space[key]
        else:
            self.space[key] = value


class _Class(_Variables):
    """The attributes of a class."""

    def __init__(self, name: str, owner: type) -> None:
        super().__init__(name, owner, vars(owner))

    def _leaves_out(self, key: Any) -> bool:
        return key in ("__abstractmethods__", "_abc_impl", "__annotations__", "__dict__", "__weakref__", "__doc__")

    def _put(self, key: str, value: Any) -> None:
        if value is _UNSET:
            type.__delattr__(self.owner, key)
        else:
            type.__setattr__(self.owner, key, value)


class _Listed(_Held):
    """The entries of a list or a deque."""

    def __init__(self, name: str, owner: Any) -> None:
        super().__init__(name, owner, partial(list, owner), partial(_refill, owner, owner.extend))

    def changes(self) -> Iterator[Change]:
        now = list(self.owner)
        if len(now) != len(self.before):
            yield Change(self.name, self.owner)
        elif not all(map(is_, now, self.before)):
            for place, (first, last) in enumerate(zip(self.before, now, strict=True)):
                if differs(last, first):
                    yield Change(f"{self.name}[{place}]", self.owner, first, last)


def _refill(container: Any, fill: Callable[[Any], object], before: Any) -> None:
    container.clear()
    fill(before)


def _alike(now: Any, before: Any) -> bool:
    return not differs(now, before)


def _set(name: str, owner: set[Any]) -> _Held:
    return _Held(name, owner, partial(set, owner), partial(_refill, owner, owner.update))


def _bytes(name: str, owner: Any) -> _Held:
    """The contents of a bytearray, or of an array of Python's."""
    return _Held(name, owner, lambda: owner[:], partial(owner.__setitem__, slice(None)))


def _stream(name: str, owner: Any) -> _Held:
    """The text or the bytes in a stream in memory, and the place where it is read."""

    def write(before: Any) -> None:
        if before is not None and not owner.closed:
            owner.seek(0)
            owner.truncate()
            owner.write(before[0])
            owner.seek(before[1])

    return _Held(name, owner, lambda: None if owner.closed else (owner.getvalue(), owner.tell()), write)


def _array(name: str, owner: np.ndarray[Any, Any]) -> _Held:
    """The numbers of an array of numpy's; of a large one whether they have changed."""
    copy = owner.copy() if owner.nbytes <= _COPIED else None

    def read() -> list[int]:
        return [id(one) for one in owner.flat] if owner.dtype.hasobject else [hash(owner.tobytes())]

    def write(_: Any) -> None:
        if copy is not None:
            owner[...] = copy

    return _Held(name, owner, read, write)


def _slot(name: str, owner: Any, slot: Any) -> _Held:
    """An attribute in ``__slots__``."""

    def read() -> Any:
        try:
            return slot.__get__(owner)
        except AttributeError:
            return _UNSET

    def write(before: Any) -> None:
        with suppress(AttributeError):  # it is only read, as the count of lines of a reader of the module csv
            if before is _UNSET:
                slot.__delete__(owner)
            else:
                slot.__set__(owner, before)

    return _Held(name, owner, read, write, _alike)


def _cell(name: str, owner: CellType) -> _Held:
    """A variable of a function that an inner function uses."""

    def write(before: Any) -> None:
        if before is _UNSET:
            del owner.cell_contents
        else:
            owner.cell_contents = before

    return _Held(name, owner, partial(_content, owner), write, _alike)


def _function(name: str, owner: FunctionType) -> _Held:
    """The code and the defaults of a function."""

    def write(before: Any) -> None:
        owner.__code__, owner.__defaults__, owner.__kwdefaults__ = before

    parts = attrgetter("__code__", "__defaults__", "__kwdefaults__")
    return _Held(name, owner, lambda: parts(owner), write, lambda now, before: all(map(is_, now, before)))


def _hooks(name: str, owner: TensorBase) -> _Held:
    """The hooks of a tensor."""

    def read() -> dict[int, Any]:
        return {at: dict(one) for at, one in enumerate(_tables(owner)) if one}

    def write(before: dict[int, Any]) -> None:
        for at, table in enumerate(_tables(owner)):
            table.clear()
            table.update(before.get(at, {}))

    return _Held(f"the hooks of {name}", owner, read, write)


def _tables(tensor: Any) -> list[Any]:
    hooks: Hooks | None = getattr(tensor._origin, "hooks", None)
    return [] if hooks is None else [hooks.gradient, hooks.before, hooks.after, hooks.accumulated]


_SIMPLE: list[tuple[Any, Callable[[str, Any], _Held | _Entries]]] = [
    (ModuleType, lambda name, value: _Variables(name, value, vars(value))),
    (np.ndarray, _array),
    (bytearray | array, _bytes),
    (StringIO | BytesIO, _stream),
]
"""Kinds of objects that hold no others, or of which the others are not looked at; and what is kept of them."""


class Lines:
    """A context that finds the first line of the user's after which something has changed.

    Args:
        changed: whether it has.

    Attributes:
        frame: code and instruction of that line; None where no line was found.
    """

    def __init__(self, changed: Callable[[], bool]) -> None:
        self._changed = changed
        self._last: tuple[CodeType, int] | None = None
        self.found: tuple[CodeType, int] | None = None
        self._others: Any = None

    def __enter__(self) -> None:
        self._others = sys.gettrace()
        sys.settrace(self._enter)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._others)
        self._look()

    def _enter(self, frame: Any, _: str, __: Any) -> Any:
        if in_library(frame.f_code.co_filename):
            return None
        self._look()
        return self._line

    def _line(self, frame: Any, event: str, _: Any) -> Any:
        self._look()
        if event == "return":
            while frame.f_back is not None and in_library(frame.f_back.f_code.co_filename):
                frame = frame.f_back
            frame = frame.f_back
        if frame is not None:
            self._last = frame.f_code, frame.f_lasti
        return self._line

    def _look(self) -> None:
        if self._last is None or not self._changed():
            self.found = None  # what was changed for a while, as in ``no_grad()``, is as before
        elif self.found is None:
            self.found = self._last
