"""The storages that the ops of a graph keep for a backward, as read when one began: numbers, and no tensor.

A backward frees what its nodes keep, so they are read right before it. In a loop that is done for some backwards: a
later one with the same ops keeps the same.
"""

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.kept import Owned, Reading, storages_of
from nbgrad.core.engine.node import raw_of
from nbgrad.core.graph.record import Record

_SHARE = 300
"""After a reading, this many times the time that it took has to pass before the next: it is a third of a percent."""

_FORMS = 8
"""So many forms of backwards are read at once, and kept: a loop may have several, as that of a GAN, or a smaller last
batch."""

Form = tuple[Any, ...]
"""A form tells backwards apart without a look at their ops: those of the same form may keep the same."""

Ran = tuple[int, str, tuple[int, ...], torch.dtype]
"""The id, the name, the shape and the dtype of an op that ran."""


class Storage(NamedTuple):
    """A storage that a backward needs.

    Attributes:
        size: its bytes.
        maker: the id of the op that made it; None for one that the program gave to an op, as a batch or a buffer.
        keepers: the ids of the ops that keep it, in the order in which they ran.
        aside: whether only attributes of ``ctx`` hold it, which no hook of ``saved_tensors_hooks`` sees.
    """

    size: int
    maker: int | None
    keepers: tuple[int, ...]
    aside: bool = False


class KeptValue(NamedTuple):
    """A value that an op keeps.

    Attributes:
        name: its name.
        storage: the number of its storage; None for that of a parameter, which exists without a backward.
    """

    name: str
    storage: int | None


class KeptStorages(NamedTuple):
    """The storages that the ops keep which a backward reaches.

    Attributes:
        number: the number of that backward, from 1; 0 if none has begun.
        ops: the ops, in the order in which they ran.
        storages: the storages, each once, in the order in which they were made.
        values: by id of an op, the values that it keeps.
        owned: the parameters and other leaves, by storage.
        hidden: the ids of ops that may keep more: torch does not show what.
        allocated: the bytes that torch's allocator had given to tensors on a GPU; None if no op ran on one.
    """

    number: int
    ops: list[Ran]
    storages: list[Storage]
    values: dict[int, list[KeptValue]]
    owned: list[Owned]
    hidden: frozenset[int]
    allocated: int | None

    def renamed(self, ids: Mapping[int, int]) -> "KeptStorages":
        """The same for other ``ids`` of the ops."""

        def name(id: int) -> int:
            return ids.get(id, id)

        return KeptStorages(
            self.number,
            [(name(id), *rest) for id, *rest in self.ops],  # type: ignore[misc]  # the rest of a tuple
            [
                one._replace(
                    maker=None if one.maker is None else name(one.maker), keepers=tuple(map(name, one.keepers))
                )
                for one in self.storages
            ],
            {name(id): values for id, values in self.values.items()},
            self.owned,
            frozenset(map(name, self.hidden)),
            self.allocated,
        )


def taken(reading: Reading, number: int, ops: Mapping[int, Any], reached: Iterable[int], given: Any) -> KeptStorages:
    """The facts of ``reading`` without the storages themselves.

    Args:
        reading: what the nodes keep.
        number: of the backward that begins; 0 if none does.
        ops: the facts of the ops, by id.
        reached: the ids of those that it reaches.
        given: the tensors that no op made.
    """
    ran = [(id, ops[id].op.name, tuple(ops[id].shape), ops[id].dtype) for id in sorted(reached) if id in ops]
    known = {id for id, *_ in ran}
    outer = {storage for one in given for storage, _ in storages_of(raw_of(one))}
    keepers: dict[int, set[int]] = {}
    makers: dict[int, int] = {}
    sizes: dict[int, int] = {}
    packable: set[int] = set()
    for one in reading.kept:
        if one.storage in reading.owned:
            continue
        sizes[one.storage] = one.size
        keepers.setdefault(one.storage, set()).add(one.op)
        if not one.aside:
            packable.add(one.storage)
        maker = 0 if one.storage in outer else one.maker
        if maker:
            makers[one.storage] = min(maker, makers.get(one.storage, maker))
    made = {key: makers[key] if makers.get(key) in known else None for key in sizes}
    order = sorted(sizes, key=lambda key: (made[key] or 0, min(keepers[key])))
    places = {key: at for at, key in enumerate(order)}
    values: dict[int, list[KeptValue]] = {}
    for one in reading.kept:
        value, own = KeptValue(one.name, places.get(one.storage)), values.setdefault(one.op, [])
        if value not in own:
            own.append(value)
    storages = [Storage(sizes[key], made[key], tuple(sorted(keepers[key])), key not in packable) for key in order]
    device = next((ops[id].device for id, *_ in ran if ops[id].device.type == "cuda"), None)
    allocated = None if device is None else torch.cuda.memory_allocated(device)
    owned = list(reading.owned.values())
    return KeptStorages(number, ran, storages, values, owned, frozenset(reading.hidden), allocated)


class KeptRecorder:
    """Keeps what was read at some backwards of a graph."""

    def __init__(self) -> None:
        self._known: dict[Form, KeptStorages] = {}
        self._form: Form = ()
        self._began = self._again = 0.0

    def wants(self, since: int, roots: Iterable[int], facts: tuple[Mapping[int, Any], Mapping[int, Any]]) -> bool:
        """Whether to read what the nodes keep for the backward that begins now.

        Args:
            since: the number of ops and tensors since the last backward.
            roots: the ids of the ops from which it starts.
            facts: the facts of the ops, and those of the other tensors, by id.
        """
        ops, outer = facts
        found: list[Any] = [since]
        for root in roots:  # plain loops: each backward of a fast training asks
            ran = ops.get(root)
            for source in () if ran is None else ran.sources:
                if type(source) is int:
                    one = ops.get(source) or outer.get(source)
                    if one is not None:
                        found.append(one.shape)
        form, now = tuple(found), perf_counter()
        if now < self._again and (form in self._known or len(self._known) >= _FORMS):
            return False
        self._form, self._began = form, now
        return True

    def take(self, kept: KeptStorages) -> None:
        """Keep what was read."""
        self._known.pop(self._form, None)
        while len(self._known) >= _FORMS:
            del self._known[next(iter(self._known))]
        self._known[self._form] = kept
        now = perf_counter()
        self._again = now + _SHARE * (now - self._began)

    def of(self, number: int, records: list[Record]) -> KeptStorages | None:
        """The storages that these ops keep for the backward ``number``; None if nothing alike was read."""
        for kept in self._known.values():
            if kept.number == number:
                return kept
        ran = [ran_of(record) for record in records if record.kind == "op"]
        for kept in reversed(self._known.values()):
            if [one[1:] for one in kept.ops] == [one[1:] for one in ran]:
                return kept.renamed({before[0]: now[0] for before, now in zip(kept.ops, ran, strict=True)})
        return None


def ran_of(record: Record) -> Ran:
    """The facts of the op of ``record``."""
    return record.id, record.kind_or_op, tuple(record.shape), record.dtype
