"""The description of an error: the op that raised, with its inputs, among the ops that had run until then."""

import re
from collections.abc import Callable
from typing import get_args

from nbgrad.choices import FindingKind
from nbgrad.core.engine.explanation import Explanation
from nbgrad.core.engine.state import Scope as CoreScope
from nbgrad.core.graph.failure import Ending
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Failure, Operand
from nbgrad.core.translation import translate
from nbgrad.widgets.description.ids import edge_id, node_id
from nbgrad.widgets.description.schema import (
    Badge,
    BadgeKind,
    Description,
    Detail,
    Problem,
    kind_of,
    plain_edge,
    plain_node,
)
from nbgrad.widgets.description.text_metrics import clip

_MESSAGE = 300
"""How many letters of an error's message a note has."""


def with_failure(
    description: Description,
    ending: Ending,
    failure: Failure,
    finding: Finding,
    ids: dict[int, str],
    scope_id: Callable[[CoreScope | None], str | None],
) -> Description:
    """The description with the op that raised an error.

    Args:
        description: of what ran until then.
        ending: the error.
        failure: where it was raised.
        finding: the finding about it.
        ids: the node of each record.
        scope_id: the id of a scope.
    """
    title, badge = finding.text, badge_of(finding.kind)
    nodes, edges = list(description["nodes"]), list(description["edges"])
    where = ids.get(failure.id or 0)
    if where is None and failure.frame is None:
        where = node_id(len(nodes))
        scope = scope_id(failure.scope)
        given = [one for one in failure.operands if one.what != "None"]
        for operand in given:
            source = ids.get(operand.id or 0)
            if source is None:
                source = node_id(len(nodes) + 1)
                known = [Detail(term=translate("shape and dtype"), text=operand.what)]
                taken = plain_node(source, kind_of(operand.kind, operand.name), _operand_label(operand), known)
                taken["scope"] = scope if operand.kind == "parameter" else None
                nodes.append(taken)
            edges.append(plain_edge(edge_id(len(edges)), source, where, operand.input, operand.what))
        details = [Detail(term=one.input, text=one.what) for one in given]
        if failure.place is not None:
            details.append(Detail(term=translate("source"), text=place_text(failure.place)))
        details.append(Detail(term=translate("error"), text=failure.message))
        node = plain_node(where, "failed", [failure.op, translate("raised {kind}", kind=ending.kind)], details)
        node["scope"] = scope
        node["op"] = failure.op if failure.op in description["ops"] else None
        nodes.append(node)
    # An AnomalyError says of a number what the finding about it says too, with a remedy: it is told once.
    begun = next(
        (one["text"] for one in description["problems"] if one["kind"] == "nan" and one["node"] == where), None
    )
    told = [Problem(kind=badge, text=title, node=where)] if begun is None or ending.kind != "AnomalyError" else []
    for node in nodes if told else ():
        if node["id"] == where:
            node["badges"] = [Badge(kind=badge, text=title), *node["badges"]]
    if not told:
        first = failure.message.partition("\n")[0].partition(": ")[0]
        title = translate(
            "{op} raised {kind}: {first}. {begun}", op=failure.op, kind=ending.kind, first=first, begun=begun
        )
    stopped = translate("{recorded} stopped here: {title}", recorded=ending.recorded, title=title)
    if failure.frame is not None:
        stopped = translate(
            "{recorded} stopped here. The gradients that had arrived are shown; no .grad changed. "
            "The backward of {title}",
            recorded=ending.recorded,
            title=title,
        )
    return {
        **description,
        "notes": [stopped],
        "stopped": True,
        "nodes": nodes,
        "edges": edges,
        "problems": [*told, *description["problems"]],
    }


def ending_text(ending: Ending) -> str:
    """An error outside of any op that ended the recording: the first line of its message, and where it was raised."""
    if ending.interrupted:
        return translate("{recorded} was interrupted.", recorded=ending.recorded)
    first = clip(ending.message.strip().partition("\n")[0], _MESSAGE).rstrip(".")
    said = translate(
        "{recorded} raised {kind}{more}{first}",
        recorded=ending.recorded,
        kind=ending.kind,
        more=": " if first else "",
        first=first,
    )
    return f"{said}." if ending.place is None else f"{said} ({place_text(ending.place)})."


def ended(ending: Ending) -> Finding | None:
    """The error that ended a graph, as a finding; None if the user stopped it."""
    failure = ending.failure
    if failure is None:
        return None if ending.interrupted else _raised(ending)
    text = translate(
        "{op} raised {kind}{more}{message}",
        op=failure.op,
        kind=ending.kind,
        more=": " if failure.message else "",
        message=failure.message,
    )
    scope = () if failure.scope is None else failure.scope.path()
    kind: FindingKind = "inplace" if "in-place" in failure.message or "inplace" in failure.message else "failed"
    why = ending.explanation
    if why is None:
        return Finding(kind, text, id=failure.id, scope=scope, place=failure.place)
    text = _with_reason(
        translate(
            "{op} raised {kind}: {first_sentence}",
            op=failure.op,
            kind=ending.kind,
            first_sentence=_first_sentence(failure.message),
        ),
        why,
    )
    return Finding(kind, text, why.remedy, failure.id, scope=scope, place=why.place or failure.place)


def _with_reason(said: str, why: Explanation) -> str:
    """The words that an error ``said``, followed by its explanation."""
    return f"{said}{'.' if why.text[:1].isupper() else ':'} {why.text}"


def _first_sentence(message: str) -> str:
    """The first sentence of a message, without the remarks in parentheses and the hints of torch's."""
    return re.split(r"\. | \(or |: \[torch", message, maxsplit=1)[0].rstrip(".")


def _raised(ending: Ending) -> Finding:
    """The error that the user's own code raised, with the remedy."""
    why = ending.explanation
    if why is not None:
        told = _with_reason(ending_text(ending).rstrip("."), why)
        return Finding("failed", told, why.remedy, place=why.place or ending.place)
    told = ending_text(ending) if ending.advice is None else f"{ending_text(ending)} {ending.advice}"
    return Finding("failed", told, ending.advice, place=ending.place)


def badge_of(kind: str) -> BadgeKind:
    """The sign that a finding has in a picture."""
    return kind if kind in get_args(BadgeKind) else "warning"  # type: ignore[return-value]  # it is one of them


def _operand_label(operand: Operand) -> list[str]:
    return [operand.name or operand.kind, operand.what]
