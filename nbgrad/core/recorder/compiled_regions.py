"""Leave the regions alone that ``torch.compile`` has compiled: they run compiled, just as without a graph.

Dynamo looks at the modes on torch's stack and at the code that a module's call runs: with ours there it would trace the
recorder too, and fall back to eager. So both are removed while a compiled region runs. The region is one op of the
graph, which torch calls ``CompiledFunction``. A region belongs to its thread: other threads record meanwhile.

Everything here is private to torch: it is in one file, and has tests.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib import import_module
from threading import get_ident
from types import FrameType
from typing import Any

import torch

from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.state import current
from nbgrad.core.recorder.patches import Patch

_FRAMES = "torch._dynamo.eval_frame"
_MODULES = "torch._dynamo.variables.nn_module"
_SETTER = "_maybe_set_eval_frame"


def await_import() -> None:
    """If another thread imports torch's compiler now, wait until it is complete."""
    frames = sys.modules.get(_FRAMES)
    if frames is None or not _is_incomplete(frames):
        return
    with suppress(Exception):  # the thread that imports it gets the error
        import_module(_FRAMES)


def _is_incomplete(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False)) or not hasattr(module, _SETTER)


class Regions:
    """Watches the entry and the end of compiled regions.

    Args:
        enter: called when the outermost region of a thread begins.
        leave: called when it has ended.
        call: the patch of ``Module.__call__``, which Dynamo is to see as torch's own.

    Attributes:
        inside: by the id of a thread, the frame of its outermost region.
    """

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None], call: Patch) -> None:
        self.inside: dict[int, FrameType] = {}
        self._enter, self._leave, self._call = enter, leave, call
        self._watches = False
        self._compile = Patch(torch, "compile", self._compiling)
        self._setter: Patch | None = None
        self._unpatched: Patch | None = None

    def watch(self) -> None:
        """Begin to watch; where nothing was compiled yet, from the first call of ``torch.compile`` on."""
        self._watches = True
        if not self._watch():
            self._compile.install()

    def _compiling(self, own: Any) -> Any:
        @wraps(own)
        def compile(*args: Any, **kwargs: Any) -> Any:  # torch's name
            made = own(*args, **kwargs)
            if self._watches:
                self._watch()
            return made

        return compile

    def _watch(self) -> bool:
        """Watch if torch's compiler is imported; return whether it is."""
        frames = sys.modules.get(_FRAMES)
        if frames is None or _is_incomplete(frames):
            return False
        if self._setter is None:
            self._setter = Patch(frames, _SETTER, self._setting)
        self._setter.install()
        return True

    def _setting(self, own: Any) -> Any:
        @wraps(own)
        def set_frames(callback: Any) -> Any:
            if self._watches:
                caller, thread = sys._getframe(1), get_ident()
                region = self.inside.get(thread)  # it sets its own callback first, and in the end the one before
                if region is None and callable(callback):
                    self.inside[thread] = caller
                    _undisturbed(self._enter)
                elif region is caller:
                    del self.inside[thread]
                    _undisturbed(self._leave)
            return own(callback)

        return set_frames

    def pass_for_torchs(self) -> None:
        """Have Dynamo take our ``Module.__call__`` for torch's: another thread may compile while this one records."""
        modules = sys.modules.get(_MODULES)
        if not hasattr(modules, "unpatched_nn_module_call"):
            return
        ours = self._call.ours
        if self._unpatched is None or self._unpatched.ours is not ours:
            self.pass_for_torchs_no_more()
            self._unpatched = Patch(modules, "unpatched_nn_module_call", lambda _: ours)
        self._unpatched.install()

    def pass_for_torchs_no_more(self) -> None:
        """Undo ``pass_for_torchs``."""
        if self._unpatched is not None:
            self._unpatched.put_back()

    def unwatch(self) -> None:
        """Restore torch's own functions."""
        self._watches = False
        self._compile.put_back()
        if self._setter is not None:
            self._setter.put_back()
        self.inside.clear()


def _undisturbed(step: Callable[[], None]) -> None:
    """Run ``step``, of which the compiled region must not see an error."""
    try:
        step()
    except Exception as error:
        if not taken(current().observers, error, "a compiled region"):
            raise
