"""What a reader must know of: where a NaN begins, what no gradient reached, broadcasts that nobody meant."""

from typing import Any

import torch

from nbgrad.core import nonfinite
from nbgrad.core.graph import AutogradGraph
from nbgrad.core.stats import Stats
from nbgrad.widgets.description import Edge, Problem
from nbgrad.widgets.facts import Fact

_MOST = 20


def problems(graph: AutogradGraph, facts: list[Fact], ids: dict[int, str], edges: list[Edge]) -> list[Problem]:
    """Everything that is wrong, or probably not meant, with the node it is drawn at where there is one."""
    found = [*_beginnings(facts, ids), *_unreached(graph, ids)]
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


def _beginnings(facts: list[Fact], ids: dict[int, str]) -> list[Problem]:
    """The first values that are not finite, and the first gradients: not those that only pass them on."""
    values = {fact.id: _bad(fact.value) for fact in facts}
    made = {fact.id: fact for fact in facts}
    forward = []
    for fact in facts:
        bad = values[fact.id]
        if bad and not any(values.get(taken.source or 0) for taken in fact.inputs):
            text = f"{bad} begins here, in the forward of {_what(fact)}{_cause(fact, made, bad)}"
            forward.append(Problem(kind="nan", text=text, node=ids[fact.id]))
    if forward:
        return forward
    for fact in reversed(facts):
        for taken in fact.inputs:
            bad = _bad(taken.gradient)
            if bad and not _bad(fact.gradient):
                text = f"{bad} begins here, in the rule of {_what(fact)} for {taken.name}"
                return [Problem(kind="nan", text=text, node=ids[fact.id])]
    return []


def _cause(fact: Fact, made: dict[int, Fact], bad: str) -> str:
    """Which numbers met in the first bad element, as far as they are known."""
    op, stats = fact.op, fact.value
    if op is None or stats is None or stats.raw is None:
        return ""
    named: list[tuple[str, Any]] = []
    for taken in fact.inputs:
        source = made.get(taken.source or 0)
        known = source.value if source is not None else None
        values = taken.literal if source is None else None if known is None else known.values
        name = (source.name if source is not None else None) or taken.name
        named.append((name, values if source is None or values is None else torch.tensor(values)))
    out = torch.tensor(stats.values)
    index = nonfinite.first(bad.lower(), out)
    found = list(nonfinite.operands(op, named, index, tuple(out.shape)))
    values = [value for _, value in named if value is not None]
    return f": {nonfinite.cause(op, bad.lower(), found, values, fact.settings, fact.dtype)}" if found else ""


def _what(fact: Fact) -> str:
    what = fact.op.name if fact.op is not None else fact.kind
    return f"{what} ({fact.name})" if fact.name else what


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
