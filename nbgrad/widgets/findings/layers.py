"""Layers that do not do their work: linear layers in a row, dropout, normalization, equal units."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf, prod, sqrt
from statistics import median
from typing import Any

import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.findings.examination import Examination, largest, outermost, typical
from nbgrad.widgets.findings.located import called, located

_MUCH = 0.9
"""A dropout of this much leaves a tenth of the numbers."""

_NUMBERS = 256
"""With so many numbers the share that a dropout sets to 0 is known well enough."""

_ABOUT = 0.03
"""How far it may be off."""

_VALUES = 4
"""With fewer values a channel the statistics of a batch are noise."""

_MANY = 4
"""A layer with fewer units may have equal ones by chance."""

_NARROW = 0.2
"""A layer whose results are at most this part of its inputs lets a deep network vanish."""

_IN_A_ROW = 3
"""So many layers of this kind make it vanish."""

_WIDE = 20.0
"""A layer whose results are this many times as large as its inputs began with wrong weights."""

_HUGE = 100.0
"""Inputs of this size are not normalized."""

_ROUNDS = 3
"""With more backwards than that, a graph without an optimizer trains by hand."""

_SORTS = 2
"""So many numbers tell sentences apart, or classes: they are no words."""

_ROWS = 8
"""Fewer rows than this may be equal on purpose."""


DRAW = message("Draw as mean + std * torch.randn_like(std), as rsample() does")
"""The remedy for a draw through which no gradient goes."""


def settings(case: Examination) -> Iterator[Finding]:
    """The findings about the settings of dropouts and normalizations."""
    for record in case.records:
        name = "" if record.op is None else record.op.name
        if "dropout" in name:
            yield from _dropout(record)
        elif name in ("batch_norm", "instance_norm"):
            yield from _normalization(case, record, name)
    yield from _dropout_inside(case)


def _weight(case: Examination, record: Record | None) -> Record | None:
    """The weight of a linear layer; None for any other record."""
    if record is None or record.op is None or traits_of(record.op).units != -1:
        return None
    found = (case.made.get(source) for source in record.sources[1:2])
    weight = next((one for one in found if one is not None and one.kind in ("parameter", "leaf")), None)
    return weight if weight is not None and len(weight.shape) == 2 else None


def in_a_row(case: Examination) -> Iterator[Finding]:
    """Linear layers with nothing between them, as one finding."""
    found: list[tuple[Record, Record]] = []
    for record in case.records:
        weight = _weight(case, record)
        giver = case.giver(record) if weight is not None else None
        before = _weight(case, giver)
        if weight is None or before is None or giver is None or not record.shape or len(case.uses[giver.id]) > 1:
            continue
        if outermost(record) is not outermost(giver) or giver.shape[-1] < _MANY:
            continue
        narrow = giver.shape[-1]
        wide = [shape for one in (weight, before) for shape in one.shape if shape != narrow]
        if wide and (narrow < min(wide) or (narrow < max(wide) and _is_added(case, record))):
            continue  # a factorisation, or an adapter beside another layer
        found.append((giver, record))
    if not found:
        return
    (first, second), *others = found
    names = ", ".join(dict.fromkeys(name for pair in found for one in pair if (name := _layer(case, one))))
    remedy = translate("Put an activation such as relu between them")
    more = translate(" The same holds for {pairs}.", pairs=counted(len(others), "more pair")) if others else ""
    text = translate(
        "{run} takes the result of {run2} with no activation between them: two linear layers in a "
        "row ({names}) are one linear layer.{more} {remedy}",
        run=second.run,
        run2=first.run,
        names=names,
        more=more,
        remedy=remedy,
    )
    yield replace(located(second, "no activation", text, remedy), id=None)  # it is about two boxes


def _is_added(case: Examination, record: Record) -> bool:
    """Whether the result of a layer, perhaps times a number, is added to something."""
    names = [user.op.name for user in case.uses.get(record.id, ()) if user.op is not None]
    return "add" in names or ("mul" in names and len(names) == 1)


def _layer(case: Examination, record: Record) -> str:
    weight = _weight(case, record)
    return "" if weight is None or weight.full_name is None else weight.full_name


def _share(record: Record) -> tuple[float | None, bool]:
    """The share of numbers that a dropout sets to 0, and whether it is known exactly.

    Of a function of torch's it shows in what it does to a gradient.
    """
    module: Any = record.scope.module() if isinstance(record.scope, ModuleScope) else None
    p = record.settings.get("p", getattr(module, "p", None))
    if isinstance(p, float | int):
        return float(p) if record.settings.get("training", True) else None, True
    came, went = record.gradient, record.inputs[0].gradient if record.inputs else None
    if came is None or went is None or prod(record.shape) < _NUMBERS or not 0 < came.norm < went.norm < inf:
        return None, False
    return 1 - (came.norm / went.norm) ** 2, False


def _dropout(record: Record) -> Iterator[Finding]:
    p, known = _share(record)
    if p is not None and p >= _MUCH - (0 if known else _ABOUT):
        yield _dropping(record, translate("dropout p"), p)


def _dropping(record: Record, what: str, p: float) -> Finding:
    text = translate(
        "{run} has {what}={p:.2g}: it sets {p:.0%} of the numbers to 0 in each step.", run=record.run, what=what, p=p
    )
    return located(record, "layer setting", text, "Use 0.1 to 0.5", degree=p)


def _dropout_inside(case: Examination) -> Iterator[Finding]:
    """The dropout between the layers of a recurrent module, or on the weights of an attention: no op of their own."""
    told: set[int] = set()
    for record in case.records:
        module: Any = record.scope.module() if isinstance(record.scope, ModuleScope) else None
        if module is None or id(module) in told:
            continue
        told.add(id(module))
        p = getattr(module, "dropout", None)
        layers = getattr(module, "num_layers", None)
        drops = (isinstance(layers, int) and layers > 1) or hasattr(module, "num_heads")
        if isinstance(p, float) and p >= _MUCH and drops and module.training:
            yield _dropping(record, translate("{name} dropout", name=type(module).__name__), p)


def _values(shape: tuple[int, ...]) -> int:
    """How many numbers a normalization of the batch takes for each channel."""
    return prod(shape) // max(1, shape[1])


def _is_usual(case: Examination, record: Record) -> bool:
    """Whether the other batches that went through a normalization are small, too: the last of an epoch may be."""
    name, path = "" if record.op is None else record.op.name, () if record.scope is None else record.scope.path()
    alike = [one for frame in case.frames for one in frame.records if one.op == name and one.scopes == path]
    several = [_values(one.shape) for one in alike if len(one.shape) > 1]
    return not several or median(several) < _VALUES


def _normalization(case: Examination, record: Record, name: str) -> Iterator[Finding]:
    source = case.source(record)
    settings = record.settings
    if not settings.get("training", settings.get("use_input_stats", True)) or source is None or len(source.shape) < 2:
        return
    values = _values(source.shape)
    if name == "batch_norm" and values < _VALUES and _is_usual(case, record):
        text = translate(
            "{run} takes mean and variance of a batch over {values} a channel, of shape {shape}: that is noise.",
            run=record.run,
            values=counted(values, "value"),
            shape=source.shape,
        )
        yield located(
            record, "layer setting", text, translate("Use a larger batch, or GroupNorm or LayerNorm"), degree=-values
        )
    momentum = settings.get("momentum")
    if momentum == 0 and any(taken.name == "running_mean" and taken.source for taken in record.inputs):
        text = translate(
            "{run}, a norm of the batch, has momentum=0: its running statistics never change, so "
            "eval mode normalizes with wrong numbers.",
            run=record.run,
        )
        yield located(
            record, "layer setting", text, translate("Use momentum=0.1; torch's momentum is the share of the new batch")
        )
    scale = next((case.made.get(taken.source or 0) for taken in record.inputs if taken.name == "weight"), None)
    tensor = None if scale is None or scale.kind != "constant" else case.evidence.tensor(scale.id)
    if name == "batch_norm" and scale is not None and isinstance(tensor, torch.nn.Parameter):
        text = translate(
            "{full_name} is frozen, but the batch norm of {run} is in train mode: its running "
            "statistics change with each batch.",
            full_name=scale.full_name or translate("the weight"),
            run=record.run,
        )
        yield located(record, "frozen but changing", text, translate("Call eval() on it, too"))


def drawn(case: Examination) -> Iterator[Finding]:
    """Draws of random numbers between what is learned and the loss."""
    for record in _blocks(case):
        if _is_draw(record):
            text = translate("no gradient goes through {run}: the numbers are drawn.", run=record.run)
            yield located(record, "zero gradient", text, translate(DRAW))


def drawn_beside(case: Examination) -> Iterator[Finding]:
    """Numbers of a learned distribution that go into a layer, and bring back no gradient.

    The distribution learns from another term alone, such as a divergence. A policy that draws an action learns by its
    probability, which is computed from the difference to the mean.
    """
    if any(one.kind == "draw" for one in case.unreached):
        return
    for record in case.records:
        drawn = case.evidence.behind(record.id) if record.kind == "constant" else ()
        cut = next((one for one in drawn if one.kind == "draw"), None)
        users = case.uses.get(record.id, [])
        if cut is None or any(user.op is not None and user.op.name == "sub" for user in users):
            continue
        layer = next((one for one in users if traits_of(one.op).units is not None and _weight(case, one)), None)
        if layer is not None:
            text = translate(
                "no gradient goes through {end}: what {run} takes brings none to the distribution.",
                end=cut.end,
                run=layer.run,
            )
            yield located(record, "zero gradient", text, translate(DRAW))
            return


def jumps(case: Examination) -> Iterator[Finding]:
    """Ops such as round, whose slope is 0 everywhere, between what is learned and the loss."""
    remedy = translate("Pass the gradient on as it is: x + (x.round() - x).detach()")
    for record in _blocks(case):
        if record.op is not None and not _is_draw(record):
            text = translate(
                "no gradient goes through {run}: the slope of {name} is 0 everywhere. {remedy}",
                run=record.run,
                name=record.op.name,
                remedy=remedy,
            )
            yield located(record, "zero gradient", text, remedy)


def _is_draw(record: Record) -> bool:
    return bool(getattr(record.op, "random", False)) and record.op is not None and "dropout" not in record.op.name


def _blocks(case: Examination) -> Iterator[Record]:
    """The first record of each op that jumps or draws, and passes on nothing of its gradient."""
    told: set[object] = set()
    for record in case.records:
        if record.op is None or record.gradient is None or not record.inputs:
            continue
        if not (_is_draw(record) or traits_of(record.op).jumps):
            continue
        passed, source = record.inputs[0].gradient, case.source(record)
        if source is None or source.id not in case.learned or passed is None or passed.norm or not record.gradient.norm:
            continue
        if record.op.name in told:
            continue
        told.add(record.op.name)
        yield record


def units(case: Examination) -> Iterator[Finding]:
    """Weights that began equal, at 0, far too large, or so small that the network vanishes."""
    equal, blocked = list[Record](), list[Record]()
    wide, narrow = list[tuple[Record, float, int]](), list[tuple[Record, float, int]]()
    layers = _weights(case)
    for one, user, fan in layers:
        norm, gradient = case.begun(one)
        stepped = one.since is not None and one.since.stepped
        # Units of the last layer may be alike because the loss treats them alike.
        hidden = stepped and any(case.leads(user, other) for _, other, _ in layers if other is not user)
        several = case.graph.backwards >= _ROUNDS and one.shape[0] >= _MANY and prod(one.shape[1:]) > 1
        if hidden and several and norm != 0 and _has_equal_units(case, one):
            equal.append(one)
        elif norm == 0 and gradient == 0 and one.value is not None and not one.value.norm and not _waits(case, one):
            blocked.append(one)
        elif norm and one.kind == "parameter" and (case.optimizers or case.frames):  # else its numbers are chosen
            size = norm / sqrt(prod(one.shape))
            if size * sqrt(fan) > _WIDE:
                wide.append((one, size, fan))
            elif size * sqrt(fan) < _NARROW and one.id in case.starved:
                narrow.append((one, size, fan))
    yield from _alike(equal, blocked if len(blocked) > 1 or len(case.frames) > 1 else [])
    yield from _out_of_scale(wide, narrow)


def _has_equal_units(case: Examination, weight: Record) -> bool:
    value = weight.value
    same = value is not None and value.low is not None and value.low == value.high
    return same or case.has_equal_rows(weight)


def _waits(case: Examination, record: Record) -> bool:
    """Whether a weight of 0 gets a gradient by now, or will once another factor has moved."""
    if record.gradient is None or record.gradient.norm:
        return True
    return record.scope is not None and record.scope in case.waiting


def _alike(equal: list[Record], blocked: list[Record]) -> Iterator[Finding]:
    """The findings about weights with equal rows, and about those that stay at 0."""
    if equal:
        text = translate(
            "all rows of {several} are equal, and stay so: all units of the layer compute the same.",
            several=_several(equal),
        )
        yield located(
            equal[0], "initialization", text, translate("Draw the weights at random, as nn.init.kaiming_uniform_ does")
        )
    if blocked:
        text = translate(
            "{several} began at 0 and got a gradient of exactly 0, so it does not begin to learn.",
            several=_several(blocked),
        )
        yield located(blocked[0], "initialization", text, translate("Draw one of two factors at random"))


def _out_of_scale(wide: list[tuple[Record, float, int]], narrow: list[tuple[Record, float, int]]) -> Iterator[Finding]:
    """The findings about weights that began too large or too small, each with its size and its number of inputs."""
    if len(narrow) >= _IN_A_ROW:
        first, size, fan = narrow[0]
        text = translate(
            "{several} began with numbers of about {size}, for {fan} inputs: each layer makes the "
            "signal and its gradient {size2} times smaller.",
            several=_several([one for one, *_ in narrow]),
            size=number(size),
            fan=fan,
            size2=number(1 / (size * sqrt(fan))),
        )
        yield located(
            first, "initialization", text, translate("Use nn.init.kaiming_normal_ or a deviation of 1 / sqrt(inputs)")
        )
    if wide:
        first, size, fan = wide[0]
        text = translate(
            "{several} began with numbers of about {size}, for {fan} inputs: its results are {size2} "
            "times as large as what it gets.",
            several=_several([one for one, *_ in wide]),
            size=number(size),
            fan=fan,
            size2=number(size * sqrt(fan)),
        )
        yield located(
            first, "initialization", text, translate("Use nn.init.kaiming_normal_ or a deviation of 1 / sqrt(inputs)")
        )


def _weights(case: Examination) -> list[tuple[Record, Record, int]]:
    """The matrices that layers multiply with, each with the op that does, and the number of inputs of a unit."""
    found = []
    used: dict[int, Record] = {}
    for record in case.records:
        if record.op is not None and traits_of(record.op).multiplies and record.op.name != "mul":
            weight = case.giver(record, 1)
            if weight is not None:
                used.setdefault(weight.id, record)
    for id, user in used.items():
        one, given = case.made[id], case.source(user, 1)
        if one.kind in ("parameter", "leaf") and len(one.shape) > 1 and 0 not in one.shape:
            product = user.op is not None and user.op.name == "matmul" and given is not None and len(given.shape) > 1
            found.append((one, user, given.shape[-2] if product and given is not None else prod(one.shape[1:])))
    return found


def _several(records: list[Record]) -> str:
    first, *others = records
    return (
        translate("{first} and {others}", first=called(first), others=counted(len(others), "other"))
        if others
        else called(first)
    )


def _is_a_step(case: Examination, record: Record, given: Record) -> bool:
    """Whether the line of ``record`` takes other data, too: it is one step of a sequence, such as its first letter."""
    there = (record.file, record.line)
    others = [one for one in case.records if (one.file, one.line) == there and one.op is record.op]
    taken = [case.giver(one) for one in others]
    return any(one is not None and one is not given and one.shape == given.shape for one in taken)


def inputs(case: Examination) -> Iterator[Finding]:
    """Data that go into the first layer as they came: far from normalized, or all rows equal."""
    told: set[int] = set()
    for record in case.records:
        for first in _data_of(case, record):
            if first.id in told:
                continue
            told.add(first.id)
            if first.dtype.is_floating_point:
                yield from _unscaled(case, first, record)
            if _repeats(case, first, record):
                text = translate(
                    "all {shape} rows of the input {first} of {run} are equal.",
                    shape=first.shape[0],
                    first=called(first),
                    run=record.run,
                )
                yield located(first, "data", text, translate("Check how the batch is made"))


def _data_of(case: Examination, record: Record) -> list[Record]:
    """The constants that a layer takes: as they are, beside other inputs, or as the numbers of words."""
    name = "" if record.op is None else record.op.name
    words = name == "embedding"
    if not words and (not traits_of(record.op).multiplies or name == "mul" or name.endswith("_norm")):
        return []
    if not any(case.made[source].kind in ("parameter", "leaf") for source in record.sources[1:]):
        return []
    first = case.giver(record)
    joined = first is not None and first.op is not None and first.op.name == "cat"
    parts = [case.made.get(id) for id in first.sources] if first is not None and joined else [first]
    return [one for one in parts if one is not None and one.kind == "constant"]


def _unscaled(case: Examination, first: Record, record: Record) -> Iterator[Finding]:
    value = case.stats(first)
    most, size = largest(value), typical(value)
    trains = bool(case.optimizers) or case.graph.backwards > _ROUNDS
    if trains and most is not None and size is not None and most > _HUGE and size > _HUGE / 10:
        text = translate(
            "the input {first} of {run} has numbers up to {most}, and is not normalized: units "
            "saturate or die, and a rate that suits one column is too large for another.",
            first=called(first),
            run=record.run,
            most=number(most),
        )
        remedy = translate("Normalize it: (x - x.mean(0)) / x.std(0), or x / 255 for pixels")
        yield located(first, "input scale", text, remedy, degree=most)


def _repeats(case: Examination, first: Record, record: Record) -> bool:
    """Whether all rows of data are equal. The places of words are, and so are the sorts of two sentences."""
    if (
        not first.shape
        or first.shape[0] < _ROWS
        or prod(first.shape) == first.shape[0]
        or not case.has_equal_rows(first)
    ):
        return False
    if not first.dtype.is_floating_point:
        numbers = case.numbers(first)
        row = None if numbers is None else numbers[0].ravel()
        if row is None or len(set(row.tolist())) <= _SORTS or bool((row[1:] - row[:-1] == row[1] - row[0]).all()):
            return False
    return not _is_a_step(case, record, first)
