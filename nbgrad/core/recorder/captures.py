"""Step aside while torch captures a function as a graph, as ``torch.export.export(..., strict=True)`` does.

Dynamo then reads the code that the function would run. It must find torch's own functions there, and not ours. Dynamo
is imported late, often by that very call, so a finder waits for its import while a graph is open.

Everything here is private to torch: it is in one file, and has tests.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from nbgrad.core.late_import import LateImport

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
        self._import = LateImport(_DYNAMO, lambda _: self._watch())
        self._own: Any = None
        self._ours: Any = None

    def watch(self) -> None:
        """Begin to watch; if dynamo is not imported yet, when it is."""
        if _FRAMES in sys.modules:
            self._watch()
        else:
            self._import.wait()

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
        self._import.stop()
        frames: Any = sys.modules.get(_FRAMES)
        if self._own is not None and getattr(frames, _CAPTURE, None) is self._ours:
            setattr(frames, _CAPTURE, self._own)
        self._own = self._ours = None
