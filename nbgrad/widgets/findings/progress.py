"""Whether a loop makes progress: steps too small or too large, a loss that does not fall, penalties that rule it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf, isfinite, sqrt
from statistics import fmean, median

from nbgrad.choices import FindingKind
from nbgrad.core.engine.walk import reached
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.divergence import alike
from nbgrad.widgets.findings.examination import Examination, is_called_loss, outermost, takes_of, typical
from nbgrad.widgets.findings.located import located

_STEPS = 8
"""So many measured steps are enough to judge them."""

_SPREAD = 4
"""So many are enough if they are spread over a loop: on a slow computer few steps of a short loop are recorded."""

_TINY = 1e-5
"""Steps of this size, in units of the parameters, move nothing within a training."""

_SMALL = 1e-4
"""Steps of this size are too small if the loss hardly moves, too."""

_MOVED = 0.05
"""A loss that fell by less than this part has hardly moved."""

_FELL = 0.1
"""A fall by this part cannot be missed: where the noise of the batches may hide it, nothing is said."""

_SURE = 3.0
"""Two standard errors of the difference of two medians, in units of the mean change from batch to batch."""

_STRAYED = 0.2
"""From batch to batch, a loss changes by less than this part."""

_BEYOND = 5.0
"""A step of this many times the size of the parameters throws away what was learned."""

_FIRST = 5
"""So many first steps are looked at."""

_LONG_MOMENTUM = 0.99
"""A mean of gradients that is remembered for so long is no usual momentum."""

_RENEWED = 8
"""So many optimizers with a step each are made in a loop."""

_LEAP = 100.0
"""A loss that was this many times larger after one of the first steps has left the place where the training began."""

_THROWN = 0.7
"""First steps of this size throw away how the parameters were initialized."""

_GROWN = 10.0
"""A loss that is this many times the first one, for good, has grown."""

_BOUNDLESS = 1e3
"""A loss that has fallen below minus this many times its first size has no lower bound."""

_PENALTY = 10.0
"""A penalty of this many times the loss of the data rules it."""

_DECAY = 0.1
"""A weight decay of this much is more than a gradient can hold up against."""

_SHRINKS = 0.005
"""A decoupled weight decay that takes this part of the weights in each step."""

_DECOUPLED = ("AdamW", "NAdamW", "Lion")
"""The optimizers whose weight decay does not go through the gradient."""

_SCORES = 100.0
"""A cross entropy begins near the log of the number of classes."""

_FAR = 1e4
"""A squared error begins near the mean square of its targets."""

_ITERATIONS = 10
"""A loop of so many iterations is looked at."""

_GONE = 1e-10
"""Over the iterations of a loop, a gradient of which only this part is left has vanished."""

_ROWS = 8
"""So many predictions are not equal by chance."""

_LONG = 20
"""After this many backwards a loss should have fallen."""

_RATE = 8
"""So many steps show a schedule."""


def _named(case: Examination) -> str:
    """The first optimizer with its rate, for a sentence about the steps; an update by hand has no name."""
    if not case.optimizers:
        return translate("the update")
    log = case.optimizers[0]
    rates = [group.last for group in log.groups if group.last is not None]
    return translate("{name} (lr={rates})", name=log.name, rates=number(max(rates))) if rates else log.name


def resting(case: Examination) -> Iterator[Finding]:
    """Rates that are 0, from the beginning or since a schedule has fallen."""
    for log in case.optimizers:
        for at, group in enumerate(log.groups):
            reached = [id for id in (log.held[at] if at < len(log.held) else ()) if id in case.made]
            if log.steps < _RATE or group.highest is None or not any(case.made[id].gradient for id in reached):
                continue
            which = translate("group {at} of {name}", at=at, name=log.name) if len(log.groups) > 1 else log.name
            if group.highest == 0:
                remedy = translate("Give it a rate, such as lr=1e-3")
                text = translate(
                    "{which} has a learning rate of 0 in all {steps} steps: it moves nothing. {remedy}",
                    which=which,
                    steps=log.steps,
                    remedy=remedy,
                )
            elif 2 * group.resting >= log.steps:
                remedy = translate("Call the scheduler once an epoch, or let the rate fall more slowly")
                text = translate(
                    "the learning rate of {which} was {highest}, and below a thousandth of that in "
                    "{resting} of {steps} steps: the schedule ends long before the loop. {remedy}",
                    which=which,
                    highest=number(group.highest),
                    resting=group.resting,
                    steps=log.steps,
                    remedy=remedy,
                )
            else:
                continue
            first = case.made[reached[0]]
            yield located(first, "small steps", text, remedy)


def small(case: Examination) -> Iterator[Finding]:
    """Steps that hardly move the parameters, although there are gradients."""
    size = case.typical_step
    if size is None or len(case.steps) < enough(case) or size > _SMALL or case.steps[-1][1] > _SMALL:
        return
    losses = case.losses
    moved = abs(losses[-1] - losses[0]) / max(abs(losses[0]), 1e-30) if len(losses) > 1 else 1.0
    if moved > (_MOVED if size > _TINY else _STRAYED) or (size > _TINY and case.graph.backwards < _LONG):
        return
    learned = next((one for one in case.records if one.kind in ("parameter", "leaf") and one.gradient), None)
    if learned is None or (learned.gradient is not None and learned.gradient.norm == 0):
        return
    name = _named(case)
    remedy = translate("Try a learning rate 10 to 1000 times as large")
    text = (
        translate(
            "the steps of {name} are too small: each changes the parameters by {size} of their size, and "
            "the loss went from {losses} to {losses2} in {backwards:,} backwards. {remedy}",
            name=name,
            size=number(size),
            losses=number(losses[0]),
            losses2=number(losses[-1]),
            backwards=case.graph.backwards,
            remedy=remedy,
        )
        if len(losses) > 1
        else translate(
            "the steps of {name} are too small: each changes the parameters by {size} of their size. {remedy}",
            name=name,
            size=number(size),
            remedy=remedy,
        )
    )
    yield located(learned, "small steps", text, remedy)


def enough(case: Examination) -> int:
    """How many measured steps are enough to call them too small: few, if they are spread over a loop."""
    return _SPREAD if case.graph.backwards >= _LONG else _STEPS


def large(case: Examination) -> Iterator[Finding]:
    """Steps that throw the parameters away, or make the loss larger for good."""
    root = next(iter(case.roots), None)
    if root is None or case.training.evaluates:
        return
    name = _named(case)
    far = next(((at, size) for at, size in case.steps if size > _BEYOND), None)
    remedy = translate("Try a learning rate a tenth as large, or clip_grad_norm_")
    if far is not None and len(case.frames) > 2:
        text = translate(
            "the steps of {name} are too large: that after backward {far:,} changed the parameters "
            "by {far2} times their size. {remedy}",
            name=name,
            far=far[0],
            far2=number(far[1]),
            remedy=remedy,
        )
        yield located(root, "large steps", text, remedy)
        return
    losses = case.losses
    if len(losses) < _STEPS or not case.alone or len(case.roots) > 1:
        return
    if not case.is_loss(root) or not case.first or _moves_on(case):
        return  # the loss of a policy, or a sum of losses, may grow
    late = median(losses[len(losses) // 2 :])
    if late > _GROWN * abs(losses[0]) and losses[0] > 0:
        text = translate(
            "the loss grew: it was {losses} in the first backward, and is typically {late} in the "
            "second half of the loop: the steps of {name} are too large, or go uphill. {remedy}",
            losses=number(losses[0]),
            late=number(late),
            name=name,
            remedy=remedy,
        )
        yield located(root, "large steps", text, remedy)


def swapped(case: Examination) -> Iterator[Finding]:
    """Betas of Adam in the wrong order: the steps follow gradients of long ago."""
    for log in case.optimizers:
        group = next((one for one in log.groups if one.momentum > one.memory > 0), None)
        if group is not None and group.momentum >= _LONG_MOMENTUM:
            remedy = translate("Use betas=(0.9, 0.999)")
            text = translate(
                "{name} has betas=({momentum:g}, {memory:g}): the mean of gradients is remembered "
                "for {momentum2:,.0f} steps, and that of their squares for {memory2:,.0f}. {remedy}",
                name=log.name,
                momentum=group.momentum,
                memory=group.memory,
                momentum2=1 / (1 - group.momentum),
                memory2=1 / (1 - group.memory),
                remedy=remedy,
            )
            yield located(case.held_by(log), "no progress", text, remedy)


def renewed(case: Examination) -> Iterator[Finding]:
    """An optimizer that is made anew in each step of a loop."""
    several = [log for log in case.optimizers if log.steps == 1]
    if len(several) < _RENEWED or len(several) < len(case.optimizers) - 1:
        return
    name, remedy = several[0].name, translate("Make the optimizer, and its network, once before the loop")
    text = translate(
        "{count} times a new {name} took one step: what it remembers is lost each time, and so is "
        "what was learned, if the network is new, too. {remedy}",
        count=len(several),
        name=name,
        remedy=remedy,
    )
    yield Finding("no progress", text, remedy)


def bottomless(case: Examination) -> Iterator[Finding]:
    """A loss that falls below any bound: a term of it has the wrong sign."""
    losses = case.losses
    if len(losses) < _STEPS or not case.alone or len(case.roots) != 1:
        return
    if losses[-1] < -_BOUNDLESS * max(1.0, abs(losses[0])):
        text = translate(
            "the loss falls without bound: from {losses} to {losses2}.",
            losses=number(losses[0]),
            losses2=number(losses[-1]),
        )
        yield located(case.roots[0], "sign", text, translate("Check the sign of each term of the loss"))


def thrown(case: Examination) -> Iterator[Finding]:
    """First steps that throw away how the parameters began, and a loss that has not fallen since."""
    first = [size for _, size in case.steps[:_FIRST]]
    # Two losses that take turns are not comparable; the last batch alone may differ.
    comparable = [frame.loss for frame in case.frames if frame.loss is not None and alike(frame, case.frames[0])]
    losses = [loss for loss in comparable if isfinite(loss)]
    if len(first) < _FIRST or len(losses) < _STEPS or not case.alone or len(case.roots) != 1 or _moves_on(case):
        return
    root, size, most = case.roots[0], median(first), max(losses[: _STEPS + 1])
    if case.training.evaluates or not (case.is_loss(root) or is_called_loss(root)):
        return
    fell = median(losses[len(losses) // 2 :]) <= (1 - _MOVED) * losses[0]
    if most > _LEAP * losses[0] > 0:
        then = translate(
            "the loss went from {losses} to {most} in the first of them", losses=number(losses[0]), most=number(most)
        )
    elif size > _THROWN and not fell:
        then = translate(
            "each changed the parameters by about {size} times their size, and the loss has not fallen since",
            size=number(size),
        )
    else:
        return
    name = _named(case)
    text = translate("the first steps of {name} are too large: {then}.", name=name, then=then)
    yield located(root, "large steps", text, translate("Try a learning rate a tenth as large"))


def _moves_on(case: Examination) -> bool:
    """Whether a network computes the targets."""
    return any(_moving(case, one.target) for one in case.comparisons)


def penalty(case: Examination) -> Iterator[Finding]:
    """A sum of the loss of the data and of a penalty on the weights that is far larger."""
    for root in case.roots:
        if root.op is None or root.op.name != "add" or len(case.comparisons) != 1:
            continue
        pair = [case.source(root), case.source(root, 1)]
        loss = next((one for one in pair if one is not None and case.leads(case.comparisons[0].loss, one)), None)
        other = next((one for one in pair if one is not None and one is not loss), None)
        if loss is None or other is None or loss.value is None or other.value is None or _has_data(case, other):
            continue
        if other.value.norm > _PENALTY * loss.value.norm > 0:
            text = translate(
                "the penalty on the weights, {run}, is {norm}, and the loss of the data {norm2}: "
                "training makes the weights small, and learns nothing else.",
                run=other.run,
                norm=number(other.value.norm),
                norm2=number(loss.value.norm),
            )
            yield located(other, "regularization", text, translate("Give it a factor such as 1e-4"))


def _has_data(case: Examination, record: Record) -> bool:
    """Whether constants with several numbers lead to it."""
    led = map(case.made.__getitem__, reached(record.sources, lambda at: case.made[at].sources))
    return any(one.kind == "constant" and one.shape not in ((), (1,)) for one in (record, *led))


def decay(case: Examination) -> Iterator[Finding]:
    """A weight decay that shrinks the weights faster than they can learn."""
    for log in case.optimizers:
        for group in log.groups:
            shrinks = (group.highest or 0.0) * group.decay
            if log.name in _DECOUPLED:
                if shrinks < _SHRINKS or group.decay < _DECAY:
                    continue
                how = translate("takes {shrinks:.2g} of each weight in each step", shrinks=shrinks)
            elif group.decay < _DECAY:
                continue
            else:
                how = translate("adds that part of each weight to its gradient")
            remedy = "Use 1e-4 to 1e-2"
            text = translate(
                "the weight decay of {name}, {decay:g}, {how}: the weights go to 0. {remedy}",
                name=log.name,
                decay=group.decay,
                how=how,
                remedy=remedy,
            )
            yield located(case.held_by(log), "regularization", text, remedy)
            break


def huge(case: Examination) -> Iterator[Finding]:
    """A loss that begins far too large: the numbers grow on their way through the layers."""
    if len(case.comparisons) != 1 or len(case.roots) != 1:
        return
    one, root = case.comparisons[0], case.roots[0]
    first = case.frames[0].loss if case.frames else None if root.value is None else root.value.norm
    if first is None or one.loss.settings.get("reduction", "mean") != "mean" or _sums(case, one.loss, root):
        return
    size = typical(case.stats(one.target))
    usual = _SCORES if one.takes != "values" else None if size is None else _FAR * (1.0 + size**2)
    if usual is not None and usual < first < inf:
        text = translate(
            "the loss begins at {first}: the numbers explode on their way through the layers, before "
            "anything is learned.",
            first=number(first),
        )
        yield located(
            one.prediction,
            "exploding",
            text,
            translate("Use a normalization, residual connections, or smaller weights"),
        )


def _sums(case: Examination, loss: Record, root: Record) -> bool:
    """Whether a sum makes one number of the loss, and not a mean."""
    return any(one.op is not None and one.op.name == "sum" and one.id >= loss.id for one in case.records) or (
        root.op is not None and root.op.name == "mul"
    )


def over_time(case: Examination) -> Iterator[Finding]:
    """Gradients that vanish or explode over the iterations of a loop, as in a recurrent network."""
    lines: defaultdict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in case.records:
        if record.op is not None and record.place is not None and record.gradient is not None:
            scope = None if record.scope is None else record.scope.path()
            lines[record.op.name, record.file, record.line, record.shape, scope].append(record)
    told: set[object] = set()
    for key, several in lines.items():
        at = key[1:3]
        if len(several) < _ITERATIONS or at in told or not _follow(case, several):
            continue
        first, last = several[0], several[-1]
        early = 0.0 if first.gradient is None else first.gradient.norm
        late = 0.0 if last.gradient is None else last.gradient.norm
        if not (isfinite(early) and isfinite(late)) or not late:
            continue
        if early < _GONE * late:
            kind: FindingKind = "vanishing"
            remedy = translate("Use an LSTM or GRU, an orthogonal recurrent weight, or shorter sequences")
            said = message(
                "the gradient vanishes over the {count} iterations of {run}: its norm is {late} at "
                "the last one and {early} at the first. {remedy}"
            )
        elif early * _GONE > late:
            kind = "exploding"
            remedy = translate(
                "Clip the gradients with clip_grad_norm_, and use an orthogonal recurrent weight or an LSTM"
            )
            said = message(
                "the gradient explodes over the {count} iterations of {run}: its norm is {late} at "
                "the last one and {early} at the first. {remedy}"
            )
        else:
            continue
        told.add(at)
        sizes = {"late": number(late), "early": number(early)}
        text = translate(said, count=len(several), run=last.run, remedy=remedy, **sizes)
        yield replace(located(first, kind, text, remedy), id=None)  # it is about all iterations


def _follow(case: Examination, several: list[Record]) -> bool:
    """Whether the second iteration is computed from the first one."""
    return case.leads(several[0], several[1]) and case.leads(several[-2], several[-1])


def equal_predictions(case: Examination) -> Iterator[Finding]:
    """Predictions that are the same for all rows, although the targets are not."""
    for one in [] if case.starved else case.comparisons:
        value, target = one.prediction.value, one.target.value
        array = None if value is None else value.array
        if array is None or array.ndim < 1 or len(array) < _ROWS or target is None or target.low == target.high:
            continue
        if case.graph.backwards < LOOP and not array.any():
            continue  # weights may begin at 0
        if (abs(array - array[:1]) <= 1e-6 * abs(array).max()).all():
            text = translate(
                "all {count} predictions of {run} are equal, although their targets are not: the "
                "rows are mixed, or nothing of the input reaches them.",
                count=len(array),
                run=one.loss.run,
            )
            yield located(
                one.prediction,
                "wrong dimension",
                text,
                translate("Look for a mean, a view or a softmax over the batch, and for units that are off"),
            )
            return


def _moving(case: Examination, target: Record) -> bool:
    """Whether a network computes the target, which therefore may grow, as values do in reinforcement learning."""
    return bool(case.evidence.behind(target.id))


def flat(case: Examination) -> Iterator[Finding]:
    """A loss of data that does not fall, if nothing else is known."""
    losses = case.losses
    if case.graph.backwards < _LONG or len(losses) < _STEPS or not case.alone or len(case.comparisons) != 1:
        return
    if not case.optimizers or takes_of(case.comparisons[0].loss) is None or _moving(case, case.comparisons[0].target):
        return
    part = max(2, len(losses) // 4)
    early, late = median(losses[:part]), median(losses[-part:])
    changes = fmean(abs(after - before) for before, after in pairwise(losses))
    unsure = _SURE * changes / sqrt(part)
    if early <= 0 or early - late > _MOVED * early or early - late + unsure > _FELL * early:
        return
    root: Record = case.comparisons[0].loss
    text = translate(
        "the loss does not fall: it was {early} at the beginning and is {late} after {backwards:,} "
        "backwards. Order of calls, optimizer, gradients and steps are sound.{frozen}",
        early=number(early),
        late=number(late),
        backwards=case.graph.backwards,
        frozen=_frozen_part(case),
    )
    yield located(
        root,
        "no progress",
        text,
        translate("Try to overfit one batch, and look at the data, the labels and the size of the model"),
    )


def _frozen_part(case: Examination) -> str:
    """A sentence about the part of the models that does not learn; empty if there is none."""
    models = {id(model): model for record in case.records if (model := outermost(record)) is not None}
    params = {id(one): one for model in models.values() for one in model.parameters()}
    frozen = [one for one in params.values() if not one.requires_grad]
    size, part = sum(one.numel() for one in params.values()), sum(one.numel() for one in frozen)
    if not part:
        return ""
    return translate(
        " But {frozen} of the {all} parameters are frozen, {part:,} of {size:,} numbers.",
        frozen=len(frozen),
        all=len(params),
        part=part,
        size=size,
    )
