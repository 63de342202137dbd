"""Outputs that cannot reach their targets, and targets that teach nothing."""

import re
from collections import Counter
from collections.abc import Iterator
from math import inf, prod
from statistics import median

import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.findings.examination import Compared, Examination, is_called_loss, literal, takes_of, typical
from nbgrad.widgets.findings.located import called, located

_ASCENT = re.compile(r"(?:\+=|\.add_\()(?:[^-]|e-)*\.grad\b(?:[^-]|e-)*$")
"""The text of a line that adds a gradient to something, with no minus but that of an exponent."""

_NEAR = 0.02
"""Targets may lie outside of the interval of an activation by this part of their own range: by noise."""

_TERM = message("Leave that out, or leave the term out of the loss")
"""The remedy for a term without a gradient."""

_PLACES = 4
"""A sequence of words has at least this many."""

_RARE = 3.0
"""A batch with one of a rare class has a loss that is this many times the usual one."""

_FEW = 8
"""Fewer targets than this may be equal by chance."""

_HUGE = 100.0
"""Numbers of this size are not normalized."""

_CLASSES = 3, 20
"""So many different whole numbers from 0 on may be the numbers of classes."""

_EACH = 3
"""Whole numbers are taken for classes if there are so many targets for each of them, on average."""

_SAMPLE = 4096
"""So many targets are looked at."""

_REWARD = re.compile("reward|return|advantage|baseline", re.IGNORECASE)
"""The names of what a policy is to make large."""

_SIGNED = ("cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss")
"""The losses whose targets are signs."""

_LOG_SIGMOIDS = ("logsigmoid", "log_sigmoid")
"""The row, and the name that torch's function has."""

_ORDERED = re.compile(
    r"(?:\b|_)(?:counts?|numbers?|ages?|ranks?|ratings?|scores?|stars?|years?|degrees?|amounts?|sizes?|lengths?|len)(?:\b|_)",
    re.IGNORECASE,
)
"""The words in a name of whole numbers that have an order."""

_MORE = 0.05
"""Labels of a row may miss a sum of 1 by this much, by rounding."""

_SMOOTH = 0.5
"""Label smoothing of this much leaves nearly nothing of the labels."""


def outputs(case: Examination) -> Iterator[Finding]:
    """The findings about the activations that make the predictions."""
    for one in case.comparisons:
        yield from _output(case, one)


def targets(case: Examination) -> Iterator[Finding]:
    """The findings about the targets of losses."""
    for one in case.comparisons:
        yield from _target(case, one)


def _name(record: Record | None) -> str:
    return "" if record is None or record.op is None else record.op.name


def _output(case: Examination, one: Compared) -> Iterator[Finding]:
    """The finding about the activation that makes the prediction."""
    giver = case.origin(one.prediction)
    if giver is None or giver.op is None:
        return
    loss = _name(one.loss) if takes_of(one.loss) is not None else translate("the loss")
    low, high = traits_of(giver.op).interval
    if "dropout" in _name(giver) and giver.settings.get("training", True) and giver.settings.get("p", 1):
        text = translate(
            "dropout at {giver} is the last op before {loss}: it sets a part of the predictions to 0.",
            giver=_line(giver),
            loss=loss,
        )
        yield located(
            giver, "output range", text, translate("Leave it out of the output: put it before the last layer")
        )
    elif one.takes == "scores" and _name(giver) == "log_softmax":
        text = translate(
            "{loss} applies log_softmax itself, and it is given the result of {run}.", loss=loss, run=giver.run
        )
        yield located(one.loss, "loss input", text, translate("Leave out log_softmax, or use nll_loss"))
    elif one.takes == "scores" and (low, high) not in ((-inf, inf), (0.0, 1.0), (-inf, 0.0)):
        remedy = translate("Leave out {name} before the loss", name=_name(giver))
        between = (
            translate("are never below {low}", low=number(low))
            if high == inf
            else translate("lie between {low} and {high}", low=number(low), high=number(high))
        )
        text = translate(
            "{loss} takes scores of any size and sign, but those of {run} {between}: some classes "
            "can never become improbable. {remedy}",
            loss=loss,
            run=giver.run,
            between=between,
            remedy=remedy,
        )
        yield located(one.loss, "output range", text, remedy)
    elif one.takes == "probabilities" and high == inf and low > -inf:
        text = translate("{loss} takes probabilities, but {run} makes numbers above 1, too.", loss=loss, run=giver.run)
        yield located(one.loss, "output range", text, translate("Use sigmoid in place of {name}", name=_name(giver)))
    elif one.takes == "probabilities" and _name(giver) == "softmax" and _several_labels(case, one, giver):
        text = translate(
            "the probabilities of {run} add up to 1, but the targets {targets} of {loss} do not: a "
            "row may have several labels, or none.",
            run=giver.run,
            targets=_targets(one),
            loss=loss,
        )
        yield located(
            one.loss,
            "output range",
            text,
            translate("Use binary_cross_entropy_with_logits on the scores, which asks about each class on its own"),
        )
    elif one.takes == "probabilities" and _is_cut(case, giver):
        text = translate(
            "{loss} takes probabilities, and {run} cuts numbers of any size to them: where it cuts, "
            "no gradient goes on, and the loss of a wrong answer is as large as it can be.",
            loss=loss,
            run=giver.run,
        )
        yield located(one.loss, "output range", text, translate("Use sigmoid, which passes a gradient on everywhere"))
    elif one.takes == "values" and (low, high) != (-inf, inf):
        yield from _out_of_reach(case, one, giver, low, high)


def _several_labels(case: Examination, one: Compared, giver: Record) -> bool:
    """Whether the targets of a row add up to another number than 1."""
    value, dim = case.stats(one.target), giver.settings.get("dim")
    if value is None or value.mean is None or not isinstance(dim, int) or giver.shape != one.target.shape:
        return False
    return abs(value.mean * giver.shape[dim] - 1) > _MORE


def _is_cut(case: Examination, giver: Record) -> bool:
    """Whether a prediction is cut to the interval of probabilities, and was outside of it before."""
    if _name(giver) not in ("clamp", "clip", "hardtanh") or (before := case.giver(giver)) is None:
        return False
    low, high = traits_of(before.op).interval
    return low < 0 or high > 1


def _out_of_reach(case: Examination, one: Compared, giver: Record, low: float, high: float) -> Iterator[Finding]:
    """The finding about targets outside of the interval of an activation."""
    value = case.stats(one.target)
    if value is None or value.low is None or value.high is None:
        return
    slack = _NEAR * (value.high - value.low)
    beyond = value.low < low - slack, value.high > high + slack
    if not any(beyond):
        return
    all_of = translate("from {low} to {high}", low=number(value.low), high=number(value.high))
    within = translate(
        "never below {low}" if high == inf else "between {low} and {high}", low=number(low), high=number(high)
    )
    text = translate(
        "the last activation, {run}, makes numbers {within}, but the targets {target} go {all_of}: "
        "the loss cannot come near 0.",
        run=giver.run,
        within=within,
        target=called(one.target),
        all_of=all_of,
    )
    yield located(
        giver,
        "output range",
        text,
        translate("Leave out {name}, or scale the targets into its interval", name=_name(giver)),
    )


def _target(case: Examination, one: Compared) -> Iterator[Finding]:
    """The finding about the targets of a loss."""
    value, name = case.stats(one.target), _name(one.loss)
    smoothing = one.loss.settings.get("label_smoothing") or 0.0
    if isinstance(smoothing, float) and smoothing >= _SMOOTH:
        text = translate(
            "{run} has label_smoothing={smoothing:g}: the labels hardly count any more.",
            run=one.loss.run,
            smoothing=smoothing,
        )
        yield located(one.loss, "target", text, translate("Use 0.1 or less"))
    if case.learned.issuperset({one.prediction.id, one.target.id}) and one.takes == "values":
        if _is_bootstrap(case, one.target):
            text = translate(
                "the target {target} of {run} is a reward and the learned value of the next state, "
                "and it gets a gradient, too: the target runs after the prediction.",
                target=called(one.target),
                run=one.loss.run,
            )
            yield located(one.target, "target", text, translate("Compute it inside no_grad(), or detach() it"))
            return
        if takes_of(one.loss) is not None and case.leads(one.prediction, one.target):
            text = translate(
                "the target of {run} is computed from the prediction itself: the loss falls although "
                "nothing is learned.",
                run=one.loss.run,
            )
            yield located(one.loss, "target", text, translate("Use data as the target, or detach() it"))
        return
    if value is None or value.low is None or value.high is None:
        return
    if name == "binary_cross_entropy_with_logits" and (value.low < -_NEAR or value.high > 1 + _NEAR):
        text = translate(
            "{name} takes targets from 0 to 1, but {target} goes from {low} to {high}: the loss has no lower bound.",
            name=name,
            target=called(one.target),
            low=number(value.low),
            high=number(value.high),
        )
        yield located(one.loss, "target", text, translate("Make labels of 0 and 1 of them"))
        return
    yield from _own_target(case, one)
    if not _is_judged(case, one) or (value.low == value.high and _is_data(one.target)):
        return
    if one.takes == "values" and (size := typical(value)) is not None and size > _HUGE:
        text = translate(
            "the targets {targets} have numbers of about {size}: the loss and its gradients begin far too large.",
            targets=_targets(one),
            size=number(size),
        )
        yield located(one.target, "input scale", text, translate("Normalize them: (y - y.mean()) / y.std()"))


def _own_target(case: Examination, one: Compared) -> Iterator[Finding]:
    """Targets that are the numbers of the prediction, or the words that the model was given."""
    size = one.loss.value.norm if takes_of(one.loss) is not None and one.loss.value is not None else None
    cut = next(iter(case.evidence.behind(one.target.id)), None)
    if one.takes == "values" and size == 0 and cut is not None and case.graph.backwards >= LOOP:
        text = translate(
            "{run} is exactly 0: its target was computed from the prediction, behind {end}, and is equal to it.",
            run=one.loss.run,
            end=cut.end,
        )
        yield located(one.loss, "target", text, translate("Use data as the target"))
    if _name(one.loss) in ("cross_entropy", "nll_loss") and case.evidence.trains():
        yield from _copied(case, one)


def _copied(case: Examination, one: Compared) -> Iterator[Finding]:
    """Targets that are the words that a model is given. An encoder and a decoder may give them back."""
    found = [(record, read[1]) for record in case.records if (read := case.words(record)) is not None]
    # Sequences that are all equal are no words: the places, or the sorts of sentences.
    found = [(record, one) for record, one in found if one.shape[1] >= _PLACES and not (one == one[:1]).all()]
    recurrent = {id(module) for record in case.records if (module := _recurrent(record)) is not None}
    labels = case.numbers(one.target)
    if len(found) != 1 or len(recurrent) > 1 or labels is None or labels.min() == labels.max():
        return
    record, words = found[0]
    if labels.size == words.size and any(bool((labels.ravel() == order.ravel()).all()) for order in (words, words.T)):
        text = translate(
            "the targets {targets} of {run} are the words that {run2} takes: the model learns to copy them.",
            targets=_targets(one),
            run=one.loss.run,
            run2=record.run,
        )
        yield located(
            one.target, "target", text, translate("Shift them by one place: inputs x[:, :-1], targets x[:, 1:]")
        )


def _recurrent(record: Record) -> object:
    """The recurrent module that made a record; None for any other."""
    module = record.scope.module() if isinstance(record.scope, ModuleScope) else None
    return module if hasattr(module, "hidden_size") else None


def _is_judged(case: Examination, one: Compared) -> bool:
    """Whether the numbers of targets tell something: there are enough of them, and no other loss and optimizer."""
    return prod(one.target.shape) >= _FEW and len(case.comparisons) == 1 and case.alone


def unpaired(case: Examination) -> Iterator[Finding]:
    """The differences of a column and a row, in losses written by hand. ``suspicions`` are about the others."""
    for one in case.comparisons:
        yield from _unpaired(one)


def _unpaired(one: Compared) -> Iterator[Finding]:
    shapes = one.prediction.shape, one.target.shape
    if takes_of(one.loss) is not None or sorted(map(len, shapes)) != [1, 2]:
        return
    row, column = sorted(shapes, key=len)
    if column == (*row, 1) and row[0] > 1:
        text = translate(
            "{run} takes {shapes} against {shapes2}, which makes {shape}: each prediction is "
            "compared with every target.",
            run=one.loss.run,
            shapes=shapes[0],
            shapes2=shapes[1],
            shape=one.loss.shape,
        )
        yield located(one.loss, "broadcast", text, translate("Give both one shape, with squeeze(-1) or unsqueeze(-1)"))


def class_numbers(case: Examination) -> Iterator[Finding]:
    """A squared error on the numbers of classes, as if class 2 lay between class 1 and class 3."""
    if len(case.comparisons) != 1 or not case.alone:
        return
    (one,) = case.comparisons
    tensor = case.tensor(one.target)
    array = None if one.target.value is None else one.target.value.array
    values = torch.tensor(array) if tensor is None and array is not None else tensor
    rows = one.target.shape[:1]
    if one.takes != "values" or values is None or one.target.shape not in (rows, (*rows, 1)):
        return
    if _ORDERED.search(one.target.name or ""):
        return
    classes = torch.unique(values.detach().flatten()[:_SAMPLE])
    count = len(classes)
    if not _CLASSES[0] <= count <= _CLASSES[1] or values.numel() < _EACH * count:
        return
    if torch.equal(classes.double().cpu(), torch.arange(count, dtype=torch.float64)):
        text = translate(
            "the targets {targets} of {run} are the whole numbers 0 to {count}: are they classes? A "
            "squared error takes class 2 for the middle of 1 and 3.",
            targets=_targets(one),
            run=one.loss.run,
            count=count - 1,
        )
        yield located(
            one.loss,
            "target",
            text,
            translate("Give each class a score: {count} outputs and cross_entropy(scores, y.long())", count=count),
        )


def unused(case: Examination) -> Iterator[Finding]:
    """A number that was computed like a term of the loss, and that nothing uses or reads."""
    lines = Counter(place.instruction for *_, place in case.evidence.unused())
    for id, what, place in case.evidence.unused():
        record, times = case.made.get(id), lines.pop(place.instruction, 0)
        name = what if record is None or record.name is None else f"{record.name} ({what})"
        if times > 1:
            remedy = translate("Add them up, or call backward() for each")
            text = translate(
                "{name} at {place} makes {times} numbers in each step that do not lead to the loss, and nothing reads "
                "them: the next one takes the name of each. {remedy}",
                name=name,
                place=place_text(place),
                times=times,
                remedy=remedy,
            )
        elif times:
            remedy = translate("Add it to the loss, or leave it out")
            text = translate(
                "{name} at {place} is computed in each step, but it does not lead to the loss, and "
                "nothing reads it: is a term of the loss missing? {remedy}",
                name=name,
                place=place_text(place),
                remedy=remedy,
            )
        else:
            continue
        yield Finding("unreached", text, remedy, None if record is None else id, place=place)


def constant_terms(case: Examination) -> Iterator[Finding]:
    """Terms of a loss that were computed from what is learned, and bring back no gradient."""
    waiting, seen = list(case.roots), set[int]()
    while waiting:
        record = waiting.pop()
        if record.id in seen or _name(record) not in ("add", "sub", "sum", "mean"):
            continue
        seen.add(record.id)
        for source in (case.made.get(id) for id in record.sources):
            if source is None:
                continue
            waiting.append(source)
            cuts = case.evidence.behind(source.id) if source.kind == "constant" and prod(source.shape) == 1 else ()
            cut = next((one for one in cuts if one.kind in ("detached", "draw")), None)
            if cut is not None and record.shape == () and case.evidence.learns_beside(cut):
                name = translate("the term {name}", name=source.name) if source.name else "a term"
                text = translate(
                    "{name} of the loss, which {run} adds, has no gradient: it was computed behind {end}.",
                    name=name,
                    run=record.run,
                    end=cut.end,
                )
                yield Finding("unreached", f"{text} {translate(_TERM)}", translate(_TERM), source.id, place=cut.place)


def severed(case: Examination) -> Iterator[Finding]:
    """A recurrence whose state is cut off in each iteration."""
    for id, count, cut in case.evidence.severed():
        remedy = translate("Leave that out: detach the state between two backwards, or every 20 to 100 steps of time")
        text = translate(
            "the state of a recurrence is {cut} in each of {count} iterations of one backward: "
            "nothing is learned over time. {remedy}",
            cut=cut,
            count=count,
            remedy=remedy,
        )
        record = case.made.get(id)
        yield Finding("unreached", text, remedy, None if record is None else id, place=cut.place)


def _is_bootstrap(case: Examination, record: Record) -> bool:
    """Whether a target is a constant plus a part of something learned, as in ``reward + 0.9 * value``."""
    if _name(record) not in ("add", "sub"):
        return False
    pair = [case.source(record), case.source(record, 1)]
    constant = [one for one in pair if one is not None and one.kind == "constant"]
    product = next((one for one in pair if one is not None and one.id in case.learned and _name(one) == "mul"), None)
    if not constant or product is None or product.shape != constant[0].shape:
        return False
    factors = [case.source(product, at) for at in (0, 1)]
    return any(one is None or one.kind == "constant" for one in factors)


def _is_data(record: Record) -> bool:
    return record.kind == "constant"


def equal_targets(case: Examination) -> Iterator[Finding]:
    """The finding about targets that are all equal. Zeros may be meant, as for a residual."""
    for one in case.comparisons:
        value = case.stats(one.target)
        if value is None or value.low is None or value.low != value.high or not _is_data(one.target):
            continue
        outside = value.low < -_NEAR or value.low > 1 + _NEAR
        told = _name(one.loss) == "binary_cross_entropy_with_logits" and outside
        sure = one.takes == "values" or (case.graph.backwards >= LOOP and not _is_rare(case, one))
        if _is_judged(case, one) and not told and sure:  # a single batch of one class may be an opponent's
            yield from _constant(one, value.low)


def _is_rare(case: Examination, one: Compared) -> bool:
    """Whether a class is rare: it has a weight, or some batches, those with one of it, have a far larger loss."""
    if any(taken.source is not None for taken in one.loss.inputs if "weight" in taken.name):
        return True
    return len(case.losses) > 2 and max(case.losses) > _RARE * median(case.losses)


def _constant(one: Compared, value: float) -> Iterator[Finding]:
    if one.takes == "values":
        if value:
            text = translate(
                "the targets {targets} are all {value}: only a constant can be learned.",
                targets=_targets(one),
                value=number(value),
            )
            yield located(one.target, "target", text, translate("Check how they are made"))
        return
    text = translate(
        "all {prod} targets of the last batch, {targets}, are of one class, {value}: such a batch "
        "teaches only to answer it always.",
        prod=prod(one.target.shape),
        targets=_targets(one),
        value=number(value),
    )
    yield located(one.target, "data", text, translate("Shuffle the data, and check the labels"))


def signed_targets(case: Examination) -> Iterator[Finding]:
    """Targets of 0 and 1 for a loss that takes -1 and 1."""
    for record in case.records:
        target = case.source(record, len(record.inputs) - 1) if _name(record) in _SIGNED else None
        numbers = None if target is None or target.id in case.learned else case.numbers(target)
        if target is not None and numbers is not None and set(numbers.ravel().tolist()) == {0, 1}:
            text = translate(
                "{run} takes targets of -1 and 1, but {target} has 0 and 1: what is labelled 0 counts as neither.",
                run=record.run,
                target=called(target),
            )
            yield located(target, "target", text, "Write 2 * y - 1")


def lone_class(case: Examination) -> Iterator[Finding]:
    """A loss that chooses among classes, and is given one."""
    for one in case.comparisons:
        classes = one.prediction.shape[1:2] or one.prediction.shape
        if _name(one.loss) == "cross_entropy" and classes == (1,):
            text = translate(
                "{run} chooses among the classes in dimension 1 of {shape}, and there is one: its "
                "probability is always 1, so nothing is learned.",
                run=one.loss.run,
                shape=one.prediction.shape,
            )
            yield located(
                one.loss, "loss input", text, translate("Use binary_cross_entropy_with_logits, or give it two scores")
            )


def lone_softmax(case: Examination) -> Iterator[Finding]:
    """A softmax of one number, which is always 1."""
    for record in case.records:
        dim = record.settings.get("dim")
        softmax = _name(record) in ("softmax", "log_softmax") and record.id in case.learned
        if softmax and isinstance(dim, int) and prod(record.shape) > 1 and record.shape[dim] == 1:
            text = translate(
                "{run} goes along dim={dim} of {shape}, which has one number: the result is always {more}.",
                run=record.run,
                dim=dim,
                shape=record.shape,
                more="1" if _name(record) == "softmax" else "0",
            )
            yield located(record, "output range", text, translate("Use sigmoid, or two scores"))


def signs(case: Examination) -> Iterator[Finding]:
    """A loss that is made smaller by making the prediction worse."""
    if not case.alone:
        return
    upward = next((log for log in case.optimizers if any(group.maximize for group in log.groups)), None)
    for root in case.roots:
        positive = root
        if _name(root) == "neg" and (source := case.source(root)) is not None:
            positive = source
        elif _name(root) == "mul":
            factors = [literal(taken) for taken in root.inputs]
            if any(one is not None and one < 0 for one in factors):
                positive = next((one for at in (0, 1) if (one := case.source(root, at)) is not None), root)
        turned = positive is not root
        if turned == (upward is not None) or not (case.is_loss(positive) or (not turned and is_called_loss(root))):
            continue
        remedy = translate("Leave out the minus") if turned else translate("Leave out maximize=True")
        by = (
            translate("{run} turns its sign", run=root.run)
            if turned
            else translate("{more} has maximize=True", more=upward.name if upward else "")
        )
        text = translate(
            "the loss {name} is to become small, but {by}: training makes the predictions worse, if "
            "it is no opponent that is trained. {remedy}",
            name=positive.name or _name(positive),
            by=by,
            remedy=remedy,
        )
        yield located(root, "sign", text, remedy)


def uphill(case: Examination) -> Iterator[Finding]:
    """Updates by hand that add the gradient of a loss. An attack on one input, by the same line, makes it larger."""
    lines = {id: one.place for id, one in case.evidence.by_hand().items() if _ASCENT.search(one.place.text)}
    changed = [one for one in case.records if one.id in lines]
    if len(changed) < 2 or case.optimizers or not any(case.is_loss(one) or is_called_loss(one) for one in case.roots):
        return
    first, *others = changed
    text = translate(
        "the line at {lines} adds the gradient to {first} and {others}: each step makes the loss larger.",
        lines=lines[first.id],
        first=called(first),
        others=counted(len(others), "other"),
    )
    yield located(first, "sign", text, translate("Subtract it: p -= lr * p.grad"))


def likelihoods(case: Examination) -> Iterator[Finding]:
    """A mean of log-probabilities that is made small: of the labels, or times a reward."""
    for term in _terms(case):
        source = case.source(term) if _name(term) in ("mean", "sum") else term
        if source is None:
            continue
        inner = case.source(source) if _name(source) in ("minimum", "min") else source  # of a clipped policy
        weight = next((one for at in (0, 1) if inner and (one := _rewarded(case, inner, at)) is not None), None)
        picked = case.origin(source) if weight is None else None
        if picked is source and _name(source) not in _LOG_SIGMOIDS:
            picked = None
        if weight is None and (picked is None or _name(picked) not in ("log_softmax", *_LOG_SIGMOIDS)):
            continue
        if _name(picked) in _LOG_SIGMOIDS and not case.alone:
            continue  # an opponent may make it small
        what = "log-probabilities" if weight is None else translate("log-probabilities times {name}", name=weight.name)
        by = translate("at {term}: it falls as what was right becomes less probable", term=_line(term))
        text = translate("the loss is a {name} of {what}, {by}.", name=_name(term), what=what, by=by)
        yield located(term, "sign", text, translate("Write a minus before it"))


def _terms(case: Examination) -> Iterator[Record]:
    """The terms of the losses that are added as they are, or times a number above 0."""
    waiting, seen = list(case.roots), set[int]()
    while waiting:
        record = waiting.pop()
        if record.id in seen:
            continue
        seen.add(record.id)
        sources = [one for id in record.sources if (one := case.made.get(id)) is not None]
        if _name(record) in ("add", "sub"):
            waiting += sources if _name(record) == "add" else sources[:1]
        elif _name(record) == "mul" and any((literal(taken) or 0) > 0 for taken in record.inputs):
            waiting += [one for one in sources if one.op is not None]
        else:
            yield record


def _rewarded(case: Examination, record: Record, at: int) -> Record | None:
    """The constant that says how good something was, if a record multiplies a log-probability with it."""
    if _name(record) != "mul":
        return None
    weight, other = case.source(record, at), case.giver(record, 1 - at)
    if weight is None or other is None or weight.id in case.learned or not _REWARD.search(weight.name or ""):
        return None
    log = _name(other) in ("log_softmax", "log", "stack", *_LOG_SIGMOIDS) or _is_log(case, other)
    ratio = _name(other) == "exp" and (first := case.giver(other)) is not None and _name(first) == "sub"
    return weight if log or ratio else None


def _is_log(case: Examination, record: Record) -> bool:
    """Whether a record is scores minus the log of the sum of their exponentials, or a density's logarithm."""
    pair = [case.giver(record, at) for at in range(len(record.inputs))]
    return _name(record) == "sub" and any(one is not None and _name(one) in ("logsumexp", "log") for one in pair)


def _targets(one: Compared) -> str:
    """The name of the targets, if they have one, and their shape."""
    return called(one.target) if one.target.name else str(one.target.shape)


def _line(record: Record) -> str:
    return place_text(record.place) if record.place is not None else translate("an unknown line")
