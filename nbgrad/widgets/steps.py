"""The backward as a walk: one step for each op whose rules ran, in the order in which they did.

The walk of the engine takes the origin with the largest number first, and a record's number is that of its op: the
order of the steps is the reverse of the record's, without anybody having written it down.
"""

from collections import Counter

from nbgrad.widgets.description import Edge, Given, Step
from nbgrad.widgets.facts import Fact
from nbgrad.widgets.wording import number, shape_text


def steps(facts: list[Fact], ids: dict[int, str], edges: dict[tuple[int, int], Edge]) -> list[Step]:
    """What happened in the last backward, stop by stop.

    Args:
        facts: of the graph, in record order.
        ids: the node of each fact.
        edges: by id of the record and position of the input.
    """
    by_id = {fact.id: fact for fact in facts}
    due = Counter(edge["source"] for edge in edges.values() if edge["gradient"] is not None)
    arrived: Counter[str] = Counter()
    walk: list[Step] = []
    ran = [fact for fact in reversed(facts) if fact.kind == "op" and fact.gradient is not None]
    for count, fact in enumerate(ran, 1):
        given = []
        for position, taken in enumerate(fact.inputs):
            edge = edges.get((fact.id, position))
            if edge is None or edge["gradient"] is None or taken.source is None:
                continue
            arrived[edge["source"]] += 1
            source = by_id[taken.source]
            meeting = _meeting(source, arrived[edge["source"]], due[edge["source"]])
            given.append(
                Given(
                    edge=edge["id"],
                    text=f"to {taken.name}{_whose(source)}: {edge['gradient']}",
                    reduction=None if edge["reduction"] is None else edge["reduction"]["text"],
                    sum=meeting,
                )
            )
        walk.append(Step(node=ids[fact.id], title=_title(fact, count, len(ran)), incoming=_incoming(fact), given=given))
    return walk


def _title(fact: Fact, count: int, total: int) -> str:
    op = fact.op.name if fact.op is not None else ""
    line = f", line {fact.line}" if fact.line is not None else ""
    return f"Step {count:,} of {total:,}: the rule of {op}{line}"


def _incoming(fact: Fact) -> str:
    assert fact.gradient is not None
    text = f"{shape_text(fact.gradient.shape)}, norm {number(fact.gradient.norm)}"
    return f"{text}: the backward starts here" if fact.root else text


def _whose(source: Fact) -> str:
    what = source.name or (f"the result of {source.op.name}" if source.op is not None else "")
    return f" ({what})" if what else ""


def _meeting(source: Fact, arrived: int, due: int) -> str | None:
    """What the arrival of another gradient at a tensor with several uses means."""
    if due < 2:
        return None
    if arrived < due:
        return f"path {arrived} of {due} that meet here: kept until the others arrive"
    total = source.gradient
    text = f"; the sum has norm {number(total.norm)}" if total is not None else ""
    return f"path {arrived} of {due}: all have arrived and are added{text}"
