"""einops on our tensors.

einops finds the backend of a tensor among the subclasses of its ``AbstractBackend``. Ours is made when a program
imports einops, whether that is before nbgrad is imported or after. nbgrad itself never imports it.
"""

import sys
from typing import Any

import torch

from nbgrad.core.late_import import LateImport
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


_import = LateImport(_BACKENDS, _register)


def follow() -> None:
    """Make our backend, now or when a program imports einops; a second time changes nothing."""
    if _made:
        return
    if _BACKENDS in sys.modules:
        _register(sys.modules[_BACKENDS])
    else:
        _import.wait()


def unfollow() -> None:
    """Wait for einops no longer."""
    _import.stop()


follow()
