"""Smooth activations in which the input gates itself: silu, gelu, mish, and glu, where one half gates the other."""

import math
from typing import Any

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.activation import sigmoid, softplus, tanh
from nbgrad.core.ops.indexing import getitem, getitem_backward
from nbgrad.core.ops.logarithms import exp
from nbgrad.core.samples import Make, Sample, alike, at, varied

_nn: Any = torch._C._nn


@op(formula=r"x \odot \sigma(x)", samples=at(-30.0, -1.278, 0.0, 30.0), inplace=_nn.silu_)
def silu(input):
    """The input times its logistic function, elementwise: nearly 0 left, nearly x right, with a dip below 0 between.

    Also called swish; the activation of EfficientNet and, as gate of SwiGLU, of current language models (Ramachandran
    et al. 2017, https://arxiv.org/abs/1710.05941).

    Shapes: output as input.
    """
    return _nn.silu(input)


@silu.rule("input", r"\bar{y} \odot \sigma(x) (1 + x (1 - \sigma(x)))")
def _(g, input):
    return silu_backward(g, input)


@op(
    formula=r"g \odot \sigma(x) (1 + x (1 - \sigma(x)))",
    samples=alike(-30.0, -1.278, 0.0, 30.0),
    reference=lambda g, x: g * (torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x)))),
)
def silu_backward(g, x):
    """The gradient of silu, from its input.

    Shapes: g and x alike, output as g.
    """
    return aten.silu_backward(g, x)


@silu_backward.rule("g", r"\bar{y} \odot \sigma(x) (1 + x (1 - \sigma(x)))")
def _(g, x):
    return silu_backward(g, x)


@silu_backward.rule("x", r"\bar{y} \odot g \odot \sigma(x) (1 - \sigma(x)) (2 + x (1 - 2 \sigma(x)))")
def _(gradient, g, x):
    s = sigmoid(x)
    return gradient * g * (s * (1 - s) * (2 + x * (1 - 2 * s)))


def swish(input, beta=1.0):
    """The input times the logistic function of ``beta`` times the input, elementwise; beta may be learned.

    With beta 1 it is silu, with growing beta it becomes relu (Ramachandran et al. 2017,
    https://arxiv.org/abs/1710.05941).

    Shapes: input and beta, a number or a tensor, broadcast to the output.
    """
    return input * sigmoid(beta * input)


@op(formula=r"x \odot \tanh(\ln(1 + e^{x}))", samples=at(-30.0, -1.192, 0.0, 30.0), inplace=_nn.mish_)
def mish(input):
    """The input times tanh of its softplus, elementwise: a smooth relative of relu with a dip below 0.

    The activation of YOLOv4 (Misra 2019, https://arxiv.org/abs/1908.08681).

    Shapes: output as input.
    """
    return _nn.mish(input)


@mish.rule("input", r"\bar{y} \odot (t + x \, \sigma(x) (1 - t^2)), \; t = \tanh(\ln(1 + e^{x}))")
def _(g, input):
    return mish_backward(g, input)


def _mish_slope(g, x):
    """The gradient of mish in small steps, which torch can differentiate: its kernel it cannot."""
    t = torch.tanh(torch.nn.functional.softplus(x))
    return g * (t + x * torch.sigmoid(x) * (1 - t * t))


@op(
    formula=r"g \odot (t + x \, \sigma(x) (1 - t^2)), \; t = \tanh(\ln(1 + e^{x}))",
    samples=alike(-30.0, -1.192, 0.0, 30.0),
    reference=_mish_slope,
)
def mish_backward(g, x):
    """The gradient of mish, from its input.

    Shapes: g and x alike, output as g.
    """
    return aten.mish_backward(g, x)


@mish_backward.rule("g", r"\bar{y} \odot (t + x \, \sigma(x) (1 - t^2))")
def _(g, x):
    return mish_backward(g, x)


@mish_backward.rule("x", r"\bar{y} \odot g \odot \sigma(x) (1 - t^2) (2 + x (1 - \sigma(x) - 2 \sigma(x) t))")
def _(gradient, g, x):
    s, t = sigmoid(x), tanh(softplus(x))
    return gradient * g * (s * (1 - t * t) * (2 + x * (1 - s - 2 * s * t)))


@op(
    formula=r"x \, \Phi(x)",
    samples=varied(at(-30.0, -0.752, 0.0, 30.0), {"approximate": "tanh"}),
    inplace=_nn.gelu_,
)
def gelu(input, *, approximate="none"):
    r"""The input times the probability that a normal variable is below it, elementwise.

    The activation of BERT, GPT and the vision transformer (Hendrycks and Gimpel 2016,
    https://arxiv.org/abs/1606.08415). ``approximate="tanh"`` is the cheaper formula of GPT-2,
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Shapes: output as input. Raises RuntimeError for another ``approximate`` than "none" and "tanh".
    """
    return _nn.gelu(input, approximate=approximate)


@gelu.rule("input", r"\bar{y} \odot (\Phi(x) + x \, \varphi(x))")
def _(g, input, approximate):
    return gelu_backward(g, input, approximate=approximate)


@op(
    formula=r"g \odot (\Phi(x) + x \, \varphi(x))",
    samples=varied(alike(-4.0, -0.752, 0.0, 1.5, 4.0), {"approximate": "tanh"}),
    reference=aten.gelu_backward,
)
def gelu_backward(g, x, *, approximate="none"):
    """The gradient of gelu, from its input.

    Shapes: g and x alike, output as g.
    """
    return aten.gelu_backward(g, x, approximate=approximate)


@gelu_backward.rule("g", r"\bar{y} \odot (\Phi(x) + x \, \varphi(x))")
def _(g, x, approximate):
    return gelu_backward(g, x, approximate=approximate)


@gelu_backward.rule("x", r"\bar{y} \odot g \odot \varphi(x) (2 - x^2)")
def _(gradient, g, x, approximate):
    if approximate == "none":
        return gradient * g * (exp(x * x * -0.5) * (2 - x * x) * (1 / math.sqrt(2 * math.pi)))
    k, c = math.sqrt(2 / math.pi), 0.044715
    t = tanh(k * (x + c * (x * x * x)))
    u = k * (1 + 3 * c * (x * x))  # how fast what is in the tanh grows
    return gradient * g * ((1 - t * t) * (u - x * t * u * u + 3 * k * c * (x * x)))


def _halves(make: Make):
    yield from (Sample.of(make(*shape)) for shape in ((4,), (3, 2), (2, 1, 6), (0, 2)))
    yield Sample.of(make(4, 3), dim=0)
    yield Sample.of(make(2, 2, 1, 3), dim=1)
    yield Sample.of(make(1, 2, 4, 1, 2), dim=-3)
    yield Sample.of(torch.tensor([1.0, -2.0, 0.0, 30.0, -30.0, 0.0], dtype=torch.float64))


@op(formula=r"a \odot \sigma(b), \; x = [a, b]", samples=_halves)
def glu(input, *, dim=-1):
    """Splits the input along ``dim`` into halves a and b, and lets the logistic function of b gate a.

    Gated linear units (Dauphin et al. 2016, https://arxiv.org/abs/1612.08083) let gradients pass through a without
    being squeezed.

    Shapes: output as input with half the size at ``dim``. Raises RuntimeError where that size is odd or input is a
    single number.
    """
    if input.ndim == 0:
        raise RuntimeError("glu splits a dimension into halves, which a single number does not have")
    return _nn.glu(input, dim)


@glu.rule("input", r"[\bar{y} \odot \sigma(b), \; \bar{y} \odot a \odot \sigma(b) (1 - \sigma(b))]")
def _(g, input, dim):
    return glu_backward(g, input, dim=dim)


def _halves_and_gradients(make: Make):
    for sample in _halves(make):
        dim = sample.settings.get("dim", -1)
        shape = list(sample.args[0].shape)
        shape[dim] //= 2
        yield Sample.of(make(*shape), sample.args[0], dim=dim)


@op(
    formula=r"[g \odot \sigma(b), \; g \odot a \odot \sigma(b) (1 - \sigma(b))], \; x = [a, b]",
    samples=_halves_and_gradients,
    reference=aten.glu_backward,
)
def glu_backward(g, x, *, dim):
    """The gradient of glu, from its input.

    Shapes: g as x with half the size at ``dim``, output as x.
    """
    return aten.glu_backward(g, x, dim)


@glu_backward.rule("g", r"\bar{y}_a \odot \sigma(b) + \bar{y}_b \odot a \odot \sigma(b) (1 - \sigma(b))")
def _(gradient, x, dim):
    first, second = _indices(x.shape, dim)
    s = sigmoid(getitem(x, index=second))
    return s * (getitem(gradient, index=first) + getitem(gradient, index=second) * getitem(x, index=first) * (1 - s))


@glu_backward.rule(
    "x",
    r"[\bar{y}_b \odot g \odot s', \; \bar{y}_a \odot g \odot s' + \bar{y}_b \odot g \odot a \odot s' (1 - 2 s)], "
    r"\; s = \sigma(b), \; s' = s (1 - s)",
)
def _(gradient, g, x, dim):
    first, second = _indices(x.shape, dim)
    a, s = getitem(x, index=first), sigmoid(getitem(x, index=second))
    ga, gb = getitem(gradient, index=first), getitem(gradient, index=second)
    slope = g * (s * (1 - s))
    shape = tuple(x.shape)
    return getitem_backward(gb * slope, index=first, shape=shape) + getitem_backward(
        slope * (ga + gb * a * (1 - 2 * s)), index=second, shape=shape
    )


def _indices(shape, dim):
    """The indices of the two halves along ``dim``."""
    before, half = (slice(None),) * (dim % len(shape)), shape[dim] // 2
    return (*before, slice(None, half)), (*before, slice(half, None))
