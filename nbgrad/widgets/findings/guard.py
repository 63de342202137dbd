"""A rule that fails loses nothing but what it would still have found."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from nbgrad.core.engine.faults import Fault
from nbgrad.core.engine.place import line_of
from nbgrad.core.graph.finding import Finding, FindingKind

T = TypeVar("T")

RAISES = "NBGRAD_STRICT"
"""The environment variable with which an error of a rule is raised: in tests it has to fail the test."""

_REPORT = "please report it"

_FOLDER = Path(__file__).parents[2]


class Guard:
    """Runs the rules that look through a graph, and remembers which of them failed.

    Attributes:
        failed: by kind of finding, the name of a rule that makes it and failed.
    """

    def __init__(self) -> None:
        self.failed: dict[FindingKind, str] = {}
        self._rules: dict[tuple[str, str], list[str]] = {}

    def all_of(self, rule: str, kinds: Iterable[FindingKind], find: Callable[[], Iterable[Finding]]) -> list[Finding]:
        """The findings of a rule that makes ``kinds``; if it fails, those that it had made before."""
        found: list[Finding] = []

        def run() -> None:
            for one in find():
                found.append(one)  # noqa: PERF402  # what was found before an error stays

        self.one_of(rule, kinds, run, None)
        return found

    def one_of(self, rule: str, kinds: Iterable[FindingKind], find: Callable[[], T], otherwise: T) -> T:
        """The result of ``find``, which the findings of ``kinds`` need; if it fails, ``otherwise``."""
        try:
            return find()
        except Exception as error:
            if os.environ.get(RAISES):
                raise
            self._rules.setdefault((Fault.of(error, rule).error, _line(error)), []).append(rule)
            self.failed.update(dict.fromkeys(kinds, rule))
            return otherwise

    def findings(self) -> list[Finding]:
        """A finding for each error, which names the rules that it stopped."""
        found = []
        for (error, where), rules in self._rules.items():
            names = f"rule {rules[0]!r}" if len(rules) == 1 else f"rules {', '.join(map(repr, rules))}"
            text = (
                f"the {names} of nbgrad failed, so what {'it' if len(rules) == 1 else 'they'} would have found is "
                f"missing: {error}, at {where}. This is a defect of nbgrad: {_REPORT}"
            )
            found.append(Finding("failed rule", text, _REPORT))
        return found


def _line(error: Exception) -> str:
    """The innermost line of nbgrad's own that ``error`` passed."""
    lines = [(Path(one.filename), one.lineno or 1) for one in extract_tb(error.__traceback__)]
    file, line = next((one for one in reversed(lines) if _FOLDER in one[0].parents), lines[-1])
    return line_of(str(file), line).replace(str(_FOLDER), _FOLDER.name)
