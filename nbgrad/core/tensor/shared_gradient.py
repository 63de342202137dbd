"""A leaf of ours whose gradient is that of a tensor of torch's."""

from typing import Any

import torch

from nbgrad.core.engine.node import TensorBase
from nbgrad.core.tensor.tensor import Tensor

_OWN: Any = TensorBase.__dict__["_grad"]
"""Where a tensor keeps its gradient."""


class SharedGradient:
    """The part of such a leaf that shares: its ``.grad`` is that of the torch tensor that ``_shared_with()`` gives.

    A subclass has a slot ``_gradient``, for the tensor of ours that stands for torch's gradient.
    """

    __slots__ = ()
    _gradient: Any

    def _shared_with(self) -> torch.Tensor | None:
        """The tensor of torch's, or None: then the gradient is the leaf's own."""
        raise NotImplementedError

    def _check_shared(self, theirs: torch.Tensor) -> None:
        """Raise if a gradient may not be put there."""

    @property
    def _grad(self) -> TensorBase | None:  # a field of the base
        theirs = self._shared_with()
        if theirs is None:
            own: TensorBase | None = _OWN.__get__(self)
            return own
        gradient = theirs.grad
        known: TensorBase | None = self._gradient
        if gradient is None:
            self._gradient = None
            return None
        if known is None or known._data is not gradient:
            self._gradient = known = Tensor(gradient.detach())
            known._data = gradient
        return known

    @_grad.setter
    def _grad(self, value: TensorBase | None) -> None:
        theirs = self._shared_with()
        if theirs is None:
            _OWN.__set__(self, value)
            return
        if value is not None:
            self._check_shared(theirs)
        theirs.grad = None if value is None else value._data
        self._gradient = value
