"""The bars in a folded box: the gradient norms inside it, side by side."""

from nbgrad.core.translation import translate
from nbgrad.widgets.description.schema import Bars, Node, Scope
from nbgrad.widgets.description.tree import iterates

MOST = 20
"""If there are more norms than this, only some are drawn, at equal distances."""


def bars_of(scopes: list[Scope], inside: list[Node], past: str) -> Bars | None:
    """The gradient norms of the iterations of a loop, of the backwards that are remembered, or of the parameters.

    Args:
        scopes: the calls that are drawn as one box.
        inside: the nodes in it.
        past: the largest norm inside in each frame of the history, as letters.

    Returns:
        None where there are fewer than two of these norms.
    """
    if iterates(scopes[0]):
        last = {node["scope"]: node for node in inside if node["kind"] == "op"}
        steps = [last[scope["id"]] for scope in scopes if scope["id"] in last]
        return _bars("".join(map(_letter, steps)), translate("gradient norms of the results of {} iterations"))
    if len(past.replace("-", "")) > 1:
        return _bars(past, translate("largest gradient norm inside in {} backwards"))
    own = [node for node in inside if node["kind"] == "parameter"]
    return _bars("".join(map(_letter, own)), translate("gradient norms of {} parameters"))


def _letter(node: Node) -> str:
    level = node["levels"].get("gradient")
    return "-" if level is None else chr(ord("A") + round(25 * level))


def _bars(heights: str, text: str) -> Bars | None:
    if len(heights.replace("-", "")) < 2:
        return None
    if len(heights) <= MOST:
        return Bars(heights=heights, text=text.format(len(heights)))
    some = [heights[round(at * (len(heights) - 1) / (MOST - 1))] for at in range(MOST)]
    return Bars(
        heights="".join(some), text=text.format(translate("{MOST} of {count:,}", MOST=MOST, count=len(heights)))
    )
