"""Planted faults: each makes the small engine wrong in one place, and says what the verdict has to name."""

from typing import Any, NamedTuple

import numpy as np

from tests.drawing import programs as p
from tests.drawing.small_engine import BACKWARD, FORWARD, SmallEngine, topological, unbroadcast

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


def breadth_first(engine, root):
    """Hand on when first reached, level by level."""
    queue, done = [root], set()
    while queue:
        node = queue.pop(0)
        if id(node) not in done:
            done.add(id(node))
            engine.hand_on(node)
            queue += node.parents


def not_reversed(engine, root):
    in_order(engine, root, topological(root))


def summed_whole(g, shape):
    return unbroadcast(g, shape) if np.shape(g) == shape else np.broadcast_to(np.sum(g), shape)


def first_row(g, shape):
    return unbroadcast(g, shape) if np.shape(g) == shape else np.asarray(g)[(0,) * (np.ndim(g) - len(shape))]


def mean_of_all(g, y, x, axis=None, keepdims=False):
    g = np.asarray(g).reshape([1 if axis is None or at == axis % x.ndim else n for at, n in enumerate(x.shape)])
    return (np.broadcast_to(g / x.size, x.shape),)


def sum_as_mean(g, y, x, axis=None, keepdims=False):
    (right,) = BACKWARD["sum"](g, y, x, axis, keepdims)
    return (right / (x.size if axis is None else x.shape[axis]),)


def max_for_all(g, y, x, axis=None, keepdims=False):
    return (np.broadcast_to(g, x.shape),)


LATER = (
    # Written when the verdicts on those above were done, and not looked at before.
    rule("half of +", p.shared, "adds nothing", add=lambda g, y, a, b: (g, 0 * g)),
    rule("* by its result", p.shared, "multiplies by the result", mul=lambda g, y, a, b: (g * y, g * y)),
    rule("/ multiplied", p.mixed, "has to divide by it", div=lambda g, y, a, b: (g * b, -g * a / b**2)),
    rule("neg", p.classifier, "wrong sign", neg=lambda g, y, x: (g,)),
    rule("precedence of pow", p.polynomial, None, pow=lambda g, y, x, exponent: (g * exponent * (x**exponent - 1),)),
    rule("relu by gradient", p.network, "gradient is positive", relu=lambda g, y, x: (g * (g > 0),)),
    rule("sigmoid of x", p.mixed, "uses the input", sigmoid=lambda g, y, x: (g * x * (1 - x),)),
    rule("tanh 1+y2", p.layer, "1 + y²", tanh=lambda g, y, x: (g * (1 + y**2),)),
    rule("sqrt of x", p.normalized, "divides by 2 x", sqrt=lambda g, y, x: (g / (2 * x),)),
    rule("exp alone", p.quotient, "local derivative is missing", exp=lambda g, y, x: (g,)),
    rule("log alone, inside", p.mixed, "local derivative alone", log=lambda g, y, x: (1 / x,)),
    rule("sin", p.shapes, "wrong sign", sin=lambda g, y, x: (-g * np.cos(x),)),
    rule("@ transposed", p.squares, "transposed", matmul=lambda g, y, a, b: (g @ b.T, g.T @ a)),
    rule("sum as mean", p.reductions, "of a mean", sum=sum_as_mean),
    rule("max for all", p.reductions, "every element", max=max_for_all),
    rule("softmax y", p.attention, "multiplies by y alone", softmax=lambda g, y, x, axis: (g * y,)),
    Planted("sum over all", ENGINE.broken(unbroadcast=summed_whole), p.layer, "sum"),
    Planted("first row", ENGINE.broken(unbroadcast=first_row), p.layer, "one row"),
    rule("mean of all", p.reductions, "divides by", mean=mean_of_all),
    Planted("breadth first", ENGINE.broken(walk=breadth_first), p.normalized, "order of the backward"),
    Planted("not reversed", ENGINE.broken(walk=not_reversed), p.neuron, "Only the inputs of the result"),
    Planted("counted twice", ENGINE.broken(accumulate=lambda held, g: 2 * g + (held or 0)), p.neuron, "added 2 times"),
    Planted("seed of 2", ENGINE.broken(seed=2.0), p.neuron, "2 backwards"),
    rule("permute straight", p.cube, "back into their order", transpose=lambda g, y, x, axes: (g,)),
    rule("/ without both", p.quotient, None, div=lambda g, y, a, b: (g / b, g * a / b)),
    value("2 to the x", p.mixed, "exp2", exp=lambda x: 2**x),
    value("sum along 1", p.attention, "dimension 1", sum=lambda x, axis=None: x.sum(None if axis is None else 1)),
    value("tanh for sigmoid", p.mixed, "tanh", sigmoid=np.tanh),
    value("abs for relu", p.network, "abs", relu=np.abs),
    value("+ for -", p.polynomial, "a + b", sub=lambda a, b: a + b),
    value("@ in the other order", p.squares, "other order", matmul=lambda a, b: b @ a),
    value("x times n", p.polynomial, "times the exponent", pow=lambda x, exponent: x * exponent),
    value("/ with epsilon", p.quotient, None, div=lambda a, b: a / (b + 0.01)),
    value("log10", p.mixed, "log10", log=np.log10),
    value("exp for softmax", p.attention, "not divided by its sum", softmax=lambda x, axis: np.exp(x)),
)  # fmt: skip
