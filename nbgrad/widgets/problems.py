"""What a reader must know of: where a NaN begins, what no gradient reached, broadcasts that nobody meant."""

from typing import Any

import torch

from nbgrad.core import nonfinite
from nbgrad.core.frame import Stats
from nbgrad.core.graph import AutogradGraph
from nbgrad.core.record import Input, Record
from nbgrad.widgets.description import Edge, Problem

_MOST = 20


def problems(
    graph: AutogradGraph,
    records: list[Record],
    inputs: dict[int, tuple[Input, ...]],
    ids: dict[int, str],
    edges: list[Edge],
) -> list[Problem]:
    """Everything that is wrong, or probably not meant, with the node it is drawn at where there is one."""
    found = [*_beginnings(records, inputs, ids), *_unreached(graph, ids)]
    warned = dict.fromkeys(
        (edge["reduction"]["warning"], edge["target"])
        for edge in edges
        if edge["reduction"] is not None and edge["reduction"]["warning"]
    )
    found += [Problem(kind="warning", text=text, node=node) for text, node in warned if text]
    return found


def _bad(stats: Stats | None) -> str | None:
    if stats is None:
        return None
    return "NaN" if stats.nan else "Inf" if stats.inf else None


def _beginnings(records: list[Record], inputs: dict[int, tuple[Input, ...]], ids: dict[int, str]) -> list[Problem]:
    """The first values that are not finite, and the first gradients: not those that only pass them on."""
    values = {record.id: _bad(record.value) for record in records}
    made = {record.id: record for record in records}
    forward = []
    for record in records:
        bad = values[record.id]
        if bad and not any(values.get(source) for source in record.sources):
            text = f"{bad} begins here, in the forward of {_what(record)}{_cause(record, made, bad)}"
            forward.append(Problem(kind="nan", text=text, node=ids[record.id]))
    if forward:
        return forward
    for record in reversed(records):
        for taken in inputs[record.id]:
            bad = _bad(taken.gradient)
            if bad and not _bad(record.gradient):
                text = f"{bad} begins here, in the rule of {_what(record)} for {taken.name}"
                return [Problem(kind="nan", text=text, node=ids[record.id])]
    return []


def _cause(record: Record, made: dict[int, Record], bad: str) -> str:
    """Which numbers met in the first bad element, as far as they are known."""
    op, stats = record.op, record.value
    if op is None or stats is None or stats.values is None:
        return ""
    named: list[tuple[str, Any]] = []
    for taken in record.inputs:
        source = made.get(taken.source or 0)
        known = source.value if source is not None else None
        values = taken.literal if source is None else None if known is None else known.values
        name = (source.name if source is not None else None) or taken.name
        named.append((name, values if source is None or values is None else torch.tensor(values)))
    out = torch.tensor(stats.values)
    index = nonfinite.first(bad.lower(), out)
    found = list(nonfinite.operands(op, named, index, tuple(out.shape)))
    values = [value for _, value in named if value is not None]
    return f": {nonfinite.cause(op, bad.lower(), found, values, record.settings, record.dtype)}" if found else ""


def _what(record: Record) -> str:
    what = record.op.name if record.op is not None else record.kind
    return f"{what} ({record.name})" if record.name else what


def _unreached(graph: AutogradGraph, ids: dict[int, str]) -> list[Problem]:
    if not graph.backwards:
        return []
    missing = graph.unreached()
    found = [
        Problem(kind="unreached", text=f"No gradient reached {one}", node=ids.get(one.id or 0))
        for one in missing[:_MOST]
    ]
    if len(missing) > _MOST:
        left = f"and {len(missing) - _MOST:,} more that no gradient reached"
        found.append(Problem(kind="unreached", text=left, node=None))
    return found
