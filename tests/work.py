"""The work of a call, as the number of nbgrad's lines that run. It is the same on a slow or busy processor."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import nbgrad

FOLDER = str(Path(nbgrad.__file__).parent)


def lines(run: Callable[[], object]) -> int:
    """Return how many lines of nbgrad run in ``run()``, without tests and libraries. Each round of a loop counts."""
    count = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return inside

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(FOLDER) else None

    before = sys.gettrace()
    gc.disable()
    sys.settrace(entered)
    try:
        run()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
