"""A finding about one record, with the name that the user gave its tensor."""

from nbgrad.core.graph.finding import Finding, FindingKind
from nbgrad.core.graph.record import Record


def located(record: Record, kind: FindingKind, text: str, remedy: str | None = None) -> Finding:
    """The finding ``text`` about the tensor of ``record``."""
    tensors = (called(record),) if record.name or record.op is None else ()
    scope = () if record.scope is None else record.scope.path()
    return Finding(kind, text, remedy, record.id, tensors, scope, record.place)


def called(record: Record) -> str:
    """The name of its tensor, or what kind of tensor it is, and its shape."""
    return f"{record.full_name or f'a {record.kind_or_op}'} {record.shape}"
