"""``Rest``: what observes a thread, or a cell, can rest between recorded steps."""

from collections.abc import Iterable
from threading import get_ident
from typing import Any

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Scope, State, current, set_state
from nbgrad.core.graph.last_backward import FrameRecorder
from nbgrad.core.graph.listener import Listener
from nbgrad.core.graph.optimizers import find_optimizers, optimized
from nbgrad.core.graph.training import Uncleared
from nbgrad.core.recorder.switches import begin_to_rest, follow, follows, resting, stop_resting, unfollow_to


class Rest:
    """Takes the observers of a graph away, and brings them back.

    Inside of a block or of the call of a module it does neither: the end of these restores the state from before.

    Args:
        listener: of the graph.
        observers: all that observe while the graph records, with the ``listener``.

    Attributes:
        listener: as given.
    """

    def __init__(self, listener: Listener, observers: tuple[Observer, ...]) -> None:
        self.listener = listener
        self._observers = observers
        self._around: tuple[State | None, Scope | None] | None = None
        self._followed: int | None = None  # how many graphs of the thread followed torch before; None if this does not
        self._added = Uncleared()

    def begin(self, followed: int | None) -> None:
        """The graph records from now on, in the current state.

        ``followed``: how many graphs of this thread follow torch besides this one; None if this one does not.
        """
        state = current()
        self._around, self._followed = (state.outer, state.scope), followed

    def end(self) -> bool:
        """The graph records no more. Return whether it rested: then torch is restored, else the caller does that."""
        rested = self.rests
        if rested and self._followed is not None and resting(id(self)) == get_ident():
            unfollow_to(self._followed)  # an interrupt may have hit ``rest`` or ``wake``
        stop_resting(id(self))
        self._around = None
        return rested

    @property
    def rests(self) -> bool:
        """Whether the observers are away."""
        return resting(id(self)) is not None

    @property
    def ended(self) -> bool:
        """Whether the graph records no more, or not yet."""
        return self._around is None

    def is_here(self, state: State) -> bool:
        """Whether ``state`` is that of the graph, outside of any block, or one that it rests in."""
        around = self._around
        return around is not None and state.outer is around[0] and state.scope is around[1]

    # An interrupt may come after any line of these two. Then the end of the graph restores everything; and to do the
    # same once more has the effect of once.

    def rest(self) -> bool:
        """Record nothing, until ``wake``; return whether that is possible here."""
        state = current()
        if not self.is_here(state) or state.observers != self._observers:
            return False
        self._secure()
        self.listener.training.cut.append(self.listener.backwards)
        begin_to_rest(id(self))
        if self._followed is not None:
            unfollow_to(self._followed)
        set_state(state.replaced(observers=()))
        return True

    def wake(self) -> bool:
        """Record again; return whether that is possible here."""
        state = current()
        if not self.is_here(state) or state.observers not in ((), self._observers):
            return False
        if self._followed is not None and follows() == self._followed:
            follow()
        set_state(state.replaced(observers=self._observers))
        stop_resting(id(self))
        return True

    def passed(self, many: int) -> None:
        """So ``many`` backwards have ended that were not recorded."""
        if self.listener not in current().observers:
            self.listener.rested(many)

    def failed(self, fault: Exception) -> None:
        """Remember an error of nbgrad's own, which must not reach the program, for the picture."""
        self.listener.on_fault(fault, "the pace of a loop")

    @muted
    def adds_up(self) -> bool:
        """Whether the last backward has added to the ``.grad`` of the one before, as far as one of its leaves says."""
        frame = self.listener.notes.frame
        leaves = self._living(sorted(frame.arrived) if isinstance(frame, FrameRecorder) else [])
        before = self._added.added_up
        self._added.look(next((one.grad for one in leaves.values() if one.grad is not None), None), 1)
        return self._added.added_up > before

    @muted
    def changed_by_hand(self) -> bool:
        """Whether a leaf has changed since the last backward reached it, and no optimizer holds a leaf of the graph."""
        changes = self.listener.changes
        if not any(changes.unnoted(id, raw_of(one)) for id, one in self._living(changes.seen).items()):
            return False
        find_optimizers()
        return optimized().isdisjoint(map(id, self._living(self.listener.outer).values()))

    def _living(self, ids: Iterable[int]) -> dict[int, Any]:
        """The tensors with these ids that are still there."""
        held: dict[int, Any] = {id: self.listener.outer[id].thing for id in ids if id in self.listener.outer}
        return {id: one for id, known in held.items() if known is not None and (one := known()) is not None}

    @muted
    def _secure(self) -> None:
        """Keep the gradients of the last backward, though backwards that are not recorded may change them in place."""
        frame = self.listener.notes.frame
        if isinstance(frame, FrameRecorder):
            frame.secure()
