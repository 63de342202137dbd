"""Overlays, which colour and size the nodes; and a judgement, in words, of each module's gradients."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from math import isfinite, log10, prod, sqrt
from statistics import median
from typing import Literal, NamedTuple

from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.description.format import byte_text, duration, number
from nbgrad.widgets.description.saved_values import Saved
from nbgrad.widgets.description.schema import Detail, Overlay

_FAR = 1e3
"""A gradient vanishes or explodes if it differs by more than this factor from those where the backward begins."""

_NEAR = 30.0
"""It does not if the incoming gradient differs by at most this factor: the parameters then matter little or much."""

_BEGINNING = 3
"""The backward begins at so many modules, the last ones with a gradient: one alone may be of another kind."""

_MANY = 3
"""If the gradients of so many modules in a row vanish, the gradient may shrink little by little."""

_AT_ONCE = 100.0
"""It does not shrink little by little if it shrinks by more than this factor from one module to the next."""

_Kind = Literal["vanishing", "exploding", "none", "sound"]

Levels = defaultdict[int, dict[str, float]]


def overlays(graph: AutogradGraph, records: list[Record], saved: dict[int, Saved]) -> tuple[list[Overlay], Levels]:
    """What the nodes of a graph can be coloured by, and the levels of each record, by id."""
    levels: Levels = defaultdict(dict)
    norms = {record.id: record.gradient.norm for record in records if record.gradient is not None}
    ratios = {
        record.id: norms[record.id] / record.value.norm
        for record in records
        if record.kind in ("parameter", "leaf")
        and record.id in norms
        and record.value is not None
        and record.value.norm
    }
    step, known = graph.update, {record.id for record in records}
    updates = {} if step is None else {id: ratio for id, ratio in step.ratios.items() if id in known}
    missing = "" if updates else "; no step was measured"
    sizes = {id: float(kept.size) for id, kept in saved.items() if kept.size}
    found = [
        _scale("gradient", "gradient norm (log)", norms, number, levels),
        _scale("ratio", f"gradient to weight{missing} (log)", ratios, number, levels),
        _scale("update", f"update to weight{_after(graph)} (log)", updates, number, levels),
        _scale("saved", "bytes saved for backward (log)", sizes, lambda size: byte_text(int(size)), levels),
        _scale("time", f"{clock(records)}, forward and backward (log)", _sums(graph), duration, levels),
        _classes("dtype", "dtype", {record.id: dtype_name(record.dtype) for record in records}, levels),
        _classes("device", "device", {record.id: str(record.device) for record in records}, levels),
    ]
    return [overlay for overlay in found if overlay is not None], levels


def measured(graph: AutogradGraph, records: list[Record]) -> list[list[Detail]]:
    """What was measured of each record besides its numbers, for the inspector."""
    ratios = {} if graph.update is None else graph.update.ratios
    times = graph.times if isinstance(graph, TimedGraph) else {}
    found: list[list[Detail]] = []
    for record in records:
        found.append([])
        if (ratio := ratios.get(record.id)) is not None:
            text = f"changed it by {number(ratio)} of its norm{_after(graph)}"
            found[-1].append(Detail(term="step", text=text))
        if (took := times.get(record.id)) is not None:
            parts = [f"{part} {duration(seconds)}" for part, seconds in took._asdict().items() if seconds is not None]
            found[-1].append(Detail(term=clock([record]), text=", ".join(parts)))
    return found


def clock(records: list[Record]) -> str:
    """What was measured: on a GPU ops end later than for the host."""
    return "time" if all(record.device.type == "cpu" for record in records) else "time of the host"


def _sums(graph: AutogradGraph) -> dict[int, float]:
    """By record the time of its op and of its rules, in seconds."""
    times = graph.times if isinstance(graph, TimedGraph) else {}
    return {id: (one.forward or 0.0) + (one.backward or 0.0) for id, one in times.items()}


def _after(graph: AutogradGraph) -> str:
    """After which backward the step was measured, if that was not the last one."""
    step = graph.update
    return "" if step is None or step.number == graph.backwards else f" after backward {step.number}"


def _scale(
    key: str, label: str, values: dict[int, float], text: Callable[[float], str], levels: Levels
) -> Overlay | None:
    """A logarithmic scale from the smallest to the largest of ``values``; zeros stand at its low end."""
    sound = [value for value in values.values() if isfinite(value) and value > 0]
    if not sound:
        return None
    low, high = log10(min(sound)), log10(max(sound))
    for id, value in values.items():
        if not isfinite(value):
            levels[id][key] = 1.0
        else:
            level = 0.0 if value <= 0 else (log10(value) - low) / (high - low) if high > low else 0.5
            levels[id][key] = round(level, 2)
    return Overlay(key=key, label=label, low=text(min(sound)), high=text(max(sound)), classes=[])


def _classes(key: str, label: str, values: dict[int, str], levels: Levels) -> Overlay | None:
    names = list(dict.fromkeys(values.values()))
    places = {name: float(place) for place, name in enumerate(names)}
    for id, value in values.items():
        levels[id][key] = places[value]
    return Overlay(key=key, label=label, low="", high="", classes=names) if names else None


class Judgement(NamedTuple):
    """What the gradients of a module are, their typical size, what there is to say of it, and its parameters."""

    kind: _Kind
    size: float
    said: str
    learned: list[Record]


class ModuleVerdict(NamedTuple):
    """What the gradients of the module that was called there are, in words, and the parameters that have them."""

    kind: _Kind
    scope: Scope
    text: str
    learned: list[Record]


def verdicts(judged: dict[Scope, Judgement], waiting: dict[Scope, str], *, begun: bool = False) -> list[ModuleVerdict]:
    """For each module with parameters, whether its gradients vanish or explode on the way from the loss to it.

    Those that only wait for a step are sound, and ``findings.zero_factors`` says so. Where some are NaN, and
    a finding tells where that has ``begun``, nothing is said of any that is not sound: it may be so for that alone.
    """
    lost = begun and not all(isfinite(one.size) for one in judged.values())
    return [
        ModuleVerdict(
            "sound" if scope in waiting else one.kind,
            scope,
            f"{_path(scope)}: typical gradient {number(one.size)}{waiting.get(scope, one.said)}",
            one.learned,
        )
        for scope, one in judged.items()
        if not lost or one.kind == "sound"
    ]


def shrinking(judged: dict[Scope, Judgement]) -> tuple[str, str] | None:
    """What there is to say of gradients that vanish little by little on their way back, and the remedy.

    None where they do not.

    ``findings.vanishing`` speaks of one step that takes most of it, or all.
    """
    way = [(scope, one.size) for scope, one in judged.items() if one.kind in ("vanishing", "sound")]
    vanished = [at for at, (scope, _) in enumerate(way) if judged[scope].kind == "vanishing"]
    if len(vanished) < _MANY or vanished != list(range(len(vanished))) or len(vanished) == len(way):
        return None
    factors = [after / before for (_, before), (_, after) in pairwise(way)]
    if max(factors) > _AT_ONCE:
        return None
    (first, size), (last, began) = way[0], way[-1]
    remedy = (
        "What keeps its size: normalization, residual connections, weights that are drawn for the activation "
        "(nn.init.kaiming_normal_ for relu)"
    )
    text = (
        f"the gradient shrinks little by little on its way back, and what learns from it ever less: a typical number "
        f"of it is {number(began)} in {_path(last)} and {number(size)} in {_path(first)}, "
        f"{number((began / size) ** (1 / len(factors)))} times less from module to module. {remedy}"
    )
    return text, remedy


def _path(scope: Scope) -> str:
    return " > ".join(scope.path())


def starved(judged: dict[Scope, Judgement]) -> set[int]:
    """The ids of the parameters of modules that get no gradient, or one that has vanished on the way to them."""
    return {record.id for one in judged.values() if one.kind in ("vanishing", "none") for record in one.learned}


def zeroed(records: list[Record], judged: dict[Scope, Judgement]) -> dict[int, str]:
    """What a backward reached with a gradient of exactly 0 and belongs to no module: what it is called, by its id."""
    owned = {record.id for one in judged.values() for record in one.learned}
    return {
        record.id: f"{record.name or f'a {record.kind}'} {record.shape}"
        for record in records
        if record.kind in ("parameter", "leaf") and record.id not in owned and prod(record.shape) > 0
        if record.gradient is not None and record.gradient.norm == 0
    }


def judgements(records: list[Record]) -> dict[Scope, Judgement]:
    """What is to be said of each module with parameters that have a gradient."""
    sizes: dict[Scope, float] = {}
    comes: dict[Scope, float] = {}
    arriving, modules = _arriving(records), _modules(records)
    for scope, learned in modules.items():
        norms = [(record.gradient.norm, prod(record.shape)) for record in learned if record.gradient is not None]
        if count := sum(elements for _, elements in norms):
            sizes[scope] = sqrt(sum(norm**2 for norm, _ in norms) / count)
            comes[scope] = max(arriving[record.id] for record in learned)
    sound = [scope for scope, size in sizes.items() if isfinite(size) and size > 0]
    beginning = sound[-_BEGINNING:]
    typical = median([sizes[scope] for scope in beginning]) if beginning else 0.0
    usual = median([comes[scope] for scope in beginning]) if beginning else 0.0
    first = beginning[-1] if beginning and _leads_on(records, modules[beginning[-1]]) else None
    found: dict[Scope, Judgement] = {}
    for scope, size in sizes.items():
        kind, said = _judged(scope, size, typical, beginning, first)
        if kind in ("vanishing", "exploding") and usual / _NEAR <= comes[scope] <= usual * _NEAR and comes[scope]:
            kind, said = "sound", ""  # as of the gate before a normalization, which undoes what it does
        found[scope] = Judgement(kind, size, said, modules[scope])
    return found


def _arriving(records: list[Record]) -> defaultdict[int, float]:
    """The typical size of the gradient that comes to what is made with a tensor, by its id; 0 where none is kept."""
    found: defaultdict[int, float] = defaultdict(float)
    for record in records:
        if record.gradient is not None and isfinite(record.gradient.norm):
            size = record.gradient.norm / sqrt(max(1, prod(record.shape)))
            for source in {taken.source for taken in record.inputs if taken.source is not None}:
                found[source] = max(found[source], size)
    return found


def _leads_on(records: list[Record], learned: list[Record]) -> bool:
    """Whether most of the gradient of what comes before goes through the ops that use ``learned``."""
    made, own = {record.id: record for record in records}, {record.id for record in learned}
    for record in records:
        if own.isdisjoint(taken.source or 0 for taken in record.inputs):
            continue
        for taken in record.inputs:
            came = made[taken.source].gradient if taken.source in made and taken.source not in own else None
            if came is not None and taken.gradient is not None and came.norm <= 2 * taken.gradient.norm:
                return True
    return False


def _modules(records: list[Record]) -> dict[Scope, list[Record]]:
    """The parameters that have a gradient, by the module call that uses them.

    One that a rule used first, as where gradients are differentiated, belongs to the first module that does.
    """
    users: dict[int, Scope] = {}
    for record in records:
        for taken in record.inputs if record.scope is not None else ():
            users.setdefault(taken.source or 0, record.scope)  # type: ignore[arg-type]  # it is not None
    found: defaultdict[Scope, list[Record]] = defaultdict(list)
    for record in records:
        scope = record.scope or users.get(record.id)
        if record.kind == "parameter" and scope is not None and record.gradient is not None:
            found[scope].append(record)
    return found


def _judged(
    scope: Scope, size: float, typical: float, beginning: list[Scope], first: Scope | None
) -> tuple[_Kind, str]:
    """Whether a gradient is of a sound size, and what there is to say of one that is not.

    Where few modules are there, those before the ``first`` one that it comes through may be the odd ones.
    """
    if not isfinite(size):
        return "exploding", ": no finite number any more"
    if size == 0:
        return "none", ": exactly zero, nothing here learns from this loss"
    larger, smaller = size > _FAR * typical, size * _FAR < typical
    if not (larger or smaller):
        return "sound", ""
    than = (
        f", {number(size / typical)} times larger than" if larger else f", {number(typical / size)} times smaller than"
    )
    before = f"{than} in the modules before it: it {'shrinks' if larger else 'grows'} on the way from here to them"
    if larger and scope is beginning[-1]:
        return "vanishing", before
    if smaller and scope is first:
        return "exploding", before
    others = "other " if scope in beginning else ""  # it is not compared with itself
    return "exploding" if larger else "vanishing", f"{than} in the {others}last modules, where the backward begins"
