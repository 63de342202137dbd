"""The line of the user's code that runs now, and the names of the variables there."""

import os
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from sys import _getframe, getrefcount
from types import FrameType
from typing import Any

import torch

from nbgrad.core.engine.place import Place
from nbgrad.core.engine.user_names import in_order, loops_of

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep
NOT_THE_USERS = (_PACKAGE, _TORCH)
"""The folders whose code is not the user's."""
_LIBRARIES = (*NOT_THE_USERS, *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def in_library(file: str) -> bool:
    """Whether a file of code is part of an installed package, of nbgrad or of Python: the user does not write it."""
    return file.startswith(_LIBRARIES) or any(part in file for part in ("site-packages", "dist-packages", "<frozen"))


def user_place() -> Place:
    """The line that runs now in code that is neither nbgrad's nor torch's."""
    return _place_in(user_frame())


def own_place() -> Place:
    """The line that runs now in code of the user's own, where a package such as accelerate runs the user's step.

    If packages alone run, it is ``user_place()``.
    """
    return _place_in(own_frame())


def places() -> tuple[Place, Place]:
    """``user_place()`` and ``own_place()``."""
    frame = user_frame()
    own = _own_above(frame)
    place = _place_in(frame)
    return place, place if own is frame else _place_in(own)


class CallSites:
    """Numbers the pairs of ``places()`` from 0. A loop mostly asks for the one of the last time, which costs least."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, int, int], int] = {}
        self._last: tuple[Place, Place] | None = None
        self._number = 0

    def number(self, pair: tuple[Place, Place]) -> int:
        """The number of this pair; for a new one it is how many there were."""
        place, own = pair
        last = self._last
        if last is None or not (place.same(last[0]) and own.same(last[1])):
            self._last = pair
            self._number = self._numbers.setdefault((*place.instruction, *own.instruction), len(self._numbers))
        return self._number


def own_frame() -> FrameType:
    """The innermost running frame of no installed package; ``user_frame()`` where there is none."""
    return _own_above(user_frame())


def _own_above(frame: FrameType) -> FrameType:
    above = frame
    while in_library(above.f_code.co_filename):
        if above.f_back is None:
            return frame
        above = above.f_back
    return above


def _place_in(frame: FrameType) -> Place:
    made = Place.__new__(Place)  # a call of the class takes twice as long
    made._code = frame.f_code
    made._offset = frame.f_lasti
    return made


def user_frame() -> FrameType:
    """The innermost running frame that belongs neither to nbgrad nor to torch: torch's code may call nbgrad's."""
    frame = _getframe()
    while True:
        file = frame.f_code.co_filename
        ours = _OURS.get(file)
        if ours is None:
            ours = _OURS[file] = file.startswith(NOT_THE_USERS)
        above = frame.f_back if ours else None
        if above is None:
            return frame
        frame = above


_OURS: dict[str, bool] = {}
"""For each file of running code whether it is nbgrad's or torch's. Every recorded op asks this of a few files."""


def in_a_function(frame: FrameType) -> bool:
    """Whether ``frame`` is that of a function, whose variables are gone when it returns."""
    return bool(frame.f_code.co_flags & _OPTIMIZED)


_OPTIMIZED = CO_OPTIMIZED  # a C integer in compiled code


def tensors_in_sight(frame: FrameType, modules: bool = False) -> dict[str, Any]:
    """The tensors that the code of ``frame`` can name, by name, and the modules where they are asked for.

    Local variables hide global ones. The best name of each tensor comes first: see ``in_order``.
    """
    known = {**frame.f_globals, **variables_of(frame)}
    return in_order(known, loops_of(frame), modules=modules)


def local_names(frame: FrameType) -> dict[str, Any]:
    """The tensors that the variables of ``frame``, that of a function, hold or have as attributes, by name.

    The variable of a loop is no name of a leaf that learns: in the next round it is the name of another one.
    """
    loops = loops_of(frame)
    return {
        name: value
        for name, value in in_order(variables_of(frame), loops, 1).items()
        if "[" not in name and (name not in loops or not (value.requires_grad and value.is_leaf))
    }


_SNAPSHOTS = sys.version_info < (3, 13)
"""Whether ``frame.f_locals`` is a dict that the frame keeps."""


def variable_name(wanted: Callable[[Any], bool]) -> str | None:
    """The user's name of the first tensor that is ``wanted``: its own name, or that of a variable in a running frame.

    Only for messages: it looks at every variable of every frame.
    """
    for name, value in names_in_frames():
        if wanted(value):
            return better_name(name, value)
    return None


def variable(name: str) -> Any:
    """The object that the user's running code calls ``name``; None if there is none."""
    frame = user_frame()
    found = variables_of(frame).get(name)
    return frame.f_globals.get(name) if found is None else found


def better_name(name: str, tensor: Any) -> str:
    """Its own name, if it has one, in place of the ``name`` of a variable. A path says more than "weight"."""
    own = None if "." in name else getattr(tensor, "name", None)
    return str(own or name)


def names_in_frames() -> list[tuple[str, Any]]:
    """The names of the tensors that the user's running code can name, the best name of each first.

    The names in the cell or the script come before those in the functions that it has called, so that a message names
    a tensor as a picture of the cell does.
    """
    innermost = user_frame()
    found: list[tuple[str, Any]] = []
    for frame in reversed(user_frames(innermost)):
        found += in_order(variables_of(frame), loops_of(frame)).items()
    return [*found, *in_order(innermost.f_globals).items()]


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The frames of the user's code that run, from the innermost one up to that of the cell or the script."""
    found: list[FrameType] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(NOT_THE_USERS):
            if found and in_library(file):
                break
            found.append(frame)
            if not in_a_function(frame):
                break
        frame = frame.f_back
    return found


def variables_of(frame: FrameType) -> dict[str, Any]:
    """The variables of ``frame``, of which no snapshot stays.

    Before Python 3.13 the interpreter makes a snapshot of a function's variables, and keeps it until the function
    returns. The snapshot would keep the tensors alive, so it is emptied, unless the user holds it through ``locals()``.
    """
    snapshot = frame.f_locals
    known = dict(snapshot)
    if _SNAPSHOTS and in_a_function(frame) and getrefcount(snapshot) <= 3:
        snapshot.clear()
    return known


def called_by_user() -> bool:
    """Whether the op or method that runs now was called by the user, not by a module or function of nbgrad's own."""
    frame = _getframe()
    while frame.f_back is not None and _hands_on(frame.f_code.co_filename):
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_PACKAGE)


def _hands_on(file: str) -> bool:
    """Whether the code of ``file`` only passes a call of the user's on to the op."""
    return file.startswith(_CORE) and not file.startswith(_CALLERS)


_CORE = f"{_PACKAGE}core{os.sep}"
_CALLERS = tuple(f"{_CORE}{layer}{os.sep}" for layer in ("ops", "functional", "diagnose"))
"""The layers of the core whose functions call ops, as the modules of ``nbgrad.nn`` do."""
