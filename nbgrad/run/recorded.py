"""The recording of a program, from its import of torch to its end."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, Lock, current_thread, main_thread
from time import perf_counter
from typing import Any

from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.state import State, current, set_state, unwound
from nbgrad.core.no_gc import uncollected
from nbgrad.core.recorder.switches import begin_to_rest, follow, follows, stop_resting, unfollow, unfollow_to
from nbgrad.recording import record
from nbgrad.run.guard import guarded, inside
from nbgrad.run.terminal import StatusLine
from nbgrad.run.threads import ALONE, OtherThread, OtherThreads, ThreadErrors

_PATIENCE, _STEPS = 1.0, 3
"""The end of a program waits until the recorded thread ends its step: for this many seconds, or the time of this many
steps where that is longer."""


class ProgramRecording(pacing.Pacer):
    """Records one thread of a program, until ``close``: the one that calls ``begin``, which is the main thread.

    If another thread ends a step of training before this one has run a backward, the other thread is recorded instead,
    from its next step on.

    Args:
        options: of ``record``.
        then: called with this object to report, after it has ended.
        home: the folder that the command was started in.
        steps: after so many steps of training the recording ends, and the program goes on; None: with the program.
        line: where the progress is shown; None for nowhere.

    Attributes:
        graph: of the recording.
        seconds: the time from its beginning to its end.
        thread: the recorded thread, with what it had run before; None if it is the main thread.
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
        self._options = options
        self._recording = self._main = record(**options)
        self.graph = self._recording.graph
        self.seconds, self.goes_on, self.over = 0.0, False, False
        self.thread: OtherThread | None = None
        self.others = OtherThreads(self._take)
        self._lock, self._worker = Lock(), main_thread()  # the recorded thread
        self._trained = self._leaves = self._late = False
        self._left = Event()
        self._error: BaseException | None = None
        self._errors: ThreadErrors | None = None
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
        """Record this thread from now on, unless another one is recorded by now."""
        with self._lock:
            if self.thread is None:
                self._before = current(), follows()
                self._enter()
                stop_resting(id(self))

    def _enter(self) -> None:
        self._recording.__enter__()
        self._worker = current_thread()
        pacing.add(self, late=not self._is_near())

    def _take(self, thread: OtherThread) -> bool:
        """Record this ``thread`` from now on, if the main thread has trained nothing. Return whether that is done.

        New tensors stay on the device of those that the thread has made. No rank compares its gradients with those of a
        thread. In a block or a module of nbgrad's, whose end would restore the state from before, it is not possible.
        """
        state = current()
        if state.outer is not None or state.scope is not None or self._main.ranks:
            return False
        with self._lock:
            if self.over or self._leaves or self.thread is not None or self._trained:
                return False
            self._main.graph.leave()
            self.thread, self._errors = thread, ThreadErrors()
            self._recording = record(**{**self._options, "device": None})
            self.graph = self._recording.graph
            self._enter()
            begin_to_rest(id(self))  # to notice others, also when this thread has ended
        return True

    def leave(self, error: BaseException | None = None) -> None:
        """Record no more, since ``error`` ended the program or for another reason. The graph is open until ``close``.

        If another thread is recorded and still runs, it closes the graph itself, at the end of its step: meanwhile its
        backward may write the gradients that are read.
        """
        with self._lock:  # a thread may be about to be recorded
            self._leaves, self._error = True, None if isinstance(error, SystemExit) else error
        pacing.remove_elsewhere(self.others)
        self._main.graph.leave()
        if self._worker is not current_thread() and self._worker.is_alive() and not self.over:
            step = (perf_counter() - self._began) / max(self.graph.pace.steps, 1)
            self._left.wait(max(_PATIENCE, _STEPS * step))
            with self._lock:  # the thread waits for something else, or closes the graph by now
                self._late = not self.goes_on
            if self.goes_on:
                self._left.wait()
        self.graph.leave()

    def unwind(self) -> None:
        """Leave all blocks entered since ``begin``: an interrupt may have hit the very function that leaves one."""
        if self._before is not None:
            set_state(unwound(self._before[0]))
            unfollow_to(self._before[1])

    def abandon(self) -> None:
        """Record no more, and report nothing: this is a process that the program has forked."""
        if not self.over:
            self._lock = Lock()  # a thread that is not there in this process may have held it
            self._unpaced()
            with suppress(Exception):
                self.leave()

    def _unpaced(self) -> None:
        self.over = True
        stop_resting(id(self))
        pacing.remove(self)
        pacing.remove_elsewhere(self.others)
        if self._errors is not None:
            self._errors.close()

    # While the program runs.

    def backward_begun(self) -> None:
        """The first step may have ended, where no optimizer takes one: after this backward it would be too late."""
        if self._steps is not None and self.graph.pace in pacing.pacers() and not (self.over or self._leaves):
            guarded(self._look_between, self._line)

    def _look_between(self) -> None:
        if self.graph.pace.ended_by_hand() and self._steps == 1:
            self._look()

    def backward_ended(self, *given: Any) -> None:
        """A step may have ended, where no optimizer takes one."""
        if self._is_here():
            self._trained = self._trained or current_thread() is self._worker
            self._moved(self.graph.backwards >= ALONE)
            self._look()
        elif not self.over:
            self.others.backward_ended(*given)

    def step_ended(self, optimizer: Any) -> None:  # noqa: ARG002  # as of every pacer
        """A step may have ended, if all optimizers of it have stepped."""
        if self._is_here():
            self._moved(True)
            self._look()

    def _moved(self, stepped: bool) -> None:
        """Record this thread by itself if it has ``stepped`` in a copy of the context of the main thread.

        The copy has the graph of the main thread, as in ``asyncio.to_thread``. But no call of torch is noticed here.
        """
        free = self.thread is None and not self._trained and not self._main.ranks
        if stepped and free and self.graph.pace.is_outside():
            thread = OtherThread(current_thread().name, user_place(), self.graph.backwards)
            pacing.remove(self)
            self._main.graph.leave()
            self._take(thread)

    def _is_here(self) -> bool:
        """Whether this thread is recorded. If it was, and is no longer, it goes on without it."""
        known = self.graph.pace in pacing.pacers()
        if known and not (self.over or self._leaves):
            return True
        pacing.remove(self)
        with self._lock:
            closes = known and self.thread is not None and self._leaves and not (self.over or self._late)
            self.goes_on = self.goes_on or closes
        if closes:
            guarded(lambda: self._recording.close(self.graph.in_sight(), self._error), self._line)
            self._left.set()
        else:
            (self.graph if known else self._main.graph).leave()
        return False

    def _is_near(self) -> bool:
        """Whether a stretch of quick steps could pass the last step of the recording."""
        return self._steps is not None and self.graph.pace.steps >= self._steps - pacing.QUIET

    def _look(self) -> None:
        if self._is_near():
            pacing.add(self)
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
        if self._errors is not None:
            error = error or self._errors.error
            self._main.graph.close()
        if self.thread is not None and not self.graph.backwards:
            self.others.add(self.thread)
            self.thread = None
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
