"""Sequences. New: rows of a table are looked up, and a row that is used several times gets the sum of the gradients."""

import numpy as np

from .modules import Linear, Module
from .ops import tanh
from .tensor import Tensor


def take(table, index):
    """The rows of ``table`` with these numbers: shape (rows, ...) and an index of any shape."""

    def rule(g):
        back = np.zeros_like(table.data)
        np.add.at(back, index, g)  # not back[index] += g, which counts a row that comes twice only once
        return (back,)

    return Tensor(table.data[index], (table,), rule, "take")


class Embedding(Module):
    """A vector for each of ``count`` codes."""

    def __init__(self, count, width, rng):
        self.weight = Tensor(rng.standard_normal((count, width)) * 0.5, name="weight")

    def __call__(self, codes):
        return take(self.weight, codes)


class RNN(Module):
    """Reads codes of shape (N, steps), one step after the other. It gives a list of scores, one (N, count) a step."""

    def __init__(self, count, width, rng):
        self.letter, self.memory, self.head = (
            Embedding(count, width, rng),
            Linear(width, width, rng),
            Linear(width, count, rng),
        )
        self.memory.weight.data = self.memory.weight.data * 0.5  # so that the factor of a step is below 1
        self.width = width

    def __call__(self, codes):
        h, scores = Tensor(np.zeros((len(codes), self.width))), []
        for step in range(codes.shape[1]):
            h = tanh(self.memory(h) + self.letter(codes[:, step]))
            scores.append(self.head(h))
        return scores
