"""A rule that fails loses nothing but what it would still have found: one of nbgrad's own, or one of the user's."""

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from nbgrad.core.engine.faults import RAISES, Fault, line_of_error
from nbgrad.core.graph.finding import Finding
from nbgrad.core.translation import translate

T = TypeVar("T")

_REPORT = "please report it"
_MEND = "Mend it, or take it away with its remove()"


class Guard:
    """Runs the rules that look through a graph, and remembers which of them failed.

    Args:
        added: whether the rules were added from outside: no defect of nbgrad's is to be reported then.

    Attributes:
        failed: by kind of finding, the name of a rule that makes it and failed.
    """

    def __init__(self, *, added: bool = False) -> None:
        self._added = added
        self.failed: dict[str, str] = {}
        self._rules: dict[str, list[str]] = {}

    def all_of(self, rule: str, kinds: Iterable[str], find: Callable[[], Iterable[Finding]]) -> list[Finding]:
        """The findings of a rule that makes ``kinds``; if it fails, those that it had made before."""
        found: list[Finding] = []

        def run() -> None:
            for one in find():
                found.append(one)  # noqa: PERF402  # what was found before an error stays

        self.one_of(rule, kinds, run, None)
        return found

    def one_of(self, rule: str, kinds: Iterable[str], find: Callable[[], T], otherwise: T) -> T:
        """The result of ``find``, which the findings of ``kinds`` need; if it fails, ``otherwise``."""
        try:
            return find()
        except Exception as error:
            if os.environ.get(RAISES):
                raise
            at = line_of_error(error, users=self._added)
            told = f"{Fault.of(error, rule).error}{f', at {at}' if at else ''}"
            self._rules.setdefault(told, []).append(rule)
            self.failed.update(dict.fromkeys(kinds, rule))
            return otherwise

    def findings(self) -> list[Finding]:
        """A finding for each error, which names the rules that it stopped."""
        found = []
        for error, rules in self._rules.items():
            names = (
                translate("rule {rules!r}", rules=rules[0])
                if len(rules) == 1
                else translate("rules {names}", names=", ".join(map(repr, rules)))
            )
            whose = translate("that was added") if self._added else translate("of nbgrad")
            text = translate(
                "the {names} {whose} failed, so what {they} would have found is missing: {error}.",
                names=names,
                whose=whose,
                they="it" if len(rules) == 1 else "they",
                error=error,
            )
            remedy, advice = (
                (_MEND, _MEND)
                if self._added
                else (_REPORT, translate("This is a defect of nbgrad: {REPORT}", REPORT=_REPORT))
            )
            found.append(Finding("failed rule", f"{text} {advice}", remedy))
        return found
