"""Modules made of modules, and parameters kept in lists and dicts."""

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, groupby
from typing import Any, Self, overload

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter

# Modules.


class _List(Module):
    """Modules named "0", "1", ... that can be indexed as a list can."""

    def __len__(self) -> int:
        return len(self._all("module"))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all("module").values())

    def __setitem__(self, index: int, module: Module) -> None:
        self._register(self._name(index), module, "module")

    def __delitem__(self, index: int | slice) -> None:
        modules = self._all("module")
        names = list(modules)[index] if isinstance(index, slice) else [self._name(index)]
        self._become([module for name, module in modules.items() if name not in names])

    def append(self, module: Module) -> Self:
        """Add ``module`` at the end, named after its position."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add ``modules`` at the end, in their order.

        Raises:
            TypeError: the argument is not iterable.
        """
        given: Any = modules
        if not isinstance(given, Iterable):
            kind = type(self).__name__
            raise TypeError(f"{kind}.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Take a module out and return it; a slice of them, in a new container."""
        found: Module = self[key]  # type: ignore[index]  # both kinds of list have it
        del self[key]
        return found

    def _inserted(self, index: int, module: Module) -> None:
        modules = list(self)
        modules.insert(index, module)
        self._become(modules)

    def _become(self, modules: list[Any]) -> None:
        """Replace all modules by these, with new numbers."""
        for name in list(self._all("module")):
            self._discard(name)
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def _name(self, index: int) -> str:
        """The name of the module at ``index``, which counts from the end where it is negative."""
        names = list(self._all("module"))
        index = operator.index(index)
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range: this {type(self).__name__} has {len(names)} modules")
        return names[index]


class Sequential(_List):
    """Runs modules one after the other, each on the output of the one before.

    Args:
        args: the modules, named "0", "1", ...; or one ``OrderedDict`` of modules by name.

    Raises:
        TypeError: an argument is no ``Module``.
    """

    __formula__ = r"f_n(\dots f_1(x))"

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: "OrderedDict[str, Module]", /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequential": ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._all("module").items())[index]))
        return self._all("module")[self._name(index)]

    def insert(self, index: int, module: Module) -> Self:
        """Put ``module`` before the one at ``index``.

        Raises:
            IndexError: there is no such place.
        """
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._inserted(index, module)
        return self

    def __add__(self, other: "Sequential") -> "Sequential":
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: "Sequential") -> Self:
        return self.extend(_sequential(other))

    def __mul__(self, times: int) -> "Sequential":
        return Sequential(*list(self) * _positive(times, self))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(list(self) * (_positive(times, self) - 1))


def _sequential(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return other


def _positive(times: Any, of: Module) -> int:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(of)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(of)}")
    return times


class ModuleList(_List):
    """A list of modules, registered in the module to which it is assigned; the ``forward`` of that module calls them.

    Args:
        modules: the first entries.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "ModuleList": ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._all("module")[self._name(index)]

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before the one at ``index``."""
        self._inserted(index, module)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """The modules, one on each line; modules in a row with the same text share a line."""
        lines = []
        for text, same in groupby(enumerate(map(repr, self)), key=operator.itemgetter(1)):
            numbers = [number for number, _ in same]
            one = len(numbers) == 1
            line = f"({numbers[0]}): {text}" if one else f"({numbers[0]}-{numbers[-1]}): {len(numbers)} x {text}"
            lines.append(line.replace("\n", "\n  "))
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """Modules by name, registered in the module to which it is assigned; the ``forward`` of that module calls them.

    Args:
        modules: the first entries: a dict, or pairs of name and module.
    """

    def __init__(self, modules: "Mapping[str, Module] | Iterable[tuple[str, Module]] | None" = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._all("module")[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self._all("module")[key]
        self._discard(key)

    def __len__(self) -> int:
        return len(self._all("module"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._all("module"))

    def __contains__(self, key: object) -> bool:
        return key in self._all("module")

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._all("module").keys()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._all("module").values()

    def items(self) -> ItemsView[str, Any]:
        """Pairs of name and module."""
        return self._all("module").items()

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module

    def update(self, modules: "Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]]") -> None:
        """Add the modules of a dict, or of pairs of name and module. A name that exists already gets the new module.

        Raises:
            TypeError: the argument is not iterable.
            ValueError: an element is no pair.
        """
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


# Parameters.


class ParameterList(Module):
    """A list of parameters, registered in the module to which it is assigned. Tensors become parameters.

    Args:
        values: the first entries.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[number] for number in range(len(self))[index]])
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add ``value`` at the end."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add ``values`` at the end, in their order.

        Raises:
            TypeError: ``values`` is not iterable, or is a tensor.
        """
        given: Any = values
        if not isinstance(given, Iterable) or isinstance(given, Tensor | torch.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def _name(self, index: int) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: this ParameterList has {len(self)} values")
        return str(index % len(self))

    def extra_repr(self) -> str:
        return "\n".join(_line(name, value, str(getattr(value, "dtype", ""))) for name, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name, registered in the module to which it is assigned. Tensors become parameters.

    Args:
        parameters: the first entries: a dict, or pairs of name and value. A dict that is not an ``OrderedDict`` is
            sorted by its keys.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, _checked(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: "ParameterDict") -> "ParameterDict":
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> "ParameterDict":
        joined: ParameterDict = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: "ParameterDict") -> Self:
        self.update(other)
        return self

    def copy(self) -> "ParameterDict":
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``. If there is none, ``default`` becomes its value."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last pair of key and value out and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """Another dict with these keys, each with ``default``."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of name and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the entries of a dict, or pairs of key and value.

        A dict that is not an ``OrderedDict`` is sorted by its keys first.

        Raises:
            TypeError: the argument is not iterable.
            ValueError: an element is no pair.
        """
        found = _pairs(parameters, "ParameterDict")
        unordered = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for key, value in sorted(found) if unordered else list(found):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_line(name, value, torch.typename(raw_of(value))) for name, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        raise RuntimeError("ParameterDict should not be called.")


def _checked(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a ParameterDict is a string, not {type(key).__name__}: {key!r}")
    return key


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor | torch.Tensor) and not isinstance(value, Parameter) else value


def _line(name: Any, value: Any, dtype: str) -> str:
    """The text for a value in ``repr``."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    place = f" ({value.device})" if value.is_cuda else ""
    return f"  ({name}): {kind} containing: [{dtype} of size {'x'.join(map(str, value.shape))}{place}]"


# The shared part of module and parameter dicts.


def _pairs(given: Any, kind: str) -> Iterable[tuple[Any, Any]]:
    """The pairs of key and value in a dict, or in anything that consists of pairs."""
    if hasattr(given, "items"):
        return given.items()  # type: ignore[no-any-return]
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, got {type(given).__name__}"
        )
    found = []
    for number, one in enumerate(list(given)):
        if not isinstance(one, Iterable):
            raise TypeError(f"{kind} update sequence element #{number} should be Iterable; is {type(one).__name__}")
        pair = tuple(one)
        if len(pair) != 2:
            raise ValueError(f"{kind} update sequence element #{number} has length {len(pair)}; 2 is required")
        found.append(pair)
    return found
