"""The outcome of all checks of a graph, in few words: for the head of its picture."""

from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
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
        return f"no findings but for what is silenced: {', '.join(silenced)}"
    if limit := _limit(graph, survey):
        return f"no findings, but {limit}"
    return f"✓ no findings in {counted(judged, 'check')}"


def _limit(graph: AutogradGraph, survey: Survey) -> str:
    """The part that was not looked at; empty if there is none."""
    if survey.left_out:
        return f"{counted(survey.left_out, 'op')} were not looked at"
    if graph.ending is not None:
        return "the cell did not end"
    if graph.recorded < graph.backwards:
        return "not every step was recorded"
    if Evidence(graph).no_backward():
        return "no backward ran"
    if survey.checkup["finite numbers"].state == "not judged":
        return "no numbers were looked at"
    return ""
