"""From a recorded graph to the plain description that every rendering draws."""

import linecache
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from latex2mathml.converter import convert

from nbgrad.core.contents import dtype_name
from nbgrad.core.frame import Stats
from nbgrad.core.graph import AutogradGraph
from nbgrad.core.modes import Scope as CoreScope
from nbgrad.core.record import Input, Record
from nbgrad.core.row import Op
from nbgrad.nn.scopes import ModuleScope
from nbgrad.widgets.description import Description, Detail, Edge, Formula, Node, Reduction, Scope

_SHOWN = 64
"""Values of tensors with at most this many elements are written out."""

_KINDS = {
    "parameter": "parameter, which training changes",
    "leaf": "tensor that needs a gradient",
    "constant": "constant: it needs no gradient",
    "outside": "computed before this graph was opened",
}


def describe(graph: AutogradGraph) -> Description:
    """The description of what ``graph`` recorded: after a backward, of what it ran through."""
    records = graph.records
    ids = {record.id: f"n{number}" for number, record in enumerate(records)}
    scopes = _Scopes()
    nodes = [_node(record, ids, scopes) for record in records]
    made = {record.id: record for record in records}
    taken = [(record, taken) for record in records for taken in record.inputs if taken.source in made]
    edges = [_edge(f"e{count}", record, taken, made, ids) for count, (record, taken) in enumerate(taken)]
    return Description(
        version=1,
        name=graph.name,
        summary=_summary(graph, records, edges),
        notes=_notes(graph, records),
        nodes=nodes,
        edges=edges,
        scopes=scopes.described,
    )


def number(value: float) -> str:
    """A number as every rendering writes it: four significant digits, the same on every machine."""
    return f"{value:.4g}"


def shape_text(shape: Iterable[int]) -> str:
    """A shape as Python writes it: (32, 10), (3,), ()."""
    return str(tuple(shape))


class _Scopes:
    """Gives each module call an id, outer before inner, when one of its ops is first met."""

    def __init__(self) -> None:
        self._ids: dict[CoreScope, str] = {}
        self.described: list[Scope] = []

    def id(self, scope: CoreScope | None) -> str | None:
        if scope is None:
            return None
        if scope not in self._ids:
            parent = self.id(scope.parent)
            self._ids[scope] = f"s{len(self._ids)}"
            self.described.append(Scope(id=self._ids[scope], label=scope.label, parent=parent))
        return self._ids[scope]


def _node(record: Record, ids: dict[int, str], scopes: _Scopes) -> Node:
    return Node(
        id=ids[record.id],
        kind=record.kind,  # type: ignore[typeddict-item]  # the record's kinds are the description's
        root=record.root,
        label=_label(record),
        scope=scopes.id(record.scope),
        details=list(_details(record)),
        formulas=_formulas(record.op) if record.op is not None and record.kind == "op" else [],
    )


def _label(record: Record) -> list[str]:
    title = record.name or record.kind
    if record.op is not None:
        title = f"{record.name} = {record.op.name}" if record.name else record.op.name
    lines = [title, f"{shape_text(record.shape)} {dtype_name(record.dtype)}"]
    if record.value is not None and record.shape == () and record.value.values is not None:
        lines.append(f"value {_scalar(record.value.values)}")
    if record.gradient is not None:
        lines.append(f"|grad| {number(record.gradient.norm)}")
    return lines


def _details(record: Record) -> list[Detail]:
    """What a click on the node shows, row by row; rows without a text are left out."""
    what, why = _doc(record.op) if record.op is not None else ("", "")
    rows: list[tuple[str, str | None]] = [
        ("name", record.name),
        ("op", f"{record.op.name}: {what}" if record.op is not None else None),
        ("why it is here", why),
        ("what", _KINDS.get(record.kind)),
        ("block", _block(record.scope)),
        ("shape", shape_text(record.shape)),
        ("dtype", f"{dtype_name(record.dtype)}, on {record.device}"),
        *((name, str(setting)) for name, setting in record.settings.items() if setting is not None),
        *((taken.name, f"the number {taken.literal}") for taken in record.inputs if taken.literal is not None),
        ("source", _source_line(record)),
        ("value", None if record.value is None else _stats(record.value)),
        ("gradient", None if record.gradient is None else _stats(record.gradient)),
    ]
    return [Detail(term=term, text=text) for term, text in rows if text]


def _block(scope: CoreScope | None) -> str | None:
    """What the module is in whose call the op ran."""
    return f"{scope.label}: {scope.about}" if isinstance(scope, ModuleScope) and scope.about else None


def _edge(id: str, record: Record, taken: Input, made: dict[int, Record], ids: dict[int, str]) -> Edge:
    assert taken.source is not None
    source = made[taken.source]
    undone = taken.reduction
    return Edge(
        id=id,
        source=ids[taken.source],
        target=ids[record.id],
        input=taken.name,
        label=f"{shape_text(source.shape)} {dtype_name(source.dtype)}",
        gradient=None
        if taken.gradient is None
        else f"{shape_text(taken.gradient.shape)} norm {number(taken.gradient.norm)}",
        reduction=None if undone is None else Reduction(text=str(undone), dims=list(undone.dims), terms=undone.terms),
    )


def _summary(graph: AutogradGraph, records: list[Record], edges: list[Edge]) -> str:
    ops = sum(record.kind == "op" for record in records)
    reductions = sum(edge["reduction"] is not None for edge in edges)
    parts = [_count(ops, "op"), _count(len(records) - ops, "tensor"), _count(reductions, "broadcast reduction")]
    roots = [
        record.name or (record.op.name if record.op is not None else record.kind) for record in records if record.root
    ]
    last = f", the last of {graph.backwards}" if graph.backwards > 1 else ""
    return ", ".join(parts) + (f"; backward from {', '.join(roots)}{last}" if roots else "")


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"


def _notes(graph: AutogradGraph, records: list[Record]) -> list[str]:
    if not records:
        return [
            "Nothing was recorded: no tensor here needs a gradient. "
            "Make one with nbgrad.tensor(..., requires_grad=True)."
        ]
    if graph.backwards == 0:
        return ["No backward ran here: call .backward() on a scalar to see gradients."]
    return []


def _scalar(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _stats(stats: Stats) -> str:
    if stats.shape == () and stats.values is not None:
        return _scalar(stats.values)
    parts = [f"norm {number(stats.norm)}"]
    if stats.low is not None and stats.high is not None and stats.mean is not None:
        parts[0] += f", mean {number(stats.mean)}"
        parts.append(f"min {number(stats.low)}, max {number(stats.high)}")
    parts += [f"{count} {what}" for count, what in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count]
    text = "\n".join(parts)
    values = None if stats.values is None else np.array(stats.values)
    if values is None or values.size == 0 or values.size > _SHOWN:
        return text
    with np.printoptions(precision=4, suppress=True, linewidth=72):
        return f"{values}\n{text}"


@cache
def _formulas(op: Op) -> list[Formula]:
    found = [_formula("", op.formula)]
    return found + [_formula(name, rule.formula) for name, rule in op.rules.items()]


def _formula(of: str, latex: str) -> Formula:
    return Formula(of=of, latex=latex, mathml=convert(latex))


def _doc(op: Op) -> tuple[str, str]:
    """What the op does and why it appears in networks: the first two paragraphs of its docstring."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in op.doc.split("\n\n")]
    why = paragraphs[1] if len(paragraphs) > 2 else ""
    return paragraphs[0], why


def _source_line(record: Record) -> str | None:
    if record.file is None or record.line is None:
        return None
    text = linecache.getline(record.file, record.line).strip()
    return f"line {record.line}: {text}" if text else None
