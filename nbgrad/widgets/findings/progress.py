"""Whether a loop makes progress: steps too small or too large, a loss that does not fall, penalties that rule it."""

from collections.abc import Iterator
from statistics import median

from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.training import OptimizerLog
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.case import Case, takes_of
from nbgrad.widgets.findings.located import located

_STEPS = 8
"""So many measured steps are enough to judge them."""

_TINY = 1e-5
"""Steps of this size, in units of the parameters, move nothing within a training."""

_SMALL = 1e-4
"""Steps of this size are too small if the loss hardly moves, too."""

_MOVED = 0.05
"""A loss that fell by less than this part has hardly moved."""

_BEYOND = 5.0
"""A step of this many times the size of the parameters throws away what was learned."""

_GROWN = 10.0
"""A loss that is this many times the first one, for good, has grown."""

_LONG = 20
"""After this many backwards a loss should have fallen."""

_RATE = 8
"""So many steps show a schedule."""


def stalled(case: Case, found: list[Finding]) -> Iterator[Finding]:
    """The findings about the steps of a loop; ``found`` are those that may explain them."""
    told = [*_resting(case)]
    yield from told
    kinds = {one.kind for one in found}
    if not told and not kinds & {"no change", "no step", "idle step", "no optimizer"}:
        small = [*_small(case)]
        yield from small
        told += small
    if not told and "divergence" not in kinds:
        large = [*_large(case)]
        yield from large
        told += large
    if not told and not kinds:
        yield from _flat(case)


def _named(log: OptimizerLog) -> str:
    rates = [group.last for group in log.groups if group.last is not None]
    return f"{log.name} (lr={number(max(rates))})" if rates else log.name


def _resting(case: Case) -> Iterator[Finding]:
    """Rates that are 0, from the beginning or since a schedule has fallen."""
    for log in case.optimizers:
        for at, group in enumerate(log.groups):
            reached = [id for id in (log.held[at] if at < len(log.held) else ()) if id in case.made]
            if log.steps < _RATE or group.highest is None or not any(case.made[id].gradient for id in reached):
                continue
            which = f"group {at} of {log.name}" if len(log.groups) > 1 else log.name
            if group.highest == 0:
                remedy = "Give it a rate, such as lr=1e-3"
                text = f"{which} has a learning rate of 0 in all {log.steps} steps: it moves nothing. {remedy}"
            elif 2 * group.resting >= log.steps:
                remedy = "Call the scheduler once an epoch, or let the rate fall more slowly"
                text = (
                    f"the learning rate of {which} was {number(group.highest)}, and below a thousandth of that in "
                    f"{group.resting} of {log.steps} steps: the schedule ends long before the loop. {remedy}"
                )
            else:
                continue
            first = case.made[reached[0]]
            yield located(first, "small steps", text, remedy)


def _small(case: Case) -> Iterator[Finding]:
    """Steps that hardly move the parameters, although there are gradients."""
    size = case.typical_step
    if size is None or len(case.steps) < _STEPS or size > _SMALL or case.steps[-1][1] > _SMALL:
        return
    losses = case.losses
    moved = abs(losses[-1] - losses[0]) / max(abs(losses[0]), 1e-30) if len(losses) > 1 else 1.0
    if size > _TINY and moved > _MOVED:
        return
    learned = next((one for one in case.records if one.kind in ("parameter", "leaf") and one.gradient), None)
    if learned is None or (learned.gradient is not None and learned.gradient.norm == 0):
        return
    name = _named(case.optimizers[0]) if case.optimizers else "the update"
    remedy = "Try a learning rate 10 to 1000 times as large"
    text = (
        f"the steps of {name} are too small: each changes the parameters by {number(size)} of their size, and the loss "
        f"went from {number(losses[0])} to {number(losses[-1])} in {case.graph.backwards:,} backwards. {remedy}"
        if len(losses) > 1
        else f"the steps of {name} are too small: each changes the parameters by {number(size)} of their size. {remedy}"
    )
    yield located(learned, "small steps", text, remedy)


def _large(case: Case) -> Iterator[Finding]:
    """Steps that throw the parameters away, or make the loss larger for good."""
    root = next(iter(case.roots), None)
    if root is None:
        return
    name = _named(case.optimizers[0]) if case.optimizers else "the update"
    far = next(((at, size) for at, size in case.steps if size > _BEYOND), None)
    remedy = "Try a learning rate a tenth as large, or clip_grad_norm_"
    if far is not None and len(case.frames) > 2:
        text = (
            f"the steps of {name} are too large: that after backward {far[0]:,} changed the parameters by "
            f"{number(far[1])} times their size. {remedy}"
        )
        yield located(root, "large steps", text, remedy)
        return
    losses = case.losses
    if len(losses) < _STEPS or not case.alone or len(case.roots) > 1:
        return
    late = median(losses[len(losses) // 2 :])
    if late > _GROWN * abs(losses[0]) and losses[0] > 0:
        text = (
            f"the loss grew: it was {number(losses[0])} in the first backward, and is typically {number(late)} in the "
            f"second half of the loop: the steps of {name} are too large, or go uphill. {remedy}"
        )
        yield located(root, "large steps", text, remedy)


def _flat(case: Case) -> Iterator[Finding]:
    """A loss of data that does not fall, if nothing else is known."""
    losses = case.losses
    if case.graph.backwards < _LONG or len(losses) < _STEPS or not case.alone or len(case.comparisons) != 1:
        return
    if not case.optimizers or takes_of(case.comparisons[0].loss) is None:
        return
    part = max(2, len(losses) // 4)
    early, late = median(losses[:part]), median(losses[-part:])
    if early <= 0 or early - late > _MOVED * early:
        return
    root: Record = case.comparisons[0].loss
    remedy = "Try to overfit one batch, and look at the data, the labels and the size of the model"
    text = (
        f"the loss does not fall: it was {number(early)} at the beginning and is {number(late)} after "
        f"{case.graph.backwards:,} backwards. Order of calls, optimizer, gradients and steps are sound. {remedy}"
    )
    yield located(root, "no progress", text, remedy)
