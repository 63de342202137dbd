"""Losses that get the wrong kind of input: probabilities for scores, or scores for log-probabilities."""

from collections.abc import Iterator

from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.examination import Examination, moves, takes_of
from nbgrad.widgets.findings.located import located

_PROBABILITIES = (0.0, 1.0)
"""The interval of probabilities."""

_CTC = ("ctc_loss", "CTCLoss")
"""The connectionist loss of torch and that of nbgrad. Its classes are the last dimension."""

_ROUNDED = 1e-2
"""Rounding may put a log-probability of half precision above 0 by up to this much."""


def mistaken(records: list[Record]) -> Iterator[Finding]:
    """The losses that were given what they do not take."""
    made = {record.id: record for record in records}
    for record in records:
        if record.op is None:
            continue
        told = None
        takes = takes_of(record)
        if takes == "scores":
            told = _squashed(record, _giver(record, made))
        elif takes == "log-probabilities":
            told = _unlogged(_name(record), _giver(record, made))
            if told is None and _name(record) in ("nll_loss", *_CTC):
                told = _across(_name(record), made.get(record.inputs[0].source or 0))
        elif _name(record) in ("log_softmax", "logsumexp"):
            told = _twice(record, _giver(record, made))
        if told is not None:
            yield located(record, "loss input", *told)


def _giver(record: Record, made: dict[int, Record]) -> Record | None:
    """The record of the op that made the input of ``record``."""
    found = made.get(record.inputs[0].source or 0)
    while found is not None and moves(found):
        found = made.get(found.inputs[0].source or 0)
    return found


def _squashed(record: Record, giver: Record | None) -> tuple[str, str] | None:
    """The finding about probabilities that are given as scores, and the remedy."""
    what = _name(record)
    if giver is None or traits_of(giver.op).interval != _PROBABILITIES:
        return None
    remedy = translate("Leave out {name}", name=_name(giver))
    text = translate(
        "{what} takes scores and makes probabilities of them itself, but it is given the "
        "probabilities of {run}: the loss does not come near 0 and the gradients are small. {remedy}",
        what=what,
        run=giver.run,
        remedy=remedy,
    )
    return text, remedy


def _twice(record: Record, giver: Record | None) -> tuple[str, str] | None:
    """The finding about probabilities that are normalized once more, as if they were scores, and the remedy."""
    if giver is None or _name(giver) != "softmax":
        return None
    remedy = translate("Leave out softmax, or say that they are probabilities, as Categorical(probs=...)")
    text = translate(
        "{run} takes scores, but it is given the probabilities of {run2}: they come out nearly equal.",
        run=record.run,
        run2=giver.run,
    )
    return f"{text} {remedy}", remedy


def _unlogged(loss: str, giver: Record | None) -> tuple[str, str] | None:
    """The finding about numbers that are no log-probabilities, and the remedy."""
    if giver is None:
        return None
    remedy = translate("give it what log_softmax makes, or the scores to cross_entropy")
    if traits_of(giver.op).interval == _PROBABILITIES:
        return translate(
            "{loss} takes log-probabilities, but it is given the probabilities of {run}: {remedy}",
            loss=loss,
            run=giver.run,
            remedy=remedy,
        ), remedy
    high = None if giver.value is None else giver.value.high
    if high is not None and high > _ROUNDED:
        text = translate(
            "{loss} takes log-probabilities, which are never above 0, but it is given numbers up to {high}: {remedy}",
            loss=loss,
            high=number(high),
            remedy=remedy,
        )
        return text, remedy
    if traits_of(giver.op).units is not None:
        return translate(
            "{loss} takes log-probabilities, but it is given the scores of {run}: {remedy}",
            loss=loss,
            run=giver.run,
            remedy=remedy,
        ), remedy
    return None


def _across(loss: str, giver: Record | None) -> tuple[str, str] | None:
    """The finding about a log_softmax along another dimension than the classes, and the remedy.

    The loss takes the result of ``giver`` unchanged, so both count the same dimensions.
    """
    if giver is None or _name(giver) != "log_softmax" or not giver.shape:
        return None
    last = len(giver.shape) - 1
    classes, dim = last if loss in _CTC else min(1, last), giver.settings.get("dim")
    if not isinstance(dim, int) or dim % len(giver.shape) == classes:
        return None
    remedy = translate("Use dim={classes}", classes=classes)
    text = translate(
        "the classes of {loss} are dimension {classes} of its input of shape {shape}, but {run} goes "
        "along dim={dim}: its results are no probabilities of classes. {remedy}",
        loss=loss,
        classes=classes,
        shape=giver.shape,
        run=giver.run,
        dim=dim,
        remedy=remedy,
    )
    return text, remedy


def learned_weights(case: Examination) -> Iterator[Finding]:
    """Log-probabilities of actions, weighted by the error of a prediction that gets a gradient from them."""
    for record in case.records:
        pair = [case.source(record, at) for at in range(len(record.inputs))] if _name(record) == "mul" else []
        for chosen, weight in (pair, pair[::-1]) if len(pair) == 2 else ():
            if weight is None or _name(weight) != "sub" or not weight.shape or not _is_chosen(case, chosen):
                continue
            if sum(source in case.learned for source in weight.sources) == 1 == len(weight.sources) - 1:
                name = weight.name or weight.run
                text = translate(
                    "{run} weights log-probabilities with {name}, which is computed from a prediction and passes a "
                    "gradient on to it: the prediction moves to make the weights small, not to be right.",
                    run=record.run,
                    name=name,
                )
                remedy = translate("Use {name}.detach() there", name=weight.name or translate("the weights"))
                yield located(record, "loss input", text, remedy)
                return


def _is_chosen(case: Examination, record: Record | None) -> bool:
    """Whether numbers are log-probabilities of actions or classes, one of each row."""
    while record is not None and _name(record) in ("neg", "squeeze"):
        record = case.source(record)
    given = case.giver(record) if record is not None and _name(record) == "gather" else None
    if given is None or _name(given) == "log_softmax":
        return given is not None
    return _name(given) == "sub" and (norm := case.giver(given, 1)) is not None and _name(norm) == "logsumexp"


def _name(record: Record) -> str:
    return "" if record.op is None else record.op.name
