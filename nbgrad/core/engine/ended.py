"""The last backwards that graphs have seen: an error of a later backward names the one that freed its values.

They are kept for the process, because the backward that fails may be in a later cell, with another graph.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from threading import get_ident

from nbgrad.core.engine.node import next_seq
from nbgrad.core.engine.place import Place

_MOST = 16
"""The number of backwards that are remembered."""

_IDS = 1 << 16
"""Besides the last one, backwards that have reached more ops and leaves than this, all together, are forgotten."""


class Ended:
    """A backward that has ended.

    Attributes:
        number, graph: which backward of which graph it was, counted from 1.
        place: the line that called it.
        reached: the ids of the ops and leaves that it reached.
        seq: the sequence number when it ended.
        retained: whether it has kept the values that ops had saved; None if nothing has told yet.
        thread: the id of the thread that ran it.
    """

    def __init__(self, number: int, graph: str, place: Place, reached: Sequence[int]) -> None:
        self.number, self.graph, self.place, self.reached = number, graph, place, reached
        self.seq = next_seq()
        self.retained: bool | None = None
        self.thread = get_ident()

    @cached_property
    def ids(self) -> frozenset[int]:
        """The same ids as ``reached``, to look for some of them."""
        return frozenset(self.reached)

    def __str__(self) -> str:
        return f"backward {self.number} of {self.graph!r} ({self.place})"


_ended: deque[Ended] = deque(maxlen=_MOST)


def _latest() -> deque[Ended]:
    """Those that are remembered, in a copy: other threads add theirs meanwhile."""
    return _ended.copy()


def note(number: int, graph: str, place: Place, reached: Sequence[int]) -> None:
    """Remember a backward that has just ended."""
    _ended.append(Ended(number, graph, place, reached))
    size = 0
    for at, one in enumerate(reversed(_latest())):
        size += len(one.reached)
        if at and size > _IDS:
            with suppress(IndexError):  # another thread may have forgotten them
                while len(_ended) > at:
                    _ended.popleft()
            return


def note_retained(retained: bool) -> None:
    """Remember whether this thread's last backward kept the saved values. Several graphs may have seen it."""
    thread = get_ident()
    for one in reversed(_latest()):
        if one.thread == thread:
            if one.retained is not None:
                return
            one.retained = retained


def first_to_reach(seq: int) -> Ended | None:
    """The first remembered backward that reached the op ``seq``; None if none did."""
    return next((one for one in _latest() if seq in one.ids), None)


def freeing(seq: int) -> Ended | None:
    """The remembered backward that freed what the op ``seq`` had saved; None if that is not known."""
    return next((one for one in _latest() if not one.retained and seq in one.ids), None)
