"""Modules: functions that own their parameters. New: a network finds its parameters by itself."""

import numpy as np

from .ops import relu
from .tensor import Tensor


class Module:
    """A function of tensors with parameters: tensors without parents, modules, and lists of them, as attributes."""

    def parameters(self):
        """All parameters, also those of the modules inside, each once."""
        found, left = [], list(vars(self).values())
        while left:
            one = left.pop(0)
            if isinstance(one, Tensor) and not any(one is other for other in found):
                found.append(one)
            elif isinstance(one, Module):
                left = [*vars(one).values(), *left]
            elif isinstance(one, list | tuple):
                left = [*one, *left]
        return found

    def zero_grad(self):
        for parameter in self.parameters():
            parameter.grad = None


class Linear(Module):
    """``x @ weight + bias``, for ``x`` of shape (..., inputs). The first weights keep the size of the values."""

    def __init__(self, inputs, outputs, rng):
        size = (2 / inputs) ** 0.5  # Kaiming's: lesson 8
        self.weight = Tensor(rng.standard_normal((inputs, outputs)) * size, name="weight")
        self.bias = Tensor(np.zeros(outputs), name="bias")

    def __call__(self, x):
        return x @ self.weight + self.bias


class ReLU(Module):
    def __call__(self, x):
        return relu(x)


class Sequential(Module):
    """Modules in a row."""

    def __init__(self, *modules):
        self.modules = modules

    def __call__(self, x):
        for module in self.modules:
            x = module(x)
        return x
