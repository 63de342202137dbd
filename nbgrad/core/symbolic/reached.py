"""Leave the ``.grad`` and ``requires_grad`` that a run of a program has reached, if an error ends it.

Numbers need no care: a program changes them in place, in the order of the function. But it gives tensors their
``.grad`` and ``requires_grad`` only at its end. After an error the line of the program that raised says how
far it had come.
"""

from collections.abc import Iterable
from types import FrameType
from typing import Any

from nbgrad.core.symbolic.ir import Event, Listing, Value
from nbgrad.core.symbolic.replay import PROGRAM
from nbgrad.core.tensor.tensor import Tensor


def leave_reached(listing: Listing, error: BaseException) -> None:
    """Make the changes that the function makes before the step that has raised ``error`` in a run of ``listing``."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == PROGRAM and "ORDERS" in frame.f_globals:
            _leave(frame.f_globals["EVENTS"], frame.f_globals["ORDERS"][trace.tb_lineno], frame)
            return
        trace = trace.tb_next
    _leave(listing.events, 0, None)


def switch_requiring(events: Iterable[Event]) -> None:
    """Make all changes of ``requires_grad``."""
    for event in events:
        if not event.gradient:
            event.owner.requires_grad = event.value


def _leave(events: list[Event], order: int, frame: FrameType | None) -> None:
    made: dict[str, Any] = {} if frame is None else frame.f_locals
    reached = [event for event in events if event.order <= order]
    switch_requiring(reached)
    for event in reached:
        if event.gradient and not isinstance(event.value, Value):
            event.owner._grad = None
        elif isinstance(event.value, Value) and (data := made.get(f"v{event.value.number}")) is not None:
            event.owner._grad = Tensor(data)
