"""``Slowest``: what took the time of a program, by op, module or line, as a table."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.columns import columns
from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.record import Record

By = Literal["call", "op", "module", "line"]

_SHOWN = 20
"""How many rows are printed; the others are told in one line."""

_WIDEST = 70
"""The number of letters of a line of code that are printed."""


class Times(NamedTuple):
    """How long an op or a leaf took, in seconds.

    Attributes:
        forward: from its call until it was recorded; None of a ``Function`` of the user's, and of a leaf.
        backward: in the last backward: all its rules, with the sums that undid broadcasts; of an op of torch's all its
            nodes; of a leaf the node that fills its ``.grad``. None if that did not reach it.
    """

    forward: float | None
    backward: float | None

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return (self.forward or 0.0) + (self.backward or 0.0)


@dataclass
class Spent:
    """The time of one call, or of all with the same op, module or line.

    Attributes:
        op: the name of the op, or the kind of tensor; empty for a module or a line with several ops.
        name: the user's name of the tensor; empty if it has none, and for a sum of several.
        module: the path of the module, "layers.0"; "" outside of modules, and for the model itself.
        line: the user's line that ran it; empty if it is not known, or not one line.
        calls: how many ops and leaves are counted.
        forward, backward: their time, in seconds.
        share: of the time of all, from 0 to 1.
    """

    op: str
    name: str
    module: str
    line: str
    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0
    share: float = 0.0

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


class Slowest:
    """Rows of ``Spent``, the slowest first.

    Attributes:
        by: what a row is.
        rows: all of them.
        forward, backward: the time of all ops and leaves, each counted once, in seconds.
    """

    def __init__(self, by: By, rows: list[Spent], forward: float, backward: float) -> None:
        self.by, self.rows, self.forward, self.backward = by, rows, forward, backward

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Spent]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> Spent:
        return self.rows[at]

    def __repr__(self) -> str:
        return "\n".join(self.table(_SHOWN))

    def table(self, most: int) -> list[str]:
        """The lines of the table, which has at most ``most`` rows."""
        kept = {"call": ("op", "module", "line"), "op": ("op",), "module": ("module",), "line": ("line",)}[self.by]
        head = [*kept, *([] if self.by == "call" else ["calls"]), "forward", "backward", "share"]
        table = [head]
        for row in self.rows[:most]:
            outside = "(model)" if self.by == "module" else "-"
            op = f"{row.op} {row.name}".strip()
            words = {"op": op, "module": row.module or outside, "line": _cut(row.line) or "-"}
            calls = [] if self.by == "call" else [f"{row.calls:,}"]
            numbers = [time_text(row.forward), time_text(row.backward), f"{row.share:.1%}"]
            table.append([*(words[column] for column in kept), *calls, *numbers])
        lines = columns(table, left=range(len(kept)))
        rest = self.rows[most:]
        if rest:
            lines.append(f"... {len(rest):,} more")
        total = f"all: {time_text(self.forward)} forward, {time_text(self.backward)} backward"
        rule = "-" * max(map(len, lines))
        return [lines[0], rule, *lines[1:], rule, total]


def slowest(records: list[Record], times: dict[int, Times], by: By) -> Slowest:
    """The table of ``records``, with their ``times`` by id."""
    if by not in get_args(By):
        raise ValueError(f"by={by!r}: choose one of {', '.join(get_args(By))}")
    rows: dict[object, Spent] = {}
    ids: defaultdict[object, set[int]] = defaultdict(set)
    for record in records:
        if record.id in times:
            for key, row in _rows(record, by):
                rows.setdefault(key, row)
                ids[key].add(record.id)
    timed = {record.id: times[record.id] for record in records if record.id in times}
    forward = sum(one.forward or 0.0 for one in timed.values())
    backward = sum(one.backward or 0.0 for one in timed.values())
    for key, row in rows.items():
        row.calls = len(ids[key])
        row.forward = sum(timed[id].forward or 0.0 for id in ids[key])
        row.backward = sum(timed[id].backward or 0.0 for id in ids[key])
        row.share = row.seconds / (forward + backward or 1.0)
    return Slowest(by, sorted(rows.values(), key=lambda row: -row.seconds), forward, backward)


def _rows(record: Record, by: By) -> Iterator[tuple[object, Spent]]:
    """The rows that ``record`` counts for, each with what identifies it."""
    line = "" if record.place is None else str(record.place)
    if by == "call":
        yield record.id, Spent(record.kind_or_op, record.full_name or "", path_of(record.scope), line)
    elif by == "op":
        yield record.kind_or_op, Spent(record.kind_or_op, "", "", "")
    elif by == "line":
        yield line, Spent("", "", "", line)
    else:
        inside = [scope for scope in outwards(record.scope) if isinstance(scope, ModuleScope)]
        for scope in inside:
            yield path_of(scope), Spent("", "", path_of(scope), "")


def _cut(line: str) -> str:
    """A line of the table; a longer one ends with an ellipsis."""
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}…"


def time_text(seconds: float) -> str:
    """A time: 12.3 µs, 4.56 ms, 1.2 s; "-" for none."""
    if not seconds:
        return "-"
    unit, size = next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if seconds >= size), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"
