"""Activations that let no gradient through: every number, or most units, lie where the function is flat."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.located import located

_FLATTER = 0.15
"""A healthy sigmoid or tanh layer passes on more than this fraction of the maximum possible."""

FEW = 8
"""Fewer numbers than this may all be off, with the slope 0, by chance."""

_SAMPLES = 16
"""With fewer samples a sound unit may be off by chance: it sees other numbers in each batch."""

_SHARE = 0.75
"""In a sound layer some units are off for a whole batch, but less than this fraction of them."""


def silent(records: list[Record], ahead: set[int]) -> Iterator[Finding]:
    """The activations of layers that let no gradient through in the last backward.

    An activation that is part of a loss, as in max(0, 1 - score), is off where all is well, so it is left out.

    Args:
        records: what the last backward ran through.
        ahead: the ids of ``leading_to_learned``.
    """
    made = {record.id: record for record in records}
    known: dict[Any, list[Finding]] = {}
    for record in records:
        traits = traits_of(record.op)
        if record.op is None or record.gradient is None or not record.inputs:
            continue
        if not traits.flat and traits.steepest is None:
            continue
        source, passed = made.get(record.inputs[0].source or 0), record.inputs[0].gradient
        if source is None or passed is None or not (record.id in ahead or _takes_learned(source, made)):
            continue
        if traits.steepest is not None:
            told = _saturated(record, record.gradient, passed, traits.steepest) if record.id in ahead else None
        else:
            told = _told(record, source, record.gradient, passed, made)
        if told:
            known.setdefault(
                (record.op.name, record.file, record.line, record.scope and record.scope.path()), []
            ).append(told)
    for first, *others in known.values():
        again = translate(" The same holds for {count:,} more of its calls there.", count=len(others)) if others else ""
        yield replace(first, text=f"{first.text}{again}")


def _saturated(record: Record, gradient: Stats, passed: Stats, steepest: float) -> Finding | None:
    """Activations that pass on exactly nothing belong to ``vanishing``."""
    if not 0 < passed.norm < _FLATTER * gradient.norm * steepest < inf or prod(passed.shape) < FEW * _SAMPLES:
        return None
    remedy = translate(
        "Bring them to a size near 1: normalize the data, put a normalization before it, or begin with smaller weights."
    )
    text = translate(
        "{what} is saturated: most of its inputs, of shape {shape}, lie so far from 0 that it is "
        "nearly flat there, and of a gradient of norm {norm} only {norm2} goes on. {remedy}",
        what=record.what,
        shape=passed.shape,
        norm=number(gradient.norm),
        norm2=number(passed.norm),
        remedy=remedy,
    )
    return located(record, "saturated", text, remedy, degree=gradient.norm / passed.norm)


def _told(record: Record, source: Record, gradient: Stats, passed: Stats, made: dict[int, Record]) -> Finding | None:
    if record.op is None or not 0 < gradient.norm < inf:
        return None
    what = record.what
    remedy = translate("Try a smaller learning rate, another initialisation, or leaky_relu.")
    if passed.norm == 0:
        if prod(passed.shape) < FEW:
            return None
        text = translate(
            "{what} let no gradient through: a gradient arrived at its result, of shape {shape}, but "
            "its slope is 0 wherever this gradient is not 0. So the layers before it learn nothing "
            "here. {remedy}",
            what=what,
            shape=passed.shape,
            remedy=remedy,
        )
        return located(record, "saturated", text, remedy, degree=1.0)
    off, units, samples = _off(source, gradient, passed, made)
    if samples < _SAMPLES or off < _SHARE * units or units < FEW:
        return None
    text = translate(
        "{off} of the {units} units of {what} let no gradient through: the slope of each is 0 for "
        "all {samples} samples. So the layers before it learn nothing from these units. {remedy}",
        off=off,
        units=units,
        what=what,
        samples=samples,
        remedy=remedy,
    )
    return located(record, "saturated", text, remedy, degree=off / units)


def _off(source: Record, gradient: Stats, passed: Stats, made: dict[int, Record]) -> tuple[int, int, int]:
    """How many units let nothing through, of how many, for how many samples; 0 where the numbers were not kept."""
    came, went = gradient.array, passed.array
    unit = _unit(source, made)
    if came is None or went is None or unit is None or came.shape != went.shape or came.ndim < 2:
        return 0, 0, 0
    others = tuple(dim for dim in range(came.ndim) if dim != unit % came.ndim)
    off = np.any(came != 0, axis=others) & ~np.any(went != 0, axis=others)
    return int(off.sum()), len(off), came.size // len(off) if len(off) else 0


def _unit(record: Record | None, made: dict[int, Record]) -> int | None:
    """The dimension along which the units lie, by the layer that made the result, or the nearest one before."""
    waiting, seen = deque([record]), set[int]()
    while waiting:
        one = waiting.popleft()
        if one is None or one.op is None or one.id in seen:
            continue
        seen.add(one.id)
        if (unit := traits_of(one.op).units) is not None:
            return unit
        waiting.extend(made.get(taken.source or 0) for taken in one.inputs)
    return None


def _takes_learned(record: Record, made: dict[int, Record]) -> bool:
    return any(_is_learned(made.get(taken.source or 0)) for taken in record.inputs)


def _is_learned(record: Record | None) -> bool:
    return record is not None and record.kind in ("parameter", "leaf")


def leading_to_learned(records: list[Record]) -> set[int]:
    """The records whose result leads, directly or through other ops, to an op that also takes a parameter or leaf."""
    made, found = {record.id: record for record in records}, set[int]()
    for record in reversed(records):
        if record.op is not None and (record.id in found or _takes_learned(record, made)):
            found.update(taken.source for taken in record.inputs if taken.source is not None)
    return found
