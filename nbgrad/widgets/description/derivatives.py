"""Derivatives: the ops that a backward with ``create_graph=True`` ran, as in the loss of a differential equation."""

from bisect import bisect
from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from nbgrad.core.graph.cut_paths import Derivation
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.grouping import Group, grouped
from nbgrad.widgets.description.schema import Description

_LEAST = 4
"""Fewer ops are no box: their names say as much."""


class _BackwardOps(NamedTuple):
    """Ops that one backward ran, one after the other. Torch tells no line for them.

    Attributes:
        ops: their records.
        order: 1 for a derivative, 2 for a derivative of a derivative.
    """

    ops: list[Record]
    order: int


def derived(
    description: Description,
    records: list[Record],
    ids: dict[int, str],
    derivations: list[Derivation],
    names: Mapping[int, str],
    *,
    told: bool,
) -> Description:
    """The description with a scope for the ops of each backward whose gradients can be differentiated.

    Args:
        description: of a whole graph.
        records: what it describes.
        ids: the node of each record.
        derivations: the backwards.
        names: of tensors, by their ids: a loss may take the derivatives of a result, and not the result.
        told: whether the boxes of scopes say how many bytes they keep.
    """
    by_id = {record.id: record for record in records}
    known = [one for one in derivations if any(id in by_id for some in (one.asked, *one.roots) for id in some)]
    if not known:
        return description
    told_names = {**{record.id: record.kind_or_op for record in records}, **names}
    told_names.update((record.id, record.name) for record in records if record.name)
    rows = _rows(records, known)
    orders = _Orders(rows, by_id)
    scopes = {node["id"]: node["scope"] for node in description["nodes"]}
    groups: list[Group] = []
    for row in rows:
        nodes = [ids[record.id] for record in row.ops]
        parent = scopes[nodes[0]]
        if len(nodes) >= _LEAST and all(scopes[node] == parent for node in nodes):
            result = next((names[one] for one in orders.after(row) if one in names), None)
            label = _label(row, [one for one in known if _may_be(one, row, orders)], told_names, result)
            groups.append(Group("derivative", label, counted(len(nodes), "op"), parent, [], nodes))
    return grouped(description, groups, told=told)


def _rows(records: list[Record], known: list[Derivation]) -> list[_BackwardOps]:
    """The rows of ops that were run by the lines of these backwards, or by no line that is known.

    Torch's ops are recorded when their result is used. If that is for another backward, its roots come in between.
    """
    instructions = {one.place.instruction for one in known}
    roots = sorted(made[0] for one in known for made in one.roots)
    orders: dict[int, int] = {}
    found: list[_BackwardOps] = []
    ops = [record for record in records if record.op is not None]
    made = {record.id for record in ops}
    for (instruction, _), some in groupby(
        ops, key=lambda one: (None if one.place is None else one.place.instruction, bisect(roots, one.id))
    ):
        if instruction is None or instruction in instructions:
            row = list(some)
            order = 1 + max([orders.get(source, 0) for record in row for source in record.sources], default=0)
            # A result of tensors alone, such as a transposed weight, may serve several derivatives.
            orders.update((record.id, order) for record in row if not made.isdisjoint(record.sources))
            found.append(_BackwardOps(row, order))
    return found


class _Orders:
    """The orders of results: 0 for one of the forward.

    Args:
        rows: of backwards.
        by_id: all records. They may leave out the derivative itself: the next backward needs only what it was made of.
    """

    def __init__(self, rows: list[_BackwardOps], by_id: Mapping[int, Record]) -> None:
        self._orders = {record.id: row.order for row in rows for record in row.ops}
        self._ids = sorted(by_id)

    def of(self, made: tuple[int, ...]) -> int:
        """The order of a root of a backward, and of what it was made of, which follows what they were made of."""
        before = bisect(self._ids, min(made) - 1)
        near = self._ids[before - 1 : before] if made[0] not in self._ids else []
        return max([self._orders.get(one, 0) for one in (*made, *near)])

    def after(self, row: _BackwardOps) -> range:
        """The ids of the results between a row and the next record."""
        at = bisect(self._ids, row.ops[-1].id)
        return range(row.ops[-1].id, self._ids[at] if at < len(self._ids) else row.ops[-1].id)


def _may_be(derivation: Derivation, row: _BackwardOps, orders: _Orders) -> bool:
    """Whether a backward may have run these ops: by their line, else by the order of the derivative."""
    place = row.ops[0].place
    if place is not None:
        return place.same(derivation.place)
    return row.order == 1 + max([orders.of(made) for made in derivation.roots], default=0)


def _label(row: _BackwardOps, which: list[Derivation], names: Mapping[int, str], result: str | None) -> str:
    """A derivative with the names of the user, as in ∂u/∂x. One that may be one of several is named by its result."""
    told = dict.fromkeys([(_what(one, names), _by(one, names)) for one in which])
    if len(told) == 1:
        ((what, by),) = told
        return f"∂{what}/∂{by}" if by else translate("gradients of {what}", what=what)
    result = result or next((one.name for one in reversed(row.ops) if one.name), None)
    of = ", ".join(dict.fromkeys([what for what, _ in told]))
    label = translate("derivative of {of}", of=of) if of else "derivative"
    return f"{result} = {label}" if result else label


def _what(derivation: Derivation, names: Mapping[int, str]) -> str:
    return ", ".join(dict.fromkeys([_name(made, names) for made in derivation.roots]))


def _by(derivation: Derivation, names: Mapping[int, str]) -> str:
    return ", ".join(dict.fromkeys([names[one] for one in derivation.asked if one in names]))


def _name(made: tuple[int, ...], names: Mapping[int, str]) -> str:
    """The user's name of a tensor; of a nameless result of one tensor, such as its sum, the name of that."""
    return next((names[one] for one in made if one in names), "…")
