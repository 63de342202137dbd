"""Rows of a batch that are mixed: by a reshape, by a step of a sequence, or by an op along the batch."""

from collections.abc import Iterator
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.findings.examination import Examination, takes_of
from nbgrad.widgets.findings.located import located

_FEW = 3
"""Fewer rows than this are no batch whose rows could be mixed."""


def mixed(case: Examination) -> Iterator[Finding]:
    """The findings about rows that are mixed."""
    told: set[object] = set()
    for record in case.records:
        if record.op is None or record.id not in case.learned or _is_inside(record):
            continue
        text, remedy = _reshaped(case, record) or _last_step(case, record) or _across(case, record) or ("", "")
        if text and (record.file, record.line) not in told:
            told.add((record.file, record.line))
            yield located(record, "wrong dimension", f"{text} {remedy}", remedy)


def _is_inside(record: Record) -> bool:
    """Whether a module of torch's or of nbgrad's ran the op: what it reshapes is its own affair."""
    module = record.scope.module() if isinstance(record.scope, ModuleScope) else None
    return type(module).__module__.startswith(("torch.nn.", "nbgrad.nn."))


def _befores(shape: tuple[int, ...]) -> set[tuple[int, int]]:
    """For each dimension its size, and the product of the sizes before it. They say what the dimension counts."""
    return set(zip(shape, accumulate((1, *shape), mul), strict=False))  # one product more than sizes


def _reshaped(case: Examination, record: Record) -> tuple[str, str] | None:
    """The text about a reshape that gives a dimension of the same size to other numbers, and the remedy."""
    source = case.source(record)
    if record.op is None or record.op.name not in ("reshape", "view", "flatten", "unflatten") or source is None:
        return None
    before, after = source.shape, record.shape
    if len(before) < 2 or prod(before) != prod(after) or not prod(after):
        return None
    lost = _befores(before) - _befores(after)
    rows = [size for size, first in lost if first > 1 and size == after[0] != before[0] and size >= _FEW]
    heads = len(before) == 3 and len(after) == 4 and before[0] == after[0] and before[1] == after[2]
    if rows and before[0] > 1:
        dim = before.index(rows[0])
        return (
            translate(
                "{run} makes {after} of {before}: it keeps the order of the numbers in memory, so each "
                "of its {after2} rows has numbers of several of the {rows} in dimension {dim}.",
                run=record.run,
                after=after,
                before=before,
                after2=after[0],
                rows=rows[0],
                dim=dim,
            ),
            translate(
                "Move that dimension to the front first: x.transpose(0, {dim}).reshape({after}, ...)",
                dim=dim,
                after=after[0],
            ),
        )
    if heads and (before[1], before[0]) in lost and after[1] * after[3] == before[2] and before[1] >= _FEW:
        return (
            translate(
                "{run} makes {after} of {before}: each of its {after2} heads has the numbers of other "
                "places of the sequence, not a part of the numbers of each place.",
                run=record.run,
                after=after,
                before=before,
                after2=after[1],
            ),
            translate(
                "Write x.view({after}, {after2}, {after3}, {after4}).transpose(1, 2)",
                after=after[0],
                after2=after[2],
                after3=after[1],
                after4=after[3],
            ),
        )
    return None


def _batch_first(record: Record | None) -> bool | None:
    """Whether the first dimension is the batch for the recurrent module that made a record; None for any other."""
    module: Any = record.scope.module() if record is not None and isinstance(record.scope, ModuleScope) else None
    return bool(module.batch_first) if hasattr(module, "batch_first") and hasattr(module, "hidden_size") else None


def _last_step(case: Examination, record: Record) -> tuple[str, str] | None:
    """The text about the last row of the batch that is taken for the last step of a sequence, and the remedy."""
    source = case.source(record)
    first = _batch_first(source)
    if first is None or source is None or len(source.shape) != 3 or record.op is None or record.scope is source.scope:
        return None
    dim = {"getitem": _chosen, "select": _selected}.get(record.op.name, lambda _: None)(record.settings)
    if dim != (0 if first else 1) or source.shape[dim] < 2:
        return None
    time = 1 - dim
    if record.shape != (source.shape[time], source.shape[2]) or (first and source.shape[0] == source.shape[1]):
        return None  # it may be the last state, which looks like that
    module = type(source.scope.module()).__name__ if isinstance(source.scope, ModuleScope) else translate("the module")
    remedy = translate(
        "Write out[:, -1]" if first else "Make it {module}(..., batch_first=True), or write out[-1]", module=module
    )
    return (
        translate(
            "{run} takes the last row of the batch, not the last step: dimension {dim} of {shape} is the "
            "batch for this {module}, which has batch_first={first}.",
            run=record.run,
            dim=dim,
            shape=source.shape,
            module=module,
            first=first,
        ),
        remedy,
    )


def _chosen(settings: dict[str, Any]) -> int | None:
    """The dimension of which an index takes the last position; None if it takes anything else."""
    index = settings.get("index")
    parts = index if isinstance(index, tuple) else (index,)
    taken = [at for at, one in enumerate(parts) if one != slice(None)]
    return taken[0] if len(taken) == 1 and type(parts[taken[0]]) is int and parts[taken[0]] == -1 else None


def _selected(settings: dict[str, Any]) -> int | None:
    dim = settings.get("dim")
    return dim if settings.get("index") == -1 and isinstance(dim, int) else None


def _across(case: Examination, record: Record) -> tuple[str, str] | None:
    """The text about rows that are normalized along the batch, and the remedy."""
    if record.op is None or len(record.shape) != 2 or record.shape[0] not in case.rows or record.shape[1] < 2:
        return None
    dim = record.settings.get("dim")
    if record.op.name in ("softmax", "log_softmax") and dim in (0, -2) and not _weights(case, record):
        return (
            translate(
                "{run} goes along dim={dim} of {shape}, the batch: the numbers of a row do not add up to "
                "1, and each row depends on all others.",
                run=record.run,
                dim=dim,
                shape=record.shape,
            ),
            translate("Use dim=1"),
        )
    norm = case.origin(case.source(record, 1)) if record.op.name == "div" else None
    while norm is not None and norm.op is not None and norm.op.name in ("clamp_min", "expand_as", "clamp", "add"):
        norm = case.source(norm)
    if norm is None or norm.op is None or norm.op.name not in ("linalg_vector_norm", "norm"):
        return None
    dims, same = norm.settings.get("dim"), case.source(norm)
    if dims not in (0, (0,), [0]) or same is None or same is not case.source(record):
        return None
    return (
        translate(
            "{run} divides by a norm along dim=0 of {shape}, the batch: each row depends on all others.",
            run=record.run,
            shape=record.shape,
        ),
        translate("Use dim=1"),
    )


def _weights(case: Examination, record: Record) -> bool:
    """Whether the result of a softmax weights rows, by a product with something learned, or goes into a loss."""
    waiting, seen = [record], {record.id}
    while waiting:
        one = waiting.pop()
        for user in case.uses.get(one.id, ()):
            if takes_of(user) is not None:
                return True  # a loss has a rule of its own for its classes
            others = [source for source in user.sources if source not in seen]
            if traits_of(user.op).multiplies and case.learned.intersection(others):
                return True
            if user.id not in seen and (user.op is None or user.op.name not in ("sum", "mean")):
                seen.add(user.id)
                waiting.append(user)
    return False


def batch_second(case: Examination) -> Iterator[Finding]:
    """A module that takes the second dimension for the batch, while the loss has a row for each of the first one."""
    told: set[object] = set()
    for record in case.records:
        module: Any = record.scope.module() if isinstance(record.scope, ModuleScope) else None
        if getattr(module, "batch_first", True) or id(module) in told or record.op is None:
            continue
        told.add(id(module))
        given = case.source(record)
        if given is None or len(given.shape) != 3 or given.scope is record.scope or given.shape[1] < 2:
            continue
        rows, places = given.shape[:2]
        outputs = [one for one in case.comparisons if case.leads(record, one.prediction)]
        if rows == places or not outputs or rows < _FEW:
            continue
        if all(one.prediction.shape[:1] == (rows,) and places not in one.prediction.shape for one in outputs):
            kind = type(module).__name__
            text = translate(
                "{run} runs over the batch: {kind} has batch_first=False, so the first dimension of "
                "its input {shape} counts as time, but the loss has a row for each of these {rows}.",
                run=record.run,
                kind=kind,
                shape=given.shape,
                rows=rows,
            )
            yield located(
                record, "wrong dimension", text, translate("Make it {kind}(..., batch_first=True)", kind=kind)
            )


def classes_second(case: Examination) -> Iterator[Finding]:
    """Scores of classes in the last dimension, for a loss whose classes are the second one."""
    for one in case.comparisons:
        shape, maker = one.prediction.shape, one.prediction
        named = one.loss.op is not None and one.loss.op.name == "cross_entropy"
        last = traits_of(maker.op).units == -1 or (maker.op is not None and _batch_first(maker) is not None)
        if named and last and len(shape) > 2 and one.target.shape == (shape[0], *shape[2:]):
            text = translate(
                "{loss} takes dimension 1 of {shape} for the classes, but {maker} makes them in the last one: the "
                "scores of a class are those of a place.",
                loss=one.loss.run,
                shape=shape,
                maker=maker.run,
            )
            remedy = translate("Write logits.transpose(1, -1), or logits.flatten(0, -2) and target.flatten()")
            yield located(one.loss, "wrong dimension", text, remedy)


def pixels(case: Examination) -> Iterator[Finding]:
    """Images whose channels are last in memory, in a view that calls another dimension the channels."""
    for record in case.records:
        tensor = case.tensor(record) if record.kind == "constant" and len(record.shape) == 4 else None
        base = None if tensor is None or not tensor.is_contiguous() else tensor._base
        if base is None or base.dim() != 4 or not base.is_contiguous():
            continue
        (rows, *sides, channels), user = base.shape, next(iter(case.uses.get(record.id, ())), None)
        if record.shape != (rows, channels, *sides) or channels in sides or user is None or sides[0] < _FEW:
            continue
        text = translate(
            "{run} takes {name} {shape}, a view of {before}: it keeps the order of the numbers in memory, so each "
            "channel has pixels of all channels.",
            run=user.run,
            name=record.name or translate("images"),
            shape=record.shape,
            before=tuple(base.shape),
        )
        yield located(user, "wrong dimension", text, translate("Write {code}", code="x.permute(0, 3, 1, 2)"))
