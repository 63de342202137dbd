"""Answers to the exercises of lesson 14, right ones in several forms and the usual wrong ones."""

from typing import Any

import nbgrad


def derivatives(function: Any, x: Any) -> tuple[Any, Any, Any]:
    value = function(x)
    (slope,) = nbgrad.grad(value, x, create_graph=True)
    (second,) = nbgrad.grad(slope, x)
    return value, slope, second


def newton(function: Any, x: Any) -> Any:
    _, slope, second = derivatives(function, x)
    return x - slope / second


def root(function: Any, x: Any) -> Any:
    value, slope, _ = derivatives(function, x)
    return x - value / slope


def gradient(function: Any, x: Any, **settings: Any) -> Any:
    return nbgrad.grad(function(x), x, **settings)[0]


def hessian(function: Any, x: Any) -> Any:
    slope = gradient(function, x, create_graph=True)
    return nbgrad.stack([nbgrad.grad(one, x, retain_graph=True)[0] for one in slope])


def summed(function: Any, x: Any) -> Any:
    return nbgrad.grad(gradient(function, x, create_graph=True).sum(), x)[0]


def op(forward: Any, backward: Any) -> Any:
    """A Function with this forward and this backward. The backward gets g and x."""

    class LogCosh(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return backward(g, x)

    return LogCosh


def log_cosh(x: Any) -> Any:
    return x.cosh().log()


def several(function: Any, x: Any) -> Any:
    for _ in range(12):
        x = nbgrad.tensor(float(newton(function, x)), dtype=nbgrad.float64, requires_grad=True)
    return x


RIGHT: dict[str, list[Any]] = {
    "14.1": [newton, lambda function, x: newton(function, x).item()],
    "14.2": [hessian, lambda function, x: hessian(function, x).numpy(), lambda f, x: hessian(f, x).T],
    "14.3": [
        op(log_cosh, lambda g, x: g * x.tanh()),
        op(log_cosh, lambda g, x: g * x.sinh() / x.cosh()),
    ],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "14.1": [
        (several, "shifted", "that is where 12 steps lead to: take one"),
        (lambda f, x: 2 * x - newton(f, x), "sign", "it goes uphill"),
        (lambda f, x: x - derivatives(f, x)[1], "factor", "that is a gradient step"),
        (root, "numbers", "that looks for a place where the function is 0"),
        (lambda f, x: x - newton(f, x), "offset", "that is the length of the step"),
        (lambda f, x: x - derivatives(f, x)[2] / derivatives(f, x)[1], "numbers", "the fraction is upside down"),
        (lambda f, x: nbgrad.grad(nbgrad.grad(f(x), x)[0], x), "raised", "raised"),
    ],
    "14.2": [
        (summed, "shape", "that is the gradient of the sum of all slopes"),
        (gradient, "shape", "that is the gradient: differentiate it once more"),
        (lambda f, x: hessian(f, x).diagonal(), "shape", "that is the diagonal alone"),
        (lambda f, x: hessian(f, x).diagonal().diag(), "element", "only the diagonal is there"),
        (lambda f, x: nbgrad.outer(gradient(f, x), gradient(f, x)), "numbers", "that is the gradient times itself"),
        (lambda f, x: -hessian(f, x), "sign", "the sign of every element"),
        (lambda f, x: hessian(f, x) * 2, "factor", "a factor 2 is too many"),
    ],
    "14.3": [
        (op(log_cosh, lambda g, x: x.tanh()), "factor", "the backward: the incoming gradient g is missing"),
        (op(log_cosh, lambda g, x: g / x.cosh()), "numbers", "the slope of cosh is missing"),
        (op(log_cosh, lambda g, x: g * x.sinh()), "numbers", "the slope of log is missing"),
        (op(log_cosh, lambda g, x: -g * x.tanh()), "sign", "the backward: the sign of every element"),
        (op(lambda x: x.cosh(), lambda g, x: g * x.tanh()), "numbers", "the forward"),
        (op(log_cosh, lambda g, x: g * x.missing), "raised", "the backward raised AttributeError"),
        (int, "type", "the class has no apply"),
        (op(log_cosh, lambda g, x: g * x.tanh()).apply, "type", "the class itself is expected, LogCosh, without apply"),
        (op(log_cosh, lambda g, x: g * x.tanh())(), "type", "the class itself is expected, LogCosh, without apply"),
        (log_cosh, "type", "the class itself is expected, LogCosh"),
    ],
}
