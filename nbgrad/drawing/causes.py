"""``gradient_cause``, ``value_cause``: the fault of an engine that explains its wrong number, if exactly one does.

A fault is supposed, and what it would make of the graph is computed. It is a cause only if it gives the engine's wrong
number, and changes no number that is right. Of several causes, the one that explains the most wrong numbers is named,
and of equal ones the simplest. If that leaves two, both are named; if it leaves more, none is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import torch

from nbgrad.drawing.calls import Numbers
from nbgrad.drawing.engine_run import EngineRun
from nbgrad.drawing.faults import EngineFault, RuleStep, wrong_values

_LARGEST = 400
"""Up to so many parts, backwards in wrong orders are tried: each is one of the whole graph."""

_LARGEST_HIDDEN = 60
"""Up to so many parts, rules are searched from the gradients of leaves alone: each fault needs a whole backward."""

_PATHS = 10
"""Up to so many paths to a part, all sums of some of them are tried."""


@dataclass(frozen=True)
class Cause:
    """A fault that explains a wrong number.

    Attributes:
        key: the same for the same fault.
        text: one or two sentences on the fault, and what to do.
        rank: how simple it is; 1 is the simplest.
        explains: how many of the wrong numbers it explains.
    """

    key: str
    text: str
    rank: int
    explains: int = field(default=1, compare=False)


def best(causes: Sequence[Cause]) -> str | None:
    """The words for the best of these causes; None if there is none, or if more than two are equally good."""
    if not causes:
        return None
    most = max(one.explains for one in causes)
    able = [one for one in causes if one.explains == most]
    least = min(one.rank for one in able)
    simplest = {one.key: one.text for one in reversed(able) if one.rank == least}
    texts = list(dict.fromkeys(simplest.values()))[::-1]
    if len(texts) == 1:
        return texts[0]
    return f"Either: {texts[0]} Or: {texts[1]}" if len(texts) == 2 else None


def op_words(run: EngineRun, at: int) -> str:
    """The op of a part as its engine names it."""
    return f"`{run.parts[at].op}`"


# Gradients.


def gradient_cause(run: EngineRun, at: int) -> str | None:
    """The words for the cause of the wrong gradient of a part, the first that is wrong; None if none is found."""
    found = [*_seeds(run, at), *_repeated(run, at), *_counted(run), *_lost_paths(run, at)]
    found += _rules(run, at)
    found += _walks(run) if len(run.parts) <= _LARGEST else []
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
        yield Cause("no seed", "A backward begins with the gradient 1 at the result: this one did not set it.", 1)
    elif number.is_integer() and number > 1:
        text = f"It is the sum of {number:.0f} backwards: set the gradients to 0 before each."
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
            text = (
                f"It is {times} times the right one: the gradients of {times} backwards were added. "
                "Set the gradients of the leaves to 0 before each."
            )
            yield Cause("not reset", text, _UNSURE if run.hides else 1, len(wrong))


def _counted(run: EngineRun) -> Iterator[Cause]:
    """Every gradient is the same multiple of the sum of what arrives: each share is counted several times."""
    inner = [at for at in range(len(run.parts)) if at not in run.roots_set and run.stored(at) is not None]
    known = [(run.right[at], _stored(run, at)) for at in inner if run.right[at] is not None]
    if len(run.wrong_gradients) < 2:
        return
    for times in (2, 3):
        if all(want is not None and run.close(got, want * times) for want, got in known):
            text = f"Every gradient is {times} times the sum of what arrives: each share is added {times} times."
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
    many = f"{len(lost)} of {len(shares)} paths are" if len(lost) > 1 else f"One of {len(shares)} paths is"
    text = f"{many} not added, through {' and '.join(names)}: paths add, so write `+=` and not `=`."
    explains = sum(_missing(run, one) is not None for one in run.wrong_gradients)
    yield Cause("path", text, 1, explains)


def _missing(run: EngineRun, at: int) -> tuple[int, ...] | None:
    """The paths without which the sum is the engine's gradient; None if it is no such sum."""
    shares = run.shares(at, run.steps)
    got = run.stored(at)
    if shares is None or got is None or len(shares) < 2 or len({one.shape for one in shares}) > 1:
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
    stack = [uses[one][0] for one in kept]
    done = set(stack)
    while stack:
        for parent in run.parents(stack.pop()):
            if parent in children and parent not in done:
                return True
            if parent not in done and parent > at:
                done.add(parent)
                stack.append(parent)
    return False


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
    which = f" for its {('first', 'second', 'third')[supposed.argument or 0]} input" if one and inputs < 4 else ""
    return f"The rule of `{supposed.op}`{which} {fault.text}."


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
        faults = step.faults(argument)
        if supposed.key in faults:
            return faults[supposed.key][1]
    return step.right[argument]


def _altered(run: EngineRun, supposed: _Supposed) -> dict[int, Numbers | None]:
    """The gradients of a whole backward with the fault, where the engine keeps those of leaves only."""
    steps: list[RuleStep | None] = [None] * len(run.parts)
    made: dict[int, Numbers | None] = {}
    for at in reversed(range(len(run.parts))):
        made[at] = _total(run, at, steps, supposed)
        steps[at] = run.step(at, made[at])
    return made


# Faults of the walk: the order, and what is handed on.

_MOST = 20_000
"""A wrong walk that takes more steps is not followed further."""


class _Walk:
    """A backward with right rules and a wrong order."""

    def __init__(self, run: EngineRun) -> None:
        self.run = run
        self.gradients: dict[int, Numbers] = {}
        self.overwrites = False
        self.steps = 0
        for at in run.roots:
            seed = run.seed(at)
            if seed is not None:
                self.gradients[at] = seed

    def hand_on(self, at: int) -> list[int]:
        """Add the gradients of the inputs of a part, from what it has now; return the inputs."""
        shares = self.shares(at)
        for parent, share in shares:
            self.add(parent, share)
        return list(dict.fromkeys(parent for parent, _ in shares))

    def shares(self, at: int) -> list[tuple[int, Numbers]]:
        """The gradients that a part hands to its inputs, from what it has now.

        Raises:
            OverflowError: the walk is too long.
        """
        self.steps += 1
        if self.steps > _MOST:
            raise OverflowError
        step = self.run.step(at, self.gradients.get(at))
        return [] if step is None or step.right is None else list(zip(self.run.parents(at), step.right, strict=True))

    def add(self, at: int, share: Numbers) -> None:
        """Add a gradient to that of a part."""
        held = self.gradients.get(at)
        self.gradients[at] = share if held is None or self.overwrites else held + share


def _from_last(walk: _Walk) -> None:
    """As ``_recursive``, the last input first."""
    _recursive(walk, last_first=True)


def _recursive(walk: _Walk, *, last_first: bool = False) -> None:
    """Each arrival hands on at once all that has arrived so far, before the next input is reached."""

    def shares(at: int) -> Iterator[tuple[int, Numbers]]:
        found = walk.shares(at)
        return iter(found[::-1] if last_first else found)

    stack = [shares(at) for at in walk.run.roots]
    while stack:
        for parent, share in stack[-1]:
            walk.add(parent, share)
            stack.append(shares(parent))
            break
        else:
            stack.pop()


def _stacked(walk: _Walk) -> None:
    """Each arrival hands on all that has arrived so far, to all inputs."""
    stack = list(walk.run.roots)
    while stack:
        stack += reversed(walk.hand_on(stack.pop()))


def _queued(walk: _Walk) -> None:
    queue = list(walk.run.roots)
    while queue:
        queue += walk.hand_on(queue.pop(0))


def _once(*, deep: bool, last_first: bool) -> Callable[[_Walk], None]:
    """Each part hands on once, when it is first reached: a search in depth or in breadth."""

    def walked(walk: _Walk) -> None:
        waiting, done = list(walk.run.roots), set()
        while waiting:
            at = waiting.pop() if deep else waiting.pop(0)
            if at in done:
                continue
            done.add(at)
            parents = walk.hand_on(at)
            waiting += parents if last_first else parents[::-1]

    return walked


def _forward(walk: _Walk) -> None:
    for at in range(len(walk.run.parts)):
        walk.hand_on(at)


def _overwriting(walk: _Walk) -> None:
    """The last gradient that arrives replaces the others."""
    walk.overwrites = True
    for at in reversed(range(len(walk.run.parts))):
        walk.hand_on(at)


def _again(times: int) -> Callable[[_Walk], None]:
    """The same graph, several times without a reset of the gradients inside."""

    def walked(walk: _Walk) -> None:
        seeds = dict(walk.gradients)
        for _ in range(times):
            walk.gradients |= seeds
            for at in reversed(range(len(walk.run.parts))):
                walk.hand_on(at)

    return walked


_EARLY = (
    "The order of the backward is wrong: a part hands its gradient on before all of it has arrived. Walk the parts in "
    "the reverse of a topological order."
)
_AGAIN = "This one hands on again, and all of it, whenever a part of it arrives."
_WALKS: tuple[tuple[str, str, int, Callable[[_Walk], None]], ...] = (
    *[("recursive", f"{_EARLY} {_AGAIN}", 2, order) for order in (_recursive, _from_last, _stacked, _queued)],
    *[("early", _EARLY, 2, _once(deep=deep, last_first=last)) for deep in (True, False) for last in (True, False)],
    (
        "forward",
        "Only the inputs of the result got a gradient: the walk has to go on from the result to the leaves, in the "
        "reverse of a topological order.",
        1,
        _forward,
    ),
    (
        "path",
        "Of several paths to a part only the last is kept: paths add, so write `+=` and not `=`.",
        1,
        _overwriting,
    ),
    *[
        (
            "again",
            f"The backward ran {times} times over the same graph, and the gradients of the time before were still "
            "there: set all gradients to 0 before each.",
            2,
            _again(times),
        )
        for times in (2, 3)
    ],
)
"""The wrong walks: key, words, rank, and the walk."""


def _walks(run: EngineRun) -> Iterator[Cause]:
    """The wrong orders that give all gradients of the engine."""
    known = {at: run.stored(at) for at in range(len(run.parts))}
    if run.blocked:
        return
    for key, text, rank, order in _WALKS:
        walk = _Walk(run)
        try:
            order(walk)
        except OverflowError:
            continue
        if all(_same(run, got, walk.gradients.get(at)) for at, got in known.items()):
            yield Cause(key, text, rank, len(run.wrong_gradients))


def _same(run: EngineRun, got: Numbers | None, made: Numbers | None) -> bool:
    if got is None:
        return True
    return not bool(got.any()) if made is None else run.close(got, made)


# Values.


def value_cause(run: EngineRun, at: int) -> str | None:
    """The words for the cause of the wrong value of a part, the first that is wrong; None if none is found."""
    causes = list(_moved(run))
    for key, (fault, made) in _wrong_of(run, at).items():
        value = run.values[at]
        if value is None or not run.close(value, made):
            continue
        explained = _values_explained(run, run.rules[at], key)
        if explained:
            causes.append(Cause(key, f"The number {fault.text}.", fault.rank, explained))
    return best(causes)


def _moved(run: EngineRun) -> Iterator[Cause]:
    """The leaves were changed by a step against their gradients, after the forward had read them."""
    for rate in _rates(run):
        if all(any(run.close(_value(run, at), made) for made in _before(run, at, rate)) for at in run.wrong_values):
            text = (
                f"The leaves were changed after the forward: before a step of the rate {rate:.4g} against their "
                "gradients, these values were right. Compare before the step."
            )
            yield Cause("moved", text, 0, len(run.wrong_values))
            return


def _value(run: EngineRun, at: int) -> Numbers:
    found = run.values[at]
    assert found is not None
    return found


def _learned(run: EngineRun, at: int) -> Iterator[tuple[int, ...]]:
    """Some of the leaves among the arguments of a part that have a gradient, which a step may have moved."""
    parents = dict.fromkeys(run.parents(at))
    leaves = [
        one
        for one in parents
        if run.parts[one].op is None
        and (gradient := run.gradients[one]) is not None
        and gradient.shape == _value(run, one).shape
        and bool(gradient.any())
    ]
    for count in range(1, min(len(leaves), 3) + 1):
        yield from combinations(leaves, count)


def _taken_back(run: EngineRun, at: int, moved: tuple[int, ...], rate: float) -> Numbers | None:
    """The value of a part if a step of this rate is taken back."""
    values: list[Numbers | None] = list(run.values)
    for one in moved:
        gradient = run.gradients[one]
        values[one] = None if gradient is None else _value(run, one) + rate * gradient
    call = run.calls[at][0]
    given = run.arguments(at, call, values)
    return None if given is None else call.run(given)


def _before(run: EngineRun, at: int, rate: float) -> Iterator[Numbers]:
    """The values that a part may have had before a step of this rate."""
    for moved in _learned(run, at):
        made = _taken_back(run, at, moved, rate)
        if made is not None:
            yield made


def _rates(run: EngineRun) -> Iterator[float]:
    """The rates that would explain the first wrong value, as far as the op is linear; none for a single number."""
    at = next(iter(run.wrong_values))
    value = _value(run, at)
    if len(run.wrong_values) == 1 and value.numel() == 1:
        return
    for moved in _learned(run, at):
        start, end = _taken_back(run, at, moved, 0.0), _taken_back(run, at, moved, 1e-3)
        if start is None or end is None or start.shape != value.shape:
            continue
        slope = (end - start) / 1e-3
        size = float((slope * slope).sum())
        rate = float(((value - start) * slope).sum()) / size if size else 0.0
        if rate > 0:
            yield rate


def _wrong_of(run: EngineRun, at: int) -> dict[str, tuple[EngineFault, Numbers]]:
    """By key, each fault of the forward, and the number that it gives."""
    found: dict[str, tuple[EngineFault, Numbers]] = {}
    for call in run.possible.get(at, run.calls[at]):
        for fault, made in wrong_values(call, run.arguments(at, call) or []):
            value = run.values[at]
            if fault.key not in found or (value is not None and run.close(value, made)):
                found[fault.key] = (fault, made)
    return found


def _values_explained(run: EngineRun, op: str | None, key: str) -> int:
    """How many wrong values of an op a fault explains; 0 if it would make a right one wrong."""
    count = 0
    for at, rule in enumerate(run.rules):
        value = run.values[at]
        if rule != op or not run.calls[at] or value is None:
            continue
        made = _wrong_of(run, at).get(key)
        fits = made is not None and run.close(value, made[1])
        if at in run.wrong_values:
            count += fits
        elif made is not None and not fits:
            return 0
    return count
