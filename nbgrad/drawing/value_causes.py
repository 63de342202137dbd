"""``value_cause``: the fault of a forward that gives the wrong value of an engine."""

from collections.abc import Iterator
from itertools import combinations

from nbgrad.core.translation import translate
from nbgrad.drawing.calls import Numbers
from nbgrad.drawing.cause import Cause, best
from nbgrad.drawing.engine_run import EngineRun
from nbgrad.drawing.faults import EngineFault
from nbgrad.drawing.value_faults import wrong_values


def value_cause(run: EngineRun, at: int) -> str | None:
    """The words for the cause of the wrong value of a part, the first that is wrong; None if none is found."""
    causes = list(_moved(run))
    for key, (fault, made) in _wrong_of(run, at).items():
        value = run.values[at]
        if value is None or not run.close(value, made):
            continue
        explained = _values_explained(run, run.rules[at], key)
        if explained:
            causes.append(
                Cause(key, translate("The number {text}.", text=translate(fault.text)), fault.rank, explained)
            )
    return best(causes)


def _moved(run: EngineRun) -> Iterator[Cause]:
    """The leaves were changed by a step against their gradients, after the forward had read them."""
    for rate in _rates(run):
        if all(any(run.close(_value(run, at), made) for made in _before(run, at, rate)) for at in run.wrong_values):
            text = translate(
                "The leaves were changed after the forward: before a step of the rate {rate:.4g} "
                "against their gradients, these values were right. Compare before the step.",
                rate=rate,
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
