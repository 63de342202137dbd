"""The outcome of all checks of a graph, in few words: for the head of its picture."""

from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings.collect import Survey


def outcome(graph: AutogradGraph, survey: Survey) -> str:
    """Say that nothing is wrong, as far as that was looked at; empty if there is a finding, or nothing was judged.

    Only "✓ no findings" means that every op was recorded, with its numbers, and that no finding was silenced.
    """
    checkup = survey.checkup
    judged = sum(one.state == "sound" for one in checkup)
    if survey.findings or not judged:
        return ""
    silenced = sorted(graph.silence.union(one.kind for one in checkup.silenced))
    if silenced:
        return translate("no findings but for what is silenced: {names}", names=", ".join(silenced))
    if limit := _limit(graph, survey):
        return translate("no findings, but {limit}", limit=limit)
    return translate("✓ no findings in {checks}", checks=counted(judged, "check"))


def _limit(graph: AutogradGraph, survey: Survey) -> str:
    """The part that was not looked at; empty if there is none."""
    if survey.left_out:
        return translate("{ops} were not looked at", ops=counted(survey.left_out, "op"))
    if graph.ending is not None:
        return translate("the cell did not end")
    if graph.recorded < graph.backwards:
        return translate("not every step was recorded")
    if Evidence(graph).no_backward():
        return translate("no backward ran")
    if survey.checkup["finite numbers"].state == "not judged":
        return translate("no numbers were looked at")
    return ""
