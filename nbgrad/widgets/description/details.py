"""The details that a click on a node shows, row by row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import dtype_name, text_of
from nbgrad.core.graph.changes import Since
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.broadcast_sums import is_loss
from nbgrad.widgets.description.changed_views import unknown_gradient
from nbgrad.widgets.description.format import shape_text
from nbgrad.widgets.description.saved_values import Saved
from nbgrad.widgets.description.schema import Detail, kind_of
from nbgrad.widgets.description.tensor_summary import FEW, amount
from nbgrad.widgets.description.walk import StepContext

_KINDS = {
    "parameter": message("parameter, which training changes"),
    "leaf": message("tensor that needs a gradient"),
    "input": message("input: data, which need no gradient"),
    "constant": message("constant: it needs no gradient"),
    "outside": message("computed before this graph was opened"),
}

_RESULTS = message(
    "several tensors in one box: name, shape and value are those of the first, and the gradient is the norm of all "
    "their gradients together"
)


class NodeRest(NamedTuple):
    """The data from which the details, the looks and the step of a node are written."""

    record: Record
    saved: Saved | None
    measured: list[Detail]
    walk: StepContext

    def told(self) -> dict[str, Any]:
        """The texts of the node."""
        record = self.record
        rows = details(record, self.saved) + self.measured
        if (changed := self.walk.changed(record)) is not None:
            rows.append(
                Detail(
                    term=translate("gradient"),
                    text=translate("not only the sum of the gradients at its edges: {changed}", changed=changed),
                    role="gradient",
                )
            )
        if (change := self.walk.changed_views.get(record.id)) is not None:
            rows.append(unknown_gradient(change))
        return {"details": rows, "value": record.value, "gradient": record.gradient}

    def step(self) -> dict[str, Any]:
        """The text of its step, if it is an op whose rules ran."""
        return self.walk.told(self.record)


def details(record: Record, saved: Saved | None) -> list[Detail]:
    """The rows; those without a text are left out."""
    begin = [
        (translate("name"), record.name),
        (translate("what"), _what(record)),
        (translate("block"), _block(record.scope)),
    ]
    results = [Detail(term=translate("results"), text=translate(_RESULTS), role="results")] if record.several else []
    rows = [
        (translate("shape"), shape_text(record.shape)),
        ("dtype", _dtype(record.dtype, record.device)),
        *[(name, setting_text(setting)) for name, setting in record.settings.items() if setting is not None],
        *[
            (taken.name, translate("the number {literal}", literal=taken.literal))
            for taken in record.inputs
            if taken.literal is not None
        ],
    ]
    line = _source_line(record)
    source = [] if line is None else [Detail(term=translate("source"), text=line, role="source")]
    kept = [] if saved is None else [Detail(term=translate("saved for the backward"), text=str(saved))]
    return [*_written(begin), *results, *_written(rows), *source, *kept, *_since(record.since)]


def _what(record: Record) -> str | None:
    if record.root and is_loss(record):
        return translate("a loss")
    kind = _KINDS.get(kind_of(record.kind, record.name))
    return None if kind is None else translate(kind)


def _written(rows: Sequence[tuple[str, str | None]]) -> list[Detail]:
    return [Detail(term=term, text=text) for term, text in rows if text]


def setting_text(value: Any) -> str:
    """A setting as the user wrote it: a slice with colons."""
    if isinstance(value, slice):
        start, stop, step = ["" if part is None else text_of(part) for part in (value.start, value.stop, value.step)]
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    if isinstance(value, tuple) and any(isinstance(part, slice) for part in value):
        return ", ".join(map(setting_text, value))
    return "..." if value is Ellipsis else text_of(value)


def _since(since: Since | None) -> list[Detail]:
    """The present state of a leaf, if it has changed since the backward that is shown."""
    if since is None:
        return []
    found: list[Detail] = []
    if since.what is not None:
        text = translate("as they are after {what}, which came later", what=since.what)
        if since.place is not None:
            text = translate("{text}, at {place}", text=text, place=since.place)
        found.append(Detail(term=translate("values"), text=text))
    told = translate(
        "not the gradient of this backward: it is the sum of several backwards without zero_grad() "
        "between them, or it was clipped"
    )
    if since.grad is not None:
        found.append(Detail(term=".grad", text=f"{amount(since.grad, FEW)}: {told}", role="gradient"))
    if since.later is not None:
        told = translate("it comes from later backwards, which were not recorded")
        found.append(Detail(term=".grad", text=f"{amount(since.later, FEW)}: {told}", role="gradient"))
    return found


def _dtype(dtype: torch.dtype, device: torch.device) -> str:
    return translate("{dtype}, on {device}", dtype=dtype_name(dtype), device=device)


def _block(scope: Scope | None) -> str | None:
    """The module in whose call the op ran."""
    return f"{scope.label}: {scope.kind.about}" if isinstance(scope, ModuleScope) and scope.kind.about else None


def _source_line(record: Record) -> str | None:
    if record.place is None:
        return None
    text = record.place.text
    cell = "" if record.earlier is None else f"{record.earlier}, "
    return translate("{cell}line {line}: {text}", cell=cell, line=record.line, text=text) if text else None
