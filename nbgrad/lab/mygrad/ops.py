"""Products of matrices, and functions of each element. New: a rule whose shapes say which side is transposed."""

import numpy as np

from .tensor import Tensor, as_tensor


def matmul(a, b):
    """The product of matrices in the last two dimensions. Those before them are stretched, as in any op."""
    a, b = as_tensor(a), as_tensor(b)
    if min(a.data.ndim, b.data.ndim) < 2:
        raise ValueError(f"matmul takes matrices, not shapes {a.data.shape} and {b.data.shape}: reshape a vector first")
    turned_a, turned_b = a.data.swapaxes(-1, -2), b.data.swapaxes(-1, -2)
    return Tensor(a.data @ b.data, (a, b), lambda g: (g @ turned_b, turned_a @ g), "matmul")


def relu(x):
    return Tensor(np.maximum(x.data, 0), (x,), lambda g: (g * (x.data > 0),), "relu")


def tanh(x):
    y = np.tanh(x.data)
    return Tensor(y, (x,), lambda g: (g * (1 - y * y),), "tanh")


def exp(x):
    y = np.exp(x.data)
    return Tensor(y, (x,), lambda g: (g * y,), "exp")


def log(x):
    return Tensor(np.log(x.data), (x,), lambda g: (g / x.data,), "log")


def reshape(x, *shape):
    return Tensor(x.data.reshape(shape), (x,), lambda g: (g.reshape(x.data.shape),), "reshape")


def transpose(x, first=-1, second=-2):
    """Two dimensions change places."""
    return Tensor(x.data.swapaxes(first, second), (x,), lambda g: (g.swapaxes(first, second),), "transpose")


Tensor.__matmul__ = matmul  # x @ w
