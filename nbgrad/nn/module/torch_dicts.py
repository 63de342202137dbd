"""The dicts of a module that are private in torch, and that programs change: ``model._modules[name] = other``."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSet
from typing import Any, Protocol


class _Holder(Protocol):
    """The parts of a module that this file uses."""

    _roles: dict[str, str]

    def _register(self, name: str, value: Any, role: str, *, replace: bool = ...) -> None: ...

    def _discard(self, name: str) -> None: ...


class Held(MutableMapping[str, Any]):
    """A module's own parameters, buffers or modules by name, with None for what it does without.

    A value that is put in is checked like a value assigned to an attribute. A value that is taken out is no attribute
    any more.
    """

    def __init__(self, module: _Holder, *roles: str) -> None:
        self._module, self._as = module, roles

    def __getitem__(self, name: str) -> Any:
        if self._module._roles.get(name) not in self._as:
            raise KeyError(name)
        return vars(self._module)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        held = self._module._roles.get(name)
        self._module._register(name, value, held if held in self._as else self._as[0], replace=True)

    def __delitem__(self, name: str) -> None:
        self[name]  # a KeyError where there is none
        self._module._discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, role in self._module._roles.items() if role in self._as])

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def copy(self) -> dict[str, Any]:
        """The present entries, in a dict that belongs to no module."""
        return dict(self)

    __copy__ = copy

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def __repr__(self) -> str:
        return repr(dict(self))


class TransientNames(MutableSet[str]):
    """The names of a module's own buffers that are not saved; change it to choose which buffers are saved."""

    def __init__(self, module: _Holder) -> None:
        self._module = module

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, role in self._module._roles.items() if role == "transient"])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, value: str) -> None:
        """Do not save this buffer."""
        self._turn(value, "buffer", "transient")

    def discard(self, value: str) -> None:
        """Save this buffer."""
        self._turn(value, "transient", "buffer")

    def _turn(self, name: str, before: str, after: str) -> None:
        if self._module._roles.get(name) == before:
            self._module._roles[name] = after


class HookFunctions(MutableMapping[int, Callable[..., Any]]):
    """The functions of a module's hooks of one kind by their numbers, in the order in which they run.

    A hook that is taken out does not run any more; ``register_forward_hook`` and its like add hooks.
    """

    def __init__(self, table: MutableMapping[int, Any]) -> None:
        self._table = table

    def __getitem__(self, number: int) -> Callable[..., Any]:
        function: Callable[..., Any] = self._table[number].run
        return function

    def __setitem__(self, number: int, function: Callable[..., Any]) -> None:
        raise TypeError("hooks are put in by register_forward_hook() and register_forward_pre_hook() of the module")

    def __delitem__(self, number: int) -> None:
        del self._table[number]

    def __iter__(self) -> Iterator[int]:
        return iter([*self._table])

    def __len__(self) -> int:
        return len(self._table)
