"""Settings of ops and numbers among their inputs as JSON: numbers, texts, tuples, slices, types and tensors' shapes.

Any other object becomes the text that the picture shows of it: reading a file makes no object of a foreign class.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import dtype_name, text_of
from nbgrad.core.graph.record import Described
from nbgrad.core.typed_json import JsonForm, MismatchError

_NAMED: dict[str, Any] = {
    str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype | torch.layout | torch.memory_format)
}
"""Torch's constants that stand among the settings, such as ``torch.float32``."""

_SAFE = 1 << 53
"""Larger integers are written as text: other readers of JSON would round them."""


class SavedText:
    """An object that was a setting, of which a file has only the text. It equals other objects with this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return not isinstance(other, str) and text_of(other) == self._text

    __hash__ = None  # type: ignore[assignment]  # the other object has a hash of its own

    def __repr__(self) -> str:
        return self._text


def written(value: Any) -> Any:
    """A setting as JSON: a plain value as it is, any other as an object with its kind and its parts."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if _NAMED.get(text := text_of(value)) is value:
        return {"torch": text}
    return {"text": text}


def read(data: Any) -> Any:
    """The setting that ``data`` stand for.

    Raises:
        MismatchError: they stand for none.
    """
    if data is None or type(data) in (bool, str, int, float):
        return data
    if type(data) is dict and len(data) == 1:
        ((kind, held),) = data.items()
        if kind in _READERS:
            return _READERS[kind](held)
    raise MismatchError("a setting")


def device_of(data: Any) -> torch.device:
    """The device of that name, which need not be there."""
    try:
        return torch.device(_text(data))
    except RuntimeError:
        raise MismatchError("the name of a device") from None


def dtype_of(data: Any) -> torch.dtype:
    """The element type of that name."""
    found = _NAMED.get(f"torch.{_text(data)}")
    if not isinstance(found, torch.dtype):
        raise MismatchError("the name of an element type")
    return found


def _text(data: Any) -> str:
    return str(_PLAIN.read(data, str))


def _tensor(data: Any) -> Described:
    shape, dtype = _PLAIN.read(data, tuple[tuple[int, ...], str])
    return Described(shape, dtype_name(dtype_of(dtype)))


def _torchs(data: Any) -> Any:
    if (name := _text(data)) not in _NAMED:
        raise MismatchError("the name of a constant of torch's")
    return _NAMED[name]


def _int(data: Any) -> int:
    try:
        return int(_text(data), 16)
    except ValueError:
        raise MismatchError("an integer") from None


_PLAIN = JsonForm({Any: (written, read)})


def _write_float(value: float) -> Any:
    found = _PLAIN.written(value, float)
    return found if type(found) is float else {"float": found}


def _parts(kind: str, parts: Iterable[Any]) -> dict[str, Any]:
    return {kind: [written(one) for one in parts]}


_WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: lambda value: value if abs(value) <= _SAFE else {"int": hex(value)},
    float: _write_float,
    complex: lambda value: {"complex": _PLAIN.written((value.real, value.imag), tuple[float, float])},
    type(Ellipsis): lambda _: {"ellipsis": None},
    tuple: lambda value: _parts("tuple", value),
    torch.Size: lambda value: _parts("tuple", value),
    slice: lambda value: _parts("slice", (value.start, value.stop, value.step)),
    Described: lambda value: {"tensor": [list(value.shape), value.dtype]},
    torch.device: lambda value: {"device": str(value)},
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": lambda data: _PLAIN.read(data, float),
    "complex": lambda data: complex(*_PLAIN.read(data, tuple[float, float])),
    "ellipsis": lambda _: Ellipsis,
    "tuple": lambda data: _PLAIN.read(data, tuple[Any, ...]),
    "slice": lambda data: slice(*_PLAIN.read(data, tuple[Any, Any, Any])),
    "tensor": _tensor,
    "device": device_of,
    "torch": _torchs,
    "text": lambda data: SavedText(_text(data)),
}
