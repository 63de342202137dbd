"""All findings of a graph: where a NaN begins, tensors that no gradient reached, broadcasts that were not meant."""

from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Self

from nbgrad.choices import FindingKind
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope
from nbgrad.core.graph.checkup import Check, Checkup
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.silence import Silence
from nbgrad.core.graph.thinned import KEPT, fewer
from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import translate
from nbgrad.widgets.description.broadcast_sums import Suspicion, suspicions
from nbgrad.widgets.description.failure import ended
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.history import frames_of
from nbgrad.widgets.description.told import grouped
from nbgrad.widgets.findings import rules
from nbgrad.widgets.findings.checks import checked, unchecked
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.groups import grouped_by_remedy
from nbgrad.widgets.findings.guard import Guard
from nbgrad.widgets.findings.located import called
from nbgrad.widgets.findings.module_gradients import Judgement, ModuleVerdict, judgements, verdicts
from nbgrad.widgets.findings.outside import Outside, added
from nbgrad.widgets.findings.zero_factors import Waiting, waiting

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
        lines: of the loop, for findings about no line of their own.
        checks: what was looked at, by check.
        mistakes: a sentence about each comment that was to silence a finding and cannot be read.
        outside: what the rules found that were added from outside.
    """

    records: list[Record]
    left_out: int
    frames: list[HistoryFrame]
    waits: Waiting
    stretched: dict[tuple[int, int], Suspicion]
    ended: Finding | None
    found: list[Finding]
    verdicts: list[ModuleVerdict]
    lines: "_Lines"
    checks: tuple[Check, ...] = ()
    mistakes: tuple[str, ...] = ()
    outside: Outside = field(default_factory=Outside)

    @classmethod
    def of(cls, graph: AutogradGraph, most: int = KEPT) -> Self:
        """Look through ``graph``, open or closed: through the first and the last of more than ``most`` ops."""
        if isinstance(graph.survey, cls) and len(graph.survey.records) <= most:
            if graph.survey.outside.rules != added():  # rules came or went since
                graph.survey = replace(graph.survey, outside=Outside.of(graph, graph.survey.records))
            return graph.survey
        made = cls._ours(graph, most)
        return replace(made, outside=Outside.of(graph, made.records)) if added() else made

    @classmethod
    def _ours(cls, graph: AutogradGraph, most: int) -> Self:
        """Ask nbgrad's own rules."""
        ending, (records, left) = graph.ending, fewer(graph.snapshot(), most)
        left += graph.left_out
        guard = Guard()
        end = None if ending is None else guard.one_of("errors", ("failed", "inplace"), partial(ended, ending), None)
        if graph.fault is not None:  # a part of the facts is missing, so what they seem to say may be wrong
            all_found = [*([] if end is None else [end]), *guard.findings()]
            checks = unchecked("a part of the graph is missing", all_found)
            waits = Waiting({}, set(), {}, [])
            return cls(records, left, [], waits, {}, end, guard.findings(), [], _Lines(None, None), checks)
        case = _case(graph, records, guard)
        lines = guard.one_of("lines", (), partial(_Lines.of, case), _Lines(None, None))
        found = [lines.completed(one) for one in rules.apply(case, guard)]
        begun = any(one.kind == "nan" for one in found)
        said = guard.one_of(
            "gradients of modules",
            _SIZES,
            partial(verdicts, case.judged, case.waits.scopes, begun=begun),
            list[ModuleVerdict](),
        )
        silence = Silence(graph.silence)
        left_alone = partial(_is_silenced, silence, guard)
        found = grouped_by_remedy([one for one in found if not left_alone(one)])
        quiet = {one.kind for one in lines.of_modules(said) if left_alone(one)}
        said = [one._replace(kind="sound") if _VERDICTS.get(one.kind) in quiet else one for one in said]
        told = {(one.kind, one.id) for one in silence.silenced}
        stretched = {key: one for key, one in case.stretched.items() if ("broadcast", key[0]) not in told}
        all_found = [*([] if end is None else [end]), *found, *lines.of_modules(said)]
        checks, failed = checked(case, all_found, silence, guard)
        found += failed
        mistakes = tuple(silence.mistakes)
        return cls(records, left, case.frames, case.waits, stretched, end, found, said, lines, checks, mistakes)

    @property
    def findings(self) -> list[Finding]:
        """All findings: the error that ended the graph, the findings, and the modules whose gradients are not sound."""
        modules = self.lines.of_modules(self.verdicts)
        shown = {record.id for record in self.records}
        ended = [] if self.ended is None else [self.ended]
        return [_shown(one, shown) for one in (*ended, *self.problems, *modules)]

    @property
    def problems(self) -> list[Finding]:
        """The findings of all rules."""
        return [*self.found, *self.outside.found]

    @property
    def checkup(self) -> Checkup:
        """All checks, and what has to be said about them."""
        left = (
            [translate("{ops} of the middle were not looked at", ops=counted(self.left_out, "op"))]
            if self.left_out
            else []
        )
        return Checkup((*self.checks, *self.outside.checks), (*self.mistakes, *self.outside.mistakes, *left))


@uncollected
def findings(graph: AutogradGraph) -> list[Finding]:
    """All findings of ``graph``, open or closed."""
    return Survey.of(graph).findings


@uncollected
def checkup(graph: AutogradGraph) -> Checkup:
    """The checks of ``graph``, open or closed, with what came of each."""
    return Survey.of(graph).checkup


def _shown(found: Finding, records: Container[int | None]) -> Finding:
    """The finding without the ids of records that are not among ``records``."""
    if found.group:
        found = replace(found, group=tuple([_shown(one, records) for one in found.group]))
    return found if found.id in records else replace(found, id=None)


def _is_silenced(silence: Silence, guard: Guard, found: Finding) -> bool:
    return guard.one_of("silence", (), partial(silence.takes, found), False)


_ABOUT_STEPS = frozenset(
    {"no optimizer", "idle step", "no change", "small steps", "large steps", "accumulated gradients", "frozen"}
)
"""The kinds of findings that are about the step of an optimizer, where they have no line of their own."""


class _Lines(NamedTuple):
    """Where the last step and the last backward were called: a finding about a parameter has no line of its own."""

    step: Place | None
    backward: Place | None

    @classmethod
    def of(cls, case: Examination) -> Self:
        steps = [call.place for call in case.training.calls if call.kind == "step"]
        backwards = [one.place for one in case.all_losses]
        return cls(steps[-1] if steps else None, backwards[-1] if backwards else None)

    def completed(self, found: Finding) -> Finding:
        """The finding, with a line."""
        step = self.step if found.kind in _ABOUT_STEPS else None
        return found if found.place is not None else replace(found, place=step or self.backward)

    def of_modules(self, said: list[ModuleVerdict]) -> list[Finding]:
        """The findings about modules whose gradients are not sound: one for all of a kind, which have one cause."""
        return [self.completed(one) for one in _of_modules([one for one in said if one.kind != "sound"])]


def _of_modules(bad: list[ModuleVerdict]) -> list[Finding]:
    found = []
    for kind in dict.fromkeys(one.kind for one in bad):
        alike = [one for one in bad if one.kind == kind]
        texts = grouped([(one.scope.path()[-1], one.text) for one in alike])
        groups = [[one] for one in alike] if len(texts) == len(alike) else [alike]
        for text, group in zip(texts, groups, strict=True):
            tensors = tuple([called(record) for one in group for record in one.learned])
            found.append(Finding(_VERDICTS[kind], text, tensors=tensors, scope=group[0].scope.path()))
    return found


_SIZES: tuple[FindingKind, ...] = ("zero gradient", "vanishing", "exploding")


def _case(graph: AutogradGraph, records: list[Record], guard: Guard) -> Examination:
    """The graph with the facts that many rules ask for; those that cannot be found out are empty."""
    frames = guard.one_of("earlier backwards", (), lambda: frames_of(graph, records), list[HistoryFrame]())
    judged = guard.one_of("gradients of modules", _SIZES, lambda: _judged(graph, records), dict[Scope, Judgement]())
    still = Waiting(judged, set(), {}, [])
    waits = guard.one_of("factors of 0", _SIZES, lambda: waiting(graph, records, judged, frames), still)
    stretched = guard.one_of(
        "broadcasts", ("broadcast",), lambda: suspicions(records), dict[tuple[int, int], Suspicion]()
    )
    return Examination(graph, records, frames, waits, stretched)


def _judged(graph: AutogradGraph, records: list[Record]) -> dict[Scope, Judgement]:
    step, trains = graph.update, Evidence(graph).trains()
    judged = judgements(records, {} if step is None else step.ratios, trains=trains)
    if (
        trains
        and graph.backwards < LOOP
        and all(one.kind == "none" for one in judged.values())
        and _is_nothing(records)
    ):
        return {scope: one._replace(kind="sound", said="") for scope, one in judged.items()}
    return judged


def _is_nothing(records: list[Record]) -> bool:
    """Whether the loss is exactly 0: of a game without a reward, or of two networks that are still equal."""
    return any(one.root and one.value is not None and not one.value.norm for one in records)
