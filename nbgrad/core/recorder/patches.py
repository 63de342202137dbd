"""A function of torch's that the recorder replaces, while other libraries may replace the same one."""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from nbgrad.core.compilation import compiled

set_method: Callable[..., Any] = import_module("nbgrad.core.recorder.methods").set_method if compiled() else setattr
"""``setattr(class, name, method)``, without a look at all subclasses where that is not needed."""


class Patch:
    """An attribute of torch's that holds a function of ours while a graph records.

    A program may take our function and keep it, and a library may put its own around it. So each function that was
    there once stays valid: it calls what it stands for, for ever. We put back only what is still ours.

    Args:
        target: the class or the module.
        name: of the attribute.
        make: gets what stands there, and returns what takes its place.

    Attributes:
        original: what ours stands for.
        ours: what ``make`` has returned for it; None before the first ``install``. An earlier one that a program has
            kept is to call what it stands for, and nothing else.
    """

    __slots__ = ("_made", "_make", "name", "original", "ours", "target")

    def __init__(self, target: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.target, self.name = target, name
        self.original: Any = None
        self.ours: Any = None
        self._make = make
        self._made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def install(self) -> None:
        """Put ours there, if it is not there already."""
        found = vars(self.target)[self.name]
        if self.ours is not None and _function(found) is _function(self.ours):
            return
        found = self._made.get(_function(found), found)  # a library has put back an earlier one of ours
        if self.ours is None or found is not self.original:
            made = self._make(found)
            self._made[_function(made)] = found
            self.original, self.ours = found, made
        set_method(self.target, self.name, self.ours)

    def put_back(self) -> None:
        """Put the original there, if ours is still there."""
        if self.ours is not None and _function(vars(self.target)[self.name]) is _function(self.ours):
            set_method(self.target, self.name, self.original)


def _function(value: Any) -> Any:
    """The function that a ``staticmethod`` holds: the same function may come back in another one."""
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value
