"""Attention and a small GPT. New: nothing. A product, a softmax and a mask are enough."""

import numpy as np

from .losses import softmax
from .modules import Linear, Module, ReLU, Sequential
from .norm import LayerNorm, Residual
from .ops import reshape, transpose
from .sequence import Embedding


def attention(q, k, v):
    """Causal attention of q, k, v of shape (..., length, width): no place looks at those after it."""
    length, width = q.data.shape[-2:]
    scores = q @ transpose(k) * width**-0.5
    future = np.triu(np.full((length, length), -1e9), 1)  # after softmax it is 0
    return softmax(scores + future) @ v


class SelfAttention(Module):
    """Several heads, each with its own part of the width: (N, length, width) keeps its shape."""

    def __init__(self, width, heads, rng):
        self.query, self.key, self.value = (Linear(width, width, rng) for _ in range(3))
        self.out, self.heads = Linear(width, width, rng), heads

    def __call__(self, x):
        n, length, width = x.data.shape

        def split(y):
            return transpose(reshape(y, n, length, self.heads, width // self.heads), 1, 2)

        mixed = attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
        return self.out(reshape(transpose(mixed, 1, 2), n, length, width))


class GPT(Module):
    """Scores of the next code at each place: codes of shape (N, length) give (N, length, count)."""

    def __init__(self, count, length, width, rng, heads=2, layers=1):
        self.letter, self.place = Embedding(count, width, rng), Embedding(length, width, rng)
        self.blocks = []
        for _ in range(layers):
            mlp = Sequential(LayerNorm(width), Linear(width, 4 * width, rng), ReLU(), Linear(4 * width, width, rng))
            mix = Sequential(LayerNorm(width), SelfAttention(width, heads, rng))
            self.blocks += [Residual(mix), Residual(mlp)]
        self.last, self.head, self.length = LayerNorm(width), Linear(width, count, rng), length
        self.head.weight.data = self.head.weight.data * 0.1  # the first loss is about the logarithm of count

    def __call__(self, codes):
        x = self.letter(codes) + self.place(np.arange(codes.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))

    def write(self, codes, count, rng, temperature=1.0):
        """``codes``, continued by ``count`` more, each drawn from the probabilities of the network."""
        for _ in range(count):
            scores = self(np.array([codes[-self.length :]])).data[0, -1] / temperature
            p = np.exp(scores - scores.max())
            codes = [*codes, int(rng.choice(len(p), p=p / p.sum()))]
        return codes
