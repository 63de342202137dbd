"""How much work a call is, by lines of Python that run: the same number on a slow or busy processor."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(function: Callable[[], object]) -> int:
    """Return how many lines of Python run while ``function`` does; a loop in a comprehension counts each turn."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
