"""Calls of a training loop in the wrong order, gradients that are added up, and graphs that stay alive."""

from collections.abc import Iterator
from itertools import groupby
from linecache import getlines
from math import log2, sqrt

from nbgrad.choices import FindingKind
from nbgrad.core.engine import source_text
from nbgrad.core.engine.place import Place
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.training import LoopCall
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.findings.divergence import alike
from nbgrad.widgets.findings.examination import Examination, literal, takes_of
from nbgrad.widgets.findings.located import located

_ROUNDS = 3
"""A habit of the loop shows itself in so many rounds."""

_SCALE = 64.0
"""A loss that is multiplied by a power of 2 that is at least this is scaled for half precision."""


def misordered(case: Examination) -> Iterator[Finding]:
    """The calls in the wrong order, each once."""
    told: set[str] = set()
    for text, remedy, call in _slips(case):
        if remedy not in told:
            told.add(remedy)
            yield Finding("early call", f"{text} {remedy}", remedy, place=call.place)


def rebound(case: Examination) -> Iterator[Finding]:
    """An update by hand that makes new tensors and leaves the leaves as they are."""
    rebound = case.evidence.rebound()
    if not rebound or case.optimizers:
        return
    (id, what, cut), *others = rebound
    more = translate(" and {others}", others=counted(len(others), "other")) if others else ""
    remedy = translate("Change it in place: p -= lr * p.grad, inside no_grad()")
    text = translate(
        "{what}{more} got gradients, and nothing has changed it: {place} computes new numbers and "
        "binds a name to them. {remedy}",
        what=what,
        more=more,
        place=place_text(cut.place),
        remedy=remedy,
    )
    yield Finding("no step", text, remedy, id if id in case.made else None, (what,), place=cut.place)


_UNCALLED: dict[str, FindingKind] = {"step": "no step", "zero_grad": "accumulated gradients"}
"""The kind of finding where a call of a method is missing."""


def uncalled(case: Examination) -> Iterator[Finding]:
    """Methods of an optimizer that the program of the loss names and does not call."""
    files = dict.fromkeys(root.place.file for root in case.roots if root.place is not None)
    for file in files if case.evidence.trains() else ():
        for one in source_text.uncalled("".join(getlines(file))):
            if one.method in _UNCALLED:
                remedy = translate("write {written}()", written=one.written)
                text = translate(
                    "{place}, `{written}`, names the function and does not call it: {remedy}.",
                    place=place_text(Place.at(file, one.line)),
                    written=one.written,
                    remedy=remedy,
                )
                yield Finding(_UNCALLED[one.method], text, remedy)


def _slips(case: Examination) -> Iterator[tuple[str, str, LoopCall]]:
    calls = case.training.calls
    if not case.graph.backwards:
        return
    scaled = any(call.kind == "unscale" for call in calls)
    for number, group, now in _last_steps(case):
        yield from _clips(group, number, now=now)
        if number and now:
            yield from _clears(group)
    if not scaled:  # a scaler leaves out steps
        yield from _schedules(calls)
    steps = [call for call in calls if call.kind == ("unscale" if scaled else "step")]
    yield from _schedules_often(calls, steps)
    if case.alone and not case.training.evaluates:
        yield from _drops(calls, steps)
    if case.alone and not scaled and not case.training.evaluates:
        yield from _unscaled(case, calls)


def _last_steps(case: Examination) -> Iterator[tuple[int, list[LoopCall], bool]]:
    """By the number of the backward before them, the calls that say what the loop does now, and whether it does so.

    A fault of an earlier step may have been mended. If the graph rested after the last step, the last one of the same
    line that was seen whole counts, too.
    """
    # Copies: the graph may go on recording in another thread.
    last, cut, recent = case.graph.recorded, {*case.training.cut}, [*case.training.recent]
    groups = [(number, list(group)) for number, group in groupby(recent, key=lambda call: call.backwards)]
    lines = {at.place.instruction for number, group in groups if number == last for at in group if at.kind == "step"}
    whole = last
    for number, group in groups if last in cut else ():
        if number not in cut and any(one.kind == "step" and one.place.instruction in lines for one in group):
            whole = number
    for number, group in groups:
        if number >= last - 1 or number == whole:
            yield number, group, number in (last, whole)


def _clips(calls: list[LoopCall], number: int, *, now: bool) -> Iterator[tuple[str, str, LoopCall]]:
    """Clipping that comes before there is a gradient, before it is unscaled, or after the step that should use it."""
    for at, call in enumerate(calls):
        if call.kind != "clip":
            continue
        before = [one.kind for one in calls[:at]]
        if not call.found:
            yield (
                translate(
                    "the clipping at {place} found no gradient: it comes before backward(), or after zero_grad().",
                    place=place_text(call.place),
                ),
                translate("Call it between backward() and step()"),
                call,
            )
        elif not now:
            continue
        elif number and "unscale" not in before and _is_scaled(call, calls[at + 1 :]):
            yield (
                translate(
                    "the clipping at {place} clips gradients that still contain the factor of the GradScaler:",
                    place=place_text(call.place),
                ),
                translate("call scaler.unscale_(optimizer) first"),
                call,
            )
        elif "step" in before and "step" not in [one.kind for one in calls[at + 1 :]] and "clip" not in before:
            yield (
                translate(
                    "the clipping at {place} comes after step(), which has used the gradients as they were.",
                    place=place_text(call.place),
                ),
                translate("Call it between backward() and step()"),
                call,
            )


def _clears(calls: list[LoopCall]) -> Iterator[tuple[str, str, LoopCall]]:
    """Gradients that are set to 0 after the backward, and before the step that should use them."""
    for at, call in enumerate(calls):
        steps = [one for one in calls[at + 1 :] if one.kind == "step" and one.optimizer is call.optimizer]
        used = [one for one in calls[:at] if one.kind == "step" and one.optimizer is call.optimizer]
        # A step that found no gradient has a finding of its own.
        if call.kind == "zero_grad" and call.optimizer is not None and not used and any(one.found for one in steps):
            yield (
                translate(
                    "zero_grad() at {place} clears the gradients that step() at {step} should use.",
                    place=place_text(call.place),
                    step=place_text(steps[0].place),
                ),
                translate("Call zero_grad() before backward(), or after step()"),
                call,
            )
            return


def _is_scaled(clip: LoopCall, after: list[LoopCall]) -> bool:
    """Whether gradients still contained the factor of a scaler when they were clipped to a bound without it."""
    scale = next((call.number for call in after if call.kind == "unscale" and call.number is not None), None)
    return scale is not None and scale > 1 and (clip.number or 0.0) < sqrt(scale)


def _schedules(calls: list[LoopCall]) -> Iterator[tuple[str, str, LoopCall]]:
    """A scheduler that steps before its optimizer ever has."""
    for call in calls:
        if call.kind == "schedule" and not call.found:
            yield (
                translate(
                    "the step of the scheduler at {place} comes before the first step of {optimizer}: "
                    "the first rate of the schedule is never used.",
                    place=place_text(call.place),
                    optimizer=call.optimizer and call.optimizer.name,
                ),
                translate("Call scheduler.step() after optimizer.step()"),
                call,
            )


def _schedules_often(calls: list[LoopCall], steps: list[LoopCall]) -> Iterator[tuple[str, str, LoopCall]]:
    """A scheduler that steps with each backward, while the optimizer steps once for several."""
    lines = groupby(sorted((one for one in calls if one.kind == "schedule"), key=_line), key=_line)
    for _, group in lines:
        several = list(group)
        taken = sum(one.optimizer is several[0].optimizer for one in steps)
        if taken >= _ROUNDS and len(several) >= 2 * taken and several[-1].backwards >= 2 * taken:
            yield (
                translate(
                    "the scheduler at {place} steps {count} times in {taken} steps of its optimizer: the "
                    "rate falls faster than was meant.",
                    place=place_text(several[0].place),
                    count=len(several),
                    taken=taken,
                ),
                translate("Call scheduler.step() after optimizer.step(), as often"),
                several[0],
            )


def _line(call: LoopCall) -> str:
    return str(call.place)


def _drops(calls: list[LoopCall], taken: list[LoopCall]) -> Iterator[tuple[str, str, LoopCall]]:
    """Gradients of some backwards that are cleared before any step uses them, in a loop that steps now and then."""
    cleared: list[LoopCall] = []
    lost = 0
    for call in calls:
        if call.kind == "zero_grad":
            if cleared and call.backwards > cleared[-1].backwards:
                lost += 1
            cleared.append(call)
        elif call in taken:
            cleared = []
    steps = len(taken)
    if steps >= 2 and lost >= max(_ROUNDS, steps) and cleared is not None:
        call = next(one for one in reversed(calls) if one.kind == "zero_grad")
        yield (
            translate(
                "zero_grad() at {place} drops gradients that no step has used: {lost} backwards for {steps}.",
                place=place_text(call.place),
                lost=lost,
                steps=counted(steps, "step"),
            ),
            translate("Call zero_grad() once, after step()"),
            call,
        )


def _unscaled(case: Examination, calls: list[LoopCall]) -> Iterator[tuple[str, str, LoopCall]]:
    """A step with gradients of a loss that was scaled for half precision."""
    step = next((call for call in calls if call.kind == "step" and call.found), None)
    for root in case.roots:
        if step is None or root.op is None or root.op.name != "mul":
            continue
        factors = [_factor(case, root, at) for at in range(len(root.inputs))]
        if any(one is not None and one >= _SCALE and log2(one).is_integer() for one in factors):
            yield (
                translate(
                    "step() at {place} uses gradients that still contain the factor of the loss, {value:g}.",
                    place=place_text(step.place),
                    value=max(one for one in factors if one is not None),
                ),
                translate("Call scaler.step(optimizer) and scaler.update()"),
                step,
            )


def _factor(case: Examination, record: Record, at: int) -> float | None:
    number, source = literal(record.inputs[at]), case.source(record, at)
    if number is None and source is not None and source.kind == "constant" and source.shape in ((), (1,)):
        return None if source.value is None else source.value.high
    return number


def undivided(case: Examination) -> Iterator[Finding]:
    """Gradients of several backwards for one step, whose loss is not divided by their number."""
    calls = [call for call in case.training.calls if call.kind == "step" and call.found]
    if (
        not calls
        or not case.alone
        or case.training.evaluates  # its step runs many backwards
        or len(case.roots) != 1
        or any(call.kind == "unscale" for call in case.training.calls)
    ):
        return
    at = [call.backwards for call in calls]
    counts = {after - before for before, after in zip([0, *at], at, strict=False)}
    count = min(counts)
    if (
        count < 2
        or (len(counts) > 1 and len(calls) > 2)
        or (case.frames and not alike(case.frames[0], case.frames[-1]))
    ):
        return
    root = case.roots[0]
    if takes_of(root) is None and not (root.op is not None and root.op.name == "mean"):
        return
    if root.settings.get("reduction", "mean") != "mean" or _cleared_between(case, calls[0].backwards):
        return
    text = translate(
        "each step uses the accumulated gradients of {count} backwards, but the loss is not divided "
        "by {count}: the steps are {count} times as large as those of one batch.",
        count=count,
    )
    yield located(root, "accumulation", text, translate("Divide the loss: (loss / {count}).backward()", count=count))


def _cleared_between(case: Examination, until: int) -> bool:
    """Whether gradients were cleared after the first backward and before the first step."""
    return any(call.kind == "zero_grad" and 0 < call.backwards < until for call in case.training.calls)


def kept_graphs(case: Examination) -> Iterator[Finding]:
    """Graphs of earlier backwards that something keeps alive."""
    living = {} if case.training.evaluates else case.evidence.living()
    if len(living) < _ROUNDS or not case.roots:
        return
    root = case.roots[0]
    name = root.name or translate("the loss")
    ops = sum(living.values()) if all(living.values()) else 0  # of those between recorded ones they were not counted
    many = counted(len(living), "earlier backward")
    text = translate(
        "the graphs of {backwards} are still alive{held}: a sum such as total += {name}, a list, or an attribute such "
        "as ctx.y keeps each of them, so memory grows with every step.",
        backwards=many if all(living.values()) else translate("at least {backwards}", backwards=many),
        held=translate(", with {total:,} ops", total=ops) if ops else "",
        name=name,
    )
    yield located(
        root,
        "kept graphs",
        text,
        translate("Keep numbers: {name}.item() for a sum or a list, detach() for a tensor", name=name),
    )
