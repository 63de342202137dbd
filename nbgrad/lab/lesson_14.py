"""The exercises of lesson 14: gradients of gradients, and an op of one's own."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.ops import cosh, exp, sin
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, computed, is_near, slip, slope_of
from nbgrad.lab.running import attempt

Curve = Callable[[Tensor], Tensor]


# 14.1: a Newton step.

_CURVES: tuple[tuple[str, Curve, float], ...] = (
    ("x ** 4 + x", lambda x: x**4 + x, 1.5),
    ("exp(x) - 2 * x", lambda x: exp(x) - 2 * x, 2.0),
    ("(x - 3) ** 2", lambda x: (x - 3) ** 2, -1.0),
    ("x ** 3 - x", lambda x: x**3 - x, -2.0),
)


def _derivatives(curve: Curve, at: float) -> tuple[float, float, float]:
    """The value of a function, its slope and its second derivative."""
    x = tensor(at, dtype=torch.float64, requires_grad=True)
    value = curve(x)
    slope = slope_of(value, x)
    second = slope_of(slope, x)
    return float(numbers_of(value)), float(numbers_of(slope)), float(numbers_of(second))


def _newtons() -> list[Case]:
    cases = []
    for text, curve, at in _CURVES:
        _, slope, second = _derivatives(curve, at)
        x = tensor(at, dtype=torch.float64, requires_grad=True)
        cases.append(
            Case(
                (curve, x),
                at - slope / second,
                translate("newton(lambda x: {reason}, x) at x = {at:g}", reason=text, at=at),
            )
        )
    return cases


def _about_newton(got: Any, case: Case) -> Deviation | None:
    curve, x = case.arguments
    at = float(numbers_of(x))
    value, slope, second = _derivatives(curve, at)
    for wrong, kind, text in (
        (at - slope / abs(second), "sign", "the second derivative keeps its sign: where it is negative, too"),
        (at + slope / second, "sign", "it goes uphill: subtract the step"),
        (at - slope, "factor", "that is a gradient step: divide the slope by the second derivative"),
        (at - value / slope, "numbers", "that looks for a place where the function is 0: here its slope has to be 0"),
        (slope / second, "offset", "that is the length of the step: give the new x"),
        (at - second / slope, "numbers", "the fraction is upside down: divide the slope by the second derivative"),
        (at - slope * second, "factor", "it multiplies by the second derivative: divide"),
    ):
        if is_near(got, wrong) and abs(wrong - case.right) > 1e-3:
            return Deviation(kind, text)
    return _about_steps(got, curve, case.right)


def _about_steps(got: Any, curve: Curve, right: float) -> Deviation | None:
    """Whether these are several Newton steps: ``right`` is where the first one leads to."""
    at = right
    for many in range(2, 30):
        _, slope, second = _derivatives(curve, at)
        at -= slope / second
        if is_near(got, at):
            return Deviation("shifted", "that is where {many} steps lead to: take one", many=many)
    return None


# 14.2: a Hessian.


def _wavy(x: Tensor) -> Tensor:
    return x[0] * x[0] * x[1] + sin(x[1] * x[2]) + exp(x[2])


def _bowl(x: Tensor) -> Tensor:
    return x[0] * x[1] * 3 + x[0] ** 3


_SURFACES: tuple[tuple[str, Curve, list[float]], ...] = (
    ("a function of two numbers", _bowl, [1.5, 2.0]),
    ("a function of three numbers", _wavy, [0.5, -1.0, 0.3]),
)


def _hessians() -> list[Case]:
    cases = []
    for text, surface, at in _SURFACES:
        x = tensor(at, dtype=torch.float64, requires_grad=True)
        slope = slope_of(surface(x), x)
        rows = [numbers_of(grad(slope[row], [x], retain_graph=True)[0]) for row in range(len(at))]
        given = tensor(at, dtype=torch.float64, requires_grad=True)
        cases.append(
            Case((surface, given), torch.stack(rows), translate("hessian of {reason}", reason=translate(text)))
        )
    return cases


def _about_hessian(got: Any, case: Case) -> Deviation | None:
    right = numbers_of(case.right)
    surface, x = case.arguments
    leaf = tensor(x.data.clone(), requires_grad=True)
    (slope,) = grad(surface(leaf), [leaf])
    slips = (
        (right.sum(0), "shape", "that is the gradient of the sum of all slopes, one number for each row: differentiate "
            "each slope "
         "by itself"),
        (right.diagonal(), "shape", "that is the diagonal alone: differentiate each slope by every number of x"),
        (right.diagonal().diag(), "element", "only the diagonal is there: differentiate each slope by all of x"),
        (slope, "shape", "that is the gradient: differentiate it once more"),
        (torch.outer(numbers_of(slope), numbers_of(slope)), "numbers", "that is the gradient times itself, which is "
         "something else"),
    )  # fmt: skip
    return slip(got, slips)


# 14.3: an op of one's own.


def _log_cosh(x: Tensor) -> Tensor:
    return cosh(x).log()


def _op(answer: Any) -> Deviation | None:
    if not isinstance(answer, type):
        return Deviation("type", "the class itself is expected, LogCosh, without apply and without parentheses")
    apply = getattr(answer, "apply", None)
    if not callable(apply):
        return Deviation("type", "the class has no apply: is it a subclass of nbgrad.Function?")
    for name in ("forward", "backward"):
        if next(iter(signature(getattr(answer, name)).parameters), "") == "self":
            return Deviation("type", "{name} has no self: it is a function below @staticmethod", name=name)
    results = []
    g = torch.linspace(0.5, 2, 3, dtype=torch.float64)
    for values in ([0.5, -1.0, 2.0], [0.0, 3.0, -0.2]):
        x, own = (tensor(values, dtype=torch.float64, requires_grad=True) for _ in range(2))
        right, got = _log_cosh(own), attempt("the forward", apply, x)
        if (found := difference(got, right)) is not None:
            return Deviation(found.kind, "the forward: {found}", found=found)
        if not (isinstance(got, Tensor) and got.requires_grad):
            return Deviation("zero", "the result has no history: is apply that of nbgrad.Function?")
        results.append((values, x, got, *grad(right, [own], tensor(g))))
    return _of_backwards(results, g)


def _of_backwards(results: list[Any], g: torch.Tensor) -> Deviation | None:
    """How the backwards of several uses of an op are wrong, which run after all forwards.

    Args:
        results: of each use the numbers, the tensor of these, what the op gave, and the right gradient.
        g: the incoming gradient.
    """
    for values, x, got, slope in results:
        (own,) = attempt("the backward", partial(grad, got, [x], tensor(g), allow_unused=True))
        if own is None:
            text = "{said} gives None: the function has to end with return"
            return Deviation("type", text, said=translate("the backward"))
        if (found := difference(own, slope)) is not None:
            if is_near(own, g * torch.tensor(results[-1][0], dtype=torch.float64).tanh()):
                return Deviation("changed", _ONE_MEMORY)
            known = None if found.kind == "type" else _about_backward(own, g, torch.tensor(values))
            told = known or computed(found)
            return Deviation(told.kind, "the backward: {told}", told=told)
    return None


_ONE_MEMORY = (
    "the backward of the first of two calls gives other numbers: what a call has to remember belongs into its own ctx, "
    "with ctx.save_for_backward(x)"
)


def _about_backward(own: Any, g: torch.Tensor, x: torch.Tensor) -> Deviation | None:
    slips = (
        (x.tanh(), "factor", "the incoming gradient g is missing"),
        (g / x.cosh(), "numbers", "that is the slope of log at cosh(x): the slope of cosh is missing"),
        (g * x.sinh(), "numbers", "that is the slope of cosh: the slope of log is missing"),
        (g * (1 - x.tanh() ** 2), "numbers", "that is differentiated once too often"),
    )
    return slip(own, slips)


EXERCISES = (
    Exercise(
        "14.1",
        "A Newton step",
        "Write newton(function, x): the place that one Newton step leads to from x, in search of a minimum: x "
        "minus the "
        "slope divided by the second derivative. x is a tensor of one number with requires_grad.",
        FunctionJudge(_newtons, "newton(function, x)", _about_newton),
        (
            (
                "nbgrad.grad(y, x) gives a tuple with the gradient. Which argument does it need, so that you can "
                "differentiate its result again?"
            ),
            "With create_graph=True the slope has a history. The gradient of the slope is the second derivative.",
            "(slope,) = nbgrad.grad(function(x), x, create_graph=True), then the same for slope.",
        ),
    ),
    Exercise(
        "14.2",
        "A Hessian",
        "Write hessian(function, x): the table of second derivatives of a function that gives one number, for x "
        "of shape "
        "(n,) with requires_grad. Row i has the gradient of slope i.",
        FunctionJudge(_hessians, "hessian(function, x)", _about_hessian),
        (
            "The gradient has n numbers. Each of them has a gradient of its own, of shape (n,).",
            "One grad with create_graph=True, then one for each slope[i].",
            "A graph is freed after a grad: retain_graph=True keeps it for the next row. nbgrad.stack joins the rows.",
        ),
    ),
    Exercise(
        "14.3",
        "An op of your own",
        "Write the class LogCosh, a subclass of nbgrad.Function: forward(ctx, x) gives log(cosh(x)), and "
        "backward(ctx, g) "
        "the gradient of x. Give the class. Try it with nbgrad.gradcheck first.",
        _op,
        (
            "forward keeps what backward needs: ctx.save_for_backward(x); (x,) = ctx.saved_tensors brings it back.",
            "The chain rule: the slope of log at cosh(x), times the slope of cosh.",
            "The slope of log(u) is 1 / u, that of cosh(x) is sinh(x), and sinh(x) / cosh(x) has a name.",
        ),
    ),
)
