"""Tracebacks in a notebook show the user's own lines, as they were typed, and not what nbgrad does between and below.

An error that may be a defect of nbgrad keeps every frame. ``%xmode --show`` of IPython, which shows all that is hidden,
shows them always.
"""

import linecache
import sys
from contextlib import ExitStack
from dis import opmap
from inspect import currentframe
from itertools import groupby
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell  # a program in a terminal runs without it

_SHOWN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(OSError, RuntimeError, TypeError, ValueError, KeyboardInterrupt),
)
"""The errors of programs and of the stop button. A ``SyntaxError`` has no frames to shorten: IPython shows it."""

_MEANT = (RuntimeError, TypeError, ValueError, IndexError, KeyboardInterrupt)
"""The errors that nbgrad raises itself, with a message about the cause; the user may stop a program anywhere."""


def shorten(shell: "InteractiveShell", undo: ExitStack) -> None:
    """Have ``shell`` show short tracebacks, unless another handler is set; ``undo`` restores the old handler."""
    if shell.custom_exceptions:
        return
    before = vars(shell).get("CustomTB")
    shell.set_custom_exc(_SHOWN, _show)  # type: ignore[no-untyped-call]
    ours = shell.CustomTB

    def back() -> None:
        if shell.CustomTB == ours:
            shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]
            if before is None:
                del shell.CustomTB
            else:
                shell.CustomTB = before

    undo.callback(back)


def _show(
    shell: "InteractiveShell",
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """The function that IPython calls to show an error."""
    from nbgrad.core.graph.advice import advise  # late: a program that imports no torch ends without it

    advise(error)
    if getattr(shell.InteractiveTB, "skip_hidden", True):
        trace = shortened(error, trace)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)


def shortened(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """``trace`` without the frames of nbgrad, and of torch where one of them calls the other.

    The frames of the user's hooks, modules and functions that nbgrad calls stay. All frames stay if nbgrad raised an
    error that it never raises on purpose. Torch's own frames stay where nbgrad only records them.
    """
    whole, entries = trace, []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if entries and _package(entries[-1]) == "nbgrad" and not _meant(error, entries[-1]):
        return whole
    libraries = {"nbgrad", "torch"}
    entries = [entry for entry in entries if not _name(entry).startswith(_RECORDS)]
    if isinstance(error, KeyboardInterrupt):  # it may come in anything that nbgrad calls
        libraries |= sys.stdlib_module_names
    kept: list[TracebackType] = []
    for of_libraries, frames in groupby(entries, lambda entry: _package(entry) in libraries):
        run = list(frames)
        if not of_libraries or all(_package(entry) != "nbgrad" for entry in run):
            kept += run
    short: TracebackType | None = None
    for entry in reversed(kept):
        short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def _meant(error: BaseException, last: TracebackType) -> bool:
    """Whether nbgrad raised ``error`` with a message of its own, in the frame ``last``.

    An AttributeError is meant if a ``raise`` statement raised it, and not if Python itself found no attribute.
    """
    raised = last.tb_frame.f_code.co_code[last.tb_lasti : last.tb_lasti + 1] == _RAISE
    return isinstance(error, _MEANT) or (isinstance(error, AttributeError) and raised)


_RAISE = bytes([opmap["RAISE_VARARGS"]])


_RECORDS = ("nbgrad.core.recorder.", "nbgrad.core.engine.scope", "nbgrad.run.torch_import")
"""The prefixes of nbgrad's modules whose frames stand before torch's frames, or between them: it records torch."""


def _package(entry: TracebackType) -> str:
    """The package whose code the frame runs."""
    return _name(entry).partition(".")[0]


def _name(entry: TracebackType) -> str:
    """The module whose code the frame runs; compiled code has no file that could be asked."""
    return str(entry.tb_frame.f_globals.get("__name__"))


def retell(became: str, typed: str) -> None:
    """Have tracebacks of the running cell show its first line as it was typed, not the line that replaces it.

    The typed line is shown as a comment, because IPython parses the cell to find the place of an error.

    Args:
        became: what the line that runs begins with.
        typed: the line in the cell.
    """
    frame: FrameType | None = currentframe()
    while frame is not None:
        size, changed, lines, name = _cached(frame.f_code.co_filename)
        if lines and lines[0].startswith(became):
            linecache.cache[name] = (size, changed, [f"# {typed}\n", *lines[1:]], name)
            return
        frame = frame.f_back


def _cached(file: str) -> tuple[int, float | None, list[str], str]:
    """The lines of ``file`` that ``linecache`` holds without reading it, as it does for a cell."""
    entry: Any = linecache.cache.get(file)
    return entry if entry is not None and len(entry) == 4 else (0, None, [], file)
