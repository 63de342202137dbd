"""A program that runs while its training is recorded, as a cell is."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread
from time import perf_counter
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import current, set_state, unwound
from nbgrad.core.no_gc import uncollected
from nbgrad.core.recorder.switches import follows, unfollow_to
from nbgrad.recording import record
from nbgrad.run.script import PythonProgram
from nbgrad.run.terminal import StatusLine
from nbgrad.tracebacks import shortened


class OtherThread(NamedTuple):
    """A thread whose backwards no graph records.

    Attributes:
        name: of the thread.
        place: the line that called the first backward.
        backwards: how many it has run.
    """

    name: str
    place: Place
    backwards: int


class OtherThreads(pacing.Pacer):
    """Counts the backwards in threads that no graph records."""

    def __init__(self) -> None:
        self._found: dict[str, OtherThread] = {}

    def backward_ended(self, *_: Any) -> None:
        """A backward has ended in this thread, which is none of torch's own: those run parts of another backward."""
        if torch._C._current_autograd_node() is not None:
            return
        with suppress(Exception):  # the program has to go on
            name = current_thread().name
            known = self._found.get(name)
            place, many = (user_place(), 0) if known is None else (known.place, known.backwards)
            self._found[name] = OtherThread(name, place, many + 1)

    @property
    def found(self) -> list[OtherThread]:
        """The threads, in the order of their first backward."""
        return list(self._found.values())


class WatchedProgram(pacing.Pacer):
    """Runs a program once, and calls ``then`` when its recording has ended.

    Args:
        program: what runs.
        recording: records it.
        then: called with this object after the graph is closed, in the folder that the command was started in. It is
            not called in a process that the program forks.
        steps: after so many steps of training the recording ends, and the program goes on; None: with the program.
        line: where the progress is shown; None for nowhere.

    Attributes:
        program, graph: as given, and of the recording.
        seconds: the time from the beginning to the end of the recording.
        others: the threads that have trained without being recorded.
        goes_on: whether the program goes on after its recording.
    """

    def __init__(
        self,
        program: PythonProgram,
        recording: record,
        then: "Callable[[WatchedProgram], None]",
        *,
        steps: int | None = None,
        line: StatusLine | None = None,
    ) -> None:
        self.program, self.graph = program, recording.graph
        self.seconds, self.goes_on = 0.0, False
        self.others = OtherThreads()
        self._recording, self._then, self._steps, self._line = recording, then, steps, line
        self._home = os.getcwd()  # noqa: PTH109  # to be entered again, not to be looked at
        self._began = perf_counter()
        self._over = False

    def run(self) -> int:
        """Run the program to its end.

        Returns:
            The exit status: 1 if an error ended the program. Its traceback is then printed as Python prints it.

        Raises:
            SystemExit: the program ended itself so.
            KeyboardInterrupt: the program did not catch it. Python then ends as it does without nbgrad.
        """
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        error = self._run()
        recorded = not self._over
        try:
            if recorded:
                self._guarded(self._close, self.program.variables, error)
            if error is not None and not isinstance(error, SystemExit):
                _print(error)
            if recorded:
                self._guarded(self._report)
        except KeyboardInterrupt as again:  # a second one: it leaves at once
            error = error or again
        return _left(error)

    def _run(self) -> BaseException | None:
        """Run and record it. The error that ended it, if one did."""
        state, followed = current(), follows()
        error: BaseException | None = None
        try:
            self._recording.__enter__()
            pacing.add(self)
            pacing.add_elsewhere(self.others)
            self._began = perf_counter()
            self.program.run()
        except BaseException as raised:
            error = raised
        finally:
            self.graph.leave()
        if isinstance(error, KeyboardInterrupt):  # it may have hit the very function that leaves a block
            set_state(unwound(state))
            unfollow_to(followed)
        return error

    def _forked(self) -> None:
        """A process that the program has forked records nothing, and writes nothing."""
        if not self._over:
            self._over = True
            self._unpaced()
            with suppress(Exception):
                self.graph.leave()

    def _unpaced(self) -> None:
        pacing.remove(self)
        pacing.remove_elsewhere(self.others)

    # While it runs.

    def backward_ended(self, *_: Any) -> None:
        """A step may have ended, where no optimizer takes one."""
        self._look()

    def step_ended(self) -> None:
        """A step may have ended, if all optimizers of it have stepped."""
        self._look()

    def _look(self) -> None:
        if self._steps is not None and self.graph.pace.steps >= self._steps and self.graph.pace.is_outside():
            self.goes_on = True
            self._guarded(self._close, self.graph.in_sight(), None)
            self._guarded(self._report)
        elif self._line is not None and self._line.is_due():
            self._guarded(self._line.show, self._progress())

    def _guarded(self, do: Callable[..., None], *given: Any) -> None:
        """Call ``do``. Where that fails, say so: the program has to go on, and to keep its exit status."""
        try:
            do(*given)
        except Exception as error:
            if self._line is not None:
                self._line.close()
            with suppress(Exception):
                sys.stderr.write(
                    f"nbgrad: {type(error).__name__}: {error}. This is a defect of nbgrad, please report it\n"
                )

    def _progress(self) -> str:
        """How the training goes, and what its recording costs by now."""
        pace = self.graph.pace
        loss = pace.losses.last()
        said = [f"step {pace.steps:,}", f"{self.graph.recorded:,} backwards recorded"]
        if loss is not None:
            said.append(f"loss {loss:.4g}")
        share = pace.spent / max(perf_counter() - self._began - pace.spent, 1e-9)
        said.append(f"recording {share:.1%}")
        return f"nbgrad: {', '.join(said)}"

    # The end.

    @uncollected  # the collector waits: it would look through all of the graph
    def _close(self, names: dict[str, Any], error: BaseException | None) -> None:
        """End the recording, since ``error`` ended the program or for another reason; ``names``: of variables."""
        self._over = True
        self.seconds = perf_counter() - self._began
        self._unpaced()
        if self._line is not None:
            self._line.close()
        with _inside(self._home):
            self._recording.close(names, None if isinstance(error, SystemExit) else error)

    @uncollected
    def _report(self) -> None:
        with _inside(self._home):
            self._then(self)


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


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """In ``folder``, if it still exists: the program may have changed to another one, and names are relative to it."""
    try:
        before: str | None = os.getcwd()  # noqa: PTH109  # to be entered again, not to be looked at
    except OSError:  # it was removed
        before = None
    with suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                os.chdir(before)
