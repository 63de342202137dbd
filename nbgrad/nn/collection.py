"""Parameters in a list and in a dict, beside anything else that they may hold."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any, Self, overload

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.tensor import Tensor
from nbgrad.nn.container import pairs
from nbgrad.nn.module import Module
from nbgrad.nn.parameter import Parameter


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor | torch.Tensor) and not isinstance(value, Parameter) else value


def _line(name: Any, value: Any, dtype: str) -> str:
    """What ``repr`` shows of a value."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    place = f" ({value.device})" if value.is_cuda else ""
    return f"  ({name}): {kind} containing: [{dtype} of size {'x'.join(map(str, value.shape))}{place}]"


class ParameterList(Module):
    """A list of parameters that the module it is assigned to knows of. Tensors become parameters.

    Args:
        values: what is in it.
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
            TypeError: that is nothing to iterate over, or a tensor.
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
    """Parameters by name that the module it is assigned to knows of. Tensors become parameters.

    Args:
        parameters: what is in it: a dict, sorted by its keys unless it is ordered, or pairs of name and value.
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
        """The value of ``key``, which is ``default`` if there was none."""
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
        """Take in what a dict, sorted by its keys unless it is ordered, or pairs of key and value hold.

        Raises:
            TypeError: that is nothing to iterate over.
            ValueError: an element is no pair.
        """
        found = pairs(parameters, "ParameterDict")
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
