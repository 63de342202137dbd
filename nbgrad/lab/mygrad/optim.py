"""Optimizers: how far a step goes. New: numbers that an optimizer remembers for each parameter."""

import numpy as np


class SGD:
    """``w - lr * v``, where ``v`` is a sum of all gradients so far that fades by ``momentum``."""

    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.v = [np.zeros_like(one.data) for one in self.parameters]

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for at, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self.v[at] = self.momentum * self.v[at] + parameter.grad
                parameter.data = parameter.data - self.lr * self.v[at]


class Adam:
    """A step of about ``lr`` for each parameter, however large its gradients are."""

    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-8):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.m = [np.zeros_like(one.data) for one in self.parameters]
        self.v = [np.zeros_like(one.data) for one in self.parameters]
        self.steps = [0] * len(self.parameters)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        first, second = self.betas
        for at, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self.steps[at] += 1
                self.m[at] = first * self.m[at] + (1 - first) * parameter.grad
                self.v[at] = second * self.v[at] + (1 - second) * parameter.grad**2
                mean = self.m[at] / (1 - first ** self.steps[at])  # both begin at 0: this makes up for it
                size = np.sqrt(self.v[at] / (1 - second ** self.steps[at])) + self.eps
                parameter.data = parameter.data - self.lr * mean / size
