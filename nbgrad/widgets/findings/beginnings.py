"""Where the first NaN or Inf begins, in the forward or in a rule, now or in an earlier backward; a loss that grew."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isfinite, prod
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate
from nbgrad.widgets.description.broadcast_sums import whose_name
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings import divergence
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.located import called, located, path_of

_NAMED = 3
"""A NaN that went on to more modules than this says so."""


def beginnings(case: Examination) -> list[Finding]:
    """The first values or gradients that are not finite, without those that only pass them on.

    If an earlier backward has spoiled parameters, one finding says since when they are not finite.
    """
    records, frames, first = case.records, case.frames, case.first_bad
    spoiled = [Finding("nan", text) for text in case.evidence.spoiled()]
    hidden = bool(spoiled)  # a bad number began where nothing is recorded. A constant that is gone may have held it.
    # If an earlier backward was bad, the parameters may have been bad before the last one.
    before = not all(map(divergence.finite, frames[:-1])) if frames else case.graph.backwards > 1
    lost = sum(not isfinite(one.size) for one in case.judged.values())
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
            case.all_losses,
        )
        at = divergence.held(frames, records) or learned[0]
        found = [(at, text), *[(record, text) for record, text in found if record not in learned]]
    elif first is not None and not hidden and _tells_more(first, found):
        return [_earlier(first, records, several=len(frames) > 1 or first.number > 1)]
    elif len(found) == 1 and lost > _NAMED:
        found = [
            (record, translate("{text}. It went on to {reach}", text=text, reach=_reach(records, record, lost)))
            for record, text in found
        ]
    if not learned:
        found = [(record, divergence.advised(record, text)) for record, text in found]
    said = spoiled + [
        _placed(located(record, "nan", text, _remedy(record, remedy, text)), first if learned else None)
        for record, text in found
        if gone.isdisjoint(taken.source or 0 for taken in record.inputs) and not (hidden and _is_gone(record))
    ]
    return said or divergence.passing(case.all_losses)


def _tells_more(first: FirstBad, found: list[tuple[Record, str]]) -> bool:
    """Whether the graph saw another beginning than the present numbers show, and knows the op or the step."""
    known = first.op is not None or first.phase == "step"
    return known and all(record.id != first.id for record, _ in found)


def _remedy(record: Record, remedy: str | None, text: str) -> str | None:
    """The remedy that the ``text`` names."""
    of_op = divergence.CHECK if record.op is None else divergence.remedy_of(record.op.name)
    known = remedy or of_op
    return known if known is not None and known in text else None


def _placed(finding: Finding, first: FirstBad | None) -> Finding:
    """The ``finding`` about spoiled parameters, with the line where the trouble began."""
    return finding if first is None or first.place is None else replace(finding, place=first.place)


def _earlier(first: FirstBad, records: list[Record], *, several: bool) -> Finding:
    """The finding about the beginning that the graph saw; the present numbers do not show it any more."""
    which = translate("in backward {number:,}, ", number=first.number) if several else ""
    text, remedy = divergence.beginning(first)
    shown = next((record for record in records if record.id == first.id), None)
    said = translate("{what} begins {which}{text}", what=first.what, which=which, text=text)
    return Finding("nan", said, remedy, first.id, scope=path_of(shown), place=first.place)


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
    made = translate("{tensors} and ", tensors=counted(len(reached) - 1, "tensor")) if len(reached) > 1 else ""
    return translate("{made}the gradients of {modules}", made=made, modules=counted(modules, "module"))


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
            if record.kind == "constant":
                yield record, _in_data(record, bad, records)
                continue
            why = _cause(record, made, bad)
            if not why and given is not None:
                why = translate(
                    ", or in {full_name} {shape}, which led to it and no longer exists",
                    full_name=given.full_name or translate("a constant"),
                    shape=given.shape,
                )
            yield (
                record,
                translate("{bad} begins here, in the forward of {what}{why}", bad=bad, what=record.what, why=why),
            )


def _in_data(constant: Record, bad: str, records: list[Record]) -> str:
    """The text about a constant that holds what is not finite."""
    value = constant.value
    many = 0 if value is None else value.nan if bad == "NaN" else value.inf
    user = next((translate(", which {run} uses", run=one.run) for one in records if constant.id in one.sources), "")
    whole = translate(
        "{many:,} of the {prod:,} numbers of {constant}{user}",
        many=many,
        prod=prod(constant.shape),
        constant=called(constant),
        user=user,
    )
    return translate(
        "{bad} begins in the data: {whole}, are {bad}. {CLEAN}",
        bad=bad,
        whole=whole,
        CLEAN=translate(divergence.CLEAN, check=divergence.CHECK),
    )


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
                yield (
                    record,
                    translate(
                        "{bad} begins here, in the rule of {what} for {given}", bad=bad, what=record.what, given=given
                    ),
                )
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


def grown(case: Examination) -> list[Finding]:
    """The finding that the loss of the loop grew without bound. It is at the box of the loss."""
    text = divergence.grown(case.frames) if len(case.frames) > 1 else None
    if text is None:
        return []
    return [located(next(iter(case.roots), None), "divergence", text, translate(divergence.SMALLER))]


def _bad(stats: Stats | None) -> str | None:
    if stats is None:
        return None
    return "NaN" if stats.nan else "Inf" if stats.inf else None
