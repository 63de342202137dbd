"""The run of a cell to which the running code belongs, and its end.

IPython's events say that some cell ended, but not which one: cells run inside cells, in threads, in tasks and on other
subshells of the kernel; an empty cell ends without having begun, and a notebook run by ``%run`` has no events at all.
So every run is followed from its first to its last instruction, and known by the context that it runs in.
"""

import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from contextvars import ContextVar
from functools import wraps
from typing import Any

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

from nbgrad.core.engine import state
from nbgrad.core.recorder.switches import follows, unfollow_to

_TELLERS = ("IPython", "ipykernel")
"""The packages that trigger ``post_run_cell`` for each cell that they run; others may not."""


class Execution:
    """One run of a cell.

    Attributes:
        parent: the run in which this one was started, if that had not ended.
        recorded: the objects whose method ``ended`` is called at its end, in reverse order.
        over: whether it has ended.
    """

    __slots__ = ("over", "parent", "recorded")

    def __init__(self, parent: "Execution | None") -> None:
        self.parent = parent
        self.recorded: list[Any] = []
        self.over = False


_innermost: ContextVar[Execution | None] = ContextVar("nbgrad.execution", default=None)


def current() -> Execution | None:
    """The run of a cell to which the running code belongs. A thread that a cell starts belongs to none."""
    execution = _innermost.get()
    while execution is not None and execution.over:
        execution = execution.parent
    return execution


def follow(shell: InteractiveShell, undo: ExitStack) -> None:
    """Note when ``shell`` begins and ends to run a cell, until ``undo`` is closed."""
    run: Callable[..., Coroutine[Any, Any, ExecutionResult]] = shell.run_cell_async

    @wraps(run)
    def run_cell_async(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, ExecutionResult]:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        told = caller.partition(".")[0] in _TELLERS
        return run(*args, **kwargs) if stopped else _followed(run, args, kwargs, told)

    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)  # other code may have put its own around ours
        if vars(shell).get("run_cell_async") is run_cell_async:
            del shell.run_cell_async
            if shell.run_cell_async != run:
                shell.run_cell_async = run  # type: ignore[method-assign]

    shell.run_cell_async = run_cell_async  # type: ignore[method-assign]
    undo.callback(stop)


async def _followed(
    run: Callable[..., Coroutine[Any, Any, ExecutionResult]], args: Any, kwargs: Any, told: bool
) -> ExecutionResult:
    execution, before, followed = Execution(current()), state.current(), follows()
    _innermost.set(execution)
    result: ExecutionResult | None = None
    error: BaseException | None = None
    try:
        result = await run(*args, **kwargs)
        error = result.error_in_exec
    except BaseException as raised:
        error = raised
        raise
    finally:
        execution.over = True
        if isinstance(error, KeyboardInterrupt):  # it may have hit the very function that leaves a block
            state.set_state(state.unwound(before))
        told = told and result is not None and not getattr(result.info, "silent", False)
        while execution.recorded:
            execution.recorded.pop().ended(result, error, told=told)
        if isinstance(error, KeyboardInterrupt):
            unfollow_to(followed)
    return result
