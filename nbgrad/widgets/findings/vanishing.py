"""Ops at which the gradient ends, or drops at once, on its way to modules that get almost none."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import hypot, isclose, isfinite, prod

import torch

from nbgrad.choices import FindingKind
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.graph.unreached import is_function
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.located import located
from nbgrad.widgets.findings.saturated import FEW

SLIGHT = 1e-2
"""A gradient falls at an op that passes on less than this part of it; other ops only shrink it a little."""

_SMALL = 1e-2
"""A factor of the gradient is named in the finding if it is as small as this."""

_TINY = 1e-5
"""A gradient of float16 whose numbers are typically below this may become 0 where it is multiplied with a weight."""

_ADDED = ("bias", "running_mean", "running_var")
"""The inputs that an op which multiplies them adds, subtracts or divides by: a small one makes no gradient small."""


def falls(
    records: list[Record], starved: set[int], zeroed: dict[int, str], ahead: set[int], waiting: set[tuple[int, str]]
) -> Iterator[Finding]:
    """The ops at which a gradient ends or falls on its way to parameters that get none.

    Activations that are (nearly) flat on a part of the line are left to ``saturated``, which needs enough numbers.
    A tensor outside of modules may get no gradient where all is well, for example if it is masked. For such a tensor an
    op is named only if it lets nothing through whatever is learned.

    Args:
        records: what the last backward ran through.
        starved: the ids of the parameters that get no gradient, or almost none.
        zeroed: the names of tensors outside of modules that get a gradient of 0, by id.
        ahead: the ids of ``leading_to_learned``.
        waiting: ops by id, each with the name of an input: there a gradient ends only until a step has moved a factor.
    """
    made = {record.id: record for record in records}
    below, lone = set(starved), dict(zeroed)
    found: defaultdict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for record in records:
        inside = record.id in ahead
        for one in record.inputs:
            told = None
            if (record.id, one.name) in waiting:
                continue
            if one.source in below and not traits_of(record.op).flat:
                told = _told(record, one, made, inside=inside)
            elif one.source in lone and _lasting(record, one, made, inside=inside):
                told = _told(record, one, made, inside=inside, leaf=lone[one.source])
            if told is not None:
                found[record.op and record.op.name, record.file, record.line].append(told)
        if any(one.source in below for one in record.inputs):
            below.add(record.id)
        if (known := next((lone[one.source] for one in record.inputs if one.source in lone), None)) is not None:
            lone[record.id] = known
    for calls in found.values():
        first = calls[-1]  # where the gradient came first
        more = (
            translate(". The same holds for {count:,} more of its calls there", count=len(calls) - 1)
            if len(calls) > 1
            else ""
        )
        yield replace(first, text=f"{first.text}{more}")


def _told(record: Record, taken: Input, made: dict[int, Record], *, inside: bool, leaf: str = "") -> Finding | None:
    """The finding about an op, on the way to a ``leaf`` outside of modules or to parameters of a module."""
    source, came, went = made[taken.source or 0], record.gradient, taken.gradient
    if _parts(record) or came is None or went is None or source.gradient is None or (source.op is None and not leaf):
        return None
    if record.op is None or came.norm == 0 or not isfinite(came.norm) or (not inside and _meant(record, made)):
        return None
    scope = translate(", in {names}", names=" > ".join(record.scope.path())) if record.scope is not None else ""
    where = f"{record.run}{scope}"
    if went.norm == 0 and source.gradient.norm == 0:  # of several results one may get what another does not
        why, remedy = _why(record, taken, made)
        text = translate(
            "the gradient ends at {where}: its norm is {norm} when it comes there, and exactly 0 "
            "goes on to {name}{why}",
            where=where,
            norm=number(came.norm),
            name=taken.name,
            why=why,
        ) + (translate(". So {leaf} learns nothing from this loss", leaf=leaf) if leaf else "")
        kind: FindingKind = "custom function" if is_function(record.op) else "zero gradient"
        found = located(record, kind, text, remedy)
        return replace(found, tensors=(*found.tensors, leaf)) if leaf else found
    if traits_of(record.op).steepest is not None or leaf:
        return None
    # No finding if others bring the tensor most of its gradient, or if only the loss follows: a mean passes on little.
    if inside and went.norm < SLIGHT * came.norm and source.gradient.norm <= 2 * went.norm:
        why, remedy = _why(record, taken, made)
        text = translate(
            "the gradient falls at {where}: from norm {norm} to {norm2} for {name}{why}",
            where=where,
            norm=number(came.norm),
            norm2=number(went.norm),
            name=taken.name,
            why=why,
        )
        return located(record, "vanishing", text, remedy)
    return None


def _parts(record: Record) -> bool:
    """Whether an op only parts the gradient among its inputs, as one that joins them does: none of it is lost there."""
    norms = [one.gradient.norm for one in record.inputs if one.gradient is not None]
    return len(norms) > 1 and record.gradient is not None and isclose(hypot(*norms), record.gradient.norm, rel_tol=1e-3)


def _lasting(record: Record, taken: Input, made: dict[int, Record], *, inside: bool) -> bool:
    """Whether an op passes on 0 whatever else is learned, and not just by chance in this batch."""
    op, traits = "" if record.op is None else record.op.name, traits_of(record.op)
    if taken.gradient is None or taken.gradient.norm != 0:
        return False
    if traits.jumps or underflowed(record, taken, made):
        return True
    if not inside:
        return False
    if op == "mul":
        return any(_is_0(one, made) for one in record.inputs if one is not taken)
    # A few results may lie in the flat part by chance. A parameter in the flat part is no chance: it stays there.
    few, itself = prod(record.shape) < FEW, made[taken.source or 0].op is None
    between = traits.steepest is not None or op == "clamp"
    return (between and (itself or not few)) or (traits.flat and itself and few)


def _is_0(taken: Input, made: dict[int, Record]) -> bool:
    """Whether an input is the number 0, or a constant with the one number 0. A constant with several may be a mask."""
    of = made.get(taken.source or 0)
    if of is None:
        return taken.source is None and taken.literal == 0
    return of.kind == "constant" and prod(of.shape) == 1 and of.value is not None and of.value.norm == 0


def _meant(record: Record, made: dict[int, Record]) -> bool:
    """Whether the 0 is meant: the loss is 0 or has a weight of 0. A last layer does not count: it may give 0."""
    weights = [taken.literal for taken in record.inputs] if record.op is not None and record.op.name == "mul" else []
    if 0 in weights or record.op is None:
        return True
    layer = traits_of(record.op).multiplies and any(
        made[taken.source].kind == "parameter" for taken in record.inputs if taken.source in made
    )
    return not layer and record.value is not None and record.value.norm == 0


def _why(record: Record, taken: Input, made: dict[int, Record]) -> tuple[str, str | None]:
    """The reason: the other factor, or that the op is flat, as far as it is known; and the remedy, if there is one."""
    op, traits = "" if record.op is None else record.op.name, traits_of(record.op)
    if (
        op in ("softmax", "log_softmax")
        and isinstance(dim := record.settings.get("dim"), int)
        and record.shape[dim] == 1
    ):
        remedy = translate("Use sigmoid, or two scores")
        return translate(
            ": {op} of one number, as along dim={dim} of {shape}, is always the same. {remedy}",
            op=op,
            dim=dim,
            shape=record.shape,
            remedy=remedy,
        ), remedy
    if traits.steepest is not None:
        return translate(": all of its inputs lie so far from 0 that it is flat there"), None
    if (traits.flat or op == "clamp") and taken.gradient is not None and taken.gradient.norm == 0:
        return translate(": its slope is 0 wherever the gradient of its result is not 0"), None
    if traits.jumps:
        return translate(": the slope of {op} is 0 everywhere", op=op), None
    if record.op is not None and is_function(record.op):
        remedy = translate(
            "Compare it with nbgrad.gradcheck, or look at what its backward() returns for {name}", name=taken.name
        )
        why = translate(": its backward() returns zeros. {remedy}", remedy=remedy)
    elif underflowed(record, taken, made):
        dtype = dtype_name(made[taken.source or 0].dtype)
        remedy = translate("Scale the loss, as optim.GradScaler does")
        why = translate(": it is too small for {dtype}. {remedy}", dtype=dtype, remedy=remedy)
    else:
        return _factor(record, taken, made) if traits.multiplies else "", None
    return why, remedy


def _factor(record: Record, taken: Input, made: dict[int, Record]) -> str:
    """The text that the other factor of a product is 0 or small; else empty."""
    for other in record.inputs:
        of = made.get(other.source or 0)
        if other is not taken and other.source is None and other.literal == 0:
            return translate(", because the other factor is the number 0")
        if other is taken or other.name in _ADDED or of is None or of.value is None or of.value.low is None:
            continue
        most = max(-of.value.low, of.value.high or 0.0)
        later = of.since is not None and of.since.what is not None  # a step changed it since: only an exact 0 counts
        if most <= (0.0 if later else _SMALL):
            what = of.full_name or (
                translate("the result of {name}", name=of.op.name) if of.op is not None else other.name
            )
            stays = _stays(of, other) if most == 0 else ""
            return translate(
                ", because {what} {shape} is {more}{stays}",
                what=what,
                shape=of.shape,
                more="all 0" if most == 0 else translate("{most} at most", most=number(most)),
                stays=stays,
            )
    return ""


def _stays(of: Record, other: Input) -> str:
    """The reason why a gradient does not move a parameter of zeros."""
    if of.kind != "parameter":
        return ""
    if other.gradient is None:
        return translate(" and gets no gradient")
    if other.gradient.norm == 0:
        return translate(" and gets a gradient of 0 itself, because the other factor is 0 too: so it stays 0")
    return translate(" and no step moves it")


def underflowed(record: Record, taken: Input, made: dict[int, Record]) -> bool:
    """Whether a gradient became 0 because it was below the smallest number of its type: 6e-8 for float16.

    The type is that of the input, which the op may have cast, as autocast does before a loss.
    """
    came, source = record.gradient, made.get(taken.source or 0)
    return (
        source is not None
        and source.dtype is torch.float16
        and came is not None
        and taken.gradient is not None
        and taken.gradient.norm == 0
        and came.norm < _TINY * max(1, prod(came.shape)) ** 0.5
    )
