"""Tracebacks in a notebook show the user's own lines, not what nbgrad does between and below them.

An error that may be a defect of nbgrad keeps every frame. ``%xmode --show`` of IPython, which shows all that is hidden,
shows them always.
"""

from contextlib import ExitStack
from itertools import groupby
from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_SHOWN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(OSError, RuntimeError, TypeError, ValueError),
)
"""What programs raise; a ``SyntaxError`` is no matter of frames, and IPython shows it in its own way."""

_MEANT = (RuntimeError, TypeError, ValueError, IndexError)
"""What nbgrad raises itself, with a message that says what is wrong."""


def shorten(shell: InteractiveShell, undo: ExitStack) -> None:
    """Have ``shell`` show short tracebacks, unless somebody else handles its errors; ``undo`` puts back what was."""
    if shell.custom_exceptions:
        return
    shell.set_custom_exc(_SHOWN, _show)  # type: ignore[no-untyped-call]
    ours = shell.CustomTB

    def back() -> None:
        if shell.CustomTB == ours:
            shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]

    undo.callback(back)


def _show(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """What IPython calls to show an error."""
    if getattr(shell.InteractiveTB, "skip_hidden", True):
        trace = shortened(error, trace)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)


def shortened(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """``trace`` without the frames of nbgrad, and of torch where one of them calls the other.

    The frames of the user's hooks, modules and functions that nbgrad calls stay. So does everything where nbgrad raised
    what it never means to raise.
    """
    whole, entries = trace, []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if entries and _package(entries[-1]) == "nbgrad" and not isinstance(error, _MEANT):
        return whole
    kept: list[TracebackType] = []
    for of_libraries, frames in groupby(entries, lambda entry: _package(entry) in ("nbgrad", "torch")):
        run = list(frames)
        if not of_libraries or all(_package(entry) == "torch" for entry in run):
            kept += run
    short: TracebackType | None = None
    for entry in reversed(kept):
        short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def _package(entry: TracebackType) -> str:
    """The package whose code the frame runs; compiled code has no file that could be asked."""
    name: Any = entry.tb_frame.f_globals.get("__name__")
    return str(name).partition(".")[0]
