"""Convolution and pooling. New: patches are cut out, and their gradients are added back to where they were."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .modules import Module
from .ops import reshape
from .tensor import Tensor


def conv2d(x, weight, padding=0):
    """Slide kernels over images: (N, C, H, W) and (K, C, h, w) give (N, K, H - h + 1, W - w + 1), without padding."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    _, _, h, w = weight.data.shape
    padded = np.pad(x.data, edges)
    patches = sliding_window_view(padded, (h, w), (2, 3))  # (N, C, rows, columns, h, w), without a copy
    y = np.einsum("ncijhw,kchw->nkij", patches, weight.data, optimize=True)

    def rule(g):
        rows, columns = g.shape[2:]
        back = np.zeros_like(padded)
        for i in range(h):
            for j in range(w):  # each weight met a shifted image: its gradients go back there
                back[:, :, i : i + rows, j : j + columns] += np.einsum("nkij,kc->ncij", g, weight.data[:, :, i, j])
        inner = slice(padding, back.shape[2] - padding), slice(padding, back.shape[3] - padding)
        return back[:, :, *inner], np.einsum("ncijhw,nkij->kchw", patches, g, optimize=True)

    return Tensor(y, (x, weight), rule, "conv2d")


def max_pool2d(x, size):
    """The largest of each ``size`` by ``size`` places. If several are the largest, the first one gets the gradient."""
    n, c, height, width = x.data.shape
    if height % size or width % size:
        raise ValueError(f"max_pool2d cuts into squares of {size}: {height} by {width} cannot be cut so")
    cut = x.data.reshape(n, c, height // size, size, width // size, size).swapaxes(3, 4)
    flat = cut.reshape(*cut.shape[:4], size * size)
    first = np.arange(size * size) == flat.argmax(-1)[..., None]

    def rule(g):
        return ((g[..., None] * first).reshape(cut.shape).swapaxes(3, 4).reshape(x.data.shape),)

    return Tensor(flat.max(-1), (x,), rule, "max_pool2d")


class Conv2d(Module):
    def __init__(self, inputs, outputs, kernel, rng, padding=0):
        size = (2 / (inputs * kernel**2)) ** 0.5
        self.weight = Tensor(rng.standard_normal((outputs, inputs, kernel, kernel)) * size, name="weight")
        self.bias, self.padding = Tensor(np.zeros((outputs, 1, 1)), name="bias"), padding

    def __call__(self, x):
        return conv2d(x, self.weight, self.padding) + self.bias


class MaxPool2d(Module):
    def __init__(self, size):
        self.size = size

    def __call__(self, x):
        return max_pool2d(x, self.size)


class Flatten(Module):
    def __call__(self, x):
        return reshape(x, len(x.data), -1)
