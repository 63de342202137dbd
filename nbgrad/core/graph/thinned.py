"""Of a very large graph only the first and the last ops: a record and a box of each op would take minutes."""

from typing import TypeVar

from nbgrad.core.graph.record import Record

KEPT = 100_000
"""Of more ops than this, a closed graph has records of the first ones and of the last ones, half of each."""

T = TypeVar("T")


def ends(parts: list[T], most: int) -> list[T]:
    """The first and the last of ``parts``, at most ``most`` together."""
    return parts if len(parts) <= most else [*parts[: most - most // 2], *parts[len(parts) - most // 2 :]]


def fewer(records: list[Record], most: int) -> tuple[list[Record], int]:
    """The first and the last ops of ``records`` with the tensors that they take, and how many ops are left out.

    Their inputs from ops that are left out have no source.
    """
    if len(records) <= most:
        return records, 0
    ops = [record.id for record in records if record.kind == "op"]
    kept = set(ends(ops, most))
    taken = {source for record in records if record.id in kept for source in record.parents}
    left = [one for one in records if one.id in (kept if one.kind == "op" else taken)]
    return whole(left), len(ops) - len(kept)


def whole(records: list[Record]) -> list[Record]:
    """The ``records``, in which an input whose source is not among them has none, as where an edge was cut."""
    known = {record.id for record in records}
    return [
        record
        if known.issuperset(record.sources)
        else record.without(
            set(),
            {(record.id, at) for at, source in enumerate(record.parents) if source is not None and source not in known},
        )
        for record in records
    ]
