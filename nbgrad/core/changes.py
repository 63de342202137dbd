"""Who changed which data in place: what the message of a backward says that needs them as they were.

An optimizer's every step comes by, so it is compiled.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

from nbgrad.core.caller import Place
from nbgrad.core.contents import memory_of

Change = tuple[str, Place, int]
"""What it was, where, and how many backwards had ended by then."""


class Changes:
    """The last in-place change of each tensor that was changed while somebody watched; it keeps no tensor alive.

    Attributes:
        backwards: how many have ended.
    """

    __slots__ = ("_alone", "_last", "backwards")

    def __init__(self) -> None:
        self._last: dict[int, tuple[list[ref[Any]], list[int], Change]] = {}
        self._alone: dict[int, tuple[int, Change]] = {}
        self.backwards = 0

    def note(self, changed: Sequence[Any], what: str, place: Place) -> None:
        """``what`` has just changed each of ``changed``: one tensor, or all that an optimizer takes a step with."""
        if len(self._last) + len(self._alone) >= _MOST:
            self._last.clear()
            self._alone.clear()
        if len(changed) == 1:
            self._alone[memory_of(changed[0])] = (changed[0]._version, (what, place, self.backwards))
        elif changed:
            # Where their memory is, is asked when somebody needs to know: a step of an optimizer is to be quick.
            key = id(changed[0]) + id(changed[-1]) + len(changed)  # of heads that take turns one body is the first
            known = self._last.get(key)
            held = known[0] if known is not None and _same(known[0], changed) else [ref(data) for data in changed]
            self._last[key] = (held, [data._version for data in changed], (what, place, self.backwards))

    def find(self, data: Any) -> str | None:
        """What brought ``data``, or what shares its memory, to the version it has; None if that happened unseen."""
        found = self._found(data)
        return None if found is None else f"{found[0]} at {found[1]}"

    def memories(self) -> dict[int, int]:
        """Where the memory of every tensor is that is known to have been changed since a backward, whatever it was.

        What came before the first one, as an initialisation, is no learning.

        Returns:
            For each how many backwards had ended when it was changed last.
        """
        found = {memory: change[2] for memory, (_, change) in self._alone.items() if change[2]}
        for held, _, change in self._last.values():
            for tensor in [tensor for one in held if (tensor := one()) is not None] if change[2] else ():
                memory = memory_of(tensor)
                found[memory] = max(change[2], found.get(memory, 0))
        return found

    def since_backward(self, data: Any) -> tuple[str, Place] | None:
        """The same and where, if no backward has ended since."""
        found = self._found(data)
        return None if found is None or found[2] < self.backwards else found[:2]

    def _found(self, data: Any) -> "Change | None":
        memory = memory_of(data)
        alone = self._alone.get(memory)
        if alone is not None and alone[0] == data._version:
            return alone[1]
        for changed, versions, change in reversed(self._last.values()):
            for held, version in zip(changed, versions, strict=True):
                tensor = held() if version == data._version else None
                if tensor is not None and memory_of(tensor) == memory:
                    return change
        return None


def _same(held: list[ref[Any]], changed: Sequence[Any]) -> bool:
    """Whether these are references to just those tensors."""
    if len(held) != len(changed):
        return False
    for at, data in enumerate(changed):  # noqa: SIM110  # compiled, a generator costs more than the loop
        if held[at]() is not data:
            return False
    return True


_MOST = 4096
"""How many changes are remembered: of a longer program the message may name none."""
