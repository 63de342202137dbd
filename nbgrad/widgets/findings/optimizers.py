"""Gradients that no optimizer uses, uses twice or clears too late, and steps that change nothing."""

from dataclasses import replace

import torch

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.unreached import Unstepped
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.findings import divergence
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.located import called, first_of, located, path_of

_SMALL = 1e-3
"""A parameter may have finished learning if its gradient is at most this fraction of its own size."""

_ROUNDS = 30
"""While a cell runs, an optimizer is reported after this many calls of zero_grad() without a step."""

_ROUNDS_ADDED = 3
"""If so many steps find a gradient that was not cleared, clearing was forgotten."""

_TINY = torch.finfo(torch.float16).smallest_normal / 2**11
"""A smaller number is 0 in float16."""

_CONTAINERS = {"['": "dict", "[": "list"}
"""The plain containers, by the sign of their items in a name."""

_LARGER = message("Try a larger one")


def added_up(case: Examination) -> list[Finding]:
    """The finding that the gradients of all steps are added up. It is at the first parameter."""
    # An optimizer that puts another tensor into each .grad, as for differential privacy, keeps no sum there.
    replaced = set[int]().union(*[log.ids for log in case.optimizers if log.steps > 1 and not log.grad.same])
    found = divergence.added_up(case.records, case.frames) if case.frames else []
    if not (found := [one for one in found if one.id not in replaced]):
        return []
    remedy = translate("Call zero_grad() in every step")
    first, *others = found
    more = translate(" and of {others}", others=counted(len(others), "other")) if others else ""
    step = (first.since.what if first.since is not None else None) or translate("an update")
    text = translate(
        "the .grad of {first}{more} holds more than the gradient of the last backward, although "
        "{step} came after each backward: it still contains gradients of earlier backwards. {remedy}",
        first=called(first),
        more=more,
        step=step,
        remedy=remedy,
    )
    return [replace(located(first, "accumulated gradients", text, remedy), tensors=tuple(map(called, found)))]


def kept_gradients(case: Examination) -> list[Finding]:
    """The same as the first steps of an optimizer found it: at the end the gradients may be no numbers any more."""
    for log in [] if case.training.evaluates else case.optimizers:
        first = case.held_by(log)
        if log.grad.added_up >= _ROUNDS_ADDED and first is not None:
            remedy = translate("Call zero_grad() of this {name} before each of its backwards", name=log.name)
            text = translate(
                "{name} steps with gradients that still contain those of earlier steps: nothing has "
                "cleared them before {added_up} of its first steps. {remedy}",
                name=log.name,
                added_up=log.grad.added_up,
                remedy=remedy,
            )
            return [located(first, "accumulated gradients", text, remedy)]
    changes = case.evidence.by_hand()
    kept = [case.made[id] for id in sorted(changes) if id in case.made and changes[id].grad.added_up >= _ROUNDS_ADDED]
    if not kept:
        return []
    first, *others = kept
    more = translate(" and of {others}", others=counted(len(others), "other")) if others else ""
    text = translate(
        "the .grad of {first}{more} still contained earlier gradients at {added_up} of the changes "
        "by {place}: nothing has cleared it.",
        first=called(first),
        more=more,
        added_up=changes[first.id].grad.added_up,
        place=place_text(changes[first.id].place),
    )
    return [located(first, "accumulated gradients", text, translate("Call p.grad.zero_() after each change"))]


def idle_step(case: Examination) -> list[Finding]:
    """The finding about a step, around the last backward, that found no gradient and changed nothing."""
    found = case.evidence.idle_step()
    return [] if found is None else [Finding("idle step", *found)]


def unheld(case: Examination) -> list[Finding]:
    """The parameters with a gradient that are in no optimizer, if a step moved others.

    Those in a plain list or dict are left out: they have a finding of their own.
    """
    stepped = {record.kind for record in case.records if record.since and record.since.stepped}
    if not stepped:
        return []
    at, told = case.made, set[int]().union(*[inside for _, inside in case.unregistered])
    missing = [
        (id, called(at[id]) if id in at and at[id].full_name else what)
        for id, what in case.graph.unheld()
        if id not in told
    ]
    # A tensor that is optimized through a network leaves the parameters of the network alone.
    missing = [one for one in missing if "parameter" in stepped or (one[0] in at and at[one[0]].kind != "parameter")]
    if not missing:
        return []
    it, names = translate("it" if len(missing) == 1 else "them"), tuple([what for _, what in missing])
    remedy = translate("give {it} to one, or freeze {it} with requires_grad_(False)", it=it)
    items = [name for name in names if "]." in name]  # of a module in a container, not a tensor in one
    inside = next((kind for sign, kind in _CONTAINERS.items() if any(sign in name for name in items)), None)
    if inside is not None:
        remedy = translate(
            "use nn.Module{capitalize} in place of the {inside}", capitalize=inside.capitalize(), inside=inside
        )
    where = "" if inside is None else translate(", as parameters() does not look into a plain {inside}", inside=inside)
    text = translate(
        "{first_of} got a gradient, but no optimizer holds {it}{where}: {remedy}",
        first_of=first_of(list(names)),
        it=it,
        where=where,
        remedy=remedy,
    )
    return [Finding("no optimizer", text, remedy, missing[0][0], names, path_of(at.get(missing[0][0])))]


def unstepped(case: Examination) -> list[Finding]:
    """The optimizers that took no step in a loop: the loop has ended, or it has run for ``_ROUNDS`` rounds.

    Before that a step may still come, as for a network whose opponent is trained first.
    """
    graph, evidence = case.graph, case.evidence
    patience, remedy = 1 if graph.closed else _ROUNDS, translate("call step() after backward() if they are to learn")
    never = evidence.untouched() if graph.closed and graph.ending is None else []
    grown = {record.id for record in case.records if _adds_up(record)}
    neither = message(
        "{name} holds {first_of}, whose .grad holds the sum of {backwards}, but neither its "
        "step() nor its zero_grad() was called: {remedy}"
    )
    without = message(
        "{name} holds {first_of}, which got a gradient, but {calls} of its zero_grad() came "
        "without any of its step(): {remedy}"
    )

    def finding(text: str, one: Unstepped, **numbers: str) -> Finding:
        names = [what for _, what in one.waiting]
        said = translate(text, name=one.name, first_of=first_of(names), remedy=remedy, **numbers)
        return Finding("no step", said, remedy, one.waiting[0][0], tuple(names))

    return [
        finding(neither, one, backwards=counted(graph.backwards, "backward"))
        for one in never
        if any(id in grown for id, _ in one.waiting)
    ] + [
        finding(without, one, calls=counted(one.cleared, "call"))
        for one in (evidence.unstepped() if graph.ending is None else [])
        if one.cleared >= patience
    ]


def _adds_up(record: Record) -> bool:
    """Whether its ``.grad`` is larger than the gradient of the last backward."""
    since, came = record.since, record.gradient
    return since is not None and since.grad is not None and came is not None and since.grad.norm > 2 * came.norm


def lost_epsilon(case: Examination) -> list[Finding]:
    """The finding that an optimizer divides by a root of 0: its eps is below the smallest number of float16."""
    for log in case.optimizers:
        optimizer = log.known()
        for group in [] if optimizer is None else optimizer.param_groups:
            params = [one for one in group["params"] if one.dtype == torch.float16]
            size = None if group.get("fused") else group.get("eps")
            if params and isinstance(size, float) and size > 0 and torch.tensor(size, dtype=torch.float16) == 0:
                remedy = translate("Keep the parameters in float32 and compute under torch.autocast, or use eps=1e-4")
                text = translate(
                    "{name} has eps={size:g}, which is 0 in float16, the type of {parameters}: a step divides by 0 "
                    "where the square of a gradient is below {tiny:.1g}. {remedy}",
                    name=log.name,
                    size=size,
                    parameters=counted(len(params), "parameter"),
                    tiny=_TINY,
                    remedy=remedy,
                )
                return [Finding("nan", text, remedy)]
    return []


def still(case: Examination) -> list[Finding]:
    """The finding that steps changed nothing while gradients are large: the rate is 0 or lost in rounding."""
    rate = case.evidence.rate() if divergence.still(case.frames) else None
    learned = [
        record for record in case.records if record.kind in ("parameter", "leaf") and record.gradient and record.value
    ]
    if rate is None or not any(_large(record) for record in learned):
        return []
    (name, size), finest = rate, min([record.dtype for record in learned], key=lambda dtype: torch.finfo(dtype).eps)
    if size >= torch.finfo(finest).eps:
        return []
    lost = translate(", which is lost in the rounding of {finest}", finest=dtype_name(finest)) if size else ""
    text = translate(
        "{name} has a learning rate of {size}{lost}: its steps left every parameter as it was",
        name=name,
        size=number(size),
        lost=lost,
    )
    if not size:
        return [Finding("no change", text)]
    return [Finding("no change", f"{text}. {translate(_LARGER)}", translate(_LARGER))]


def _large(record: Record) -> bool:
    """Whether the gradient is large: if it were small, the parameter might have finished learning."""
    return (
        record.gradient is not None and record.value is not None and record.gradient.norm > _SMALL * record.value.norm
    )
