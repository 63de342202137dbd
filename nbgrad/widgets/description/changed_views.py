"""Results of torch's ops that are views and were changed in place: the gradient before the change is not known.

torch replaces the node of such a view. Its backward passes the gradient of the changed tensor on to the tensor below
the view, which an op such as ``einsum`` made inside of itself.
"""

from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.schema import Detail

PASSED = message("not known: torch passes it on below a view")
"""The gradient at the edge from such a result to its change."""


def changed_views(records: list[Record]) -> dict[int, Record]:
    """By the id of each such result, the op that changed it."""
    made = {record.id: record for record in records}
    found = {}
    for record in records:
        changes = record.op is not None and record.op.name.endswith("_") and not record.op.name.endswith("__")
        if not changes or record.gradient is None or not record.inputs or record.inputs[0].gradient is not None:
            continue
        source = made.get(record.inputs[0].source or 0)
        if source is not None and source.op is not None and source.gradient is None and _passed_on(source):
            found[source.id] = record
    return found


def _passed_on(record: Record) -> bool:
    """Whether the rules of an op got a gradient, although none is known at its result."""
    return any(one.gradient is not None for one in record.inputs)


def unknown_gradient(change: Record) -> Detail:
    """Why the gradient before a change is not known."""
    where = translate("an op") if change.line is None else translate("line {line}", line=change.line)
    text = translate(
        "not known: the result is a view, and {where} changed it in place. torch's backward passes "
        "the gradient on to the tensor below the view",
        where=where,
    )
    return Detail(term=translate("gradient"), text=text, role="unknown")
