"""``Abandonment``: it notices that a loop has ended with an error, of which the trainer says nothing."""

import atexit
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from nbgrad.core.engine import pacing


class Abandonment(pacing.Pacer):
    """Calls ``then``, if the function of ``frame`` does not run any more: at the next backward or step of an optimizer.

    It is also called at the end of the notebook's cell, and at the end of Python.

    Args:
        frame: of the function.
        then: what is called, with the error that ended the cell or the program, or with None. It has to call ``stop``.
    """

    def __init__(self, frame: FrameType, then: Callable[[BaseException | None], Any]) -> None:
        self._frame: FrameType | None = frame
        self._then = then
        pacing.add(self)
        atexit.register(self._python_ends)
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        self._events = None if shell is None else shell.events
        if self._events is not None:
            self._events.register("post_run_cell", self._cell_ended)

    def stop(self) -> None:
        """Call nothing any more."""
        self._frame = None
        pacing.remove(self)
        atexit.unregister(self._python_ends)
        if self._events is not None:
            self._events.unregister("post_run_cell", self._cell_ended)
            self._events = None

    def backward_ended(self, *_: Any) -> None:
        """The loop may have ended before."""
        self._look()

    def step_begun(self) -> None:
        """The loop may have ended before."""
        self._look()

    def _look(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        if frame is None:
            self._then(None)

    def _cell_ended(self, result: Any = None) -> None:
        self._then(getattr(result, "error_in_exec", None))

    def _python_ends(self) -> None:
        self._then(getattr(sys, "last_value", None))  # the error that nothing caught
