"""Calls that leave no entry of nbgrad's in a traceback.

Torch calls the recorder, and the recorder calls torch. The traceback of an error in a program is the same as without
the recorder: ``traceless.c`` drops the entries. Without the compiled core nothing can drop them, so they stay.
"""

from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from typing import Any

from nbgrad.core.compilation import compiled


def _as_it_is(function: Callable[..., Any], like: Callable[..., Any] | None = None) -> Any:
    return function if like is None else update_wrapper(function, like)


traceless: Callable[..., Any] = import_module("nbgrad.core.recorder.traceless").traceless if compiled() else _as_it_is
"""Wrap a function: an error that it raises has no entry of nbgrad's at the beginning of its traceback.

A second function gives the wrapper its name, documentation and signature: the one of torch's that it replaces.
"""
