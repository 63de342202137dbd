"""In-place changes: what changed which data, and which leaves changed since the last backward.

An error of a backward that needs the old numbers names the change. A picture shows the changed leaves: an optimizer's
step follows most backwards, and a ``.grad`` that was not cleared is a sum of several. Every optimizer step runs this
code, so it is compiled.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isclose, isnan
from typing import Any, NamedTuple
from weakref import ref

import torch

from nbgrad.core.engine.node import next_seq, raw_of
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.graph.last_backward import some_numbers
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.stats import SMALL, Stats, data_of, norms, read, summarise
from nbgrad.core.translation import translate

Change = tuple[str, Place, int, int]
"""An in-place change: its name, its place, how many backwards had ended by then, and its sequence number."""

Told = tuple[str, Place]
"""The name of a change, and its place."""


class Changes:
    """The last in-place change of each tensor that was changed while a graph was open. It keeps no tensor alive.

    Attributes:
        backwards: how many have ended.
        seen: by id of each leaf that the last one reached, torch's version of it then, and some of its numbers.
    """

    __slots__ = ("_alone", "_several", "backwards", "seen")

    def __init__(self) -> None:
        self._several: dict[int, tuple[list[ref[Any]], Change]] = {}
        self._alone: dict[int, tuple[int, Change]] = {}
        self.backwards = 0
        self.seen: dict[int, tuple[int, bytes | None]] = {}

    def note(self, changed: Sequence[Any], what: str, place: Place) -> None:
        """``what`` has just changed each of ``changed`` in place: data, or the parameters of an optimizer's step.

        For several tensors it must be quick, because every optimizer step calls it. So their addresses are read only
        when they are needed. Their versions are not noted at all: an op that saved them before this change has lost
        its values, whatever else changes them later.
        """
        data = [raw_of(one) for one in changed]  # ops saved these data, and a parameter may get other data later
        if not data:
            return
        if len(self) >= _MOST:
            self._several.clear()
            self._alone.clear()
        change = (what, place, self.backwards, next_seq())
        if len(data) == 1:
            self._alone[memory_of(data[0])] = (data[0]._version, change)
            return
        key = id(data[0]) + id(data[-1]) + len(data)
        held = self._held(key)
        while held is not None and not _same(held, data):
            if _gone(held):  # one of its tensors is gone, and another has the id
                held = None
            else:  # another list with the same ends, as when two heads are trained in turn with one body
                key += 1
                held = self._held(key)
        self._several[key] = (held or [ref(one) for one in data], change)

    def __len__(self) -> int:
        return len(self._several) + len(self._alone)

    def _held(self, key: int) -> list[ref[Any]] | None:
        known = self._several.get(key)
        return None if known is None else known[0]

    def find(self, data: Any, seq: int) -> str | None:
        """The change of ``data``, or of a tensor that shares its memory, since the op ``seq`` ran; None if unknown."""
        found = self.at(data, seq)
        return None if found is None else f"{found[0]} at {found[1]}"

    def at(self, data: Any, seq: int) -> Told | None:
        """The same change, with its place apart."""
        found = self._found(data)
        return None if found is None or found[3] < seq else found[:2]

    def memories(self) -> dict[int, int]:
        """The addresses of the memory of every tensor that was changed after a backward.

        A change before the first backward, such as an initialisation, is no learning.

        Returns:
            By address, how many backwards had ended at the last change.
        """
        found = {memory: change[2] for memory, (_, change) in self._alone.copy().items() if change[2]}
        for held, change in self._several.copy().values():
            for tensor in [tensor for one in held if (tensor := one()) is not None] if change[2] else ():
                memory = memory_of(tensor)
                found[memory] = max(change[2], found.get(memory, 0))
        return found

    def steps(self, seq: int) -> list[tuple[str, Place, set[int]]]:
        """The optimizers' steps since the op ``seq`` ran: name, line, and the addresses of the memory they changed."""
        alone = [(change, {memory}) for memory, (_, change) in self._alone.copy().items()]
        several = [
            (change, {memory_of(raw_of(tensor)) for one in held if (tensor := one()) is not None})
            for held, change in self._several.copy().values()
        ]
        found = [(change, memories) for change, memories in (*alone, *several) if change[3] > seq]
        found.sort(key=lambda one: one[0][3])
        return [(what, place, memories) for (what, place, *_), memories in found if what.endswith(".step()")]

    def since_backward(self, data: Any, several: "Mapping[tuple[int, int], Change] | None" = None) -> Told | None:
        """The last change and its place, if no backward has ended since.

        Args:
            data: the numbers of a tensor.
            several: the answer of ``several``, to ask for many tensors.
        """
        found = self._found(data, several)
        return None if found is None or found[2] < self.backwards else found[:2]

    def unnoted(self, id: int, data: Any) -> bool:
        """Whether the ``data`` of the leaf ``id`` have changed since the last backward reached it, whoever did that.

        Torch's code under ``no_grad`` counts the version up. That on ``.data`` does not, but the numbers are others.
        """
        version, numbers = self.seen.get(id, (None, None))
        if version is None or data._version != version:
            return version is not None
        return numbers is not None and some_numbers(data) != numbers

    def several(self) -> dict[tuple[int, int], Change]:
        """The last change of each tensor that was changed together with others, by its memory and its version now.

        To ask for one tensor takes a look at all of them. So a caller that asks for thousands makes this first.
        """
        found: dict[tuple[int, int], Change] = {}
        for held, change in sorted(self._several.copy().values(), key=lambda one: _number(one[1])):
            for tensor in [tensor for one in held if (tensor := one()) is not None]:
                found[memory_of(tensor), tensor._version] = change
        return found

    def _found(self, data: Any, known: "Mapping[tuple[int, int], Change] | None" = None) -> "Change | None":
        """The last observed change of ``data``.

        A change that changed only this tensor (``_alone``) counts only if no unobserved change followed.
        """
        memory = memory_of(data)
        alone = self._alone.get(memory)
        if alone is not None and alone[0] == data._version:
            return alone[1]
        if known is not None:
            return known.get((memory, data._version))
        several = [change for held, change in self._several.copy().values() if _holds(held, memory, data._version)]
        return max(several, key=_number, default=None)


def _number(change: Change) -> int:
    return change[3]


def _holds(held: list[ref[Any]], memory: int, version: int) -> bool:
    """Whether one of these lies in that ``memory`` and has that ``version``.

    A tensor in that memory may have a version counter of its own, and then another version.
    """
    tensors = [tensor for one in held if (tensor := one()) is not None]
    return any(data._version == version and memory_of(data) == memory for data in tensors)


def _same(held: list[ref[Any]], data: list[Any]) -> bool:
    """Whether these are references to just those tensors."""
    if len(held) != len(data):
        return False
    for at in range(len(data)):  # noqa: SIM110  # compiled, a generator costs more than the loop
        if held[at]() is not data[at]:
            return False
    return True


def _gone(held: list[ref[Any]]) -> bool:
    """Whether one of these does not exist any more."""
    return any(one() is None for one in held)


_MOST = 4096
"""The number of changes that are remembered. In a program with more changes a message may name none."""


_ALIKE = 1e-4
"""Two norms whose relative difference is at most this belong to one gradient, summed in another order."""


class Since(NamedTuple):
    """The change of a leaf.

    Attributes:
        what: an optimizer's step or another change of its values in place; None if it was not changed.
        place: the line of that, in words; None for a change that only its result tells.
        grad: its ``.grad``, if that is not the gradient of the last backward: the sum of several, or clipped.
        later: its ``.grad``, if it comes from later backwards, which were not recorded.
    """

    what: str | None
    place: str | None
    grad: Stats | None
    later: Stats | None = None

    @property
    def stepped(self) -> bool:
        """Whether an optimizer's step has changed its values."""
        return self.what is not None and self.what.endswith(".step()")


def since(
    leaves: "Iterable[tuple[int, ref[Any] | None, Stats | None]]", changes: Changes, later: bool = False
) -> dict[int, Since]:
    """The changes of those ``leaves`` that have changed, by id.

    Args:
        leaves: the id of each, the tensor, and the gradient that the last backward brought it.
        changes: the in-place changes.
        later: whether backwards followed that were not recorded.
    """
    there = [
        (id, tensor, gradient) for id, held, gradient in leaves if held is not None and (tensor := held()) is not None
    ]
    # A tensor without a gradient may be no leaf any more, like a buffer into which values with a history were written.
    grads = {id: tensor.grad for id, tensor, gradient in there if gradient is not None}
    held = {id: data for id, grad in grads.items() if grad is not None and (data := data_of(grad)) is not None}
    sizes = read(norms(held))
    found: dict[int, Since] = {}
    several = changes.several() if len(there) > 1 else None
    for id, tensor, gradient in there:
        data = raw_of(tensor)
        change = changes.since_backward(data, several)
        what, place = (None, None) if change is None else (change[0], place_text(change[1]))
        if what is None and changes.unnoted(id, data):
            what = translate("later steps") if later else translate("a change in place")
        grad = _other(held.get(id), sizes.get(id, 0.0), gradient)
        if what is not None or grad is not None:
            found[id] = Since(what, place, *((None, grad) if later else (grad, None)))
    return found


def _other(grad: torch.Tensor | None, norm: float, gradient: Stats | None) -> Stats | None:
    """The statistics of a ``.grad`` whose ``norm`` is not that of ``gradient``."""
    if grad is None or gradient is None:
        return None
    if isclose(norm, gradient.norm, rel_tol=_ALIKE) or (isnan(norm) and isnan(gradient.norm)):
        return None
    return summarise(grad) if grad.numel() <= SMALL else Stats(tuple(grad.shape), norm)
