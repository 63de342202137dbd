"""Normalization and skip connections. New: one rule in the place of the three paths that meet in it."""

import numpy as np

from .modules import Module
from .tensor import Tensor


def normalize(x, dim, eps=1e-5):
    """Bring the numbers along ``dim`` to the mean 0 and the size 1."""
    centred = x.data - x.data.mean(dim, keepdims=True)
    deviation = np.sqrt((centred**2).mean(dim, keepdims=True) + eps)
    y = centred / deviation

    def rule(g):
        along = y * (g * y).mean(dim, keepdims=True)
        return ((g - g.mean(dim, keepdims=True) - along) / deviation,)

    return Tensor(y, (x,), rule, "normalize")


class LayerNorm(Module):
    """Each row of ``width`` numbers is normalized, then scaled and shifted. Rows do not depend on each other."""

    def __init__(self, width):
        self.gain, self.shift = Tensor(np.ones(width), name="gain"), Tensor(np.zeros(width), name="shift")

    def __call__(self, x):
        return normalize(x, -1) * self.gain + self.shift


class BatchNorm(Module):
    """Each column of a batch is normalized; after training, with the running mean and variance."""

    def __init__(self, width, momentum=0.1):
        self.gain, self.shift = Tensor(np.ones(width), name="gain"), Tensor(np.zeros(width), name="shift")
        self.mean, self.var = np.zeros(width), np.ones(width)  # arrays: they are no parameters
        self.momentum, self.training = momentum, True

    def __call__(self, x):
        if not self.training:
            return (x - self.mean) * (self.var + 1e-5) ** -0.5 * self.gain + self.shift
        rows = len(x.data)
        self.mean += self.momentum * (x.data.mean(0) - self.mean)
        self.var += self.momentum * (x.data.var(0) * rows / (rows - 1) - self.var)
        return normalize(x, 0) * self.gain + self.shift


class Residual(Module):
    """``x + body(x)``: the gradient has a way around the body."""

    def __init__(self, body):
        self.body = body

    def __call__(self, x):
        return x + self.body(x)
