"""The findings of the rules that were added with ``nbgrad.extend.finding_rule``, and their checks."""

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.state import Switch
from nbgrad.core.graph.checkup import Check
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.plugins import FINDING_RULES, FindingRule
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.silence import Silence
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings.groups import grouped_by_remedy
from nbgrad.widgets.findings.guard import Guard
from nbgrad.widgets.findings.located import called, path_of

_LOOKING: ContextVar[bool] = ContextVar("_LOOKING", default=False)
"""Whether a rule runs: if it asks for the findings of the graph, it gets those of nbgrad's own rules."""


class Outside(NamedTuple):
    """The findings of the added rules in a graph.

    Attributes:
        rules: those that were asked.
        found: their findings.
        checks: a check for each.
        mistakes: a sentence about each comment that was to silence one of them and cannot be read.
    """

    rules: tuple[FindingRule, ...] = ()
    found: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    mistakes: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: AutogradGraph, records: list[Record]) -> "Outside":
        """Ask all rules that are there now about ``graph``; ``records`` are those that are shown."""
        rules = added()
        if not rules:
            return cls()
        if graph.fault is not None:
            missing = "a part of the graph is missing"
            return cls(rules, (), tuple([Check(one.name, (one.name,), "", missing) for one in rules]))
        looking = _LOOKING.set(True)
        try:
            with Switch(observers=()):  # what a rule computes is no part of the graph
                return cls._asked(rules, graph, records)
        finally:
            _LOOKING.reset(looking)

    @classmethod
    @muted
    def _asked(cls, rules: tuple[FindingRule, ...], graph: AutogradGraph, records: list[Record]) -> "Outside":
        at, silence, guard = {record.id: record for record in records}, Silence(graph.silence), Guard(added=True)
        found = list[Finding]()
        for rule in rules:
            found += guard.all_of(rule.name, (rule.name,), partial(rule.find, graph))
        found = grouped_by_remedy([one for one in (_completed(one, at) for one in found) if not silence.takes(one)])
        failed = [one for one in guard.findings() if not silence.takes(one)]
        checks = [_check(rule, records, found, failed, silence, guard) for rule in rules]
        return cls(rules, (*found, *failed), tuple(checks), tuple(silence.mistakes))


def added() -> tuple[FindingRule, ...]:
    """The rules that were added; none while one of them runs."""
    return () if _LOOKING.get() else tuple(FINDING_RULES.values())


def _check(
    rule: FindingRule,
    records: list[Record],
    found: Iterable[Finding],
    failed: Iterable[Finding],
    silence: Silence,
    guard: Guard,
) -> Check:
    here = tuple([one for one in found if one.kind == rule.name])
    quiet = tuple([one for one in silence.silenced if one.kind == rule.name])
    if rule.name in guard.failed:
        told = tuple([one for one in failed if repr(rule.name) in one.text])
        return Check(
            rule.name, (rule.name,), "", translate("the rule {name!r} failed", name=rule.name), (*here, *told), quiet
        )
    looked = counted(len(records), "record")
    return Check(
        rule.name, (rule.name,), looked if records else "", "" if records else translate("no op ran"), here, quiet
    )


def _completed(found: Finding, at: dict[int, Record]) -> Finding:
    """A finding with the tensor, the scope and the line of its record, as far as the rule has not set them."""
    record = at.get(found.id or 0)
    if record is None:
        return found
    tensors = (called(record),) if record.name or record.op is None else ()
    return replace(
        found,
        tensors=found.tensors or tensors,
        scope=found.scope or path_of(record),
        place=found.place or record.place,
    )
