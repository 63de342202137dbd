"""The text of a discrepancy: which op it is, how it is set on both sides, its lines, and by how much it differs."""

from collections.abc import Iterator
from typing import Any

from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.discrepancy import RESULT, Discrepancy
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate

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
        said = [
            translate("{names} only in {name}", names=_names(ops), name=name)
            for ops, name in ((mine, names[0]), (theirs, names[1]))
            if ops
        ]
        return "; ".join(said) + (translate(", before {user}", user=called(one.user)) if one.user is not None else "")
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
        text += translate(
            ", gradient of {gradient}", gradient=translate(RESULT) if one.gradient == RESULT else one.gradient
        )
    said = [f"{name} {told(a)} | {told(b)}" for name, (a, b) in one.settings.items()]
    return ", ".join([text, *said])


def details(one: Discrepancy, names: tuple[str, str]) -> Iterator[str]:
    """The lines below the headline: where it is on both sides, and by how much it differs."""
    places = [_place(record) for record in (one.left, one.right)]
    width = max(map(len, names))
    if one.kind == "tensor" and one.user is not None:
        yield translate("  first used by {user}{at_line}", user=called(one.user), at_line=at_line(one.user))
    else:
        for name, place in zip(names, places, strict=True):
            if place:
                yield f"  {name:<{width}}  {place}"
        if not any(places) and one.user is not None:
            yield translate("  used by {user}{at_line}", user=called(one.user), at_line=at_line(one.user))
    why = {
        "op": translate("its inputs agree, its result differs")
        if one.gradient is None
        else translate("the gradient that it gets agrees"),
        "tensor": translate("its numbers differ"),
        "extra": translate("what goes in agrees, the result differs"),
    }[one.kind]
    if one.gradient == RESULT:
        why = translate("the gradient of its result differs by {distance}", distance=one.distance)
    elif one.distance is not None:
        why += translate(
            " by {distance}" if one.gradient is None else ", what it passes on differs by {distance}",
            distance=one.distance,
        )
    elif one.left is not None and one.right is not None and one.left.shape != one.right.shape:
        why += translate(": shape {shape} | {shape2}", shape=one.left.shape, shape2=one.right.shape)
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
        return (
            f"{record.kind} {record.full_name}"
            if record.full_name
            else translate("{kind} of shape {shape}", kind=record.kind, shape=record.shape)
        )
    return translate("{what} in {path}", what=record.what, path=path) if path else record.what


def at_line(record: Record) -> str:
    place = _place(record)
    return translate(" at {place}", place=place_text(place)) if place else ""


def _place(record: Record | None) -> str:
    return "" if record is None or record.place is None else str(record.place)
