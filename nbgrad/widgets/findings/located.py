"""A finding about one record, with the name that the user gave its tensor."""

from nbgrad.choices import FindingKind
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.format import counted

_NAMED = 3
"""One finding contains at most this many names."""


def located(
    record: Record | None, kind: FindingKind, text: str, remedy: str | None = None, *, degree: float = 0.0
) -> Finding:
    """The finding ``text`` about the tensor of ``record``, if there is one. It ends in its remedy, if not already."""
    said = text if remedy is None or remedy in text else f"{text} {remedy}"
    if record is None:
        return Finding(kind, said, remedy, degree=degree)
    tensors = (called(record),) if record.name or record.op is None else ()
    return Finding(kind, said, remedy, record.id, tensors, path_of(record), record.place, degree)


def called(record: Record) -> str:
    """The name of its tensor, or what kind of tensor it is, and its shape."""
    return f"{record.full_name or f'a {record.kind_or_op}'} {record.shape}"


def path_of(record: Record | None) -> tuple[str, ...]:
    """The labels of the module calls around a record, outermost first."""
    return () if record is None or record.scope is None else record.scope.path()


def first_of(names: list[str]) -> str:
    """All of a few names; of more the first ones, and the last."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    others = counted(len(names) - _NAMED + 1, "other")
    return f"{', '.join(names[: _NAMED - 1])} and {others}, the last of them {names[-1]}"
