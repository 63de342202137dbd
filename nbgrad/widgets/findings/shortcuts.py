"""Losses that become small without learning: next words that the model sees, and pairs that may all be equal."""

from collections.abc import Iterator
from typing import Any

from nbgrad.choices import FindingKind
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.examination import Compared, Examination, takes_of
from nbgrad.widgets.findings.located import located

_PLACES = 4
"""Shorter sequences may be shifted ones of each other by chance."""

_LONG = 20
"""So many backwards say whether a loss comes near its smallest value."""

_SMALL = 0.02
"""A loss is near 0 if it is at most this part of the first one, and a cosine near 1 if it is no further from it."""

_LINEAR = ("mean", "sum", "add", "sub", "rsub", "neg", "mul", "div", "pow", "square", "abs", "sqrt")
"""The ops that make one loss of several pairs."""


def foreseen_words(case: Examination) -> Iterator[Finding]:
    """A model that predicts the next words and sees them: attention without a mask, a net that also runs backwards."""
    for compared in case.comparisons if case.evidence.trains() else ():
        given = next((one for one in case.records if _precedes(case, one, compared)), None)
        if given is None:
            continue
        for record in case.records:
            seen = _looks_ahead(case, record, given)
            if seen is not None and case.leads(record, compared.loss):
                why, kind, remedy = seen
                text = translate(
                    "the targets of {loss} are the next words of those that {given} takes, and {run} {why}: each place "
                    "sees the word that it has to predict, so the loss falls and nothing is learned.",
                    loss=compared.loss.run,
                    given=given.run,
                    run=record.run,
                    why=why,
                )
                yield located(record, kind, text, remedy)
                return


def _precedes(case: Examination, record: Record, compared: Compared) -> bool:
    """Whether the targets are the words that an embedding takes, one place later."""
    read = case.words(record)
    labels = case.numbers(compared.target) if read is not None and takes_of(compared.loss) == "scores" else None
    if read is None or labels is None or labels.size != read[1].size or labels.min() == labels.max():
        return False
    words = read[1]
    for order in (words, words.T):
        after = labels.reshape(order.shape) if labels.ndim == 1 or labels.shape == order.shape else None
        if after is not None and order.shape[1] >= _PLACES and not bool((order == order[:1]).all()):
            return bool((after[:, :-1] == order[:, 1:]).all()) and case.leads(record, compared.loss)
    return False


def _looks_ahead(case: Examination, record: Record, given: Record) -> tuple[str, FindingKind, str] | None:
    """Why the result at a place depends on later places, with the kind of the finding and the remedy."""
    name, places = "" if record.op is None else record.op.name, given.shape[:2]
    mask = translate("Hide the later words: is_causal=True, or nn.Transformer.generate_square_subsequent_mask(length)")
    if name == "scaled_dot_product_attention" and len(record.inputs) >= 3:
        query, key = case.source(record), case.source(record, 1)
        causal = record.settings.get("is_causal", record.settings.get("argument 6"))
        masked = len([one for one in record.inputs if one.source is not None]) > 3
        same = query is not None and key is not None and query.shape[-2] == key.shape[-2] in places
        if same and not causal and not masked and key is not None and case.leads(given, key):
            return translate("has no mask"), "attention", mask
    square = len(record.shape) > 2 and record.shape[-1] == record.shape[-2] in places
    if name == "softmax" and square and record.settings.get("dim") in (-1, len(record.shape) - 1):
        return (translate("has no mask before it"), "attention", mask) if _is_unmasked(case, record) else None
    module: Any = record.scope.module() if isinstance(record.scope, ModuleScope) else None
    both = hasattr(module, "hidden_size") and getattr(module, "bidirectional", False)
    if both and name and case.leads(given, record):
        remedy = translate("Leave out {name}", name="bidirectional=True")
        return translate("reads the words in both directions"), "target", remedy
    return None


def _is_unmasked(case: Examination, record: Record) -> bool:
    """Whether scores of an attention come from a product of matrices, changed by nothing but numbers."""
    source: Record | None = case.giver(record)
    while source is not None and source.op is not None and source.op.name in ("mul", "div"):
        others: list[Any] = [case.source(source, at) for at in range(1, len(source.inputs))]
        if any(one is not None and one.shape not in ((), (1,)) for one in others):
            return False
        source = case.giver(source)
    return source is not None and source.op is not None and source.op.name in ("matmul", "bmm")


def equal_pairs(case: Examination) -> Iterator[Finding]:
    """A loss that compares what a model computes with what it computes too, and nothing else: equal numbers suffice."""
    if case.graph.backwards < _LONG or not case.alone or len(case.roots) != 1 or case.evidence.derivations():
        return
    root, losses = case.roots[0], case.losses
    pairs = _pairs(case, root) if len(losses) > 1 else []
    if not pairs or not (losses[-1] <= _SMALL * losses[0] if losses[0] > 0 else losses[-1] <= _SMALL - 1):
        return
    text = translate(
        "{run} compares two results of parameters that are all trained, and nothing else is in the loss: it is "
        "smallest if they are the same for every input. It went from {first} to {last}.",
        run=pairs[0].run,
        first=number(losses[0]),
        last=number(losses[-1]),
    )
    remedy = translate("detach() one side, as a teacher, or compare with other inputs, too, as a contrastive loss does")
    yield located(pairs[0], "target", text, remedy)


def _pairs(case: Examination, root: Record) -> list[Record]:
    """The comparisons of two trained results that alone make up a loss; empty if there is anything else in it."""
    trained, found = _trained(case), list[Record]()
    waiting, seen = [root], set[int]()
    while waiting:
        one = waiting.pop()
        if one.id in seen or one.id not in case.learned:
            continue
        seen.add(one.id)
        name = "" if one.op is None else one.op.name
        sides = [source for source in dict.fromkeys(one.sources) if source in case.learned]
        compares = takes_of(one) == "values" or name == "cosine_similarity" or (name == "sub" and bool(one.shape))
        if compares and len(sides) == 2:
            if not all(side in trained for side in sides):
                return []
            found.append(one)
        elif name in _LINEAR and (len(sides) == 1 or name in ("add", "sub")):
            waiting += [case.made[side] for side in sides]
        else:
            return []
    return found


def _trained(case: Examination) -> set[int]:
    """The ids of what is computed from parameters of modules that an optimizer holds."""
    held = {id for log in case.optimizers for id in log.ids}
    found = set[int]()
    for record in case.records:
        if (record.kind == "parameter" and record.id in held) or not found.isdisjoint(record.sources):
            found.add(record.id)
    return found
