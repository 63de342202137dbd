"""``assert_sound``: fail if a program has findings, and name each with its line. The pytest plugin uses the same."""

from collections.abc import Callable, Iterable
from typing import Any

from nbgrad.choices import SEVERITIES, Severity
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.silence import silenced_kinds
from nbgrad.core.suggestions import nearest


def assert_sound(
    step: Callable[[], Any],
    *,
    ignore: str | Iterable[str] = (),
    fail_on: Severity = "warning",
    msg: str | None = None,
) -> None:
    """Raise if ``step()`` has findings, as ``graph.findings()`` has them: programs that cannot learn, NaN, and so on.

    The step runs once, and is recorded. More steps show more: give a function with a short loop, and rates and losses
    are judged too.

    Args:
        step: a function without arguments that runs forward and backward, of nbgrad's or of torch's: one step of a
            training, or several.
        ignore: the kinds of findings that are left out, as "frozen, no activation" or a list.
        fail_on: "warning" for all findings, "error" only for those whose ``severity`` is "error".
        msg: the message of the error, instead of the list of findings.

    Raises:
        AssertionError: there are findings; the message has each with its line, its kind and its remedy.
        ValueError: ``ignore`` has something that is no kind of findings, or ``fail_on`` is no severity.
    """
    least = severity("assert_sound", fail_on)
    with AutogradGraph(silence=ignored("assert_sound", ignore), every=None) as graph:
        step()
    found = unsound(graph, least)
    if found:
        raise AssertionError(msg or f"assert_sound: {listed(found)}")


def severity(asks: str, given: str) -> Severity:
    """The severity of this name; raise a ValueError if there is none. ``asks``: the function that has the argument."""
    for one in SEVERITIES:
        if one == given:
            return one
    meant = nearest(str(given), SEVERITIES)
    raise ValueError(f"{asks}: fail_on={given!r}: it has to be {' or '.join(map(repr, SEVERITIES))}{meant}")


def ignored(asks: str, given: str | Iterable[str]) -> frozenset[str]:
    """The kinds of findings that ``ignore`` names; raise a ValueError if there is no such kind."""
    try:
        names = given if isinstance(given, str) else [*given]
    except TypeError:
        names = None
    if names is None or not all(isinstance(one, str) for one in names):
        raise ValueError(f"{asks}: ignore={given!r}: it has to be kinds of findings, such as ['frozen', 'data']")
    try:
        return silenced_kinds(names or None)
    except ValueError as error:
        raise ValueError(f"{asks}: ignore={given!r}: {error}") from None


def unsound(graph: AutogradGraph, least: Severity) -> list[Finding]:
    """The findings of ``graph`` that are at least so severe, errors first."""
    found = [one for one in graph.findings() if one.reaches(least)]
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def listed(found: list[Finding]) -> str:
    """A headline with the kinds, and a line for each finding, with its place, its severity and its kind."""
    counts = [(one, sum(finding.severity == one for finding in found)) for one in SEVERITIES]
    many = ", ".join([f"{count} {one}{'s' if count > 1 else ''}" for one, count in counts if count])
    kinds = ", ".join(dict.fromkeys(one.kind for one in found))
    return "\n".join([f"nbgrad: {kinds} ({many})", *map(finding_line, found)])


def finding_line(one: Finding) -> str:
    """A finding as compilers and linters write theirs: place, severity, text and kind."""
    place = "" if one.place is None else f"{str(one.place).partition(', `')[0]}: "
    scope = f" In {' > '.join(one.scope)}." if one.place is None and one.scope else ""
    return f"  {place}{one.severity}: {one.text.rstrip('.')}.{scope} [{one.kind}]"
