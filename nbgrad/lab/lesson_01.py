"""The exercises of lesson 1: a slope, and the chain rule on ``L = (a * b + c) * f``."""

import math
from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.ops import exp, sin
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, ValuesJudge, is_near, named, number_of
from nbgrad.lab.running import by_hand

START = OwnNumbers(
    "1.1",
    {
        "start": tuple(
            {"a": a, "b": b, "c": 4.0 - a * b, "f": -2.0}
            for a, b in (
                *((2.0, -3.0), (3.0, -2.0), (2.0, -5.0), (5.0, -3.0), (3.0, -4.0)),
                *((4.0, -3.0), (6.0, -2.0), (3.0, -7.0), (7.0, -2.0), (4.0, -6.0)),
            )
        )
    },
)
"""The values that the lesson begins with. In all of them L is -8 and f has the same gradient: the text says so."""

RATE = 0.1
"""The longest step that exercise 3 allows, in units of the gradient."""


def _loss(a: Any, b: Any, c: Any, f: Any) -> Any:
    return (a * b + c) * f


def _start() -> dict[str, float]:
    """The values that the student begins with."""
    return dict(START()["start"])


def _leaves() -> dict[str, Tensor]:
    return {name: tensor(value, dtype=torch.float64, requires_grad=True) for name, value in _start().items()}


def _gradients() -> dict[str, float]:
    leaves = _leaves()
    found = grad(_loss(**leaves), list(leaves.values()))
    return {name: float(numbers_of(one)) for name, one in zip(leaves, found, strict=True)}


# 1.1: four gradients by hand.


def _by_hand(answer: Any) -> Deviation | None:
    judge = ValuesJudge(_gradients, "gradient")
    found = judge(answer)
    if found is None or found.kind in ("type", "order"):
        return found
    start, right = _start(), _gradients()
    given, loss = named(answer, list(start), "gradient"), _loss(**start)
    assert not isinstance(given, Deviation)
    if all(is_near(given[name], value) for name, value in start.items()):
        return Deviation("numbers", "these are the values of a, b, c and f: a gradient says how L reacts to them")
    if all(is_near(given[name], loss * value) for name, value in right.items()):
        return Deviation("factor", "each is multiplied by the value of L: begin with the gradient of L, which is 1")
    if all(is_near(given[name], value * 1e-2) or is_near(given[name], value * 1e-3) for name, value in right.items()):
        return Deviation("factor", "these are changes of L: a slope is the change, divided by the nudge")
    if _of_nudges(given, right, loss):
        return Deviation(
            "numbers", "these are values of L after a nudge: how much did L change, and after which nudge?"
        )
    for name, wrong, kind, text in (
        ("f", start["f"], "numbers", "that is the value of f: f gets the other factor"),
        ("f", loss, "numbers", "that is L itself: f gets the other factor"),
        ("f", start["a"] * start["b"], "offset", "that is e = a * b: the other factor is d = e + c"),
        ("c", right["c"] * start["c"], "factor", "it is multiplied by c: a sum hands the gradient of d on as it is"),
        ("c", right["c"] / start["f"], "factor", "the factor f is missing: d = e + c gets the gradient of L times f"),
        ("a", right["a"] / start["f"], "factor", "the factor f is missing: e has a gradient already, and a gets a "
         "multiple of that"),
        ("b", right["b"] / start["f"], "factor", "the factor f is missing: e has a gradient already, and b gets a "
         "multiple of that"),
    ):  # fmt: skip
        without = kind == "factor" and is_near(given[name], -wrong)  # a sign may be wrong, too
        if is_near(given[name], wrong) or without:
            return Deviation(kind, "the gradient of {name}: {reason}", name=name, reason=translate(text))
    return found


def _of_nudges(given: "dict[str, Any]", right: dict[str, float], loss: float) -> bool:
    """Whether each answer is L after the value has grown by one small nudge."""
    nudges = [((number_of(given[name]) or 0.0) - loss) / slope for name, slope in right.items()]
    return min(nudges) > 0 and max(nudges) < 0.2 and difference(nudges, [nudges[0]] * len(nudges), rtol=0.01) is None


# 1.2: a slope by nudging.


def _square(x: Any) -> Any:
    return x * x


_CURVES: tuple[tuple[str, Callable[[Any], Any], float], ...] = (
    ("x * x + x", lambda x: x * x + x, 3.0),  # here the usual mistakes all give different numbers
    ("x * x", _square, -0.5),
    ("exp(x)", lambda x: exp(x) if isinstance(x, Tensor) else math.exp(x), 1.0),
    ("sin(x)", lambda x: sin(x) if isinstance(x, Tensor) else math.sin(x), 2.0),
    ("5 * x + 1", lambda x: 5 * x + 1, 4.0),
)


def _nudges() -> list[Case]:
    cases = []
    for text, curve, at in _CURVES:
        x = tensor(at, dtype=torch.float64, requires_grad=True)
        (right,) = grad(curve(x), [x])
        cases.append(Case((curve, at), right, f"slope(lambda x: {text}, {at:g})"))
    return cases


def _about_slope(got: Any, case: Case) -> Deviation | None:
    curve, at = case.arguments
    value, right = float(numbers_of(curve(at))), float(case.right)
    found = number_of(got)
    if found is None:
        return None
    if difference(found, value) is None:
        text = (
            "that is the value of the function there: compare it with the value at a point close by"
            if found == value
            else "that is nearly the value of the function there: are there brackets around the difference?"
        )
        return Deviation("numbers", text)
    if not found:
        text = "it is 0, as if nothing moved. Rounding leaves nothing of a nudge like 1e-20: take about 0.0001"
        return Deviation("zero", text)
    if curve is not _square and difference(found, 2 * at) is None:
        text = "it is 2 * x, which is the slope of x * x alone: compute the slope of the given function"
        return Deviation("numbers", text)
    if (wide := _about_nudge(found, curve, at)) is not None:
        return wide
    if found in (round(right, digits) for digits in range(4)):
        return Deviation("rounding", "it is nearly right, but the function rounds it: give the number as it is")
    ratio = found / right if right else 1.0
    if (wrong := _about_distance(ratio, right)) is not None:
        return wrong
    if abs(found - value) < 0.05 * abs(right) and abs(found - right) > 0.1 * abs(right):
        return Deviation("numbers", "that is the value of the function beside the point, not how fast it changes")
    if 0 < abs(ratio - 1) < 0.05:
        return Deviation("rounding", "it is nearly right: the nudge is too large. Take one of 0.001 or less")
    return None


def _about_nudge(found: float, curve: Callable[[Any], Any], at: float) -> Deviation | None:
    """A slope with a nudge that is far too large, to one side; None if it is another number."""
    for h in (1.0, 0.5, -1.0):
        if difference(found, (float(numbers_of(curve(at + h))) - float(numbers_of(curve(at)))) / h) is None:
            return Deviation(
                "rounding", "the nudge is {h}, and the curve bends in between: take 0.001 or less", h=f"{abs(h):g}"
            )
    return None


def _about_distance(ratio: float, right: float) -> Deviation | None:
    """The mistake in the division, for an answer that is ``ratio`` times the right slope; None if none is known."""
    if difference(ratio * right * right, 1.0) is None:
        return Deviation("factor", "it is upside down: divide the change by the nudge, and not the nudge by the change")
    if 0 < abs(ratio) < 0.05:
        text = "is the change of the value divided by the nudge, and are there brackets around 2 * h?"
        return Deviation("factor", "it is far too small: {reason}", reason=translate(text))
    for times, what in ((2, "half of"), (0.5, "twice")):
        if abs(ratio / times - 1) < 0.02:
            text = translate(
                "it is divided by {what} the distance between the two points: how far apart are they?",
                what=translate(what),
            )
            return Deviation("factor", text)
    if ratio < -10:
        return Deviation("factor", "it is far too large: are there brackets around the change, (f(x + h) - f(x))?")
    return None


# 1.3: make L rise.


def _moved(answer: Any, start: dict[str, float]) -> "dict[str, float] | Deviation":
    """The new values of an answer, by name."""
    given = named(answer, list(start), "value")
    if isinstance(given, Deviation):
        return given
    if texts := [name for name, one in given.items() if isinstance(one, str)]:
        text = "{names} is text: write the number without quotes, because the next cell computes with it"
        return Deviation("type", text, names=", ".join(texts))
    found = {name: number_of(one) for name, one in given.items()}
    values = {name: one for name, one in found.items() if one is not None and math.isfinite(one)}
    if strange := [name for name in start if name not in values]:
        return Deviation(
            "type",
            "{strange} is no number: each of {names} has to be one number",
            strange=", ".join(strange),
            names=", ".join(start),
        )
    return values


def _rises(answer: Any) -> Deviation | None:
    start = _start()
    values = _moved(answer, start)
    if isinstance(values, Deviation):
        return values
    moved = [values[name] - start[name] for name in start]
    slopes = list(_gradients().values())
    before, after = _loss(**start), _loss(**values)
    if not any(moved):
        return Deviation("zero", "the values are still those of the beginning: move each of them")
    if (idle := [name for name, by in zip(start, moved, strict=True) if not by]) and after > before:
        return Deviation(
            "element", "L rises, but {names} did not move: move all four along their gradients", names=", ".join(idle)
        )
    for rate, what in ((1.0, "gradients"), (None, "steps")):
        if _is_a_multiple(list(values.values()), slopes, rate):
            return Deviation(
                "offset", "these are the {what}: {advice}", what=translate(what), advice=translate(_ADDED[what])
            )
    rates = [by / slope for by, slope in zip(moved, slopes, strict=True)]
    if max(rates) < 0:
        return Deviation(
            "sign",
            "L went from {before:g} down to {after:g}: these steps go against the gradients",
            before=before,
            after=after,
        )
    if min(rates) <= 0 or max(rates) > 1.02 * min(rates):
        wrong = [name for name, rate in zip(start, rates, strict=True) if rate < 0]
        of = translate(" {names} went the wrong way.", names=", ".join(wrong)) if wrong else ""
        return Deviation(
            "sign" if wrong else "factor",
            "the four do not move in proportion to their gradients.{of} Take one rate for all: each step is the "
            "rate times its gradient",
            of=of,
        )
    if min(rates) > RATE * 1.001:
        return Deviation(
            "factor", "the step is too long: a slope is right only nearby. Take a rate of {rate} or less", rate=RATE
        )
    return (
        None
        if after > before
        else Deviation("numbers", "L did not rise: it was {before:g} and is {after:g}", before=before, after=after)
    )


_ADDED = {
    "gradients": "the new value is the old one plus the rate times the gradient",
    "steps": "add each to its old value",
}


def _is_a_multiple(values: list[float], slopes: list[float], rate: float | None) -> bool:
    """Whether the values are the gradients times ``rate``, or times any one rate where that is None."""
    if rate is None:
        along = sum(value * slope for value, slope in zip(values, slopes, strict=True))
        rate = along / sum(slope * slope for slope in slopes)
    return bool(rate) and difference(values, [rate * slope for slope in slopes], rtol=1e-2, atol=1e-6) is None


EXERCISES = (
    Exercise(
        "1.1",
        "Four gradients by hand",
        "L = (a * b + c) * f with a = {start[a]:g}, b = {start[b]:g}, c = {start[c]:g}, f = {start[f]:g}. Give the "
        "gradients of a, b, c and f, as a dict.",
        _by_hand,
        (
            ("Begin at L and go back box by box. If only f changes a little, by how much does L change?"),
            "A product hands on the incoming gradient times the other factor; a sum hands it on as it is.",
            "Write e = a * b and d = e + c, so L = d * f: go from L to d, from d to e, from e to a and b.",
        ),
        numbers=START,
    ),
    Exercise(
        "1.2",
        "A slope by nudging",
        "Write slope(function, x): how fast function(x) changes at x. Compute it from two values of the function, at "
        "points that lie close together.",
        FunctionJudge(_nudges, "slope(function, x)", _about_slope, call=by_hand),
        (
            "Move x by a small number h, and see how much the value changes.",
            "A slope is a change divided by a distance: which change, and which distance?",
            "With h = 0.0001 on both sides of x the error is smaller than with one side: divide by the whole distance.",
        ),
    ),
    Exercise(
        "1.3",
        "Make L rise",
        "Move a, b, c and f a little so that L rises: each by one rate times its own gradient, with a rate of "
        f"{RATE} or less. They begin at "
        "{start[a]:g}, {start[b]:g}, {start[c]:g} and {start[f]:g}, as in 1.1. "
        "Give the four new values, as a dict.",
        _rises,
        (
            "The gradient of a value says how much L rises if the value grows a little. In which direction do you move "
            "a value whose gradient is negative?",
            "The new value is the old one plus the rate times the gradient, for each of the four.",
            "Take the gradients of 1.1 and a rate of 0.01. Learning goes the other way: it wants the loss to fall.",
        ),
        numbers=START,
    ),
)
