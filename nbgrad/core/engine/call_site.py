"""Where in the user's code something happens, and what the variables there are called."""

import ast
import linecache
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from inspect import CO_OPTIMIZED
from itertools import islice
from pathlib import Path
from sys import _getframe, getrefcount
from types import CodeType, FrameType
from typing import Any

import torch

from nbgrad.core.base import TensorBase

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep
NOT_THE_USERS = (_PACKAGE, _TORCH)
"""How the names of files begin whose code is not the user's."""


class Place:
    """A line of the user's code: an instruction, whose line number is looked up when somebody asks."""

    __slots__ = ("_code", "_offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self._code = code
        self._offset = offset

    @property
    def file(self) -> str:
        """The file name of the code."""
        return self._code.co_filename

    @property
    def line(self) -> int:
        """The number of the line, from 1."""
        return _line(self._code, self._offset)

    @property
    def cell(self) -> bool:
        """Whether the line is in a notebook cell, which has no file name that a reader knows."""
        return "ipykernel_" in self.file or self.file.startswith("<ipython-input")

    @property
    def text(self) -> str:
        """The line itself; empty where Python does not know it, as in code given to ``exec``."""
        return linecache.getline(self.file, self.line).strip()

    def same(self, other: "Place") -> bool:
        """Whether both are one instruction."""
        return self._code is other._code and self._offset == other._offset

    @property
    def called(self) -> str | None:
        """The name of the function or method that is called there; None for an operator, and where it is not known."""
        first, last, start, end = next(islice(self._code.co_positions(), self._offset // 2, None))
        if first is None or last is None:
            return None
        lines = [linecache.getline(self.file, line).encode() for line in range(first, last + 1)]
        lines[-1] = lines[-1][:end]
        with suppress(SyntaxError):
            function = getattr(
                ast.parse(b"".join(lines)[start:].decode(errors="replace"), mode="eval").body, "func", None
            )
            return getattr(function, "attr", None) or getattr(function, "id", None)
        return None

    def __str__(self) -> str:
        where = f"line {self.line} of the cell" if self.cell else f"{_shortened(self.file)}:{self.line}"
        return f"{where}, `{self.text}`" if self.text else where


@lru_cache(4096)
def _line(code: CodeType, offset: int) -> int:
    lines = (line for start, end, line in code.co_lines() if start <= offset < end and line)
    return next(lines, code.co_firstlineno)


def _shortened(file: str) -> str:
    """The path from the current folder, where the file is below it."""
    here = os.getcwd() + os.sep  # noqa: PTH109  # compared as text: a file name of Python may be no path at all
    return file.removeprefix(here)


def user_place() -> Place:
    """The line of the user's that runs now."""
    frame = user_frame()
    return Place(frame.f_code, frame.f_lasti)


def user_frame() -> FrameType:
    """The innermost running frame that is neither nbgrad's own nor torch's, whose code calls ours in turn."""
    frame = _getframe()
    while True:
        file = frame.f_code.co_filename
        ours = _OURS.get(file)
        if ours is None:
            ours = _OURS[file] = file.startswith(NOT_THE_USERS)
        above = frame.f_back if ours else None
        if above is None:
            return frame
        frame = above


_OURS: dict[str, bool] = {}
"""Whether a file of running code is nbgrad's or torch's, which every op that is recorded asks of a few files."""


def in_a_function(frame: FrameType) -> bool:
    """Whether the variables of ``frame`` are a function's, which are gone when it returns."""
    return bool(frame.f_code.co_flags & _OPTIMIZED)


_OPTIMIZED = CO_OPTIMIZED  # compiled to a number of C's


def tensor_variables(frame: FrameType) -> dict[str, Any]:
    """The tensors among the variables of ``frame``, by name.

    Before Python 3.13 the interpreter keeps the snapshot that it makes of a function's variables until the function
    returns, and everything in it alive: it is emptied, unless the user holds it too, having called ``locals()``.
    """
    snapshot = frame.f_locals
    found = {name: value for name, value in snapshot.items() if isinstance(value, TensorBase)}
    if _SNAPSHOTS and in_a_function(frame) and getrefcount(snapshot) <= 3:
        snapshot.clear()
    return found


def tensors_in_sight(frame: FrameType) -> dict[str, Any]:
    """The tensors among the variables that the code of ``frame`` can name, by name: its own hide the global ones."""
    known = {name: value for name, value in list(frame.f_globals.items()) if isinstance(value, TensorBase)}
    return known | tensor_variables(frame)


_SNAPSHOTS = sys.version_info < (3, 13)
"""Whether a frame makes a dict of its variables for whoever asks, and keeps it."""


def variable_name(wanted: Callable[[Any], bool]) -> str | None:
    """What the user calls a tensor that is ``wanted``: its own name, or a variable's in the frames that run now.

    Only for messages: it looks at every variable of every frame.
    """
    innermost = user_frame()
    namespaces = [innermost.f_globals]
    frame: FrameType | None = innermost
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            namespaces.insert(-1, tensor_variables(frame))
        frame = frame.f_back
    for namespace in namespaces:
        for name, value in list(namespace.items()):
            if isinstance(value, TensorBase) and not name.startswith("_") and wanted(value):
                return str(getattr(value, "name", None) or name)
    return None


def called_by_user() -> bool:
    """Whether the op or method that runs now was called by the user, not by a block or function of nbgrad's own."""
    frame = _getframe()
    while frame.f_back is not None and frame.f_code.co_filename in _MACHINERY:
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_PACKAGE)


_MACHINERY = {
    f"{_PACKAGE}core{os.sep}{name}.py"
    for name in (
        "arrays",
        "caller",
        "contents",
        "graph",
        "interop",
        "listener",
        "modes",
        "op",
        "row",
        "strict",
        "tensor",
        "uses",
    )
}
"""What stands between a call of the user's and the code that asks who called."""
