"""Derivatives: the ops that a backward with ``create_graph=True`` ran, as in the loss of a differential equation."""

from itertools import groupby
from typing import NamedTuple

from nbgrad.core.graph.cut_paths import Derivation
from nbgrad.core.graph.record import Record
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
    description: Description, records: list[Record], ids: dict[int, str], derivations: list[Derivation], *, told: bool
) -> Description:
    """The description with a scope for the ops of each backward whose gradients can be differentiated.

    Args:
        description: of a whole graph.
        records: what it describes.
        ids: the node of each record.
        derivations: the backwards.
        told: whether the boxes of scopes say how many bytes they keep.
    """
    by_id = {record.id: record for record in records}
    known = [one for one in derivations if any(root in by_id for made in one.roots for root in made)]
    if not known:
        return description
    rows = _rows(records, {one.place.instruction for one in known})
    orders = {record.id: row.order for row in rows for record in row.ops}
    scopes = {node["id"]: node["scope"] for node in description["nodes"]}
    groups: list[Group] = []
    for row in rows:
        nodes = [ids[record.id] for record in row.ops]
        parent = scopes[nodes[0]]
        if len(nodes) >= _LEAST and all(scopes[node] == parent for node in nodes):
            label = _label(row, [one for one in known if _may_be(one, row, orders)], by_id)
            groups.append(Group("derivative", label, counted(len(nodes), "op"), parent, [], nodes))
    return grouped(description, groups, told=told)


def _rows(records: list[Record], instructions: set[tuple[int, int]]) -> list[_BackwardOps]:
    """The rows of ops that were run by one of these instructions, or by none that is known."""
    orders: dict[int, int] = {}
    found: list[_BackwardOps] = []
    ops = [record for record in records if record.op is not None]
    made = {record.id for record in ops}
    for instruction, some in groupby(ops, key=lambda one: None if one.place is None else one.place.instruction):
        if instruction is None or instruction in instructions:
            row = list(some)
            order = 1 + max([orders.get(source, 0) for record in row for source in record.sources], default=0)
            # A result of tensors alone, such as a transposed weight, may serve several derivatives.
            orders.update((record.id, order) for record in row if not made.isdisjoint(record.sources))
            found.append(_BackwardOps(row, order))
    return found


def _may_be(derivation: Derivation, row: _BackwardOps, orders: dict[int, int]) -> bool:
    """Whether a backward may have run these ops: by their line, else by the order of the derivative."""
    place = row.ops[0].place
    if place is not None:
        return place.same(derivation.place)
    return row.order == 1 + max([orders.get(root, 0) for made in derivation.roots for root in made], default=0)


def _label(row: _BackwardOps, which: list[Derivation], by_id: dict[int, Record]) -> str:
    """A derivative with the names of the user, as in ∂u/∂x. One that may be one of several is named by its result."""
    told = dict.fromkeys([(_what(one, by_id), _by(one, by_id)) for one in which])
    if len(told) == 1:
        ((what, by),) = told
        return f"∂{what}/∂{by}" if by else f"gradients of {what}"
    result = next((record.name for record in reversed(row.ops) if record.name), None)
    of = ", ".join(dict.fromkeys([what for what, _ in told]))
    label = f"derivative of {of}" if of else "derivative"
    return f"{result} = {label}" if result else label


def _what(derivation: Derivation, by_id: dict[int, Record]) -> str:
    return ", ".join(dict.fromkeys([_name(made, by_id) for made in derivation.roots]))


def _by(derivation: Derivation, by_id: dict[int, Record]) -> str:
    return ", ".join(dict.fromkeys([_name((one,), by_id) for one in derivation.asked if one in by_id]))


def _name(made: tuple[int, ...], by_id: dict[int, Record]) -> str:
    """The user's name of a tensor; of a nameless result of one tensor, such as its sum, the name of that."""
    there = [by_id[one] for one in made if one in by_id]
    return next((one.name for one in there if one.name), there[0].kind_or_op if there else "…")
