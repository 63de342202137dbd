"""Gradients kept short, so that a single batch cannot throw the parameters far away."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.utils import get_total_norm as total_norm_of

from nbgrad.core.engine.state import current, tell_changed
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parameter import check_several

Params = Tensor | Iterable[Tensor]


def clip_grad_norm_(
    parameters: Params,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients down in place, by the same factor, so that their norm together is at most ``max_norm``.

    Call it between ``loss.backward()`` and ``optimizer.step()``. It keeps the direction of the step. Recurrent networks
    (Pascanu et al. 2013) and transformers are trained with it.

    Args:
        parameters: a parameter or several; those without a gradient don't count.
        max_norm: the largest norm that all gradients together may have.
        norm_type: which norm it is, ``inf`` for the largest element.
        error_if_nonfinite: whether a norm that is not finite is an error.
        foreach: whether one kernel works on all gradients at once; None: on a GPU.

    Returns:
        The norm before the scaling.

    Raises:
        RuntimeError: the norm is NaN or infinite, and ``error_if_nonfinite`` is True.
    """
    held = _listed(parameters)
    total = get_total_norm([one.grad for one in held if one.grad is not None], norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(held, max_norm, total, foreach)
    return total


def get_total_norm(
    tensors: Params | torch.Tensor | Iterable[torch.Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector. No graph records it.

    Args:
        tensors: the tensors, usually gradients.
        norm_type: which norm it is, ``inf`` for the largest element.
        error_if_nonfinite: whether a norm that is not finite is an error.
        foreach: whether one kernel works on all tensors at once; None: on a GPU.

    Raises:
        RuntimeError: the norm is NaN or infinite, and ``error_if_nonfinite`` is True.
    """
    raw = [one.data for one in ([tensors] if isinstance(tensors, Tensor | torch.Tensor) else tensors)]
    return Tensor(total_norm_of(raw, norm_type, error_if_nonfinite, foreach))


def clip_grads_with_norm_(
    parameters: Params, max_norm: float, total_norm: Tensor | torch.Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients down in place as ``clip_grad_norm_`` does, with a norm that is known already.

    Args:
        parameters: a parameter or several; those without a gradient don't count.
        max_norm: the largest norm that all gradients together may have.
        total_norm: the norm of all gradients together, from ``get_total_norm``.
        foreach: whether one kernel works on all gradients at once; None: always.
    """
    factor = torch.clamp(max_norm / (total_norm.data + 1e-6), max=1.0)
    grads = _grads(parameters)
    for batch in _batches(grads, foreach):
        torch._foreach_mul_(batch, factor.to(batch[0].device))
    _tell_clipped(grads, "clip_grads_with_norm_()", max_norm)


def clip_grad_value_(parameters: Params, clip_value: float, foreach: bool | None = None) -> None:
    """Bound each element of each gradient in place to between ``-clip_value`` and ``clip_value``.

    Args:
        parameters: a parameter or several; those without a gradient don't count.
        clip_value: the bound.
        foreach: whether one kernel works on all gradients at once; None: always.
    """
    bound = float(clip_value)
    grads = _grads(parameters)
    for batch in _batches(grads, foreach):
        torch._foreach_clamp_min_(batch, -bound)
        torch._foreach_clamp_max_(batch, bound)
    _tell_clipped(grads, "clip_grad_value_()", bound, changes=2)


def _tell_clipped(grads: list[torch.Tensor], what: str, bound: float, changes: int = 1) -> None:
    """Tell the observers that ``what`` has clipped ``grads`` to a ``bound``, by this number of ``changes`` of each."""
    for observer in current().observers:
        observer.on_clip(grads, bound, changes)
    tell_changed(grads, what)


def _listed(parameters: Params) -> list[Tensor]:
    """The parameters as a list, which can be gone through twice."""
    check_several("parameters", parameters)
    held = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for one in held:
        if not isinstance(one, Tensor):
            raise TypeError(f"parameters must be tensors of nbgrad, got {torch.typename(one)}")
    return held


def _grads(parameters: Params) -> list[torch.Tensor]:
    return [one.grad.data for one in _listed(parameters) if one.grad is not None]


def _batches(grads: list[torch.Tensor], foreach: bool | None) -> list[list[torch.Tensor]]:
    """The gradients that one kernel takes: those of a device and an element type, or each alone."""
    batches: dict[Any, list[torch.Tensor]] = {}
    for number, grad in enumerate(grads):
        batches.setdefault(number if foreach is False else (grad.device, grad.dtype), []).append(grad)
    return list(batches.values())
