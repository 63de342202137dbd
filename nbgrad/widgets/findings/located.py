"""A finding about one record, with the name that the user gave its tensor."""

from nbgrad.core.graph.finding import Finding, FindingKind
from nbgrad.widgets.description.snapshot import Fact


def located(fact: Fact, kind: FindingKind, text: str, remedy: str | None = None) -> Finding:
    """The finding that ``text`` says of what ``fact`` is about."""
    tensors = (called(fact),) if fact.name or fact.op is None else ()
    scope = () if fact.scope is None else fact.scope.path()
    return Finding(kind, text, remedy, fact.id, tensors, scope, fact.place)


def called(fact: Fact) -> str:
    """The name of its tensor, or what kind of tensor it is, and its shape."""
    return f"{fact.name or f'a {fact.kind_or_op}'} {fact.shape}"
