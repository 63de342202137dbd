"""Where in the user's code something happens, and what the variables there are called."""

import os
import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

from nbgrad.core.tensor import Tensor

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def user_frame() -> FrameType:
    """The innermost running frame that is not nbgrad's own."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def in_a_function(frame: FrameType) -> bool:
    """Whether the variables of ``frame`` are a function's, which are gone when it returns."""
    return bool(frame.f_code.co_flags & CO_OPTIMIZED)


def tensor_variables(frame: FrameType) -> dict[str, Any]:
    """The tensors among the variables of ``frame``, by name.

    Before Python 3.13 the interpreter keeps the snapshot that it makes of a function's variables until the function
    returns, and everything in it alive: it is emptied, unless the user holds it too, having called ``locals()``.
    """
    snapshot = frame.f_locals
    found = {name: value for name, value in snapshot.items() if isinstance(value, Tensor)}
    if in_a_function(frame) and sys.version_info < (3, 13) and sys.getrefcount(snapshot) <= 3:
        snapshot.clear()
    return found
