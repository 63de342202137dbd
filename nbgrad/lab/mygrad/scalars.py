"""Scalars: a value that remembers where it comes from, an order, and the walk back. It is the engine of lesson 3."""

import math


class Value:
    """A number with its parents, the op that made it, and the rule of this op."""

    def __init__(self, data, parents=(), rule=None, op=""):
        self.data, self.parents, self.rule, self.op = data, parents, rule, op
        self.grad = 0.0

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), lambda g: (g, g), "add")

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data), "mul")

    def tanh(self):
        y = math.tanh(self.data)
        return Value(y, (self,), lambda g: (g * (1 - y * y),), "tanh")

    def relu(self):
        slope = float(self.data > 0)
        return Value(self.data * slope, (self,), lambda g: (g * slope,), "relu")


def topological(root):
    """All values that ``root`` depends on, each once, each after its parents."""
    order, done = [], set()

    def visit(value):
        if value not in done:
            done.add(value)
            for parent in value.parents:
                visit(parent)
            order.append(value)

    visit(root)
    return order


def backward(root):
    """Give each value its gradient: the slope of ``root`` with respect to it."""
    order = topological(root)
    for value in order:
        if value.rule is not None:
            value.grad = 0.0  # an earlier backward may have left something; leaves keep it, so that gradients add up
    root.grad = 1.0
    for value in reversed(order):
        if value.rule is not None:
            for parent, gradient in zip(value.parents, value.rule(value.grad), strict=True):
                parent.grad += gradient  # paths add
