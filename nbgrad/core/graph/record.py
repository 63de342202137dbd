"""``Record``: the typed facts of one op or one tensor, without the tensor.

Facts are taken when the op runs. Statistics of values and gradients are computed on request, so questions about the
structure do not pay for them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import numpy as np
import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import Node, OpInfo, TensorBase, next_seq, record_id
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.torch_origins import known_origin
from nbgrad.core.graph.last_backward import Frame, FrameRecorder, Values
from nbgrad.core.graph.stats import Stats, countable, summarise


@dataclass(frozen=True, slots=True)
class Input:
    """One input of an op: the id of the record its tensor came from, or the number that stood there.

    Both are None for an optional input that was left out, and where ``delete_node`` or ``delete_edge`` cut the edge.
    ``gradient`` is what the rule of this input gave in the last backward, ``reduction`` the sum that undid a broadcast,
    and ``unreduced`` what that was before the sum, where it is small.
    """

    name: str
    source: int | None
    literal: Any = None
    gradient: Stats | None = None
    reduction: Reduction | None = None
    unreduced: Stats | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """Stands in the settings of a record for a tensor, such as an index, which the record does not keep."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


class Literal:
    """An input that is no tensor, told apart from an id."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


NOTHING = Literal(None)


class Notes:
    """What a graph learns about its records after it has made them, by id; it holds no record, so there is no cycle.

    Attributes:
        names: variables and parameters.
        values: small values while the graph is open; ``settled`` holds the statistics of all once it is closed.
        frame: the last backward.
        deleted, cut: the records, and the inputs of records, that the user took out of the graph.
    """

    __slots__ = ("cut", "deleted", "frame", "names", "settled", "values")

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.values = Values()
        self.settled: dict[int, Stats] | None = None
        self.frame: FrameRecorder | Frame | None = None
        self.deleted: set[int] = set()
        self.cut: set[tuple[int, int]] = set()

    def name(self, namespace: dict[str, Any], outer: "dict[int, Record]") -> None:
        """Remember the variables in ``namespace`` as the names of tensors; ``outer`` has those that no op made."""
        names = self.names
        for name, value in namespace.items():
            if isinstance(value, torch.Tensor) and not name.startswith("_"):
                found = known_origin(value)
                if found is not None and record_id(found) not in names:
                    names[record_id(found)] = name
            elif isinstance(value, TensorBase) and not name.startswith("_"):
                tensor = value
                if tensor._origin is None:  # its data were replaced: it goes by another origin from now on
                    given = [id for id, record in outer.copy().items() if record._thing and record._thing() is value]
                    names.update(dict.fromkeys(given, name))
                    continue
                id = record_id(tensor._origin)
                if id not in names:
                    names[id] = name

    @property
    def roots(self) -> tuple[int, ...]:
        """What the last backward started from."""
        return self.frame.roots if self.frame is not None else ()


class Ran:
    """What is kept of an op that ran: the facts of a record, which is made of them when somebody asks."""

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

    def record(self, id: int, notes: Notes) -> "Record":
        """The record of it."""
        shape, facts = tuple(self.shape), (self.op, self.settings, self.sources, self.scope, self.place, self.thing)
        return Record(id, "op", shape, self.dtype, self.device, notes, *facts)


def facts_of(
    node: Node, device: torch.device, settings: dict[str, Any], sources: tuple[Any, ...], scope: Scope | None
) -> Ran:
    """What is kept of the op of ``node``, which has run in ``scope``: made by the slot of its type, for every op."""
    made = Ran.__new__(Ran)
    made.shape = node.shape
    made.dtype = node.dtype
    made.device = device
    made.op = node.op
    made.settings = settings
    made.sources = sources
    made.scope = scope
    made.place = node.place
    made.thing = ReferenceType.__new__(ReferenceType, node)  # a call of the class reads its arguments twice
    return made


def grown(ran: Ran, node: Node, more: tuple[int, ...]) -> Ran:
    """The same with ``more`` inputs, of the op that ``node`` has by now."""
    made = Ran.__new__(Ran)
    made.shape, made.dtype, made.device, made.op = ran.shape, ran.dtype, ran.device, node.op
    made.settings, made.sources, made.scope = ran.settings, ran.sources + more, ran.scope
    made.place, made.thing = ran.place, ran.thing
    return made


class Operand(NamedTuple):
    """An input of an op that raised: the id of its record if it has one, and what it was.

    ``kind`` is that of a record; ``name`` the tensor's own, or the user's variable; ``what`` its shape and type.
    """

    input: str
    id: int | None
    kind: str
    name: str | None
    what: str

    @classmethod
    def of(cls, input: str, value: Any, variables: dict[str, Any]) -> "Operand":
        """The facts of ``value``, a tensor of ours, of torch's, or anything else."""
        told = described(value)
        what = f"{told.shape} {told.dtype}" if isinstance(told, Described) else repr(told)
        if not isinstance(value, TensorBase):
            return cls(input, None, "constant", None, what)
        kind, origin = value.kind, value._origin
        name = value.name or next((name for name, one in variables.items() if one is value), None)
        return cls(
            input, None if origin is None else record_id(origin), "outside" if kind == "op" else kind, name, what
        )


def number_of(error: BaseException, new: bool = False) -> int:
    """The number of an error that was raised in a graph, 0 if it was not; with ``new`` it gets one if it has none.

    Its message may change on the way out of the modules that it leaves.
    """
    known = error.__dict__
    if new and _NUMBER not in known:
        known[_NUMBER] = next_seq()
    return int(known.get(_NUMBER, 0))


_NUMBER = "_nbgrad_number"


class Failure(NamedTuple):
    """Where the user's code stopped: an op that raised, or a rule of it. It holds neither the error nor a tensor.

    Attributes:
        op: the name of the op.
        message: the error's.
        id: of the record whose backward raised, or whose result was refused; None if the op itself raised.
        operands: what the op was given; empty for a backward.
        scope, place: where it ran.
        frame: what the backward had done by then.
        seq: the number of the error, by which it is known again; ops with a larger one ran after it.
    """

    op: str
    message: str
    id: int | None
    operands: tuple[Operand, ...]
    scope: Scope | None
    place: Place | None
    frame: Frame | None = None
    seq: int = 0

    @property
    def ids(self) -> list[int]:
        """The records of the op and its operands: nobody else may hold on to what they stand for."""
        own = None if self.frame is not None else self.id
        return [id for id in (own, *[operand.id for operand in self.operands]) if id is not None]


class Record:
    """A node of the graph: an op with the tensor it made, or a tensor that no op in the graph made.

    Two records are equal if they are of the same thing in the same graph.

    Attributes:
        id: a number that stays its own, unlike an index of rustworkx, which is given again after a removal.
        kind: "op", "parameter", "leaf" (needs a gradient), "constant", or "outside" (an op that ran before the graph
            was opened).
        shape, dtype, device: of the tensor.
        op: the row of the table; None for a tensor that no op made.
        settings: what the op was called with besides its inputs; a ``Described`` stands for a tensor.
        scope: the module call or ``nbgrad.scope`` that it ran in.
        place: the user's line that ran it.
    """

    __slots__ = (
        *("_name", "_notes", "_sources", "_thing"),
        *("device", "dtype", "id", "kind", "op", "place", "scope", "settings", "shape"),
    )

    def __init__(
        self,
        id: int,
        kind: str,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        notes: Notes,
        op: OpInfo | None = None,
        settings: dict[str, Any] | None = None,
        sources: tuple[Any, ...] = (),
        scope: Scope | None = None,
        place: Place | None = None,
        thing: "ref[Any] | None" = None,
        name: str | None = None,
    ) -> None:
        self.id = id
        self.kind = kind
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._notes = notes
        self.op = op
        self.settings: dict[str, Any] = {} if settings is None else settings
        self._sources = sources  # for each input an id or a Literal
        self.scope = scope
        self.place = place
        self._thing = thing  # the node of an op, or the tensor of a leaf
        self._name = name

    @property
    def name(self) -> str | None:
        """The parameter's name, the tensor's ``name``, or the variable that held it."""
        thing = self._thing() if self.op is None and self._thing is not None else None
        own = thing.name if isinstance(thing, TensorBase) else self._name  # a tensor of torch's has no name to give
        return own or self._notes.names.get(self.id)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of an op in order; empty for everything else."""
        notes, op = self._notes, self.op
        if op is None or not self._sources:
            return ()
        found = []
        for position, source in enumerate(self._sources):
            name, key = op.inputs[min(position, op.arity - 1)], (self.id, position)
            if isinstance(source, Literal):
                found.append(Input(name, None, source.value))
            elif key in notes.cut or source in notes.deleted:
                found.append(Input(name, None))
            else:
                frame = notes.frame
                if frame is None:
                    found.append(Input(name, source))
                    continue
                undone = frame.reductions.get(key)
                before = frame.unreduced_of(key) if undone is not None else None
                found.append(Input(name, source, None, frame.contribution_of(key), undone, before))
        return tuple(found)

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the records that the inputs came from, one per use; without their statistics."""
        notes = self._notes
        return tuple(
            source
            for position, source in enumerate(self._sources)
            if type(source) is int and source not in notes.deleted and (self.id, position) not in notes.cut
        )

    @property
    def file(self) -> str | None:
        """The file of the user's line that ran the op."""
        return self.place.file if self.place is not None else None

    @property
    def line(self) -> int | None:
        """The number of that line."""
        return self.place.line if self.place is not None else None

    @property
    def root(self) -> bool:
        """Whether the last backward started here."""
        return self.id in self._notes.roots

    @property
    def value(self) -> Stats | None:
        """The statistics of the tensor's values, where they are known.

        While the graph is open: of a leaf its values now, of a result those that the graph keeps, unless they were
        changed in place since. Once it is closed: what they were then.
        """
        if self._notes.settled is not None:
            return self._notes.settled.get(self.id)
        return None if (data := self.kept_value) is None else summarise(data)

    @property
    def kept_value(self) -> torch.Tensor | None:
        """The values themselves, while the graph is open: of a leaf those that it has now."""
        tensor = self._thing() if self.op is None and self._thing is not None else None
        if tensor is None:
            return self._notes.values.raw(self.id)
        return tensor.data if countable(tensor.data) else None

    @property
    def gradient(self) -> Stats | None:
        """The statistics of the gradient that the last backward brought here; None where it did not come by."""
        return self._notes.frame.gradient_of(self.id) if self._notes.frame is not None else None

    @property
    def kept_gradient(self) -> torch.Tensor | None:
        """The gradient itself, while the graph is open and keeps it."""
        frame = self._notes.frame
        return frame.raw_gradient(self.id) if isinstance(frame, FrameRecorder) else None

    @property
    def leaf(self) -> "ref[Any] | None":
        """A weak reference to the tensor, if no op made it."""
        return self._thing if self.op is None else None

    @property
    def alive(self) -> bool:
        """Whether the tensor, or something that was computed from it, still exists."""
        return self._thing is not None and self._thing() is not None

    def placed(self, scope: Scope | None) -> "Record":
        """The same record, drawn in ``scope``."""
        made = Record.__new__(Record)
        for slot in Record.__slots__:
            setattr(made, slot, getattr(self, slot))
        made.scope = scope
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and other.id == self.id and other._notes is self._notes

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        what = self.kind if self.op is None else self.op.name
        return f"<Record {self.id}: {what}{f' {self.name!r}' if self.name else ''} {tuple(self.shape)}>"


def described(value: Any) -> Any:
    """``value`` of a setting or a literal with a ``Described`` in the place of every tensor."""
    if isinstance(value, list | tuple):
        return tuple(described(part) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Described(tuple(value.shape), dtype_name(value.dtype))
    return value
