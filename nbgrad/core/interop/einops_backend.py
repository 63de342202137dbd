"""einops on our tensors.

einops finds the backend of a tensor among the subclasses of its ``AbstractBackend``. Ours is made when a program
imports einops, whether that is before nbgrad is imported or after. nbgrad itself never imports it.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import torch

from nbgrad.core.tensor.tensor import Tensor

_BACKENDS = "einops._backends"


def _register(backends: Any) -> None:
    """Make our backend: einops's own for torch, whose functions and methods our tensors have."""

    class NbgradBackend(backends.TorchBackend):  # type: ignore[misc]  # einops is no package that nbgrad needs
        framework_name = "nbgrad"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            made = Tensor(torch.from_numpy(x))
            return made.requires_grad_() if self.is_float_type(made) else made

    _made.append(NbgradBackend)


_made: list[type] = []
"""einops finds only classes that are alive."""


class _Finder:
    """Waits in ``sys.meta_path`` until the backends of einops are imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module, which the next finder finds."""
        if name != _BACKENDS:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        loader: Any = found.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register(module)

        loader.exec_module = exec_module  # of this one loader
        sys.meta_path.remove(self)
        return found


_finder = _Finder()


def follow() -> None:
    """Make our backend, now or when a program imports einops; a second time changes nothing."""
    if _made:
        return
    if _BACKENDS in sys.modules:
        _register(sys.modules[_BACKENDS])
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def unfollow() -> None:
    """Wait for einops no longer."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


follow()
