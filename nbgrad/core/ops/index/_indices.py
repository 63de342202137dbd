"""The normal form of an index: Python, numpy and torch have many ways to write the same few things."""

import warnings
from operator import index as whole
from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.tensor.construct import numbers


def canonical(index: Any) -> Any:
    """An index as rows keep it: one part, or a tuple of parts.

    A part is a whole number, a slice of whole numbers, None, Ellipsis, or a raw torch tensor. The tensor holds
    positions or truth values in at least one dimension, or it is a single truth value without dimensions. Tensors are
    copies: if the user's tensor is changed in place later, the gradient still goes to the right places.

    Raises:
        IndexError, TypeError, ValueError, RuntimeError: something in the index is none of these.
    """
    kind = type(index)
    if kind is int:
        return index
    if kind is tuple:
        return tuple([one if type(one) is int else part(one) for one in index])
    if isinstance(index, tuple) or _several(index):
        return tuple([part(one) for one in index])
    return part(index)


def part(one: Any) -> Any:
    """A part of an index in its normal form. An object that is no index stays as it is: torch raises the error."""
    if one is None or one is Ellipsis or type(one) is int:
        return one
    if isinstance(one, slice):
        return _slice(one)
    tensor = _tensor(raw_of(one))
    if tensor is not None:
        return _number(tensor)
    try:
        return int(whole(one))
    except TypeError:
        return one


def _tensor(one: Any) -> torch.Tensor | None:
    """The torch tensor for a tensor, an array or a sequence in an index; None for anything else, such as a number."""
    if isinstance(one, torch.Tensor):
        return mask_or_positions(one)
    if isinstance(one, bool):
        return torch.tensor(one)
    if isinstance(one, np.bool_):
        raise IndexError("an index holds one of numpy's truth values, which torch does not take: write bool(condition)")
    return _made(one) if isinstance(one, np.ndarray) or _is_sequence(one) else None


def _slice(one: slice) -> slice:
    """A slice of whole numbers. A tensor or a numpy number that stands for a whole number is converted now."""
    ends = (one.start, one.stop, one.step)
    for end in ends:
        if end is not None and type(end) is not int:
            return slice(*[None if end is None else int(_end(end)) for end in ends])
    return one


def _end(end: Any) -> int:
    try:
        return whole(end)
    except TypeError:
        raise TypeError(
            f"the ends and the step of a slice are whole numbers or None, not {type(end).__name__}: write int(x)"
        ) from None


def mask_or_positions(given: torch.Tensor) -> torch.Tensor:
    """A copy of ``given``. Bytes become truth values, as in torch."""
    if given.dtype is not torch.uint8:
        return given.detach().clone()
    _warn("a tensor of bytes is read as a mask, but torch is going to drop this: write x[mask.bool()]")
    return given != 0


def _number(tensor: torch.Tensor) -> Any:
    """One position as a plain number. As in torch, a number removes the dimension, and its result is a view."""
    return int(tensor) if tensor.ndim == 0 and tensor.dtype in _WHOLE and not tensor.is_meta else tensor


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8)


def _made(sequence: Any) -> torch.Tensor:
    """The tensor of a sequence: of truth values a mask, of all other numbers positions."""
    try:
        made = torch.tensor(sequence)
    except (TypeError, ValueError):  # a list that holds an nbgrad tensor: torch takes it for a sequence
        sequence = numbers(sequence)
        made = torch.tensor(sequence)
    if made.dtype is torch.bool or made.dtype is torch.int64:
        return made
    return mask_or_positions(made) if made.dtype is torch.uint8 else torch.tensor(sequence, dtype=torch.int64)


def _is_sequence(one: Any) -> bool:
    """Whether torch makes one tensor of it. A dict and a numpy number can be indexed too, but are no sequences."""
    return hasattr(type(one), "__getitem__") and not isinstance(one, dict | np.generic)


_MOST = 32
"""torch reads a list of this many parts, or more, as one tensor, whatever the parts are."""


def _several(index: Any) -> bool:
    """Whether a list stands for a tuple of parts. It does, in torch for now, if it holds more than plain numbers."""
    if isinstance(index, TensorBase | torch.Tensor | np.ndarray) or not _is_sequence(index) or isinstance(index, str):
        return False
    if len(index) >= _MOST or not any(_is_part(one) for one in index):
        return False
    _warn(
        "a list that holds sequences, slices, tensors, None or Ellipsis is read as the parts of an index, one for each "
        "dimension, but torch is going to drop this: write x[tuple(index)], or x[nbgrad.tensor(index)] for one tensor"
    )
    return True


def _is_part(one: Any) -> bool:
    return one is None or one is Ellipsis or isinstance(one, slice | TensorBase | torch.Tensor) or _is_sequence(one)


def _warn(text: str) -> None:
    place = user_place()
    warnings.warn_explicit(text, UserWarning, place.file, place.line)
