"""Activations: the nonlinear functions between layers, and softmax; their gradients are torch's fused kernels."""

import torch

from nbgrad.core.op import op
from nbgrad.core.samples import Make, Sample, along_a_dim, at, unary

_aten = torch.ops.aten


@op(formula=r"\max(x, 0)", samples=at(-1.0, 0.0, 1.0), inplace=True)
def relu(input):
    """The rectified linear unit: x where it is positive, 0 elsewhere.

    The usual activation of deep networks (Nair and Hinton 2010): where it is open the gradient passes undamped, so it
    does not vanish with depth; where it is shut the unit learns nothing. At 0 its gradient is 0, as torch has it.

    Shapes: output as input.
    """
    return torch.relu(input)


@relu.rule("input", r"\bar{y} \text{ where } y > 0 \text{, else } 0")
def _(g, out):
    return threshold_backward(g, out)


def _two_alike(make: Make):
    """Pairs of tensors of the same shape."""
    yield from (Sample.of(sample.args[0], make(*sample.args[0].shape)) for sample in unary(make))


def _gates(make: Make):
    """Pairs of tensors of the same shape, the second one also exactly at the threshold."""
    yield from _two_alike(make)
    yield Sample.of(make(3), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))


@op(
    formula=r"g \text{ where } x > 0 \text{, else } 0",
    no_gradient=("x",),
    samples=_gates,
    reference=lambda g, x: _aten.threshold_backward(g, x, 0),
)
def threshold_backward(g, x):
    """The gradient of relu: g where x is positive, 0 elsewhere.

    Shapes: g and x alike, output as g.
    """
    return _aten.threshold_backward(g, x, 0)


@threshold_backward.rule("g", r"\bar{y} \text{ where } x > 0 \text{, else } 0")
def _(g, x):
    return threshold_backward(g, x)


@op(formula=r"\tanh x", samples=at(-30.0, 0.0, 30.0), inplace=True)
def tanh(input):
    """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1).

    The activation of recurrent networks. Far from 0 it is flat, so its gradient vanishes there.

    Shapes: output as input.
    """
    return torch.tanh(input)


@tanh.rule("input", r"\bar{y} \odot (1 - y^2)")
def _(g, out):
    return tanh_backward(g, out)


@op(formula=r"g \odot (1 - y^2)", samples=_two_alike, reference=_aten.tanh_backward)
def tanh_backward(g, y):
    """The gradient of tanh, from its output y.

    Shapes: g and y alike, output as g.
    """
    return _aten.tanh_backward(g, y)


@tanh_backward.rule("g", r"\bar{y} \odot (1 - y^2)")
def _(g, y):
    return tanh_backward(g, y)


@tanh_backward.rule("y", r"-2 \bar{y} \odot g \odot y")
def _(gradient, g, y):
    return -2 * (gradient * g) * y


@op(formula=r"\frac{1}{1 + e^{-x}}", samples=at(-30.0, 0.0, 30.0), inplace=True)
def sigmoid(input):
    """The logistic function, elementwise: squeezes any number into (0, 1).

    It makes a probability of a score and a gate of an LSTM. Its gradient is at most 1/4, so a deep stack of sigmoids
    shrinks gradients layer by layer.

    Shapes: output as input.
    """
    return torch.sigmoid(input)


@sigmoid.rule("input", r"\bar{y} \odot y \odot (1 - y)")
def _(g, out):
    return sigmoid_backward(g, out)


@op(formula=r"g \odot y \odot (1 - y)", samples=_two_alike, reference=_aten.sigmoid_backward)
def sigmoid_backward(g, y):
    """The gradient of sigmoid, from its output y.

    Shapes: g and y alike, output as g.
    """
    return _aten.sigmoid_backward(g, y)


@sigmoid_backward.rule("g", r"\bar{y} \odot y \odot (1 - y)")
def _(g, y):
    return sigmoid_backward(g, y)


@sigmoid_backward.rule("y", r"\bar{y} \odot g \odot (1 - 2 y)")
def _(gradient, g, y):
    return gradient * g * (1 - 2 * y)


@op(formula=r"\frac{e^{x_i}}{\sum_j e^{x_j}}", samples=along_a_dim)
def softmax(input, *, dim):
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1.

    Attention weighs its values with it, classifiers make class probabilities with it.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.softmax(input, dim)


@softmax.rule("input", r"y \odot (\bar{y} - \sum_j \bar{y}_j y_j)")
def _(g, out, dim):
    return softmax_backward(g, out, dim=dim)


def _two_along_a_dim(make: Make):
    """Pairs of tensors of the same shape, along one dimension."""
    for sample in along_a_dim(make):
        yield Sample.of(sample.args[0], make(*sample.args[0].shape), **sample.settings)


@op(
    formula=r"y \odot (g - \sum_j g_j y_j)",
    samples=_two_along_a_dim,
    reference=lambda g, y, dim: torch._softmax_backward_data(g, y, dim, g.dtype),
)
def softmax_backward(g, y, *, dim):
    """The gradient of softmax, from its output y.

    Shapes: g and y alike, output as g.
    """
    return torch._softmax_backward_data(g, y, dim, g.dtype)


@softmax_backward.rule("g", r"y \odot (\bar{y} - \sum_j \bar{y}_j y_j)")
def _(g, y, dim):
    return softmax_backward(g, y, dim=dim)


@softmax_backward.rule("y", r"\bar{y} \odot (g - \sum_j g_j y_j) - g \sum_j \bar{y}_j y_j")
def _(gradient, g, y, dim):
    return gradient * (g - (g * y).sum(dim, True)) - g * (gradient * y).sum(dim, True)


@op(formula=r"x_i - \ln \sum_j e^{x_j}", samples=along_a_dim)
def log_softmax(input, *, dim):
    """Logarithm of softmax along ``dim``, computed without overflow.

    Cross entropy is built on it.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.log_softmax(input, dim)


@log_softmax.rule("input", r"\bar{y} - e^{y} \sum_j \bar{y}_j")
def _(g, out, dim):
    return log_softmax_backward(g, out, dim=dim)


@op(
    formula=r"g - e^{y} \sum_j g_j",
    samples=_two_along_a_dim,
    reference=lambda g, y, dim: torch._log_softmax_backward_data(g, y, dim, g.dtype),
)
def log_softmax_backward(g, y, *, dim):
    """The gradient of log_softmax, from its output y.

    Shapes: g and y alike, output as g.
    """
    return torch._log_softmax_backward_data(g, y, dim, g.dtype)


@log_softmax_backward.rule("g", r"\bar{y} - \sum_j \bar{y}_j e^{y_j}")
def _(g, y, dim):
    return g - (g * y.exp()).sum(dim, True)


@log_softmax_backward.rule("y", r"-\bar{y} \odot e^{y} \sum_j g_j")
def _(gradient, g, y, dim):
    return -gradient * (y.exp() * g.sum(dim, True))
