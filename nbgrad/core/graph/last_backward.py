"""The last backward of a graph: the gradients that arrived, and the reductions made."""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from struct import Struct
from typing import Any

import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.tensor_data import without_numbers
from nbgrad.core.engine.torch_reads import SAMPLE as SAMPLE_SIZE, numbers_of as memory_of, sample_of
from nbgrad.core.graph.stats import (
    SAMPLE,
    SMALL,
    Norm,
    Stats,
    countable,
    held_by,
    norms,
    numbers_of,
    summarise,
    summarise_all,
)

VALUES = 2 << 20
"""The bytes of values of results that a graph keeps."""

AT_HAND = 32 << 20
"""The bytes of gradients of results that the first backward of a graph keeps for later, if they are on the CPU.

The statistics of more large ones are taken as they arrive. A cell of one step takes them once, so it needs less memory
and no more time; a loop would take them in every step, but only those of its last backward are read.
"""

_SMALL_BYTES = 8 * SMALL
_LEAST = 2 * SAMPLE  # the bytes of the smallest tensors of more numbers, those of half precision

_STRIDED = torch.strided

_FIRSTS = 1 << 15
"""Of so many values that have no room any more the first numbers stay: they take at most 10 megabytes in float32."""

OBJECT = 640
"""The bytes that a tensor takes besides its elements, as they were measured."""

_STACKED = 1024
"""The number of norms on a GPU that are put into one vector."""

_RECORD = Struct("<qqiiid")
"""The data kept with a norm: the id, the receiver, the position, the number of the shape, the number of the vector that
the norm is in, and its place there; or ``_HERE`` and the norm itself."""

_HERE = -1

GRADIENT = -1
"""The position of no input: it stands for the gradient of the result of an op, or of a leaf."""

UNREDUCED = -2
"""``UNREDUCED`` minus the position of an input stands for the gradient of that input before a sum."""

_GRADIENT, _UNREDUCED, _OBJECT = (
    GRADIENT,
    UNREDUCED,
    OBJECT,
)  # these copies are compiled to numbers of C's, which Python cannot see


_FORMS = {torch.float32: Struct("f"), torch.float64: Struct("d")}
"""How one number of a type lies in memory."""


class SmallValue:
    """A copy of the numbers of a small tensor, one after another. To copy it as a tensor takes three times as long."""

    __slots__ = ("dtype", "memory", "shape")

    memory: bytes
    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """A tensor with these numbers."""
        return torch.frombuffer(bytearray(self.memory), dtype=self.dtype).reshape(self.shape)


def _taken(held: Any) -> int:
    """The bytes that ``held`` takes: a ``SmallValue``, or a tuple of a tensor, its version and these bytes."""
    if type(held) is SmallValue:
        numbers: SmallValue = held
        return len(numbers.memory) + _OBJECT
    size: int = held[2]
    return size


def _first_numbers(held: Any) -> bytes | None:
    """The first numbers of what is kept as a value: of few, all; None where they are not floats on the CPU."""
    if type(held) is SmallValue:
        numbers: SmallValue = held
        return numbers.memory[: SAMPLE_SIZE * numbers.dtype.itemsize]
    data = _unchanged(*held[:2])
    return None if data is None else some_numbers(data)


def some_numbers(data: torch.Tensor) -> bytes | None:
    """The first numbers of a small tensor, or a sample of a larger one; None where they are not floats on the CPU."""
    first = memory_of(data)
    return sample_of(data) if first is None else first[: SAMPLE_SIZE * data.dtype.itemsize]


class Values:
    """The values of small results, to show them: the newest ones, within a fixed number of bytes.

    A window into larger memory is copied, so that two megabytes is all that they keep alive. Of values that have no
    room any more the first numbers stay.
    """

    __slots__ = ("_firsts", "_held", "_room")

    def __init__(self) -> None:
        self._firsts: dict[int, bytes] = {}
        self._held: dict[int, Any] = {}  # a tensor, torch's version of it then and its bytes; or ``SmallValue``
        self._room = VALUES

    def __len__(self) -> int:
        return len(self._held)

    def add(self, id: int, data: torch.Tensor) -> None:
        """Keep ``data``, a small tensor (``few``), as the values of ``id``."""
        if data.layout is not _STRIDED:
            return
        size = data.nbytes
        if held_by(data, size) > 2 * size + _OBJECT:
            data = data.clone()
        self._add(id, (data, data._version, size + _OBJECT), size + _OBJECT)

    def copy(self, id: int, memory: bytes, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Keep the numbers in ``memory`` as the values of ``id``, which were a tensor of ``shape`` and ``dtype``."""
        made = SmallValue.__new__(SmallValue)
        made.memory, made.shape, made.dtype = memory, shape, dtype
        self._add(id, made, len(memory) + _OBJECT)

    def _add(self, id: int, held: Any, size: int) -> None:
        self._room -= size  # first: after an interrupt in between there seems to be less room, never more
        self._held[id] = held
        if self._room < 0:
            held = list(self._held.items())
            newest = held[len(held) // 2 :]
            firsts = {id: first for id, one in held[: len(held) // 2] if (first := _first_numbers(one)) is not None}
            firsts = dict([*self._firsts.items(), *firsts.items()][-_FIRSTS:])
            self.keep({id for id, _ in newest})
            self._firsts = firsts

    def firsts(self, id: int) -> bytes | None:
        """The first 64 numbers of a value of ``id`` that has no room any more, in its element type."""
        return self._firsts.get(id)

    def keep(self, ids: Container[int]) -> None:
        """Drop the values of all records but ``ids``."""
        kept, room = {}, VALUES
        for id, held in self._held.items():
            if id in ids:
                kept[id] = held
                room -= _taken(held)
        self._held = kept
        self._room = room
        self._firsts = {id: first for id, first in self._firsts.items() if id in ids}

    def is_finite(self, id: int) -> bool:
        """Whether the value of ``id`` is finite; also true if it is not known, is not one number, or is on a GPU."""
        held = self._held.get(id)
        if type(held) is SmallValue:
            numbers: SmallValue = held
            form = _FORMS.get(numbers.dtype)
            return form is None or len(numbers.memory) != form.size or math.isfinite(form.unpack(numbers.memory)[0])
        data = None if held is None else _unchanged(*held[:2])
        if data is None or data.numel() != 1 or not data.is_floating_point() or data.device.type != "cpu":
            return True
        return math.isfinite(data.item())

    def raw(self, id: int) -> torch.Tensor | None:
        """The values of ``id``; None if they are not kept or were changed in place since."""
        held = self._held.get(id, (None, 0, 0))
        return held.tensor() if type(held) is SmallValue else _unchanged(*held[:2])


class Lengths:
    """The norms of the gradients whose tensors are not kept, packed: there may be a million of them.

    Everything that is known of a norm is added in one step, which no interrupt divides. Of large gradients all
    statistics may be known.
    """

    __slots__ = ("_far", "_found", "_next", "_numbers", "_records", "_shapes", "_stats", "_waiting")

    def __init__(self) -> None:
        self._records = bytearray()  # of ``_RECORD``, one after the other
        self._waiting: list[tuple[int, int, int, int, torch.Tensor]] = []  # norms on GPUs, each with its record
        self._far: dict[int, torch.Tensor] = {}  # vectors of those, by number
        self._shapes: dict[int, tuple[int, ...]] = {}  # by number
        self._numbers: dict[tuple[int, ...], int] = {}  # of the shapes
        self._next = count().__next__
        self._found: dict[Any, int] | None = None
        self._stats: dict[int, Stats] = {}  # by the place of the record of the norm

    def add(
        self,
        id: int,
        position: int,
        receiver: int,
        shape: tuple[int, ...],
        norm: Norm,
        stats: Stats | None = None,
    ) -> None:
        """Remember ``norm``, and all ``stats`` if they are known; the other arguments are those of ``Kept.keep``."""
        self._found = None
        number = self._numbers.get(shape)
        if number is None:
            number = self._next()
            self._shapes[number] = one = tuple(shape)
            self._numbers[one] = number
        if not isinstance(norm, torch.Tensor):
            if stats is not None:  # first: statistics without a record are never read
                self._stats[len(self._records)] = stats
            self._records.extend(_RECORD.pack(id, receiver, position, number, _HERE, norm))
            return
        self._waiting.append((id, receiver, position, number, norm))
        if len(self._waiting) >= _STACKED:
            self._stack()

    def _stack(self) -> None:
        """Make vectors of the norms on GPUs: a tensor for each norm would take more memory than a small gradient.

        The norms stay in ``_waiting`` until their records are written. If an interrupt comes in between, the next call
        makes the same vectors again.
        """
        waiting = self._waiting.copy()
        if not waiting:
            return
        records = bytearray()
        for device in dict.fromkeys([one[-1].device for one in waiting]):
            own = [one for one in waiting if one[-1].device == device]
            vector = self._next()
            self._far[vector] = torch.stack([norm.double() for *_, norm in own])
            for place, (*known, _) in enumerate(own):
                records += _RECORD.pack(*known, vector, place)
        self._records.extend(records)
        del self._waiting[: len(waiting)]

    def _places(self, lone: list[int]) -> dict[Any, int]:
        """By key, the place of the record of each norm."""
        found = self._found
        if found is None:
            self._stack()
            records = bytes(self._records)  # a copy: another thread may add one
            found = {
                _key(id, position): at * _RECORD.size
                for at, (id, _, position, *_) in enumerate(_RECORD.iter_unpack(records))
            }
            known = set(lone)
            for at, (_, receiver, *_) in enumerate(_RECORD.iter_unpack(records)):
                if receiver in known:
                    found[receiver] = at * _RECORD.size
            self._found = found
        return found

    def _at(self, place: int) -> tuple[tuple[int, ...], Norm]:
        """The shape and the norm that the record at ``place`` holds."""
        _, _, _, shape, vector, number = _RECORD.unpack_from(self._records, place)
        return self._shapes[shape], number if vector == _HERE else self._far[vector][int(number)]

    def _told(self, place: int) -> Stats:
        shape, norm = self._at(place)
        return self._stats.get(place) or Stats(shape, float(norm))

    def get(self, key: Any, lone: list[int]) -> Stats | None:
        """The norm of ``key``; ``lone`` are the ids of tensors to which one rule leads, as in ``Kept.lone``."""
        place = self._places(lone).get(key)
        return None if place is None else self._told(place)

    def all(self, lone: list[int]) -> dict[Any, Stats]:
        """The statistics of all norms, by key."""
        return {key: self._told(place) for key, place in self._places(lone).items()}

    def norms(self, lone: list[int]) -> dict[int, Norm]:
        """The norms of the gradients of tensors, where they are."""
        return {key: self._at(place)[1] for key, place in self._places(lone).items() if isinstance(key, int)}

    def forget_places(self) -> None:
        """Drop the index of the records by key; the next question makes it anew."""
        self._found = None


class Kept:
    """Raw tensors kept to be summarised later, within a budget of bytes; of the others the norm is kept.

    A norm stays on its GPU until it is read: keeping one never waits for the GPU. Every rule that runs keeps a tensor,
    so keeping only appends to flat lists, and keys are looked up when a value is read. The key of the gradient of an op
    or a leaf is its id. The key of the gradient of an input is a tuple: the id of the op, and the position. For that
    gradient before a sum the tuple also has "unreduced".

    Args:
        budget: the largest number of bytes.
        before: the tensors of the backward before. If they take at most half of the budget, the large ones stay until
            this backward has ended, or needs their room. Memory that is freed right before a backward makes the
            backward slower: a step of a ResNet-18 took 5 of 115 ms more.
    """

    __slots__ = (
        *("_asked", "_before", "_budget", "_counted", "_early", "_index", "_large", "_latest", "_lengths", "_lone"),
        *("_measured", "_read", "_reserved", "_room", "_size", "_small", "_spare"),
    )

    def __init__(self, budget: int, before: "Kept | None" = None) -> None:
        # For each: id, position, tensor, torch's version of it then, its receiver, and whether it is a leaf's.
        self._small: list[Any] = []
        self._large: list[Any] = []
        self._lone: list[int] = []
        self._index: dict[Any, tuple[torch.Tensor, int]] | None = None
        self._lengths: Lengths | None = None  # made when a norm is kept, or asked for
        self._asked = False  # whether the norms may have an index too
        self._latest: torch.Tensor | None = None
        self._size = 0  # of the latest
        self._budget = budget
        self._room = budget
        self._early = before is None and budget > 0  # whether the statistics of large ones are taken as they arrive
        self._spare = AT_HAND if self._early else budget
        self._read: tuple[Any, torch.Tensor, Stats] | None = None  # the last of those, which may come as another view
        self._measured: dict[int, tuple[int, Stats]] = {}  # by Python's ``id()`` of a kept tensor, with its version
        self._counted: set[int] | None = None  # the ids of the counted tensors, when each may count only once
        self._before: Kept | None = None
        self._reserved = 0  # the bytes of ``_before``
        if before is not None:
            taken = before.taken()
            if 2 * taken <= budget:
                self._before, self._reserved = before, taken
                self._room -= taken
            else:
                before.shrink()

    def keep(
        self, id: int, position: int, data: torch.Tensor, size: int, receiver: int = 0, leaf: bool = False
    ) -> None:
        """Keep ``data``, or its norm where there is no room.

        Args:
            id: of an op or a leaf.
            position: of the input of that op; ``GRADIENT`` for the gradient of what it made, and ``UNREDUCED`` less the
                position for what the gradient of that input was before a sum.
            data: the tensor.
            size: the bytes that it keeps, which the caller computes faster from the shape than torch does; for a window
                into larger memory, all of that memory (``held_by``).
            receiver: the id of the source of that input; 0 if it is for no input.
            leaf: whether the gradient is one of a leaf.
        """
        if data is not self._latest:
            if self._before is not None and size + _OBJECT > self._room:
                self.drop_before()
            if data.layout is not _STRIDED:
                if size + _OBJECT > self._room:
                    self._keep_norm(id, position, _elements(data), receiver, tuple(data.shape))
                    return
                data = data.values() if data.layout is torch.jagged else data.to_dense()
            if not leaf:
                if size > _LEAST and size > self._spare and self._early and data.is_cpu and data.numel() > SAMPLE:
                    self._keep_norm(id, position, data, receiver, data.shape)
                    return
                self._spare -= size
            if self._counted is None and size + _OBJECT <= self._room:
                self._room -= size + _OBJECT
            elif not self._fits(data, size + _OBJECT):
                self._keep_norm(id, position, data, receiver, data.shape)
                return
            self._size = size
            self._latest = data  # after its size: an interrupt may come in between
        self._index = None
        shelf = self._small if self._size <= _SMALL_BYTES else self._large
        shelf.append((id, position, data, data._version, receiver, leaf))

    def lone(self, id: int) -> None:
        """Note that only one rule leads to ``id``: its result is the gradient of ``id``, and is kept once."""
        self._lone.append(id)
        if self._index is not None or self._asked:
            self.forget_places()

    def _fits(self, data: torch.Tensor, size: int) -> bool:
        """Whether there is room for ``data`` if each tensor is counted once.

        Some come twice, such as a gradient that a rule passes on unchanged. Checking that costs more than counting
        twice, so it is checked only when there seems to be no room left.
        """
        if self._counted is None:
            held = {id(one[2]): one[2] for one in (*self._small, *self._large)}
            paid = sum([held_by(one, one.nbytes) + _OBJECT for one in held.values()])
            self._room = self._budget - paid
            self._counted = set(held)
        if id(data) not in self._counted:
            if size > self._room:
                return False
            self._counted.add(id(data))
            self._room -= size
        return True

    def _held(self) -> dict[Any, tuple[torch.Tensor, int]]:
        """The kept tensors, by key, with torch's version at that time."""
        index = self._index
        if index is None:
            index, lone = {}, set(self._lone)
            for shelf in (self._small, self._large):
                for id, position, data, version, receiver, _ in shelf:
                    index[_key(id, position)] = (data, version)
                    if receiver in lone:
                        index[receiver] = (data, version)
            self._index = index  # now that it is whole: another thread may look, or let go of it
        return index

    def keep_norms(self, tensors: dict[int, torch.Tensor], known: dict[int, Norm]) -> None:
        """Keep the norms of the gradients of leaves: if a gradient is changed in place later, only its norm is left.

        Args:
            tensors: the gradients.
            known: the norms that were measured already.
        """
        found = {id: known[id] for id in tensors if id in known}
        found |= norms({id: data for id, data in tensors.items() if id not in found})
        for id, norm in found.items():
            self._known().add(id, GRADIENT, 0, tensors[id].shape, norm)

    def secure(self) -> None:
        """Keep small gradients of leaves as copies, and the norms of the others: the program may change them."""
        large: dict[int, torch.Tensor] = {}
        for shelf in (self._small, self._large):
            for at, (seq, position, data, version, receiver, leaf) in enumerate(shelf):
                if not leaf or data._version != version:
                    continue
                if shelf is self._small:
                    copy = data.clone()
                    shelf[at] = (seq, position, copy, copy._version, receiver, leaf)
                else:
                    large[seq if position == GRADIENT else receiver] = data
        self.keep_norms(large, {})
        self._index = None

    def _keep_norm(self, id: int, position: int, data: torch.Tensor, receiver: int, shape: tuple[int, ...]) -> None:
        """Keep the norm of ``data``, which stand for a tensor of ``shape``, or all statistics."""
        if self._early and data.is_cpu and data.numel() > SAMPLE and data.shape == shape and countable(data):
            stats = self._told(data)
            self._known().add(id, position, receiver, shape, stats.norm, stats)
            return
        for norm in norms({0: data}).values():
            self._known().add(id, position, receiver, shape, norm)

    def _told(self, data: torch.Tensor) -> Stats:
        """The statistics of ``data``, which often is a view of the gradient that came before."""
        numbers, read = (numbers_of(data), data._version), self._read
        if read is None or read[0] != numbers:
            read = (numbers, data, summarise(data))  # with the tensor: else other numbers might get its place
            self._read = read if data.nbytes <= AT_HAND else None
        shape = tuple(data.shape)
        return read[2] if read[2].shape == shape else replace(read[2], shape=shape)

    def _known(self) -> Lengths:
        """The norms of the gradients that are not kept."""
        if self._lengths is None:
            self._lengths = Lengths()
        return self._lengths

    def norms(self, more: dict[int, torch.Tensor]) -> dict[int, Norm]:
        """The norms of the gradients of tensors, kept ones and ``more``. Each is on the device that computed it."""
        self._asked = True
        known = self._known().norms(self._lone)
        held = {key: data for key, (data, _) in self._held().items() if isinstance(key, int)}
        if self._early:  # most often no backward follows, and then all statistics are read: so once instead of twice
            large = [data for data, _ in self._held().values() if data.is_cpu and data.numel() > SAMPLE]
            self._measure({id(one): one for one in large})
            known |= {key: told[1].norm for key, data in held.items() if (told := self._measured.get(id(data)))}
        self.forget_places()
        return {**norms({key: data for key, data in {**more, **held}.items() if key not in known}), **known}

    def _measure(self, tensors: dict[int, torch.Tensor]) -> dict[int, Stats]:
        """The statistics of kept ``tensors``, by Python's ``id()`` of each. Those of large ones are remembered."""
        found = {key: stats for key, data in tensors.items() if (stats := self._stats_of(data)) is not None}
        more = summarise_all({key: data for key, data in tensors.items() if key not in found and countable(data)})
        for key, stats in more.items() if self._early else ():
            if tensors[key].numel() > SAMPLE:
                self._measured[key] = tensors[key]._version, stats
        return found | more

    def _stats_of(self, data: torch.Tensor) -> Stats | None:
        version, stats = self._measured.get(id(data), (None, None))
        return stats if version == data._version else None

    def forget_places(self) -> None:
        """Drop the indices by key, which take as much memory as many small gradients; a question makes them anew."""
        self._index = None
        if self._lengths is not None:
            self._lengths.forget_places()
        self._asked = False

    def changed(self) -> bool:
        """Whether a kept gradient of a leaf was changed in place since; of those with only a norm this is not known."""
        for shelf in (self._small, self._large):
            for _, _, data, version, _, leaf in shelf:
                if leaf and data._version != version:
                    return True
        return False

    def taken(self) -> int:
        """How many bytes of the budget are used."""
        return self._budget - self._room

    def drop_before(self) -> None:
        """Drop the large tensors of the backward before, and use their room."""
        self._read = None
        before, self._before = self._before, None  # first: after an interrupt there seems to be less room, never more
        if before is not None:
            before.shrink()
            self._room += self._reserved

    def shrink(self) -> None:
        """Drop the large tensors: the next backward can use their memory again."""
        self._large = []
        self._latest = self._index = self._counted = None
        self._measured = {}

    def raw(self, key: Any) -> torch.Tensor | None:
        """The tensor kept as ``key``; None if only its norm was kept, or if it was changed in place since."""
        return _unchanged(*self._held().get(key, (None, 0)))

    def get(self, key: Any) -> Stats | None:
        """The statistics of the tensor kept as ``key``; only its norm, if known, where it was changed in place."""
        data = self.raw(key)
        if data is not None:
            return self._measure({id(data): data}).get(id(data))
        self._asked = True
        return self._known().get(key, self._lone)

    def summarise(self) -> dict[Any, Stats]:
        """The statistics of everything kept."""
        self._asked = True
        found = self._known().all(self._lone)
        kept = {key: data for key in self._held() if (data := self.raw(key)) is not None}
        known = self._measure({id(data): data for data in kept.values()})
        self.forget_places()
        return found | {key: known[id(data)] for key, data in kept.items() if id(data) in known}


def _elements(data: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor that is not strided: their norm is the norm of the tensor."""
    if data.layout is torch.sparse_coo:
        return data.coalesce().values()
    return data.to_dense() if data.is_mkldnn else data.values()


def _key(id: int, position: int) -> Any:
    """The key under which a kept tensor or its norm is found."""
    if position == GRADIENT:
        return id
    return (id, position) if position >= 0 else (id, UNREDUCED - position, "unreduced")


def _unchanged(data: torch.Tensor | None, version: int) -> torch.Tensor | None:
    """``data``, if it exists and has not changed since ``version``."""
    return data if data is not None and data._version == version and not without_numbers(data) else None


@dataclass(slots=True)
class Frame:
    """One backward, as data.

    Attributes:
        number: which backward of its graph it was, from 1.
        roots: the ids of the tensors from which it started.
        gradients: by id of an op or a leaf, the gradient of its tensor. If an op made several tensors with gradients,
            the norm of all of them together.
        contributions: by id of an op and position of its input, the gradient that the rule gave that input.
        reductions: by the same key, the sum that undid a broadcast.
        unreduced: by the same key, the gradient before that sum, where it is small.
    """

    number: int
    roots: tuple[int, ...]
    gradients: dict[int, Stats] = field(default_factory=dict)
    contributions: dict[tuple[int, int], Stats] = field(default_factory=dict)
    reductions: dict[tuple[int, int], Reduction] = field(default_factory=dict)
    unreduced: dict[tuple[int, int], Stats] = field(default_factory=dict)

    def gradient_of(self, id: int) -> Stats | None:
        """The gradient of the tensor of ``id``, if the backward reached it."""
        return self.gradients.get(id)

    def contribution_of(self, key: tuple[int, int]) -> Stats | None:
        """The gradient that the rule of an input gave it."""
        return self.contributions.get(key)

    def unreduced_of(self, key: tuple[int, int]) -> Stats | None:
        """The gradient of an input before the sum that undid a broadcast."""
        return self.unreduced.get(key)


class FrameRecorder:
    """Collects one backward while it runs; ``frame`` makes the data when they are read.

    Args:
        roots: the ids of the tensors from which it starts.
        budget: how many bytes of gradients may be kept.
        outer: the backward inside of which it runs.
        before: the last backward so far.

    Attributes:
        asked: the ids of the tensors that the user named as those that get a gradient; None for all leaves.
        seen: by id of each leaf that it reached, torch's version of it then, and some of its numbers.
    """

    __slots__ = (
        *("_kept", "_leaves", "_norms", "_results", "arrived", "asked", "careful", "number", "outer"),
        *("reductions", "roots", "seen", "windows"),
    )

    _kept: Kept

    def __init__(
        self,
        roots: tuple[int, ...],
        budget: int,
        outer: "FrameRecorder | None" = None,
        before: "FrameRecorder | None" = None,
    ) -> None:
        self.number = 0  # set at the end: a hook may run another backward before that
        self.outer = outer
        if outer is not None:  # it may also be one that an interrupt has ended
            outer._kept.drop_before()
        self.roots = roots
        self._kept = Kept(budget, None if before is None else before.give_way())
        self._leaves: list[Any] = []  # of each leaf its id and its gradient, one leaf after the other
        self._norms: dict[int, Norm] = {}  # of leaves, if the history has asked for them
        self._results: dict[int, list[int]] = {}  # by op with several gradients: the ids under which these are kept
        self.careful = False
        self.windows = False  # whether a window or its norm was kept: then torch is asked for each gradient's memory
        self.arrived: list[int] = []
        self.asked: set[int] | None = None
        self.reductions: dict[tuple[int, int], Reduction] = {}
        self.seen: dict[int, tuple[int, bytes | None]] = {}

    def gradient(self, seq: int, gradient: Any, size: int, leaf: bool = False) -> None:
        """Keep the ``gradient`` that arrived for the result of ``seq``, or for the ``leaf``; ``size`` is in bytes."""
        self._kept.keep(seq, _GRADIENT, raw_of(gradient), size, 0, leaf)

    def result(self, seq: int, result: int, gradient: Any, size: int) -> None:
        """The gradient of one of several results of ``seq`` arrived; it has a number ``result`` of its own."""
        self._results.setdefault(seq, []).append(result)
        self._kept.keep(result, _GRADIENT, raw_of(gradient), size)

    def lone(self, seq: int) -> None:
        """The gradient of ``seq`` is the result of the only rule that leads there."""
        self._kept.lone(seq)

    def contribution(
        self, seq: int, position: int, gradient: Any, size: int, receiver: int, leaf: bool = False
    ) -> None:
        """A rule of ``seq`` gave its input ``gradient``, after undoing a broadcast if there was one.

        ``receiver`` is the id of the source of that input, perhaps a ``leaf``; 0 if others may share that id.
        """
        self._kept.keep(seq, position, raw_of(gradient), size, receiver, leaf)

    def stretched(self, seq: int, position: int, gradient: Any, size: int) -> None:
        """The small gradient of an input before a sum undid a broadcast: the sum is shown with it."""
        self._kept.keep(seq, _UNREDUCED - position, raw_of(gradient), size)

    def leaf(self, seq: int, gradient: Any) -> None:
        """``gradient`` becomes part of a ``.grad``, or is given to the user, who may change it: clipping does."""
        self._leaves += (seq, raw_of(gradient))

    def see(self, seq: int | None, leaf: Any) -> None:
        """Look at a ``leaf`` that the backward reaches, when it ends or when a step inside of it changes the leaf."""
        if leaf is not None and seq is not None and seq not in self.seen:
            data = raw_of(leaf)
            self.seen[seq] = data._version, some_numbers(data)

    def leaves(self) -> list[int]:
        """The ids of the leaves to which gradients came, until the backward has ended."""
        ids: list[int] = self._leaves[::2]
        return ids

    def end(self, number: int, before: "FrameRecorder | Frame | None", watch: bool = True) -> None:
        """The backward, the ``number``-th, is complete: from now on the user can change the ``.grad``.

        The norms of the leaves' gradients are taken after the first backward. They are taken after later ones once a
        gradient was changed in place: most loops clip gradients or set them to zero either in every step or never.
        Without ``watch`` none is kept.
        """
        self.number = number
        self.careful = isinstance(before, FrameRecorder) and before.careful
        if watch and (self.careful or number == 1):
            self._kept.keep_norms(_pairs(self._leaves), self._norms)
        self._leaves, self._norms = [], {}
        self._kept.drop_before()

    def secure(self) -> None:
        """Keep the gradients of the leaves, though backwards that are not recorded may add to them in place."""
        self._kept.secure()

    def give_way(self) -> Kept:
        """Another backward begins, and becomes the last one. Return the tensors: it takes their room if it needs it."""
        self.careful = self.careful or self._kept.changed()
        self._kept.drop_before()  # an interrupt may have come at the end
        return self._kept

    def norms(self) -> dict[int, Norm]:
        """By id, the norms of the gradients that arrived. Each is on the device that computed it."""
        leaves = _pairs(self._leaves)
        found = self._kept.norms(leaves)
        self._norms = {id: found[id] for id in leaves if id in found}
        for seq, results in self._results.items():
            if own := [found.pop(result) for result in results if result in found]:
                found[seq] = _norm_of(own)
        return found

    def gradient_of(self, id: int) -> Stats | None:
        """The gradient of the tensor of ``id``, if the backward reached it."""
        return self._together({key: self._kept.get(key) for key in self._results.get(id, (id,))}, id)

    def _together(self, known: Mapping[Any, Stats | None], id: int) -> Stats | None:
        """The gradient of ``id``; for an op with several gradients, the norm of all of them together."""
        found = [stats for key in self._results.get(id, (id,)) if (stats := known.get(key)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        nan, inf = sum(stats.nan for stats in found), sum(stats.inf for stats in found)
        return Stats(found[0].shape, math.hypot(*(stats.norm for stats in found)), nan=nan, inf=inf)

    def raw_gradient(self, id: int) -> torch.Tensor | None:
        """The gradient itself, if it is kept; None for an op with several results that have gradients."""
        results = self._results.get(id, (id,))
        return self._kept.raw(results[0]) if len(results) == 1 else None

    def contribution_of(self, key: tuple[int, int]) -> Stats | None:
        """The gradient that the rule of an input gave it."""
        return self._kept.get(key)

    def unreduced_of(self, key: tuple[int, int]) -> Stats | None:
        """The gradient of an input before the sum that undid a broadcast."""
        return self._kept.get((*key, "unreduced"))

    def frame(self) -> Frame:
        """The backward as data, no tensor in it."""
        kept = self._kept.summarise()
        results = {result for several in self._results.values() for result in several}
        ids = [key for key in kept if isinstance(key, int) and key not in results]
        gradients = {id: stats for id in (*ids, *self._results) if (stats := self._together(kept, id)) is not None}
        contributions = {key: stats for key, stats in kept.items() if isinstance(key, tuple) and len(key) == 2}
        unreduced = {key[:2]: stats for key, stats in kept.items() if isinstance(key, tuple) and len(key) == 3}
        return Frame(self.number, self.roots, gradients, contributions, self.reductions, unreduced)


def _norm_of(norms: list[Norm]) -> Norm:
    """The norm of several tensors taken together, from the norm of each."""
    device = next((norm.device for norm in norms if isinstance(norm, torch.Tensor)), None)
    if device is None:
        return float(torch.linalg.vector_norm(torch.tensor(norms, dtype=torch.float64)))
    there = [torch.as_tensor(norm, dtype=torch.float64, device=device) for norm in norms]
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(there))
    return norm


def _pairs(flat: list[Any]) -> dict[int, torch.Tensor]:
    """The dict of a flat list in which each key is followed by its value."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
