"""Tensors to train that no gradient reached, each with the place where its path breaks."""

from collections import defaultdict

from nbgrad.choices import FindingKind
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.unreached import Unreached
from nbgrad.core.translation import message, translate
from nbgrad.widgets.findings.examination import Examination, outermost
from nbgrad.widgets.findings.layers import DRAW
from nbgrad.widgets.findings.located import first_of, path_of

_REMEDIES = {
    "unused": message("Use it in forward(), or leave it out of the model and of the optimizer"),
    "no_grad": message("Run it outside of no_grad() if it is to learn"),
    "detached": message("Leave that out if it is to learn"),
    "draw": DRAW,
    "no gradient": message("Use an op with a gradient, such as softmax for argmax, or cross_entropy for the accuracy"),
    "elsewhere": message("Add it to the loss if it is to learn"),
    "function": message("Return a gradient for it in backward()"),
    "checkpoint": message("Use checkpoint(..., use_reentrant=False), or give it an input with requires_grad_()"),
}
"""The remedy for a tensor that no gradient reached, by ``Unreached.kind``."""

_NO_FAULT = ("no backward", "copied", "derivative")
"""The kinds of ``Unreached`` that are as they should be, or of which nothing is known."""

_KINDS: dict[str, FindingKind] = {"function": "custom function", "checkpoint": "checkpoint"}


def unreached(case: Examination) -> list[Finding]:
    """The tensors to train that no gradient reached.

    Tensors without a box of their own share a finding if their paths break at the same place. Some tensors are left
    out. One kind is a parameter that was changed: it learns from another loss, as with two networks, or it is a copy of
    one that learns. Another kind is a tensor that no optimizer has stepped, while an optimizer steps other tensors: it
    may get its turn later. It may be of a network that ran inside ``no_grad`` or was cut off by ``detach()``, or an
    input whose gradient was asked for, or the input of an earlier step, which no variable holds. Nothing is missing
    either where the user named other tensors as those that get a gradient, as in ``grad(loss, w)``. A tensor that had
    its gradient in an earlier backward, and that no optimizer has stepped, is not missing one: a test compares the
    gradients of two networks.
    """
    graph, records = case.graph, case.records
    if case.evidence.no_backward():
        return []  # for a million ops the search alone would take seconds
    at = {record.id: record for record in records}
    missing: defaultdict[tuple[str, int | None], list[Unreached]] = defaultdict(list)
    for one in case.unreached:
        if one.kind not in _NO_FAULT and one.asked and not one.moved and not one.named and not _has_its_turn(case, one):
            shown = next((id for id in (one.id, one.behind) if id in at), None)
            missing[one.reason, shown].append(one)
    # An earlier backward, such as that of another loss, may have given these tensors a gradient.
    words = (
        translate("The last backward gave no gradient to") if graph.backwards > 1 else translate("No gradient reached")
    )
    return [
        Finding(
            _KINDS.get(several[0].kind, "unreached"),
            f"{words} {first_of([one.what for one in several])}: {several[0].reason}{f'. {remedy}' if remedy else ''}",
            remedy,
            id=shown,
            tensors=tuple([one.what for one in several]),
            scope=path_of(at.get(shown or 0)),
            place=several[0].place,
        )
        for (_, shown), several in missing.items()
        for remedy in [translate(_REMEDIES[several[0].kind]) if several[0].kind in _REMEDIES else None]
    ]


def _has_its_turn(case: Examination, one: Unreached) -> bool:
    """Whether a tensor gets its gradient from another backward, earlier or later."""
    if one.kind == "unused" and case.graph.backwards < LOOP and _is_one_of_several(case, one):
        return True
    learning = case.graph.update is not None
    later = one.kind in ("no_grad", "draw", "detached", "elsewhere") and (learning or one.others)
    held = one.kind == "unused" and learning and one.name is None  # the input of an earlier step
    return not one.stepped and (later or held or one.earlier)


def _is_one_of_several(case: Examination, one: Unreached) -> bool:
    """Whether a tensor is of a module in a ``ModuleDict`` of which another was used: it may have its turn later."""
    container = (one.name or "").rpartition(".")[0].rpartition(".")[0]
    models = {id(model): model for record in case.records if (model := outermost(record)) is not None}
    for model in models.values() if container else ():
        try:
            found = model.get_submodule(container)
        except AttributeError:
            continue
        if hasattr(found, "keys"):
            return any((record.full_name or "").startswith(f"{container}.") for record in case.records)
    return False
