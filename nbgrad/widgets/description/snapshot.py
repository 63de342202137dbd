"""The facts of a graph's records at one moment, each read once. A description is made of these alone."""

from typing import Any, NamedTuple, Self

import torch

from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.changes import Since
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.graph.stats import Stats


class Fact(NamedTuple):
    """A record as it was: what happens to its tensor, its graph or its name later changes nothing here.

    It holds no tensor and no part of the graph. The attributes are those of ``Record``.
    """

    id: int
    kind: str
    name: str | None
    op: OpInfo | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    settings: dict[str, Any]
    scope: Scope | None
    place: Place | None
    root: bool
    value: Stats | None
    gradient: Stats | None
    inputs: tuple[Input, ...]
    since: Since | None

    @property
    def kind_or_op(self) -> str:
        """The name of the op that made it; what kind of tensor it is, where no op did."""
        return self.kind if self.op is None else self.op.name

    @property
    def several(self) -> bool:
        """Whether its op has several results with gradients of their own, which go by this one record.

        The name and the value are those of the first, the gradient is the norm of all of theirs together.
        """
        return self.op is not None and self.op.several

    @property
    def what(self) -> str:
        """The same, with the user's name of it."""
        return f"{self.kind_or_op} ({self.name})" if self.name else self.kind_or_op

    @property
    def run(self) -> str:
        """The same, with the user's line that ran it."""
        return self.kind_or_op if self.place is None else f"{self.kind_or_op} at {self.place}"

    @property
    def file(self) -> str | None:
        """The file of the user's line that ran it."""
        return None if self.place is None else self.place.file

    @property
    def line(self) -> int | None:
        """The number of that line, from 1."""
        return None if self.place is None else self.place.line

    @classmethod
    def of(cls, record: Record, since: Since | None = None) -> Self:
        """What ``record`` says now, and what became of it ``since`` the last backward."""
        return cls(
            record.id,
            record.kind,
            None if record.name is None else str(record.name),  # nobody asks what the user gives for a name
            record.op,
            tuple(record.shape),
            record.dtype,
            record.device,
            record.settings,
            record.scope,
            record.place,
            record.root,
            record.value,
            record.gradient,
            record.inputs,
            since,
        )


def made_inside(facts: list[Fact]) -> dict[int, Scope]:
    """Where constants without a name are drawn that a module call makes on its way, as the mask of a dropout.

    That is the innermost call around all that read one, of those where an op had run before: what the first op of a
    call reads may have been given to it.
    """
    loose = {fact.id for fact in facts if fact.kind == "constant" and fact.name is None and fact.scope is None}
    around: dict[Scope | None, list[Scope]] = {}
    begun: set[Scope] = set()
    homes: dict[int, list[Scope]] = {}
    for fact in facts if loose else ():
        if fact.scope not in around:
            around[fact.scope] = list(outwards(fact.scope))
        for source in [taken.source for taken in fact.inputs if taken.source in loose]:
            homes[source] = [one for one in around[fact.scope] if one in homes.get(source, begun)]
        if fact.op is not None:
            begun.update(around[fact.scope])
    return {id: known[0] for id, known in homes.items() if known}
