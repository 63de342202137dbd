"""``Rest``: what observes a thread, or a cell, can rest between recorded steps."""

from typing import Any

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Scope, State, current, set_state
from nbgrad.core.graph.last_backward import FrameRecorder
from nbgrad.core.graph.listener import Listener
from nbgrad.core.graph.training import Uncleared
from nbgrad.core.recorder.switches import follow_again, rest, stop_resting


class Rest:
    """Takes the observers of a graph away, and brings them back.

    Inside of a block or of the call of a module it does neither: the end of these restores the state from before.

    Args:
        listener: of the graph.
        observers: all that observe while the graph records, with the ``listener``.

    Attributes:
        rests: whether the observers are away.
        follows: what ``follow`` returned; 0 while torch is not followed.
    """

    def __init__(self, listener: Listener, observers: tuple[Observer, ...]) -> None:
        self.listener = listener
        self._observers = observers
        self.rests = False
        self.follows = 0
        self._around: tuple[State | None, Scope | None] | None = None
        self._added = Uncleared()

    def begin(self, follows: int) -> None:
        """The graph records from now on, in the current state."""
        state = current()
        self._around, self.follows = (state.outer, state.scope), follows

    def end(self) -> None:
        """The graph records no more. If it rests, torch is restored; else the caller does that."""
        if self.rests:
            self.rests = False
            if self.follows:
                stop_resting(self.follows)
                self.follows = 0
        self._around = None

    def is_here(self, state: State) -> bool:
        """Whether ``state`` is that of the graph, outside of any block, or one that it rests in."""
        return self._around == (state.outer, state.scope)

    def rest(self) -> bool:
        """Record nothing, until ``wake``; return whether that is possible here."""
        state = current()
        if not self.is_here(state) or state.observers != self._observers:
            return False
        self._secure()
        set_state(state.replaced(observers=()))
        self.rests = True
        if self.follows:
            rest(self.follows)
        return True

    def wake(self) -> bool:
        """Record again; return whether that is possible here."""
        state = current()
        if not self.is_here(state) or state.observers:
            return False
        if self.follows:
            follow_again()
        self.rests = False
        set_state(state.replaced(observers=self._observers))
        return True

    def passed(self) -> None:
        """A backward has ended that was not recorded."""
        self.listener.rested()

    def failed(self, fault: Exception) -> None:
        """Remember an error of nbgrad's own, which must not reach the program, for the picture."""
        self.listener.on_fault(fault, "the pace of a loop")

    @muted
    def adds_up(self) -> bool:
        """Whether the last backward has added to the ``.grad`` of the one before, as far as one of its leaves says."""
        frame, outer = self.listener.notes.frame, self.listener.outer
        ids = sorted(frame.arrived) if isinstance(frame, FrameRecorder) else []
        held: list[Any] = [outer[id].thing for id in ids if id in outer]
        leaves = [one for known in held if known is not None and (one := known()) is not None]
        before = self._added.added_up
        self._added.look(next((one.grad for one in leaves if one.grad is not None), None), 1)
        return self._added.added_up > before

    @muted
    def _secure(self) -> None:
        """Keep the gradients of the last backward, though backwards that are not recorded may change them in place."""
        frame = self.listener.notes.frame
        if isinstance(frame, FrameRecorder):
            frame.secure()
