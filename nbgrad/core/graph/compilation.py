"""The work of torch's compiler while a graph recorded: the graphs that it traced, their ops as records, the breaks.

A compiled graph runs as one op, so a graph has one record of it. ``expanded`` puts the ops that the compiler traced
before it. They are records without value and gradient: the compiled program computes other steps, and these numbers
may never exist. What was measured stays at the record of the compiled op.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.scope import told_scope
from nbgrad.core.engine.state import Scope
from nbgrad.core.graph.record import Input, Record, TakenStatistics, described
from nbgrad.core.recorder.compiler import CompilerWatch, Recompilation
from nbgrad.core.recorder.functions import (
    COMPILED,
    PLAIN,
    Unlisted,
    called,
    settings_of,
    tensors_in,
    unlisted,
    with_several,
)
from nbgrad.core.recorder.traced_graph import (
    CompiledOp,
    GraphBreak,
    Length,
    TracedGraph,
    TracedInput,
    TracedModule,
    TracedOp,
    TracedValue,
    Words,
    path_in,
)


class CompiledGraph(NamedTuple):
    """A compiled graph that ran.

    Attributes:
        id: of the record of its op, ``CompiledFunction``.
        backend: the name of the backend that compiled it.
        ops: the ids of the records of the ops that the compiler traced: ``graph.inside(id)`` has the records.
        ended: the graph break at which it ends; None if it ends with its function.
    """

    id: int
    backend: str
    ops: tuple[int, ...]
    ended: GraphBreak | None


@dataclass(frozen=True, slots=True)
class Compilation:
    """The work of torch's compiler while a graph recorded.

    Attributes:
        traced: how many graphs it traced.
        graphs: the compiled graphs that are ops of the graph.
        earlier: the ids of the compiled ops whose graphs were traced before, so what is inside is not known.
        breaks: how often each graph break was met.
        recompilations: how often a function was compiled again, for each reason.
    """

    traced: int
    graphs: tuple[CompiledGraph, ...]
    earlier: tuple[int, ...]
    breaks: dict[GraphBreak, int]
    recompilations: dict[Recompilation, int]

    @classmethod
    def of(cls, watch: CompilerWatch, records: Sequence[Record]) -> "Compilation":
        """All that ``watch`` has met, and the compiled graphs among the ``records``."""
        taken = {record.id for record in records}
        graphs, earlier = list[CompiledGraph](), list[int]()
        for record in records:
            if isinstance(record.op, CompiledOp):
                traced = record.op.traced
                graphs.append(CompiledGraph(record.id, traced.backend, _inner_ids(record, taken), traced.ended))
            elif type(record.op) is Unlisted and record.op.name == COMPILED:
                earlier.append(record.id)
        return cls(
            watch.graphs, tuple(graphs), tuple(earlier), dict(watch.breaks.copy()), dict(watch.recompilations.copy())
        )

    def inner(self) -> frozenset[int]:
        """The ids of all ops inside of compiled graphs."""
        return frozenset([id for one in self.graphs for id in one.ops])

    def inside(self, id: int, drawn: Sequence[Record]) -> list[Record]:
        """The records among ``drawn`` of the ops inside of the compiled op ``id``.

        Raises:
            KeyError: it is none whose ops are known.
        """
        found = next((one for one in self.graphs if one.id == id), None)
        if found is None:
            raise KeyError(f"{id} is not the id of a compiled op whose ops are known")
        made = {record.id: record for record in drawn}
        return [made[inner] for inner in found.ops]


@muted
def expanded(records: Sequence[Record]) -> list[Record]:
    """The ``records``, with those of the ops in each compiled graph before that of the graph.

    The parameters that only one compiled graph uses are in the box of the op that uses them. A compiled op takes the
    results of the ops inside instead of its own inputs.
    """
    uses = Counter([source for record in records for source in set(record.sources)])
    made = {record.id: record for record in records}
    found, moved = list[Record](), dict[int, Record]()
    for record in records:
        if isinstance(record.op, CompiledOp) and record.op.traced.ops:
            inside = _CompiledCall(record, record.op.traced, made)
            found += [*inside.records(), inside.compiled()]
            moved |= {one.id: one for one in inside.moved() if uses[one.id] == 1}
        else:
            found.append(record)
    return [moved.get(record.id, record) for record in found]


def _inner_ids(record: Record, taken: "set[int] | dict[int, Record]") -> tuple[int, ...]:
    """The ids of the ops inside of a compiled one: the numbers right before its own, which were kept for them."""
    assert isinstance(record.op, CompiledOp)
    count = len(record.op.traced.ops)
    ids = range(record.id - count, record.id)
    if any(id in taken for id in ids):  # another thread has counted meanwhile
        ids = range(-(record.id << 20), count - (record.id << 20))
    return tuple(ids)


class _CompiledCall:
    """The records of the ops inside of one compiled op.

    Args:
        record: of the compiled op.
        traced: its graph.
        made: the records of the graph around it, by id.
    """

    def __init__(self, record: Record, traced: TracedGraph, made: dict[int, Record]) -> None:
        self._record, self._traced, self._made = record, traced, made
        self._ids = _inner_ids(record, made)
        self._count = len(traced.inputs)
        self._given: tuple[Input, ...] = record.inputs[: self._count]
        self._lengths = self._bound()
        self._frame = Scope(f"compiled by {traced.backend}", record.scope)
        self._scopes: dict[tuple[str, ...], Scope] = {}
        self._dummies: dict[int, torch.Tensor] = {}
        self._numbers: dict[int, int] = {}  # of the values, by Python's ``id()`` of their stand-ins
        self._bindings = [self._binding(op) for op in traced.ops]
        taken = [
            number for _, inputs, _ in self._bindings for one in inputs if (number := self._number(one)) is not None
        ]
        self._uses = Counter([*taken, *[one.number for one in traced.outputs]])

    def records(self) -> list[Record]:
        """The records, in the order of the trace."""
        return [
            self._inner(id, op, *binding)
            for id, op, binding in zip(self._ids, self._traced.ops, self._bindings, strict=True)
        ]

    def compiled(self) -> Record:
        """The record of the compiled op, which takes the results of the ops inside."""
        several = len(self._traced.outputs) > 1
        inputs = tuple(
            [
                self._input(f"result {at}" if several else "result", one.number)
                for at, one in enumerate(self._traced.outputs, 1)
            ]
        )
        own = self._record
        told = TakenStatistics(own.value, own.gradient, inputs, own.since, own.statistics.sample)
        return own._replace(parents=tuple([one.source for one in inputs]), statistics=told, scope=self._frame)

    def moved(self) -> list[Record]:
        """The records of its parameters and buffers, in the modules that use them."""
        homes: dict[int, set[Scope]] = {}
        for op, (_, inputs, _) in zip(self._traced.ops, self._bindings, strict=True):
            for one in inputs:
                if (number := self._number(one)) is not None and number < self._count:
                    homes.setdefault(number, set()).add(self._scope(op.modules))
        found = []
        for number, scopes in homes.items():
            path, record = self._traced.inputs[number].name, self._made.get(self._given[number].source or 0)
            if path and record is not None and record.kind != "op":
                home = next(iter(scopes)) if len(scopes) == 1 else self._frame
                name = path.rpartition(".")[2]
                found.append(record._replace(scope=home, name=name, full=record.full_name or path))
        return found

    def _inner(
        self, id: int, traced: TracedOp, op: OpInfo | None, inputs: tuple[Any, ...], settings: dict[str, Any]
    ) -> Record:
        taken = list[Input]()
        for position, value in enumerate(inputs):
            assert op is not None
            name = op.inputs[min(position, len(op.inputs) - 1)]
            number = self._number(value)
            literal = None if value is None else described(value)
            taken.append(Input(name, None, literal) if number is None else self._input(name, number))
        told = TakenStatistics(None, None, tuple(taken), None)
        return Record(
            id, "constant" if op is None else "op", None, op, self._shape(traced.shape), traced.dtype, traced.device,
            {name: described(value) for name, value in settings.items()}, tuple([one.source for one in taken]),
            self._scope(traced.modules), traced.place, False, True, None, self._record.graph, told,
        )  # fmt: skip

    def _input(self, name: str, number: int) -> Input:
        """An input that is the value ``number``. The gradient of an input of the graph is known if it has one use."""
        if number >= self._count:
            return Input(name, self._ids[number - self._count])
        own = self._given[number]
        if own.source is not None and self._uses[number] == 1:
            return own._replace(name=name)
        return Input(name, own.source, own.literal)

    def _number(self, value: Any) -> int | None:
        return self._numbers.get(id(value)) if isinstance(value, torch.Tensor) else None

    # Lengths, which the inputs of the call tell.

    def _bound(self) -> dict[Any, int]:
        """The lengths that differ from call to call, in this one."""
        bound: dict[Any, int] = {}
        for known, given in zip(self._traced.inputs, self._given, strict=True):
            if known.length is not None and isinstance(given.literal, int):
                bound[known.length] = given.literal
            source = self._made.get(given.source or 0)
            if known.shape is not None and source is not None and len(source.shape) == len(known.shape):
                bound |= {
                    length: size
                    for length, size in zip(known.shape, source.shape, strict=True)
                    if not isinstance(length, int)
                }
        return bound

    def _length(self, length: Any) -> int | None:
        """A length as a number; None if only the program knows it."""
        if isinstance(length, int):
            return length
        found = length.subs(self._lengths)
        return int(found) if not found.free_symbols and found.is_integer else None

    def _shape(self, shape: tuple[Any, ...]) -> tuple[int, ...]:
        return tuple([-1 if (found := self._length(one)) is None else found for one in shape])

    # Scopes.

    def _scope(self, modules: tuple[TracedModule, ...]) -> Scope:
        """The box of the innermost of these calls."""
        around, path = self._frame, ""
        for at, module in enumerate(modules):
            key = tuple([one.key for one in modules[: at + 1]])
            root, own = path_in(module.path)
            whole = f"{root}.{own}" if own else root
            inner = whole.removeprefix(f"{path}.") if at else own
            label = f"{inner} ({module.kind.name})" if inner and inner != path else module.kind.name
            if key not in self._scopes:
                self._scopes[key] = told_scope(label, module.kind, around)
            around, path = self._scopes[key], whole
        return around

    # The row of the table for a call, and its inputs.

    def _binding(self, traced: TracedOp) -> tuple[OpInfo | None, tuple[Any, ...], dict[str, Any]]:
        """The op of a call, its inputs, with a stand-in for each tensor, and its settings; no op for a constant."""
        if traced.function is None:
            return None, (), {}
        args, kwargs = self._filled(traced.args), self._filled(traced.kwargs)
        function = traced.function
        known = None if isinstance(function, str) else called(function)
        if known is not None and known.kind != PLAIN:
            op, inputs, settings = known.arguments(args, kwargs)
        else:
            name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
            inputs = tuple(tensors_in((args, kwargs)))
            op, settings = unlisted(name, max(1, len(inputs))), settings_of(name, args, kwargs)
        if traced.several and not op.several:
            op = with_several(op, max(1, len(inputs)))
        return op, inputs, settings

    def _filled(self, value: Any) -> Any:
        """An argument with a stand-in for each tensor."""
        if isinstance(value, slice):
            return slice(self._filled(value.start), self._filled(value.stop), self._filled(value.step))
        if isinstance(value, dict):
            return {name: self._filled(one) for name, one in value.items()}
        if type(value) in (tuple, list):
            return type(value)(map(self._filled, value))
        return self._dummy(value.number) if isinstance(value, TracedValue) else self._told(value)

    def _told(self, value: Any) -> Any:
        """An argument that is no tensor."""
        if isinstance(value, Length):
            found = self._length(value.expression)
            return str(value.expression) if found is None else found
        return value.text if isinstance(value, Words) else value

    def _dummy(self, number: int) -> torch.Tensor:
        """A tensor without numbers, which stands for a value wherever it is an argument."""
        if number not in self._dummies:
            shape, dtype = self._facts(number)
            self._dummies[number] = made = torch.empty([max(size, 0) for size in shape], dtype=dtype, device="meta")
            self._numbers[id(made)] = number
        return self._dummies[number]

    def _facts(self, number: int) -> tuple[tuple[int, ...], torch.dtype]:
        if number >= self._count:
            op = self._traced.ops[number - self._count]
            return self._shape(op.shape), op.dtype
        known: TracedInput = self._traced.inputs[number]
        source = self._made.get(self._given[number].source or 0)
        return self._shape(known.shape or ()), torch.float32 if source is None else source.dtype
