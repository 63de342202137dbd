"""Functions that hold modules: in the variables of functions around them, in their defaults and in their attributes.

A module may keep such a function as an attribute, such as a wrapper of one of its methods. A copy of the module needs
a copy of the function: else the function would run the first module.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

_MOST = 1000
"""The most objects in which a module is looked for."""


class ClosureCopy:
    """Copies functions that hold objects of ``kinds``. All other functions, and variables without such objects, stay.

    Args:
        kinds: the classes of modules and parameters.
        change: gives what stands in the place of an object that a function holds.
    """

    def __init__(self, kinds: tuple[type, ...], change: Callable[[Any], Any]) -> None:
        self._kinds = kinds
        self._change = change
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # or another object might get the id of one that is gone

    def __call__(self, function: FunctionType) -> FunctionType:
        """``function``; or its copy if it holds an object of ``kinds``."""
        if id(function) in self._made:
            found: FunctionType = self._made[id(function)]
            return found
        if not self._holds(function):
            return function
        cells = [self._cell(one) for one in function.__closure__ or ()]
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, tuple(cells))
        self._remember(function, copy)  # it may hold itself
        for name in ("__qualname__", "__doc__", "__module__", "__annotations__"):
            setattr(copy, name, getattr(function, name))
        copy.__defaults__ = self._part(function.__defaults__)
        copy.__kwdefaults__ = self._part(function.__kwdefaults__)
        vars(copy).update({name: self._part(one) for name, one in vars(function).items()})
        for old, new in zip(function.__closure__ or (), cells, strict=True):
            if new is not old and not list(_content(new)):
                new.cell_contents = self._change(old.cell_contents)
        return copy

    def _cell(self, cell: CellType) -> CellType:
        """The variable ``cell``, or a new, empty one if it holds a module. Functions that shared it still share one."""
        if id(cell) in self._made:
            found: CellType = self._made[id(cell)]
            return found
        return self._remember(cell, CellType()) if self._holds(cell) else cell

    def _part(self, value: Any) -> Any:
        return self._change(value) if self._holds(value) else value

    def _remember(self, value: Any, made: Any) -> Any:
        self._made[id(value)] = made
        self._kept.append(value)
        return made

    def _holds(self, value: Any) -> bool:
        """Whether a module is found in ``value``, at any depth."""
        waiting, seen = [value], {id(value)}
        while waiting and len(seen) < _MOST:
            one = waiting.pop()
            if isinstance(one, self._kinds):
                return True
            for part in _parts(one):
                if id(part) not in seen:
                    seen.add(id(part))
                    waiting.append(part)
        return False


def _parts(value: Any) -> Iterator[Any]:
    """The objects that a function, a method or a container holds."""
    if isinstance(value, CellType):
        yield from _content(value)
    elif isinstance(value, FunctionType):
        yield from value.__closure__ or ()
        yield from (value.__defaults__, value.__kwdefaults__, vars(value))
    elif isinstance(value, MethodType):
        yield value.__self__
        yield value.__func__
    elif type(value) is partial:
        yield from (value.func, value.args, value.keywords)
    elif type(value) is dict:
        yield from value.values()
    elif type(value) in {list, tuple, set, frozenset}:
        yield from value


def _content(cell: CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return
