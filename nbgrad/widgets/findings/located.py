"""A finding about one record, with the name that the user gave its tensor."""

from nbgrad.choices import FindingKind
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
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
    return f"{record.full_name or a_kind(record)} {record.shape}"


A_KIND = {
    "parameter": message("a parameter"),
    "leaf": message("a leaf"),
    "constant": message("a constant"),
    "outside": message("a outside"),
}
"""The words for a tensor without a name, by the kind of its record."""


def a_kind(record: Record) -> str:
    """A tensor without a name, by the op that made it or by its kind."""
    return translate(A_KIND[record.kind]) if record.op is None else translate("a {kind}", kind=record.op.name)


def path_of(record: Record | None) -> tuple[str, ...]:
    """The labels of the module calls around a record, outermost first."""
    return () if record is None or record.scope is None else record.scope.path()


def first_of(names: list[str]) -> str:
    """All of a few names; of more the first ones, and the last."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    others = counted(len(names) - _NAMED + 1, "other")
    return translate(
        "{names} and {others}, the last of them {names2}",
        names=", ".join(names[: _NAMED - 1]),
        others=others,
        names2=names[-1],
    )
