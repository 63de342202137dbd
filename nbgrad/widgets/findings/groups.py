"""Findings that say the same of several places: from four on, they share one finding with a list of the places."""

from dataclasses import replace

from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.told import GROUPED

_NAMED = 8
"""At most this many places are in the text; the finding as data has all of them."""


def grouped_by_remedy(found: list[Finding]) -> list[Finding]:
    """``found``, in which more than ``GROUPED`` of one kind with the same remedy are one finding, the worst first."""
    alike: dict[tuple[str, str | None], list[Finding]] = {}
    for one in found:
        alike.setdefault((one.kind, one.remedy), []).append(one)
    told = list[Finding]()
    for one in found:
        several = alike[one.kind, one.remedy]
        if one.remedy is None or len(several) <= GROUPED:
            told.append(one)
        elif one is several[0]:
            told.append(_one_of(sorted(several, key=lambda each: -each.degree)))
    return told


def _one_of(several: list[Finding]) -> Finding:
    worst, *others = several
    names = list(dict.fromkeys(filter(None, _names(several)[1:])))
    more = translate(" and {others}", others=counted(len(names) - _NAMED, "other")) if len(names) > _NAMED else ""
    listed = f": {', '.join(names[:_NAMED])}{more}" if names else ""
    tensors = tuple(dict.fromkeys(name for one in several for name in one.tensors))
    said = worst.text if worst.text.endswith(".") else f"{worst.text}."
    text = translate(
        "{said} The same holds at {places}{listed}",
        said=said,
        places=counted(len(others), "more place"),
        listed=listed,
    )
    return replace(worst, text=text, tensors=tensors, group=tuple(several))


def _names(several: list[Finding]) -> list[str]:
    """The tensor of each finding, if they are about different ones; else its module; else its line."""
    tensors, scopes = {one.tensors[:1] for one in several}, {one.scope for one in several}
    if all(tensors) and len(tensors) == len(several):
        return [one.tensors[0] for one in several]
    if all(scopes) and len(scopes) > 1:
        short = len({scope[-1] for scope in scopes}) == len(scopes)
        return [one.scope[-1] if short else " > ".join(one.scope[1:] or one.scope) for one in several]
    return ["" if one.place is None else place_text(one.place) for one in several]
