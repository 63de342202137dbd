"""Softmax turns the scores along a dimension into probabilities. Also its logarithm, and sampling from it."""

import warnings
from math import inf

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, along_a_dim
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.tensor.tensor import Tensor


def _probabilities(make: Make):
    """Every shape along a dimension, scores that would overflow, and another element type."""
    yield from along_a_dim(make)
    yield Sample.of(torch.tensor([[1000.0, 999.0], [-1000.0, 0.0]], dtype=torch.float64), dim=-1)
    yield Sample.of(make(2, 3).float(), dim=1, dtype=torch.float64)


def _two_along_a_dim(make: Make):
    """Pairs of tensors of the same shape, along one dimension."""
    for sample in along_a_dim(make):
        yield Sample.of(sample.args[0], make(*sample.args[0].shape), **sample.settings)


@op(formula=r"\frac{e^{x_i}}{\sum_j e^{x_j}}", samples=_probabilities, traits=Traits(interval=(0.0, 1.0)))
def softmax(input, *, dim, dtype=None):
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1.

    Attention weighs its values with it, classifiers make class probabilities with it. With ``dtype`` it computes in
    that element type, so that scores of half precision lose nothing on the way.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.softmax(input, dim, dtype=dtype)


@softmax.rule("input", r"y \odot (\bar{y} - \sum_j \bar{y}_j y_j)")
def _(g, out, dim):
    return softmax_backward(g, out, dim=dim)


@op(formula=r"y \odot (g - \sum_j g_j y_j)", symbols={"out": "z"}, samples=_two_along_a_dim)
def softmax_backward(g, y, *, dim):
    """The gradient of softmax, from its output y.

    Shapes: g and y alike, output as g.
    """
    return torch._softmax_backward_data(g, y, dim, g.dtype)


@softmax_backward.rule("g", r"y \odot (\bar{z} - \sum_j \bar{z}_j y_j)")
def _(g, y, dim):
    return softmax_backward(g, y, dim=dim)


@softmax_backward.rule("y", r"\bar{z} \odot (g - \sum_j g_j y_j) - g \sum_j \bar{z}_j y_j")
def _(gradient, g, y, dim):
    return gradient * (g - (g * y).sum(dim, True)) - g * (gradient * y).sum(dim, True)


@op(formula=r"x_i - \ln \sum_j e^{x_j}", samples=_probabilities, traits=Traits(interval=(-inf, 0.0)))
def log_softmax(input, *, dim, dtype=None):
    """Logarithm of softmax along ``dim``, computed without overflow.

    Cross entropy is built on it.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.log_softmax(input, dim, dtype=dtype)


@log_softmax.rule("input", r"\bar{y} - e^{y} \sum_j \bar{y}_j")
def _(g, out, dim):
    return log_softmax_backward(g, out, dim=dim)


@op(formula=r"g - e^{y} \sum_j g_j", symbols={"out": "z"}, samples=_two_along_a_dim)
def log_softmax_backward(g, y, *, dim):
    """The gradient of log_softmax, from its output y.

    Shapes: g and y alike, output as g.
    """
    return torch._log_softmax_backward_data(g, y, dim, g.dtype)


@log_softmax_backward.rule("g", r"\bar{z} - \sum_j \bar{z}_j e^{y_j}")
def _(g, y, dim):
    return g - (g * y.exp()).sum(dim, True)


@log_softmax_backward.rule("y", r"-\bar{z} \odot e^{y} \sum_j g_j")
def _(gradient, g, y, dim):
    return -gradient * (y.exp() * g.sum(dim, True))


def softmin(input, dim, dtype=None):
    """Turns costs along ``dim`` into probabilities: softmax of minus the input, so that the smallest weighs most.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return softmax(-input, dim=dim, dtype=dtype)


def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """Draws one of the classes along ``dim`` with the probabilities of softmax, so that a gradient gets through.

    Gumbel noise is added to the scores, and their softmax at temperature ``tau`` stands for the choice (Jang et al.
    2016, https://arxiv.org/abs/1611.01144). With ``hard`` the output is exactly one-hot, with the gradient of the soft
    one: the straight-through estimator.

    Shapes: output as logits. ``eps`` has no effect, as in torch, which warns where it is given.
    """
    if eps != 1e-10:
        warnings.warn("gumbel_softmax: eps is deprecated and has no effect", stacklevel=2)
    raw = raw_of(logits)
    noise = -torch.empty_like(raw, memory_format=torch.legacy_contiguous_format).exponential_().log()
    soft = softmax((logits + noise) / tau, dim=dim)
    if not hard:
        return soft
    values = soft.data if isinstance(soft, Tensor) else soft.detach()
    chosen = torch.zeros_like(values).scatter_(dim, values.argmax(dim, keepdim=True), 1.0)
    return (chosen - values) + soft
