"""A program that runs while its training is recorded, as a cell is.

This module imports no torch: the program does, when it wants to. Then the recording begins.
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from nbgrad.run.guard import guarded, inside
from nbgrad.run.script import PythonProgram
from nbgrad.run.terminal import StatusLine
from nbgrad.run.torch_import import TorchImport
from nbgrad.tracebacks import shortened

if TYPE_CHECKING:
    from nbgrad.run.recorded import ProgramRecording


class WatchedProgram:
    """Runs a program once, and calls ``then`` when its recording has ended.

    Args:
        program: what runs.
        options: of ``record``.
        then: called with the recording after its graph is closed, or with None if the program has imported no torch;
            in the folder that the command was started in. It is not called in a process that the program forks.
        steps: after so many steps of training the recording ends, and the program goes on; None: with the program.
        line: where the progress is shown; None for nowhere.
    """

    def __init__(
        self,
        program: PythonProgram,
        options: dict[str, Any],
        then: "Callable[[ProgramRecording | None], object]",
        *,
        steps: int | None = None,
        line: StatusLine | None = None,
    ) -> None:
        self._program, self._options, self._then, self._steps, self._line = program, options, then, steps, line
        self._home = os.getcwd()  # noqa: PTH109  # to be entered again, not to be looked at
        self._filters = [*warnings.filters]
        self._import = TorchImport(partial(guarded, self._begin, line))
        self._recording: ProgramRecording | None = None
        self._forked = False

    def run(self) -> int:
        """Run the program to its end.

        Returns:
            The exit status: 1 if an error ended the program. Its traceback is then printed as Python prints it.

        Raises:
            SystemExit: the program ended itself so.
            KeyboardInterrupt: the program did not catch it. Python then ends as it does without nbgrad.
        """
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)
        error = self._run()
        told = self._forked or (self._recording is not None and self._recording.over)
        try:
            if not told:
                guarded(partial(self._close, error), self._line)
            if error is not None and not isinstance(error, SystemExit):
                _print(error)
            if not told:
                guarded(self._report, self._line)
        except KeyboardInterrupt as again:  # a second one: it leaves at once
            error = error or again
        return _left(error)

    def _run(self) -> BaseException | None:
        """Run and record it. The error that ended it, if one did."""
        error: BaseException | None = None
        try:
            self._import.wait()
            self._program.run()
        except BaseException as raised:
            error = raised
        finally:
            self._import.stop()
            if self._recording is not None:
                self._recording.leave(error)
        if self._recording is not None and isinstance(error, KeyboardInterrupt):
            self._recording.unwind()
        return error

    def _begin(self) -> None:
        """Record the main thread, now that torch is there."""
        with warnings.catch_warnings():
            warnings.filters = self._filters  # nbgrad's own imports are not those that the program asks about
            from nbgrad.run.recorded import ProgramRecording, in_main_thread

            made = ProgramRecording(self._options, self._then, self._home, steps=self._steps, line=self._line)

        def begin() -> None:
            made.begin()
            self._recording = made

        if current_thread() is main_thread():
            begin()
        else:
            made.await_begin()
            in_main_thread(partial(guarded, begin, self._line))

    def _abandon(self) -> None:
        """A process that the program has forked records nothing, and writes nothing."""
        self._forked = True
        self._import.stop()
        if self._recording is not None:
            self._recording.abandon()

    def _close(self, error: BaseException | None) -> None:
        if self._recording is not None:
            self._recording.close(self._program.variables, error)
        elif self._line is not None:
            self._line.close()

    def _report(self) -> None:
        if self._recording is not None:
            self._recording.report()
            return
        with inside(self._home):
            self._then(None)


def run_alone(program: PythonProgram) -> int:
    """Run a program that another process records. The rest is as for ``WatchedProgram.run``."""
    error: BaseException | None = None
    try:
        program.run()
    except BaseException as raised:
        error = raised
    if error is not None and not isinstance(error, SystemExit):
        _print(error)
    return _left(error)


def _print(error: BaseException) -> None:
    """Print the traceback of an error that ended the program, as Python does."""
    trace = shortened(error, error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except Exception:  # a hook of the program's own
        sys.__excepthook__(type(error), error, trace)


def _left(error: BaseException | None) -> int:
    """End as Python does after ``error``, whose traceback is printed."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):  # Python then ends by the signal
        raise error
    return 1
