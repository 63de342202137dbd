"""A judgement, in words, of each module's gradients: whether they vanish or explode on the way from the loss to it."""

from collections import defaultdict
from itertools import pairwise
from math import isfinite, prod, sqrt
from statistics import median
from typing import Literal, NamedTuple

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.located import a_kind

_FAR = 1e3
"""A gradient vanishes or explodes if it differs by more than this factor from those where the backward begins."""

_UNTRAINED = 1e5
"""That factor for a backward without a training: new weights often give small gradients, which a few steps change."""

_NEAR = 30.0
"""A gradient is sound, whatever its size, if the incoming gradient differs by at most this factor from the usual one.

The size of the gradient then comes from the module itself, and not from the way to it. So it is if the step that was
made of it differs by at most this factor from the usual one."""

_BEGINNING = 3
"""This many of the last modules with a gradient count as the beginning of the backward: one may be unusual."""

_MANY = 3
"""If the gradients of this many modules in a row vanish, the gradient may shrink little by little."""

_AT_ONCE = 100.0
"""A gradient that shrinks by more than this factor from one module to the next does not shrink little by little."""

_Kind = Literal["vanishing", "exploding", "none", "sound"]


class Judgement(NamedTuple):
    """The kind of the gradients of a module, their typical size, the text about them, and its parameters."""

    kind: _Kind
    size: float
    said: str
    learned: list[Record]


class ModuleVerdict(NamedTuple):
    """The verdict on the gradients of one module call, and the parameters that have these gradients."""

    kind: _Kind
    scope: Scope
    text: str
    learned: list[Record]


def verdicts(judged: dict[Scope, Judgement], waiting: dict[Scope, str], *, begun: bool = False) -> list[ModuleVerdict]:
    """For each module with parameters, whether its gradients vanish or explode on the way from the loss to it.

    Gradients that only wait for a step are sound, and ``findings.zero_factors`` says so. If some are NaN and a finding
    says where that has ``begun``, modules that are not sound are left out: the NaN may be the only cause.
    """
    lost = begun and not all(isfinite(one.size) for one in judged.values())
    return [
        ModuleVerdict(
            "sound" if scope in waiting else one.kind,
            scope,
            translate(
                "{path}: typical gradient {size}{get}",
                path=_path(scope),
                size=number(one.size),
                get=waiting.get(scope, one.said),
            ),
            one.learned,
        )
        for scope, one in judged.items()
        if not lost or one.kind == "sound"
    ]


def shrinking(judged: dict[Scope, Judgement]) -> tuple[str, str] | None:
    """The finding about gradients that vanish little by little on their way back, and the remedy.

    None where they do not.

    ``findings.vanishing`` reports a single op that takes most of the gradient, or all.
    """
    way = [(scope, one.size) for scope, one in judged.items() if one.kind in ("vanishing", "sound")]
    vanished = [at for at, (scope, _) in enumerate(way) if judged[scope].kind == "vanishing"]
    if len(vanished) < _MANY or vanished != list(range(len(vanished))) or len(vanished) == len(way):
        return None
    factors = [after / before for (_, before), (_, after) in pairwise(way)]
    if max(factors) > _AT_ONCE:
        return None
    (first, size), (last, began) = way[0], way[-1]
    remedy = translate(
        "Keep its size: use normalization, residual connections, or weights drawn for the activation "
        "(nn.init.kaiming_normal_ for relu)"
    )
    text = translate(
        "the gradient shrinks little by little on its way back, so each earlier module learns less: "
        "a typical number of it is {began} in {path} and {size} in {path2}, {began2} times less from "
        "module to module. {remedy}",
        began=number(began),
        path=_path(last),
        size=number(size),
        path2=_path(first),
        began2=number((began / size) ** (1 / len(factors))),
        remedy=remedy,
    )
    return text, remedy


def _path(scope: Scope) -> str:
    return " > ".join(scope.path())


def starved(judged: dict[Scope, Judgement]) -> set[int]:
    """The ids of the parameters of modules that get no gradient, or one that has vanished on the way to them."""
    return {fact.id for one in judged.values() if one.kind in ("vanishing", "none") for fact in one.learned}


def zeroed(facts: list[Record], judged: dict[Scope, Judgement]) -> dict[int, str]:
    """The names, by id, of tensors outside of modules that a backward reached with a gradient of exactly 0."""
    owned = {fact.id for one in judged.values() for fact in one.learned}
    return {
        fact.id: f"{fact.full_name or a_kind(fact)} {fact.shape}"
        for fact in facts
        if fact.kind in ("parameter", "leaf") and fact.id not in owned and prod(fact.shape) > 0
        if fact.gradient is not None and fact.gradient.norm == 0
    }


def judgements(facts: list[Record], updates: dict[int, float], *, trains: bool) -> dict[Scope, Judgement]:
    """The judgement of each module with parameters that have a gradient.

    Args:
        facts: the records.
        updates: by record, the last update of a parameter in units of its norm. A gradient of any size is sound if an
            optimizer makes a usual step of it, as Adam does.
        trains: whether steps follow the backward.
    """
    sizes: dict[Scope, float] = {}
    comes: dict[Scope, float] = {}
    arriving, modules = _arriving(facts), _modules(facts)
    for scope, learned in modules.items():
        norms = [(fact.gradient.norm, prod(fact.shape)) for fact in learned if fact.gradient is not None]
        if count := sum(elements for _, elements in norms):
            sizes[scope] = sqrt(sum(norm**2 for norm, _ in norms) / count)
            comes[scope] = max(arriving[fact.id] for fact in learned)
    sound = [scope for scope, size in sizes.items() if isfinite(size) and size > 0]
    beginning = sound[-_BEGINNING:]
    typical = median([sizes[scope] for scope in beginning]) if beginning else 0.0
    usual = median([comes[scope] for scope in beginning]) if beginning else 0.0
    steps = {
        scope: max([updates.get(one.id, 0.0) for one in learned], default=0.0) for scope, learned in modules.items()
    }
    step = median([one for one in steps.values() if one] or [0.0])
    first = beginning[-1] if beginning and _leads_on(facts, modules[beginning[-1]]) else None
    found: dict[Scope, Judgement] = {}
    for scope, size in sizes.items():
        kind, said = _judged(scope, size, typical, _FAR if trains else _UNTRAINED, beginning, first)
        if kind in ("vanishing", "exploding") and usual / _NEAR <= comes[scope] <= usual * _NEAR and comes[scope]:
            kind, said = "sound", ""  # such as a gate before a normalization, which undoes the scale of the gate
        if kind in ("vanishing", "exploding") and step and step / _NEAR <= steps[scope] <= step * _NEAR:
            kind, said = "sound", ""
        if kind != "sound" and not trains and any(_is_installed(one) for one in outwards(scope)):
            kind, said = "sound", ""  # its authors have trained it
        found[scope] = Judgement(kind, size, said, modules[scope])
    return found


def _arriving(facts: list[Record]) -> defaultdict[int, float]:
    """For each tensor, by id: the typical size of the gradients of the results computed from it; 0 if none is kept."""
    found: defaultdict[int, float] = defaultdict(float)
    for fact in facts:
        if fact.gradient is not None and isfinite(fact.gradient.norm):
            size = fact.gradient.norm / sqrt(max(1, prod(fact.shape)))
            for source in {taken.source for taken in fact.inputs if taken.source is not None}:
                found[source] = max(found[source], size)
    return found


def _is_installed(scope: Scope) -> bool:
    return isinstance(scope, ModuleScope) and scope.kind.installed


def _leads_on(facts: list[Record], learned: list[Record]) -> bool:
    """Whether an op that uses ``learned`` gives one of its other inputs most of the gradient of that input."""
    made, own = {fact.id: fact for fact in facts}, {fact.id for fact in learned}
    for fact in facts:
        if own.isdisjoint(taken.source or 0 for taken in fact.inputs):
            continue
        for taken in fact.inputs:
            came = made[taken.source].gradient if taken.source in made and taken.source not in own else None
            if came is not None and taken.gradient is not None and came.norm <= 2 * taken.gradient.norm:
                return True
    return False


def _modules(facts: list[Record]) -> dict[Scope, list[Record]]:
    """The parameters that have a gradient, by the module call that uses them.

    If a rule used a parameter first, as when gradients are differentiated, it belongs to the first module that uses it.
    """
    users: dict[int, Scope] = {}
    for fact in facts:
        for taken in fact.inputs if fact.scope is not None else ():
            users.setdefault(taken.source or 0, fact.scope)  # type: ignore[arg-type]  # it is not None
    found: defaultdict[Scope, list[Record]] = defaultdict(list)
    for fact in facts:
        scope = fact.scope or users.get(fact.id)
        if fact.kind == "parameter" and scope is not None and fact.gradient is not None:
            found[scope].append(fact)
    return found


def _judged(
    scope: Scope, size: float, typical: float, far: float, beginning: list[Scope], first: Scope | None
) -> tuple[_Kind, str]:
    """Whether a gradient is of a sound size, and the text about one that differs by more than the factor ``far``.

    ``first`` is the module that the backward reaches first. If there are few modules, the unusual ones may be those
    before it.
    """
    if not isfinite(size):
        return "exploding", translate(": no finite number any more")
    if size == 0:
        return "none", translate(": exactly zero, nothing here learns from this loss")
    larger, smaller = size > far * typical, size * far < typical
    if not (larger or smaller):
        return "sound", ""
    than = (
        translate(", {size} times larger than", size=number(size / typical))
        if larger
        else translate(", {typical} times smaller than", typical=number(typical / size))
    )
    before = translate(
        "{than} in the modules before it: it {grows} on the way from here to them",
        than=than,
        grows=translate("shrinks" if larger else "grows"),
    )
    if larger and scope is beginning[-1]:
        return "vanishing", before
    if smaller and scope is first:
        return "exploding", before
    others = translate("other ") if scope in beginning else ""  # it is not compared with itself
    return "exploding" if larger else "vanishing", translate(
        "{than} in the {others}last modules, where the backward begins", than=than, others=others
    )
