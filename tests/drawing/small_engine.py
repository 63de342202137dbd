"""A small engine on numpy, as a student writes one, whose parts can be replaced by wrong ones."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


def unbroadcast(g, shape):
    """The gradient summed down to the shape of an input."""
    g = np.asarray(g)
    g = g.sum(tuple(range(g.ndim - len(shape))))
    stretched = tuple(at for at, size in enumerate(shape) if size == 1 and g.shape[at] != 1)
    return g.sum(stretched, keepdims=True)


def accumulate(held, g):
    return g if held is None else held + g


def topological(root):
    order, done = [], set()

    def visit(node):
        if id(node) not in done:
            done.add(id(node))
            for parent in node.parents:
                visit(parent)
            order.append(node)

    visit(root)
    return order


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _kept(y, x, axis, keepdims=False):
    """A reduced array with the reduced dimension, as one that stretches to x."""
    return np.asarray(y).reshape([1 if axis is None or at == axis % x.ndim else n for at, n in enumerate(x.shape)])


def _count(x, axis):
    return x.size if axis is None else x.shape[axis]


def _scattered(g, x, index):
    made = np.zeros_like(x)
    np.add.at(made, index, g)
    return made


def _pieces(g, xs, axis):
    return tuple(np.split(g, np.cumsum([x.shape[axis] for x in xs])[:-1], axis))


FORWARD: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda x: -x,
    "pow": lambda x, exponent: x**exponent,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "sin": np.sin,
    "matmul": lambda a, b: a @ b,
    "sum": lambda x, axis=None, keepdims=False: x.sum(axis, keepdims=keepdims),
    "mean": lambda x, axis=None, keepdims=False: x.mean(axis, keepdims=keepdims),
    "max": lambda x, axis=None, keepdims=False: x.max(axis, keepdims=keepdims),
    "softmax": lambda x, axis=-1: _softmax(x, axis),
    "log_softmax": lambda x, axis=-1: np.log(_softmax(x, axis)),
    "logsumexp": lambda x, axis=-1: np.log(np.exp(x).sum(axis)),
    "transpose": lambda x, axes=None: np.transpose(x, axes),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": np.broadcast_to,
    "getitem": lambda x, index: x[index],
    "concatenate": lambda *xs, axis=0: np.concatenate(xs, axis),
    "maximum": np.maximum,
}

BACKWARD: dict[str, Callable[..., tuple[Any, ...]]] = {
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, -g),
    "mul": lambda g, y, a, b: (g * b, g * a),
    "div": lambda g, y, a, b: (g / b, -g * a / b**2),
    "neg": lambda g, y, x: (-g,),
    "pow": lambda g, y, x, exponent: (g * exponent * x ** (exponent - 1),),
    "exp": lambda g, y, x: (g * y,),
    "log": lambda g, y, x: (g / x,),
    "sqrt": lambda g, y, x: (g / (2 * y),),
    "tanh": lambda g, y, x: (g * (1 - y**2),),
    "sigmoid": lambda g, y, x: (g * y * (1 - y),),
    "relu": lambda g, y, x: (g * (x > 0),),
    "abs": lambda g, y, x: (g * np.sign(x),),
    "sin": lambda g, y, x: (g * np.cos(x),),
    "matmul": lambda g, y, a, b: (g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g),
    "sum": lambda g, y, x, axis=None, keepdims=False: (np.broadcast_to(_kept(g, x, axis), x.shape),),
    "mean": lambda g, y, x, axis=None, keepdims=False: (np.broadcast_to(_kept(g, x, axis) / _count(x, axis), x.shape),),
    "max": lambda g, y, x, axis=None, keepdims=False: (_kept(g, x, axis) * (x == _kept(y, x, axis)),),
    "softmax": lambda g, y, x, axis=-1: (y * (g - (g * y).sum(axis, keepdims=True)),),
    "log_softmax": lambda g, y, x, axis=-1: (g - np.exp(y) * g.sum(axis, keepdims=True),),
    "logsumexp": lambda g, y, x, axis=-1: (np.expand_dims(g, axis) * _softmax(x, axis),),
    "transpose": lambda g, y, x, axes=None: (np.transpose(g, None if axes is None else np.argsort(axes)),),
    "reshape": lambda g, y, x, shape: (g.reshape(x.shape),),
    "broadcast_to": lambda g, y, x, shape: (unbroadcast(g, x.shape),),
    "getitem": lambda g, y, x, index: (_scattered(g, x, index),),
    "concatenate": lambda g, y, *xs, axis=0: _pieces(g, xs, axis),
    "maximum": lambda g, y, a, b: (g * (a > b), g * (a <= b)),
}

BROADCASTING = ("add", "sub", "mul", "div", "maximum", "matmul")


@dataclass(frozen=True)
class SmallEngine:
    """The rules and the walk of the engine; each may be replaced by a wrong one."""

    forward: dict[str, Callable[..., Any]] = field(default_factory=lambda: FORWARD)
    backward: dict[str, Callable[..., Any]] = field(default_factory=lambda: BACKWARD)
    unbroadcast: Callable[..., Any] = unbroadcast
    accumulate: Callable[..., Any] = accumulate
    walk: "Callable[[SmallEngine, Node], None] | None" = None
    seed: float = 1.0

    def broken(self, *, forward=None, backward=None, **rest):
        """The engine with some rules replaced."""
        return replace(self, forward=self.forward | (forward or {}), backward=self.backward | (backward or {}), **rest)

    def leaf(self, value, name=None):
        return Node(self, np.asarray(value, dtype=np.float64), name=name)

    def run(self, op, *parents, **settings):
        value = self.forward[op](*[one.value for one in parents], **settings)
        return Node(self, np.asarray(value), parents, op, settings)

    def shares(self, node):
        """The gradients that a node hands to its parents."""
        rule = self.backward[node.op]
        made = rule(node.gradient, node.value, *[one.value for one in node.parents], **node.settings)
        if node.op in BROADCASTING:
            made = [self.unbroadcast(g, one.value.shape) for g, one in zip(made, node.parents, strict=True)]
        return made

    def hand_on(self, node):
        for parent, g in zip(node.parents, self.shares(node), strict=True) if node.parents else ():
            parent.gradient = self.accumulate(parent.gradient, g)

    def go(self, root):
        """The backward."""
        root.gradient = np.full_like(root.value, self.seed)
        if self.walk is not None:
            self.walk(self, root)
            return
        for node in reversed(topological(root)):
            self.hand_on(node)


class Node:
    """A value of the engine, under the names of the protocol."""

    def __init__(self, engine, value, parents=(), op=None, settings=None, name=None):
        self.engine, self.value, self.parents, self.op = engine, value, parents, op
        self.settings, self.name, self.gradient = settings or {}, name, None

    def __getattr__(self, op):
        if op.startswith("_") or op not in self.__dict__.get("engine", SmallEngine()).forward:
            raise AttributeError(op)
        return lambda *others, **settings: self.engine.run(op, self, *map(self._node, others), **settings)

    def _node(self, other):
        return other if isinstance(other, Node) else self.engine.leaf(other)

    def __add__(self, other):
        return self.add(other)

    def __sub__(self, other):
        return self.sub(other)

    def __mul__(self, other):
        return self.mul(other)

    def __truediv__(self, other):
        return self.div(other)

    def __matmul__(self, other):
        return self.matmul(other)

    def __pow__(self, exponent):
        return self.engine.run("pow", self, exponent=exponent)

    def __neg__(self):
        return self.neg()
