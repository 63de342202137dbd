"""Smooth activations that squeeze or bend: tanh, the logistic function and what is made of it."""

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.arithmetic import abs as absolute
from nbgrad.core.ops.choosing import where
from nbgrad.core.plan import conjugate
from nbgrad.core.samples import Make, Sample, alike, at, varied


@op(formula=r"\tanh x", holomorphic=False, samples=at(-30.0, 0.0, 30.0), inplace=True)
def tanh(input):
    """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1).

    The activation of recurrent networks. Far from 0 it is flat, so its gradient vanishes there.

    Shapes: output as input.
    """
    return torch.tanh(input)


@tanh.rule("input", r"\bar{y} \odot (1 - y^2)")
def _(g, out):
    return tanh_backward(g, out)


@op(formula=r"g \odot (1 - y^2)", holomorphic=False, samples=alike(), reference=aten.tanh_backward)
def tanh_backward(g, y):
    """The gradient of tanh, from its output y.

    Shapes: g and y alike, output as g.
    """
    return aten.tanh_backward(g, y)


@tanh_backward.rule("g", r"\bar{y} \odot (1 - y^2)")
def _(g, y):
    return tanh_backward(g, conjugate(y))


@tanh_backward.rule("y", r"-2 \bar{y} \odot g \odot y")
def _(gradient, g, y):
    return -2 * (conjugate(gradient) * g) * conjugate(y)


@op(formula=r"\frac{1}{1 + e^{-x}}", holomorphic=False, samples=at(-30.0, 0.0, 30.0), inplace=True)
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


@op(formula=r"g \odot y \odot (1 - y)", holomorphic=False, samples=alike(), reference=aten.sigmoid_backward)
def sigmoid_backward(g, y):
    """The gradient of sigmoid, from its output y.

    Shapes: g and y alike, output as g.
    """
    return aten.sigmoid_backward(g, y)


@sigmoid_backward.rule("g", r"\bar{y} \odot y \odot (1 - y)")
def _(g, y):
    return sigmoid_backward(g, conjugate(y))


@sigmoid_backward.rule("y", r"\bar{y} \odot g \odot (1 - 2 y)")
def _(gradient, g, y):
    return conjugate(gradient) * g * (1 - 2 * conjugate(y))


@op(formula=r"\ln \frac{1}{1 + e^{-x}}", aux=("buffer",), samples=at(-800.0, -30.0, 0.0, 30.0))
def logsigmoid(input):
    """Logarithm of the logistic function, elementwise, computed without overflow.

    The log-likelihood of a yes or no with score x: losses that compare pairs, as of word2vec or of preferences, are
    sums of it. Where the answer is confidently wrong its gradient is 1, so learning does not stall.

    Shapes: output as input.
    """
    return aten.log_sigmoid_forward(input)


@logsigmoid.rule("input", r"\bar{y} \odot (1 - \sigma(x))")
def _(g, input, buffer):
    return log_sigmoid_backward(g, input, buffer)


log_sigmoid = logsigmoid  # what torch's function calls itself


def _with_buffers(make: Make):
    """Pairs, and what the forward keeps of the second one."""
    for sample in alike(-800.0, 0.0, 30.0)(make):
        g, x = sample.args
        yield Sample.of(g, x, torch.exp(-x.abs()))


@op(
    formula=r"g \odot (1 - \sigma(x))",
    no_gradient=("buffer",),
    samples=_with_buffers,
    reference=aten.log_sigmoid_backward,
)
def log_sigmoid_backward(g, x, buffer):
    """The gradient of logsigmoid, from its input and what its kernel keeps: exp(-|x|), or nothing on some devices.

    Shapes: g and x alike, output as g.
    """
    return aten.log_sigmoid_backward(g, x, buffer)


@log_sigmoid_backward.rule("g", r"\bar{y} \odot (1 - \sigma(x))")
def _(g, x, buffer):
    return log_sigmoid_backward(g, x, buffer)


@log_sigmoid_backward.rule("x", r"-\bar{y} \odot g \odot \sigma(x) (1 - \sigma(x))")
def _(gradient, g, x):
    return -sigmoid_backward(gradient * g, sigmoid(x))


@op(
    formula=r"\frac{1}{\beta} \ln(1 + e^{\beta x})",
    samples=varied(at(-30.0, -1.0, 0.0, 2.0, 10.0, 30.0), {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0}),
)
def softplus(input, *, beta=1.0, threshold=20.0):
    """A smooth relu, elementwise: ``beta`` says how sharp its bend is.

    Variances and rates are made positive with it (Dugas et al. 2001). Where beta x exceeds ``threshold`` it is x
    itself, which avoids overflow.

    Shapes: output as input.
    """
    return torch.nn.functional.softplus(input, beta, threshold)


@softplus.rule("input", r"\bar{y} \odot \sigma(\beta x)")
def _(g, input, beta, threshold):
    return softplus_backward(g, input, beta=beta, threshold=threshold)


@op(
    formula=r"g \odot \sigma(\beta x)",
    samples=varied(alike(-30.0, -1.0, 0.0, 2.0, 10.0, 30.0), {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0}),
    reference=lambda g, x, beta=1.0, threshold=20.0: aten.softplus_backward(g, x, beta, threshold),
)
def softplus_backward(g, x, *, beta=1.0, threshold=20.0):
    """The gradient of softplus; g itself where beta x exceeds ``threshold``.

    Shapes: g and x alike, output as g.
    """
    return aten.softplus_backward(g, x, beta, threshold)


@softplus_backward.rule("g", r"\bar{y} \odot \sigma(\beta x)")
def _(g, x, beta, threshold):
    return softplus_backward(g, x, beta=beta, threshold=threshold)


@softplus_backward.rule("x", r"\beta \bar{y} \odot g \odot \sigma(\beta x) (1 - \sigma(\beta x))")
def _(gradient, g, x, beta, threshold):
    curved = sigmoid_backward(gradient * g * beta, sigmoid(x * beta))
    return where(x * beta < threshold, curved, 0.0)


@op(
    name="softsign",
    formula=r"\frac{x}{1 + |x|}",
    samples=at(-1000.0, -1.0, 0.0, 1.0),
    reference=torch.nn.functional.softsign,
)
def softsign_row(input):
    """Squeezes any number into (-1, 1) as tanh does, elementwise, but approaches the ends more slowly.

    Its gradient falls with the square of x where that of tanh falls exponentially, so far from 0 something is still
    learned (Glorot and Bengio 2010).

    Shapes: output as input.
    """
    return torch.nn.functional.softsign(input)


@softsign_row.rule("input", r"\frac{\bar{y}}{(1 + |x|)^2}")
def _(g, input):
    return softsign_backward(g, input)


@op(
    formula=r"\frac{g}{(1 + |x|)^2}",
    samples=alike(-1000.0, -1.0, 0.0, 1.0),
    reference=lambda g, x: g / (1 + x.abs()) ** 2,
)
def softsign_backward(g, x):
    """The gradient of softsign, from its input.

    Shapes: g and x alike, output as g.
    """
    return g / (x.abs() + 1).square()


@softsign_backward.rule("g", r"\frac{\bar{y}}{(1 + |x|)^2}")
def _(g, x):
    return softsign_backward(g, x)


@softsign_backward.rule("x", r"-2 \bar{y} \odot g \odot \frac{\operatorname{sgn} x}{(1 + |x|)^3}")
def _(gradient, g, x):
    sign = where(x > 0, 1.0, where(x < 0, -1.0, 0.0))
    return -2 * sign * softsign_backward(gradient * g, x) * (1 - sign * softsign_row(x))  # 1 / (1 + |x|) = 1 - |y|


def softsign(input):
    """Squeezes any number into (-1, 1), elementwise; complex ones in small steps: see the row softsign."""
    return input / (absolute(input) + 1) if input.is_complex() else softsign_row(input)


def tanhshrink(input):
    """X - tanh(x), elementwise: nearly 0 near 0, nearly x shifted by 1 far from it.

    It pulls small numbers to 0, as sparse codes want it.

    Shapes: output as input.
    """
    return input - tanh(input)
