"""A module of another package that nbgrad waits for, and never imports itself."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class LateImport:
    """Waits in ``sys.meta_path`` until a program imports a module.

    Args:
        name: of the module.
        then: called once with the module, when it has been imported.
    """

    def __init__(self, name: str, then: Callable[[ModuleType], Any]) -> None:
        self._name, self._then = name, then

    def wait(self) -> None:
        """Begin to wait; a second time changes nothing."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no longer."""
        if self in (sys.meta_path or ()):  # None when Python ends
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module, which the next finder finds."""
        if name != self._name:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        loader: Any = found.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:  # it still waits
                self.stop()
                self._then(module)

        loader.exec_module = exec_module  # of this one loader
        return found
