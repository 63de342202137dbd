"""``SavedFacts``: everything that a file says about a graph, except its picture.

What many records share stands once, in a table: ops, module calls, classes of modules, lines of code, findings. Numbers
stand in columns. A row of a table refers only to earlier rows, so nothing that is read can go in a circle.
"""

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.place import Place, shortened
from nbgrad.core.engine.scope import Kind, ModuleScope, told_scope
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph import saved_settings as settings
from nbgrad.core.graph.changes import Since
from nbgrad.core.graph.checkup import Check
from nbgrad.core.graph.compilation import Compilation
from nbgrad.core.graph.failure import Ending
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.history import History, HistoryFrame, HistoryRecord
from nbgrad.core.graph.kept_storages import KeptStorages
from nbgrad.core.graph.last_backward import Frame
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.optimizers import Update
from nbgrad.core.graph.record import Input, Record, TakenStatistics
from nbgrad.core.graph.saved_op import OpRow
from nbgrad.core.graph.saved_stats import Columns, StatsColumns, column, stats_of
from nbgrad.core.graph.slowest import Times
from nbgrad.core.graph.stats import Stats
from nbgrad.core.typed_json import Change, JsonForm, MismatchError, Unread


@dataclass(frozen=True, slots=True)
class SavedFacts:
    """The facts of a graph at the moment when it was saved; those that are not explained here are of ``AutogradGraph``.

    Attributes:
        records: those of its picture.
        compiled: those of them whose record of the graph is another: compiled ops, and the parameters in them.
        compilation: what torch's compiler did; None if the graph did not watch it.
        left_out: how many ops have no record here.
        notes: the sentences about the checkup itself.
        kept: the storages that the ops keep for a backward; None if they are not known.
        optimizer: the bytes that the optimizers hold.
        times: how long ops and leaves took, by id; empty without a clock.
    """

    name: str
    records: list[Record]
    compiled: list[Record]
    compilation: Compilation | None
    left_out: int
    backwards: int
    recorded: int
    watch: bool
    fault: str | None
    frame: Frame | None
    ending: Ending | None
    history: History
    losses: list[BackwardLoss]
    update: Update | None
    findings: list[Finding]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    kept: KeptStorages | None
    optimizer: int
    times: dict[int, Times]

    @property
    def recorded_ones(self) -> list[Record]:
        """The records of the graph: those of the picture without the ops inside of compiled graphs."""
        if self.compilation is None:
            return self.records
        inner, own = self.compilation.inner(), {record.id: record for record in self.compiled}
        return [own.get(record.id, record) for record in self.records if record.id not in inner]


class _RecordRow(NamedTuple):
    """A record in a file. Its inputs say which records it came from. ``memory`` is that of its sample."""

    id: int
    kind: Literal["op", "parameter", "leaf", "constant", "outside"]
    name: str | None
    op: OpInfo | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    settings: dict[str, Any]
    scope: Scope | None
    place: Place | None
    root: bool
    alive: bool
    earlier: str | None
    given_axis: bool
    full: str | None
    value: Stats | None
    gradient: Stats | None
    inputs: tuple[Input, ...]
    since: Since | None
    memory: bytes | None

    @classmethod
    def of(cls, record: Record) -> "_RecordRow":
        known = [getattr(record, name) for name in cls._fields if name != "memory"]
        return cls(*[*known, record.statistics.sample])

    def record(self, graph: object) -> Record:
        """The record again, of a graph that only ``graph`` identifies."""
        told = TakenStatistics(self.value, self.gradient, self.inputs, self.since, self.memory)
        own = {name: getattr(self, name) for name in _RecordRow._fields if name in Record._fields}
        sources = tuple([one.source for one in self.inputs])
        return Record(**own, parents=sources, leaf=None, graph=graph, statistics=told)


class _KindRow(NamedTuple):
    """The class of a module in a file."""

    name: str
    formula: str
    about: str
    ours: bool
    installed: bool


class _ScopeRow(NamedTuple):
    """A scope in a file; ``kind`` and ``parent`` are places in the tables, and None if there is none."""

    label: str
    parent: int | None
    kind: int | None


class _PlaceRow(NamedTuple):
    """A line of code in a file."""

    file: str
    line: int
    text: str
    function: str


class _FrameRow(NamedTuple):
    """The last backward in a file: its gradients stand at the records."""

    number: int
    roots: tuple[int, ...]


class _Look(NamedTuple):
    """A record of the history without its numbers: those of many backwards are equal."""

    kind: str
    op: str | None
    name: str | None
    shape: tuple[int, ...]
    scopes: tuple[str, ...]


class _HistoryRow(NamedTuple):
    """A frame of the history in a file; ``looks`` is a place in a table, and the numbers are a column."""

    number: int
    loss: float | None
    roots: tuple[int, ...]
    looks: int


_LINES = (1 << 31) - 2
"""The largest number of a line."""

DEPTH = 2_000
"""Scopes are nested at most so deep: to ask each of many ops for all scopes around it would take hours."""

_ELEMENTS = 1 << 56
"""A tensor with so many elements fits into no memory, and its bytes into no integer of 64 bits."""


class _Table:
    """Rows that others refer to. It holds what the rows are made of, so that an ``id()`` stays that of one object."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._places: dict[Hashable, int] = {}
        self._held: list[Any] = []

    def place(self, key: Hashable, thing: Any, row: Callable[[Any], Any]) -> int:
        """The place of the row of ``thing``, which has that key."""
        if key not in self._places:
            made = row(thing)  # first: it may add rows that this one refers to
            self._places[key] = len(self.rows)
            self.rows.append(made)
            self._held.append(thing)
        return self._places[key]


_TABLES = ("ops", "kinds", "scopes", "places", "findings", "looks")


def written(facts: SavedFacts) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts as JSON, and the columns of numbers that belong to them."""
    return _FactWriter().written(facts)


class _FactWriter:
    """Writes the facts of one graph."""

    def __init__(self) -> None:
        self._tables = {name: _Table() for name in _TABLES}
        self._stats = StatsColumns()
        self._columns: dict[str, Any] = {}
        self._memory: list[bytes] = []
        plain: dict[Any, Change] = {
            bytes: self._bytes, Stats: self._stats.place,
            OpInfo: self._op, Scope: self._scope, Place: self._place, Record: self._record,
            Finding: self._finding, History: self._history, Frame: self._frame, list[BackwardLoss]: self._losses,
            torch.dtype: dtype_name, torch.device: str, Any: settings.written,
        }  # fmt: skip
        self._form = JsonForm({hint: (write, _unread) for hint, write in plain.items()})

    def written(self, facts: SavedFacts) -> tuple[dict[str, Any], dict[str, Any]]:
        found = {"facts": self._form.written(facts, SavedFacts)}
        self._columns["memory.size"] = np.array([len(one) for one in self._memory], "<i8")
        self._columns["memory.raw"] = np.frombuffer(b"".join(self._memory), np.uint8)
        shapes, dtypes, columns = self._stats.columns()
        tables = {name: table.rows for name, table in self._tables.items()}
        found |= {"tables": {**tables, "shapes": shapes, "dtypes": dtypes}}
        return found, self._columns | {f"stats.{name}": column for name, column in columns.items()}

    def _bytes(self, memory: bytes) -> int:
        self._memory.append(memory)
        return len(self._memory) - 1

    def _row(self, table: str, key: Hashable, thing: Any, row: Callable[[Any], Any]) -> int:
        return self._tables[table].place(key, thing, row)

    def _record(self, record: Record) -> Any:
        return self._form.written(_RecordRow.of(record), _RecordRow)

    def _op(self, op: OpInfo) -> int:
        return self._row("ops", id(op), op, lambda one: self._form.written(OpRow.of(one), OpRow))

    def _place(self, place: Place) -> int:
        return self._row("places", place.instruction, place, self._place_row)

    def _place_row(self, place: Place) -> Any:
        """A file below the current folder is named from there: its place on this machine is nothing to others."""
        row = _PlaceRow(shortened(place.file), place.line, place.text, place.function)
        return self._form.written(row, _PlaceRow)

    def _scope(self, scope: Scope) -> int:
        return self._row("scopes", id(scope), scope, self._scope_row)

    def _scope_row(self, scope: Scope) -> Any:
        parent = None if scope.parent is None else self._scope(scope.parent)
        kind = self._kind(scope.kind) if isinstance(scope, ModuleScope) else None
        return self._form.written(_ScopeRow(scope.label, parent, kind), _ScopeRow)

    def _kind(self, kind: Kind) -> int:
        row = _KindRow(kind.name, kind.formula, kind.about, kind.ours, kind.installed)
        return self._row("kinds", id(kind), kind, lambda _: self._form.written(row, _KindRow))

    def _finding(self, finding: Finding) -> int:
        return self._row("findings", finding, finding, self._form.row_writer(Finding))

    def _frame(self, frame: Frame) -> Any:
        return self._form.written(_FrameRow(frame.number, frame.roots), _FrameRow)

    def _history(self, history: History) -> Any:
        rows = [self._form.written(self._history_row(frame), _HistoryRow) for frame in history]
        records = [record for frame in history for record in frame.records]
        for name in ("gradient", "weight", "update"):
            self._optional(f"history.{name}", [getattr(record, name) for record in records])
        return rows

    def _history_row(self, frame: HistoryFrame) -> _HistoryRow:
        looks = tuple([_Look(*[getattr(record, name) for name in _Look._fields]) for record in frame.records])
        place = self._row("looks", looks, looks, lambda found: self._form.written(found, tuple[_Look, ...]))
        return _HistoryRow(frame.number, frame.loss, frame.roots, place)

    def _losses(self, losses: list[BackwardLoss]) -> Any:
        self._optional("losses.value", [one.value for one in losses])
        self._columns["losses.place"] = np.array([self._place(one.place) for one in losses], "<i4")
        return len(losses)  # they are numbered from 1

    def _optional(self, name: str, numbers: list[float | None]) -> None:
        """A column of numbers, some of which are not known, and one that says which are."""
        self._columns[name] = np.array([0.0 if one is None else one for one in numbers], "<f8")
        self._columns[f"{name}.known"] = np.array([one is not None for one in numbers], "<u1")


def read(data: Any, columns: Columns) -> SavedFacts:
    """The facts that ``written`` wrote.

    Raises:
        MismatchError: they are not of the right types, or do not fit each other.
    """
    return _FactReader(columns).read(data)


class _FactReader:
    """Reads the facts of one graph. Its records are of a graph that only this object identifies."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._depths: list[int] = []  # of the scopes
        self._rows: dict[str, list[Any]] = {name: [] for name in (*_TABLES, "memory", "stats")}
        plain: dict[Any, Change] = {
            bytes: self._from("memory"), Stats: self._from("stats"),
            OpInfo: self._from("ops"), Scope: self._from("scopes"),
            Place: self._from("places"), Finding: self._from("findings"), Record: self._record,
            History: self._history, Frame: self._frame_row, list[BackwardLoss]: self._losses,
            torch.dtype: settings.dtype_of, torch.device: settings.device_of, Any: settings.read,
        }  # fmt: skip
        self._form = JsonForm({hint: (_unwritten, read) for hint, read in plain.items()})

    def read(self, data: Any) -> SavedFacts:
        parts = self._form.read(data, dict[str, Unread])
        if parts.keys() != {"facts", "tables"}:
            raise MismatchError("an object with facts and tables")
        self._read_tables(self._form.read(parts["tables"], dict[str, Unread]))
        facts: SavedFacts = self._form.read(parts["facts"], SavedFacts)
        _check_records(facts.records)
        if facts.kept is not None:
            _check_kept(facts.kept)
        if facts.compilation is not None:
            _check_compilation(facts.compilation, facts.compiled, facts.records)
            _check_records(facts.recorded_ones)
        frame = facts.frame and _filled(facts.frame, facts.recorded_ones)
        return replace(facts, frame=frame, ending=facts.ending and _shown(facts.ending, frame))

    def _read_tables(self, tables: dict[str, Any]) -> None:
        if tables.keys() != {*_TABLES, "shapes", "dtypes"}:
            raise MismatchError(f"an object with {', '.join(_TABLES)}, shapes and dtypes", "tables")
        shapes = self._form.read(tables["shapes"], list[tuple[int, ...]])
        self._rows["stats"] = stats_of(shapes, self._form.read(tables["dtypes"], list[str]), self._part("stats."))
        self._rows["memory"] = self._pieces()
        self._rows["ops"] = [row.op() for row in self._form.read(tables["ops"], list[OpRow])]
        self._rows["kinds"] = [
            Kind.told(row.name, row.formula, row.about, ours=row.ours, installed=row.installed)
            for row in self._form.read(tables["kinds"], list[_KindRow])
        ]
        self._rows["places"] = [_place(row) for row in self._form.read(tables["places"], list[_PlaceRow])]
        for row in self._form.read(tables["scopes"], list[_ScopeRow]):
            self._rows["scopes"].append(self._scope(row))
        read_finding = self._form.row_reader(Finding)
        for data in self._form.read(tables["findings"], list[Unread]):
            self._rows["findings"].append(read_finding(data))
        self._rows["looks"] = self._form.read(tables["looks"], list[tuple[_Look, ...]])

    def _from(self, table: str) -> Callable[[Any], Any]:
        """A function from a place in a table to what stands there."""

        def row(data: Any) -> Any:
            rows = self._rows[table]
            if type(data) is not int or not 0 <= data < len(rows):
                raise MismatchError(f"a place in the table of {table}")
            return rows[data]

        return row

    def _pieces(self) -> list[bytes]:
        """Pieces of memory, which stand one after another."""
        ends = list(accumulate(column(self._columns, "memory.size", "i"), initial=0))
        held = bytes(column(self._columns, "memory.raw", "u"))
        if ends != sorted(ends) or ends[-1] != len(held):
            raise MismatchError("pieces of memory that fit the column", "numbers")
        return [held[start:end] for start, end in pairwise(ends)]

    def _part(self, begin: str) -> Columns:
        return {name.removeprefix(begin): one for name, one in self._columns.items() if name.startswith(begin)}

    def _scope(self, row: _ScopeRow) -> Scope:
        parent = None if row.parent is None else self._from("scopes")(row.parent)
        self._depths.append(1 if row.parent is None else self._depths[row.parent] + 1)
        if self._depths[-1] > DEPTH:
            raise MismatchError("a scope around which fewer others are", "tables.scopes")
        if row.kind is None:
            return Scope(row.label, parent)
        return told_scope(row.label, self._from("kinds")(row.kind), parent)

    def _record(self, data: Any) -> Record:
        row: _RecordRow = self._form.read(data, _RecordRow)
        if (row.op is None) == (row.kind == "op"):
            raise MismatchError("a record with an op if, and only if, it is one")
        if row.memory is not None and not (row.memory and len(row.memory) % _bytes_of(row.dtype) == 0):
            raise MismatchError("a record with numbers of its own element type")
        return row.record(self)

    def _frame_row(self, data: Any) -> Frame:
        row: _FrameRow = self._form.read(data, _FrameRow)
        return Frame(row.number, row.roots)

    def _history(self, data: Any) -> History:
        numbers = zip(*[self._optional(f"history.{name}") for name in ("gradient", "weight", "update")], strict=True)
        found = []
        try:
            for row in self._form.read(data, list[_HistoryRow]):
                looks = self._from("looks")(row.looks)
                if not all(0 <= root < len(looks) for root in row.roots):
                    raise MismatchError("a backward that began at its own records")
                records = tuple([HistoryRecord(*look, *next(numbers)) for look in looks])
                found.append(HistoryFrame(row.number, row.loss, row.roots, records))
            if next(numbers, None) is not None:
                raise StopIteration
        except (StopIteration, ValueError) as error:
            raise MismatchError("as long as its columns of numbers", "history") from error
        return History(found)

    def _losses(self, data: Any) -> list[BackwardLoss]:
        values, places = self._optional("losses.value"), column(self._columns, "losses.place", "i")
        if not data == len(values) == len(places):
            raise MismatchError("as many as there are in their columns")
        known = [self._from("places")(place) for place in places]
        return [BackwardLoss(at, value, place) for at, (value, place) in enumerate(zip(values, known, strict=True), 1)]

    def _optional(self, name: str) -> list[float | None]:
        numbers, known = column(self._columns, name, "f"), column(self._columns, f"{name}.known", "u")
        if len(numbers) != len(known):
            raise MismatchError(f"a file with as many {name} as it says", "numbers")
        return [number if there else None for number, there in zip(numbers, known, strict=True)]


@cache
def _bytes_of(dtype: torch.dtype) -> int:
    """The bytes of a number whose sample can be read; more than any sample has for another element type."""
    try:
        torch.frombuffer(bytearray(dtype.itemsize), dtype=dtype).double()
    except (RuntimeError, ValueError):
        return sys.maxsize
    return dtype.itemsize


def _place(row: _PlaceRow) -> Place:
    if not 0 < row.line <= _LINES:
        raise MismatchError("the number of a line", "tables.places")
    try:
        return Place.at(row.file, row.line, row.text, row.function)
    except (ValueError, TypeError):  # such as a surrogate in the name of a file
        raise MismatchError("a line of code", "tables.places") from None


def _check_records(records: list[Record]) -> None:
    """Raise a MismatchError if two records have one id, or one was computed from a later one."""
    places = {record.id: place for place, record in enumerate(records)}
    if len(places) != len(records):
        raise MismatchError("records with ids of their own", "records")
    if any(places.get(source, -1) >= place for place, record in enumerate(records) for source in record.sources):
        raise MismatchError("records in an order that has sources before results", "records")
    if any(prod([max(size, 0) for size in record.shape]) >= _ELEMENTS for record in records):
        raise MismatchError("records of tensors that can exist", "records")
    undone = [one.reduction for record in records for one in record.inputs if one.reduction is not None]
    if not all(map(_is_sum, dict.fromkeys(undone))):
        raise MismatchError("reductions whose shapes fit", "records")


def _check_compilation(known: Compilation, compiled: list[Record], records: list[Record]) -> None:
    """Raise a MismatchError if a compiled graph has other ops than those of the picture."""
    ops = {record.id for record in records if record.kind in ("op", "constant")}
    inner = [id for one in known.graphs for id in one.ops]
    outer = [*known.earlier, *[one.id for one in known.graphs]]
    own = {record.id for record in compiled}
    if len({*inner}) != len(inner) or not {*inner, *outer} <= ops or not {*inner}.isdisjoint([*outer, *own]):
        raise MismatchError("compiled graphs with ops of the picture", "compilation")
    if min((*known.breaks.values(), *known.recompilations.values()), default=1) < 1 or known.traced < 0:
        raise MismatchError("numbers of what has happened", "compilation")


def _check_kept(kept: KeptStorages) -> None:
    """Raise a MismatchError if a value is in no storage, or an op keeps a storage that does not name it."""
    for id, values in kept.values.items():
        for value in values:
            known = value.storage is None or 0 <= value.storage < len(kept.storages)
            if not known or (value.storage is not None and id not in kept.storages[value.storage].keepers):
                raise MismatchError("storages that name the ops that keep them", "kept")
    if not all(one.keepers and one.size >= 0 for one in kept.storages):
        raise MismatchError("storages that name the ops that keep them", "kept")


def _is_sum(undone: Reduction) -> bool:
    """Whether a sum of these numbers over these dimensions has the target's shape, as one of an engine has."""
    source, target, dims = undone.source, undone.target, undone.dims
    if min((*source, *target), default=1) < 0 or not {*dims} <= {*range(len(source))} or len({*dims}) != len(dims):
        return False
    left = prod([size for dim, size in enumerate(source) if dim not in dims])
    return undone.terms == prod([source[dim] for dim in dims]) and prod(target) == left


def _filled(frame: Frame, records: list[Record]) -> Frame:
    """A backward with its gradients, which stand at the records."""
    inputs = {(record.id, at): taken for record in records for at, taken in enumerate(record.inputs)}
    return Frame(
        frame.number,
        frame.roots,
        {record.id: record.gradient for record in records if record.gradient is not None},
        {key: one.gradient for key, one in inputs.items() if one.gradient is not None},
        {key: one.reduction for key, one in inputs.items() if one.reduction is not None},
        {key: one.unreduced for key, one in inputs.items() if one.unreduced is not None},
    )


def _shown(ending: Ending, frame: Frame | None) -> Ending:
    """An ending whose failure, if a backward raised, has the backward that the graph shows."""
    failure = ending.failure
    if failure is None or failure.frame is None or frame is None or failure.frame.number != frame.number:
        return ending
    return ending._replace(failure=failure._replace(frame=frame))


def _unwritten(value: Any) -> Any:
    raise NotImplementedError(f"a form for reading writes nothing: {value!r}")


def _unread(data: Any) -> Any:
    raise NotImplementedError(f"a form for writing reads nothing: {data!r}")
