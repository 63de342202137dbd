"""Step aside while torch captures a function as a graph, as ``torch.export.export(..., strict=True)`` does.

Dynamo then reads the code that the function would run. It must find torch's own functions there, and not ours. Dynamo
is imported late, often by that very call, so a finder waits for its import while a graph is open.

Everything here is private to torch: it is in one file, and has tests.
"""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_DYNAMO = "torch._dynamo"
_FRAMES = "torch._dynamo.convert_frame"
_CAPTURE = "_fullgraph_capture_frame"


class Captures:
    """Watches the captures of functions.

    Args:
        aside: runs a function with arguments while the recorder is off.
    """

    def __init__(self, aside: Callable[..., Any]) -> None:
        self._aside = aside
        self._own: Any = None
        self._ours: Any = None

    def watch(self) -> None:
        """Begin to watch; if dynamo is not imported yet, when it is."""
        if _FRAMES in sys.modules:
            self._watch()
        elif self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def _watch(self) -> None:
        frames: Any = sys.modules.get(_FRAMES)
        own = getattr(frames, _CAPTURE, None)  # torch before 2.9 captures in a compiled region
        if own is None or self._own is not None:
            return

        @wraps(own)
        def capture(*args: Any, **kwargs: Any) -> Any:
            return self._aside(own, *args, **kwargs)

        self._own, self._ours = own, capture
        setattr(frames, _CAPTURE, capture)

    def unwatch(self) -> None:
        """Restore torch's own function, where ours is still there."""
        if self in (sys.meta_path or ()):  # None when Python ends
            sys.meta_path.remove(self)
        frames: Any = sys.modules.get(_FRAMES)
        if self._own is not None and getattr(frames, _CAPTURE, None) is self._ours:
            setattr(frames, _CAPTURE, self._own)
        self._own = self._ours = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module, which the next finder finds."""
        if name != _DYNAMO:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        loader: Any = found.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:  # the graph is still open
                sys.meta_path.remove(self)
                self._watch()

        loader.exec_module = exec_module  # of this one loader
        return found
