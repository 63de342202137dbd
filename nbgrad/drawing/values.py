"""Numbers of other engines as tensors of torch, without a copy where possible."""

from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.drawing.part import NUMBERS, AbstractValue, UnreadableError, shown


def tensor_of(value: Any, whose: object, what: str) -> torch.Tensor:
    """The numbers of a value or a gradient as a tensor. Python's own numbers are float64.

    Args:
        value: a number, an array, a tensor, a nested list of numbers, or an ``AbstractValue``.
        whose: the object that it belongs to, for the message.
        what: "value" or "gradient".

    Raises:
        UnreadableError: it is something else, a list with rows of different lengths, or has an element type that torch
            does not have.
    """
    try:
        return _tensor(value)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        why = f": {error}" if isinstance(value, list | tuple | np.ndarray | AbstractValue) else ""
        raise UnreadableError(
            f"the {what} of {shown(whose)} is {shown(value)}, a {type(value).__name__}. It has to be a number, an "
            f"array of numpy, a tensor of torch or a list of numbers{why}"
        ) from None


def _tensor(value: Any) -> torch.Tensor:
    raw = raw_of(value)
    if isinstance(raw, torch.Tensor):
        return raw.detach()
    if isinstance(value, AbstractValue):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    if type(value) in (bool, int, float):
        return torch.tensor(float(value), dtype=torch.float64)
    array = _array(value)
    plain = array.flags.writeable and min(array.strides, default=0) >= 0  # torch takes no other array as it is
    return torch.from_numpy(array if plain else array.copy())


def _array(value: Any) -> "np.ndarray[Any, Any]":
    """The numbers as an array whose element type torch has."""
    if isinstance(value, list | tuple):
        value = np.asarray(_plain(value))
        value = value.astype(np.float64) if value.dtype.kind in "iub" else value
    if not isinstance(value, (np.ndarray, *NUMBERS)) and not hasattr(type(value), "__array__"):
        raise TypeError("no numbers")
    array = np.asarray(value)
    if array.dtype.kind == "O" or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"its element type is {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _plain(value: Any) -> Any:
    """A nested list with numbers in the place of tensors of one number."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return raw_of(value).item() if isinstance(raw_of(value), torch.Tensor) else value
