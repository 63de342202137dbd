"""Parameter: a tensor that a module learns."""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.modes import current
from nbgrad.core.tensor import Tensor, check_device, tensor


class Parameter(Tensor):
    """A tensor that a ``Module`` counts among its parameters when it is assigned to an attribute.

    Args:
        data: a ``Tensor`` or torch tensor, whose memory it shares, or numbers.
        requires_grad: whether a backward gives it a gradient; False freezes it.

    Raises:
        RuntimeError: ``requires_grad`` with an element type that has no gradients.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(tensor(data).data)
        self.requires_grad = requires_grad

    @property
    def kind(self) -> str:
        """What the picture draws: "parameter"."""
        return "parameter"

    def replace_data(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Put ``change(data)`` in place of the data, and likewise the gradient; the parameter stays the same object."""
        changed = change(self.data)
        if changed is self.data:
            return
        self.data = changed
        if self._grad is not None:
            self._grad = Tensor(change(self._grad.data))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles have the data and the name, but as in torch no gradient."""
        return type(self), (self.data, self.requires_grad), (None, {"name": self.name})

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def uninitialized(*shape: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Parameter:
    """A parameter of that shape with arbitrary values, for a block's ``reset_parameters`` to fill.

    Args:
        shape: its size in each dimension.
        device: where it lives; default: the device of the active graph, else torch's default device.
        dtype: the element type; default: torch's default.
    """
    where = current().device if device is None else check_device(device)
    return Parameter(torch.empty(shape, device=where, dtype=dtype))
