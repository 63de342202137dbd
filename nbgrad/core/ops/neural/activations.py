"""Smooth activations: tanh and the logistic function, gates such as silu, gelu and glu, exponential linear units."""

import math
from typing import Any

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Make, Sample, alike, at, varied
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.arithmetic import abs as absolute
from nbgrad.core.ops.elementwise.powers import exp
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.getitem import getitem, getitem_backward


@op(
    formula=r"\tanh x",
    kernel=torch.tanh,
    holomorphic=False,
    samples=at(-30.0, 0.0, 30.0),
    inplace=True,
    traits=Traits(steepest=1.0, interval=(-1.0, 1.0)),
)
def tanh(input):
    """Hyperbolic tangent, elementwise: squeezes any number into (-1, 1).

    The activation of recurrent networks. Far from 0 it is flat, so its gradient vanishes there.

    Shapes: output as input.
    """


@tanh.rule("input", r"\bar{y} \odot (1 - y^2)")
def _(g, out):
    return tanh_backward(g, out)


@op(formula=r"g \odot (1 - y^2)", symbols={"out": "z"}, holomorphic=False, samples=alike())
def tanh_backward(g, y):
    """The gradient of tanh, from its output y.

    Shapes: g and y alike, output as g.
    """
    return aten.tanh_backward(g, y)


@tanh_backward.rule("g", r"\bar{z} \odot (1 - y^2)")
def _(g, y):
    return tanh_backward(g, conjugate(y))


@tanh_backward.rule("y", r"-2 \bar{z} \odot g \odot y")
def _(gradient, g, y):
    return -2 * (conjugate(gradient) * g) * conjugate(y)


@op(
    formula=r"\frac{1}{1 + e^{-x}}",
    kernel=torch.sigmoid,
    holomorphic=False,
    samples=at(-30.0, 0.0, 30.0),
    inplace=True,
    traits=Traits(steepest=0.25, interval=(0.0, 1.0)),
)
def sigmoid(input):
    """The logistic function, elementwise: squeezes any number into (0, 1).

    It makes a probability of a score and a gate of an LSTM. Its gradient is at most 1/4, so a deep stack of sigmoids
    shrinks gradients layer by layer.

    Shapes: output as input.
    """


@sigmoid.rule("input", r"\bar{y} \odot y \odot (1 - y)")
def _(g, out):
    return sigmoid_backward(g, out)


@op(formula=r"g \odot y \odot (1 - y)", symbols={"out": "z"}, holomorphic=False, samples=alike())
def sigmoid_backward(g, y):
    """The gradient of sigmoid, from its output y.

    Shapes: g and y alike, output as g.
    """
    return aten.sigmoid_backward(g, y)


@sigmoid_backward.rule("g", r"\bar{z} \odot y \odot (1 - y)")
def _(g, y):
    return sigmoid_backward(g, conjugate(y))


@sigmoid_backward.rule("y", r"\bar{z} \odot g \odot (1 - 2 y)")
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


log_sigmoid = logsigmoid  # the __name__ of torch's function


def _with_buffers(make: Make):
    """Pairs, and what the forward keeps of the second one."""
    for sample in alike(-800.0, 0.0, 30.0)(make):
        g, x = sample.args
        yield Sample.of(g, x, torch.exp(-x.abs()))


@op(formula=r"g \odot (1 - \sigma(x))", no_gradient=("buffer",), samples=_with_buffers)
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
    kernel=torch.nn.functional.softplus,
    samples=varied(at(-30.0, -1.0, 0.0, 2.0, 10.0, 30.0), {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0}),
    traits=Traits(interval=(0.0, math.inf)),
)
def softplus(input, *, beta=1.0, threshold=20.0):
    """A smooth relu, elementwise: ``beta`` says how sharp its bend is.

    Variances and rates are made positive with it (Dugas et al. 2001). Where beta x exceeds ``threshold`` it is x
    itself, which avoids overflow.

    Shapes: output as input.
    """


@softplus.rule("input", r"\bar{y} \odot \sigma(\beta x)")
def _(g, input, beta, threshold):
    return softplus_backward(g, input, beta=beta, threshold=threshold)


@op(
    formula=r"g \odot \sigma(\beta x)",
    samples=varied(alike(-30.0, -1.0, 0.0, 2.0, 10.0, 30.0), {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0}),
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
    kernel=torch.nn.functional.softsign,
    samples=at(-1000.0, -1.0, 0.0, 1.0),
)
def softsign_row(input):
    """Squeezes any number into (-1, 1) as tanh does, elementwise, but approaches the ends more slowly.

    Its gradient falls with the square of x where that of tanh falls exponentially, so far from 0 something is still
    learned (Glorot and Bengio 2010).

    Shapes: output as input.
    """


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
    """The input x minus tanh(x), elementwise: nearly 0 near 0, nearly x shifted by 1 far from it.

    It pulls small numbers to 0, as sparse codes want it.

    Shapes: output as input.
    """
    return input - tanh(input)


_nn: Any = torch._C._nn


@op(formula=r"x \odot \sigma(x)", kernel=_nn.silu, samples=at(-30.0, -1.278, 0.0, 30.0), inplace=_nn.silu_)
def silu(input):
    """The input times its logistic function, elementwise: nearly 0 left, nearly x right, with a dip below 0 between.

    Also called swish; the activation of EfficientNet and, as gate of SwiGLU, of current language models (Ramachandran
    et al. 2017, https://arxiv.org/abs/1710.05941).

    Shapes: output as input.
    """


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


@op(formula=r"x \odot \tanh(\ln(1 + e^{x}))", kernel=_nn.mish, samples=at(-30.0, -1.192, 0.0, 30.0), inplace=_nn.mish_)
def mish(input):
    """The input times tanh of its softplus, elementwise: a smooth relative of relu with a dip below 0.

    The activation of YOLOv4 (Misra 2019, https://arxiv.org/abs/1908.08681).

    Shapes: output as input.
    """


@mish.rule("input", r"\bar{y} \odot (t + x \, \sigma(x) (1 - t^2)), \; t = \tanh(\ln(1 + e^{x}))")
def _(g, input):
    return mish_backward(g, input)


def _mish_slope(g, x):
    """The gradient of mish in small steps, which torch can differentiate, unlike its kernel."""
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
    kernel=_nn.gelu,
    samples=varied(at(-30.0, -0.752, 0.0, 30.0), {"approximate": "tanh"}),
    inplace=_nn.gelu_,
)
def gelu(input, *, approximate="none"):
    r"""The input times the probability that a standard normal number is below the input, elementwise.

    The activation of BERT, GPT and the vision transformer (Hendrycks and Gimpel 2016,
    https://arxiv.org/abs/1606.08415). ``approximate="tanh"`` is the cheaper formula of GPT-2,
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Shapes: output as input. Raises RuntimeError for another ``approximate`` than "none" and "tanh".
    """


@gelu.rule("input", r"\bar{y} \odot (\Phi(x) + x \, \varphi(x))")
def _(g, input, approximate):
    return gelu_backward(g, input, approximate=approximate)


@op(
    formula=r"g \odot (\Phi(x) + x \, \varphi(x))",
    samples=varied(alike(-4.0, -0.752, 0.0, 1.5, 4.0), {"approximate": "tanh"}),
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
    u = k * (1 + 3 * c * (x * x))  # the slope of the argument of tanh
    return gradient * g * ((1 - t * t) * (u - x * t * u * u + 3 * k * c * (x * x)))


def _halves(make: Make):
    yield from (Sample.of(make(*shape)) for shape in ((4,), (3, 2), (2, 1, 6), (0, 2)))
    yield Sample.of(make(4, 3), dim=0)
    yield Sample.of(make(2, 2, 1, 3), dim=1)
    yield Sample.of(make(1, 2, 4, 1, 2), dim=-3)
    yield Sample.of(torch.tensor([1.0, -2.0, 0.0, 30.0, -30.0, 0.0], dtype=torch.float64))


@op(formula=r"a \odot \sigma(b), \; x = [a, b]", samples=_halves, ranks=range(1, 6))
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
    ranks=range(1, 6),
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


_torch: Any = torch  # its in-place functions return their input

_ALPHA = 1.6732632423543772848170429916717
_SCALE = 1.0507009873554804934193349852946


@op(
    formula=r"x \text{ where } x > 0 \text{, else } \alpha (e^{x} - 1)",
    kernel=_nn.elu,
    samples=varied(at(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}, {"alpha": -2.0}),
    inplace=_nn.elu_,
)
def elu(input, *, alpha=1.0):
    """The exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``.

    Negative outputs bring the mean of a layer near 0, which speeds up learning (Clevert et al. 2015,
    https://arxiv.org/abs/1511.07289).

    Shapes: output as input.
    """


@elu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } \alpha e^{x} \bar{y}")
def _(g, input, alpha):
    return elu_backward(g, input, alpha=alpha)


@op(
    formula=r"\alpha (e^{x / \alpha} - 1) \text{ where } x \leq 0 \text{, else } x",
    kernel=torch.celu,
    samples=varied(at(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}),
    inplace=_torch.celu_,
)
def celu(input, *, alpha=1.0):
    """An elu whose slope is 1 on both sides of 0 whatever ``alpha`` is.

    So the gradient has no jump at 0 (Barron 2017, https://arxiv.org/abs/1704.07483).

    Shapes: output as input. Raises RuntimeError where alpha is 0.
    """


@celu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } e^{x / \alpha} \bar{y}")
def _(g, input, alpha):
    return elu_backward(g, input, alpha=alpha, input_scale=1 / alpha)


@op(
    formula=r"\lambda x \text{ where } x > 0 \text{, else } \lambda \alpha (e^{x} - 1)",
    kernel=torch.selu,
    samples=at(-30.0, -1.0, 0.0, 1.0),
    inplace=_torch.selu_,
)
def selu(input):
    """The scaled elu whose two constants keep mean 0 and variance 1 from layer to layer.

    Self-normalizing networks need no other normalization (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input.
    """


@selu.rule("input", r"\lambda \bar{y} \text{ where } x > 0 \text{, else } \lambda \alpha e^{x} \bar{y}")
def _(g, input):
    return elu_backward(g, input, alpha=_ALPHA, scale=_SCALE)


@op(
    formula=r"s g \text{ where } x > 0 \text{, else } s \alpha k e^{k x} g",
    symbols={"scale": "s", "input_scale": "k"},
    samples=varied(
        alike(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}, {"alpha": _ALPHA, "scale": _SCALE}, {"alpha": 2, "input_scale": 3}
    ),
)
def elu_backward(g, x, *, alpha=1.0, scale=1.0, input_scale=1.0):
    """The gradient of elu, celu and selu, from their input: k is ``input_scale``.

    Shapes: g and x alike, output as g.
    """
    return aten.elu_backward(g, alpha, scale, input_scale, False, x)


@elu_backward.rule("g", r"s \bar{y} \text{ where } x > 0 \text{, else } s \alpha k e^{k x} \bar{y}")
def _(g, x, alpha, scale, input_scale):
    return elu_backward(g, x, alpha=alpha, scale=scale, input_scale=input_scale)


@elu_backward.rule("x", r"s \alpha k^2 e^{k x} \bar{y} \odot g \text{ where } x < 0 \text{, else } 0")
def _(gradient, g, x, alpha, scale, input_scale):
    curved = elu_backward(gradient * g, x, alpha=alpha, scale=scale, input_scale=input_scale) * input_scale
    return where(x < 0, curved, 0.0)


elu_ = elu.in_place
celu_ = celu.in_place
selu_ = selu.in_place
