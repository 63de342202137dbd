"""A program as a file: its steps as JSON, its captured tensors as safetensors. Nothing in it is code.

The file is one of safetensors. Its metadata hold the JSON under ``nbgrad.program``.
"""

import json
import os
import re
from collections.abc import Iterator
from itertools import accumulate
from math import isfinite
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.files import replace_file
from nbgrad.core.symbolic.exports.expressions import read_number
from nbgrad.core.symbolic.exports.functions import path_of
from nbgrad.core.symbolic.fake import storage_of
from nbgrad.core.symbolic.ir import Listing, ProgramStep, RowCall, Value
from nbgrad.core.symbolic.naming import Names
from nbgrad.core.symbolic.numbers import Number

KEY = "nbgrad.program"
"""Where the metadata of the file hold the steps."""

VERSION = 1
"""The version of the format."""

DEPTH = 200
"""How deep the lists and objects of the JSON may be nested: a reader goes down into them by recursion."""

_ROW = "the row "
"""In errors, the name of a row's call begins with this, and ``_part`` recognizes a row's call by it.

The arguments of a row are only shown to readers. So the file may hold their text in place of their values."""

_NAMED = {torch.dtype: "dtype", torch.device: "device", torch.layout: "layout", torch.memory_format: "memory_format"}

_STORED = frozenset(
    (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
    )
)
"""The types of tensors that are stored as they are. Others are stored as bytes."""


def save(listing: Listing, path: str | os.PathLike[str]) -> None:
    """Write a program to a file: see ``Program.save``."""
    try:
        from safetensors.torch import save_file
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a program is written by the package safetensors, which is not installed. Run: pip install safetensors",
            name=error.name,
        ) from None
    written = _SavedListing(listing)
    text = json.dumps(written.text(), separators=(",", ":"), allow_nan=False)
    if depth(text) > DEPTH:
        raise ValueError(f"{listing.name} takes or returns a structure that is nested too deep for a file: flatten it")
    metadata = {"format": "pt", KEY: text}
    replace_file(path, lambda file: save_file(written.tensors, file, metadata))


def depth(text: str) -> int:
    """How deep the lists and objects of a JSON text are nested; nothing goes down into them."""
    marks = re.sub(r"[^\[\]{}]+", "", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    return max(accumulate(1 if mark in "[{" else -1 for mark in marks), default=0)


class _SavedListing:
    """A listing on its way into a file.

    Attributes:
        tensors: the captured tensors by the names that the file gives them.
        settings: the settings of optimizers that the steps read, with their values now.
    """

    def __init__(self, listing: Listing) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.settings: dict[str, float] = {}
        self._listing = listing
        self._values: dict[int, int] = {}
        self._rows: dict[int, int] = {}

    def text(self) -> dict[str, Any]:
        """The program as what JSON can hold."""
        listing = self._listing
        captured = [*listing.captured, *_unread(listing)]
        every = [*listing.inputs, *captured, *(value for step in listing.steps for value in step.results())]
        for value in every:
            self._values[id(value)] = len(self._values)
        rows = {id(step.row): step.row for step in listing.steps if step.row is not None}
        self._rows = {key: number for number, key in enumerate(rows)}
        places = {id(value.owner): number for number, value in enumerate(captured) if value.owner is not None}
        return {
            "version": VERSION,
            "name": listing.name if listing.name.startswith("<lambda>") else Names().fresh(listing.name),
            "values": [self._value(value) for value in every],
            "inputs": len(listing.inputs),
            "captured": self._captured(captured),
            "rows": [self._row(row) for row in rows.values()],
            "steps": [self._step(step) for step in listing.steps],
            "outputs": self._part(listing.outputs, "the program returns"),
            "arguments": self._part(listing.arguments, "the program takes"),
            "gradients": [
                [places[id(owner)], None if value is None else self._values[id(value)]]
                for owner, value in listing.gradients
                if id(owner) in places
            ],
            "settings": self.settings,
        }

    def _value(self, value: Value) -> dict[str, Any]:
        of = value.gradient_of
        return {
            "name": value.name,
            "shape": list(value.shape),
            "stride": None if value.stride is None else list(value.stride),
            "dtype": _plain(value.dtype),
            "device": str(value.device),
            "gradient_of": None if of is None else self._values.get(id(of)),
        }

    def _captured(self, values: list[Value]) -> list[dict[str, Any]]:
        """How each captured tensor lies in the file.

        Tensors that share memory have one entry together, and share memory again after loading.
        """
        data = [_data(value) for value in values]
        shared = [storage_of(one) for one in data]
        found = []
        for value, one, storage in zip(values, data, shared, strict=True):
            alone = shared.count(storage) == 1 and one.dtype in _STORED and _is_dense(one)
            if alone:
                name = value.name if value.name not in self.tensors else f"{value.name}_{len(self.tensors)}"
                self.tensors[name] = one.contiguous()
                offset = None
            else:
                name = f"memory_{_number_of(shared, storage)}"
                self.tensors.setdefault(name, _bytes_of(one))
                offset = one.storage_offset()
            owner = value.owner
            found.append({"tensor": name, "offset": offset, "owned": None if owner is None else owner._needs_grad})
        return found

    def _row(self, row: RowCall) -> dict[str, Any]:
        at = f"{_ROW}{row.op.name}"
        return {
            "op": row.op.name,
            "args": self._part(row.args, at),
            "settings": self._part(row.settings, at),
            "results": self._part(row.results, at),
            "scope": [str(label) for label in row.scope],
            "place": _place(row.place),
            "steps": row.steps,
        }

    def _step(self, step: ProgramStep) -> dict[str, Any]:
        path, at = path_of(step.function), _told(step)
        if path is None:
            raise ValueError(
                f"{at} cannot be written to a file, which holds calls of torch alone: "
                f"{getattr(step.function, '__module__', None)}.{step.name} is not one of them"
            )
        return {
            "function": path,
            "args": self._part(step.args, at),
            "kwargs": self._part(step.kwargs, at),
            "result": self._part(_untitled(step.result), at),
            "writes": [self._values[id(value)] for value in step.writes],
            "random": step.random,
            "phase": step.phase,
            "row": None if step.row is None else self._rows[id(step.row)],
            "place": _place(step.place),
            "scope": [_shown(label) for label in step.scope],
            "checks": step.checks,
        }

    def _part(self, given: Any, at: str) -> Any:  # noqa: C901, PLR0911, PLR0912  # a case for each type
        if given is None or type(given) in (bool, int, str):
            return given
        if isinstance(given, Value):
            if at.startswith(_ROW) and id(given) not in self._values:  # a pass has put another in its place
                return {"shown": given.name}
            return {"value": self._values[id(given)]}
        if isinstance(given, Number):
            self.settings |= {name: float(read()) for name, read in given.parts.items()}
            read_number(given.text, self.settings)  # so that no file is written that cannot be read
            return {"number": given.text, "now": float(given)}
        if type(given) is float:
            return given if isfinite(given) else {"float": repr(given)}
        if type(given) is complex:
            return {"complex": [repr(given.real), repr(given.imag)]}
        if given is Ellipsis:
            return {"ellipsis": True}
        if isinstance(given, slice):
            return {"slice": [self._part(one, at) for one in (given.start, given.stop, given.step)]}
        if isinstance(given, torch.Size):
            return {"size": list(given)}
        if type(given) in _NAMED:
            return {_NAMED[type(given)]: _plain(given)}
        if isinstance(given, list):
            return [self._part(one, at) for one in given]
        if isinstance(given, tuple):
            return self._tuple(given, at)
        if isinstance(given, dict):
            return {"dict": [[self._part(key, at), self._part(one, at)] for key, one in given.items()]}
        if at.startswith(_ROW):
            return {"shown": _shown(repr(given))}
        raise ValueError(f"{at}: a file cannot hold its argument {given!r} of type {type(given).__name__}")

    def _tuple(self, given: tuple[Any, ...], at: str) -> dict[str, Any]:
        made: dict[str, Any] = {"tuple": [self._part(one, at) for one in given]}
        if type(given) is not tuple:
            fields = getattr(given, "_fields", None)
            if fields is None:
                raise ValueError(f"{at}: a file cannot hold a {type(given).__name__}: give a tuple in its place")
            made["fields"], made["type"] = list(fields), type(given).__name__
        return made


def _number_of(storages: list[int], wanted: int) -> int:
    """Which of the memories it is, counted from 0 in the order in which they first appear."""
    return list(dict.fromkeys(storages)).index(wanted)


def _unread(listing: Listing) -> Iterator[Value]:
    """Tensors that get a gradient from the program, of which no step reads the numbers."""
    known = {id(value.owner) for value in listing.captured}
    number = 1 + max((value.number for step in listing.steps for value in step.results()), default=0)
    for owner, value in listing.gradients:
        if value is not None and id(owner) not in known:
            number += 1
            data = raw_of(owner)
            stride = data.stride() if data.layout is torch.strided else None
            shape, memory = tuple(data.shape), storage_of(data)
            name = f"unread_{number}"
            yield Value(number, shape, stride, data.dtype, data.device, memory, "captured", name, data, owner)


def _data(value: Value) -> torch.Tensor:
    data = value.data if value.owner is None else raw_of(value.owner)
    if data is None or data.layout is not torch.strided or data.is_quantized:
        raise ValueError(f"{value.name} cannot be written to a file: it has the layout {getattr(data, 'layout', None)}")
    return data.detach().resolve_conj().resolve_neg()


def _is_dense(data: torch.Tensor) -> bool:
    """Whether each element has a place of its own and no memory lies between."""
    return data.numel() == 0 or torch.empty_like(data).stride() == data.stride()


def _bytes_of(data: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor as bytes."""
    storage = data.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=data.device).set_(storage, 0, (storage.nbytes(),), (1,)).clone()


def _untitled(result: Any) -> Any:
    """The result of a step as nested lists of values: the names of its fields do not matter."""
    if isinstance(result, list | tuple) and not isinstance(result, torch.Size):
        return [_untitled(one) for one in result]
    return result if isinstance(result, Value) else None


def _plain(given: Any) -> str:
    return str(given).removeprefix("torch.")


def _place(place: Any) -> dict[str, Any] | None:
    if place is None:
        return None
    file = place.file.removeprefix(os.getcwd() + os.sep)  # noqa: PTH109  # as a message shows it: compared as text
    return {"file": _shown(file), "line": place.line, "text": _shown(place.text), "cell": place.cell}


def _shown(text: str) -> str:
    return " ".join(text.split())


def _told(step: ProgramStep) -> str:
    """A step for an error message."""
    return f"the step {step.name} at {step.place}" if step.place else f"the step {step.name}"
