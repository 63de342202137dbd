"""Answers to the exercises of lesson 9, right ones in several forms and the usual wrong ones."""

from statistics import median
from typing import Any

import nbgrad


def momentum(w: Any, g: Any, v: Any, *, lr: float = 0.1, beta: float = 0.9, own: float = 1.0) -> Any:
    v = beta * v + own * g
    return w - lr * v, v


def adam(w: Any, g: Any, m: Any, v: Any, t: int, power: float = 0.5) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.1 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** power + 1e-8), m, v


def uncorrected(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.1 * m / (v**0.5 + 1e-8), m, v


def without_eps(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.1 * (m / (1 - 0.9**t)) / (v / (1 - 0.999**t)) ** 0.5, m, v


def kept(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = (0.9 * m + 0.1 * g) / (1 - 0.9**t), (0.999 * v + 0.001 * g * g) / (1 - 0.999**t)
    return w - 0.1 * m / (v**0.5 + 1e-8), m, v


def of(w: Any, m: Any, v: Any, t: int, beta: float = 0.999) -> Any:
    return w - 0.1 * (m / (1 - 0.9**t)) / ((v / (1 - beta**t)) ** 0.5 + 1e-8), m, v


def updates(graph: Any) -> list[float]:
    return [frame.parameters[0].update for frame in graph.history if frame.parameters[0].update is not None]


RIGHT: dict[str, list[Any]] = {
    "9.2": [momentum, lambda w, g, v: [one.numpy() for one in momentum(w, g, v)]],
    "9.3": [adam, lambda *five: [one.numpy() for one in adam(*five)]],
    "9.4": [
        lambda graph: max(updates(graph)) > 1,
        lambda graph: any(one > 1 for one in updates(graph)),
        lambda graph: nbgrad.tensor(updates(graph)).max() > 1,
    ],
    "9.1": [lambda curvature: 2 / curvature, lambda curvature: nbgrad.tensor(2 / curvature)],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "9.2": [
        (lambda w, g, v: momentum(w, g, v, lr=-0.1), "sign", "it goes along the gradient"),
        (lambda w, g, v: momentum(w, g, v, own=0.1), "factor", "the gradient is multiplied by 1 - beta"),
        (lambda w, g, v: (w - 0.1 * v, 0.9 * v + g), "shifted", "it steps with the old velocity"),
        (lambda w, g, v: (w - 0.1 * g, v), "numbers", "that is plain SGD"),
        (lambda w, g, v: momentum(w, g, v, beta=1.0), "factor", "the velocity never fades"),
        (lambda w, g, v: momentum(w, g, v, lr=1.0), "factor", "the learning rate is missing"),
        (lambda w, g, v: (w - 0.09 * (v + g), 0.9 * (v + g)), "factor", "beta multiplies the gradient, too"),
        (lambda w, g, v: momentum(w, g, v, beta=0.1, own=0.9), "order", "beta belongs to the old velocity"),
        (lambda w, g, v: (w - 0.1 * (0.81 * v + 1.9 * g), 0.9 * v + g), "shifted", "come in twice"),
        (lambda w, g, v: None, "unanswered", "the function <lambda> is empty"),
        (lambda w, g, v: print(end=""), "type", "gives None: the function has to end with return"),
        (lambda w, g, v: momentum(w, g, v)[0], "shape", "has to give 2 tensors"),
        (lambda w, g: w - g, "raised", "raised TypeError"),
    ],
    "9.3": [
        (lambda w, g, m, v, t: adam(w, g, m, v, t + 1), "shifted", "the first step is counted as the second"),
        (lambda w, g, m, v, t: of(w, 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g * g, t, 0.9), "numbers", "the same beta"),
        (
            lambda w, g, m, v, t: of(w, n := 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * n * n, t),
            "numbers",
            "and not of the squares of m",
        ),
        (lambda w, g, m, v, t: of(w, 0.9 * m + g, 0.999 * v + g * g, t), "factor", "the new gradient counts 1 - beta"),
        (uncorrected, "factor", "the correction of the first steps is missing"),
        (kept, "element", "it remembers the corrected m and v"),
        (lambda *five: adam(*five, power=1.0), "numbers", "the root is missing"),
        (without_eps, "not finite", "eps is not added to the root"),
        (
            lambda w, g, m, v, t: (2 * w - adam(w, g, m, v, t)[0], *adam(w, g, m, v, t)[1:]),
            "sign",
            "along the gradient",
        ),
        (lambda w, g, m, v, t: (w - 0.1 * g, m, v), "numbers", "that is plain SGD"),
        (lambda *five: adam(*five)[:2], "shape", "has to give 3 tensors"),
        (lambda *five: (adam(*five)[0].sum(), *adam(*five)[1:]), "shape", "each tensor has to keep its shape"),
        (3, "type", "a function is expected"),
    ],
    "9.4": [
        (lambda graph: True, "factor", "a rate of 0.0001 gives True: no update of the first parameter is as large"),
        (lambda graph: max(updates(graph)) > 1e-3, "factor", "with a rate of 0.05 gives True: no update of the first"),
        (
            lambda graph: any((one.update or 0) > 1 for frame in graph.history for one in frame.parameters),
            "factor",
            "with a rate of 0.05 gives True: no update of the first parameter is as large",
        ),
        (lambda graph: False, "element", "with a rate of 1 gives False: one update of the first parameter is larger"),
        (lambda graph: median(updates(graph)) > 1, "element", "one update of the first parameter is larger"),
        (
            lambda graph: updates(graph)[0] > 1,
            "element",
            "a rate of 2 gives False: one update of the first parameter is larger",
        ),
        (
            lambda graph: graph.history[-1].loss > graph.history[0].loss,
            "element",
            "whatever the other updates and the loss are",
        ),
        (lambda graph: max(updates(graph)), "dtype", "where True or False is expected"),
        (lambda graph: max(frame.parameters[0].update for frame in graph.history), "raised", "raised TypeError"),
    ],
    "9.1": [
        (lambda curvature: 1 / curvature, "factor", "one step goes straight to the lowest point"),
        (
            lambda curvature: 0.5,
            "factor",
            "gives 0.5: its size is too large, by a factor below 2",
        ),
        (lambda curvature: 1, "factor", "largest_rate(5) gives 1: its size is too large"),
        (lambda curvature: (0, 2 / curvature), "shape", "the right number is among these"),
        (lambda curvature: 2 * curvature, "order", "it grows with the curvature"),
        (lambda curvature: curvature / 2, "order", "it grows with the curvature"),
        (lambda curvature: 2 / curvature**0.5, "numbers", "there is no root in it"),
        (lambda curvature: 2 / curvature**2, "numbers", "there is no square in it"),
        (lambda curvature: -2 / curvature, "sign", "the sign is wrong"),
    ],
}
