"""Layers that do not do their work: linear layers in a row, dropout, normalization, attention, equal units."""

from collections.abc import Iterator
from math import prod

import numpy as np
import torch

from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.findings.case import Case, largest, literal, typical
from nbgrad.widgets.findings.located import called, located

_MUCH = 0.9
"""A dropout of this much leaves a tenth of the numbers."""

_VALUES = 4
"""With fewer values a channel the statistics of a batch are noise."""

_MANY = 4
"""A layer with fewer units may have equal ones by chance."""

_HUGE = 100.0
"""Inputs of this size are not normalized."""

_HIDDEN = -1e4
"""A number that hides a score from a softmax is at most this."""

_ROWS = 8
"""Fewer rows than this may be equal on purpose."""

_BLIND = 1e-3
"""If a softmax passes on less than this part of its gradient, nearly all of its rows are one-hot."""


def idle(case: Case) -> Iterator[Finding]:
    """The layers of a graph that do not do their work."""
    yield from _in_a_row(case)
    for record in case.records:
        name = "" if record.op is None else record.op.name
        if "dropout" in name:
            yield from _dropout(record)
        elif name in ("batch_norm", "instance_norm"):
            yield from _normalization(case, record, name)
        elif name == "softmax":
            yield from _attention(case, record)
        elif name == "masked_fill":
            yield from _mask(case, record)
    yield from _equal_units(case)
    yield from _inputs(case)


def _weight(case: Case, record: Record | None) -> Record | None:
    """The weight of a linear layer; None for any other record."""
    if record is None or record.op is None or traits_of(record.op).units != -1:
        return None
    found = (case.made.get(source) for source in record.sources[1:2])
    weight = next((one for one in found if one is not None and one.kind in ("parameter", "leaf")), None)
    return weight if weight is not None and len(weight.shape) == 2 else None


def _in_a_row(case: Case) -> Iterator[Finding]:
    """Linear layers with nothing between them, as one finding."""
    found: list[tuple[Record, Record]] = []
    for record in case.records:
        weight = _weight(case, record)
        giver = case.giver(record) if weight is not None else None
        before = _weight(case, giver)
        if weight is None or before is None or giver is None or not record.shape or len(case.uses[giver.id]) > 1:
            continue
        narrow = giver.shape[-1]
        wide = [shape for one in (weight, before) for shape in one.shape if shape != narrow]
        if wide and narrow < min(wide):
            continue  # a factorisation
        found.append((giver, record))
    if not found:
        return
    (first, second), *others = found
    names = ", ".join(dict.fromkeys(name for pair in found for one in pair if (name := _layer(case, one))))
    remedy = "Put an activation such as relu between them"
    more = f" The same holds for {counted(len(others), 'more pair')}." if others else ""
    text = (
        f"{second.run} takes the result of {first.run} with no activation between them: two linear layers in a row "
        f"({names}) are one linear layer.{more} {remedy}"
    )
    yield located(second, "no activation", text, remedy)


def _layer(case: Case, record: Record) -> str:
    weight = _weight(case, record)
    return "" if weight is None or weight.full_name is None else weight.full_name


def _dropout(record: Record) -> Iterator[Finding]:
    p = record.settings.get("p", record.settings.get("input_p"))
    if isinstance(p, float | int) and p >= _MUCH and record.settings.get("training", True):
        remedy = "Use 0.1 to 0.5"
        text = f"{record.run} has dropout p={p:g}: it sets {p:.0%} of the numbers to 0 in each step. {remedy}"
        yield located(record, "layer setting", text, remedy)


def _normalization(case: Case, record: Record, name: str) -> Iterator[Finding]:
    source = case.source(record)
    settings = record.settings
    if not settings.get("training", settings.get("use_input_stats", True)) or source is None or len(source.shape) < 2:
        return
    values = prod(source.shape) // max(1, source.shape[1])
    if name == "batch_norm" and values < _VALUES:
        remedy = "Use a larger batch, or GroupNorm or LayerNorm"
        text = (
            f"{record.run} takes mean and variance of a batch over {counted(values, 'value')} a channel, of shape "
            f"{source.shape}: that is noise. {remedy}"
        )
        yield located(record, "layer setting", text, remedy)
    momentum = settings.get("momentum")
    if momentum == 0 and any(taken.name == "running_mean" and taken.source for taken in record.inputs):
        remedy = "Use momentum=0.1; torch's momentum is the share of the new batch"
        text = (
            f"{record.run}, a norm of the batch, has momentum=0: its running statistics never change, so eval mode "
            f"normalizes with wrong numbers. {remedy}"
        )
        yield located(record, "layer setting", text, remedy)
    scale = next((case.made.get(taken.source or 0) for taken in record.inputs if taken.name == "weight"), None)
    if name == "batch_norm" and scale is not None and scale.leaf is not None:
        tensor = scale.leaf()
        if scale.kind == "constant" and isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad:
            remedy = "Call eval() on it, too"
            text = (
                f"the weight of {record.run} is frozen, but this batch norm is in train mode: its running statistics change "
                f"with each batch. {remedy}"
            )
            yield located(record, "frozen but changing", text, remedy)


def _attention(case: Case, record: Record) -> Iterator[Finding]:
    """A softmax whose result weights the rows of a matrix."""
    dim, shape = record.settings.get("dim"), record.shape
    users = case.uses.get(record.id, [])
    product = next((one for one in users if _multiplies_first(case, one, record)), None)
    if product is None or len(shape) < 2 or not isinstance(dim, int):
        return
    if dim % len(shape) != len(shape) - 1:
        if len(users) > 1 or any(one.op is not None and one.op.name == "sum" for one in users):
            return  # slot attention divides by the sum
        remedy = "Use dim=-1"
        text = (
            f"{record.run} goes along dim={dim} of {shape}, but {product.run} sums over the last dimension: the weights "
            f"of a query do not add up to 1. {remedy}"
        )
        yield located(record, "attention", text, remedy)
        return
    came, went = record.gradient, record.inputs[0].gradient
    if came is not None and went is not None and came.norm > 0 and went.norm < _BLIND * came.norm and shape[-1] > 2:
        remedy = "Divide the scores by the root of their dimension, as q @ k.transpose(-2, -1) / sqrt(d)"
        text = (
            f"nearly every row of {record.run} is one-hot, so almost no gradient goes back to its scores: of norm "
            f"{number(came.norm)} only {number(went.norm)}. {remedy}"
        )
        yield located(record, "attention", text, remedy)


def _multiplies_first(case: Case, user: Record, softmax: Record) -> bool:
    """Whether ``user`` is a product of matrices whose first one is the result of ``softmax``."""
    if user.op is None or user.op.name not in ("matmul", "bmm"):
        return False
    given = case.giver(user)
    return given is not None and given.id == softmax.id


def _mask(case: Case, record: Record) -> Iterator[Finding]:
    """A mask that hides every score of a row."""
    mask = next((case.made.get(taken.source or 0) for taken in record.inputs if taken.name == "mask"), None)
    value = next(
        (one for taken in record.inputs if taken.name == "value" and (one := literal(taken)) is not None), None
    )
    if value is None:
        value = record.settings.get("value")
    array = None if mask is None or mask.value is None else mask.value.array
    if array is None or not isinstance(value, int | float) or value > _HIDDEN or array.ndim < 1 or not array.size:
        return
    hidden = np.asarray(array, bool).all(axis=-1)
    if not hidden.any():
        return
    what = "every score" if hidden.all() else f"all scores of {int(hidden.sum())} of {hidden.size} rows"
    remedy = "Leave one score in each row; masked_fill hides where the mask is True"
    text = f"the mask of {record.run} hides {what}: the softmax after it cannot choose. {remedy}"
    yield located(record, "attention", text, remedy)


def _equal_units(case: Case) -> Iterator[Finding]:
    """Weights whose rows are all equal after a step: their units do the same for ever."""
    used: dict[int, Record] = {}
    for record in case.records:
        if record.op is not None and traits_of(record.op).multiplies and record.op.name not in ("mul",):
            for source in record.sources[1:2]:
                used.setdefault(source, record)
    equal = []
    for id in used:
        one = case.made[id]
        tensor = None if one.leaf is None else one.leaf()
        if one.kind != "parameter" or tensor is None or one.since is None or not one.since.stepped:
            continue
        data = tensor.data if hasattr(tensor, "data") else tensor
        data = getattr(data, "_data", data)
        if data.dim() >= 2 and len(data) >= _MANY and data[0].numel() > 1 and bool((data == data[:1]).all()):
            equal.append(one)
    if equal:
        first, *others = equal
        remedy = "Draw the weights at random, as nn.init.kaiming_uniform_ does"
        more = f" and of {counted(len(others), 'other')}" if others else ""
        text = f"all rows of {called(first)}{more} are equal, and stay so: all units of the layer compute the same. {remedy}"
        yield located(first, "initialization", text, remedy)


def _inputs(case: Case) -> Iterator[Finding]:
    """Data that go into the first layer as they came: far from normalized, or all rows equal."""
    told: set[int] = set()
    for record in case.records:
        if record.op is None or not traits_of(record.op).multiplies or record.op.name == "mul" or not record.inputs:
            continue
        first = case.giver(record)
        if first is None or first.kind != "constant" or first.id in told or not first.dtype.is_floating_point:
            continue
        if not any(case.made[source].kind in ("parameter", "leaf") for source in record.sources[1:]):
            continue
        told.add(first.id)
        most, size = largest(first.value), typical(first.value)
        if most is not None and size is not None and most > _HUGE and size > _HUGE / 10:
            remedy = "Normalize it: (x - x.mean(0)) / x.std(0), or x / 255 for pixels"
            text = (
                f"the input {called(first)} of {record.run} has numbers up to {number(most)}, and is not normalized: units "
                f"saturate or die, and a rate that suits one column is too large for another. {remedy}"
            )
            yield located(first, "input scale", text, remedy)
        array = None if first.value is None else first.value.array
        if array is None or array.ndim < 2 or len(array) < _ROWS or not array.any() or array[0].size < 2:
            continue
        if (array == array[:1]).all():
            remedy = "Check how the batch is made"
            text = f"all {len(array)} rows of the input {called(first)} of {record.run} are equal. {remedy}"
            yield located(first, "data", text, remedy)
