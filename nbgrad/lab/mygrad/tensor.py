"""Tensors: arrays in the place of numbers, with broadcasting. New: the engine sums over what an op has stretched."""

import numpy as np

from .scalars import topological


def unbroadcast(gradient, shape):
    """The gradient of a tensor of this shape, which an op has stretched to the shape of ``gradient``."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))  # dimensions that were missing in front
    ones = tuple(dim for dim, size in enumerate(shape) if size == 1)
    return gradient.sum(ones, keepdims=True)


class Tensor:
    """An array with its parents, the op that made it, and the rule of this op."""

    __array_ufunc__ = None  # array * tensor asks the tensor

    def __init__(self, data, parents=(), rule=None, op="", name=""):
        self.data, self.grad = np.asarray(data, dtype=float), None
        self.parents, self.rule, self.op, self.name = parents, rule, op, name

    def __add__(self, other):
        other = as_tensor(other)
        return Tensor(self.data + other.data, (self, other), lambda g: (g, g), "add")

    def __mul__(self, other):
        other = as_tensor(other)
        return Tensor(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data), "mul")

    def __pow__(self, power):
        slope = power * self.data ** (power - 1)
        return Tensor(self.data**power, (self,), lambda g: (g * slope,), f"**{power}")

    def sum(self, dim=None, keepdim=False):
        def rule(g):
            whole = dim is None or keepdim
            return (np.broadcast_to(g if whole else np.expand_dims(g, dim), self.data.shape),)

        return Tensor(self.data.sum(dim, keepdims=keepdim), (self,), rule, "sum")

    def mean(self, dim=None, keepdim=False):
        total = self.sum(dim, keepdim)
        return total * (total.data.size / self.data.size)

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        other = as_tensor(other)
        return Tensor(self.data - other.data, (self, other), lambda g: (g, -g), "sub")

    def __rsub__(self, other):
        return as_tensor(other) - self

    def __truediv__(self, other):
        return self * as_tensor(other) ** -1.0

    __radd__, __rmul__ = __add__, __mul__

    def backward(self):
        """Give each tensor its gradient: the slope of the sum of ``self`` with respect to it."""
        order = topological(self)
        for tensor in order:
            if tensor.rule is not None:
                tensor.grad = None  # of an earlier backward
        self.grad = np.ones_like(self.data)
        for tensor in reversed(order):
            if tensor.rule is not None:
                for parent, gradient in zip(tensor.parents, tensor.rule(tensor.grad), strict=True):
                    share = unbroadcast(gradient, parent.data.shape)
                    parent.grad = share if parent.grad is None else parent.grad + share  # paths add


def as_tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)
