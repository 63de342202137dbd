"""``gradient_cause``: the fault of an engine that explains its wrong gradient.

A fault is supposed, and what it would make of the graph is computed. It is a cause only if it gives the engine's wrong
number, and changes no number that is right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch

from nbgrad.core.engine.walk import reached
from nbgrad.core.translation import translate
from nbgrad.drawing.calls import Numbers
from nbgrad.drawing.cause import Cause, best
from nbgrad.drawing.engine_run import EngineRun
from nbgrad.drawing.faults import EngineFault, RuleStep
from nbgrad.drawing.wrong_walks import walk_causes

_LARGEST_HIDDEN = 40
"""Up to so many parts, rules are searched from the gradients of leaves alone: each fault needs a whole backward."""

_PATHS = 10
"""Up to so many paths to a part, all sums of some of them are tried."""


def op_words(run: EngineRun, at: int) -> str:
    """The op of a part as its engine names it."""
    return f"`{run.parts[at].op}`"


def gradient_cause(run: EngineRun, at: int) -> str | None:
    """The words for the cause of the wrong gradient of a part, the first that is wrong; None if none is found."""
    found = [*_seeds(run, at), *_repeated(run, at), *_counted(run), *_lost_paths(run, at)]
    found += _rules(run, at)
    found += walk_causes(run)
    found = found or list(_left_over(run))
    if not bool(_stored(run, at).any()):  # shares of opposite signs may add up to 0 by chance
        found = [one for one in found if not one.key.endswith(" sign")]
    return best(found)


def _stored(run: EngineRun, at: int) -> Numbers:
    found = run.stored(at)
    assert found is not None
    return found


def _seeds(run: EngineRun, at: int) -> Iterator[Cause]:
    """The gradient of the root is wrong, with which the backward begins."""
    if at not in run.roots_set:
        return
    got = _stored(run, at)
    if got.numel() != 1:
        return
    number = float(got)
    if number == 0:
        yield Cause(
            "no seed", translate("A backward begins with the gradient 1 at the result: this one did not set it."), 1
        )
    elif number.is_integer() and number > 1:
        text = translate("It is the sum of {number:.0f} backwards: set the gradients to 0 before each.", number=number)
        yield Cause("seed twice", text, 1)


def _repeated(run: EngineRun, at: int) -> Iterator[Cause]:
    """All gradients of leaves are the same multiple of the right ones, and the others are right."""
    wrong = run.wrong_gradients
    if any(run.parts[one].op is not None for one in wrong):
        return
    want, got = run.right[at], _stored(run, at)
    assert want is not None
    for times in range(2, 11):
        if run.close(got, want * times) and _all_times(run, times):
            text = translate(
                "It is {times} times the right one: the gradients of {times} backwards were added. "
                "Set the gradients of the leaves to 0 before each.",
                times=times,
            )
            yield Cause("not reset", text, _UNSURE if run.hides else 1, len(wrong))


def _left_over(run: EngineRun) -> Iterator[Cause]:
    """All ops have the right gradients, and all leaves wrong ones, which no single argument of a rule can have made.

    Numbers cannot prove more: the values of an earlier backward are gone.
    """
    wrong = run.wrong_gradients
    compared = [at for at in range(len(run.parts)) if run.right[at] is not None and run.stored(at) is not None]
    leaves = [at for at in compared if run.parts[at].op is None]
    if run.hides or len(leaves) < 2 or set(leaves) != set(wrong):
        return
    proven = {run.rules[child] for at in compared if at not in wrong for child in run.children[at]}
    uses = [{(run.rules[child], slot) for child, slot in run.uses(at, run.steps)} for at in leaves]
    if {rule for rule, _ in set.union(*uses)} <= proven and not set.intersection(*uses):
        text = translate(
            "The gradients of all ops are right, and those of all {count} leaves are not: they may still have held the "
            "gradients of an earlier backward. Set the gradients of the leaves to 0 before each.",
            count=len(leaves),
        )
        yield Cause("left over", text, 1, len(leaves))


def _counted(run: EngineRun) -> Iterator[Cause]:
    """Every gradient is the same multiple of the sum of what arrives: each share is counted several times."""
    inner = [at for at in range(len(run.parts)) if at not in run.roots_set and run.stored(at) is not None]
    known = [(run.right[at], _stored(run, at)) for at in inner if run.right[at] is not None]
    if len(run.wrong_gradients) < 2:
        return
    for times in (2, 3):
        if all(want is not None and run.close(got, want * times) for want, got in known):
            text = translate(
                "Every gradient is {times} times the sum of what arrives: each share is added {times} times.",
                times=times,
            )
            yield Cause("counted", text, 1, len(run.wrong_gradients))


def _all_times(run: EngineRun, times: int) -> bool:
    for at, part in enumerate(run.parts):
        want, got = run.right[at], run.stored(at)
        if part.op is None and want is not None and got is not None and not run.close(got, want * times):
            return False
    return True


def _lost_paths(run: EngineRun, at: int) -> Iterator[Cause]:
    """The engine's gradient is the sum of some of those that arrive, not of all."""
    shares = run.shares(at, run.steps)
    if shares is None or len(shares) < 2:
        return
    lost = _missing(run, at)
    if lost is None:
        return
    uses = run.uses(at, run.steps)
    names = list(dict.fromkeys(op_words(run, uses[one][0]) for one in lost))
    many = (
        translate("{count} of {count2} paths are", count=len(lost), count2=len(shares))
        if len(lost) > 1
        else translate("One of {count} paths is", count=len(shares))
    )
    text = translate(
        "{many} not added, through {names}: paths add, so write `+=` and not `=`.",
        many=many,
        names=translate(" and ").join(names),
    )
    explains = sum(_missing(run, one) is not None for one in run.wrong_gradients)
    yield Cause("path", text, 1, explains)


def _missing(run: EngineRun, at: int) -> tuple[int, ...] | None:
    """The paths without which the sum is the engine's gradient; None if it is no such sum."""
    shares = run.shares(at, run.steps)
    got = run.stored(at)
    if shares is None or got is None or len(shares) < 2 or len({one.shape for one in shares}) > 1 or not got.any():
        return None
    every = range(len(shares))
    counts = range(1, len(shares)) if len(shares) <= _PATHS else [1, len(shares) - 1]
    for count in reversed(counts):
        for kept in combinations(every, count):
            lost = tuple(one for one in every if one not in kept and bool(shares[one].any()))
            total = sum((shares[one] for one in kept), torch.zeros_like(shares[0]))
            if run.close(got, total, shares) and not _come_later(run, at, lost, kept):
                return lost
    return None


def _come_later(run: EngineRun, at: int, lost: Sequence[int], kept: Sequence[int]) -> bool:
    """Whether a lost path arrives after one that is kept, so that it was not overwritten."""
    uses = run.uses(at, run.steps)
    children = {uses[one][0] for one in lost}
    first = {uses[one][0] for one in kept}
    later = reached(first, lambda one: [parent for parent in run.parents(one) if parent > at])
    return any(one in children and one not in first for one in later)


# Faults of a rule: the same in every box of the op.

_UNSURE = 2
"""The rank of a fault that is known from the gradients of leaves alone."""


@dataclass(frozen=True)
class _Supposed:
    """A fault that is supposed: of which op, for which of its inputs (None: for all), and its key."""

    op: str
    argument: int | None
    key: str


def _rules(run: EngineRun, at: int) -> Iterator[Cause]:
    """The faults of a rule that give the engine's gradient of this part, and contradict no other part."""
    hidden = run.hides
    if hidden and len(run.parts) > _LARGEST_HIDDEN:
        return
    found = {one: _explained(run, one, at) for one in _supposed(run, at, everywhere=hidden)}
    causes = []
    for supposed, explained in found.items():
        of_one = [found.get(replace(supposed, argument=argument), 0) for argument in range(3)]
        fault = _fault_of(run, supposed)
        if fault is None or not explained or (supposed.argument is None and max(of_one) == explained):
            continue
        text = _rule_text(run, supposed, fault)
        causes.append((supposed.op, Cause(f"{supposed.op} {supposed.key}", text, fault.rank, explained)))
    if not hidden:
        yield from [one for _, one in causes]
        return
    for op in dict.fromkeys(op for op, _ in causes):  # leaves alone cannot tell which op is at fault
        simplest = min([one for name, one in causes if name == op], key=lambda one: (-one.explains, one.rank))
        yield replace(simplest, rank=_UNSURE)


def _supposed(run: EngineRun, at: int, *, everywhere: bool) -> list[_Supposed]:
    """The faults that come into question: of the ops that use the part, or of all ops that lead to it."""
    uses = run.uses(at, run.steps)
    if everywhere:
        uses = [(child, argument) for child in range(len(run.parts)) for argument in range(len(run.parents(child)))]
    found: dict[_Supposed, None] = {}
    for child, argument in uses:
        step, op = run.steps[child], run.rules[child]
        if step is None or op is None or step.right is None:
            continue
        for key in step.faults(argument):
            found[_Supposed(op, argument, key)] = None
            if len(step.values) > 1:
                found[_Supposed(op, None, key)] = None
    return list(found)


def _fault_of(run: EngineRun, supposed: _Supposed) -> EngineFault | None:
    for at, rule in enumerate(run.rules):
        step = run.steps[at]
        if rule != supposed.op or step is None or step.right is None:
            continue
        for argument in range(len(step.values)) if supposed.argument is None else [supposed.argument]:
            if argument < len(step.values) and supposed.key in (faults := step.faults(argument)):
                return faults[supposed.key][0]
    return None


def _rule_text(run: EngineRun, supposed: _Supposed, fault: EngineFault) -> str:
    inputs = max((len(run.parents(at)) for at, rule in enumerate(run.rules) if rule == supposed.op), default=1)
    one = supposed.argument is not None and inputs > 1 and fault.key != "exchanged"
    which = (
        translate(
            " for its {value} input",
            value=(translate("first"), translate("second"), translate("third"))[supposed.argument or 0],
        )
        if one and inputs < 4
        else ""
    )
    return translate("The rule of `{op}`{which} {text}.", op=supposed.op, which=which, text=translate(fault.text))


def _explained(run: EngineRun, supposed: _Supposed, first: int) -> int:
    """How many wrong gradients a fault explains; 0 if not the first one, or if it would make a right one wrong."""
    if run.hides:
        made = _altered(run, supposed)
        parts: Sequence[int] = range(len(run.parts))
    else:
        if not _fits(run, first, _total(run, first, run.steps, supposed)):
            return 0
        children = [at for at, rule in enumerate(run.rules) if rule == supposed.op]
        parts = sorted({parent for child in children for parent in run.parents(child)})
        made = {at: _total(run, at, run.steps, supposed) for at in parts}
    wrong, count = run.wrong_gradients, 0
    for at in parts:
        if run.stored(at) is None or run.right[at] is None:
            continue
        if _fits(run, at, made.get(at)):
            count += at in wrong
        elif at == first or at not in wrong:
            return 0
    return count


def _fits(run: EngineRun, at: int, made: Numbers | None) -> bool:
    """Whether the engine's gradient of a part is ``made``. A right one at a kink counts as it is."""
    got = run.stored(at)
    if got is None or made is None:
        return got is None
    if not made.any() and got.any():
        return False  # nothing that is added leaves an exact 0; a rest is one of numbers that cancel
    return run.close(got, made, run.shares(at, run.steps) or []) or _kept_at_kink(run, at, made)


def _kept_at_kink(run: EngineRun, at: int, made: Numbers) -> bool:
    right = run.right[at]
    return at not in run.wrong_gradients and right is not None and run.close(made, right)


def _total(run: EngineRun, at: int, steps: Sequence[RuleStep | None], supposed: _Supposed) -> Numbers | None:
    """The gradient of a part if the fault is there."""
    if at in run.roots_set:
        return run.seed(at)
    if at in run.blocked:
        return None
    total: Numbers | None = None
    for child, argument in run.uses(at, steps):
        share = _share(run, child, argument, steps[child], supposed)
        if share is None:
            return None
        total = _added(total, share)
        if total is None:
            return None
    return total


def _added(total: Numbers | None, share: Numbers) -> Numbers | None:
    if total is None:
        return share
    try:
        return total + share
    except RuntimeError:
        return None


def _share(run: EngineRun, child: int, argument: int, step: RuleStep | None, supposed: _Supposed) -> Numbers | None:
    if step is None or step.right is None:
        return None
    if run.rules[child] == supposed.op and supposed.argument in (None, argument):
        wrong = step.wrong(argument, supposed.key)
        if wrong is not None:
            return wrong
    return step.right[argument]


def _altered(run: EngineRun, supposed: _Supposed) -> dict[int, Numbers | None]:
    """The gradients of a whole backward with the fault, where the engine keeps those of leaves only."""
    steps: list[RuleStep | None] = [None] * len(run.parts)
    made: dict[int, Numbers | None] = {}
    for at in reversed(range(len(run.parts))):
        made[at] = _total(run, at, steps, supposed)
        steps[at] = run.step(at, made[at])
    return made
