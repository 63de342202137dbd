"""Parameters that are frozen although they should learn, and frozen layers that change all the same."""

from collections.abc import Iterator

from nbgrad.core.graph.finding import Finding
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings.examination import Examination

_MOST = 0.5
"""If an optimizer holds more frozen parameters than this part of all, a body is frozen on purpose."""

_NAMED = 3
"""One finding names at most this many."""


def frozen(case: Examination) -> Iterator[Finding]:
    """The findings about what is frozen."""
    if not any(log.steps for log in case.optimizers):
        return
    held = case.evidence.frozen()
    if held and len(held) <= _MOST * held[0][1]:
        names = tuple(name for name, _ in held)
        it = translate("it") if len(names) == 1 else translate("them")
        remedy = translate("Make {it} trainable with requires_grad_(), or leave {it} out of the optimizer", it=it)
        text = translate(
            "the optimizer holds {listed}, but requires_grad is False there: is it meant? {remedy}",
            listed=_listed(names),
            remedy=remedy,
        )
        yield Finding("frozen", text, remedy, tensors=names)
    restless = case.evidence.restless()
    if restless:
        remedy = translate("Call eval() on the frozen part, too")
        names = tuple(name for name, _ in restless)
        text = translate(
            "the batch norm {listed} is frozen, but in train mode: its running statistics change "
            "with each batch. {remedy}",
            listed=_listed(names),
            remedy=remedy,
        )
        yield Finding("frozen but changing", text, remedy, tensors=names, place=restless[0][1])
    for log in case.optimizers:
        if log.moves_frozen:
            remedy = translate("Set its .grad to None when you freeze it")
            text = translate(
                "{name}.step() moves a parameter that is frozen: it still has a gradient, and "
                "momentum or weight decay go on. {remedy}",
                name=log.name,
                remedy=remedy,
            )
            yield Finding("frozen but changing", text, remedy)


def _listed(names: tuple[str, ...]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return translate(
        "{names} and {others}", names=", ".join(names[:_NAMED]), others=counted(len(names) - _NAMED, "other")
    )
