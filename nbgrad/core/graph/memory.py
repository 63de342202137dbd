"""``MemoryUse``: the bytes that a backward needs, by storage: which op keeps which, and when they live."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.graph.columns import columns
from nbgrad.core.graph.kept_storages import KeptStorages, KeptValue, Storage
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import nbytes_of
from nbgrad.core.translation import message, translate

_BARS = "▁▂▃▄▅▆▇█"

_WIDTH = 48
"""A timeline as text has at most this many bars."""


def byte_text(size: float) -> str:
    """A number of bytes: 512 B, 4 KiB, 1.5 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return translate("{size:.4g} GiB", size=size)


class KeptRow(NamedTuple):
    """An op and the bytes that it keeps.

    Attributes:
        size: the bytes of the storages that it keeps and that no op before it keeps: they sum up to the total.
        share: the part of the total.
        op: its name.
        module: the path of the module that it ran in, as "Net > layers.0 (Linear)"; empty if it ran in none.
        line: the user's line that ran it; None if that is not known.
        id: of its record.
        shared: the bytes that it keeps and that an op before it keeps, too.
    """

    size: int
    share: float
    op: str
    module: str
    line: str | None
    id: int
    shared: int


class KeptTable(list[KeptRow]):
    """The ops that keep something, the most bytes first. ``print`` shows a table."""

    def __str__(self) -> str:
        rows = [["bytes", "share", "op", "module", "line"]]
        rows += [[byte_text(one.size), f"{one.share:.1%}", one.op, one.module or "-", one.line or "-"] for one in self]
        return "\n".join(columns(rows, left=range(2, 5)))


class LivingBytes(NamedTuple):
    """The bytes that live while an op runs, in the forward or in the backward.

    Attributes:
        id: of the record of the op.
        op: its name.
        backward: whether its rules run, not the op itself.
        parameters: the bytes of parameters and other leaves.
        gradients: of those gradients that have been computed and are still needed, and of every ``.grad``.
        optimizer: of what the optimizers hold.
        activations: of storages that ops have made and keep for the backward.
        others: of what the program gave to the ops, as a batch, and of results that are kept by no op.
    """

    id: int
    op: str
    backward: bool
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    others: int

    @property
    def total(self) -> int:
        """All of these together."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.others

    def __str__(self) -> str:
        parts = [f"{translate(name)} {byte_text(size)}" for name in PARTS if (size := getattr(self, name))]
        when = translate("the backward of {op}", op=self.op) if self.backward else self.op
        return translate(
            "{byte_text} at {when}: {names}", byte_text=byte_text(self.total), when=when, names=", ".join(parts)
        )


PARTS = (
    message("parameters"),
    message("optimizer"),
    message("gradients"),
    message("activations"),
    message("others"),
)
"""The parts of the living bytes, from what stays to what changes."""


class Timeline(list[LivingBytes]):
    """The bytes that live while each op runs: the ops of the forward, then those of the backward.

    It is computed from the shapes and from what the nodes keep: the memory inside of a kernel is not in it, nor what
    a checkpoint computes again, nor tensors that only a variable of the program holds.
    """

    @property
    def peak(self) -> LivingBytes | None:
        """The moment with the most bytes, the first one if there are several; None if no op ran."""
        return max(self, key=lambda one: one.total, default=None)

    def thinned(self, most: int) -> "Timeline":
        """At most so many moments: each stands for several ones if there are more, and is the largest of them."""
        width = min(len(self), most)
        groups = [self[at * len(self) // width : (at + 1) * len(self) // width] for at in range(width)]
        return Timeline([max(group, key=lambda one: one.total) for group in groups])

    @property
    def line(self) -> str:
        """The totals as a line of bars."""
        if (peak := self.peak) is None:
            return ""
        top = max(peak.total, 1)
        return "".join([_BARS[round(one.total / top * (len(_BARS) - 1))] for one in self.thinned(_WIDTH)])

    def __str__(self) -> str:
        if self.peak is None:
            return translate("no op ran")
        forward = sum(not one.backward for one in self)
        return translate(
            "{line}\n{forward} ops forward, {count} backward; peak {peak}",
            line=self.line,
            forward=forward,
            count=len(self) - forward,
            peak=self.peak,
        )


class Checkpointed(NamedTuple):
    """The call of a module, if it were checkpointed.

    Attributes:
        module: the path of the module.
        saves: the bytes that would not be kept: those that only ops inside keep, without the arguments of the call,
            which would have to be kept.
        share: the part of the total.
        flops: the operations in products and convolutions that the backward would repeat; None if they are not known.
        flops_share: the part of those of the whole forward; None if that is not known.
        seconds: how long its ops ran in the forward; None if the graph has no clock.
        seconds_share: the part of the whole forward.
    """

    module: str
    saves: int
    share: float
    flops: int | None
    flops_share: float | None
    seconds: float | None
    seconds_share: float | None


class Checkpoints(list[Checkpointed]):
    """The calls of modules, the one that would save the most bytes first. ``print`` shows a table."""

    def __str__(self) -> str:
        timed = any(one.seconds is not None for one in self)
        rows = [["saves", "share", "repeats FLOPs", *(["repeats time"] if timed else []), "module"]]
        for one in self:
            flops = "?" if one.flops_share is None else f"{one.flops_share:.1%}"
            time = ["?" if one.seconds_share is None else f"{one.seconds_share:.1%}"] if timed else []
            rows.append([byte_text(one.saves), f"{one.share:.1%}", flops, *time, one.module])
        return "\n".join(columns(rows, left=(len(rows[0]) - 1,)))


class MemoryUse:
    """The bytes that the ops of a graph keep for the backward.

    The parameters and other leaves are not counted: they exist without a backward. Each other storage is counted once,
    with all its bytes: views keep the whole storage that they look into.

    Args:
        records: the records of the graph.
        kept: the storages, as they were read.
        optimizer: the bytes that the optimizers hold.
        seconds: by id of the record of an op, how long its forward took, where it was measured.

    Attributes:
        storages: the storages.
        values: by id of the record of an op, the values that it keeps.
        whole: whether this is all; False if torch does not show what some ops keep: a change in place of a view, what
            ``torch.jit.script`` has compiled, a ``Function`` in C++.
        optimizer: the bytes that the optimizers hold.
        allocated: the bytes that torch's allocator had given to tensors on a GPU as the backward began; None where the
            ops ran on no GPU.
    """

    def __init__(
        self, records: list[Record], kept: KeptStorages, optimizer: int = 0, seconds: dict[int, float] | None = None
    ) -> None:
        self._records = records
        self.kept = kept
        self.optimizer = optimizer
        self._seconds = seconds or {}
        self.storages: list[Storage] = kept.storages
        self.values: dict[int, list[KeptValue]] = kept.values
        self.whole = not kept.hidden
        self.allocated = kept.allocated

    @cached_property
    def total(self) -> int:
        """The bytes of all storages."""
        return sum([one.size for one in self.storages])

    @property
    def aside(self) -> int:
        """The bytes of ``total`` that only attributes of ``ctx`` hold: no hook of ``saved_tensors_hooks`` sees them."""
        return sum([one.size for one in self.storages if one.aside])

    @property
    def peak(self) -> int:
        """The most bytes that live at one moment of the ``timeline``."""
        moment = self.timeline.peak
        return 0 if moment is None else moment.total

    def kept_by(self, ids: Iterable[int]) -> int:
        """The bytes that the ops with these ``ids`` keep together; a storage that several keep is counted once."""
        return self.size_of({number for id in ids for number in self.numbers_of(id)})

    def numbers_of(self, id: int) -> list[int]:
        """The numbers of the storages that the op with this ``id`` keeps."""
        return [value.storage for value in self.values.get(id, ()) if value.storage is not None]

    def size_of(self, numbers: Iterable[int]) -> int:
        """The bytes of the storages with these ``numbers``."""
        return sum([self.storages[number].size for number in numbers])

    def ranked(self) -> KeptTable:
        """The ops that keep something, the most bytes first."""
        total, found = self.total, KeptTable()
        first = {number: one.keepers[0] for number, one in enumerate(self.storages)}
        for record in self._records:
            numbers = set(self.numbers_of(record.id))
            if not numbers:
                continue
            own = self.size_of([number for number in numbers if first[number] == record.id])
            shared = self.size_of(numbers) - own
            line = None if record.place is None else str(record.place)
            share = own / total if total else 0.0
            found.append(KeptRow(own, share, record.kind_or_op, _path(record.scope), line, record.id, shared))
        found.sort(key=lambda one: -one.size)
        return found

    @cached_property
    def timeline(self) -> Timeline:
        """The bytes that live while each op of the forward and of the backward runs."""
        return Timeline(_moments(self._records, self.kept, self.optimizer))

    def checkpointing(self) -> Checkpoints:
        """Compute what each call of a module would save if it were checkpointed, and what its backward would repeat.

        Only calls that save something are listed. While such a backward repeats its forward, the saved bytes live
        again, so the most that one checkpoint of several saves at the peak is all of them but the largest.
        """
        from nbgrad.core.graph.flops import flops_of  # torch's counter takes time to import

        calls: defaultdict[Scope, set[int]] = defaultdict(set)
        made = {record.id: record for record in self._records}
        for record in self._records:
            if record.op is not None and record.kind == "op":
                for scope in outwards(record.scope):
                    if isinstance(scope, ModuleScope):
                        calls[scope].add(record.id)
        flops = flops_of(self._records)
        whole = None if None in flops.values() else sum(one or 0 for one in flops.values())
        time = sum(self._seconds.values())
        found, total = Checkpoints(), self.total
        for scope, inside in calls.items():
            saves = self._saved_by_checkpoint(inside, made)
            if saves <= 0:
                continue
            counts = [flops[id] for id in inside if id in flops]
            own = None if None in counts else sum(one or 0 for one in counts)
            seconds = sum([self._seconds.get(id, 0.0) for id in inside]) if self._seconds else None
            found.append(
                Checkpointed(
                    *(_path(scope), saves, saves / total, own),
                    None if own is None or not whole else own / whole,
                    seconds,
                    None if seconds is None or not time else seconds / time,
                )
            )
        found.sort(key=lambda one: -one.saves)
        return found

    def _saved_by_checkpoint(self, inside: set[int], made: dict[int, Record]) -> int:
        """The bytes that a checkpoint of these ops would not keep, less those that it would keep in addition."""
        freed = [one.size for one in self.storages if one.maker in inside and inside.issuperset(one.keepers)]
        held = {one.maker for one in self.storages}
        given = {
            source
            for id in inside
            for source in made[id].sources
            if source not in inside and source in made and made[source].kind == "op" and source not in held
        }
        return sum(freed) - sum([_bytes_of(made[_base(source, made)]) for source in given])


def _path(scope: Scope | None) -> str:
    """The labels of the modules around, from the outermost on."""
    return " > ".join(reversed([one.label for one in outwards(scope) if isinstance(one, ModuleScope)]))


def _bytes_of(record: Record) -> int:
    return nbytes_of(tuple([max(length, 0) for length in record.shape]), record.dtype)


def _base(id: int, made: dict[int, Record]) -> int:
    """The op whose result the result of the op ``id`` looks into; the op itself if that is no view."""
    while (record := made.get(id)) is not None and _is_view(record) and record.parents and record.parents[0] in made:
        id = record.parents[0]
    return id


def _is_view(record: Record) -> bool:
    return bool(getattr(record.op, "view", False)) and bool(record.parents)


class _Living:
    """Sums of intervals: the bytes of one part at each moment."""

    def __init__(self, moments: int) -> None:
        self._changes = [0] * (moments + 1)

    def add(self, size: int, begin: int, end: int) -> None:
        """These bytes live from the moment ``begin`` to the moment ``end``, both included."""
        self._changes[begin] += size
        self._changes[end + 1] -= size

    def sums(self) -> list[int]:
        found, living = list[int](), 0
        for change in self._changes[:-1]:
            living += change
            found.append(living)
        return found


def _moments(records: list[Record], kept: KeptStorages, optimizer: int) -> list[LivingBytes]:
    """The moments of the forward, and then those of the backward, in which the ops come in the opposite order."""
    ops = [record for record in records if record.kind == "op"]
    made = {record.id: record for record in records}
    forward = {record.id: at for at, record in enumerate(ops)}
    last = 2 * len(ops) - 1
    if last < 0:
        return []

    def backward(id: int) -> int:
        return last - forward[id]

    users: defaultdict[int, list[int]] = defaultdict(list)
    for record in ops:
        for source in dict.fromkeys(record.sources):
            users[source].append(record.id)
    parts = {name: _Living(last + 1) for name in ("gradients", "activations", "others")}
    _add_storages(parts, kept, forward, last)
    held = {one.maker for one in kept.storages}
    for record in ops:  # the results that no op keeps live until their last use
        if record.id not in held and not _is_view(record):
            begin = forward[record.id]
            uses = [forward[user] for user in _uses(record.id, users, made)]
            parts["others"].add(_bytes_of(record), begin, max([begin, *uses]))
    _add_gradients(parts["gradients"], _reached(ops, made, kept), made, users, backward)
    grads = {one.leaf: one for one in kept.owned if one.leaf}
    for leaf, one in grads.items():
        reached = [backward(user) for user in users.get(leaf, ()) if user in forward]
        if one.held:
            parts["gradients"].add(one.held, 0, last)
        if reached:  # a gradient that is added to another one is not needed any more
            parts["gradients"].add(one.size, min(reached), max(reached) if one.held else last)
    parameters = sum([one.size for one in kept.owned])
    gradients, activations, others = (parts[name].sums() for name in ("gradients", "activations", "others"))
    order = [(record, False) for record in ops] + [(record, True) for record in reversed(ops)]
    return [
        LivingBytes(
            *(record.id, record.kind_or_op, back, parameters, gradients[at], optimizer, activations[at], others[at])
        )
        for at, (record, back) in enumerate(order)
    ]


def _add_storages(parts: dict[str, _Living], kept: KeptStorages, forward: dict[int, int], last: int) -> None:
    """A storage that an op has made lives from there until the backward has passed the first op that keeps it."""
    for one in kept.storages:
        keepers = [forward[id] for id in one.keepers if id in forward]
        if one.maker is None or one.maker not in forward or not keepers:
            parts["others"].add(one.size, 0, last)
        else:
            parts["activations"].add(one.size, min(forward[one.maker], *keepers), last - min(keepers))


def _uses(id: int, users: dict[int, list[int]], made: dict[int, Record]) -> list[int]:
    """The ops that use the result of the op ``id``, also through views of it."""
    found, waiting = list[int](), [id]
    while waiting:
        for user in users.get(waiting.pop(), ()):
            found.append(user)
            if _is_view(made[user]) and made[user].parents[0] is not None:
                waiting.append(user)
    return found


def _reached(ops: list[Record], made: dict[int, Record], kept: KeptStorages) -> list[Record]:
    """The ops to whose results the backward gave a gradient.

    If no gradient was read, as on the meta device, it went along every path from where it began to a leaf.
    """
    if any(record.gradient is not None for record in ops):
        return [record for record in ops if record.root or record.gradient is not None]
    below = {id for id, *_ in kept.ops}
    learning = {id for id, record in made.items() if record.kind in ("parameter", "leaf", "outside")}
    for record in ops:  # in the order in which they ran
        if record.id in below and differentiable(record.dtype) and not learning.isdisjoint(record.sources):
            learning.add(record.id)
    return [record for record in ops if record.root or record.id in learning]


def _add_gradients(
    living: _Living, reached: list[Record], made: dict[int, Record], users: dict[int, list[int]], backward: Any
) -> None:
    """The gradient of each ``reached`` result lives from the first rule that gives a part of it until its op is done.

    The gradient of a view is in the storage of that of its base, or the other way round: it is counted once.
    """
    spans: dict[int, tuple[int, int, int]] = {}
    for record in reached:
        base = _base(record.id, made)
        begin = min([backward(user) for user in users.get(record.id, ())], default=backward(record.id))
        size, first, end = spans.get(base, (0, begin, 0))
        spans[base] = max(size, _bytes_of(record)), min(first, begin), max(end, backward(record.id))
    for size, begin, end in spans.values():
        living.add(size, begin, end)
