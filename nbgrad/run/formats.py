"""The findings of a run in the forms that people, GitHub, other programs and code reviews read."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nbgrad import __version__

if TYPE_CHECKING:  # the command reads its options without the engine
    from nbgrad.core.engine.place import Place
    from nbgrad.core.graph.finding import Finding


def told_findings(findings: "Iterable[Finding]") -> list[str]:
    """A line for each finding, in the form of compilers: file, line, severity, text, kind."""
    return [f"{before(one.place)}{one.severity}: {' '.join(str(one).split())} [{one.kind}]" for one in findings]


def before(place: "Place | None") -> str:
    """A place before a message, in the form of compilers."""
    return "" if place is None else f"{where(place)}: "


def where(place: "Place") -> str:
    """The file and the line of a place, as editors and terminals link them."""
    return str(place).partition(", `")[0]


def _text(findings: "list[Finding]") -> str:
    return "\n".join(told_findings(findings))


def _each(findings: "Iterable[Finding]") -> "list[Finding]":
    """Every finding by itself: also those for which another one stands, each with its own line."""
    return [one for found in findings for one in (found.group or (found,))]


def _github(findings: "list[Finding]") -> str:
    """Commands of a GitHub workflow, which shows each finding beside its line."""
    return "\n".join(map(_command, _each(findings)))


def _command(finding: "Finding") -> str:
    place = finding.place
    facts = {"title": f"nbgrad: {finding.kind}"}
    if place is not None:
        facts = {"file": _relative(place), "line": str(place.line), **facts}
    told = ",".join(f"{name}={_escaped(value, ':', ',')}" for name, value in facts.items())
    return f"::{finding.severity} {told}::{_escaped(str(finding))}"


def _escaped(text: str, *more: str) -> str:
    """``text`` as a workflow command has it; ``more``: what has a meaning there too."""
    for sign in ("%", "\r", "\n", *more):
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _json(findings: "list[Finding]") -> str:
    """A list of objects, one for each finding."""
    return json.dumps([_object(one) for one in _each(findings)], indent=1, ensure_ascii=False)


def _object(finding: "Finding") -> dict[str, Any]:
    place = finding.place
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "text": str(finding),
        "remedy": finding.remedy,
        "file": None if place is None else _relative(place),
        "line": None if place is None else place.line,
        "tensors": list(finding.tensors),
        "scope": list(finding.scope),
    }


def _sarif(findings: "list[Finding]") -> str:
    """A log in SARIF 2.1.0, which code reviews and editors read."""
    each = _each(findings)
    kinds = {one.kind: one.severity for one in each}
    driver = {
        "name": "nbgrad",
        "semanticVersion": __version__,
        "rules": [
            {
                "id": _id(kind),
                "shortDescription": {"text": f"A finding of the kind {kind!r}."},
                "defaultConfiguration": {"level": severity},
            }
            for kind, severity in kinds.items()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, list(kinds)) for one in each],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False)


_ROOT = "SRCROOT"
"""The name of the folder that the command was started in."""


def _id(kind: str) -> str:
    return kind.replace(" ", "-")


def _result(finding: "Finding", kinds: list[str]) -> dict[str, Any]:
    place = finding.place
    made: dict[str, Any] = {
        "ruleId": _id(finding.kind),
        "ruleIndex": kinds.index(finding.kind),
        "level": finding.severity,
        "message": {"text": str(finding)},
    }
    if place is not None:
        made["locations"] = [{"physicalLocation": {"artifactLocation": _artifact(place), "region": _region(place)}}]
    return made


def _artifact(place: "Place") -> dict[str, str]:
    """The file of a place, as a URI: below the folder of the command, or absolute."""
    relative = _relative(place)
    if Path(relative).is_absolute():
        return {"uri": Path(relative).as_uri()}
    return {"uri": quote(relative), "uriBaseId": _ROOT}


def _region(place: "Place") -> dict[str, Any]:
    text = place.text
    return {"startLine": place.line, **({"snippet": {"text": text}} if text else {})}


def _relative(place: "Place") -> str:
    """The file of a place, from the current folder where it lies below it, with slashes."""
    file = Path(place.file)
    return (file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file).as_posix()


FORMATS: "dict[str, Callable[[list[Finding]], str]]" = {
    "text": _text,
    "github": _github,
    "sarif": _sarif,
    "json": _json,
}
"""Each form by its name, as a function of the findings."""
