"""The text of a discrepancy: which op it is, how it is set on both sides, its lines, and by how much it differs."""

from collections.abc import Iterator
from typing import Any

from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.discrepancy import RESULT, Discrepancy
from nbgrad.core.graph.record import Record

NAMED = 4
"""So many ops are named in a line."""


def told(value: Any) -> str:
    """A setting as a line shows it."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def headline(one: Discrepancy, names: tuple[str, str]) -> str:
    """A line that says which op or tensor differs, and its settings."""
    if one.kind == "extra":
        mine, theirs = one.parts
        said = [f"{_names(ops)} only in {name}" for ops, name in ((mine, names[0]), (theirs, names[1])) if ops]
        return "; ".join(said) + (f", before {called(one.user)}" if one.user is not None else "")
    record = one.left if one.left is not None else one.right
    assert record is not None
    text = called(record)
    if one.left is not None and one.right is not None:
        mine, theirs = one.parts
        if len(mine) > 1 or len(theirs) > 1:
            text = f"{_names(mine) or called(one.left)} | {_names(theirs) or called(one.right)}"
        elif one.left.kind_or_op.rstrip("_") != one.right.kind_or_op.rstrip("_"):
            text = f"{text} | {called(one.right)}"
    if one.gradient is not None:
        text += f", gradient of {one.gradient}"
    said = [f"{name} {told(a)} | {told(b)}" for name, (a, b) in one.settings.items()]
    return ", ".join([text, *said])


def details(one: Discrepancy, names: tuple[str, str]) -> Iterator[str]:
    """The lines below the headline: where it is on both sides, and by how much it differs."""
    places = [_place(record) for record in (one.left, one.right)]
    width = max(map(len, names))
    if one.kind == "tensor" and one.user is not None:
        yield f"  first used by {called(one.user)}{at_line(one.user)}"
    else:
        for name, place in zip(names, places, strict=True):
            if place:
                yield f"  {name:<{width}}  {place}"
        if not any(places) and one.user is not None:
            yield f"  used by {called(one.user)}{at_line(one.user)}"
    why = {
        "op": "its inputs agree, its result differs" if one.gradient is None else "the gradient that it gets agrees",
        "tensor": "its numbers differ",
        "extra": "what goes in agrees, the result differs",
    }[one.kind]
    if one.gradient == RESULT:
        why = f"the gradient of its result differs by {one.distance}"
    elif one.distance is not None:
        why += f" by {one.distance}" if one.gradient is None else f", what it passes on differs by {one.distance}"
    elif one.left is not None and one.right is not None and one.left.shape != one.right.shape:
        why += f": shape {one.left.shape} | {one.right.shape}"
    yield f"  {why}{f'; {one.note}' if one.note else ''}"


def _names(records: tuple[Record, ...]) -> str:
    """The names of some ops."""
    if len(records) == 1:
        return called(records[0])
    said = [record.kind_or_op for record in records]
    return ", ".join(said) if len(said) <= 2 * NAMED else f"{', '.join(said[:NAMED])}, ..., {said[-1]}"


def called(record: Record) -> str:
    """The op or the tensor with its module."""
    path = path_of(record.scope)
    if record.op is None:
        return f"{record.kind} {record.full_name}" if record.full_name else f"{record.kind} of shape {record.shape}"
    return f"{record.what} in {path}" if path else record.what


def at_line(record: Record) -> str:
    place = _place(record)
    return f" at {place}" if place else ""


def _place(record: Record | None) -> str:
    return "" if record is None or record.place is None else str(record.place)
