"""Leave the regions alone that ``torch.compile`` has compiled: they run compiled, just as without a graph.

Dynamo looks at the modes on torch's stack and at the code that a module's call runs: with ours there it would trace the
recorder too, and fall back to eager. So both are removed while a compiled region runs. The region is one op of the
graph, which torch calls ``CompiledFunction``.

Everything here is private to torch: it is in one file, and has tests.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.state import current

_FRAMES = "torch._dynamo.eval_frame"
_SETTER = "_maybe_set_eval_frame"


class Regions:
    """Watches the entry and the end of compiled regions.

    Args:
        enter: called when the outermost region of a thread begins.
        leave: called when it has ended.
    """

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter, self._leave = enter, leave
        self._setter: Any = None
        self._compile: Any = None
        self._region: FrameType | None = None  # the frame of the outermost

    def watch(self) -> None:
        """Begin to watch; where nothing was compiled yet, from the first call of ``torch.compile`` on."""
        frames = sys.modules.get(_FRAMES)
        if frames is not None:
            self._watch(frames)
            return
        own = self._compile = torch.compile

        def compile(*args: Any, **kwargs: Any) -> Any:  # torch's name
            made = own(*args, **kwargs)
            if self._compile is own and _FRAMES in sys.modules:  # it still watches
                self._watch(sys.modules[_FRAMES])
            return made

        torch.compile = compile

    def _watch(self, frames: Any) -> None:
        if self._setter is not None:
            return
        self._setter = getattr(frames, _SETTER)

        def set_frames(callback: Any) -> Any:
            caller = sys._getframe(1)  # a region sets its own callback first, and in the end the one before
            if self._region is None and callable(callback):
                self._region = caller
                _undisturbed(self._enter)
            elif self._region is caller:
                self._region = None
                _undisturbed(self._leave)
            return self._setter(callback)

        setattr(frames, _SETTER, set_frames)

    def unwatch(self) -> None:
        """Restore torch's own functions."""
        if self._compile is not None:
            torch.compile = self._compile
            self._compile = None
        if self._setter is not None:
            setattr(sys.modules[_FRAMES], _SETTER, self._setter)
            self._setter = None
        self._region = None


def _undisturbed(step: Callable[[], None]) -> None:
    """Run ``step``, of which the compiled region must not see an error."""
    try:
        step()
    except Exception as error:
        if not taken(current().observers, error, "a compiled region"):
            raise
