"""``Place``: a line of the user's code, kept as an instruction until its number is needed."""

import ast
import linecache
import os
import sys
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any


class Place:
    """A line of the user's code, kept as an instruction. Its line number is looked up on request."""

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
        """Whether the line is in a notebook cell, whose file name means nothing to a reader."""
        return in_cell(self.file)

    @property
    def text(self) -> str:
        """The text of the line; empty if Python does not know it, as in code for ``exec``."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def lines(self) -> list[str]:
        """The text of each line of the instruction, as far as Python knows it: a call may take several lines."""
        first, last, *_ = next(islice(self._code.co_positions(), self._offset // 2, None))
        first = self.line if first is None else first
        return [linecache.getline(self.file, line) for line in range(first, (first if last is None else last) + 1)]

    @property
    def instruction(self) -> tuple[int, int]:
        """The id of the code, and the offset of the instruction in it: equal for equal instructions."""
        return id(self._code), self._offset

    def same(self, other: "Place") -> bool:
        """Whether both are one instruction."""
        return self._code is other._code and self._offset == other._offset

    @classmethod
    def at(cls, file: str, line: int) -> "Place":
        """A line of ``file`` of which only the number is known. Its instruction equals no other."""
        code = compile("\n" * (line - 1) + "0", file, "exec")
        return cls(code, next(start for start, _, number in code.co_lines() if number == line))

    @property
    def called(self) -> str | None:
        """The name of the function or method that this instruction calls; None for an operator, or if it is unknown."""
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
        return line_of(self.file, self.line)


def running_cell() -> str | None:
    """The notebook cell that runs, by the name that stands beside it, as in ``In [3]``; None outside of a notebook."""
    module: Any = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    # Some versions of IPython count the shell's own number up before a cell runs, others after it.
    number = getattr(getattr(getattr(shell, "displayhook", None), "exec_result", None), "execution_count", None)
    return None if number is None else f"In [{number}]"


def in_cell(file: str) -> bool:
    """Whether ``file`` is the name of a notebook cell."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def line_of(file: str, line: int, cell: str = "the cell") -> str:
    """The line with this number, from 1, as messages name it: with its file, and its text where that is known."""
    where = f"line {line} of {cell}" if in_cell(file) else f"{_shortened(file)}:{line}"
    text = linecache.getline(file, line).strip()
    return f"{where}, `{text}`" if text else where


@lru_cache(4096)
def _line(code: CodeType, offset: int) -> int:
    lines = (line for start, end, line in code.co_lines() if start <= offset < end and line)
    return next(lines, code.co_firstlineno)


def _shortened(file: str) -> str:
    """The path from the current folder, where the file is below it."""
    here = os.getcwd() + os.sep  # noqa: PTH109  # compared as text: a file name of Python may be no path at all
    return file.removeprefix(here)
