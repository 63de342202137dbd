"""How far an optimizer moved the parameters, next to how large they were: the update-to-weight ratio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import torch

from nbgrad.core.node import record_id
from nbgrad.core.stats import countable, norms, read

if TYPE_CHECKING:
    from nbgrad.core.tensor import Tensor

OPTIMIZERS: "WeakSet[Any]" = WeakSet()
"""Every optimizer that exists."""


class Update(NamedTuple):
    """What the optimizers changed after a backward.

    Attributes:
        number: of the backward, from 1.
        ratios: by id of a parameter's record, the norm of the change in units of the norm of the values before it;
            parameters that were all zero, as biases may be at first, have none.
    """

    number: int
    ratios: dict[int, float]


class UpdateRecorder:
    """Measures the steps that some frames wait for: each waits for the first one that ends after it.

    It copies the parameters for the time of such a step, if all of a group fit into a budget. Every step and backward
    comes by, so it is compiled; where no frame waits they cost a look at an attribute.

    Args:
        budget: how many bytes it may copy.

    Attributes:
        last: the last update that was measured; None if there was none.
        waiting: the numbers of the backwards that wait for a step, or had theirs and no backward came since.
    """

    def __init__(self, budget: int) -> None:
        self.last: Update | None = None
        self.waiting: list[int] = []
        self._budget = budget
        self._seen: set[int] = set()  # what was measured for them: there may be several groups, and optimizers
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the data that change, and a copy

    def backward_ended(self, number: int, waits: bool) -> None:
        """The ``number``-th backward has ended; whether it is a frame that ``waits`` for a step.

        Those before it wait on where no step came in between: gradients are accumulated. In a step that evaluates, and
        is measured, all do.
        """
        if self._seen:
            self._turn()
        if waits or self._before:
            self.waiting.append(number)

    def _turn(self) -> None:
        """Those that waited have had their step."""
        self.waiting, self._seen = [], set()

    def begin(self, params: "Sequence[Tensor]", evaluates: bool) -> None:
        """An optimizer is about to change ``params``; in a step that ``evaluates``, backwards are still to come."""
        if self._before:
            self.drop()
        if evaluates and self._seen:
            self._turn()
        if self.waiting or evaluates:
            self._copy(params)

    def _copy(self, params: "Sequence[Tensor]") -> None:
        """Remember where ``params`` are, those that were not measured yet, if all of these fit into the budget."""
        found = {record_id(param.origin): param.data for param in params}
        found = {id: data for id, data in found.items() if id not in self._seen and countable(data)}
        if sum(data.nbytes for data in found.values()) <= self._budget:
            self._before = {id: (data, data.clone()) for id, data in found.items()}
        else:  # the same will not fit after the next backward
            self._seen |= found.keys()

    def drop(self) -> None:
        """Let go of the copies."""
        self._before = {}

    def end(self) -> Update | None:
        """It has changed them: what it did, if a frame waits for that."""
        if not self._before:
            return None
        before = {key: copy for key, (_, copy) in self._before.items()}
        after = [data for data, _ in self._before.values()]
        self.drop()
        if not self.waiting:
            return None
        weights = norms(before)
        torch._foreach_sub_(list(before.values()), after)
        found = read({**norms(before), **{-id: norm for id, norm in weights.items()}})
        moved = {id: found[id] / found[-id] for id in weights if found[-id]}
        number, known = self.waiting[-1], self.last
        self.last = Update(number, {**(known.ratios if known is not None and known.number == number else {}), **moved})
        self._seen |= before.keys()
        return self.last
