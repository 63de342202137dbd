"""The backward as a walk: one step for each op whose rules ran, in the order in which they did.

The engine runs the rules of the op with the largest number first, and a record has the number of its op. So the steps
are the ops in the reverse order of the records, and no order needs to be stored.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, cached_property
from math import isfinite
from typing import Any, NamedTuple, Self

import torch

from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate
from nbgrad.widgets.description.broadcast_sums import whose_name
from nbgrad.widgets.description.changed_views import changed_views
from nbgrad.widgets.description.format import shape_text
from nbgrad.widgets.description.schema import Edge, Given, Node, Step
from nbgrad.widgets.description.tensor_summary import FEW, amount, numbers_text

_MOST = 12
"""With at most this many elements a gradient is written out in a step, where there is room for it."""

_ROUGH = 0.01
"""If only the norm of a large gradient was kept, it may be wrong by this fraction of itself."""


class Stop(NamedTuple):
    """A step of the walk through the drawn graph, with the texts written so far, and the data for its other texts.

    Attributes:
        step: with the nodes and edges that are drawn.
        node: whose rules ran first in it; it may be inside the node that is drawn.
        given: for each gradient that the step handed on: the node of the rule, and the edge, before edges are merged.
    """

    step: Step
    node: str
    given: list[tuple[str, str]]

    @classmethod
    def of(cls, node: Node, edges: list[Edge]) -> Self:
        """The stop of a node whose rules handed gradients on along ``edges``; its texts are not written yet."""
        given = [Given(edge=edge["id"], text="", came="", reduction=None, sum=None) for edge in edges]
        step = Step(node=node["id"], rules=[], title="", incoming="", given=given)
        return cls(step, node["id"], [(node["id"], edge["id"]) for edge in edges])

    @classmethod
    def of_written(cls, step: Step) -> Self:
        """The stop of a step with all its texts."""
        return cls(step, step["node"], [(step["node"], one["edge"]) for one in step["given"]])

    def along(self, edges: set[str]) -> "Stop":
        """The same stop with only those gradients that went along these ``edges``."""
        pairs = zip(self.step["given"], self.given, strict=True)
        kept = [(one, origin) for one, origin in pairs if one["edge"] in edges]
        return Stop({**self.step, "given": [one for one, _ in kept]}, self.node, [origin for _, origin in kept])

    def written(self, said: Callable[[str], dict[str, Any] | None]) -> Step:
        """The step with all its texts. ``said(node)`` gives those of ``StepContext.told``, or None to write nothing.

        A title that the step already has stays.
        """
        given: list[Given] = []
        for one, (node, edge) in zip(self.step["given"], self.given, strict=True):
            says = said(node)
            given.append(one if says is None else {**one, **says["given"][edge]})
        own = said(self.node)
        title = self.step["title"] or ("" if own is None else own["title"])
        rules = self.step["rules"] or ([] if own is None else own["rules"])
        incoming = self.step["incoming"] if own is None else own["incoming"]
        return {**self.step, "rules": rules, "title": title, "incoming": incoming, "given": given}


def handed_on(edges: list[Edge]) -> dict[str, list[Edge]]:
    """By the node of each op: the edges along which its rules handed a gradient on."""
    into: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge["gradient"] is not None:
            into[edge["target"]].append(edge)
    return into


def ran(node: Node) -> bool:
    """Whether a node is an op whose rules ran."""
    return node["kind"] == "op" and node["rule"] is not None


class StepContext:
    """The data from which the steps of a graph are written.

    Args:
        records: of the graph, in record order.
        ids: the node of each record.
        edges: in the order of their targets, and of the inputs of each.
    """

    def __init__(self, records: list[Record], ids: dict[int, str], edges: list[Edge]) -> None:
        self._records = records
        self._ids = ids
        self._edges = edges
        self._changed: dict[int, str | None] = {}  # a cache: each use asks, and an answer looks at all uses

    def told(self, record: Record) -> dict[str, Any]:
        """The text of the step of an op, and by edge the gradients that its rules passed on."""
        return {
            "rules": [self._counts[record.id], self._counts[record.id], len(self._counts)],
            "title": _title(record),
            "incoming": _incoming(record, self._came.get(record.id, [])),
            "given": {edge["id"]: self._given(edge) for edge in self._into.get(self._ids[record.id], [])},
        }

    def _given(self, edge: Edge) -> dict[str, Any]:
        source, due = self._record_of[edge["source"]], self._due[edge["source"]]
        whose = whose_name(edge["input"], source)
        came = self._along.get(edge["id"])
        changed = self.changed(source)
        alone = f"; {changed}" if changed is not None and due == 1 else ""
        told = f"{edge['gradient'] if came is None else _told(came)}{alone}"
        return {
            "text": translate(
                "to {edge}{more}: {told}", edge=edge["input"], more=f" ({whose})" if whose else "", told=told
            ),
            "came": told,
            "reduction": None if edge["reduction"] is None else edge["reduction"]["text"],
            "sum": _meeting(source, self._arrived.get(edge["id"], 1), due, changed),
        }

    @cached_property
    def changed_views(self) -> dict[int, Record]:
        """The results that an op changed in place, so that the gradient before it is not known: by id, this op."""
        return changed_views(self._records)

    def changed(self, record: Record) -> str | None:
        """The cause if the gradient differs from the sum of the edges, most often a hook; None if it is the sum."""
        if record.id not in self._changed:
            self._changed[record.id] = self._change(record)
        return self._changed[record.id]

    def _change(self, record: Record) -> str | None:
        total, came = record.gradient, self._came.get(record.id)
        if total is None or came is None or record.several or _is_sum(total, came, record.dtype):
            return None
        now = _amount(total)
        if record.root:
            return translate("together with the gradient with which the backward began here, it is {now}", now=now)
        return translate("a hook made {now} of it", now=now)

    @cached_property
    def _along(self) -> dict[str, Stats]:
        """The gradient along each edge."""
        made = {record.id for record in self._records}
        came = [taken.gradient for record in self._records for taken in record.inputs if taken.source in made]
        return {edge["id"]: one for edge, one in zip(self._edges, came, strict=True) if one is not None}

    @cached_property
    def _came(self) -> dict[int, list[Stats]]:
        """By record: the gradients that its uses gave it."""
        came: defaultdict[int, list[Stats]] = defaultdict(list)
        for record in self._records:
            for taken in record.inputs:
                if taken.source is not None and taken.gradient is not None:
                    came[taken.source].append(taken.gradient)
        return came

    @cached_property
    def _record_of(self) -> dict[str, Record]:
        return {self._ids[record.id]: record for record in self._records}

    @cached_property
    def _counts(self) -> dict[int, int]:
        """Which step each op is, from 1."""
        through = [
            record.id for record in reversed(self._records) if record.kind == "op" and record.gradient is not None
        ]
        return {id: count for count, id in enumerate(through, 1)}

    @cached_property
    def _into(self) -> dict[str, list[Edge]]:
        return handed_on(self._edges)

    @cached_property
    def _due(self) -> Counter[str]:
        """How many gradients come to each node."""
        return Counter([edge["source"] for edge in self._edges if edge["gradient"] is not None])

    @cached_property
    def _arrived(self) -> dict[str, int]:
        """For each edge to a node that gets several gradients: the number, from 1, of the one that came along it."""
        arrived = {node: 0 for node, due in self._due.items() if due > 1}
        places: dict[str, int] = {}
        for id in self._counts if arrived else ():
            for edge in self._into.get(self._ids[id], ()):
                if (node := edge["source"]) in arrived:
                    places[edge["id"]] = arrived[node] = arrived[node] + 1
        return places


def _title(record: Record) -> str:
    op = record.op.name if record.op is not None else ""
    line = translate(", line {line}", line=record.line) if record.line is not None else ""
    cell = translate(" of {earlier}", earlier=record.earlier) if line and record.earlier is not None else ""
    return translate("the rule of {op}{line}{cell}", op=op, line=line, cell=cell)


def _incoming(record: Record, came: list[Stats]) -> str:
    assert record.gradient is not None
    if record.several and came and not record.root:
        more = translate("; and {count:,} more", count=len(came) - FEW) if len(came) > FEW else ""
        return translate(
            "of its results, by their uses: {names}{more}", names="; ".join(map(_told, came[:FEW])), more=more
        )
    text = _told(record.gradient)
    return translate("{text}: the backward starts here", text=text) if record.root else text


def _told(gradient: Stats) -> str:
    return f"{shape_text(gradient.shape)}, {_amount(gradient)}"


def _amount(gradient: Stats) -> str:
    """The numbers of a small gradient, in their rows; the norm of any other gradient."""
    values = gradient.array
    if values is None or values.ndim < 2 or not 1 < values.size <= _MOST:
        return amount(gradient, _MOST)
    return numbers_text(gradient)


_eps = cache(lambda dtype: torch.finfo(dtype).eps)


def _is_sum(total: Stats, came: list[Stats], dtype: torch.dtype) -> bool:
    """Whether a gradient can be the sum of the gradients along the edges, from the facts about all of them.

    The mean of a sum is the sum of the means, and its norm is at most the sum of the norms. If only one gradient came,
    all facts have to be equal.
    """
    reach = sum(one.norm for one in came)
    if not (isfinite(reach) and isfinite(total.norm)):
        return True  # there is no telling
    whole = all(one.mean is not None for one in (total, *came))  # else a norm may be the only fact, computed in float32
    near = (4 * len(came) * _eps(dtype) if whole else _ROUGH) * reach
    if total.norm > reach + near:
        return False
    if len(came) == 1:
        (one,) = came
        if one is total:  # the same object: this gradient was kept once
            return True
        pairs = [(one.norm, total.norm), (one.low, total.low), (one.high, total.high), (one.mean, total.mean)]
    else:
        means = [one.mean for one in came if one.mean is not None and not one.magnitudes]
        pairs = [(sum(means) if len(means) == len(came) else None, total.mean)]
    return all(before is None or after is None or abs(before - after) <= near for before, after in pairs)


def _meeting(source: Record, arrived: int, due: int, changed: str | None) -> str | None:
    """The text for the arrival of one more gradient at a tensor with several uses."""
    if due < 2:
        return None
    if source.several:
        return translate("use {arrived} of {due} of its results: ", arrived=arrived, due=due) + (
            translate("kept until the others arrive") if arrived < due else translate("all have arrived")
        )
    if arrived < due:
        return translate(
            "path {arrived} of {due} that meet here: kept until the others arrive", arrived=arrived, due=due
        )
    if changed is not None:
        return translate(
            "path {arrived} of {due}: all have arrived and are added; {changed}",
            arrived=arrived,
            due=due,
            changed=changed,
        )
    total = source.gradient
    text = translate("; the sum is {amount}", amount=_amount(total)) if total is not None else ""
    return translate(
        "path {arrived} of {due}: all have arrived and are added{text}", arrived=arrived, due=due, text=text
    )
