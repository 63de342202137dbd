"""What a reader must know of: where a NaN begins, what no gradient reached, broadcasts that nobody meant."""

from collections import defaultdict
from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import differentiable, dtype_name
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.stats import Stats
from nbgrad.core.graph.unreached import Unreached
from nbgrad.widgets.description.broadcast_sums import whose_name
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.description.overlays import shrinking, starved, zeroed
from nbgrad.widgets.description.schema import Edge, Problem
from nbgrad.widgets.description.snapshot import Fact
from nbgrad.widgets.findings import divergence
from nbgrad.widgets.findings.eval_mode import evaluating
from nbgrad.widgets.findings.loss_inputs import mistaken
from nbgrad.widgets.findings.saturated import leading_to_learned, silent
from nbgrad.widgets.findings.unregistered import plain
from nbgrad.widgets.findings.vanishing import falls
from nbgrad.widgets.findings.zero_factors import Waiting

_MOST = 20

_SMALL = 1e-3
"""A gradient of so much of the size of its parameter is that of one which has learned."""

_ROUNDS = 30
"""While a cell runs, an optimizer that was cleared so often without a step is not waited for any more."""

_NAMED = 3
"""So many names stand in one finding."""


def problems(
    graph: AutogradGraph,
    facts: list[Fact],
    ids: dict[int, str],
    edges: list[Edge],
    frames: list[HistoryFrame],
    waiting: Waiting,
) -> list[Problem]:
    """Everything that is wrong, or probably not meant, with the node it is drawn at where there is one.

    Args:
        graph: what is asked.
        facts: what it recorded.
        ids: of the nodes.
        edges: between them.
        frames: the backwards that it remembers, if there were several and ``facts`` are of the last one.
        waiting: what the gradients of each module are, and where one ends only as yet.
    """
    judged = waiting.judged
    unseen = list(plain(facts))
    spoiled = graph.spoiled()
    # Where an earlier backward was bad the parameters were before this one, whatever else was.
    before = not all(map(divergence.finite, frames[:-1])) if frames else graph.backwards > 1
    found = [Problem(kind="nan", text=text, node=None) for text in spoiled]
    lost = sum(not isfinite(one.size) for one in judged.values())
    found += _beginnings(facts, ids, frames, lost, before=before, hidden=bool(spoiled))
    found += _grown(facts, ids, frames)
    found += _added_up(facts, ids, frames)
    found += _unreached(graph, ids)
    found += _unstepped(graph, ids)
    found += _still(graph, facts, frames)
    found += _unheld(graph, facts, ids, set[int]().union(*[inside for _, _, inside in unseen]))
    slips = [text for text in (graph.idle_step(), graph.slip()) if text is not None]
    found += [Problem(kind="warning", text=text, node=None) for text in slips]
    ahead = leading_to_learned(facts)
    fallen = list(falls(facts, starved(judged), zeroed(facts, judged), ahead, waiting.ends))
    if not fallen and (text := shrinking(judged)) is not None:
        found.append(Problem(kind="warning", text=text, node=None))
    told = [
        *silent(facts, ahead),
        *fallen,
        *mistaken(facts),
        *evaluating(facts),
        *[(fact, text) for fact, text, _ in unseen],
    ]
    found += [Problem(kind="warning", text=text, node=ids[fact.id]) for fact, text in told]
    warned = dict.fromkeys(
        (edge["reduction"]["warning"], edge["target"])
        for edge in edges
        if edge["reduction"] is not None and edge["reduction"]["warning"]
    )
    found += [Problem(kind="warning", text=text, node=node) for text, node in warned if text]
    return found


def _bad(stats: Stats | None) -> str | None:
    if stats is None:
        return None
    return "NaN" if stats.nan else "Inf" if stats.inf else None


def _beginnings(
    facts: list[Fact], ids: dict[int, str], frames: list[HistoryFrame], lost: int, *, before: bool, hidden: bool
) -> list[Problem]:
    """The first values that are not finite, and the first gradients: not those that only pass them on.

    Of parameters that an earlier backward has spoiled one finding says since when they are.

    Args:
        facts: of the graph.
        ids: of the nodes.
        frames: the backwards that are remembered.
        lost: how many modules have gradients that are no finite number.
        before: whether parameters may have been bad when the last backward began.
        hidden: whether one began where nothing is recorded: a constant that is gone may have held it.
    """
    unknown = {
        fact.id for fact in facts if fact.kind == "constant" and fact.value is None and differentiable(fact.dtype)
    }
    gone = unknown if hidden else set[int]()
    found = list(_forward_beginnings(facts, gone if before else unknown)) or list(_backward_beginnings(facts))
    learned = [fact for fact, _ in found if fact.kind in ("parameter", "leaf")] if len(frames) > 1 else []
    if learned:
        text = divergence.spoiled(
            [fact for fact in facts if fact.kind in ("parameter", "leaf") and _bad(fact.value)], frames, facts
        )
        at = divergence.held(frames, facts) or learned[0]
        found = [(at, text), *[(fact, text) for fact, text in found if fact not in learned]]
    elif len(found) == 1 and lost > _NAMED:
        found = [(fact, f"{text}. It went on to {_reach(facts, fact, lost)}") for fact, text in found]
    return [
        Problem(kind="nan", text=text, node=ids[fact.id])
        for fact, text in found
        if gone.isdisjoint(taken.source or 0 for taken in fact.inputs)
    ]


def _reach(facts: list[Fact], first: Fact, modules: int) -> str:
    """How far what began at the ``first`` went: to what was made of it, and to the gradients of so many ``modules``."""
    reached = {first.id} if _bad(first.value) else set[int]()
    for fact in facts:
        may_be = fact.value is None or _bad(fact.value)  # its value may not be kept
        if may_be and not reached.isdisjoint(taken.source or 0 for taken in fact.inputs):
            reached.add(fact.id)
    made = f"{counted(len(reached) - 1, 'tensor')} and " if len(reached) > 1 else ""
    return f"{made}the gradients of {counted(modules, 'module')}"


def _forward_beginnings(facts: list[Fact], unknown: set[int]) -> Iterator[tuple[Fact, str]]:
    """The first values that are not finite; an Inf that is meant is none, as in a mask, nor is it an anomaly.

    One may have begun in a constant that is ``unknown``, since nobody has kept it.
    """
    made = {fact.id: fact for fact in facts}
    later, wrong = _spoiled_since(facts, unknown), set[int]()
    doubtful = {id: made[id] for id in unknown}  # the constant that may have brought it, also by values not kept
    for fact in facts:
        bad = _bad(fact.value)
        given = next((doubtful[one.source] for one in fact.inputs if one.source in doubtful), None)
        if fact.value is None and given is not None:
            doubtful[fact.id] = given
        if (fact.value is not None and not bad) or fact.id in later:
            continue
        if not wrong.isdisjoint(taken.source or 0 for taken in fact.inputs):
            wrong.add(fact.id)  # or may be: its value is not kept
        elif bad == "NaN" or (bad == "Inf" and not _meant(fact, made)):
            wrong.add(fact.id)
            why = _cause(fact, made, bad)
            if not why and given is not None:
                why = f", or is in {given.name or 'a constant'} {given.shape} that led to it and is gone"
            yield fact, f"{bad} begins here, in the forward of {fact.what}{why}"


def _spoiled_since(facts: list[Fact], unknown: set[int]) -> set[int]:
    """The leaves that are bad only since a step with a bad gradient, which came after the backward.

    What they were before is not known, but what was made of them tells: it is not bad, or not by them alone, or not
    surely by them, where a constant is ``unknown``.
    """
    changed = {fact.id for fact in facts if fact.since is not None and fact.since.what and _bad(fact.value)}
    if not changed:
        return changed
    fine = set[int]()  # what led to something that is not bad
    for fact in reversed(facts):
        if fact.id in fine if fact.value is None else not _bad(fact.value):
            fine.update(taken.source or 0 for taken in fact.inputs)
    bad, were_bad = set(unknown), set[int]()
    for fact in facts:
        sources = {taken.source or 0 for taken in fact.inputs}
        if fact.value is None:
            wrong = fact.id not in fine and not sources.isdisjoint(bad | (changed - fine))
        else:
            meant = fact.kind == "constant" and _bad(fact.value) == "Inf"
            wrong = _bad(fact.value) is not None and fact.id not in changed and not meant
        if wrong:
            were_bad |= (changed - fine) & sources if bad.isdisjoint(sources) else set()
            bad.add(fact.id)
    return changed - were_bad


def _meant(fact: Fact, made: dict[int, Fact]) -> bool:
    """Whether an Inf is in a constant, or was given to the op that passes it on."""
    return fact.kind == "constant" or nonfinite.passed_on("inf", _given(fact, made), fact.settings)


def _given(fact: Fact, made: dict[int, Fact]) -> list[Any]:
    """The numbers that an op was given, and what is known of the values of tensors.

    A constant that is gone, as ``nbgrad.tensor(-inf)`` within an expression, may have been infinite.
    """
    sources = [one for taken in fact.inputs if (one := made.get(taken.source or 0)) is not None]
    known = [inf if one.value is None and one.kind == "constant" else one.value for one in sources]
    return [*known, *[taken.literal for taken in fact.inputs]]


def _backward_beginnings(facts: list[Fact]) -> Iterator[tuple[Fact, str]]:
    """The first gradient that is not finite, unless the values that its rule read are not either."""
    made = {fact.id: fact for fact in facts}
    for fact in reversed(facts):
        for taken in fact.inputs:
            bad = _bad(taken.gradient)
            if not bad or _bad(fact.gradient):
                continue
            if not nonfinite.passed_on(bad.lower(), [fact.value, *_given(fact, made)], fact.settings):
                whose = whose_name(taken.name, made[taken.source]) if taken.source in made else ""
                given = f"{taken.name} ({whose})" if whose else taken.name
                yield fact, f"{bad} begins here, in the rule of {fact.what} for {given}"
                return


def _cause(fact: Fact, made: dict[int, Fact], bad: str) -> str:
    """Which numbers met in the first bad element, as far as they are known."""
    op, stats = fact.op, fact.value
    if op is None or stats is None or stats.raw is None:
        return ""
    given: list[nonfinite.Given] = []
    for taken in fact.inputs:
        source = made.get(taken.source or 0)
        known = source.value if source is not None else None
        values = taken.literal if source is None else None if known is None else known.values
        name = (source.name if source is not None else None) or taken.name
        if source is not None and values is None:
            return ""
        given.append(
            nonfinite.Given(taken.name, name, values if source is None else torch.tensor(values, dtype=source.dtype))
        )
    out = torch.tensor(stats.values, dtype=fact.dtype)
    run = nonfinite.again(op, fact.settings)
    found = nonfinite.operands(run, op.stretched, given, bad.lower(), out)
    values = [one.value for one in given if one.value is not None]
    why = nonfinite.cause(op, bad.lower(), found, values, fact.settings, fact.dtype)
    return f": {why}" if why else ""


def _grown(facts: list[Fact], ids: dict[int, str], frames: list[HistoryFrame]) -> list[Problem]:
    """That the loss of the loop grew without bound, at the box of the loss."""
    text = divergence.grown(frames) if len(frames) > 1 else None
    root = next((ids[fact.id] for fact in facts if fact.root), None)
    return [] if text is None else [Problem(kind="warning", text=text, node=root)]


def _added_up(facts: list[Fact], ids: dict[int, str], frames: list[HistoryFrame]) -> list[Problem]:
    """That the gradients of all steps are added up, at the first parameter."""
    if not (found := divergence.added_up(facts, frames) if frames else []):
        return []
    first, *others = found
    more = f" and of {counted(len(others), 'other')}" if others else ""
    step = first.since.what if first.since is not None else None
    text = (
        f"the .grad of {first.name or f'a {first.kind}'} {first.shape}{more} holds more than the last backward "
        f"brought, though {step} came after each: gradients of earlier steps are in it. Call zero_grad() in every step"
    )
    return [Problem(kind="warning", text=text, node=ids[first.id])]


def _unreached(graph: AutogradGraph, ids: dict[int, str]) -> list[Problem]:
    """What no gradient reached though it is to learn; what ends in one place and has no box is told of once, there.

    What something has moved learns from another loss, as one of two networks, or is a copy of what learns. Nor is a
    network to learn that is looked at inside ``no_grad``, or cut off by ``detach()``, or an input whose gradient was
    asked for, where an optimizer is at work and none that holds it: its turn may come.
    """
    learning = graph.update is not None
    missing: defaultdict[tuple[str, str | None], list[Unreached]] = defaultdict(list)
    for one in graph.unreached():
        turn = one.kind in ("no_grad", "detached", "elsewhere") and not one.stepped and (learning or one.others)
        if one.kind != "no backward" and not one.moved and not turn:
            missing[one.reason, ids.get(one.id or 0) or ids.get(one.behind or 0)].append(one)
    # An earlier backward may have given it one, as that of another loss does.
    words = "The last backward gave no gradient to" if graph.backwards > 1 else "No gradient reached"
    found = [
        Problem(
            kind="unreached", text=f"{words} {_first([one.what for one in several])}: {several[0].reason}", node=node
        )
        for (_, node), several in missing.items()
    ]
    return _some(found, "that no gradient reached")


def _first(names: list[str]) -> str:
    """All of a few names; of more the first ones, and the last."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    others = counted(len(names) - _NAMED + 1, "other")
    return f"{', '.join(names[: _NAMED - 1])} and {others}, the last of them {names[-1]}"


def _unheld(graph: AutogradGraph, facts: list[Fact], ids: dict[int, str], told: set[int]) -> list[Problem]:
    """What got a gradient and no optimizer holds, where a step of one has moved others since; but what is ``told``."""
    if not any(fact.kind == "parameter" and fact.since and fact.since.stepped for fact in facts):
        return []
    words = "got a gradient, but no optimizer holds it: give it to one, or freeze it with requires_grad_(False)"
    missing = [(id, what) for id, what in graph.unheld() if id not in told]
    found = [Problem(kind="warning", text=f"{what} {words}", node=ids.get(id)) for id, what in missing]
    return _some(found, "that no optimizer holds")


def _unstepped(graph: AutogradGraph, ids: dict[int, str]) -> list[Problem]:
    """The optimizers that have taken no step in a loop that has come to its end, or has gone on for so long without.

    Until then theirs may come, as that of a network whose opponent is trained first.
    """
    patience = 1 if graph.closed else _ROUNDS
    return [
        Problem(
            kind="warning",
            text=f"{one.name} holds {_first([what for _, what in one.waiting])}, which got a gradient, but in "
            f"{counted(one.cleared, 'call')} of its zero_grad() there was none of its step(): call that after "
            "backward() if they are to learn",
            node=ids.get(one.waiting[0][0]),
        )
        for one in (graph.unstepped() if graph.ending is None else [])
        if one.cleared >= patience
    ]


def _still(graph: AutogradGraph, facts: list[Fact], frames: list[HistoryFrame]) -> list[Problem]:
    """That steps changed nothing, by a learning rate of 0 or one that is lost in rounding where gradients are large."""
    rate = graph.rate() if divergence.still(frames) else None
    learned = [fact for fact in facts if fact.kind in ("parameter", "leaf") and fact.gradient and fact.value]
    if rate is None or not any(_large(fact) for fact in learned):
        return []
    (name, size), finest = rate, min([fact.dtype for fact in learned], key=lambda dtype: torch.finfo(dtype).eps)
    if size >= torch.finfo(finest).eps:
        return []
    lost = f", which is lost in the rounding of {dtype_name(finest)}" if size else ""
    text = f"{name} has a learning rate of {number(size)}{lost}: its steps left every parameter as it was"
    return [Problem(kind="warning", text=f"{text}. Try a larger one" if size else text, node=None)]


def _large(fact: Fact) -> bool:
    """Whether its gradient is not so small that it may have been learned already."""
    return fact.gradient is not None and fact.value is not None and fact.gradient.norm > _SMALL * fact.value.norm


def _some(found: list[Problem], what: str) -> list[Problem]:
    """The first ones of ``found``, and how many more there are."""
    if len(found) <= _MOST:
        return found
    left = f"and {len(found) - _MOST:,} more {what}"
    return [*found[:_MOST], Problem(kind=found[0]["kind"], text=left, node=None)]
