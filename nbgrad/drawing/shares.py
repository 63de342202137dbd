"""The shares that the uses of an object have in its gradient. Engines only keep the sum.

A use gives what the rule of the same op in nbgrad makes of the engine's own gradient of the result. This is told only
where the uses add up to the gradient that the engine has: an engine with a wrong rule gets no gradients along edges.
"""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.broadcast import Reduction, reduction
from nbgrad.drawing.calls import calls_of, operands_of, wide
from nbgrad.drawing.ops import row_of
from nbgrad.drawing.part import NUMBERS, Part


class Use(NamedTuple):
    """One use of an object: the place of the part that used it, and the position among its operands."""

    at: int
    position: int


class UseShare(NamedTuple):
    """The share of one use in a gradient: after the sum that undid a broadcast, and before it, if there was one."""

    given: torch.Tensor
    unreduced: torch.Tensor | None


_OWN_SUMS = ("matmul", "expand")
"""Ops that broadcast, but whose rules do more than to add: a picture shows no broadcast there."""


class PartUses:
    """The uses of the parts of a graph.

    Args:
        parts: of the graph, parents first.
        values, gradients: of each part; a gradient is None where there is none.

    Attributes:
        sums: by use, the sum that undoes a broadcast, as far as shapes tell.
    """

    def __init__(self, parts: list[Part], values: list[torch.Tensor], gradients: list[torch.Tensor | None]) -> None:
        self._parts, self._values, self._gradients = parts, values, gradients
        self._places = {id(part.source): place for place, part in enumerate(parts)}
        self._of: defaultdict[int, list[Use]] = defaultdict(list)
        self.sums: dict[Use, Reduction] = {}
        self._ruled: dict[int, list[torch.Tensor | None]] = {}
        for at, part in enumerate(parts):
            for position, parent in enumerate(part.parents):
                if (place := self.place(parent)) is not None:
                    self._of[place].append(Use(at, position))
            self.sums |= {Use(at, position): undone for position, undone in self._undone(at).items()}

    def place(self, parent: object) -> int | None:
        """The place of a parent among the parts; None for a number."""
        return None if isinstance(parent, NUMBERS) else self._places[id(parent)]

    def _undone(self, at: int) -> dict[int, Reduction]:
        """The sums that undo the broadcasts of an op, by the position of the operand."""
        part, shape = self._parts[at], tuple(self._values[at].shape)
        places = [self.place(parent) for parent in part.parents]
        shapes = [None if place is None else tuple(self._values[place].shape) for place in places]
        row = row_of(part)
        if row is not None:
            stretched = set() if row.name in _OWN_SUMS else {*row.broadcasts}
        else:
            known = [one for one in shapes if one is not None]
            stretched = {*range(len(shapes))} if len(known) > 1 and _broadcast(known) == shape else set()
        found = {
            position: reduction(shape, one)
            for position, one in enumerate(shapes)
            if position in stretched and one is not None and one != shape
        }
        return {position: one for position, one in found.items() if one is not None}

    def shares(self) -> dict[Use, UseShare]:
        """The shares of the uses, where they are known."""
        found: dict[Use, UseShare] = {}
        for place, uses in self._of.items():
            whole = self._gradients[place]
            if whole is None or any(self._gradients[use.at] is None for use in uses):
                continue
            if len(uses) == 1 and uses[0] not in self.sums:
                found[uses[0]] = UseShare(whole, None)
                continue
            given = [one for use in uses if (one := self._share(use)) is not None]
            if len(given) == len(uses) and _adds_up([one.given for one in given], whole):
                found |= dict(zip(uses, given, strict=True))
        return found

    def _share(self, use: Use) -> UseShare | None:
        """The share that nbgrad's rule gives to an operand; None if there is none."""
        if use.at not in self._ruled:
            self._ruled[use.at] = self._rule(use.at)
        made = self._ruled[use.at][use.position] if self._ruled[use.at] else None
        if made is None or use not in self.sums:
            return None if made is None else UseShare(made, None)
        return UseShare(made.sum_to_size(self.sums[use].target), made)

    def _rule(self, at: int) -> list[torch.Tensor | None]:
        """The shares of the parents by nbgrad's rule, before broadcasts are undone; empty if there is no such rule."""
        part, value, came = self._parts[at], self._values[at], self._gradients[at]
        if came is None or came.shape != value.shape or not value.is_floating_point():
            return []
        given = [self._operand(Use(at, position), one) for position, one in enumerate(part.parents)]
        for call in calls_of(operands_of(part, given, wide(value))) or []:
            taken = [given[slot] for slot in call.slots]
            out = call.run(taken)
            if out is not None and out.numel() == 1 == value.numel():
                out = out.reshape(value.shape)
            if out is None or out.shape != value.shape or not _agree(out, value):
                continue  # the engine's op of this name does something else
            made = call.pull(taken, wide(came))
            found: list[torch.Tensor | None] = [None] * len(given)
            for slot, one in zip(call.slots, made or [], strict=False):
                before = found[slot]
                found[slot] = one if before is None else before + one
            return found
        return []

    def _operand(self, use: Use, parent: Any) -> torch.Tensor:
        """The numbers of a parent, repeated as the op repeats them: so the rule gives the gradient of each repeat."""
        place = self.place(parent)
        if place is None:
            return torch.tensor(parent, dtype=torch.float64)
        data = wide(self._values[place])
        return data if use not in self.sums else data.expand(self.sums[use].source)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


_NEAR = 1e-5
"""Engines compute in other orders, and some of them in float32."""


def _agree(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one.double(), other.double(), rtol=_NEAR, atol=_NEAR * 1e-3, equal_nan=True)


def _adds_up(given: list[torch.Tensor], whole: torch.Tensor) -> bool:
    """Whether these shapes are that of the gradient, and their sum is the gradient."""
    if any(one.shape != whole.shape for one in given):
        return False
    total = given[0].double()
    for one in given[1:]:
        total = total + one.double()
    return _agree(total, whole)
