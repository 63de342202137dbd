"""The ranked list: each op and each tensor that learns with its numbers, by which a reader sorts the table.

It has the parts inside folded boxes, too: which parameter has the smallest gradient is asked of a whole model.
"""

from collections.abc import Callable, Mapping
from math import isnan, prod

from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.memory import byte_text
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted, duration, number
from nbgrad.widgets.description.loops import Iteration
from nbgrad.widgets.description.overlays import clock, times_of
from nbgrad.widgets.description.saved_values import Saved
from nbgrad.widgets.description.schema import Ranked, Ranking, RankingColumn, kind_of

MOST = 2000
"""Of more ops and tensors the list has those at both ends of each column."""

TELLING = ("gradient", "update")
"""The columns that say how large a gradient is."""

_RANKED = ("op", "parameter", "leaf")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def ranking(
    graph: AutogradGraph,
    records: list[Record],
    ids: Mapping[int, str],
    home: Callable[[Record], Scope | None],
    scope_id: Callable[[Scope | None], str | None],
    saved: Mapping[int, Saved],
) -> Ranking:
    """The list of ``records``, in their order.

    Args:
        graph: that they are of.
        records: all that the picture has.
        ids: the id of the node of each, by that of the record.
        home: the innermost scope in which a record is drawn.
        scope_id: the id of a scope.
        saved: what each op keeps for its backward, by the id of its record.
    """
    ranked = [record for record in records if record.kind in _RANKED]
    step, times = graph.update, times_of(graph)
    columns: list[tuple[str, str, dict[int, float], Callable[[float], str]]] = [
        (
            "gradient",
            translate("Gradient"),
            {one.id: one.gradient.norm for one in ranked if one.gradient is not None},
            lambda norm: translate("norm {norm}", norm=number(norm)),
        ),
        ("update", translate("Update to weight"), {} if step is None else dict(step.ratios), number),
        (
            "size",
            translate("Numbers"),
            {one.id: float(prod(one.shape)) for one in ranked},
            lambda size: f"{int(size):,}",
        ),
        ("time", _capital(clock(ranked)), {id: one.seconds for id, one in times.items()}, duration),
        ("forward", translate("Forward"), {id: one.forward for id, one in times.items() if one.forward}, duration),
        ("backward", translate("Backward"), {id: one.backward for id, one in times.items() if one.backward}, duration),
        (
            "saved",
            translate("Kept for the backward"),
            {id: float(one.size) for id, one in saved.items() if one.size},
            lambda size: byte_text(int(size)),
        ),
    ]
    orders = {key: _order(ranked, numbers) for key, _, numbers, _ in columns}
    kept = _ends(len(ranked), list(orders.values()))
    places = {at: place for place, at in enumerate(kept)}
    homes = [home(ranked[at]) for at in kept]
    paths = {scope: path_of(scope) for scope in {ranked[at].scope for at in kept}}
    rounds = {scope: _rounds(scope) for scope in set(homes)}
    return Ranking(
        columns=[
            RankingColumn(
                key=key,
                title=title,
                cells=[text(numbers[ranked[at].id]) if ranked[at].id in numbers else "" for at in kept],
                order=[places[at] for at in orders[key] if at in places],
            )
            for key, title, numbers, text in columns
            if orders[key]
        ],
        rows=[
            Ranked(
                node=ids[ranked[at].id],
                name=_name(ranked[at], paths[ranked[at].scope], rounds[around]),
                kind=kind_of(ranked[at].kind, ranked[at].name),
                scope=scope_id(around),
            )
            for at, around in zip(kept, homes, strict=True)
        ],
        parents=_parents(homes, scope_id),
        note=translate(
            "Of {ops} and tensors only those at the ends of the columns are listed.", ops=counted(len(ranked), "op")
        )
        if len(kept) < len(ranked)
        else "",
    )


def _order(ranked: list[Record], numbers: Mapping[int, float]) -> list[int]:
    """The places of the records that have a number, the largest first; one that is not a number before all others."""
    having = [at for at, record in enumerate(ranked) if record.id in numbers]
    return sorted(having, key=lambda at: (not isnan(value := numbers[ranked[at].id]), -value))


def _ends(count: int, orders: list[list[int]]) -> list[int]:
    """The places that the list has: all, or as many from both ends of each order."""
    if count <= MOST:
        return list(range(count))
    some = max(1, MOST // (2 * len([one for one in orders if one])))
    return sorted({at for order in orders for at in (*order[:some], *order[-some:])})


def _name(record: Record, path: str, rounds: list[str]) -> str:
    """The name with the path of the module; of an op of a loop also the numbers of the iterations around it."""
    if record.op is None:
        return record.full_name or record.kind
    title = f"{record.name} = {record.op.name}" if record.name else record.op.name
    return ", ".join([": ".join(filter(None, [path, title])), *rounds])


def _rounds(home: Scope | None) -> list[str]:
    """The numbers of the iterations around an op, outermost first."""
    iterations = [one for one in outwards(home) if isinstance(one, Iteration)]
    return [translate("iteration {number:,}", number=one.number) for one in reversed(iterations)]


def _parents(homes: list[Scope | None], scope_id: Callable[[Scope | None], str | None]) -> dict[str, str]:
    """The scope around each scope that is among ``homes`` or around one of them."""
    parents: dict[str, str] = {}
    for home in homes:
        for one in outwards(home):
            inner, outer = scope_id(one), scope_id(one.parent)
            if inner is None or outer is None or inner in parents:
                break
            parents[inner] = outer
    return parents
