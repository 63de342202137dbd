"""The moment at which a program has imported torch, and with it all that was being imported of nbgrad."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from threading import local
from types import ModuleType
from typing import Any


class TorchImport:
    """Waits in ``sys.meta_path`` until a program imports torch, itself or with a part of nbgrad.

    Args:
        then: called once, in the thread that has imported it, when the import has ended. If it was an import of nbgrad
            that needed torch, then all of nbgrad is there.
    """

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then
        self._running = local()

    def wait(self) -> None:
        """Begin to wait. If torch is there, as it is where Python imports it at its start, the waiting is over."""
        if "torch" in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no longer."""
        if self in (sys.meta_path or ()):  # None when Python ends
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module, which the next finder finds."""
        if name != "torch" and not name.startswith("nbgrad."):
            return None
        finders = [one for one in sys.meta_path if one is not self]
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if found is None or found.loader is None:
            return None
        loader: Any = found.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the module keeps its loader, as it is without nbgrad
            self._running.depth = getattr(self._running, "depth", 0) + 1
            try:
                execute(module)
            finally:
                self._running.depth -= 1
            if not self._running.depth and "torch" in sys.modules and self in sys.meta_path:
                self.stop()
                self._then()

        loader.exec_module = exec_module  # of this one loader
        return found
