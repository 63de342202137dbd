"""Losses. New: an op may be as large as it likes, if its rule is right; and no number overflows."""

import numpy as np

from .tensor import Tensor


def mse(prediction, target):
    """The mean of the squared differences. Both shapes have to be the same."""
    if prediction.data.shape != np.shape(target):
        raise ValueError(f"the prediction has shape {prediction.data.shape}, and the target {np.shape(target)}")
    return ((prediction - target) ** 2).mean()


def softmax_of(scores):
    """The probabilities that an array of scores stands for, along its last dimension."""
    e = np.exp(scores - scores.max(-1, keepdims=True))  # the largest is 1: no overflow
    return e / e.sum(-1, keepdims=True)


def softmax(scores):
    p = softmax_of(scores.data)
    return Tensor(p, (scores,), lambda g: (p * (g - (g * p).sum(-1, keepdims=True)),), "softmax")


def cross_entropy(scores, labels):
    """The mean of -log p of the right class: scores of shape (..., classes), labels of shape (...)."""
    labels = np.asarray(labels)
    lowered = scores.data - scores.data.max(-1, keepdims=True)
    logs = lowered - np.log(np.exp(lowered).sum(-1, keepdims=True))
    right = labels[..., None] == np.arange(scores.data.shape[-1])  # True at the right class of each row
    loss = -logs[right].mean()
    return Tensor(loss, (scores,), lambda g: (g * (np.exp(logs) - right) / labels.size,), "cross_entropy")
