"""``Place``: a line of the user's code, kept as an instruction until its number is needed."""

import ast
import dis
import linecache
import os
import re
import sys
from bisect import bisect_right
from contextlib import suppress
from itertools import islice, zip_longest
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
        known = _known_text(self._code)
        return linecache.getline(self.file, self.line).strip() if known is None else known

    @property
    def lines(self) -> list[str]:
        """The text of each line of the instruction, as far as Python knows it: a call may take several lines."""
        if (known := _known_text(self._code)) is not None:
            return [known]
        first, last, *_ = next(islice(self._code.co_positions(), self._offset // 2, None))
        first = self.line if first is None else first
        return [linecache.getline(self.file, line) for line in range(first, (first if last is None else last) + 1)]

    @property
    def function(self) -> str:
        """The name of the function that the line is in; empty for a line of a cell or file itself, and of a lambda."""
        name = self._code.co_name
        return "" if name.startswith("<") else name

    @property
    def instruction(self) -> tuple[int, int]:
        """The id of the code, and the offset of the instruction in it: equal for equal instructions."""
        return id(self._code), self._offset

    def same(self, other: "Place") -> bool:
        """Whether both are one instruction."""
        return self._code is other._code and self._offset == other._offset

    def leads_to(self, other: "Place") -> bool:
        """Whether an instruction of the same code can run after this one, and no jump back is between them."""
        offset = other.instruction[1]
        if len(self._code.co_code) > _LONG:
            return self._offset < offset
        return self._offset < offset and _Ways.of(self._code).lead(self._offset, offset)

    def may_be_read(self) -> bool:
        """Whether the result goes to a variable that some ways through the code load, and others do not.

        A way ends where the variable is bound again, or with the code. What all ways load has been loaded.
        """
        return _may_be_read(self._code, self._offset)

    @classmethod
    def at(cls, file: str, line: int, text: str | None = None, function: str = "") -> "Place":
        """A line of which only the number is known. Its instruction equals no other.

        Args:
            file: the name of its file.
            line: its number, from 1.
            text: that of the line, if it is known and the file need not be there; None to look it up.
            function: the name of the function that the line is in; empty for a line of the file itself.
        """
        held = _CODE.co_consts if text is None else (*_CODE.co_consts, _KnownText(text))
        name = function or _CODE.co_name
        return cls(_CODE.replace(co_filename=file, co_firstlineno=line, co_name=name, co_consts=held), _OFFSET)

    @property
    def called(self) -> str | None:
        """The name of the function or method that this instruction calls; None for an operator, or if it is unknown."""
        first, last, start, end = next(islice(self._code.co_positions(), self._offset // 2, None))
        if first is None or last is None or _known_text(self._code) is not None:
            return None
        lines = [linecache.getline(self.file, line).encode() for line in range(first, last + 1)]
        lines[-1] = lines[-1][:end]
        with suppress(SyntaxError):
            function = getattr(
                ast.parse(b"".join(lines)[start:].decode(errors="replace"), mode="eval").body, "func", None
            )
            return getattr(function, "attr", None) or getattr(function, "id", None)
        return None

    def named(self, cell: str) -> str:
        """The line as messages name it; ``cell`` is the name of its cell, if it is in one."""
        return _named(self.file, self.line, self.text, cell)

    def __str__(self) -> str:
        return self.named(_THE_CELL)


class _KnownText(str):
    """The text of a line whose file need not exist: it is among the constants of the code of its ``Place``."""

    __slots__ = ()


def _known_text(code: CodeType) -> str | None:
    last: Any = code.co_consts[-1] if code.co_consts else None
    return str(last) if type(last) is _KnownText else None


_CODE = compile("0", "", "exec")
"""A code of one line, which becomes that of a line of which only the number is known."""

_OFFSET = next(start for start, _, line in _CODE.co_lines() if line == 1)

_THE_CELL = "the cell"


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


def line_of(file: str, line: int) -> str:
    """The line with this number, from 1, as messages name it: with its file, and its text where that is known."""
    return _named(file, line, linecache.getline(file, line).strip(), _THE_CELL)


def _named(file: str, line: int, text: str, cell: str) -> str:
    where = f"line {line} of {cell}" if in_cell(file) else f"{shortened(file)}:{line}"
    return f"{where}, `{text}`" if text else where


_spans: dict[int, tuple[CodeType, list[int], list[int]]] = {}
"""The offsets at which the lines of a code begin, and these lines, by the id of the code. A key that is the code itself
would be as slow as the code is long, for each op."""


def _line(code: CodeType, offset: int) -> int:
    known = _spans.get(id(code))
    if known is None:
        if len(_spans) >= _CODES:
            _spans.clear()
        spans = [(start, line) for start, _, line in code.co_lines()]
        known = code, [start for start, _ in spans], [line or code.co_firstlineno for _, line in spans]
        _spans[id(code)] = known
    at = bisect_right(known[1], offset) - 1
    return known[2][at] if at >= 0 else code.co_firstlineno


_ways: dict[int, "_Ways"] = {}
"""The ways through each code that was asked about, by its id."""


class _Ways:
    """The ways through a code that lead only forwards.

    Attributes:
        code: kept alive, so that its id stays its own.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self._after = _following(code)
        self._begins = sorted(self._after)
        self._known: dict[int, set[int]] = {}

    @classmethod
    def of(cls, code: CodeType) -> "_Ways":
        """Those of ``code``; the last few are kept."""
        if id(code) not in _ways:
            if len(_ways) >= _CODES:
                _ways.clear()
            _ways[id(code)] = cls(code)
        return _ways[id(code)]

    def lead(self, offset: int, other: int) -> bool:
        """Whether the instruction at ``other`` can run after the one at ``offset``."""
        begin = self._begin(offset)
        if begin not in self._known:
            found, waiting = set[int](), [begin]
            while waiting:
                new = [one for one in self._after[waiting.pop()] if one not in found]
                found.update(new)
                waiting += new
            self._known[begin] = found
        return self._begin(other) in self._known[begin]

    def _begin(self, offset: int) -> int:
        """Where an instruction begins: while it calls something, the offset may be that of a cache behind it."""
        return self._begins[bisect_right(self._begins, offset) - 1]


def _following(code: CodeType, *, back: bool = False) -> dict[int, list[int]]:
    """The instructions that can run next after each one, later in the code; also earlier ones with ``back``."""
    instructions = list(dis.get_instructions(code))
    found: dict[int, list[int]] = {}
    for one, after in zip_longest(instructions, instructions[1:]):
        ends = one.opname.startswith(("RETURN", "RAISE", "RERAISE", "JUMP_"))
        found[one.offset] = [] if ends or after is None else [after.offset]
        if one.opcode in (*dis.hasjrel, *dis.hasjabs) and (back or one.argval > one.offset):
            found[one.offset].append(one.argval)
    return found


def _may_be_read(code: CodeType, offset: int) -> bool:
    """As ``Place.may_be_read``, for the instruction at ``offset``."""
    steps = [one for one in dis.get_instructions(code) if one.opname != "CACHE"]
    at = bisect_right([one.offset for one in steps], offset)  # the next one
    names = [name for use, name in _uses(steps[at]) if use == "STORE"] if at < len(steps) else []
    if not names or len(code.co_code) > _LONG:
        return False
    uses = {one.offset: {use for use, name in _uses(one) if name == names[0]} for one in steps}
    after = _following(code, back=True)
    raising = {one.offset for one in steps if one.opname.startswith(("RAISE", "RERAISE"))}
    ends = {one for one in after if "STORE" in uses[one] or not (after[one] or one in raising)}

    def reached(around: int | None) -> set[int]:
        """The instructions that the ways around one of them lead to."""
        found, waiting = set[int](), [steps[at].offset]
        while waiting:
            new = [one for one in after[waiting.pop()] if one not in found and one != around]
            found.update(new)
            waiting += [one for one in new if one not in ends]
        return found

    return any("LOAD" in uses[one] and not ends.isdisjoint(reached(one)) for one in reached(None))


def _uses(step: dis.Instruction) -> list[tuple[str, str]]:
    """The variables that an instruction loads, stores or deletes, each behind the word for this."""
    words = _VARIABLES.findall(step.opname)
    return list(zip(words, step.argval if isinstance(step.argval, tuple) else [step.argval], strict=False))


_VARIABLES = re.compile("(LOAD|STORE|DELETE)_(?:FAST|NAME|GLOBAL|DEREF|CLOSURE)")
"""The words in the name of an instruction that say what it does with a variable. Those of Python 3.13 may have two."""


_LONG = 1 << 14
"""In a code of more bytes than this, any later instruction is said to be reached: loops are shorter."""

_CODES = 256
"""The lines of at most this many codes are kept."""


def shortened(file: str) -> str:
    """The path from the current folder, where the file is below it."""
    here = os.getcwd() + os.sep  # noqa: PTH109  # compared as text: a file name of Python may be no path at all
    return file.removeprefix(here)
