"""The text of a comparison: the first op that differs, then where the difference grows, then the backward."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.discrepancy import Discrepancy
from nbgrad.core.graph.record import Record

if TYPE_CHECKING:
    from nbgrad.core.graph.comparison import Comparison, Pair

_NAMED = 4
"""So many ops are named in a line."""


def report(comparison: "Comparison") -> str:
    """The answer in about ten lines."""
    return "\n".join(_lines(comparison))


def told(value: Any) -> str:
    """A setting as a line shows it."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _lines(comparison: "Comparison") -> Iterator[str]:
    left, right = comparison.names
    yield f"{left} | {right}: {summary(comparison)}"
    if comparison.first is not None:
        yield f"first difference: {headline(comparison.first, comparison.names)}"
        yield from _details(comparison.first, comparison.names)
        if comparison.growth:
            yield f"  grows: {'; '.join(map(_grown, comparison.growth))}"
        more = comparison.discrepancies[1 : 1 + _NAMED]
        if more:
            yield f"  other differences: {'; '.join(headline(one, comparison.names) for one in more)}"
    if comparison.first_gradient is not None:
        yield f"first difference of the backward: {headline(comparison.first_gradient, comparison.names)}"
        yield from _details(comparison.first_gradient, comparison.names)
    yield from _rest(comparison)


def summary(comparison: "Comparison") -> str:
    """In a sentence, how much agrees."""
    ops = [pair for pair in comparison.pairs if pair.left.kind == "op"]
    alike = sum(not pair.differs for pair in ops)
    if comparison.equal:
        text = f"all {len(ops)} ops agree" if len(ops) != 1 else "the op agrees"
    else:
        results = sum(pair.value is None or pair.value.agrees for pair in ops)
        text = f"{results} of {len(ops)} results agree, {alike} with their gradients"
    inner = [sum(one.kind == "op" for one in some) for some in comparison.alone]
    if any(inner):
        text += f", {inner[0]} and {inner[1]} have no counterpart"
    return text


def headline(one: Discrepancy, names: tuple[str, str]) -> str:
    """What differs, in a line."""
    if one.kind == "extra":
        mine, theirs = one.parts
        said = [f"{_list(ops)} only in {name}" for ops, name in ((mine, names[0]), (theirs, names[1])) if ops]
        return "; ".join(said) + (f", before {_called(one.user)}" if one.user is not None else "")
    record = one.left if one.left is not None else one.right
    assert record is not None
    text = _called(record)
    if one.left is not None and one.right is not None:
        mine, theirs = one.parts
        if len(mine) > 1 or len(theirs) > 1:
            text = f"{_list(mine) or _called(one.left)} | {_list(theirs) or _called(one.right)}"
        elif one.left.kind_or_op.rstrip("_") != one.right.kind_or_op.rstrip("_"):
            text = f"{text} | {_called(one.right)}"
    if one.gradient is not None:
        text += f", gradient of {one.gradient}"
    said = [f"{name} {told(a)} | {told(b)}" for name, (a, b) in one.settings.items()]
    return ", ".join([text, *said])


def _details(one: Discrepancy, names: tuple[str, str]) -> Iterator[str]:
    """The lines below the headline: where it is on both sides, and by how much it differs."""
    places = [_place(record) for record in (one.left, one.right)]
    width = max(map(len, names))
    if one.kind == "tensor" and one.user is not None:
        yield f"  first used by {_called(one.user)}{_at(one.user)}"
    else:
        for name, place in zip(names, places, strict=True):
            if place:
                yield f"  {name:<{width}}  {place}"
        if not any(places) and one.user is not None:
            yield f"  used by {_called(one.user)}{_at(one.user)}"
    why = {
        "op": "its inputs agree, its result differs" if one.gradient is None else "the gradient that it gets agrees",
        "tensor": "its numbers differ",
        "extra": "what goes in agrees, the result differs",
    }[one.kind]
    if one.distance is not None:
        why += f" by {one.distance}" if one.gradient is None else f", what it passes on differs by {one.distance}"
    elif one.left is not None and one.right is not None and one.left.shape != one.right.shape:
        why += f": shape {one.left.shape} | {one.right.shape}"
    yield f"  {why}{f'; {one.note}' if one.note else ''}"


def _rest(comparison: "Comparison") -> Iterator[str]:
    """The lines about types, settings, and what could not be compared."""
    if not comparison.equal and comparison.first is None and comparison.first_gradient is None:
        yield "no op parts them: each passes on what it gets, and rounding grows on the way"
    if comparison.types:
        one, other = comparison.types[0]
        more = len(comparison.types) - 1
        kinds = f"{dtype_name(one.dtype)} | {dtype_name(other.dtype)}"
        yield f"types part at {_called(one)}{_at(one)}: {kinds}{f', and at {more} more' if more else ''}"
    others = [pair for pair in comparison.pairs if pair.settings and not pair.differs]
    if others:
        yield f"other settings, the same numbers: {'; '.join(_set(pair) for pair in others[:_NAMED])}"
    norms = sum(_by_norms(pair) for pair in comparison.pairs)
    if norms:
        yield f"compared by norms and extremes alone: {norms} large tensors"
    unknown = sum(pair.value is None and pair.left.kind == "op" and not pair.other for pair in comparison.pairs)
    if unknown:
        yield f"without known values, judged by inputs and settings: {unknown} of the ops"


def _by_norms(pair: "Pair") -> bool:
    return any(one is not None and one.basis == "norms" for one in (pair.value, pair.gradient))


def _set(pair: "Pair") -> str:
    said = ", ".join(f"{name} {told(a)} | {told(b)}" for name, (a, b) in pair.settings.items())
    return f"{_called(pair.left)}, {said}"


def _grown(pair: "Pair") -> str:
    return f"{_called(pair.left)} {'' if pair.value is None else pair.value.words}"


def _list(records: tuple[Record, ...]) -> str:
    """The names of some ops."""
    if len(records) == 1:
        return _called(records[0])
    said = [record.kind_or_op for record in records]
    return ", ".join(said) if len(said) <= 2 * _NAMED else f"{', '.join(said[:_NAMED])}, ..., {said[-1]}"


def _called(record: Record) -> str:
    """The op or the tensor with its module."""
    path = path_of(record.scope)
    if record.op is None:
        return f"{record.kind} {record.full_name}" if record.full_name else f"{record.kind} of shape {record.shape}"
    return f"{record.what} in {path}" if path else record.what


def _at(record: Record) -> str:
    place = _place(record)
    return f" at {place}" if place else ""


def _place(record: Record | None) -> str:
    return "" if record is None or record.place is None else str(record.place)
