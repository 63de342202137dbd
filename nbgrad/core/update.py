"""How far an optimizer moved the parameters, next to how large they were: the update-to-weight ratio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from nbgrad.core.frame import norms
from nbgrad.core.node import record_id

if TYPE_CHECKING:
    from nbgrad.core.tensor import Tensor

CPU = torch.device("cpu")


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
    """Measures the first step after some of the backwards.

    It copies the parameters for the time of that step, if all of a group fit into a budget. In between it costs a look
    at an attribute.

    Args:
        budget: how many bytes it may copy.

    Attributes:
        last: the last update that was measured; None if there was none.
    """

    def __init__(self, budget: int) -> None:
        self.last: Update | None = None
        self._budget = budget
        self._awaited: int | None = None  # the backward whose step is to be measured
        self._seen: set[int] = set()  # what was measured of it: there may be several groups, and optimizers
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the data that change, and a copy

    def backward_ended(self, number: int, *, measured: bool) -> None:
        """The ``number``-th backward has ended; whether the step after it is to be measured.

        If it is not, the step after an earlier one may still come: gradients are accumulated.
        """
        if measured:
            self._awaited = number
            self._seen = set()
        elif self._seen:
            self._awaited = None

    def begin(self, params: "Sequence[Tensor]") -> None:
        """An optimizer is about to change ``params``."""
        self._before = {}
        if self._awaited is None:
            return
        found = {record_id(param._origin): param.data for param in params if param._origin is not None}
        found = {id: data for id, data in found.items() if id not in self._seen}
        if sum(data.nbytes for data in found.values()) <= self._budget:
            self._before = {id: (data, data.clone()) for id, data in found.items()}
        else:  # the same will not fit after the next backward
            self._seen |= found.keys()

    def end(self) -> Update | None:
        """It has changed them: what it did, if that is measured."""
        if not self._before:
            return None
        before = {key: copy for key, (_, copy) in self._before.items()}
        weights = norms(before)
        after = [data for data, _ in self._before.values()]
        torch._foreach_sub_(list(before.values()), after)
        found = read({**norms(before), **{-id: norm for id, norm in weights.items()}})
        moved = {id: found[id] / found[-id] for id in weights if found[-id]}
        number, known = self._awaited or 0, self.last
        self.last = Update(number, {**(known.ratios if known is not None and known.number == number else {}), **moved})
        self._seen |= before.keys()
        self._before = {}
        return self.last


def read(tensors: dict[int, torch.Tensor]) -> dict[int, float]:
    """The numbers that 0-d ``tensors`` hold, with one transfer from each GPU."""
    devices = {tensor.device for tensor in tensors.values()}
    if devices <= {CPU}:
        return {key: tensor.item() for key, tensor in tensors.items()}
    found: dict[int, float] = {}
    for device in devices:
        keys = [key for key, tensor in tensors.items() if tensor.device == device]
        found.update(zip(keys, torch.stack([tensors[key] for key in keys]).tolist(), strict=True))
    return found
