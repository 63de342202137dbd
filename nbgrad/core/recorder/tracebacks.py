"""Calls that leave no entry of nbgrad's in a traceback.

Torch calls the recorder, and the recorder calls torch. The traceback of an error in a program is the same as without
the recorder: ``traceless.c`` drops the entries. Without the compiled core nothing can drop them, so they stay.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from nbgrad.core.compilation import compiled


def _as_it_is(function: Callable[..., Any]) -> Any:
    return function


traceless: Callable[[Callable[..., Any]], Any] = (
    import_module("nbgrad.core.recorder.traceless").traceless if compiled() else _as_it_is
)
"""Wrap a function: an error that it raises has no entry of nbgrad's at the beginning of its traceback."""
