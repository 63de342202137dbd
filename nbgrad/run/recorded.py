"""The recording of a program, from its import of torch to its end."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import current_thread
from time import perf_counter
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import State, current, set_state, unwound
from nbgrad.core.no_gc import uncollected
from nbgrad.core.recorder.switches import begin_to_rest, follow, follows, stop_resting, unfollow, unfollow_to
from nbgrad.recording import record
from nbgrad.run.guard import guarded, inside
from nbgrad.run.terminal import StatusLine


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


class ProgramRecording(pacing.Pacer):
    """Records one thread of a program, from ``begin`` to ``close``.

    Args:
        options: of ``record``.
        then: called with this object to report, after it has ended.
        home: the folder that the command was started in.
        steps: after so many steps of training the recording ends, and the program goes on; None: with the program.
        line: where the progress is shown; None for nowhere.

    Attributes:
        graph: of the recording.
        seconds: the time from its beginning to its end.
        others: the threads that have trained without being recorded.
        goes_on: whether the program goes on after it.
        over: whether it has ended.
    """

    def __init__(
        self,
        options: dict[str, Any],
        then: "Callable[[ProgramRecording], object]",
        home: str,
        *,
        steps: int | None = None,
        line: StatusLine | None = None,
    ) -> None:
        self._recording = record(**options)
        self.graph = self._recording.graph
        self.seconds, self.goes_on, self.over = 0.0, False, False
        self.others = OtherThreads()
        self._then, self._home, self._steps, self._line = then, home, steps, line
        self._before: tuple[State, int] | None = None
        self._began = perf_counter()
        pacing.add_elsewhere(self.others)

    def await_begin(self) -> None:
        """Notice the backwards of other threads from now on: the thread that is to be recorded may wait for them."""
        thread = follow()
        begin_to_rest(id(self))
        unfollow(thread)

    def begin(self) -> None:
        """Record this thread from now on."""
        self._before = current(), follows()
        self._recording.__enter__()
        stop_resting(id(self))
        pacing.add(self)

    def leave(self) -> None:
        """Record no more; the graph stays open until ``close``."""
        self.graph.leave()

    def unwind(self) -> None:
        """Leave all blocks entered since ``begin``: an interrupt may have hit the very function that leaves one."""
        if self._before is not None:
            set_state(unwound(self._before[0]))
            unfollow_to(self._before[1])

    def abandon(self) -> None:
        """Record no more, and report nothing: this is a process that the program has forked."""
        if not self.over:
            self._unpaced()
            with suppress(Exception):
                self.graph.leave()

    def _unpaced(self) -> None:
        self.over = True
        stop_resting(id(self))
        pacing.remove(self)
        pacing.remove_elsewhere(self.others)

    # While the program runs.

    def backward_ended(self, *_: Any) -> None:
        """A step may have ended, where no optimizer takes one."""
        self._look()

    def step_ended(self, optimizer: Any) -> None:  # noqa: ARG002  # as of every pacer
        """A step may have ended, if all optimizers of it have stepped."""
        self._look()

    def _look(self) -> None:
        if self._steps is not None and self.graph.pace.steps >= self._steps and self.graph.pace.is_outside():
            self.goes_on = True
            guarded(partial(self.close, self.graph.in_sight(), None), self._line)
            guarded(self.report, self._line)
        elif self._line is not None and self._line.is_due():
            line = self._line
            guarded(lambda: line.show(self._progress()), line)

    def _progress(self) -> str:
        """How the training goes, and what its recording costs by now."""
        from nbgrad.widgets.description.format import counted  # late: a program imports torch sooner without it

        pace = self.graph.pace
        loss = pace.losses.last()
        said = [f"step {pace.steps:,}"] if pace.steps else []
        said.append(f"{counted(self.graph.recorded, 'backward')} recorded")
        if loss is not None:
            said.append(f"loss {loss:.4g}")
        if pace.steps:  # without steps, no plain one is known to compare with
            share = pace.spent / max(perf_counter() - self._began - pace.spent, 1e-9)
            said.append(f"recording {share:.1%}")
        return f"nbgrad: {', '.join(said)}"

    # The end.

    @uncollected  # the collector waits: it would look through all of the graph
    def close(self, names: dict[str, Any], error: BaseException | None) -> None:
        """End the recording, since ``error`` ended the program or for another reason; ``names``: of variables."""
        self._unpaced()
        self.seconds = perf_counter() - self._began
        if self._line is not None:
            self._line.close()
        with inside(self._home):
            self._recording.close(names, None if isinstance(error, SystemExit) else error)

    @uncollected
    def report(self) -> None:
        """Call ``then``, in the folder that the command was started in."""
        with inside(self._home):
            self._then(self)


def in_main_thread(do: Callable[[], object]) -> None:
    """Have the main thread call ``do`` as soon as it runs code of Python, as it calls the handler of a signal."""
    import ctypes

    def call(_: object) -> int:
        do()
        _PENDING.remove(called)
        return 0

    called = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
    _PENDING.append(called)
    ctypes.pythonapi.Py_AddPendingCall(called, None)


_PENDING: list[Any] = []
"""The functions of C that are to be called: Python's call of C does not keep them."""
