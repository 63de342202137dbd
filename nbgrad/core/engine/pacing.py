"""The two events that pace a graph: a backward has ended, and an optimizer has stepped.

A graph need not record every step of a loop. While it rests, no observer is notified of anything: it learns of these
two events alone, so a step in between takes as long as without a graph.
"""

from contextvars import ContextVar, Token
from typing import Any

import torch

from nbgrad.core.backend.function_mode import is_heard, muted, traced


class Pacer:
    """Is notified of the events of a training loop. Every method may be overridden, and does nothing by default."""

    __slots__ = ()

    def backward_ended(self, roots: tuple[torch.Tensor, ...], accumulates: bool, differentiable: bool) -> None:
        """A backward from ``roots`` has ended.

        ``accumulates``: whether it has added to the ``.grad`` of leaves.
        ``differentiable``: whether its gradients can be differentiated, as with ``create_graph``.
        """

    def step_begun(self) -> None:
        """The step of an optimizer begins; a step with a closure runs backwards itself."""

    def step_ended(self, optimizer: Any) -> None:
        """That of ``optimizer`` has ended."""


_PACERS: ContextVar[tuple[Pacer, ...]] = ContextVar("nbgrad_pacers", default=())
_ELSEWHERE: list[Pacer] = []
"""Those that are notified of events in threads and tasks that have no pacer."""


def pacers() -> tuple[Pacer, ...]:
    """Those that are notified in this thread or task."""
    return _PACERS.get() or tuple(_ELSEWHERE)


def add_elsewhere(pacer: Pacer) -> None:
    """Notify ``pacer`` of the events of threads and tasks that have no pacer, until ``remove_elsewhere``."""
    _ELSEWHERE.append(pacer)


def remove_elsewhere(pacer: Pacer) -> None:
    """Notify ``pacer`` no more."""
    _ELSEWHERE[:] = [one for one in _ELSEWHERE if one is not pacer]


def add(pacer: Pacer) -> Token[tuple[Pacer, ...]]:
    """Notify ``pacer`` of the events of this thread or task, until ``remove``."""
    return _PACERS.set((*_PACERS.get(), pacer))


def remove(pacer: Pacer) -> None:
    """Notify ``pacer`` no more."""
    _PACERS.set(tuple([one for one in _PACERS.get() if one is not pacer]))


def backward_ended(roots: tuple[Any, ...], accumulates: bool, differentiable: bool) -> None:
    """Notify all of a backward that no other one has called."""
    for one in pacers():
        one.backward_ended(roots, accumulates, differentiable)


def step_begun() -> None:
    """Notify all of a step that begins."""
    for one in pacers():
        one.step_begun()


def step_ended(optimizer: Any) -> None:
    """Notify all of a step of ``optimizer`` that has ended."""
    for one in pacers():
        one.step_ended(optimizer)


def number_in(tensor: Any) -> float | torch.Tensor | None:
    """The number in ``tensor``, if it has one; a tensor of its own where reading it would be to wait for a device."""
    if type(tensor) is not torch.Tensor or traced():
        return None
    return _unheard_number_in(tensor) if is_heard() else _number_in(tensor)


def _number_in(tensor: torch.Tensor) -> float | torch.Tensor | None:
    if tensor.numel() != 1:
        return None
    if tensor.is_cpu:  # each loss of a loop comes here: there are no more calls of torch than it takes
        number = tensor.item()
        return number if isinstance(number, float) else None
    return tensor.detach().reshape(()) if tensor.is_floating_point() and not tensor.is_meta else None


_unheard_number_in = muted(_number_in)
