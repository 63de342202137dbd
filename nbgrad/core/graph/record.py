"""``Record``: the typed facts of one op or one tensor at one moment, without the tensor."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self
from weakref import ref

import numpy as np
import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import OpInfo, TensorBase, next_seq
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.torch_origins import TENSORS, kind_of
from nbgrad.core.graph.changes import Since
from nbgrad.core.graph.last_backward import Frame
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate


class Input(NamedTuple):
    """One input of an op: the id of the record its tensor came from, or the number that stood there.

    Both are None for an optional input that was left out, and where ``delete_node`` or ``delete_edge`` cut the edge.
    ``gradient`` is the result of the rule of this input in the last backward, ``reduction`` the sum that undid a
    broadcast, and ``unreduced`` the gradient before that sum, if it is small.
    """

    name: str
    source: int | None
    literal: Any = None
    gradient: Stats | None = None
    reduction: Reduction | None = None
    unreduced: Stats | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """Replaces a tensor, such as an index, in the settings of a record. It has a weak reference to the tensor."""

    shape: tuple[int, ...]
    dtype: str
    tensor: "ref[Any] | None" = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


class Statistics(Protocol):
    """The statistics of a record. Each answer is fixed once it was given."""

    @property
    def value(self) -> Stats | None:
        """As ``Record.value``."""

    @property
    def gradient(self) -> Stats | None:
        """As ``Record.gradient``."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """As ``Record.inputs``."""

    @property
    def since(self) -> Since | None:
        """As ``Record.since``."""

    @property
    def sample(self) -> bytes | None:
        """The memory of ``Record.sample``, in the element type of the record."""


class TakenStatistics(NamedTuple):
    """The statistics of a record that were taken with it."""

    value: Stats | None
    gradient: Stats | None
    inputs: tuple[Input, ...]
    since: Since | None
    sample: bytes | None = None


class Record(NamedTuple):
    """A node of the graph: an op with the tensor it made, or a tensor that no op in the graph made.

    It is a snapshot: later changes of its tensor, its graph or its name do not change it. It holds no tensor and no
    part of the graph. While the graph is open, the statistics of a record are computed when they are first read, and
    then stay the same: for 1,000 small ops they take 30 ms, and everything else takes 3 ms. ``AutogradGraph.snapshot``
    computes them at once. Two records are equal if they describe the same op or tensor of the same graph.

    Attributes:
        id: a number that no other record of the graph ever gets, unlike an index of rustworkx, which is reused after a
            removal.
        kind: "op", "parameter", "leaf" (needs a gradient), "constant", or "outside" (an op that ran before the graph
            was opened).
        name: the parameter's name, the tensor's ``name``, or the variable that held it.
        op: the row of the table; None for a tensor that no op made.
        shape, dtype, device: of the tensor.
        settings: the arguments of the op that are no inputs; a ``Described`` replaces a tensor.
        parents: for each input the id of the record that it came from; None for a number, and where the edge was cut.
        scope: the module call or ``nbgrad.scope`` that it ran in.
        place: the user's line that ran it.
        root: whether the last backward started here.
        alive: whether the tensor, or something that was computed from it, still existed.
        leaf: a weak reference to the tensor, if no op made it.
        graph: an object that only identifies the graph.
        statistics: the source of the properties ``value``, ``gradient``, ``inputs``, ``since`` and ``sample``.
        earlier: for an op that an earlier graph recorded, the cell or the name of that graph, as in "In [3]".
        given_axis: for a constant, whether it is (N, 1) because the user gave it an axis, as in ``x[:, None]``.
        full: the name of a tensor of a module with its path in the model; None for any other tensor.
    """

    id: int
    kind: str
    name: str | None
    op: OpInfo | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    settings: dict[str, Any]
    parents: tuple[int | None, ...]
    scope: Scope | None
    place: Place | None
    root: bool
    alive: bool
    leaf: "ref[Any] | None"
    graph: object
    statistics: Statistics
    earlier: str | None = None
    given_axis: bool = False
    full: str | None = None

    @property
    def full_name(self) -> str | None:
        """Its name outside of any frame of a module: ``layer1.0.conv1.weight`` for a parameter called ``weight``."""
        return self.full or self.name

    @property
    def value(self) -> Stats | None:
        """The statistics of the tensor's values, where they are known.

        For a leaf these are its present values; for a result, the values that the graph kept, unless they were changed
        in place.
        """
        return self.statistics.value

    @property
    def gradient(self) -> Stats | None:
        """The statistics of the gradient from the last backward; None if that backward did not reach it.

        Also None if it was not read while the graph was open and another backward has ended since.
        """
        return self.statistics.gradient

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of an op in order; empty for everything else. Their gradients are those of the same backward."""
        return self.statistics.inputs

    @property
    def since(self) -> Since | None:
        """The change of a leaf since the last backward; None if there was none."""
        return self.statistics.since

    @property
    def sample(self) -> "np.ndarray[Any, Any] | None":
        """64 numbers of a tensor as it was made, in float64; None where all are in ``value``, and outside of the CPU.

        Their positions in the flattened tensor only depend on how many numbers it has (``sample_of``). Of a tensor with
        at most 1,024 numbers, whose values had no room, they are the first ones.
        """
        memory = self.statistics.sample
        if memory is None:
            return None
        return torch.frombuffer(bytearray(memory), dtype=self.dtype).double().numpy()

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the records that the inputs came from, one per use. To read them computes no statistics."""
        return tuple([source for source in self.parents if source is not None])

    @property
    def file(self) -> str | None:
        """The file of the user's line that ran the op."""
        return self.place.file if self.place is not None else None

    @property
    def line(self) -> int | None:
        """The number of that line, from 1."""
        return self.place.line if self.place is not None else None

    @property
    def several(self) -> bool:
        """Whether its op has several results with gradients of their own, which share this record.

        The name and the value are those of the first result. The gradient is the norm of all their gradients together.
        """
        return self.op is not None and self.op.several

    @property
    def kind_or_op(self) -> str:
        """The name of the op that made it, or else the kind of tensor that it is."""
        return self.kind if self.op is None else self.op.name

    @property
    def what(self) -> str:
        """The op or the kind, with the user's name of the tensor."""
        return f"{self.kind_or_op} ({self.full_name})" if self.name else self.kind_or_op

    @property
    def run(self) -> str:
        """The op or the kind, with the user's name and the user's line that ran it."""
        if self.place is None:
            return self.kind_or_op
        where = place_text(self.place, self.earlier or "")
        return translate("{what} at {where}", what=self.kind_or_op, where=where)

    def without(self, deleted: set[int], cut: set[tuple[int, int]]) -> Self:
        """This record without sources that were ``deleted``, by id, and edges that were ``cut``, by position."""
        parents = kept(self.id, self.parents, deleted, cut)
        if parents == self.parents:
            return self
        inputs = tuple(
            [
                Input(one.name, None) if after is None and before is not None else one
                for one, before, after in zip(self.inputs, self.parents, parents, strict=True)
            ]
        )
        told = TakenStatistics(self.value, self.gradient, inputs, self.since, self.statistics.sample)
        return self._replace(parents=parents, statistics=told)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and other.id == self.id and other.graph is self.graph

    def __ne__(self, other: object) -> bool:
        return not self == other  # a tuple has one of its own

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Record {self.id}: {self.kind_or_op}{f' {self.name!r}' if self.name else ''} {self.shape}>"


def kept(
    id: int, parents: "tuple[int | None, ...]", deleted: set[int], cut: set[tuple[int, int]]
) -> tuple[int | None, ...]:
    """The ``parents`` of the record ``id``, with None where one was ``deleted`` or the edge was ``cut``."""
    return tuple(
        [None if source in deleted or (id, position) in cut else source for position, source in enumerate(parents)]
    )


class Operand(NamedTuple):
    """An input of an op that raised: the id of its record if it has one, and its description.

    ``kind`` is that of a record; ``name`` the tensor's own, or the user's variable; ``what`` its shape and type in
    words; ``shape`` that of a tensor.
    """

    input: str
    id: int | None
    kind: str
    name: str | None
    what: str
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(cls, input: str, value: Any, known: int | None, name: str | None) -> "Operand":
        """The facts of ``value``, a tensor of ours, of torch's, or anything else.

        Args:
            input: the name of the op's argument.
            value: the argument.
            known: the id of the record that it has.
            name: of a tensor: that of a variable, an attribute or a parameter.
        """
        told = described(value)
        what = f"{told.shape} {told.dtype}" if isinstance(told, Described) else repr(told)
        if not isinstance(value, TENSORS):
            return cls(input, None, "constant", None, what)
        kind = kind_of(value)
        found = (value.name if isinstance(value, TensorBase) else None) or name
        shape = tuple(value.shape)
        return cls(
            input, known, "outside" if kind == "op" else kind, None if found is None else str(found), what, shape
        )


def number_of(error: BaseException, new: bool = False) -> int:
    """The number of an error that was raised in a graph, 0 if it was not; with ``new`` it gets one if it has none.

    The number identifies the error, because its message may change on the way out of the modules that it leaves.
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
        message: the message of the error.
        id: of the record whose backward raised, or whose result was refused (``AnomalyError``); None if the op itself
            raised.
        operands: the arguments of the op; empty for a backward.
        scope, place: where it ran.
        frame: the backward up to the error.
        seq: the number that identifies the error; ops with a larger number ran after it.
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
        """The ids of the op and its operands: ids, because nothing may hold the op or the tensors."""
        own = None if self.frame is not None else self.id
        return [id for id in (own, *[operand.id for operand in self.operands]) if id is not None]


_HELD = (TensorBase, torch.Tensor, np.ndarray)


def described(value: Any) -> Any:
    """``value`` of a setting or a literal with a ``Described`` in the place of every tensor."""
    if isinstance(value, list | tuple):
        return tuple(described(part) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        held = ref(value) if isinstance(value, _HELD) else None
        return Described(tuple(value.shape), dtype_name(value.dtype), held)
    return value
