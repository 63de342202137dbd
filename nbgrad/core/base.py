"""What a tensor holds: the fields that every op reads and writes, apart so that they can be compiled."""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from nbgrad.core.alias import View, Views
    from nbgrad.core.node import Origin
    from nbgrad.core.tensor import Tensor


class TensorBase:
    """The fields of ``Tensor``; everything that can be done with them is there."""

    __slots__ = ("__weakref__", "_alias", "_data", "_grad", "_needs_grad", "_origin", "name")

    _alias: "View | Views | None"
    _data: torch.Tensor
    _grad: "Tensor | None"
    _needs_grad: bool
    _origin: "Origin | None"
    name: str | None

    def __init__(self, data: torch.Tensor, requires_grad: bool = False, origin: "Origin | None" = None) -> None:
        if not isinstance(data, torch.Tensor):
            raise TypeError(
                f"Tensor() wraps a torch tensor and was given a {type(data).__name__}: write nbgrad.tensor([1.0, 2.0]) "
                "for numbers, and nbgrad.empty(2, 3) for a shape"
            )
        self._data = data
        self._needs_grad = requires_grad
        self._origin = origin
        self._grad = None
        self._alias = None
        self.name = None


def raw_of(value: Any) -> Any:
    """The torch tensor that ``value`` wraps; what is no ``Tensor`` comes back as it is."""
    return value._data if isinstance(value, TensorBase) else value
