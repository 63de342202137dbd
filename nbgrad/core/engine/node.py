"""What a tensor holds: the fields that every op reads and writes, apart so that they can be compiled."""

from typing import Any

import torch


class TensorBase:
    """The fields of ``Tensor``, and what the layers below it ask of one; everything else about it is there.

    ``_alias`` is None, or says how the tensor shares its memory: only ``alias`` reads it.
    """

    __slots__ = ("__weakref__", "_alias", "_data", "_grad", "_needs_grad", "_origin", "name")

    _alias: Any
    _data: torch.Tensor
    _grad: "TensorBase | None"
    _needs_grad: bool
    _origin: Any
    name: str | None

    def __init__(self, data: torch.Tensor, requires_grad: bool = False, origin: Any = None) -> None:
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

    # What the layers below ``Tensor`` ask of one: it overrides each.

    @property
    def data(self) -> torch.Tensor:
        """The torch tensor itself."""
        raise NotImplementedError

    @property
    def origin(self) -> Any:
        """Where it came from: the node or output of an op, or a leaf."""
        raise NotImplementedError

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made it; None for a leaf."""
        raise NotImplementedError

    @property
    def requires_grad(self) -> bool:
        """Whether a backward gives it a gradient."""
        raise NotImplementedError

    @property
    def is_leaf(self) -> bool:
        """Whether the user made it, not a recorded op."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """What a picture shows it as."""
        raise NotImplementedError


def raw_of(value: Any) -> Any:
    """The torch tensor that ``value`` wraps; what is no ``Tensor`` comes back as it is."""
    return value._data if isinstance(value, TensorBase) else value
