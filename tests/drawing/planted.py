"""Planted faults: each makes the small engine wrong in one place, and says what the verdict has to name."""

from typing import Any, NamedTuple

import numpy as np

from tests.drawing import programs as p
from tests.drawing.small_engine import FORWARD, SmallEngine, topological, unbroadcast

ENGINE = SmallEngine()


class Planted(NamedTuple):
    """A fault, the program that shows it, and words of the cause that has to be named; None where none can be."""

    name: str
    engine: SmallEngine
    program: Any
    words: str | None


def rule(name, program, words, **rules):
    return Planted(name, ENGINE.broken(backward=rules), program, words)


def value(name, program, words, **ops):
    return Planted(name, ENGINE.broken(forward=ops), program, words)


def in_order(engine, root, order):
    for node in order:
        if node.gradient is not None:
            engine.hand_on(node)


def depth_first(engine, root):
    """Hand on when first reached, without an order."""
    stack, done = [root], set()
    while stack:
        node = stack.pop()
        if id(node) not in done:
            done.add(id(node))
            engine.hand_on(node)
            stack += node.parents


def recursive(engine, node):
    """Hand on again whenever something arrives."""
    if node.parents:
        for parent, g in zip(node.parents, engine.shares(node), strict=True):
            parent.gradient = engine.accumulate(parent.gradient, g)
            recursive(engine, parent)


def twice(engine, root):
    for _ in range(2):
        root.gradient = np.ones_like(root.value)
        in_order(engine, root, reversed(topological(root)))


def overwritten(held, g):
    return g


def unsummed(g, shape):
    return g


def meant(g, shape):
    summed = unbroadcast(g, shape)
    return summed / (np.size(g) / max(np.size(summed), 1))


FIRST = (
    # Scalars, backward.
    Planted("= for +=", ENGINE.broken(accumulate=overwritten), p.shared, "not added"),
    Planted("= for +=, t*t", ENGINE.broken(accumulate=overwritten), p.square, "not added"),
    Planted("= for +=, matrices", ENGINE.broken(accumulate=overwritten), p.residual, "not added"),
    rule("tanh 1-y", p.neuron, "square is missing", tanh=lambda g, y, x: (g * (1 - y),)),
    rule("tanh of x", p.neuron, "uses the input where the result belongs", tanh=lambda g, y, x: (g * (1 - x**2),)),
    rule("no outer gradient", p.shared, "local derivative alone", mul=lambda g, y, a, b: (b, a)),
    rule("no local derivative", p.shared, "local derivative is missing", mul=lambda g, y, a, b: (g, g)),
    rule("exchanged", p.shared, "itself", mul=lambda g, y, a, b: (g * a, g * b)),
    rule("sign of -", p.mixed, "wrong sign", sub=lambda g, y, a, b: (g, g)),
    rule("sign of /", p.mixed, "wrong sign", div=lambda g, y, a, b: (g / b, g * a / b**2)),
    rule("square of /", p.quotient, "square is missing", div=lambda g, y, a, b: (g / b, -g * a / b)),
    rule("numerator of /", p.quotient, "lacks the factor a", div=lambda g, y, a, b: (g / b, -g / b**2)),
    rule("exponent", p.polynomial, "does not lower the exponent", pow=lambda g, y, x, exponent: (g * exponent * y,)),
    rule("factor n", p.polynomial, "lacks the factor n", pow=lambda g, y, x, exponent: (g * x ** (exponent - 1),)),
    rule("exp of x", p.mixed, "multiplies by the input", exp=lambda g, y, x: (g * x,)),
    rule("log times x", p.mixed, "has to divide", log=lambda g, y, x: (g * x,)),
    rule("sigmoid y", p.mixed, "y (1 - y) is right", sigmoid=lambda g, y, x: (g * y,)),
    rule("sqrt factor", p.mixed, "factor 2", sqrt=lambda g, y, x: (g / y,)),
    Planted("depth first", ENGINE.broken(walk=depth_first), p.shared, "order of the backward"),
    Planted("recursive", ENGINE.broken(walk=recursive), p.shared, "order of the backward"),
    Planted("twice", ENGINE.broken(walk=twice), p.shared, "2 times"),
    # Tensors, backward.
    Planted("no sum", ENGINE.broken(unbroadcast=unsummed), p.layer, "does not undo the broadcast"),
    Planted("mean for sum", ENGINE.broken(unbroadcast=meant), p.layer, "mean over"),
    rule("no transpose", p.squares, "transpose", matmul=lambda g, y, a, b: (g @ b, a @ g)),
    rule("order of @", p.squares, "wrong order", matmul=lambda g, y, a, b: (b.T @ g, g @ a.T)),
    rule("relu mask", p.network, "local derivative is missing", relu=lambda g, y, x: (g,)),
    rule("relu mask side", p.network, "negative", relu=lambda g, y, x: (g * (x < 0),)),
    rule("mean", p.network, "of a sum", mean=lambda g, y, x, axis=None, keepdims=False: (np.full_like(x, g),)),
    rule("softmax diagonal", p.attention, "y (1 - y) alone", softmax=lambda g, y, x, axis: (g * y * (1 - y),)),
    rule("log_softmax", p.classifier, "sum of", log_softmax=lambda g, y, x, axis: (g - np.exp(y),)),
    rule("permute", p.cube, "inverse permutation", transpose=lambda g, y, x, axes: (g.transpose(axes),)),
    # Forward.
    value("a+b for a*b", p.shared, "a + b", mul=lambda a, b: a + b),
    value("b-a", p.mixed, "other order", sub=lambda a, b: b - a),
    value("b/a", p.quotient, "other order", div=lambda a, b: b / a),
    value("tanh(2x)", p.neuron, "tanh(2x)", tanh=lambda x: np.tanh(2 * x)),
    value("sigmoid(-x)", p.mixed, "sigmoid(-x)", sigmoid=lambda x: 1 / (1 + np.exp(x))),
    value("relu of min", p.network, "negative", relu=lambda x: np.minimum(x, 0)),
    value("sum for mean", p.network, "sum", mean=lambda x, axis=None, keepdims=False: x.sum(axis, keepdims=keepdims)),
    value("transposed @", p.squares, "transpose", matmul=lambda a, b: a @ b.T),
    value("softmax axis", p.attention, "along dimension 0", softmax=lambda x, axis: FORWARD["softmax"](x, 0)),
    value("floor", p.quotient, "after the point", div=lambda a, b: a // b),
)  # fmt: skip
