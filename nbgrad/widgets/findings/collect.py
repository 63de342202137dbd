"""All findings of a graph: where a NaN begins, tensors that no gradient reached, broadcasts that were not meant."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, Self

import torch

from nbgrad.core.engine.call_site import in_library
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import differentiable, dtype_name
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.checkup import Check, Checkup
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.finding import Finding, FindingKind
from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.silence import Silence
from nbgrad.core.graph.stats import Stats
from nbgrad.core.graph.thinned import KEPT, fewer
from nbgrad.core.graph.unreached import Unreached
from nbgrad.core.no_gc import uncollected
from nbgrad.widgets.description.broadcast_sums import Suspicion, suspicions, whose_name
from nbgrad.widgets.description.failure import ended
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.description.history import frames_of
from nbgrad.widgets.description.told import grouped
from nbgrad.widgets.findings import divergence
from nbgrad.widgets.findings.calls import misordered
from nbgrad.widgets.findings.checks import Facts, checked, unchecked
from nbgrad.widgets.findings.dimensions import mixed
from nbgrad.widgets.findings.eval_mode import evaluating
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.frozen import frozen
from nbgrad.widgets.findings.functions import untrue
from nbgrad.widgets.findings.layers import idle
from nbgrad.widgets.findings.located import called, located
from nbgrad.widgets.findings.loss_inputs import mistaken
from nbgrad.widgets.findings.module_gradients import (
    Judgement,
    ModuleVerdict,
    judgements,
    shrinking,
    starved,
    verdicts,
    zeroed,
)
from nbgrad.widgets.findings.outputs import CONSTANT_TARGETS, LONE_SOFTMAX, unfit
from nbgrad.widgets.findings.progress import stalled
from nbgrad.widgets.findings.saturated import leading_to_learned, silent
from nbgrad.widgets.findings.through_numpy import halved
from nbgrad.widgets.findings.unregistered import plain
from nbgrad.widgets.findings.vanishing import falls
from nbgrad.widgets.findings.zero_factors import Waiting, waiting

_SMALL = 1e-3
"""A parameter may have finished learning if its gradient is at most this fraction of its own size."""

_ROUNDS = 30
"""While a cell runs, an optimizer is reported after this many calls of zero_grad() without a step."""

_ROUNDS_ADDED = 3
"""If so many steps find a gradient that was not cleared, clearing was forgotten."""

_NAMED = 3
"""One finding contains at most this many names."""

_TOLD_BY_ENDS = (CONSTANT_TARGETS, LONE_SOFTMAX)
"""The remedies that say no more than the finding about the op where a gradient ends."""

_CONTAINERS = {"['": "dict", "[": "list"}
"""The plain containers, by the sign of their items in a name."""

_LARGER = "Try a larger one"

_LEFT_OUT = "Use it in forward(), or leave it out of the model and of the optimizer"
"""The remedy for a layer that no op uses."""

_REMEDIES = {
    "unused": _LEFT_OUT,
    "no_grad": "Run it outside of no_grad() if it is to learn",
    "detached": "Leave that out if it is to learn",
    "no gradient": "Use an op with a gradient, such as softmax for argmax, or cross_entropy for the accuracy",
    "elsewhere": "Add it to the loss if it is to learn",
    "function": "Return a gradient for it in backward()",
    "checkpoint": "Use checkpoint(..., use_reentrant=False), or give it an input with requires_grad_()",
}
"""The remedy for a tensor that no gradient reached, by ``Unreached.kind``."""

_NOT_THEIRS = ("failed", "inplace", "nan", "custom function", "checkpoint")
"""What no package does on purpose. But it may cut paths off, and have outputs that a loss does not use."""

_KINDS: dict[str, FindingKind] = {"function": "custom function", "checkpoint": "checkpoint"}

_VERDICTS: dict[str, FindingKind] = {"vanishing": "vanishing", "exploding": "exploding", "none": "zero gradient"}
"""The kind of finding for each judgement of the gradients of a module."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A graph as it was when it was searched, and its findings.

    Attributes:
        records: what it recorded.
        left_out: how many ops have no record here, because there are too many.
        frames: the backwards that it remembers, if there were several and ``records`` are of the last one.
        waits: the judgement of each module's gradients, and the ops where a gradient ends only until a step moves a
            factor of 0.
        stretched: the broadcasts that were probably not meant, by the id of the op and the position of its input.
        ended: what ended the graph, if that is a finding.
        found: the other faults, and probable mistakes.
        verdicts: what the gradients of each module are, in words.
        checks: what was looked at, by check.
        mistakes: a sentence about each comment that was to silence a finding and cannot be read.
    """

    records: list[Record]
    left_out: int
    frames: list[HistoryFrame]
    waits: Waiting
    stretched: dict[tuple[int, int], Suspicion]
    ended: Finding | None
    found: list[Finding]
    verdicts: list[ModuleVerdict]
    checks: tuple[Check, ...] = ()
    mistakes: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: AutogradGraph, most: int = KEPT) -> Self:
        """Look through ``graph``, open or closed: through the first and the last of more than ``most`` ops."""
        if isinstance(graph.survey, cls) and len(graph.survey.records) <= most:
            return graph.survey
        ending, (records, left) = graph.ending, fewer(graph.snapshot(), most)
        left += graph.left_out
        if graph.fault is not None:  # a part of the facts is missing, so what they seem to say may be wrong
            end = None if ending is None else ended(ending)
            checks = unchecked("a part of the graph is missing", [] if end is None else [end])
            return cls(records, left, [], Waiting({}, set(), {}, []), {}, end, [], [], checks)
        frames, judged = frames_of(graph, records), _judged(graph, records)
        waits, stretched = waiting(graph, records, judged, frames), suspicions(records)
        case = Examination(graph, records, frames, starved(judged), waits.scopes)
        found = _found(case, waits, stretched)
        said = verdicts(judged, waits.scopes, begun=any(one.kind == "nan" for one in found))
        end = None if ending is None else ended(ending)
        silence = Silence(graph.silence)
        found = [one for one in found if not silence.takes(one)]
        quiet = {one.kind for one in _of_modules(_unsound(said)) if silence.takes(one)}
        said = [one._replace(kind="sound") if _VERDICTS.get(one.kind) in quiet else one for one in said]
        told = {(one.kind, one.id) for one in silence.silenced}
        stretched = {key: one for key, one in stretched.items() if ("broadcast", key[0]) not in told}
        all_found = [*([] if end is None else [end]), *found, *_of_modules(_unsound(said))]
        checks = checked(Facts(case, judged), all_found, silence.silenced)
        return cls(records, left, frames, waits, stretched, end, found, said, checks, tuple(silence.mistakes))

    @property
    def findings(self) -> list[Finding]:
        """All findings: the error that ended the graph, the findings, and the modules whose gradients are not sound."""
        modules = _of_modules(_unsound(self.verdicts))
        shown = {record.id for record in self.records}
        ended = [] if self.ended is None else [self.ended]
        return [one if one.id in shown else replace(one, id=None) for one in (*ended, *self.found, *modules)]


@uncollected
def findings(graph: AutogradGraph) -> list[Finding]:
    """All findings of ``graph``, open or closed."""
    return Survey.of(graph).findings


@uncollected
def checkup(graph: AutogradGraph) -> Checkup:
    """The checks of ``graph``, open or closed, with what came of each."""
    survey = Survey.of(graph)
    left = f"{counted(survey.left_out, 'op')} of the middle were not looked at" if survey.left_out else ""
    return Checkup(survey.checks, (*survey.mistakes, *([left] if left else [])))


def _unsound(said: list[ModuleVerdict]) -> list[ModuleVerdict]:
    return [one for one in said if one.kind != "sound"]


def _of_modules(bad: list[ModuleVerdict]) -> list[Finding]:
    """The findings about modules whose gradients are not sound: many of one kind have one cause, and one finding."""
    found = []
    for kind in dict.fromkeys(one.kind for one in bad):
        alike = [one for one in bad if one.kind == kind]
        texts = grouped([(one.scope.path()[-1], one.text) for one in alike])
        groups = [[one] for one in alike] if len(texts) == len(alike) else [alike]
        for text, group in zip(texts, groups, strict=True):
            tensors = tuple([called(record) for one in group for record in one.learned])
            found.append(Finding(_VERDICTS[kind], text, tensors=tensors, scope=group[0].scope.path()))
    return found


def _found(case: Examination, waits: Waiting, stretched: dict[tuple[int, int], Suspicion]) -> list[Finding]:
    """Everything that is wrong, or probably not meant. The most important findings come first."""
    graph, records, frames, judged = case.graph, case.records, case.frames, waits.judged
    unseen = list(plain(records))
    spoiled = Evidence(graph).spoiled()
    # If an earlier backward was bad, the parameters may have been bad before this one.
    before = not all(map(divergence.finite, frames[:-1])) if frames else graph.backwards > 1
    found = [Finding("nan", text) for text in spoiled]
    lost = sum(not isfinite(one.size) for one in judged.values())
    first = Evidence(graph).first_bad()
    found += _beginnings(records, frames, lost, before=before, hidden=bool(spoiled), first=first)
    found += _grown(records, frames)
    found += _added_up(case) or _kept_gradients(case)
    found += _unreached(case)
    found += _unstepped(graph, records)
    found += _still(graph, records, frames)
    found += _unheld(graph, records, set[int]().union(*[inside for _, inside in unseen]))
    if (step := Evidence(graph).idle_step()) is not None:
        found.append(Finding("idle step", *step))
    found += [*misordered(case), *frozen(case)]
    ahead = leading_to_learned(records)
    fallen = list(falls(records, starved(judged), zeroed(records, judged), ahead, waits.ends))
    if not fallen and (shrunk := shrinking(judged)) is not None:
        found.append(Finding("vanishing", *shrunk))
    found += [*silent(records, ahead), *fallen, *mistaken(records), *evaluating(records), *[one for one, _ in unseen]]
    found += halved(records)
    known, bad = {(one.kind, one.id) for one in found}, any(one.kind == "nan" for one in found)
    more = [*unfit(case), *untrue(case), *mixed(case), *idle(case)]
    shown = {one.id for one in found if one.kind == "nan"}  # the text of such a finding says why
    masked = first is not None and first.op in ("softmax", "log_softmax") and first.id not in shown
    hidden_by_nan = {"data"} if masked else {"data", "attention"}
    known |= {("broadcast", id) for id, _ in stretched}
    drawn = {record.id for record in records if getattr(record.op, "random", False)}
    vague = {(one.kind, one.id) for one in found if one.remedy is None and one.id in drawn}
    told = [one for one in more if (one.kind, one.id) not in known - vague and not (bad and one.kind in hidden_by_nan)]
    ends = {one.id for one in found if one.kind == "zero gradient" and one.id is not None}
    told = [one for one in told if not (ends and one.remedy in _TOLD_BY_ENDS)]
    better = {(one.kind, one.id) for one in told}
    found = [one for one in found if one.id is None or (one.kind, one.id) not in better] + told
    found = [one for one in (*found, *stalled(case, found)) if not _is_meant(one, case)]
    at = {record.id: record for record in records}
    accidents = dict.fromkeys((one, id) for (id, _), one in stretched.items())  # both inputs may have the same text
    return found + [located(at[id], "broadcast", one.text, one.remedy) for one, id in accidents]


def _judged(graph: AutogradGraph, records: list[Record]) -> dict[Scope, Judgement]:
    step, trains = graph.update, Evidence(graph).trains()
    return judgements(records, {} if step is None else step.ratios, trains=trains)


def _is_meant(found: Finding, case: Examination) -> bool:
    """Whether nothing is trained, so that a loss may grow, or an installed package does what its author has tried."""
    theirs = found.place is not None and in_library(found.place.file)
    return not case.evidence.trains() and (found.kind == "sign" or (theirs and found.kind not in _NOT_THEIRS))


def _bad(stats: Stats | None) -> str | None:
    if stats is None:
        return None
    return "NaN" if stats.nan else "Inf" if stats.inf else None


def _beginnings(
    records: list[Record],
    frames: list[HistoryFrame],
    lost: int,
    *,
    before: bool,
    hidden: bool,
    first: FirstBad | None = None,
) -> list[Finding]:
    """The first values or gradients that are not finite, without those that only pass them on.

    If an earlier backward has spoiled parameters, one finding says since when they are not finite.

    Args:
        records: of the graph.
        frames: the backwards that are remembered.
        lost: how many modules have gradients that are no finite number.
        before: whether parameters may have been bad when the last backward began.
        hidden: whether a bad number began where nothing is recorded. A constant that is gone may have held it.
        first: where the first bad number began, if the graph has found that out while it recorded.
    """
    unknown = {
        record.id
        for record in records
        if record.kind == "constant" and record.value is None and differentiable(record.dtype)
    }
    gone = unknown if hidden else set[int]()
    found = list(_forward_beginnings(records, gone if before else unknown)) or list(_backward_beginnings(records))
    remedy: str | None = None
    learned = [record for record, _ in found if record.kind in ("parameter", "leaf")] if len(frames) > 1 else []
    if learned:
        text, remedy = divergence.spoiled(
            [record for record in records if record.kind in ("parameter", "leaf") and _bad(record.value)],
            frames,
            records,
            first,
        )
        at = divergence.held(frames, records) or learned[0]
        found = [(at, text), *[(record, text) for record, text in found if record not in learned]]
    elif first is not None and not hidden and _tells_more(first, found):
        return [_earlier(first, records, several=len(frames) > 1 or first.number > 1)]
    elif len(found) == 1 and lost > _NAMED:
        found = [(record, f"{text}. It went on to {_reach(records, record, lost)}") for record, text in found]
    if not learned:
        found = [(record, divergence.advised(record, text)) for record, text in found]
    return [
        _placed(located(record, "nan", text, _remedy(record, remedy, text)), first if learned else None)
        for record, text in found
        if gone.isdisjoint(taken.source or 0 for taken in record.inputs) and not (hidden and _is_gone(record))
    ]


def _tells_more(first: FirstBad, found: list[tuple[Record, str]]) -> bool:
    """Whether the graph saw another beginning than the present numbers show, and knows the op or the step."""
    known = first.op is not None or first.phase == "step"
    return known and all(record.id != first.id for record, _ in found)


def _remedy(record: Record, remedy: str | None, text: str) -> str | None:
    """The remedy that the ``text`` names."""
    known = remedy or (None if record.op is None else divergence.remedy_of(record.op.name))
    return known if known is not None and known in text else None


def _placed(finding: Finding, first: FirstBad | None) -> Finding:
    """The ``finding`` about spoiled parameters, with the line where the trouble began."""
    return finding if first is None or first.place is None else replace(finding, place=first.place)


def _earlier(first: FirstBad, records: list[Record], *, several: bool) -> Finding:
    """The finding about the beginning that the graph saw; the present numbers do not show it any more."""
    which = f"in backward {first.number:,}, " if several else ""
    text, remedy = divergence.beginning(first)
    shown = next((record for record in records if record.id == first.id), None)
    scope = _path(shown)
    return Finding("nan", f"{first.what} begins {which}{text}", remedy, first.id, scope=scope, place=first.place)


def _is_gone(record: Record) -> bool:
    """Whether it is a constant that no longer exists: only its numbers are kept, without their origin."""
    return record.kind == "constant" and (record.leaf is None or record.leaf() is None)


def _reach(records: list[Record], first: Record, modules: int) -> str:
    """How far the bad numbers of the ``first`` went: to results made of it, and to the gradients of ``modules``."""
    reached = {first.id} if _bad(first.value) else set[int]()
    for record in records:
        may_be = record.value is None or _bad(record.value)  # its value may not be kept
        if may_be and not reached.isdisjoint(taken.source or 0 for taken in record.inputs):
            reached.add(record.id)
    made = f"{counted(len(reached) - 1, 'tensor')} and " if len(reached) > 1 else ""
    return f"{made}the gradients of {counted(modules, 'module')}"


def _forward_beginnings(records: list[Record], unknown: set[int]) -> Iterator[tuple[Record, str]]:
    """The first values that are not finite. An Inf that is meant, as in a mask, does not count.

    A bad value may have begun in a constant that is ``unknown``, because its numbers were not kept.
    """
    made = {record.id: record for record in records}
    later, wrong = _spoiled_since(records, unknown), set[int]()
    doubtful = {id: made[id] for id in unknown}  # by record: the constant that may have brought Inf or NaN
    for record in records:
        bad = _bad(record.value)
        given = next((doubtful[one.source] for one in record.inputs if one.source in doubtful), None)
        if record.value is None and given is not None:
            doubtful[record.id] = given
        if (record.value is not None and not bad) or record.id in later:
            continue
        if not wrong.isdisjoint(taken.source or 0 for taken in record.inputs):
            wrong.add(record.id)  # or may be: its value is not kept
        elif bad == "NaN" or (bad == "Inf" and not _meant(record, made)):
            wrong.add(record.id)
            why = _cause(record, made, bad)
            if not why and given is not None:
                why = f", or in {given.full_name or 'a constant'} {given.shape}, which led to it and no longer exists"
            yield record, f"{bad} begins here, in the forward of {record.what}{why}"


def _spoiled_since(records: list[Record], unknown: set[int]) -> set[int]:
    """The leaves that are bad only since a step with a bad gradient, which came after the backward.

    Their earlier values are unknown, so the results computed from them decide. A leaf was good before the step if these
    results are finite, or if other inputs or a constant that is ``unknown`` may have made them bad.
    """
    changed = {record.id for record in records if record.since is not None and record.since.what and _bad(record.value)}
    if not changed:
        return changed
    fine = set[int]()  # what led to something that is not bad
    for record in reversed(records):
        if record.id in fine if record.value is None else not _bad(record.value):
            fine.update(taken.source or 0 for taken in record.inputs)
    bad, were_bad = set(unknown), set[int]()
    for record in records:
        sources = {taken.source or 0 for taken in record.inputs}
        if record.value is None:
            wrong = record.id not in fine and not sources.isdisjoint(bad | (changed - fine))
        else:
            meant = record.kind == "constant" and _bad(record.value) == "Inf"
            wrong = _bad(record.value) is not None and record.id not in changed and not meant
        if wrong:
            were_bad |= (changed - fine) & sources if bad.isdisjoint(sources) else set()
            bad.add(record.id)
    return changed - were_bad


def _meant(record: Record, made: dict[int, Record]) -> bool:
    """Whether an Inf is in a constant, or was given to the op that passes it on."""
    return record.kind == "constant" or nonfinite.passed_on("inf", _given(record, made), record.settings)


def _given(record: Record, made: dict[int, Record]) -> list[Any]:
    """The numbers that an op was given, and the known facts about the values of tensors.

    A constant that is gone, as ``nbgrad.tensor(-inf)`` within an expression, may have been infinite.
    """
    sources = [one for taken in record.inputs if (one := made.get(taken.source or 0)) is not None]
    known = [inf if one.value is None and one.kind == "constant" else one.value for one in sources]
    return [*known, *[taken.literal for taken in record.inputs]]


def _backward_beginnings(records: list[Record]) -> Iterator[tuple[Record, str]]:
    """The first gradient that is not finite, unless the values that its rule read are not either."""
    made = {record.id: record for record in records}
    for record in reversed(records):
        for taken in record.inputs:
            bad = _bad(taken.gradient)
            if not bad or _bad(record.gradient):
                continue
            if not nonfinite.passed_on(bad.lower(), [record.value, *_given(record, made)], record.settings):
                whose = whose_name(taken.name, made[taken.source]) if taken.source in made else ""
                given = f"{taken.name} ({whose})" if whose else taken.name
                yield record, f"{bad} begins here, in the rule of {record.what} for {given}"
                return


def _cause(record: Record, made: dict[int, Record], bad: str) -> str:
    """Which numbers met in the first bad element, as far as they are known."""
    op, stats = record.op, record.value
    if op is None or stats is None or stats.raw is None:
        return ""
    given: list[nonfinite.OpInput] = []
    for taken in record.inputs:
        source = made.get(taken.source or 0)
        known = source.value if source is not None else None
        values = taken.literal if source is None else None if known is None else known.values
        name = (source.name if source is not None else None) or taken.name
        if source is not None and values is None:
            return ""
        given.append(
            nonfinite.OpInput(taken.name, name, values if source is None else torch.tensor(values, dtype=source.dtype))
        )
    out = torch.tensor(stats.values, dtype=record.dtype)
    run = nonfinite.again(op, record.settings)
    found = nonfinite.operands(run, op.stretched, given, bad.lower(), out)
    values = [one.value for one in given if one.value is not None]
    why = nonfinite.cause(op, bad.lower(), found, values, record.settings, record.dtype)
    return f": {why}" if why else ""


def _grown(records: list[Record], frames: list[HistoryFrame]) -> list[Finding]:
    """The finding that the loss of the loop grew without bound. It is at the box of the loss."""
    text = divergence.grown(frames) if len(frames) > 1 else None
    if text is None:
        return []
    root = next((record for record in records if record.root), None)
    if root is None:
        return [Finding("divergence", text, divergence.SMALLER)]
    return [located(root, "divergence", text, divergence.SMALLER)]


def _added_up(case: Examination) -> list[Finding]:
    """The finding that the gradients of all steps are added up. It is at the first parameter."""
    # An optimizer that puts another tensor into each .grad, as for differential privacy, keeps no sum there.
    replaced = set[int]().union(*[log.ids for log in case.optimizers if log.steps > 1 and not log.same])
    found = divergence.added_up(case.records, case.frames) if case.frames else []
    if not (found := [one for one in found if one.id not in replaced]):
        return []
    remedy = "Call zero_grad() in every step"
    first, *others = found
    more = f" and of {counted(len(others), 'other')}" if others else ""
    step = (first.since.what if first.since is not None else None) or "an update"
    text = (
        f"the .grad of {called(first)}{more} holds more than the gradient of the last "
        f"backward, although {step} came after each backward: it still contains gradients of earlier backwards. "
        f"{remedy}"
    )
    return [replace(located(first, "accumulated gradients", text, remedy), tensors=tuple(map(called, found)))]


def _kept_gradients(case: Examination) -> list[Finding]:
    """The same of an optimizer, as its first steps found the gradients: at the end they may be no numbers any more."""
    for log in [] if case.training.evaluates else case.optimizers:
        first = next((case.made[id] for id in sorted(log.ids) if id in case.made), None)
        if log.added_up >= _ROUNDS_ADDED and first is not None:
            remedy = f"Call zero_grad() of this {log.name} before each of its backwards"
            text = (
                f"{log.name} steps with gradients that still contain those of earlier steps: nothing has cleared them "
                f"before {log.added_up} of its first steps. {remedy}"
            )
            return [located(first, "accumulated gradients", text, remedy)]
    return []


def _unreached(case: Examination) -> list[Finding]:
    """The tensors to train that no gradient reached.

    Tensors without a box of their own share a finding if their paths break at the same place. Some tensors are left
    out. One kind is a parameter that was changed: it learns from another loss, as with two networks, or it is a copy of
    one that learns. Another kind is a tensor that no optimizer has stepped, while an optimizer steps other tensors: it
    may get its turn later. It may be of a network that ran inside ``no_grad`` or was cut off by ``detach()``, or an
    input whose gradient was asked for. Nothing is missing either where the user named other tensors as those that get a
    gradient, as in ``grad(loss, w)``.
    """
    graph, records = case.graph, case.records
    if case.evidence.no_backward():
        return []  # for a million ops the search alone would take seconds
    learning, at = graph.update is not None, {record.id: record for record in records}
    missing: defaultdict[tuple[str, int | None], list[Unreached]] = defaultdict(list)
    for one in case.unreached:
        turn = one.kind in ("no_grad", "detached", "elsewhere") and not one.stepped and (learning or one.others)
        if one.kind not in ("no backward", "derivative") and one.asked and not one.moved and not turn and not one.named:
            shown = next((id for id in (one.id, one.behind) if id in at), None)
            missing[one.reason, shown].append(one)
    # An earlier backward, such as that of another loss, may have given these tensors a gradient.
    words = "The last backward gave no gradient to" if graph.backwards > 1 else "No gradient reached"
    return [
        Finding(
            _KINDS.get(several[0].kind, "unreached"),
            f"{words} {_first([one.what for one in several])}: {several[0].reason}"
            f"{f'. {remedy}' if (remedy := _REMEDIES.get(several[0].kind)) is not None else ''}",
            remedy,
            id=shown,
            tensors=tuple([one.what for one in several]),
            scope=_path(at.get(shown or 0)),
            place=several[0].place,
        )
        for (_, shown), several in missing.items()
    ]


def _path(record: Record | None) -> tuple[str, ...]:
    return () if record is None or record.scope is None else record.scope.path()


def _first(names: list[str]) -> str:
    """All of a few names; of more the first ones, and the last."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    others = counted(len(names) - _NAMED + 1, "other")
    return f"{', '.join(names[: _NAMED - 1])} and {others}, the last of them {names[-1]}"


def _unheld(graph: AutogradGraph, records: list[Record], told: set[int]) -> list[Finding]:
    """The parameters with a gradient that are in no optimizer, if a step moved others; without those in ``told``."""
    stepped = {record.kind for record in records if record.since and record.since.stepped}
    if not stepped:
        return []
    at = {record.id: record for record in records}
    missing = [
        (id, called(at[id]) if id in at and at[id].full_name else what) for id, what in graph.unheld() if id not in told
    ]
    # A tensor that is optimized through a network leaves the parameters of the network alone.
    missing = [one for one in missing if "parameter" in stepped or (one[0] in at and at[one[0]].kind != "parameter")]
    if not missing:
        return []
    it, names = "it" if len(missing) == 1 else "them", tuple([what for _, what in missing])
    remedy = f"give {it} to one, or freeze {it} with requires_grad_(False)"
    items = [name for name in names if "]." in name]  # of a module in a container, not a tensor in one
    inside = next((kind for sign, kind in _CONTAINERS.items() if any(sign in name for name in items)), None)
    if inside is not None:
        remedy = f"use nn.Module{inside.capitalize()} in place of the {inside}"
    where = "" if inside is None else f", as parameters() does not look into a plain {inside}"
    text = f"{_first(list(names))} got a gradient, but no optimizer holds {it}{where}: {remedy}"
    return [Finding("no optimizer", text, remedy, missing[0][0], names, _path(at.get(missing[0][0])))]


def _unstepped(graph: AutogradGraph, records: list[Record]) -> list[Finding]:
    """The optimizers that took no step in a loop: the loop has ended, or it has run for ``_ROUNDS`` rounds.

    Before that a step may still come, as for a network whose opponent is trained first.
    """
    patience, remedy = 1 if graph.closed else _ROUNDS, "call step() after backward() if they are to learn"
    never = Evidence(graph).untouched() if graph.closed and graph.ending is None else []
    grown = {record.id for record in records if _adds_up(record)}
    missing = [
        Finding(
            "no step",
            f"{one.name} holds {_first([what for _, what in one.waiting])}, whose .grad holds the sum of "
            f"{counted(graph.backwards, 'backward')}, but neither its step() nor its zero_grad() was called: {remedy}",
            remedy,
            one.waiting[0][0],
            tuple([what for _, what in one.waiting]),
        )
        for one in never
        if any(id in grown for id, _ in one.waiting)
    ]
    return missing + [
        Finding(
            "no step",
            f"{one.name} holds {_first([what for _, what in one.waiting])}, which got a gradient, but "
            f"{counted(one.cleared, 'call')} of its zero_grad() came without any of its step(): {remedy}",
            remedy,
            one.waiting[0][0],
            tuple([what for _, what in one.waiting]),
        )
        for one in (Evidence(graph).unstepped() if graph.ending is None else [])
        if one.cleared >= patience
    ]


def _adds_up(record: Record) -> bool:
    """Whether its ``.grad`` is larger than the gradient of the last backward."""
    since, came = record.since, record.gradient
    return since is not None and since.grad is not None and came is not None and since.grad.norm > 2 * came.norm


def _still(graph: AutogradGraph, records: list[Record], frames: list[HistoryFrame]) -> list[Finding]:
    """The finding that steps changed nothing while gradients are large: the rate is 0 or lost in rounding."""
    rate = Evidence(graph).rate() if divergence.still(frames) else None
    learned = [
        record for record in records if record.kind in ("parameter", "leaf") and record.gradient and record.value
    ]
    if rate is None or not any(_large(record) for record in learned):
        return []
    (name, size), finest = rate, min([record.dtype for record in learned], key=lambda dtype: torch.finfo(dtype).eps)
    if size >= torch.finfo(finest).eps:
        return []
    lost = f", which is lost in the rounding of {dtype_name(finest)}" if size else ""
    text = f"{name} has a learning rate of {number(size)}{lost}: its steps left every parameter as it was"
    if not size:
        return [Finding("no change", text)]
    return [Finding("no change", f"{text}. {_LARGER}", _LARGER)]


def _large(record: Record) -> bool:
    """Whether the gradient is large: if it were small, the parameter might have finished learning."""
    return (
        record.gradient is not None and record.value is not None and record.gradient.norm > _SMALL * record.value.norm
    )
