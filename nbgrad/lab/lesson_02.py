"""The exercises of lesson 2: the rules of a backward, and paths that meet."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.ops import exp, tanh
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, ValuesJudge, in_order, is_near, named, needs_function, slip
from nbgrad.lab.running import attempt, by_hand

AT = OwnNumbers("2.1", {"t": (2.0, 3.0, 1.5, 2.5, 0.5, 4.0, -1.5, -2.0, -3.0)})
"""The value of ``t`` in exercise 1."""


def _number(value: float) -> Tensor:
    return tensor(value, dtype=torch.float64, requires_grad=True)


# 2.1: step by hand. Each use of t is a leaf of its own here, so that its share can be told from the others.


def _shares() -> dict[str, Any]:
    uses = {name: _number(AT()["t"]) for name in ("exp", "mul_a", "mul_b")}
    found = grad(uses["mul_a"] * uses["mul_b"] + exp(uses["exp"]), list(uses.values()))
    shares = {name: float(numbers_of(one)) for name, one in zip(uses, found, strict=True)}
    return shares | {"t": sum(shares.values())}


def _by_step(answer: Any) -> Deviation | None:
    found = ValuesJudge(_shares, "contribution")(answer)
    if found is None or found.kind in ("type", "order"):
        return found
    right = _shares()
    given = named(answer, list(right), "contribution")
    assert not isinstance(given, Deviation)
    if all(is_near(given[name], value) for name, value in right.items() if name != "t"):
        text = "the three contributions are right, but t is not their sum: where paths meet, the gradients add up"
        return Deviation("numbers", text)
    return found


# 2.2: two rules.


def _pair(seed: int, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [tensor(torch.randn(4, generator=generator, dtype=torch.float64)) for _ in range(count)]


def _products() -> list[Case]:
    g, a, b = _pair(22, 3)
    return [Case((g, a, b), [numbers_of(g * b), numbers_of(g * a)], "the rule of mul")]


def _about_product(got: Any, case: Case) -> Deviation | None:
    g, a, b = case.arguments
    if is_near(got, case.right[::-1]):
        return Deviation("order", "the two gradients have changed places: a gets the incoming gradient times b")
    if is_near(got, [b, a]):
        return Deviation("factor", "the incoming gradient is missing: these are the local slopes alone")
    if is_near(got, [g + b, g + a]):
        return Deviation("numbers", "the incoming gradient is added: multiply it by the local slope")
    if not isinstance(got, Sequence) or len(got) != len(case.right):
        return Deviation("shape", "mul has two inputs: two gradients are expected, (of_a, of_b)")
    if is_near(got, [g * a * b] * 2):
        return Deviation("numbers", "both have both factors: each input gets the incoming gradient times the other one")
    of_each = {name: difference(one, right) for name, one, right in zip("ab", got, case.right, strict=True)}
    name, found = next((name, found) for name, found in of_each.items() if found is not None)
    return Deviation(found.kind, "the gradient of {name}: {told}", name=name, told=found)


def _tanhs() -> list[Case]:
    g, x = _pair(23, 2)
    leaf = tensor(x.data.clone(), requires_grad=True)
    y = tanh(leaf)
    (right,) = grad(y, [leaf], g)
    return [Case((g, tensor(y.data.clone())), right, "the rule of tanh")]


def _about_tanh(got: Any, case: Case) -> Deviation | None:
    g, y = case.arguments
    slips = (
        (1 - y * y, "factor", "the incoming gradient is missing: this is the local slope alone"),
        (g * (1 - tanh(y) ** 2), "numbers", "it takes the tanh of y once more: y is the result of tanh already"),
        (g * (1 - y), "numbers", "y has to be squared: the slope of tanh is 1 - y * y"),
        (g * y, "numbers", "it multiplies by the value of tanh: the slope is asked for"),
        (g * y * (1 - y), "numbers", "that is the rule of a sigmoid"),
        (1 - y * y * g, "order", "brackets are missing: first 1 - y * y, then times the incoming gradient"),
        (g - y * y, "order", "brackets are missing: first 1 - y * y, then times the incoming gradient"),
        (g * (1 - 2 * y), "numbers", "it takes 2 * y for the square of y, which is y * y"),
        (g / (1 - y * y), "numbers", "the incoming gradient is divided by the slope: it has to be multiplied by it"),
    )
    return slip(got, slips)


_RULES: dict[str, Callable[[Any], Deviation | None]] = {
    "mul": FunctionJudge(_products, "mul_rule(g, a, b)", _about_product, call=by_hand, keeps=True),
    "tanh": FunctionJudge(_tanhs, "tanh_rule(g, y)", _about_tanh, call=by_hand, keeps=True),
}


def _rules(answer: Any) -> Deviation | None:
    given = in_order(answer, list(_RULES), "two functions are expected: [mul_rule, tanh_rule], or a dict of them")
    if isinstance(given, Deviation):
        return given
    if len(given) != len(_RULES):
        return Deviation(
            "shape", "2 functions are expected: [mul_rule, tanh_rule]; the answer has {count}", count=len(given)
        )
    return next((found for rule, one in zip(_RULES.values(), given, strict=True) if (found := rule(one))), None)


# 2.3: detach one path.


def _cuts(answer: Any) -> Deviation | None:
    needs_function(answer, "cut(t)")
    for at in (2.0, -0.5):
        t = _number(at)
        loss = attempt("cut(t)", answer, t)
        if not isinstance(loss, Tensor):
            return Deviation("type", "cut(t) has to give a tensor: does it end with return?")
        if t.grad is not None:
            return Deviation("type", "cut(t) calls backward itself: it has to give the loss alone")
        if (found := difference(loss, _value(at))) is not None:
            return Deviation(
                found.kind,
                "the value of the loss has to stay what it was, and at t = {at:g} {found}",
                at=at,
                found=found,
            )
        if not loss.requires_grad:
            return Deviation("zero", "nothing is left of the gradient: every path is cut, and only one should be")
        (slope,) = grad(loss, [t], allow_unused=True)
        if slope is None:
            return Deviation("zero", "no path leads to t any more: cut the one through exp alone")
        if (told := _about_cut(float(numbers_of(slope)), at)) is not None:
            return told
    return None


def _value(at: float) -> float:
    t = _number(at)
    return float(numbers_of(t * t + exp(t)))


def _about_cut(slope: float, at: float) -> Deviation | None:
    own = {name: float(numbers_of(grad(one(t := _number(at)), [t])[0])) for name, one in _PARTS.items()}
    if abs(slope - own["mul"]) < 1e-6:
        return None
    if abs(slope - own["mul"] - own["exp"]) < 1e-6:
        return Deviation("offset", "all paths are still there: the gradient is what it was")
    if abs(slope - own["exp"]) < 1e-6:
        return Deviation("order", "the wrong path is cut: cut the one through exp")
    if abs(slope - own["mul"] / 2 - own["exp"]) < 1e-6:
        return Deviation("order", "one of the two paths through mul is cut: cut the one through exp instead")
    if abs(slope - own["mul"] / 2) < 1e-6:
        return Deviation("factor", "one of the two paths through mul is cut, too: both should stay")
    return Deviation("numbers", "the gradient is wrong: it has to be that of the two paths through mul")


_PARTS: dict[str, Callable[[Tensor], Tensor]] = {"mul": lambda t: t * t, "exp": exp}


EXERCISES = (
    Exercise(
        "2.1",
        "Step by hand",
        "loss = t * t + exp(t) with t = {t:g}. Three contributions come back to t: one through exp, and one for each "
        "side of t * t. Give the three and their sum, the gradient of t: a dict with the names exp, mul_a, mul_b and "
        "t.",
        _by_step,
        (
            "The add hands 1 on to both of its inputs. So mul and exp begin with the incoming gradient 1.",
            "mul hands to each side the incoming gradient times the value of the other side.",
            "The slope of exp(t) is exp(t) itself: for t = 2 it is math.exp(2). The gradient of t is the sum of all "
            "three.",
        ),
        numbers=AT,
    ),
    Exercise(
        "2.2",
        "Write two rules",
        "Write mul_rule(g, a, b), which gives the two gradients of a * b, and tanh_rule(g, y), which gives the "
        "gradient of x for y = tanh(x), both without a backward. g is the incoming gradient, that of the result. All "
        "of them may be tensors. Give both functions: [mul_rule, tanh_rule], or a dict with the names mul and tanh.",
        _rules,
        (
            "Each rule is the incoming gradient times the local slope.",
            "How much does a * b change when a is nudged? By the nudge times b.",
            "The slope of tanh is 1 minus the square of its value, and its value is given to you: y.",
        ),
    ),
    Exercise(
        "2.3",
        "Cut one path",
        "Write cut(t): it gives t * t + exp(t), with the same value as before, but no gradient flows through exp. So "
        "the gradient of t is that of t * t alone.",
        _cuts,
        (
            "Which method of a tensor gives the same values without a history?",
            "Cut off the value that goes through exp. You can do this before exp or after it.",
            "t.detach() is t as a constant. Use it in one place, and t itself in the others.",
        ),
    ),
)
