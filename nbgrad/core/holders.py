"""The optimizers that hold what a backward reached: which took a step, which were forgotten, and how far they go."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch

from nbgrad.core.contents import memory_of
from nbgrad.core.tensor import Tensor
from nbgrad.core.update import OPTIMIZERS

LOOP = 3
"""So many rounds are a loop; with fewer of them one may show that a gradient comes again."""


class Holders:
    """The optimizers that exist now.

    Args:
        learning: the leaves that the last backward reached, by id.
        changed: where the memory of tensors is that were changed in place, and after how many backwards.
        idle: after how many backwards a step found no gradient, by the id as an object of the optimizer's first
            parameter.
    """

    def __init__(self, learning: Mapping[int, Tensor], changed: dict[int, int], idle: dict[int, int]) -> None:
        self._learning = learning
        self._reached = {id(one) for one in learning.values()}
        self._held = [(one, {id(param): param for param in one._all_params()}) for one in OPTIMIZERS]
        self._at_work = [params for _, params in self._held if not self._reached.isdisjoint(params)]
        self._changed = changed
        self._idle = idle

    @cached_property
    def _steps(self) -> list[int]:
        """After how many backwards each of them stepped last."""
        return [_last_step(list(params.values()), self._changed, self._idle) for _, params in self._held]

    def hold(self, tensor: Tensor) -> bool:
        """Whether one of them holds ``tensor``."""
        return any(id(tensor) in params for _, params in self._held)

    def stepped(self, tensor: Tensor) -> int:
        """After how many backwards one of those that hold ``tensor`` stepped last; 0 for never."""
        held = zip(self._held, self._steps, strict=True)
        return max([step for (_, params), step in held if id(tensor) in params], default=0)

    def others(self, tensor: Tensor) -> bool:
        """Whether one that does not hold ``tensor`` holds what the last backward reached."""
        return any(id(tensor) not in params for params in self._at_work)

    def forgotten(self) -> Iterator[tuple[Any, list[int]]]:
        """Those that clear gradients in a loop and have taken no step, each with the ids of what waits for one.

        Nor has anything else changed a parameter of theirs, seen or not. Of a class with a step of the user's nobody
        knows.
        """
        for one, params in self._held:
            if one.cleared < LOOP or not type(one).step.__module__.startswith("nbgrad."):
                continue
            data = [param._data for param in params.values()]
            unseen = one.versions != [each._version for each in data]
            if unseen or any(memory_of(each) in self._changed for each in data):
                continue
            waiting = [seq for seq, tensor in self._learning.items() if id(tensor) in params]
            if waiting:
                yield one, waiting

    def rate(self) -> tuple[str, float] | None:
        """The largest learning rate of what the last backward reached, and the class of the optimizer that has it.

        None where none is known, or a schedule has set one that may have been another before.
        """
        groups = [(type(one).__name__, group) for one, _ in self._held for group in one.param_groups]
        holding = [(name, group) for name, group in groups if not self._reached.isdisjoint(map(id, group["params"]))]
        rates = [(name, group.get("lr")) for name, group in holding]
        if not all(isinstance(rate, int | float | torch.Tensor) for _, rate in rates):
            return None  # that of an optimizer of the user's may have another name, or none yet
        if not rates or any(group["lr"] != group.get("initial_lr", group["lr"]) for _, group in holding):
            return None
        return max([(name, float(rate)) for name, rate in rates], key=lambda one: one[1])


def optimized() -> set[int]:
    """The ids, as of objects, of the parameters that some optimizer holds."""
    return {id(param) for optimizer in OPTIMIZERS for param in optimizer._all_params()}


def _last_step(params: list[Tensor], changed: dict[int, int], idle: dict[int, int]) -> int:
    """After how many backwards an optimizer that holds ``params`` stepped last."""
    known = [changed.get(memory_of(one.data), 0) for one in params]
    return max([*known, *[idle.get(id(one), 0) for one in params[:1]]], default=0)
