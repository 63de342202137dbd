"""The facts that a graph keeps of ops and tensors while it records; a ``Record`` is made of them on request.

Every op that is recorded makes some, so this is compiled.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any
from weakref import ref

import torch
from torch import Tensor as RawTensor

from nbgrad.core.engine.node import Node, OpInfo, TensorBase, record_id
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.torch_origins import known_id, shape_of
from nbgrad.core.engine.torch_reads import sample_of
from nbgrad.core.graph.changes import Changes, Since, since
from nbgrad.core.graph.last_backward import Frame, FrameRecorder, Values
from nbgrad.core.graph.record import Input, Record, Statistics, TakenStatistics, kept
from nbgrad.core.graph.stats import Stats, data_of, few, held_by, summarise


class Literal:
    """An input that is no tensor. This class distinguishes it from an input that is the id of a record."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


NOTHING = Literal(None)

_MODERATE = 1 << 16
"""The bytes of the largest constant that is kept although the program may let go of it."""

_SAMPLES = 1 << 15
"""The number of results of which a sample is kept: with 64 numbers in float32 each, they take 10 megabytes."""


Passed = tuple[int, "Ran | Outer", Scope | None]
"""An op or a tensor of a graph that is shown: its id, its facts, and the scope in which it is drawn."""


class Notes:
    """Facts about records that become known later, by id. It holds no record, so there is no cycle.

    Attributes:
        names: variables and parameters.
        values: small values while the graph is open; ``settled`` holds the statistics of all once it is closed.
        constants: constants of moderate size while it is open.
        samples: some numbers of the newest larger results while it is open.
        frame: the last backward.
        changes: the in-place changes.
        graph: the object that identifies the graph in its records.
        things: weak references, by which a second run of the graph finds objects that no record holds: the node of an
            op, a tensor that an op made before, and the memory of a constant that is none of our tensors.
        deleted, cut: the records, and the inputs of records, that the user took out of the graph.
        earlier: for the ops that an earlier graph recorded, what a picture calls that graph.
        known: the statistics of the values that an earlier graph kept.
        remade: the ops that no graph recorded, whose constants are unknown.
    """

    __slots__ = (
        *("changes", "constants", "cut", "deleted", "earlier", "frame", "graph", "known", "names"),
        *("remade", "samples", "settled", "things", "values"),
    )

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.graph = object()
        self.names: dict[int, str] = {}
        self.values = Values()
        self.constants = Values()
        self.samples: dict[int, bytes] = {}
        self.settled: dict[int, Statistics] | None = None
        self.frame: FrameRecorder | Frame | None = None
        self.things: dict[int, ref[Any]] = {}
        self.deleted: set[int] = set()
        self.cut: set[tuple[int, int]] = set()
        self.earlier: dict[int, str] = {}
        self.known: dict[int, Stats] = {}
        self.remade: set[int] = set()

    def name(self, namespace: dict[str, Any], outer: "dict[int, Outer]") -> None:
        """Remember the variables in ``namespace`` as the names of tensors; ``outer`` has those that no op made."""
        names = self.names
        for name, value in namespace.items():
            if isinstance(value, RawTensor) and not name.startswith("_"):
                known = known_id(value)
                if known is not None and known not in names:
                    names[known] = name
            elif isinstance(value, TensorBase) and not name.startswith("_"):
                tensor = value
                if tensor._origin is None:  # its data were replaced: from now on it has another origin
                    given = [id for id, one in outer.copy().items() if one.thing and one.thing() is value]
                    for known in given:
                        names.setdefault(known, name)
                    continue
                id = record_id(tensor._origin)
                if id not in names:
                    names[id] = name

    @property
    def roots(self) -> tuple[int, ...]:
        """The roots of the last backward."""
        return self.frame.roots if self.frame is not None else ()

    def name_of(self, id: int, fact: "Ran | Outer") -> str | None:
        """The name of a tensor: its own, or that of the variable that held it."""
        own = fact.name if isinstance(fact, Outer) else None
        name = own or self.names.get(id)
        return None if name is None else str(name)  # the user may set any object as a name

    def kept_value(self, id: int, fact: "Ran | Outer") -> torch.Tensor | None:
        """The values themselves, while the graph is open; for a leaf, its present values."""
        tensor = fact.thing() if isinstance(fact, Outer) and fact.thing is not None else None
        if tensor is None:
            value = self.values.raw(id)
            return self.constants.raw(id) if value is None else value
        return data_of(tensor)

    def keep_constant(self, id: int, data: torch.Tensor) -> None:
        """Keep the numbers of a constant that is small, or of moderate size with memory of its own, such as a mask."""
        if data.layout is not torch.strided or data.is_inference():
            return
        if few(shape_of(data)):
            self.values.add(id, data)
        elif data.nbytes <= _MODERATE and held_by(data, data.nbytes) <= 2 * data.nbytes:
            self.constants.add(id, data)

    def keep(self, ids: Container[int]) -> None:
        """Drop the numbers of all records but ``ids``."""
        self.values.keep(ids)
        self.constants.keep(ids)
        self.samples = {id: sample for id, sample in self.samples.copy().items() if id in ids}

    def keep_value(self, id: int, data: Any, shape: tuple[int, ...]) -> None:
        """Keep a result if it is small, and some numbers of a larger one, by which graphs are compared."""
        if few(shape):
            self.values.add(id, data)
            return
        sample = sample_of(data)
        if sample is not None:
            self.samples[id] = sample
            if len(self.samples) > _SAMPLES:
                self.samples = {one: self.samples[one] for one in list(self.samples)[_SAMPLES // 2 :]}

    def sample(self, id: int, fact: "Ran | Outer", changed: Since | None) -> bytes | None:
        """Some numbers of a tensor whose values are not kept: a result as it was made, a leaf as the backward saw it.

        ``changed``: the change of a leaf after the backward.
        """
        if changed is not None and changed.what is not None:
            return self.changes.seen.get(id, (0, None))[1]
        tensor = fact.thing() if isinstance(fact, Outer) and fact.thing is not None else None
        data = None if tensor is None else data_of(tensor)
        if data is not None:
            return sample_of(data)
        found = self.samples.get(id)
        return self.values.firsts(id) if found is None else found

    def kept_gradient(self, id: int) -> torch.Tensor | None:
        """The gradient itself, while the graph is open and keeps it."""
        return self.frame.raw_gradient(id) if isinstance(self.frame, FrameRecorder) else None

    def records(self, passed: "Iterable[Passed]") -> list[Record]:
        """The records of the shown parts, whose statistics are computed when they are read."""
        roots = set(self.roots)
        return [
            self._record(id, fact, scope, roots, parents, LateStatistics(id, fact, parents, self))
            for id, fact, scope in passed
            if id not in self.deleted
            for parents in (self._parents(id, fact),)
        ]

    def taken(
        self, passed: "Iterable[Passed]", frame: Frame | None, values: dict[int, Stats], changed: dict[int, Since]
    ) -> list[Record]:
        """The records of the shown parts, with their statistics.

        Args:
            passed: the shown parts.
            frame: the backward that is shown.
            values: the statistics of the values, by id, where they are known.
            changed: the leaves that changed after that backward.
        """
        roots, found = set() if frame is None else set(frame.roots), []
        for id, fact, scope in passed:
            if id in self.deleted:
                continue
            parents = self._parents(id, fact)
            gradient = None if frame is None else frame.gradient_of(id)
            inputs = inputs_of(id, fact, parents, frame)
            told = TakenStatistics(
                values.get(id), gradient, inputs, changed.get(id), self.sample(id, fact, changed.get(id))
            )
            found.append(self._record(id, fact, scope, roots, parents, told))
        return found

    def _record(
        self,
        id: int,
        fact: "Ran | Outer",
        scope: Scope | None,
        roots: set[int],
        parents: tuple[int | None, ...],
        statistics: Statistics,
    ) -> Record:
        thing = fact.thing
        return Record(
            id,
            "op" if isinstance(fact, Ran) else fact.kind,
            self.name_of(id, fact),
            fact.op,
            tuple(fact.shape),
            fact.dtype,
            fact.device,
            fact.settings.copy() if isinstance(fact, Ran) else {},  # other calls may share it
            parents,
            scope,
            fact.place if isinstance(fact, Ran) else None,
            id in roots,
            thing is not None and thing() is not None,
            None if isinstance(fact, Ran) else thing,
            self.graph,
            statistics,
            self.earlier.get(id),
            isinstance(fact, Outer) and fact.given_axis,
        )

    def _parents(self, id: int, fact: "Ran | Outer") -> tuple[int | None, ...]:
        """For each input of an op, the id of the record that it came from; None if there is none, or no edge."""
        if isinstance(fact, Outer):
            return ()
        parents = tuple([source if type(source) is int else None for source in fact.sources])
        return kept(id, parents, self.deleted, self.cut) if self.deleted or self.cut else parents


class Ran:
    """The facts of an op that ran. A record is made of them on request."""

    __slots__ = ("device", "dtype", "op", "place", "scope", "settings", "shape", "sources", "thing")

    device: torch.device
    dtype: torch.dtype
    op: OpInfo
    place: Place
    scope: Scope | None
    settings: dict[str, Any]
    shape: tuple[int, ...]
    sources: tuple[Any, ...]
    thing: ref[Node]


class Outer:
    """The facts of a tensor that no op in the graph made: a leaf, a constant, or what an ``op`` made before.

    ``thing`` is the tensor of a leaf. ``given_axis`` is as in ``Record``.
    """

    __slots__ = ("_name", "device", "dtype", "given_axis", "kind", "op", "shape", "thing")

    def __init__(
        self,
        kind: str,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        op: OpInfo | None = None,
        thing: "ref[Any] | None" = None,
        name: str | None = None,
        given_axis: bool = False,
    ) -> None:
        self.kind = kind
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.op = op
        self.thing = thing
        self._name = name
        self.given_axis = given_axis

    @property
    def name(self) -> str | None:
        """The parameter's name or the tensor's own: the present name, or the name at the first use if it is gone."""
        tensor = self.thing() if self.thing is not None else None
        name: str | None = tensor.name if isinstance(tensor, TensorBase) else self._name  # torch's have none
        return name


def facts_of(
    node: Node, device: torch.device, settings: dict[str, Any], sources: tuple[Any, ...], scope: Scope | None
) -> Ran:
    """The facts of the op of ``node``, which has run in ``scope``."""
    made = Ran.__new__(Ran)
    made.shape = node.shape
    made.dtype = node.dtype
    made.device = device
    made.op = node.op
    made.settings = settings
    made.sources = sources
    made.scope = scope
    made.place = node.place
    thing = node  # the same object: compiled code knows the type of this name, and gets ``reference`` from C
    made.thing = thing.reference
    return made


def grown(ran: Ran, node: Node, more: tuple[int, ...]) -> Ran:
    """The same facts with ``more`` inputs, and the present op of ``node``."""
    made = Ran.__new__(Ran)
    made.shape, made.dtype, made.device, made.op = ran.shape, ran.dtype, ran.device, node.op
    made.settings, made.sources, made.scope = ran.settings, ran.sources + more, ran.scope
    made.place, made.thing = ran.place, ran.thing
    return made


class LateStatistics:
    """The statistics of a record whose graph was open when it was taken: worked out when they are first read.

    Each then stays the same. A gradient belongs to the backward that was the last when the record was taken: it is
    unknown once another backward has ended.
    """

    __slots__ = ("_fact", "_id", "_known", "_notes", "_number", "_parents")

    def __init__(self, id: int, fact: "Ran | Outer", parents: tuple[int | None, ...], notes: Notes) -> None:
        self._id = id
        self._fact = fact
        self._parents = parents
        self._notes = notes
        self._number = _number_of(notes.frame)
        self._known: dict[str, Any] = {}

    @property
    def value(self) -> Stats | None:
        """As ``Record.value``."""
        return self._taken("value", self._value)  # type: ignore[no-any-return]  # of the type of ``_value``

    def _value(self) -> Stats | None:
        data = self._notes.kept_value(self._id, self._fact)
        return self._notes.known.get(self._id) if data is None else summarise(data)

    @property
    def sample(self) -> bytes | None:
        """As the memory of ``Record.sample``."""
        return self._taken("sample", self._sample)  # type: ignore[no-any-return]  # of the type of ``_sample``

    def _sample(self) -> bytes | None:
        return self._notes.sample(self._id, self._fact, self.since)

    @property
    def gradient(self) -> Stats | None:
        """As ``Record.gradient``."""
        return self._first("gradient", self._gradient)  # type: ignore[no-any-return]  # of the type of ``_gradient``

    def _gradient(self) -> Stats | None:
        frame = self._frame()
        return None if frame is None else frame.gradient_of(self._id)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """As ``Record.inputs``."""
        return self._first("inputs", self._inputs)  # type: ignore[no-any-return]  # of the type of ``_inputs``

    def _inputs(self) -> tuple[Input, ...]:
        return inputs_of(self._id, self._fact, self._parents, self._frame())

    @property
    def since(self) -> Since | None:
        """As ``Record.since``."""
        return self._taken("since", self._since)  # type: ignore[no-any-return]  # of the type of ``_since``

    def _since(self) -> Since | None:
        leaves = [] if isinstance(self._fact, Ran) else [(self._id, self._fact.thing, self.gradient)]
        return since(leaves, self._notes.changes).get(self._id)

    def _taken(self, what: str, find: Callable[[], Any]) -> Any:
        """The statistic that was taken when the graph was closed; that which ``find`` gives while it is open."""
        settled = self._notes.settled
        if settled is None:
            return self._first(what, find)
        return self._first(what, lambda: getattr(settled.get(self._id), what, None))

    def _first(self, what: str, find: Callable[[], Any]) -> Any:
        """The known answer; if two threads ask at once, the first answer holds for both."""
        known = self._known
        return known[what] if what in known else known.setdefault(what, find())

    def _frame(self) -> "FrameRecorder | Frame | None":
        """The backward that was the last when the record was taken."""
        frame = self._notes.frame
        return frame if _number_of(frame) == self._number else None


def _number_of(frame: "FrameRecorder | Frame | None") -> int:
    return -1 if frame is None else frame.number


def inputs_of(
    id: int, fact: "Ran | Outer", parents: tuple[int | None, ...], frame: "FrameRecorder | Frame | None"
) -> tuple[Input, ...]:
    """The inputs of an op, with what the backward ``frame`` gave them."""
    if isinstance(fact, Outer):
        return ()
    op, found = fact.op, []
    for position, (source, parent) in enumerate(zip(fact.sources, parents, strict=True)):
        name, key = op.inputs[min(position, op.arity - 1)], (id, position)
        if isinstance(source, Literal):
            found.append(Input(name, None, source.value))
        elif frame is None or parent is None:
            found.append(Input(name, parent))
        else:
            undone = frame.reductions.get(key)
            before = frame.unreduced_of(key) if undone is not None else None
            found.append(Input(name, parent, None, frame.contribution_of(key), undone, before))
    return tuple(found)


def reached_from(roots: Iterable[int], ops: dict[int, Ran]) -> set[int]:
    """The members of ``ops`` that made ``roots``, and all ops from which these were computed."""
    waiting = [root for root in roots if root in ops]
    found = set(waiting)
    while waiting:
        ran = ops.get(waiting.pop())
        for source in ran.sources if ran is not None else ():
            if source in ops and source not in found:
                found.add(source)
                waiting.append(source)
    return found
