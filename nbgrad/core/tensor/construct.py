"""The data of a new tensor: numbers, also from tensors in a list. Errors explain why other data do not work."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.node import TensorBase
from nbgrad.core.tensor.broadcast_check import warn_number


def raw_from(make: Callable[..., torch.Tensor], source: Any, **settings: Any) -> torch.Tensor:
    """Call ``make``, a function of torch, on ``source``. An error names the value that is no number or does not fit."""
    try:
        return make(source, **settings)
    except RuntimeError as error:
        raise _explained(make, source, error) from None
    except (TypeError, ValueError):  # torch treats a Tensor in a list as a sequence
        given = numbers(source)
    try:
        return make(given, **settings)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _explained(make, given, error) from None


def numbers(source: Any) -> Any:
    """Replace each tensor in the nested lists of ``source`` by the number that it holds, as torch does.

    Raises:
        ValueError: a tensor holds several numbers, or none.
    """
    if isinstance(source, list | tuple) and not isinstance(source, torch.Size):
        return [numbers(one) for one in source]
    if not isinstance(source, TensorBase):
        return source
    data = source._data
    if data.numel() != 1:
        raise ValueError(
            f"a list for nbgrad.tensor() holds a tensor of shape {tuple(data.shape)}: only a tensor with one element "
            "can be used as a number. nbgrad.stack(tensors) joins several tensors, and gradients flow through it; "
            "t.tolist() has the values."
        )
    if source._needs_grad:
        warn_number()
    return source.item()  # type: ignore[attr-defined]  # a Tensor's


def _explained(make: Callable[..., torch.Tensor], source: Any, error: Exception) -> Exception:
    """An error of the same kind that explains the fault of ``source``; ``error`` itself if no fault is found."""
    wrong = _misfit(source)
    return error if wrong is None else type(error)(f"nbgrad.{make.__name__}() {wrong}")


def _misfit(source: Any) -> str | None:
    """Find a value that cannot be in a tensor, or rows of different lengths, from the outermost list inwards."""
    level: list[tuple[str, Any]] = [("data", source)]
    while level:
        rows = [(path, _row(one)) for path, one in level]
        for (path, one), (_, row) in zip(level, rows, strict=True):
            if row is None and (wrong := no_number(one)) is not None:
                return f"takes numbers, lists of them, arrays and tensors, but {path} is {wrong}"
        by_length: dict[int | None, list[str]] = {}
        for path, row in rows:
            by_length.setdefault(None if row is None else len(row), []).append(path)
        if len(by_length) > 1:
            lengths = ", ".join(_told(paths, length) for length, paths in by_length.items())
            instead = "nbgrad.nn.utils.rnn.pad_sequence makes one tensor from a list of tensors, padded with zeros"
            return f"takes rows of one length, but {lengths}: {instead}"
        level = [(f"{path}[{at}]", one) for path, row in rows if row is not None for at, one in enumerate(row)]
    return None


def _row(one: Any) -> Sequence[Any] | None:
    """The items of a list, or of a sequence that torch accepts as one; None for a single value."""
    if isinstance(one, np.ndarray | torch.Tensor):
        return one.tolist() if one.ndim else None
    return one if isinstance(one, Sequence) and not isinstance(one, str | bytes) else None


def _told(paths: list[str], length: int | None) -> str:
    """Say which rows have this length, and the length: at most three rows by name."""
    named = ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    many = len(paths) > 1
    if length is None:
        return f"{named} {'are numbers' if many else 'is a number'}"
    return f"{named} {'hold' if many else 'holds'} {length}"


def no_number(one: Any) -> str | None:
    """Say what ``one`` is instead of a number, and what to write; None for a number."""
    kind, told = type(one).__name__, None
    if one is None:
        told = "None: a function or a forward() without return gives None"
    elif isinstance(one, str | bytes):
        told = f"the text {one!r}" + _unquoted(one)
    elif isinstance(one, dict):
        told = "a dict: list(d.values()) are its values"
    elif hasattr(one, "to_numpy"):
        told = f"a {kind}: its to_numpy() is an array"
    elif callable(one):
        told = f"{getattr(one, '__name__', kind)}, which can be called: pass the result of a call"
    elif not (hasattr(one, "__float__") or hasattr(one, "__complex__")):
        told = f"of type {kind}" + (": list(...) makes a list of it" if isinstance(one, Iterable) else "")
    return told


def _unquoted(text: str | bytes) -> str:
    try:
        return f": write {float(text):g} without quotes, or float(text) where it was read from a file"
    except ValueError:
        return ""
