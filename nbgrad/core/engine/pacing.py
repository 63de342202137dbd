"""The events that pace a graph: backwards, and the steps of optimizers.

A graph need not record every step of a loop. While it rests, no observer is notified of anything: it learns of these
events alone, so a step in between takes as long as without a graph.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import torch

from nbgrad.core.backend.function_mode import is_heard, muted, traced
from nbgrad.core.engine.call_site import places
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import current
from nbgrad.core.engine.torch_reads import number_of

QUIET = 32
"""A stretch of quick steps has at most this many."""

_Tensor = torch.Tensor
_functorch_level: Callable[[], Any] = torch._C._functorch.maybe_current_level


class Stretch:
    """Steps of a loop at whose end nothing has to be decided. Of each backward the loss and the lines are kept.

    A step of a small network takes a millisecond, in which its numbers push all else out of the processor's caches. So
    the few lines that each such step runs take longer than they look, and they stand together here.

    Attributes:
        left: how many steps are to come.
        ended: how many have ended.
        optimizer: Python's ``id()`` of the one that makes these steps. A step of another one ends the stretch.
        bound: a loss that is above it, or not finite, ends the stretch.
        passed: the loss and the lines of each backward, as ``number_in`` and ``places`` give them.
    """

    __slots__ = ("_runs", "bound", "ended", "left", "optimizer", "passed")

    def __init__(self) -> None:
        self.left = self.ended = self.optimizer = 0
        self.passed: list[tuple[Any, tuple[Place, Place]]] = []
        self.bound = 0.0
        self._runs = False

    def ran(self, run: Callable[..., Any], roots: tuple[Any, ...], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Run torch's backward, ``run(roots, *args, **kwargs)``, and note it. One that it calls is part of it."""
        if self._runs:
            return run(roots, *args, **kwargs)
        self._runs = True
        try:
            result = run(roots, *args, **kwargs)
        finally:
            self._runs = False
        root = roots[0]
        number = number_of(root) if len(roots) == 1 and type(root) is _Tensor else None
        if number is not None:  # a tensor of a transform or a tracer has none in its memory
            self._keep(number)
        elif is_the_programs():
            self.note(roots)
        return result

    def note(self, roots: tuple[Any, ...]) -> None:
        """A backward from ``roots`` has ended."""
        self._keep(number_in(roots[0]) if len(roots) == 1 else None)

    def _keep(self, loss: Any) -> None:
        self.passed.append((loss, places()))
        if isinstance(loss, float):
            value = loss
            if not (value <= self.bound and value - value == 0):
                self.left = 0

    def stepped(self, optimizer: Any) -> bool:
        """Count a step that has ended; return whether ``optimizer`` makes those of this stretch."""
        if id(optimizer) != self.optimizer:
            return False
        self.left -= 1
        self.ended += 1
        return True


def is_the_programs() -> bool:
    """Whether a backward that begins or ends here is one of the program.

    Others run inside of one of nbgrad's, or a transform or a compiler traces them.
    """
    return current().walking is None and _functorch_level() is None and not traced()


class Pacer:
    """Is notified of the events of a training loop. Every method may be overridden, and does nothing by default."""

    __slots__ = ()

    def backward_begun(self) -> None:
        """A backward begins."""

    def backward_ended(self, roots: tuple[torch.Tensor, ...], accumulates: bool, differentiable: bool) -> None:
        """A backward from ``roots`` has ended.

        ``accumulates``: whether it has added to the ``.grad`` of leaves.
        ``differentiable``: whether its gradients can be differentiated, as with ``create_graph``.
        """

    def step_begun(self) -> None:
        """The step of an optimizer begins; a step with a closure runs backwards itself."""

    def step_ended(self, optimizer: Any) -> None:
        """That of ``optimizer`` has ended."""

    def is_over(self) -> bool:
        """Whether it waits for nothing more: another thread may have closed its graph."""
        return False

    def passing(self) -> Stretch | None:
        """The stretch that the loop passes now. If there is one, it is notified of each event alone."""
        return None


_PACERS: ContextVar[tuple[Pacer, ...]] = ContextVar("nbgrad_pacers", default=())
_here = _PACERS.get
_LATE: ContextVar[tuple[Pacer, ...]] = ContextVar("nbgrad_late_pacers", default=())
_late = _LATE.get
_ELSEWHERE: list[Pacer] = []
"""Those that are notified of events in threads and tasks that have no pacer."""


def pacers() -> tuple[Pacer, ...]:
    """Those that are notified in this thread or task."""
    return (*_here(), *_late()) or tuple(_ELSEWHERE)


def passing() -> Stretch | None:
    """The stretch that the loop of this thread or task passes now; None where another pacer must not be late."""
    here = _here()
    if len(here) != 1:
        return None
    pacer: Pacer = here[0]
    return pacer.passing()


def add_elsewhere(pacer: Pacer) -> None:
    """Notify ``pacer`` of the events of threads and tasks that have no pacer, until ``remove_elsewhere``."""
    _ELSEWHERE.append(pacer)


def remove_elsewhere(pacer: Pacer) -> None:
    """Notify ``pacer`` no more."""
    with suppress(ValueError):
        _ELSEWHERE.remove(pacer)  # in one step: another thread may add its own meanwhile


def add(pacer: Pacer, *, late: bool = False) -> None:
    """Notify ``pacer`` of the events of this thread or task, until ``remove``.

    ``late``: of those of a stretch of quick steps, it is notified of the last one alone.
    """
    remove(pacer)
    events = _LATE if late else _PACERS
    events.set((*[one for one in events.get() if not one.is_over()], pacer))


def remove(pacer: Pacer) -> None:
    """Notify ``pacer`` no more."""
    for events in (_PACERS, _LATE):
        events.set(tuple([one for one in events.get() if one is not pacer]))


def _noticing() -> tuple[Pacer, ...]:
    """Those that are notified of a backward."""
    here = pacers()
    return here if here and is_the_programs() else ()


def backward_begun() -> None:
    """Notify all of a backward that begins, and that no other one has called."""
    for one in _noticing():
        one.backward_begun()


def backward_ended(roots: tuple[Any, ...], accumulates: bool, differentiable: bool) -> None:
    """Notify all of a backward that no other one has called."""
    for one in _noticing():
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
    if type(tensor) is not _Tensor:
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
