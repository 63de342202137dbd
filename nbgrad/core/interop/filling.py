"""Torch's factories in a program on our tensors: a tensor from them becomes one of ours when values of ours fill it.

So ``out = torch.zeros(3)`` followed by ``out[0] = y`` works with its gradient, in a model written for torch too, and
costs nothing where it does not occur. ``Filled`` says what becomes of ``out``.
"""

from functools import cache

import torch

from nbgrad.core.engine.tensor_data import memory_uses
from nbgrad.core.tensor.filled import Filled, fillings
from nbgrad.core.tensor.tensor import Tensor


@cache
def _alone() -> int:
    """The number of ``memory_uses`` for a tensor that shares its memory with no other."""
    return memory_uses(torch.empty(1))


def fill(target: torch.Tensor) -> Tensor:
    """Make ``target`` a ``Filled``, and also its base if it is a view; return the counterpart of ``target``.

    Raises:
        TypeError: other tensors share its memory. torch does not say which, so they would lose a gradient.
    """
    base = target if isinstance(target, Filled) or target._base is None else target._base
    if not isinstance(base, Filled):
        _check_alone(target, base)
        _become(base, Tensor(base.detach()))
    if target is not base and not isinstance(target, Filled):
        seen = base._nbgrad.as_strided(target.shape, target.stride(), target.storage_offset())  # type: ignore[attr-defined]
        _become(target, seen)
    counterpart: Tensor = target._nbgrad  # type: ignore[attr-defined]
    return counterpart


def _become(tensor: torch.Tensor, counterpart: Tensor) -> None:
    fillings.any = True
    tensor._nbgrad = counterpart  # type: ignore[attr-defined]
    tensor.__class__ = Filled


def _check_alone(target: torch.Tensor, base: torch.Tensor) -> None:
    """Check that no others share the memory of ``target`` and ``base``: views that are alive, arrays of numpy."""
    known = _alone() + (target is not base)
    kinds = {type(target), type(base)}
    alike = target.dtype == base.dtype and target.is_conj() == base.is_conj() and target.is_neg() == base.is_neg()
    if kinds != {torch.Tensor} or not alike or memory_uses(target) > known:
        raise TypeError(
            "a torch tensor would get values of an nbgrad tensor with a gradient, but it is a parameter or an object "
            "of another class, or other tensors share its memory, which would lose the gradient: convert it with "
            "nbgrad.tensor(), or pass t.data to write only the values"
        )
